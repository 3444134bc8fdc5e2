//! Limits: what ends experiments on a program that does its work for others, before their time is over.
//!
//! **Does:** understand conditions on the program and its machine ([`Guard`]), look whether one holds while experiments are made (`lookout`), say that they are to end ([`Halt`]), and
//! hear that from the process that has started the session (`orders`).
//!
//! **Does not:** switch delays off: the conductor does, between two of its looks at [`Halt`], because it alone begins and ends windows.
//!
//! **Constraints:** from the moment at which something says so until no thread is delayed any more it takes less than 100 ms, on a machine that gives this process a CPU. What that took is
//! measured each time.
//!
//! **Place:** sample → **delay → experiment** → record → profile → report.

mod guard;
mod halt;
mod lookout;
mod orders;

pub use guard::Guard;
pub use halt::{Ended, Halt, Why};
pub use lookout::look_out;
pub use orders::{Said, follow_orders};

use crate::experiment::Choices;
use anyhow::{Result, ensure};
use profile::{Nanos, Speedup};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The limits that were asked for.
#[derive(Clone, Debug, Default)]
pub struct AskedLimits {
    /// Conditions that end the experiments.
    pub guards: Vec<Guard>,
    /// The part of the session for which threads may be delayed.
    pub most_delay: Option<f64>,
    /// No virtual speedup is larger.
    pub most_speedup: Option<f64>,
    /// Whether what has started this says on standard input how long it may go on.
    pub is_ordered: bool,
}

/// The limits of a session, and what has come of them so far.
#[derive(Debug, Default)]
pub struct Limits {
    pub guards: Vec<Guard>,
    /// For so long threads may be delayed.
    most_delay: Option<Nanos>,
    /// Whether what has started the session is told about it, on standard output.
    pub is_ordered: bool,
    pub halt: Arc<Halt>,
    /// For how long they have been, in nanoseconds. Relaxed: it publishes nothing but itself.
    delayed: AtomicU64,
}

impl Limits {
    /// Those of a session that takes so long.
    ///
    /// # Errors
    /// What is asked for makes no sense, and what does.
    pub fn new(asked: &AskedLimits, duration: Option<Duration>) -> Result<Self> {
        if let Some(part) = asked.most_delay {
            ensure!(
                part > 0.0 && part <= 1.0,
                "--most-delay: give a part of the time above 0 and up to 100 %, as in --most-delay 5%"
            );
            ensure!(
                duration.is_some(),
                "--most-delay is a part of the session's time: say how long that is with --duration"
            );
        }
        let most_delay = asked.most_delay.zip(duration).map(|(part, all)| Nanos::from(all.mul_f64(part)));
        Ok(Self { guards: asked.guards.clone(), most_delay, is_ordered: asked.is_ordered, ..Self::default() })
    }

    /// Whether anything may end the experiments at any moment.
    #[must_use]
    pub fn are_watched(&self) -> bool {
        self.is_ordered || !self.guards.is_empty()
    }

    /// Threads have been delayed for so long by now, in all windows that are over.
    pub fn are_delayed(&self, delayed: Nanos) {
        self.delayed.store(delayed.get(), Ordering::Relaxed);
    }

    /// Has experiments end if threads have been delayed for as long as they may be. Asked between experiments: what is measured does not depend on how much delay it takes.
    pub fn look_at_delay(&self) {
        if self.most_delay.is_some_and(|most| self.delayed() >= most) {
            self.halt.ask(Why::DelaySpent);
        }
    }

    /// For how long threads have been delayed so far.
    #[must_use]
    pub fn delayed(&self) -> Nanos {
        Nanos::new(self.delayed.load(Ordering::Relaxed))
    }
}

/// The speedups that are no larger than asked for.
///
/// # Errors
/// There is none.
pub fn up_to(most: f64, choices: Choices) -> Result<Choices> {
    let most_per_mille = most * 1000.0 + 0.5;
    let speedups: Vec<Speedup> = choices
        .speedups
        .into_iter()
        .filter(|speedup| f64::from(speedup.per_mille()) <= most_per_mille)
        .collect();
    ensure!(
        !speedups.is_empty(),
        "--most-speedup leaves no speedup: give 5 % to 100 %, as in --most-speedup 50%"
    );
    Ok(Choices { speedups })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_limited_to_a_part_of_the_session() {
        let asked = |part| AskedLimits { most_delay: Some(part), ..AskedLimits::default() };
        let limits = Limits::new(&asked(0.05), Some(Duration::from_secs(20))).unwrap();
        limits.are_delayed(Nanos::from_millis(999));
        limits.look_at_delay();
        assert_eq!(limits.halt.why(), None);
        limits.are_delayed(Nanos::from_millis(1000));
        limits.look_at_delay();
        assert_eq!((limits.halt.why(), limits.delayed()), (Some(&Why::DelaySpent), Nanos::from_millis(1000)));
        for (part, duration) in
            [(0.0, Some(Duration::from_secs(20))), (1.5, Some(Duration::from_secs(20))), (0.5, None)]
        {
            let error = Limits::new(&asked(part), duration).unwrap_err().to_string();
            assert!(error.contains("--most-delay"), "{error}");
        }
    }

    #[test]
    fn larger_speedups_are_left_out() {
        let per_mille = |choices: Choices| choices.speedups.iter().map(|s| s.per_mille()).collect::<Vec<_>>();
        let half = per_mille(up_to(0.5, Choices::every_five_per_cent()).unwrap());
        assert_eq!((half.len(), half.last()), (10, Some(&500)));
        assert!(
            up_to(0.01, Choices::every_five_per_cent())
                .unwrap_err()
                .to_string()
                .contains("--most-speedup 50%")
        );
    }
}
