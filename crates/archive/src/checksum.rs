//! Checksum: what a file of a segment held when it was written, in its name: `….12345678.stacks.parquet` has the CRC-32
//! (IEEE 802.3) 12345678 in hexadecimal. Names without one are of older files.

use std::fs::File;
use std::io::{self, Write};

/// A file that is being written, and the checksum of what has been.
pub(super) struct Summed {
    file: File,
    hasher: crc32fast::Hasher,
}

impl Summed {
    pub(super) fn new(file: File) -> Summed {
        Summed { file, hasher: crc32fast::Hasher::new() }
    }

    /// The file, and the checksum of all of it.
    pub(super) fn finish(self) -> (File, u32) {
        (self.file, self.hasher.finalize())
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The name of a file with a checksum.
pub(super) fn name(stem: &str, checksum: u32, kind: &str) -> String {
    format!("{stem}.{checksum:08x}.{kind}.parquet")
}

/// Whether a file of this name may hold these bytes.
pub(super) fn is_right(name: &str, bytes: &[u8]) -> bool {
    let stated = name.rsplit('.').nth(2).filter(|stated| stated.len() == 8);
    let stated = stated.and_then(|stated| u32::from_str_radix(stated, 16).ok());
    stated.is_none_or(|stated| stated == crc32fast::hash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_hold() {
        let name = name("2026-11-22T0000Z-0123456789abcdef", crc32fast::hash(b"123456789"), "stacks");
        assert_eq!(name, "2026-11-22T0000Z-0123456789abcdef.cbf43926.stacks.parquet");
        assert!(is_right(&name, b"123456789"));
        assert!(!is_right(&name, b"123456788"));
        assert!(is_right("2026-11-22T0000Z-0123456789abcdef.stacks.parquet", b"anything"));
    }
}
