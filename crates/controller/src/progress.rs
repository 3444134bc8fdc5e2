//! The progress bar, on standard error and only on a terminal.

use super::outlook::Standing;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Shows how far a session is; silent where standard error is not a terminal.
pub struct Bar {
    bar: ProgressBar,
    begin: Instant,
    duration: Option<Duration>,
    message: String,
}

/// What the bar is drawn in units of.
const FULL: u64 = 1000;

impl Bar {
    /// `begin`: of the first of several runs.
    pub fn new(begin: Instant, duration: Option<Duration>, quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = ProgressBar::new(FULL);
        bar.set_draw_target(if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        if let Ok(style) = ProgressStyle::with_template("whatif {bar:10} {msg}") {
            bar.set_style(style);
        }
        Self { bar, begin, duration, message: String::new() }
    }

    /// An experiment is complete.
    pub fn block(&mut self, experiments: u64, standing: Standing) {
        let elapsed = self.begin.elapsed();
        let left = time_left(experiments, elapsed, standing);
        self.message =
            describe(experiments, standing, left, self.duration.map(|most| most.saturating_sub(elapsed)));
        let until_sure = left.map_or(0.0, |left| part(elapsed, left));
        let until_end = self.duration.map_or(0.0, |most| part(elapsed, most.saturating_sub(elapsed)));
        self.bar.set_position((until_sure.max(until_end) * FULL as f64) as u64);
        self.bar.set_message(self.message.clone());
    }

    /// No thread runs code in scope at the moment.
    pub fn waiting(&self) {
        self.bar.set_message(format!("{}waiting for code in scope to run", self.message));
    }

    /// Writes a line on standard error, above the bar if there is one.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| kernel::say!("{text}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The part that is done.
fn part(done: Duration, left: Duration) -> f64 {
    done.as_secs_f64() / (done + left).as_secs_f64().max(1e-9)
}

/// How long it takes until everything is decided, if everything goes on as it has.
fn time_left(experiments: u64, elapsed: Duration, standing: Standing) -> Option<Duration> {
    // Some experiments are spent on what is decided already.
    const WELL_SPENT: f64 = 0.7;
    if experiments == 0 || standing.open + standing.decided == 0 {
        return None;
    }
    let each = elapsed.as_secs_f64() / experiments as f64;
    Duration::try_from_secs_f64(standing.blocks_left? * each / WELL_SPENT).ok()
}

fn describe(experiments: u64, standing: Standing, left: Option<Duration>, end: Option<Duration>) -> String {
    let mut text =
        if experiments == 1 { "1 experiment".to_owned() } else { format!("{experiments} experiments") };
    let regions = standing.decided + standing.open;
    if standing.open > 0 {
        let needs = if standing.open == 1 { "needs" } else { "need" };
        text += &format!(", {} of {regions} regions {needs} more", standing.open);
    }
    // What comes first: the guess is not worth much, and nothing at all beyond the end.
    let is_sure = left.is_some() && standing.open == 0;
    match (left.filter(|left| end.is_none_or(|end| *left <= end)), end) {
        _ if is_sure => text += ", sure",
        (Some(left), _) => text += &format!(", about {} until sure", rounded(left)),
        (None, Some(end)) => text += &format!(", ends in {} s", end.as_secs()),
        (None, None) => {}
    }
    text
}

/// A time, rounded because it is not known more exactly.
fn rounded(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0..10.0 => format!("{:.0} s", seconds.ceil()),
        10.0..90.0 => format!("{:.0} s", (seconds / 5.0).ceil() * 5.0),
        90.0..5400.0 => format!("{:.0} min", (seconds / 60.0).ceil()),
        _ => format!("{:.0} h", (seconds / 3600.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_time_gone() {
        let standing = Standing { decided: 3, open: 1, blocks_left: Some(7.0) };
        let left = time_left(10, Duration::from_secs(2), standing).unwrap();
        assert!((left.as_secs_f64() - 2.0).abs() < 1e-9, "{left:?}");
        let text = describe(10, standing, Some(left), Some(Duration::from_secs(30)));
        assert_eq!(text, "10 experiments, 1 of 4 regions needs more, about 2 s until sure");
        let text = describe(1, standing, Some(left), Some(Duration::from_secs(1)));
        assert_eq!(text, "1 experiment, 1 of 4 regions needs more, ends in 1 s");
        assert_eq!(time_left(10, Duration::from_secs(2), Standing { blocks_left: None, ..standing }), None);
        let sure = Standing { decided: 4, open: 0, blocks_left: Some(0.0) };
        assert_eq!(describe(9, sure, Some(Duration::ZERO), None), "9 experiments, sure");
    }

    #[test]
    fn times_are_rounded() {
        let of = |seconds| rounded(Duration::from_secs_f64(seconds));
        assert_eq!([of(3.2), of(31.0), of(100.0), of(9000.0)], ["4 s", "35 s", "2 min", "3 h"]);
    }
}
