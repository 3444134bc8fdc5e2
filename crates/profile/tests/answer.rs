//! The first screen, for recordings whose truth is known.

use crate::synthetic::{Truth, rows};
use profile::*;

fn truth(name: &'static str, slope: f64) -> Truth {
    Truth { name, slope, noise: 0.02, blocks: 40 }
}

fn of(truths: &[Truth]) -> Profile {
    quiet(rows(truths))
}

/// On a machine that nothing else uses.
fn quiet(mut rows: Rows) -> Profile {
    rows.windows.iter_mut().for_each(|window| window.busy = Some(0.0));
    Profile::new(rows, &EstimateOptions::default())
}

fn only(profile: &Profile) -> PointAnswer {
    let answer = profile.answer();
    assert_eq!(answer.points.len(), 1);
    answer.points.into_iter().next().unwrap()
}

#[test]
fn what_helps_most_is_named_first_with_what_it_brings() {
    let profile = of(&[truth("list.c:7", 0.0), truth("hash.c:88", 0.55)]);
    let first = only(&profile);
    assert_eq!(first.change.as_deref(), Some("`hash.c:88`"));
    assert_eq!(first.headline.as_deref(), Some("Speed up `hash.c:88` first"));
    let brings = first.brings.unwrap();
    assert!(brings.starts_with("20 % less time there → 11"), "{brings}");
    for part in [" % less time per `requests` (", "), 10", " k → 11", " k per second; at most 5"] {
        assert!(brings.contains(part), "{part:?} in {brings}");
    }
    assert_eq!(first.rest.as_deref(), Some("Nothing else you could change is worth more."));
    assert_eq!(first.badge.quality, Quality::Good, "{:?}", first.badge);
    assert_eq!(first.badge.advice, None);
}

#[test]
fn latency_is_shorter() {
    let rows = crate::synthetic::with_latency(rows(&[truth("hash.c:88", 0.5)]));
    let answer = quiet(rows).answer();
    let latency = &answer.points[1];
    let brings = latency.brings.as_deref().unwrap();
    assert!(brings.contains("% less latency of `lookup` ("), "{brings}");
    assert!(brings.contains(" µs → 3"), "{brings}");
}

#[test]
fn what_was_measured_of_a_program_that_a_breakpoint_slowed_down_is_not_trusted() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    let session = rows.sessions[0].id;
    let warning = Warning {
        code: Warning::SLOW_BESIDE_POINT.to_owned(),
        message: "the breakpoint slows other code down".to_owned(),
        advice: "name a function".to_owned(),
    };
    rows.warnings.push((session, warning));
    let badge = only(&quiet(rows)).badge;
    assert_eq!(badge.quality, Quality::NotTrusted);
    assert!(badge.cause.contains("the breakpoint") && badge.advice.unwrap().contains("a function"));
}

#[test]
fn a_busy_machine_makes_it_noisy_and_names_the_cause() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    rows.windows.iter_mut().for_each(|window| window.flags = WindowFlags::BUSY);
    let badge = only(&Profile::new(rows, &EstimateOptions::default())).badge;
    assert_eq!(badge.quality, Quality::Noisy);
    assert!(badge.cause.contains("100 % of the experiments") && badge.advice.is_some(), "{badge:?}");
}

#[test]
fn too_little_has_one_advice_wherever_it_is_given() {
    let profile = quiet(rows(&[Truth { name: "hash.c:88", slope: 0.2, noise: 0.6, blocks: 6 }]));
    let first = only(&profile);
    assert_eq!(first.badge.quality, Quality::TooLittle);
    let advice = first.badge.advice.unwrap();
    assert_eq!(first.headline.as_deref(), Some("No answer yet for `requests`"));
    assert_eq!(first.change, None);
    let brings = first.brings.unwrap();
    assert!(
        brings.starts_with("Best candidate so far: `hash.c:88`") && brings.ends_with("fits the data"),
        "{brings}"
    );
    // The sentence has the same words: the two cannot contradict each other.
    assert!(profile.sentence().contains(&advice), "{advice:?} in {:?}", profile.sentence());
}

