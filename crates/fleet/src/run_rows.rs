//! Rows of runs: as they are sent, and as they are read again.

use crate::row_binary::RowBinary;
use crate::run::{Run, SESSION, region_hash};
use crate::stack_hash::StackHash;
use archive::UnixSeconds;
use clickhouse::Row;
use profile::{
    Audit, Books, Epoch, Exit, Image, InFlight, Nanos, Point, PointId, PointKind, Region, RegionId,
    RegionKind, RegionSamples, Rows, SampleTotals, Session, SessionEnd, SessionStart, Span, Speedup,
    VisitNanos, Visits, Window, WindowFlags,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Columns of runs that are read, in the order of [`RunRow`].
pub const RUN_COLUMNS: &str = "run, started_ns, length_ns, machine, host, service, version, program, kernel, cpus, whatif, sampler, \
    sample_period_ns, sampled_until_ns, delayed_ns, samples, sample_weight_ns, lost_samples, windows, regions, region_samples, \
    region_weights_ns, toUInt32(sent)";
/// Columns of regions that are read, in the order of [`RegionRow`].
pub const REGION_COLUMNS: &str = "region, kind, inclusive, name, function, file, line, path, build_id";
/// Columns of windows that are read, in the order of [`WindowRow`]: all but who ran and the latencies of single pieces of work.
pub const WINDOW_COLUMNS: &str = "run, block, place, region, speedup_permille, epoch, start_ns, elapsed_ns, required_ns, region_samples, \
    region_weight_ns, total_samples, total_weight_ns, owed_ns, paid_ns, credited_ns, overslept_ns, unpaid_ns, threads, busy, flags, audit, \
    point_kinds, points, visits, span_visits, span_elapsed_ns, span_required_ns, in_flight, in_flight_visit_ns";

/// A run.
#[derive(Debug, Deserialize, Row)]
pub struct RunRow {
    pub run: String,
    started_ns: u64,
    length_ns: u64,
    machine: String,
    host: String,
    service: String,
    version: String,
    program: String,
    kernel: String,
    cpus: u32,
    whatif: String,
    sampler: String,
    sample_period_ns: u64,
    sampled_until_ns: u64,
    delayed_ns: u64,
    samples: u64,
    sample_weight_ns: u64,
    lost_samples: u64,
    pub windows: u64,
    regions: Vec<StackHash>,
    region_samples: Vec<u64>,
    region_weights_ns: Vec<u64>,
    pub sent: u32,
}

/// A region.
#[derive(Debug, Deserialize, Row)]
pub struct RegionRow {
    pub region: StackHash,
    kind: String,
    inclusive: u8,
    name: String,
    function: String,
    file: String,
    line: u32,
    path: String,
    build_id: String,
}

/// A window.
#[derive(Debug, Deserialize, Row)]
pub struct WindowRow {
    pub run: String,
    pub block: i64,
    pub place: u32,
    region: StackHash,
    speedup_permille: u16,
    epoch: u64,
    start_ns: u64,
    elapsed_ns: u64,
    required_ns: u64,
    region_samples: u64,
    region_weight_ns: u64,
    total_samples: u64,
    total_weight_ns: u64,
    owed_ns: u64,
    paid_ns: u64,
    credited_ns: u64,
    overslept_ns: u64,
    unpaid_ns: u64,
    threads: u32,
    busy: f64,
    flags: String,
    audit: Vec<u64>,
    point_kinds: Vec<String>,
    points: Vec<String>,
    visits: Vec<u64>,
    span_visits: Vec<i64>,
    span_elapsed_ns: Vec<i64>,
    span_required_ns: Vec<i64>,
    in_flight: Vec<String>,
    in_flight_visit_ns: Vec<i64>,
}

/// What is known of no number.
const UNKNOWN: i64 = -1;

/// The regions of a run, one row each.
pub fn regions(run: &Run) -> RowBinary {
    let mut rows = RowBinary::new();
    for region in run.rows.regions.values() {
        rows.row().hash(region_hash(region)).text(region.kind.name()).u8(u8::from(region.inclusive));
        rows.text(&region.name).text(region.function.as_deref().unwrap_or(""));
        rows.text(region.file.as_deref().unwrap_or("")).u32(region.line.unwrap_or(0));
        rows.text(&region.image.path).text(region.image.build_id.as_deref().unwrap_or(""));
    }
    rows
}

/// The windows of a run, one row each.
pub fn windows(run: &Run) -> RowBinary {
    let mut rows = RowBinary::new();
    let hashes: BTreeMap<RegionId, StackHash> =
        run.rows.regions.iter().map(|(id, region)| (*id, region_hash(region))).collect();
    let name = |point: &PointId| run.rows.points.get(point).map_or("", |point| &*point.name);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for window in &run.rows.windows {
        rows.row().time(run.started()).text(&run.machine).text(&run.host).text(&run.service);
        rows.text(&run.version).text(&run.uid).i64(window.block).u32(window.index);
        rows.hash(hashes[&window.region]).u16(window.speedup.per_mille()).u64(window.epoch.get());
        for nanos in [window.start, window.elapsed, window.required] {
            rows.u64(nanos.get());
        }
        rows.u64(window.region_samples).u64(window.region_weight.get());
        rows.u64(window.total_samples).u64(window.total_weight.get());
        let Books { owed, paid, credited, overslept, unpaid } = window.books;
        for nanos in [owed, paid, credited, overslept, unpaid] {
            rows.u64(nanos.get());
        }
        rows.u32(window.threads).f64(window.busy.unwrap_or(UNKNOWN as f64)).text(&window.flags.names());
        let audit = window.audit.map(|audit| audit.amounts().to_vec()).unwrap_or_default();
        rows.u64s(audit.into_iter());
        let kind = |of: &Visits| run.rows.points.get(&of.point).map_or("", |point| point.kind.name());
        rows.texts(window.visits.iter().map(kind));
        rows.texts(window.visits.iter().map(|of| name(&of.point)));
        rows.u64s(window.visits.iter().map(|of| of.count));
        let spans: [fn(Span) -> u64; 3] =
            [|span| span.visits, |span| span.elapsed.get(), |span| span.required.get()];
        for field in spans {
            rows.i64s(window.visits.iter().map(|of| of.span.map_or(UNKNOWN, |span| signed(field(span)))));
        }
        rows.texts(window.in_flight.iter().map(|of| name(&of.begin)));
        rows.i64s(window.in_flight.iter().map(|of| of.integral.get()));
        let latencies: Vec<String> = window.latencies.iter().map(profile::Latencies::text).collect();
        rows.texts(window.latencies.iter().map(|of| name(&of.begin)));
        rows.texts(latencies.iter().map(String::as_str));
    }
    rows
}

/// The run itself: one row.
pub fn run(of: &Run, sent: UnixSeconds) -> RowBinary {
    let mut rows = RowBinary::new();
    let session = of.session();
    let (start, samples) = (&session.start, &session.samples);
    let length = session.end.map_or(samples.until, |end| end.duration);
    rows.row().text(&of.uid).time(of.started()).u64(start.started.get()).u64(length.get());
    rows.text(&of.machine).text(&of.host).text(&of.service).text(&of.version).text(&start.program);
    rows.text(&start.kernel).u32(start.cpus).text(&start.version).text(&start.sampler);
    rows.u64(start.sample_period.get()).u64(samples.until.get()).u64(samples.delayed.get());
    rows.u64(samples.count).u64(samples.weight.get()).u64(samples.lost);
    rows.u64(of.rows.windows.len() as u64);
    let known = || {
        of.rows
            .samples
            .iter()
            .filter_map(|of_region| Some((of_region, of.rows.regions.get(&of_region.region)?)))
    };
    let hashes: Vec<StackHash> = known().map(|(_, region)| region_hash(region)).collect();
    let counts: Vec<u64> = known().map(|(samples, _)| samples.count).collect();
    let weights: Vec<u64> = known().map(|(samples, _)| samples.weight.get()).collect();
    rows.hashes(hashes.into_iter()).u64s(counts.into_iter()).u64s(weights.into_iter()).time(sent);
    rows
}

/// The regions by their hashes.
pub fn read_regions(rows: Vec<RegionRow>) -> BTreeMap<StackHash, Region> {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let region = |row: RegionRow| {
        let region = Region {
            // A later version may know others.
            kind: RegionKind::from_name(&row.kind)?,
            inclusive: row.inclusive != 0,
            name: row.name,
            function: some(row.function),
            file: some(row.file),
            line: Some(row.line).filter(|line| *line > 0),
            image: Image { path: row.path, build_id: some(row.build_id) },
        };
        Some((row.region, region))
    };
    rows.into_iter().filter_map(region).collect()
}

/// A run from its row and those of its windows; `None` where these are not all there, or refer to what is not.
pub fn read_run(
    row: RunRow,
    mut windows: Vec<WindowRow>,
    known: &BTreeMap<StackHash, Region>,
) -> Option<Run> {
    // The same window may have been sent twice, if not by us.
    windows.sort_unstable_by_key(|window| (window.block, window.place));
    windows.dedup_by_key(|window| (window.block, window.place));
    if windows.len() as u64 != row.windows {
        return None;
    }
    let hashes: BTreeSet<StackHash> =
        windows.iter().map(|window| window.region).chain(row.regions.iter().copied()).collect();
    let ids: BTreeMap<StackHash, RegionId> = hashes.into_iter().zip((1..).map(RegionId::new)).collect();
    let mut rows = Rows::default();
    for (hash, id) in &ids {
        rows.regions.insert(*id, known.get(hash)?.clone());
    }
    let mut points: BTreeSet<(PointKind, String)> = BTreeSet::new();
    for window in &windows {
        for (kind, name) in window.point_kinds.iter().zip(&window.points) {
            points.insert((PointKind::from_name(kind)?, name.clone()));
        }
        points.extend(window.in_flight.iter().map(|name| (PointKind::Begin, name.clone())));
    }
    let points: BTreeMap<(PointKind, String), PointId> =
        points.into_iter().zip((1..).map(PointId::new)).collect();
    rows.points =
        points.iter().map(|((kind, name), id)| (*id, Point { name: name.clone(), kind: *kind })).collect();
    rows.windows =
        windows.into_iter().map(|window| read_window(window, &ids, &points)).collect::<Option<_>>()?;
    rows.samples = row
        .regions
        .iter()
        .zip(&row.region_samples)
        .zip(&row.region_weights_ns)
        .map(|((hash, count), weight)| RegionSamples {
            session: SESSION,
            region: ids[hash],
            count: *count,
            weight: Nanos::new(*weight),
        })
        .collect();
    rows.sessions = vec![Session {
        id: SESSION,
        start: SessionStart {
            started: Nanos::new(row.started_ns),
            program: row.program,
            host: row.host.clone(),
            kernel: row.kernel,
            cpus: row.cpus,
            version: row.whatif,
            sampler: row.sampler,
            sample_period: Nanos::new(row.sample_period_ns),
            ..SessionStart::default()
        },
        end: Some(SessionEnd { duration: Nanos::new(row.length_ns), exit: Exit::Unknown, stopped: false }),
        samples: SampleTotals {
            until: Nanos::new(row.sampled_until_ns),
            delayed: Nanos::new(row.delayed_ns),
            count: row.samples,
            weight: Nanos::new(row.sample_weight_ns),
            lost: row.lost_samples,
            timed: 0,
        },
        images: Vec::new(),
        arrivals: Vec::new(),
        programs: Vec::new(),
        threads: Vec::new(),
        overhead: Vec::new(),
    }];
    Some(Run {
        uid: row.run,
        machine: row.machine,
        host: row.host,
        service: row.service,
        version: row.version,
        rows,
    })
}

fn read_window(
    row: WindowRow,
    regions: &BTreeMap<StackHash, RegionId>,
    points: &BTreeMap<(PointKind, String), PointId>,
) -> Option<Window> {
    let mut visits = Vec::with_capacity(row.points.len());
    for (nth, (kind, name)) in row.point_kinds.iter().zip(row.points).enumerate() {
        let of = |numbers: &[i64]| numbers.get(nth).and_then(|number| u64::try_from(*number).ok());
        let span = of(&row.span_visits).zip(of(&row.span_elapsed_ns)).zip(of(&row.span_required_ns));
        visits.push(Visits {
            point: *points.get(&(PointKind::from_name(kind)?, name))?,
            count: *row.visits.get(nth)?,
            span: span.map(|((visits, elapsed), required)| Span {
                visits,
                elapsed: Nanos::new(elapsed),
                required: Nanos::new(required),
            }),
        });
    }
    visits.sort_unstable_by_key(|of| of.point);
    let mut in_flight = Vec::with_capacity(row.in_flight.len());
    for (name, integral) in row.in_flight.into_iter().zip(row.in_flight_visit_ns) {
        let begin = *points.get(&(PointKind::Begin, name))?;
        in_flight.push(InFlight { begin, integral: VisitNanos::new(integral) });
    }
    in_flight.sort_unstable_by_key(|of| of.begin);
    Some(Window {
        session: SESSION,
        block: row.block,
        index: row.place,
        region: *regions.get(&row.region)?,
        speedup: Speedup::from_per_mille(row.speedup_permille)?,
        epoch: Epoch::new(row.epoch),
        start: Nanos::new(row.start_ns),
        elapsed: Nanos::new(row.elapsed_ns),
        required: Nanos::new(row.required_ns),
        visits,
        in_flight,
        latencies: Vec::new(),
        region_samples: row.region_samples,
        region_weight: Nanos::new(row.region_weight_ns),
        total_samples: row.total_samples,
        total_weight: Nanos::new(row.total_weight_ns),
        books: Books {
            owed: Nanos::new(row.owed_ns),
            paid: Nanos::new(row.paid_ns),
            credited: Nanos::new(row.credited_ns),
            overslept: Nanos::new(row.overslept_ns),
            unpaid: Nanos::new(row.unpaid_ns),
        },
        audit: (!row.audit.is_empty()).then(|| Audit::of_slice(&row.audit)),
        threads: row.threads,
        busy: Some(row.busy).filter(|busy| *busy >= 0.0),
        flags: WindowFlags::from_names(&row.flags),
    })
}
