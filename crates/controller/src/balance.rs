//! Rule 11: whether the books of a window balance. Decides from what was read at its end; does not read anything, nor leave a window out, which
//! the estimators do.

use profile::Nanos;

/// Debt per running thread that is still there at the end of a window without any doubt, in sample periods: what one or two samples
/// can have added since the thread last looked.
const NATURAL_DEBT: f64 = 2.0;
/// The same, as a share of the delay that the window required.
const FEW: f64 = 0.05;

/// A window at its end.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    /// The CPU time between two samples.
    pub period: Nanos,
    /// The delay that the window required of each thread.
    pub required: Nanos,
    /// What the threads that were running still owe, together.
    pub unpaid: Nanos,
    /// How many those were.
    pub running: u32,
    /// By how much the thread that is furthest ahead has more delay than required.
    pub ahead: Nanos,
}

impl Closing {
    /// Whether threads owe no more, and are no further ahead, than samples since they last looked explain.
    pub fn balances(&self) -> bool {
        let most = NATURAL_DEBT * self.period.get() as f64 + FEW * self.required.get() as f64;
        let per_thread = self.unpaid.get() as f64 / f64::from(self.running.max(1));
        per_thread <= most && self.ahead.get() as f64 <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_samples_explain_is_no_doubt() {
        // The period is 1 ms: 2 ms are natural, and 5 ms of 100 ms are few.
        for (required, unpaid, running, ahead, balances) in [
            (0, 0, 0, 0, true),
            (0, 2, 1, 0, true),
            (0, 3, 1, 0, false),
            (0, 3, 0, 0, false),
            (0, 6, 3, 0, true),
            (0, 7, 3, 0, false),
            (100, 7, 1, 0, true),
            (100, 8, 1, 0, false),
            (100, 14, 2, 0, true),
            (0, 0, 1, 2, true),
            (0, 0, 1, 3, false),
            // Being ahead is an error of one thread, however many there are.
            (0, 0, 3, 3, false),
            (100, 0, 1, 7, true),
            (100, 0, 1, 8, false),
        ] {
            let closing = Closing {
                period: Nanos::from_millis(1),
                required: Nanos::from_millis(required),
                unpaid: Nanos::from_millis(unpaid),
                running,
                ahead: Nanos::from_millis(ahead),
            };
            assert_eq!(closing.balances(), balances, "{closing:?}");
        }
    }
}
