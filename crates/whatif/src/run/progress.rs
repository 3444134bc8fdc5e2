//! The progress bar, on standard error and only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Shows how far a session is; silent where nobody looks.
pub struct Bar {
    bar: ProgressBar,
    begin: Instant,
    duration: Option<Duration>,
}

impl Bar {
    pub fn new(duration: Option<Duration>, quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = match duration {
            Some(duration) => ProgressBar::new(duration.as_millis() as u64),
            None => ProgressBar::no_length(),
        };
        bar.set_draw_target(if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        let style = match duration {
            Some(_) => ProgressStyle::with_template("whatif {bar:30} {msg}"),
            None => ProgressStyle::with_template("whatif {spinner} {msg}"),
        };
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self { bar, begin: Instant::now(), duration }
    }

    /// An experiment is complete.
    pub fn block(&self, experiments: u64) {
        let elapsed = self.begin.elapsed();
        let message = match self.duration {
            Some(duration) => {
                let left = duration.saturating_sub(elapsed).as_secs();
                format!("{experiments} experiments, {left} s left")
            }
            None => format!("{experiments} experiments in {} s; ends with the program", elapsed.as_secs()),
        };
        self.show(elapsed, message);
    }

    /// No thread runs code in scope at the moment.
    pub fn waiting(&self) {
        self.show(self.begin.elapsed(), "waiting for code in scope to run".to_owned());
    }

    fn show(&self, elapsed: Duration, message: String) {
        if self.duration.is_some() {
            self.bar.set_position(elapsed.as_millis() as u64);
        } else {
            self.bar.tick();
        }
        self.bar.set_message(message);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
