//! How often places are visited, and how steadily: to find places that make good progress points.

use super::counting_code;
use super::{Counting, Function, PointSpec, Points};
use crate::images::Images;
use anyhow::Result;
use kernel::visits::{Counter, Instruction};
use profile::{Nanos, Region};
use symbols::Scope;
use wire::Address;

/// How often visits are read.
const STEPS: usize = 8;
/// Time between two readings.
const STEP: Nanos = Nanos::from_millis(75);
/// After this time places are given up that are visited too often.
const FIRST_LOOK: Nanos = Nanos::from_millis(5);
/// Visits of a place may take this share of a CPU while they are counted to find out how often there are any.
const TOO_HOT: f64 = 0.2;
/// Requests per second that say what one is.
const FEW_REQUESTS: f64 = 100.0;
/// Rates that differ by no more than this share are the same.
const SAME: f64 = 0.1;
/// Copies of places that are counted at a time: a CPU has four breakpoints.
const AT_A_TIME: usize = 4;

/// How often a place is visited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallRate {
    pub per_second: f64,
    /// The standard deviation from one reading to the next, as a share of the mean, beyond what counting explains.
    pub variation: f64,
    /// Half of the 95 % interval of the rate, as a share of it.
    pub error: f64,
    /// What counting every visit by breakpoints costs, as a share of a CPU; NaN if that is not known.
    pub cost: f64,
    /// Whether the program has counted them itself, so that it was not slowed down.
    pub is_exact: bool,
    /// Requests of other programs that were answered meanwhile, per second; zero where it was not counted for long enough to tell.
    pub requests: f64,
}

impl CallRate {
    /// Whether there is one visit for each request, as far as is known.
    pub fn is_that_of_requests(&self) -> bool {
        self.requests >= FEW_REQUESTS && (self.per_second - self.requests).abs() <= SAME * self.requests
    }

    /// What counting every visit costs if the program does it itself, as a share of a CPU. `is_shared`: several CPUs do it at the same time.
    pub fn cost_by_itself(&self, is_shared: bool) -> f64 {
        let cost = if is_shared { counting_code::SHARED_COST } else { counting_code::COST };
        self.per_second * cost.0 as f64 / 1e9
    }
}

/// What counts the visits to some places in a program that runs.
pub struct Meter<'a> {
    pub points: &'a Points,
    pub scope: &'a Scope,
    /// What a visit to a breakpoint costs, if that is known.
    pub visit_cost: Option<wire::Nanos>,
    /// Whether the program may be changed so that it counts visits itself.
    pub may_change: bool,
}

/// Where a place is: in which processes, and at which instruction of theirs.
#[derive(Clone, Debug)]
pub struct Site {
    pids: Vec<u32>,
    /// By the addresses that all processes share, as far as it is known there.
    pub shared: Option<Address>,
    instruction: Instruction,
    /// What the program can be changed in so that it counts visits itself.
    function: Option<Function>,
}

/// How many breakpoints a place takes in the process that needs most.
fn copies(place: &[Site]) -> usize {
    let in_process = |pid: &u32| place.iter().filter(|site| site.pids.contains(pid)).count();
    place.iter().flat_map(|site| &site.pids).map(in_process).max().unwrap_or(0)
}

/// Whether the program could count all visits to a place itself.
pub fn could_count_itself(place: &[Site]) -> bool {
    !place.is_empty() && place.iter().all(|site| site.function.is_some())
}

/// A place that is being counted.
struct Counted {
    /// Its number among those that were asked for.
    nth: usize,
    counters: Vec<Counting>,
    last: u64,
    steps: Vec<f64>,
}

impl Counted {
    fn new(nth: usize, counters: Vec<Counting>) -> Self {
        Self { nth, counters, last: 0, steps: Vec::with_capacity(STEPS) }
    }

    fn count(&self) -> u64 {
        self.counters.iter().map(Counting::count).fold(0, u64::wrapping_add)
    }

    /// Whether the program counts it itself, which costs next to nothing.
    fn is_by_itself(&self) -> bool {
        self.counters.iter().all(|counting| counting.means().is_none())
    }

    /// Visits since the last look.
    fn step(&mut self) -> f64 {
        let now = self.count();
        now.wrapping_sub(std::mem::replace(&mut self.last, now)) as f64
    }
}

