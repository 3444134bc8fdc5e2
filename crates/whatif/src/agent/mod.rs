//! `whatif agent`: the collector, and causal experiments on services that opted in, for a small part of the time and at random moments.
//!
//! **Does:** keep the collector and the sender running (`companion`), choose moments (`schedule`) within a budget of delay (`budget`), begin and watch sessions (`session`: each is a
//! `whatif attach` of its own), end them when a health command fails (`health`) or a kill switch is on (`switch`), keep away from a service after that (`back_off`), keep finished
//! recordings within bounds (`spool`) and say how it all goes (`state`).
//!
//! **Does not:** sample, delay or estimate; or look at throughput, latency and CPUs: the session does, which has the counters (`controller`).
//!
//! **Constraints:** one thread decides everything, and waits for nothing: what may take long has a thread or process of its own. Whatever becomes of this process, services are let go, for sessions
//! end with it.
//!
//! **Place:** sample → delay → **experiment → record** → profile → report, again and again.

mod back_off;
mod budget;
pub mod cli;
mod companion;
mod file;
mod health;
mod options;
mod schedule;
mod service;
mod session;
mod spool;
mod state;
mod supervisor;
mod switch;

pub use companion::ends_with_its_parent;

use anyhow::Result;
use controller::Usage;

/// `whatif agent`.
pub fn agent(args: &cli::Agent) -> Result<()> {
    match &args.typed.command {
        Some(cli::Command::Status(args)) => state::status(args),
        None => supervisor::run(options::Options::of(args).map_err(Usage::of)?),
    }
}
