//! Calibration: over many simulated recordings, every number is right on average, and its interval holds
//! the truth as often as it says.

use std::collections::BTreeMap;

use super::simulation::{LINEAR, TARGET, World, about, estimated, estimated_with, normal, window};
use super::*;
use crate::model::{InFlight, PointId, Visits, Window};
use crate::units::{Nanos, VisitNanos};

const RUNS: u64 = 400;

/// How far off the guesses of many recordings were, and how often the interval held the truth.
#[derive(Clone, Copy, Default)]
struct Tally {
    n: f64,
    errors: f64,
    squares: f64,
    held: f64,
    width: f64,
}

impl Tally {
    fn add(&mut self, got: Estimate, truth: f64) {
        let error = got.value - truth;
        self.n += 1.0;
        self.errors += error;
        self.squares += error * error;
        self.held += f64::from(u8::from(got.lo <= truth && truth <= got.hi));
        self.width += got.half_width();
    }

    fn bias(&self) -> f64 {
        self.errors / self.n
    }

    fn rms(&self) -> f64 {
        (self.squares / self.n).sqrt()
    }

    fn coverage(&self) -> f64 {
        self.held / self.n
    }
}

/// What one number of many recordings is like.
fn tally(world: World, truth: f64, pick: fn(&PointEstimate) -> Option<Estimate>) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..RUNS {
        if let Some(got) = pick(&estimated(&world.run(seed), TARGET)) {
            tally.add(got, truth);
        }
    }
    assert!(tally.n > 0.8 * RUNS as f64);
    tally
}

type Shape = fn(f64) -> f64;

const SHAPES: [(&str, Shape); 9] = [
    ("no effect", |_| 0.0),
    ("linear 0.4", |s| 0.4 * s),
    ("linear 0.9", |s| 0.9 * s),
    ("flat from 25 %", |s| (0.9 * s).min(0.225)),
    ("flat from 50 %", |s| (0.6 * s).min(0.3)),
    ("flat from 75 %", |s| (0.8 * s).min(0.6)),
    ("slower from 33 %", |s| 0.9 * s.min(0.33) + 0.2 * (s - 0.33).max(0.0)),
    ("convex", |s| 0.3 * s + 0.3 * s * s),
    ("negative", |s| -0.5 * s),
];

/// How often an interval must hold the truth.
const HONEST: std::ops::RangeInclusive<f64> = 0.93..=0.98;

fn show(what: &str, tally: &Tally) {
    println!(
        "{what:20} bias {:+.4}  rms error {:.4}  the interval holds the truth in {:4.1} %, ± {:.4}",
        tally.bias(),
        tally.rms(),
        tally.coverage() * 100.0,
        tally.width / tally.n,
    );
}

#[test]
fn slopes() {
    for (what, world, truth) in [
        ("steady", LINEAR, 0.4),
        ("drifting", World { drift: 0.15, ..LINEAR }, 0.4),
        ("five visits", World { visits: 5.0, ..LINEAR }, 0.4),
        ("few blocks", World { blocks: 8, ..LINEAR }, 0.4),
        ("four speedups", World { speedups: 4, blocks: 16, ..LINEAR }, 0.4),
        ("noisy", World { noise: 2.0, drift: 0.05, ..LINEAR }, 0.4),
        ("heavy tails", World { heavy: true, visits: 200.0, ..LINEAR }, 0.4),
        ("contended", World { gain: |s| -0.5 * s, ..LINEAR }, -0.5),
        ("without effect", World { gain: |_| 0.0, ..LINEAR }, 0.0),
    ] {
        let slope = tally(world, truth, |e| e.slope);
        show(what, &slope);
        assert!(slope.bias().abs() < 0.15 * slope.rms(), "{what}");
        assert!(HONEST.contains(&slope.coverage()), "{what}");
    }
}

