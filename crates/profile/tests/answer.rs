//! The first screen, for recordings whose truth is known.

use crate::synthetic::{Truth, overhead, rows, session};
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
    let profile = quiet(rows);
    let first = only(&profile);
    assert_eq!(first.badge.quality, Quality::NotTrusted);
    assert!(
        first.badge.cause.contains("the breakpoint") && first.badge.advice.unwrap().contains("a function")
    );
    // Nothing is recommended by what is not trusted.
    assert_eq!((first.change, first.brings, first.rest), (None, None, None));
    let headline = first.headline.unwrap();
    assert!(headline.starts_with("No answer for `requests`"));
    assert!(profile.sentence().starts_with(&headline), "{}", profile.sentence());
    assert!(first.pieces.iter().all(|piece| piece.verdict() == Some(Verdict::NotTrusted)));
}

#[test]
fn of_a_program_in_go_nothing_is_more_than_probable() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    let session = rows.sessions[0].id;
    let warning = Warning {
        code: Warning::GOROUTINES.to_owned(),
        message: "the program is written in Go".to_owned(),
        advice: "check it with whatif ab".to_owned(),
    };
    rows.warnings.push((session, warning));
    let first = only(&quiet(rows));
    assert_eq!(first.badge.quality, Quality::NotTrusted);
    assert_eq!(first.headline.as_deref(), Some("`hash.c:88` may be worth speeding up"));
    assert_eq!(first.pieces[0].verdict_words(), Some("probably helps"));
    assert_eq!(first.decision, Decision::Probably(vec![0]));
}

#[test]
fn an_interval_that_says_nothing_is_no_headline() {
    let profile = quiet(rows(&[Truth { name: "hash.c:88", slope: 0.2, noise: 0.6, blocks: 6 }]));
    let first = only(&profile);
    let half = first.pieces[0].estimate.as_ref().unwrap().effect.unwrap().half_width();
    assert!(half > 0.2 && half.is_finite(), "{half}");
    assert_eq!(
        first.brings.as_deref(),
        Some(
            "Best candidate so far: `hash.c:88`, but what less time there brings is not known to within 20 %"
        )
    );
    assert!(!profile.sentence().contains("(now"), "{}", profile.sentence());
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
    let profile = quiet(rows(&[Truth { name: "hash.c:88", slope: 0.2, noise: 0.3, blocks: 6 }]));
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
fn clients_that_are_found_to_wait_for_their_answers_were_treated_right_before_that() {
    let source = |kind, clock, count| Arrivals { kind, port: 8080, clock, slope: Some((1.0, 0.02)), count };
    let (closed, undecided) = (ArrivalClock::Closed, ArrivalClock::Undecided);
    let clients = source(ArrivalKind::Accepted, closed, 900);
    let profile = |arrivals: Vec<Arrivals>| {
        let mut rows = rows(&[truth("hash.c:88", 0.55)]);
        for window in &mut rows.windows {
            let audit = Audit { doubtful: Nanos::from_millis(50), ..Audit::default() };
            window.audit = Some(audit);
        }
        rows.sessions[0].arrivals = arrivals;
        Profile::new(rows, &EstimateOptions::default())
    };
    let doubt = |arrivals| profile(arrivals).regions[0].points[0].clock_error();
    assert!(doubt(vec![]) > 0.1);
    assert!(doubt(vec![source(ArrivalKind::Accepted, undecided, 900)]) > 0.1);
    assert_eq!(doubt(vec![clients.clone()]), 0.0);
    for said in [ArrivalClock::SaidClosed, ArrivalClock::SaidOpen] {
        assert_eq!(doubt(vec![source(ArrivalKind::Accepted, said, 900)]), 0.0);
    }
    assert!(doubt(vec![source(ArrivalKind::Accepted, ArrivalClock::Open, 900)]) > 0.1, "not at first");
    let settled = |arrivals| profile(arrivals).doubts.settled > 0;
    assert!(settled(vec![clients.clone()]) && !settled(vec![source(ArrivalKind::Accepted, undecided, 900)]));
    // Connections of the program's own say nothing of those from outside.
    assert!(doubt(vec![source(ArrivalKind::Own, closed, 900)]) > 0.1);
    // What listens hardly had a connection.
    assert_eq!(doubt(vec![clients.clone(), source(ArrivalKind::Listener, undecided, 0)]), 0.0);
    for (kind, clock) in [
        (ArrivalKind::Listener, undecided),
        (ArrivalKind::Datagrams, undecided),
        (ArrivalKind::Connected, ArrivalClock::Open),
        (ArrivalKind::Connected, ArrivalClock::Mixed),
    ] {
        assert!(doubt(vec![clients.clone(), source(kind, clock, 900)]) > 0.1, "{kind:?} {clock:?}");
    }
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
            "Nothing else was tried often enough to be judged. Not judged yet: `main.c:3` (33 % of the CPU time) and one more."
        )
    );
    assert!(
        profile.sentence().ends_with("nothing else was tried often enough to be judged."),
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
fn a_point_that_was_chosen_first_and_typed_since_is_no_choice_any_more() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    let warning =
        Warning { code: Warning::CHOSEN_POINT.into(), message: "chosen".into(), advice: String::new() };
    rows.warnings.push((rows.sessions[0].id, warning));
    rows.sessions.push(session(2));
    rows.sessions[1].start.options = r#"{"again": ["-p", "requests"]}"#.into();
    let profile = quiet(rows).read_from("server.db".as_ref());
    let answer = profile.answer();
    let once = |command: &str| command.matches("-p requests").count() == 1;
    let runs: Vec<&Next> = answer.next.iter().filter(|next| next.command.contains("whatif run")).collect();
    assert!(!runs.is_empty() && runs.iter().all(|next| once(&next.command)), "{runs:?}");
    assert!(!only(&profile).notes.iter().any(|note| note.contains("No unit of work")));
    assert_eq!(answer.other_warnings(&profile), []);
}

