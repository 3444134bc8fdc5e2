//! Credit between samples.
//!
//! A sample credits a lump: what it stands for, a millisecond, at the end of it. Threads whose critical sections
//! are shorter than that would hand locks on before they, or the others, know what they have been credited with;
//! two threads that run the same region would pay for each other's lumps.
//!
//! So samples also teach. The code between two calls of interposed functions is a *stretch*, known by the call
//! that it began with (which function, about which object); every thread learns which share of each kind of
//! stretch its samples found in the region. Where a stretch ends, its time (by the processor's clock, which
//! costs a few nanoseconds) times that share is credited. A stretch that is longer than the time between two
//! samples is credited when they are taken, by what both found or by its share ([`wire::mixing`]); one of which
//! nothing is known yet, by what its samples found.
//!
//! Samples keep the balance: what they found minus what was credited. It is evened out slowly, so that in the long
//! run exactly what was sampled is credited, whatever was learnt.

use crate::memory::shared;
use crate::{account, delay, stopwatch, ticks};
use core::sync::atomic::Ordering::Relaxed;
use wire::Nanos;
use wire::history::Accrued;
use wire::mixing::ONE;
use wire::ring::Sample;
use wire::slot::{Activity, Share, Slot};

/// A call of an interposed function, as far as it tells what the code behind it will do.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which function.
    pub function: usize,
    /// What it is about: a lock, a descriptor; zero for nothing in particular.
    pub subject: usize,
}

impl Call {
    /// Names the call among those of the same function.
    fn site(self) -> u64 {
        (self.function ^ self.subject.rotate_left(20)) as u64
    }

    /// Names the function alone, for what is known when the subject is new.
    fn kind(self) -> u64 {
        self.function as u64
    }
}

/// Credit that is worth telling the others.
const WORTH: Nanos = Nanos(10_000);
/// The longest time that a stretch is credited for: longer than the period of samples it cannot be, unless
/// the thread was off its CPU.
const LONGEST: Nanos = Nanos(1_500_000);
/// Samples, in microseconds, after which a share is believed.
const KNOWN: u64 = 3_000;
/// Samples, in microseconds, after which half of them are forgotten.
const OLD: u64 = 60_000;
/// The part of the balance that every sample evens out.
const EVENING: i64 = 10;

/// The stretch that a thread was in is over, and the one behind `call` begins.
#[inline]
pub fn cross(slot: &Slot, call: Call) {
    if shared().header.experimenting.load(Relaxed) != 0 {
        end(slot);
    }
    slot.site.store(call.site(), Relaxed);
    slot.kind.store(call.kind(), Relaxed);
    slot.crossed.store(1, Relaxed);
}

/// A thread begins with what it was started to run.
pub fn begin(slot: &Slot) {
    let start = slot.start.load(Relaxed) as u64;
    slot.site.store(start, Relaxed);
    slot.kind.store(start, Relaxed);
    slot.crossed.store(1, Relaxed);
    stopwatch::start(slot);
}

#[inline(never)]
fn end(slot: &Slot) {
    // Time without a CPU does not belong to the stretch. And waits are credited first: what the thread itself did comes on top.
    if slot.is_doing(Activity::Running) {
        delay::credit_waits(slot);
    }
    let took = stopwatch::restart(slot);
    if slot.busy.load(Relaxed) != 0 || !slot.is_doing(Activity::Running) || !shared().header.has_rule(3) {
        return;
    }
    if let (Some(share), Some(time)) = (share(slot), took.time()) {
        let time = time.min(LONGEST);
        let accrued = Accrued { began: time, ended: Nanos::ZERO };
        account::exclusively(slot, || give(slot, share.of(time), accrued));
        account::catch_up(slot);
    }
}

/// A part of [`ONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part(i64);

impl Part {
    fn of(self, time: Nanos) -> Nanos {
        Nanos(time.0 * self.0 as u64 / ONE as u64)
    }
}

/// The entry of a table for the calls with that name.
fn entry(table: &[Share], name: u64) -> &Share {
    let hash = name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    &table[hash as usize % table.len()]
}

/// What the two tables may know of the stretch that the thread is in, the more special first.
fn entries(slot: &Slot) -> [(&Share, u64); 2] {
    let (site, kind) = (slot.site.load(Relaxed), slot.kind.load(Relaxed));
    [(entry(&slot.shares, site), site), (entry(&slot.kinds, kind), kind)]
}