impl Meter<'_> {
    /// Where `places`, as `-p` understands them, are in the program; nowhere, if they are in too many copies to be counted.
    pub fn find(&self, places: &[String], images: &Images) -> Result<Vec<Vec<Site>>> {
        let pids = self.points.pids();
        let specs: Vec<PointSpec> =
            places.iter().map(|place| PointSpec::throughput(place)).collect::<Result<_>>()?;
        let in_first = |spec: &PointSpec| -> Vec<Site> {
            let found = images.instructions(|image| spec.entries(image, self.scope)).into_iter();
            // No probe may be put there.
            let may_be = found.filter(|instruction| !images.is_changed(instruction.address));
            let site = |instruction: Instruction| Site {
                pids: pids.clone(),
                shared: Some(instruction.address),
                function: self.may_change.then(|| images.function_from(instruction.address).ok()).flatten(),
                instruction,
            };
            may_be.map(site).collect()
        };
        let mut sites: Vec<Vec<Site>> = specs.iter().map(in_first).collect();
        let asked: Vec<&PointSpec> = specs.iter().collect();
        for (nth, pid, instruction, spot) in self.points.in_executed(&asked, images, self.scope) {
            let shared = images.address(&spot).map(Address);
            sites[nth].push(Site { pids: vec![pid], shared, instruction, function: None });
        }
        sites.iter_mut().filter(|place| copies(place) > AT_A_TIME).for_each(Vec::clear);
        Ok(sites)
    }

    /// How often each of these places is visited; `None` for what cannot be counted. What the program can count itself is counted like that, and all at once; of the others
    /// those that fit are counted at the same time. `None` altogether if the program ended: `wait` returns false then.
    pub fn measure(
        &self,
        places: &[Vec<Site>],
        mut wait: impl FnMut(Nanos) -> bool,
    ) -> Option<Vec<Option<CallRate>>> {
        let mut rates = vec![None; places.len()];
        self.measure_those_that_count(places, &mut rates, &mut wait)?;
        let is_left = |nth: &usize| rates[*nth].is_none() && !places[*nth].is_empty();
        let mut left: Vec<usize> = (0..places.len()).filter(is_left).collect();
        while !left.is_empty() {
            let mut room = AT_A_TIME;
            let (now, later): (Vec<usize>, Vec<usize>) = left.into_iter().partition(|nth| {
                let copies = copies(&places[*nth]);
                let fits = copies <= room;
                room -= if fits { copies } else { 0 };
                fits
            });
            left = later;
            let begin = |nth: usize| {
                let counters = places[nth].iter().map(|site| Counter::new(&site.pids, &site.instruction));
                let counters = counters.collect::<Result<Vec<Counter>, _>>().ok()?;
                Some(Counted::new(nth, counters.into_iter().map(Counting::Kernel).collect()))
            };
            let counted = now.into_iter().filter_map(begin).collect();
            self.count(counted, &mut rates, &mut wait)?;
        }
        Some(rates)
    }

    /// How often requests of other programs are answered; `None` if none is. `None` altogether if the program ended.
    pub fn measure_requests(&self, wait: &mut impl FnMut(Nanos) -> bool) -> Option<Option<CallRate>> {
        let mut rates = [None];
        let all = Counting::Requests(self.points.count_requests());
        self.count(vec![Counted::new(0, vec![all])], &mut rates, wait)?;
        let [rate] = rates;
        // The runtime counts them while they are answered, which costs nothing more.
        Some(rate.filter(|rate| rate.per_second > 0.0).map(|rate| CallRate { cost: 0.0, ..rate }))
    }

    /// Those places that the program can count itself.
    fn measure_those_that_count(
        &self,
        places: &[Vec<Site>],
        rates: &mut [Option<CallRate>],
        wait: &mut impl FnMut(Nanos) -> bool,
    ) -> Option<()> {
        let could: Vec<usize> = (0..places.len()).filter(|nth| could_count_itself(&places[*nth])).collect();
        let functions = could.iter().flat_map(|nth| &places[*nth]).filter_map(|site| site.function.as_ref());
        let functions: Vec<&Function> = functions.collect();
        if functions.is_empty() {
            return Some(());
        }
        let mut words = self.points.counts_itself(&functions).into_iter();
        let begin = |nth: usize| {
            let words: Vec<_> = words.by_ref().take(places[nth].len()).collect();
            let words = words.into_iter().collect::<Option<Vec<_>>>()?;
            Some(Counted::new(nth, words.into_iter().map(Counting::Itself).collect()))
        };
        let counted = could.into_iter().filter_map(begin).collect();
        let goes_on = self.count(counted, rates, wait);
        self.points.counts_no_longer(&functions);
        goes_on
    }

    /// Counts some places for a while. `None` if the program ended.
    fn count(
        &self,
        mut counted: Vec<Counted>,
        rates: &mut [Option<CallRate>],
        wait: &mut impl FnMut(Nanos) -> bool,
    ) -> Option<()> {
        if counted.is_empty() {
            return Some(());
        }
        let all_requests = self.points.count_requests();
        counted.iter_mut().for_each(|place| place.last = place.count());
        let mut last = kernel::clock::monotonic();
        // What is visited very often is found out at once, and not counted for longer: it would slow the program down.
        let (mut passed, mut requests) = (0.0, 0.0);
        let mut before = all_requests.count();
        for step in std::iter::once(FIRST_LOOK).chain(std::iter::repeat_n(STEP, STEPS)) {
            if !wait(step) {
                return None;
            }
            let now = kernel::clock::monotonic();
            let seconds = now.saturating_sub(last).0.max(1) as f64 / 1e9;
            last = now;
            let answered = all_requests.count();
            let new = answered.saturating_sub(std::mem::replace(&mut before, answered)) as f64;
            counted.retain_mut(|place| {
                let visits = place.step();
                let hot = !place.is_by_itself() && self.cost(visits / seconds) > TOO_HOT;
                if hot {
                    rates[place.nth] = Some(self.rate((visits, 0.0, seconds), &[visits], false));
                } else if step == STEP {
                    place.steps.push(visits);
                }
                !hot
            });
            if step == STEP {
                passed += seconds;
                requests += new;
            }
        }
        for place in counted {
            let sums = (place.steps.iter().sum(), requests, passed.max(1e-9));
            rates[place.nth] = Some(self.rate(sums, &place.steps, place.is_by_itself()));
        }
        Some(())
    }

    /// From visits and requests in so many seconds.
    fn rate(&self, (visits, requests, seconds): (f64, f64, f64), steps: &[f64], is_exact: bool) -> CallRate {
        let (per_second, requests) = (visits / seconds, requests / seconds);
        let (variation, error) = (variation(steps), error(steps));
        CallRate { per_second, variation, error, cost: self.cost(per_second), is_exact, requests }
    }

    /// What counting so many visits a second costs, as a share of a CPU.
    fn cost(&self, per_second: f64) -> f64 {
        self.visit_cost.map_or(f64::NAN, |cost| per_second * cost.0 as f64 / 1e9)
    }
}

