//! Conducting a window: one speedup of one region for a while, measured from the inside.
//!
//! A window begins with a lead-in during which the delays are already on but nothing is counted: queues
//! and the threads' debts reach their new steady state first, and the debt that is outstanding at the
//! moment of the last reading was outstanding at the moment of the first as well. All numbers are
//! differences between the two readings.

use super::audit::{self, Waits, Watched};
use super::backlog::{self, Backlog, Counted};
use super::clocks::{Came, Clocks};
use super::cpu_budget::{Budget, CpuBudget};
use super::executing::{self, Executed};
use super::in_flight::{InFlight, Stamped};
use super::limits::Limits;
use super::overhead::Stretches;
use super::owner::Selection;
use super::points::{Counts, Distributions, Points};
use kernel::SharedMapping;
use profile::{Nanos, Span};
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::arrivals::{HOLDING, WATCHING};
use wire::slot::{Activity, Totals};
use wire::{Account, Epoch, SharedMemory, Speedup};

/// Delays on, nothing counted yet.
const LEAD_IN: Nanos = Nanos::from_millis(10);
/// Delays off between two windows, so that nothing of one is left in the next.
const COOL_OFF: Nanos = Nanos::from_millis(10);
/// How long threads may take to catch up, in times of the delay: enough where deadlines leave a twentieth of the time idle.
const CATCH_UP: u64 = 20;
/// The longest that threads may take to catch up, in lengths of the window.
const LONGEST_CATCH_UP: u64 = 5;
/// Nothing is held up at the end of a probe, so that what was has come before it is over.
const LENGTH_OF_END: Nanos = Nanos::from_millis(30);
/// How often in-flight numbers are read while a window runs.
const TICK: Nanos = Nanos::from_millis(1);
/// Time between two readings of the counters while waiting for the next visit.
const POLL: Nanos = Nanos::from_micros(100);
/// The largest part of a window for which to wait for the next visit, as a divisor.
const PATIENCE: u64 = 4;
/// As [`POLL`], where the kernel is asked, which interrupts the program's threads.
const SLOW_POLL: Nanos = Nanos::from_micros(500);
/// How long one reading may take where the kernel is asked, in nanoseconds.
const ASKING: u64 = 200_000;
/// The runtime takes an experiment for over this long after its planned end.
const GRACE: u64 = 1_000_000_000;
/// The runtime takes an experiment for over when it has not heard of the controller for this long.
const LEASE: u64 = 900_000_000;
/// How often the controller tells that it is there, in nanoseconds.
const SIGN_OF_LIFE: u64 = 200_000_000;
/// The runtime stops sampling when it has not heard of it for this long.
const ALIVE: u64 = 3_000_000_000;

/// The same where something may end experiments at any moment: so soon that is seen.
const LOOK_AT_LIMITS: u64 = 5_000_000;
/// For so long threads are waited for that pause when an experiment has been ended before its time.
const STILLNESS: u64 = 2_000_000_000;

/// How long threads are waited for that are to be sampled differently from their next sample on.
const UNTIL_SAMPLED: Nanos = Nanos::from_millis(60);

/// Longer than any run that is one window.
const A_DAY: Nanos = Nanos::from_millis(86_400_000);
/// Time between two checks whether a run without windows is over.
pub const IDLE: Nanos = Nanos::from_millis(100);

/// What a window is about.
#[derive(Debug)]
pub struct Order {
    /// Tells regions apart; not zero.
    pub region: u32,
    pub selection: Selection,
    pub speedup: profile::Speedup,
    pub length: Nanos,
}

