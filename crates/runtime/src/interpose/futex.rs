//! `syscall(2)`: how Rust's `std`, `parking_lot`, crossbeam and C++20 atomics reach the futex.
//!
//! The function is variadic in C, which stable Rust cannot define; seven fixed words take the same
//! registers and the same stack slot on x86-64 and aarch64.

use crate::delay::{self, Watch};
use crate::interpose::{exec, seccomp};
use crate::real::real;
use crate::{actions, audit, beliefs, channel, epoll, late, passing, signals, stretch, sys, tls, wait};
use core::ffi::{c_int, c_long};

const SYS_IO_URING_ENTER: c_long = 426;
const SYS_RT_SIGACTION: c_long = 13;
const SYS_SIGALTSTACK: c_long = 131;
const SYS_RT_TGSIGQUEUEINFO: c_long = 297;
const SYS_RT_SIGTIMEDWAIT: c_long = 128;
const SYS_SIGNALFD: c_long = 282;
const SYS_SIGNALFD4: c_long = 289;
const SYS_FUTEX: c_long = 202;
const SYS_FUTEX_WAITV: c_long = 449;
const SYS_FUTEX_WAKE: c_long = 454;
const SYS_FUTEX_WAIT: c_long = 455;
const SYS_FUTEX_REQUEUE: c_long = 456;

/// What is waited on where a lock is taken and others wait for it: by Rust's `std::sync::Mutex`, and by many locks after the same pattern (U. Drepper, *Futexes
/// are tricky*, section 5).
const CONTENDED: c_long = 2;

/// System calls that wait for a device or a clock, or are taken for such: poll, pread64, pwrite64, select, pause, nanosleep, sendfile,
/// connect, accept, wait4, flock, fsync, fdatasync, clock_nanosleep, waitid, pselect6, ppoll, splice, accept4, preadv, pwritev,
/// io_uring_enter.
const WORLD: [c_long; 22] =
    [7, 17, 18, 23, 34, 35, 40, 42, 43, 61, 73, 74, 75, 230, 247, 270, 271, 275, 288, 295, 296, 426];

/// System calls that read from a descriptor: read, readv, recvfrom, recvmsg, recvmmsg.
const READS: [c_long; 5] = [0, 19, 45, 47, 299];

/// The same for those that write: write, writev, sendto, sendmsg, sendmmsg.
const WRITES: [c_long; 5] = [1, 20, 44, 46, 307];

/// epoll_wait, epoll_pwait, epoll_pwait2.
const EPOLL_WAITS: [c_long; 3] = [232, 281, 441];

/// What a system call does to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Waits,
    Wakes,
    World,
    Reads,
    Writes,
    EpollWaits,
    Other,
}

/// The class of a system call; `command` is the second argument of `futex`. Looked up on every `syscall`, which
/// costs a microsecond anyway.
fn classify(number: c_long, command: c_long) -> Operation {
    /// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
    const FLAGS: c_long = 128 | 256;
    match number {
        SYS_FUTEX => match command & !FLAGS {
            // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2
            0 | 6 | 9 | 11 | 13 => Operation::Waits,
            // WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET, CMP_REQUEUE_PI
            1 | 3 | 4 | 5 | 7 | 10 | 12 => Operation::Wakes,
            _ => Operation::Other,
        },
        SYS_FUTEX_WAITV | SYS_FUTEX_WAIT => Operation::Waits,
        SYS_FUTEX_WAKE | SYS_FUTEX_REQUEUE => Operation::Wakes,
        _ if READS.contains(&number) => Operation::Reads,
        _ if WRITES.contains(&number) => Operation::Writes,
        _ if EPOLL_WAITS.contains(&number) => Operation::EpollWaits,
        _ if WORLD.contains(&number) => Operation::World,
        _ => Operation::Other,
    }
}

