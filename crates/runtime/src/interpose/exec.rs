//! `exec*`: sampling stops before the program is replaced.
//!
//! A sample that falls due inside the call would reach the new program as a signal that it knows nothing
//! of, and kill it. If the call fails, sampling goes on. And the process asks what is to become of the new program
//! ([`follow`]).

use crate::follow::{self, Program};
use crate::real::real;
use crate::{object, sampler, signals, stretch, sys, wait};
use core::ffi::{CStr, c_int, c_long, c_void};
use core::sync::atomic::Ordering::Relaxed;
use wire::slot::{Activity, Slot};

type Ptr = *mut c_void;

/// Calls with sampling paused.
fn unsampled<T>(call: impl FnOnce() -> T) -> T {
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
    matches!(number, EXECVE | EXECVEAT)
}

const EXECVE: c_long = 59;
const EXECVEAT: c_long = 322;

/// What these return at all is that they have failed.
fn always<T>(_: &T) -> bool {
    true
}

/// One that is given the environment, $environment, with what `follow` makes of it.
macro_rules! exec {
    ($name:ident ( $($arg:ident : $type:ty),* ) with $environment:ident of $program:expr) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            let Some(original) = real!($name: fn($($type),*) -> c_int) else { return -1 };
            // SAFETY: the program's own arguments go to the function it meant to call, but for what may be added to the environment.
            unsafe {
                unsampled(|| follow::executing($program, $environment, always, |$environment| original($($arg),*)))
            }
        }
    };
}

exec!(execve(path: Ptr, arguments: Ptr, environment: Ptr) with environment of Program::at(path));
exec!(execvpe(file: Ptr, arguments: Ptr, environment: Ptr) with environment of Program::named(file));
exec!(fexecve(fd: c_int, arguments: Ptr, environment: Ptr) with environment of Program::in_folder(fd, NO_PATH.as_ptr().cast_mut().cast()));
exec!(execveat(folder: c_int, path: Ptr, arguments: Ptr, environment: Ptr, flags: c_int) with environment of Program::in_folder(folder, path));

/// The path of a file that is given by its descriptor.
const NO_PATH: &CStr = c"";

/// The same for the two that take the environment of the process: by the functions that are given one, if it is to be another.
macro_rules! exec_own {
    ($name:ident, $given:ident, $program:ident) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(path: Ptr, arguments: Ptr) -> c_int {
            let Some(original) = real!($name: fn(Ptr, Ptr) -> c_int) else { return -1 };
            let own = follow::own_environment();
            let call = |environment: Ptr| {
                let given = real!($given: fn(Ptr, Ptr, Ptr) -> c_int);
                // SAFETY: the program's own arguments go to the function it meant to call, or to the one that it is made of.
                unsafe {
                    match given.filter(|_| environment != own) {
                        Some(given) => given(path, arguments, environment),
                        None => original(path, arguments),
                    }
                }
            };
            // SAFETY: the environment is the C library's.
            unsafe { unsampled(|| follow::executing(Program::$program(path), own, always, call)) }
        }
    };
}

exec_own!(execv, execve, at);
exec_own!(execvp, execvpe, named);

/// A call of `syscall` that executes a program: `execve` and `execveat`, which have the environment in another place.
///
/// # Safety
/// The arguments must be those of the call.
pub unsafe fn by_number<T>(
    number: c_long,
    [a, b, c, d]: [c_long; 4],
    call: impl FnOnce([c_long; 4]) -> T,
) -> T {
    let pointer = |word: c_long| core::ptr::with_exposed_provenance_mut::<c_void>(word as usize);
    // SAFETY: as in `exec`.
    unsafe {
        unsampled(|| match number {
            EXECVEAT => {
                let program = Program::in_folder(a as c_int, pointer(b));
                follow::executing(program, pointer(d), always, |given| call([a, b, c, given as c_long]))
            }
            _ => {
                let program = Program::at(pointer(a));
                follow::executing(program, pointer(c), always, |given| call([a, b, given as c_long, d]))
            }
        })
    }
}

/// `posix_spawn` and `posix_spawnp`, whose child is made inside the C library. The thread waits until the child has executed its program.
macro_rules! spawn {
    ($name:ident, $program:ident) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(
            process: Ptr,
            path: Ptr,
            actions: Ptr,
            attributes: Ptr,
            arguments: Ptr,
            environment: Ptr,
        ) -> c_int {
            let original = real!($name: fn(Ptr, Ptr, Ptr, Ptr, Ptr, Ptr) -> c_int);
            let Some(original) = original else { return <c_int as super::Missing>::MISSING };
            let program = Program::$program(path).spawned();
            let failed = |result: &c_int| *result != 0;
            // SAFETY: the program's own arguments go to the function it meant to call, but for what may be added to the environment.
            let call = || unsafe {
                follow::executing(program, environment, failed, |environment| {
                    original(process, path, actions, attributes, arguments, environment)
                })
            };
            match signals::own_slot() {
                Some(slot) => wait::around_world(slot, call),
                None => call(),
            }
        }
    };
}

spawn!(posix_spawn, at);
spawn!(posix_spawnp, named);

/// `system` and `popen`, which execute the shell from inside the C library with the environment of the process. That is another one for the time of the call, if no other thread can see
/// it; otherwise the shell is not followed.
macro_rules! shell {
    ($name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, failed $failed:expr, around $around:expr) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            let Some(original) = real!($name: fn($($type),*) -> $result) else {
                return <$result as super::Missing>::MISSING;
            };
            // SAFETY: the program's own arguments go to the function it meant to call.
            let call = || unsafe { original($($arg),*) };
            let Some(slot) = signals::own_slot() else { return call() };
            stretch::cross(slot, super::call!($name));
            let own = follow::own_environment();
            let executes = !own.is_null() && !($($arg.is_null())||*);
            let is_alone = executes && sys::has_one_thread();
            // SAFETY: the environment is the C library's, and no other thread reads or changes it.
            let followed = || unsafe {
                let with = |environment| {
                    let before = follow::set_environment(environment);
                    let result = call();
                    follow::set_environment(before);
                    result
                };
                follow::executing(Program::at(SHELL.as_ptr().cast_mut().cast()).spawned(), own, $failed, with)
            };
            let around: fn(&Slot, &dyn Fn() -> $result) -> $result = $around;
            if is_alone { around(slot, &followed) } else { wait::around_world(slot, call) }
        }
    };
}

const SHELL: &CStr = c"/bin/sh";

shell!(system(command: Ptr) -> c_int, failed |result: &c_int| *result == -1, around |slot, call| {
    wait::around_channel(slot, None, call, |_| object::child_ended(), None)
});
shell!(popen(command: Ptr, mode: Ptr) -> Ptr, failed |result: &Ptr| result.is_null(), around |slot, call| {
    wait::around_world(slot, call)
});

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
