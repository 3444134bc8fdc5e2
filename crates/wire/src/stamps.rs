//! When visits were: their number and the sum of their times, in one word that one addition changes.
//!
//! From the sums of two points, a begin and an end, follows the time integral of what was in flight between them,
//! exactly and without a look in between: ∫ n dv is n·v at its end less n·v at its beginning, less
//! the times of all beginnings in between, plus those of all ends.
//!
//! Times count in units of 64 ns, numbers and sums wrap around. The integral is right as long as it is below
//! 2⁴³ units and fewer than 2¹⁹ pieces of work are in flight; one in a million visits is counted one unit too late.

use crate::Nanos;
use crate::atomic::{AtomicU64, Ordering};

/// Nanoseconds per unit of time.
const UNIT: u64 = 64;
const NUMBER_BITS: u32 = 20;
const SUM_BITS: u32 = 64 - NUMBER_BITS;

/// Visits as they were at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps(u64);

/// The visits of one point.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct SharedStamps(AtomicU64);

impl SharedStamps {
    /// Adds a visit at `time`. Relaxed: it publishes nothing but itself.
    pub fn add(&self, time: Nanos) {
        self.0.fetch_add((time.0 / UNIT) << NUMBER_BITS | 1, Ordering::Relaxed);
    }

    /// All visits so far.
    pub fn load(&self) -> Stamps {
        Stamps(self.0.load(Ordering::Relaxed))
    }
}

impl Stamps {
    fn sum(self) -> u64 {
        self.0 >> NUMBER_BITS
    }

    /// How many visits there were since `before`; modulo 2²⁰.
    #[must_use]
    pub const fn number_since(self, before: Self) -> u64 {
        self.0.wrapping_sub(before.0) & ((1 << NUMBER_BITS) - 1)
    }
}

/// A begin and an end, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The moment, in the time in which visits are stamped.
    pub time: Nanos,
    /// Beginnings so far.
    pub begun: Stamps,
    /// Ends so far.
    pub ended: Stamps,
}

impl Pair {
    /// Begun and not ended.
    #[must_use]
    pub const fn in_flight(self) -> i64 {
        signed(self.begun.number_since(self.ended), NUMBER_BITS)
    }

    /// ∫ n dt since `before`, in nanoseconds.
    #[must_use]
    pub fn integral_since(self, before: Self) -> i64 {
        let area = |at: Self| (at.in_flight() as u64).wrapping_mul(at.time.0 / UNIT);
        let times = |at: Self| at.ended.sum().wrapping_sub(at.begun.sum());
        let change = |of: &dyn Fn(Self) -> u64| of(self).wrapping_sub(of(before));
        signed(change(&area).wrapping_add(change(&times)), SUM_BITS) * UNIT as i64
    }
}

/// The lowest `bits` of `number` as a signed one.
const fn signed(number: u64, bits: u32) -> i64 {
    (number << (64 - bits)) as i64 >> (64 - bits)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Points {
        begin: SharedStamps,
        end: SharedStamps,
    }

    impl Points {
        fn at(&self, micros: u64) -> Pair {
            Pair { time: Nanos(micros * 6400), begun: self.begin.load(), ended: self.end.load() }
        }
    }

    /// Times are multiples of 6.4 µs, so that nothing is rounded.
    fn time(nth: u64) -> Nanos {
        Nanos(nth * 6400)
    }

    #[test]
    fn the_integral_is_that_of_what_is_in_flight() {
        // From any time on, as if the machine had run for a century.
        for start in [0, 1000, 500_000_000_000_000] {
            let points = Points::default();
            points.begin.add(time(start));
            let before = points.at(start + 10);
            points.begin.add(time(start + 20)); // two until 30,
            points.end.add(time(start + 30));
            points.end.add(time(start + 50)); // one until 50, none until 60,
            points.begin.add(time(start + 60)); // and one until 70
            let after = points.at(start + 70);
            assert_eq!(after.integral_since(before), 6400 * (10 + 2 * 10 + 20 + 10));
            assert_eq!((before.in_flight(), after.in_flight()), (1, 1));
            assert_eq!(after.begun.number_since(before.begun), 2);
        }
    }

    #[test]
    fn many_visits_wrap_around() {
        let points = Points::default();
        for nth in 0..(3 << NUMBER_BITS) / 2 {
            points.begin.add(time(nth));
            points.end.add(time(nth + 1));
        }
        let before = points.at(0);
        assert_eq!(before.in_flight(), 0);
        for nth in 0..(3 << NUMBER_BITS) / 2 {
            points.begin.add(time(nth));
            points.end.add(time(nth + 1));
        }
        let integral = points.at(3 << 20).integral_since(before);
        assert!((integral - 6400 * (3 << NUMBER_BITS) / 2).abs() <= 3 * UNIT as i64, "{integral}");
    }

    #[test]
    fn ends_without_beginnings_are_less_than_nothing() {
        let points = Points::default();
        let before = points.at(10);
        points.end.add(time(20));
        let after = points.at(30);
        assert_eq!((after.in_flight(), after.integral_since(before)), (-1, -6400 * 10));
    }
}
