//! A few lines of source text, if the sources are on this machine.

use crate::elf::open_without_waiting;
use std::fs::metadata;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// No line is longer than this in a snippet, in bytes.
const LONGEST_LINE: usize = 400;
/// Source files are smaller; whatever debug information names that is not is not read.
const LARGEST_FILE: u64 = 64 << 20;

/// The lines `line - radius ..= line + radius` of a source file (as in [`crate::Frame::file`]),
/// each with its number (from 1). Empty if the file is missing, not a regular file, or too short.
/// Text that is not UTF-8 is shown with replacement characters; lines are cut at 400 bytes.
pub fn snippet(file: impl AsRef<Path>, line: u32, radius: u32) -> Vec<(u32, String)> {
    let file = file.as_ref();
    // Debug information may name anything, a pipe for instance, whose opening would block.
    if line == 0 || !metadata(file).is_ok_and(|data| data.is_file() && data.len() <= LARGEST_FILE) {
        return Vec::new();
    }
    let Ok(source) = open_without_waiting(file) else { return Vec::new() };
    if !source.metadata().is_ok_and(|data| data.is_file()) {
        return Vec::new();
    }
    let lines = BufReader::new(source.take(LARGEST_FILE)).split(b'\n');
    let (first, last) = (line.saturating_sub(radius).max(1), line.saturating_add(radius));
    let wanted: Vec<(u32, String)> = (1..=last)
        .zip(lines.map_while(Result::ok))
        .skip_while(|(number, _)| *number < first)
        .map(|(number, bytes)| (number, text(&bytes)))
        .collect();
    let reached = wanted.last().is_some_and(|(number, _)| *number >= line);
    if reached { wanted } else { Vec::new() }
}

fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).trim_end_matches('\r').to_owned();
    text.truncate(text.floor_char_boundary(LONGEST_LINE));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.c");
        let long = "\u{e9}".repeat(300);
        std::fs::write(&path, [b"one\r\ntwo\n\xff\nfour\n".as_slice(), long.as_bytes()].concat()).unwrap();
        let numbers = |line, radius| -> Vec<u32> {
            snippet(&path, line, radius).iter().map(|(number, _)| *number).collect()
        };
        assert_eq!(numbers(1, 1), [1, 2]);
        assert_eq!(numbers(3, 1), [2, 3, 4]);
        assert_eq!(numbers(5, u32::MAX), [1, 2, 3, 4, 5]);
        assert!(numbers(6, 9).is_empty());
        assert!(numbers(0, 9).is_empty());
        assert_eq!(snippet(&path, 1, 0), [(1, "one".to_owned())]);
        assert_eq!(snippet(&path, 3, 0), [(3, "\u{fffd}".to_owned())]);
        assert_eq!(snippet(&path, 5, 0)[0].1.len(), 400);
        assert!(snippet("/nowhere/a.c", 1, 1).is_empty());
        assert!(snippet("/dev/zero", 1, 1).is_empty());
        assert!(snippet(directory.path(), 1, 1).is_empty());
    }
}