/// What it gave.
#[derive(Debug)]
pub struct Measured {
    pub epoch: Epoch,
    /// On the monotonic clock.
    pub start: Nanos,
    pub elapsed: Nanos,
    pub required: Nanos,
    /// Visits, in the order in which the points were registered.
    pub visits: Vec<u64>,
    /// The stretch between two visits of each point, where that is known.
    pub spans: Vec<Option<Span>>,
    /// What was in flight between each begin and its end.
    pub in_flight: Vec<InFlight>,
    /// How long pieces of work took and how many took so long, by the begin point, where that is known.
    pub latencies: Vec<(usize, Vec<(Nanos, u32)>)>,
    /// Changes of the sums over all threads.
    pub before: Totals,
    pub after: Totals,
    /// What threads waited for, where the kernel tells.
    pub waits: Option<Waits>,
    /// What each thread did, where the kernel tells.
    pub each_thread: Vec<Watched>,
    /// What executing programs took more because they were profiled, in CPU time.
    pub executing: Nanos,
    /// What a limit of the CPU time makes of the window.
    pub budget: Budget,
    /// Debt of the threads that were running at the end, and how many those were.
    pub unpaid: Nanos,
    pub running: u32,
    /// By how much the thread that is furthest ahead has more delay than required: nothing, or an error.
    pub ahead: Nanos,
    pub threads: u32,
}

impl Measured {
    /// The elapsed time per visit of each point, in nanoseconds; `None` without visits.
    pub fn periods(&self) -> Vec<Option<f64>> {
        let whole = self.visits.iter().map(|visits| (*visits, self.elapsed));
        let spans = self.spans.iter().map(|span| span.map(|span| (span.visits, span.elapsed)));
        let best = whole.zip(spans.chain(std::iter::repeat(None))).map(|(whole, span)| span.unwrap_or(whole));
        best.map(|(visits, time)| (visits > 0).then(|| time.get() as f64 / visits as f64)).collect()
    }
}

/// One reading of everything that must belong to one moment.
#[derive(Clone, Debug)]
struct Reading {
    time: Nanos,
    required: Account,
    counts: Counts,
}

/// A progress point just after a visit.
#[derive(Clone, Copy, Debug)]
struct Visit {
    time: Nanos,
    required: Account,
    count: u64,
}

impl Reading {
    fn counted(&self) -> Counted {
        Counted { time: self.time, visits: self.counts.visits.clone() }
    }

    fn stamped(&self) -> Stamped<'_> {
        let time = wire::Nanos(self.time.get().saturating_sub(self.required.delay().0));
        Stamped {
            time,
            counts: &self.counts.visits,
            stamps: &self.counts.stamps,
            paired: &self.counts.paired,
        }
    }
}

/// Conducts windows.
pub struct Conductor<'a> {
    shared: &'a SharedMapping,
    memory: &'static SharedMemory,
    points: &'a Points,
    epoch: Epoch,
    /// When the experiment is over, whatever happens (monotonic clock).
    deadline: u64,
    backlog: Backlog,
    /// When experiments are to be over, on the monotonic clock: nothing that could go on for longer is waited for.
    until: Option<Nanos>,
    /// Delay inserted so far, in windows and in their lead-ins.
    delayed: Nanos,
    /// When the runtime was last told that the controller is there (monotonic clock).
    signed: u64,
    /// Whether the runtime may have taken an experiment for over since that was last asked.
    lapsed: bool,
    /// What may end experiments before their time.
    limits: &'a Limits,
    cpu_budget: CpuBudget,
    /// Sleeps until a time, or returns true at once when the program has ended.
    ended: Box<dyn FnMut(Duration) -> bool + 'a>,
}

impl<'a> Conductor<'a> {
    /// `ended(d)` waits for the program's end, at most `d`, and says whether it has come. `until`: when experiments are to be over.
    pub fn new(
        shared: &'a SharedMapping,
        points: &'a Points,
        until: Option<Nanos>,
        limits: &'a Limits,
        ended: impl FnMut(Duration) -> bool + 'a,
    ) -> Self {
        let mut conductor = Self {
            shared,
            memory: shared.memory(),
            points,
            epoch: Epoch(0),
            deadline: 0,
            backlog: Backlog::default(),
            until,
            delayed: Nanos::ZERO,
            signed: u64::MAX,
            lapsed: false,
            limits,
            cpu_budget: CpuBudget::default(),
            ended: Box::new(ended),
        };
        conductor.idle();
        conductor
    }

    /// Begins an epoch without an experiment: threads that pause go on.
    fn idle(&mut self) {
        self.begin(0, Speedup::NONE, Nanos::ZERO, &Selection::default());
        if self.limits.halt.is_asked() {
            self.note_stillness();
        }
    }