/// `syscall(2)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let original = real!(syscall: fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long);
    let Some(original) = original else { return -1 };
    seccomp::note_slack(number, [a, b]);
    if let Some(sandbox) = seccomp::sandbox_of(number, [a, b, c]) {
        // SAFETY: the program's own system call.
        return seccomp::entering(sandbox, || unsafe { original(number, a, b, c, d, e, f) });
    }
    if number == SYS_IO_URING_ENTER && tls::slot().is_some() {
        // Interrupted, it returns early with what it has submitted, and what was waited for is not there.
        // SAFETY: the program's own system call.
        return signals::shielded(|| unsafe { original(number, a, b, c, d, e, f) });
    }
    let (new, old) =
        (core::ptr::with_exposed_provenance(b as usize), core::ptr::with_exposed_provenance_mut(c as usize));
    // SAFETY: the program's own arguments, of which the kernel demands the same.
    if number == SYS_RT_SIGACTION && unsafe { signals::raw_action(a, new, old, d) }.is_some() {
        return 0;
    }
    if number == SYS_RT_SIGACTION && beliefs::is_ours(a) && sys::is_own() && !actions::is_there(old) {
        // SAFETY: the program's own system call, which fails; it is not to change anything before.
        return unsafe { original(number, a, 0, c, d, e, f) };
    }
    if number == SYS_RT_TGSIGQUEUEINFO {
        passing::queues_for_thread();
    }
    let awaited = match number {
        SYS_RT_SIGTIMEDWAIT => a as usize,
        SYS_SIGNALFD | SYS_SIGNALFD4 => b as usize,
        _ => 0,
    };
    signals::awaited(core::ptr::with_exposed_provenance(awaited));
    if number == SYS_SIGALTSTACK {
        // SAFETY: the program's own argument.
        unsafe { signals::expect_stack(core::ptr::with_exposed_provenance(a as usize)) };
    }
    if number == SYS_RT_SIGACTION {
        // SAFETY: the program's own system call, with an entrance to its handler perhaps.
        let call = |new: *const sys::KernelAction| unsafe {
            original(number, a, new.expose_provenance() as c_long, c, d, e, f)
        };
        let result = actions::raw(a, new, old, call);
        if result == 0 {
            // SAFETY: the kernel has written it.
            signals::tell_former(a as i32, unsafe { old.as_mut() });
        }
        return result;
    }
    let (operation, slot) = (classify(number, b), late::slot());
    if let (Operation::Waits | Operation::Wakes, Some(slot)) = (operation, slot) {
        // All locks are futexes to the kernel: waits and wakes are told apart, and the words.
        let subject = a as usize ^ tls::goroutine();
        stretch::cross(slot, stretch::Call { function: operation as usize + 1, subject });
    }
    // SAFETY: the program's own system call. Its result and `errno` are passed on untouched.
    unsafe {
        match slot {
            Some(slot) if operation == Operation::Waits => {
                if d != 0 {
                    wait::before_sleep(slot);
                }
                let waiting = wait::before_wait(slot);
                // Without a timeout (the fourth argument) SA_RESTART holds; with one, no handler may run.
                let result = if d == 0 && number == SYS_FUTEX {
                    original(number, a, b, c, d, e, f)
                } else {
                    signals::undisturbed(slot, || original(number, a, b, c, d, e, f))
                };
                // Zero, or the index of the futex that was woken. On EAGAIN the value had changed already
                // and there was no wait; on a timeout or a signal no thread passed anything on (rule 5).
                if d == 0 {
                    wait::after_wait(slot, waiting, result >= 0);
                    if result >= 0 && c == CONTENDED {
                        audit::took_over(slot);
                    }
                } else {
                    wait::after_timed_wait(slot, waiting, result >= 0);
                }
                result
            }
            Some(slot) if operation == Operation::Wakes => {
                delay::pay(slot);
                original(number, a, b, c, d, e, f)
            }
            Some(slot) if operation == Operation::World => {
                wait::around_world(slot, || signals::undisturbed(slot, || original(number, a, b, c, d, e, f)))
            }
            Some(slot) if operation == Operation::Reads => super::reading(slot, a as c_int, || {
                signals::undisturbed(slot, || original(number, a, b, c, d, e, f))
            }),
            Some(slot) if operation == Operation::Writes => super::writing(slot, a as c_int, || {
                signals::undisturbed(slot, || original(number, a, b, c, d, e, f))
            }),
            Some(slot) if operation == Operation::EpollWaits => {
                let (instance, events) = (a as c_int, core::ptr::with_exposed_provenance_mut(b as usize));
                let call = || signals::undisturbed(slot, || original(number, a, b, c, d, e, f));
                let used = |&ready: &c_long| epoll::returned(instance, events, ready as c_int);
                let touched = || epoll::touched(instance);
                let watch = Watch { used: &touched, instance: channel::of(instance).input };
                wait::around_channel(slot, None, call, used, Some(watch))
            }
            _ if exec::is_exec(number) => {
                exec::by_number(number, [a, b, c, d], |[a, b, c, d]| original(number, a, b, c, d, e, f))
            }
            _ => original(number, a, b, c, d, e, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_classified_whatever_their_flags() {
        for (number, command, expected) in [
            (SYS_FUTEX, 0, Operation::Waits),
            (SYS_FUTEX, 128, Operation::Waits),
            (SYS_FUTEX, 9 | 128 | 256, Operation::Waits),
            (SYS_FUTEX, 1 | 128, Operation::Wakes),
            (SYS_FUTEX, 10 | 128, Operation::Wakes),
            (SYS_FUTEX, 2, Operation::Other),
            (SYS_FUTEX_WAITV, 0, Operation::Waits),
            (39, 0, Operation::Other),
            (0, 0, Operation::Reads),
            (1, 0, Operation::Writes),
            (232, 0, Operation::EpollWaits),
            (35, 0, Operation::World),
        ] {
            assert_eq!(classify(number, command), expected, "{number} {command}");
        }
    }
}
