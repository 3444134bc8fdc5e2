//! What can be asked, as it is typed: the arguments of the tools.

use super::condition::Condition;
use crate::expression::Where;
use crate::grouping::GroupBy;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where the samples are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Folder {
    /// The database of continuous profiles [default: $WHATIF_DB, /var/lib/whatif if it exists, or
    /// $XDG_DATA_HOME/whatif/db]
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
}

/// Which samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Which {
    #[command(flatten)]
    pub folder: Folder,

    /// From then on: 2h, 3d, '2026-11-22 14:00', RFC 3339; local time
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,

    /// Up to then
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,

    /// Of this machine
    #[arg(long, value_name = "GLOB")]
    pub machine: Option<String>,

    /// Of this cgroup and those below it
    #[arg(long, value_name = "GLOB")]
    pub cgroup: Option<String>,

    /// Of processes with this name
    #[arg(long, value_name = "GLOB")]
    pub process: Option<String>,

    /// Of code in this file, by path or last part of it
    #[arg(long, value_name = "GLOB")]
    pub image: Option<String>,

    /// Of what this holds for: KEY=PATTERN or KEY!=PATTERN, with and, or, not and parentheses; keys are process, thread, pid, command,
    /// cgroup, unit, slice, user, container, pod, image, machine and label.NAME. 'process=nginx* and label.shard=3'
    #[arg(long = "where", value_name = "EXPR")]
    pub only: Option<Where>,

    /// What was sampled [default: the first event there is]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,

    /// Where threads wait, and not what runs: the same as --event off-cpu
    #[arg(long, conflicts_with_all = ["event", "idle"])]
    pub off_cpu: bool,

    /// Of one epoch, by number or name; see: whatif db epochs
    #[arg(long, value_name = "EPOCH")]
    pub epoch: Option<String>,

    /// Count idle CPUs, too
    #[arg(long)]
    pub idle: bool,

    /// Samples of inlined functions are those of the function that they were inlined into, as perf report has it; otherwise inlined functions
    /// are functions of their own
    #[arg(long)]
    pub no_inlined: bool,

    /// Ask the servers in DEBUGINFOD_URLS for names and lines that are not here (takes debuginfod-find)
    #[arg(long)]
    pub debuginfod: bool,
}

/// What is known of causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Causes {
    /// A causal recording to show what code is worth, besides those in the database's folder recordings/; may be given
    /// several times
    #[arg(long = "recording", value_name = "FILE")]
    pub recordings: Vec<PathBuf>,

    /// Do not read recordings
    #[arg(long, conflicts_with = "recordings")]
    pub no_recordings: bool,
}

