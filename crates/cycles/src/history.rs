//! `whatif status --history`: what happened to the collector, when and why. From epochs and books, and from the journal what those do not say.

use super::{query, time};
use crate::{History, HistoryRow};
use anyhow::{Context as _, Result};
use archive::{
    CollectorEpoch, Entry, EntryKind, EpochId, Interval, MachineId, MachineInfo, UnixSeconds, was_killed,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A shorter time without samples is none: intervals begin at whole seconds.
const GAP: i64 = 3;
/// A larger part of the samples that is lost is told, if there are enough of them.
const MUCH: f64 = 0.01;
const ENOUGH: u64 = 10;

/// What is known of a database.
#[derive(Clone, Debug, Default)]
struct Known {
    machines: BTreeMap<MachineId, MachineInfo>,
    epochs: Vec<CollectorEpoch>,
    intervals: Vec<Interval>,
    journal: Vec<(EpochId, Entry)>,
    events: BTreeMap<archive::EventId, String>,
}

/// What happened since a time (`7d`, or as elsewhere).
///
/// # Errors
/// As every query.
pub fn history(folder: Option<&Path>, since: &str) -> Result<History> {
    let since = time::parse(since, &jiff::Zoned::now()).map_err(anyhow::Error::msg).context("--since")?;
    let (folder, db) = query::open(folder)?;
    let known = Known {
        machines: db.machines()?,
        epochs: db.epochs()?,
        intervals: db.intervals()?,
        journal: db.journal()?,
        events: db.events()?,
    };
    let rows = known.rows().into_iter().filter(|row| row.until.unwrap_or(row.at) >= since.0).collect();
    Ok(History { database: folder.to_string_lossy().into_owned(), since: since.0, rows })
}

impl Known {
    /// All of it, oldest first.
    fn rows(&self) -> Vec<HistoryRow> {
        let mut rows = Vec::new();
        for epoch in &self.epochs {
            rows.extend(self.of_epoch(epoch));
        }
        for (epoch, entry) in &self.journal {
            if let Some(epoch) = self.epoch(*epoch) {
                rows.extend(self.of_entry(epoch, entry));
            }
        }
        for machine in self.machines.keys() {
            rows.extend(self.gaps(*machine));
        }
        rows.extend(self.losses());
        rows.sort_by_key(|row| row.at);
        rows
    }

    fn epoch(&self, id: EpochId) -> Option<&CollectorEpoch> {
        self.epochs.iter().find(|epoch| epoch.id == id)
    }

    fn row(
        &self,
        epoch: &CollectorEpoch,
        at: UnixSeconds,
        kind: &'static str,
        message: String,
    ) -> HistoryRow {
        HistoryRow {
            at: at.0,
            until: None,
            time: time::exact(at),
            machine: self
                .machines
                .get(&epoch.machine)
                .map(|machine| machine.host.clone())
                .unwrap_or_default(),
            epoch: Some(epoch.id.get()),
            kind,
            message,
        }
    }

    /// That it began; and that it was killed, of which no collector can write.
    fn of_epoch(&self, epoch: &CollectorEpoch) -> Vec<HistoryRow> {
        let setting = &epoch.setting;
        let name = epoch.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let message = format!(
            "epoch {}{name} began: {} at {} Hz per CPU, {}, {}, by {}, whatif {}",
            epoch.id.get(),
            setting.events.join(", "),
            setting.rate_hz,
            setting.scope,
            setting.mode,
            setting.sampler,
            setting.version
        );
        let mut rows = vec![self.row(epoch, epoch.started, "epoch", message)];
        if let (Some(ended), true) = (epoch.ended, was_killed(epoch, &self.journal)) {
            let message =
                "the collector was killed, or the machine went off: what it had counted since is gone"
                    .to_owned();
            rows.push(self.row(epoch, ended, "killed", message));
        }
        rows
    }

    fn of_entry(&self, epoch: &CollectorEpoch, entry: &Entry) -> Option<HistoryRow> {
        let Entry { at, kind, value, detail } = entry;
        let (kind, message) = match kind {
            EntryKind::Ended => ("ended", format!("the collector ended: {detail}")),
            EntryKind::Rate => {
                ("rate", format!("{value:.0} samples a second and CPU from then on: {detail}"))
            }
            EntryKind::Full => ("full", format!("nothing could be stored, and was kept in memory: {detail}")),
            EntryKind::Stored => {
                ("stored", format!("stored again; {value:.0} samples were given up for lack of memory"))
            }
            EntryKind::SampleCost => {
                ("sample-cost", format!("a sample costs the kernel {:.1} µs: {detail}", value / 1000.0))
            }
            EntryKind::Clock => ("clock", format!("the wall clock was set by {value:+.0} s")),
            EntryKind::Missed => ("missed", format!("{value:.0} processes are not sampled: {detail}")),
            EntryKind::Books => {
                ("books", format!("the books do not balance by {value:.0} samples: {detail}"))
            }
            EntryKind::Untidy => {
                ("untidy", format!("the database could not be tidied up, and grew: {detail}"))
            }
            EntryKind::Tidy => ("tidy", "the database was tidied up again".to_owned()),
            // Said by the epoch, and by what was lost.
            EntryKind::Began | EntryKind::NoRoom | EntryKind::Throttled => return None,
        };
        Some(self.row(epoch, *at, kind, message))
    }

    /// When nothing was collected on a machine, between its first epoch and its last.
    fn gaps(&self, machine: MachineId) -> Vec<HistoryRow> {
        let of_machine: Vec<&CollectorEpoch> =
            self.epochs.iter().filter(|epoch| epoch.machine == machine).collect();
        // Where something was collected: all events of an interval have the same time.
        let mut spans: BTreeSet<(i64, i64, EpochId)> = BTreeSet::new();
        let mut rows = Vec::new();
        for epoch in &of_machine {
            let mut seen = BTreeSet::new();
            for Interval { is_hour, books, .. } in
                self.intervals.iter().filter(|interval| interval.epoch == epoch.id)
            {
                let length = (books.length.get() as f64 / 1e9).round() as i64;
                if !is_hour {
                    spans.insert((books.start.0, books.start.0.saturating_add(length), epoch.id));
                    continue;
                }
                // Its writes may lie anywhere in the hour.
                let from = books.start.0.max(epoch.started.0);
                let to = (books.start.0.saturating_add(3600))
                    .min(epoch.ended.map_or(i64::MAX, |ended| ended.0))
                    .max(from);
                spans.insert((from, to, epoch.id));
                let missing = to.saturating_sub(from).saturating_sub(length);
                if missing >= GAP && seen.insert(books.start) {
                    let message = format!("in this hour nothing was collected for {missing} s");
                    let row = self.row(epoch, UnixSeconds(from), "gap", message);
                    rows.push(HistoryRow { until: Some(to), ..row });
                }
            }
        }
        let mut end: Option<(i64, EpochId)> = None;
        for (from, to, id) in spans {
            if let Some((end, before)) = end.filter(|(end, _)| from.saturating_sub(*end) >= GAP) {
                let message = format!(
                    "nothing was collected for {}: {}",
                    in_words(from.saturating_sub(end)),
                    self.why(before, id, UnixSeconds(end)..UnixSeconds(from))
                );
                if let Some(epoch) = self.epoch(before) {
                    let row = self.row(epoch, UnixSeconds(end), "gap", message);
                    rows.push(HistoryRow { until: Some(from), ..row });
                }
            }
            if end.is_none_or(|(end, _)| to > end) {
                end = Some((to, id));
            }
        }
        rows
    }

    /// Why nothing was collected between two intervals.
    fn why(&self, before: EpochId, next: EpochId, gap: std::ops::Range<UnixSeconds>) -> String {
        // It is noticed at the next write.
        let near = gap.start.0.saturating_sub(1)..gap.end.0.saturating_add(121);
        let clock = self
            .journal
            .iter()
            .find(|(_, entry)| entry.kind == EntryKind::Clock && near.contains(&entry.at.0));
        if let Some((_, entry)) = clock {
            return format!("the wall clock was set by {:+.0} s", entry.value);
        }
        if before == next {
            return "the collector was stopped, or the machine was suspended".to_owned();
        }
        let ended =
            self.journal.iter().rev().find(|(of, entry)| *of == before && entry.kind == EntryKind::Ended);
        match ended {
            Some((_, entry)) => format!("the collector had ended ({})", entry.detail),
            None if self.epoch(before).is_some_and(|epoch| was_killed(epoch, &self.journal)) => {
                "the collector had been killed, or the machine was off".to_owned()
            }
            None => "no collector ran".to_owned(),
        }
    }

    /// When many samples were lost, and for lack of what.
    fn losses(&self) -> Vec<HistoryRow> {
        let mut rows: Vec<HistoryRow> = Vec::new();
        let mut by_event: BTreeMap<(EpochId, archive::EventId), Vec<&Interval>> = BTreeMap::new();
        for interval in &self.intervals {
            by_event.entry((interval.epoch, interval.books.event)).or_default().push(interval);
        }
        for ((id, event), intervals) in by_event {
            let Some(epoch) = self.epoch(id) else { continue };
            let is_much = |interval: &&Interval| {
                let books = &interval.books;
                books.lost >= ENOUGH && books.lost as f64 > MUCH * books.expected as f64
            };
            for run in intervals.chunk_by(|a, b| is_much(a) == is_much(b)).filter(|run| is_much(&run[0])) {
                let from = run[0].books.start;
                let last = run[run.len() - 1];
                let to = if last.is_hour {
                    UnixSeconds(last.books.start.0.saturating_add(3600))
                } else {
                    last.books.end()
                };
                let sum = |of: fn(&archive::Books) -> u64| {
                    run.iter().map(|interval| of(&interval.books)).sum::<u64>()
                };
                let (expected, lost) = (sum(|books| books.expected), sum(|books| books.lost));
                // It is written down after the interval.
                let noted = |kind| {
                    let of = |(of, entry): &&(EpochId, Entry)| {
                        *of == id
                            && entry.kind == kind
                            && (from.0..=to.0.saturating_add(60)).contains(&entry.at.0)
                    };
                    self.journal.iter().filter(of).map(|(_, entry)| entry.value).sum::<f64>()
                };
                let mut message = format!(
                    "{:.1} % of the samples of {} were lost: {lost} of {expected}",
                    100.0 * lost as f64 / expected.max(1) as f64,
                    self.events.get(&event).map_or("?", String::as_str)
                );
                let (no_room, throttled) = (noted(EntryKind::NoRoom), noted(EntryKind::Throttled));
                if no_room > 0.0 {
                    message.push_str(&format!(
                        "; {no_room:.0} for lack of room (a lower --rate, more --max-memory)"
                    ));
                }
                if throttled > 0.0 {
                    message.push_str(&format!(
                        "; the kernel allowed no more {throttled:.0} times (kernel.perf_event_max_sample_rate)"
                    ));
                }
                if no_room + throttled == 0.0 {
                    message.push_str("; the CPUs did not take them in time");
                }
                let row = self.row(epoch, from, "lost", message);
                rows.push(HistoryRow { until: Some(to.0), ..row });
            }
        }
        rows
    }
}

/// A number of seconds.
fn in_words(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7200..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::{Books, EventId, Setting};
    use profile::Nanos;

    const BEGIN: i64 = 1_790_000_000;

    fn epoch(id: i64, started: i64, ended: Option<i64>) -> CollectorEpoch {
        CollectorEpoch {
            id: EpochId::new(id),
            machine: MachineId::new(1),
            name: None,
            setting: Setting { events: vec!["cpu-clock".into()], rate_hz: 97.0, ..Setting::default() },
            started: UnixSeconds(BEGIN + started),
            ended: ended.map(|ended| UnixSeconds(BEGIN + ended)),
        }
    }

    fn interval(id: i64, start: i64, seconds: u64, lost: u64) -> Interval {
        let books = Books {
            event: EventId::new(1),
            start: UnixSeconds(BEGIN + start),
            length: Nanos::new(seconds * 1_000_000_000),
            expected: 1000,
            stored: 1000 - lost,
            unknown: 0,
            lost,
            idle: 0,
            covered: Nanos::ZERO,
            own_cpu: Nanos::ZERO,
            kernel_cpu: Nanos::ZERO,
            resident: 0,
            squares: 0,
        };
        Interval { epoch: EpochId::new(id), is_hour: false, books }
    }

    fn entry(id: i64, at: i64, kind: EntryKind, value: f64, detail: &str) -> (EpochId, Entry) {
        (EpochId::new(id), Entry { at: UnixSeconds(BEGIN + at), kind, value, detail: detail.to_owned() })
    }

    fn told(known: &Known) -> Vec<(i64, Option<i64>, &'static str, String)> {
        let rows = known.rows().into_iter();
        rows.map(|row| (row.at - BEGIN, row.until.map(|until| until - BEGIN), row.kind, row.message))
            .collect()
    }

    fn known(epochs: Vec<CollectorEpoch>, intervals: Vec<Interval>, journal: Vec<(EpochId, Entry)>) -> Known {
        let machines =
            [(MachineId::new(1), MachineInfo { host: "alpha".into(), ..MachineInfo::default() })].into();
        let events = [(EventId::new(1), "cpu-clock".to_owned())].into();
        Known { machines, epochs, intervals, journal, events }
    }

    #[test]
    fn two_runs_are_two_with_a_gap() {
        let of = |journal| {
            let epochs = vec![epoch(1, 0, Some(120)), epoch(2, 165, None)];
            let intervals = vec![interval(1, 0, 60, 0), interval(1, 60, 60, 0), interval(2, 165, 60, 0)];
            told(&known(epochs, intervals, journal))
        };
        let ended =
            of(vec![entry(1, 0, EntryKind::Began, 0.0, ""), entry(1, 120, EntryKind::Ended, 0.0, "SIGTERM")]);
        assert_eq!(ended.iter().map(|row| row.2).collect::<Vec<_>>(), ["epoch", "ended", "gap", "epoch"]);
        let gap = &ended[2];
        assert_eq!((gap.0, gap.1), (120, Some(165)));
        assert_eq!(gap.3, "nothing was collected for 45 s: the collector had ended (SIGTERM)");
        let killed = of(vec![entry(1, 0, EntryKind::Began, 0.0, "")]);
        assert_eq!(killed.iter().map(|row| row.2).collect::<Vec<_>>(), ["epoch", "killed", "gap", "epoch"]);
        assert!(killed[2].3.ends_with("the collector had been killed, or the machine was off"), "{killed:?}");
        // Before there was a journal.
        assert!(of(Vec::new())[1].3.ends_with("no collector ran"));
    }

    #[test]
    fn a_clock_that_was_set_and_a_machine_that_slept_are_told() {
        let intervals = vec![interval(1, 0, 60, 0), interval(1, 4000, 60, 0)];
        let of = |journal| told(&known(vec![epoch(1, 0, None)], intervals.clone(), journal))[1].3.clone();
        assert_eq!(
            of(Vec::new()),
            "nothing was collected for 65 min 40 s: the collector was stopped, or the machine was suspended"
        );
        let clock = of(vec![entry(1, 4060, EntryKind::Clock, 3940.0, "")]);
        assert!(clock.ends_with("the wall clock was set by +3940 s"), "{clock}");
        // A second more or less is the rounding of times.
        let close = vec![interval(1, 0, 60, 0), interval(1, 61, 60, 0), interval(1, 123, 60, 0)];
        assert_eq!(told(&known(vec![epoch(1, 0, None)], close, Vec::new())).len(), 1);
    }

    #[test]
    fn hours_of_thin_books_say_how_much_is_missing() {
        let begin = 3600 - BEGIN.rem_euclid(3600);
        let hour = |length| vec![Interval { is_hour: true, ..interval(1, begin, length, 0) }];
        let of =
            |length| told(&known(vec![epoch(1, begin + 600, Some(begin + 7200))], hour(length), Vec::new()));
        assert_eq!(of(3000).len(), 1);
        assert_eq!(of(2955)[1].3, "in this hour nothing was collected for 45 s");
    }

    #[test]
    fn what_was_lost_is_told_once_with_its_reason() {
        let intervals = vec![
            interval(1, 0, 60, 5),
            interval(1, 60, 60, 100),
            interval(1, 120, 60, 300),
            interval(1, 180, 60, 5),
        ];
        let journal =
            vec![entry(1, 180, EntryKind::NoRoom, 390.0, ""), entry(1, 180, EntryKind::Throttled, 7.0, "")];
        let rows = told(&known(vec![epoch(1, 0, None)], intervals, journal));
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!((rows[1].0, rows[1].1), (60, Some(180)));
        for part in [
            "20.0 % of the samples of cpu-clock were lost: 400 of 2000",
            "390 for lack of room",
            "no more 7 times",
        ] {
            assert!(rows[1].3.contains(part), "{part}: {rows:?}");
        }
    }

    #[test]
    fn the_journal_is_told_in_words() {
        let journal = vec![
            entry(1, 10, EntryKind::Rate, 48.6, "2.1 % of the machine are more than --max-cpu 1 %"),
            entry(1, 20, EntryKind::Full, 0.0, "no space left"),
            entry(1, 30, EntryKind::Stored, 12.0, ""),
            entry(1, 40, EntryKind::SampleCost, 15_300.0, "measured again; it was 40.0 µs"),
        ];
        let rows = told(&known(vec![epoch(1, 0, None)], Vec::new(), journal));
        let messages: Vec<&str> = rows.iter().skip(1).map(|row| row.3.as_str()).collect();
        assert_eq!(
            messages,
            [
                "49 samples a second and CPU from then on: 2.1 % of the machine are more than --max-cpu 1 %",
                "nothing could be stored, and was kept in memory: no space left",
                "stored again; 12 samples were given up for lack of memory",
                "a sample costs the kernel 15.3 µs: measured again; it was 40.0 µs",
            ]
        );
    }
}
