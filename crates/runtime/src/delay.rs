//! Paying: the pauses that make good what a thread owes.
//!
//! The arithmetic is in [`wire::account`]; here are the clock, the sleep and the interplay with the
//! signal handler of the same thread.
//!
//! A thread's account is changed in two places: in interposed functions, and in the signal handler that
//! may interrupt them. The former raise [`Slot::busy`]; a handler that finds it raised only notes its
//! credit down, and the code that lowers `busy` to zero adds it and pays.

use crate::memory::shared;
use crate::sampler::{self, Behind};
use crate::switches::{self, During};
use crate::{audit, channel, cpus, deadline, region, stopwatch, sys, ticks, yields};
use core::sync::atomic::{Ordering::Relaxed, compiler_fence};
use wire::channel::{Event, Key};
use wire::history::Accrued;
use wire::layout::Fault;
use wire::slot::{Activity, Slot};
use wire::{Account, Epoch, Nanos, Waiting};

/// Debts below this wait until they have grown: a sleep costs about as much.
const LEAST: Nanos = Nanos(20_000);

/// How often a pause looks whether its CPU has come to be wanted, where there are more threads than CPUs.
const LOOK: Nanos = Nanos(500_000);

/// How often a pause looks whether a thread has done what no `epoll` instance would tell.
const GLANCE: Nanos = Nanos(200_000);

/// The steps in which the history of `required` is kept.
const STEP: Nanos = Nanos(30_000);

/// Signals of the program's wait no longer than this for the end of a pause.
const SLICE: Nanos = Nanos(10_000_000);

/// Whether the thread owes anything worth a pause. A few loads; called on every lock operation.
#[inline]
pub fn owes(slot: &Slot) -> bool {
    let memory = shared();
    let required = memory.required.load();
    let local = slot.local.load();
    if required.same_epoch(local) {
        required.delay().0 >= local.delay().0 + LEAST.0
    } else {
        required.delay() >= LEAST
    }
}

/// Keeps the signal handler of this thread from touching the account while `change` does.
pub fn exclusively<T>(slot: &Slot, change: impl FnOnce() -> T) -> T {
    slot.busy.store(slot.busy.load(Relaxed) + 1, Relaxed);
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
    let result = change();
    compiler_fence(core::sync::atomic::Ordering::SeqCst);
    slot.busy.store(slot.busy.load(Relaxed) - 1, Relaxed);
    result
}

/// Adds the credit that the handler noted down while the thread was busy. Call when not busy.
pub fn catch_up(slot: &Slot) {
    if slot.interrupted.load(Relaxed) != 0 {
        slot.interrupted.store(0, Relaxed);
        let noted = slot.deferred.load();
        slot.deferred.inherit(Account::default());
        let epoch = shared().header.epoch();
        if noted.is_of(epoch) {
            exclusively(slot, || credit(slot, epoch, noted.delay(), Accrued::default()));
            slot.books.caught_up.fetch_add(noted.delay().0, Relaxed);
        } else {
            slot.books.stale.fetch_add(1, Relaxed);
        }
    }
}

/// Rules 2 and 4: pays what the thread owes. For interposed functions, before they block or wake.
#[inline]
pub fn pay(slot: &Slot) {
    if owes(slot) {
        pay_now(slot);
    }
}

#[cold]
fn pay_now(slot: &Slot) {
    // A handler of the program's may have interrupted a change of the account: the interrupted code pays.
    if slot.busy.load(Relaxed) == 0 && shared().header.has_rule(4) {
        yields::settle(slot);
        settle(slot, whose(slot), Behind::Code);
    }
}

/// Whose the debt of a thread is that is about to pay.
fn whose(slot: &Slot) -> Debt<'static> {
    if slot.timed_out.load(Relaxed) != 0 {
        slot.timed_out.store(0, Relaxed);
        return Debt::OfTheWorld(None);
    }
    Debt::OfTheCpu
}

/// Rule 7, where nothing else happens: brings the account up to date.
#[inline]
pub fn take_note(slot: &Slot) {
    if slot.busy.load(Relaxed) == 0 {
        read_switches(slot, During::Work);
    }
}

