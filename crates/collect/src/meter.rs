//! What one event of one CPU was expected to yield, and did.
//!
//! Now and then the period of an event changes. Between two changes the kernel has counted so many nanoseconds (or
//! cycles, or faults), and a sample was due every period of them: that is what was expected, whatever was written into
//! the ring. The samples that were taken in the same time are found by their times.
//!
//! A CPU that sleeps is not always woken for a sample. How long it slept is known from the kernel's books, so samples that are
//! missing count as idle, as far as that time called for more of them than were taken.

use kernel::stream::Reading;
use std::collections::VecDeque;
use wire::Nanos;

/// What became of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many should have been taken.
    pub expected: u64,
    /// How many were taken and are known to be of an image.
    pub stored: u64,
    /// How many were taken and are of no known image.
    pub unknown: u64,
    /// How many of those stored are of an idle CPU.
    pub idle: u64,
    /// How many of those that are lost there was no room for. The others were never taken: a hypervisor had stopped the
    /// CPU, or its interrupts were off, when their time came.
    pub no_room: u64,
    /// How many more were taken than the counter called for; there should be none.
    pub surplus: u64,
    /// How many more the kernel says that there was no room for than are missing; there should be none.
    pub excess: u64,
    /// How often the kernel stopped taking samples until its next tick, because it allows no more.
    pub throttled: u64,
    /// For how long the event counted, on all CPUs together: that is what the samples stand for. Less than all of the time for
    /// one that takes turns, or that counts only while certain threads run.
    pub covered: Nanos,
    /// Of samples that are found several at a time, the sum of the squares of how many; zero where each is taken by itself.
    pub squares: u64,
}

impl Tally {
    /// How many should have been and were not.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.stored + self.unknown)
    }

    /// By how many samples the books do not balance: what was taken and what the kernel had no room for is told by the kernel
    /// sample by sample, what was expected by its counters.
    pub fn imbalance(&self) -> u64 {
        self.surplus + self.excess
    }

    /// Adds another one.
    pub fn add(&mut self, other: Tally) {
        self.expected += other.expected;
        self.stored += other.stored;
        self.unknown += other.unknown;
        self.idle += other.idle;
        self.no_room += other.no_room;
        self.surplus += other.surplus;
        self.excess += other.excess;
        self.throttled += other.throttled;
        self.covered += other.covered;
    }
}

/// An interval that is over.
#[derive(Clone, Copy, Debug)]
struct Over {
    end: Nanos,
    expected: u64,
    covered: Nanos,
    no_room: u64,
    /// How many samples the CPU's idle time called for.
    idle: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Meter {
    /// What had been counted when the period was last set.
    base: u64,
    /// How many samples have been expected since the period was last set.
    told: u64,
    /// For how long it had counted, and what there had been no room for, when the last interval ended.
    running: Nanos,
    lost: u64,
    /// Intervals that are over, of which samples may still be in the ring.
    over: VecDeque<Over>,
    /// Idle time that has not called for a sample yet.
    idle_left: u64,
    /// Samples since the last one that is closed.
    open: Tally,
    /// What is closed.
    closed: Tally,
}

impl Meter {
    /// How many samples have been due since the period was last set, when the kernel had counted `reading`.
    pub fn due(&self, reading: Reading, period: u64) -> u64 {
        reading.count.saturating_sub(self.base) / period.max(1)
    }

    /// The period was `period` until `now`, when the kernel had counted `reading`; `renewed`: and begins anew, rather than
    /// going on.
    /// `idle`: how long the CPU has been idle meanwhile, where the source is a clock.
    pub fn end_interval(&mut self, now: Nanos, reading: Reading, period: u64, renewed: bool, idle: Nanos) {
        let period = period.max(1);
        self.idle_left += idle.0;
        let asleep = self.idle_left / period;
        self.idle_left %= period;
        let due = self.due(reading, period);
        let expected = due.saturating_sub(self.told);
        (self.base, self.told) = if renewed { (reading.count, 0) } else { (self.base, due.max(self.told)) };
        let no_room = reading.lost.saturating_sub(self.lost);
        self.lost = reading.lost;
        let covered = reading.running.saturating_sub(self.running);
        self.running = reading.running;
        self.over.push_back(Over { end: now, expected, covered, no_room, idle: asleep });
    }

    /// No sample before `time` comes any more. Returns how many samples of an idle CPU were not taken until then: they count
    /// as stored.
    pub fn reached(&mut self, time: Nanos) -> u64 {
        let mut slept = 0;
        while let Some(Over { expected, covered, no_room, idle, .. }) =
            self.over.pop_front_if(|over| over.end < time)
        {
            let taken = self.open.stored + self.open.unknown;
            let asleep = idle.saturating_sub(self.open.idle).min(expected.saturating_sub(taken + no_room));
            self.open.stored += asleep;
            self.open.idle += asleep;
            slept += asleep;
            let taken = taken + asleep;
            self.open.expected = expected.max(taken);
            self.open.covered = covered;
            // The one that was taken just before the clock was read may be counted on the other side.
            self.open.surplus = taken.saturating_sub(expected + 1);
            self.open.no_room = no_room.min(self.open.lost());
            // Likewise, on the one side or the other.
            self.open.excess = no_room.saturating_sub(self.open.lost() + 1);
            self.closed.add(std::mem::take(&mut self.open));
        }
        slept
    }

