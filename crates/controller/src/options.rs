//! What the command line means.

use crate::arguments;
use crate::code_scope::CodeScope;
use crate::experiment::Choices;
use crate::hint::Source;
use crate::limits::{self, AskedLimits, Limits};
use crate::naming::Naming;
use crate::points::PointSpec;
use crate::region::RegionSpec;
use anyhow::{Context as _, Result, bail, ensure};
use profile::{Interpreter, Speedup};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wire::arrivals::Clock;
use wire::layout::Sampler;

/// The CPU time between two samples in microseconds, unless something else is asked for.
const PERIOD: u64 = 1000;

/// What the program is sampled for without experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survey {
    /// Code that experiments could be about.
    Regions,
    /// Places that could be progress points.
    Points,
}

/// A run, decided.
#[derive(Debug)]
pub struct Options {
    pub output: PathBuf,
    /// What knows where production spends its time.
    pub hint: Option<Source>,
    /// What to look for instead of experiments, without a recording that is kept.
    pub survey: Option<Survey>,
    /// Where places that could be progress points are written as JSON.
    pub suggestions: Option<PathBuf>,
    _scratch: Option<tempfile::TempDir>,
    /// The program and its arguments, for messages.
    pub program: Vec<String>,
    /// The name of the file whose code runs.
    pub file: String,
    pub regions: Vec<RegionSpec>,
    /// Progress points to be placed from outside.
    pub points: Vec<PointSpec>,
    pub granularity: arguments::Granularity,
    /// Whether instances of generic functions are regions of their own.
    pub instances: bool,
    pub choices: Choices,
    pub fixed_speedups: bool,
    pub duration: Option<Duration>,
    /// As many windows end the experiments.
    pub windows: Option<usize>,
    /// Whether to run the program again until the answer is sure.
    until_sure: bool,
    /// Whether no option says when to stop.
    pub leaves_alone: bool,
    /// Half the width of the interval that counts as sure, as a fraction of the period.
    pub precision: f64,
    /// Whether each run is one window.
    pub end_to_end: bool,
    /// How often to run the program at most.
    pub repeat: Option<u32>,
    pub then: arguments::Then,
    /// Which process ends a run, if the user says so.
    pub until_exit: Option<arguments::UntilExit>,
    /// What asks the program to end.
    pub stop_signal: Signal,
    pub seed: u64,
    pub scope: CodeScope,
    /// The options that say what is in scope, as they were typed.
    pub in_scope: Vec<String>,
    pub period: profile::Nanos,
    /// Whether that is to stay so.
    pub fixed_period: bool,
    /// The most capable sampler that may be used; none if nothing is to be sampled.
    pub sampler: Sampler,
    /// What the user says of a server's clients.
    pub clients: Clock,
    /// Rules of virtual time that are switched off, as bits.
    pub without_rules: u32,
    /// Faults that are injected on purpose, as bits.
    pub faults: u32,
    pub quiet: bool,
    /// Whether the program has run before, and goes on when it is no longer profiled.
    pub is_attached: bool,
    /// What ends experiments before their time.
    pub limits: Limits,
    /// The options as they were typed, for the recording.
    pub typed: String,
}

impl Options {
    /// Whether threads are sampled at all.
    pub fn sampling(&self) -> bool {
        self.sampler != Sampler::None
    }

    /// Threads that run for a shorter time than this at a time are sampled by a timer, which costs nothing when they get or lose their CPU; zero if none is to be. On hardware
    /// that costs an event a fraction of a microsecond, and nobody who asks for a period wants the kernel's tick.
    pub fn short_run(&self) -> profile::Nanos {
        /// A twentieth of it goes to the event, at 12 µs for each time (measured in a virtual machine within another).
        const SHORT: profile::Nanos = profile::Nanos::from_micros(250);
        let costs = kernel::cpu::is_virtual() == Some(true);
        if costs && self.sampler == Sampler::Perf && !self.fixed_period {
            SHORT
        } else {
            profile::Nanos::ZERO
        }
    }

