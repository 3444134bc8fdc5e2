//! Profiles of many machines: what `whatif collect` keeps on each of them, and what experiments have recorded there, in one ClickHouse.
//!
//! **Does:** make the tables ([`init`](command::init)), send what a database and recordings have and the server has not ([`push`](command::push)), and answer `top`, `flame`, `diff` and `worth` over all
//! machines from the server; or, with the same code and to the last digit the same (until hours are thinned out), from a local database and recordings.
//!
//! **Does not:** take samples, look into programs for names (`cycles` does), estimate (`cycles` does), or draw (`report` does).
//!
//! **Constraints:** no unsafe code. The local database is what is sent, and stays as it is: there is no second spool. A batch is an hour of an epoch; it is
//! sent as one block that the server takes whole or not at all, and it is only sent after the server has said that it has nothing of it. So are the windows of a run
//! under causal profiling.
//!
//! **Place:** sample → count → store → **send → query** → report, and sample → delay → experiment → record → **send → profile** → report.
#![forbid(unsafe_code)]

mod answers;
// Their doc comments are the help texts that clap prints.
#[allow(missing_docs)]
pub mod arguments;
mod batch;
mod code;
pub mod command;
mod cost;
mod error;
mod evidence;
mod flame;
mod hour;
mod local;
mod order;
mod question;
mod ran;
mod recordings;
mod remote;
mod response;
mod row_binary;
mod run;
mod run_rows;
mod run_sender;
mod run_source;
mod sender;
mod sent;
mod server;
mod source;
mod stack_hash;
mod stacks;
mod standing;
mod store;
mod tables;
mod tried;
mod worth;
mod worth_text;

pub use answers::{Host, Hosts};
pub use error::Error;
pub use hour::Hour;
pub use order::Order;
pub use run::Named;
pub use sender::Pushed;
pub use sent::is_sent;
pub use standing::{BrokenRun, Doubt, Standing, Table};
pub use worth::{ChangeRow, CodeAt, CodeRow, Cores, CostOf, Numbers, VersionRow, Worths};
