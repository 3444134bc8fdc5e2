//! What can be typed after `whatif collect` and `whatif status`.

use clap::{Args, ValueEnum};
use cycles::arguments::Folder;

#[derive(Debug, Args)]
pub struct Collect {
    #[command(flatten)]
    pub folder: Folder,

    /// Samples per second and CPU
    #[arg(long, value_name = "HZ", default_value_t = 97.0, allow_negative_numbers = true)]
    pub rate: f64,

    /// What is sampled: cycles (the clock, where there are no hardware counters), default (a second event as well), mux
    /// (several more, in turns), or a list of events
    #[arg(long, value_name = "LIST", default_value = "cycles")]
    pub events: String,

    /// Samples without callers: less of everything
    #[arg(long)]
    pub pc_only: bool,

    /// Find callers by frame pointers only, which most programs of distributions lack, and not by unwind tables
    #[arg(long)]
    pub frame_pointers: bool,

    /// A label for all that is collected, such as region=eu; may be given several times. Processes have their own: see
    /// WHATIF_LABELS in docs/continuous.md
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::label::label)]
    pub label: Vec<(String, String)>,

    /// Keep the command lines of processes that live for ten seconds, which may have passwords in them
    #[arg(long)]
    pub command_lines: bool,

    /// Collect where threads wait as well, by BPF: for whatif top --off-cpu
    #[arg(long)]
    pub off_cpu: bool,

    /// Sample the processes of this user only, which needs no privilege [default: the whole machine, if that is allowed]
    #[arg(long)]
    pub own: bool,

    /// Time between two writes (60s, 5m; up to 1h): what a crash may lose [default: 60s, or a time bucket if that is shorter]
    #[arg(long, value_name = "TIME", value_parser = controller::span::whole_seconds)]
    pub interval: Option<u32>,

    /// Length of a time bucket in the database (60s, 10m; up to 1h): whatif diff compares whole ones [default: 60s, with --pc-only 10m;
    /// shorter with a --duration of less than half an hour]
    #[arg(long, value_name = "TIME", value_parser = controller::span::whole_seconds)]
    pub resolution: Option<u32>,

    /// Take fewer samples when the collector and the sampling together cost more than this part of the machine
    #[arg(long, value_name = "PERCENT", default_value = "1%", allow_hyphen_values = true)]
    pub max_cpu: String,

    /// Keep in memory at most this much of what programs do; each user has an equal share of it, and all that the others leave
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub max_memory: String,

    /// Remove what is oldest when the database takes more than this
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    pub max_disk: String,

    /// Keep at most this much of the names of functions in files that were sampled, so that they stay when the files have gone; it is part of
    /// --max-disk; 0 keeps none [default: 200M, or a quarter of --max-disk if that is less]
    #[arg(long, value_name = "SIZE")]
    pub max_symbols: Option<String>,

    /// Remove what is older than this
    #[arg(long, value_name = "AGE", default_value = "90d")]
    pub keep: String,

    /// Keep what is older than this by the hour only
    #[arg(long, value_name = "AGE", default_value = "14d")]
    pub coarse_after: String,

    /// A name for this epoch: what is being tried out
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Stop after this time: 90s, 2m, 1h; plain numbers are seconds [default: at SIGINT or SIGTERM]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = controller::span::parse)]
    pub duration: Option<std::time::Duration>,

    /// Tell Prometheus how the collector is doing, at http://ADDR/metrics: a port (9464: of this machine only) or ADDRESS:PORT
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,

    /// Seed of all random choices [default: a new one]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Say nothing but what went wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// Print a file for another program, and do nothing else
    #[arg(long, value_enum)]
    pub print: Option<Print>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Print {
    /// A unit for systemd: whatif collect --print unit | sudo tee /etc/systemd/system/whatif.service
    Unit,
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub folder: Folder,

    /// Show what happened, when and why: epochs, changes of the rate, times when nothing was collected, lost samples, a full disk
    #[arg(long)]
    pub history: bool,

    /// What happened since then: 30d, 2h, '2026-11-22 14:00'
    #[arg(long, value_name = "TIME", default_value = "7d", requires = "history")]
    pub since: String,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}
