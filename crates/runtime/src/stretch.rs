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

/// Credit that is worth telling the others. No more than a short section gives: what one thread keeps to itself the next one in the section does not
/// owe.
const WORTH: Nanos = Nanos(1_000);
/// The longest time that a stretch is credited for: longer than the period of samples it cannot be, unless
/// the thread was off its CPU.
const LONGEST: Nanos = Nanos(1_500_000);
/// Samples, in microseconds, after which a share is believed.
const KNOWN: u64 = 3_000;
/// Samples, in microseconds, after which half of them are forgotten.
const OLD: u64 = 60_000;
/// So many times as many microseconds are as many samples where a timer takes them, which comes with the kernel's tick.
const COARSE: u64 = 4;
/// The part of the balance that every sample evens out.
const EVENING: i64 = 10;

/// The stretch that a thread was in is over, and the one behind `call` begins.
#[inline]
pub fn cross(slot: &Slot, call: Call) {
    // Outside of experiments nothing is timed: what is credited in one is not what a thread did before it.
    let share = if shared().header.experimenting.load(Relaxed) != 0 { end(slot, call) } else { None };
    slot.site.store(call.site(), Relaxed);
    slot.kind.store(call.kind(), Relaxed);
    slot.crossed.store(1, Relaxed);
    note_share(slot, share);
}

/// A thread begins with what it was started to run.
pub fn begin(slot: &Slot) {
    let start = slot.start.load(Relaxed) as u64;
    slot.site.store(start, Relaxed);
    slot.kind.store(start, Relaxed);
    slot.crossed.store(1, Relaxed);
    stopwatch::start(slot);
    note_share(slot, share(slot));
}

/// The stretch that the thread is in has this share of the region, which says whether its time has to be known.
fn note_share(slot: &Slot, share: Option<Part>) {
    slot.share.store(share.map_or(0, |Part(share)| share as u32), Relaxed);
}

/// The stretch that the thread was in is over; returns the share of the region in the one behind `next`, if it is known.
#[inline(never)]
fn end(slot: &Slot, next: Call) -> Option<Part> {
    // Time without a CPU does not belong to the stretch. And waits are credited first: what the thread itself did comes on top.
    if slot.is_doing(Activity::Running) {
        delay::credit_waits(slot);
    }
    let ended = Part(slot.share.load(Relaxed).into());
    let next = known(slot, next.site(), next.kind());
    if ended == Part(0) && next.is_none_or(|next| next == Part(0)) {
        return next;
    }
    let took = stopwatch::restart(slot);
    let is_busy = slot.busy.load(Relaxed) != 0 || !slot.is_doing(Activity::Running);
    if ended != Part(0)
        && !is_busy
        && shared().header.has_rule(3)
        && let Some(time) = took.time()
    {
        let time = time.min(LONGEST);
        let accrued = Accrued { began: time, ended: Nanos::ZERO };
        account::exclusively(slot, || give(slot, ended.of(time), accrued));
        account::catch_up(slot);
    }
    if !is_busy && next.is_some_and(|next| next != Part(0)) {
        account::put_off(slot);
    }
    next
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

/// What the two tables may know of the stretches with these names, the more special first.
fn entries(slot: &Slot, site: u64, kind: u64) -> [(&Share, u64); 2] {
    [(entry(&slot.shares, site), site), (entry(&slot.kinds, kind), kind)]
}

/// What samples found in one kind of stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    /// Time in the region, in microseconds.
    hit: u64,
    /// Time altogether, in microseconds: [`OLD`] at most.
    all: u64,
}

impl Found {
    /// Bits of each of the two times.
    const BITS: u32 = 20;

    /// `coarse`: how many times as long as usual the time between two samples is.
    fn add(mut self, hit: bool, micros: u64, coarse: u64) -> Self {
        self.hit += if hit { micros } else { 0 };
        self.all += micros;
        while self.all > OLD * coarse {
            self = Self { hit: self.hit / 2, all: self.all / 2 };
        }
        self
    }

