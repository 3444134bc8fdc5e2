//! The sentence, for recordings whose truth is known.

use crate::synthetic::{Truth, rows};
use profile::*;

fn of(truths: &[(&'static str, f64)]) -> Profile {
    noisy(0.02, truths)
}

fn noisy(noise: f64, truths: &[(&'static str, f64)]) -> Profile {
    let truth = |&(name, slope)| Truth { name, slope, noise, blocks: 20 };
    Profile::new(rows(&truths.iter().map(truth).collect::<Vec<_>>()), &EstimateOptions::default())
}

#[test]
fn one_region_is_worth_most() {
    assert_eq!(
        noisy(0.1, &[("hash.c:90", 0.1), ("hash.c:88", 0.55), ("hash.c:12", 0.0)]).sentence(),
        "20 % less time in `hash.c:88` makes `requests` 11 % ± 3 % shorter; \
         nothing else you could change is worth more."
    );
}

#[test]
fn two_regions_are_worth_the_same() {
    let sentence = of(&[("hash.c:90", 0.5), ("hash.c:88", 0.5)]).sentence();
    assert!(sentence.ends_with("shorter; `hash.c:88` may be worth as much."), "{sentence}");
}

#[test]
fn contention_makes_slower() {
    assert_eq!(
        of(&[("hash.c:90", -0.5), ("hash.c:88", 0.0)]).sentence(),
        "20 % less time in `hash.c:90` makes `requests` 10 % ± 1 % longer: contention; \
         nothing you could change helps."
    );
}

#[test]
fn a_curve_that_turns_is_told_by_its_slope() {
    let mut profile = of(&[("hash.c:90", -0.5), ("hash.c:88", 0.0)]);
    let of_worst = profile.regions.iter_mut().flat_map(|region| &mut region.points);
    let worst = of_worst.filter(|point| point.verdict == Verdict::Hurts).last().unwrap();
    let effect = |value: f64| Some(Estimate { value, se: 0.005, lo: value - 0.01, hi: value + 0.01 });
    worst.effect = effect(0.02);
    worst.slope = Some(Estimate { value: -0.1, se: 0.02, lo: -0.14, hi: -0.06 });
    assert_eq!(
        profile.sentence(),
        "Less time in `hash.c:90` makes `requests` longer over all speedups (slope −0.10 ± 0.04), though \
         2 % ± 1 % shorter at 20 %: contention; nothing you could change helps."
    );

    let mut profile = of(&[("hash.c:90", 0.5), ("hash.c:88", 0.0)]);
    let best = &mut profile.regions[0].points[0];
    (best.verdict, best.effect) = (Verdict::Helps, effect(-0.02));
    best.slope = Some(Estimate { value: 0.1, se: 0.02, lo: 0.06, hi: 0.14 });
    let sentence = profile.sentence();
    assert!(
        sentence.starts_with(
            "Less time in `hash.c:90` makes `requests` shorter over all speedups (slope 0.10 ± 0.04), \
             though 2 % ± 1 % longer at 20 %; "
        ),
        "{sentence}"
    );
    // What rounding leaves nothing of has no direction.
    profile.regions[0].points[0].effect = effect(-0.0004);
    assert!(profile.sentence().contains("(0.0 % ± 1.0 % shorter)"), "{}", profile.sentence());
}

#[test]
fn nothing_helps() {
    let sentence = of(&[("hash.c:90", 0.0), ("hash.c:88", 0.0)]).sentence();
    assert!(sentence.starts_with("Nothing that was tried makes `requests` faster"), "{sentence}");
}

#[test]
fn not_enough_data() {
    let noisy = Truth { name: "hash.c:88", slope: 0.2, noise: 0.6, blocks: 6 };
    let profile = Profile::new(rows(&[noisy]), &EstimateOptions::default());
    let sentence = profile.sentence();
    assert!(
        sentence
            .starts_with("Not enough data yet to say what makes `requests` faster; the best candidate is")
            && sentence.ends_with(": measure much more, on a quiet machine if you can."),
        "{sentence}"
    );
    assert!(profile.regions[0].points[0].more_blocks.is_some());
}

#[test]
fn empty_recordings_say_so() {
    let none = Profile::new(Rows::default(), &EstimateOptions::default());
    assert!(none.sentence().starts_with("No experiment was completed"));

    let mut rows = rows(&[Truth { name: "a.c:1", slope: 0.5, noise: 0.0, blocks: 20 }]);
    rows.windows.iter_mut().for_each(|window| window.visits.clear());
    let idle = Profile::new(rows, &EstimateOptions::default());
    assert!(idle.sentence().starts_with("No progress point was visited"), "{}", idle.sentence());
    assert!(idle.points[0].idle);
}

#[test]
fn functions_are_named_with_their_place() {
    let mut rows = rows(&[Truth { name: "x", slope: 0.5, noise: 0.02, blocks: 20 }]);
    let region = rows.regions.get_mut(&RegionId::new(1)).unwrap();
    *region = Region { kind: RegionKind::Function, name: "wo\nrk".into(), line: Some(80), ..region.clone() };
    let sentence = Profile::new(rows, &EstimateOptions::default()).sentence();
    assert!(sentence.starts_with(r"20 % less time in `wo\nrk` (hash.c:80)"), "{sentence}");
}

#[test]
fn few_speedups_are_left_out_unless_they_were_asked_for() {
    let few = || {
        let mut rows = rows(&[Truth { name: "a.c:1", slope: 0.5, noise: 0.02, blocks: 20 }]);
        for window in rows.windows.iter_mut().filter(|w| !w.speedup.is_zero()) {
            window.speedup = Speedup::from_percent(50).unwrap();
        }
        rows
    };
    let profile = Profile::new(few(), &EstimateOptions::default());
    assert_eq!((profile.regions.len(), profile.left_out.few_speedups), (0, 1));
    assert!(profile.sentence().starts_with("Not enough data yet: no region"));

    let fixed = EstimateOptions { fixed: true, ..EstimateOptions::default() };
    assert_eq!(Profile::new(few(), &fixed).regions.len(), 1);
    let mut rows = few();
    rows.sessions[0].start.fixed_speedups = true;
    assert_eq!(Profile::new(rows, &EstimateOptions::default()).regions.len(), 1);
}

#[test]
fn a_region_without_baseline_is_left_out_and_counted() {
    let mut rows = rows(&[Truth { name: "a.c:1", slope: 0.5, noise: 0.02, blocks: 20 }]);
    rows.windows.retain(|window| !window.speedup.is_zero());
    let profile = Profile::new(rows, &EstimateOptions::default());
    assert_eq!((profile.regions.len(), profile.left_out.without_baseline), (0, 1));
    assert_eq!(profile.left_out.windows.unpaired, 20);
}

#[test]
fn a_region_that_runs_half_of_the_time_helps_half_as_much() {
    let mut rows = rows(&[Truth { name: "a.c:1", slope: 0.6, noise: 0.02, blocks: 20 }]);
    // Windows see the region in 10 % of their time; here, the whole run saw it in 5 % of 10 s.
    let whole = Profile::new(rows.clone(), &EstimateOptions::default());
    rows.samples[0].weight = Nanos::from_millis(500);
    let half = Profile::new(rows.clone(), &EstimateOptions::default());
    assert_eq!(half.regions[0].phase, 0.5);
    let slope = |profile: &Profile| profile.regions[0].points[0].slope.unwrap().value;
    assert!((slope(&half) / slope(&whole) - 0.5).abs() < 1e-9);
    let plain = EstimateOptions { phase_correction: false, ..EstimateOptions::default() };
    assert_eq!(Profile::new(rows, &plain).regions[0].phase, 1.0);
}

#[test]
fn ranking_is_by_the_lower_end_and_harm_comes_last() {
    let profile = of(&[("a.c:1", -0.5), ("a.c:2", 0.1), ("a.c:3", 0.5), ("a.c:4", 0.0), ("a.c:5", -0.2)]);
    let names: Vec<_> = profile.regions.iter().map(|r| profile.region(r).name.as_str()).collect();
    assert_eq!(names, ["a.c:3", "a.c:2", "a.c:4", "a.c:1", "a.c:5"]);
    let ranked = profile.ranked(profile.points[0].target);
    assert_eq!(profile.region(ranked[4].0).name, "a.c:5");
}

#[test]
fn latency_has_its_own_words() {
    let mut rows = rows(&[Truth { name: "hash.c:88", slope: 0.5, noise: 0.02, blocks: 20 }]);
    let (begin, end) = (PointId::new(1), PointId::new(2));
    rows.points.insert(begin, Point { name: "lookup".into(), kind: PointKind::Begin });
    rows.points.insert(end, Point { name: "lookup".into(), kind: PointKind::End });
    for window in &mut rows.windows {
        window.visits[0].point = end;
        let integral = VisitNanos::new(window.elapsed.get() as i64 * 4);
        window.in_flight.push(InFlight { begin, integral });
    }
    let profile = Profile::new(rows, &EstimateOptions::default());
    let sentence = profile.sentence();
    assert!(
        sentence.starts_with("20 % less time in `hash.c:88` makes the latency of `lookup` 10 % ± 1 %"),
        "{sentence}"
    );
    assert!(sentence.contains(" shorter; "), "{sentence}");
    // 4 in flight, 10 per millisecond.
    let latency = profile.points[0].latency.unwrap().get();
    assert!((390_000..410_000).contains(&latency), "{latency}");
}
