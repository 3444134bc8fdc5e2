//! What each format looks like, for a recording whose truth is known.

use crate::synthetic::{Truth, rows, with_latency};
use profile::*;
use prost::Message as _;
use report::{coz, csv, firefox, folded, json, markdown, pprof, terminal};

fn some_rows() -> Rows {
    let truth = |name, slope| Truth { name, slope, noise: 0.1, blocks: 20 };
    let mut rows = rows(&[truth("hash.c:90", 0.1), truth("hash.c:88", 0.55), truth("hash.c:12", -0.5)]);
    rows.warnings.push((
        SessionId::new(1),
        Warning {
            code: "busy-machine".into(),
            message: "other programs used 25 % of the machine".into(),
            advice: "stop them, or give whatif its own CPUs: taskset -c 2,3 whatif run -- PROGRAM".into(),
        },
    ));
    rows.windows[3].flags = WindowFlags::UNBALANCED;
    rows
}

fn profile() -> Profile {
    Profile::new(some_rows(), &EstimateOptions::default())
}

/// Two programs ran as one, and a third one could not be followed.
fn of_a_tree() -> Profile {
    let mut rows = some_rows();
    let program = |path: &str, obstacle: Option<&str>, processes, cpu| Program {
        path: path.into(),
        obstacle: obstacle.map(str::to_owned),
        processes,
        samples: if obstacle.is_none() { cpu } else { 0 },
        cpu: Nanos::from_millis(cpu),
    };
    rows.sessions[0].programs = vec![
        program("/bin/server", None, 1, 2_250),
        program("/opt/worker", None, 4, 6_750),
        program("/opt/old|`tool`", Some("it is statically linked"), 2, 1_000),
    ];
    let main = rows.sessions[0].threads[0].clone();
    let worker = |tid, running| Thread {
        tid,
        name: format!("worker|-{tid}"),
        running: Nanos::from_millis(running),
        for_threads: Nanos::from_millis(2_000),
        ..main.clone()
    };
    rows.sessions[0].threads.extend([worker(8, 1_000), worker(9, 2_000)]);
    rows.regions.get_mut(&RegionId::new(3)).unwrap().image.path = "/opt/worker".into();
    Profile::new(rows, &EstimateOptions::default())
}

