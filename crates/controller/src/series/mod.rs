//! The series of experiments on a program while it runs: which one is next, its windows, what they say so far.

mod scouting;
mod whole;

pub use whole::Whole;

use crate::clients::Clients;
use crate::clocks::{self, Clocks};
use crate::experiment::{Offer, Shown};
use crate::heat::{self, Heat};
use crate::hint::{self, Hint};
use crate::launch::Target;
use crate::now::monotonic;
use crate::observe::{Known, Observer, lock};
use crate::options::Options;
use crate::overhead::{Overhead, STRETCH};
use crate::points::Points;
use crate::record::{Assignment, Session, Tallies};
use crate::region::RegionIndex;
use crate::runs::Runs;
use crate::threads::Threads;
use crate::window::{Conductor, IDLE, Order};
use crate::{dead_slots, progress};
use anyhow::Result;
use kernel::SharedMapping;
use kernel::cpu::{CpuUse, ProgramUse};
use profile::{Nanos, Speedup};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the totals are written, so that a killed controller leaves a useful file.
const SAVE: Duration = Duration::from_secs(1);
/// How long the first samples are collected before the first experiment.
const FIRST_LOOK: Nanos = Nanos::from_millis(30);
/// When less than this is left for a window, there is no further one.
const SHORTEST: Nanos = Nanos::from_millis(100);
/// Time between two looks whether the time is up.
const REST: Nanos = Nanos::from_millis(5);
/// Experiments that are kept back until it is known whether they have to be made again.
const HELD: usize = 4;
/// What a region lacks that the user has pinned: more than all others together, whose most is 1.
const PINNED: f64 = 20.0;
/// Regions that are estimated while the program runs: those that run most.
const LOOKED_AT: usize = 50;

/// How an attempt to profile went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Experiments.
    pub blocks: u64,
    /// Windows of them.
    pub windows: usize,
    /// Whether any progress point was visited during one.
    pub visited: bool,
    pub delayed: Nanos,
    /// Why a survey has nothing to suggest.
    pub nothing: Option<String>,
}

/// A series of experiments on a program that is running.
pub struct Series<'a> {
    options: &'a Options,
    shared: &'a SharedMapping,
    points: &'a Points,
    observer: &'a Mutex<Observer>,
    session: &'a mut Session,
    target: &'a Target<'a>,
    runs: &'a mut Runs,
    progress: progress::Bar,
    program: ProgramUse,
    cpu: Option<CpuUse>,
    busy: Option<f64>,
    clients: Clients,
    clocks: Clocks,
    begin: Instant,
    saved: Instant,
    heat: Heat,
    threads: Threads,
    /// Since when there are experiments.
    experimenting: Option<Instant>,
    overhead: Overhead,
}

impl<'a> Series<'a> {
    pub fn new(
        options: &'a Options,
        shared: &'a SharedMapping,
        points: &'a Points,
        observer: &'a Mutex<Observer>,
        session: &'a mut Session,
        target: &'a Target<'a>,
        runs: &'a mut Runs,
    ) -> Self {
        let mut program = ProgramUse::default();
        Self {
            options,
            shared,
            points,
            observer,
            session,
            target,
            progress: progress::Bar::new(runs.begin, options.duration, options.quiet),
            runs,
            cpu: program.now(&target.roots(), &|pid| shared.memory().slots.has_process(pid)).ok(),
            program,
            busy: None,
            clients: Clients::default(),
            clocks: Clocks::new(options.duration),
            begin: Instant::now(),
            saved: Instant::now(),
            heat: Heat::new(),
            threads: Threads::default(),
            experimenting: None,
            overhead: Overhead::default(),
        }
    }

