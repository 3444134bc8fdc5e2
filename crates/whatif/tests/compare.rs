//! `whatif compare`: what it says about recordings whose truth is known, and when it fails.

use crate::support::{Ended, Sandbox, copy_to, run, samples_of};
use crate::synthetic::{Truth, rows_of};
use profile::*;
use std::path::Path;

/// Slopes of lines of `hash.c`, and how many visits there are for each that is usual.
pub struct Recorded {
    seed: u64,
    level: f64,
    slopes: &'static [(&'static str, f64)],
}

pub const BEFORE: Recorded =
    Recorded { seed: 1, level: 1.0, slopes: &[("hash.c:88", 0.5), ("hash.c:12", 0.0)] };
/// 10 % fewer visits: the period is 11 % longer. And another line is critical.
pub const SLOWER: Recorded =
    Recorded { seed: 2, level: 0.9, slopes: &[("hash.c:88", 0.0), ("hash.c:12", 0.4)] };

impl Recorded {
    pub fn rows(&self) -> Rows {
        let truth = |&(name, slope)| Truth { name, slope, noise: 0.05, blocks: 40 };
        let mut rows = rows_of(self.seed, &self.slopes.iter().map(truth).collect::<Vec<_>>());
        rows.sessions[0].start.started = Nanos::new(self.seed);
        for visits in rows.windows.iter_mut().flat_map(|window| &mut window.visits) {
            visits.count = (visits.count as f64 * self.level) as u64;
        }
        rows
    }
}

/// Adds one session with these rows to a recording.
fn record(path: &Path, rows: &Rows) {
    let mut to = Recorder::create(path).unwrap();
    let whole = &rows.sessions[0];
    let session = to.begin_session(&whole.start).unwrap();
    let regions = rows.regions.iter().map(|(id, region)| (*id, to.intern_region(region).unwrap()));
    let regions: std::collections::BTreeMap<_, _> = regions.collect();
    let points = rows.points.iter().map(|(id, point)| (*id, to.intern_point(point).unwrap()));
    let points: std::collections::BTreeMap<_, _> = points.collect();
    let windows: Vec<Window> = rows
        .windows
        .iter()
        .cloned()
        .map(|mut window| {
            (window.session, window.region) = (session, regions[&window.region]);
            window.visits.iter_mut().for_each(|visits| visits.point = points[&visits.point]);
            window
        })
        .collect();
    to.add_block(&windows).unwrap();
    for image in &whole.images {
        to.add_image(session, image).unwrap();
    }
    to.finish_session(session, &whole.end.unwrap()).unwrap();
    to.close().unwrap();
}

/// Two recordings, `a.db` and `b.db`.
pub fn recordings(before: &Rows, after: &Rows) -> Sandbox {
    let sandbox = Sandbox::new();
    record(&sandbox.path("a.db"), before);
    record(&sandbox.path("b.db"), after);
    sandbox
}

#[track_caller]
fn compare(sandbox: &Sandbox, options: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.args(["compare", "a.db", "b.db"]).args(options);
    run(command)
}

#[test]
fn what_changed_is_said_first() {
    let sandbox = recordings(&BEFORE.rows(), &SLOWER.rows());
    let ended = compare(&sandbox, &[]).assert_code(0);
    let text = ended.stdout.replace('\n', " ");
    assert!(text.starts_with("`requests` takes 11."), "{text}");
    assert!(
        text.contains("the throughput); `hash.c:12` became critical, and `hash.c:88` is no longer"),
        "{text}"
    );
    assert!(text.contains("What regions are worth to `requests`"), "{text}");
    assert_eq!(ended.stderr, "");

    let short = compare(&sandbox, &["--top", "1"]).assert_code(0).stdout;
    assert!(short.contains("… and 1 more: --top 2"), "{short}");

    let json = compare(&sandbox, &["--json"]).assert_code(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["points"][0]["change"], "worse");
    let change = |name: &str| {
        let of = json["regions"].as_array().unwrap().iter().find(|region| region["after"]["name"] == name);
        of.unwrap()["points"][0]["change"].clone()
    };
    assert_eq!(
        (change("hash.c:12"), change("hash.c:88")),
        ("became-critical".into(), "no-longer-critical".into())
    );
}

#[test]
fn recordings_without_a_common_point_cannot_be_compared() {
    let mut other = SLOWER.rows();
    other.points.values_mut().for_each(|point| point.name = "others".into());
    let sandbox = recordings(&BEFORE.rows(), &other);
    let ended = compare(&sandbox, &[]).assert_code(2);
    assert!(ended.stdout.contains("no progress point in common"), "{ended:#?}");
    compare(&sandbox, &["--fail-if", "gain(requests) < -3%"]).assert_code(2);
    compare(&sandbox, &["--json"]).assert_code(2);
}

