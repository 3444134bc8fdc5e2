//! Simulated experiments whose truth is known: the estimators must find it, and must know how sure
//! they are.

use super::*;
use crate::model::{PointId, RegionId, SessionId, Visits, Window, WindowFlags};
use crate::units::{Epoch, Nanos, Speedup};

pub(crate) const POINT: PointId = PointId::new(1);
pub(super) const TARGET: Target = Target::Throughput(POINT);

/// A program, and how it is measured.
#[derive(Clone, Copy)]
pub(super) struct World {
    /// The true gain at a speedup.
    pub(super) gain: fn(f64) -> f64,
    pub(super) blocks: i64,
    /// Mean visits in a baseline window.
    pub(super) visits: f64,
    /// The relative deviation of a block's level from the mean.
    pub(super) drift: f64,
    /// Deviation of a window's visits, in units of counting noise: 1 is Poisson.
    pub(super) noise: f64,
    /// How many different speedups are tried, evenly up to 100 %.
    pub(super) speedups: u16,
    /// Whether one window in twenty is three times as noisy.
    pub(super) heavy: bool,
    /// The share of blocks with a window in which the program was suspended for nine tenths of the time.
    pub(super) disturbed: f64,
    /// How far inserted delays are off, as a share of themselves: a deviation, drawn once for all windows.
    pub(super) method: f64,
    /// How many treated windows share a baseline: `blocks` counts them, and they become fewer blocks.
    pub(super) sharing: i64,
}

pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

impl World {
    pub(super) fn run(&self, seed: u64) -> Vec<Window> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut windows = Vec::new();
        let off = self.method * normal(&mut rng);
        let mut level = 1.0;
        for block in 0..self.blocks {
            if block % self.sharing == 0 {
                level = 1.0 + self.drift * normal(&mut rng);
            }
            let nth = if self.speedups < 20 { block as u16 % self.speedups } else { rng.u16(0..20) };
            let treated = Speedup::from_percent(100 / self.speedups * (nth + 1)).unwrap();
            let hit = if rng.f64() < self.disturbed { rng.usize(0..2) } else { 2 };
            for (index, speedup) in [(0, Speedup::ZERO), (1, treated)] {
                let s = speedup.fraction();
                let required = 1e8 * 0.4 * s;
                // What the books say is not quite what the program was delayed by.
                let effective = 1.0 - 0.4 * s;
                let delayed = effective + off * 0.4 * s;
                let expected = self.visits * level * delayed / (1.0 - (self.gain)(s));
                let heavy = if self.heavy && rng.u8(0..20) == 0 { 3.0 } else { 1.0 };
                let noise = heavy * self.noise * expected.max(0.0).sqrt() * normal(&mut rng);
                let seen = expected + noise;
                let suspended = if hit == index as usize { 10 } else { 1 };
                windows.push(Window {
                    elapsed: Nanos::from_millis(100 * suspended),
                    required: Nanos::new(required as u64),
                    // Rounded at random, so that rounding adds no bias of its own.
                    visits: vec![Visits {
                        point: POINT,
                        count: (seen + rng.f64()).max(0.0) as u64,
                        span: None,
                    }],
                    ..window(block, index, speedup)
                });
            }
        }
        windows.retain(|window| window.index == 1 || window.block % self.sharing == 0);
        for window in &mut windows {
            window.index += (window.block % self.sharing) as u32;
            window.block /= self.sharing;
        }
        windows
    }
}

pub(crate) fn window(block: i64, index: u32, speedup: Speedup) -> Window {
    Window {
        session: SessionId::new(1),
        block,
        index,
        region: RegionId::new(1),
        speedup,
        epoch: Epoch::new(2 * block as u64 + u64::from(index)),
        start: Nanos::from_millis(200 * block as u64 + 100 * u64::from(index)),
        elapsed: Nanos::from_millis(100),
        required: Nanos::ZERO,
        visits: vec![],
        in_flight: vec![],
        latencies: vec![],
        region_samples: 40,
        region_weight: Nanos::from_millis(40),
        total_samples: 100,
        total_weight: Nanos::from_millis(100),
        books: Default::default(),
        audit: None,
        threads: 2,
        busy: None,
        flags: WindowFlags::NONE,
    }
}

/// As if nothing but noise were in the way.
pub(super) fn estimated(windows: &[Window], target: Target) -> PointEstimate {
    estimated_with(windows, target, 0.0)
}

pub(super) fn estimated_with(windows: &[Window], target: Target, method_error: f64) -> PointEstimate {
    let options = EstimateOptions { resamples: 300, method_error, ..EstimateOptions::default() };
    estimate(&experiments(windows).0[0], about(target), &Phase::ALWAYS, &options)
}

