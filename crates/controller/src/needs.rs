//! Needs: what a run cannot do without, and what would otherwise show as something else that is missing.
//!
//! Looks and tries; changes nothing.

use std::fs::File;
use std::io;
use std::path::Path;

/// File descriptors that a run opens before the program has begun.
const DESCRIPTORS: usize = 9;

/// There are too few file descriptors for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too few file descriptors: {DESCRIPTORS} needed besides those that are open, {allowed} allowed; allow more with: \
     ulimit -n 1024"
)]
pub struct TooFewDescriptors {
    allowed: usize,
}

/// Whether enough file descriptors can be opened.
///
/// # Errors
/// How many can.
pub fn descriptors() -> Result<(), TooFewDescriptors> {
    let allowed = openable(DESCRIPTORS);
    if allowed < DESCRIPTORS { Err(TooFewDescriptors { allowed }) } else { Ok(()) }
}

/// How many descriptors can be opened, at most `most`.
fn openable(most: usize) -> usize {
    let open = || File::open("/dev/null");
    let mut opened = Vec::with_capacity(most);
    while opened.len() < most {
        match open() {
            Ok(file) => opened.push(file),
            Err(error) if is_out_of_descriptors(&error) => break,
            // What else is wrong shows later.
            Err(_) => return most,
        }
    }
    opened.len()
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether the kernel's view of processes is there: code and threads of the program are looked up in it.
pub fn has_proc() -> bool {
    Path::new("/proc/self/maps").exists()
}