    /// Decides what was typed. `program` is the file that will be run.
    pub fn new(args: &arguments::Run, program: &Path) -> Result<Self> {
        let fixed_speedups = !args.speedups.is_empty();
        let choices = if args.no_delays {
            Choices { speedups: vec![Speedup::ZERO] }
        } else if fixed_speedups {
            Choices { speedups: args.speedups.iter().map(|text| speedup(text)).collect::<Result<_>>()? }
        } else {
            Choices::every_five_per_cent()
        };
        let scope = CodeScope::new(args)?;
        for region in &args.regions {
            ensure!(!region.trim().is_empty(), "--region is empty: name a FUNCTION or FILE:LINE");
        }
        ensure!(
            !(args.end_to_end && args.granularity == arguments::Granularity::Path),
            "--end-to-end and --granularity path do not go together; name paths with --region FUNCTION@CALLER"
        );
        let points = PointSpec::all(&args.points, &args.latencies)?;
        let until_sure = args.until_sure || args.end_to_end;
        let leaves_alone = !until_sure
            && args.duration.is_none()
            && args.windows.is_none()
            && args.repeat.is_none()
            && !args.no_delays
            && !args.start_only
            && !args.list_regions
            && !args.suggest_points;
        let survey = match (args.list_regions, args.suggest_points) {
            (true, _) => Some(Survey::Regions),
            (_, true) => Some(Survey::Points),
            _ => None,
        };
        let scratch =
            survey.map(|_| tempfile::tempdir()).transpose().context("cannot make a temporary folder")?;
        let hint = args.hint_db.as_deref().map(|folder| Source::new(folder, &args.hint_since)).transpose()?;
        let output = match (&scratch, &args.output, &hint) {
            (Some(folder), ..) => folder.path().join("survey.db"),
            (None, Some(output), _) => output.clone(),
            (None, None, None) => default_output(Path::new(""), program),
            (None, None, Some(hint)) => default_output(&beside(&hint.folder, args.quiet), program),
        };
        let usual = if leaves_alone { arguments::Then::Continue } else { arguments::Then::Terminate };
        Ok(Self {
            output,
            hint,
            survey,
            suggestions: args.suggestions.clone(),
            _scratch: scratch,
            program: args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            file: String::new(),
            regions: args.regions.iter().map(|region| RegionSpec::parse(region)).collect(),
            points,
            granularity: args.granularity,
            instances: args.instances,
            choices,
            fixed_speedups,
            duration: args.duration,
            windows: args.windows,
            until_sure,
            leaves_alone,
            precision: precision(&args.precision)?,
            end_to_end: args.end_to_end,
            repeat: args.repeat,
            then: args.then.unwrap_or(usual),
            until_exit: args.until_exit,
            stop_signal: args.stop_signal,
            seed: args.seed.unwrap_or_else(|| fastrand::u64(..) >> 16),
            scope,
            in_scope: in_scope(args),
            period: profile::Nanos::from_micros(args.period.unwrap_or(PERIOD)),
            fixed_period: args.period.is_some(),
            sampler: match args.sampler {
                _ if args.start_only => Sampler::None,
                arguments::HowToSample::Perf => Sampler::Perf,
                arguments::HowToSample::PerfUser => Sampler::PerfUser,
                arguments::HowToSample::Timer => Sampler::Timer,
            },
            clients: match args.clients {
                arguments::Clients::Auto => Clock::Undecided,
                arguments::Clients::Closed => Clock::Closed,
                arguments::Clients::Open => Clock::Open,
            },
            without_rules: args.without_rules.iter().fold(0, |bits, rule| bits | 1 << rule),
            faults: args.faults.iter().fold(0, |bits, fault| bits | fault_bit(*fault)),
            is_attached: false,
            limits: Limits::default(),
            quiet: args.quiet,
            typed: typed(args),
        })
    }
}

impl Options {
    /// Has experiments end when one of these limits is reached.
    ///
    /// # Errors
    /// What makes no sense, and what does.
    pub fn limit(&mut self, asked: &AskedLimits) -> Result<()> {
        self.limits = Limits::new(asked, self.duration)?;
        if let Some(most) = asked.most_speedup {
            self.choices =
                limits::up_to(most, std::mem::replace(&mut self.choices, Choices { speedups: Vec::new() }))?;
        }
        let guards: Vec<&str> = asked.guards.iter().map(|guard| guard.text.as_str()).collect();
        self.remember("guards", guards.into());
        self.remember("most_delay", asked.most_delay.into());
        self.remember("most_speedup", asked.most_speedup.into());
        Ok(())
    }

    /// Keeps something else with the options in the recording.
    fn remember(&mut self, name: &str, value: serde_json::Value) {
        if let Ok(serde_json::Value::Object(mut typed)) = serde_json::from_str(&self.typed) {
            typed.insert(name.to_owned(), value);
            self.typed = serde_json::Value::Object(typed).to_string();
        }
    }