/// A table of what the curve is worth, against the dots: for programs of all shapes, in several worlds.
#[test]
fn curves() {
    let worlds = [
        ("4 speedups x 4 blocks, 50 visits", World { speedups: 4, blocks: 16, ..LINEAR }),
        ("4 x 12, 200 visits", World { speedups: 4, blocks: 48, visits: 200.0, ..LINEAR }),
        ("20 x 2, 50 visits", World { blocks: 40, ..LINEAR }),
        ("20 x 4, 50 visits, drift", World { blocks: 80, drift: 0.1, ..LINEAR }),
        ("20 x 4, 200 visits, heavy tails", World { blocks: 80, visits: 200.0, heavy: true, ..LINEAR }),
        ("20 x 12, 50 visits, noisy", World { blocks: 240, noise: 2.0, drift: 0.05, ..LINEAR }),
        ("20 x 12, 1000 visits", World { blocks: 240, visits: 1000.0, ..LINEAR }),
    ];
    for (what, world) in worlds {
        println!("{what}\n  shape              rms: raw   curve  at worst  coverage  at worst");
        let (mut all, mut effects) = (Tally::default(), Tally::default());
        for (shape, gain) in SHAPES {
            let mut dots: BTreeMap<Speedup, (Tally, Tally)> = BTreeMap::new();
            for seed in 0..60 {
                let estimate = estimated(&World { gain, ..world }.run(seed), TARGET);
                effects.add(estimate.effect.unwrap(), gain(REFERENCE.fraction()));
                for dot in &estimate.curve[1..] {
                    let (Some(value), Some(fitted)) = (dot.raw, dot.gain) else { continue };
                    let truth = gain(dot.speedup.fraction());
                    let (raw, curve) = dots.entry(dot.speedup).or_default();
                    raw.add(Estimate { value, ..fitted }, truth);
                    curve.add(fitted, truth);
                    all.add(fitted, truth);
                }
            }
            let over_dots =
                |part: fn(&(Tally, Tally)) -> f64| dots.values().map(part).sum::<f64>() / dots.len() as f64;
            let raw = over_dots(|(raw, _)| raw.rms());
            let curve = over_dots(|(_, curve)| curve.rms());
            let ratios = dots.values().map(|(raw, curve)| curve.rms() / raw.rms());
            let coverage = over_dots(|(_, curve)| curve.coverage());
            println!(
                "  {shape:17}     {raw:.4}  {curve:.4}      {:.2}     {:5.1}     {:5.1}",
                ratios.fold(0.0, f64::max),
                coverage * 100.0,
                dots.values().map(|(_, curve)| curve.coverage() * 100.0).fold(100.0, f64::min),
            );
            // Where there are many speedups, each learns from its neighbours; four have no near ones.
            let better = if world.speedups == 20 { 0.55 } else { 1.02 };
            assert!(curve < better * raw, "{what}, {shape}");
            assert!(coverage > 0.87, "{what}, {shape}");
        }
        println!("  all: {:.1} %; effects: {:.1} %", all.coverage() * 100.0, effects.coverage() * 100.0);
        assert!((0.93..=0.995).contains(&all.coverage()), "{what}");
        assert!((0.93..=1.0).contains(&effects.coverage()), "{what}");
    }
}

#[test]
fn effects_at_20_per_cent() {
    let capped = |s: f64| (0.9 * s).min(0.33);
    for (what, world, truth) in [
        ("linear", LINEAR, 0.08),
        ("few blocks", World { blocks: 8, ..LINEAR }, 0.08),
        ("capped", World { gain: capped, blocks: 60, visits: 200.0, ..LINEAR }, 0.18),
        ("capped, drifting", World { gain: capped, drift: 0.1, blocks: 120, ..LINEAR }, 0.18),
        ("contended", World { gain: |s| -0.5 * s, ..LINEAR }, -0.1),
    ] {
        let effect = tally(world, truth, |e| e.effect);
        show(what, &effect);
        assert!(effect.bias().abs() < 0.015, "{what}");
        // On a straight line the interval is wider than it need be: it allows for bends that are not there.
        assert!(effect.coverage() > 0.93, "{what}");
    }
}

