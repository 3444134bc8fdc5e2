//! What the tests share: all of the crate `sandbox`, and what needs a look at the kernel.

pub use sandbox::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

/// Whether visits can be counted here.
pub fn can_count() -> bool {
    let tried = kernel::visits::cost(kernel::visits::Means::Breakpoint);
    if let Err(error) = &tried {
        skip(&format!("no breakpoints here: {error}"));
    }
    tried.is_ok()
}

/// Whether the code of a process can be changed through `/proc`: this one's, which stays as it is.
pub fn can_change_code() -> bool {
    let at = (can_change_code as fn() -> bool) as usize as u64;
    let mut byte = [0];
    let tried = OpenOptions::new().read(true).write(true).open("/proc/self/mem").and_then(|memory| {
        memory.read_exact_at(&mut byte, at)?;
        memory.write_all_at(&byte, at)
    });
    if let Err(error) = &tried {
        skip(&format!("code cannot be changed here: {error}"));
    }
    tried.is_ok()
}

/// Whether the threads of a program that was started here can be stopped.
pub fn can_stop_threads() -> bool {
    let mut waits = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let is_stopped = kernel::tracee::instruction_pointer(waits.id()).is_some();
    waits.kill().unwrap();
    waits.wait().unwrap();
    if !is_stopped {
        skip("no ptrace here");
    }
    is_stopped
}
