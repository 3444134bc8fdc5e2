//! What can be typed after `whatif agent`.

use clap::{Args, CommandFactory as _, FromArgMatches, Subcommand};
use cycles::arguments::Folder;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What was typed, and the services that it names.
#[derive(Debug)]
pub struct Agent {
    pub typed: Typed,
    pub services: Vec<Service>,
}

#[derive(Debug, Args)]
pub struct Typed {
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub folder: Folder,

    /// Read options from this file, one a line, without quotes: 'guard throughput < 80%'
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Make experiments on these processes: unit=NAME of systemd, cgroup=GLOB for the path of a control group, or name=GLOB of the program or
    /// process; may be given several times, each with its own options behind it
    #[arg(long = "experiment", value_name = "WHICH")]
    pub experiments: Vec<String>,

    /// Of the service before: count visits to this place as progress (as in whatif attach)
    #[arg(short = 'p', long = "point", value_name = "PLACE")]
    pub points: Vec<String>,

    /// Of the service before: measure the time from BEGIN to END, as in fn:receive..fn:answer
    #[arg(long = "latency", value_name = "BEGIN..END")]
    pub latencies: Vec<String>,

    /// Of the service before: end experiments at once when this is so, and keep away for a while: 'throughput < 80%' (of what it was before the
    /// first experiment), 'throughput(POINT) < 500/s', 'latency > 20ms', 'cpu > 90%' (of this machine), each also with 'over 5s'
    /// behind it, or 'health: COMMAND', where the command does not succeed within 5 seconds
    #[arg(long = "guard", value_name = "CONDITION")]
    pub guards: Vec<String>,

    /// Of the service before: what it is called in the state and in names of recordings [default: the name or glob that it was found by]
    #[arg(long = "service", value_name = "NAME")]
    pub names: Vec<String>,

    /// Of the service before: source files that experiments may be about
    #[arg(long = "scope", value_name = "GLOB")]
    pub scopes: Vec<String>,

    /// Of the service before: programs and libraries that experiments may be about
    #[arg(long = "binary", value_name = "GLOB")]
    pub binaries: Vec<String>,

    /// Attach to each service for this part of the time
    #[arg(long, value_name = "PERCENT", default_value = "2%", allow_hyphen_values = true)]
    pub duty: String,

    /// For so long each time, on average; the moments are random (a Poisson process)
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = controller::span::parse)]
    pub session: Duration,

    /// Delay the threads of each service for no more than this part of the time
    #[arg(long, value_name = "PERCENT", default_value = "0.2%", allow_hyphen_values = true)]
    pub most_delay: String,

    /// Try no virtual speedup that is larger
    #[arg(long, value_name = "PERCENT", default_value = "50%", allow_hyphen_values = true)]
    pub most_speedup: String,

    /// Make no experiments while this file exists, and end those that are under way when it appears
    #[arg(long, value_name = "FILE")]
    pub kill_switch: Option<PathBuf>,

    /// Keep at most this much of recordings; the oldest are removed first
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub max_spool: String,

    /// Do not start the collector: it runs already, or is not wanted
    #[arg(long)]
    pub no_collect: bool,

    /// An option for the collector, as in --collect-option=--rate=49; may be given several times
    #[arg(long = "collect-option", value_name = "OPTION", allow_hyphen_values = true)]
    pub collect_options: Vec<String>,

    #[command(flatten)]
    pub at: fleet::arguments::At,

    /// Seed of all random choices [default: a new one]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Say nothing but what went wrong
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what the agent does, and what it has done to each service
    #[command(after_help = "Example: sudo whatif agent status")]
    Status(Status),
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub folder: Folder,

    /// As JSON (docs/fleet.md)
    #[arg(long)]
    pub json: bool,
}

/// A service and the options behind it, as they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    pub which: String,
    pub name: Option<String>,
    pub points: Vec<String>,
    pub latencies: Vec<String>,
    pub guards: Vec<String>,
    pub scopes: Vec<String>,
    pub binaries: Vec<String>,
}