#[test]
fn programs_are_named_beside_their_code_and_with_their_time() {
    let profile = of_a_tree();
    let text = terminal::render(&profile, terminal::Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("hash.c:88 (server)") && text.contains("hash.c:12 (worker)"), "{text}");
    golden("programs-80.txt", &text);
    let wide = terminal::Style { width: 120, ..terminal::Style::default() };
    let details = terminal::render_details(&profile, wide);
    assert!(details.contains("hash.c:88 (server)") && details.contains("CPU time by program"), "{details}");
    golden("programs.md", &markdown::render(&profile));
    assert!(
        csv::render(&profile).lines().any(|line| line.starts_with("hash.c:12,") && line.ends_with(",worker"))
    );
    let report: serde_json::Value = serde_json::from_str(&json::render(&profile)).unwrap();
    assert_documented(&report);
    let titles: Vec<_> = report["programs"].as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, ["worker × 4", "server", "old|`tool` × 2"]);
    let threads: Vec<_> =
        report["threads"].as_array().unwrap().iter().map(|one| (&one["title"], &one["running"])).collect();
    let of = |title: &str, running: f64| (serde_json::Value::from(title), serde_json::Value::from(running));
    let [main, workers] = [of("main thread", 0.9), of("worker|-N × 2", 0.3)];
    assert_eq!(threads, [(&main.0, &main.1), (&workers.0, &workers.1)]);
    assert_eq!(report["programs"][2]["obstacle"], "it is statically linked");
    assert_eq!(report["sessions"][0]["programs"][1]["path"], "/opt/worker");
    let alone: serde_json::Value = serde_json::from_str(&json::render(&self::profile())).unwrap();
    assert_eq!((&alone["programs"], &alone["threads"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert!(alone["regions"][0]["program"].is_null() && report["regions"][0]["program"].is_string());
}

/// Compares with the file; `UPDATE_GOLDEN=1 cargo test -p whatif-report` writes it anew.
fn golden(file: &str, text: &str) {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(
        text == expected,
        "{file} differs; if it should: UPDATE_GOLDEN=1 cargo test -p whatif-report\n{text}"
    );
}

/// A region that is dense in its windows and half as dense in the run was in a phase.
#[test]
fn a_region_in_a_phase_is_shown_with_and_without_correction() {
    let mut rows = some_rows();
    for session in &mut rows.sessions {
        let windows: u64 = rows.windows.iter().map(|window| window.elapsed.get()).sum();
        session.samples.delayed = Nanos::ZERO;
        session.samples.until = Nanos::new(10 * windows);
    }
    let profile = Profile::new(rows, &EstimateOptions::default());
    let text =
        terminal::render_details(&profile, terminal::Style { width: 200, ..terminal::Style::default() });
    let region = &profile.regions[0];
    assert!(region.phase < 0.9, "{}", region.phase);
    let slope = region.points[0].slope.unwrap().value;
    let both =
        format!("its slope is {:.2} while it does, and {slope:.2} over the whole run", slope / region.phase);
    assert!(text.contains(&both), "{text}");
}

#[test]
fn terminal_with_80_columns() {
    let text = terminal::render(&profile(), terminal::Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    golden("terminal-80.txt", &text);
    golden("details-80.txt", &terminal::render_details(&profile(), terminal::Style::default()));
}

#[test]
fn terminal_with_120_columns_and_colours() {
    let style = terminal::Style { color: true, width: 120, top: 2, ..terminal::Style::default() };
    let text = terminal::render(&profile(), style);
    assert!(text.contains("\u{1b}[32mhelps") && text.contains("… and 1 more: --top 3"), "{text}");
    golden("terminal-120.txt", &text);
    golden("details-120.txt", &terminal::render_details(&profile(), style));
}

/// Cost in production beside the worth, with one region that is hot for nothing and one that is worth more than it costs.
#[test]
fn production_and_marks_are_shown() {
    let truth = |name, slope| Truth { name, slope, noise: 0.02, blocks: 40 };
    let mut rows = rows(&[truth("hash.c:90", 0.0), truth("hash.c:88", 0.4), truth("hash.c:12", 0.3)]);
    rows.samples.iter_mut().for_each(|samples| samples.weight = Nanos::from_millis(90));
    rows.windows.iter_mut().for_each(|window| window.region_weight = Nanos::from_millis(1));
    let since = profile::UnixSeconds(1_790_000_000);
    let until = profile::UnixSeconds(1_790_600_000);
    rows.production = [(1, 0.31), (2, 0.002), (3, 0.25)]
        .into_iter()
        .map(|(region, share)| Production {
            session: SessionId::new(1),
            region: RegionId::new(region),
            share,
            samples: (10_000.0 * share) as u64,
            since,
            until,
            hosts: 3,
        })
        .collect();
    let profile = Profile::new(rows, &EstimateOptions::default());
    let text = terminal::render_details(&profile, terminal::Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("\n○ hash.c:90 ") && text.contains("\n◆ hash.c:88 "), "{text}");
    golden("details-production.txt", &text);
    let wide = terminal::render_details(&profile, terminal::Style { width: 120, ..Default::default() });
    assert!(wide.contains("  experiments  share  prod.  gain"), "{wide}");
    let said = markdown::render(&profile);
    assert!(said.contains("| | CPU | In production |\n"), "{said}");
    assert!(said.contains("| no effect (hot, but does not matter) | 1 % | 31 % |\n"), "{said}");
    let report: serde_json::Value = serde_json::from_str(&json::render(&profile)).unwrap();
    assert_documented(&report);
    assert_eq!(report["production"]["hosts"], 3);
    let of = |name: &str| {
        let regions = report["regions"].as_array().unwrap();
        let region = regions.iter().find(|region| region["name"] == name).unwrap();
        (region["production_share"].as_f64().unwrap(), region["mark"].clone())
    };
    assert_eq!(of("hash.c:90"), (0.31, "hot-but-does-not-matter".into()));
    assert_eq!(of("hash.c:88"), (0.002, "matters-but-is-not-hot".into()));
    assert_eq!(of("hash.c:12"), (0.25, serde_json::Value::Null));
    assert!(csv::render(&profile).contains(",0.002000,matters-but-is-not-hot,\r\n"));
}

#[test]
fn terminal_with_latency() {
    let mut rows = with_latency(some_rows());
    rows.points.insert(PointId::new(4), Point { name: "idle".into(), kind: PointKind::Throughput });
    rows.sessions[0].end = None;
    let text = terminal::render_details(
        &Profile::new(rows, &EstimateOptions::default()),
        terminal::Style::default(),
    );
    golden("details-latency.txt", &text);
}

#[test]
fn terminal_says_where_another_bottleneck_takes_over() {
    let mut rows = some_rows();
    let best = RegionId::new(2); // a slope of 0.55, from now on up to 40 % only
    for window in rows.windows.iter_mut().filter(|window| window.region == best) {
        let s = window.speedup.fraction();
        let less = (1.0 - 0.55 * s) / (1.0 - 0.55 * s.min(0.4));
        window.visits[0].count = (window.visits[0].count as f64 * less) as u64;
    }
    let profile = Profile::new(rows, &EstimateOptions::default());
    let text = terminal::render_details(&profile, terminal::Style { width: 100, ..Default::default() });
    let said = text.lines().find(|line| line.contains("worth up to")).expect(&text);
    assert!(
        said.starts_with("  hash.c:88: worth up to 2") && said.contains("beyond a speedup of "),
        "{said}"
    );

    let report: serde_json::Value = serde_json::from_str(&json::render(&profile)).unwrap();
    let estimates = || report["regions"].as_array().unwrap().iter().map(|region| &region["points"][0]);
    let number = |name: &str| {
        let bent: Vec<f64> = estimates().filter_map(|point| point[name].as_f64()).collect();
        assert_eq!(bent.len(), 1, "{name} of the one region that bends");
        bent[0]
    };
    assert!((number("bend") - 0.4).abs() < 0.1);
    assert!(number("bend_lo") < 0.4 && 0.4 < number("bend_hi"));
    assert!((estimates().next().unwrap()["max_gain"].as_f64().unwrap() - 0.22).abs() < 0.05);
}

#[test]
fn the_first_screen_of_nested_regions() {
    let profile = nested().read_from("whatif-server.db".as_ref());
    golden("first-80.txt", &terminal::render(&profile, terminal::Style::default()));
    // Nothing is wider than the terminal but commands, which are to be copied.
    for width in [60, 72, 80, 120, 200] {
        let text = terminal::render(&profile, terminal::Style { width, ..Default::default() });
        for line in text.lines().filter(|line| !line.starts_with("    whatif ")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn terminal_without_anything() {
    let text =
        terminal::render(&Profile::new(Rows::default(), &EstimateOptions::default()), Default::default());
    assert!(text.starts_with("No experiment was completed"), "{text}");
}

#[test]
fn json_has_the_documented_fields() {
    let text = json::render(&profile());
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["sessions"][0]["seed"], (u64::MAX - 1).to_string());
    assert_eq!(report["sessions"][0]["exit_code"], 0);
    assert_eq!(report["left_out"]["windows_unbalanced"], 1);
    assert_eq!(report["warnings"][0]["code"], "busy-machine");
    let best = &report["regions"][0];
    assert_eq!((&best["name"], &best["verdict"]), (&"hash.c:88".into(), &"helps".into()));
    let point = &best["points"][0];
    assert!((point["slope"].as_f64().unwrap() - 0.55).abs() < 0.1);
    let speedups = point["speedups"].as_array().unwrap();
    assert_eq!(
        (speedups.len(), &speedups[0]["speedup"], &speedups[0]["gain"]),
        (11, &0.0.into(), &0.0.into())
    );
    assert!((speedups[10]["gain"].as_f64().unwrap() - 0.55).abs() < 0.1);
    assert!((speedups[10]["raw_gain"].as_f64().unwrap() - 0.55).abs() < 0.2);
    assert!(point["bend"].is_null() && (point["max_gain"].as_f64().unwrap() - 0.55).abs() < 0.1);
    assert_eq!(speedups[0]["windows"], 20);
    assert!(speedups[0]["lo"].as_f64().unwrap() < 0.0);

    assert_eq!(report["doubts"]["windows"], 120);
    assert_eq!(report["drift"][0]["segments"][0]["windows"], 60);
    assert_documented(&report);
}

/// Every field is documented.
#[track_caller]
fn assert_documented(report: &serde_json::Value) {
    let documented = include_str!("../../../docs/json.md");
    let mut open = vec![report];
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    assert!(documented.contains(&format!("`{key}`")), "docs/json.md lacks {key}");
                    open.push(value);
                }
            }
            serde_json::Value::Array(values) => open.extend(values),
            _ => {}
        }
    }
}

#[test]
fn json_in_brief_has_the_answer_and_never_more_than_two_kilobytes() {
    let text = json::render_brief(&profile());
    assert!(text.len() <= json::LONGEST_BRIEF && text.lines().count() == 1);
    let brief: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_documented(&brief);
    assert_eq!(brief["points"][0]["decision"]["kind"], "sure");
    assert_eq!(brief["points"][0]["pieces"][0]["name"], "`hash.c:88`");
    assert_eq!(brief["sentence"], profile().sentence());
    for length in [100, 1_000, 100_000] {
        for letter in ["a", "\u{202e}", "\u{1f600}", "\"", "\u{1}"] {
            let mut rows = some_rows();
            rows.regions.values_mut().for_each(|region| region.name = letter.repeat(length));
            rows.points.values_mut().for_each(|point| point.name = letter.repeat(length));
            rows.sessions.iter_mut().for_each(|session| session.start.program = letter.repeat(length));
            let text = json::render_brief(&Profile::new(rows, &EstimateOptions::default()));
            assert!(text.len() <= json::LONGEST_BRIEF, "{} bytes", text.len());
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    }
}

#[test]
fn json_has_no_infinities() {
    let mut rows = some_rows();
    rows.sessions[0].start.fixed_speedups = true;
    rows.windows.truncate(2); // one block: its interval is unbounded
    let text = json::render(&Profile::new(rows, &EstimateOptions::default()));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let point = &report["regions"][0]["points"][0];
    assert!(point["slope"].is_f64() && point["slope_lo"].is_null() && point["slope_se"].is_null());
    assert_eq!(point["verdict"], "not-enough-data");
}

#[test]
fn coz_formats() {
    let mut rows = some_rows();
    rows.windows.truncate(2);
    rows.windows[1].required = Nanos::from_millis(4);
    rows.samples.truncate(1);
    let function =
        Region { kind: RegionKind::Function, name: "work".into(), ..rows.regions[&RegionId::new(1)].clone() };
    rows.windows.push(Window { region: RegionId::new(9), ..rows.windows[1].clone() });
    rows.regions.insert(RegionId::new(9), function);
    let (begin, end) = (PointId::new(2), PointId::new(3));
    rows.points.insert(begin, Point { name: "lookup".into(), kind: PointKind::Begin });
    rows.points.insert(end, Point { name: "lookup".into(), kind: PointKind::End });
    rows.windows[0].visits.push(Visits { point: begin, count: 9, span: None });
    rows.windows[0].visits.push(Visits { point: end, count: 8, span: None });
    rows.windows[0].in_flight.push(InFlight { begin, integral: VisitNanos::new(260_000_000) });
    let profile = Profile::new(rows, &EstimateOptions::default());
    golden("coz.txt", &coz::render_legacy(&profile));
    golden("coz.jsonl", &coz::render_jsonl(&profile));
}

#[test]
fn a_phase_is_mentioned() {
    let mut rows = some_rows();
    rows.samples[1].weight = Nanos::from_millis(500);
    let text = terminal::render_details(&Profile::new(rows, &EstimateOptions::default()), Default::default());
    assert!(text.contains("  hash.c:88 runs in 50 % of the run: its slope is "), "{text}");
}

/// Some rows with a queue, a change of speed, other programs and doubts about some windows.
fn troubled_rows() -> Rows {
    let mut rows = with_latency(some_rows());
    rows.windows[0].visits[1].count *= 2;
    rows.windows[9].flags = WindowFlags::BUSY.with(WindowFlags::UNMATCHED);
    for window in rows.windows.iter_mut().filter(|window| window.block >= 30) {
        window.visits.iter_mut().for_each(|visits| visits.count /= 2);
    }
    rows
}

#[test]
fn what_happened_during_the_run_is_said() {
    let text = terminal::render_details(
        &Profile::new(troubled_rows(), &EstimateOptions::default()),
        terminal::Style { width: 300, ..Default::default() },
    );
    for said in [
        "; 1 of 119 measurements were unstable: the queue was growing; latency is not in a steady state\n",
        "  throughput of `requests` fell by 50 % after 5.90 s (from 10",
        "/s ± ",
        ": results before and after are kept apart\n",
        "  the rate at which `lookup` ends fell by 50 % after 5.90 s",
        "  1 of 120 measurements (1 %) were made while other programs used more than 10 % of the machine\n",
        "  1 of 120 measurements (1 %) were left with more ends than begins: their latencies are not known\n",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
}

#[test]
fn terminal_with_an_explanation() {
    let mut rows = troubled_rows();
    rows.windows.retain(|window| window.block < 2 || window.block >= 20);
    rows.windows[0].visits[1].count /= 2;
    let profile = Profile::new(rows, &EstimateOptions { fixed: true, ..EstimateOptions::default() });
    let explanation = profile.explain("hash.c:90").unwrap();
    golden("explain.txt", &terminal::render_explanation(&explanation, terminal::Style::default()));
    let split = profile.explain("hash.c:88").unwrap();
    let text = terminal::render_explanation(&split, terminal::Style::default());
    assert!(text.contains("because the program's speed changed"), "{text}");
    assert!(text.contains("left out: straddling"), "{text}");
}

#[test]
fn json_explains_with_the_documented_fields() {
    let profile = Profile::new(troubled_rows(), &EstimateOptions::default());
    let text = json::render_explanation(&profile.explain("hash.c:88").unwrap());
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_documented(&report);
    let explained = &report["explained"][0];
    assert_eq!((&explained["point"], &explained["kind"]), (&"requests".into(), &"throughput".into()));
    let first = &explained["working"]["sums"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let expected = number(&first["expected_by_own"]) + number(&first["expected_by_all"]);
    assert!((number(&first["gain"]) - (1.0 - expected / number(&first["visits"]))).abs() < 1e-12);
    assert_eq!(report["estimate"]["points"][0]["kept_apart"], true);
    assert_eq!(explained["blocks"].as_array().unwrap().len(), 20);
    assert_eq!(explained["blocks"][9]["left_out"], "straddling");
    assert_eq!(report["sessions"][0]["whatif_version"], "0.1.0");
    assert_eq!(report["books"].as_array().unwrap().len(), 11);

    let mut rows = some_rows();
    rows.windows.truncate(3);
    let profile = Profile::new(rows, &EstimateOptions::default());
    let report: serde_json::Value =
        serde_json::from_str(&json::render_explanation(&profile.explain("hash").unwrap())).unwrap();
    assert_eq!(report["without_estimate"], "few-speedups");
}

/// The usual recording, and one in which a line has moved, another became critical, and everything is faster.
fn compared(check: impl FnOnce(&Comparison<'_>)) {
    let truth = |name, slope| Truth { name, slope, noise: 0.1, blocks: 40 };
    let snippet = |first_line, line: &str| Snippet { first_line, text: format!("{{\n  {line}\n}}") };
    let mut before = crate::synthetic::rows_of(
        1,
        &[truth("hash.c:90", 0.1), truth("hash.c:88", 0.55), truth("hash.c:12", 0.0)],
    );
    before.snippets.insert(RegionId::new(2), snippet(87, "hash(key);"));
    let mut after = crate::synthetic::rows_of(
        2,
        &[truth("hash.c:95", 0.1), truth("hash.c:12", 0.6), truth("hash.c:7", 0.3)],
    );
    after.snippets.insert(RegionId::new(1), snippet(94, "hash(key);"));
    after.sessions[0].start.started = Nanos::new(7);
    after.windows.iter_mut().for_each(|window| window.visits[0].count += 200);
    let profile = |rows| Profile::new(rows, &EstimateOptions::default());
    let (before, after) = (profile(before), profile(after));
    check(&Comparison::new(&before, &after, &EstimateOptions::default()));
}

#[test]
fn comparison_with_80_columns() {
    compared(|comparison| {
        let text = terminal::render_comparison(comparison, terminal::Style::default());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        golden("comparison-80.txt", &text);
    });
}

#[test]
fn comparison_as_json_has_the_documented_fields() {
    compared(|comparison| {
        let text = json::render_comparison(comparison);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["version"], 1);
        assert_eq!(report["points"][0]["change"], "better");
        assert!((report["points"][0]["gain"].as_f64().unwrap() - 0.16).abs() < 0.05);
        let moved = &report["regions"][1];
        assert_eq!(
            (&moved["before"]["name"], &moved["after"]["name"]),
            (&"hash.c:88".into(), &"hash.c:95".into())
        );
        assert_eq!(moved["points"][0]["change"], "less");
        assert_documented(&report);
    });
}

#[test]
fn the_page_holds_its_data_and_nothing_in_them_can_end_it() {
    let mut rows = troubled_rows();
    for region in rows.regions.values_mut() {
        region.name.push_str("</script><script>alert(1)</script><!--");
    }
    let profile = Profile::new(rows, &EstimateOptions::default());
    let page = report::html::render(&profile);
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{}", &page[..200]);
    assert!(page.split_once("whatif-data").unwrap().0.contains("Content-Security-Policy"));
    let element = |id: &str| -> serde_json::Value {
        let open = format!(r#"<script type="application/json" id="{id}">"#);
        let (_, rest) = page.split_once(&open).unwrap_or_else(|| panic!("no {id}"));
        let (data, _) = rest.split_once("</script>").unwrap();
        assert!(!data.contains('<'));
        serde_json::from_str(data).unwrap()
    };
    let summary = element("whatif-data");
    assert!(!page.contains(r#"id="whatif-regions""#) && summary["regions_apart"].is_null());
    let part = |of: &serde_json::Value| element(&format!("whatif-part-{}", of["part"]));
    // What is drawn first comes before the script, and the rest after it.
    let at = |text: &str| page.find(text).unwrap();
    assert!(at("whatif-data") < at("<script>") && at("<script>") < at(r#"id="whatif-part-0""#));
    let mut report: serde_json::Value = serde_json::from_str(&json::render(&profile)).unwrap();
    assert_eq!(summary["sentence"], report["sentence"]);
    let baselines = &summary["baselines"][0];
    assert_eq!((&baselines["point"], &baselines["kind"]), (&"requests".into(), &"throughput".into()));
    assert_eq!(part(baselines)["windows"].as_array().unwrap().len(), 60);
    let whole = part(&summary["regions"][0]);
    let estimate = &whole["points"][0];
    let dots = estimate["dots"].as_array().unwrap();
    let counted = dots.iter().filter(|dot| dot[4].is_null()).count() as u64;
    assert_eq!(estimate["blocks"].as_u64(), Some(counted));
    assert!(dots.iter().any(|dot| dot[4] == "straddling"), "{dots:?}");
    // The parts are the regions of the JSON report and their dots, and the summary says of them what they say.
    let (ours, theirs) = (summary["regions"].as_array().unwrap(), report["regions"].as_array_mut().unwrap());
    assert_eq!(ours.len(), theirs.len());
    for (short, other) in ours.iter().zip(theirs) {
        let whole = part(short);
        for (point, same) in
            whole["points"].as_array().unwrap().iter().zip(other["points"].as_array_mut().unwrap())
        {
            same["dots"] = point["dots"].clone();
        }
        assert_eq!(whole, *other);
        for (name, value) in short.as_object().unwrap() {
            assert!(["points", "part"].contains(&name.as_str()) || *value == whole[name], "{name}");
        }
        for (short, whole) in
            short["points"].as_array().unwrap().iter().zip(whole["points"].as_array().unwrap())
        {
            for (name, value) in short.as_object().unwrap() {
                let near = |a: &serde_json::Value| {
                    value.as_f64().zip(a.as_f64()).is_some_and(|(a, b)| (a - b).abs() < 1e-6)
                };
                assert!(name == "span" || *value == whole[name] || near(&whole[name]), "{name}");
            }
            let highest = whole["speedups"].as_array().unwrap().iter().filter_map(|at| at["hi"].as_f64());
            assert!((short["span"][1].as_f64().unwrap() - highest.fold(f64::MIN, f64::max)).abs() < 1e-6);
        }
    }
}

#[test]
fn many_regions_come_after_the_first_look() {
    let mut profile = Profile::new(troubled_rows(), &EstimateOptions::default());
    profile.regions = vec![profile.regions[0].clone(); 501];
    let page = report::html::render(&profile);
    let element = |id: &str| -> serde_json::Value {
        let (_, rest) = page.split_once(&format!(r#"id="{id}">"#)).unwrap_or_else(|| panic!("no {id}"));
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    };
    let summary = element("whatif-data");
    assert_eq!((&summary["regions_apart"], &summary["regions"]), (&true.into(), &serde_json::json!([])));
    assert!(!summary["answer"]["points"][0]["pieces"].as_array().unwrap().is_empty());
    let regions = element("whatif-regions");
    assert_eq!(regions.as_array().unwrap().len(), 501);
    let last = element(&format!("whatif-part-{}", regions[500]["part"]));
    assert_eq!(last["name"], regions[500]["name"]);
    let at = |text: &str| page.find(text).unwrap();
    assert!(at("<script>") < at(r#"id="whatif-regions""#));
    assert!(at(r#"id="whatif-regions""#) < at(r#"id="whatif-part-0""#));
}

/// Some rows in which lines are in functions, one of them the generic instance of another, and regions count samples
/// of others once more.
fn nested_rows() -> Rows {
    let mut rows = with_latency(some_rows());
    rows.sessions[0].start.arguments.clear();
    rows.warnings[0].1.message =
        "somebody (@octocat) used 25 % of the machine: see https://example.com/#1".into();
    let line = |rows: &mut Rows, id, function: &str| {
        rows.regions.get_mut(&RegionId::new(id)).unwrap().function = Some(function.into());
    };
    line(&mut rows, 1, "insert<int>(int*)");
    line(&mut rows, 2, "insert<int>(int*)");
    line(&mut rows, 3, "insert<long>(long*)");
    let plain = Region {
        kind: RegionKind::Function,
        name: "insert".into(),
        function: Some("insert<int>(int*)".into()),
        line: Some(86),
        ..rows.regions[&RegionId::new(1)].clone()
    };
    let with_callees = Region { name: "serve".into(), inclusive: true, function: None, ..plain.clone() };
    let path = Region { name: "insert@serve".into(), ..plain.clone() };
    for (id, region, count) in [(10, plain, 3500), (11, with_callees, 8000), (12, path, 3000)] {
        let id = RegionId::new(id);
        rows.regions.insert(id, region);
        let weight = Nanos::from_millis(count);
        rows.samples.push(RegionSamples { session: SessionId::new(1), region: id, count, weight });
    }
    // What `hash.c:88` is worth, the function is, and the function with all it calls.
    for window in rows.windows.clone().into_iter().filter(|window| window.region == RegionId::new(2)) {
        for (id, later) in [(10, 1000), (11, 2000)] {
            rows.windows.push(Window {
                region: RegionId::new(id),
                block: window.block + later,
                start: window.start + Nanos::from_millis(200 * later as u64),
                ..window.clone()
            });
        }
    }
    rows
}

fn nested() -> Profile {
    Profile::new(nested_rows(), &EstimateOptions::default())
}

#[test]
fn folded_stacks() {
    let text = folded::render(&nested());
    golden("folded.txt", &text);
    let counts = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), nested().rows.sessions[0].samples.count, "each sample is in one line");
}

/// The same with stacks: `main` calls `serve`, which calls `insert`; some are truncated and some were not kept.
fn with_stacks() -> Profile {
    let mut rows = nested_rows();
    let image = rows.regions[&RegionId::new(1)].image.clone();
    let function = |name: &str, file: &str| Function {
        name: name.into(),
        file: Some(file).filter(|file| !file.is_empty()).map(str::to_owned),
        image: image.clone(),
    };
    let functions = [
        function("main", "/src/main.c"),
        function("serve", "/src/main.c"),
        function("insert", "/src/hash.c"),
        Function::truncated(),
        Function { image: Image { path: "/lib/libc.so".into(), build_id: None }, ..function("memcpy", "") },
    ];
    rows.functions = (1..).map(FunctionId::new).zip(functions).collect();
    let frames = [(0, 1, 5), (1, 2, 30), (2, 3, 88), (3, 5, 0), (2, 3, 90), (0, 4, 0), (6, 3, 12)];
    rows.stacks = (1..)
        .map(StackId::new)
        .zip(frames.map(|(parent, function, line)| Frame {
            parent: Some(parent).filter(|parent| *parent > 0).map(StackId::new),
            function: FunctionId::new(function),
            line: Some(line).filter(|line| *line > 0),
            inlined: function == 3,
        }))
        .collect();
    let sampled = [(2, 500), (3, 2000), (4, 1500), (5, 1000), (7, 3000)];
    rows.stack_samples = sampled
        .map(|(stack, count)| StackSamples {
            session: SessionId::new(1),
            stack: StackId::new(stack),
            count,
            weight: Nanos::from_millis(count),
        })
        .into();
    Profile::new(rows, &EstimateOptions::default())
}

#[test]
fn whole_stacks_in_all_formats() {
    let profile = with_stacks();
    let text = folded::render(&profile);
    assert_eq!(
        text,
        "server;[stacks that were not kept] 1000\n\
         server;[truncated];insert;hash.c:12 3000\n\
         server;main;serve;insert;hash.c:88 2000\n\
         server;main;serve;insert;hash.c:90 1000\n\
         server;main;serve;insert;memcpy 1500\n\
         server;main;serve;main.c:30 500\n"
    );
    let of_all: u64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(of_all, profile.rows.sessions[0].samples.count, "each sample is in one line");
    golden("pprof-stacks.txt", &decoded(&pprof::render(&profile)));
    let processed: serde_json::Value = serde_json::from_str(&firefox::render(&profile)).unwrap();
    golden("firefox-stacks.json", &format!("{}\n", serde_json::to_string_pretty(&processed).unwrap()));
}

#[test]
fn json_has_the_stacks() {
    let profile = with_stacks();
    let report: serde_json::Value = serde_json::from_str(&json::render(&profile)).unwrap();
    assert_documented(&report);
    let stacks = &report["stacks"];
    let number = |name: &str| stacks[name].as_u64().unwrap();
    assert_eq!(
        (number("samples"), number("truncated_samples"), number("missing_samples")),
        (8000, 3000, 1000)
    );
    let list = |name: &str| stacks[name].as_array().unwrap();
    let text = |at: &serde_json::Value| stacks["texts"][at.as_u64().unwrap() as usize].as_str().unwrap();
    let names: Vec<&str> = list("functions").iter().map(|function| text(&function[0])).collect();
    assert_eq!(names, ["main", "serve", "insert", "memcpy", "[truncated]"]);
    assert_eq!(text(&list("functions")[3][2]), "/lib/libc.so");
    let region = |at: &serde_json::Value| report["regions"][at.as_u64().unwrap() as usize]["name"].clone();
    assert_eq!(
        (region(&list("functions")[2][3]), region(&list("functions")[1][3])),
        ("insert".into(), "serve".into())
    );
    let lines: Vec<_> =
        list("calls").iter().filter(|call| !call[4].is_null()).map(|call| region(&call[4])).collect();
    assert_eq!(lines, ["hash.c:88", "hash.c:90", "hash.c:12"]);
    assert_eq!(list("calls")[3], serde_json::json!([2, 3, null, 0, null, 1500, 1_500_000_000_u64]));
    assert!(
        list("calls").iter().enumerate().all(|(nth, call)| call[0].as_u64().is_none_or(|of| of < nth as u64))
    );
    // The page reads them from a part of their own.
    let page = report::html::render(&profile);
    let part = report["regions"].as_array().unwrap().len() + 2;
    let open = format!(r#"<script type="application/json" id="whatif-part-{part}">"#);
    let (_, rest) = page.split_once(&open).expect("the part");
    let whole: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(whole, *stacks);
    assert!(page.contains(&format!(r#""stacks":{{"part":{part}}}"#)));
    // A recording of an earlier version has none.
    assert!(serde_json::from_str::<serde_json::Value>(&json::render(&nested())).unwrap()["stacks"].is_null());
}

#[test]
fn firefox_profile() {
    let text = firefox::render(&nested());
    let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
    let thread = &profile["threads"][0];
    let of = |value: &serde_json::Value| -> Vec<i64> {
        value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
    };
    let weights = of(&thread["samples"]["weight"]);
    assert_eq!(weights.iter().sum::<i64>() as u64, nested().rows.sessions[0].samples.count);
    golden("firefox.json", &format!("{}\n", serde_json::to_string_pretty(&profile).unwrap()));
}

/// What a reader of pprof's format finds: a line for each sample.
fn decoded(bytes: &[u8]) -> String {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut plain).unwrap();
    let profile = pprof::message::Profile::decode(&*plain).unwrap();
    let text = |at: i64| profile.string_table[usize::try_from(at).unwrap()].as_str();
    assert_eq!(text(0), "");
    let at = |id: u64| usize::try_from(id - 1).unwrap();
    let types: Vec<String> =
        profile.sample_type.iter().map(|of| format!("{}/{}", text(of.r#type), text(of.unit))).collect();
    let mut out = format!("{} (first {})\n", types.join(" "), text(profile.default_sample_type));
    for of in &profile.mapping {
        out += &format!("mapping {} {} {}\n", of.id, text(of.filename), text(of.build_id));
    }
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), types.len());
        for id in &sample.location_id {
            let location = &profile.location[at(*id)];
            let line = location.line[0];
            let function = &profile.function[at(line.function_id)];
            assert_eq!((location.id, function.id), (*id, line.function_id));
            let place = format!("{} {}:{}", text(function.name), text(function.filename), line.line);
            out += &format!("{place} [{}]: ", location.mapping_id);
        }
        out += &format!("{:?}", sample.value);
        for label in &sample.label {
            out += &format!(" {}={}{}{}", text(label.key), text(label.str), label.num, text(label.num_unit));
        }
        out.push('\n');
    }
    out += &format!("{} ns from {}, every {}\n", profile.duration_nanos, profile.time_nanos, profile.period);
    profile.comment.iter().for_each(|comment| out += &format!("{}\n", text(*comment)));
    out
}

#[test]
fn pprof_profile() {
    golden("pprof.txt", &decoded(&pprof::render(&nested())));
    // With one point its slope has a short name.
    let one = decoded(&pprof::render(&profile()));
    assert!(one.starts_with("samples/count cpu/nanoseconds causal_slope/thousandths (first cpu)\n"), "{one}");
    assert!(one.contains("insert /src/hash.c:88 [1]: [1000, 1000000000, 5"), "{one}");
}

#[test]
fn csv_table() {
    let text = csv::render(&profile());
    golden("csv.csv", &text);
    let rows: Vec<Vec<&str>> = text.split_terminator("\r\n").map(|row| row.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    // Three regions, each with a baseline and ten speedups.
    assert_eq!(rows.len(), 1 + 3 * 11);
}

#[test]
fn markdown_comment() {
    golden("markdown.md", &markdown::render(&nested()));
}
