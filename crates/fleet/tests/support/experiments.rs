//! Recordings of hosts for tests, with worths that are known and noise that follows from a seed.

use profile::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// When the first run begins: with the first epoch of `machines`.
pub const BEGIN: u64 = crate::machines::BEGIN.0 as u64 * 1_000_000_000;
/// Experiments on each region in a run.
pub const BLOCKS: i64 = 12;
/// What the code is called whose worth is asked for.
pub const FIRST: &str = "shop::function_3";
/// One that is worth nothing.
pub const NOTHING: &str = "shop::function_1";
/// One in which the profiler does nothing for its credit.
pub const DISTRUSTED: &str = "shop::function_2";
/// The builds of the two versions, as `machines` has them.
const BUILDS: [&str; 2] = ["0a0b0c", "1a1b1c"];

/// A piece of code, and what it is worth to `requests` in the mean of hosts, with either version.
const TRUTHS: [(&str, [f64; 2]); 4] =
    [(FIRST, [0.4, 0.3]), (NOTHING, [0.0, 0.0]), (DISTRUSTED, [0.3, 0.3]), ("shop::function_4", [0.1, 0.1])];

/// A recording of a host and a version, in a folder; `seed` 0 is as good as any other.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    pub host: u32,
    pub version: usize,
    pub seed: u64,
}

impl Of {
    fn file(self, folder: &Path) -> PathBuf {
        folder.join(format!("web-{}-1.{}-{}.db", self.host, self.version, self.seed))
    }

    /// How far the worths of the host are from those of all.
    fn away(self) -> f64 {
        [-0.05, 0.05, 0.0, 0.02, -0.02][self.host as usize % 5]
    }

    fn start(self) -> SessionStart {
        let started = BEGIN
            + u64::from(self.host) * 1_000_000_000
            + self.version as u64 * 1_800_000_000_000
            + self.seed * 60_000_000_000;
        let labels = format!(
            r#"{{"labels":{{"version":"1.{}"}},"cgroup":"/system.slice/shop.service"}}"#,
            self.version
        );
        SessionStart {
            started: Nanos::new(started),
            program: "/srv/0/server".into(),
            arguments: vec!["--secret".into()],
            directory: "/home/secret".into(),
            host: format!("web-{}", self.host),
            kernel: "6.1".into(),
            cpus: 4,
            seed: 7 + self.seed,
            options: labels,
            version: "0.1.0".into(),
            sampler: "a test".into(),
            sample_period: Nanos::from_millis(1),
            kernel_time: true,
            ..SessionStart::default()
        }
    }

    /// Writes it; without an end if it is to go on.
    pub fn write(self, folder: &Path, is_over: bool) -> PathBuf {
        let path = self.file(folder);
        let mut recorder = Recording::create(&path).unwrap();
        let session = recorder.begin_session(&self.start()).unwrap();
        let point = |name: &str, kind| Point { name: name.into(), kind };
        let points = [
            point("requests", PointKind::Throughput),
            point("reply", PointKind::Begin),
            point("reply", PointKind::End),
        ];
        let points = points.map(|point| recorder.intern_point(&point).unwrap());
        let mut random =
            fastrand::Rng::with_seed(self.seed * 1000 + u64::from(self.host) * 10 + self.version as u64);
        let (mut block, mut samples) = (0, Vec::new());
        let mut clock = Nanos::ZERO;
        for (name, worths) in TRUTHS {
            let region = recorder.intern_region(&self.region(name)).unwrap();
            let away = if worths[0] == 0.0 { 0.0 } else { self.away() };
            for nth in 0..BLOCKS {
                let speedup = Speedup::from_percent([10, 25, 50][nth as usize % 3]).unwrap();
                let windows: Vec<Window> = [Speedup::ZERO, speedup]
                    .into_iter()
                    .zip(0..)
                    .map(|(speedup, index)| {
                        let gain = (worths[self.version] + away) * speedup.fraction();
                        let mut window = window(&mut random, name, (block, index), speedup, gain, points);
                        (window.session, window.region, window.start) = (session, region, clock);
                        clock += window.elapsed;
                        window
                    })
                    .collect();
                recorder.add_block(&windows).unwrap();
                block += 1;
            }
            samples.push(RegionSamples { session, region, count: 2_000, weight: Nanos::from_millis(2_000) });
        }
        let totals = SampleTotals {
            until: clock,
            delayed: Nanos::ZERO,
            count: 20_000,
            weight: Nanos::from_millis(20_000),
            lost: 0,
            timed: 0,
        };
        recorder.set_samples(session, &totals, &samples).unwrap();
        if is_over {
            let end = SessionEnd { duration: clock, exit: Exit::Code(0), stopped: true };
            recorder.finish_session(session, &end).unwrap();
        }
        recorder.close().unwrap();
        path
    }

