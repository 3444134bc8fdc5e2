//! Comparisons of recordings whose truth is known.

use crate::synthetic::{Truth, rows_of, session};
use profile::*;

/// A recording of `hash.c`, with these slopes; `level` is how many visits there are for each that is usual.
fn recording(seed: u64, level: f64, truths: &[(&'static str, f64)]) -> Rows {
    let truth = |&(name, slope)| Truth { name, slope, noise: 0.05, blocks: 40 };
    let mut rows = rows_of(seed, &truths.iter().map(truth).collect::<Vec<_>>());
    rows.sessions[0].start.started = Nanos::new(seed);
    for visits in rows.windows.iter_mut().flat_map(|window| &mut window.visits) {
        visits.count = (visits.count as f64 * level) as u64;
    }
    rows
}

fn profile(rows: Rows) -> Profile {
    Profile::new(rows, &EstimateOptions::default())
}

fn compare<'a>(before: &'a Profile, after: &'a Profile) -> Comparison<'a> {
    Comparison::new(before, after, &EstimateOptions::default())
}

/// Name and change of every region, in order.
fn changes(comparison: &Comparison<'_>) -> Vec<(String, Change)> {
    let ranked = comparison.ranked(0).into_iter();
    ranked.map(|(region, slope)| (region.region().name.clone(), slope.change)).collect()
}

fn codes<'a>(comparison: &'a Comparison<'_>) -> Vec<&'a str> {
    comparison.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

const USUAL: [(&str, f64); 3] = [("hash.c:88", 0.5), ("hash.c:90", 0.1), ("hash.c:12", 0.0)];

#[test]
fn nothing_changed() {
    let mut certain = 0;
    for seed in 0..20 {
        let (a, b) = (profile(recording(seed, 1.0, &USUAL)), profile(recording(seed + 100, 1.0, &USUAL)));
        let comparison = compare(&a, &b);
        for (name, change) in changes(&comparison) {
            assert!(matches!(change, Change::Unchanged | Change::CannotTell), "{seed}: {name} {change:?}");
        }
        certain += usize::from(comparison.points[0].sign().is_some());
        if seed == 0 {
            assert_eq!(
                comparison.sentence(),
                "It is not clear yet whether `requests` takes less time or more time than before: 0.3 % more time, but anything from 0.5 % \
                 less time to 1.1 % more time fits the data; no region is worth more or less than before."
            );
            let said = comparison.headline(comparison.first_point().unwrap());
            assert_eq!(said.headline, "Not certain: 0.3 % ± 0.8 more time per `requests`");
            assert_eq!(
                said.brings.as_deref(),
                Some("Anything from 0.5 % less time to 1.1 % more time fits the data")
            );
            assert_eq!(said.rest, "No region is worth more or less than before.");
        }
    }
    // One in twenty is what 95 % means.
    assert!(certain <= 3, "{certain} of 20 recordings without any change");
}

#[test]
fn a_region_became_critical_and_another_no_longer_is() {
    let a = profile(recording(1, 1.0, &USUAL));
    let b = profile(recording(2, 1.25, &[("hash.c:88", 0.0), ("hash.c:90", 0.1), ("hash.c:12", 0.4)]));
    let comparison = compare(&a, &b);
    assert_eq!(
        changes(&comparison),
        [
            ("hash.c:12".into(), Change::BecameCritical),
            ("hash.c:88".into(), Change::NoLongerCritical),
            ("hash.c:90".into(), Change::Unchanged),
        ]
    );
    // 1.25 times the visits: a fifth of the period is gone.
    let gain = comparison.points[0].gain.unwrap();
    assert!(gain.lo < 0.2 && 0.2 < gain.hi && gain.half_width() < 0.02, "{gain:?}");
    assert_eq!(
        comparison.sentence(),
        "`requests` takes 20.1 % ± 0.5 % less time than before (1.3 × the throughput); `hash.c:12` became critical, and `hash.c:88` is no \
         longer critical."
    );
    let (_, slope) = comparison.ranked(0)[0];
    let difference = slope.difference.unwrap();
    assert!(difference.lo < 0.4 && 0.4 < difference.hi, "{difference:?}");

    // The other way round, everything is the other way round.
    let back = compare(&b, &a);
    assert_eq!(changes(&back)[0], ("hash.c:88".into(), Change::BecameCritical));
    assert!(back.points[0].gain.unwrap().hi < 0.0);
    assert!(back.sentence().contains("more time than before"), "{}", back.sentence());
}

#[test]
fn more_and_less() {
    let a = profile(recording(1, 1.0, &[("hash.c:88", 0.3), ("hash.c:90", 0.6), ("hash.c:12", -0.6)]));
    let b = profile(recording(2, 1.0, &[("hash.c:88", 0.6), ("hash.c:90", 0.3), ("hash.c:12", -0.1)]));
    let comparison = compare(&a, &b);
    let change = |name: &str| changes(&comparison).into_iter().find(|(n, _)| n == name).unwrap().1;
    assert_eq!(
        [change("hash.c:88"), change("hash.c:90"), change("hash.c:12")],
        [Change::More, Change::Less, Change::More]
    );
    assert!(
        comparison.sentence().ends_with(
            "`hash.c:12` and `hash.c:88` are worth more than before, and `hash.c:90` is worth less than before."
        ),
        "{}",
        comparison.sentence()
    );
}

#[test]
fn a_line_that_moved_is_found_by_its_text() {
    let source = |rows: &mut Rows, first_line| {
        let text = "  for (;;)\n    hash(key);\n  done();".to_owned();
        rows.snippets.insert(RegionId::new(1), Snippet { first_line, text });
    };
    let mut before = recording(1, 1.0, &[("hash.c:88", 0.0)]);
    source(&mut before, 87);
    let mut after = recording(2, 1.0, &[("hash.c:95", 0.5)]);
    source(&mut after, 94);
    let (a, b) = (profile(before), profile(after.clone()));
    assert_eq!(changes(&compare(&a, &b)), [("hash.c:95".into(), Change::BecameCritical)]);

    after.snippets.clear();
    let b = profile(after);
    assert_eq!(
        changes(&compare(&a, &b)),
        [("hash.c:95".into(), Change::OnlyAfter), ("hash.c:88".into(), Change::OnlyBefore)]
    );
}

#[test]
fn a_region_that_one_recording_did_not_try_cannot_be_told() {
    let a = profile(recording(1, 1.0, &USUAL));
    let mut rows = recording(2, 1.0, &USUAL);
    rows.windows.retain(|window| window.region != RegionId::new(1));
    let b = profile(rows);
    let comparison = compare(&a, &b);
    assert!(changes(&comparison).contains(&("hash.c:88".into(), Change::CannotTell)));
    assert!(
        comparison.sentence().ends_with("of one region it is not known yet."),
        "{}",
        comparison.sentence()
    );
}

#[test]
fn points_are_matched_by_name_and_kind() {
    let a = profile(recording(1, 1.0, &USUAL));
    let mut rows = recording(2, 1.0, &USUAL);
    rows.points.get_mut(&PointId::new(1)).unwrap().name = "replies".into();
    let b = profile(rows);
    let comparison = compare(&a, &b);
    let there: Vec<_> = comparison.points.iter().map(|p| (p.before.is_some(), p.after.is_some())).collect();
    assert_eq!(there, [(false, true), (true, false)]);
    assert!(comparison.points.iter().all(|point| point.gain.is_none()));
    assert!(comparison.sentence().contains("no progress point in common"), "{}", comparison.sentence());
    assert_eq!(comparison.first_point(), None);
    let said = comparison.headline(0);
    assert!(said.headline.starts_with("`replies` was not visited in both"), "{said:?}");
    assert_eq!(said.brings, None);
}

#[test]
fn latency_that_became_shorter_is_better() {
    let with_latency = |mut rows: Rows, in_flight: i64| {
        let (begin, end) = (PointId::new(2), PointId::new(3));
        rows.points.clear();
        rows.points.insert(begin, Point { name: "lookup".into(), kind: PointKind::Begin });
        rows.points.insert(end, Point { name: "lookup".into(), kind: PointKind::End });
        for window in &mut rows.windows {
            window.visits[0].point = end;
            let integral = VisitNanos::new(window.elapsed.get() as i64 * in_flight);
            window.in_flight.push(InFlight { begin, integral });
        }
        profile(rows)
    };
    let a = with_latency(recording(1, 1.0, &USUAL), 4);
    let b = with_latency(recording(2, 1.0, &USUAL), 3);
    let comparison = compare(&a, &b);
    let gain = comparison.points[0].gain.unwrap();
    assert!(gain.lo < 0.25 && 0.25 < gain.hi, "{gain:?}");
    let sentence = comparison.sentence();
    assert!(
        sentence.starts_with("the latency of `lookup` is 25") && sentence.contains("shorter"),
        "{sentence}"
    );
    let said = comparison.headline(0);
    assert!(said.headline.ends_with(" less latency of `lookup`"), "{said:?}");
    assert!(said.brings.as_deref().is_some_and(|brings| brings.contains(" → ")), "{said:?}");
}

#[test]
fn what_should_not_be_compared_is_named() {
    let a = profile(recording(1, 1.0, &USUAL));
    let mut rows = recording(2, 1.0, &USUAL);
    assert_eq!(codes(&compare(&a, &profile(rows.clone()))), ["few-runs"]);
    assert_eq!(codes(&compare(&a, &a)), ["shared-runs", "few-runs"]);
    let start = &mut rows.sessions[0].start;
    (start.program, start.arguments, start.host) = ("/bin/other".into(), vec![], "attic".into());
    let b = profile(rows);
    let comparison = compare(&a, &b);
    assert_eq!(
        codes(&comparison),
        ["different-programs", "different-arguments", "different-machines", "few-runs"]
    );
    assert_eq!(comparison.warnings[0].message, "the recordings are of different programs: server and other");
}

#[test]
fn what_other_programs_took_is_named() {
    let a = profile(recording(1, 1.0, &USUAL));
    let mut rows = recording(2, 0.8, &USUAL);
    rows.windows.iter_mut().for_each(|window| window.busy = Some(0.5));
    let busy = Warning { code: "busy".into(), message: "m".into(), advice: "a".into() };
    rows.warnings = vec![(SessionId::new(1), busy.clone()), (SessionId::new(1), busy)];
    let b = profile(rows);
    let comparison = compare(&a, &b);
    assert_eq!(codes(&comparison), ["different-load", "few-runs", "busy"]);
    assert_eq!(
        comparison.warnings[0].message,
        "other programs used 25 % of the machine in the first recording and 50 % in the second"
    );
    assert_eq!(comparison.warnings[2].message, "the second recording: m");
}

#[test]
fn runs_of_different_builds_in_one_recording_are_named() {
    let mut rows = recording(1, 1.0, &USUAL);
    assert_eq!(profile(rows.clone()).warnings(), []);
    let second = SessionId::new(2);
    let mut rebuilt = session(2);
    rebuilt.images[0].build_id = Some("0123456789abcdef".into());
    rows.sessions.push(rebuilt);
    let warnings = profile(rows.clone()).warnings();
    let [(raised_by, warning)] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert_eq!((*raised_by, warning.code.as_str()), (second, "several-builds"));
    assert!(
        warning.message.starts_with("the runs are of different builds of /bin/server (ab12, 01234567…);"),
        "{warning:?}"
    );

    let (a, b) = (profile(recording(3, 1.0, &USUAL)), profile(rows.clone()));
    let comparison = compare(&a, &b);
    assert_eq!(codes(&comparison), ["few-runs", "several-builds"]);
    assert!(comparison.warnings[1].message.starts_with("the second recording: the runs are"));

    // A run that was killed has listed no images, but its regions have them.
    rows.sessions[1].images.clear();
    let region = Region {
        image: Image { build_id: Some("ff".into()), ..rows.regions[&RegionId::new(1)].image.clone() },
        ..rows.regions[&RegionId::new(1)].clone()
    };
    rows.regions.insert(RegionId::new(9), region);
    let window = Window { session: second, region: RegionId::new(9), ..rows.windows[0].clone() };
    rows.windows.push(window);
    assert_eq!(profile(rows).warnings().len(), 1);
}

#[test]
fn many_runs_know_how_much_runs_differ() {
    // Three runs each, whose levels differ by several per cent: what one run would call certain is not.
    let runs = |seed: u64, levels: [f64; 3]| {
        let mut all = recording(seed, levels[0], &USUAL);
        for (nth, level) in (2..).zip(&levels[1..]) {
            let id = SessionId::new(nth);
            let more = recording(seed + nth as u64, *level, &USUAL);
            let mut run = session(nth);
            run.start.started = Nanos::new(seed + nth as u64);
            all.sessions.push(run);
            all.windows.extend(more.windows.into_iter().map(|window| Window { session: id, ..window }));
        }
        profile(all)
    };
    let (a, b) = (runs(10, [1.0, 1.06, 0.94]), runs(20, [1.03, 0.97, 1.06]));
    let comparison = compare(&a, &b);
    assert_eq!(codes(&comparison), Vec::<&str>::new());
    assert_eq!(comparison.points[0].sign(), None, "{:?}", comparison.points[0].gain);
    let single = |level, seed| profile(recording(seed, level, &USUAL));
    let (a, b) = (single(1.0, 30), single(1.02, 31));
    assert_eq!(compare(&a, &b).points[0].sign(), Some(1.0));
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let (a, b) = (profile(recording(1, 1.0, &USUAL)), profile(recording(2, 1.1, &USUAL)));
    assert_eq!(compare(&a, &b).points[0].gain, compare(&a, &b).points[0].gain);
}
