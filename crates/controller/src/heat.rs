//! Progress points that are visited so often that counting them changes what is measured: said while the program runs, with cooler
//! places to choose instead, and refused if it takes a quarter of a CPU.

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
        let before = &self.before;
        let share = |(name, spent): &(String, Nanos)| {
            let since = spent.saturating_sub(before.get(name).copied().unwrap_or(Nanos::ZERO));
            (name.clone(), since.as_secs_f64() / passed.as_secs_f64())
        };
        let mut shares: Vec<(String, f64)> = spent.iter().map(share).collect();
        self.before = spent.into_iter().collect();
        let is_refused = |name: &str, share: f64| share > TOO_COSTLY && !run.points.is_of_latency(name);
        // On a busy machine it may cost that much only later.
        shares.retain(|(name, share)| {
            *share > COSTLY && (!self.told.contains(name) || is_refused(name, *share))
        });
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let Some((name, share)) = shares.into_iter().next() else { return Ok(()) };
        self.told.insert(name.clone());
        let refused = is_refused(&name, share);
        let text = format!(
            "counting visits to {} takes {:.0} % of a CPU, which slows the program down and looks like time in the code that is visited, or in its callers",
            printable(&name),
            100.0 * share
        );
        if run.options.quiet && !refused {
            return Ok(());
        }
        if refused {
            // What is visited how often without it.
            run.points.give_up(&name);
        }
        let instead = cooler(run, conductor)?;
        if refused {
            return Err(Refused(format!("{text}{instead}")).into());
        }
        run.progress.say(&format!("whatif: {text}{instead}"));
        Ok(())
    }
}

/// Places that are visited less often, as they can be typed.
fn cooler(run: &Run<'_>, conductor: &mut Conductor<'_>) -> Result<String> {
    lock(run.observer).note_stacks();
    let found = if conductor.wait(STACKS) {
        candidates::find(&candidates::ALL_KINDS, run.options, run.points, run.observer, |time| {
            conductor.wait(time)
        })?
    } else {
        None
    };
    lock(run.observer).forget_stacks();
    let found = found.unwrap_or_default();
    let cool: Vec<&Found> = found.iter().filter(|found| found.is_affordable()).take(NAMED).collect();
    if cool.is_empty() {
        return Ok(
            "; mark a point in the source instead, or let samples be visits: -p sampled:PLACE".to_owned()
        );
    }
    let mut text = String::from("; choose a place that is visited less often:");
    for found in cool {
        let Found { candidate, rate, .. } = found;
        let _ = write!(
            text,
            "\n  -p {}   {:.0} a second, {} of a CPU, {:.0} % of the time",
            profile::shell::command([&candidate.place]),
            rate.per_second,
            survey::cost(found.cost()),
            100.0 * candidate.share
        );
    }
    Ok(text)
}