    /// Experiments were to end, and none is under way: notes when no thread is delayed any more.
    fn note_stillness(&self) {
        const MOMENT: Duration = Duration::from_micros(200);
        if self.limits.halt.ended().is_some() {
            return;
        }
        let off = kernel::clock::monotonic().0;
        let pauses = || self.memory.slots.used().iter().any(|slot| slot.is_taken() && slot.is_pausing());
        let mut still = kernel::clock::monotonic().0;
        while pauses() && still < off + STILLNESS {
            std::thread::sleep(MOMENT);
            still = kernel::clock::monotonic().0;
        }
        let still = (still < off + STILLNESS).then(|| Nanos::new(still));
        self.limits.halt.has_ended(Nanos::new(off), still);
    }

    /// No further experiment is made: if that is because one was to end, it is noted when delays had.
    pub fn end(&mut self) {
        if self.limits.halt.is_asked() && self.limits.halt.ended().is_none() {
            self.idle();
        }
    }

    fn begin(&mut self, region: u32, speedup: Speedup, length: Nanos, selection: &Selection) {
        self.epoch = self.epoch.next();
        let now = kernel::clock::monotonic();
        self.deadline = now.0 + length.get() + GRACE;
        self.memory.experiments.of(self.epoch).describe(
            region,
            speedup,
            selection.inclusive,
            self.lease(now.0),
            selection.ranges.iter().copied(),
            selection.callers.iter().copied(),
        );
        self.memory.header.experimenting.store(u32::from(region > 0), Ordering::Relaxed);
        self.delayed += Nanos::new(self.shared.begin_epoch(self.epoch).0);
        self.limits.are_delayed(self.delayed);
    }

    /// Until when the runtime goes on with the experiment if it hears nothing more: a killed controller leaves no pause behind.
    fn lease(&self, now: u64) -> wire::Nanos {
        wire::Nanos(self.deadline.min(now + LEASE))
    }

    /// The longest that windows may be, so that the next `windows` of them are over in time; `None` if there is time for
    /// anything.
    pub fn longest(&self, windows: usize) -> Option<Nanos> {
        let left = self.until?.get().saturating_sub(kernel::clock::monotonic().0);
        let each = (left / windows.max(1) as u64).saturating_sub((LEAD_IN + COOL_OFF).get());
        // At the end of a window the next visit is waited for.
        Some(Nanos::new(each - each / (PATIENCE + 1)))
    }

    /// `time`, or when experiments are to be over if that is sooner.
    fn no_later(&self, time: Nanos) -> Nanos {
        self.until.map_or(time, |until| until.min(time))
    }

    /// Looks now and then what limit of its CPU time the program has. `root`: a process of it.
    pub fn look_at_limit(&mut self, root: impl FnOnce() -> Option<u32>) {
        self.cpu_budget.look(root);
    }

    /// How much delay has been inserted so far.
    pub fn delayed(&self) -> Nanos {
        self.delayed
    }

    /// Waits; false if the program has ended, or experiments are to end. Tells the runtime now and then that the controller is alive.
    pub fn wait(&mut self, time: Nanos) -> bool {
        let until = kernel::clock::monotonic().0 + time.get();
        let most = if self.limits.are_watched() { LOOK_AT_LIMITS } else { SIGN_OF_LIFE };
        loop {
            if self.limits.halt.is_asked() {
                return false;
            }
            let now = kernel::clock::monotonic().0;
            self.lapsed |= now.saturating_sub(self.signed) > LEASE;
            self.signed = now;
            self.memory.header.alive_until.store(now + ALIVE, Ordering::Relaxed);
            self.memory.experiments.of(self.epoch).set_deadline(self.lease(now));
            let left = until.saturating_sub(now);
            if left == 0 {
                return true;
            }
            if (self.ended)(Duration::from_nanos(left.min(most))) {
                return false;
            }
        }
    }

