//! Windows: one row per measurement, from which everything else is computed.

use super::{Audit, PointId, RegionId, SessionId};
use crate::units::{Epoch, Nanos, Speedup, VisitNanos};

/// One measurement: a stretch of time with one region at one speedup.
///
/// An experiment is a *block* of windows on one region, one of them a baseline (speedup 0).
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The run it belongs to.
    pub session: SessionId,
    /// The experiment it belongs to, counted within the session.
    pub block: i64,
    /// Its place in the block, from 0.
    pub index: u32,
    /// The region.
    pub region: RegionId,
    /// How much faster the region was made.
    pub speedup: Speedup,
    /// The epoch of the runtime's delay accounts.
    pub epoch: Epoch,
    /// When it began, since the start of the session.
    pub start: Nanos,
    /// How long it took, inserted delay included.
    pub elapsed: Nanos,
    /// How much `required`, the delay that every thread must have, grew meanwhile.
    pub required: Nanos,
    /// Visits of each progress point; a point that is missing was not visited.
    pub visits: Vec<Visits>,
    /// What was in flight between a begin and an end.
    pub in_flight: Vec<InFlight>,
    /// How long pieces of work took between a begin and an end, where that is known of each.
    pub latencies: Vec<Latencies>,
    /// Samples in the region.
    pub region_samples: u64,
    /// CPU time that the samples in the region stand for.
    pub region_weight: Nanos,
    /// Samples anywhere in the program.
    pub total_samples: u64,
    /// CPU time that all samples stand for.
    pub total_weight: Nanos,
    /// The delay accounts.
    pub books: Books,
    /// What the audit counted; `None` where there was none.
    pub audit: Option<Audit>,
    /// How many threads the program had.
    pub threads: u32,
    /// The share of the machine that other programs used, 0 to 1, where known.
    pub busy: Option<f64>,
    /// Doubts about this window.
    pub flags: WindowFlags,
}

/// The CPU time from one of so many samples, which stand for so much, to the next: `period`, or the mean where they came less often.
pub fn between_samples((samples, weight): (u64, Nanos), period: Nanos) -> Nanos {
    Nanos::new(weight.get().checked_div(samples).unwrap_or(0)).max(period)
}

impl Window {
    /// Elapsed time less inserted delay, in nanoseconds: the time that would have passed if the
    /// region had really been faster. Negative when more delay was inserted than time passed.
    pub fn effective_ns(&self) -> f64 {
        less(self.elapsed, self.required)
    }

    /// The stretch of time that is measured for `point`: its span where that is known, otherwise the window.
    pub fn stretch(&self, point: PointId) -> Span {
        let of_point = self.visits.iter().find(|visits| visits.point == point);
        of_point.and_then(|visits| visits.span).unwrap_or_else(|| self.whole(point))
    }

    /// The CPU time from one sample to the next: `period`, or the mean where samples came less often.
    pub fn between_samples(&self, period: Nanos) -> Nanos {
        between_samples((self.total_samples, self.total_weight), period)
    }

    /// The whole window, with its visits of `point`.
    pub fn whole(&self, point: PointId) -> Span {
        Span { visits: self.visits(point), elapsed: self.elapsed, required: self.required }
    }

    /// The effective time of [`stretch`](Self::stretch) in nanoseconds, and its visits.
    pub fn progress(&self, point: PointId) -> (f64, u64) {
        let stretch = self.stretch(point);
        (stretch.effective_ns(), stretch.visits)
    }

    /// When it ended, since the start of the session.
    pub fn end(&self) -> Nanos {
        self.start + self.elapsed
    }

    /// How often `point` was visited.
    pub fn visits(&self, point: PointId) -> u64 {
        self.visits.iter().filter(|v| v.point == point).map(|v| v.count).sum()
    }
}

/// How often a progress point was visited in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visits {
    /// The point.
    pub point: PointId,
    /// How often.
    pub count: u64,
    /// From the visit after the window's beginning to the one after its end, where both were seen: nearly the
    /// window, but a whole number of periods.
    pub span: Option<Span>,
}

/// A stretch of time between two visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Visits in it: one of the two at its ends counts.
    pub visits: u64,
    /// How long it took, inserted delay included.
    pub elapsed: Nanos,
    /// How much `required` grew meanwhile.
    pub required: Nanos,
}

impl Span {
    /// Elapsed time less inserted delay, in nanoseconds; see [`Window::effective_ns`].
    pub fn effective_ns(&self) -> f64 {
        less(self.elapsed, self.required)
    }
}

/// `elapsed − inserted`, which may be negative.
fn less(elapsed: Nanos, inserted: Nanos) -> f64 {
    elapsed.get() as f64 - inserted.get() as f64
}

/// How much was in flight between a begin and an end, over a whole window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The *begin* point of the pair.
    pub begin: PointId,
    /// ∫ (begun − ended) dt, with nothing in flight where more had ended than begun: the mean in the time of the
    /// virtual program, times the elapsed time of the window.
    pub integral: VisitNanos,
}

