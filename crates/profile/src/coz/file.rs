//! A file that is a recording or a profile of Coz.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::NotCoz;
use crate::database::Recording;
use crate::estimate::EstimateOptions;
use crate::model::Rows;
use crate::ranking::Profile;
use storage::Error;

/// So many bytes tell what a file is.
const BYTES_THAT_TELL: u64 = 64 * 1024;
/// What every recording begins with.
pub const DATABASE: &[u8] = b"SQLite format 3\0";

/// Why a file could not be read as either.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It looks like a profile of Coz, and is damaged.
    #[error("cannot read {path}: {why}")]
    Coz {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: NotCoz,
    },
    /// It looks like one, and the rest of it could not be read.
    #[error("cannot read {path}; give a profile that coz run has written: {why}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        why: std::io::Error,
    },
    /// It does not look like one, nor is it a recording.
    #[error(transparent)]
    Recording(#[from] Error),
}

/// The rows of a recording, or of a profile of Coz: whichever `path` is.
///
/// # Errors
/// [`Unreadable`].
pub fn rows(path: &Path) -> Result<Rows, Unreadable> {
    match profile_of_coz(path)? {
        Some(content) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            super::read(&content, &name).map_err(|why| Unreadable::Coz { path: path.to_owned(), why })
        }
        None => Ok(Recording::open(path)?.rows()?),
    }
}

/// What [`rows`] say, estimated in the usual way.
///
/// # Errors
/// [`Unreadable`].
pub fn load(path: &Path) -> Result<Profile, Unreadable> {
    Ok(Profile::new(rows(path)?, &EstimateOptions::default()).read_from(path))
}

/// Whether the file is a profile of Coz that can be read.
pub fn is_profile_of_coz(path: &Path) -> bool {
    matches!(profile_of_coz(path), Ok(Some(_)))
}

/// What is in the file, if it is a profile of Coz.
fn profile_of_coz(path: &Path) -> Result<Option<Vec<u8>>, Unreadable> {
    // What cannot be opened is told by those who read recordings.
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    let mut content = Vec::new();
    if file.by_ref().take(BYTES_THAT_TELL).read_to_end(&mut content).is_err() {
        return Ok(None);
    }
    if content.starts_with(DATABASE) || !super::is_profile(&content) {
        return Ok(None);
    }
    let rest = file.read_to_end(&mut content);
    rest.map_err(|why| Unreadable::Io { path: path.to_owned(), why })?;
    Ok(Some(content))
}