    /// Conducts a window. `None` if the program ended before the window did, or experiments were to end.
    pub fn conduct(&mut self, order: &Order) -> Option<Measured> {
        executing::prepare(self.memory);
        let speedup = Speedup(u32::from(order.speedup.per_mille()) * 1000);
        let begin = self.read().counted();
        self.backlog.begins(&begin);
        self.begin(order.region, speedup, LEAD_IN + order.length, &order.selection);
        let epoch = self.epoch;
        (self.signed, self.lapsed) = (u64::MAX, false);
        let measured = if self.wait(LEAD_IN) { self.measure(epoch, order.length) } else { None };
        let behind = backlog::is_behind(self.memory, epoch);
        self.idle();
        let measured = measured?;
        let goes_on = self.wait(COOL_OFF);
        if behind && goes_on {
            // A program that ends meanwhile has finished the window all the same.
            let most = (CATCH_UP * measured.required.get()).min(LONGEST_CATCH_UP * order.length.get());
            self.catch_up(epoch, &begin, Nanos::new(most));
        }
        if self.lapsed && goes_on {
            // The controller had no CPU, or was stopped.
            return self.conduct(order);
        }
        goes_on.then_some(measured)
    }

    /// Holds up arrivals from outside, now and then, to find out which clock they have: for half of `length`; in the other half they are only watched.
    /// False if the program has ended.
    pub fn probe(&mut self, length: Nanos, clocks: &mut Clocks) -> bool {
        self.idle();
        let begin = self.read().counted();
        let (memory, epoch) = (self.memory, self.epoch);
        let half = |conductor: &mut Self, holds: bool| {
            let probing = |what| memory.header.probing.store(what, Ordering::Relaxed);
            let before = Came::all(memory);
            let length = Nanos::new(length.get() / 2);
            let goes_on = if holds {
                probing(HOLDING);
                let goes_on = conductor.wait(length.saturating_sub(LENGTH_OF_END));
                probing(WATCHING);
                goes_on && conductor.wait(LENGTH_OF_END)
            } else {
                probing(WATCHING);
                conductor.wait(length)
            };
            goes_on.then(|| Came::all(memory).since(&before))
        };
        let first = clocks.holds_first();
        let one = half(self, first);
        let other = if one.is_some() { half(self, !first) } else { None };
        memory.header.probing.store(0, Ordering::Relaxed);
        self.idle();
        let goes_on = other.is_some();
        let is_long = length.get() / 2 > 2 * LENGTH_OF_END.get();
        if let (Some(one), Some(other), true) = (one, other, is_long) {
            clocks.compare(if first { (&other, &one) } else { (&one, &other) });
        }
        if goes_on && self.memory.arrivals.used().next().is_some() {
            self.catch_up(epoch, &begin, length);
        }
        goes_on
    }

    /// How far the program comes while it is profiled as in the window of `order`, without delays, and while it hardly is: `sample_seldom` has threads sampled seldom. The inner
    /// `None` where the controller had no CPU, or was stopped; the outer one if the program has ended.
    pub fn compare_profiled(
        &mut self,
        order: &Order,
        profiled_first: bool,
        sample_seldom: impl Fn(bool),
    ) -> Option<Option<Stretches>> {
        (self.signed, self.lapsed) = (u64::MAX, false);
        let mut profiled = None;
        let mut seldom = None;
        for is_profiled in [profiled_first, !profiled_first] {
            if is_profiled {
                self.begin(order.region, Speedup::NONE, LEAD_IN + order.length, &order.selection);
                profiled = if self.wait(LEAD_IN) { self.stretch(order.length) } else { None };
                self.idle();
            } else {
                sample_seldom(true);
                seldom = if self.wait(LEAD_IN) { self.stretch(order.length) } else { None };
                sample_seldom(false);
                self.wait_for_samples();
            }
        }
        let (profiled, seldom) = (profiled?, seldom?);
        Some((!self.lapsed).then_some(Stretches { profiled, seldom }))
    }

