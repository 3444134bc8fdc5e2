//! `exec*`: sampling stops before the program is replaced.
//!
//! A sample that falls due inside the call would reach the new program as a signal that it knows nothing
//! of, and kill it. If the call fails, sampling goes on.

use crate::real::real;
use crate::{sampler, signals};
use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::Ordering::Relaxed;
use wire::slot::Activity;

type Ptr = *mut c_void;

/// Calls with sampling paused.
pub fn unsampled<T>(call: impl FnOnce() -> T) -> T {
    let own = signals::own_slot();
    let paused = own.filter(|slot| sampler::suspend(slot));
    if let Some(slot) = paused {
        // Until it is noticed that it is gone, it does not count among those that run.
        slot.doing(Activity::WaitingForWorld);
        slot.executing.store(1, Relaxed);
    }
    let result = match own {
        Some(slot) => signals::handing_on(slot, call),
        None => call(),
    };
    if let Some(slot) = paused {
        slot.executing.store(0, Relaxed);
        slot.doing(Activity::Running);
        sampler::resume(slot);
    }
    result
}

/// Whether a system call executes a program: `execve`, `execveat`.
pub fn is_exec(number: c_long) -> bool {
    matches!(number, 59 | 322)
}

macro_rules! exec {
    ($name:ident ( $($arg:ident : $type:ty),* )) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            let Some(original) = real!($name: fn($($type),*) -> c_int) else { return -1 };
            // SAFETY: the program's own arguments go to the function it meant to call.
            unsafe { unsampled(|| original($($arg),*)) }
        }
    };
}

exec!(execve(path: Ptr, arguments: Ptr, environment: Ptr));
exec!(execv(path: Ptr, arguments: Ptr));
exec!(execvp(file: Ptr, arguments: Ptr));
exec!(execvpe(file: Ptr, arguments: Ptr, environment: Ptr));
exec!(fexecve(fd: c_int, arguments: Ptr, environment: Ptr));
exec!(execveat(folder: c_int, path: Ptr, arguments: Ptr, environment: Ptr, flags: c_int));

/// The three with a variable number of arguments, which Rust cannot define: they lie in five registers and
/// on the stack, and are laid out as the array that the others take.
macro_rules! exec_variadic {
    ($name:ident, $with_array:ident) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            core::arch::naked_asm!(
                // The return address lies where the array goes on.
                "pop r11",
                "push r9", "push r8", "push rcx", "push rdx", "push rsi",
                "mov rsi, rsp",
                "push r11",
                "call {with_array}",
                "pop r11",
                "add rsp, 40",
                "push r11",
                "ret",
                with_array = sym $with_array,
            )
        }
    };
}

exec_variadic!(execl, execl_of);
exec_variadic!(execlp, execlp_of);
exec_variadic!(execle, execle_of);

unsafe extern "C" fn execl_of(path: Ptr, arguments: *mut Ptr) -> c_int {
    // SAFETY: the program's own arguments, up to the null pointer that it ended them with.
    unsafe { execv(path, arguments.cast()) }
}

unsafe extern "C" fn execlp_of(file: Ptr, arguments: *mut Ptr) -> c_int {
    // SAFETY: as in `execl_of`.
    unsafe { execvp(file, arguments.cast()) }
}

unsafe extern "C" fn execle_of(path: Ptr, arguments: *mut Ptr) -> c_int {
    // SAFETY: as in `execl_of`; the environment follows the null pointer.
    unsafe {
        let mut end = arguments;
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(path, arguments.cast(), *end.add(1))
    }
}
