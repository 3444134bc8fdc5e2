//! Progress points that are visited so often that counting them changes what is measured: said while the program runs, and refused, with
//! cooler places to choose instead, if it takes a quarter of a CPU. Looking for these takes seconds, which a run that goes on has not.

use crate::candidates::{self, Found};
use crate::observe::{Observer, lock};
use crate::options::Options;
use crate::points::Points;
use crate::progress;
use crate::survey;
use crate::window::Conductor;
use anyhow::Result;
use profile::{Nanos, printable};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Counting visits may take this share of a CPU without a word.
pub const COSTLY: f64 = 0.05;
/// Counting one point may take this share of a CPU.
const TOO_COSTLY: f64 = 0.25;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long stacks are looked at to find something cooler.
const STACKS: Nanos = Nanos::from_millis(500);
/// Cooler places that are named.
const NAMED: usize = 4;

/// A point is refused because counting it costs too much; says what there is instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

/// What counting took until the last look.
pub struct Heat {
    looked: Instant,
    before: HashMap<String, Nanos>,
    told: HashSet<String>,
}

/// A point that costs much to count.
#[derive(Debug, PartialEq)]
struct Costly {
    name: String,
    /// Of a CPU, since the last look.
    share: f64,
    /// Whether the program cannot be profiled with it.
    refused: bool,
}

/// What it looks at.
pub struct Run<'a> {
    pub points: &'a Points,
    pub options: &'a Options,
    pub observer: &'a Mutex<Observer>,
    pub progress: &'a progress::Bar,
    /// What counting a visit takes, and noting one.
    pub visit_cost: Option<wire::Nanos>,
    pub noting_cost: Option<wire::Nanos>,
}

impl Heat {
    pub fn new() -> Self {
        Self { looked: Instant::now(), before: HashMap::new(), told: HashSet::new() }
    }

    /// Looks now and then what counting costs. The error says what is visited too often, and what there is instead.
    pub fn look(&mut self, run: &Run<'_>, conductor: &mut Conductor<'_>) -> Result<()> {
        let passed = self.looked.elapsed();
        if passed < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        let spent = run.points.spent(run.visit_cost, run.noting_cost);
        let Some(Costly { name, share, refused }) =
            self.costliest(spent, passed, |name| run.points.is_of_latency(name))
        else {
            return Ok(());
        };
        let text = format!(
            "counting visits to {} takes {:.0} % of a CPU, which slows the program down and looks like time in the code that is visited, or in its callers",
            printable(&name),
            100.0 * share
        );
        if run.options.quiet && !refused {
            return Ok(());
        }
        if !refused {
            run.progress
                .say(&format!("whatif: {text}; whatif points lists places that are visited less often"));
            return Ok(());
        }
        // What is visited how often without it.
        run.points.give_up(&name);
        let instead = instead(&cooler(run, conductor)?);
        Err(Refused(format!("{text}{instead}")).into())
    }

    /// The point whose visits have taken most since the last look, if that is to be said: once, and again when it is too much.
    /// `spent`: what counting each point has taken so far; `passed`: time since the last look. The ends of a latency are never refused.
    fn costliest(
        &mut self,
        spent: Vec<(String, Nanos)>,
        passed: Duration,
        is_of_latency: impl Fn(&str) -> bool,
    ) -> Option<Costly> {
        let costly = |(name, spent): &(String, Nanos)| {
            let since = spent.saturating_sub(self.before.get(name).copied().unwrap_or(Nanos::ZERO));
            let share = since.as_secs_f64() / passed.as_secs_f64();
            Costly { name: name.clone(), share, refused: share > TOO_COSTLY && !is_of_latency(name) }
        };
        let all: Vec<Costly> = spent.iter().map(costly).collect();
        self.before = spent.into_iter().collect();
        // On a busy machine it may cost that much only later.
        let is_news = |it: &Costly| it.share > COSTLY && (it.refused || !self.told.contains(&it.name));
        let most = all.into_iter().filter(is_news).max_by(|a, b| a.share.total_cmp(&b.share))?;
        self.told.insert(most.name.clone());
        Some(most)
    }
}