/// How long pieces of work took that ended in a window, in the time of the virtual program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The *begin* point of the pair.
    pub begin: PointId,
    /// Times, each the middle of a range that is 3 % wide, in ascending order, and how many pieces of work took so long.
    pub counts: Vec<(Nanos, u32)>,
}

impl Latencies {
    /// As the database has it: `1200:3 1240:17`, times in nanoseconds.
    pub fn text(&self) -> String {
        let shown = |(time, count): &(Nanos, u32)| format!("{}:{count}", time.get());
        self.counts.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// From [`text`](Self::text).
    pub fn from_text(begin: PointId, text: &str) -> Option<Latencies> {
        let read = |cell: &str| {
            let (time, count) = cell.split_once(':')?;
            Some((Nanos::new(time.parse().ok()?), count.parse().ok()?))
        };
        let counts: Vec<(Nanos, u32)> = text.split_whitespace().map(read).collect::<Option<_>>()?;
        counts.is_sorted_by(|a, b| a.0 < b.0).then_some(Latencies { begin, counts })
    }
}

/// The delay accounts of a window, summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// What threads came to owe.
    pub owed: Nanos,
    /// What they paid by pausing.
    pub paid: Nanos,
    /// What they were credited with for waiting.
    pub credited: Nanos,
    /// What they paused too long.
    pub overslept: Nanos,
    /// What they still owed at the end.
    pub unpaid: Nanos,
}

/// Doubts about a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WindowFlags(u32);

impl WindowFlags {
    /// Nothing to doubt.
    pub const NONE: WindowFlags = WindowFlags(0);
    /// The books disagree by more than a few per cent.
    pub const UNBALANCED: WindowFlags = WindowFlags(1);
    /// The program ended, or was stopped, before the window did.
    pub const CUT: WindowFlags = WindowFlags(2);
    /// The kernel lost samples.
    pub const LOST_SAMPLES: WindowFlags = WindowFlags(4);
    /// Other programs kept the machine busy: they used more of it than [`BUSY_ABOVE`](Self::BUSY_ABOVE).
    pub const BUSY: WindowFlags = WindowFlags(8);
    /// No doubt: the window is a whole run of the program.
    pub const WHOLE: WindowFlags = WindowFlags(16);
    /// More of something had ended than begun: what is in flight, and so the latency, is not known.
    pub const UNMATCHED: WindowFlags = WindowFlags(32);

    /// The share of the machine that other programs may use before a window is doubted.
    pub const BUSY_ABOVE: f64 = 0.1;

    const NAMES: [(WindowFlags, &'static str); 6] = [
        (Self::UNBALANCED, "unbalanced"),
        (Self::CUT, "cut"),
        (Self::LOST_SAMPLES, "lost-samples"),
        (Self::BUSY, "busy"),
        (Self::WHOLE, "whole"),
        (Self::UNMATCHED, "unmatched-ends"),
    ];

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: WindowFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, flags: WindowFlags) -> WindowFlags {
        WindowFlags(self.0 | flags.0)
    }

    /// As the database has it: `unbalanced,cut`, or nothing.
    pub fn names(self) -> String {
        let set = Self::NAMES.iter().filter(|(flag, _)| self.has(*flag));
        set.map(|(_, name)| *name).collect::<Vec<_>>().join(",")
    }

    /// From [`names`](Self::names); a name that is not known (of a later version) is passed over.
    pub fn from_names(names: &str) -> WindowFlags {
        let known = |name: &str| Self::NAMES.iter().find(|(_, known)| *known == name);
        names.split(',').filter_map(known).fold(Self::NONE, |set, (flag, _)| set.with(*flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_survive_their_text() {
        let begin = PointId::new(4);
        let latencies = Latencies { begin, counts: vec![(Nanos::new(1200), 3), (Nanos::new(1240), 17)] };
        assert_eq!(latencies.text(), "1200:3 1240:17");
        assert_eq!(Latencies::from_text(begin, &latencies.text()), Some(latencies));
        assert_eq!(Latencies::from_text(begin, ""), Some(Latencies { begin, counts: Vec::new() }));
        for bad in ["1200", "1200:-1", "5:1 5:1", "7:1 5:1", "a:1"] {
            assert_eq!(Latencies::from_text(begin, bad), None, "{bad}");
        }
    }

    #[test]
    fn flags_survive_their_names() {
        let flags = WindowFlags::CUT.with(WindowFlags::BUSY);
        assert_eq!(flags.names(), "cut,busy");
        assert_eq!(WindowFlags::from_names("cut,busy,from-the-future"), flags);
        assert_eq!(WindowFlags::from_names(""), WindowFlags::NONE);
        assert!(!flags.has(WindowFlags::UNBALANCED));
    }
}
