//! Recordings: the files that hold runs, in folders and by themselves.

use crate::error::Error;
use crate::run::{Held, Named};
use profile::Recording;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use storage::{BESIDE, LOG, beside};

/// What tells whether a file was written to: its size and time, and those of its log.
pub type Stamp = [Option<(u64, SystemTime)>; 2];

/// A file that may be a recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Its path.
    pub path: PathBuf,
    /// It was named, and not found in a folder: it has to be a recording.
    pub is_named: bool,
}

impl File {
    /// Where the note of what was sent of it is.
    pub fn folder(&self) -> PathBuf {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).to_owned()
    }

    /// Whether it was written to since then.
    pub fn stamp(&self) -> Stamp {
        let of = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.len(), meta.modified().ok()?))
        };
        [of(&self.path), of(&beside(&self.path, LOG))]
    }

    /// Whether it is a recording. A file in a folder may be something else.
    pub fn is_recording(&self) -> Result<bool, Error> {
        use storage::Error::{Empty, NotARecording};
        match Recording::open(&self.path) {
            Err(NotARecording { .. } | Empty { .. }) if !self.is_named => Ok(false),
            opened => Ok(opened.map(|_| true)?),
        }
    }

    /// What it holds, but for the runs in `known`.
    pub fn read(&self, named: &Named, known: &BTreeSet<String>) -> Result<Held, Error> {
        Held::read(&self.path, named, known)
    }
}

/// The files behind what was named: files, and folders with files in them. In order, each once.
pub fn files(named: &[PathBuf]) -> Result<Vec<File>, Error> {
    let mut all: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for path in named {
        let wrong = |error: std::io::Error| {
            Error::Usage(format!(
                "cannot read the recordings in {}: {error}; name a recording (whatif run -o FILE), or a folder with some",
                path.display()
            ))
        };
        if std::fs::metadata(path).map_err(wrong)?.is_file() {
            all.insert(path.clone(), true);
            continue;
        }
        for entry in std::fs::read_dir(path).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_beside = name.starts_with('.')
                || name == crate::sent::FILE
                || BESIDE.iter().any(|end| name.ends_with(end));
            if !is_beside && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                all.entry(entry.path()).or_insert(false);
            }
        }
    }
    Ok(all.into_iter().map(|(path, is_named)| File { path, is_named }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_files_that_are_no_recordings() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        Recording::create(&at("b.db")).unwrap().close().unwrap();
        for name in ["a.txt", ".hidden", "fleet.db", "my-fleet.db", "b.db-wal"] {
            std::fs::write(at(name), "text").unwrap();
        }
        std::fs::create_dir(at("folder")).unwrap();
        let found = files(&[folder.path().to_owned(), at("b.db")]).unwrap();
        let names: Vec<_> = found.iter().map(|file| file.path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a.txt", "b.db", "my-fleet.db"]);
        assert_eq!((found[0].is_recording().unwrap(), found[1].is_recording().unwrap()), (false, true));
        assert_eq!(found[1].read(&Named::default(), &BTreeSet::new()).unwrap().runs.len(), 0);
        // One that is named has to be one.
        let named = files(&[at("a.txt")]).unwrap();
        assert!(named[0].is_recording().is_err());
        let said = files(&[at("none")]).unwrap_err().to_string();
        assert!(said.contains("name a recording"), "{said}");
    }
}
