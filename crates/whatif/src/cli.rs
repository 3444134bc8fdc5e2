//! What can be typed.

use crate::condition::Condition;
use clap::{Args, Parser, Subcommand, ValueEnum};
use controller::arguments::Run;
use std::ffi::OsString;
use std::path::PathBuf;

/// What would happen to your program if this code were faster?
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and find out which of its code is worth making faster
    Run(Box<Run>),
    /// Show the answer again, from a recording
    Report(Report),
    /// Say what this machine and a program allow, what that means, and how to fix what is wrong
    Doctor(Doctor),
    /// Suggest progress points for a program, from a short run of it
    Points(Points),
    /// Add recordings of the same build up, in a new file
    Merge(Merge),
    /// Make a recording of a profile that Coz has written, or add a perf.data file to a database of continuous profiles
    Import(Import),
    /// Say what is different in another recording, and fail if it is worse (for CI)
    Compare(Compare),
    /// Write a recording, or what a database of continuous profiles has, in another format (docs/formats.md)
    Export(Export),
    /// Show the report in a browser
    Open(Open),
    /// Show the report in this terminal while a program runs in another one
    Watch(Watch),
    /// Continuous profiles: sample everything that runs, all day, into a small database
    Collect(Box<crate::collect::cli::Collect>),
    /// Continuous profiles: how the collector is
    Status(crate::collect::cli::Status),
    #[command(flatten)]
    Cycles(crate::continuous::cli::Command),
}

#[derive(Debug, Args)]
pub struct Report {
    /// The recording, or a profile that Coz has written [default: the newest whatif-*.db in this folder]
    pub file: Option<PathBuf>,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,

    /// Show the windows and the sums behind the numbers of one region; a part of its name is enough
    #[arg(long, value_name = "REGION")]
    pub explain: Option<String>,

    /// Draw the curves of one region; a part of its name is enough
    #[arg(long, value_name = "REGION", conflicts_with_all = ["json", "explain"])]
    pub region: Option<String>,

    /// Show the statistics behind the answer: slopes, intervals, experiments, runs, and what was left out
    #[arg(long, conflicts_with_all = ["json", "explain", "region"])]
    pub details: bool,

    /// Show that many pieces of code
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,

    /// A program to look at, which is not run; arguments of it do not matter
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Points {
    /// How long the program is sampled, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, allow_negative_numbers = true)]
    duration: f64,

    /// Source files to look in [default: the program's own, without standard library and registry]
    #[arg(long = "scope", value_name = "GLOB")]
    scopes: Vec<String>,

    /// Source files not to look in
    #[arg(long = "exclude", value_name = "GLOB")]
    excludes: Vec<String>,

    /// Programs and libraries to look into [default: the program itself]
    #[arg(long = "binary", value_name = "GLOB")]
    binaries: Vec<String>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Points {
    /// The run that finds out.
    pub fn as_run(&self) -> Result<Cli, clap::Error> {
        let mut words: Vec<OsString> =
            ["whatif", "run", "--suggest-points", "--duration"].map(Into::into).into();
        words.push(self.duration.to_string().into());
        for (option, values) in
            [("--scope", &self.scopes), ("--exclude", &self.excludes), ("--binary", &self.binaries)]
        {
            words.extend(values.iter().flat_map(|value| [OsString::from(option), value.into()]));
        }
        words.push("--".into());
        words.extend(self.program.iter().cloned());
        Cli::try_parse_from(words)
    }
}

#[derive(Debug, Args)]
pub struct Merge {
    /// The recordings, or profiles that Coz has written; they stay as they are
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// The file to write, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct Import {
    /// The profile: in either format of Coz, or a perf.data file
    pub file: PathBuf,

    /// The file to write for a profile of Coz, which must not exist [default: whatif-NAME.db in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub folder: cycles::arguments::Folder,

    /// A name for the epoch that a perf.data file becomes
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The recording of what it was, or a profile that Coz has written
    pub before: PathBuf,

    /// The recording of what it became, or a profile that Coz has written
    pub after: PathBuf,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,

    /// Write the comparison as a page for a browser, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Show that many regions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// Exit with status 1 if this is certain: 'gain(POINT) < -3%' or 'slope(REGION, POINT) > 0.5'; may be
    /// given several times
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
}

#[derive(Debug, Args)]
pub struct Export {
    /// The recording, or a profile that Coz has written [default: the newest whatif-*.db in this folder]
    pub file: Option<PathBuf>,

    /// The format
    #[arg(long, value_enum)]
    pub format: Format,

    /// Where to write it [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub which: cycles::arguments::Which,
}

#[derive(Debug, Args)]
pub struct Open {
    /// The recording, or a profile that Coz has written [default: the newest whatif-*.db in this folder]
    pub file: Option<PathBuf>,

    /// Only say where it is, and start no browser
    #[arg(long)]
    pub no_browser: bool,
}

#[derive(Debug, Args)]
pub struct Watch {
    /// The recording that whatif run writes, is going to write or has written, or a profile of Coz [default: the newest
    /// whatif-*.db in this folder]
    pub file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Everything, as in docs/json.md
    Json,
    /// The report as one file for a browser
    Html,
    /// The text format that Coz's viewer reads
    Coz,
    /// The JSON-lines format of newer Coz releases
    CozJsonl,
    /// For pprof: samples, CPU time and causal slopes (go tool pprof -sample_index=causal_slope); of a database with stacks
    Pprof,
    /// For OpenTelemetry: profiles of OTLP, of a database
    Otlp,
    /// For Firefox Profiler (profiler.firefox.com): samples, coloured by verdict
    Firefox,
    /// For flame graphs: a line for each place that was sampled
    Folded,
    /// For spreadsheets: a row for each region, point and speedup
    Csv,
    /// For a pull request: the sentence, the best regions and the warnings
    Markdown,
}
