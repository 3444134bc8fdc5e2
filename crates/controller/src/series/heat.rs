//! Progress points that are visited so often that counting them changes what is measured: said while the program runs, with cooler
//! places to choose instead, and refused if it takes a quarter of a CPU.

use super::Series;
use crate::candidates::{self, Found};
use crate::diagnosis::COSTLY;
use crate::observe::lock;
use crate::survey;
use crate::window::Conductor;
use anyhow::Result;
use profile::{Nanos, printable};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

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
pub(super) struct Heat {
    looked: Instant,
    before: HashMap<String, Nanos>,
    told: HashSet<String>,
}

impl Heat {
    pub(super) fn new() -> Self {
        Self { looked: Instant::now(), before: HashMap::new(), told: HashSet::new() }
    }
}

impl Series<'_> {
    /// Looks now and then what counting costs. The error says what is visited too often, and what there is instead.
    pub(super) fn look_at_heat(&mut self, conductor: &mut Conductor<'_>) -> Result<()> {
        let passed = self.heat.looked.elapsed();
        if passed < LOOK {
            return Ok(());
        }
        self.heat.looked = Instant::now();
        let spent = self.points.spent(self.runs.visit_cost, self.runs.noting_cost);
        let before = &self.heat.before;
        let share = |(name, spent): &(String, Nanos)| {
            let since = spent.saturating_sub(before.get(name).copied().unwrap_or(Nanos::ZERO));
            (name.clone(), since.as_secs_f64() / passed.as_secs_f64())
        };
        let mut shares: Vec<(String, f64)> = spent.iter().map(share).collect();
        self.heat.before = spent.into_iter().collect();
        shares.retain(|(name, share)| *share > COSTLY && !self.heat.told.contains(name));
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let Some((name, share)) = shares.into_iter().next() else { return Ok(()) };
        self.heat.told.insert(name.clone());
        let refused = share > TOO_COSTLY && !self.points.is_of_latency(&name);
        let text = format!(
            "counting visits to {} takes {:.0} % of a CPU, which slows the program down and looks like time in the code that is visited",
            printable(&name),
            100.0 * share
        );
        if self.options.quiet && !refused {
            return Ok(());
        }
        if refused {
            // What is visited how often without it.
            self.points.give_up(&name);
        }
        let instead = self.cooler(conductor)?;
        if refused {
            return Err(Refused(format!("{text}{instead}")).into());
        }
        self.progress.say(&format!("whatif: {text}{instead}"));
        Ok(())
    }

    /// Places that are visited less often, as they can be typed.
    fn cooler(&self, conductor: &mut Conductor<'_>) -> Result<String> {
        lock(self.observer).note_stacks();
        let found = if conductor.wait(STACKS) {
            let pids = self.points.pids();
            candidates::find(&self.options.scope, &pids, self.observer, |time| conductor.wait(time))?
        } else {
            None
        };
        lock(self.observer).forget_stacks();
        let found = found.unwrap_or_default();
        let cool: Vec<&Found> = found.iter().filter(|found| found.is_affordable()).take(NAMED).collect();
        if cool.is_empty() {
            return Ok(
                "; mark a point in the source instead, or let samples be visits: -p sampled:PLACE".to_owned()
            );
        }
        let mut text = String::from("; choose a place that is visited less often:");
        for Found { candidate, rate } in cool {
            let _ = write!(
                text,
                "\n  -p {}   {:.0} a second, {} of a CPU, {:.0} % of the time",
                crate::command([&candidate.place]),
                rate.per_second,
                survey::cost(rate.cost),
                100.0 * candidate.share
            );
        }
        Ok(text)
    }
}
