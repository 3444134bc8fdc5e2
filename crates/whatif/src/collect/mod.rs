//! `whatif collect` and `whatif status`: continuous profiling as a service.
//!
//! **Does:** let the collector run, write what it has counted into the database, keep both within their budgets, and say
//! how it goes. **Does not:** sample or count (`collect`), or know files (`archive`).
//! **Constraints:** whatever happens to disk, clock or process, at most one interval is lost, and nothing without being
//! counted. **Place:** sample → **record** → profile → report.

pub mod cli;
mod diary;
mod events;
mod exporter;
mod exposition;
mod label;
mod metrics;
mod options;
mod pending;
mod service;
mod status;
mod unit;

pub use status::status;

use anyhow::Result;
use options::Options;

/// `whatif collect`.
pub fn collect(args: &cli::Collect) -> Result<()> {
    match args.print {
        Some(cli::Print::Unit) => {
            let metrics = args.metrics.as_deref().map(exporter::address).transpose();
            let metrics = metrics.map_err(controller::Usage::of)?;
            crate::show::print(&unit::text(&std::env::current_exe()?, metrics))
        }
        None => service::run(&Options::of(args).map_err(controller::Usage::of)?),
    }
}
