//! Fleets with two versions: what the release changed, and whether that disturbs the worth of all.

use fastrand::Rng;
use profile::meta_analysis::{Fleet, HostSlope, Variances, VersionId};

use super::plan::GOAL;
use super::pooled::fleets;
use super::tally::{Counts, Tally, percent, simulate};
use super::world::{Host, USUAL, World, normal};
use crate::interval::{count, median};

/// How the versions reach the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rollout {
    /// Each host runs both, half of the time each.
    Everywhere,
    /// A third of the hosts runs both, a third the first and a third the second.
    Underway,
    /// Each host runs one.
    Canary,
}

#[derive(Default)]
struct Changes {
    all: Tally,
    change: Tally,
    half_widths: Vec<f64>,
    alarms: usize,
}

impl Counts for Changes {
    fn add(&mut self, other: Self) {
        self.all.add(other.all);
        self.change.add(other.change);
        self.half_widths.extend(other.half_widths);
        self.alarms += other.alarms;
    }
}

/// A release that changes slopes by `change` in the mean, and with this deviation from host to host.
#[derive(Clone, Copy, Debug)]
struct Release {
    rollout: Rollout,
    change: f64,
    deviation: f64,
}

fn rows(world: &World, release: Release, rng: &mut Rng) -> Vec<HostSlope> {
    let mut rows = Vec::new();
    for number in (0..).take(world.hosts) {
        let host = world.host(rng);
        let after = host.slope + release.change + release.deviation * normal(rng);
        let (old, new) = match release.rollout {
            Rollout::Everywhere => (true, true),
            Rollout::Underway => (number % 3 != 1, number % 3 != 2),
            Rollout::Canary => (number % 2 == 0, number % 2 == 1),
        };
        let blocks = if old && new { host.blocks / 2 } else { host.blocks };
        if old {
            rows.push(world.measured((number, 1), Host { blocks, ..host }, rng));
        }
        if new {
            rows.push(world.measured((number, 2), Host { blocks, slope: after }, rng));
        }
    }
    rows
}

fn one(world: &World, release: Release, changes: &mut Changes, rng: &mut Rng) {
    let rows = rows(world, release, rng);
    let fleet = Fleet::new(&rows, Variances::Pooled).expect("hosts have five blocks");
    let change = fleet.change(VersionId::new(1), VersionId::new(2)).expect("versions have two hosts");
    changes.change.push(change.difference, release.change);
    changes.half_widths.push(change.difference.half_width());
    changes.alarms += usize::from(change.chance < 0.05);
    changes.all.push(fleet.worth().estimate, world.mean + release.change / 2.0);
}

pub fn run(effort: f64, seed: u64) {
    println!(
        "\ntwo versions, tau 0.10, 35 blocks for each host-day: the change, in points; said: per cent of fleets in which it is found at 5 %; days: host-days \
         until it is known to ± 2 points, in the median; and the worth of all hosts, whatever they run, at the same time\n"
    );
    println!(
        "{:<24} {:>6} {:>6} {:>6}  {:>13} {:>7}  {:<24} {:>5} {:>6}   all: bias, ±, coverage",
        "", "hosts", "change", "fleets", "bias", "±", "coverage", "said", "days"
    );
    for hosts in [10, 100, 10_000] {
        let world = World { hosts, ..USUAL };
        for (name, rollout) in [
            ("each host runs both", Rollout::Everywhere),
            ("a third runs both", Rollout::Underway),
            ("each host runs one", Rollout::Canary),
        ] {
            for (change, deviation) in [(-0.05, 0.02), (0.0, 0.0)] {
                let release = Release { rollout, change, deviation };
                let fleets = fleets((4e6 / count(hosts)).min(10_000.0), effort);
                let changes: Changes =
                    simulate(fleets, seed, |changes, rng| one(&world, release, changes, rng));
                let days = count(hosts) * (median(&changes.half_widths) / GOAL).powi(2);
                println!(
                    "{name:<24} {hosts:>6} {:>6.0} {fleets:>6}  {} {:>5.0} {days:>6.0}   {}",
                    100.0 * change,
                    changes.change.line(),
                    percent(changes.alarms, fleets),
                    changes.all.line()
                );
            }
        }
    }
}
