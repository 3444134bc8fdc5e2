//! What can be typed.

use crate::continuous::cli::Care;
use crate::{overview, settings, version};
use clap::{Args, Parser, Subcommand, ValueEnum};
use controller::Usage;
use controller::arguments::Run;
use profile::condition::Condition;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What would happen to your program if this code were faster?
#[derive(Debug, Parser)]
#[command(version = version::BRIEF, long_version = version::long())]
#[command(arg_required_else_help = true, max_term_width = 80, help_template = overview::template())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What was typed, with what `whatif.toml` adds. Ends the process where that is a mistake, or asks for help.
    pub fn of_arguments() -> Self {
        let typed: Vec<_> = std::env::args_os().skip(1).collect();
        let (words, said) = settings::completed(typed, with_settings).unwrap_or_else(|error| {
            kernel::say!("whatif: {error}");
            std::process::exit(Usage::STATUS)
        });
        if let Some(said) = said.filter(|_| !words.iter().any(|word| word == "-q" || word == "--quiet")) {
            kernel::say!("whatif: {said}");
        }
        Self::try_parse_from(std::iter::once("whatif".into()).chain(words.iter().cloned()))
            .unwrap_or_else(|error| overview::with_advice(error, &words).exit())
    }
}

/// A command that `whatif.toml` has options for.
fn with_settings(name: &str) -> Option<clap::Command> {
    match name {
        "run" => Some(Run::augment_args(clap::Command::new("run"))),
        "points" => Some(Points::augment_args(clap::Command::new("points"))),
        _ => None,
    }
}

/// `overview::GROUPS` says which of them are listed together. Those that are hidden are names of before, for scripts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find out which of a program's code is worth making faster
    #[command(after_help = "Example: whatif run --duration 60 -o server.db -- ./server --port 8080")]
    Run(Box<Run>),
    /// Profile processes that run already, in place
    #[command(after_help = "Example: whatif attach --duration 30 -p fn:handle_request --unit shop\n\
        Example: whatif attach 4711\n\
        Example: whatif attach --name 'shop*'\n\n\
        The processes are left as they were. They have to be programs for x86-64 with glibc or musl, dynamic or static, or in Go; static ones need their symbol table. What they have \
        started is profiled with them, and what they start meanwhile as soon as that has lived for a second (--no-follow: only they). Progress points that are marked in the source only \
        count where -p names them.")]
    Attach(Box<Attach>),
    /// What looks after the processes that `attach` profiles
    #[command(name = controller::attach::GUARDIAN, hide = true, after_help = "Example: whatif attach-guardian 4711")]
    AttachGuardian {
        /// The first process
        pid: u32,
    },
    /// Show the answer again, from a recording
    #[command(after_help = "Example: whatif report server.db")]
    Report(Report),
    /// Show a report in a browser, or a database of continuous profiles
    #[command(after_help = "Example: whatif open server.db\n\
        Example: whatif open --db /var/lib/whatif --since 1d")]
    Open(Box<Open>),
    /// Show the report in a terminal while a program runs in another
    #[command(after_help = "Example: whatif watch server.db")]
    Watch(Watch),
    /// Compare two recordings: what became faster, what is critical now
    #[command(after_help = "Example: whatif compare before.db after.db --fail-if 'gain(requests) < -3%'")]
    Compare(Compare),
    /// Run two programs by turns: how much less time does one need?
    #[command(after_help = "Example: whatif ab -- ./server-old --once -- ./server-new --once")]
    Ab(crate::ab::cli::Ab),
    /// Suggest progress points for a program, from a short run of it
    #[command(after_help = "Example: whatif points -- ./server --port 8080")]
    Points(Points),
    /// Check what this machine and a program allow, and how to fix it
    #[command(after_help = "Example: whatif doctor ./server")]
    Doctor(Doctor),
    /// Write a recording, or part of a database, in another format
    #[command(after_help = "Example: whatif export --format html -o report.html server.db")]
    Export(Export),
    /// Sample everything that runs, all day, into a small database
    #[command(after_help = "Example: sudo whatif collect --db /var/lib/whatif")]
    Collect(Box<crate::collect::cli::Collect>),
    /// Collect all day, and make experiments on services now and then
    #[command(
        after_help = "Example: sudo whatif agent --db /var/lib/whatif --experiment unit=shop.service --point fn:handle --guard 'throughput < 80%'\n\
        Example: sudo whatif agent --config /etc/whatif/agent.conf\n\
        Example: sudo whatif agent status\n\n\
        --point, --latency, --guard and the other options of a service belong to the --experiment before them. In the file of --config stands an option a line, without quotes, as in \
        'guard throughput < 80%'; lines that begin with # say nothing."
    )]
    Agent(Box<crate::agent::cli::Agent>),
    /// Show how the collector is doing, and what it costs
    #[command(after_help = "Example: sudo whatif status\nExample: sudo whatif status --history --since 30d")]
    Status(crate::collect::cli::Status),
    #[command(flatten)]
    Cycles(crate::continuous::cli::Command),
    /// Keep what many machines have on a ClickHouse server, and ask it
    Fleet(Fleet),
    /// Look after recordings and databases: merge, import, clean up
    Db(Db),
    /// Print completions of these commands for a shell
    #[command(
        after_help = "Example: whatif completions bash > ~/.local/share/bash-completion/completions/whatif"
    )]
    Completions(Completions),
    /// Serve programming assistants: tools that profile and compare
    #[command(after_help = "Example: whatif mcp\n\n\
        A server of the Model Context Protocol on standard input and output, which assistants start themselves. It runs the programs that they ask for, as the user that it runs as.")]
    Mcp,
    /// Write the manual pages into a folder
    #[command(hide = true, after_help = "Example: whatif man /usr/local/share/man/man1")]
    Man(Man),
    #[command(flatten)]
    Former(Former),
}