    /// What lies between two visits to each point that are about `length` apart; nothing for one that is not visited soon. `None` altogether if the program ended.
    fn stretch(&mut self, length: Nanos) -> Option<Vec<Option<Span>>> {
        // As long as the stretch itself.
        let patience = Nanos::new(length.get() * PATIENCE);
        let begun = self.visits_after(&self.read(), None, patience)?;
        if !self.wait(length) {
            return None;
        }
        Some(Self::spans(&begun, &self.visits_after(&self.read(), Some(&begun), patience)?))
    }

    /// Waits until each thread that does not wait has been sampled once more, but not for long: it is then sampled as the controller has asked since.
    fn wait_for_samples(&mut self) {
        let memory = self.memory;
        let slots = || memory.slots.used().iter();
        let before: Vec<u64> = slots().map(sampled_by).collect();
        let until = kernel::clock::monotonic().0 + UNTIL_SAMPLED.get();
        // One that has not been sampled for long may run now and then.
        let runs = |slot: &wire::slot::Slot| {
            slot.is_taken() && (slot.is_doing(Activity::Running) || slot.is_pausing())
        };
        let is_left = |(slot, before): (&wire::slot::Slot, &u64)| runs(slot) && sampled_by(slot) == *before;
        while kernel::clock::monotonic().0 < until && slots().zip(&before).any(is_left) && self.wait(TICK) {}
    }

    /// Delays have put off what comes at a time of its own: waits until the program has caught up with it, or has ended, but not longer than
    /// `most`.
    fn catch_up(&mut self, epoch: Epoch, begin: &Counted, most: Nanos) {
        let until = self.no_later(Nanos::new(kernel::clock::monotonic().0) + most).get();
        let poll = if self.points.are_asked_for() { 10 * SLOW_POLL.get() } else { POLL.get() };
        let poll = Nanos::new(poll);
        let is_done = |conductor: &Self| {
            !backlog::is_behind(conductor.memory, epoch)
                && (backlog::is_idle(conductor.memory)
                    || conductor.backlog.is_made_up(begin, &conductor.read().counted()))
        };
        while kernel::clock::monotonic().0 < until && !is_done(self) && self.wait(poll) {
            super::dead_slots::collect(self.memory);
        }
    }

    /// Conducts one window from now, when `release` lets the program go on, to its end.
    pub fn conduct_whole(&mut self, order: &Order, release: impl FnOnce()) -> Measured {
        let speedup = Speedup(u32::from(order.speedup.per_mille()) * 1000);
        self.begin(order.region, speedup, A_DAY, &order.selection);
        let epoch = self.epoch;
        let (audited, executed) = (audit::Reading::now(self.memory), Executed::now(self.memory));
        let mut budget = self.cpu_budget.begin();
        let before = self.memory.slots.totals();
        let first = self.read();
        release();
        while self.wait(IDLE) {
            self.cpu_budget.look_again();
            self.cpu_budget.add(&mut budget);
        }
        self.cpu_budget.add(&mut budget);
        let last = self.read();
        let waits = audit::Reading::now(self.memory).since(&audited);
        // The program has ended.
        executing::prepare(self.memory);
        let threads = self.memory.slots.used().iter().count() as u32;
        self.idle();
        Measured {
            epoch,
            start: first.time,
            elapsed: last.time.saturating_sub(first.time),
            required: Nanos::new(last.required.delay().0.saturating_sub(first.required.delay().0)),
            visits: differences(&last.counts.visits, &first.counts.visits),
            spans: vec![None; last.counts.visits.len()],
            in_flight: Vec::new(),
            latencies: Vec::new(),
            before,
            after: self.memory.slots.totals(),
            waits,
            each_thread: Vec::new(),
            executing: Nanos::new(Executed::now(self.memory).cost_since(executed).0),
            budget,
            // What ended threads owe is unknown; it is little beside a whole run.
            unpaid: Nanos::ZERO,
            ahead: Nanos::ZERO,
            running: 0,
            threads,
        }
    }

