//! Paying: the pauses that make good what a thread owes.
//!
//! The arithmetic is in [`wire::account`], what a thread is credited with in [`account`](crate::account) and
//! [`wait`](crate::wait); here are the clock and the sleep. Interposed functions pay, and the signal handler, by
//! [`pay_in_handler`].

use crate::account::{LEAST, owes, take_note};
use crate::memory::shared;
use crate::sampler::{self, Behind};
use crate::switches::{self, During};
use crate::{cpus, deferral, stopwatch, sys, tls, yields};
use core::sync::atomic::Ordering::Relaxed;
use wire::channel::Key;
use wire::slot::{Activity, Slot};
use wire::{Account, Epoch, Nanos};

/// How often a pause looks whether its CPU has come to be wanted, where there are more threads than CPUs.
const LOOK: Nanos = Nanos(500_000);

/// How often a pause looks whether a thread has done what no `epoll` instance would tell.
const GLANCE: Nanos = Nanos(200_000);

/// Handlers of the program's wait about so long at most for the end of a pause.
const SLICE: Nanos = Nanos(10_000_000);

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
        settle(slot, whose(slot));
    }
}

/// Rule 2, from the signal handler, which has made sure that the thread is not busy. `unblocked`: whether it is known when a signal comes; otherwise the pause takes no longer
/// than they may wait. What is left then is paid at the next sample.
pub fn pay_in_handler(slot: &Slot, unblocked: bool) {
    if owes(slot) {
        settle_once(slot, whose(slot), Behind::Sample, unblocked);
    }
}

/// The thread owes for what the world did, and has no lock: it pays. `watch`: what else could have ended its wait, which began then.
pub fn pay_world(slot: &Slot, watch: Option<(Watch<'_>, Nanos)>) {
    if owes(slot) && slot.busy.load(Relaxed) == 0 {
        // What no thread has ever used is not looked at again and again.
        let may_end = |watch: &Watch<'_>| watch.instance.is_some() || (watch.used)() > Nanos::ZERO;
        let watch = watch.filter(|(watch, _)| shared().header.has_rule(5) && may_end(watch));
        settle(slot, Debt::OfTheWorld(watch));
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

/// Rules 5 and 7 for waits that no call has announced: brings the account up to date. Called from the signal handler as well.
#[inline]
pub fn credit_waits(slot: &Slot) {
    if owes(slot) {
        yields::settle(slot);
    }
    take_note(slot);
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

/// Pauses until nothing is owed, or the experiment is over.
///
/// A handler of the program's that ran in the middle of a pause could call an interposed function and pay the same debt again, or leave with `siglongjmp` and never
/// let the pause end. So it waits for that ([`deferral`]), for about [`SLICE`] at most, and finds the account in order; if it returns, the pause goes on.
fn settle(slot: &Slot, whose: Debt<'_>) {
    loop {
        let (mut more, mut mask) = (false, None);
        tls::settling(slot, || {
            more = deferral::whole(slot, || settle_once(slot, whose, Behind::Code, true));
            mask = deferral::send_again(slot);
        });
        if let Some(mask) = mask {
            sys::restore_mask(mask);
            deferral::end_entering(slot);
        }
        if !more || tls::are_all_left() {
            break;
        }
    }
}

/// The same until a handler has waited for long; then there is more to pay. `unblocked`: as in [`pay_in_handler`].
fn settle_once(slot: &Slot, whose: Debt<'_>, behind: Behind, unblocked: bool) -> bool {
    let mut begin = sys::now();
    let (cpu, until) = (sampler::cpu_time(slot), begin + SLICE);
    let is_over = |end| end >= until && (!unblocked || deferral::has_caught(slot)) || tls::are_all_left();
    // The thread may have lost its CPU since it last looked.
    switches::drain(slot, During::Work);
    let more = loop {
        match pause(slot, whose, begin) {
            Some(end) if !is_over(end) => begin = end,
            ended => break ended.is_some(),
        }
    };
    sampler::paused(slot, cpu, behind);
    slot.paused.store(1, Relaxed);
    stopwatch::resume(slot);
    more
}

/// Pays what is owed, but not for longer than a slice; returns when that was over, or `None` if there is nothing
/// more to pay. Since `begin` the thread has done nothing but prepare its pause, which counts as a part of it:
/// the program had nothing of that time.
fn pause(slot: &Slot, whose: Debt<'_>, begin: Nanos) -> Option<Nanos> {
    let memory = shared();
    let number = memory.header.epoch.load(core::sync::atomic::Ordering::Acquire);
    let (required, local) = slot.local.meet(&memory.required);
    let own = required.delay().saturating_sub(local.delay());
    let mut debt = own + slot.arrears.within(required);
    if debt == Nanos::ZERO || !required.is_of(Epoch(number)) {
        return None;
    }
    // A thread of the program, which had paid, has done what would have ended the wait: rule 5 after all.
    if let Debt::OfTheWorld(Some((watch, since))) = whose
        && (watch.used)() > since
    {
        slot.local.pay(required, own);
        slot.books.hidden.fetch_add(own.0, Relaxed);
        return None;
    }
    // What an earlier pause overslept has been paid already.
    let carried = slot.carry.take(required, debt);
    slot.local.pay_after(&slot.arrears, required, carried);
    debt = debt.saturating_sub(carried);
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
    let owed = now.delay().saturating_sub(local.delay()) + slot.arrears.within(now);
    let paid = paused.min(slice).min(owed);
    slot.books.paid.fetch_add(paid.0, Relaxed);
    slot.local.pay_after(&slot.arrears, required, paid);
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
    while end < until && epoch.load(Relaxed) == number && !tls::are_all_left() {
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
    while end < until && epoch.load(Relaxed) == number && !tls::are_all_left() {
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
        while end < begin + time + queued && epoch.load(Relaxed) == number && !tls::are_all_left() {
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
        if end >= begin + time + queued || epoch.load(Relaxed) != number || tls::are_all_left() {
            return Paused { time: end.saturating_sub(begin + queued), end };
        }
    }
}