/// Names of before `whatif db`, which no list shows and scripts have.
#[derive(Debug, Subcommand)]
pub enum Former {
    /// The same as whatif db merge, for recordings
    #[command(hide = true, after_help = "Example: whatif db merge monday.db tuesday.db -o both.db")]
    Merge(Merge),
    /// The same as whatif db import
    #[command(hide = true, after_help = "Example: whatif db import profile.coz")]
    Import(Import),
    /// The same as whatif db epochs
    #[command(hide = true, after_help = "Example: whatif db epochs --name v1.4")]
    Epochs(cycles::arguments::Epochs),
    /// The same as whatif db unknown
    #[command(hide = true, after_help = "Example: whatif db unknown --since 1d")]
    Unknown(Box<cycles::arguments::Unknown>),
    /// The same as whatif db gc
    #[command(hide = true, after_help = "Example: whatif db gc --keep 30d --most 2G --dry-run")]
    Gc(crate::continuous::cli::Gc),
}

impl Former {
    /// What it is called now.
    pub fn now(self) -> DbCommand {
        match self {
            Self::Merge(Merge { files, output }) => {
                DbCommand::Merge(MergeEither { paths: files, output: Some(output) })
            }
            Self::Import(args) => DbCommand::Import(args),
            Self::Epochs(args) => DbCommand::Cycles(Care::Epochs(args)),
            Self::Unknown(args) => DbCommand::Cycles(Care::Unknown(args)),
            Self::Gc(args) => DbCommand::Cycles(Care::Gc(args)),
        }
    }
}

#[derive(Debug, Args)]
pub struct Fleet {
    #[command(subcommand)]
    pub command: fleet::arguments::Command,
}

#[derive(Debug, Args)]
pub struct Db {
    #[command(subcommand)]
    pub command: DbCommand,
}

