//! Lock: one writer at a time.

use std::io::{Read, Write};
use std::path::Path;

use super::draft::failed;
use storage::{Error, Unlocked};

/// The file in the folder that the writer holds; the system lets go of it when the writer ends, however it ends.
const NAME: &str = "writer.lock";

/// Takes the lock of a folder.
///
/// # Errors
///
/// [`Error::OtherWriter`], [`Error::Io`].
pub(super) fn take(folder: &Path) -> Result<storage::Lock, Error> {
    let path = folder.join(NAME);
    let mut lock = storage::Lock::take(&path).map_err(|why| match why {
        Unlocked::Taken(mut file) => {
            let mut text = String::new();
            let number = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
            let who = number.map(|number| format!(" (process {number})")).unwrap_or_default();
            Error::OtherWriter { path: folder.to_owned(), who }
        }
        Unlocked::NotOpened(error) | Unlocked::Refused(error) => failed(&path, &error),
    })?;
    // Only for the message above: on a full disk it does without.
    let file = lock.file();
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(lock)
}
