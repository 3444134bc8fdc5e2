//! Programs that sandbox themselves: leaving threads alone that come under a seccomp filter which does not allow what
//! sampling and pauses need.
//!
//! Such a thread gives up its slot as at its end (it pays what it owes, and its sampler is closed) before the filter is there. From then
//! on it has none, so every function does what the original does, [`sys`](crate::sys) makes no call in it, and neither has any thread that it creates.
//! A filter for all threads makes all of them give up; those that are about to pause or handle a sample finish that first, and return from
//! the handler, which the kernel says: until then they have its signal blocked.
//!
//! What cannot be helped: a filter that the program installs by an instruction of its own, in place of the C library's functions.

use crate::filter::{self, Instruction};
use crate::memory::shared;
use crate::{sampler, sys, thread, tls};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use wire::Nanos;
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
        call();
        return;
    };
    if allows_us(sandbox) {
        call();
        return;
    }
    let others = if all { leave_others(slot) } else { 0 };
    thread::end(slot);
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

/// Whether a thread is about to do what a filter might kill it for. (One that blocks the signal of samples in the kernel for a reason of its own, as in a handler of the
/// program's, looks the same.)
fn is_at_it(slot: &Slot) -> bool {
    let in_handler = || {
        let blocked = sys::blocked_signals(slot.tid.load(Relaxed));
        blocked.is_some_and(|blocked| blocked & (1 << (sampler::SIGTRAP - 1)) != 0)
    };
    slot.settling.load(SeqCst) != 0 || in_handler()
}

/// All threads of this process but the calling one are left alone from now on; how many there are.
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
    while others().any(is_at_it) && sys::now() < until {
        sys::sched_yield();
    }
    let mut left = 0;
    for slot in others() {
        // Those that have begun meanwhile.
        sampler::silence(slot);
        shared().slots.give_back(slot);
        left += 1;
    }
    own.settling.fetch_sub(1, SeqCst);
    left
}