/// Rules 5 and 7 for waits that no call has announced: brings the account up to date.
#[inline]
pub fn credit_waits(slot: &Slot) {
    if owes(slot) {
        yields::settle(slot);
    }
    take_note(slot);
}

/// Rule 7: credits what the records of context switches tell, if there are any.
#[inline]
fn read_switches(slot: &Slot, during: During) {
    if switches::pending(slot) {
        exclusively(slot, || switches::drain(slot, during));
    }
}

/// Who owes (rule 8).
#[derive(Clone, Copy)]
enum Debt<'a> {
    /// The thread has run ahead of the others, on a CPU that no other thread should have now.
    OfTheCpu,
    /// The world was faster than it should have been; it has no CPU. Perhaps a thread of the program was due before: one
    /// that is used after the given time.
    OfTheWorld(Option<(Watch<'a>, Nanos)>),
}

/// What else could have ended a wait that the world has ended.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// When a thread of the program last did.
    pub used: &'a dyn Fn() -> Nanos,
    /// The `epoll` instance that learns of it, if there is one.
    pub instance: Option<Key>,
}

/// The same, from the signal handler, which has made sure that the thread is not busy.
pub fn pay_in_handler(slot: &Slot) {
    if owes(slot) {
        settle(slot, whose(slot), Behind::Sample);
    }
}

/// Rule 1: the thread is credited with `delay` for having run the selected code, and when that was.
pub fn credit(slot: &Slot, epoch: Epoch, delay: Nanos, accrued: Accrued) {
    let memory = shared();
    if memory.header.has_fault(Fault::CreditIsDropped) && slot.books.samples.load(Relaxed).is_multiple_of(3) {
        return;
    }
    let before = memory.required.load();
    if !memory.header.has_rule(1) {
        // As if delays added up, no matter which thread was ahead: what rule 1 forbids.
        let (required, _) = slot.local.meet(&memory.required);
        memory.required.raise(Account::new(epoch, required.delay() + delay));
    }
    if slot.local.credit(&memory.required, epoch, delay) {
        let raised = slot.local.load().delay().saturating_sub(before.delay());
        slot.meanwhile.raised.fetch_add(raised.min(delay).0, Relaxed);
        note_growth(accrued);
        slot.books.credited.fetch_add(delay.0, Relaxed);
    } else {
        slot.books.stale.fetch_add(1, Relaxed);
    }
}

/// Keeps the history of `required`, in steps that are worth it.
fn note_growth(accrued: Accrued) {
    let memory = shared();
    let (required, noted) = (memory.required.load(), Account::from_bits(memory.noted.load(Relaxed)));
    if !required.same_epoch(noted) || required.delay() >= noted.delay() + STEP {
        memory.noted.store(required.to_bits(), Relaxed);
        memory.history.note(sys::now(), required, accrued);
    }
}

/// Rule 1, from a signal handler that interrupted a change of the account: notes the credit down.
pub fn defer_credit(slot: &Slot, epoch: Epoch, delay: Nanos) {
    slot.books.deferred.fetch_add(delay.0, Relaxed);
    let noted = slot.deferred.load();
    let sum = if noted.is_of(epoch) { noted.delay() + delay } else { delay };
    slot.deferred.inherit(Account::new(epoch, sum));
    slot.interrupted.store(1, Relaxed);
}

/// Pauses until nothing is owed, or the experiment is over.
///
/// All signals wait during a pause, for about [`SLICE`] at most: a handler of the program's that ran in the middle
/// of one could call an interposed function and pay the same debt again, or leave with `siglongjmp` and never
/// let the pause end. Between two slices handlers run, and find the account in order.
fn settle(slot: &Slot, whose: Debt<'_>, behind: Behind) {
    loop {
        let mut begin = sys::now();
        let (cpu, until) = (sampler::cpu_time(slot), begin + SLICE);
        let mask = sys::mask_signals(0, u64::MAX);
        // The thread may have lost its CPU since it last looked.
        switches::drain(slot, During::Work);
        let more = loop {
            match pause(slot, whose, begin) {
                Some(end) if end < until => begin = end,
                ended => break ended.is_some(),
            }
        };
        sampler::paused(slot, cpu, behind);
        slot.paused.store(1, Relaxed);
        stopwatch::resume(slot);
        sys::mask_signals(2, mask);
        if !more {
            break;
        }
    }
}

