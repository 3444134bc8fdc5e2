//! Standing: how the run goes, in a few words.

use profile::{Nanos, Session};
use std::time::Duration;

/// A writer that has written nothing for this long may have been killed.
const SILENCE: Duration = Duration::from_secs(30);

/// `runs`: how many there are, of which `last` is the last; `seen`: up to when it was measured; `quiet`: how long ago anything was
/// written; `now`: since 1970.
pub fn standing(
    runs: usize,
    last: Option<&Session>,
    experiments: usize,
    seen: Nanos,
    quiet: Duration,
    now: Nanos,
) -> String {
    let Some(last) = last else { return "not begun".into() };
    let run = if runs > 1 { format!("run {runs}: ") } else { String::new() };
    let so_far = match experiments {
        1 => "1 experiment".to_owned(),
        n => format!("{n} experiments"),
    };
    match &last.end {
        Some(end) => format!("{run}ended, {}, {so_far}", report::terminal::end(end)),
        None if quiet > SILENCE => {
            format!("{run}{so_far}; nothing new for {} s: it waits, or whatif was killed", quiet.as_secs())
        }
        None => {
            // The clock may have been set meanwhile.
            let elapsed = now.saturating_sub(last.start.started).max(seen);
            format!("{run}running, {} s, {so_far}", elapsed.get() / 1_000_000_000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Exit, SampleTotals, SessionEnd, SessionId, SessionStart};

    fn session(end: Option<SessionEnd>) -> Session {
        Session {
            id: SessionId::new(1),
            start: SessionStart { started: Nanos::from_millis(100_000), ..SessionStart::default() },
            end,
            samples: SampleTotals::default(),
            images: vec![],
            arrivals: vec![],
            programs: vec![],
            threads: vec![],
            overhead: vec![],
        }
    }

    #[test]
    fn a_run_stands_somewhere() {
        let ended = |exit| Some(SessionEnd { duration: Nanos::from_millis(12_300), exit, stopped: false });
        let stopped = |exit| ended(exit).map(|end| SessionEnd { stopped: true, ..end });
        let seconds = |seconds: u64| Duration::from_secs(seconds);
        let of = |runs, end, experiments, quiet, now: u64| {
            let seen = Nanos::from_millis(4_000);
            standing(runs, Some(&session(end)), experiments, seen, quiet, Nanos::from_millis(now))
        };
        for (said, expected) in [
            (of(1, None, 7, seconds(0), 112_900), "running, 12 s, 7 experiments"),
            (of(3, None, 1, seconds(30), 112_900), "run 3: running, 12 s, 1 experiment"),
            (of(1, None, 7, seconds(0), 50_000), "running, 4 s, 7 experiments"),
            (
                of(1, None, 7, seconds(31), 200_000),
                "7 experiments; nothing new for 31 s: it waits, or whatif was killed",
            ),
            (of(1, ended(Exit::Code(7)), 9, seconds(99), 0), "ended, 12.3 s, exit code 7, 9 experiments"),
            (
                of(1, ended(Exit::Signal(9)), 9, seconds(0), 0),
                "ended, 12.3 s, killed by signal 9, 9 experiments",
            ),
            (
                of(1, stopped(Exit::Signal(15)), 9, seconds(0), 0),
                "ended, stopped by whatif after 12.3 s, 9 experiments",
            ),
            (
                of(1, stopped(Exit::Code(3)), 9, seconds(0), 0),
                "ended, stopped by whatif after 12.3 s, exit code 3, 9 experiments",
            ),
        ] {
            assert_eq!(said, expected);
        }
        assert_eq!(standing(0, None, 0, Nanos::ZERO, seconds(0), Nanos::ZERO), "not begun");
    }
}
