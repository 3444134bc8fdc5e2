//! In flight: how much has begun and not ended, added up over a window.
//!
//! What is wanted is the mean in the time of the virtual program. That is not the mean in real time: the selected code
//! runs when something is in flight, and with a large speedup nearly all the real time is its time, and none of the
//! virtual.
//!
//! Points whose visits the runtime stamps with the visiting thread's own virtual time give the integral exactly
//! ([`wire::stamps`]). Others (those of Coz's header) are looked at once a millisecond, which is not quite the same: the
//! selected code is credited just before the request that it was for ends, and half of that credit is then taken off
//! the time after it. (An open queue, true 64, 49 and 36 %: 10 points too low.)

use super::points::Paired;
use profile::VisitNanos;
use wire::stamps::{Pair, Stamps};

/// Beginnings and ends without each other may be this part of all, as a divisor.
const STRAYS: u64 = 25;
/// This part of all, as a divisor, may be missing in a distribution.
const MISSING: u64 = 5;
/// What single pieces of work took may differ from what stamps say by this part, as a divisor: otherwise threads end what others have begun.
const AGREE: f64 = 10.0;

/// All points at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Stamped<'a> {
    /// In virtual time.
    pub time: wire::Nanos,
    pub counts: &'a [u64],
    /// `None` for points whose visits are not stamped.
    pub stamps: &'a [Option<Stamps>],
    /// What is known of pieces of work whose beginning and end could be paired.
    pub paired: &'a [Paired],
}

impl Stamped<'_> {
    fn pair(&self, (begin, end): (usize, usize)) -> Option<Pair> {
        Some(Pair { time: self.time, begun: (*self.stamps.get(begin)?)?, ended: (*self.stamps.get(end)?)? })
    }

    /// Whether the visits of a point since `before` were stamped. Counts and stamps are read one after the other.
    fn is_stamped_since(&self, before: &Self, point: usize) -> bool {
        let count = |at: &Self| at.counts.get(point).copied().unwrap_or(0);
        let stamps = |at: &Self| at.stamps.get(point).copied().flatten().unwrap_or_default();
        let counted = count(self).wrapping_sub(count(before));
        // Modulo 2²⁰, as the number of stamps.
        let missing = counted.wrapping_sub(stamps(self).number_since(stamps(before))) << 44 >> 44;
        missing.min((1 << 20) - missing) <= 1 + counted / 100
    }
}

/// What of all that ended in a window is known by itself.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    ends: u64,
    count: u64,
    /// In nanoseconds.
    time: u64,
    strays: u64,
}

impl Pairs {
    fn has_few_strays(self) -> bool {
        self.count > 0 && self.strays * STRAYS <= self.ends + STRAYS
    }

    /// One may be under way at either end, and signals for a visit get lost now and then.
    fn are_nearly_all(self) -> bool {
        self.has_few_strays() && self.count + self.ends / STRAYS + 2 >= self.ends
    }

    /// What takes longer than the lead-in began before the window and is missing: if it is much, the others are too short.
    fn are_many(self) -> bool {
        self.has_few_strays() && self.count + self.ends / MISSING + 2 >= self.ends
    }

    fn mean(self) -> f64 {
        self.time as f64 / self.count.max(1) as f64
    }

    /// As many times the mean as there were ends (Little's law).
    fn integral(self) -> i64 {
        (self.mean() * self.ends as f64) as i64
    }
}

/// ∫ (begun − ended) dt between two points, in virtual time: by stamps, or by the trapezoidal rule over readings, where
/// the time of every step is what passed less what `required` grew.
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
    /// The integral where numbers below zero count as they are.
    signed: i64,
    /// The most that any reading saw in flight.
    most: i64,
    /// What stamps say.
    exact: Option<i64>,
    /// Whether it is known of nearly everything that ended how long it took by itself.
    paired: bool,
}

impl InFlight {
    pub fn between(pair: (usize, usize)) -> Self {
        Self {
            pair,
            integral: 0,
            real: 0,
            elapsed: 0,
            effective: 0,
            signed: 0,
            most: 0,
            exact: None,
            paired: false,
        }
    }

