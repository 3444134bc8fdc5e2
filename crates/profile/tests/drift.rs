//! A program whose speed changes while it is measured, from its windows to what is reported about it.

use crate::synthetic::{Truth, rows};
use profile::*;

const CHANGE: i64 = 20;

/// Two regions, tried one after the other for this many blocks each; from block [`CHANGE`] on, everything is
/// slower by 40 %.
fn changed(blocks: i64) -> Rows {
    let truth = |name, slope| Truth { name, slope, noise: 0.03, blocks };
    let mut rows = rows(&[truth("hash.c:88", 0.4), truth("hash.c:90", 0.0)]);
    for window in rows.windows.iter_mut().filter(|window| window.block >= CHANGE) {
        window.visits[0].count = window.visits[0].count * 6 / 10;
    }
    rows
}

fn profile(rows: Rows) -> Profile {
    Profile::new(rows, &EstimateOptions::default())
}

fn estimate<'a>(profile: &'a Profile, name: &str) -> &'a PointEstimate {
    let of_name = |region: &&RegionEstimate| profile.region(region).name == name;
    &profile.regions.iter().find(of_name).unwrap().points[0]
}

#[test]
fn a_change_is_seen_where_it_happens() {
    let profile = profile(changed(40));
    let [drift] = &profile.drift[..] else { panic!("{:?}", profile.drift) };
    let [before, after] = drift.segments[..] else { panic!("{drift:?}") };
    // The last baseline before, and the first one after.
    assert_eq!((before.end, after.start), (Nanos::from_millis(19 * 200 + 100), Nanos::from_millis(20 * 200)));
    assert!((drift::change(&before.rate, &after.rate) + 0.4).abs() < 0.02, "{drift:?}");
    assert!((before.rate.value / 10_000.0 - 1.0).abs() < 0.02, "{drift:?}");
}

#[test]
fn blocks_before_and_after_are_not_compared() {
    let profile = profile(changed(40));
    let across = estimate(&profile, "hash.c:88");
    assert!(across.kept_apart);
    assert_eq!(across.pairing, 1.0);
    let slope = across.slope.unwrap();
    assert!(slope.lo <= 0.4 && 0.4 <= slope.hi && slope.half_width() < 0.05, "{slope:?}");
    // All blocks of this region come afterwards.
    let after = estimate(&profile, "hash.c:90");
    assert!(!after.kept_apart && after.pairing < 1.0, "{after:?}");
}

#[test]
fn without_a_change_nothing_is_kept_apart() {
    let truth = Truth { name: "hash.c:88", slope: 0.4, noise: 0.03, blocks: 40 };
    let profile = profile(rows(&[truth]));
    assert!(profile.drift.iter().all(|drift| !drift.changed()));
    let steady = estimate(&profile, "hash.c:88");
    assert!(!steady.kept_apart && steady.pairing < 1.0, "{steady:?}");
}

#[test]
fn a_window_that_may_lie_on_either_side_is_left_out() {
    let mut rows = changed(40);
    let treated =
        rows.windows.iter_mut().find(|window| window.block == CHANGE - 1 && window.index == 1).unwrap();
    treated.visits[0].count = 100_000;
    let profile = profile(rows);
    let across = estimate(&profile, "hash.c:88");
    assert_eq!(across.blocks, 39);
    let slope = across.slope.unwrap();
    assert!(slope.lo <= 0.4 && 0.4 <= slope.hi && slope.half_width() < 0.05, "{slope:?}");
    let explanation = profile.explain("hash.c:88").unwrap();
    let of_block = |block: i64| *explanation.points[0].blocks.iter().find(|row| row.block == block).unwrap();
    assert_eq!(of_block(CHANGE - 1).left_out, Some(LeftOutReason::Straddling));
    assert_eq!([CHANGE - 2, CHANGE].map(|block| of_block(block).left_out), [None, None]);
    assert_eq!([CHANGE - 1, CHANGE].map(|block| of_block(block).segment), [0, 1]);
}

#[test]
fn each_session_has_a_drift_of_its_own() {
    let mut rows = changed(20);
    rows.sessions.push(crate::synthetic::session(2));
    for window in rows.windows.iter_mut().filter(|window| window.block >= CHANGE) {
        window.session = SessionId::new(2);
    }
    let profile = profile(rows);
    assert_eq!(profile.drift.iter().map(|drift| drift.session.get()).collect::<Vec<_>>(), [1, 2]);
    assert!(profile.drift.iter().all(|drift| !drift.changed()));
}

#[test]
fn windows_on_a_busy_machine_are_counted() {
    let mut rows = changed(20);
    rows.windows[..5].iter_mut().for_each(|window| window.flags = WindowFlags::BUSY);
    rows.windows[5].flags = WindowFlags::UNMATCHED;
    assert_eq!(profile(rows).doubts, Doubts { windows: 80, busy: 5, unmatched: 1, settled: 0 });
}