/// Places that are visited less often.
fn cooler(run: &Run<'_>, conductor: &mut Conductor<'_>) -> Result<Vec<Found>> {
    lock(run.observer).note_stacks();
    let found = if conductor.wait(STACKS) {
        candidates::find(&candidates::ALL_KINDS, run.options, run.points, run.observer, |time| {
            conductor.wait(time)
        })?
    } else {
        None
    };
    lock(run.observer).forget_stacks();
    Ok(found.unwrap_or_default())
}

/// What to choose instead: places that cost little, as they can be typed.
fn instead(found: &[Found]) -> String {
    let cool: Vec<&Found> = found.iter().filter(|found| found.is_affordable()).take(NAMED).collect();
    if cool.is_empty() {
        return "; mark a point in the source instead, or let samples be visits: -p sampled:PLACE".to_owned();
    }
    let mut text = String::from("; choose a place that is visited less often:");
    for found in cool {
        let Found { candidate, rate, .. } = found;
        let _ = write!(
            text,
            "\n  -p {}   {:.0} a second, {} of a CPU, {} of the time",
            profile::shell::command([&candidate.place]),
            rate.per_second,
            survey::cost(found.cost()),
            survey::of_time(candidate)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Candidate;
    use crate::points::CallRate;

    const LOOKED: Duration = Duration::from_secs(1);

    fn spent(of: &[(&str, u64)]) -> Vec<(String, Nanos)> {
        of.iter().map(|(name, millis)| ((*name).to_owned(), Nanos::from_millis(*millis))).collect()
    }

    fn costliest(heat: &mut Heat, of: &[(&str, u64)]) -> Option<(String, u32, bool)> {
        let most = heat.costliest(spent(of), LOOKED, |name| name == "begin")?;
        Some((most.name, (100.0 * most.share).round() as u32, most.refused))
    }

    #[test]
    fn what_costs_much_is_told_once_and_refused_when_it_is_too_much() {
        let mut heat = Heat::new();
        assert_eq!(costliest(&mut heat, &[("few", 40), ("many", 100)]), Some(("many".into(), 10, false)));
        // As much again, which was told.
        assert_eq!(costliest(&mut heat, &[("few", 80), ("many", 200)]), None);
        assert_eq!(costliest(&mut heat, &[("few", 80), ("many", 500)]), Some(("many".into(), 30, true)));
        // Where counting has ended, nothing is spent.
        assert_eq!(costliest(&mut heat, &[("few", 140), ("many", 0)]), Some(("few".into(), 6, false)));
    }

    #[test]
    fn the_ends_of_a_latency_are_told_and_never_refused() {
        let mut heat = Heat::new();
        assert_eq!(costliest(&mut heat, &[("begin", 400)]), Some(("begin".into(), 40, false)));
        assert_eq!(costliest(&mut heat, &[("begin", 800)]), None);
    }

    fn found(place: &str, per_second: f64, cost: f64) -> Found {
        let (share, own, threads) = (0.5, 0.1, 1);
        let candidate =
            Candidate { place: place.to_owned(), at: place.to_owned(), share: Some(share), own, threads };
        let rate = CallRate { per_second, variation: 0.1, error: 0.01, cost, is_exact: false, requests: 0.0 };
        Found { candidate, rate, beside: 0.0, by_itself: false }
    }

    #[test]
    fn places_that_cost_little_are_named_as_they_can_be_typed() {
        let text = instead(&[found("fn:often", 1e6, 0.9), found("fn:handle it", 100.0, 0.001)]);
        let line = "\n  -p 'fn:handle it'   100 a second, 0.1 % of a CPU, 50 % of the time";
        assert_eq!(text, format!("; choose a place that is visited less often:{line}"));
    }

    #[test]
    fn where_every_place_costs_much_another_way_is_named() {
        let text = instead(&[found("fn:often", 1e6, 0.9)]);
        assert!(text.contains("mark a point in the source") && text.contains("sampled:PLACE"), "{text}");
    }
}
