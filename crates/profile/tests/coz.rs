//! Profiles of Coz, with everything in them that is not what it seems.

use profile::{EstimateOptions, LeftOutReason, Nanos, PointKind, Profile, Rows, Verdict, WindowFlags, coz};

/// A profile in the making.
#[derive(Clone, Default)]
struct Text(String);

impl Text {
    fn run(mut self, time: u64) -> Text {
        self.0 += &format!("startup\ttime={time}\n");
        self
    }

    fn line(mut self, line: &str) -> Text {
        self.0 += line;
        self.0.push('\n');
        self
    }

    /// An experiment of 100 ms.
    fn experiment(self, line: &str, speedup: f64, visits: u64) -> Text {
        self.timed(line, speedup, 100_000_000, 10).line(&format!("throughput-point\tname=p\tdelta={visits}"))
    }

    fn timed(self, line: &str, speedup: f64, duration: i64, samples: u64) -> Text {
        let duration = duration as u64;
        self.line(&format!(
            "experiment\tselected={line}\tspeedup={speedup:.2}\tduration={duration}\tselected-samples={samples}"
        ))
    }

    fn rows(&self) -> Rows {
        coz::read(self.0.as_bytes(), "test.coz").unwrap()
    }
}

fn profile(rows: Rows) -> Profile {
    Profile::new(rows, &EstimateOptions::default())
}

fn all_visits(rows: &Rows) -> u64 {
    rows.windows.iter().flat_map(|window| &window.visits).map(|visits| visits.count).sum()
}

fn code_of_last_warning(rows: &Rows) -> &str {
    &rows.warnings.last().unwrap().1.code
}

/// Line `a.c:1` has a slope of 0.5, `a.c:2` of nothing.
fn two_lines(baselines: usize) -> Text {
    let mut text = Text::default().run(1_000_000);
    for nth in 0..60 {
        let s = (nth % 20 + 1) as f64 / 20.0;
        let visits = 1000.0 + [-5.0, 2.0, -2.0, 4.0, 1.0][nth % 5];
        text = text.experiment("a.c:1", s, (visits / (1.0 - 0.5 * s)).round() as u64);
        text = text.experiment("a.c:2", s, visits as u64);
        if nth % 2 == 0 && nth / 2 < baselines {
            text = text.experiment("a.c:1", 0.0, visits as u64).experiment("a.c:2", 0.0, visits as u64);
        }
    }
    text
}

#[test]
fn slopes_with_intervals() {
    let profile = profile(two_lines(30).rows());
    let best = &profile.regions[0];
    assert_eq!(profile.region(best).name, "a.c:1");
    let estimate = &best.points[0];
    let slope = estimate.slope.unwrap();
    assert_eq!((estimate.verdict, estimate.blocks), (Verdict::Helps, 30));
    assert!((slope.value - 0.5).abs() < 0.02 && slope.lo < 0.5 && 0.5 < slope.hi, "{slope:?}");
    assert_eq!(profile.regions[1].points[0].verdict, Verdict::NoEffect);
    assert_eq!(profile.left_out.windows.unpaired, 0);
}

#[test]
fn without_baselines_there_is_no_number() {
    // Experiments whose line has a baseline in other runs only, or only one, or few.
    let none = profile(two_lines(0).rows());
    assert_eq!((none.regions.len(), none.left_out.without_baseline), (0, 2));

    let one = profile(two_lines(1).rows());
    let estimate = &one.regions[0].points[0];
    assert_eq!((estimate.verdict, estimate.blocks), (Verdict::NotEnoughData, 1));
    assert_eq!(estimate.slope.unwrap().hi, f64::INFINITY);
    assert!(one.sentence().starts_with("Not enough data yet"), "{}", one.sentence());

    let four = profile(two_lines(4).rows());
    assert_eq!(four.regions[0].points[0].verdict, Verdict::NotEnoughData);

    let mut elsewhere = Text::default().run(1).experiment("a.c:1", 0.0, 9).experiment("a.c:1", 0.0, 9);
    elsewhere = elsewhere.run(2);
    for nth in 1..=8 {
        elsewhere = elsewhere.experiment("a.c:1", f64::from(nth) / 10.0, 9);
    }
    let elsewhere = profile(elsewhere.rows());
    assert_eq!((elsewhere.regions.len(), elsewhere.left_out.windows.unpaired), (0, 8));
}

