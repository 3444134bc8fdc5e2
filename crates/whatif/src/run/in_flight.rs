//! In flight: how much has begun and not ended, added up over a window.
//!
//! What is wanted is the mean in the time of the virtual program. That is not the mean in real time: the selected code
//! runs when something is in flight, and with a large speedup nearly all the real time is its time, and none of the
//! virtual.

use profile::VisitNanos;

/// ∫ (begun − ended) dt between two points, by the trapezoidal rule over readings, in virtual time: that of every step
/// is what passed less what `required` grew.
///
/// The counters of the two points are read one after the other, so a reading may see an end without its
/// beginning, and a program may have ends without one: less than nothing is taken for nothing, and
/// [`is_unmatched`](Self::is_unmatched) says when that happened more often than not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Indices of the begin and of the end point.
    pub pair: (usize, usize),
    integral: i64,
    /// In real time.
    real: i64,
    elapsed: i64,
    effective: i64,
    /// The same with less than nothing in flight.
    signed: i64,
}

impl InFlight {
    pub fn between(pair: (usize, usize)) -> Self {
        Self { pair, integral: 0, real: 0, elapsed: 0, effective: 0, signed: 0 }
    }

    /// Adds a step from one reading of all counters to the next: so many nanoseconds, in which `required` grew by so
    /// many.
    pub fn add(&mut self, before: &[u64], after: &[u64], elapsed: i64, required: i64) {
        let (before, after) = (self.open(before), self.open(after));
        let effective = elapsed.saturating_sub(required);
        let add = |sum: &mut i64, add: i64| *sum = sum.saturating_add(add);
        add(&mut self.integral, area(before.max(0), after.max(0), effective));
        add(&mut self.real, area(before.max(0), after.max(0), elapsed));
        add(&mut self.signed, area(before, after, elapsed));
        add(&mut self.elapsed, elapsed);
        add(&mut self.effective, effective);
    }

    /// Begun and not ended; a point that is not registered yet has not been visited.
    fn open(&self, counts: &[u64]) -> i64 {
        let count = |index: usize| counts.get(index).copied().unwrap_or(0);
        count(self.pair.0).wrapping_sub(count(self.pair.1)) as i64
    }

    /// The mean in virtual time, for the whole of the elapsed time. Where hardly any virtual time passed, nobody knows
    /// better than the mean in real time.
    pub fn integral(&self) -> VisitNanos {
        if self.effective <= self.elapsed / 20 || self.integral < 0 {
            return VisitNanos::new(self.real);
        }
        let scaled = i128::from(self.integral) * i128::from(self.elapsed) / i128::from(self.effective);
        VisitNanos::new(i64::try_from(scaled).unwrap_or(i64::MAX))
    }

    /// Whether more had ended than begun, in the mean over all readings.
    pub fn is_unmatched(&self) -> bool {
        self.signed < 0
    }
}

/// The area below a line from `before` to `after`.
fn area(before: i64, after: i64, nanos: i64) -> i64 {
    let twice = (i128::from(before) + i128::from(after)).saturating_mul(i128::from(nanos));
    i64::try_from(twice / 2).unwrap_or(if twice < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integral over readings of (begun, ended), 10 ns apart.
    fn over(readings: &[[u64; 2]]) -> InFlight {
        let mut sum = InFlight::between((0, 1));
        readings.windows(2).for_each(|pair| sum.add(&pair[0], &pair[1], 10, 0));
        sum
    }

    #[test]
    fn what_is_open_is_added_up() {
        let sum = over(&[[5, 5], [7, 5], [9, 7], [9, 9]]);
        assert_eq!(sum.integral(), VisitNanos::new(10 + 20 + 10));
        assert!(!sum.is_unmatched());
    }

    #[test]
    fn an_end_without_its_beginning_is_nothing_in_flight() {
        // Read between the two counters of a visit: nothing to doubt.
        let once = over(&[[5, 3], [7, 8], [9, 7]]);
        assert_eq!(once.integral(), VisitNanos::new(10 + 10));
        assert!(!once.is_unmatched());
        // Ends only.
        let ends = over(&[[0, 1], [0, 5], [0, 1_000_000]]);
        assert_eq!(ends.integral(), VisitNanos::new(0));
        assert!(ends.is_unmatched());
    }

    #[test]
    fn time_counts_as_the_virtual_program_has_it() {
        let mut sum = InFlight::between((0, 1));
        // Three are in flight while the selected code runs, one while other code does.
        sum.add(&[3, 0], &[3, 0], 30, 20);
        sum.add(&[3, 2], &[3, 2], 10, 0);
        assert_eq!(sum.integral(), VisitNanos::new((3 * 10 + 10) * 40 / 20));
        // Nothing is left of the time: the real mean.
        sum.add(&[3, 2], &[3, 2], 60, 80);
        assert_eq!(sum.integral(), VisitNanos::new(3 * 30 + 10 + 60));
    }

    #[test]
    fn no_number_of_visits_overflows() {
        let mut sum = InFlight::between((0, 1));
        for _ in 0..3 {
            sum.add(&[i64::MAX as u64, 0], &[i64::MAX as u64, 0], i64::MAX, 0);
        }
        assert_eq!(sum.integral(), VisitNanos::new(i64::MAX));
        // A point that was registered between two readings.
        let mut late = InFlight::between((0, 1));
        late.add(&[], &[4, 2], 10, 0);
        assert_eq!(late.integral(), VisitNanos::new(10));
    }
}
