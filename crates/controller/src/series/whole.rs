//! Experiments as long as the program: `--end-to-end`.
//!
//! A program that is over before a window is has no progress point worth the name; what matters is how long it
//! takes. So each run is one window, with one region at one speedup, and its end is the visit to a progress
//! point ("effective runtime", papers/coz-first-paper.txt). Two runs are a block. The first run of all only
//! looks where the time goes; what it learnt about code is known from the beginning of the next ones.

use super::{Outcome, Series};
use crate::experiment::{Offer, Plan};
use crate::images::Spot;
use crate::observe::lock;
use crate::record::Assignment;
use crate::runs::Runs;
use crate::window::Conductor;
use anyhow::Result;
use profile::{Nanos, Point, PointKind, Visits, Window, WindowFlags};

/// The name of the progress point that is the program's end.
const POINT: &str = "end-to-end";
/// Entries of the list that regions are chosen from.
const OFFERS: f64 = 64.0;

/// What is kept from one run to the next.
#[derive(Debug, Default)]
pub struct Whole {
    /// Code that has been seen running.
    spots: Vec<Spot>,
    /// Regions that have been seen running.
    offers: Vec<Offer>,
    /// The experiment under way.
    plan: Option<Plan>,
    /// Its windows.
    windows: Vec<Window>,
}

impl Series<'_> {
    /// Conducts the one window of a run, which begins before `release` lets the program go on.
    pub(super) fn conduct_whole(
        mut self,
        mut conductor: Conductor<'_>,
        release: impl FnOnce(),
    ) -> Result<Outcome> {
        let mut outcome = Outcome { visited: true, ..Outcome::default() };
        lock(self.observer).know(&self.runs.whole.spots);
        match self.next_whole()? {
            Some(assigned) => {
                let order = self.order(assigned.region, assigned.speedup, Nanos::ZERO);
                conductor.look_at_limit(|| self.target.roots().first().copied());
                let measured = conductor.conduct_whole(&order, release);
                self.look_at_machine();
                let mut window = {
                    let mut observer = lock(self.observer);
                    observer.drain();
                    let seen = observer.seen(measured.start, measured.elapsed);
                    let (points, busy) = (self.points.list(), self.busy);
                    self.session.window(&points, &observer, assigned, &measured, seen, busy)?
                };
                let end = Point { name: POINT.to_owned(), kind: PointKind::Throughput };
                let point = self.session.point(&end)?;
                window.flags = window.flags.with(WindowFlags::WHOLE);
                window.visits.push(Visits { point, count: 1, span: None });
                self.runs.whole.windows.push(window);
                outcome.blocks = self.finish_whole()?;
            }
            None => {
                release();
                while conductor.wait(crate::window::IDLE) {}
            }
        }
        outcome.delayed = conductor.delayed();
        self.learn_whole()?;
        self.progress.block(self.runs.blocks + outcome.blocks, self.runs.outlook.standing());
        self.progress.finish();
        Ok(outcome)
    }

    /// Which window this run is to be; `None` while nothing is known.
    fn next_whole(&mut self) -> Result<Option<Assignment>> {
        let Runs { whole, history, random, .. } = &mut *self.runs;
        if whole.plan.is_none() {
            whole.plan = history.next(&whole.offers, &self.options.choices, random);
        }
        let Some(Plan { region, windows, .. }) = whole.plan else { return Ok(None) };
        let nth = whole.windows.len();
        // Regions have other indices in every run.
        for (index, known) in lock(self.observer).numbered() {
            if self.session.region(index, &known.region)? == region {
                let assigned =
                    Assignment { block: 0, index: nth as u32, region: index, speedup: windows[nth] };
                return Ok(Some(assigned));
            }
        }
        Ok(None)
    }

    /// Writes the experiment, if this was its second window; how many that makes.
    fn finish_whole(&mut self) -> Result<u64> {
        let whole = &mut self.runs.whole;
        let Some(last) = whole.windows.last().map(|window| window.session) else { return Ok(0) };
        if whole.windows.len() < 2 {
            return Ok(0);
        }
        // A block belongs to one session: that in which it was completed.
        let mut windows = std::mem::take(&mut whole.windows);
        windows.iter_mut().for_each(|window| window.session = last);
        whole.plan = None;
        self.session.block(&windows)?;
        self.runs.outlook.add(windows);
        self.look()?;
        Ok(1)
    }

    /// Keeps what the run has taught about code.
    fn learn_whole(&mut self) -> Result<()> {
        let mut observer = lock(self.observer);
        observer.drain();
        let mut offers = Vec::new();
        for index in self.most_run(&observer) {
            let entries = (self.share(&observer.regions()[index]) * OFFERS).clamp(1.0, OFFERS) as usize;
            offers.extend(std::iter::repeat_n(self.offer(&observer, index)?, entries));
        }
        self.runs.whole.spots = observer.spots();
        self.runs.whole.offers = offers;
        Ok(())
    }
}
