//! Orders: what has started a session says on its standard input how long it may go on, and is told on standard output how it goes.
//!
//! It hears `{"halt": REASON}`, with `"guard": CONDITION` where one holds that others look at, and any other line as a sign of life. When the lines end, or do not come for a while, the process that watches over the program has ended or is stuck, and experiments end.

use super::{Ended, Halt, Limits, Why};
use anyhow::Result;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A sign of life has to come as often as this.
const SILENCE: Duration = Duration::from_secs(3);

/// What a session tells, a line of JSON each.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// The first process is profiled.
    Attached { pid: u32 },
    /// Delays have ended, before their time.
    Halted(&'a Why, &'a Ended),
    /// The recording is complete: so many experiments, and so much delay. What has gone wrong when the processes were let go, if anything.
    Recorded { experiments: u64, limits: &'a Limits, harm: Option<&'a str> },
}

impl Said<'_> {
    /// Writes it, if what has started the session reads that.
    pub fn say(self, limits: &Limits) {
        if limits.is_ordered {
            let mut output = std::io::stdout().lock();
            let _ = writeln!(output, "{}", self.line());
            let _ = output.flush();
        }
    }

    fn line(self) -> serde_json::Value {
        match self {
            Self::Attached { pid } => json!({"attached": pid}),
            Self::Halted(why, ended) => {
                let guard = match why {
                    Why::Breach { guard, .. } => Some(guard),
                    _ => None,
                };
                let after = |time: profile::Nanos| time.saturating_sub(ended.asked).get();
                json!({"halted": {
                    "guard": guard,
                    "why": why.to_string(),
                    "is_spent": matches!(why, Why::DelaySpent),
                    "asked_ns": ended.asked.get(),
                    "off_after_ns": after(ended.off),
                    "still_after_ns": ended.still.map(after),
                }})
            }
            Self::Recorded { experiments, limits, harm } => {
                let delayed = limits.delayed().get();
                json!({"recorded": {"experiments": experiments, "delayed_ns": delayed, "harm": harm}})
            }
        }
    }
}

/// Has experiments end when a line orders it, or when no more lines come.
///
/// # Errors
/// There is no thread for it.
pub fn follow_orders(halt: &Arc<Halt>) -> Result<()> {
    let (sender, heard) = channel();
    std::thread::Builder::new().name("orders".into()).spawn(move || {
        for line in BufReader::new(std::io::stdin()).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    })?;
    let halt = Arc::clone(halt);
    std::thread::Builder::new().name("halts".into()).spawn(move || {
        let why = loop {
            match heard.recv_timeout(SILENCE) {
                Ok(line) => match order(&line) {
                    Some(why) => break why,
                    None => continue,
                },
                Err(RecvTimeoutError::Timeout) => {
                    let silence = SILENCE.as_secs();
                    break Why::Ordered(format!(
                        "what has started this session has said nothing for {silence} s"
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    break Why::Ordered("what has started this session has ended".to_owned());
                }
            }
        };
        halt.ask(why);
    })?;
    Ok(())
}

/// Why the session is to end, if a line says that it is.
fn order(line: &str) -> Option<Why> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let why = line["halt"].as_str()?.to_owned();
    Some(match line["guard"].as_str() {
        Some(guard) => Why::Breach { guard: guard.to_owned(), seen: why, at: crate::monotonic() },
        None => Why::Ordered(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Nanos;

    #[test]
    fn orders_are_told_from_signs_of_life() {
        assert_eq!(order(""), None);
        assert_eq!(order("{}"), None);
        assert_eq!(order(r#"{"halt": "stop it"}"#), Some(Why::Ordered("stop it".into())));
        let breach = order(r#"{"halt": "it fails", "guard": "health: false"}"#);
        assert!(
            matches!(breach, Some(Why::Breach { guard, seen, .. }) if guard == "health: false" && seen == "it fails")
        );
    }

    #[test]
    fn what_is_said_is_one_line() {
        let ended = Ended { asked: Nanos::new(100), off: Nanos::new(150), still: Some(Nanos::new(170)) };
        let why = Why::Breach { guard: "cpu > 90%".into(), seen: "cpu was 95 %".into(), at: Nanos::new(100) };
        let line = Said::Halted(&why, &ended).line();
        assert_eq!(line["halted"]["guard"], "cpu > 90%");
        assert_eq!(
            (&line["halted"]["off_after_ns"], &line["halted"]["still_after_ns"]),
            (&50.into(), &70.into())
        );
        assert!(!line.to_string().contains('\n'));
    }
}
