//! The database: one SQLite file that outlives everything that writes to it.
//!
//! **Does:** keep the rows of a recording ([`Recorder`]), give them back ([`Recording`]), and say in
//! plain words what is wrong with a file ([`Error`](storage::Error)).
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
//! **Place:** sample → delay → experiment → **record** → profile → report. The tables are documented,
//! created and upgraded in `storage::schema`.

mod fault;
mod recorder;
mod recording;
mod references;
mod stack;

pub use recorder::Recorder;
pub use recording::Recording;