    /// Adds a step from one reading of all counters to the next: so many nanoseconds, in which `required` grew by so
    /// many.
    pub fn add(&mut self, before: &[u64], after: &[u64], elapsed: i64, required: i64) {
        let (before, after) = (self.open(before), self.open(after));
        self.most = self.most.max(before).max(after);
        let effective = elapsed.saturating_sub(required);
        let add = |sum: &mut i64, add: i64| *sum = sum.saturating_add(add);
        add(&mut self.integral, area(before.max(0), after.max(0), effective));
        add(&mut self.real, area(before.max(0), after.max(0), elapsed));
        add(&mut self.signed, area(before, after, elapsed));
        add(&mut self.elapsed, elapsed);
        add(&mut self.effective, effective);
    }

    /// Takes what the stamps of all visits say, if all were stamped; or what threads know that have begun and ended nearly everything themselves, one after the
    /// other: as many times the mean as there were ends (Little's law).
    pub fn between_stamps(&mut self, before: &Stamped<'_>, after: &Stamped<'_>) {
        let pairs = self.pairs(before, after);
        (self.exact, self.paired) = (pairs.are_nearly_all().then(|| pairs.integral()), pairs.are_many());
        let (Some(first), Some(last)) = (before.pair(self.pair), after.pair(self.pair)) else { return };
        let all = [self.pair.0, self.pair.1].iter().all(|point| after.is_stamped_since(before, *point));
        let matched = first.in_flight() >= 0 && last.in_flight() >= 0;
        // A visitor that was preempted since before the experiment has stamped another time.
        let most = (2 * self.most + 2).saturating_mul(self.elapsed);
        let exact = (all && matched).then(|| last.integral_since(first));
        let Some(exact) = exact.filter(|integral| (0..=most).contains(integral)) else { return };
        self.exact = Some(exact);
        let at_the_ends = (first.in_flight() + last.in_flight()) as f64 * pairs.mean();
        self.paired &= (exact as f64 - pairs.integral() as f64).abs() <= exact as f64 / AGREE + at_the_ends;
    }

    /// Whether it is known how long single pieces of work took, and of so many that those stand for all.
    pub fn is_paired(&self) -> bool {
        self.paired
    }

    fn pairs(&self, before: &Stamped<'_>, after: &Stamped<'_>) -> Pairs {
        let since = |point: usize, of: fn(&Paired) -> u64| {
            let at = |stamped: &Stamped<'_>| stamped.paired.get(point).map_or(0, of);
            at(after).wrapping_sub(at(before))
        };
        let (begin, end) = self.pair;
        let count = |at: &Stamped<'_>| at.counts.get(end).copied().unwrap_or(0);
        Pairs {
            ends: count(after).wrapping_sub(count(before)),
            count: since(end, |paired| paired.count),
            time: since(end, |paired| paired.time),
            strays: since(begin, |paired| paired.strays) + since(end, |paired| paired.strays),
        }
    }

    /// Begun and not ended; a point that is not registered yet has not been visited.
    fn open(&self, counts: &[u64]) -> i64 {
        let count = |index: usize| counts.get(index).copied().unwrap_or(0);
        count(self.pair.0).wrapping_sub(count(self.pair.1)) as i64
    }

    /// The mean in virtual time, for the whole of the elapsed time. Where hardly any virtual time passed, nothing better is
    /// known than the mean in real time.
    pub fn integral(&self) -> VisitNanos {
        let integral = self.exact.unwrap_or(self.integral);
        if self.effective <= self.elapsed / 20 || integral < 0 {
            return VisitNanos::new(self.real);
        }
        let scaled = i128::from(integral) * i128::from(self.elapsed) / i128::from(self.effective);
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
    use wire::stamps::SharedStamps;

    #[test]
    fn stamps_are_believed_if_all_visits_have_one() {
        let points = [SharedStamps::default(), SharedStamps::default()];
        let read = || [Some(points[0].load()), Some(points[1].load())];
        let before = read();
        points[0].add(wire::Nanos(12_800));
        points[1].add(wire::Nanos(19_200));
        let after = read();
        let integral = |counted: u64| {
            let mut sum = InFlight::between((0, 1));
            sum.add(&[7, 7], &[8, 7], 57_600, 0);
            let time = wire::Nanos(6_400);
            let first = Stamped { time, counts: &[7, 7], stamps: &before, paired: &[] };
            let last =
                Stamped { time: wire::Nanos(64_000), counts: &[7 + counted; 2], stamps: &after, paired: &[] };
            sum.between_stamps(&first, &last);
            sum.integral()
        };
        assert_eq!(integral(1), VisitNanos::new(6_400));
        // Some visits have no stamp: what the readings say.
        assert_eq!(integral(1000), VisitNanos::new(28_800));
    }

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
