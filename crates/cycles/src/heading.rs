//! The heading of every answer: the books in all, and what to think of them.

use super::time;
use crate::{Books as Totals, Heading, Note};
use archive::{Books, CollectorEpoch, EpochId, MachineId, MachineInfo, OFF_CPU};
use std::collections::{BTreeMap, BTreeSet};

/// A larger share of samples that were lost, or have no image or name, is worth a warning.
pub const MUCH: f64 = 0.01;
/// Samples were taken this much less often than was asked for.
const RARER: f64 = 0.8;
/// More samples at a time are worth a warning.
const MANY_AT_A_TIME: f64 = 10.0;

/// The books in all, and what to think of them.
pub fn of(
    event: &str,
    books: &[(EpochId, Books)],
    epochs: &[CollectorEpoch],
    machines: &BTreeMap<MachineId, MachineInfo>,
) -> Heading {
    let mut totals = Totals::default();
    let (mut by_epoch, mut squares): (BTreeMap<EpochId, u64>, u64) = (BTreeMap::new(), 0);
    for (epoch, of) in books {
        totals.expected += of.expected;
        totals.stored += of.stored;
        totals.unknown += of.unknown;
        totals.lost += of.lost;
        totals.idle += of.idle;
        totals.covered_ns += of.covered.get();
        totals.own_cpu_ns += of.own_cpu.get();
        totals.kernel_cpu_ns += of.kernel_cpu.get();
        let taken = of.stored + of.unknown;
        squares = squares.saturating_add(if of.squares == 0 { taken } else { of.squares });
        *by_epoch.entry(*epoch).or_default() += taken;
    }
    let used: Vec<&CollectorEpoch> = epochs.iter().filter(|epoch| by_epoch.contains_key(&epoch.id)).collect();
    let of: BTreeSet<MachineId> = used.iter().map(|epoch| epoch.machine).collect();
    let of: Vec<&MachineInfo> = of.iter().filter_map(|id| machines.get(id)).collect();
    let start = books.iter().map(|(_, of)| of.start).min();
    let end = books.iter().map(|(_, of)| of.end()).max();
    let taken = totals.stored + totals.unknown;
    let seconds = totals.covered_ns as f64 / 1e9;
    let rate = if seconds > 0.0 { taken as f64 / seconds } else { 0.0 };
    let most = used.iter().max_by_key(|epoch| by_epoch[&epoch.id]);
    let asked_rate = most.map_or(0.0, |epoch| epoch.setting.rate_hz);
    let is_clock = event.contains("clock");
    let is_time = is_clock || event == OFF_CPU;
    // One of CPUs that run all the time ticks for all of their time.
    let whole_machine = is_clock && used.iter().all(|epoch| epoch.setting.scope == "machine");
    let nanos_per_sample = (is_time && totals.expected > 0 && totals.covered_ns > 0)
        .then(|| totals.covered_ns as f64 / totals.expected as f64);
    let mut heading = Heading {
        event: event.to_owned(),
        machines: of.iter().map(|machine| machine.host.clone()).collect(),
        cpus: of.iter().map(|machine| machine.cpus).sum(),
        since: start.map(|start| start.0),
        until: end.map(|end| end.0),
        time: start.zip(end).map_or_else(String::new, |(start, end)| time::span(start, end)),
        books: totals,
        rate,
        asked_rate,
        nanos_per_sample,
        samples_at_a_time: (squares as f64 / taken.max(1) as f64).max(1.0),
        ..Heading::default()
    };
    heading.warnings = warnings(&heading, whole_machine);
    heading
}

/// Doubts about the books.
fn warnings(heading: &Heading, whole_machine: bool) -> Vec<Note> {
    let Totals { expected, unknown, lost, .. } = heading.books;
    let note = |code: &str, message: String, advice: &str| Note {
        code: code.to_owned(),
        message,
        advice: advice.to_owned(),
    };
    let share = |part: u64| if expected > 0 { part as f64 / expected as f64 } else { 0.0 };
    let mut notes = Vec::new();
    if share(lost) > MUCH {
        let message = format!(
            "{:.1} % of the samples were lost, perhaps most of them in the same code",
            100.0 * share(lost)
        );
        let advice = "see when and why: whatif status; give the collector a lower rate (--rate) or more memory (--max-memory)";
        notes.push(note("lost", message, advice));
    }
    if share(unknown) > MUCH {
        let message = format!("{:.1} % of the samples are of unknown code", 100.0 * share(unknown));
        notes.push(note("unknown", message, "see which processes, and how to fix it: whatif db unknown"));
    }
    if heading.samples_at_a_time > MANY_AT_A_TIME {
        let message = format!(
            "threads wait so often that only some waits were written, each for {:.0} samples: the intervals are wider",
            heading.samples_at_a_time
        );
        notes.push(note("at-a-time", message, "a longer time or a higher --rate says more"));
    }
    if whole_machine && heading.rate > 0.0 && heading.rate < RARER * heading.asked_rate {
        let message = format!(
            "{:.1} samples a second and CPU were taken of {:.1} that were asked for",
            heading.rate, heading.asked_rate
        );
        let advice = "the collector takes fewer when it costs more than it may: --max-cpu allows it more";
        notes.push(note("rate", message, advice));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::{EventId, UnixSeconds};
    use profile::Nanos;

    const EMPTY: Books = Books {
        event: EventId::new(1),
        start: UnixSeconds(0),
        length: Nanos::new(60_000_000_000),
        expected: 600,
        stored: 0,
        unknown: 0,
        lost: 0,
        idle: 0,
        covered: Nanos::new(6_000_000_000),
        own_cpu: Nanos::ZERO,
        kernel_cpu: Nanos::ZERO,
        resident: 0,
        squares: 0,
    };

    #[test]
    fn only_clocks_say_how_much_time_passed() {
        let books = Books { stored: 590, lost: 10, ..EMPTY };
        let books = [(EpochId::new(1), books)];
        let of = |event| super::of(event, &books, &[], &BTreeMap::new()).nanos_per_sample;
        assert_eq!(of("cpu-clock"), Some(1e7));
        assert_eq!(of(OFF_CPU), Some(1e7), "of time that threads wait");
        assert_eq!((of("page-faults"), of("cycles")), (None, None));
    }

    #[test]
    fn samples_that_were_found_several_at_a_time_are_told() {
        let of = |squares| {
            let books = Books { stored: 600, squares, ..EMPTY };
            let heading = super::of(OFF_CPU, &[(EpochId::new(1), books)], &[], &BTreeMap::new());
            (heading.samples_at_a_time, heading.warnings.len())
        };
        assert_eq!([of(0), of(600), of(1200), of(60_000)], [(1.0, 0), (1.0, 0), (2.0, 0), (100.0, 1)]);
    }

    #[test]
    fn loss_is_a_warning() {
        let heading = |lost, unknown, rate| Heading {
            books: Totals { expected: 1000, lost, unknown, ..Totals::default() },
            rate,
            asked_rate: 97.0,
            ..Heading::default()
        };
        let codes =
            |heading: Heading| warnings(&heading, true).into_iter().map(|note| note.code).collect::<Vec<_>>();
        assert_eq!(codes(heading(10, 10, 96.0)), Vec::<String>::new());
        assert_eq!(codes(heading(11, 11, 50.0)), ["lost", "unknown", "rate"]);
    }
}
