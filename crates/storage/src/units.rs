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

/// Seconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

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
