//! What can be wrong between a database, a server and a question, and what to do about it.

use std::path::PathBuf;

/// Why something was not sent, or not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not answer, or a shard of it.
    #[error(
        "{url} does not answer: {detail}\n  see whether the server runs and the address is right: curl {url}/ping"
    )]
    Away {
        /// Its address.
        url: String,
        /// What was heard instead.
        detail: String,
    },
    /// The server does not do what it was asked, and will not until a user or a setting is changed.
    #[error("{url} refuses: {detail}\n  {advice}")]
    Refused {
        /// Its address.
        url: String,
        /// What it said.
        detail: String,
        /// What helps.
        advice: String,
    },
    /// The server could not do what it was asked, and may be able to later.
    #[error("{url} answers with an error: {detail}\n  {advice}")]
    Failed {
        /// Its address.
        url: String,
        /// What it said.
        detail: String,
        /// What helps.
        advice: String,
    },
    /// A request of this name is running, from a sender that was killed.
    #[error(
        "{url} is still busy with the same batch, sent earlier\n  it ends by itself: try again in a minute"
    )]
    Busy {
        /// Its address.
        url: String,
    },
    /// The tables are not there, or older.
    #[error(
        "{url} has no tables for this whatif in the database {database} (version {found}; needed is {needed})\n  {advice}"
    )]
    Tables {
        /// Its address.
        url: String,
        /// The database there.
        database: String,
        /// The version that was found; zero: none.
        found: u32,
        /// The one that this program knows.
        needed: u32,
        /// What helps.
        advice: String,
    },
    /// The local database.
    #[error(transparent)]
    Database(#[from] storage::Error),
    /// The analysis says why and what to do.
    #[error("{0}")]
    Analysis(String),
    /// What was typed, with what to type instead.
    #[error("{0}")]
    Usage(String),
    /// The note of what was sent.
    #[error("cannot keep the note of what was sent, {path}: {detail}\n  {advice}")]
    Note {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
        /// What helps.
        advice: String,
    },
    /// No runs under causal profiling.
    #[error(
        "{place} has no runs of experiments {asked}\n  choose others, or send some: whatif run -o FILE -- PROGRAM, and then whatif fleet push --recordings FILE"
    )]
    NoRuns {
        /// The server, or the folder.
        place: String,
        /// What was asked for.
        asked: String,
    },
    /// No samples.
    #[error(
        "{place} has no samples {asked}\n  choose another time with --since and --until; only whole hours are sent: whatif fleet status"
    )]
    Nothing {
        /// The server or the folder.
        place: String,
        /// What was asked for.
        asked: String,
    },
}

impl Error {
    /// Whether it may be over if one waits.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Error::Away { .. } | Error::Busy { .. } | Error::Failed { .. })
    }
}

/// What `cycles` says, with all that led to it.
pub fn of_analysis(error: anyhow::Error) -> Error {
    Error::Analysis(format!("{error:#}"))
}