#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Add recordings of the same build up in a new file, or databases to another one
    #[command(after_help = "Example: whatif db merge monday.db tuesday.db -o both.db\n\
        Example: whatif db merge /srv/all-machines /srv/machine-1 /srv/machine-2")]
    Merge(MergeEither),
    /// Make a recording of a profile of Coz, or add a perf.data file to a database
    #[command(after_help = "Example: whatif db import perf.data --name trial")]
    Import(Import),
    #[command(flatten)]
    Cycles(Care),
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The folder, which is made if it does not exist
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct Report {
    /// The recording, or a profile that Coz has written [default: the newest whatif-*.db in this folder]
    pub file: Option<PathBuf>,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,

    /// With --json: only the answer, its doubt and what to type next, on one line of 2 KB at most
    #[arg(long, requires = "json", conflicts_with = "explain")]
    pub brief: bool,

    /// Show the windows and the sums behind the numbers of one region; a part of its name is enough
    #[arg(long, value_name = "REGION")]
    pub explain: Option<String>,

    /// Draw the curves of one region; a part of its name is enough
    #[arg(long, value_name = "REGION", conflicts_with_all = ["json", "explain"])]
    pub region: Option<String>,

    /// Show the statistics behind the answer: slopes, intervals, experiments, runs, and what was left out
    #[arg(long, conflicts_with_all = ["json", "explain", "region"])]
    pub details: bool,

    /// Show that many pieces of code [default: 20 at most, without those that were not tried and hardly take time]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,

    /// A program to look at, which is not run; of a shell, a wrapper or a script also what it seems to execute. Or the number of a process that runs, which is left as it is
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The options of `run` that make sense for processes that run already, and which these are.
#[derive(Debug)]
pub struct Attach {
    pub run: Run,
    pub which: Which,
    pub limits: Limits,
}

/// What ends experiments on processes that do their work for others.
#[derive(Debug, Args)]
#[command(next_help_heading = controller::arguments::WHEN_TO_STOP)]
pub struct Limits {
    /// End the experiments at once when this is so: 'throughput < 80%' (of what it was before the first experiment),
    /// 'throughput(POINT) < 500/s', 'latency(POINT) > 20ms', 'cpu > 90%' (of the machine); 'over 5s' behind it looks at the last
    /// five seconds and not at the last one; may be given several times
    #[arg(long = "guard", value_name = "CONDITION")]
    pub guards: Vec<controller::Guard>,

    /// End the experiments when threads have been delayed for more than this part of --duration
    #[arg(long, value_name = "PERCENT", requires = "duration")]
    pub most_delay: Option<String>,

    /// Try no virtual speedup that is larger
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["speedups", "no_delays"])]
    pub most_speedup: Option<String>,

    /// What `whatif agent` does: standard input says how long the session may go on, standard output how it goes
    #[arg(long, hide = true)]
    pub ordered: bool,
}

impl Limits {
    /// What they mean.
    ///
    /// # Errors
    /// What should be a percentage is none.
    pub fn asked(&self) -> anyhow::Result<controller::AskedLimits> {
        let part = |option: &str, text: &Option<String>| {
            text.as_deref().map(|text| crate::percent::percent(option, text)).transpose()
        };
        Ok(controller::AskedLimits {
            guards: self.guards.clone(),
            most_delay: part("--most-delay", &self.most_delay)?,
            most_speedup: part("--most-speedup", &self.most_speedup)?,
            is_ordered: self.ordered,
        })
    }
}

/// Which processes, besides those that are named by their numbers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which processes")]
pub struct Which {
    /// The processes of a systemd unit: its name, or a glob for it
    #[arg(long = "unit", value_name = "NAME")]
    pub units: Vec<String>,

    /// The processes of a control group, and of those within: a glob for its path, as in '/system.slice/shop*'
    #[arg(long = "cgroup", value_name = "GLOB")]
    pub cgroups: Vec<String>,

    /// The processes that have this name: a glob for the name of the program or of the process
    #[arg(long = "name", value_name = "GLOB")]
    pub names: Vec<String>,
}

impl Attach {
    /// The processes that are meant.
    ///
    /// # Errors
    /// What should be a number is none.
    pub fn selection(&self) -> anyhow::Result<controller::attach::Selection> {
        let Which { units, cgroups, names } = &self.which;
        let processes =
            self.run.program.iter().map(|word| controller::attach::number(word)).collect::<Result<_, _>>()?;
        let (units, cgroups, names) = (units.clone(), cgroups.clone(), names.clone());
        Ok(controller::attach::Selection { processes, units, cgroups, names })
    }
}

