//! Programs that sandbox themselves: leaving threads alone that come under a seccomp filter which does not allow what
//! sampling and pauses need.
//!
//! Such a thread gives up its slot as at its end (it pays what it owes, and its sampler is closed) before the filter is there. From then
//! on it has none, so every function does what the original does, [`sys`](crate::sys) makes no call in it, and neither has any thread that it creates.
//! A filter for all threads makes all of them give up; those that are about to pause or handle a sample finish that first, and return from
//! the handler, which the kernel says: until then they have its signal blocked.
//!
//! What cannot be helped: a filter that the program installs by an instruction of its own, in place of the C library's functions.

use crate::memory::shared;
use crate::signals::Kept;
use crate::{follow, sampler, sys, thread, tls};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::Nanos;
use wire::filter::{self, Instruction};
use wire::slot::Slot;

/// What a thread is about to come under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Only `read`, `write`, `exit` and `rt_sigreturn`.
    Strict,
    /// The filter whose `struct sock_fprog` is at this address.
    Filter(usize),
}

/// Around a system call that puts the calling thread, or all threads, into a sandbox: `call` says whether it has done so.
pub fn entering(sandbox: Sandbox, all: bool, call: impl FnOnce() -> bool) {
    let Some(slot) = tls::slot().filter(|_| sys::is_own()) else {
        if call() {
            follow::end();
        }
        return;
    };
    if allows_us(sandbox) {
        // It may not allow to ask.
        if call() {
            follow::end();
        }
        return;
    }
    let others = if all { leave_others(slot) } else { 0 };
    let kept = Kept::of(slot);
    thread::end(slot);
    kept.hand_over();
    if call() {
        tls::leave_some();
        shared().header.sandboxed.fetch_add(1 + others, Relaxed);
    } else if others == 0 {
        thread::begin_again(slot);
    }
}

/// Whether sampling can go on, or the kernel will refuse the filter anyway.
fn allows_us(sandbox: Sandbox) -> bool {
    /// `struct sock_fprog`.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Program {
        length: u16,
        start: usize,
    }
    let Sandbox::Filter(address) = sandbox else { return false };
    // A null pointer is how programs ask whether there are filters at all.
    match sys::is_readable(address, size_of::<Program>()) {
        Ok(true) => {}
        Ok(false) => return true,
        Err(_) => return false,
    }
    // SAFETY: it has just been read.
    let program = unsafe { core::ptr::with_exposed_provenance::<Program>(address).read_unaligned() };
    let length = usize::from(program.length);
    if length == 0 || length > filter::LONGEST {
        return true;
    }
    match sys::is_readable(program.start, length * size_of::<Instruction>()) {
        Ok(true) if program.start % align_of::<Instruction>() == 0 => {}
        Ok(false) => return true,
        _ => return false,
    }
    // SAFETY: they have just been read, and are words of four bytes where such words lie; every bit pattern is an instruction.
    let filter = unsafe {
        core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<Instruction>(program.start), length)
    };
    filter::lets_us(filter)
}

/// Waits until a thread, which is sampled no more, has done what a filter might kill it for, at most until the time `until`.
fn wait_for(slot: &Slot, until: Nanos) {
    /// A thread that has used so much of a CPU has found the sample that was waiting for it to have one.
    const ENOUGH: u64 = 50_000;
    let thread = slot.tid.load(Relaxed);
    let used = || time_used(thread);
    let Some(before) = used() else { return };
    let mut has_run = false;
    while sys::now() < until {
        let (is_running, in_handler) = state(thread);
        has_run |= !is_running || used().is_none_or(|now| now >= before + ENOUGH);
        if has_run && !in_handler && slot.settling.load(SeqCst) == 0 {
            break;
        }
        sys::sched_yield();
    }
}

/// The CPU time that a thread of this process has used, in nanoseconds, as of when its CPU last looked.
fn time_used(thread: u32) -> Option<u64> {
    let mut buffer = [0_u8; 64];
    let digits =
        sys::read_numbered("task/", thread, "/schedstat", &mut buffer).split(|byte| *byte == b' ').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether a thread of this process is running or wants to, and whether it handles a sample: it has the signal of samples blocked then. (As it may have for a reason
/// of its own, in a handler of the program's.)
fn state(thread: u32) -> (bool, bool) {
    const STATE: &[u8] = b"State:\t";
    let mut buffer = [0_u8; 2048];
    let text = sys::read_numbered("task/", thread, "/status", &mut buffer);
    let in_handler = sys::mask_in(text).is_some_and(|blocked| blocked & (1 << (sampler::SIGTRAP - 1)) != 0);
    let state =
        text.windows(STATE.len()).position(|at| at == STATE).and_then(|at| text.get(at + STATE.len()));
    (state == Some(&b'R'), in_handler)
}

/// All threads of this process but the calling one are left alone from now on; how many there are. The calling one is settling from now on, until
/// it gives up its slot.
fn leave_others(own: &'static Slot) -> u32 {
    const PATIENCE: Nanos = Nanos(1_000_000_000);
    let process = own.pid.load(Relaxed);
    let others = || {
        let of_process = move |slot: &&Slot| slot.is_taken() && slot.pid.load(Relaxed) == process;
        shared().slots.used().iter().filter(of_process).filter(move |slot| !core::ptr::eq(*slot, own))
    };
    if others().next().is_none() {
        return 0;
    }
    own.settling.fetch_add(1, SeqCst);
    tls::leave_all();
    others().for_each(sampler::silence);
    sys::futex_wake(&shared().header.epoch);
    let until = sys::now() + PATIENCE;
    others().for_each(|slot| wait_for(slot, until));
    let mut left = 0;
    for slot in others() {
        // Those that have begun meanwhile.
        sampler::silence(slot);
        shared().slots.give_back(slot);
        left += 1;
    }
    left
}
