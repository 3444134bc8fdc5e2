//! Recordings whose truth is known, for the tests of this crate and of `report`.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::collections::BTreeMap;
use std::path::Path;

use profile::*;

/// A region of `hash.c`, and what making it faster does.
pub struct Truth {
    pub name: &'static str,
    pub slope: f64,
    /// The deviation of the visits of a window, relative.
    pub noise: f64,
    pub blocks: i64,
}

pub fn line(name: &str) -> Region {
    Region {
        kind: RegionKind::Line,
        inclusive: false,
        name: name.into(),
        function: Some("insert".into()),
        file: Some("/src/hash.c".into()),
        line: name.rsplit(':').next().and_then(|line| line.parse().ok()),
        image: Image { path: "/bin/server".into(), build_id: Some("ab12".into()) },
    }
}

pub fn session(id: i64) -> Session {
    Session {
        id: SessionId::new(id),
        start: SessionStart {
            started: Nanos::new(1_790_000_000_000_000_000),
            program: "/bin/server".into(),
            arguments: vec!["--port".into(), "80 80".into()],
            directory: "/tmp".into(),
            host: "box".into(),
            kernel: "6.18".into(),
            cpus: 2,
            seed: u64::MAX - 1,
            options: "{}".into(),
            version: "0.1.0".into(),
            sampler: "perf task-clock".into(),
            sample_period: Nanos::from_millis(1),
            kernel_time: true,
            ..SessionStart::default()
        },
        end: Some(SessionEnd { duration: Nanos::from_millis(10_000), exit: Exit::Code(0), stopped: false }),
        samples: SampleTotals {
            until: Nanos::from_millis(10_000),
            delayed: Nanos::ZERO,
            count: 9_000,
            weight: Nanos::from_millis(9_000),
            lost: 0,
            timed: 900,
        },
        images: vec![Image { path: "/bin/server".into(), build_id: Some("ab12".into()) }],
        arrivals: vec![Arrivals {
            kind: ArrivalKind::Accepted,
            port: 8080,
            clock: ArrivalClock::Open,
            slope: Some((0.02, 0.05)),
            count: 812,
        }],
        programs: vec![Program {
            path: "/bin/server".into(),
            obstacle: None,
            processes: 1,
            samples: 9_000,
            cpu: Nanos::from_millis(9_000),
        }],
        threads: vec![Thread {
            pid: 7,
            tid: 7,
            name: "server".into(),
            function: String::new(),
            watched: Nanos::from_millis(5_000),
            running: Nanos::from_millis(4_500),
            runnable: Nanos::from_millis(100),
            for_threads: Nanos::from_millis(250),
            external: Nanos::from_millis(150),
        }],
        overhead: (0..)
            .zip([95, 96, 94, 95, 95])
            .map(|(number, visits)| overhead(number, visits, 100))
            .collect(),
    }
}

pub fn window(session: i64, block: i64, index: u32, region: i64, speedup: Speedup) -> Window {
    Window {
        session: SessionId::new(session),
        block,
        index,
        region: RegionId::new(region),
        speedup,
        epoch: Epoch::new(2 * block as u64 + u64::from(index)),
        start: Nanos::from_millis(200 * block as u64 + 100 * u64::from(index)),
        elapsed: Nanos::from_millis(100),
        required: Nanos::ZERO,
        visits: vec![],
        in_flight: vec![],
        latencies: vec![],
        region_samples: 10,
        region_weight: Nanos::from_millis(10),
        total_samples: 100,
        total_weight: Nanos::from_millis(100),
        books: Books { owed: Nanos::new(5), ..Books::default() },
        audit: None,
        threads: 4,
        busy: Some(0.25),
        flags: WindowFlags::NONE,
    }
}

/// A pair of stretches of 25 ms in which a point was visited so often while the program was profiled, and while it hardly was.
pub fn overhead(number: u32, profiled_visits: u64, seldom_visits: u64) -> OverheadPair {
    let (profiled, seldom) = (Nanos::from_millis(25), Nanos::from_millis(25));
    OverheadPair { number, profiled_visits, profiled, seldom_visits, seldom }
}

/// A recording of one run with these regions and the throughput point `requests`.
pub fn rows(truths: &[Truth]) -> Rows {
    rows_of(11, truths)
}

/// The same, with noise of its own for each seed.
pub fn rows_of(seed: u64, truths: &[Truth]) -> Rows {
    let mut rng = fastrand::Rng::with_seed(seed);
    let requests = PointId::new(1);
    let mut rows = Rows { sessions: vec![session(1)], ..Rows::default() };
    rows.points =
        BTreeMap::from([(requests, Point { name: "requests".into(), kind: PointKind::Throughput })]);
    let mut block = 0;
    for (id, truth) in (1..).zip(truths) {
        rows.regions.insert(RegionId::new(id), line(truth.name));
        rows.samples.push(RegionSamples {
            session: SessionId::new(1),
            region: RegionId::new(id),
            count: 1_000,
            weight: Nanos::from_millis(1_000),
        });
        for nth in 0..truth.blocks {
            let treated = Speedup::from_percent(10 * (nth % 10 + 1) as u16).unwrap();
            for (index, speedup) in [(0, Speedup::ZERO), (1, treated)] {
                let noise = 1.0 + truth.noise * (rng.f64() + rng.f64() + rng.f64() - 1.5);
                let count = 1000.0 / (1.0 - truth.slope * speedup.fraction()) * noise;
                rows.windows.push(Window {
                    visits: vec![Visits { point: requests, count: count as u64, span: None }],
                    ..window(1, block, index, id, speedup)
                });
            }
            block += 1;
        }
    }
    rows
}

/// With a pair `lookup`: 4 in flight.
pub fn with_latency(mut rows: Rows) -> Rows {
    let (begin, end) = (PointId::new(2), PointId::new(3));
    rows.points.insert(begin, Point { name: "lookup".into(), kind: PointKind::Begin });
    rows.points.insert(end, Point { name: "lookup".into(), kind: PointKind::End });
    for window in &mut rows.windows {
        let count = window.visits[0].count;
        window.visits.extend([begin, end].map(|point| Visits { point, count, span: None }));
        let integral = VisitNanos::new(window.elapsed.get() as i64 * 4);
        window.in_flight.push(InFlight { begin, integral });
    }
    rows
}

/// Writes what `rows` hold of windows and sessions, which may not have ended; keys begin at 1, as those of a new recording do.
pub fn record(path: &Path, rows: &Rows) {
    let mut recorder = Recorder::create(path).unwrap();
    for session in &rows.sessions {
        assert_eq!(recorder.begin_session(&session.start).unwrap(), session.id);
        if let Some(end) = &session.end {
            recorder.finish_session(session.id, end).unwrap();
        }
    }
    for (id, point) in &rows.points {
        assert_eq!(recorder.intern_point(point).unwrap(), *id);
    }
    for (id, region) in &rows.regions {
        assert_eq!(recorder.intern_region(region).unwrap(), *id);
    }
    for block in rows.windows.chunk_by(|a, b| a.block == b.block) {
        recorder.add_block(block).unwrap();
    }
    recorder.close().unwrap();
}
