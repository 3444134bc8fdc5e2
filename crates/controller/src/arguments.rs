//! What can be typed after `whatif run`. What it means is decided in `Options`.

use clap::{Args, ValueEnum};
use rustix::process::Signal;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const OFTEN: &str = "Often";
const WHAT_TO_TRY: &str = "What to try";
/// Also of what limits `attach`.
pub const WHEN_TO_STOP: &str = "When to stop";
const WHICH_PROGRAMS: &str = "Which programs";
const RARE: &str = "Rare";

#[derive(Debug, Args)]
pub struct Run {
    /// Count visits to this place as progress, in a program that marks none: FILE:LINE, fn:NAME or NAME, usdt:PROVIDER:NAME,
    /// syscall:NAME, net:requests for answered requests of other programs, or sampled:PLACE for samples in it; may be given
    /// several times
    #[arg(help_heading = OFTEN, short = 'p', long = "point", value_name = "PLACE")]
    pub points: Vec<String>,

    /// Measure the time from BEGIN to END, as in fn:receive..fn:answer
    #[arg(help_heading = OFTEN, long = "latency", value_name = "BEGIN..END")]
    pub latencies: Vec<String>,

    /// Only try this code: FUNCTION (with everything it calls) or FILE:LINE, either of them with @FUNCTION for what that
    /// function calls only; may be given several times
    #[arg(help_heading = OFTEN, long = "region", value_name = "FUNCTION|FILE:LINE[@CALLER]")]
    pub regions: Vec<String>,

    /// Stop after this time (15s, 2m, 1h; plain numbers are seconds), and end the program as --then says [default: when the
    /// answer is as sure as --precision asks; the program goes on without experiments]
    #[arg(help_heading = OFTEN, long, value_name = "TIME", allow_negative_numbers = true, value_parser = crate::span::parse)]
    pub duration: Option<Duration>,

    /// The recording to write; one that exists gets another session [default: whatif-PROGRAM-TIME.db]
    #[arg(help_heading = OFTEN, short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Show the report in a browser while the program runs; there a region can be pinned, which then gets most experiments
    #[arg(help_heading = OFTEN, long, conflicts_with_all = ["list_regions", "start_only"])]
    pub live: bool,

    /// No progress bar and no report at the end; warnings and errors only
    #[arg(help_heading = OFTEN, short, long)]
    pub quiet: bool,

    /// Only try these virtual speedups, in per cent [default: 5, 10, … 100 at random]
    #[arg(help_heading = WHAT_TO_TRY, long = "speedup", value_name = "N[,N…]", value_delimiter = ',', allow_negative_numbers = true)]
    pub speedups: Vec<String>,

    /// What to try when no region is given
    #[arg(help_heading = WHAT_TO_TRY, long, value_enum, default_value_t = Granularity::Auto)]
    pub granularity: Granularity,

    /// Keep the instances of generic functions and templates apart
    #[arg(help_heading = WHAT_TO_TRY, long)]
    pub instances: bool,

    /// Source files that you could change, or those of one program: PROGRAM:GLOB [default: the programs' own, without standard
    /// library and registry]
    #[arg(help_heading = WHAT_TO_TRY, long = "scope", value_name = "GLOB")]
    pub scopes: Vec<String>,

    /// Source files to leave out, also as PROGRAM:GLOB
    #[arg(help_heading = WHAT_TO_TRY, long = "exclude", value_name = "GLOB")]
    pub excludes: Vec<String>,

    /// Programs and libraries to look into, by their names or paths; a program also by the name of a link to it [default: the program
    /// itself, and those that it executes]
    #[arg(help_heading = WHAT_TO_TRY, long = "binary", value_name = "GLOB")]
    pub binaries: Vec<String>,

    /// Try first what costs most in production, according to this database of continuous profiles (whatif collect), and
    /// show that cost beside what code is worth; without -o the recording goes to DIR/recordings/
    #[arg(help_heading = WHAT_TO_TRY, long, value_name = "DIR", conflicts_with_all = ["start_only", "list_regions"])]
    pub hint_db: Option<PathBuf>,

