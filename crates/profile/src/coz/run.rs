//! Runs: the records of a profile, sorted into runs of the program and their experiments.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::record::{Damaged, Record};

/// Lines that were not understood, or belong to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// How many lines.
    pub(super) lines: usize,
    /// The number of the first of these lines among those that are not empty, from 1.
    pub(super) first: usize,
}

/// One run of the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// When it began, if the profile records it.
    pub(super) startup: Option<u64>,
    /// Whether no experiment was under way when it ended.
    complete: bool,
    pub(super) experiments: Vec<Experiment>,
    /// Samples in each line, as they were written last.
    pub(super) samples: BTreeMap<String, u64>,
    /// After how many experiments that was.
    pub(super) sampled_after: usize,
    /// Samples anywhere, if the profile records them.
    pub(super) all_samples: Option<u64>,
    /// The last time that was written as its length.
    pub(super) runtime: Option<u64>,
    /// When it ended, if the profile records it.
    pub(super) shutdown: Option<u64>,
}

/// One experiment.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    pub(super) selected: String,
    pub(super) per_mille: u16,
    /// Elapsed time less inserted delay; may be below zero.
    pub(super) effective_ns: i64,
    pub(super) samples: u64,
    /// Visits of throughput points.
    pub(super) visits: BTreeMap<String, u64>,
    /// Visits of latency points.
    pub(super) latencies: BTreeMap<String, Latency>,
    /// Something between it and the next one could not be read.
    doubtful: bool,
    /// It does not have all that it should, or the program ended meanwhile.
    pub(super) cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) arrivals: u64,
    pub(super) departures: u64,
    pub(super) in_flight: f64,
}

/// A point, by whether it is one of latency, and its name.
type PointName<'a> = (bool, &'a str);

impl Experiment {
    pub(super) fn new(selected: String, per_mille: u16, effective_ns: i64, samples: u64) -> Experiment {
        Experiment {
            selected,
            per_mille,
            effective_ns,
            samples,
            visits: BTreeMap::new(),
            latencies: BTreeMap::new(),
            doubtful: false,
            cut: false,
        }
    }

    fn points(&self) -> impl Iterator<Item = PointName<'_>> {
        let visits = self.visits.keys().map(|name| (false, name.as_str()));
        visits.chain(self.latencies.keys().map(|name| (true, name.as_str())))
    }

    fn lacks(&self, points: &BTreeSet<PointName<'_>>) -> bool {
        let own: BTreeSet<PointName<'_>> = self.points().collect();
        own.is_empty() || !points.is_subset(&own)
    }
}

impl Run {
    /// The effective time of its experiments, in nanoseconds.
    fn effective_ns(&self) -> i64 {
        self.experiments.iter().map(|experiment| experiment.effective_ns.max(0)).fold(0, i64::saturating_add)
    }

    /// How long it took, if it ended and the profile records it. What is shorter than the experiments together is
    /// the length of one of them.
    pub(super) fn length(&self) -> Option<u64> {
        let whole = |ns: &u64| i128::from(*ns) >= i128::from(self.effective_ns());
        let by_the_clock = || self.shutdown?.checked_sub(self.startup?);
        self.runtime.filter(whole).or_else(|| by_the_clock().filter(whole))
    }
}

/// Sorts `lines`. Lines are lost only to what they belong to.
pub(super) fn runs(lines: impl Iterator<Item = Result<Record, Damaged>>) -> (Vec<Run>, Damage) {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(lines) {
        if !reader.take(line) {
            let first = if reader.damage.lines == 0 { number } else { reader.damage.first };
            reader.damage = Damage { lines: reader.damage.lines + 1, first };
        }
    }
    let Reader { mut runs, damage, .. } = reader;
    mark(&mut runs);
    (runs, damage)
}

#[derive(Default)]
struct Reader {
    runs: Vec<Run>,
    /// Whether points belong to the last experiment.
    open: bool,
    damage: Damage,
}