/// The share of the region in stretches such as the one that the thread is in, if it is known.
fn share(slot: &Slot) -> Option<Part> {
    entries(slot).into_iter().find_map(|(entry, name)| {
        let seen = entry.seen.load(Relaxed);
        let (hit, all) = (seen >> 32, seen & 0xffff_ffff);
        (entry.name.load(Relaxed) == name && all >= KNOWN).then(|| Part((hit * ONE as u64 / all) as i64))
    })
}

/// Learns from a sample of the stretch that the thread is in.
fn learn(slot: &Slot, hit: bool, weight: Nanos) {
    let micros = weight.0 / 1000;
    for (entry, name) in entries(slot) {
        let seen = if entry.name.swap(name, Relaxed) == name { entry.seen.load(Relaxed) } else { 0 };
        let (mut in_region, mut all) = (seen >> 32, seen & 0xffff_ffff);
        in_region += if hit { micros } else { 0 };
        all += micros;
        if all > OLD {
            (in_region, all) = (in_region / 2, all / 2);
        }
        entry.seen.store((in_region << 32) | all, Relaxed);
    }
}

/// Credits `time` in the region: noted down, and told to the others when it is worth it.
fn give(slot: &Slot, time: Nanos, accrued: Accrued) {
    slot.balance.store(slot.balance.load(Relaxed).wrapping_sub(time.0), Relaxed);
    let memory = shared();
    let epoch = memory.header.epoch();
    let kept = slot.pending.load();
    let kept = if kept.is_of(epoch) { kept.delay() } else { Nanos::ZERO };
    let pending = kept + memory.experiments.of(epoch).speedup().of(time);
    if pending >= WORTH {
        slot.pending.inherit(wire::Account::default());
        account::credit(slot, epoch, pending, accrued);
    } else {
        slot.pending.inherit(wire::Account::new(epoch, pending));
    }
}

/// A sample, which `hit` the region numbered `region` or did not; `before` is the time of the one before. `credited`:
/// the thread's account may be changed now, because it runs code of a stretch. (A baseline does all of it, too, with a speedup of zero: what is
/// owed to the balance goes on from window to window.)
pub fn sampled(slot: &Slot, sample: &Sample, before: Nanos, hit: bool, region: u32, credited: bool) {
    let (time, weight) = (sample.time, sample.weight);
    ticks::measure(time);
    if region == 0 {
        return;
    }
    if slot.learnt.swap(region, Relaxed) != region {
        for share in slot.shares.iter().chain(&slot.kinds) {
            share.name.store(0, Relaxed);
            share.seen.store(0, Relaxed);
        }
        slot.balance.store(0, Relaxed);
    }
    // What a thread does in the middle of a call that waits is no part of the stretch, whose time begins behind it, and is credited by its samples
    // alone. If it taught, a region that makes such calls would be credited once more for the code behind them.
    if !credited {
        return;
    }
    let crossed = slot.crossed.swap(0, Relaxed) != 0;
    let found = (slot.hit.swap(u32::from(hit), Relaxed) != 0, hit);
    let memory = shared();
    let share = share(slot);
    let mixing = &memory.header.mixing;
    if let Some(Part(share)) = share
        && !crossed
    {
        mixing.learn(region, share, found);
    }
    learn(slot, hit, weight);
    let sampled = if hit { weight.0 as i64 } else { 0 };
    let owed = slot.balance.load(Relaxed) as i64;
    slot.balance.store((owed + sampled) as u64, Relaxed);
    let since = stopwatch::restart(slot).time();
    let expected = match (share.filter(|_| memory.header.has_rule(3)), since) {
        // A sample of a stretch that began since the last one stands for no more than that.
        (Some(share), Some(since)) if crossed => share.of(since.min(weight)).0 as i64,
        (Some(Part(share)), _) if !crossed => Part(mixing.between(region, share, found)).of(weight).0 as i64,
        _ => sampled,
    };
    let credit = Nanos((expected + (owed + sampled - expected) / EVENING).max(0) as u64);
    let passed = time.saturating_sub(before);
    let accrued = match found {
        // Half of the time, on average, since the thread has entered the region or before it has left it. A thread that was let
        // go then owes all of it, or nothing: divided at the middle, what is too much would count and what is missing would not.
        (false, true) if !crossed => Accrued::default(),
        (true, false) if !crossed => Accrued { began: passed, ended: passed },
        _ => Accrued { began: weight, ended: Nanos::ZERO },
    };
    give(slot, credit, accrued);
}
