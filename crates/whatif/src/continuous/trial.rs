//! A trial: a database that shares the segments of another one, to see what something would do to that.

use anyhow::{Context as _, Result, bail, ensure};
use controller::launch;
use kernel::signals::was_ignored;
use rustix::fs::{Mode, OFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Folders of trials begin with this.
const PREFIX: &str = ".trial-";
/// The catalogue, which changes, and its log.
const CATALOGUE: [&str; 2] = ["catalogue.db", "catalogue.db-wal"];
/// The segments, which never change: a second name for each of them costs nothing.
const SEGMENTS: &str = "segments";
/// The same for names that were kept; not there before there are any.
const NAMES: &str = "symbols";
/// How often copying the catalogue is attempted while another process keeps writing it.
const ATTEMPTS: usize = 20;
/// How often a folder is removed in which another thread may still make files.
const REMOVALS: usize = 1000;

/// In the folder of the database, where its segments can have a second name. Dropping it removes it, and so does a signal
/// that ends us: as long as it is there, what the database removes takes room.
#[derive(Debug)]
pub struct Trial {
    folder: PathBuf,
    /// Locked as long as the trial is in use: a process ID would mean nothing in other PID namespaces.
    _lock: File,
    removal: Arc<Removal>,
}

/// The folder that is to be removed, if it is there. The thread that removes it holds the lock.
#[derive(Debug, Default)]
struct Removal(Mutex<Option<PathBuf>>);

impl Removal {
    fn folder(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trial {
    /// The database in `of`, as it is now.
    pub fn new(of: &Path) -> Result<Trial> {
        remove_abandoned(of);
        let removal = Arc::new(Removal::default());
        remove_at_signals(Arc::clone(&removal)).context("cannot wait for signals")?;
        let (folder, lock) = new_folder(of, &removal).with_context(|| {
            format!("cannot make a folder to try it in; be the user who may write {}", of.display())
        })?;
        let trial = Trial { folder, _lock: lock, removal };
        trial.fill(of)?;
        Ok(trial)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn fill(&self, of: &Path) -> Result<()> {
        for shared in [SEGMENTS, NAMES] {
            let to = self.folder.join(shared);
            fs::create_dir(&to).with_context(|| format!("cannot write {}; make room there", to.display()))?;
        }
        for _ in 0..ATTEMPTS {
            let before = CATALOGUE.map(|file| changed(&of.join(file)));
            for file in CATALOGUE {
                self.copy(&of.join(file), &self.folder.join(file))?;
            }
            // Segments that the catalogue does not name do not count.
            self.share(of, SEGMENTS)?;
            if of.join(NAMES).exists() {
                self.share(of, NAMES)?;
            }
            if before == CATALOGUE.map(|file| changed(&of.join(file))) {
                return Ok(());
            }
        }
        bail!("the database is being written all the time; try again when the collector has finished")
    }

    /// Gives the files in a folder of the database a second name.
    fn share(&self, of: &Path, shared: &str) -> Result<()> {
        let (from, to) = (of.join(shared), self.folder.join(shared));
        let entries = fs::read_dir(&from);
        let entries = entries.with_context(|| format!("cannot read {}; be its user", from.display()))?;
        for entry in entries {
            let entry = entry?;
            let second = to.join(entry.file_name());
            if !second.exists() {
                if_there(fs::hard_link(entry.path(), second))
                    .with_context(|| no_second_name(&entry.path(), of))?;
            }
        }
        Ok(())
    }

    /// The log of an earlier attempt does not belong to a catalogue that has none now.
    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let copied = if_there(fs::remove_file(to)).and_then(|()| if_there(fs::copy(from, to).map(drop)));
        copied.with_context(|| {
            format!("cannot copy {} to {}; be its user, and make room there", from.display(), to.display())
        })
    }
}

/// What to do where segments cannot have another name.
fn no_second_name(segment: &Path, of: &Path) -> String {
    format!(
        "cannot give {} a second name, which costs no room (a hard link): be the user who owns it; or if its file system has no \
         hard links, try it on a copy: cp -r {} COPY, whatif db gc --dry-run --db COPY",
        segment.display(),
        of.display()
    )
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Waits indefinitely if a signal ends us, so that no error caused by that is printed.
        let mut folder = self.removal.folder();
        let _ = fs::remove_dir_all(&self.folder);
        *folder = None;
    }
}

/// A folder that is ours, and the lock that says so.
fn new_folder(of: &Path, removal: &Removal) -> Result<(PathBuf, File)> {
    for _ in 0..ATTEMPTS {
        let mut to_remove = removal.folder();
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(of)?.keep();
        *to_remove = Some(folder.clone());
        // Another process may take it for abandoned and remove it before it is locked.
        if let Ok(lock) = open_folder(&folder) {
            // Where folders cannot be locked, no process finds them unlocked, either.
            let _ = lock.lock();
            if folder.exists() {
                return Ok((folder, lock));
            }
        }
        *to_remove = None;
        ensure!(!folder.exists(), "{} cannot be opened", folder.display());
    }
    bail!("others remove it at once; try again")
}

/// Nothing but a folder: a pipe would never open, and a link may lead anywhere.
fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn remove_at_signals(removal: Arc<Removal>) -> Result<()> {
    let handled = [SIGHUP, SIGINT, SIGTERM];
    let mut signals = Signals::new(handled.into_iter().filter(|signal| !was_ignored(*signal)))?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let folder = removal.folder();
            let is_there = |folder: &&PathBuf| {
                let removed = fs::remove_dir_all(folder);
                removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) || folder.exists()
            };
            for _ in 0..REMOVALS {
                if folder.as_ref().filter(is_there).is_none() {
                    break;
                }
            }
            launch::finish(launch::Exit::Signal(signal));
        }
    })?;
    Ok(())
}

