//! Which database is asked, and since when.

use anyhow::{Context as _, Result};
use archive::UnixSeconds;
use std::path::{Path, PathBuf};

/// `--hint-db` and `--hint-since`, understood.
#[derive(Clone, Debug)]
pub struct Source {
    pub folder: PathBuf,
    pub since: UnixSeconds,
}

impl Source {
    /// Checks that there is a database, before any program starts.
    pub fn new(folder: &Path, since: &str) -> Result<Self> {
        let since = cycles::parse_time(since).map_err(anyhow::Error::msg).context("--hint-since")?;
        cycles::open(Some(folder)).context("--hint-db")?;
        Ok(Self { folder: folder.to_owned(), since })
    }
}