#[test]
fn numbers_that_an_audit_contradicts_are_not_trusted() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    for window in rows.windows.iter_mut().filter(|window| !window.speedup.is_zero()) {
        window.audit = Some(Audit {
            cpu: Nanos::from_millis(100),
            watched: Nanos::from_millis(100),
            ..Audit::default()
        });
    }
    let badge = only(&quiet(rows)).badge;
    assert_eq!(badge.quality, Quality::NotTrusted, "{badge:?}");
    assert!(badge.cause.contains("`hash.c:88`") && badge.advice.is_some(), "{badge:?}");
}

/// With `insert` as a function besides, whose samples are `times` those of the line.
fn with_function(line: f64, function: f64, times: u64) -> Profile {
    let mut rows = rows(&[truth("hash.c:88", line), truth("hash.c:80", function)]);
    let region = rows.regions.get_mut(&RegionId::new(2)).unwrap();
    *region = Region { kind: RegionKind::Function, name: "insert".into(), ..region.clone() };
    rows.samples[1].weight = Nanos::from_millis(1_000 * times);
    quiet(rows)
}

#[test]
fn lines_fold_under_their_function() {
    let pieces = only(&with_function(0.3, 0.6, 2)).pieces;
    assert_eq!(pieces.len(), 1);
    assert_eq!((&*pieces[0].label, pieces[0].lines.len()), ("insert hash.c:80", 1));
    assert_eq!((&*pieces[0].lines[0].label, &pieces[0].note), ("hash.c:88", &None));
}

#[test]
fn two_estimates_of_the_same_code_agree_or_the_interval_holds_both() {
    let same = only(&with_function(0.5, 0.5, 1)).pieces.remove(0);
    assert_eq!(same.note, None, "there is nothing to explain");
    assert_eq!(same.estimate.unwrap().verdict, Verdict::Helps);

    let pieces = only(&with_function(0.6, 0.2, 1)).pieces;
    let apart = &pieces[0];
    assert!(apart.note.as_ref().unwrap().ends_with("the interval holds both"), "{:?}", apart.note);
    let effect = apart.estimate.as_ref().unwrap().effect.unwrap();
    assert!(effect.lo < 0.05 && effect.hi > 0.11, "{effect:?}");
}

#[test]
fn what_was_only_sampled_is_listed_with_how_far_it_is() {
    let mut rows = rows(&[truth("hash.c:88", 0.55), truth("list.c:7", 0.1), truth("main.c:3", 0.0)]);
    // The second was tried at two speedups, the third not at all.
    let two = [Speedup::ZERO, Speedup::from_percent(10).unwrap(), Speedup::from_percent(20).unwrap()];
    rows.windows.retain(|window| match window.region.get() {
        1 => true,
        2 => two.contains(&window.speedup),
        _ => false,
    });
    rows.samples[2].weight = Nanos::from_millis(3_000);
    for (id, function) in [(2, "walk"), (3, "main")] {
        rows.regions.get_mut(&RegionId::new(id)).unwrap().function = Some(function.into());
    }
    let profile = quiet(rows);
    let first = only(&profile);
    assert_eq!(
        first.rest.as_deref(),
        Some(
            "Nothing else that was tried is worth more. Not judged yet: `main.c:3` (33 % of the CPU time) and one more."
        )
    );
    assert!(
        profile.sentence().ends_with("nothing else that was tried is worth more."),
        "{}",
        profile.sentence()
    );
    let pieces = first.pieces;
    let shown: Vec<_> = pieces.iter().map(|piece| (&*piece.label, piece.state, piece.speedups)).collect();
    assert_eq!(
        shown,
        [("hash.c:88", State::Measured, 10), ("main.c:3", State::Sampled, 0), ("list.c:7", State::Begun, 2)]
    );
    assert_eq!(pieces[1].share, Some(3.0 / 9.0));
}