/// A target of which nothing is known.
pub(super) fn about<'a>(target: Target) -> About<'a> {
    About { target, drifts: &[], of_runs: &[], shortest: Nanos::ZERO, cpus: None, clients_are_here: false }
}

pub(super) const LINEAR: World = World {
    gain: |s| 0.4 * s,
    blocks: 30,
    visits: 50.0,
    drift: 0.0,
    noise: 1.0,
    speedups: 20,
    heavy: false,
    disturbed: 0.0,
    method: 0.0,
    sharing: 1,
};

#[test]
fn pairing_follows_the_drift() {
    let pairing =
        |world: World| (0..50).map(|seed| estimated(&world.run(seed), TARGET).pairing).sum::<f64>() / 50.0;
    let steady = pairing(World { blocks: 60, ..LINEAR });
    let drifting = pairing(World { blocks: 60, drift: 0.5, ..LINEAR });
    assert!(steady < 0.3 && drifting > 0.8, "{steady} {drifting}");
}

#[test]
fn latency_follows_littles_law() {
    let (begin, end) = (PointId::new(2), PointId::new(3));
    let target = Target::Latency { begin, end };
    let mut rng = fastrand::Rng::with_seed(7);
    let mut windows = Vec::new();
    for block in 0..40 {
        for s in [0.0, f64::from(rng.u16(1..=20)) / 20.0] {
            // Requests arrive 1000 times per effective second; each takes 4 ms, shrunk by half of s.
            let speedup = Speedup::from_per_mille((s * 1000.0) as u16).unwrap();
            let effective = 1e8 * (1.0 - 0.3 * s);
            let departures = effective * 1e-6 + 2.0 * normal(&mut rng);
            let in_flight = 4.0 * (1.0 - 0.5 * s) + 0.1 * normal(&mut rng);
            windows.push(Window {
                required: Nanos::new((1e8 - effective) as u64),
                visits: vec![Visits { point: end, count: departures as u64, span: None }],
                in_flight: vec![crate::model::InFlight {
                    begin,
                    integral: crate::units::VisitNanos::new((in_flight * 1e8) as i64),
                }],
                ..window(block, u32::from(s > 0.0), speedup)
            });
        }
    }
    let slope = estimated(&windows, target).slope.unwrap();
    assert!(slope.lo <= 0.5 && 0.5 <= slope.hi && slope.half_width() < 0.05, "{slope:?}");
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let windows = LINEAR.run(3);
    assert_eq!(estimated(&windows, TARGET), estimated(&windows, TARGET));
}

#[test]
fn an_idle_point_is_idle_and_disturbs_nobody() {
    let mut windows = LINEAR.run(3);
    let before = estimated(&windows, TARGET);
    let idle = Visits { point: PointId::new(9), count: 1, span: None };
    windows[5].visits.push(idle);
    assert_eq!(estimated(&windows, TARGET), before);
    let estimate = estimated(&windows, Target::Throughput(PointId::new(9)));
    assert_eq!((estimate.verdict, estimate.slope), (Verdict::Idle, None));
    assert!(estimate.curve.iter().all(|dot| dot.gain.is_none()));
}

#[test]
fn a_region_that_is_everything_may_leave_no_effective_time() {
    let mut windows = Vec::new();
    for block in 0..12 {
        let s = f64::from((block % 4 + 1) as u8) / 4.0;
        let speedup = Speedup::from_per_mille((s * 1000.0) as u16).unwrap();
        let visits = |count| vec![Visits { point: POINT, count, span: None }];
        windows.push(Window { visits: visits(100), ..window(block, 0, Speedup::ZERO) });
        let required = Nanos::new((s * 1e8 + 1e5) as u64); // the books are 0.1 % off
        windows.push(Window { visits: visits(100), required, ..window(block, 1, speedup) });
    }
    let estimate = estimated(&windows, TARGET);
    let slope = estimate.slope.unwrap();
    assert!((slope.value - 1.0).abs() < 0.01, "{slope:?}");
    assert_eq!(estimate.verdict, Verdict::Helps);
    assert_eq!(estimate.curve.len(), 5);
}

#[test]
fn windows_that_cannot_count_are_counted() {
    let half = Speedup::from_percent(50).unwrap();
    let mut overdrawn = window(3, 1, half);
    overdrawn.required = Nanos::from_millis(120);
    let windows = [
        window(0, 0, Speedup::ZERO),
        Window { flags: WindowFlags::UNBALANCED, ..window(0, 1, half) },
        Window { flags: WindowFlags::CUT, ..window(1, 0, Speedup::ZERO) },
        window(1, 1, half),
        overdrawn,
    ];
    let (experiments, left_out) = experiments(&windows);
    assert_eq!(left_out, LeftOutWindows { unbalanced: 1, cut: 1, overdrawn: 1, unpaired: 1 });
    assert_eq!((experiments.len(), experiments[0].windows()), (1, 1));
}