#[test]
fn largest_gains() {
    let four = World { speedups: 4, blocks: 48, visits: 200.0, ..LINEAR };
    for (what, world, truth) in [
        ("linear", four, 0.4),
        ("flat from 50 %", World { gain: |s| (0.6 * s).min(0.3), ..four }, 0.3),
        ("flat from 25 %", World { gain: |s| (0.9 * s).min(0.225), ..four }, 0.225),
        ("worse at the end", World { gain: |s| 0.6 * s - 0.8 * (s - 0.5).max(0.0), ..four }, 0.3),
        ("contended", World { gain: |s| -0.5 * s, ..four }, 0.0),
    ] {
        let most = tally(world, truth, |e| e.most);
        show(what, &most);
        assert!(most.bias().abs() < 0.01, "{what}");
        assert!(most.coverage() > 0.93, "{what}");
    }
}

#[test]
fn bends() {
    let world = World { blocks: 80, visits: 200.0, ..LINEAR };
    for (what, gain, truth) in [
        ("flat from 25 %", (|s| (0.9 * s).min(0.225)) as Shape, 0.25),
        ("flat from 33 %", |s| (0.9 * s).min(0.297), 0.33),
        ("flat from 75 %", |s| (0.8 * s).min(0.6), 0.75),
    ] {
        let mut bend = Tally::default();
        for seed in 0..RUNS {
            if let Some(got) = estimated(&World { gain, ..world }.run(seed), TARGET).bend {
                bend.add(got, truth);
            }
        }
        show(what, &bend);
        assert!(bend.n > 0.8 * RUNS as f64, "{what}: {} found", bend.n);
        assert!(bend.bias().abs() < 0.03 && bend.coverage() > 0.93, "{what}");
    }
    // Nothing bends down here.
    for (shape, gain) in SHAPES.iter().filter(|(shape, _)| !shape.contains("from")) {
        let found = (0..RUNS)
            .filter(|&seed| estimated(&World { gain: *gain, ..world }.run(seed), TARGET).bend.is_some());
        let found = found.count();
        println!("{shape}: {found} bends in {RUNS} recordings");
        assert!(found as f64 <= 0.02 * RUNS as f64, "{shape}");
    }
}

/// In one block in twenty, one window takes ten times as long as it should.
#[test]
fn disturbed_blocks() {
    let plainly = |windows: &[Window]| {
        let mut pairs = experiments(windows).0[0].pairs(about(TARGET));
        pairs.pairs.append(&mut pairs.disturbed);
        fit::Fit::new(&pairs).unwrap().sums().slope()
    };
    for (what, world) in [
        ("steady", World { blocks: 60, ..LINEAR }),
        ("drifting", World { blocks: 60, drift: 0.15, ..LINEAR }),
        ("four speedups", World { blocks: 60, speedups: 4, ..LINEAR }),
        ("capped", World { blocks: 60, gain: |s| (0.9 * s).min(0.33), ..LINEAR }),
    ] {
        // A capped curve has no slope of its own: there it is that of the undisturbed recordings.
        let clean: Vec<f64> = (0..RUNS).map(|seed| plainly(&world.run(seed))).collect();
        let truth = clean.iter().sum::<f64>() / RUNS as f64;
        for disturbed in [0.0, 0.05] {
            let world = World { disturbed, ..world };
            let (mut plain, mut robust) = (Tally::default(), Tally::default());
            for seed in 0..RUNS {
                let windows = world.run(seed);
                let slope = estimated(&windows, TARGET).slope.unwrap();
                robust.add(slope, truth);
                plain.add(Estimate { value: plainly(&windows), ..slope }, truth);
            }
            show(&format!("{what}, {:.0} %", 100.0 * disturbed), &robust);
            let ratio = robust.rms() / plain.rms();
            println!("    rms error against plain: {ratio:.3}");
            // Efficiency is the ratio of mean squares.
            assert!(ratio.powi(2) < if disturbed > 0.0 { 0.25 } else { 1.0 / 0.95 }, "{what}");
            assert!(robust.coverage() > 0.93, "{what}");
        }
    }
}