/// The options of a service, by their names in [`Typed`], as they are typed.
const OF_SERVICES: [(&str, &str); 6] = [
    ("points", "point"),
    ("latencies", "latency"),
    ("guards", "guard"),
    ("names", "service"),
    ("scopes", "scope"),
    ("binaries", "binary"),
];

impl Agent {
    /// The same command, with the options of a file before those that were typed.
    ///
    /// # Errors
    /// What is wrong in the file, or with both together.
    pub fn with(words: Vec<OsString>) -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("whatif agent"));
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    /// The long names of options, and whether a value follows.
    pub fn options() -> Vec<(String, bool)> {
        let command = Self::augment_args(clap::Command::new("agent"));
        let option = |argument: &clap::Arg| {
            Some((argument.get_long()?.to_owned(), argument.get_action().takes_values()))
        };
        command.get_arguments().filter_map(option).collect()
    }
}

impl Args for Agent {
    fn augment_args(command: clap::Command) -> clap::Command {
        Typed::augment_args(command).args_override_self(true).args_conflicts_with_subcommands(true)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Agent {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let typed = Typed::from_arg_matches(matches)?;
        if typed.command.is_some() {
            return Ok(Self { typed, services: Vec::new() });
        }
        let places = |id: &str| -> Vec<usize> {
            // With no value there is no place, and none of these has a default.
            matches.indices_of(id).into_iter().flatten().collect()
        };
        let begins = places("experiments");
        let mut services: Vec<Service> = typed
            .experiments
            .iter()
            .map(|which| Service { which: which.clone(), ..Service::default() })
            .collect();
        for (id, option) in OF_SERVICES {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            for (value, at) in values.zip(places(id)) {
                let before = begins.partition_point(|begin| *begin < at);
                let Some(service) = before.checked_sub(1).and_then(|nth| services.get_mut(nth)) else {
                    let text = format!(
                        "--{option} {value} is about no service: give it behind the --experiment that it belongs to\n"
                    );
                    return Err(clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, text));
                };
                let list = match id {
                    "points" => &mut service.points,
                    "latencies" => &mut service.latencies,
                    "guards" => &mut service.guards,
                    "scopes" => &mut service.scopes,
                    "binaries" => &mut service.binaries,
                    _ => {
                        service.name = Some(value.clone());
                        continue;
                    }
                };
                list.push(value.clone());
            }
        }
        Ok(Self { typed, services })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The whole command line, for messages.
pub fn usage() -> String {
    crate::cli::Cli::command()
        .find_subcommand_mut("agent")
        .map(|command| command.render_usage().to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Result<Agent, clap::Error> {
        Agent::with(["whatif agent"].iter().chain(words).map(OsString::from).collect())
    }

    #[test]
    fn options_belong_to_the_service_before_them() {
        let agent = typed(&[
            "--duty",
            "3%",
            "--experiment",
            "unit=shop",
            "-p",
            "fn:a",
            "--guard",
            "cpu > 90%",
            "--experiment",
            "name=pay*",
            "--point",
            "fn:b",
            "--guard=health: true",
            "--service",
            "pay",
            "-p",
            "fn:c",
            "--session",
            "10s",
        ])
        .unwrap();
        let [shop, pay] = &agent.services[..] else { panic!("{agent:?}") };
        assert_eq!(
            (&*shop.which, &shop.points[..], &shop.guards[..]),
            ("unit=shop", &["fn:a".to_owned()][..], &["cpu > 90%".to_owned()][..])
        );
        assert_eq!(
            (&*pay.which, &pay.points[..]),
            ("name=pay*", &["fn:b".to_owned(), "fn:c".to_owned()][..])
        );
        assert_eq!(
            (pay.guards[0].as_str(), pay.name.as_deref(), shop.name.as_deref()),
            ("health: true", Some("pay"), None)
        );
        assert_eq!((agent.typed.duty.as_str(), agent.typed.session), ("3%", Duration::from_secs(10)));
        let error = typed(&["-p", "fn:a", "--experiment", "unit=shop"]).unwrap_err().to_string();
        assert!(error.contains("behind the --experiment"), "{error}");
        // What is typed later counts.
        assert_eq!(typed(&["--duty", "3%", "--duty", "4%"]).unwrap().typed.duty, "4%");
    }
}
