//! Lock: one writer at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::draft::failed;
use storage::Error;

/// The file in the folder that the writer holds; the system lets go of it when the writer ends, however it ends.
const NAME: &str = "writer.lock";

/// Held by the writer.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// # Errors
    ///
    /// [`Error::OtherWriter`], [`Error::Io`].
    pub(super) fn take(folder: &Path) -> Result<Lock, Error> {
        let path = folder.join(NAME);
        let mut options = OpenOptions::new();
        // A user who could open it could keep the writer out.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = storage::open_regular(&path, &mut options).map_err(|e| failed(&path, &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let number =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
                let who = number.map(|number| format!(" (process {number})")).unwrap_or_default();
                return Err(Error::OtherWriter { path: folder.to_owned(), who });
            }
            Err(TryLockError::Error(e)) => return Err(failed(&path, &e)),
        }
        // Only for the message above: on a full disk it does without.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock { file })
    }
}

impl Drop for Lock {
    /// Not left to closing the descriptor: a process that is being started by another thread has it as well, until it executes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}