    /// Conducts experiments until the program ends, the time is up or the answer is sure. `release` lets a program go on that waits before `main`
    /// for its only window.
    pub fn conduct(mut self, mut conductor: Conductor<'_>, release: impl FnOnce()) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let options = self.options;
        let begin = self.runs.begin;
        let limits = &options.limits;
        let over = || limits.halt.is_asked() || options.duration.is_some_and(|most| begin.elapsed() >= most);
        if !self.options.sampling() {
            release();
            while !over() && conductor.wait(IDLE) {}
            return Ok(outcome);
        }
        if options.end_to_end {
            return self.conduct_whole(conductor, release);
        }
        release();
        if !self.wait_for_point(&mut conductor, &over)? {
            conductor.end();
            self.progress.finish();
            return Ok(outcome);
        }
        // What the program does without experiments is what it is compared with.
        while limits.are_watched() && !limits.halt.is_ready() && !over() && conductor.wait(REST) {}
        if !conductor.probe(FIRST_LOOK, &mut self.clocks) {
            conductor.end();
            return Ok(outcome);
        }
        // Windows that may have to be measured again.
        let mut held: Vec<Vec<profile::Window>> = Vec::new();
        while !over() {
            let windows = outcome.windows + held.iter().map(Vec::len).sum::<usize>();
            if self.runs.is_enough(options) || options.windows.is_some_and(|enough| windows >= enough) {
                break;
            }
            let memory = self.shared.memory();
            let mut goes_on = true;
            while goes_on && !over() && self.clocks.is_to_be_probed(memory, self.begin.elapsed()) {
                goes_on = conductor.probe(clocks::PROBE, &mut self.clocks);
            }
            if !goes_on {
                break;
            }
            if self.clocks.has_decided(memory) {
                held.clear();
            }
            let run = heat::Run {
                points: self.points,
                options,
                observer: self.observer,
                progress: &self.progress,
                visit_cost: self.runs.visit_cost,
                noting_cost: self.runs.noting_cost,
            };
            self.heat.look(&run, &mut conductor)?;
            let offers = self.offers()?;
            let Runs { history, random, .. } = &mut *self.runs;
            let Some(mut plan) = history.next(&offers, &options.choices, random) else {
                self.progress.waiting();
                self.save(conductor.delayed())?;
                if !conductor.wait(Nanos::from_millis(5)) {
                    break;
                }
                continue;
            };
            if let Some(longest) =
                conductor.longest(plan.windows.len()).filter(|longest| *longest < plan.length)
            {
                if longest < SHORTEST {
                    // What is left is too short for an experiment.
                    while !over() && conductor.wait(REST) {}
                    break;
                }
                plan.length = longest;
            }
            let stops = self.target.stops();
            let mut windows = Vec::with_capacity(plan.windows.len());
            for (index, speedup) in plan.windows.into_iter().enumerate() {
                let assigned = Assignment {
                    block: (outcome.blocks + held.len() as u64) as i64,
                    index: index as u32,
                    region: plan.index,
                    speedup,
                };
                let Some(window) = self.window(&mut conductor, assigned, plan.length)? else { break };
                outcome.visited |= window.visits.iter().any(|visits| visits.count > 0);
                windows.push(window);
            }
            if windows.len() < plan.windows.len() {
                break; // the program has ended: a window that was cut short counts for nothing
            }
            if self.target.stops() != stops || self.target.is_stopped() {
                continue; // stopped from the terminal meanwhile: nothing was measured
            }
            held.push(windows);
            let is_first = outcome.blocks == 0;
            if !is_first || held.len() >= HELD || !self.clocks.may_probe(self.shared.memory()) {
                self.record(&mut held, &mut outcome)?;
            }
            if !self.look_at_overhead(&mut conductor, plan.index) {
                break;
            }
            self.save(conductor.delayed())?;
            limits.look_at_delay();
        }
        conductor.end();
        self.record(&mut held, &mut outcome)?;
        self.session.threads(&self.threads.so_far())?;
        self.session.overhead(self.overhead.so_far())?;
        self.clients.warning().map_or(Ok(()), |warning| self.session.warn(&warning))?;
        outcome.delayed = conductor.delayed();
        self.progress.finish();
        Ok(outcome)
    }

    /// Writes experiments down, in the order in which they were conducted.
    fn record(&mut self, held: &mut Vec<Vec<profile::Window>>, outcome: &mut Outcome) -> Result<()> {
        for windows in held.drain(..) {
            self.session.block(&windows)?;
            outcome.blocks += 1;
            outcome.windows += windows.len();
            self.target.is_profiled();
            if self.runs.outlook.add(windows) {
                self.look()?;
            }
            self.progress.block(self.runs.blocks + outcome.blocks, self.runs.outlook.standing());
        }
        Ok(())
    }

    /// Measures what sampling costs, if it is time for that, as experiments on a region have it. False if the program has ended.
    fn look_at_overhead(&mut self, conductor: &mut Conductor<'_>, index: RegionIndex) -> bool {
        let since = self.experimenting.get_or_insert_with(Instant::now).elapsed();
        let sampler = self.shared.memory().header.sampler();
        // Where samples are counted as visits, there are fewer of them and not less of anything else.
        if !self.points.sampled().is_empty()
            || !Overhead::can_be_measured(sampler, self.options.period)
            || !self.overhead.is_due(since, conductor.longest(1))
        {
            return true;
        }
        let order = self.order(index, Speedup::ZERO, STRETCH);
        let (begin, stops) = (Instant::now(), self.target.stops());
        let profiled_first = self.overhead.profiled_first();
        let sample_seldom = |seldom| lock(self.observer).sample_seldom(seldom);
        let Some(stretches) = conductor.compare_profiled(&order, profiled_first, sample_seldom) else {
            return false;
        };
        let was_stopped = self.target.stops() != stops || self.target.is_stopped();
        self.overhead.add(stretches.as_ref().filter(|_| !was_stopped), begin.elapsed());
        true
    }

    /// What a window is to do. From here on samples are watched.
    fn order(&self, region: RegionIndex, speedup: Speedup, length: Nanos) -> Order {
        let mut observer = lock(self.observer);
        observer.drain();
        observer.watch(region);
        Order {
            region: u32::try_from(region.0 + 1).unwrap_or(u32::MAX),
            selection: observer.selection(region),
            speedup,
            length,
        }
    }