/// Mean and variance of some counts.
fn moments(counts: &[f64]) -> (f64, f64) {
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / n;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, variance)
}

/// See [`CallRate::variation`].
fn variation(counts: &[f64]) -> f64 {
    let (mean, variance) = moments(counts);
    // As many as that differ by chance alone.
    if mean <= 0.0 { 0.0 } else { (variance - mean).max(0.0).sqrt() / mean }
}

/// See [`CallRate::error`].
fn error(counts: &[f64]) -> f64 {
    let (mean, variance) = moments(counts);
    let of_mean = (variance.max(mean) / counts.len() as f64).sqrt();
    if mean <= 0.0 { f64::INFINITY } else { 1.96 * of_mean / mean }
}

/// What to call a function with `-p fn:NAME`: its short name where no other function has that, else the full one.
pub fn name_of<'a>(region: &Region, names: impl Iterator<Item = &'a str>) -> String {
    let same = names.filter(|name| *name == region.name).count();
    match &region.function {
        Some(full) if same > 1 => full.clone(),
        _ => region.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_visits_tell_little_of_their_rate() {
        assert!((error(&[100.0]) - 0.196).abs() < 1e-9, "by chance alone");
        assert!((error(&[100.0; 4]) - 0.098).abs() < 1e-9);
        assert!(error(&[0.0, 200.0, 0.0, 200.0]) > 0.9);
        assert_eq!(error(&[0.0; 8]), f64::INFINITY);
    }

    #[test]
    fn what_is_steady_does_not_vary() {
        assert_eq!(variation(&[100.0, 103.0, 98.0, 101.0]), 0.0);
        assert_eq!(variation(&[0.0; 8]), 0.0);
        assert!((variation(&[0.0, 1000.0, 0.0, 1000.0]) - 1.15).abs() < 0.05);
    }
}
