//! One run of a Rust target: its arguments, its clock and its rate (the counterpart of
//! `c/target.h`, which describes the arguments).

use std::cell::Cell;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Iterations of `work!` in a millisecond of the machine that they were counted on, as in `c/target.h`.
pub const ITERATIONS_PER_MS: f64 = 660_000.0;

/// The arguments `NAME=VALUE` of a target.
#[derive(Debug)]
pub struct Arguments {
    given: Vec<(String, Cell<bool>)>,
}

impl Arguments {
    /// Those of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self { given: std::env::args().skip(1).map(|argument| (argument, Cell::new(false))).collect() }
    }

    /// The value of `name=VALUE`, or `otherwise`.
    #[must_use]
    pub fn number(&self, name: &str, otherwise: f64) -> f64 {
        let mut value = otherwise;
        for (argument, used) in &self.given {
            let given = argument
                .split_once('=')
                .filter(|(key, _)| *key == name)
                .and_then(|(_, number)| number.parse().ok())
                .filter(|number| *number >= 0.0);
            if let Some(given) = given {
                used.set(true);
                value = given;
            }
        }
        value
    }

    /// The value of `name=VALUE` as it stands, if there is one.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let mut value = None;
        for (argument, used) in &self.given {
            if let Some((_, given)) = argument.split_once('=').filter(|(key, _)| *key == name) {
                used.set(true);
                value = Some(given);
            }
        }
        value
    }

    /// Whether the word `name` is among the arguments.
    #[must_use]
    pub fn word(&self, name: &str) -> bool {
        let given = self.given.iter().find(|(argument, _)| argument == name);
        given.inspect(|(_, used)| used.set(true)).is_some()
    }

    /// The iterations of region `name`, which works `ms` unless an argument says otherwise.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn iterations(&self, name: &str, ms: f64) -> u64 {
        let ms = self.number(&format!("{name}_ms"), ms * self.number("scale", 1.0));
        (ms * self.number(name, 1.0) * ITERATIONS_PER_MS) as u64
    }

    /// Starts the clock. Call when every argument has been asked for: others end the process.
    /// `point` is the progress point that the rate is printed for.
    #[must_use]
    pub fn start(self, point: &'static str) -> Run {
        let seconds = self.number("seconds", 10.0);
        if let Some((unknown, _)) = self.given.iter().find(|(_, used)| !used.get()) {
            eprintln!(
                "'{unknown}' is not an argument of this target (the head of its source lists them; \
                 a value is a number, 0 or more)"
            );
            exit(2);
        }
        Run {
            point,
            began: Instant::now(),
            length: Duration::from_secs_f64(seconds),
            visits: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }
}

/// A run in progress.
#[derive(Debug)]
pub struct Run {
    point: &'static str,
    began: Instant,
    length: Duration,
    visits: AtomicU64,
    /// Nanoseconds from `began` to the last visit.
    last: AtomicU64,
}

impl Run {
    /// Whether the time is up. Not before the first visit: on a busy machine a short time is over before all threads have begun.
    #[must_use]
    pub fn over(&self) -> bool {
        // Relaxed: a statistic.
        self.began.elapsed() >= self.length && self.visits.load(Ordering::Relaxed) > 0
    }

    /// Counts one visit for the printed rate; stands beside the progress point.
    pub fn visited(&self) {
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: two statistics, read when the run is over.
        self.visits.fetch_add(1, Ordering::Relaxed);
        self.last.store(nanos, Ordering::Relaxed);
    }

    /// Prints the rate and ends the process, whatever its other threads are doing. The rate ends at
    /// the last visit, so that a half-finished round does not blur it.
    #[expect(clippy::cast_precision_loss)]
    pub fn finish(&self) -> ! {
        let visits = self.visits.load(Ordering::Relaxed) as f64;
        let elapsed = self.last.load(Ordering::Relaxed) as f64 / 1e9;
        let rate = if elapsed > 0.0 { visits / elapsed } else { 0.0 };
        println!("rate {} {rate:.3}", self.point);
        exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Arguments {
        Arguments {
            given: arguments.iter().map(|argument| ((*argument).to_owned(), Cell::new(false))).collect(),
        }
    }

    #[test]
    fn texts_and_words_are_found() {
        let arguments = given(&["program={\"a\"=1}", "plan", "A=2"]);
        assert_eq!(arguments.text("program"), Some("{\"a\"=1}"));
        assert_eq!(arguments.text("plan"), None);
        assert!(arguments.word("plan") && !arguments.word("A"));
        let unused: Vec<&str> = arguments
            .given
            .iter()
            .filter(|(_, used)| !used.get())
            .map(|(argument, _)| argument.as_str())
            .collect();
        assert_eq!(unused, ["A=2"], "what was asked for is known");
    }

    #[test]
    fn iterations_follow_the_arguments() {
        for (arguments, ms) in [
            (&[][..], 4.0),
            (&["A=0.25"], 1.0),
            (&["A=0"], 0.0),
            (&["A_ms=3"], 3.0),
            (&["A_ms=3", "A=0.5"], 1.5),
            (&["scale=0.1"], 0.4),
            (&["scale=0.1", "A_ms=3"], 3.0),
            (&["A=-1"], 4.0),
            (&["B=0.5"], 4.0),
        ] {
            let iterations = given(arguments).iterations("A", 4.0);
            assert_eq!(iterations, (ms * ITERATIONS_PER_MS) as u64, "{arguments:?}");
        }
    }
}
