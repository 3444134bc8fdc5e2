//! `whatif`: what would happen to your program if this code were faster?

#![forbid(unsafe_code)]

mod ab;
mod answer;
mod cli;
mod collect;
mod compare;
mod condition;
mod continuous;
mod doctor;
mod import;
mod live;
mod merge;
mod open;
mod pass;
mod run;
mod show;
mod site;
mod visitors;
mod watch;

use clap::Parser as _;
use cli::{Cli, Command};
use controller::{FAILED, Usage, launch};

/// A thread that panics ends the process.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort()
    }));
}

fn main() {
    abort_on_panic();
    // A file that becomes too large is an error with a message. The program that is profiled gets the signal as we did.
    kernel::signals::ignore(signal_hook::consts::SIGXFSZ);
    let command = match Cli::parse().command {
        Command::Points(args) => args.as_run().unwrap_or_else(|error| error.exit()).command,
        command => command,
    };
    let result = match command {
        Command::Points(_) => unreachable!("it has become a run"),
        Command::Run(args) => run::run(&args).map(|(exit, status)| match exit {
            launch::Exit::Code(0) => std::process::exit(status),
            exit => launch::finish(exit),
        }),
        Command::Report(args) => show::report(&args),
        Command::Doctor(args) => doctor::doctor(&args).map(|status| std::process::exit(status)),
        Command::Merge(args) => merge::merge(&args),
        Command::Import(args) => import::import(&args),
        Command::Ab(args) => ab::ab(&args).map(|status| std::process::exit(status)),
        Command::Compare(args) => compare::compare(&args).map(|status| std::process::exit(status)),
        Command::Export(args) => show::export(&args),
        Command::Open(args) => open::open(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Collect(args) => collect::collect(&args),
        Command::Status(args) => collect::status(&args),
        Command::Cycles(command) => continuous::run(&command),
    };
    if let Err(error) = result {
        eprintln!("whatif: {error:#}");
        let of_launch = error.downcast_ref::<launch::LaunchError>().map(launch::LaunchError::exit_code);
        let of_usage = error.is::<Usage>().then_some(Usage::STATUS);
        std::process::exit(of_launch.or(of_usage).unwrap_or(FAILED));
    }
}