    /// Of that database, take what is not older: 12h, 7d, 4w
    #[arg(help_heading = WHAT_TO_TRY, long, value_name = "AGE", default_value = "7d", requires = "hint_db")]
    pub hint_since: String,

    /// Stop as soon as the answer is as sure as --precision asks, and end the program; run it again while it is not
    #[arg(help_heading = WHEN_TO_STOP, long)]
    pub until_sure: bool,

    /// Stop when the gain of 20 % less time in the best code is known to within this: half of its interval
    #[arg(help_heading = WHEN_TO_STOP, long, value_name = "PERCENT", default_value = "2%", allow_hyphen_values = true)]
    pub precision: String,

    /// Run the program N times, into one recording (--duration limits all runs together)
    #[arg(help_heading = WHEN_TO_STOP, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,

    /// Judge by how long the whole program takes: one region and one speedup per run, again and again until sure
    #[arg(help_heading = WHEN_TO_STOP, long, conflicts_with_all = ["no_delays", "start_only"])]
    pub end_to_end: bool,

    /// What happens to a program that still runs when experiments end [default: terminate, if --duration, --until-sure or
    /// --repeat says when that is]
    #[arg(help_heading = WHEN_TO_STOP, long, value_enum)]
    pub then: Option<Then>,

    /// Which process ends the run, in a program that is several [default: the first one; if that ends well within the first moments
    /// and leaves daemons behind, the last one of these]
    #[arg(help_heading = WHEN_TO_STOP, long, value_enum, value_name = "WHICH")]
    pub until_exit: Option<UntilExit>,

    /// The signal that asks the program to end: TERM, INT, QUIT, HUP, USR1, USR2 (postgres waits for its clients at TERM,
    /// but not at INT)
    #[arg(help_heading = WHEN_TO_STOP, long, value_name = "SIGNAL", default_value = "TERM", value_parser = stop_signal)]
    pub stop_signal: Signal,

    /// The programs to profile among all that are executed: a glob for the name of the file (of a script, its interpreter's), as in --follow 'server*'
    /// [default: behind a shell, taskset, env and the like, the first program that has the progress points, and all that are executed while it runs]
    #[arg(help_heading = WHICH_PROGRAMS, long, value_name = "GLOB", conflicts_with = "no_follow")]
    pub follow: Option<String>,

    /// Profile the command itself, also if it is a shell, taskset, env and the like, and nothing that it executes
    #[arg(help_heading = WHICH_PROGRAMS, long)]
    pub no_follow: bool,

    /// Whether the clients of a server wait for an answer before they ask again (closed), or ask at times of their own (open), for where that
    /// cannot be found out
    #[arg(help_heading = WHICH_PROGRAMS, long, value_enum, default_value_t = Clients::Auto)]
    pub clients: Clients,

    /// With --live: only say where the page is, and start no browser
    #[arg(help_heading = RARE, long, requires = "live")]
    pub no_browser: bool,

    /// No experiments: list the code in scope, and how much of the time it took, after --duration [3 s]
    #[arg(help_heading = RARE, long, conflicts_with_all = ["no_delays", "start_only", "end_to_end", "repeat", "until_sure", "output"])]
    pub list_regions: bool,

    /// Seed of all random choices [default: a new one, stored in the recording]
    #[arg(help_heading = RARE, long, value_name = "N")]
    pub seed: Option<u64>,

    /// Mean CPU time between two samples, in microseconds [default: 1000, and down to 200 while threads
    /// wait by spinning]
    #[arg(help_heading = RARE, long, value_name = "MICROS", value_parser = clap::value_parser!(u64).range(100..=100_000))]
    pub period: Option<u64>,

    /// How threads are sampled
    #[arg(help_heading = RARE, long, value_enum, default_value_t = HowToSample::Perf)]
    pub sampler: HowToSample,

    /// Attach, but take no samples (to measure what attaching costs)
    #[arg(help_heading = RARE, long, conflicts_with_all = ["no_delays", "regions", "speedups"])]
    pub start_only: bool,