    fn measure(&mut self, epoch: Epoch, length: Nanos) -> Option<Measured> {
        let pairs = self.pairs();
        let (audited, executed) = (audit::Reading::now(self.memory), Executed::now(self.memory));
        let mut budget = self.cpu_budget.begin();
        let before = self.memory.slots.totals();
        let sampled: Vec<u64> = self.memory.slots.used().iter().map(sampled_by).collect();
        let first = self.read();
        let distributions = self.points.distributions();
        let begun = self.visits_after(&first, None, length)?;
        let mut in_flight: Vec<InFlight> = pairs.iter().copied().map(InFlight::between).collect();
        if pairs.is_empty() {
            let passed = kernel::clock::monotonic().0.saturating_sub(first.time.get());
            if !self.wait(length.saturating_sub(Nanos::new(passed))) {
                return None;
            }
        } else {
            self.integrate(&first, length, &mut in_flight)?;
        }
        let last = self.read();
        self.cpu_budget.add(&mut budget);
        in_flight.iter_mut().for_each(|pair| pair.between_stamps(&first.stamped(), &last.stamped()));
        let latencies = latencies(&in_flight, &distributions, &self.points.distributions());
        let after = self.memory.slots.totals();
        let audited_last = audit::Reading::now(self.memory);
        let (waits, each_thread) = (audited_last.since(&audited), audited_last.each_since(&audited));
        let executing = Nanos::new(Executed::now(self.memory).cost_since(executed).0);
        let visits = differences(&last.counts.visits, &first.counts.visits);
        // A forked child that has ended since would look as if it owed everything.
        super::dead_slots::collect(self.memory);
        let grown = last.required.delay().0 - first.required.delay().0;
        let (mut unpaid, mut ahead, mut running, mut threads) = (0, 0, 0, 0);
        let now = wire::Nanos(last.time.get());
        for (index, slot) in self.memory.slots.used().iter().enumerate().filter(|(_, slot)| slot.is_taken()) {
            threads += 1;
            let local = slot.local.load();
            let paid = if local.same_epoch(last.required) { local.delay().0 } else { 0 };
            ahead = paid.saturating_sub(last.required.delay().0).max(ahead);
            // A thread that used no CPU ran no code that owes anything: it waits unseen, in
            // a call that is not interposed.
            let ran = sampled_by(slot) > sampled.get(index).copied().unwrap_or(0);
            // What a deadline makes it owe it pays for idle time, for as long as that takes.
            let idle = slot.is_pausing() && slot.behind.load(Ordering::Relaxed) == epoch.0;
            if ran && !idle && (slot.is_doing(Activity::Running) || slot.is_pausing()) {
                // What accrued since its last sample it cannot know of: it may be waiting for a CPU, and may
                // owe nothing of that (rule 7).
                let looked = wire::Nanos(slot.last_sample.load(Ordering::Relaxed));
                let since = self.memory.history.growth(looked, now, last.required);
                unpaid += last.required.delay().0.saturating_sub(paid + since.0);
                running += 1;
            }
        }
        // The books are closed by now: those visits come later.
        let spans = Self::spans(&begun, &self.visits_after(&last, Some(&begun), length)?);
        Some(Measured {
            epoch,
            start: first.time,
            elapsed: last.time.saturating_sub(first.time),
            required: Nanos::new(grown),
            visits,
            spans,
            in_flight,
            latencies,
            before,
            after,
            waits,
            each_thread,
            executing,
            budget,
            unpaid: Nanos::new(unpaid),
            ahead: Nanos::new(ahead),
            running,
            threads,
        })
    }

    /// The first reading after `from` in which each point has been visited again: a window that began and ended
    /// with a visit would hold a whole number of periods. `None` in the list for a point that is not visited
    /// soon, or that `wanted` has none for; `None` altogether if the program ended.
    fn visits_after(
        &mut self,
        from: &Reading,
        wanted: Option<&[Option<Visit>]>,
        length: Nanos,
    ) -> Option<Vec<Option<Visit>>> {
        let mut found: Vec<Option<Visit>> = vec![None; from.counts.visits.len()];
        let until = self.no_later(from.time + Nanos::new(length.get() / PATIENCE)).get();
        let expected =
            |index: usize| wanted.is_none_or(|wanted| wanted.get(index).is_some_and(Option::is_some));
        loop {
            let now = self.read();
            for (index, visit) in found.iter_mut().enumerate().filter(|(_, visit)| visit.is_none()) {
                let count = now.counts.visits[index];
                if count != from.counts.visits[index] {
                    *visit = Some(Visit { time: now.time, required: now.required, count });
                }
            }
            let done = found.iter().enumerate().all(|(index, visit)| visit.is_some() || !expected(index));
            if done || now.time.get() >= until {
                return Some(found);
            }
            if !self.wait(if self.points.are_asked_for() { SLOW_POLL } else { POLL }) {
                return None;
            }
        }
    }

