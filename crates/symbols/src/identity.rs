//! What tells one build of a file from all others: its build ID, or what stands for one where linkers were not asked for it (programs of
//! rustc have none on many machines).
//!
//! What stands for one is made of the file's length and headers and of some of its pages, so it costs the same for large files. Two builds
//! that agree in all of these have their functions in the same places.

use crate::debug_file::hex;
use crate::elf::Elf;

/// What stands for a build ID begins with this.
const PREFIX: &[u8] = b"file";
const PAGE: u64 = 4096;
/// Pages that are read, spread over the file.
const PAGES: u64 = 64;

/// The build ID in hexadecimal digits, or what stands for one; `None` if the file cannot be read.
pub(crate) fn identity(elf: &Elf) -> Option<String> {
    elf.headers.build_id.as_deref().map(hex).or_else(|| content(elf))
}

/// Whether an identity is not a build ID: it is known of the file itself, and of no other file that goes with it.
#[must_use]
pub fn is_content_identity(identity: &str) -> bool {
    identity.len() == 40 && identity.starts_with(&hex(PREFIX))
}

fn content(elf: &Elf) -> Option<String> {
    let length = elf.length();
    let mut hash = Hash::new();
    hash.word(length);
    let pages = length.div_ceil(PAGE).min(PAGES);
    let last = length.saturating_sub(PAGE);
    for page in 0..pages {
        // The first is that of the headers, and the last usually that of the sections' headers.
        let at = if pages > 1 { last / (pages - 1) * page } else { 0 };
        let at = if page + 1 == pages { last } else { at };
        hash.bytes(&elf.read(at, PAGE.min(length - at))?);
    }
    Some(hex(&[PREFIX, &hash.0.to_be_bytes()].concat()))
}

/// FNV-1a of 128 bits (draft-eastlake-fnv), over words of eight bytes.
struct Hash(u128);

impl Hash {
    fn new() -> Hash {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ u128::from(word)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.word(u64::from_le_bytes(whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn of(path: &Path) -> Option<String> {
        content(&Elf::open(path).unwrap())
    }

    #[test]
    fn files_are_told_apart_by_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let (one, copy, other) =
            (folder.path().join("one"), folder.path().join("copy"), folder.path().join("other"));
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        fs::write(&one, &program).unwrap();
        fs::write(&copy, &program).unwrap();
        let identity = of(&one).unwrap();
        assert!(is_content_identity(&identity), "{identity}");
        assert_eq!(of(&copy).as_ref(), Some(&identity));
        // A byte more, another header, another end.
        for change in [
            |bytes: &mut Vec<u8>| bytes.push(0),
            |bytes: &mut Vec<u8>| bytes[0x40] ^= 1,
            |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1,
        ] {
            let mut changed = program.clone();
            change(&mut changed);
            fs::write(&other, changed).unwrap();
            match Elf::open(&other) {
                Ok(elf) => assert_ne!(content(&elf).as_ref(), Some(&identity)),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(!is_content_identity("66696c65"));
        assert!(!is_content_identity(&"a".repeat(40)));
    }
}
