//! Places whose visits may be progress, in a program that marks none: what much of the time is spent in or below, and is
//! visited again and again at a steady rate, without costing much to count.
//!
//! They are found on the stacks of samples ([`Observer::chains`]); then functions and lines on many stacks are counted, as if
//! they had been given with `-p`.

use crate::code_scope::CodeScope;
use crate::observe::{Chains, Known, Observer, lock};
use crate::options::Options;
use crate::points::{self, CallRate, Meter, Points, Site, could_count_itself};
use anyhow::Result;
use profile::{Nanos, Point, RegionKind};
use std::sync::Mutex;

/// Places that are counted.
const COUNTED: usize = 12;
/// What fewer samples than this share of all were taken in is no unit of the work.
const LEAST_SHARE: f64 = 0.02;
/// What fewer are taken in or below than this share is likely none.
const GOOD_SHARE: f64 = 0.1;
/// What varies by more than this is likely none.
const GOOD_VARIATION: f64 = 1.0;
/// Visits per second of something worth counting: below, a profile takes minutes.
const LEAST_RATE: f64 = 2.0;
/// Visits per second of which half the worth is lost: windows have few of them.
const FEW_VISITS: f64 = 20.0;
/// Requests as such score like a place with this share of the work.
const SHARE_OF_REQUESTS: f64 = 0.3;
/// What costs less than this share of a CPU to count is counted where it is visited once for each request, rather than requests as such: it has a name.
const CHEAP: f64 = 0.01;
/// By how much counting may slow threads down that visit a place: at twice as much it is worth a fifth of what it is worth otherwise.
const AFFORDABLE: f64 = 0.05;
/// What CPUs that count in the same word may take of one for it.
const MOST_SHARED: f64 = 0.3;
/// Where less than this share of the samples is in scope, the files with most of the others are looked into as well.
const ENOUGH_IN_SCOPE: f64 = 0.5;
/// So few samples say nothing about that.
const FEW: u64 = 20;
/// Files that are looked into besides the program.
const MOST_FILES: usize = 2;
/// Files of the C and C++ libraries: what is spent there is spent for their callers.
const LIBRARIES: [&str; 8] =
    ["libc.so", "libc-", "libm.so", "libm-", "libpthread", "ld-linux", "libstdc++.so", "libgcc_s.so"];

/// Something that may be a unit of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// As `-p` understands it.
    pub place: String,
    /// Where it is, for people.
    pub at: String,
    /// The share of all samples that have it on their stack; `None` of requests as such, which are no place in the code.
    pub share: Option<f64>,
    /// The share of all samples that were taken in it.
    pub own: f64,
    /// The threads that have it on their stack.
    pub threads: usize,
}

impl Candidate {
    /// Answered requests of other programs, wherever in the program that is.
    fn requests() -> Self {
        let at = "requests of other programs, when they are answered".to_owned();
        Self { place: Point::REQUESTS.to_owned(), at, share: None, own: 0.0, threads: 1 }
    }
}

/// A candidate that has been counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub candidate: Candidate,
    pub rate: CallRate,
    /// By how much breakpoints there slow the program down, no matter how often they are visited: hot code is in the same lines.
    pub beside: f64,
    /// Whether the program itself is to count its visits.
    pub by_itself: bool,
}

impl Found {
    /// How good a progress point it may be: steady, and much of the work; what is expensive to count changes what is measured. A function
    /// that has the time itself is more likely a part of a unit of work than one that calls others.
    pub fn score(&self) -> f64 {
        let dear = self.slowdown() / AFFORDABLE;
        let whole = self.candidate.share.unwrap_or(SHARE_OF_REQUESTS) - self.candidate.own / 2.0;
        let seldom = FEW_VISITS / self.rate.per_second;
        whole / (1.0 + self.rate.variation) / (1.0 + dear * dear) / (1.0 + seldom)
    }

    /// What comes first, whatever the scores are: many requests tell what the work is, and other places do not. Turns of an event loop, which have more of the work, are no
    /// requests.
    fn rank(&self) -> u8 {
        match (self.rate.is_that_of_requests(), self.candidate.share) {
            (true, Some(_)) if self.is_good() && self.cost() < CHEAP => 3,
            (true, None) => 2,
            (true, Some(_)) if self.is_affordable() => 1,
            _ => 0,
        }
    }

    /// Whether counting its visits costs little enough.
    pub fn is_affordable(&self) -> bool {
        // CPUs that count in the same word wait for one another, and more of them do not count more.
        let is_contended = self.by_itself && self.at_a_time() > 1.0 && self.cost() > MOST_SHARED;
        self.slowdown() <= AFFORDABLE && !is_contended
    }