/// Other profilers make more treated windows than baselines, so that several share one: intervals must know that
/// these are not several experiments.
#[test]
fn shared_baselines() {
    let shared = World { blocks: 90, sharing: 3, ..LINEAR };
    for (what, world) in [
        ("steady", shared),
        ("drifting", World { drift: 0.15, ..shared }),
        ("wild", World { drift: 0.5, ..shared }),
        ("noisy", World { noise: 2.0, drift: 0.3, ..shared }),
        ("without effect", World { gain: |_| 0.0, drift: 0.5, ..shared }),
    ] {
        let truth = (world.gain)(1.0);
        let (mut slope, mut gains) = (Tally::default(), Tally::default());
        for seed in 0..RUNS {
            let estimate = estimated(&world.run(seed), TARGET);
            assert!(estimate.blocks <= 30, "what shares a baseline counts once");
            slope.add(estimate.slope.unwrap(), truth);
            for dot in &estimate.curve[1..] {
                let Some(gain) = dot.gain else { continue };
                gains.add(gain, (world.gain)(dot.speedup.fraction()));
            }
        }
        show(what, &slope);
        show("  the curve", &gains);
        assert!(slope.bias().abs() < 0.15 * slope.rms(), "{what}");
        assert!(HONEST.contains(&slope.coverage()), "{what}");
        assert!((0.92..=1.0).contains(&gains.coverage()), "{what}");
    }
}

#[test]
fn latencies() {
    let (begin, end) = (PointId::new(2), PointId::new(3));
    let mut slope = Tally::default();
    for seed in 0..RUNS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut windows = Vec::new();
        for block in 0..40 {
            let level = 1.0 + 0.05 * normal(&mut rng);
            for s in [0.0, f64::from(rng.u16(1..=20)) / 20.0] {
                // Requests arrive 1000 times per effective second; each takes 4 ms, shrunk by half of s.
                let effective = 1e8 * (1.0 - 0.3 * s);
                let departures = effective * 1e-6 * level;
                let departures = departures + departures.sqrt() * normal(&mut rng) + rng.f64();
                let in_flight = 4.0 * level * (1.0 - 0.5 * s) + 0.2 * normal(&mut rng);
                windows.push(Window {
                    required: Nanos::new((1e8 - effective) as u64),
                    visits: vec![Visits { point: end, count: departures as u64, span: None }],
                    in_flight: vec![InFlight { begin, integral: VisitNanos::new((in_flight * 1e8) as i64) }],
                    ..window(block, u32::from(s > 0.0), Speedup::from_per_mille((s * 1000.0) as u16).unwrap())
                });
            }
        }
        slope.add(estimated(&windows, Target::Latency { begin, end }).slope.unwrap(), 0.5);
    }
    show("latency", &slope);
    assert!(slope.bias().abs() < 0.15 * slope.rms() && HONEST.contains(&slope.coverage()));
}

/// A method that is off by as much as the estimator takes for granted, by another share in every recording: intervals
/// hold the truth however many experiments there are.
#[test]
fn the_error_of_the_method() {
    for (what, world) in [
        ("30 blocks", LINEAR),
        ("300 blocks", World { blocks: 300, visits: 500.0, ..LINEAR }),
        ("without effect", World { blocks: 300, visits: 500.0, gain: |_| 0.0, ..LINEAR }),
    ] {
        let world = World { method: METHOD_ERROR, ..world };
        let truth = (world.gain)(1.0);
        let (mut slope, mut half) = (Tally::default(), Tally::default());
        for seed in 0..RUNS {
            let estimate = estimated_with(&world.run(seed), TARGET, METHOD_ERROR);
            slope.add(estimate.slope.unwrap(), truth);
            let at_half = estimate.curve.iter().find(|dot| dot.speedup.per_mille() == 500);
            if let Some(gain) = at_half.and_then(|dot| dot.gain) {
                half.add(gain, (world.gain)(0.5));
            }
        }
        show(what, &slope);
        show("  at 50 %", &half);
        assert!(slope.bias().abs() < 0.2 * slope.rms(), "{what}");
        assert!((0.92..=0.99).contains(&slope.coverage()), "{what}");
        assert!((0.92..=1.0).contains(&half.coverage()), "{what}");
    }
}