#[test]
fn the_page_has_what_the_json_has_and_the_gate_is_judged_all_the_same() {
    let sandbox = recordings(&BEFORE.rows(), &SLOWER.rows());
    let json = compare(&sandbox, &["--json"]).assert_code(0).stdout;
    let ended =
        compare(&sandbox, &["--html", "page.html", "--fail-if", "gain(requests) < -3%"]).assert_code(1);
    assert!(ended.stdout.contains("What regions are worth to `requests`"), "the text is shown, too");
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    let (_, data) = page.split_once(r#"<script type="application/json" id="whatif-data">"#).unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let value = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    assert_eq!(value(data), value(&json));

    let ended = compare(&sandbox, &["--html", "nowhere/page.html"]).assert_code(90);
    assert!(ended.stderr.contains("--html FILE"), "{ended:#?}");
}

#[test]
fn a_gate_fails_only_for_what_is_certain() {
    let sandbox = recordings(&BEFORE.rows(), &SLOWER.rows());
    for (condition, status, says) in [
        ("gain(requests) < -3%", 1, Some("holds: −11.")),
        ("gain(requests) <= -3%", 1, Some("95 % interval −")),
        ("gain(requests) < -20%", 0, None),
        ("gain(requests) > 0%", 0, None),
        // Within the interval: not certain.
        ("gain(requests) < -10.5%", 0, Some("note")),
        ("slope(hash.c:12, requests) > 0.2", 1, Some("holds: 0.")),
        ("slope(hash.c:12, requests) >= 0.9", 0, None),
        ("slope(hash.c:88, requests) < 0.2", 1, Some("holds: ")),
    ] {
        let ended = compare(&sandbox, &["--fail-if", condition]).assert_code(status);
        match says {
            None => assert_eq!(ended.stderr, "", "{condition}"),
            Some(says) => assert!(
                ended.stderr.contains(says) && ended.stderr.contains(&format!("'{condition}'")),
                "{condition}: {ended:#?}"
            ),
        }
        assert!(ended.stdout.contains("Progress points"), "the comparison is shown all the same");
    }
    // Each condition is judged, and one that holds is enough.
    let ended = compare(
        &sandbox,
        &["--json", "--fail-if", "gain(requests) > 5%", "--fail-if", "gain(requests) < -5%"],
    )
    .assert_code(1);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
    serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap();
}

#[test]
fn a_gate_passes_when_nothing_changed() {
    let again = Recorded { seed: 3, ..BEFORE };
    let sandbox = recordings(&BEFORE.rows(), &again.rows());
    let ended = compare(&sandbox, &["--fail-if", "gain(requests) < -3%"]).assert_code(0);
    assert_eq!(ended.stderr, "");
    let text = ended.stdout.replace('\n', " ");
    assert!(text.contains("no region is worth more or less than before."), "{text}");
}

#[test]
fn a_gate_that_cannot_be_judged_is_an_error() {
    let mut unvisited = SLOWER.rows();
    unvisited.windows.iter_mut().for_each(|window| window.visits.clear());
    let sandbox = recordings(&BEFORE.rows(), &SLOWER.rows());
    let silent = recordings(&BEFORE.rows(), &unvisited);
    for (sandbox, condition, says) in [
        (&sandbox, "gain(request) < -3%", "there is no point `request`; there are `requests`"),
        (&sandbox, "slope(hash.c:1, requests) > 0", "those that were are `hash.c:88`, `hash.c:12`"),
        (&sandbox, "slope(hash.c:12, replies) > 0", "there is no point `replies`; there are `requests`"),
        (&silent, "gain(requests) < -3%", "was not visited without speedups in both recordings"),
        (&silent, "slope(hash.c:12, requests) > 0", "whatif run --region 'hash.c:12'"),
    ] {
        let ended = compare(sandbox, &["--fail-if", condition]).assert_code(2);
        assert!(ended.stderr.contains(says), "{condition}: {ended:#?}");
    }
    for (condition, says) in [
        ("gain(requests) < -3", "a gain is in per cent"),
        ("gain(requests)", "nothing to compare with"),
        ("faster", "write 'gain(POINT) < -3%' or 'slope(REGION, POINT) > 0.5'"),
    ] {
        let ended = compare(&sandbox, &["--fail-if", condition]).assert_code(2);
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{condition}: {ended:#?}");
    }
}

#[test]
fn few_blocks_are_never_certain() {
    let mut few = SLOWER.rows();
    few.sessions[0].start.fixed_speedups = true;
    few.windows.retain(|window| window.block < 3);
    let sandbox = recordings(&BEFORE.rows(), &few);
    for condition in ["gain(requests) < -1%", "slope(hash.c:88, requests) < 0.9"] {
        let ended = compare(&sandbox, &["--fail-if", condition]).assert_code(0);
        assert!(ended.stderr.contains("too few windows to say how sure"), "{ended:#?}");
    }
}

#[test]
fn different_programs_and_files_that_are_none() {
    let mut other = SLOWER.rows();
    other.sessions[0].start.program = "/bin/other".into();
    let sandbox = recordings(&BEFORE.rows(), &other);
    let ended = compare(&sandbox, &[]).assert_code(0);
    assert!(
        ended.stdout.contains("! the recordings are of different programs: server and other"),
        "{ended:#?}"
    );

    std::fs::write(sandbox.path("b.db"), "Dear aunt").unwrap();
    assert!(compare(&sandbox, &[]).assert_code(90).stderr.contains("b.db is not a whatif recording"));
    std::fs::remove_file(sandbox.path("b.db")).unwrap();
    assert!(compare(&sandbox, &[]).assert_code(90).stderr.contains("whatif run -o b.db -- PROGRAM"));
}

#[test]
fn recordings_of_one_build_add_up() {
    let sandbox = recordings(&BEFORE.rows(), &Recorded { seed: 4, ..BEFORE }.rows());
    let merge = |files: &[&str]| {
        let mut command = sandbox.whatif();
        command.arg("merge").args(files);
        run(command)
    };
    let said = merge(&["a.db", "b.db", "-o", "all.db"]).assert_code(0);
    assert_eq!(said.stdout, "2 runs with 320 windows, in all.db\n");
    let rows = |name: &str| Recording::open(&sandbox.path(name)).unwrap().rows().unwrap();
    let (a, b, all) = (rows("a.db"), rows("b.db"), rows("all.db"));
    assert_eq!((all.regions.len(), all.points.len()), (2, 1), "the same code is the same region");
    let slope = |rows: Rows| {
        let profile = Profile::new(rows, &EstimateOptions::default());
        let of_line = |region: &&RegionEstimate| profile.region(region).name == "hash.c:88";
        profile.regions.iter().find(of_line).unwrap().points[0].clone()
    };
    let (a, b, all) = (slope(a), slope(b), slope(all));
    assert_eq!(all.blocks + all.disturbed, a.blocks + a.disturbed + b.blocks + b.disturbed);
    let noise = |estimate: &PointEstimate| estimate.slope.unwrap().se;
    assert!(noise(&all) < noise(&a) && noise(&all) < noise(&b));

    for (files, says) in [
        (&["a.db", "b.db", "-o", "all.db"][..], "all.db exists already"),
        (&["a.db", "a.db", "-o", "twice.db"], "it would count twice"),
        (&["a.db", "all.db", "-o", "twice.db"], "it would count twice"),
        (&["a.db", "none.db", "-o", "new.db"], "no recording at none.db"),
    ] {
        let ended = merge(files).assert_code(90);
        assert!(ended.stderr.contains(says), "{files:?}: {ended:#?}");
    }
    let mut rebuilt = Recorded { seed: 5, ..BEFORE }.rows();
    rebuilt.sessions[0].images[0].build_id = Some("cd34".into());
    record(&sandbox.path("rebuilt.db"), &rebuilt);
    let ended = merge(&["a.db", "rebuilt.db", "-o", "new.db"]).assert_code(90);
    assert!(ended.stderr.contains("another build of /bin/server (cd34; ab12 before it)"), "{ended:#?}");
    let left: Vec<_> = std::fs::read_dir(sandbox.folder()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "nothing is left behind: {left:?}");
}

#[test]
fn another_build_is_not_added() {
    let Some(exits) = crate::support::program("exits.c") else { return };
    let Some(rebuilt) =
        crate::support::program_as("exits.c", "exits-rebuilt", &["-Wl,--build-id=0x12345678"])
    else {
        return;
    };
    let sandbox = Sandbox::new();
    let here = sandbox.path("exits");
    copy_to(&exits, &here);
    let enough = sandbox.enough();
    let command = sandbox.profiling(&["--region", "hot"], &here, &["0", "0", enough.to_str().unwrap()]);
    sandbox.run_until(command, |rows| samples_of(rows, "hot") > 0).assert_success();
    std::fs::remove_file(&here).unwrap();
    copy_to(&rebuilt, &here);
    let ended = sandbox.profile(&["--region", "hot"], &here, &["0", "0"]).assert_code(90);
    assert!(ended.stderr.contains("holds runs of another build") && ended.stdout.is_empty(), "{ended:#?}");
    assert_eq!(sandbox.report()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_report_names_builds_that_were_added_up() {
    let sandbox = Sandbox::new();
    let mut rebuilt = Recorded { seed: 5, ..BEFORE }.rows();
    rebuilt.sessions[0].images[0].build_id = Some("cd34".into());
    for rows in [BEFORE.rows(), rebuilt] {
        record(&sandbox.recording(), &rows);
    }
    let warnings = sandbox.report()["warnings"].clone();
    let warning = &warnings[0];
    assert_eq!(
        (&warning["code"], &warning["session"]),
        (&"several-builds".into(), &2.into()),
        "{warnings:#}"
    );
    assert!(warning["message"].as_str().unwrap().contains("/bin/server (ab12, cd34)"), "{warnings:#}");
    let mut report = sandbox.whatif();
    report.arg("report").arg(sandbox.recording());
    let text = run(report).assert_code(0).stdout;
    assert!(text.contains("! the runs are of different builds of /bin/server"), "{text}");
}
