//! Dividing the time among everything that is to be measured.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::Args;

use crate::native::{self, Effort};

/// What is to be measured, counted over all shards.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub targets: usize,
    pub regions: usize,
    pub speedups: usize,
    /// Runs of our profiler for every region.
    pub profiles: usize,
    /// Another profiler takes part.
    pub peer: bool,
}

/// What the user insists on.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Native runs of every variant, at least 2 [default: as there is time]
    #[arg(long)]
    pub rounds: Option<usize>,

    /// Length of each native run [default: as there is time]
    #[arg(long)]
    pub seconds: Option<f64>,

    /// Length of each profiled run [default: as there is time]
    #[arg(long, value_name = "SECONDS")]
    pub profile_seconds: Option<f64>,
}

impl Wishes {
    /// Refuses what is impossible.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.rounds.is_none_or(|rounds| rounds >= 2),
            "--rounds must be at least 2, to see the noise"
        );
        Ok(())
    }
}

/// What more time would not be spent on: a few targets are done before the time is over.
#[derive(Clone, Copy, Debug)]
pub struct Enough {
    pub rounds: usize,
    pub seconds: f64,
    pub profile_seconds: f64,
}

/// How long everything runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub effort: Effort,
    pub profile_seconds: f64,
    /// Of each of a peer's runs, of which it needs one per speedup and one without.
    pub peer_seconds: f64,
}

/// The shortest runs that mean something: programs make 100 to 1000 rounds a second.
const SHORTEST: f64 = 0.4;
const SHORTEST_PROFILE: f64 = 4.0;
const FEWEST_ROUNDS: usize = 2;

/// Six of Coz's experiments.
const PEER: f64 = 3.2;

/// What a run takes beyond its own time: starting, ending, and reading the answer.
const AROUND_RUN: f64 = 0.03;
const AROUND_PROFILE: f64 = 0.5;
const AROUND_PEER: f64 = 0.4;

/// The part of the time that is planned; the rest is for repeating what others disturbed.
const PLANNED: f64 = 0.85;

impl Plan {
    /// Divides `seconds` among our own measurements. A peer's come on top, so that it changes nothing
    /// for us.
    pub fn new(work: &Work, wishes: &Wishes, enough: &Enough, seconds: f64) -> Self {
        let usable = seconds * PLANNED;
        let profiles = work.regions * work.profiles;
        let half = if profiles == 0 { usable } else { usable / 2.0 };
        let effort = Self::effort(work, wishes, enough, half);
        let left = usable - Self::native(work, effort);
        let profile_seconds = wishes.profile_seconds.unwrap_or_else(|| {
            let each = left / whole(profiles.max(1)) - AROUND_PROFILE;
            each.clamp(SHORTEST_PROFILE, enough.profile_seconds.max(SHORTEST_PROFILE))
        });
        // What profiling has no use for.
        let profiling = whole(profiles) * (profile_seconds + AROUND_PROFILE);
        let effort = Self::effort(work, wishes, enough, usable - profiling);
        Self { effort, profile_seconds, peer_seconds: PEER }
    }

