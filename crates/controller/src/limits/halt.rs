//! Halt: experiments are to end at once, for this reason; and when the delays had ended.

use profile::Nanos;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why experiments end before their time.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A condition holds that the user has named: which one, what was seen, and when on the monotonic clock that was.
    Breach { guard: String, seen: String, at: Nanos },
    /// What has started the session says so, in its words.
    Ordered(String),
    /// Threads were delayed for as long as they may be.
    DelaySpent,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Breach { guard, seen, .. } => write!(f, "{seen} (--guard '{guard}')"),
            Self::Ordered(why) => f.write_str(why),
            Self::DelaySpent => f.write_str("threads were delayed for as long as --most-delay allows"),
        }
    }
}

/// When delays had ended, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// It was said that they are to end.
    pub asked: Nanos,
    /// No experiment is under way, and threads that pause were told to go on.
    pub off: Nanos,
    /// No thread paused any more; none if some still did when that was looked at for the last time.
    pub still: Option<Nanos>,
}

impl Ended {
    /// How long it took until no thread was delayed.
    #[must_use]
    pub fn took(&self) -> Option<Nanos> {
        Some(self.still?.saturating_sub(self.asked))
    }
}

/// Says that experiments are to end. The first reason is the one that counts.
#[derive(Debug, Default)]
pub struct Halt {
    /// Release publishes `why` to the Acquire in [`is_asked`](Self::is_asked).
    asked: AtomicBool,
    why: OnceLock<(Why, Nanos)>,
    ended: OnceLock<Ended>,
    /// Whether it is known what the program does without experiments, as far as guards need that.
    is_ready: AtomicBool,
}

impl Halt {
    /// Experiments are to end now.
    pub fn ask(&self, why: Why) {
        let at = match why {
            Why::Breach { at, .. } => at,
            _ => crate::monotonic(),
        };
        let _ = self.why.set((why, at));
        self.asked.store(true, Ordering::Release);
    }

    /// Whether they are.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// The reason, if they are.
    #[must_use]
    pub fn why(&self) -> Option<&Why> {
        self.why.get().map(|(why, _)| why)
    }

    /// They have ended: since `off` no experiment is under way, and since `still` no thread pauses. Only the first time counts.
    pub fn has_ended(&self, off: Nanos, still: Option<Nanos>) {
        if let Some((_, asked)) = self.why.get() {
            let _ = self.ended.set(Ended { asked: *asked, off, still });
        }
    }

    /// When delays had ended, if they were to and have.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.get()
    }

    /// Experiments may begin.
    pub fn make_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    /// Whether they may.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts_and_so_does_the_first_end() {
        let halt = Halt::default();
        halt.has_ended(Nanos::from_millis(1), None);
        assert_eq!((halt.is_asked(), halt.ended()), (false, None), "nothing was asked for");
        let at = Nanos::from_millis(5);
        halt.ask(Why::Breach { guard: "cpu > 90%".into(), seen: "cpu was 95 %".into(), at });
        halt.ask(Why::Ordered("too late".into()));
        assert_eq!(halt.why().unwrap().to_string(), "cpu was 95 % (--guard 'cpu > 90%')");
        halt.has_ended(Nanos::from_millis(8), Some(Nanos::from_millis(9)));
        halt.has_ended(Nanos::from_millis(80), None);
        assert_eq!(halt.ended().unwrap().took(), Some(Nanos::from_millis(4)));
    }
}
