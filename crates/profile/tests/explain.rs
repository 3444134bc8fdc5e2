//! Explanations: every number can be computed again from what is shown.

use std::collections::BTreeMap;

use crate::synthetic::{Truth, line, rows, with_latency};
use profile::*;

fn some_rows() -> Rows {
    let truth = |name, slope| Truth { name, slope, noise: 0.05, blocks: 20 };
    rows(&[truth("hash.c:88", 0.5), truth("hash.c:12", 0.0)])
}

fn profile(rows: Rows) -> Profile {
    Profile::new(rows, &EstimateOptions::default())
}

#[track_caller]
fn same(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

/// What the formulas of the documentation make of the rows of an explanation.
fn by_hand(blocks: &[BlockRow], pairing: f64) -> (f64, BTreeMap<Speedup, f64>) {
    let firsts = blocks.iter().filter(|row| row.baseline_left_out.is_none()).filter_map(|row| row.baseline);
    let (v0, e0) = firsts.fold((0.0, 0.0), |(v, e), base| (v + base.visits as f64, e + base.amount));
    let level = v0 / e0;
    let (mut over, mut under) = (0.0, 0.0);
    let mut sums: BTreeMap<Speedup, (f64, f64)> = BTreeMap::new();
    for row in blocks.iter().filter(|row| row.left_out.is_none()) {
        let (base, (speedup, treated)) = (row.baseline.unwrap(), row.treated.unwrap());
        let own = treated.amount * base.visits as f64 / base.amount;
        let expected = pairing * own + (1.0 - pairing) * level * treated.amount;
        let (s, v) = (speedup.fraction(), treated.visits as f64);
        over += s * (v - expected);
        under += s * s * v;
        let (u_sum, v_sum) = sums.entry(speedup).or_default();
        *u_sum += expected;
        *v_sum += v;
    }
    (over / under, sums.into_iter().map(|(speedup, (u, v))| (speedup, 1.0 - u / v)).collect())
}

#[test]
fn numbers_can_be_computed_again() {
    let mut rows = with_latency(some_rows());
    rows.samples[0].weight = Nanos::from_millis(500); // half of the run
    rows.windows[3].flags = WindowFlags::UNBALANCED;
    rows.windows[11].visits.iter_mut().for_each(|visits| visits.count /= 10);
    let profile = profile(rows);
    let explanation = profile.explain("hash.c:88").unwrap();
    let region = explanation.estimate.unwrap();
    assert_eq!((region.phase, explanation.phase.unwrap().factor), (0.5, 0.5));
    assert_eq!(explanation.points.len(), 2);
    for (point, estimate) in explanation.points.iter().zip(&region.points) {
        assert_eq!((point.target, estimate.blocks, estimate.disturbed), (estimate.target, 18, 1));
        let disturbed = &point.blocks[5];
        let why = Some(LeftOutReason::Disturbed);
        assert_eq!((disturbed.left_out, disturbed.baseline_left_out), (why, why));
        let working = point.working.as_ref().unwrap();
        assert_eq!(working.pairing, estimate.pairing);
        let (slope, gains) = by_hand(&point.blocks, working.pairing);
        same(slope, working.slope());
        same(slope * region.phase, estimate.slope.unwrap().value);
        same(working.effect * region.phase, estimate.effect.unwrap().value);
        same(working.shares.line + working.shares.bent + working.shares.smooth, 1.0);
        for (sum, dot) in working.speedups.iter().zip(&estimate.curve[1..]) {
            assert_eq!(sum.speedup, dot.speedup);
            same(gains[&sum.speedup], sum.gain);
            same(sum.gain, 1.0 - (sum.own + sum.all) / sum.visits);
            same(sum.gain * region.phase, dot.raw.unwrap());
            same(sum.curve.unwrap() * region.phase, dot.gain.unwrap().value);
            assert!(sum.gain_error.is_some_and(|error| error > 0.0));
        }
    }
}

#[test]
fn readings_are_those_of_the_windows() {
    let mut rows = with_latency(some_rows());
    rows.windows[1].required = Nanos::from_millis(20);
    let span = Span { visits: 990, elapsed: Nanos::from_millis(98), required: Nanos::from_millis(19) };
    rows.windows[1].visits[0].span = Some(span);
    let ends = rows.windows[1].visits[2].count;
    let profile = profile(rows);
    let points = profile.explain("hash.c:88").unwrap().points;
    // From visit to visit, where that is known.
    let (_, reading) = points[0].blocks[0].treated.unwrap();
    assert_eq!((reading.elapsed, reading.inserted, reading.visits), (span.elapsed, span.required, 990));
    same(reading.period_ns().unwrap(), 79e6 / 990.0);
    // Little's law: 4 in flight, `ends` in 80 ms.
    let (_, reading) = points[1].blocks[0].treated.unwrap();
    assert_eq!((reading.elapsed, reading.visits), (Nanos::from_millis(100), ends));
    same(reading.period_ns().unwrap(), 4.0 * 80e6 / ends as f64);
}

#[test]
fn what_is_left_out_says_why() {
    let mut rows = some_rows();
    rows.windows[1].flags = WindowFlags::UNBALANCED;
    rows.windows[2].flags = WindowFlags::CUT;
    rows.windows[5].required = Nanos::from_millis(120);
    let profile = profile(rows);
    let explanation = profile.explain("hash.c:88").unwrap();
    let why: Vec<_> =
        explanation.points[0].blocks[..4].iter().map(|row| (row.baseline_left_out, row.left_out)).collect();
    use LeftOutReason::{Cut, Overdrawn, Unbalanced, Unpaired};
    let expected =
        [(None, Some(Unbalanced)), (Some(Cut), Some(Unpaired)), (None, Some(Overdrawn)), (None, None)];
    assert_eq!(why, expected);
    assert_eq!(explanation.points[0].blocks.len(), 20);
    // Only windows that count are in the books: each owes 5.
    let owed: u64 = explanation.books.iter().map(|(_, books)| books.owed.get()).sum();
    assert_eq!(owed, 5 * (40 - 3));
}

#[test]
fn regions_without_estimate_are_explained_too() {
    let mut rows = some_rows();
    rows.windows.retain(|window| window.block < 3 || window.block >= 20);
    let profile = profile(rows);
    let explanation = profile.explain("hash.c:88").unwrap();
    assert_eq!(explanation.estimate.unwrap_err(), WithoutEstimate::FewSpeedups);
    assert_eq!(explanation.points[0].blocks.len(), 3);
    assert!(explanation.points[0].working.is_some());

    let mut rows = some_rows();
    rows.windows.retain(|window| !window.speedup.is_zero());
    let profile = Profile::new(rows, &EstimateOptions::default());
    let explanation = profile.explain("hash.c:88").unwrap();
    assert_eq!(explanation.estimate.unwrap_err(), WithoutEstimate::WithoutBaseline);
    assert!(explanation.phase.is_none() && explanation.points[0].working.is_none());
    assert_eq!(explanation.points[0].blocks[0].left_out, Some(LeftOutReason::Unpaired));
}

#[test]
fn a_region_is_found_by_what_only_it_is_called() {
    let mut rows = some_rows();
    let work = |image: &str| Region {
        kind: RegionKind::Function,
        name: "work".into(),
        function: Some("server::work<Fast>".into()),
        line: Some(80),
        image: Image { path: image.into(), build_id: None },
        ..line("hash.c:80")
    };
    for (nth, region) in
        [work("/bin/a"), work("/bin/b"), Region { name: "work_more".into(), ..work("/bin/a") }]
            .into_iter()
            .enumerate()
    {
        let id = RegionId::new(10 + nth as i64);
        rows.regions.insert(id, region);
        rows.windows.push(Window { session: SessionId::new(9), region: id, ..rows.windows[nth].clone() });
    }
    let profile = profile(rows);
    let found = |wanted: &str| profile.explain(wanted).map(|explanation| explanation.region.get());
    assert_eq!(found("hash.c:88"), Ok(1));
    assert_eq!(found("c:12"), Ok(2));
    assert_eq!(found("more"), Ok(12));
    assert_eq!(found("work_more hash.c:80"), Ok(12));
    assert_eq!(found("work hash.c:80 (/src/hash.c, /bin/b)"), Ok(11));
    // Exactly this name; two images have it.
    let said = found("work").unwrap_err().to_string();
    assert!(said.starts_with("2 regions have `work`"), "{said}");
    assert!(said.contains("\n  work hash.c:80 (/src/hash.c, /bin/a)\n"), "{said}");
    let said = found("hash\n.c").unwrap_err().to_string();
    assert!(said.starts_with(r"no region that was tried has `hash\n.c` in its name"), "{said}");
    assert!(said.contains("\n  hash.c:88\n") && said.lines().count() == 6, "{said}");
    let nothing = Profile::new(Rows::default(), &EstimateOptions::default());
    assert_eq!(nothing.explain("x").unwrap_err(), Unexplained::NoWindows);
}

#[test]
fn shorter_is_better_whatever_becomes_shorter() {
    // Visits grow by the same factor in the same time, with as much in flight: period and latency shrink
    // together, and both are gains.
    for (slope, verdict) in [(0.5, Verdict::Helps), (-0.5, Verdict::Hurts)] {
        let truth = Truth { name: "hash.c:88", slope, noise: 0.02, blocks: 20 };
        let profile = profile(with_latency(rows(&[truth])));
        let [throughput, latency] = &profile.regions[0].points[..] else { panic!() };
        assert_eq!((throughput.verdict, latency.verdict), (verdict, verdict));
        for estimate in [throughput, latency] {
            let (got, effect) = (estimate.slope.unwrap().value, estimate.effect.unwrap().value);
            assert!((got - slope).abs() < 0.05 && effect.signum() == slope.signum(), "{estimate:?}");
            let dots = estimate.curve.iter().filter(|dot| dot.speedup.fraction() > 0.3);
            assert!(dots.into_iter().all(|dot| dot.gain.unwrap().value.signum() == slope.signum()));
        }
    }
}

#[test]
fn a_queue_that_grows_is_noticed() {
    let mut rows = with_latency(some_rows());
    for window in &mut rows.windows[..7] {
        window.visits[1].count *= 2;
    }
    let profile = profile(rows);
    assert_eq!(profile.points[0].unsteady, None);
    assert_eq!(profile.points[1].unsteady, Some(Unsteady { growing: 7, shrinking: 0, windows: 80 }));
    let explanation = profile.explain("hash.c:88").unwrap();
    let unsteady = explanation.points[1].blocks.iter().filter(|row| row.unsteady).count();
    assert_eq!(unsteady, 4); // 7 windows are in 4 blocks
}

#[test]
fn less_than_nothing_in_flight_is_nothing() {
    let mut rows = with_latency(some_rows());
    rows.windows[0].in_flight[0].integral = VisitNanos::new(-5);
    let profile = profile(rows);
    let row = profile.explain("hash.c:88").unwrap().points[1].blocks[0];
    assert_eq!((row.baseline.unwrap().amount, row.gain()), (0.0, None));
    assert!(profile.points[1].latency.unwrap() > Nanos::ZERO);
}