/// Pays what is owed, but not for longer than a slice; returns when that was over, or `None` if there is nothing
/// more to pay. Since `begin` the thread has done nothing but prepare its pause, which counts as a part of it:
/// the program had nothing of that time. Signals are blocked.
fn pause(slot: &Slot, whose: Debt<'_>, begin: Nanos) -> Option<Nanos> {
    let memory = shared();
    let number = memory.header.epoch.load(core::sync::atomic::Ordering::Acquire);
    let (required, local) = slot.local.meet(&memory.required);
    let mut debt = required.delay().saturating_sub(local.delay());
    if debt == Nanos::ZERO || !required.is_of(Epoch(number)) {
        return None;
    }
    // A thread of the program, which had paid, has done what would have ended the wait: rule 5 after all.
    if let Debt::OfTheWorld(Some((watch, since))) = whose
        && (watch.used)() > since
    {
        slot.local.pay(required, debt);
        slot.books.hidden.fetch_add(debt.0, Relaxed);
        return None;
    }
    // What an earlier pause overslept has been paid already.
    let carry = slot.carry.load();
    if carry.same_epoch(required) && carry.delay() > Nanos::ZERO {
        let carried = carry.delay().min(debt);
        let left = carry.delay().saturating_sub(carried);
        slot.carry.inherit(Account::new(Epoch(number), left));
        slot.local.pay(required, carried);
        debt = debt.saturating_sub(carried);
    }
    if debt < LEAST || begin >= memory.experiments.of(Epoch(number)).deadline() {
        return None;
    }
    // A thread may want the CPU later than now.
    let slice = debt.min(if cpus::may_become_short() { LOOK } else { SLICE });
    let keeps_cpu = matches!(whose, Debt::OfTheCpu) && memory.header.has_rule(8) && cpus::are_wanted();
    let pausing = if keeps_cpu { Activity::KeepingCpu } else { Activity::Pausing };
    let was = slot.activity.swap(pausing as u32, Relaxed);
    let Paused { time: paused, end } = match whose {
        Debt::OfTheWorld(Some((watch, since))) => doze(slot, watch, since, begin, slice, number),
        _ if keeps_cpu => keep_cpu(slot, begin, slice, number),
        _ => sleep(slot, begin, slice, number),
    };
    slot.activity.store(was, Relaxed);
    // Waits for CPUs may have been credited meanwhile.
    let (now, local) = slot.local.meet(&memory.required);
    let paid = paused.min(slice).min(now.delay().saturating_sub(local.delay()));
    slot.books.paid.fetch_add(paid.0, Relaxed);
    slot.local.pay(required, paid);
    let over = paused.saturating_sub(paid);
    if over > Nanos::ZERO && memory.header.epoch.load(Relaxed) == number {
        slot.books.overslept.fetch_add(over.0, Relaxed);
        slot.carry.inherit(Account::new(Epoch(number), over));
    }
    Some(end)
}

/// A slice of a pause.
struct Paused {
    /// What counts as paid.
    time: Nanos,
    end: Nanos,
}

/// Sleeps for `time` since `begin`, or until the experiment is over.
fn sleep(slot: &Slot, begin: Nanos, time: Nanos, number: u32) -> Paused {
    let epoch = &shared().header.epoch;
    sys::set_timer_slack(1);
    let (mut end, until) = (begin, begin + time);
    while end < until && epoch.load(Relaxed) == number {
        sys::futex_wait_until(epoch, number, until);
        end = sys::now();
    }
    sys::set_timer_slack(slot.slack.load(Relaxed));
    slot.books.in_pauses.fetch_add(end.saturating_sub(begin).0, Relaxed);
    switches::drain(slot, During::Credited);
    Paused { time: end.saturating_sub(begin), end }
}

