//! `/tmp/perf-PID.map`, in which a process lists the functions that it has generated (Linux, tools/perf/Documentation/jit-interface.txt):
//! which file that is, whether it may be believed, and what it says more than before. What its lines mean, `symbols` knows.
//!
//! Every user may put a file there, so only one is read that belongs to the process's user or to root, and no link is followed.

use crate::cpu::status_field;
use crate::stream::own_user;
use crate::untrusted::{has_trusted_files, open_file};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// If this many bytes at the end of what was read are as they were, a file has only grown.
const END: usize = 256;

/// By so much the times of files may be too early: the kernel takes them from its tick, which is 10 ms at most.
const COARSE: Duration = Duration::from_millis(20);

/// How much of a file is read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What lies behind this is not read.
    pub longest: u64,
    /// More than this is not read at a time.
    pub at_once: u64,
}

/// What a file says more than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct More {
    /// What was read of it before no longer holds: it was written anew, or it is another file.
    pub is_new: bool,
    /// Whole lines.
    pub text: String,
}

/// The list of one process.
#[derive(Debug)]
pub struct PerfMap {
    place: Place,
    file: Option<(PathBuf, File)>,
    /// How much of it has been read.
    read: u64,
    /// What was at the end of the part that has been read.
    end: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Where the process sees it, if it was written since then.
    Running(u32, Option<SystemTime>),
    /// Where we see it.
    Left(u32),
}

impl PerfMap {
    /// The list of a process that runs.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self::at(Place::Running(pid, None))
    }

    /// The list of the program that a process has begun to run at this time. One that was not written since is of another program, or of
    /// another process with the same number.
    #[must_use]
    pub fn of_program(pid: u32, since: SystemTime) -> Self {
        Self::at(Place::Running(pid, Some(since)))
    }

    /// The list that a process with this number has left behind. Root takes that of any user.
    #[must_use]
    pub fn left_by(pid: u32) -> Self {
        Self::at(Place::Left(pid))
    }

    fn at(place: Place) -> Self {
        Self { place, file: None, read: 0, end: Vec::new() }
    }

    /// Whether there is such a file.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// How much of it has been read, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.read
    }

    /// Reads what the file has more than before, or its begin if it was written anew; nothing if nothing is different.
    pub fn more(&mut self, limits: Limits) -> Option<More> {
        let mut is_new = false;
        if self.file.as_ref().is_none_or(|(path, file)| is_another(path, file))
            && let Some(opened) = self.place.open()
        {
            is_new = self.file.replace(opened).is_some();
        }
        let (_, file) = self.file.as_ref()?;
        let mut end = vec![0; self.end.len()];
        let there = file.read_exact_at(&mut end, self.read - self.end.len() as u64);
        is_new |= there.is_err() || end != self.end;
        if is_new {
            (self.read, self.end) = (0, Vec::new());
        }
        let length = file.metadata().map_or(0, |metadata| metadata.len()).min(limits.longest);
        let text = self.lines(length.saturating_sub(self.read).min(limits.at_once), limits.at_once);
        (is_new || !text.is_empty()).then_some(More { is_new, text })
    }

    /// Reads this many bytes more, if they are there, as far as they are whole lines; a line of `at_once` bytes is none.
    fn lines(&mut self, length: u64, at_once: u64) -> String {
        let mut bytes = vec![0; length as usize];
        let Some((_, file)) = &self.file else { return String::new() };
        if bytes.is_empty() || file.read_exact_at(&mut bytes, self.read).is_err() {
            return String::new();
        }
        let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if length >= at_once => bytes.len(),
            None => 0,
        };
        bytes.truncate(whole);
        self.read += whole as u64;
        if whole > 0 {
            self.end = bytes[whole.saturating_sub(END)..].to_vec();
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl Place {
    fn open(self) -> Option<(PathBuf, File)> {
        let (path, owner) = match self {
            Self::Running(pid, _) => {
                if !has_trusted_files(pid) {
                    return None;
                }
                let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
                // The process's number may be another one where it sees its files.
                let inside = status_field(pid, "NSpid:")
                    .and_then(|numbers| numbers.split_whitespace().last()?.parse::<u32>().ok());
                (format!("/proc/{pid}/root/tmp/perf-{}.map", inside.unwrap_or(pid)), owner)
            }
            Self::Left(pid) => {
                let path = format!("/tmp/perf-{pid}.map");
                let owner = match own_user() {
                    0 => std::fs::symlink_metadata(&path).ok()?.uid(),
                    own => own,
                };
                (path, owner)
            }
        };
        let file = open_file(Path::new(&path), owner).ok()?;
        if let Self::Running(_, Some(since)) = self
            && file.metadata().ok()?.modified().ok()? + COARSE < since
        {
            return None;
        }
        Some((path.into(), file))
    }
}

/// Whether another file lies at the path by now. The one that is open keeps its inode.
fn is_another(path: &Path, file: &File) -> bool {
    let (Ok(there), Ok(ours)) = (path.symlink_metadata(), file.metadata()) else { return false };
    (there.dev(), there.ino()) != (ours.dev(), ours.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_parts_of_whole_lines() {
        // A number that no process has.
        let path = "/tmp/perf-536870919.map";
        let mut list = PerfMap::left_by(536_870_919);
        let limits = Limits { longest: 14, at_once: 6 };
        assert_eq!((list.more(limits), list.is_open()), (None, false));
        let mut more = |written: &str| {
            std::fs::write(path, written).unwrap();
            let more = list.more(limits).map(|more| (more.is_new, more.text));
            (more, list.length())
        };
        let of = |is_new, text: &str| Some((is_new, text.to_owned()));
        assert_eq!(more("1\n22\n333\n"), (of(false, "1\n22\n"), 5));
        assert_eq!(more("1\n22\n333\n"), (of(false, "333\n"), 9));
        assert_eq!(more("1\n22\n333\n44"), (None, 9));
        assert_eq!(more("1\n22\n333\n4444\n5"), (of(false, "4444\n"), 14));
        assert_eq!(more("1\n22\n333\n4444\n5\n"), (None, 14), "as long as it may be");
        assert_eq!(more("1\n22\n333\n5555\n"), (of(true, "1\n22\n"), 5));
        assert_eq!(more("1\n22\n333\n5555\n"), (of(false, "333\n"), 9));
        assert_eq!(more("much too long\n"), (of(true, "much t"), 6), "a line that is too long is none");
        std::fs::remove_file(path).unwrap();
        let rest = std::iter::from_fn(|| list.more(limits)).map(|more| (more.is_new, more.text));
        let expected = [(false, "oo lon".to_owned()), (false, "g\n".to_owned())];
        assert!(rest.eq(expected), "what has gone is still right");
    }

    #[test]
    fn what_another_program_has_left_is_not_believed() {
        let (pid, limits) = (std::process::id(), Limits { longest: 100, at_once: 100 });
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "1\n").unwrap();
        let more = |since| PerfMap::of_program(pid, since).more(limits).map(|more| more.text);
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        let second = Duration::from_secs(1);
        let answers = [more(written - second), more(written + second)];
        std::fs::remove_file(path).unwrap();
        assert_eq!(answers, [Some("1\n".to_owned()), None]);
    }
}
