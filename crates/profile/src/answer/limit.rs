//! Limits: what keeps more experiments from settling an answer.

use crate::estimate::PointEstimate;

/// What the error of the method, which more experiments do not make smaller, mostly consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Threads that never block want the same CPUs.
    Cpus,
    /// Locks or items are handed over to threads that wait.
    Handovers,
    /// It is not known whether clients wait for the program.
    Clients,
    /// Programs that are executed take longer under whatif.
    Executing,
    /// Inserted delays are not quite exact.
    Delays,
}

impl Limit {
    pub(super) fn of(estimate: &PointEstimate) -> Limit {
        let square = |error: f64| error.powi(2);
        let slices = square(estimate.slice_error);
        let cpus = slices + square(estimate.crowding_error());
        let handovers = square(estimate.handover_error.max(estimate.waking_error));
        let clients = square(estimate.clock_error()) + square(estimate.latency_error);
        let executing = square(estimate.executing_error());
        let delays = square(estimate.method_error) - slices - handovers - clients - executing;
        let parts = [
            (cpus, Limit::Cpus),
            (handovers, Limit::Handovers),
            (clients, Limit::Clients),
            (executing, Limit::Executing),
            (delays, Limit::Delays),
        ];
        parts
            .into_iter()
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .map_or(Limit::Delays, |(_, limit)| limit)
    }

    /// What to do about it. `quieter`: what to do about other programs, if they used the machine. `is_likely`: whether it probably helps all the same.
    pub(super) fn advice(self, quieter: Option<&str>, is_likely: bool) -> String {
        let why = match self {
            Limit::Cpus => {
                let otherwise = quieter.unwrap_or("let the program have more CPUs or fewer threads");
                return format!(
                    "more experiments will not settle it while threads have to wait for CPUs: {otherwise}, and measure again, into a \
                     new recording"
                );
            }
            Limit::Clients => {
                return "more experiments will not settle it as long as it is not known which requests wait for answers: say so (--clients closed or \
                        open), or give it more connections, or less load, and measure again, into a new recording"
                    .into();
            }
            Limit::Executing => {
                return "more experiments will not settle it while programs are executed, or threads started, that take longer under whatif: give each of them \
                        more work, or profile one program alone (--follow NAME), and measure again, into a new recording"
                    .into();
            }
            Limit::Handovers => "what it costs to hand over to threads that wait",
            Limit::Delays => "the error of the method",
        };
        let instead = if is_likely {
            "make the change, and compare"
        } else {
            "ask about it in another way (--region, --latency), or change the load"
        };
        format!("more experiments will not settle it, because {why} is as large as the effect: {instead}")
    }

    /// Whether another measurement, of the same command, may settle it.
    pub(super) fn can_change(self) -> bool {
        matches!(self, Limit::Cpus | Limit::Clients)
    }
}