    /// With runs of a peer that take so long, if the user insists on it.
    pub fn with_peer_seconds(self, seconds: Option<f64>) -> Self {
        Self { peer_seconds: seconds.unwrap_or(self.peer_seconds), ..self }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn effort(work: &Work, wishes: &Wishes, enough: &Enough, seconds: f64) -> Effort {
        let runs = whole(Self::runs(work)).max(1.0);
        let shortest = wishes.seconds.unwrap_or(SHORTEST);
        let rounds = wishes.rounds.unwrap_or_else(|| {
            let affordable = (seconds / (runs * (shortest + AROUND_RUN))).floor() as usize;
            affordable.clamp(FEWEST_ROUNDS, enough.rounds.max(FEWEST_ROUNDS))
        });
        let seconds = wishes.seconds.unwrap_or_else(|| {
            let each = seconds / (runs * whole(rounds)) - AROUND_RUN;
            // Microseconds do not matter.
            ((each * 100.0).floor() / 100.0).clamp(SHORTEST, enough.seconds.max(SHORTEST))
        });
        Effort { rounds, seconds }
    }

    /// Native runs of a round.
    fn runs(work: &Work) -> usize {
        let variants = work.regions * work.speedups;
        variants + work.targets * native::unchanged_runs(variants / work.targets.max(1))
    }

    fn native(work: &Work, effort: Effort) -> f64 {
        whole(Self::runs(work) * effort.rounds) * (effort.seconds + AROUND_RUN)
    }

    /// How many seconds it takes if nothing has to be repeated.
    pub fn duration(&self, work: &Work) -> f64 {
        let profile = whole(work.profiles) * (self.profile_seconds + AROUND_PROFILE);
        let peer = if work.peer { whole(work.speedups + 1) * (self.peer_seconds + AROUND_PEER) } else { 0.0 };
        Self::native(work, self.effort) + whole(work.regions) * (profile + peer)
    }
}

fn whole(number: usize) -> f64 {
    crate::interval::count(number)
}

/// One of several invocations that divide the targets among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    index: usize,
    of: usize,
}

impl Shard {
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// Neighbours in the table are alike, so each goes to another shard.
    pub fn part<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.index).step_by(self.of).collect()
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| {
            let (index, of): (usize, usize) = (index.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&index).then_some(Self { index: index - 1, of })
        });
        numbers.ok_or_else(|| "write it like 2/3, the second of three".to_owned())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Enough = Enough { rounds: 9, seconds: 1.0, profile_seconds: 20.0 };

    fn work(targets: usize, regions: usize, speedups: usize) -> Work {
        Work { targets, regions, speedups, profiles: 1, peer: false }
    }

    #[test]
    fn a_plan_fits_into_its_time() {
        for (work, minutes) in
            [(work(60, 130, 4), 25.0), (work(60, 130, 4), 60.0), (work(9, 20, 2), 3.0), (work(1, 2, 4), 25.0)]
        {
            let plan = Plan::new(&work, &Wishes::default(), &ENOUGH, minutes * 60.0);
            assert!(plan.duration(&work) <= minutes * 60.0 * PLANNED + 1e-6, "{plan:?}");
            assert!(plan.effort.rounds >= 2 && plan.effort.seconds >= 0.4, "{plan:?}");
            assert!(plan.profile_seconds >= 4.0, "{plan:?}");
        }
    }

    #[test]
    fn few_targets_are_done_early() {
        let work = work(1, 2, 4);
        let plan = Plan::new(&work, &Wishes::default(), &ENOUGH, 1500.0);
        assert_eq!(plan.effort, Effort { rounds: 9, seconds: 1.0 });
        assert!((plan.profile_seconds - 20.0).abs() < 1e-12);
    }

    #[test]
    fn too_little_time_is_not_halved_again() {
        let work = work(60, 130, 4);
        let plan = Plan::new(&work, &Wishes::default(), &ENOUGH, 60.0);
        assert_eq!(plan.effort, Effort { rounds: 2, seconds: 0.4 });
        assert!((plan.profile_seconds - 4.0).abs() < 1e-12);
        assert!(plan.duration(&work) > 60.0);
    }

    #[test]
    fn wishes_are_followed() {
        let wishes = Wishes { rounds: Some(3), seconds: Some(0.1), profile_seconds: Some(2.0) };
        let plan = Plan::new(&work(60, 130, 4), &wishes, &ENOUGH, 1500.0).with_peer_seconds(Some(1.0));
        let expected =
            Plan { effort: Effort { rounds: 3, seconds: 0.1 }, profile_seconds: 2.0, peer_seconds: 1.0 };
        assert_eq!(plan, expected);
    }

    #[test]
    fn shards_divide_everything() {
        let all: Vec<u32> = (0..7).collect();
        let mut together = Vec::new();
        for text in ["1/3", "2/3", "3/3"] {
            let shard: Shard = text.parse().unwrap();
            assert_eq!(shard.to_string(), text);
            together.extend(shard.part(all.clone()));
        }
        together.sort_unstable();
        assert_eq!(together, all);
        for bad in ["", "0/3", "4/3", "1", "a/b"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
