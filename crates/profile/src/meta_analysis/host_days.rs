//! Host-days: how long hosts took part, together.

use std::fmt;
use std::iter::Sum;

use crate::units::Nanos;

const SECONDS_OF_DAY: f64 = 86_400.0;

/// A time that is added up over hosts: ten hosts for a day are ten host-days. Longer than [`Nanos`] can count.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct HostDays(f64);

impl HostDays {
    /// From a number of host-days.
    pub const fn new(days: f64) -> HostDays {
        HostDays(days)
    }

    /// The number of host-days.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl From<Nanos> for HostDays {
    /// Of one host.
    fn from(time: Nanos) -> HostDays {
        HostDays(time.as_secs_f64() / SECONDS_OF_DAY)
    }
}

impl Sum for HostDays {
    fn sum<I: Iterator<Item = HostDays>>(times: I) -> HostDays {
        HostDays(times.map(HostDays::get).sum())
    }
}

impl fmt::Display for HostDays {
    /// `3.5 host-days`, `120 host-days`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10.0 {
            write!(f, "{:.1} host-days", self.0)
        } else {
            write!(f, "{:.0} host-days", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decade_of_a_large_fleet_fits() {
        let year = Nanos::new(365 * 86_400 * 1_000_000_000);
        let all: HostDays = std::iter::repeat_n(HostDays::from(year), 100_000).sum();
        assert!((all.get() / 36_500_000.0 - 1.0).abs() < 1e-9);
        assert_eq!(HostDays::new(3.46).to_string(), "3.5 host-days");
        assert_eq!(HostDays::new(119.7).to_string(), "120 host-days");
    }
}
