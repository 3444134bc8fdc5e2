//! `whatif open --db`: a map over time of what ran.

use super::arguments::{Causes, Which};
use super::collected::{Collected, Columns};
use super::files::known_by;
use super::functions::{Gather, Keys};
use super::query::Query;
use super::worth::Worths;
use super::{cgroup, share};
use crate::{Heat, HeatRow, OwnTime, Worth};
use anyhow::Result;
use archive::{By, CollectorEpoch, EpochId, Group, ImageId, ImageKind, Label, MachineId, UnixSeconds};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Lengths of columns that people read easily, in seconds.
const LENGTHS: [i64; 22] = [
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200,
    86_400, 604_800,
];
/// More columns than this are more than a screen has room for.
const MOST_COLUMNS: usize = 1000;
/// What the process of idle CPUs is called.
const IDLE: &str = "[idle]";
/// No map has more cells: what they say of themselves is some megabytes then.
const MOST_CELLS: usize = 60_000;
/// More gaps than this cannot be seen apart.
const MOST_GAPS: usize = 1000;

/// What the rows of the map are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeatRows {
    /// Machines.
    Machine,
    /// Units of the service manager, by their cgroups.
    Unit,
    /// Cgroups.
    Cgroup,
    /// Processes, by name.
    Process,
    /// Programs, libraries and the kernel.
    Image,
    /// Functions, by name and the name of their file.
    Function,
}

impl HeatRows {
    /// All there are.
    pub const ALL: [HeatRows; 6] = [
        HeatRows::Process,
        HeatRows::Unit,
        HeatRows::Cgroup,
        HeatRows::Machine,
        HeatRows::Function,
        HeatRows::Image,
    ];