/// The same, until a thread does what is watched: the end of the experiment is not noticed before its deadline.
fn doze(slot: &Slot, watch: Watch<'_>, since: Nanos, begin: Nanos, time: Nanos, number: u32) -> Paused {
    let memory = shared();
    let epoch = &memory.header.epoch;
    sys::set_timer_slack(1);
    let until = (begin + time).min(memory.experiments.of(Epoch(number)).deadline());
    let mut end = begin;
    while end < until && epoch.load(Relaxed) == number {
        let instance = watch.instance.map(|instance| memory.channels.pause_word(instance));
        if (watch.used)() > since {
            break;
        }
        match instance {
            Some((word, value)) => sys::futex_wait_until(word, value, until),
            None => sys::futex_wait_until(epoch, number, until.min(end + GLANCE)),
        }
        end = sys::now();
    }
    sys::set_timer_slack(slot.slack.load(Relaxed));
    slot.books.in_pauses.fetch_add(end.saturating_sub(begin).0, Relaxed);
    switches::drain(slot, During::Credited);
    Paused { time: end.saturating_sub(begin), end }
}

/// The same without giving the CPU away. What is owed is the CPU's: while another thread of the program has it,
/// it pays nothing. One that a stranger has is only slower.
fn keep_cpu(slot: &Slot, begin: Nanos, time: Nanos, number: u32) -> Paused {
    let epoch = &shared().header.epoch;
    let (spins, cpu) = (sys::now(), sys::cpu_time());
    let mut queued = Nanos::ZERO;
    loop {
        let mut end = spins;
        while end < begin + time + queued && epoch.load(Relaxed) == number {
            for _ in 0..50 {
                core::hint::spin_loop();
            }
            end = sys::now();
        }
        queued = if switches::are_known(slot) {
            queued + switches::drain(slot, During::Wait)
        } else {
            end.saturating_sub(spins).saturating_sub(sys::cpu_time().saturating_sub(cpu))
        };
        if end >= begin + time + queued || epoch.load(Relaxed) != number {
            return Paused { time: end.saturating_sub(begin + queued), end };
        }
    }
}

/// Rule 4 and the first half of rule 5: before a call that may wait for another thread.
pub fn before_wait(slot: &Slot) -> Waiting {
    pay(slot);
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
    slot.activity.swap(activity as u32, Relaxed)
}

/// Before a sleep, or a wait with a timeout. What ends it is a clock, but then the thread may wait for a CPU that another thread
/// of the program has (rule 7), and no record of a switch tells since when.
pub fn before_sleep(slot: &Slot) {
    let short = shared().header.experimenting.load(Relaxed) != 0 && cpus::may_become_short();
    let queued = if short { cpus::waited() } else { None };
    slot.queued_before.store(queued.map_or(0, |queued| queued.0 + 1), Relaxed);
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
    let short = shared().header.experimenting.load(Relaxed) != 0 && cpus::may_become_short();
    slot.queued_before.store(u64::from(short), Relaxed);
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
        let waited = ticks::between(slot.wait_ticks.load(Relaxed), ticks::now());
        let waited = waited.unwrap_or(Nanos(u64::MAX));
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
    pay(slot);
    read_switches(slot, During::Work);
    let was = begin_waiting(slot, Activity::WaitingForWorld);
    let asleep = Asleep::begin(slot);
    let result = call();
    audit::end(slot, false);
    slot.activity.store(was, Relaxed);
    credit_queues(slot);
    match met(&result) {
        Some(met) => deadline::met(slot, met),
        None => asleep.end(slot),
    }
    after_world(slot, was, None);
    result
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
    if was == Activity::Running as u32
        && owes(slot)
        && slot.busy.load(Relaxed) == 0
        && shared().header.has_rule(6)
    {
        // What no thread has ever used is not looked at again and again.
        let may_end = |watch: &Watch<'_>| watch.instance.is_some() || (watch.used)() > Nanos::ZERO;
        let watch = watch.filter(|(watch, _)| shared().header.has_rule(5) && may_end(watch));
        settle(slot, Debt::OfTheWorld(watch), Behind::Code);
    }
}

/// The thread owes for what the world did, and has no lock: it pays.
pub fn pay_world(slot: &Slot) {
    if owes(slot) && slot.busy.load(Relaxed) == 0 {
        settle(slot, Debt::OfTheWorld(None), Behind::Code);
    }
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