    /// Keeps the command for the advice in reports: the program that is profiled is another one.
    pub fn remember_command(&mut self) {
        self.remember("command", self.program.clone().into());
    }

    /// Whether places are looked for whose visits may be progress, in a program that marks none.
    pub fn looks_for_point(&self) -> bool {
        let asked = self.choices.speedups.iter().any(|speedup| !speedup.is_zero());
        self.points.is_empty() && self.sampling() && self.survey.is_none() && !self.end_to_end && asked
    }

    /// What can be judged of a program that an interpreter runs, and how; `None` if this is no interpreter.
    pub fn of_interpreter(&self) -> Option<String> {
        Interpreter::of(&self.file).map(|known| format!("{}; {}", known.judged(), known.purpose()))
    }

    /// The same, with the command.
    pub fn of_interpreter_with_command(&self) -> Option<String> {
        let command = Interpreter::of(&self.file)?.command(&self.program);
        Some(format!("{}: {command}", self.of_interpreter()?))
    }

    /// Whether a run may go on with a daemon that the program has become. One of many is about what the program does itself.
    pub fn may_hold(&self) -> bool {
        self.repeat.is_none() && !self.end_to_end
    }

    /// Whether the program may be run several times.
    pub fn again(&self) -> bool {
        self.repeat.is_some() || self.until_sure
    }

    /// What regions are called that the user has not named.
    pub fn naming(&self) -> Naming {
        Naming { granularity: self.granularity, instances: self.instances }
    }

    /// Whether a sure answer ends the experiments.
    pub fn stops_when_sure(&self) -> bool {
        self.until_sure || self.leaves_alone
    }
}

fn speedup(text: &str) -> Result<Speedup> {
    let advice = "give per cents above 0 and up to 100, as in --speedup 25,50,100";
    let per_cent: f64 =
        text.trim().trim_end_matches('%').parse().with_context(|| format!("--speedup {text}: {advice}"))?;
    if !(per_cent > 0.0 && per_cent <= 100.0) {
        bail!("--speedup {text}: {advice} (baselines at 0 are always measured)");
    }
    Speedup::from_per_mille((per_cent * 10.0).round() as u16)
        .filter(|speedup| !speedup.is_zero())
        .with_context(|| format!("--speedup {text}: {advice}"))
}

fn precision(text: &str) -> Result<f64> {
    profile::relation::part(text)
        .with_context(|| format!("--precision {text}: give a per cent above 0, as in --precision 2%"))
}

fn in_scope(args: &arguments::Run) -> Vec<String> {
    let options = [("--scope", &args.scopes), ("--exclude", &args.excludes), ("--binary", &args.binaries)];
    let words = |(option, globs): (&'static str, &Vec<String>)| {
        globs.iter().flat_map(move |glob| [option.to_owned(), glob.clone()]).collect::<Vec<_>>()
    };
    options.into_iter().flat_map(words).collect()
}

/// The options that make another run measure the same.
fn to_measure_again(args: &arguments::Run) -> Vec<String> {
    let one = |option: &str, value: &String| [option.to_owned(), value.clone()];
    let places = args.points.iter().flat_map(|place| one("-p", place));
    let latencies = args.latencies.iter().flat_map(|span| one("--latency", span));
    let regions = args.regions.iter().flat_map(|region| one("--region", region));
    let mut words: Vec<String> = places.chain(latencies).chain(regions).chain(in_scope(args)).collect();
    if args.granularity != arguments::Granularity::Auto {
        words.extend(one("--granularity", &format!("{:?}", args.granularity).to_lowercase()));
    }
    if !args.speedups.is_empty() {
        words.extend(one("--speedup", &args.speedups.join(",")));
    }
    words.extend(args.follow.iter().flat_map(|glob| one("--follow", glob)));
    words.extend(args.no_follow.then(|| "--no-follow".to_owned()));
    if let Some(until) = args.until_exit {
        words.extend(one("--until-exit", &format!("{until:?}").to_lowercase()));
    }
    if args.stop_signal != Signal::TERM {
        words.extend(one("--stop-signal", &arguments::name_of(args.stop_signal).to_string()));
    }
    if let Some(then) = args.then {
        words.extend(one("--then", &format!("{then:?}").to_lowercase()));
    }
    if args.clients != arguments::Clients::Auto {
        words.extend(one("--clients", &format!("{:?}", args.clients).to_lowercase()));
    }
    words.extend(args.instances.then(|| "--instances".to_owned()));
    words.extend(args.end_to_end.then(|| "--end-to-end".to_owned()));
    words
}

