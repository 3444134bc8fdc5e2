//! What can be typed after `whatif fleet`.

use crate::question::{GroupBy, Only, Pattern, Roots};
use clap::{Args, Subcommand, ValueEnum};
use cycles::arguments::{Compared, Drawing, Folder};
use cycles::condition::Condition;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the tables on a server
    #[command(after_help = "Example: whatif fleet init --url http://localhost:8123\n\
        Example: whatif fleet init --cluster all --url https://one.example.org:8443 --url https://two.example.org:8443")]
    Init(Init),
    /// Send what a database and recordings have and the server has not
    #[command(
        after_help = "Example: sudo whatif fleet push --db /var/lib/whatif --url https://clickhouse.example.org:8443 --follow\n\
        Example: whatif fleet push --recordings shop.db --service shop.service --version 1.42"
    )]
    Push(Push),
    /// Show what costs most, over all machines
    #[command(after_help = "Example: whatif fleet top --since 7d --by service,function")]
    Top(Top),
    /// Draw a flame graph of all machines, as one page for a browser
    #[command(
        after_help = "Example: whatif fleet flame --service shop.service --version 1.42 --since 1d -o flame.html\n\
        Example: whatif fleet flame --roots host,process --folded"
    )]
    Flame(Flame),
    /// Show what is different between two versions, or two spans of time
    #[command(
        after_help = "Example: whatif fleet diff 1.41 1.42 --service shop.service\nExample: whatif fleet diff 2d..1d 1d..now\n\
        Example: whatif fleet diff 1.41 1.42 --service shop.service --fail-if 'share(*, B) > 1.2 * share(*, A) + 1%'"
    )]
    Diff(Diff),
    /// Show what making code faster is worth, over all machines, beside what it costs
    #[command(
        after_help = "Example: whatif fleet worth --service shop.service --since 30d --by version\nExample: whatif fleet worth --recordings /var/lib/whatif/recordings --db /var/lib/whatif"
    )]
    Worth(Worth),
    /// List the machines, with what they have sent
    #[command(after_help = "Example: whatif fleet hosts --since 1d")]
    Hosts(Hosts),
    /// Show what the server keeps, and whether it adds up
    #[command(after_help = "Example: whatif fleet status")]
    Status(Status),
    /// Stop all experiments of all agents, and say why
    #[command(after_help = "Example: whatif fleet stop --reason 'checkout is slow, looking into it'")]
    Stop(GiveOrder),
    /// Let agents make experiments again, and say why
    #[command(after_help = "Example: whatif fleet resume --reason 'it was the disk'")]
    Resume(GiveOrder),
    /// Ask the server in its own language, without changing anything
    #[command(
        after_help = "Example: whatif fleet sql 'SELECT service, sum(count) FROM whatif.samples GROUP BY service'"
    )]
    Sql(Sql),
}

/// Who one is on the server.
#[derive(Clone, Debug, Default, Args)]
pub struct User {
    /// The database on the server
    #[arg(long, value_name = "NAME", default_value = "whatif")]
    pub database: String,

    /// The user on the server [default: $WHATIF_FLEET_USER, or the server's own default]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// A file with the password [default: $WHATIF_FLEET_PASSWORD]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// Which server.
#[derive(Clone, Debug, Default, Args)]
pub struct At {
    /// The server, as http://HOST:8123 or https://HOST:8443 [default: $WHATIF_FLEET_URL]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    #[command(flatten)]
    pub user: User,
}

/// Of when, and of what.
#[derive(Clone, Debug, Default, Args)]
pub struct Of {
    /// From then on: 2h, 3d, '2026-11-22 14:00', RFC 3339; local time
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,

    /// Up to then
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,

    /// Of these services: the label service, or else the systemd unit, or the container
    #[arg(long, value_name = "GLOB")]
    pub service: Option<Pattern>,

    /// Of these versions: the label version
    #[arg(long, value_name = "GLOB")]
    pub version: Option<Pattern>,

    /// Of these machines
    #[arg(long, value_name = "GLOB")]
    pub host: Option<Pattern>,
}

/// Which samples.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    #[command(flatten)]
    pub of: Of,

    /// Of processes with these names
    #[arg(long, value_name = "GLOB")]
    pub process: Option<Pattern>,

    /// What was sampled [default: the first event there is, by name, that is no waiting time]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,

    /// Count idle CPUs, too
    #[arg(long)]
    pub idle: bool,

    /// Samples of inlined functions are those of the function that they were inlined into; otherwise inlined functions are functions of their own
    #[arg(long)]
    pub no_inlined: bool,
}

