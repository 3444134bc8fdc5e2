//! Log: what a program did to the files of a folder, in order, as `bench/c/faults.c` writes it down.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// One thing that was done. Paths are relative to the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file is there, whether or not it was.
    Create(PathBuf),
    Folder(PathBuf),
    Write {
        path: PathBuf,
        offset: usize,
        bytes: Vec<u8>,
    },
    Resize(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    /// When this is over, what was done to this file or folder before survives a power failure.
    Sync(PathBuf),
    /// A word to the user.
    Said(String),
}

/// Reads a log of what was done in `folder`.
pub fn read(mut log: &[u8], folder: &Path) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    while !log.is_empty() {
        let head = line(&mut log)?;
        let mut words = head.split(' ');
        let mut word = || words.next().context("a line is cut");
        let (kind, offset, length) = (word()?, word()?.parse::<i64>()?, word()?.parse::<usize>()?);
        let path = PathBuf::from(line(&mut log)?);
        ensure!(log.len() >= length, "the log is cut");
        let (bytes, rest) = log.split_at(length);
        log = rest;
        if kind == "said" {
            events.push(Event::Said(String::from_utf8_lossy(bytes).into_owned()));
            continue;
        }
        ensure!(kind != "unknown", "the log does not know {} (see bench/c/faults.c)", path.display());
        let inside = |path: &Path| Ok::<_, anyhow::Error>(path.strip_prefix(folder)?.to_owned());
        // What is removed while it is open is gone; SQLite's index of its log is of no use after a power failure.
        let is_gone = |path: &Path| {
            let path = path.to_string_lossy();
            path.ends_with(" (deleted)") || path.ends_with("-shm")
        };
        if is_gone(&path) {
            continue;
        }
        let path = inside(&path)?;
        events.push(match kind {
            "create" => Event::Create(path),
            "folder" => Event::Folder(path),
            "write" => Event::Write { path, offset: usize::try_from(offset)?, bytes: bytes.to_vec() },
            "resize" => Event::Resize(path, usize::try_from(offset)?),
            "rename" => Event::Rename(path, inside(Path::new(str::from_utf8(bytes)?))?),
            "remove" => Event::Remove(path),
            "sync" => Event::Sync(path),
            kind => bail!("{kind} of {}: what it writes there cannot be seen", path.display()),
        });
    }
    Ok(events)
}

fn line<'a>(log: &mut &'a [u8]) -> Result<&'a str> {
    let end = log.iter().position(|&byte| byte == b'\n').context("the log is cut")?;
    let (line, rest) = log.split_at(end);
    *log = &rest[1..];
    Ok(str::from_utf8(line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_their_order() {
        let log = b"create 0 0\n/d/a b\nwrite 4096 3\n/d/a b\nx\nymap 0 0\n/d/c-shm\nrename 0 4\n/d/a b\n/d/esaid 0 2\n/dev/pts/1\nhi";
        let (a, e) = (PathBuf::from("a b"), PathBuf::from("e"));
        let write = Event::Write { path: a.clone(), offset: 4096, bytes: b"x\ny".to_vec() };
        let said = Event::Said("hi".to_owned());
        let expected = [Event::Create(a.clone()), write, Event::Rename(a, e), said];
        assert_eq!(read(log, Path::new("/d")).unwrap(), expected);
        assert!(read(b"map 0 0\n/d/c\n", Path::new("/d")).is_err());
        assert!(read(b"write 0 9\n/d/c\nxyz", Path::new("/d")).is_err());
    }
}
