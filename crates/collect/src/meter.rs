//! What one event of one CPU was expected to yield, and did.
//!
//! Now and then the period of an event changes. Between two changes the kernel has counted so many nanoseconds (or
//! cycles, or faults), and a sample was due every period of them: that is what was expected, whatever was written into
//! the ring. The samples that were taken in the same time are found by their times.
//!
//! A CPU that sleeps is not always woken for a sample: the kernel throttles events by the clock tick, which idle CPUs do not have.
//! Samples that are missing after one of an idle CPU stand for idle time, up to the next one: a CPU that has work has its tick,
//! and its samples.

use perf::stream::Reading;
use std::collections::VecDeque;
use wire::Nanos;

/// What became of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many should have been taken.
    pub expected: u64,
    /// How many were, and are known to be of an image,
    pub stored: u64,
    /// of none,
    pub unknown: u64,
    /// (among those stored) of an idle CPU.
    pub idle: u64,
    /// How many of those that are lost there was no room for. The others were never taken: a hypervisor had stopped the
    /// CPU, or its interrupts were off, when their time came.
    pub no_room: u64,
    /// How many more were taken than the counter called for; there should be none.
    pub surplus: u64,
}

impl Tally {
    /// How many should have been and were not.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.stored + self.unknown)
    }

    /// Adds another one.
    pub fn add(&mut self, other: Tally) {
        self.expected += other.expected;
        self.stored += other.stored;
        self.unknown += other.unknown;
        self.idle += other.idle;
        self.no_room += other.no_room;
        self.surplus += other.surplus;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Meter {
    /// What had been counted when the period was last set,
    base: u64,
    /// and how many samples have been expected since.
    told: u64,
    /// What there had been no room for when the last interval ended.
    lost: u64,
    /// Intervals that are over, of which samples may still be in the ring: when they ended, what was expected, what there was
    /// no room for, and the period.
    over: VecDeque<(Nanos, u64, u64, u64)>,
    /// The last sample (or the end of an interval after it): when, and whether the CPU was idle.
    last: Option<(Nanos, bool)>,
    /// Samples that are missing while it was, since the last interval that is closed.
    asleep: u64,
    /// Samples since the last one that is closed.
    open: Tally,
    /// What is closed.
    closed: Tally,
}

impl Meter {
    /// The period was `period` until `now`, when the kernel had counted `reading`; `renewed`: and begins anew, rather than
    /// going on.
    pub fn end_interval(&mut self, now: Nanos, reading: Reading, period: u64, renewed: bool) {
        let due = reading.count.saturating_sub(self.base) / period.max(1);
        let expected = due.saturating_sub(self.told);
        (self.base, self.told) = if renewed { (reading.count, 0) } else { (self.base, due.max(self.told)) };
        let no_room = reading.lost.saturating_sub(self.lost);
        self.lost = reading.lost;
        self.over.push_back((now, expected, no_room, period.max(1)));
    }

    /// No sample before `time` comes any more. Returns how many samples of an idle CPU were not taken until then: they count
    /// as stored.
    pub fn reached(&mut self, time: Nanos) -> u64 {
        let mut slept = 0;
        while let Some(&(end, expected, no_room, period)) = self.over.front().filter(|(end, ..)| *end < time)
        {
            self.over.pop_front();
            if let Some((last, true)) = self.last {
                self.asleep += end.saturating_sub(last).0 / period;
                self.last = Some((end, true));
            }
            let taken = self.open.stored + self.open.unknown;
            let asleep = std::mem::take(&mut self.asleep).min(expected.saturating_sub(taken + no_room));
            self.open.stored += asleep;
            self.open.idle += asleep;
            slept += asleep;
            let taken = taken + asleep;
            self.open.expected = expected.max(taken);
            // The one that was taken just before the clock was read may be counted on the other side.
            self.open.surplus = taken.saturating_sub(expected + 1);
            self.open.no_room = no_room.min(self.open.lost());
            self.closed.add(std::mem::take(&mut self.open));
        }
        slept
    }

    /// A sample, which is not older than what was [`reached`](Self::reached); one is due every `period` nanoseconds (or
    /// none of an idle CPU is, of what is no clock).
    pub fn sample(&mut self, time: Nanos, period: Option<u64>, known: bool, idle: bool) {
        if let (Some((last, true)), Some(period)) = (self.last, period) {
            let gap = time.saturating_sub(last).0 + period / 2;
            self.asleep += (gap / period.max(1)).saturating_sub(1);
        }
        self.last = Some((time, idle && period.is_some()));
        if known {
            self.open.stored += 1;
        } else {
            self.open.unknown += 1;
        }
        self.open.idle += u64::from(idle);
    }

    /// What became of the samples of all intervals that were closed since the last call.
    pub fn take(&mut self) -> Tally {
        std::mem::take(&mut self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_expected_is_stored_or_unknown_or_lost() {
        let mut meter = Meter::default();
        let reading = |count| Reading { count, lost: count / 1000 };
        for _ in 0..7 {
            meter.sample(Nanos(1), None, true, false);
        }
        meter.sample(Nanos(1), None, false, false);
        meter.end_interval(Nanos(1000), reading(1000), 100, true);
        // Younger than the end: of the next interval.
        meter.reached(Nanos(1001));
        meter.sample(Nanos(1001), None, true, true);
        let first = meter.take();
        assert_eq!(first, Tally { expected: 10, stored: 7, unknown: 1, no_room: 1, ..Tally::default() });
        assert_eq!(first.lost(), 2);
        meter.end_interval(Nanos(1100), reading(1100), 200, true);
        meter.reached(Nanos(2000));
        // Less than a period, and yet there was one: at the end of the interval before.
        assert_eq!(meter.take(), Tally { expected: 1, stored: 1, idle: 1, ..Tally::default() });
        assert_eq!(meter.take(), Tally::default());
    }

    #[test]
    fn a_long_period_goes_on_from_interval_to_interval() {
        let mut meter = Meter::default();
        let mut expected = Vec::new();
        for second in 1..=6 {
            meter.end_interval(Nanos(second), Reading { count: second * 100, lost: 0 }, 250, false);
            meter.reached(Nanos(second + 1));
            expected.push(meter.take().expected);
        }
        assert_eq!(expected, [0, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn more_than_was_called_for_is_said() {
        let mut meter = Meter::default();
        (0..15).for_each(|_| meter.sample(Nanos(1), None, true, false));
        meter.end_interval(Nanos(1000), Reading { count: 1000, lost: 0 }, 100, true);
        meter.reached(Nanos(1001));
        let tally = meter.take();
        assert_eq!((tally.expected, tally.surplus, tally.lost()), (15, 4, 0));
    }

    #[test]
    fn idle_cpus_sleep_through_samples_and_busy_ones_lose_them() {
        let count = |count| Reading { count, lost: 0 };
        for (idle, slept) in [(true, 7), (false, 0)] {
            let mut meter = Meter::default();
            // At 100 and 200, at 600, and none until 1000.
            for time in [100, 200, 600] {
                meter.sample(Nanos(time), Some(100), true, idle);
            }
            meter.end_interval(Nanos(1000), count(1000), 100, true);
            assert_eq!(meter.reached(Nanos(1001)), slept);
            let tally = meter.take();
            assert_eq!((tally.expected, tally.lost()), (10, 7 - slept), "{tally:?}");
        }
    }
}
