//! Does an image call the futex by a `syscall` instruction of its own?
//!
//! The runtime sees waits in the functions that it stands in front of. OpenMP libraries and others enter the
//! kernel themselves; whether a program has such code decides what the runtime takes an unannounced wait for.

use memchr::memmem;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// `mov $202, %eax`: the number of the futex system call on x86-64.
const NUMBER: [u8; 5] = [0xb8, 202, 0, 0, 0];
/// The `syscall` instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The `syscall` ends at most so many bytes behind the number.
const NEAR: usize = 64;
/// Code is read in pieces of this size.
const PIECE: usize = 1 << 18;

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
    // What is close to the end of a piece is read again with the next one.
    const OVERLAP: usize = NUMBER.len() + NEAR;
    let mut piece = vec![0; PIECE + OVERLAP];
    (0..length).step_by(PIECE).any(|at| {
        let wanted = usize::try_from(length - at).map_or(piece.len(), |rest| rest.min(piece.len()));
        let read = file.read_at(&mut piece[..wanted], offset + at).unwrap_or(0);
        has_call(&piece[..read])
    })
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
    fn code_is_read_in_pieces_that_overlap() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (at, length, found) in [
            (PIECE - 3, 3 * PIECE, true),
            (PIECE - 40, 3 * PIECE, true),
            (3 * PIECE - 9, 3 * PIECE, true),
            (PIECE - 3, PIECE - 3, false),
        ] {
            let mut code = vec![0x90; 3 * PIECE];
            code[at..at + 5].copy_from_slice(&NUMBER);
            code[at + 5..][..2].copy_from_slice(&SYSCALL);
            std::fs::write(file.path(), [&[0; 100], &code[..]].concat()).unwrap();
            assert_eq!(is_in(file.path(), 100, length as u64), found, "{at}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_has_none() {
        assert!(!is_in(Path::new("/nonexistent/file"), 0, 100));
    }
}