/// Those that are about starting and ending programs.
const NOT_ATTACHED: [&str; 11] = [
    "until_sure",
    "end_to_end",
    "repeat",
    "then",
    "until_exit",
    "stop_signal",
    "suggest_points",
    "suggestions",
    "leave_out",
    "without_rules",
    "faults",
];

impl Args for Attach {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = Limits::augment_args(Which::augment_args(Run::augment_args(command)));
        let command = NOT_ATTACHED
            .iter()
            .fold(command, |command, name| command.mut_arg(name, |argument| argument.hide(true)));
        // It conflicts with some of those.
        let command = command.mut_arg("list_regions", |argument| {
            argument.conflicts_with(clap::builder::Resettable::Reset).conflicts_with_all([
                "no_delays",
                "start_only",
                "output",
            ])
        });
        let command = command.mut_arg("follow", |argument| {
            argument.help("Of what the processes have started, profile only programs with this name, a glob")
        });
        let command = command.mut_arg("no_follow", |argument| {
            argument.help("Profile nothing that the processes have started")
        });
        command.mut_arg("program", |argument| {
            let argument =
                argument.value_name("PID").help("The numbers of processes").trailing_var_arg(false);
            argument.num_args(1..).required(false).required_unless_present_any(["units", "cgroups", "names"])
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Attach {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let typed = |name: &&&str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
        if let Some(name) = NOT_ATTACHED.iter().find(typed) {
            let option = name.replace('_', "-");
            let text = format!(
                "--{option} is about programs that whatif starts; not for a process that runs already\n"
            );
            return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text));
        }
        Ok(Self {
            run: Run::from_arg_matches(matches)?,
            which: Which::from_arg_matches(matches)?,
            limits: Limits::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub struct Points {
    /// How long the program is sampled: 15s, 2m; plain numbers are seconds
    #[arg(long, value_name = "TIME", default_value = "3s", allow_negative_numbers = true, value_parser = controller::span::parse)]
    duration: Duration,

    /// Source files to look in [default: the program's own, without standard library and registry]
    #[arg(long = "scope", value_name = "GLOB")]
    scopes: Vec<String>,

    /// Source files not to look in
    #[arg(long = "exclude", value_name = "GLOB")]
    excludes: Vec<String>,

    /// Programs and libraries to look into [default: the program itself]
    #[arg(long = "binary", value_name = "GLOB")]
    binaries: Vec<String>,

    /// The signal that asks the program to end when the time is up
    #[arg(long, value_name = "SIGNAL")]
    stop_signal: Option<String>,

    /// Write the places to this file as well, as JSON (docs/json.md)
    #[arg(long, value_name = "FILE")]
    json: Option<OsString>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Points {
    /// The run that finds out.
    pub fn as_run(&self) -> Result<Cli, clap::Error> {
        let mut words: Vec<OsString> =
            ["whatif", "run", "--suggest-points", "--duration"].map(Into::into).into();
        words.push(self.duration.as_secs_f64().to_string().into());
        for (option, values) in
            [("--scope", &self.scopes), ("--exclude", &self.excludes), ("--binary", &self.binaries)]
        {
            words.extend(values.iter().flat_map(|value| [OsString::from(option), value.into()]));
        }
        words.extend(self.stop_signal.iter().flat_map(|signal| ["--stop-signal".into(), signal.into()]));
        words.extend(self.json.iter().flat_map(|file| ["--suggestions".into(), file.clone()]));
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

/// Recordings are files, databases are folders.
#[derive(Debug, Args)]
pub struct MergeEither {
    /// Recordings, with -o; otherwise the folder of the database to add to, which is made if it does not exist, and those of
    /// the databases to add. All but the one added to stay as they are
    #[arg(required = true, num_args = 2.., value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,

    /// The recording to write, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
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

    /// Of a database: write a page with the whole time that was asked for instead, which needs no whatif
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_browser")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub which: cycles::arguments::Which,

    #[command(flatten)]
    pub causes: cycles::arguments::Causes,
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