    /// With the share, which is needed at every call and changes with samples only; one more than that, or zero as long as it is not known.
    fn pack(self, coarse: u64) -> u64 {
        let share = if self.all >= KNOWN * coarse { self.hit * ONE as u64 / self.all + 1 } else { 0 };
        share << (2 * Self::BITS) | self.hit << Self::BITS | self.all
    }

    fn unpack(packed: u64) -> Self {
        let part = |shift: u32| packed >> shift & ((1 << Self::BITS) - 1);
        Self { hit: part(Self::BITS), all: part(0) }
    }

    fn share(packed: u64) -> Option<Part> {
        (packed >> (2 * Self::BITS)).checked_sub(1).map(|share| Part(share as i64))
    }
}

/// The share of the region in stretches such as the one that the thread is in, if it is known.
fn share(slot: &Slot) -> Option<Part> {
    known(slot, slot.site.load(Relaxed), slot.kind.load(Relaxed))
}

/// The share of the region in stretches with these names, if it is known.
fn known(slot: &Slot, site: u64, kind: u64) -> Option<Part> {
    entries(slot, site, kind).into_iter().find_map(|(entry, name)| {
        let packed = entry.seen.load(Relaxed);
        if entry.name.load(Relaxed) == name { Found::share(packed) } else { None }
    })
}

/// Learns from a sample of the stretch that the thread is in.
fn learn(slot: &Slot, hit: bool, weight: Nanos) {
    let micros = weight.0 / 1000;
    let coarse = if slot.timer.load(Relaxed) >= 0 { COARSE } else { 1 };
    for (entry, name) in entries(slot, slot.site.load(Relaxed), slot.kind.load(Relaxed)) {
        let known = if entry.name.swap(name, Relaxed) == name { entry.seen.load(Relaxed) } else { 0 };
        entry.seen.store(Found::unpack(known).add(hit, micros, coarse).pack(coarse), Relaxed);
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
        slot.share.store(0, Relaxed);
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
    let is_timed = slot.share.load(Relaxed) != 0;
    let sampled = if hit { weight.0 as i64 } else { 0 };
    let owed = slot.balance.load(Relaxed) as i64;
    slot.balance.store((owed + sampled) as u64, Relaxed);
    let since = stopwatch::restart(slot).time().filter(|_| is_timed);
    note_share(slot, self::share(slot));
    let expected = match (share.filter(|_| memory.header.has_rule(3)), since) {
        (Some(Part(0)), _) if crossed => 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_known_after_a_few_samples() {
        let samples = |hits: u64, all: u64| {
            (0..all).fold(0, |packed, nth| Found::unpack(packed).add(nth < hits, 1000, 1).pack(1))
        };
        assert_eq!(Found::share(samples(1, 2)), None);
        assert_eq!(Found::share(samples(0, 3)), Some(Part(0)));
        assert_eq!(Found::share(samples(1, 4)), Some(Part(ONE / 4)));
        assert_eq!(Found::share(samples(4, 4)), Some(Part(ONE)));
        let coarse = |count: u64| (0..count).fold(Found::default(), |found, _| found.add(true, 4000, COARSE));
        assert_eq!(Found::share(coarse(2).pack(COARSE)), None, "two samples, if they are coarse ones");
        assert_eq!(Found::share(coarse(3).pack(COARSE)), Some(Part(ONE)));
        let most = coarse(1000);
        assert_eq!(Found::unpack(most.pack(COARSE)), most);
    }

    #[test]
    fn what_is_old_is_forgotten_and_a_sample_may_stand_for_any_time() {
        let old = Found { hit: 0, all: OLD };
        assert_eq!(old.add(true, 2, 1), Found { hit: 1, all: OLD / 2 + 1 });
        let long = Found::default().add(true, 40_000_000, 1);
        assert!(long.hit == long.all && (OLD / 2..=OLD).contains(&long.all), "{long:?}");
        assert_eq!(Found::unpack(long.pack(1)), long);
        assert_eq!(Found::share(long.pack(1)), Some(Part(ONE)));
    }
}