#[test]
fn every_run_begins_anew_and_counts_its_samples_anew() {
    let run = |text: Text, start, count| {
        text.run(start)
            .experiment("a.c:1", 0.0, 5)
            .line("runtime\ttime=100000000")
            .line("samples\tlocation=a.c:1\tcount=3")
            .line("samples\tlocation=b.c:1\tcount=1")
            .experiment("a.c:1", 0.5, 5)
            .line("runtime\ttime=900000000")
            .line(&format!("samples\tlocation=a.c:1\tcount={count}"))
    };
    let rows = run(run(Text::default(), 5, 7), 99, 40).rows();
    assert_eq!(rows.sessions.len(), 2);
    assert_eq!(rows.sessions[1].start.started, Nanos::new(99));
    let counts: Vec<(i64, i64, u64)> =
        rows.samples.iter().map(|of| (of.session.get(), of.region.get(), of.count)).collect();
    assert_eq!(
        counts,
        [(1, 1, 7), (1, 2, 1), (2, 1, 40), (2, 2, 1)],
        "the last record of a line is all of it"
    );
    assert_eq!(rows.samples[2].weight, Nanos::from_millis(40));
    let totals = rows.sessions[1].samples;
    assert_eq!((totals.count, totals.weight), (41, Nanos::from_millis(41)));
    // The first `runtime` is the length of one experiment.
    assert_eq!(totals.until, Nanos::from_millis(900));
    assert_eq!(rows.sessions[1].end.unwrap().duration, Nanos::from_millis(900));
    let sessions: Vec<i64> = rows.windows.iter().map(|window| window.session.get()).collect();
    assert_eq!(sessions, [1, 1, 2, 2]);
}

#[test]
fn a_run_that_was_killed_is_as_long_as_its_experiments() {
    let killed = Text::default()
        .run(5)
        .experiment("a.c:1", 0.0, 5)
        .experiment("a.c:1", 0.5, 5)
        .line("runtime\ttime=100000000")
        .line("samples\tlocation=a.c:1\tcount=3")
        .experiment("a.c:1", 0.2, 5);
    let rows = killed.rows();
    assert_eq!(rows.sessions[0].end.unwrap().duration, Nanos::from_millis(330), "as far as it is known");
    // Samples are those of the first two experiments, and the time is theirs.
    assert_eq!(rows.sessions[0].samples.until, Nanos::from_millis(220));
    assert!(rows.windows.iter().all(|window| window.flags == WindowFlags::NONE));

    // The experiment that was under way when a run ended counts for nothing.
    for end in ["runtime\ttime=900000000", "shutdown\ttime=900000005\tsamples=77"] {
        let rows = killed.clone().line(end).rows();
        let flags: Vec<bool> = rows.windows.iter().map(|window| window.flags.has(WindowFlags::CUT)).collect();
        assert_eq!(flags, [false, false, true], "{end}");
        assert_eq!(rows.sessions[0].samples.until, Nanos::from_millis(900), "{end}");
    }
    let rows = killed.line("shutdown\ttime=900000005\tsamples=77").rows();
    assert_eq!(rows.sessions[0].samples.count, 77);
}

#[test]
fn more_delay_than_time_is_left_out() {
    let rows = Text::default()
        .run(5)
        .experiment("a.c:1", 0.0, 50)
        .timed("a.c:1", 1.0, -5_700_000, 2000)
        .line("throughput-point\tname=p\tdelta=50")
        .rows();
    let window = &rows.windows[1];
    assert_eq!((window.elapsed.get(), window.required.get()), (100_000_000, 105_700_000));
    let profile = profile(rows);
    assert_eq!(profile.left_out.windows.overdrawn, 1);
}

#[test]
fn latency_needs_what_is_in_flight() {
    let rows = Text::default()
        .run(5)
        .timed("a.c:1", 0.0, 100_000_000, 10)
        .line("latency-point\tname=q\tarrivals=30\tdepartures=28\tdifference=4")
        .timed("a.c:1", 0.5, 50_000_000, 100)
        .line("latency-point\tname=q\tarrivals=30\tdepartures=35\tdifference=18446744073709551613")
        .rows();
    let kinds: Vec<PointKind> = rows.points.values().map(|point| point.kind).collect();
    assert_eq!(kinds, [PointKind::Begin, PointKind::End]);
    assert!(rows.points.values().all(|point| point.name == "q"));
    let (begin, end) = (*rows.points.keys().next().unwrap(), *rows.points.keys().last().unwrap());
    let window = &rows.windows[0];
    assert_eq!((window.visits(begin), window.visits(end)), (30, 28));
    assert_eq!(window.in_flight[0].integral.get(), 400_000_000);
    assert_eq!(window.flags, WindowFlags::NONE);
    assert!(rows.windows[1].in_flight.is_empty(), "unknown below zero");
    assert_eq!(rows.windows[1].flags, WindowFlags::UNMATCHED);
}

