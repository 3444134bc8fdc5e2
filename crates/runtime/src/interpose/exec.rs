//! `exec*`: sampling stops before the program is replaced.
//!
//! A sample that falls due inside the call would reach the new program as a signal that it knows nothing
//! of, and kill it. If the call fails, sampling goes on; after one of the three functions with a variable
//! number of arguments (which cannot be called from Rust, only jumped to) it does not.

use crate::real::real;
use crate::{sampling, tls};
use core::ffi::{c_int, c_long, c_void};

type Ptr = *mut c_void;

/// Calls with sampling paused.
pub fn unsampled<T>(call: impl FnOnce() -> T) -> T {
    let paused = tls::slot().filter(|slot| sampling::pause(slot));
    let result = call();
    if let Some(slot) = paused {
        sampling::resume(slot);
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

/// Pauses sampling and jumps to the original with every argument where it was.
macro_rules! exec_variadic {
    ($name:ident, $before:ident) => {
        extern "C" fn $before() -> usize {
            if let Some(slot) = tls::slot() {
                sampling::pause(slot);
            }
            real!($name: fn()).map_or(0, |original| original as *const () as usize)
        }

        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                before = sym $before,
            )
        }
    };
}

exec_variadic!(execl, before_execl);
exec_variadic!(execlp, before_execlp);
exec_variadic!(execle, before_execle);
