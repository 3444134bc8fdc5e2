//! Readings: what one window, or several together, say about one target.

use std::iter::Sum;

use super::Target;
use crate::model::Window;
use crate::units::Nanos;

/// An amount, the visits that it was spent on, and what the amount is made of. Their ratio is to become
/// smaller, so that a gain is an improvement whatever the target is.
///
/// For throughput the amount is effective time, and the ratio is the period.
///
/// For latency, Little's law says W = L / λ, with L the mean number in flight, ∫n dt / elapsed, and λ the
/// rate of departures. Both must be taken in the time of the virtual program, in which pauses do not
/// exist. The rate is visits / effective time. L is measured in virtual time and noted down for the elapsed time, so
/// W = (∫n dt / elapsed) · effective / visits, and the amount is ∫n dt scaled from elapsed to effective time. The
/// ratio is the mean latency.
///
/// Little's law needs a steady state: see [`Unsteady`](super::Unsteady).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// How long it took, inserted delay included: from visit to visit where that is known, for throughput.
    pub elapsed: Nanos,
    /// The inserted delay in it.
    pub inserted: Nanos,
    /// ∫n dt in visits × nanoseconds; zero for throughput.
    pub in_flight: f64,
    /// Visits; for latency, of the end.
    pub visits: u64,
    /// What the visits were spent on, in nanoseconds: see above.
    pub amount: f64,
    /// The amount of the inserted delay, as if it had been effective time.
    pub(super) delayed: f64,
}

impl Reading {
    /// Reads one window.
    pub fn new(target: Target, window: &Window) -> Reading {
        let (stretch, in_flight) = match target {
            Target::Throughput(point) => (window.stretch(point), None),
            Target::Latency { begin, end } => {
                let of_pair = window.in_flight.iter().filter(|pair| pair.begin == begin);
                // Less than nothing in flight: the beginnings were missed.
                let integral = of_pair.map(|pair| pair.integral.get().max(0) as f64).sum::<f64>();
                (window.whole(end), Some(integral))
            }
        };
        let effective = stretch.effective_ns();
        let of_time = |time: f64| in_flight.map_or(time, |n| n * time / stretch.elapsed.get() as f64);
        Reading {
            elapsed: stretch.elapsed,
            inserted: stretch.required,
            in_flight: in_flight.unwrap_or(0.0),
            visits: stretch.visits,
            amount: of_time(effective),
            delayed: of_time(stretch.required.get() as f64),
        }
    }

    /// Elapsed time less inserted delay, in nanoseconds; negative where more was inserted than time passed.
    pub fn effective_ns(&self) -> f64 {
        self.elapsed.get() as f64 - self.inserted.get() as f64
    }

    /// The period, or the mean latency, in nanoseconds; `None` without visits.
    pub fn period_ns(&self) -> Option<f64> {
        (self.visits > 0).then(|| self.amount / self.visits as f64)
    }
}

impl Sum for Reading {
    fn sum<I: Iterator<Item = Reading>>(readings: I) -> Reading {
        readings.fold(Reading::default(), |sum, reading| Reading {
            elapsed: sum.elapsed + reading.elapsed,
            inserted: sum.inserted + reading.inserted,
            in_flight: sum.in_flight + reading.in_flight,
            visits: sum.visits + reading.visits,
            amount: sum.amount + reading.amount,
            delayed: sum.delayed + reading.delayed,
        })
    }
}
