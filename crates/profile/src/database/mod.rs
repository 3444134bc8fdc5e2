//! The database: one SQLite file that outlives everything that writes to it.
//!
//! **Does:** keep the rows of a recording ([`Recorder`]), give them back ([`Recording`]), and say in
//! plain words what is wrong with a file ([`Error`]).
//!
//! **Does not:** compute. The only thing it derives is the view `window_points`, for people with a
//! `sqlite3` prompt.
//!
//! **Constraints:** whatever kills the writer, what it recorded until then can be read: every block of
//! windows is one transaction in a write-ahead log, and the log is folded into the file when the
//! writer closes, so a finished recording is a single file. Readers never wait for the writer, nor
//! the writer for them. (After a power failure the last transactions may be missing, but the file is
//! whole: `synchronous = NORMAL`.)
//!
//! **Place:** sample → delay → experiment → **record** → profile → report. The tables are documented
//! in `schema.rs`.

mod connect;
mod error;
mod recorder;
mod recording;
pub(crate) mod schema;

pub(crate) use connect::{Opened, open_read_only};
pub use error::Error;
pub use recorder::Recorder;
pub use recording::Recording;

use crate::units::Nanos;

/// An unsigned number as SQLite keeps it. Beyond 2⁶³ (292 years of nanoseconds) it stays at the top.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A span as SQLite keeps it.
pub(crate) fn ns(span: Nanos) -> i64 {
    integer(span.get())
}