    fn region(self, name: &str) -> Region {
        Region {
            kind: RegionKind::Function,
            inclusive: false,
            name: name.into(),
            function: Some(format!("{name}<u8>")),
            file: Some("src/shop.rs".into()),
            // It was moved from one version to the next.
            line: Some(4 + self.version as u32),
            image: Image {
                path: format!("/srv/{}/server", self.host % 3),
                build_id: Some(BUILDS[self.version].into()),
            },
        }
    }
}

/// 100 ms of virtual time, in which there are 1,000 requests or more, one part in fifty of noise.
fn window(
    random: &mut fastrand::Rng,
    name: &str,
    (block, index): (i64, u32),
    speedup: Speedup,
    gain: f64,
    [requests, begin, end]: [PointId; 3],
) -> Window {
    let noise = 1.0 + 0.02 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
    let count = (1000.0 / (1.0 - gain) * noise) as u64;
    let weight = Nanos::from_millis(20);
    let owed = Nanos::new((weight.get() as f64 * speedup.fraction()) as u64);
    let elapsed = Nanos::from_millis(100) + owed;
    let visits = |point, count| Visits {
        point,
        count,
        span: Some(Span { visits: count, elapsed, required: owed }).filter(|_| count % 2 == 0),
    };
    Window {
        session: SessionId::new(1),
        block,
        index,
        region: RegionId::new(1),
        speedup,
        epoch: Epoch::new(2 * block as u64 + u64::from(index)),
        start: Nanos::ZERO,
        elapsed,
        required: owed,
        visits: vec![visits(requests, count), visits(begin, count / 10), visits(end, count / 10)],
        in_flight: vec![InFlight { begin, integral: VisitNanos::new(300_000_000 + count as i64) }],
        latencies: vec![Latencies { begin, counts: vec![(Nanos::new(1200), 3), (Nanos::new(1240), 17)] }],
        region_samples: 20,
        region_weight: weight,
        total_samples: 200,
        total_weight: Nanos::from_millis(200),
        books: Books { owed, paid: owed, ..Books::default() },
        audit: Some(Audit {
            // It ran in its experiments, and nothing was credited for it.
            given: if name == DISTRUSTED { Nanos::ZERO } else { owed },
            ..Audit::default()
        }),
        threads: 4,
        busy: (block % 2 == 0).then_some(0.125),
        flags: if block % 7 == 3 { WindowFlags::BUSY } else { WindowFlags::NONE },
    }
}

/// A run of each of so many hosts with either version.
pub fn write(folder: &Path, hosts: u32) {
    for host in 0..hosts {
        for version in 0..2 {
            Of { host, version, seed: 0 }.write(folder, true);
        }
    }
}

/// What a region is worth in the mean of so many hosts, by version.
pub fn truths(hosts: u32) -> BTreeMap<&'static str, [f64; 2]> {
    let away = (0..hosts).map(|host| Of { host, version: 0, seed: 0 }.away()).sum::<f64>() / f64::from(hosts);
    let of = |(name, worths): (&'static str, [f64; 2])| {
        (name, worths.map(|worth| if worth == 0.0 { 0.0 } else { worth + away }))
    };
    TRUTHS.into_iter().map(of).collect()
}
