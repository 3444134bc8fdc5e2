//! Waits: what a thread is credited with, and pays, around a call that waits (rules 4 to 7).
//!
//! Another thread ends the wait, or the world does; of some it is known only afterwards. Which call is which is not decided
//! here: `interpose/table.rs` says so. Only interposed functions wait; the signal handler calls nothing here.

use crate::account::{LEAST, catch_up, credit, exclusively, owes, read_switches};
use crate::delay::{self, Watch};
use crate::memory::shared;
use crate::switches::During;
use crate::{arrivals, audit, channel, cpus, deadline, region, stopwatch, sys, ticks};
use core::sync::atomic::Ordering::Relaxed;
use wire::channel::Event;
use wire::history::Accrued;
use wire::layout::Fault;
use wire::slot::{Activity, Slot};
use wire::{Epoch, Nanos, Waiting};

/// Rule 4 and the first half of rule 5: before a call that may wait for another thread.
pub fn before_wait(slot: &Slot) -> Waiting {
    delay::pay(slot);
    read_switches(slot, During::Work);
    begin_waiting(slot, Activity::WaitingForThread);
    exclusively(slot, || slot.local.wait(&shared().required))
}

/// Notes what the thread waits for; returns what it was doing before (a handler of the program's may wait
/// while the function it interrupted waits as well).
fn begin_waiting(slot: &Slot, activity: Activity) -> u32 {
    slot.waited.store(0, Relaxed);
    // From here on another wait is credited.
    slot.row.yields.store(0, Relaxed);
    audit::begin(slot);
    arrivals::waits(slot);
    slot.activity.swap(activity as u32, Relaxed)
}

/// How long the thread has waited.
fn waited(slot: &Slot) -> Nanos {
    ticks::between(slot.wait_ticks.load(Relaxed), ticks::now()).unwrap_or(Nanos(u64::MAX))
}

/// Before a sleep, or a wait with a timeout. What ends it is a clock, but then the thread may wait for a CPU that another thread
/// of the program has (rule 7), and no record of a switch tells since when.
pub fn before_sleep(slot: &Slot) {
    let short = shared().header.experimenting.load(Relaxed) != 0 && cpus::may_become_short();
    let queued = if short { cpus::waited() } else { None };
    slot.queued_before.store(queued.map_or(0, |queued| queued.0 + 1), Relaxed);
}

/// The same before a call that waits for something else as well, for so many milliseconds at most: where it takes longer the queue behind it does not matter, and asking for it
/// takes as long as a short call.
#[inline]
pub fn before_short_sleep(slot: &Slot, time: i64) {
    const LONGEST: i64 = 10;
    if (1..=LONGEST).contains(&time) {
        before_sleep(slot);
    }
}

/// Rule 7 behind it: credits what `required` grew while the thread waited for a CPU.
fn after_sleep(slot: &Slot) {
    let before = slot.queued_before.swap(0, Relaxed);
    let required = shared().required.load();
    if before == 0 || required.delay() == Nanos::ZERO || !shared().header.has_rule(7) {
        return;
    }
    let Some(queued) = cpus::waited().map(|now| now.saturating_sub(Nanos(before - 1))) else { return };
    if queued < LEAST {
        return;
    }
    let now = sys::now();
    let growth = shared().history.growth(now.saturating_sub(queued), now, required);
    let growth = growth.part(cpus::whose(queued).for_program, queued);
    let credit = exclusively(slot, || slot.local.waited_for_cpu(&shared().required, growth));
    slot.books.queued.fetch_add(credit.0, Relaxed);
}

/// The same for a new thread, which owed at its creation what its creator did (rule 10), and has waited for its first CPU since.
pub fn after_birth(slot: &Slot) {
    // Whether CPUs were short cannot be told any more: the thread that it waited for may have ended.
    let owes = shared().header.experimenting.load(Relaxed) != 0 && owes(slot);
    slot.queued_before.store(u64::from(owes), Relaxed);
    after_sleep(slot);
}

