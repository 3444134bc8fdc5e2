//! The ends of processes: what the thread owes is paid before, because a process that waits for the end is credited for its wait (rules 4 and 5), and those
//! that wait at the other ends of its channels find them closed. The parent may be told by a signal, which ends whatever wait.

use crate::real::real;
use crate::{channel, delay, object, signals, sys};
use core::ffi::c_int;

/// glibc calls the entries of `.fini_array` at a normal end, behind what the program has registered with `atexit`.
#[cfg(whatif_cdylib)]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = ending;

/// The process is about to end.
extern "C" fn ending() {
    if let Some(slot) = signals::own_slot() {
        delay::pay(slot);
        let now = sys::now();
        channel::touch(object::ends_of_children(sys::getppid()), now);
        channel::touch(channel::end_of(sys::getpid()).data(), now);
        channel::hang_up_all();
        object::closes_all();
    }
}

/// `_exit(2)`, by which forked children end.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    end_by(real!(_exit: fn(c_int) -> ()), status)
}

/// The same by its name in C.
#[allow(non_snake_case)]
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    end_by(real!(_Exit: fn(c_int) -> ()), status)
}

fn end_by(original: Option<unsafe extern "C" fn(c_int)>, status: c_int) -> ! {
    ending();
    if let Some(original) = original {
        // SAFETY: the program's own argument.
        unsafe { original(status) };
    }
    sys::exit(status)
}
