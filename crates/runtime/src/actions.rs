//! The actions of signals that carry no samples: the program installs handlers, and the kernel enters [`deferral`] instead.

use crate::altstack::{self, SA_ONSTACK};
use crate::{deferral, sys, tls};
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::SeqCst};
use wire::Nanos;

/// The handler is told more than the number.
pub const SA_SIGINFO: u64 = 4;

/// glibc's `struct sigaction` on x86-64.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Action {
    pub handler: usize,
    pub mask: [u64; 16],
    pub flags: c_int,
    pub restorer: usize,
}

/// Both structures of actions.
pub trait Act: Copy {
    fn new(handler: usize, flags: u64, mask: u64) -> Self;
    fn flags(&self) -> u64;
    fn handler(&mut self) -> &mut usize;
    /// Whether the handler is told more than the number; and changes that.
    fn informs(&self) -> bool;
    fn inform(&mut self, more: bool);
    /// Whether the handler runs on alternate stacks.
    fn is_alternate(&self) -> bool;
    /// The signals that are blocked while it runs.
    fn mask(&mut self) -> &mut u64;
}

impl Act for Action {
    fn new(handler: usize, flags: u64, mask: u64) -> Self {
        let mut set = [0; 16];
        set[0] = mask;
        Self { handler, mask: set, flags: flags as u32 as c_int, restorer: 0 }
    }

    fn flags(&self) -> u64 {
        u64::from(self.flags as u32)
    }

    fn handler(&mut self) -> &mut usize {
        &mut self.handler
    }

    fn informs(&self) -> bool {
        self.flags & SA_SIGINFO as c_int != 0
    }

    fn inform(&mut self, more: bool) {
        self.flags = self.flags & !(SA_SIGINFO as c_int) | if more { SA_SIGINFO as c_int } else { 0 };
    }

    fn is_alternate(&self) -> bool {
        self.flags & SA_ONSTACK as c_int != 0
    }

    fn mask(&mut self) -> &mut u64 {
        &mut self.mask[0]
    }
}

impl Act for sys::KernelAction {
    fn new(handler: usize, flags: u64, mask: u64) -> Self {
        Self { handler, flags, restorer: 0, mask }
    }

    fn flags(&self) -> u64 {
        self.flags
    }

    fn handler(&mut self) -> &mut usize {
        &mut self.handler
    }

    fn informs(&self) -> bool {
        self.flags & SA_SIGINFO != 0
    }

    fn inform(&mut self, more: bool) {
        self.flags = self.flags & !SA_SIGINFO | if more { SA_SIGINFO } else { 0 };
    }

    fn is_alternate(&self) -> bool {
        self.flags & SA_ONSTACK != 0
    }

    fn mask(&mut self) -> &mut u64 {
        &mut self.mask
    }
}

/// Around a call that changes the action of a signal that is not ours to `new`, and returns zero if it did.
///
/// # Safety
/// Both must be null or valid; they may be the same.
pub unsafe fn of_others<A: Act, T: Default + PartialEq>(
    signal: c_int,
    new: *const A,
    old: *mut A,
    call: impl FnMut(*const A) -> T,
) -> T {
    // SAFETY: the caller vouches for it.
    unsafe { change(signal, new, old, false, call) }
}

/// The same. `is_there`: the kernel has `new` already.
///
/// # Safety
/// As for [`of_others`].
unsafe fn change<A: Act, T: Default + PartialEq>(
    signal: c_int,
    new: *const A,
    old: *mut A,
    is_there: bool,
    mut call: impl FnMut(*const A) -> T,
) -> T {
    // `old` may be the same.
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { new.as_ref() }.copied();
    let mut changed = wanted;
    let is_taken_over = !tls::hands_back();
    let registered = changed
        .as_mut()
        .filter(|_| is_taken_over)
        .and_then(|new| deferral::register(signal, *new.handler(), new.informs(), is_there));
    let (number, was_small) = (i64::from(signal), altstack::are_small());
    let is_replaced = !new.is_null() && sys::is_own() && (1..=64).contains(&signal);
    let added = if is_replaced { altstack::forget(number) } else { altstack::added(number) };
    let passed = match (&registered, &mut changed) {
        (Some(_), Some(changed)) => {
            *changed.handler() = deferral::entrance();
            changed.inform(true);
            if was_small && changed.is_alternate() {
                *changed.mask() = altstack::with_ours(number, *changed.mask());
            }
            core::ptr::from_ref(changed)
        }
        _ => new,
    };
    let result = call(passed);
    if result != T::default() {
        if let Some(registered) = registered {
            registered.refuse();
        }
        return result;
    }
    if let Some(mut wanted) = wanted.filter(|_| tls::hands_back() && is_replaced)
        && is_lost(signal, *wanted.handler(), registered.is_some())
    {
        // The program was let go meanwhile: the kernel is to have its handler.
        // SAFETY: the caller vouches for it; what the first call has told stays.
        unsafe {
            let told = old.as_ref().copied();
            call(&raw const wanted);
            if let (Some(old), Some(told)) = (old.as_mut(), told) {
                *old = told;
            }
        }
    }
    if let Some(registered) = &registered {
        registered.tells(true);
        if altstack::are_small() && !was_small {
            // Another thread has had the first small stack meanwhile.
            altstack::shield(number);
        }
    }
    // SAFETY: the caller vouches for it.
    if let Some(old) = unsafe { old.as_mut() } {
        *old.mask() &= !added;
        if let Some((handler, informs)) = deferral::believed(signal, *old.handler(), registered.as_ref()) {
            *old.handler() = handler;
            old.inform(informs);
        }
    }
    result
}