fn typed(args: &arguments::Run) -> String {
    serde_json::json!({
        "again": to_measure_again(args),
        "input": crate::input::file(),
        "writes_to_file": crate::input::output_is_for_a_file(),
        "regions": args.regions,
        "points": args.points,
        "latencies": args.latencies,
        "speedups": args.speedups,
        "granularity": format!("{:?}", args.granularity).to_lowercase(),
        "instances": args.instances,
        "duration": args.duration.map(|time| time.as_secs_f64()),
        "until_sure": args.until_sure,
        "hint_db": args.hint_db,
        "hint_since": args.hint_db.as_ref().map(|_| &args.hint_since),
        "precision": args.precision,
        "end_to_end": args.end_to_end,
        "then": args.then.map(|then| format!("{then:?}").to_lowercase()),
        "until_exit": args.until_exit.map(|until| format!("{until:?}").to_lowercase()),
        "repeat": args.repeat,
        "scopes": args.scopes,
        "excludes": args.excludes,
        "binaries": args.binaries,
        "period_us": args.period.unwrap_or(PERIOD),
        "start_only": args.start_only,
        "sampler": format!("{:?}", args.sampler),
        "no_delays": args.no_delays,
        "without_rules": args.without_rules,
        "left_out": args.leave_out,
        "follow": args.follow,
        "no_follow": args.no_follow,
        "faults": args.faults.iter().map(|fault| format!("{fault:?}")).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Where recordings are kept beside a database of continuous profiles, whose tools then show what code is worth; the
/// working directory if that cannot be written.
fn beside(database: &Path, quiet: bool) -> PathBuf {
    let folder = database.join("recordings");
    let made = match std::fs::create_dir(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => tempfile::tempfile_in(&folder).map(drop),
    };
    match made {
        Ok(()) => folder,
        Err(error) => {
            if !quiet {
                kernel::say!(
                    "whatif: {} cannot be written ({error}): the recording will be in this folder; whatif top --recording FILE \
                     shows it beside the cost",
                    folder.display()
                );
            }
            PathBuf::new()
        }
    }
}

/// `whatif-PROGRAM-TIME.db` in a folder; a number is appended if there is one already, so
/// that two runs within a second do not share a recording by accident.
fn default_output(folder: &Path, program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy().replace(['/', '\0'], "_");
    let time = utc(SystemTime::now());
    let mut path = folder.join(format!("whatif-{name}-{time}.db"));
    let mut number = 2;
    while path.exists() {
        path = folder.join(format!("whatif-{name}-{time}-{number}.db"));
        number += 1;
    }
    path
}

/// `20261121-130204`, in UTC; the civil date by the days since a 1 March (Howard Hinnant's algorithm,
/// "chrono-compatible low-level date algorithms").
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

fn fault_bit(fault: arguments::Fault) -> u32 {
    use wire::layout::Fault;
    (match fault {
        arguments::Fault::Spins => Fault::EverythingSpins,
        arguments::Fault::Credits => Fault::CreditIsDropped,
        arguments::Fault::ThreadsAsWorld => Fault::ThreadsAreTheWorld,
        arguments::Fault::WorldAsThreads => Fault::TheWorldIsAThread,
    }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101-000000");
        assert_eq!(at(951_782_400), "20000229-000000");
        assert_eq!(at(1_795_266_124), "20261121-130204");
    }

    #[test]
    fn precisions_are_checked() {
        assert_eq!((precision("2%").unwrap(), precision("0.5").unwrap()), (0.02, 0.005));
        for bad in ["", "0", "-1", "101", "x%"] {
            let error = precision(bad).unwrap_err().to_string();
            assert!(error.contains("--precision 2%"), "{error}");
        }
    }

    #[test]
    fn speedups_are_checked() {
        assert_eq!(speedup("25").unwrap().per_mille(), 250);
        assert_eq!(speedup("12.5%").unwrap().per_mille(), 125);
        for bad in ["", "0", "101", "-5", "x", "NaN", "0.01"] {
            let error = speedup(bad).unwrap_err().to_string();
            assert!(error.contains("--speedup 25,50,100"), "{error}");
        }
    }
}
