//! The runs of a program into one recording: what is kept from one to the next, and whether there is another.

use crate::audience::Audience;
use crate::experiment::History;
use crate::hint::Hint;
use crate::launch;
use crate::options::Options;
use crate::outlook::Outlook;
use crate::series::Whole;
use std::path::PathBuf;
use std::time::Instant;

/// After so many runs in a row without an experiment the program is not run again.
const MOST_FRUITLESS: u32 = 3;

/// What visits to breakpoints cost; see [`Runs`].
#[derive(Default)]
pub struct VisitCosts {
    pub visit: Option<wire::Nanos>,
    pub noting: Option<wire::Nanos>,
}

/// A place that was chosen while the program runs.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// As `-p` understands it.
    pub place: String,
    /// Whether the program counts the visits itself.
    pub by_itself: bool,
}

/// The runs of a program into one recording.
pub struct Runs {
    pub begin: Instant,
    pub done: u32,
    /// Runs in a row without an experiment.
    pub fruitless: u32,
    /// Experiments in all of them.
    pub blocks: u64,
    pub history: History,
    pub random: fastrand::Rng,
    pub outlook: Outlook,
    pub whole: Whole,
    /// What production says about where to look.
    pub hint: Option<Hint>,
    /// What a visit to a breakpoint costs, if there are any.
    pub visit_cost: Option<wire::Nanos>,
    /// The same for one at which the visiting thread notes the time, besides noting it.
    pub noting_cost: Option<wire::Nanos>,
    /// The place that was chosen to be a progress point, in a program that marks none.
    pub chosen: Option<Chosen>,
    /// The program that experiments were made on, where the command leads to another one.
    pub profiled: Option<PathBuf>,
    /// Whether the answer has been shown, while the program goes on.
    pub shown: bool,
    pub audience: Box<dyn Audience>,
}

impl Runs {
    /// None yet.
    pub fn new(
        options: &Options,
        costs: &VisitCosts,
        hint: Option<Hint>,
        audience: Box<dyn Audience>,
    ) -> Self {
        let fixed = options.fixed_speedups || !options.regions.is_empty();
        Self {
            begin: Instant::now(),
            done: 0,
            fruitless: 0,
            blocks: 0,
            history: History::default(),
            random: fastrand::Rng::with_seed(options.seed),
            outlook: Outlook::new(options.precision, fixed),
            whole: Whole::default(),
            hint,
            visit_cost: costs.visit,
            noting_cost: costs.noting,
            chosen: None,
            profiled: None,
            shown: false,
            audience,
        }
    }

    /// Counts a run, before which there were so many experiments.
    pub fn is_done(&mut self, before: u64) {
        self.done += 1;
        self.fruitless = if self.blocks == before { self.fruitless + 1 } else { 0 };
    }

    /// Whether the program is to run once more.
    pub fn again(&self, options: &Options) -> bool {
        let times = options.repeat.unwrap_or(if options.again() { u32::MAX } else { 1 });
        self.done < times
            && !launch::asked_to_end()
            && self.fruitless < MOST_FRUITLESS
            && !self.is_enough(options)
            && !self.is_over(options)
    }

    /// Whether all runs together have taken as long as they may.
    pub fn is_over(&self, options: &Options) -> bool {
        options.duration.is_some_and(|most| self.begin.elapsed() >= most)
    }

    /// Whether the answer is as sure as it is to be, and no page asks for more.
    pub fn is_enough(&self, options: &Options) -> bool {
        options.stops_when_sure() && self.outlook.is_sure() && !self.audience.wants_more()
    }
}
