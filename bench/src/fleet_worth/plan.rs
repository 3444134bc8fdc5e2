//! Plans: what a few hosts say that ± 2 points take, what becomes of it, and what it really takes.

use fastrand::Rng;
use profile::meta_analysis::{Fleet, Variances, Worth};

use super::pooled::fleets;
use super::tally::{Counts, Tally, percent, simulate};
use super::world::{Host, USUAL, World};
use crate::interval::{count, median};

/// ± 2 points.
pub const GOAL: f64 = 0.02;
/// How many hosts are asked first, for a day.
const PILOT: usize = 30;
/// No plan is followed with more hosts.
const MOST_HOSTS: usize = 20_000;

#[derive(Default)]
struct Plans {
    pilots: Vec<f64>,
    /// Hosts in all, by plan.
    hosts: Vec<f64>,
    /// Days of the hosts that there are, in all, where there is an end.
    days: Vec<f64>,
    never: usize,
    followed: Tally,
}

impl Counts for Plans {
    fn add(&mut self, other: Self) {
        self.pilots.extend(other.pilots);
        self.hosts.extend(other.hosts);
        self.days.extend(other.days);
        self.never += other.never;
        self.followed.add(other.followed);
    }
}

fn worth(world: &World, hosts: usize, rng: &mut Rng) -> Worth {
    let rows = World { hosts, ..*world }.fleet(rng);
    Fleet::new(&rows, Variances::Pooled).expect("hosts have five blocks").worth()
}

fn one(world: &World, plans: &mut Plans, rng: &mut Rng) {
    let pilot = worth(world, PILOT, rng);
    let needed = pilot.needed(GOAL);
    plans.pilots.push(100.0 * pilot.estimate.half_width());
    let hosts = PILOT + needed.hosts.map_or(MOST_HOSTS, |more| more.hosts);
    plans.hosts.push(count(hosts));
    match needed.time {
        Some(time) => plans.days.push((time.get() + pilot.observed.get()) / count(PILOT)),
        None => plans.never += 1,
    }
    plans.followed.push(worth(world, hosts.min(MOST_HOSTS), rng).estimate, world.mean);
}

/// The variance of one host's slope by its noise, from many hosts without any difference.
fn noise(world: &World, seed: u64) -> f64 {
    let mut rng = Rng::with_seed(seed);
    let host = |number, rng: &mut Rng| {
        let Host { blocks, .. } = world.host(rng);
        world.measured((number, 1), Host { blocks, slope: world.mean }, rng).variance
    };
    let hosts = 4000;
    (0..hosts).map(|number| host(number, &mut rng)).sum::<f64>() / f64::from(hosts as u32)
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    sorted[(share * count(sorted.len() - 1)).round() as usize]
}

pub fn run(effort: f64, seed: u64) {
    println!(
        "\nhow many host-days until the interval is ± 2 points: {PILOT} hosts that have taken part for a day (35 blocks on this region: 2 % of a day are \
         1728 s of experiments; a second for each, and fifty regions) say what it takes; the plan is then followed with a fleet of that size\n"
    );
    println!(
        "{:>5} {:>7}  {:>20} {:>8}  {:>24}   followed: bias, ±, coverage",
        "tau", "± now", "host-days, by plan", "in truth", "days of the same hosts"
    );
    for tau in [0.0, 0.02, 0.05, 0.1, 0.18] {
        let world = World { tau, ..USUAL };
        let mut plans: Plans = simulate(fleets(2000.0, effort), seed, |plans, rng| one(&world, plans, rng));
        let truth = ((tau * tau + noise(&world, seed)) * (1.96 / GOAL).powi(2)).ceil();
        plans.hosts.sort_by(f64::total_cmp);
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| quantile(&plans.hosts, share));
        let never = percent(plans.never, plans.hosts.len());
        let days = if plans.days.is_empty() { String::new() } else { format!("{:.1}", median(&plans.days)) };
        println!(
            "{tau:>5.2} {:>7.2}  {middle:>6.0} [{low:>4.0}, {high:>5.0}] {truth:>8.0}  {days:>6} (never in {never:>3.0} %)   {}",
            median(&plans.pilots),
            plans.followed.line()
        );
    }
}