#[test]
fn without_a_point_there_is_the_plain_profile() {
    let mut rows = rows(&[truth("hash.c:88", 0.5), truth("list.c:7", 0.1)]);
    rows.points.clear();
    rows.windows.clear();
    rows.samples[1].weight = Nanos::from_millis(4_000);
    rows.regions.get_mut(&RegionId::new(2)).unwrap().function = Some("walk".into());
    let first = only(&quiet(rows));
    assert_eq!((first.target, first.badge.quality), (None, Quality::TooLittle));
    let labels: Vec<_> = first.pieces.iter().map(|piece| &*piece.label).collect();
    assert_eq!(labels, ["list.c:7", "hash.c:88"]);
}

#[test]
fn what_the_run_knew_is_told_where_nothing_was_measured() {
    let mut rows = rows(&[truth("hash.c:88", 0.5)]);
    rows.windows.clear();
    let warning = Warning {
        code: "region-never-ran".into(),
        message: "the region nosuch never ran".into(),
        advice: "check the spelling".into(),
    };
    rows.warnings.push((rows.sessions[0].id, warning));
    let profile = quiet(rows);
    assert_eq!(profile.sentence(), "Nothing was measured: the region nosuch never ran; check the spelling.");
    assert_eq!(only(&profile).badge.cause, "the region nosuch never ran");
}

#[test]
fn three_commands_come_last_and_can_be_typed() {
    let profile = of(&[truth("hash.c:88", 0.55)]);
    assert!(profile.answer().next.is_empty(), "of no file");
    let profile = profile.read_from("my recording.db".as_ref());
    let commands: Vec<_> = profile.answer().next.into_iter().map(|next| (next.step, next.command)).collect();
    assert_eq!(
        commands,
        [
            (Step::Open, "whatif open 'my recording.db'".to_owned()),
            (Step::Deeper, "whatif report --explain hash.c:88 'my recording.db'".to_owned()),
            (
                Step::Compare,
                "whatif run -o after.db -- /bin/server --port '80 80' && whatif compare 'my recording.db' after.db"
                    .to_owned()
            ),
        ]
    );
}

#[test]
fn another_run_measures_the_same() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    let start = &mut rows.sessions[0].start;
    start.options =
        r#"{"again": ["-p", "fn:a b", "--binary", "server"], "input": "/home/me/in put.txt", "writes_to_file": true}"#.into();
    start.directory = "/home/me".into();
    let command = |rows| {
        let profile = quiet(rows).read_from("recording.db".as_ref());
        profile.answer().next.into_iter().find(|next| next.step == Step::Compare).unwrap().command
    };
    let expected = "whatif run -p 'fn:a b' --binary server -o after.db -- /bin/server --port '80 80' < 'in put.txt' > /dev/null && ";
    assert_eq!(command(rows.clone()), format!("{expected}whatif compare recording.db after.db"));
    // A point that was chosen is named, so that both count the same.
    rows.sessions[0].start.options = "{}".into();
    let warning =
        Warning { code: Warning::CHOSEN_POINT.into(), message: String::new(), advice: String::new() };
    rows.warnings.push((rows.sessions[0].id, warning));
    let command = command(rows);
    assert!(command.starts_with("whatif run -p requests -o after.db -- "), "{command}");
}

#[test]
fn hot_code_that_does_not_matter_is_explained() {
    let mut rows = rows(&[truth("hash.c:88", 0.5), truth("list.c:7", 0.0)]);
    rows.regions.get_mut(&RegionId::new(2)).unwrap().function = Some("walk".into());
    rows.windows.iter_mut().for_each(|window| window.total_weight = Nanos::from_millis(190));
    let causes = only(&quiet(rows)).causes;
    let expected = "`list.c:7` is hot with 11 % of the CPU time, but does not matter: it runs beside `hash.c:88`, \
                    which finishes later.";
    assert!(causes.iter().any(|cause| cause == expected), "{causes:?}");
}

#[test]
fn nothing_is_known_of_an_empty_recording() {
    let empty = Profile::new(Rows::default(), &EstimateOptions::default());
    let first = only(&empty);
    assert_eq!((first.badge.quality, first.pieces.len()), (Quality::TooLittle, 0));
}
