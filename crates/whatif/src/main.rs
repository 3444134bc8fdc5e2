//! `whatif`: what would happen to your program if this code were faster?

#![forbid(unsafe_code)]

mod ab;
mod agent;
mod answer;
mod cli;
mod collect;
mod compare;
mod completions;
mod continuous;
mod doctor;
mod fleet;
mod head;
mod import;
mod live;
mod manual;
mod mcp;
mod merge;
mod open;
mod overview;
mod pass;
mod percent;
mod run;
mod settings;
mod show;
mod site;
mod version;
mod visitors;
mod watch;

use cli::{Cli, Command, Db, DbCommand, Fleet};
use controller::{FAILED, Usage, launch};

/// A thread that panics ends the process; but a program that is being profiled ends first, as it would have, and its end is ours.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        if let Some(exit) = launch::wait_for_the_program() {
            launch::finish(exit);
        }
        std::process::abort()
    }));
}

/// Ends with this status, if it is not that of success.
fn end_with(status: i32) {
    if status != 0 {
        std::process::exit(status);
    }
}

fn main() {
    agent::ends_with_its_parent();
    abort_on_panic();
    // A file that becomes too large is an error with a message. The program that is profiled gets the signal as we did.
    kernel::signals::ignore(signal_hook::consts::SIGXFSZ);
    if std::env::args_os().len() < 2 {
        let _ = show::print(overview::WELCOME);
        return;
    }
    let command = match Cli::of_arguments().command {
        Command::Points(args) => args.as_run().unwrap_or_else(|error| error.exit()).command,
        Command::Former(former) => Command::Db(Db { command: former.now() }),
        command => command,
    };
    let result = match command {
        Command::Points(_) | Command::Former(_) => unreachable!("it has become another one"),
        Command::Run(args) => run::run(&args).map(|(exit, status)| match exit {
            launch::Exit::Code(0) => std::process::exit(status),
            exit => launch::finish(exit),
        }),
        Command::Attach(mut args) => run::attach(&mut args).map(|status| std::process::exit(status)),
        Command::AttachGuardian { pid } => std::process::exit(controller::attach::guard(pid)),
        Command::Report(args) => show::report(&args),
        Command::Doctor(args) => doctor::doctor(&args).map(|status| std::process::exit(status)),
        Command::Ab(args) => ab::ab(&args).map(|status| std::process::exit(status)),
        Command::Compare(args) => compare::compare(&args).map(|status| std::process::exit(status)),
        Command::Export(args) => show::export(&args),
        Command::Open(args) => open::open(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Collect(args) => collect::collect(&args),
        Command::Agent(args) => agent::agent(&args),
        Command::Status(args) => collect::status(&args),
        Command::Cycles(command) => continuous::run(&command).map(end_with),
        Command::Fleet(Fleet { command }) => fleet::fleet(&command).map(end_with),
        Command::Db(Db { command: DbCommand::Merge(args) }) => merge::merge(&args),
        Command::Db(Db { command: DbCommand::Import(args) }) => import::import(&args),
        Command::Db(Db { command: DbCommand::Cycles(command) }) => continuous::care(&command),
        Command::Completions(args) => completions::print(args.shell),
        Command::Mcp => mcp::mcp(),
        Command::Man(args) => manual::write(&args.folder),
    };
    if let Err(error) = result {
        kernel::say!("whatif: {error:#}");
        let of_launch = error.downcast_ref::<launch::LaunchError>().map(launch::LaunchError::exit_code);
        let of_usage = error.is::<Usage>().then_some(Usage::STATUS);
        std::process::exit(of_launch.or(of_usage).unwrap_or(FAILED));
    }
}
