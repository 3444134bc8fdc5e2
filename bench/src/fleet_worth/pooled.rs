//! Fleets with one version: is the mean right, are its interval and that of a new host honest?

use fastrand::Rng;
use profile::meta_analysis::{Fleet, Variances, Weights};

use super::scenario::{LARGE, SIZES, SMALL, Scenario};
use super::tally::{Counts, Tally, percent, simulate};
use super::world::World;
use crate::calibration::coverage::Share;
use crate::interval::{count, median};

/// Counts over fleets.
#[derive(Default)]
struct Pooled {
    ours: Tally,
    textbook: Tally,
    taus: Vec<f64>,
    new_hosts: Share,
    /// In how many Q says that hosts differ, at 5 %.
    differ: usize,
    even: usize,
}

impl Counts for Pooled {
    fn add(&mut self, other: Self) {
        self.ours.add(other.ours);
        self.textbook.add(other.textbook);
        self.taus.extend(other.taus);
        self.new_hosts.some += other.new_hosts.some;
        self.new_hosts.of += other.new_hosts.of;
        self.differ += other.differ;
        self.even += other.even;
    }
}

fn one(world: &World, counts: &mut Pooled, rng: &mut Rng) {
    let rows = world.fleet(rng);
    let new_host = world.host(rng);
    let worth = |variances| Fleet::new(&rows, variances).expect("hosts have five blocks").worth();
    let (ours, textbook) = (worth(Variances::Pooled), worth(Variances::Own));
    counts.ours.push(ours.estimate, world.mean);
    counts.textbook.push(textbook.estimate, world.mean);
    if let Some(of_new) = ours.new_host {
        counts.new_hosts.of += 1;
        counts.new_hosts.some += usize::from(of_new.lo <= new_host.slope && new_host.slope <= of_new.hi);
    }
    if let Some(heterogeneity) = ours.heterogeneity {
        counts.taus.push(heterogeneity.tau);
        counts.differ += usize::from(heterogeneity.chance < 0.05);
    }
    counts.even += usize::from(ours.weights == Weights::Even);
}

fn header() {
    println!(
        "{:<26} {:>5} {:>6}  {:>13} {:>7}  {:<24} {:>5} {:>8} {:>4} {:>4}   {:>13} {:>7}  coverage",
        "", "tau", "fleets", "bias", "±", "coverage", "tau^", "new host", "Q", "even", "textbook bias", "±"
    );
}

fn line(scenario: &Scenario, name: &str, fleets: usize, seed: u64) {
    let counts: Pooled = simulate(fleets, seed, |counts, rng| one(&scenario.world, counts, rng));
    let new_hosts = if counts.new_hosts.of == 0 {
        "–".to_owned()
    } else {
        format!("{:.1}", percent(counts.new_hosts.some, counts.new_hosts.of))
    };
    let tau = if counts.taus.is_empty() { f64::NAN } else { median(&counts.taus) };
    println!(
        "{name:<26} {:>5.2} {fleets:>6}  {} {:>5.3} {:>8} {:>4.0} {:>4.0}   {}",
        scenario.world.tau,
        counts.ours.line(),
        tau,
        new_hosts,
        percent(counts.differ, fleets),
        percent(counts.even, fleets),
        counts.textbook.line(),
    );
}

/// `effort` is 1 for a thousand fleets of ten thousand hosts.
pub fn run(effort: f64, seed: u64) {
    println!(
        "\nthe mean of true slopes, in points; ±: median half width; coverage: of 95 % intervals; tau^: median estimate; new host: \
         share of prediction intervals that hold the truth of one more host; Q: per cent of fleets said to differ (5 if they do not); \
         even: per cent of fleets with equal weights. textbook: each host's own variance, Hartung and Knapp's interval\n"
    );
    header();
    println!("10,000 hosts");
    for scenario in LARGE {
        line(scenario, scenario.name, fleets(1000.0, effort), seed);
    }
    for hosts in SIZES {
        println!("{hosts} hosts");
        for scenario in SMALL {
            let world = World { hosts: *hosts, ..scenario.world };
            let most = (2e6 / count(*hosts)).min(20_000.0);
            line(&Scenario { world, ..*scenario }, scenario.name, fleets(most, effort), seed);
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn fleets(most: f64, effort: f64) -> usize {
    ((most * effort).round() as usize).max(50)
}