    /// Whether its rate is what it was before it was counted, as far as is known.
    pub fn is_as_it_was(&self) -> bool {
        let dear = (self.rate.cost + self.beside * self.at_a_time()) / self.at_a_time();
        self.rate.is_exact || dear.is_nan() || dear <= AFFORDABLE
    }

    /// Whether it is likely a unit of work: much of the work, or many requests; and steady.
    pub fn is_good(&self) -> bool {
        let is_much = match self.candidate.share {
            Some(share) => share >= GOOD_SHARE,
            None => self.rate.is_that_of_requests(),
        };
        self.is_affordable() && is_much && self.rate.variation < GOOD_VARIATION
    }

    /// What counting takes, as a share of a CPU; NaN if that is not known.
    pub fn cost(&self) -> f64 {
        match self.by_itself {
            true => self.rate.cost_by_itself(self.at_a_time() > 1.0),
            false => self.rate.cost + self.beside * self.at_a_time(),
        }
    }

    /// By which share of a CPU's time counting slows each of the threads down that visit it and can run at the same time; what is not known
    /// is left out.
    fn slowdown(&self) -> f64 {
        let cost = self.cost();
        let known = if cost.is_nan() { self.beside * self.at_a_time() } else { cost };
        known / self.at_a_time()
    }

    /// How many of the threads can visit it at the same time.
    fn at_a_time(&self) -> f64 {
        self.candidate.threads.clamp(1, kernel::cpu::online().max(1) as usize) as f64
    }
}

/// What may be a unit of work.
pub const ALL_KINDS: [RegionKind; 2] = [RegionKind::Function, RegionKind::Line];

/// Looks into further files where most of the time is not in the program's own; the names of those, most first. `in_vain`: nothing was
/// found in the program's own, so that its callers' time in others is looked at, too.
pub fn widen(scope: &CodeScope, observer: &mut Observer, in_vain: bool) -> Vec<String> {
    let (samples, _) = observer.totals();
    if scope.binaries.is_some() || !scope.is_default || samples < FEW {
        return Vec::new();
    }
    let outside = samples - observer.in_scope();
    let little = (observer.in_scope() as f64) < ENOUGH_IN_SCOPE * samples as f64;
    let (files, of) = match (little, in_vain) {
        (true, _) => (observer.elsewhere_counted(), outside),
        (false, true) => (observer.innermost(), samples),
        (false, false) => return Vec::new(),
    };
    let may_be = |name: &str| !LIBRARIES.iter().any(|library| name.starts_with(library));
    // What has a fifth.
    let much = files.into_iter().filter(|(name, count)| may_be(name) && count * 5 >= of);
    let names: Vec<String> = much.map(|(name, _)| name.to_owned()).take(MOST_FILES).collect();
    names.into_iter().filter(|name| observer.widen(name)).collect()
}

/// Counts those of `kinds` that may be a unit of work; the best first. What is never or hardly visited is left out. `None` if the program ended: `wait` returns false then.
pub fn find(
    kinds: &[RegionKind],
    options: &Options,
    points: &Points,
    observer: &Mutex<Observer>,
    mut wait: impl FnMut(Nanos) -> bool,
) -> Result<Option<Vec<Found>>> {
    let visit_cost = kernel::visits::cost(kernel::visits::Means::Breakpoint).ok();
    // What is attached to is to be left as it was.
    let may_change = !options.is_attached;
    let meter = Meter { points, scope: &options.scope.sources, visit_cost, may_change };
    let mut candidates = candidates(&lock(observer));
    candidates.retain(|(_, kind)| kinds.contains(kind));
    let candidates: Vec<Candidate> = candidates.into_iter().map(|(candidate, _)| candidate).collect();
    let places: Vec<String> = candidates.iter().map(|candidate| candidate.place.clone()).collect();
    let (places, besides) = {
        let observer = lock(observer);
        let places = meter.find(&places, observer.images())?;
        // Before they are counted: that slows code beside them down.
        let beside =
            |place: &Vec<Site>| observer.beside(place.iter().filter_map(|site| site.shared.as_ref()));
        let besides: Vec<f64> = places.iter().map(beside).collect();
        (places, besides)
    };
    let more = kernel::visits::slowdown_beside().map_or(0.0, |factor| factor - 1.0);
    let all_requests = points.count_requests();
    let Some(rates) = meter.measure(&places, &mut wait) else { return Ok(None) };
    // Where nothing could be counted, no time has passed.
    let may_have_requests = rates.iter().all(Option::is_none) || all_requests.count() > 0;
    let mut found = Vec::new();
    for ((candidate, place), (rate, beside)) in
        candidates.into_iter().zip(&places).zip(rates.into_iter().zip(besides))
    {
        let Some(rate) = rate.filter(|rate| rate.per_second >= LEAST_RATE) else { continue };
        found.push(Found { candidate, rate, beside: beside * more, by_itself: could_count_itself(place) });
    }
    if kinds.contains(&RegionKind::Function) && may_have_requests {
        let Some(rate) = meter.measure_requests(&mut wait) else { return Ok(None) };
        let rate = rate.filter(|rate| rate.per_second >= LEAST_RATE);
        let of = |rate| Found { candidate: Candidate::requests(), rate, beside: 0.0, by_itself: false };
        found.extend(rate.map(of));
    }
    sort(&mut found);
    Ok(Some(found))
}