impl Which {
    /// The options as they are typed.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let only = self.only.as_ref().map(Where::to_string);
        let folder = self.folder.db.as_ref().map(|folder| folder.to_string_lossy().into_owned());
        for (option, value) in [
            ("--db", &folder),
            ("--since", &self.since),
            ("--until", &self.until),
            ("--machine", &self.machine),
            ("--cgroup", &self.cgroup),
            ("--process", &self.process),
            ("--image", &self.image),
            ("--where", &only),
            ("--event", &self.event),
            ("--epoch", &self.epoch),
        ] {
            match value {
                // What begins like an option would be taken for one.
                Some(value) if value.starts_with('-') => words.push(format!("{option}={value}")),
                Some(value) => words.extend([option.to_owned(), value.clone()]),
                None => {}
            }
        }
        let flags = [
            ("--off-cpu", self.off_cpu),
            ("--idle", self.idle),
            ("--no-inlined", self.no_inlined),
            ("--debuginfod", self.debuginfod),
        ];
        words.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.to_owned()));
        words
    }
}

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// What to add up: function, image or line; with --off-cpu also wait (how) or waker (who ended it); or who ran: process, thread, pid, command, cgroup, unit, slice, user,
    /// container, pod, machine, label.NAME; or several of these, such as unit,thread or unit,function
    #[arg(long, value_name = "KEY,…", default_value = "function")]
    pub by: GroupBy,

    /// Show that many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// Rank by what is in functions with all that they call, those included that only call; so --off-cpu does
    #[arg(long)]
    pub total: bool,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct List {
    /// The function: its name, the last parts of it, or a glob
    pub function: String,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Annotate {
    /// The function: its name, the last parts of it, or a glob
    pub function: String,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// Show long stretches without samples, too
    #[arg(long)]
    pub all: bool,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// How a flame graph is written.
#[derive(Clone, Debug, Default, Args)]
pub struct Drawing {
    /// The page to write [default: whatif-flame.html in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write folded stacks instead, to standard output or FILE
    #[arg(long)]
    pub folded: bool,
}

#[derive(Debug, Default, Args)]
pub struct Diff {
    /// What it was: SINCE..UNTIL, an epoch, or the folder of a database; may be left out, with B, if --fail-if is given
    #[arg(value_name = "A", required_unless_present = "fail_if", requires = "after")]
    pub before: Option<String>,

    /// What it became
    #[arg(value_name = "B", required_unless_present = "fail_if")]
    pub after: Option<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// What to add up
    #[arg(long, value_enum, default_value_t = Compared::Function)]
    pub by: Compared,

    /// Compare shares of the samples, or CPU time for each second and CPU
    #[arg(long, value_enum, default_value_t = Per::Share)]
    pub per: Per,

    /// Show that many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// Write a flame graph of B as a page, coloured by what is different from A
    #[arg(long, value_name = "FILE", conflicts_with = "json", requires = "before")]
    pub flame: Option<PathBuf>,

    /// Exit with status 1 if this is certain: 'share(NAME) > 1.2 * share(NAME, 7d..1d) + 1%', 'total(NAME, 1d..) > 30%', or
    /// 'cpu(process:NAME) > 600' (seconds an hour); NAME may be a pattern, and is a function's without image:, process: or
    /// cgroup:; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Diff {
    /// The options that say which samples and how they are compared, as they are typed.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = self.which.words();
        let flame = self.flame.as_ref().map(|flame| format!("--flame={}", flame.to_string_lossy()));
        let by = (self.by == Compared::Image).then(|| "--by=image".to_owned());
        let per = (self.per == Per::Second).then(|| "--per=second".to_owned());
        let json = self.json.then(|| "--json".to_owned());
        words.extend(by.into_iter().chain(per).chain(flame).chain(json));
        words
    }

    /// A and B, which are there unless only conditions are judged.
    #[must_use]
    pub fn sides(&self) -> Option<(&str, &str)> {
        self.before.as_deref().zip(self.after.as_deref())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compared {
    /// Functions, by name and the name of their file: a new build's are the same
    #[default]
    Function,
    /// Programs, libraries and the kernel, by path
    Image,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Per {
    /// Shares of the samples
    #[default]
    Share,
    /// CPU time for each second and CPU
    Second,
}

#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// What the parts are
    #[arg(long, value_enum, default_value_t = Across::Hour)]
    pub across: Across,

    /// What to add up
    #[arg(long, value_enum, default_value_t = Compared::Function)]
    pub by: Compared,

    /// Show that many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Across {
    /// Epochs
    Epoch,
    /// Machines
    Machine,
    /// Hours
    Hour,
    /// Days (UTC)
    Day,
    /// Processes, by name
    Process,
    /// Threads, by name
    Thread,
    /// Units of systemd
    Unit,
    /// Containers
    Container,
    /// Pods
    Pod,
}

#[derive(Debug, Args)]
pub struct Epochs {
    #[command(flatten)]
    pub folder: Folder,

    /// Give the newest epoch a name, which --epoch and whatif diff understand
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Unknown {
    #[command(flatten)]
    pub which: Which,

    /// Show that many images
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}
