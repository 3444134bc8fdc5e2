//! From our recordings to Coz's formats and back: what the estimators say stays the same.

use crate::synthetic::{Truth, rows, with_latency};
use profile::*;
use report::coz as to_coz;

/// Two runs with delays in them, a latency pair, and a region in a phase.
fn recording() -> Rows {
    let truth = |name, slope| Truth { name, slope, noise: 0.1, blocks: 40 };
    let mut rows =
        with_latency(rows(&[truth("hash.c:90", 0.1), truth("hash.c:88", 0.55), truth("hash.c:12", -0.5)]));
    for window in &mut rows.windows {
        // As much work in less time.
        window.required = Nanos::new((40_000_000.0 * window.speedup.fraction()) as u64);
        window.region_samples = 50;
        window.region_weight = Nanos::from_millis(50);
        for visits in &mut window.visits {
            visits.count = (visits.count as f64
                * window.elapsed.get().saturating_sub(window.required.get()) as f64
                / 1e8) as u64;
        }
    }
    for session in &mut rows.sessions {
        let length = Nanos::from_millis(30_000);
        session.samples.until = length;
        session.samples.delayed = rows.windows.iter().map(|window| window.required).sum();
        session.end = Some(SessionEnd { duration: length, exit: Exit::Code(0), stopped: false });
    }
    for samples in &mut rows.samples {
        (samples.count, samples.weight) = (7_000, Nanos::from_millis(7_000));
    }
    rows
}

fn profile(rows: Rows) -> Profile {
    Profile::new(rows, &EstimateOptions::default())
}

#[test]
fn estimates_agree() {
    let ours = profile(recording());
    for (format, text) in [("legacy", to_coz::render_legacy(&ours)), ("jsonl", to_coz::render_jsonl(&ours))] {
        let theirs = profile(coz::read(text.as_bytes(), "profile.coz").unwrap());
        assert_eq!(theirs.rows.windows.len(), ours.rows.windows.len(), "{format}");
        assert_eq!(theirs.left_out.windows.cut, 0, "none was under way at the end");
        assert_eq!(theirs.left_out.windows.unpaired, 0);
        let names = |profile: &Profile| -> Vec<String> {
            profile.points.iter().map(|point| format!("{} {}", point.target.kind(), point.name)).collect()
        };
        assert_eq!(names(&theirs), names(&ours));
        for region in &ours.regions {
            let name = &ours.region(region).name;
            let same = theirs.regions.iter().find(|other| theirs.region(other).name == *name).unwrap();
            assert!(
                (same.phase - region.phase).abs() < 0.02,
                "{format} {name}: {} {}",
                same.phase,
                region.phase
            );
            for (ours, theirs) in region.points.iter().zip(&same.points) {
                assert_eq!(theirs.verdict, ours.verdict, "{format} {name}");
                let (ours, theirs) = (ours.slope.unwrap(), theirs.slope.unwrap());
                let close = |one: f64, other: f64| (one - other).abs() < 0.02;
                assert!(
                    close(ours.value, theirs.value) && close(ours.lo, theirs.lo) && close(ours.hi, theirs.hi),
                    "{format} {name}: {ours:?} {theirs:?}"
                );
            }
        }
        let visits =
            |rows: &Rows| -> u64 { rows.windows.iter().flat_map(|w| &w.visits).map(|v| v.count).sum() };
        assert_eq!(visits(&theirs.rows), visits(&ours.rows), "{format}");
    }
}

#[test]
fn an_export_of_an_import_is_the_same_but_for_what_coz_has_not() {
    let ours = profile(recording());
    let first = to_coz::render_jsonl(&ours);
    let imported = profile(coz::read(first.as_bytes(), "profile.coz").unwrap());
    let second = to_coz::render_jsonl(&imported);
    assert_eq!(second.lines().count(), first.lines().count());
    let known = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("\"type\":\"samples\""));
        lines.map(str::to_owned).collect()
    };
    let (first, second) = (known(&first), known(&second));
    assert!(second.iter().all(|line| first.contains(line)));
}