/// The best first.
pub fn sort(found: &mut [Found]) {
    found.sort_by(|a, b| b.rank().cmp(&a.rank()).then_with(|| b.score().total_cmp(&a.score())));
}

/// Functions and lines that much of the time is spent in or below, most first.
fn candidates(observer: &Observer) -> Vec<(Candidate, RegionKind)> {
    let Some(chains) = observer.chains() else { return Vec::new() };
    let (samples, _) = observer.totals();
    let known = observer.regions();
    let mut found: Vec<(Candidate, RegionKind)> = chains
        .iter()
        .map(|(index, seen)| (&known[*index], seen))
        .filter_map(|(known, Chains { samples: on_stack, threads })| {
            let Known { region, samples: of_itself, .. } = known;
            let part = |count: u64| count as f64 / samples.max(1) as f64;
            let (share, own) = (part(*on_stack), part(*of_itself));
            let place = match (region.kind, region.line, &region.file) {
                (RegionKind::Function, ..) => {
                    format!("fn:{}", points::name_of(region, known_names(observer)))
                }
                (RegionKind::Line, Some(line), Some(file)) => {
                    format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
                }
                _ => return None,
            };
            // Of a program that another one has executed.
            let program = observer.images().executed_name(&region.image.path);
            let place = program.map_or_else(|| place.clone(), |program| format!("{program}:{place}"));
            let at = match region.kind {
                RegionKind::Function => region.location().unwrap_or_default(),
                RegionKind::Line => format!("in {}", region.function.as_deref().unwrap_or("?")),
            };
            let candidate =
                Candidate { place, at, share: Some(share), own: own.min(share), threads: threads.len() };
            (share >= LEAST_SHARE).then_some((candidate, region.kind))
        })
        .collect();
    let share = |candidate: &Candidate| candidate.share.unwrap_or(0.0);
    found.sort_by(|(a, _), (b, _)| share(b).total_cmp(&share(a)).then_with(|| a.place.cmp(&b.place)));
    // Lines are for what no function is called for: a loop in a function that never returns.
    let of_kind = |kind| found.iter().filter(move |(_, of)| *of == kind).cloned();
    of_kind(RegionKind::Function)
        .take(COUNTED * 2 / 3)
        .chain(of_kind(RegionKind::Line).take(COUNTED / 3))
        .collect()
}

