//! Command lines. They may have passwords in them, so they are only read if that is asked for.

use std::fs::File;
use std::io::{self, Read as _};

/// So much of one is kept, in bytes.
const LONGEST: usize = 256;

/// That of a process, on one line. It reads the memory of the process, which may hold it up for ever: see
/// [`Errands`](crate::errands::Errands).
///
/// # Errors
/// The process has gone, or may not be looked into.
pub fn command_line(pid: u32) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/cmdline"))?.take(4 * LONGEST as u64).read_to_end(&mut bytes)?;
    Ok(line(&bytes))
}

fn line(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count()];
    let words: Vec<_> = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let line = words.join(" ");
    let line = storage::printable(&line);
    line[..line.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_of_a_line() {
        for (bytes, expected) in [
            (&b"server\0--port\080\0"[..], "server --port 80"),
            (b"sshd: user [priv]\0\0\0\0", "sshd: user [priv]"),
            (b"", ""),
            (b"a\0b\nc\x1b[2J\xff", "a b\\nc\\u{1b}[2J\u{fffd}"),
        ] {
            assert_eq!(line(bytes), expected);
        }
        assert_eq!(line(&[b'x'; 10_000]).len(), LONGEST);
        assert!(line("ü".repeat(1000).as_bytes()).len() <= LONGEST);
        assert!(!command_line(std::process::id()).unwrap().is_empty());
    }
}
