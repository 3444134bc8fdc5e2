//! Source: where the numbers of an answer come from. A server and a local database give the same integers; what is made of them is the same code.

use crate::code::NameRow;
use crate::error::Error;
use crate::question::Question;
use crate::stacks::Stacked;
use archive::{Books, MachineInfo, Setting, UnixSeconds};

/// Samples of one position, kept apart as was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedAt {
    /// The service, if it was asked for; as the next four.
    pub service: String,
    /// Its version.
    pub version: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: String,
    /// Labels of users, in JSON.
    pub labels: String,
    /// The build.
    pub build: String,
    /// The offset in it.
    pub offset: u64,
    /// Begin of the span of time; zero if spans are not asked for.
    pub span: UnixSeconds,
}

/// An epoch of a collector.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochAt {
    /// What it is called everywhere.
    pub uid: String,
    /// On which machine.
    pub machine: MachineInfo,
    /// How samples were taken; events and labels are left out.
    pub setting: Setting,
    /// When it began.
    pub started: UnixSeconds,
}

/// A file that samples fall into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageAt {
    /// The build.
    pub build: String,
    /// One of its paths.
    pub path: String,
    /// Its kind, by name.
    pub kind: String,
}

/// Names of a position. There may be several of one, from machines that know more and less.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedAt {
    /// The build.
    pub build: String,
    /// The offset in it.
    pub offset: u64,
    /// Its functions, innermost first.
    pub names: Vec<NameRow>,
}

/// A server, or a local database. Only whole hours count.
pub trait Source {
    /// What it is called in answers.
    fn place(&self) -> String;

    /// All events that have books in the time of a question, on its hosts.
    fn events(&self, of: &Question) -> Result<Vec<String>, Error>;

    /// All epochs.
    fn epochs(&self) -> Result<Vec<EpochAt>, Error>;

    /// The books of the event, added up for each epoch, with its uid. Who ran does not count for them, only which host.
    fn books(&self, of: &Question) -> Result<Vec<(String, Books)>, Error>;

    /// The samples.
    fn counts(&mut self, of: &Question) -> Result<Vec<(CountedAt, u64)>, Error>;

    /// The stacks of the samples, but of the `most` with most samples only ([`stacks::first`](crate::stacks::first)); spans are not kept apart.
    fn stacks(&mut self, of: &Question, most: usize) -> Result<Stacked, Error>;

    /// All images of these builds.
    fn images(&self, builds: &[&str]) -> Result<Vec<ImageAt>, Error>;

    /// All that is known of positions in these builds, and perhaps of others.
    fn names(&mut self, positions: &[(&str, u64)]) -> Result<Vec<NamedAt>, Error>;
}