impl Which {
    pub fn only(&self) -> Only {
        Only {
            service: self.of.service.clone(),
            version: self.of.version.clone(),
            host: self.of.host.clone(),
            process: self.process.clone(),
        }
    }
}

/// A server, or a local database that is asked as one would be.
#[derive(Clone, Debug, Default, Args)]
pub struct Asked {
    #[command(flatten)]
    pub at: At,

    /// Ask this local database instead of a server
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub db: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Init {
    /// The server; of a cluster, each of its shards, one after the other [default: $WHATIF_FLEET_URL]
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    #[command(flatten)]
    pub user: User,

    /// Divide the tables over the shards of this cluster, which all servers know by this name
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,

    /// Let the server remove samples that are older than so many days; ClickHouse 20 and later can
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub keep_days: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Push {
    #[command(flatten)]
    pub folder: Folder,
    #[command(flatten)]
    pub at: At,

    /// Send the runs in this recording, or in all recordings in this folder; samples only if --db is given as well
    #[arg(long, value_name = "DIR|FILE")]
    pub recordings: Vec<PathBuf>,

    /// The service in these recordings [default: the label service of the program, or else its systemd unit, or the container, or
    /// else its name]
    #[arg(long, value_name = "NAME", requires = "recordings")]
    pub service: Option<String>,

    /// The version in these recordings [default: the label version of the program]
    #[arg(long, value_name = "NAME", requires = "recordings")]
    pub version: Option<String>,

    /// Go on until interrupted: look for more every minute, and wait while the server is away
    #[arg(long)]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub which: Which,

    /// What to add up: function, line or image; or who ran: service, version, host, process, label.NAME; or several of these, such as
    /// service,function
    #[arg(long, value_name = "KEY,…", default_value = "function")]
    pub by: GroupBy,

    /// Show that many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Flame {
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub drawing: Drawing,

    /// The outermost boxes, or frames: who ran, by service, version, host, process and label.NAME; none for functions only
    #[arg(long, value_name = "KEY,…", default_value = "service,process")]
    pub roots: Roots,

    /// Show that many stacks, those with most samples, each for all who ran in it; all others become one box, or frame
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub most: u32,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// What it was: a version, or SINCE..UNTIL
    #[arg(value_name = "A")]
    pub before: String,

    /// What it became
    #[arg(value_name = "B")]
    pub after: String,
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub which: Which,

    /// What to add up
    #[arg(long, value_enum, default_value_t = Compared::Function)]
    pub by: Compared,

    /// Show that many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// Exit with status 1 if this is certain: 'share(NAME, B) > 1.2 * share(NAME, A) + 1%', or 'share(NAME) > 5%', which is about B; NAME may
    /// be a pattern, and is a function's without image:; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// What answers are kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorthBy {
    /// Versions of a service.
    Version,
}

#[derive(Debug, Args)]
pub struct Worth {
    #[command(flatten)]
    pub at: At,

    /// Take what code costs from this local database instead of a server
    #[arg(long, value_name = "DIR", conflicts_with = "url", requires = "recordings")]
    pub db: Option<PathBuf>,

    /// Take windows from this recording, or from all recordings in this folder, instead of a server
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "url")]
    pub recordings: Vec<PathBuf>,

    #[command(flatten)]
    pub of: Of,

    /// What becomes faster: progress points, or latencies, with these names
    #[arg(long, value_name = "GLOB")]
    pub point: Option<Pattern>,

    /// Show each version by itself as well, and what changed from one to the next
    #[arg(long, value_enum, value_name = "KEY")]
    pub by: Option<WorthBy>,

    /// What costs are samples of [default: the first event there is, by name, that is no waiting time]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,

    /// Show that many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// Exit with status 1 if this is certain: 'slope(CODE, POINT) > 0.5'; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<profile::condition::Condition>,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Worth {
    pub fn which(&self) -> Which {
        Which { of: self.of.clone(), event: self.event.clone(), ..Which::default() }
    }
}

#[derive(Debug, Args)]
pub struct Hosts {
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub which: Which,

    /// As JSON (docs/fleet.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub at: At,

    /// As JSON (docs/fleet.md)
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct GiveOrder {
    /// Why, for those who read it on their machines
    #[arg(long, value_name = "TEXT")]
    pub reason: String,

    /// Who says so [default: your user name and this machine]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    #[command(flatten)]
    pub at: At,
}

#[derive(Debug, Args)]
pub struct Sql {
    /// The statement
    pub statement: String,
    #[command(flatten)]
    pub at: At,

    /// A format of ClickHouse's: TabSeparated, JSON, CSVWithNames, …
    #[arg(long, value_name = "NAME", default_value = "PrettyCompactNoEscapes")]
    pub format: String,
}