/// What tells one state of a file from another.
fn changed(path: &Path) -> Option<(SystemTime, u64)> {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

fn if_there(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Removes trials whose process was killed: those that are not locked.
pub fn remove_abandoned(of: &Path) {
    for entry in fs::read_dir(of).into_iter().flatten().flatten() {
        let is_trial = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Locked until it is gone, so that no other process fills it meanwhile.
        if is_trial
            && let Ok(lock) = open_folder(&entry.path())
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_leaves_the_database_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        fs::create_dir(of(SEGMENTS)).unwrap();
        fs::create_dir(of(".trial-abandoned")).unwrap();
        for (file, content) in [("catalogue.db", "c"), ("segments/a", "a"), ("segments/b", "b")] {
            fs::write(of(file), content).unwrap();
        }
        let trial = Trial::new(folder.path()).unwrap();
        assert!(!of(".trial-abandoned").exists());
        assert_eq!(fs::read(trial.folder().join("segments/a")).unwrap(), b"a");
        fs::remove_file(trial.folder().join("segments/a")).unwrap();
        fs::write(trial.folder().join("catalogue.db"), "d").unwrap();
        // One that is used stays.
        remove_abandoned(folder.path());
        assert!(trial.folder().exists());
        drop(trial);
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(fs::read(of("catalogue.db")).unwrap(), b"c");
        assert_eq!(fs::read(of("segments/a")).unwrap(), b"a");
    }
    #[test]
    fn the_log_of_an_earlier_attempt_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        fs::create_dir(of(SEGMENTS)).unwrap();
        fs::write(of("catalogue.db"), "c").unwrap();
        let trial = Trial::new(folder.path()).unwrap();
        let log = trial.folder().join("catalogue.db-wal");
        fs::write(&log, "old").unwrap();
        trial.copy(&of("catalogue.db-wal"), &log).unwrap();
        assert!(!log.exists());
    }

    #[test]
    fn what_failed_is_said() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(SEGMENTS)).unwrap();
        // A folder has no second name on any file system.
        fs::create_dir(folder.path().join(SEGMENTS).join("a")).unwrap();
        let error = format!("{:#}", Trial::new(folder.path()).unwrap_err());
        assert!(error.contains("hard link") && error.contains("cp -r "), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = format!("{:#}", Trial::new(&folder.path().join("nowhere")).unwrap_err());
        assert!(error.contains("be the user who may write"), "{error}");
    }
}
