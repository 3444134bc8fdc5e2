//! What can be typed after `whatif top` and the other tools of continuous profiles.

use clap::{Args, Subcommand};
use cycles::arguments::{Annotate, Causes, Diff, Epochs, Folder, List, Stats, Top, Unknown, Which};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Continuous profiles: what costs most, and what it is worth
    Top(Top),
    /// Continuous profiles: the source of a function, with samples for each line
    List(List),
    /// Continuous profiles: the instructions of a function, with samples for each
    Annotate(Annotate),
    /// Continuous profiles: a flame graph, as one page for a browser
    Flame(Flame),
    /// Continuous profiles: what is different between two times, epochs or databases
    Diff(Diff),
    /// Continuous profiles: how much the cost of each function varies
    Stats(Stats),
    /// Continuous profiles: the spans of time with one configuration; or name the newest
    Epochs(Epochs),
    /// Continuous profiles: remove or thin out what is old
    Gc(Gc),
    /// Continuous profiles: samples without names, why they have none, and how to fix it
    Unknown(Unknown),
    /// Continuous profiles: whole databases
    Db(Db),
}

#[derive(Debug, Args)]
pub struct Flame {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// The page to write [default: whatif-flame.html in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write folded stacks instead, to standard output or FILE
    #[arg(long)]
    pub folded: bool,

    /// Leave out inlined functions: their samples are those of the function that they were inlined into
    #[arg(long)]
    pub no_inlined: bool,
}

#[derive(Debug, Args)]
pub struct Gc {
    #[command(flatten)]
    pub folder: Folder,

    /// Remove what is older: 30d, 12h
    #[arg(long, value_name = "AGE")]
    pub keep: Option<String>,

    /// In what is older, only keep apart hours: 7d
    #[arg(long, value_name = "AGE")]
    pub coarse_after: Option<String>,

    /// Remove the oldest until no more bytes are used: 2G, 500M
    #[arg(long, value_name = "BYTES")]
    pub most: Option<String>,

    /// Only say what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Db {
    #[command(subcommand)]
    pub command: DbCommand,
}

#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Add what databases have to another: other machines, or other times
    Merge(Merge),
}

#[derive(Debug, Args)]
pub struct Merge {
    /// The database to add to, which is made if it does not exist
    pub into: PathBuf,

    /// The databases to add, which stay as they are
    #[arg(required = true)]
    pub from: Vec<PathBuf>,
}