    fn window(
        &mut self,
        conductor: &mut Conductor<'_>,
        assigned: Assignment,
        length: Nanos,
    ) -> Result<Option<profile::Window>> {
        let order = self.order(assigned.region, assigned.speedup, length);
        conductor.look_at_limit(|| self.target.roots().first().copied());
        let Some(measured) = conductor.conduct(&order) else { return Ok(None) };
        self.runs.history.learn(Shown {
            length,
            visits: &measured.visits,
            periods: assigned.speedup.is_zero().then(|| measured.periods()).as_deref(),
            elapsed: Nanos::new(self.runs.begin.elapsed().as_nanos() as u64),
        });
        self.look_at_machine();
        let mut observer = lock(self.observer);
        observer.drain();
        if assigned.speedup.is_zero() {
            self.threads.add(&measured.each_thread, |slot, tid| observer.first_function(slot, tid));
        }
        let seen = observer.seen(measured.start, measured.elapsed);
        self.session.window(&self.points.list(), &observer, assigned, &measured, seen, self.busy).map(Some)
    }

    /// What threads have just been running.
    fn offers(&mut self) -> Result<Vec<Offer>> {
        let mut observer = lock(self.observer);
        observer.drain();
        let recent: Vec<RegionIndex> = observer.offers(monotonic()).collect();
        recent.into_iter().map(|index| self.offer(&observer, index)).collect()
    }

    /// An experiment on a region.
    fn offer(&mut self, observer: &Observer, index: RegionIndex) -> Result<Offer> {
        let known = &observer.regions()[index];
        let region = self.session.region(index, &known.region)?;
        let need = if self.runs.audience.wants(&known.region) {
            Some(PINNED)
        } else if self.is_of_interest(observer, index) {
            Some(self.runs.outlook.need(region, self.expected(known, index)))
        } else {
            None
        };
        let production = self.production(known, index).unwrap_or(0.0);
        Ok(Offer { region, index, samples: known.samples, need, production })
    }

    /// The share of a region in production, if that is known by now.
    fn production(&self, known: &Known, index: RegionIndex) -> Option<f64> {
        let costs = self.runs.hint.as_ref().and_then(Hint::costs)?;
        costs.of(index, &known.region, known.named).map(|cost| cost.share)
    }

    /// The share of the time that a region may be worth, here or in production.
    fn expected(&self, known: &Known, index: RegionIndex) -> f64 {
        hint::expected(self.share(known), self.production(known, index))
    }

    /// The share of the time in which a region has been running so far.
    fn share(&self, known: &Known) -> f64 {
        known.weight.get() as f64 / self.begin.elapsed().as_nanos().max(1) as f64
    }

    /// Lines are of interest when their function matters.
    fn is_of_interest(&self, observer: &Observer, index: RegionIndex) -> bool {
        let function = observer.regions()[index].inside;
        function.is_none_or(|function| {
            self.session.region_id(function).is_some_and(|function| self.runs.outlook.matters(function))
        })
    }

    /// What experiments may be about, those regions first that ran most.
    fn most_run(&self, observer: &Observer) -> Vec<RegionIndex> {
        let mut most = observer.most_run();
        most.retain(|index| self.is_of_interest(observer, *index));
        most
    }

    /// Estimates what is known so far about the regions that ran most.
    fn look(&mut self) -> Result<()> {
        let observer = lock(self.observer);
        let mut most: Vec<(RegionIndex, f64)> = self
            .most_run(&observer)
            .into_iter()
            .map(|index| (index, self.expected(&observer.regions()[index], index)))
            .collect();
        most.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut regions = Vec::new();
        for (index, share) in most.into_iter().take(LOOKED_AT) {
            regions.push((self.session.region(index, &observer.regions()[index].region)?, share));
        }
        drop(observer);
        self.runs.outlook.look(self.session.points(), &regions);
        Ok(())
    }

    /// The share of the machine that others used over the last half second or more.
    fn look_at_machine(&mut self) {
        let slots = &self.shared.memory().slots;
        let Ok(now) = self.program.now(&self.target.roots(), &|pid| slots.has_process(pid)) else { return };
        match &self.cpu {
            Some(before) if now.passed.saturating_sub(before.passed).0 < 1_000_000_000 => {}
            Some(before) => {
                self.busy = Some(now.others_since(*before));
                self.cpu = Some(now);
            }
            None => self.cpu = Some(now),
        }
    }

    /// Writes the samples so far, once a second, and gives back what dead processes have left. Lets threads go that were late.
    fn save(&mut self, delayed: Nanos) -> Result<()> {
        self.points.release_late();
        if self.saved.elapsed() < SAVE {
            return Ok(());
        }
        self.saved = Instant::now();
        let memory = self.shared.memory();
        dead_slots::collect(memory);
        let tallies = Tallies::of(&lock(self.observer), self.session, monotonic());
        self.session.samples(tallies, delayed, memory.slots.totals().lost)?;
        self.session.arrivals(memory)?;
        self.clients.look(memory, self.target.roots().first().copied(), self.busy);
        self.session.threads(&self.threads.so_far())?;
        self.session.overhead(self.overhead.so_far())?;
        match self.runs.hint.as_ref().and_then(Hint::costs) {
            Some(costs) => self.session.production(&lock(self.observer), costs),
            None => Ok(()),
        }
    }
}
