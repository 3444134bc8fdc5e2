//! What happened between two moments of a run.

use std::fs;
use std::ops::AddAssign;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::choose::as_number;
use super::shared::{Progress, Requests};

/// How far a program has come.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub at: Instant,
    pub progress: Progress,
    /// Requests that came in an open loop, if there is one.
    pub came: Option<u64>,
    /// Those that have ended, where that is timed.
    pub requests: Requests,
}

/// From a moment to a later one; and the sum of several of the same kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stretch {
    /// Visits of the progress point.
    pub visits: u64,
    /// Ticks of the time-stamp counter from the last visit before to the last of these visits.
    pub ticks: u64,
    /// Requests that came in an open loop, if there is one.
    pub came: Option<u64>,
    /// Those that ended, where that is timed.
    pub requests: Requests,
    /// CPU time of the program, where it was asked for, and real time.
    pub busy: Duration,
    pub elapsed: Duration,
}

impl Stretch {
    /// Too few visits say nothing about a rate.
    pub fn between(begin: Moment, end: Moment) -> Result<Self> {
        let visits = end.progress.visits.saturating_sub(begin.progress.visits);
        ensure!(visits >= 5, "only {visits} visits of the progress point; measure for longer with --seconds");
        Ok(Self {
            visits,
            ticks: end.progress.at.saturating_sub(begin.progress.at).max(1),
            came: end.came.zip(begin.came).map(|(end, begin)| end - begin),
            requests: end.requests.since(begin.requests),
            busy: Duration::ZERO,
            elapsed: end.at - begin.at,
        })
    }

    /// Visits for each tick; or, in an open loop, for each request that came. How many come in a while is chance, and the same for every pad in the long run:
    /// what the program can do about its throughput is to keep up or not.
    pub fn pace(&self) -> f64 {
        as_number(self.visits) / as_number(self.came.unwrap_or(self.ticks).max(1))
    }

    /// Visits a second.
    pub fn rate(&self) -> f64 {
        as_number(self.visits) / self.elapsed.as_secs_f64()
    }

    /// From the begin of a request to its end, in ticks on the average.
    pub fn latency(&self) -> Result<f64> {
        ensure!(self.requests.ended > 0, "no request ended; measure for longer with --seconds");
        Ok(as_number(self.requests.ticks) / as_number(self.requests.ended))
    }

    /// Ends for each visit.
    pub fn ends_per_visit(&self) -> f64 {
        as_number(self.requests.ended) / as_number(self.visits)
    }

    /// Of one tick.
    pub fn nanos_per_tick(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / as_number(self.ticks)
    }

    /// CPU time for each second.
    pub fn utilisation(&self) -> f64 {
        self.busy.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

impl AddAssign for Stretch {
    fn add_assign(&mut self, more: Self) {
        self.visits += more.visits;
        self.ticks += more.ticks;
        self.came = self.came.map_or(more.came, |came| Some(came + more.came.unwrap_or(0)));
        self.requests.ended += more.requests.ended;
        self.requests.ticks += more.requests.ticks;
        self.busy += more.busy;
        self.elapsed += more.elapsed;
    }
}

/// The CPU time of all threads that a process has, exact to the nanosecond where `/proc/PID/stat` has ticks of 10 ms.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    let mut nanos = 0;
    for task in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
        // A thread may end meanwhile.
        if let Ok(text) = fs::read_to_string(Path::new(&task?.path()).join("schedstat")) {
            nanos += on_cpu(&text).with_context(|| format!("unexpected contents of {tasks}/*/schedstat"))?;
        }
    }
    Ok(Duration::from_nanos(nanos))
}

/// See Documentation/scheduler/sched-stats.rst of the kernel: time on a CPU, time ready for one, turns.
fn on_cpu(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(visits: u64, at: u64, came: Option<u64>) -> Moment {
        Moment { at: Instant::now(), progress: Progress { visits, at }, came, requests: Requests::default() }
    }

    #[test]
    fn the_pace_of_an_open_loop_is_what_is_kept_up_with() {
        let closed = Stretch::between(moment(10, 1000, None), moment(30, 5000, None)).unwrap();
        assert!((closed.pace() - 20.0 / 4000.0).abs() < 1e-12);
        let mut open = Stretch::between(moment(10, 1000, Some(10)), moment(30, 5000, Some(35))).unwrap();
        assert!((open.pace() - 20.0 / 25.0).abs() < 1e-12);
        open += Stretch::between(moment(30, 5000, Some(35)), moment(40, 9000, Some(40))).unwrap();
        assert!((open.pace() - 1.0).abs() < 1e-12);
        assert!(Stretch::between(moment(10, 1, None), moment(14, 9, None)).is_err());
    }

    #[test]
    fn latencies_add_up() {
        let mut all = Stretch::default();
        assert!(all.latency().is_err());
        for (ended, ticks) in [(10, 1000), (30, 7000)] {
            all += Stretch { visits: ended, requests: Requests { ended, ticks }, ..Stretch::default() };
        }
        assert!((all.latency().unwrap() - 200.0).abs() < 1e-9);
        assert!((all.ends_per_visit() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn cpu_time_is_read_from_proc() {
        assert_eq!(on_cpu("12345 678 9\n"), Some(12345));
        assert_eq!(on_cpu(""), None);
        assert!(cpu_time(std::process::id()).unwrap() > Duration::ZERO);
    }
}