    /// What lies between the visits at both ends of a window.
    fn spans(begun: &[Option<Visit>], ended: &[Option<Visit>]) -> Vec<Option<Span>> {
        let span = |(begin, end): (&Option<Visit>, &Option<Visit>)| {
            let (begin, end) = (begin.as_ref()?, end.as_ref()?);
            Some(Span {
                visits: end.count.wrapping_sub(begin.count),
                elapsed: end.time.saturating_sub(begin.time),
                required: Nanos::new(end.required.delay().0.saturating_sub(begin.required.delay().0)),
            })
        };
        ended.iter().enumerate().map(|(i, end)| span((begun.get(i).unwrap_or(&None), end))).collect()
    }

    /// Waits for `length` and adds up what was in flight, tick by tick.
    fn integrate(&mut self, first: &Reading, length: Nanos, in_flight: &mut [InFlight]) -> Option<()> {
        let mut last = first.clone();
        let until = first.time.get() + length.get();
        while last.time.get() < until {
            if !self.wait(TICK.min(Nanos::new(until - last.time.get()))) {
                return None;
            }
            let now = self.read();
            let elapsed = now.time.saturating_sub(last.time).get() as i64;
            let required = now.required.delay().saturating_sub(last.required.delay()).0 as i64;
            let (before, after) = (&last.counts.visits, &now.counts.visits);
            in_flight.iter_mut().for_each(|pair| pair.add(before, after, elapsed, required));
            last = now;
        }
        Some(())
    }

    /// Indices of begin and end points of the same name.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let points = self.points.list();
        let find = |kind, name: &str| points.iter().position(|p| p.kind == kind && p.name == name);
        points
            .iter()
            .enumerate()
            .filter(|(_, point)| point.kind == profile::PointKind::Begin)
            .filter_map(|(begin, point)| Some((begin, find(profile::PointKind::End, &point.name)?)))
            .collect()
    }

    /// Time, `required` and the counters, read within a few microseconds of each other: a reading during
    /// which the controller was off the CPU is done again.
    fn read(&self) -> Reading {
        let mut last = None;
        // Asking the kernel takes longer, and interrupts threads: once more is enough.
        let (tries, most) = if self.points.are_asked_for() { (2, ASKING) } else { (10, 20_000) };
        for _ in 0..tries {
            let begin = kernel::clock::monotonic();
            let required = self.memory.required.load();
            let counts = self.points.counts();
            let end = kernel::clock::monotonic();
            last = Some(Reading { time: Nanos::new(begin.0), required, counts });
            if end.0 - begin.0 < most {
                break;
            }
        }
        last.expect("read at least once")
    }
}

/// How often each point was visited between two readings; points come in while the program runs.
fn differences(last: &[u64], first: &[u64]) -> Vec<u64> {
    let first = first.iter().copied().chain(std::iter::repeat(0));
    last.iter().zip(first).map(|(last, first)| last.wrapping_sub(first)).collect()
}

/// How long what has ended between two readings took, of the pairs of which that is known.
fn latencies(
    in_flight: &[InFlight],
    first: &Distributions,
    last: &Distributions,
) -> Vec<(usize, Vec<(Nanos, u32)>)> {
    let of_pair = |of: &InFlight| {
        let (begin, end) = of.pair;
        Some((begin, last.get(&end)?.since(first.get(&end))))
    };
    in_flight.iter().filter(|of| of.is_paired()).filter_map(of_pair).collect()
}

/// Samples that a slot's threads have had.
fn sampled_by(slot: &wire::slot::Slot) -> u64 {
    slot.books.samples.load(Ordering::Relaxed)
}