impl Reader {
    /// Takes a line; whether it was understood and belongs to something.
    fn take(&mut self, line: Result<Record, Damaged>) -> bool {
        match line {
            Ok(Record::Throughput { name, delta }) => {
                let Some(experiment) = self.of_points() else { return false };
                first(experiment.visits.entry(name), delta)
            }
            Ok(Record::Latency { name, arrivals, departures, in_flight }) => {
                let Some(experiment) = self.of_points() else { return false };
                first(experiment.latencies.entry(name), Latency { arrivals, departures, in_flight })
            }
            Ok(record) => {
                self.open = matches!(record, Record::Experiment { .. });
                self.tally(record)
            }
            Err(damaged) => {
                self.spoil(damaged);
                false
            }
        }
    }

    /// Takes what belongs to a run.
    fn tally(&mut self, record: Record) -> bool {
        // Profiles may begin in the middle of a run.
        let begins = matches!(record, Record::Startup { .. } | Record::Experiment { .. });
        if self.runs.is_empty() && begins || matches!(record, Record::Startup { .. }) {
            self.runs.push(Run::default());
        }
        let Some(run) = self.runs.last_mut() else { return false };
        match record {
            Record::Startup { time, complete } => {
                (run.startup, run.complete) = (Some(time), complete);
            }
            Record::Shutdown { time, samples } => {
                (run.shutdown, run.all_samples) = (Some(time), samples);
            }
            Record::Runtime(time) => run.runtime = Some(time),
            Record::Samples { location, count } => {
                run.samples.insert(location, count);
                run.sampled_after = run.experiments.len();
            }
            Record::Experiment { selected, per_mille, effective_ns, samples } => {
                run.experiments.push(Experiment::new(selected, per_mille, effective_ns, samples));
            }
            Record::Throughput { .. } | Record::Latency { .. } => return false,
        }
        true
    }

    fn of_points(&mut self) -> Option<&mut Experiment> {
        self.runs.last_mut()?.experiments.last_mut().filter(|_| self.open)
    }

    fn spoil(&mut self, damaged: Damaged) {
        match damaged {
            // The first run begins with what is read of it.
            Damaged::Startup if self.runs.is_empty() => {}
            Damaged::Startup => self.runs.push(Run::default()),
            Damaged::Tally => {}
            Damaged::Point | Damaged::Unknown => {
                if let Some(experiment) = self.of_points() {
                    experiment.doubtful = true;
                }
            }
        }
        self.open &= damaged == Damaged::Point;
    }
}

/// Whether a point is the first of its name in an experiment. Another one is of an experiment that is not there.
fn first<T>(entry: Entry<'_, String, T>, value: T) -> bool {
    match entry {
        Entry::Vacant(place) => {
            place.insert(value);
            true
        }
        Entry::Occupied(_) => false,
    }
}

/// Marks the experiments that say nothing: those that lost a point, and those that were under way when the
/// program ended.
fn mark(runs: &mut [Run]) {
    let anywhere: BTreeSet<(bool, String)> = runs
        .iter()
        .flat_map(|run| run.experiments.iter().flat_map(Experiment::points))
        .map(|(is_latency, name)| (is_latency, name.to_owned()))
        .collect();
    let anywhere: BTreeSet<PointName<'_>> =
        anywhere.iter().map(|(is_latency, name)| (*is_latency, name.as_str())).collect();
    for run in runs {
        let ended = run.shutdown.is_some() || run.length().is_some();
        let mut before = BTreeSet::new();
        let cut: Vec<bool> = run
            .experiments
            .iter()
            .map(|experiment| {
                let cut = experiment.lacks(&before) || experiment.doubtful && experiment.lacks(&anywhere);
                before.extend(experiment.points());
                cut
            })
            .collect();
        for (experiment, cut) in run.experiments.iter_mut().zip(cut) {
            experiment.cut = cut;
        }
        if let Some(last) = run.experiments.last_mut().filter(|_| ended && !run.complete) {
            last.cut = true;
        }
    }
}