/// How slopes of two recordings differ, as `compare` sees it: by chance, and if the region really became worth more.
#[test]
fn differences_of_slopes() {
    for (what, before, after) in [
        ("unchanged", LINEAR, World { blocks: 20, ..LINEAR }),
        ("more", LINEAR, World { gain: |s| 0.6 * s, visits: 200.0, ..LINEAR }),
        ("noisy and drifting", World { noise: 2.0, ..LINEAR }, World { drift: 0.1, ..LINEAR }),
    ] {
        let truth = (after.gain)(1.0) - (before.gain)(1.0);
        let mut difference = Tally::default();
        for seed in 0..RUNS {
            let (a, b) = (estimated(&before.run(seed), TARGET), estimated(&after.run(seed + RUNS), TARGET));
            let apart = Difference::new((&a.slope.unwrap(), a.blocks), (&b.slope.unwrap(), b.blocks));
            difference.add(apart.unwrap().estimate, truth);
        }
        show(what, &difference);
        assert!(difference.bias().abs() < 0.15 * difference.rms(), "{what}");
        assert!((0.92..=0.985).contains(&difference.coverage()), "{what}");
    }
}

/// A region that runs for a part of every run: what it is worth in its windows, times that part, with its error.
#[test]
fn phases() {
    for (share, blocks) in [(0.6, 40), (0.3, 40), (0.3, 12)] {
        let mut slope = Tally::default();
        for seed in 0..RUNS {
            let mut rng = fastrand::Rng::with_seed(seed ^ 0xface);
            let mut windows = World { blocks, visits: 200.0, ..LINEAR }.run(seed);
            let mut weight = 0.0;
            for window in &mut windows {
                // It takes 40 % of its windows, more or less.
                let own = 0.4 * (1.0 + 0.15 * normal(&mut rng)) * (1.0 - 0.4 * window.speedup.fraction());
                window.region_weight = Nanos::new((own * 1e8) as u64);
                window.region_samples = (own * 100.0) as u64;
                weight += own * 1e8;
            }
            // The rest of its phase, and then the rest of the run, without experiments on it.
            let in_phase = 3.0 * weight / 0.4;
            let rows = crate::model::Rows {
                sessions: vec![session(in_phase / share)],
                samples: vec![crate::model::RegionSamples {
                    session: windows[0].session,
                    region: windows[0].region,
                    count: (0.4 * in_phase / 1e6) as u64,
                    weight: Nanos::new((0.4 * in_phase) as u64),
                }],
                ..Default::default()
            };
            let (experiments, _) = experiments(&windows);
            let phase = phase_of(&experiments[0], &rows, &TreatedSums::default());
            let options = EstimateOptions { resamples: 300, method_error: 0.0, ..EstimateOptions::default() };
            slope.add(estimate(&experiments[0], about(TARGET), &phase, &options).slope.unwrap(), 0.4 * share);
        }
        show(&format!("phase of {share}, {blocks}"), &slope);
        assert!(slope.bias().abs() < 0.2 * slope.rms(), "{share}");
        assert!((0.92..=0.985).contains(&slope.coverage()), "{share}");
    }
}

/// A run of this many nanoseconds.
fn session(duration: f64) -> crate::model::Session {
    let until = Nanos::new(duration as u64);
    crate::model::Session {
        id: crate::model::SessionId::new(1),
        start: Default::default(),
        end: None,
        samples: crate::model::SampleTotals { until, ..Default::default() },
        images: vec![],
        arrivals: vec![],
        programs: vec![],
        threads: vec![],
        overhead: vec![],
    }
}