/// What `hash.c:88` is worth before and after a change of speed, in a hundred recordings.
fn eras(before: f64, after: f64, differ: usize) {
    let mut differing = 0;
    for seed in 0..100 {
        let truth = |slope| Truth { name: "hash.c:88", slope, noise: 0.05, blocks: CHANGE };
        let mut rows = crate::synthetic::rows_of(seed, &[truth(before), truth(after)]);
        for window in rows.windows.iter_mut().filter(|window| window.block >= CHANGE) {
            window.visits[0].count = window.visits[0].count * 6 / 10;
            window.region = RegionId::new(1);
        }
        let options = EstimateOptions { method_error: 0.0, ..EstimateOptions::default() };
        let profile = Profile::new(rows, &options);
        let estimate = estimate(&profile, "hash.c:88");
        let [first, second] = estimate.eras[..] else { panic!("{:?}", estimate.eras) };
        assert_eq!((first.segment, second.segment), (0, 1));
        for (era, truth) in [(first, before), (second, after)] {
            assert!((era.slope.value - truth).abs() < 0.1 && era.blocks >= 19, "{era:?} instead of {truth}");
        }
        differing += usize::from(estimate.eras_differ);
    }
    assert!(differing.abs_diff(differ) <= 3, "{differing} of 100");
}

#[test]
fn code_that_mattered_until_the_change_is_told_from_code_that_still_does() {
    eras(0.5, 0.0, 100);
    eras(0.4, 0.4, 0);
}

#[test]
fn runs_before_and_after_a_change_are_not_compared() {
    let truth = Truth { name: "hash.c:88", slope: 0.4, noise: 0.03, blocks: 48 };
    let mut rows = rows(&[truth]);
    rows.sessions = (1..=24).map(crate::synthetic::session).collect();
    for window in &mut rows.windows {
        let run = window.block / 2 + 1;
        window.session = SessionId::new(run);
        if run > 12 {
            window.visits[0].count = window.visits[0].count * 6 / 10;
        }
    }
    let profile = profile(rows);
    assert!(profile.drift.iter().all(|drift| !drift.changed()), "two blocks in a run say nothing");
    let [drift] = &profile.run_drift[..] else { panic!("{:?}", profile.run_drift) };
    assert_eq!(drift.segments.iter().map(|segment| segment.sessions.len()).collect::<Vec<_>>(), [12, 12]);
    let estimate = estimate(&profile, "hash.c:88");
    assert!(estimate.kept_apart && estimate.pairing == 1.0 && !estimate.eras_differ, "{estimate:?}");
    let eras: Vec<(i64, usize)> = estimate.eras.iter().map(|era| (era.session.get(), era.blocks)).collect();
    assert_eq!(eras, [(1, 24), (13, 24)]);
}

#[test]
fn windows_made_for_another_point_do_not_count() {
    let truth = Truth { name: "hash.c:88", slope: 0.4, noise: 0.03, blocks: 40 };
    let mut rows = rows(&[truth]);
    let rare = PointId::new(2);
    rows.points.insert(rare, Point { name: "checkpoint".into(), kind: PointKind::Throughput });
    for window in &mut rows.windows {
        // Every other block is twenty times as long.
        let long = window.block % 2 == 0;
        if long {
            window.elapsed = Nanos::from_millis(2000);
            window.visits[0].count *= 20;
        }
        // Six in a long window, one in every fourth short one.
        let count = if long { 6 } else { u64::from(window.block % 4 == 1) };
        window.visits.push(Visits { point: rare, count, span: None });
    }
    let profile = profile(rows);
    let [often, seldom] = &profile.points[..] else { panic!("{:?}", profile.points) };
    let (often, seldom) = if often.name == "requests" { (often, seldom) } else { (seldom, often) };
    assert!(!seldom.idle && seldom.shortest > Nanos::from_millis(500), "{seldom:?}");
    assert!(often.shortest < Nanos::from_millis(1), "{often:?}");
    let region = &profile.regions[0];
    let of = |target| region.points.iter().find(|point| point.target == target).unwrap();
    let blocks = |target| of(target).blocks + of(target).disturbed;
    assert_eq!([blocks(often.target), blocks(seldom.target)], [40, 20]);
    let explanation = profile.explain("hash.c:88").unwrap();
    let of_seldom = explanation.points.iter().find(|point| point.target == seldom.target).unwrap();
    let short = of_seldom.blocks.iter().filter(|row| row.left_out == Some(LeftOutReason::Short)).count();
    assert_eq!(short, 20);
}