#[test]
fn a_program_that_sampling_slows_down_much_may_be_another_one_by_itself() {
    let slowed = |visits: u64| {
        let mut rows = rows(&[truth("hash.c:88", 0.55)]);
        rows.sessions[0].overhead = (0..6).map(|number| overhead(number, visits, 100)).collect();
        only(&quiet(rows)).notes.into_iter().find(|note| note.starts_with("Sampling took"))
    };
    assert_eq!(slowed(85), None);
    assert_eq!(
        slowed(54).unwrap(),
        "Sampling took 46.0 % ± 0.0 % of the program's speed, so the numbers may be others for the program by itself: see how fast that is before and after the change."
    );
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

/// Two pieces of code with these numbers for the first, on a machine that others use or not.
fn changed(is_busy: bool, change: impl Fn(&mut PointEstimate)) -> Profile {
    let mut rows = rows(&[truth("hash.c:88", 0.55), truth("list.c:7", 0.0)]);
    rows.regions.get_mut(&RegionId::new(2)).unwrap().function = Some("walk".into());
    rows.sessions[0].start.options = r#"{"again": ["-p", "requests"]}"#.into();
    if is_busy {
        rows.windows.iter_mut().for_each(|window| window.flags = WindowFlags::BUSY);
    }
    let mut profile = quiet(rows).read_from("server.db".as_ref());
    let first = profile.regions.iter().position(|region| profile.region(region).name == "hash.c:88").unwrap();
    change(&mut profile.regions[first].points[0]);
    profile
}

#[test]
fn what_clients_use_of_the_cpus_is_no_reason_to_doubt() {
    let mut profile = changed(true, |_| ());
    assert_eq!(only(&profile).badge.quality, Quality::Noisy);
    let advice = "clients are in the numbers".to_owned();
    let here = Warning { code: Warning::CLIENTS_HERE.into(), message: "they are here".into(), advice };
    let session = profile.rows.sessions[0].id;
    profile.rows.warnings.push((session, here));
    let mut with_cpus = |of_machine: u32| {
        let start = &mut profile.rows.sessions[0].start;
        start.options = format!(r#"{{"again": ["-p", "requests"], "machine_cpus": {of_machine}}}"#);
        start.cpus = 4;
        only(&profile).badge.quality
    };
    assert_eq!(with_cpus(64), Quality::Noisy, "the others may be on other CPUs");
    assert_eq!(with_cpus(4), Quality::Good);
    // Without any arrivals there are no clients.
    profile.rows.sessions[0].arrivals.clear();
    assert_eq!(only(&profile).badge.quality, Quality::Noisy);
}

#[test]
fn a_limit_on_cpu_time_is_said_and_makes_latencies_unpredictable() {
    let limited = |throttled: u64, with_latency: bool| {
        let mut rows = rows(&[truth("hash.c:88", 0.55), truth("list.c:7", 0.0)]);
        if with_latency {
            rows = crate::synthetic::with_latency(rows);
        }
        for window in rows.windows.iter_mut().filter(|window| window.speedup.is_zero()) {
            let [allowed, throttled] = [150, throttled].map(Nanos::from_millis);
            window.audit = Some(Audit { allowed, throttled, ..Audit::default() });
        }
        quiet(rows)
    };
    let of = |profile: &Profile, nth: usize| profile.answer().points[nth].clone();
    let note = |throttled| of(&limited(throttled, false), 0).notes.join(" ");
    let always = "A limit on CPU time (1.5 CPUs, by its control group) was used up in 97 % of its periods: as long as it is, faster code saves its share of the CPU time";
    assert!(note(97).starts_with(always), "{}", note(97));
    assert!(note(40).contains("in 40 % of its periods: intervals hold both"), "{}", note(40));
    assert_eq!(note(0), "", "it has a limit, which was not used up");
    let profile = limited(40, true);
    let [throughput, latency] = [0, 1].map(|nth| of(&profile, nth));
    assert_ne!(throughput.badge.quality, Quality::NotTrusted);
    assert_eq!(latency.badge.quality, Quality::NotTrusted);
    assert!(latency.badge.cause.contains("latencies") && latency.change.is_none(), "{:?}", latency.badge);
    assert_ne!(of(&limited(0, true), 1).badge.quality, Quality::NotTrusted);
    // Of ten runs nine had no limit.
    let mut rows = limited(97, false).rows;
    let limited_windows = rows.windows.iter_mut().filter(|window| window.audit.is_some());
    limited_windows.skip(8).for_each(|window| window.audit = Some(Audit::default()));
    let share = Profile::new(rows, &EstimateOptions::default()).cpu_limit().unwrap();
    assert!((share.used_up - 0.097).abs() < 1e-9 && (share.cpus - 1.5).abs() < 1e-9, "{share:?}");
}

const NEVER: u32 = 1_000_000;

/// To an estimate.
type Change = fn(&mut PointEstimate);

#[test]
fn what_is_not_settled_has_one_advice_which_the_commands_follow() {
    let limits: [(&str, Change); 3] = [
        ("wait for CPUs", |estimate| estimate.slice_error = 0.2),
        ("the error of the method is as large", |_| ()),
        ("which requests wait for answers", |estimate| estimate.clocks = Reach { below: 0.4, above: 0.0 }),
    ];
    for (is_busy, has_clients) in [(false, false), (false, true), (true, false), (true, true)] {
        let quieter = match has_clients {
            true => "move its clients to another machine or stop other programs, and measure",
            false => "stop the other programs, and measure",
        };
        for (why, limit) in limits {
            for needed in [2, 90, 900, NEVER] {
                let mut profile = changed(is_busy, |estimate| {
                    (estimate.verdict, estimate.more_blocks) = (Verdict::NotEnoughData, Some(needed));
                    estimate.method_error = 0.21;
                    limit(estimate);
                });
                let arrivals = &mut profile.rows.sessions[0].arrivals;
                arrivals.iter_mut().for_each(|one| one.clock = ArrivalClock::Undecided);
                if !has_clients {
                    arrivals.clear();
                }
                // Nothing is ruled out.
                let points = profile.regions.iter_mut().flat_map(|region| &mut region.points);
                points.filter_map(|point| point.effect.as_mut()).for_each(|effect| effect.hi += 0.1);
                let (answer, first) = (profile.answer(), only(&profile));
                let advice = first.badge.advice.clone().unwrap();
                assert!(profile.sentence().contains(&advice), "{advice:?} in {:?}", profile.sentence());
                assert_eq!(first.badge.cause.contains("other programs used the machine in 100 %"), is_busy);
                let deeper: Vec<&Next> =
                    answer.next.iter().filter(|next| next.step == Step::Deeper).collect();
                let whys: String = deeper.iter().map(|next| &*next.why).collect();
                let is_stuck = needed == NEVER;
                assert_eq!(advice.contains("will not settle"), is_stuck, "{advice}");
                assert_eq!(
                    verdict_words(first.pieces[0].estimate.as_ref().unwrap()) == "too noisy",
                    is_stuck
                );
                assert_eq!(first.badge.quality == Quality::Noisy, is_stuck);
                if is_stuck {
                    assert!(advice.contains(why), "{advice}");
                    assert!(
                        !whys.contains("measure more") && !advice.contains("as long again"),
                        "{advice} {whys}"
                    );
                    // Into a new recording, where another measurement may help.
                    let again = deeper.iter().find(|next| next.command.starts_with("whatif run "));
                    assert_eq!(again.is_some(), advice.contains("measure again"), "{advice} {deeper:?}");
                    assert!(again.is_none_or(|again| !again.command.contains(" -o ")), "{again:?}");
                    let says = again.is_some_and(|again| again.command.contains(" --clients closed "));
                    let may_say = has_clients && advice.contains("--clients closed or open");
                    assert_eq!(says, may_say, "{advice} {again:?}");
                } else {
                    assert!(
                        whys.contains("measure more") && deeper[0].command.contains("-o server.db"),
                        "{deeper:?}"
                    );
                    // The program has ended by itself.
                    assert!(
                        deeper[0].command.starts_with("whatif run --until-sure --duration "),
                        "{deeper:?}"
                    );
                    // Others are to be stopped wherever it is told, or nowhere.
                    assert_eq!(advice.starts_with(quieter), is_busy, "{advice}");
                    assert_eq!(whys.starts_with(quieter), is_busy, "{whys}");
                }
            }
        }
    }
}

/// Of one piece of code this much is known, and that the other one matters little; it has 20 experiments and needs so many more.
fn undecided(is_probable: bool, more: u32) -> Profile {
    changed(false, |estimate| {
        (estimate.verdict, estimate.more_blocks, estimate.blocks) = (Verdict::NotEnoughData, Some(more), 20);
        estimate.is_probable = is_probable;
        estimate.effect = Some(Estimate { value: 0.07, se: 0.03, lo: -0.002, hi: 0.13 });
        estimate.slope = Some(Estimate { value: 0.32, se: 0.11, lo: 0.09, hi: 0.54 });
    })
}

#[test]
fn what_probably_helps_is_named_with_what_it_may_bring_and_asked_about_alone() {
    let profile = undecided(true, 50);
    let first = only(&profile);
    assert_eq!(first.decision, Decision::Probably(vec![0]));
    assert_eq!(first.headline.as_deref(), Some("Probably `hash.c:88`"));
    assert_eq!(
        first.brings.as_deref(),
        Some("20 % less time there → about 7 % less time per `requests` (−0.2 to 13.0)")
    );
    assert_eq!((first.change.as_deref(), first.badge.quality), (None, Quality::Noisy));
    assert_eq!(first.pieces[0].verdict_words(), Some("probably helps"));
    let sentence = profile.sentence();
    assert!(sentence.starts_with("Probably `hash.c:88`: 20 % less time there → about 7 %"), "{sentence}");
    for (more, is_alone) in [(50, true), (20, false), (NEVER, false)] {
        let profile = undecided(true, more);
        let next = profile.answer().next;
        let deeper = next.iter().find(|next| next.step == Step::Deeper).unwrap();
        assert_eq!(deeper.command.contains(" --region hash.c:88 "), is_alone, "{deeper:?}");
        assert_eq!(deeper.why.contains("measure it alone"), is_alone, "{deeper:?}");
        let advice = only(&profile).badge.advice.unwrap();
        assert_eq!(advice.contains("measure it alone"), is_alone, "{advice}");
        assert!(profile.sentence().contains(&advice), "{advice}");
        assert!(next.iter().any(|next| next.step == Step::Compare), "{next:?}");
        assert_eq!(advice.ends_with("make the change, and compare"), more == NEVER, "{advice}");
    }
}

#[test]
fn what_the_others_are_known_not_to_bring_leaves_one_of_few() {
    let first = only(&undecided(false, 50));
    assert_eq!(first.decision, Decision::OneOf(vec![0]));
    assert_eq!(first.headline.as_deref(), Some("If anything, `hash.c:88`"));
    let brings = first.brings.unwrap();
    assert!(brings.ends_with("fits the data; nothing else that was tried brings more than 3 %"), "{brings}");
    assert_eq!(only(&of(&[truth("list.c:7", 0.0)])).decision.name(), "nothing-above");
}

#[test]
fn nothing_is_probable_where_numbers_are_not_trusted_or_code_is_not_judged() {
    let unlikely = |change: &dyn Fn(&mut Profile)| {
        let mut profile = undecided(false, 50);
        change(&mut profile);
        only(&profile).decision
    };
    // Another piece takes time and was never tried.
    let sampled =
        Candidate { region: RegionId::new(2), samples: 500, share: Some(0.3), experiments: 0, speedups: 0 };
    let forget = |profile: &mut Profile| {
        profile.regions.retain(|region| region.region != RegionId::new(2));
        profile.candidates.push(sampled);
    };
    assert_eq!(unlikely(&forget), Decision::Open);
    let distrust = |profile: &mut Profile| profile.regions[0].points[0].verdict = Verdict::NotTrusted;
    assert_eq!(unlikely(&distrust), Decision::Open);
}

#[test]
fn a_gain_that_is_not_called_one_is_told_with_the_reason() {
    let effect = |lo: f64| Some(Estimate { value: 0.11, se: 0.04, lo, hi: 0.19 });
    let brings = |lo, slope_lo, blocks| {
        let profile = changed(false, |estimate| {
            (estimate.verdict, estimate.more_blocks, estimate.blocks) =
                (Verdict::NotEnoughData, Some(9), blocks);
            (estimate.effect, estimate.slope) =
                (effect(lo), Some(Estimate { value: 0.5, se: 0.2, lo: slope_lo, hi: 0.9 }));
        });
        let text = only(&profile).brings.unwrap();
        let text = text.strip_suffix("; nothing else that was tried brings more than 3 %").unwrap();
        text.strip_prefix("Best candidate so far: `hash.c:88`. 20 % less time there → ").unwrap().to_owned()
    };
    assert_eq!(
        brings(0.03, 0.1, 50),
        "11 % less time per `requests` (3 to 19), but that may be chance: of 2 pieces of code that were tried, one that brings nothing can \
         look like this"
    );
    assert_eq!(
        brings(0.002, 0.01, 50),
        "11 % less time per `requests` (0.2 to 19.0), but over all speedups together it may bring next to nothing"
    );
    assert!(brings(0.03, 0.1, 4).ends_with("(3 to 19), but there are too few experiments to rely on that"));
    assert_eq!(
        brings(-0.01, 0.1, 50),
        "11 % less time per `requests`, but anything from −1 % to 19 % fits the data"
    );
}

#[test]
fn a_bend_is_told_where_it_is_known() {
    let about_bend = |bend: (f64, f64), most: f64| {
        let profile = changed(false, |estimate| {
            let of = |value: f64, half: f64| {
                Some(Estimate { value, se: half / 2.0, lo: value - half, hi: value + half })
            };
            (estimate.bend, estimate.most) = (of(bend.0, bend.1), of(most, 0.005));
            for dot in &mut estimate.curve {
                let s = dot.speedup.fraction();
                dot.gain = of(
                    0.5 * s.min(bend.0) + (s - bend.0).max(0.0) * (most - 0.5 * bend.0) / (1.0 - bend.0),
                    0.005,
                );
            }
        });
        only(&profile).causes.into_iter().find(|cause| cause.starts_with("More than"))
    };
    // Anywhere from 4 to 76 %: nothing is told.
    assert_eq!(about_bend((0.4, 0.36), 0.4), None);
    assert_eq!(
        about_bend((0.4, 0.05), 0.4).unwrap(),
        "More than about 40 % less time in `hash.c:88` (35 to 45) brings less for each `requests` with each further per cent: something \
         else begins to limit it."
    );
    assert_eq!(
        about_bend((0.4, 0.009), 0.2).unwrap(),
        "More than about 40.0 % less time in `hash.c:88` (39.1 to 40.9) brings hardly anything more for each `requests`: something else is \
         the bottleneck from there on."
    );
}

#[test]
fn what_whatif_looked_into_by_itself_is_named_in_commands() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    rows.regions.get_mut(&RegionId::new(1)).unwrap().image.path = "/usr/lib/lib[x].so.5".into();
    let warning = |code: &str, message: &str| {
        let advice = "name what is to be looked into with --binary GLOB".into();
        (SessionId::new(1), Warning { code: code.into(), message: message.into(), advice })
    };
    rows.warnings.push(warning(
        Warning::CHOSEN_FILES,
        "most of the time is in lib[x].so.5, which was looked into as well",
    ));
    rows.warnings.push(warning(Warning::CHOSEN_POINT, ""));
    let profile = quiet(rows.clone()).read_from("server.db".as_ref());
    let next = profile.answer().next;
    let measured = next.iter().filter(|next| next.command.starts_with("whatif run "));
    for Next { command, .. } in measured {
        assert!(command.contains(" --binary 'lib[[]x[]].so.5' --binary server -p requests "), "{command}");
    }
    assert!(next.iter().any(|next| next.step == Step::Compare), "{next:?}");
    assert_eq!(
        only(&profile).notes.last().unwrap(),
        "Most of the time is in lib[x].so.5, which was looked into as well."
    );
    // Who has named files is taken at their word.
    rows.sessions[0].start.options = r#"{"again": ["--binary", "lib*"]}"#.into();
    let next = quiet(rows).read_from("server.db".as_ref()).answer().next;
    assert!(next.iter().all(|next| !next.command.contains("server -p")), "{next:?}");
}

#[test]
fn what_experiments_took_of_a_run_is_said_with_how_long_it_was() {
    let measured = |delayed: &[u64]| {
        let mut rows = rows(&[truth("hash.c:88", 0.55)]);
        let unmeasured = |id| Session { overhead: vec![], ..session(id) };
        rows.sessions = (1..).zip(delayed).map(|(id, _)| unmeasured(id)).collect();
        for (session, delayed) in rows.sessions.iter_mut().zip(delayed) {
            session.samples.delayed = Nanos::from_millis(*delayed);
        }
        quiet(rows).answer().measured.unwrap().split_once("`: ").unwrap().1.to_owned()
    };
    assert_eq!(measured(&[50]), "one run of 10.0 s");
    assert_eq!(measured(&[1_234]), "one run of 10.0 s; experiments paused threads for up to 12 % of it");
    assert_eq!(
        measured(&[1_000, 3_000]),
        "2 runs, 20.0 s in all; experiments paused threads for up to 20 % of it"
    );
    // What a damaged recording says may be anything.
    assert_eq!(measured(&[70_000]), "one run of 10.0 s");
}

#[test]
fn what_sampling_took_of_the_programs_speed_is_said_where_it_is_known() {
    let measured = |pairs: &[(u64, u64)]| {
        let mut rows = rows(&[truth("hash.c:88", 0.55)]);
        let pairs = (0..).zip(pairs);
        rows.sessions[0].overhead =
            pairs.map(|(number, (profiled, seldom))| overhead(number, *profiled, *seldom)).collect();
        quiet(rows).answer().measured.unwrap().split_once("one run of 10.0 s").unwrap().1.to_owned()
    };
    assert_eq!(
        measured(&[(78, 100), (80, 100), (82, 100), (80, 101), (79, 99)]),
        "; sampling took 20 % ± 2 % of the program's speed"
    );
    assert_eq!(
        measured(&[(99, 100), (101, 100), (98, 100), (100, 98)]),
        "; sampling took less than 3 % of the program's speed"
    );
    assert_eq!(measured(&[(70, 100), (130, 100), (98, 100), (100, 60)]), "", "it may be anything");
    assert_eq!(measured(&[(78, 100), (80, 100), (82, 100)]), "", "too few pairs");
    assert_eq!(measured(&[(0, 0), (0, 0), (0, 0), (0, 0), (0, 0)]), "", "nothing happened");
    // What a damaged recording says may be anything.
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    rows.sessions[0].overhead = (0..9).map(|number| overhead(number, 1 << 60, 0)).collect();
    let profile = quiet(rows);
    assert_eq!((profile.overhead(), profile.answer().measured.unwrap().contains("sampling")), (None, false));
}

#[test]
fn whole_programs_are_told_by_how_long_they_take() {
    let mut rows = rows(&[truth("hash.c:88", 0.55)]);
    rows.points.get_mut(&PointId::new(1)).unwrap().name = "end-to-end".into();
    rows.windows.iter_mut().for_each(|window| window.flags = WindowFlags::WHOLE);
    rows.sessions[0].start.options =
        r#"{"again": ["--end-to-end"], "end_to_end": true, "duration": 28.0}"#.into();
    let profile = quiet(rows).read_from("server.db".as_ref());
    let brings = only(&profile).brings.unwrap();
    assert!(brings.contains("% less time for the whole program (") && brings.contains(" µs → "), "{brings}");
    assert!(profile.sentence().contains("makes the whole program 1"), "{}", profile.sentence());
    let compare = profile.answer().next.pop().unwrap().command;
    assert!(compare.starts_with("whatif run --duration 28s --end-to-end -o after.db -- "), "{compare}");
}

#[test]
fn a_run_that_was_cut_short_is_measured_again_for_as_long_as_was_asked() {
    for (options, expected) in [
        (r#"{"duration": 60.0}"#, "whatif run --duration 60s -o after.db -- "),
        (r#"{"duration": null}"#, "whatif run --duration 3s -o after.db -- "),
        // Of several runs together.
        (r#"{"duration": 60.0, "repeat": 20}"#, "whatif run --duration 3s -o after.db -- "),
    ] {
        let mut rows = rows(&[truth("hash.c:88", 0.55)]);
        let session = &mut rows.sessions[0];
        session.start.options = options.into();
        let end = SessionEnd { duration: Nanos::from_millis(3_000), exit: Exit::Signal(2), stopped: true };
        session.end = Some(end);
        let profile = quiet(rows).read_from("server.db".as_ref());
        let compare = profile.answer().next.pop().unwrap().command;
        assert!(compare.starts_with(expected), "{options}: {compare}");
    }
}

#[test]
fn rows_are_in_the_order_of_the_gains_beside_them() {
    let truths = ["hash.c:88", "list.c:7", "main.c:3", "tree.c:9"];
    let truths = truths.map(|name| Truth { name, slope: 0.3, noise: 0.5, blocks: 8 });
    let mut rows = rows(&truths);
    for (id, region) in &mut rows.regions {
        region.function = Some(format!("function {}", id.get()));
    }
    let mut profile = quiet(rows);
    // The first by what is certain, the others by what is likely.
    for (region, (value, half)) in
        profile.regions.iter_mut().zip([(0.1, 0.1), (0.02, 0.1), (0.08, 0.2), (0.05, 0.3)])
    {
        let of = |value: f64, half: f64| {
            Some(Estimate { value, se: half / 2.0, lo: value - half, hi: value + half })
        };
        let point = &mut region.points[0];
        (point.verdict, point.effect, point.slope) =
            (Verdict::NotEnoughData, of(value, half), of(5.0 * value, 5.0 * half));
    }
    let pieces = only(&profile).pieces;
    let gains: Vec<f64> =
        pieces.iter().map(|piece| piece.estimate.as_ref().unwrap().effect.unwrap().value).collect();
    assert_eq!(gains, [0.1, 0.08, 0.05, 0.02]);
}

#[test]
fn of_an_interpreter_it_is_told_once_what_can_be_judged() {
    let mut rows = rows(&[truth("hash.c:88", 0.5)]);
    rows.points.clear();
    rows.windows.clear();
    let start = &mut rows.sessions[0].start;
    (start.program, start.arguments) = ("/usr/bin/python3.11".into(), vec!["work.py".into()]);
    let warning = Warning {
        code: "no-progress-point".into(),
        message: "no progress point: nothing says what counts as a unit of work".into(),
        advice: "python is an interpreter".into(),
    };
    rows.warnings.push((rows.sessions[0].id, warning));
    let profile = quiet(rows).read_from("work.db".as_ref());
    let (answer, first) = (profile.answer(), only(&profile));
    assert_eq!(first.headline.as_deref(), Some("Nothing was measured"));
    assert_eq!(first.badge.cause, "no progress point: nothing says what counts as a unit of work");
    assert_eq!(first.notes, Vec::<String>::new());
    let commands: Vec<&str> = answer.next.iter().map(|next| &*next.command).collect();
    assert_eq!(commands, ["whatif open work.db", "whatif run --end-to-end -- /usr/bin/python3.11 work.py"]);
}

#[test]
fn without_a_progress_point_functions_of_the_program_are_offered() {
    let mut rows = rows(&[truth("hash.c:88", 0.5)]);
    rows.points.clear();
    rows.windows.clear();
    rows.sessions[0].start.program = "./viewer".into();
    let session = rows.sessions[0].id;
    let own = || Image { path: "/srv/viewer".into(), build_id: None };
    let libc = Image { path: "/lib/libc.so.6".into(), build_id: None };
    let functions = [
        ("main", own()),
        ("std::rt::lang_start_internal", own()),
        ("viewer::main", own()),
        ("viewer::frame", own()),
        ("<viewer::Scene as viewer::Draw>::draw", own()),
        ("memmove", libc),
        ("viewer::rare", own()),
    ];
    // Each is called by the one before.
    for (nth, (name, image)) in functions.into_iter().enumerate() {
        let id = FunctionId::new(nth as i64 + 1);
        rows.functions.insert(id, Function { name: name.into(), file: None, image });
        let parent = (nth > 0).then(|| StackId::new(nth as i64));
        let frame = StackFrame { parent, function: id, line: None, inlined: false };
        rows.stacks.insert(StackId::new(nth as i64 + 1), frame);
    }
    rows.stack_samples = [(4, 40), (5, 30), (6, 28), (7, 2)]
        .map(|(stack, count)| StackSamples {
            session,
            stack: StackId::new(stack),
            count,
            weight: Nanos::from_millis(count),
        })
        .to_vec();
    let offered = |rows: Rows| -> Vec<(String, String)> {
        let next = quiet(rows).read_from("viewer.db".as_ref()).answer().next;
        let points = next.into_iter().filter(|next| next.step == Step::Point);
        points.map(|Next { why, command, .. }| (why, command)).collect()
    };
    let expected = [
        // What everything is below is called once, as a rule.
        (
            "count each call of `<viewer::Scene as viewer::Draw>::draw`, if that is a unit of work: 60 % of the CPU time is in it or below",
            "whatif run -p 'fn:<viewer::Scene as viewer::Draw>::draw' -- ./viewer --port '80 80'",
        ),
        (
            "count each call of `viewer::frame`, if that is a unit of work: 100 % of the CPU time is in it or below",
            "whatif run -p fn:viewer::frame -- ./viewer --port '80 80'",
        ),
    ];
    assert_eq!(offered(rows.clone()), expected.map(|(why, command)| (why.to_owned(), command.to_owned())));
    // Of another failure they would be no help.
    let warning = Warning { code: "no-samples".into(), message: String::new(), advice: String::new() };
    assert!(warning.is_failure());
    rows.warnings.push((session, warning));
    assert_eq!(offered(rows), []);
}
