//! `whatif`: what would happen to your program if this code were faster?

#![forbid(unsafe_code)]

mod cli;
mod compare;
mod embedded;
mod launch;
mod merge;
mod run;
mod show;

use clap::Parser as _;
use cli::{Cli, Command};

/// Exit status when `whatif` itself failed.
const FAILED: i32 = 90;

fn main() {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args).map(|(exit, status)| match exit {
            launch::Exit::Code(0) => std::process::exit(status),
            exit => launch::finish(exit),
        }),
        Command::Report(args) => show::report(&args),
        Command::Merge(args) => merge::merge(&args),
        Command::Compare(args) => compare::compare(&args).map(|status| std::process::exit(status)),
        Command::Export(args) => show::export(&args),
    };
    if let Err(error) = result {
        eprintln!("whatif: {error:#}");
        let status =
            error.downcast_ref::<launch::LaunchError>().map_or(FAILED, launch::LaunchError::exit_code);
        std::process::exit(status);
    }
}