    /// What they are called.
    pub fn name(self) -> &'static str {
        match self {
            HeatRows::Machine => "machine",
            HeatRows::Unit => "unit",
            HeatRows::Cgroup => "cgroup",
            HeatRows::Process => "process",
            HeatRows::Image => "image",
            HeatRows::Function => "function",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatArguments {
    /// Which samples.
    pub which: Which,
    /// Which recordings say what functions are worth.
    pub causes: Causes,
    /// What the rows are.
    pub by: HeatRows,
    /// There are no more columns than this.
    pub columns: usize,
    /// There are no more rows than this.
    pub rows: usize,
}

/// What a row is known by: its name, and its image or nothing.
type Name = (String, String);

/// Samples by row, in each column.
type Cells = BTreeMap<Name, BTreeMap<usize, u64>>;

/// The map.
///
/// # Errors
/// What was asked for that there is not, in words; what the database says.
pub fn heat(args: &HeatArguments) -> Result<Heat> {
    let mut query = Query::new(&args.which)?;
    let span = span(&query);
    let bucket = query.db.resolution(&query.selection)?.unwrap_or_default().get() / 1_000_000_000;
    let most = args.columns.clamp(1, MOST_COLUMNS);
    let columns = Columns::over(&span, length_for(span.end - span.start, bucket.max(1) as i64, most));
    let cells = match args.by {
        HeatRows::Image | HeatRows::Function => of_code(&mut query, args.by, columns)?,
        _ => of_labels(&mut query, args.by, columns)?,
    };
    let epochs: HashMap<EpochId, CollectorEpoch> =
        query.db.epochs()?.into_iter().map(|epoch| (epoch.id, epoch)).collect();
    let collected = Collected::new(query.books.iter(), &epochs, columns, &span);
    let is_clock = query.heading.nanos_per_sample.is_some();
    let mut samples = vec![0; columns.count];
    cells.values().flatten().for_each(|(nth, count)| samples[*nth] += count);
    let mut ranked: Vec<(u64, Name, BTreeMap<usize, u64>)> =
        cells.into_iter().map(|(name, cells)| (cells.values().sum(), name, cells)).collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let shown = ranked.len().min(args.rows).min(MOST_CELLS / columns.count).max(1);
    let more = ranked.len().saturating_sub(shown);
    ranked.truncate(shown);
    let own = match args.by {
        HeatRows::Machine => own_times(&query, &epochs, columns, &span, is_clock)?,
        _ => BTreeMap::new(),
    };
    let worths = match args.by {
        HeatRows::Function => Worths::load(&args.causes, &query.db)?,
        _ => Worths::default(),
    };
    let row = |(all, (name, image), cells): (u64, Name, BTreeMap<usize, u64>)| {
        let mut row = HeatRow {
            share: share::of_counts(all, query.heading.samples, query.heading.samples_at_a_time),
            cpu_ns: query.cpu_ns(all),
            own: own.get(&name).cloned(),
            worth: worth(&query, &worths, &name, &image),
            samples: all,
            name,
            image,
            ..HeatRow::default()
        };
        for (nth, (expected, all)) in collected.expected.iter().zip(&samples).enumerate() {
            let count = cells.get(&nth).copied().unwrap_or(0);
            let whole = *expected.max(all);
            let interval = share::of_counts(count, whole, query.heading.samples_at_a_time);
            // A tenth of a sample is as much as they can be read by.
            let tenths = |share: f64| (share * whole as f64 * 10.0).round() / 10.0;
            row.cells.push(count);
            row.lo.push(tenths(interval.lo));
            row.hi.push(tenths(interval.hi));
        }
        row
    };
    let rows = ranked.into_iter().map(row).collect();
    let (gaps, more_gaps) = longest(collected.gaps.clone());
    Ok(Heat {
        by: args.by.name().to_owned(),
        start: columns.start,
        column_s: columns.length,
        columns: columns.count,
        unit: if is_clock { "cores" } else { "samples/s" },
        scale: collected.scale(is_clock),
        expected: collected.expected,
        lost: collected.lost,
        samples,
        gaps,
        more_gaps,
        rows,
        more,
        heading: query.heading,
    })
}

/// What a function is worth, of whatever build of its file.
fn worth(query: &Query, worths: &Worths, function: &str, file: &str) -> Option<Worth> {
    if worths.recordings.is_empty() {
        return None;
    }
    let images = query.names.images().values().filter(|image| known_by(&image.path) == file);
    images.filter_map(|image| worths.of(function, image)).min_by_key(|worth| worth.other_build)
}

/// What was asked for, as far as anything was collected.
fn span(query: &Query) -> Range<i64> {
    let since = query.heading.since.unwrap_or(0);
    // The last flush may have been shorter than a second; its samples are there all the same.
    let last = query.books.iter().map(|(_, books)| books.start.0 + 1).max();
    let until = query.heading.until.max(last).unwrap_or(0);
    match &query.selection.time {
        // Books may begin anywhere in their bucket, and end after what was asked for.
        Some(Range { start: UnixSeconds(start), end: UnixSeconds(end) }) => {
            since.max(*start)..until.min(*end).max(since + 1)
        }
        None => since..until.max(since + 1),
    }
}

/// Nearly the shortest columns, of whole time buckets, that are no more than `most`.
fn length_for(span: i64, bucket: i64, most: usize) -> i64 {
    let shortest = bucket * (span / bucket / most as i64 + 1);
    let is_right = |length: &i64| length % bucket == 0 && (shortest..4 * shortest).contains(length);
    LENGTHS.into_iter().find(is_right).unwrap_or(shortest)
}

fn of_labels(query: &mut Query, by: HeatRows, columns: Columns) -> Result<Cells> {
    let is_idle = |id: &ImageId| !query.idle && query.names.image(*id).kind == ImageKind::Idle;
    let idle: BTreeSet<ImageId> = query.names.images().keys().copied().filter(is_idle).collect();
    let cells = query.db.cells(&query.selection, columns.length, &idle)?;
    query.heading.samples = cells.values().sum();
    query.is_not_empty()?;
    let (labels, machines) = (query.db.labels()?, query.db.machines()?);
    let nothing = Label::default();
    let mut found = Cells::new();
    for (cell, count) in cells {
        let label = labels.get(&cell.label).unwrap_or(&nothing);
        let host = machines.get(&cell.machine).map_or("", |machine| machine.host.as_str());
        let Some(name) = label_row(by, label, host, query.idle) else { continue };
        // As `whatif top` calls it.
        let name = if name.is_empty() { "[none]" } else { name };
        let Some(nth) = columns.of(cell.time) else { continue };
        *found.entry((name.to_owned(), String::new())).or_default().entry(nth).or_default() += count;
    }
    Ok(found)
}

/// The row that samples of a label are in. What the kernel does on idle CPUs, interrupts mostly, has no process: without idle CPUs it has no
/// row among processes.
fn label_row<'a>(by: HeatRows, label: &'a Label, host: &'a str, idle: bool) -> Option<&'a str> {
    match by {
        HeatRows::Machine => Some(host),
        HeatRows::Unit => Some(cgroup::unit(&label.cgroup)),
        HeatRows::Cgroup => Some(&label.cgroup),
        _ => Some(label.process.as_str()).filter(|process| idle || *process != IDLE),
    }
}

fn of_code(query: &mut Query, by: HeatRows, columns: Columns) -> Result<Cells> {
    let parts = query.parts(By::Time(columns.length))?;
    let gather = match by {
        HeatRows::Function => {
            query.names.learn(&query.db, parts.positions.iter().copied())?;
            query.doubt_names(&parts.positions, &super::nameless::of_parts(&parts));
            Gather::Function
        }
        _ => Gather::Image,
    };
    let mut keys = Keys::new(&query.names, gather);
    let key_of: Vec<u32> = parts.positions.iter().map(|position| keys.of(*position)[0]).collect();
    // The same function of several builds is one; those of a path are, in the list of images.
    let name = |key: &super::functions::Key| match by {
        HeatRows::Function => {
            let path = query.names.image(key.image).path;
            (key.name.clone(), known_by(&path).to_owned())
        }
        _ => (key.name.clone(), String::new()),
    };
    let mut rows: Vec<Name> = keys.all().iter().map(name).collect();
    let mut counts: BTreeMap<(u32, usize), u64> = BTreeMap::new();
    for (group, leaves) in &parts.groups {
        let Group::Time(start) = group else { continue };
        let Some(nth) = columns.of(*start) else { continue };
        for (at, count) in leaves.iter().filter(|(_, count)| *count > 0) {
            *counts.entry((key_of[*at as usize], nth)).or_default() += count;
        }
    }
    let mut found = Cells::new();
    for ((key, nth), count) in counts {
        let name = &mut rows[key as usize];
        let cells = match found.get_mut(name) {
            Some(cells) => cells,
            None => found.entry(name.clone()).or_default(),
        };
        *cells.entry(nth).or_default() += count;
    }
    Ok(found)
}

/// By name of the machine.
fn own_times(
    query: &Query,
    epochs: &HashMap<EpochId, CollectorEpoch>,
    columns: Columns,
    span: &Range<i64>,
    is_clock: bool,
) -> Result<BTreeMap<String, OwnTime>> {
    let machine_of = |id: &EpochId| epochs.get(id).map(|epoch| epoch.machine);
    let mut hosts: BTreeMap<String, Vec<MachineId>> = BTreeMap::new();
    for (id, machine) in query.db.machines()? {
        hosts.entry(machine.host).or_default().push(id);
    }
    let own = |(host, machines): (String, Vec<MachineId>)| {
        let books = query.books.iter();
        let books = books.filter(|(id, _)| machine_of(id).is_some_and(|of| machines.contains(&of)));
        let of = Collected::new(books, epochs, columns, span);
        (host, OwnTime { scale: of.scale(is_clock), gaps: longest(of.gaps).0 })
    };
    Ok(hosts.into_iter().map(own).collect())
}

/// The longest gaps, in order, and how many others there are.
fn longest(mut gaps: Vec<(i64, i64)>) -> (Vec<(i64, i64)>, usize) {
    let more = gaps.len().saturating_sub(MOST_GAPS);
    if more > 0 {
        gaps.sort_by_key(|(from, to)| std::cmp::Reverse(to - from));
        gaps.truncate(MOST_GAPS);
        gaps.sort_unstable();
    }
    (gaps, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpus_have_a_row_if_they_are_asked_for() {
        let of = |process: &str| Label { process: process.to_owned(), ..Label::default() };
        for (by, process, idle, expected) in [
            (HeatRows::Process, "server", false, Some("server")),
            (HeatRows::Process, IDLE, false, None),
            (HeatRows::Process, IDLE, true, Some(IDLE)),
            (HeatRows::Machine, IDLE, false, Some("alpha")),
        ] {
            assert_eq!(label_row(by, &of(process), "alpha", idle), expected, "{by:?} {process} {idle}");
        }
    }

    #[test]
    fn columns_are_as_short_as_there_is_room_for() {
        for (span, bucket, most, expected) in [
            (180, 60, 300, 60),
            (180, 1, 300, 1),
            (3600, 60, 300, 60),
            (86_400, 60, 300, 300),
            (86_400, 600, 300, 600),
            (30 * 86_400, 60, 300, 10_800),
            (30 * 86_400, 3600, 300, 10_800),
            (600, 7, 10, 63),
            (10 * 365 * 86_400, 60, 10, 31_536_060),
            (0, 60, 1, 60),
        ] {
            let length = length_for(span, bucket, most);
            let count = Columns::over(&(0..span), length).count;
            assert!(length % bucket == 0 && count <= most, "{span} {bucket} {most}: {length}");
            assert_eq!(length, expected, "{span} {bucket} {most}");
        }
    }

    #[test]
    fn of_very_many_gaps_the_longest_are_kept() {
        let gaps: Vec<(i64, i64)> = (0..1500).map(|nth| (nth * 100, nth * 100 + 5 + nth % 3)).collect();
        let (kept, more) = longest(gaps.clone());
        assert_eq!((kept.len(), more), (MOST_GAPS, 500));
        assert!(kept.iter().all(|(from, to)| to - from > 5) && kept.is_sorted());
        assert_eq!(longest(gaps[..3].to_vec()), (gaps[..3].to_vec(), 0));
    }
}
