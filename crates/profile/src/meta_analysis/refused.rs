//! What cannot be pooled, and what to do about it.

use super::{HostId, VersionId};

/// Why hosts cannot be put together.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A number that is infinite, none, or negative where that makes no sense.
    #[error(
        "the {what} of host {} with version {} is {value}, which no experiment can show\n  \
         leave this host out, and look at its windows by themselves",
        .host.get(), .version.get()
    )]
    NotANumber {
        /// The host.
        host: HostId,
        /// The version it ran.
        version: VersionId,
        /// Which number.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// Two rows for the same host and version.
    #[error(
        "host {} has two slopes with version {}\n  \
         estimate one slope from all of its windows with that version",
        .host.get(), .version.get()
    )]
    Twice {
        /// The host.
        host: HostId,
        /// The version it ran.
        version: VersionId,
    },
    /// No host has enough blocks.
    #[error(
        "none of {hosts} hosts has made five experiments on this region\n  \
         wait until they have, or raise the share of the time in which they experiment"
    )]
    NoWindows {
        /// How many hosts there are.
        hosts: usize,
    },
    /// Two versions that cannot be compared.
    #[error(
        "versions {} and {} have {before_hosts} and {after_hosts} hosts with five experiments: too few to tell versions from hosts\n  \
         let two hosts run each version, or one host run both",
        .before.get(), .after.get()
    )]
    TooFewHosts {
        /// The version before.
        before: VersionId,
        /// The version after.
        after: VersionId,
        /// How many hosts have run the version before.
        before_hosts: usize,
        /// How many hosts have run the version after.
        after_hosts: usize,
    },
}