/// The names of all functions that have been seen, to tell those apart that share one.
fn known_names(observer: &Observer) -> impl Iterator<Item = &str> {
    let functions = observer.regions().iter().filter(|known| known.region.kind == RegionKind::Function);
    functions.map(|known| known.region.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(share: f64, per_second: f64, cost: f64) -> Found {
        let candidate = Candidate {
            place: "fn:f".to_owned(),
            at: String::new(),
            share: Some(share),
            own: 0.0,
            threads: 1,
        };
        let rate = CallRate { per_second, variation: 0.0, error: 0.0, cost, is_exact: false, requests: 0.0 };
        Found { candidate, rate, beside: 0.0, by_itself: false }
    }

    #[test]
    fn what_calls_others_comes_before_what_works_itself() {
        let (whole, mut part) = (found(0.9, 1000.0, 0.01), found(0.9, 1000.0, 0.01));
        part.candidate.own = 0.8;
        assert!(part.score() < whole.score());
        // Where all is in one function, that is still a better one than a small part of the work.
        assert!(part.score() > found(0.3, 1000.0, 0.01).score());
    }

    #[test]
    fn a_good_one_is_much_of_the_work_steady_and_cheap_to_count() {
        let varying = |variation| {
            let found = found(0.9, 100.0, 0.01);
            Found { rate: CallRate { variation, ..found.rate }, ..found }
        };
        assert!(varying(0.1).is_good() && !varying(2.0).is_good());
        assert!(found(0.5, 100.0, 0.01).is_good() && !found(0.05, 100.0, 0.01).is_good());
        // If the program counts them itself, what is visited often costs little, too.
        let hot = found(0.9, 100_000.0, 0.5);
        assert!(!hot.is_good() && Found { by_itself: true, ..hot }.is_good());
        // On some CPUs a breakpoint slows down what is beside it.
        assert!(!Found { beside: 1.0, ..found(0.9, 100.0, 0.01) }.is_good());
    }

    #[test]
    fn what_is_visited_once_for_each_request_comes_before_turns_of_the_event_loop() {
        let of = |share, per_second, requests| {
            let found = found(share, per_second, 0.0);
            Found { rate: CallRate { requests, ..found.rate }, ..found }
        };
        let (turn, request) = (of(0.98, 48_000.0, 135_000.0), of(0.53, 134_000.0, 135_000.0));
        assert!(request.rate.is_that_of_requests() && !turn.rate.is_that_of_requests());
        assert!(request.rank() > turn.rank());
        // A few requests say nothing.
        assert_eq!(of(0.53, 5.0, 5.0).rank(), of(0.98, 5.0, 5.0).rank());
        assert!(
            !of(0.9, 10.0, 10.0).rate.is_that_of_requests()
                && !of(0.9, 100.0, 0.0).rate.is_that_of_requests()
        );
    }

    #[test]
    fn requests_come_before_places_that_are_not_theirs_or_cost_something_to_count() {
        let of = |place: &str, per_second, cost, requests| {
            let found = found(0.95, per_second, cost);
            let candidate = Candidate { place: place.to_owned(), ..found.candidate };
            Found { candidate, rate: CallRate { requests, ..found.rate }, ..found }
        };
        let requests = |per_second| {
            let of = of(Point::REQUESTS, per_second, 0.0, per_second);
            Found { candidate: Candidate::requests(), ..of }
        };
        let first = |mut found: Vec<Found>| {
            sort(&mut found);
            found.swap_remove(0).candidate.place
        };
        let (turn, own, dear) = (
            of("turn", 400.0, 0.0, 1000.0),
            of("own", 1000.0, 0.0, 1000.0),
            of("dear", 1000.0, 0.04, 1000.0),
        );
        assert_eq!(first(vec![turn.clone(), requests(1000.0), own]), "own");
        assert_eq!(first(vec![turn, dear, requests(1000.0)]), Point::REQUESTS);
        // A few requests may ask for nothing but how the program is. They are better than nothing.
        assert_eq!(first(vec![of("work", 400.0, 0.0, 5.0), requests(5.0)]), "work");
        assert!(requests(1000.0).is_good() && !requests(5.0).is_good() && requests(5.0).is_affordable());
    }

    #[test]
    fn what_is_visited_seldom_is_worth_less() {
        assert!(found(0.95, 7.0, 0.0).score() < found(0.95, 25.0, 0.0).score());
        assert!(found(0.95, 7.0, 0.0).score() < found(0.5, 1000.0, 0.0).score());
    }

    #[test]
    fn what_costs_much_to_count_comes_last() {
        // What is visited 25,000 times a second, with all of the time, is no better than a tenth of the work.
        assert!(found(1.0, 25_000.0, 0.74).score() < found(0.1, 100.0, 0.001).score());
        assert!(found(1.0, 1000.0, 0.01).score() > found(0.9, 1000.0, 0.01).score());
        let beside = Found { beside: 0.3, ..found(1.0, 100.0, 0.001) };
        assert!(
            !beside.is_affordable()
                && beside.cost() > 0.3
                && beside.score() < found(0.1, 100.0, 0.001).score()
        );
        // Of CPUs that count in the same word not more than so many visits a second.
        let shared = |per_second| {
            let found = Found { by_itself: true, ..found(1.0, per_second, 1.0) };
            Found { candidate: Candidate { threads: 64, ..found.candidate }, ..found }
        };
        assert!(shared(1e5).is_affordable() && !shared(2e7).is_affordable());
        // What the program counts itself costs little, even in hot code.
        let by_itself = Found { by_itself: true, ..beside };
        assert!(by_itself.is_affordable() && by_itself.score() > found(0.9, 100.0, 0.001).score());
        assert!(found(1.0, 10.0, f64::NAN).is_affordable() && !found(1.0, 1e5, 0.3).is_affordable());
    }
}
