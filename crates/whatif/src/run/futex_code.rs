//! Does an image call the futex by a `syscall` instruction of its own?
//!
//! The runtime sees waits in the functions that it stands in front of. OpenMP libraries and others enter the
//! kernel themselves; whether a program has such code decides what the runtime takes an unannounced wait for.

use memchr::memmem;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// `mov $202, %eax`: the number of the futex system call on x86-64,
const NUMBER: [u8; 5] = [0xb8, 202, 0, 0, 0];
/// and `syscall`,
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// at most so many bytes behind.
const NEAR: usize = 64;

/// Libraries whose waits are announced: their functions are interposed.
const ANNOUNCED: [&str; 4] = ["libc.so", "ld-linux", "libpthread", "libwhatif_rt"];

/// Whether the code of `path` in `length` bytes from `offset` on has such a call. A file that cannot be read
/// has none.
pub fn is_in(path: &Path, offset: u64, length: u64) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if ANNOUNCED.iter().any(|announced| name.starts_with(announced)) {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    let mut code = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut read = 0;
    while let Ok(more) = file.read_at(&mut code[read..], offset + read as u64)
        && more > 0
    {
        read += more;
    }
    has_call(&code[..read])
}

fn has_call(code: &[u8]) -> bool {
    memmem::find_iter(code, &NUMBER).any(|at| {
        let behind = &code[at + NUMBER.len()..];
        memmem::find(&behind[..behind.len().min(NEAR)], &SYSCALL).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_number_and_an_instruction_close_by() {
        let code = |gap: usize| [&[0x90; 9][..], &NUMBER, &vec![0x90; gap], &SYSCALL, &[0xc3]].concat();
        assert!(has_call(&code(0)));
        assert!(has_call(&code(40)));
        assert!(!has_call(&code(400)));
        assert!(!has_call(&NUMBER));
        assert!(!has_call(&SYSCALL));
    }

    #[test]
    fn a_file_that_is_not_there_has_none() {
        assert!(!is_in(Path::new("/nonexistent/file"), 0, 100));
    }
}
