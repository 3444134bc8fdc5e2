//! Creating threads: each runs our start routine around the program's ([`thread`]).

use crate::memory::{attached, shared};
use crate::real::real;
use crate::{attach, delay, late, signals, stretch, thread, tls};
use core::ffi::{c_int, c_void};

/// `errno.h`.
const EAGAIN: c_int = 11;

/// `pthread_create(3)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_create(
    handle: *mut c_void,
    attributes: *const c_void,
    start: usize,
    argument: *mut c_void,
) -> c_int {
    let function = real!(pthread_create: fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int);
    let Some(create) = function else { return EAGAIN };
    attach::attach_early();
    late::slot();
    // SAFETY: passes the program's arguments on, with our start routine around the program's.
    unsafe {
        let slot = attached().and_then(|_| thread::reserve(start, argument, thread::stack_size(attributes)));
        let Some(slot) = slot else {
            return tls::not_handed_down(|| create(handle, attributes, start, argument));
        };
        let own = core::ptr::from_ref(slot).cast_mut().cast();
        let result =
            signals::handing_down(|| create(handle, attributes, thread::run as *const () as usize, own));
        if result != 0 {
            shared().slots.give_back(slot);
        }
        result
    }
}

/// `pthread_exit(3)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_exit(result: *mut c_void) {
    let Some(original) = real!(pthread_exit: fn(*mut c_void)) else { return };
    if let Some(slot) = late::slot() {
        stretch::cross(slot, super::call!(pthread_exit result));
        delay::pay(slot);
    }
    // Also where it was cancelled in the midst of a wait.
    thread::ends();
    // SAFETY: the program's own argument.
    unsafe { original(result) }
}

/// `thrd_create(3)` of C11.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn thrd_create(handle: *mut c_void, start: usize, argument: *mut c_void) -> c_int {
    const THRD_ERROR: c_int = 2;
    let function = real!(thrd_create: fn(*mut c_void, usize, *mut c_void) -> c_int);
    let Some(create) = function else { return THRD_ERROR };
    attach::attach_early();
    late::slot();
    // SAFETY: as in `pthread_create`.
    unsafe {
        let slot =
            attached().and_then(|_| thread::reserve(start, argument, thread::stack_size(core::ptr::null())));
        let Some(slot) = slot else { return tls::not_handed_down(|| create(handle, start, argument)) };
        let own = core::ptr::from_ref(slot).cast_mut().cast();
        let result = signals::handing_down(|| create(handle, thread::run_c11 as *const () as usize, own));
        if result != 0 {
            shared().slots.give_back(slot);
        }
        result
    }
}