    /// A sample, which is not older than what was [`reached`](Self::reached).
    pub fn sample(&mut self, known: bool, idle: bool) {
        if known {
            self.open.stored += 1;
        } else {
            self.open.unknown += 1;
        }
        self.open.idle += u64::from(idle);
    }

    /// The kernel has stopped taking samples for a moment.
    pub fn throttled(&mut self) {
        self.open.throttled += 1;
    }

    /// What became of the samples of all intervals that were closed since the last call.
    pub fn take(&mut self) -> Tally {
        std::mem::take(&mut self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(count: u64) -> Reading {
        Reading { count, ..Reading::default() }
    }

    #[test]
    fn what_was_expected_is_stored_or_unknown_or_lost() {
        let mut meter = Meter::default();
        let reading = |count| Reading { count, running: Nanos(count), lost: count / 1000 };
        for _ in 0..7 {
            meter.sample(true, false);
        }
        meter.sample(false, false);
        meter.throttled();
        meter.end_interval(Nanos(1000), reading(1000), 100, true, Nanos::ZERO);
        // Younger than the end: of the next interval.
        meter.reached(Nanos(1001));
        meter.sample(true, true);
        let first = meter.take();
        assert_eq!(
            first,
            Tally {
                expected: 10,
                stored: 7,
                unknown: 1,
                no_room: 1,
                throttled: 1,
                covered: Nanos(1000),
                ..Tally::default()
            }
        );
        assert_eq!(first.lost(), 2);
        meter.end_interval(Nanos(1100), reading(1100), 200, true, Nanos::ZERO);
        meter.reached(Nanos(2000));
        // Less than a period, and yet there was one: at the end of the interval before.
        assert_eq!(
            meter.take(),
            Tally { expected: 1, stored: 1, idle: 1, covered: Nanos(100), ..Tally::default() }
        );
        assert_eq!(meter.take(), Tally::default());
    }

    #[test]
    fn a_long_period_goes_on_from_interval_to_interval() {
        let mut meter = Meter::default();
        let mut expected = Vec::new();
        for second in 1..=6 {
            meter.end_interval(Nanos(second), counted(second * 100), 250, false, Nanos::ZERO);
            meter.reached(Nanos(second + 1));
            expected.push(meter.take().expected);
        }
        assert_eq!(expected, [0, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn more_than_was_called_for_is_said() {
        let mut meter = Meter::default();
        (0..15).for_each(|_| meter.sample(true, false));
        meter.end_interval(Nanos(1000), counted(1000), 100, true, Nanos::ZERO);
        meter.reached(Nanos(1001));
        let tally = meter.take();
        assert_eq!((tally.expected, tally.surplus, tally.lost()), (15, 4, 0));
    }

    #[test]
    fn what_the_kernel_lost_is_checked_against_what_is_missing() {
        for (lost, no_room, excess) in [(0, 0, 0), (3, 3, 0), (4, 3, 0), (9, 3, 5)] {
            let mut meter = Meter::default();
            (0..7).for_each(|_| meter.sample(true, false));
            meter.end_interval(
                Nanos(1000),
                Reading { count: 1000, running: Nanos(1000), lost },
                100,
                true,
                Nanos::ZERO,
            );
            meter.reached(Nanos(1001));
            let tally = meter.take();
            assert_eq!((tally.lost(), tally.no_room, tally.excess), (3, no_room, excess), "{lost}");
            assert_eq!(tally.imbalance(), excess);
        }
    }

    #[test]
    fn events_that_take_turns_cover_the_time_of_their_turns() {
        let mut meter = Meter::default();
        let mut sum = Tally::default();
        // On for every third second, half of which another event had the CPU's counter.
        for second in 1..=9_u64 {
            let turns = second.div_ceil(3);
            let reading = Reading { count: 100 * turns, running: Nanos(500 * turns), lost: 0 };
            meter.end_interval(Nanos(1000 * second), reading, 10, false, Nanos::ZERO);
            meter.reached(Nanos(1000 * second + 1));
            sum.add(meter.take());
        }
        assert_eq!((sum.expected, sum.covered), (30, Nanos(1500)));
    }

    #[test]
    fn idle_cpus_sleep_through_samples_and_busy_ones_lose_them() {
        // Of ten samples three were taken, one of them idle.
        for (idle, slept) in [(0, 0), (199, 0), (500, 4), (900, 7)] {
            let mut meter = Meter::default();
            [false, true, false].into_iter().for_each(|idle| meter.sample(true, idle));
            meter.end_interval(Nanos(1000), counted(1000), 100, true, Nanos(idle));
            assert_eq!(meter.reached(Nanos(1001)), slept);
            let tally = meter.take();
            assert_eq!((tally.expected, tally.lost(), tally.idle), (10, 7 - slept, 1 + slept), "{tally:?}");
        }
    }
}
