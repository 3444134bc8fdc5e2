//! What can be typed after `whatif top` and the other tools of continuous profiles, and after `whatif db` about a database of theirs.

use clap::{Args, Subcommand};
use cycles::Roots;
use cycles::arguments::{Annotate, Causes, Diff, Drawing, Epochs, Folder, List, Stats, Top, Unknown, Which};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what costs most, and what it is worth
    #[command(
        after_help = "Example: whatif top --since 1d --by unit,thread --where 'process=nginx* and label.shard=3'"
    )]
    Top(Top),
    /// Show what is different between two times, epochs or databases
    #[command(after_help = "Example: whatif diff 2d..1d 1d..now\n\
        Example: whatif diff --fail-if 'share(*) > 1.2 * share(*, 7d..1d) + 1%'")]
    Diff(Diff),
    /// Show how much the cost of each function varies
    #[command(after_help = "Example: whatif stats --across day --since 7d")]
    Stats(Stats),
    /// Draw a flame graph, as one page for a browser
    #[command(after_help = "Example: whatif flame --process 'nginx*' --roots unit,thread -o flame.html")]
    Flame(Flame),
    /// Show the source of a function, with samples for each line
    #[command(after_help = "Example: whatif list parse_header")]
    List(List),
    /// Show the instructions of a function, with samples for each
    #[command(after_help = "Example: whatif annotate parse_header")]
    Annotate(Annotate),
}

/// What looks after a database: `whatif db epochs` and so on.
#[derive(Debug, Subcommand)]
pub enum Care {
    /// List the spans of time with one configuration, or name the newest
    #[command(after_help = "Example: whatif db epochs --name v1.4")]
    Epochs(Epochs),
    /// Show which samples have no names, why, and how to fix it
    #[command(after_help = "Example: whatif db unknown --since 1d")]
    Unknown(Box<Unknown>),
    /// Remove or thin out what is old
    #[command(after_help = "Example: whatif db gc --keep 30d --most 2G --dry-run")]
    Gc(Gc),
}

#[derive(Debug, Args)]
pub struct Flame {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub causes: Causes,

    /// Time on and off the CPU in one graph, in the same unit
    #[arg(long, conflicts_with_all = ["off_cpu", "folded"])]
    pub both: bool,

    #[command(flatten)]
    pub drawing: Drawing,

    /// The outermost boxes, or frames: who ran, by the keys of whatif top --by; none for functions only. Threads that are
    /// called as their process get none
    #[arg(long, value_name = "KEY,…", default_value = "process,thread")]
    pub roots: Roots,
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
