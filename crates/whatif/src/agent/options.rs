//! What was typed, as what it means.

use super::cli::{Agent, Service as Typed};
use super::file;
use crate::continuous::bytes;
use crate::percent::percent;
use anyhow::{Context as _, Result, bail, ensure};
use controller::Guard;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// No more of the time is one attached to.
const MOST_DUTY: f64 = 0.5;
/// Sessions that are shorter hold too few experiments for what attaching takes, and longer ones are no samples of the day.
const SESSIONS: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(3600);
/// Less has no room for a few recordings.
const LEAST_SPOOL: u64 = 1_000_000;

/// What `whatif agent` is to do.
#[derive(Debug)]
pub struct Options {
    pub folder: PathBuf,
    pub services: Vec<Service>,
    /// Parts of the time, from 0 to 1.
    pub duty: f64,
    pub most_delay: f64,
    pub most_speedup: f64,
    /// How long sessions are, on average.
    pub session: Duration,
    pub kill_switch: Option<PathBuf>,
    /// Bytes of recordings.
    pub max_spool: u64,
    pub collects: bool,
    pub collect_options: Vec<String>,
    /// The server, if there is one.
    pub at: Option<fleet::arguments::At>,
    pub seed: u64,
    pub quiet: bool,
}

/// A service that opted in.
#[derive(Clone, Debug)]
pub struct Service {
    /// What it is called in recordings.
    pub name: String,
    /// How `whatif attach` finds it: `--unit`, `--cgroup` or `--name`, and what follows.
    pub which: (&'static str, String),
    pub points: Vec<String>,
    pub latencies: Vec<String>,
    pub scopes: Vec<String>,
    pub binaries: Vec<String>,
    /// What the session looks at.
    pub guards: Vec<Guard>,
    /// What the agent looks at.
    pub health: Vec<String>,
}

impl Options {
    pub fn of(args: &Agent) -> Result<Self> {
        if let Some(path) = &args.typed.config {
            // `whatif agent` is all that stands before the options.
            return Self::of(&file::with(path, std::env::args_os().skip(2))?);
        }
        let Agent { typed, services } = args;
        let duty = percent("--duty", &typed.duty)?;
        ensure!(
            duty <= MOST_DUTY,
            "--duty {}: give at most {:.0} %; a program is profiled for longer with whatif attach",
            typed.duty,
            100.0 * MOST_DUTY
        );
        ensure!(
            SESSIONS.contains(&typed.session),
            "--session: give from 2s to 1h; several short ones see more of the day than a long one"
        );
        let max_spool = bytes(&typed.max_spool).with_context(|| {
            format!("--max-spool {} is no size; give bytes, or such as 40M or 2G", typed.max_spool)
        })?;
        ensure!(
            max_spool >= LEAST_SPOOL,
            "--max-spool {} has no room for recordings; give 1M or more",
            typed.max_spool
        );
        let services = services.iter().map(Service::of).collect::<Result<Vec<_>>>()?;
        let mut names = BTreeSet::new();
        for service in &services {
            ensure!(
                names.insert(service.name.clone()),
                "two services are called {}; tell them apart with --service NAME",
                service.name
            );
        }
        ensure!(
            !services.is_empty() || !typed.no_collect,
            "there is nothing to do; name a service with --experiment unit=NAME, or leave --no-collect out\n{}",
            super::cli::usage()
        );
        ensure!(
            typed.collect_options.is_empty() || !typed.no_collect,
            "--collect-option is for the collector, which --no-collect does not start; leave one of them out"
        );
        let has_url =
            typed.at.url.is_some() || std::env::var_os("WHATIF_FLEET_URL").is_some_and(|url| !url.is_empty());
        Ok(Self {
            folder: cycles::default_folder(typed.folder.db.as_deref())?,
            services,
            duty,
            most_delay: percent("--most-delay", &typed.most_delay)?,
            most_speedup: percent("--most-speedup", &typed.most_speedup)?,
            session: typed.session,
            kill_switch: typed.kill_switch.clone(),
            max_spool,
            collects: !typed.no_collect,
            collect_options: typed.collect_options.clone(),
            at: has_url.then(|| typed.at.clone()),
            seed: typed.seed.unwrap_or_else(|| fastrand::u64(..)),
            quiet: typed.quiet,
        })
    }
}

impl Service {
    fn of(typed: &Typed) -> Result<Self> {
        let which = typed.which.split_once('=').map(|(by, what)| (by.trim(), what.trim()));
        let option = match which {
            Some(("unit", what)) if !what.is_empty() => "--unit",
            Some(("cgroup", what)) if !what.is_empty() => "--cgroup",
            Some(("name", what)) if !what.is_empty() => "--name",
            _ => bail!(
                "--experiment {}: say how the service is found: unit=NAME, cgroup=GLOB or name=GLOB, as in --experiment unit=shop.service",
                typed.which
            ),
        };
        let what = which.map(|(_, what)| what.to_owned()).unwrap_or_default();
        ensure!(
            !typed.points.is_empty() || !typed.latencies.is_empty(),
            "--experiment {0} is without a progress point: say behind it what counts as a unit of work, as in --experiment {0} --point fn:handle",
            typed.which
        );
        controller::check_places(&typed.points, &typed.latencies, &[])?;
        let (mut guards, mut health) = (Vec::new(), Vec::new());
        for text in &typed.guards {
            match text.split_once(':').filter(|(word, _)| word.trim() == "health") {
                Some((_, command)) if command.trim().is_empty() => {
                    bail!("--guard {text}: there is no command; write 'health: COMMAND'")
                }
                Some((_, command)) => health.push(command.trim().to_owned()),
                None => {
                    let guard: Guard = text
                        .parse()
                        .map_err(|error| anyhow::anyhow!("--guard {text}: {error}; or 'health: COMMAND'"))?;
                    ensure!(
                        !guard.is_about_latency() || !typed.latencies.is_empty(),
                        "--guard {text} is about latency, and nothing of --experiment {} is measured: add --latency BEGIN..END",
                        typed.which
                    );
                    guards.push(guard);
                }
            }
        }
        let name = typed.name.clone().unwrap_or_else(|| what.clone());
        ensure!(
            !name.trim().is_empty() && !name.contains(char::is_control),
            "--service {name:?} is no name; take what people call the service"
        );
        Ok(Self {
            name,
            which: (option, what),
            points: typed.points.clone(),
            latencies: typed.latencies.clone(),
            scopes: typed.scopes.clone(),
            binaries: typed.binaries.clone(),
            guards,
            health,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn options(line: &str) -> Result<Options> {
        let words = line.split('|').map(OsString::from);
        Options::of(&Agent::with(std::iter::once("whatif agent".into()).chain(words).collect())?)
    }

    #[test]
    fn what_is_right() {
        let all = options(
            "--db|x|--experiment|unit=shop.service|-p|fn:handle|--guard|throughput < 80%|--guard|health: curl -f localhost|--experiment|name=pay*\
             |-p|fn:pay|--service|pay",
        )
        .unwrap();
        assert_eq!(
            (all.duty, all.most_delay, all.most_speedup, all.session),
            (0.02, 0.002, 0.5, Duration::from_secs(30))
        );
        let [shop, pay] = &all.services[..] else { panic!("{all:?}") };
        assert_eq!(
            (shop.name.as_str(), &shop.which, shop.guards.len()),
            ("shop.service", &("--unit", "shop.service".to_owned()), 1)
        );
        assert_eq!((&shop.health[..], pay.name.as_str()), (&["curl -f localhost".to_owned()][..], "pay"));
        assert!(options("--db|x").unwrap().services.is_empty(), "the collector alone");
    }

    #[test]
    fn mistakes_say_what_is_right() {
        for (line, what) in [
            ("--no-collect", "--experiment unit=NAME"),
            ("--experiment|shop|-p|fn:a", "unit=NAME, cgroup=GLOB or name=GLOB"),
            ("--experiment|unit=|-p|fn:a", "unit=NAME"),
            ("--experiment|unit=shop", "--point fn:handle"),
            ("--experiment|unit=shop|-p|fn:a|--guard|errors > 1", "'health: COMMAND'"),
            ("--experiment|unit=shop|-p|fn:a|--guard|health:", "there is no command"),
            ("--experiment|unit=shop|-p|fn:a|--guard|latency > 5ms", "--latency BEGIN..END"),
            ("--experiment|unit=shop|-p|fn:a|--experiment|unit=shop|-p|fn:b", "--service NAME"),
            ("--duty|80%", "at most 50 %"),
            ("--duty|0", "--duty 0: give a percentage"),
            ("--most-delay|x", "--most-delay x"),
            ("--max-spool|1k", "1M or more"),
            ("--session|1s", "from 2s"),
            ("--no-collect|--collect-option|--rate=9|--experiment|unit=a|-p|fn:a", "leave one of them out"),
        ] {
            let error = format!("{:#}", options(line).unwrap_err());
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