#[test]
fn damage_costs_no_more_than_its_experiment() {
    let good = || two_lines(30);
    let half = good().0.lines().count() / 2 / 2 * 2; // before an experiment: the first line is the startup
    let (before, after): (Vec<_>, Vec<_>) =
        good().0.lines().map(str::to_owned).enumerate().partition(|(nth, _)| *nth <= half);
    let text =
        |lines: Vec<(usize, String)>| lines.into_iter().map(|(_, line)| line + "\n").collect::<String>();
    let (before, after) = (text(before), text(after));
    let expected = good().rows().windows.len();
    assert!(after.starts_with("experiment"));
    for (what, damage, windows, cut, lines) in [
        ("garbage between complete experiments", "\u{0}garbage\u{ff}\n", expected, 0, 1),
        (
            "an experiment without points",
            "experiment\tselected=a.c:1\tspeedup=0.50\tduration=9\tselected-samples=1\n",
            expected + 1,
            1,
            0,
        ),
        (
            "a point without a number",
            "experiment\tselected=a.c:1\tspeedup=0.50\tduration=9\tselected-samples=1\nthroughput-point\tname=p\tdel\n",
            expected + 1,
            1,
            1,
        ),
        (
            "a point of an experiment that is not there",
            "experiment\tselected=a.c:1\tspeedup=0.\u{ff}\nthroughput-point\tname=p\tdelta=77\n",
            expected,
            0,
            2,
        ),
        (
            "points behind two experiments, of which the second is not there",
            "experiment\tselected=a.c:1\tspeedup=0.50\tduration=9\tselected-samples=1\nexperi\nthroughput-point\tname=p\tdelta=77\n",
            expected + 1,
            1,
            2,
        ),
        ("a point twice", "throughput-point\tname=p\tdelta=9999\n", expected, 0, 1),
        ("a tally", "samples\tlocation=a.c:1\tcount=\n", expected, 0, 1),
    ] {
        let rows =
            coz::read([before.as_bytes(), damage.as_bytes(), after.as_bytes()].concat().as_slice(), "x")
                .unwrap();
        assert_eq!(rows.windows.len(), windows, "{what}");
        assert_eq!(all_visits(&rows), all_visits(&good().rows()), "{what}");
        let flagged = rows.windows.iter().filter(|window| window.flags.has(WindowFlags::CUT)).count();
        assert_eq!(flagged, cut, "{what}");
        if lines == 0 {
            assert_eq!(code_of_last_warning(&rows), "from-coz", "{what}");
        } else {
            let warning = &rows.warnings.last().unwrap().1;
            assert_eq!(warning.code, "damaged-lines", "{what}");
            let said = if lines == 1 { "one line of".to_owned() } else { format!("{lines} lines of") };
            assert!(warning.message.starts_with(&said), "{what}: {}", warning.message);
        }
        let best = &profile(rows).regions[0].points[0];
        assert!((best.slope.unwrap().value - 0.5).abs() < 0.02, "{what}: {:?}", best.slope);
    }
    // The end of the file is missing.
    for lost in 1..200 {
        let text = good().0;
        let rows = coz::read(&text.as_bytes()[..text.len() - lost], "x").unwrap();
        let kept = all_visits(&rows);
        let all = all_visits(&good().rows());
        let incomplete = rows.windows.iter().filter(|window| window.visits.is_empty()).collect::<Vec<_>>();
        assert!(incomplete.iter().all(|window| window.flags.has(WindowFlags::CUT)), "{lost}");
        assert!(kept < all && all - kept < 10_000, "{lost}");
    }
}

#[test]
fn a_point_that_the_run_had_before_cannot_be_missing() {
    let text = Text::default()
        .run(5)
        .experiment("a.c:1", 0.0, 50)
        .experiment("a.c:1", 0.5, 50)
        .line("throughput-point\tname=later\tdelta=9")
        .experiment("a.c:1", 0.7, 50);
    let flags: Vec<bool> =
        text.rows().windows.iter().map(|window| window.flags.has(WindowFlags::CUT)).collect();
    assert_eq!(flags, [false, false, true], "points are there from their first visit on");
}

#[test]
fn a_baseline_from_before_a_change_of_speed_is_none() {
    let mut text = Text::default().run(1);
    for block in 0..40 {
        let speed = if block < 20 { 1000 } else { 400 };
        let wobble = [0, 7, 3, 9, 5][block % 5];
        // After the change `a.c:1` has no baseline any more, but the program has.
        text = text.experiment(if block < 20 { "a.c:1" } else { "a.c:2" }, 0.0, speed + wobble);
        text = text.experiment("a.c:1", (block % 20 + 1) as f64 / 20.0, speed + wobble);
    }
    let profile = profile(text.rows());
    assert_eq!(profile.drift[0].segments.len(), 2);
    let slope = profile.regions[0].points[0].slope.unwrap();
    assert!(slope.value.abs() < 0.02, "{slope:?}");
    let rows = profile.explain("a.c:1").unwrap().points[0].blocks.clone();
    let straddling = rows.iter().filter(|row| row.left_out == Some(LeftOutReason::Straddling)).count();
    assert_eq!(straddling, 21, "those after the change, and the one beside it");
}

#[test]
fn what_is_no_profile_of_coz_is_told() {
    for text in [
        "",
        "\n\n",
        "SQLite format 3\0",
        "startup",
        "name,delta\np,3\n",
        "{}\n[]\n",
        "samples\tlocation=a:1\tcount=1\n",
    ] {
        assert_eq!(coz::read(text.as_bytes(), "x").err(), Some(coz::NotCoz), "{text}");
        assert!(!coz::is_profile(text.as_bytes()), "{text}");
    }
    assert!(coz::is_profile(two_lines(1).0.as_bytes()));
    assert!(coz::is_profile(b"half a line\n{\"type\":\"startup\",\"time\":1}"));
    assert!(coz::NotCoz.to_string().ends_with("profile.jsonl"));
}