/// The second half of rule 5. `woken`: another thread ended the wait; otherwise (a timeout, a signal, a
/// failure) nothing is credited and the debt stays. Never pauses: the caller may hold a lock now, so what accrued until a
/// timeout is paid with the next debt, asleep.
pub fn after_wait(slot: &Slot, waiting: Waiting, woken: bool) {
    let header = &shared().header;
    let credited = woken && header.has_rule(5) && !header.has_fault(Fault::ThreadsAreTheWorld);
    audit::end(slot, woken);
    read_switches(slot, if credited { During::Credited } else { During::Wait });
    if credited {
        let waited = waited(slot);
        let credit = exclusively(slot, || slot.local.woken_after(&shared().required, waiting, waited));
        if credit > Nanos::ZERO {
            slot.books.inherited.fetch_add(credit.0, Relaxed);
        }
    }
    if woken {
        slot.queued_before.store(0, Relaxed);
    } else {
        after_sleep(slot);
    }
    slot.timed_out.store(u32::from(!woken), Relaxed);
    slot.doing(Activity::Running);
    stopwatch::resume(slot);
    catch_up(slot);
}

/// Rules 4 and 5 around a call that may wait for another thread. Out of line, so that what happens most
/// often, a lock that is free, stays short.
#[inline(never)]
pub fn around_wait<T>(slot: &Slot, call: impl FnOnce() -> T, woken: impl FnOnce(&T) -> bool) -> T {
    let was = slot.activity.load(Relaxed);
    let waiting = before_wait(slot);
    let result = call();
    let woken = woken(&result);
    after_wait(slot, waiting, woken);
    slot.activity.store(was, Relaxed);
    if !woken {
        // A clock has ended it (rule 6), and the caller has no lock.
        after_world(slot, was, None);
    }
    result
}

/// The same for a call that returns with a lock, however it ends.
#[inline(never)]
pub fn around_wait_holding<T>(slot: &Slot, call: impl FnOnce() -> T, woken: impl FnOnce(&T) -> bool) -> T {
    let was = slot.activity.load(Relaxed);
    let waiting = before_wait(slot);
    let result = call();
    after_wait(slot, waiting, woken(&result));
    slot.activity.store(was, Relaxed);
    result
}

/// The same for a wait on a futex with a timeout, which was waited for since `waiting`.
pub fn after_timed_wait(slot: &Slot, waiting: Waiting, woken: bool) {
    after_wait(slot, waiting, woken);
    if !woken {
        after_world(slot, Activity::Running as u32, None);
    }
}

/// Rule 6: around a call that may wait for a device or a clock. What accrued meanwhile is paid at once; what the
/// thread owed before, it owes for what its CPU did.
#[inline]
pub fn around_world<T>(slot: &Slot, call: impl FnOnce() -> T) -> T {
    around_deadline(slot, call, |_| None)
}

/// The same for a wait that may be for a moment which comes at a time of its own. `met`: when that was, if it was one and has come. (The
/// selected code cannot make it come sooner.)
#[inline]
pub fn around_deadline<T>(
    slot: &Slot,
    call: impl FnOnce() -> T,
    met: impl FnOnce(&T) -> Option<deadline::Met>,
) -> T {
    delay::pay(slot);
    read_switches(slot, During::Work);
    let was = begin_waiting(slot, Activity::WaitingForWorld);
    let asleep = Asleep::begin(slot);
    let result = call();
    audit::end(slot, false);
    slot.activity.store(was, Relaxed);
    arrivals::credit(slot, waited(slot));
    credit_queues(slot);
    match met(&result) {
        Some(met) => deadline::met(slot, met),
        None => asleep.end(slot),
    }
    after_world(slot, was, None);
    result
}

/// The first half of [`around_world`] for a wait in which a child has this thread's memory; the child's calls may begin waits as well.
pub fn before_vfork(slot: &Slot) {
    delay::pay(slot);
    read_switches(slot, During::Work);
    let was = begin_waiting(slot, Activity::WaitingForWorld);
    slot.vfork_activity.store(was, Relaxed);
    slot.vfork_ticks.store(ticks::now(), Relaxed);
}

/// The second half.
pub fn after_vfork(slot: &Slot) {
    slot.wait_ticks.store(slot.vfork_ticks.load(Relaxed), Relaxed);
    audit::end(slot, false);
    let was = slot.vfork_activity.load(Relaxed);
    slot.activity.store(was, Relaxed);
    after_world(slot, was, None);
}

/// A wait for the world in which the selected code may be: it takes time without using a CPU, so no sample tells.
/// In virtual time it is shorter by the speedup, like everything else that the code does.
struct Asleep {
    epoch: Epoch,
    ticks: u64,
    /// The thread's CPU time then, if it is a thread whose waits were in the region before.
    cpu: Option<Nanos>,
}

