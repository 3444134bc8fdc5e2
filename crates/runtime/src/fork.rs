//! Forked children: one experiment spans them all.
//!
//! The mapping is shared and the addresses are the same, so a child goes on as a thread of the same
//! session: with a slot of its own, its parent's account (rule 10) and its own sampler. A child that
//! executes another program asks first what is to become of that ([`follow`](crate::follow)); the descriptors close themselves.
//! A child that the C library does not know of, made by `clone` or by the system call itself, is left alone ([`tls`](crate::tls)).

use crate::memory::shared;
use crate::real::real;
use crate::{actions, beliefs, channel, maps, object, sampler, thread, tls};
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

type Hook = Option<unsafe extern "C" fn()>;

/// Has the C library call us in every forked child.
pub fn prepare() {
    let register = real!(__register_atfork: fn(Hook, Hook, Hook, *mut u8) -> c_int);
    if let Some(register) = register {
        // SAFETY: the hooks live as long as the process; null is no particular object, so they stay.
        unsafe { register(Some(before), None, Some(in_child), core::ptr::null_mut()) };
    }
}

unsafe extern "C" fn before() {
    if tls::slot().is_some() {
        maps::before_fork();
    }
}

/// In the child, whose only thread is a copy of the one that forked.
unsafe extern "C" fn in_child() {
    tls::take_up();
    maps::in_child();
    actions::in_child();
    channel::in_child();
    object::in_child();
    let Some(parent) = tls::slot() else { return };
    tls::set_slot(None);
    // The descriptors of all the parent's threads were copied. Only this thread's is known to be ours to
    // close; the others go when the child executes or exits.
    let event = parent.event.load(Relaxed);
    let Some(slot) = shared().slots.take() else { return };
    slot.event.store(event, Relaxed);
    tls::set_slot(Some(slot));
    sampler::forget(slot);
    slot.stack_low.store(parent.stack_low.load(Relaxed), Relaxed);
    slot.stack_high.store(parent.stack_high.load(Relaxed), Relaxed);
    slot.masked.store(parent.masked.load(Relaxed), Relaxed);
    slot.local.inherit(parent.local.load());
    beliefs::no_more_traps();
    thread::begin_counted(slot);
}