/// A handler that was installed before anything was interposed.
pub fn take_over(signal: c_int) {
    // SAFETY: nothing is changed.
    let Some(now) = (unsafe { sys::sigaction(i64::from(signal), None) }) else { return };
    // A process that was forked from a profiled one has our entrances already; and a thread that has begun meanwhile has its samples by
    // SIGURG.
    if deferral::believed(signal, now.handler, None).is_some() || now.handler == deferral::samples() {
        return;
    }
    let number = i64::from(signal);
    // SAFETY: the handler is the program's, with an entrance of ours perhaps.
    unsafe {
        change(signal, &now, core::ptr::null_mut(), true, |new| {
            if new == &raw const now {
                return 1;
            }
            let replaced = sys::sigaction(number, new.as_ref());
            match replaced.filter(|replaced| replaced.handler != now.handler) {
                // Another thread has installed something else meanwhile: by us, or in a call that does not lead to us.
                Some(newer) => {
                    sys::sigaction(number, Some(&newer));
                    i64::from(newer.handler != deferral::entrance())
                }
                None => i64::from(replaced.is_none()),
            }
        })
    };
}

/// The signal whose action is given back at this moment, or zero.
static GIVEN_BACK: AtomicI32 = AtomicI32::new(0);

/// The opposite of [`take_over`].
pub fn give_back(signal: c_int) {
    GIVEN_BACK.store(signal, SeqCst);
    give_back_now(signal);
    GIVEN_BACK.store(0, SeqCst);
}

fn give_back_now(signal: c_int) {
    // SAFETY: nothing is changed.
    let Some(mut now) = (unsafe { sys::sigaction(i64::from(signal), None) }) else { return };
    let Some((handler, informs)) = deferral::believed(signal, now.handler, None) else { return };
    let before = now.handler;
    now.handler = handler;
    now.inform(informs);
    now.mask &= !altstack::forget(i64::from(signal));
    // SAFETY: the program's handler, as it has installed it.
    unsafe {
        let replaced = sys::sigaction(i64::from(signal), Some(&now));
        // Another thread has installed something else meanwhile. What a third one installs now is lost, but that one looks ([`is_lost`]).
        if let Some(newer) = replaced.filter(|replaced| replaced.handler != before) {
            sys::sigaction(i64::from(signal), Some(&newer));
        }
    }
}

/// In a child: nothing is given back here.
pub fn in_child() {
    GIVEN_BACK.store(0, SeqCst);
}

/// Whether the kernel may not have the `handler` that the program has just installed while it was let go: it has our entrance, which it was told (`is_ours`), or the one before, which was given
/// back at that moment. Known as soon as that is over.
fn is_lost(signal: c_int, handler: usize, is_ours: bool) -> bool {
    /// It takes two system calls, in a thread that may have to wait for a CPU.
    const PATIENCE: Nanos = Nanos(100_000_000);
    let was_given_back = GIVEN_BACK.load(SeqCst) == signal;
    let until = sys::now() + PATIENCE;
    while GIVEN_BACK.load(SeqCst) == signal && sys::now() < until {
        sys::sched_yield();
    }
    // SAFETY: nothing is changed.
    let now = unsafe { sys::sigaction(i64::from(signal), None) };
    is_ours
        || now.is_some_and(|now| {
            now.handler == deferral::entrance() || was_given_back && now.handler != handler
        })
}

/// Whether there is nothing, or something that can be read.
pub fn is_there(action: *const sys::KernelAction) -> bool {
    action.is_null() || sys::is_readable(action.addr(), size_of::<sys::KernelAction>()) == Ok(true)
}

/// `rt_sigaction` for any other signal than ours, by `syscall(2)`: `call` makes it, with another action than `new` perhaps.
/// Arguments that the kernel would refuse are passed on to it.
pub fn raw(
    signal: i64,
    new: *const sys::KernelAction,
    old: *mut sys::KernelAction,
    mut call: impl FnMut(*const sys::KernelAction) -> i64,
) -> i64 {
    match i32::try_from(signal) {
        // SAFETY: both are null or can be read, and the kernel has written `old` before this does.
        Ok(signal) if is_there(new) && is_there(old) => unsafe { of_others(signal, new, old, call) },
        _ => call(new),
    }
}
