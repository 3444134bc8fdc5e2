//! Lock: files that one at a time holds.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::open_regular;

/// A file that nobody else can lock until this is dropped, or its process has ended, however it ends.
#[derive(Debug)]
pub struct Lock(File);

/// Why there is no lock.
#[derive(Debug)]
pub enum Unlocked {
    /// The file cannot be opened, or made.
    NotOpened(io::Error),
    /// Somebody else has it; what the file says can be read.
    Taken(File),
    /// The file system has no locks.
    Refused(io::Error),
}

impl Lock {
    /// Locks a file, which is made if it does not exist.
    ///
    /// # Errors
    /// [`Unlocked`].
    pub fn take(path: &Path) -> Result<Lock, Unlocked> {
        let mut options = OpenOptions::new();
        // Another user who could open it could lock it.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = open_regular(path, &mut options).map_err(Unlocked::NotOpened)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(Unlocked::Taken(file)),
            Err(TryLockError::Error(error)) => Err(Unlocked::Refused(error)),
        }
    }

    /// The file.
    pub fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Lock {
    /// Not left to closing the descriptor: a process that is being started by another thread has it as well, until it executes its program.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_still_has_the_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut lock = Lock::take(&path).unwrap();
        assert!(matches!(Lock::take(&path), Err(Unlocked::Taken(_))));
        let inherited = lock.file().try_clone().unwrap();
        drop(lock);
        Lock::take(&path).unwrap();
        drop(inherited);
        assert!(matches!(Lock::take(folder.path()), Err(Unlocked::NotOpened(_))));
    }
}
