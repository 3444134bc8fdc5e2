//! The limit on CPU time that the program's control group had.

use crate::model::Window;

/// Used up in a smaller share of the periods, a program hardly notices.
const LITTLE: f64 = 0.01;
/// Used up in a larger one, it is the limit all the time.
pub(crate) const MUCH: f64 = 0.9;

/// The limit, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLimit {
    /// How many CPUs the program was allowed, in the mean, less what whatif used of them.
    pub cpus: f64,
    /// The share of its periods, in windows without a speedup, in which the limit was used up; 0 to 1.
    pub used_up: f64,
}

impl CpuLimit {
    /// By the windows without a speedup.
    pub(crate) fn of<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Option<CpuLimit> {
        let (mut elapsed, mut limited, mut allowed, mut throttled) = (0, 0, 0, 0);
        for window in windows.into_iter().filter(|window| window.speedup.is_zero()) {
            let Some(audit) = window.audit else { continue };
            elapsed += window.elapsed.get();
            if audit.allowed.get() > 0 {
                limited += window.elapsed.get();
                allowed += audit.allowed.get();
                throttled += audit.throttled.get();
            }
        }
        (limited > 0).then(|| CpuLimit {
            cpus: allowed as f64 / limited as f64,
            // The kernel counts a period at its end.
            used_up: (throttled as f64 / elapsed as f64).min(1.0),
        })
    }

    /// Whether it held the program up for more than a moment.
    pub(crate) fn is_felt(self) -> bool {
        self.used_up > LITTLE
    }

    /// "a limit on CPU time (1.5 CPUs, by its control group) was used up in 93 % of its periods".
    pub(crate) fn words(self) -> String {
        let share = 100.0 * self.used_up;
        format!(
            "a limit on CPU time ({:.1} CPUs, by its control group) was used up in {share:.0} % of its periods",
            self.cpus
        )
    }

    /// What that means for throughput.
    pub(crate) fn meaning(self) -> &'static str {
        if self.used_up > MUCH {
            "as long as it is, faster code saves its share of the CPU time, whichever thread waits for which"
        } else {
            "intervals hold both what faster code saves then and what it saves otherwise"
        }
    }
}
