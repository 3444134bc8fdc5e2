//! Units: what a number means is part of its type.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// A span of time in nanoseconds, or an instant counted from the start of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// A span of `ns` nanoseconds.
    pub const fn new(ns: u64) -> Nanos {
        Nanos(ns)
    }

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// The number of nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self − other`, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Nanos {
        spans.fold(Nanos::ZERO, Add::add)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(span: std::time::Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Nanos {
    /// Three digits and the unit that fits: `1.50 s`, `12.3 ms`, `412 ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let decimals = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// How much faster a region is made, virtually: 0 (a baseline) to 100 % (it costs nothing).
///
/// Kept in thousandths, so that speedups can be compared and used as keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Speedup(u16);

impl Speedup {
    /// The speedup of a baseline window.
    pub const ZERO: Speedup = Speedup(0);

    /// From per cent; `None` above 100.
    pub const fn from_percent(percent: u16) -> Option<Speedup> {
        if percent > 100 { None } else { Some(Speedup(percent * 10)) }
    }

    /// From thousandths; `None` above 1000.
    pub const fn from_per_mille(per_mille: u16) -> Option<Speedup> {
        if per_mille > 1000 { None } else { Some(Speedup(per_mille)) }
    }

    /// In thousandths, 0 to 1000.
    pub const fn per_mille(self) -> u16 {
        self.0
    }

    /// As a fraction, 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// True for a baseline.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Speedup {
    /// `25 %`, or `12.5 %` where thousandths matter.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{} %", self.0 / 10),
            tenth => write!(f, "{}.{tenth} %", self.0 / 10),
        }
    }
}

/// The number of an experiment within its session; see the architecture's rule 9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Epoch {
        Epoch(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The integral over time of a number of visits in flight (begun − ended): visits × nanoseconds.
///
/// Signed, because older recordings have less than nothing in flight where a beginning was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitNanos(i64);

impl VisitNanos {
    /// `visit_ns` visits × nanoseconds.
    pub const fn new(visit_ns: i64) -> VisitNanos {
        VisitNanos(visit_ns)
    }

    /// In visits × nanoseconds.
    pub const fn get(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speedups_are_shown_in_per_cent() {
        for (per_mille, shown) in [(0, "0 %"), (250, "25 %"), (125, "12.5 %"), (1000, "100 %")] {
            assert_eq!(Speedup::from_per_mille(per_mille).unwrap().to_string(), shown);
        }
        assert_eq!(Speedup::from_percent(101), None);
        assert_eq!(Speedup::from_per_mille(1001), None);
        assert_eq!(Speedup::from_percent(100).unwrap().fraction(), 1.0);
    }

    #[test]
    fn spans_are_shown_with_three_digits() {
        for (ns, shown) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (12_340_000, "12.3 ms"),
            (99_960_000, "100 ms"),
            (1_500_000_000, "1.50 s"),
            (321_000_000_000, "321 s"),
        ] {
            assert_eq!(Nanos::new(ns).to_string(), shown);
        }
    }
}