    /// Sample and run experiments, but only at speedup zero (to measure what sampling costs)
    #[arg(help_heading = RARE, long, conflicts_with = "speedups")]
    pub no_delays: bool,

    /// Stop as soon as the recording has so many windows, as tests need that do not depend on how long these take
    #[arg(long, value_name = "N", hide = true, conflicts_with_all = ["end_to_end", "list_regions", "start_only"])]
    pub windows: Option<usize>,

    /// What `whatif points` does
    #[arg(long, hide = true, conflicts_with_all = ["list_regions", "hint_db"])]
    pub suggest_points: bool,

    /// Where `whatif points` writes them as JSON
    #[arg(long, hide = true, value_name = "FILE", requires = "suggest_points")]
    pub suggestions: Option<PathBuf>,

    /// Switch rules of virtual time off, to see what they are good for (docs/theory.md)
    #[arg(long = "without-rule", value_name = "N", value_delimiter = ',', hide = true,
          value_parser = rule_to_switch_off)]
    pub without_rules: Vec<u32>,

    /// Break the engine on purpose, to see whether the audit notices it (`bench -- audit`)
    #[arg(long = "fault", value_name = "FAULT", value_delimiter = ',', hide = true)]
    pub faults: Vec<Fault>,

    /// Do not stand in front of this function, to see whether the audit notices it (`bench -- audit`)
    #[arg(long = "leave-out", value_name = "FUNCTION", value_delimiter = ',', hide = true)]
    pub leave_out: Vec<String>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// A way of breaking the engine on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Every sample is taken for one of a thread that spins
    Spins,
    /// A third of the credit for samples is dropped
    Credits,
    /// Waits for other threads are treated as waits for the world
    ThreadsAsWorld,
    /// Waits for the world are treated as waits for other threads
    WorldAsThreads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Granularity {
    /// Functions first, then the lines of those that matter
    Auto,
    /// Whole functions: fewer experiments until the answer
    Function,
    /// Single source lines
    Line,
    /// Functions, each caller of one by itself
    Path,
    /// Modules and types (Rust, C++), source files (C)
    Module,
}

/// What the user says of a server's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clients {
    /// It is to be found out
    Auto,
    /// They wait for an answer before they ask again
    Closed,
    /// They ask at times of their own
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HowToSample {
    /// By perf events, with the kernel's time; by the next that works where they are refused
    Perf,
    /// By perf events, without the kernel's time
    PerfUser,
    /// By timers of CPU time, which need no permission but are coarse
    Timer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// Send it --stop-signal and wait for its end
    Terminate,
    /// Leave it alone and wait for its end
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UntilExit {
    /// The first process: the program that was typed, or that a wrapper led to
    First,
    /// The last one of all that have joined
    All,
}

/// Signals that ask a program to end.
const STOP_SIGNALS: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// One of them, with or without `SIG`.
fn stop_signal(text: &str) -> Result<Signal, String> {
    let upper = text.to_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = STOP_SIGNALS.into_iter().find(|(known, _)| *known == name);
    found
        .map(|(_, signal)| signal)
        .ok_or_else(|| "name one of TERM, INT, QUIT, HUP, USR1 and USR2".to_owned())
}

/// What people call a signal that asks a program to end.
pub fn name_of(signal: Signal) -> String {
    let found = STOP_SIGNALS.into_iter().find(|(_, known)| *known == signal);
    found.map_or_else(|| format!("signal {}", signal.as_raw()), |(name, _)| format!("SIG{name}"))
}

/// Rules that can be switched off. (Without 2 no thread would pause, without 9 accounts could not be compared.)
fn rule_to_switch_off(text: &str) -> Result<u32, String> {
    const RULES: [u32; 8] = [1, 3, 4, 5, 6, 7, 8, 10];
    let rule = text.parse().ok().filter(|rule| RULES.contains(rule));
    rule.ok_or_else(|| "the rules that can be switched off are 1, 3, 4, 5, 6, 7, 8 and 10".to_owned())
}
