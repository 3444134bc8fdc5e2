//! Signals to the process that another thread gets because the main thread takes samples, or takes itself because it takes one.
//!
//! The kernel wakes the main thread for such a signal unless that one has it blocked, or is about to be told of another signal: of a sample, which natively it
//! would not be. And any thread takes it that looks for signals before the main thread has a CPU. A thread that only computes never looks, except
//! that a sample is a signal too. So a handler that is entered in another thread, for a signal that the main thread does not block, has the main thread sent that signal
//! instead.

use crate::memory::shared;
use crate::sampler::SI_TIMER;
use crate::sys;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use wire::slot::Slot;

/// Whether the program sends threads signals that look as if they had been sent to the process (`pthread_sigqueue`, `rt_tgsigqueueinfo`).
static QUEUES_FOR_THREADS: AtomicBool = AtomicBool::new(false);

/// Signals from here on are as many as were sent (SIGRTMIN, with those that the C library keeps for itself).
const FIRST_QUEUED: i32 = 32;

/// Another thread is about to tell the main thread of a signal.
const BEGUN: u32 = u32::MAX;

/// It is about to.
pub fn queues_for_thread() {
    QUEUES_FOR_THREADS.store(true, Relaxed);
}

/// `si_code` of `sigqueue`, and of `pthread_sigqueue`.
const SI_QUEUE: i32 = -1;

/// Whether a signal was certainly sent to the process, and not to a thread: by `kill` or `sigqueue`, a timer of the process, a terminal, or the end of a child.
/// (A timer of POSIX's prefers the thread that it interrupts, and one of CPU time the one that used it.)
fn is_to_process(signal: i32, code: i32) -> bool {
    const SI_USER: i32 = 0;
    const SI_KERNEL: i32 = 0x80;
    match code {
        // Not SIGPIPE and SIGXFSZ, which tell a thread of its own call; nor those that tell of an instruction.
        SI_USER => !matches!(signal, 4 | 5 | 7 | 8 | 11 | 13 | 25 | 31),
        SI_QUEUE => !QUEUES_FOR_THREADS.load(Relaxed),
        // SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGCONT, SIGTSTP, SIGWINCH
        SI_KERNEL => matches!(signal, 1 | 2 | 3 | 14 | 18 | 20 | 28),
        // SIGCHLD
        1..=6 => signal == 17,
        _ => false,
    }
}

/// Whether a signal was sent to a thread, as far as is known.
pub fn is_to_thread(code: i32) -> bool {
    code == sys::SI_TKILL || code == SI_TIMER || code == SI_QUEUE && QUEUES_FOR_THREADS.load(Relaxed)
}

/// Passes a signal on to the main thread, which would have had it without our samples; false if it is for this one. Called where a handler is entered; `before` it is sent. `slot`: of the calling thread.
pub fn passes_on(slot: Option<&Slot>, signal: i32, info: &[u64; 16], before: impl FnOnce()) -> bool {
    let code = info[1] as u32 as i32;
    if !is_to_process(signal, code) {
        return false;
    }
    // One that has just begun has no slot yet, and is where the kernel looks for signals.
    let (process, thread) = slot.map_or_else(
        || (sys::getpid(), sys::gettid()),
        |slot| (slot.pid.load(Relaxed), slot.tid.load(Relaxed)),
    );
    if thread == process {
        return false;
    }
    let is_main = |other: &&Slot| other.tid.load(Acquire) == process && other.pid.load(Relaxed) == process;
    let Some(main) = shared().slots.used().iter().find(|other| other.is_taken() && is_main(other)) else {
        return false;
    };
    // What it would have blocked without us.
    let blocked = if main.caught.load(Acquire) != 0 {
        Some(main.caught_mask.load(Relaxed))
    } else if main.entering.load(Acquire) != 0 {
        Some(main.entering_mask.load(Relaxed))
    } else {
        sys::blocked_by(process)
    };
    if blocked.is_none_or(|blocked| blocked & (1 << (signal - 1)) != 0) {
        return false;
    }
    if code < 0 {
        before();
        return sys::send_with(process, signal, info);
    }
    // The kernel lets no thread send another what looks as if it came from the kernel: the main thread finds here what it is to be told.
    if let Err(passed) = begin_passing(main) {
        // One that is pending already is not sent twice, unless signals of its kind queue.
        let is_pending = passed == signal as u32 && signal < FIRST_QUEUED;
        if is_pending {
            before();
        }
        return is_pending;
    }
    main.passed_info.iter().zip(info).for_each(|(kept, word)| kept.store(*word, Relaxed));
    main.passed.store(signal as u32, Release);
    before();
    if sys::send_to(process, signal) {
        return true;
    }
    main.passed.store(0, Relaxed);
    false
}

/// Reserves what the main thread is told by. The error is the signal that it is told of already.
fn begin_passing(main: &Slot) -> Result<u32, u32> {
    /// Another thread that writes takes less, unless it has lost its CPU.
    const LOOKS: u32 = 1000;
    let mut begun = Err(BEGUN);
    for _ in 0..LOOKS {
        begun = main.passed.compare_exchange(0, BEGUN, Acquire, Relaxed);
        if begun != Err(BEGUN) {
            break;
        }
        core::hint::spin_loop();
    }
    begun
}

/// A signal that was passed on to this thread comes with what it was sent with, unless it came together with one that was pending. Called where a handler is entered.
pub fn receive(slot: &Slot, signal: i32, info: &mut [u64; 16]) {
    if slot.passed.load(Acquire) != signal as u32 {
        return;
    }
    if info[1] as u32 as i32 == sys::SI_TKILL && info[2] as u32 == slot.pid.load(Relaxed) {
        *info = [0; 16];
        info.iter_mut().zip(&slot.passed_info).for_each(|(word, kept)| *word = kept.load(Relaxed));
    }
    slot.passed.store(0, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_sent_to_a_thread_is_not_passed_on() {
        let (user, queue, timer, thread, kernel) = (0, -1, -2, -6, 0x80);
        for (signal, code) in [(14, kernel), (15, user), (2, kernel), (17, 1), (34, queue)] {
            assert!(is_to_process(signal, code), "{signal} {code}");
        }
        for (signal, code) in
            [(13, user), (25, user), (11, user), (27, kernel), (14, timer), (10, thread), (10, 1)]
        {
            assert!(!is_to_process(signal, code), "{signal} {code}");
        }
        queues_for_thread();
        assert!(!is_to_process(34, queue));
    }
}
