//! In flight: how much has begun and not ended, added up over a window.

use profile::VisitNanos;

/// ∫ (begun − ended) dt between two points, by the trapezoidal rule over readings.
///
/// The counters of the two points are read one after the other, so a reading may see an end without its
/// beginning, and a program may have ends without one: less than nothing is taken for nothing, and
/// [`is_unmatched`](Self::is_unmatched) says when that happened more often than not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Indices of the begin and of the end point.
    pub pair: (usize, usize),
    integral: i64,
    /// The same with less than nothing in flight.
    signed: i64,
}

impl InFlight {
    pub fn between(pair: (usize, usize)) -> Self {
        Self { pair, integral: 0, signed: 0 }
    }

    /// Adds a step of so many nanoseconds from one reading of all counters to the next.
    pub fn add(&mut self, before: &[u64], after: &[u64], nanos: u64) {
        let (before, after) = (self.open(before), self.open(after));
        self.integral = self.integral.saturating_add(area(before.max(0), after.max(0), nanos));
        self.signed = self.signed.saturating_add(area(before, after, nanos));
    }

    /// Begun and not ended; a point that is not registered yet has not been visited.
    fn open(&self, counts: &[u64]) -> i64 {
        let count = |index: usize| counts.get(index).copied().unwrap_or(0);
        count(self.pair.0).wrapping_sub(count(self.pair.1)) as i64
    }

    pub fn integral(&self) -> VisitNanos {
        VisitNanos::new(self.integral)
    }

    /// Whether more had ended than begun, in the mean over all readings.
    pub fn is_unmatched(&self) -> bool {
        self.signed < 0
    }
}

/// The area below a line from `before` to `after`.
fn area(before: i64, after: i64, nanos: u64) -> i64 {
    let twice = (i128::from(before) + i128::from(after)).saturating_mul(i128::from(nanos));
    i64::try_from(twice / 2).unwrap_or(if twice < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integral over readings of (begun, ended), 10 ns apart.
    fn over(readings: &[[u64; 2]]) -> InFlight {
        let mut sum = InFlight::between((0, 1));
        readings.windows(2).for_each(|pair| sum.add(&pair[0], &pair[1], 10));
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
    fn no_number_of_visits_overflows() {
        let mut sum = InFlight::between((0, 1));
        for _ in 0..3 {
            sum.add(&[i64::MAX as u64, 0], &[i64::MAX as u64, 0], u64::MAX);
        }
        assert_eq!(sum.integral(), VisitNanos::new(i64::MAX));
        // A point that was registered between two readings.
        let mut late = InFlight::between((0, 1));
        late.add(&[], &[4, 2], 10);
        assert_eq!(late.integral(), VisitNanos::new(10));
    }
}