impl Asleep {
    /// `ticks` is zero where there is nothing to credit.
    #[inline]
    fn begin(slot: &Slot) -> Self {
        let header = &shared().header;
        if header.experimenting.load(Relaxed) == 0 {
            return Self { epoch: Epoch(0), ticks: 0, cpu: None };
        }
        let epoch = header.epoch();
        // The kernel takes half a microsecond to say how much CPU time a thread has had: only where it mattered before.
        let region = shared().experiments.of(epoch).region();
        let cpu = (slot.sleeper.load(Relaxed) == region).then(sys::cpu_time);
        Self { epoch, ticks: ticks::now(), cpu }
    }

    /// Rule 1 for the time that the thread was off its CPU. A wait that began in another experiment does not count.
    #[inline]
    fn end(self, slot: &Slot) {
        if self.ticks != 0 && slot.busy.load(Relaxed) == 0 {
            self.credit(slot);
        }
    }

    #[inline(never)]
    fn credit(self, slot: &Slot) {
        let memory = shared();
        let took = ticks::between(self.ticks, ticks::now()).unwrap_or(Nanos::ZERO);
        if took < LEAST {
            return;
        }
        let off = self.cpu.map(|cpu| took.saturating_sub(sys::cpu_time().saturating_sub(cpu)));
        let experiment = memory.experiments.of(self.epoch);
        let over = memory.header.epoch() != self.epoch || sys::now() >= experiment.deadline();
        if off.unwrap_or(took) >= LEAST && !over && region::has_called(slot, self.epoch) {
            slot.sleeper.store(experiment.region(), Relaxed);
            let Some(off) = off else { return };
            let accrued = Accrued { began: off, ended: Nanos::ZERO };
            let amount = experiment.speedup().of(off);
            exclusively(slot, || credit(slot, self.epoch, amount, accrued));
            slot.books.asleep.fetch_add(amount.0, Relaxed);
        }
    }
}

/// Rule 7 behind a wait that the world or a clock has ended. Before the thread is credited for what it did itself, which comes
/// on top.
fn credit_queues(slot: &Slot) {
    after_sleep(slot);
    read_switches(slot, During::Wait);
}

/// The second half of rule 6.
fn after_world(slot: &Slot, was: u32, watch: Option<(Watch<'_>, Nanos)>) {
    slot.timed_out.store(0, Relaxed);
    credit_queues(slot);
    stopwatch::resume(slot);
    catch_up(slot);
    if shared().header.has_fault(Fault::TheWorldIsAThread) {
        let since = Waiting::since(slot.wait_required.load());
        let credit = exclusively(slot, || slot.local.woken(&shared().required, since));
        slot.books.inherited.fetch_add(credit.0, Relaxed);
    }
    if was == Activity::Running as u32 && shared().header.has_rule(6) {
        delay::pay_world(slot, watch);
    }
}

/// Around a call that waits for the end of a process, which `ended` tells: another thread of the program has ended the wait if that process is profiled.
pub fn around_child<T>(slot: &Slot, call: impl FnOnce() -> T, ended: impl FnOnce(&T) -> i32) -> T {
    let used = |result: &T| {
        let process = u32::try_from(ended(result)).unwrap_or(0);
        // Its slots are given back some time after its end.
        if shared().slots.has_process(process) { Nanos(u64::MAX) } else { Nanos::ZERO }
    };
    around_channel(slot, None, call, used, None)
}

/// Around a call on something with two ends, or that waits for any of several. It may wake another thread by what it
/// `causes` (rule 4); whether it waited for one is known afterwards. `used`: when a thread last did what has ended the
/// wait. `watch`: what else could have.
pub fn around_channel<T>(
    slot: &Slot,
    causes: Option<Event>,
    call: impl FnOnce() -> T,
    used: impl FnOnce(&T) -> Nanos,
    watch: Option<Watch<'_>>,
) -> T {
    let was = slot.activity.load(Relaxed);
    let waiting = before_wait(slot);
    let asleep = Asleep::begin(slot);
    let since = sys::now();
    let result = channel::causing(causes, since, call);
    let woken = used(&result) > since;
    if !woken {
        slot.doing(Activity::WaitingForWorld);
        arrivals::credit(slot, waited(slot));
        credit_queues(slot);
        asleep.end(slot);
    }
    after_wait(slot, waiting, woken);
    slot.activity.store(was, Relaxed);
    if !woken {
        after_world(slot, was, watch.map(|watch| (watch, since)));
    }
    result
}
