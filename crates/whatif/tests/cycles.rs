//! The tools for continuous profiles, on databases that are made here: this very test program is the image that samples
//! fall into, so that names are found.

use crate::support::{Ended, Sandbox, have, run};
use archive::*;
use profile::{Nanos, Recorder, RegionKind};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use symbols::{Image, Scope, ScopeOptions, Svma};

/// Noon of some day, a whole hour.
const NOON: i64 = 1_790_000_400 - 1_790_000_400 % 86_400 + 43_200;

/// Never sampled, but somewhere in this file.
#[inline(never)]
fn hot_in_this_test(n: u64) -> u64 {
    let mut sum = 0;
    for k in 0..std::hint::black_box(n) {
        sum ^= k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    sum
}

#[inline(never)]
fn warm_in_this_test(n: u64) -> u64 {
    std::hint::black_box(n).rotate_left(7) ^ std::hint::black_box(hot_in_this_test(n))
}

/// Offsets in the file within the instructions of a function, by its name: of its own, for what is inlined into it the compiler decides.
fn offsets(image: &Image, function: &str) -> Vec<u64> {
    let scope = Scope::new(ScopeOptions::default()).unwrap();
    let entry = image.function_entries(function).into_iter().next().expect("the function is there");
    let range = image.container(entry).unwrap();
    let offset = |address| image.file_offset(Svma(address)).unwrap().0;
    let is_own = |address: &u64| image.frames(Svma(*address), &scope).len() == 1;
    (range.start.0..range.end.0).filter(is_own).map(offset).collect()
}

fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// What samples there are.
struct Made {
    sandbox: Sandbox,
    folder: PathBuf,
}

/// Adds an epoch of `minutes` in which `hot_in_this_test` has `hot` of 1000 samples a minute.
fn add_epoch(
    store: &mut Store,
    host: &str,
    start: i64,
    minutes: i64,
    hot: u32,
    name: Option<&str>,
    lost: u64,
) {
    std::hint::black_box(warm_in_this_test(1));
    let path = this_program();
    let image = Image::open(&path).unwrap();
    let (hot_at, warm_at) = (offsets(&image, "hot_in_this_test"), offsets(&image, "warm_in_this_test"));
    let machine =
        MachineInfo { key: host.to_owned(), host: host.to_owned(), kernel: "6.1".to_owned(), cpus: 2 };
    let machine = store.machine(&machine).unwrap();
    let setting = setting("stacks");
    let event = store.event("cpu-clock").unwrap();
    let epoch = store.begin_epoch(machine, &setting, name, UnixSeconds(start)).unwrap();
    let code = |path: &str, build_id: &str, kind| CodeImage {
        path: path.to_owned(),
        build_id: build_id.to_owned(),
        kind,
    };
    let own = store
        .image(&code(&path.to_string_lossy(), &image.build_id().unwrap_or_default(), ImageKind::File))
        .unwrap();
    let kernel = store.image(&code("[kernel]", "aa", ImageKind::Kernel)).unwrap();
    let idle = store.image(&code("[idle]", "", ImageKind::Idle)).unwrap();
    let gone = store.image(&code("/opt/gone/bin/server", "bb", ImageKind::File)).unwrap();
    let unknown = store.image(&code("[unknown]", "", ImageKind::Unknown)).unwrap();
    let hostile = store.image(&code("/tmp/<b>\u{1b}[2J\u{202e}evil", "cc", ImageKind::Generated)).unwrap();
    let symbol = |name: &str| vec![Symbol { function: name.into(), ..Symbol::default() }];
    store
        .add_symbols(kernel, &[(Offset(0x10), symbol("do_syscall_64")), (Offset(0x20), symbol("copy_page"))])
        .unwrap();
    store
        .add_symbols(hostile, &[(Offset(1), symbol("</script><img src=x onerror=alert(1)>\u{1b}[31m;x"))])
        .unwrap();
    let label = |store: &mut Store, process: &str, cgroup: &str| {
        store
            .label(&Label { process: process.to_owned(), cgroup: cgroup.to_owned(), ..Label::default() })
            .unwrap()
    };
    let tester = label(store, "tester", "/user.slice/session-1.scope");
    let server = label(store, "server", "/system.slice/server.service");
    let nobody = label(store, "swapper", "");
    let node = |parent, image, offset| Node { parent, image, offset: Offset(offset) };
    let mut batch = Batch {
        nodes: vec![
            node(Node::NONE, own, warm_at[2]),
            node(0, own, hot_at[1]),
            node(0, own, hot_at[2]),
            node(1, own, hot_at[1]),
            node(1, kernel, 0x10),
            node(4, kernel, 0x20),
            node(Node::NONE, idle, 0),
            node(Node::NONE, gone, 0x1234),
            node(Node::NONE, unknown, 0),
            node(Node::NONE, hostile, 1),
        ],
        ..Batch::default()
    };
    for minute in 0..minutes {
        let time = UnixSeconds(start + 60 * minute);
        // A little unrest, the same each time.
        let wave = ((minute * 37) % 11) as u32;
        let mut count = |label, node, count| batch.counts.push(Count { time, label, event, node, count });
        count(tester, 0, 50);
        count(tester, 1, hot / 2 + wave);
        count(tester, 2, hot / 4);
        count(tester, 3, hot / 4 - wave);
        count(tester, 5, 100);
        count(server, 7, 20);
        count(server, 8, 5);
        count(server, 9, 1000 - 50 - hot - 100 - 20 - 5);
        count(nobody, 6, 200);
        batch.books.push(Books {
            event,
            start: time,
            length: Nanos::new(60_000_000_000),
            expected: 1200 + lost,
            stored: 1195,
            unknown: 5,
            lost,
            idle: 200,
            covered: Nanos::new(120_000_000_000),
            own_cpu: Nanos::new(1_000_000),
            kernel_cpu: Nanos::new(1_000_000),
            resident: 1 << 20,
            squares: 0,
        });
    }
    store.flush(epoch, &batch).unwrap();
    store.end_epoch(epoch, UnixSeconds(start + 60 * minutes)).unwrap();
}

fn made() -> Made {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let mut store = Store::open(&folder).unwrap();
    add_epoch(&mut store, "alpha", NOON, 120, 400, Some("before"), 0);
    add_epoch(&mut store, "alpha", NOON + 7200, 120, 600, None, 0);
    drop(store);
    Made { sandbox, folder }
}

impl Made {
    #[track_caller]
    fn whatif(&self, args: &[&str]) -> Ended {
        whatif_in(&self.sandbox, &self.folder, args)
    }

    #[track_caller]
    fn text(&self, args: &[&str]) -> String {
        let ended = self.whatif(args).assert_code(0);
        assert_eq!(ended.stderr, "", "{args:?}");
        ended.stdout
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> serde_json::Value {
        let text = self.text(&[args, &["--json"]].concat());
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

#[track_caller]
fn whatif_in(sandbox: &Sandbox, folder: &Path, args: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.env("WHATIF_DB", folder).env("TZ", "UTC").args(args);
    run(command)
}

/// The rows by name, of JSON.
fn by_name(rows: &serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

#[test]
fn top_draws_the_table_first_and_below_it_what_100_per_cent_is() {
    let made = made();
    let text = made.text(&["top"]);
    assert!(text.starts_with("cpu-clock on alpha (2 CPUs), 20"), "{text}");
    let account = "  100 % = 240\u{202f}000 samples; idle 16.7 % left out, lost 0 %, unknown 0.4 %";
    assert_eq!(text.lines().filter(|line| *line == account).count(), 1, "{text}");
    assert!(text.lines().nth(1).is_some_and(|head| head.contains("self")), "the table comes first: {text}");
    let json = made.json(&["top"]);
    assert_eq!((json["version"].as_u64(), json["kind"].as_str()), (Some(1), Some("top")));
    assert_eq!(json["heading"]["samples"], 240_000);
    assert_eq!(json["heading"]["books"]["expected"], 288_000);
    let rows = by_name(&json["rows"]);
    let hot = &rows["all::cycles::hot_in_this_test"];
    // 400 of 1000 in the first two hours, 600 in the others.
    assert_eq!((hot["samples"].as_u64(), hot["total"].as_u64()), (Some(120_000), Some(144_000)), "{hot}");
    assert!((hot["share"]["value"].as_f64().unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(hot["cpu_ns"], 120_000_u64 * 100_000_000);
    assert_eq!(rows["all::cycles::warm_in_this_test"]["total"], 240 * 50 + 144_000);
    assert_eq!(rows["copy_page"]["samples"], 24_000);
    // Twice the same, the second time with names from the catalogue.
    assert_eq!(made.json(&["top"]), json);

    for (args, name, samples) in [
        (&["top", "--by", "process"][..], "server", 84_000),
        (&["top", "--by", "cgroup"], "/user.slice/session-1.scope", 156_000),
        (&["top", "--by", "image"], "[kernel]", 24_000),
        (&["top", "--idle"], "[idle]", 48_000),
        (&["top", "--process", "tester"], "all::cycles::hot_in_this_test", 120_000),
        (&["top", "--cgroup", "user.slice"], "all::cycles::hot_in_this_test", 120_000),
        (&["top", "--image", "all-*"], "all::cycles::hot_in_this_test", 120_000),
        (&["top", "--epoch", "before"], "all::cycles::hot_in_this_test", 48_000),
        (&["top", "--epoch", "2"], "all::cycles::hot_in_this_test", 72_000),
        (&["top", "--machine", "al*"], "all::cycles::hot_in_this_test", 120_000),
        (&["top", "--event", "cpu-clock"], "all::cycles::hot_in_this_test", 120_000),
    ] {
        let rows = by_name(&made.json(args)["rows"]);
        let row = rows.get(name).unwrap_or_else(|| panic!("{args:?}: {rows:#?}"));
        assert_eq!(row["samples"], samples, "{args:?}: {row}");
    }
    let lines = made.text(&["top", "--by", "line"]);
    assert!(lines.contains("cycles.rs:"), "{lines}");
    let one = made.text(&["top", "--top", "1"]);
    let below =
        one.lines().skip_while(|line| !line.contains("… and ") || !line.contains("more: --top ")).nth(1);
    assert_eq!(below, Some(account), "{one}");
    // A part of the time.
    let json = made.json(&["top", "--since", "2026-01-01", "--until", &rfc(NOON + 7200)]);
    assert_eq!(json["heading"]["samples"], 120_000);
}

#[test]
fn a_part_of_an_hour_has_books_of_its_own() {
    let made = made();
    let part = |from: i64, to: i64| {
        ["top".to_owned(), "--since".to_owned(), rfc(NOON + from), "--until".to_owned(), rfc(NOON + to)]
    };
    let check = |from: i64, to: i64, minutes: u64| {
        let args = part(from, to);
        let json = made.json(&args.each_ref().map(String::as_str));
        let heading = &json["heading"];
        assert_eq!(heading["samples"], minutes * 1000, "{from} {to}");
        assert_eq!(heading["books"]["expected"], minutes * 1200, "{from} {to}");
        assert_eq!(heading["books"]["covered_ns"], minutes * 120_000_000_000, "{from} {to}");
    };
    let per_second = || {
        let halves = [format!("{}..{}", rfc(NOON), rfc(NOON + 7200)), format!("{}..", rfc(NOON + 7200))];
        made.json(&["diff", &halves[0], &halves[1], "--per", "second"])["changes"].clone()
    };
    let before = per_second();
    let mut store = Store::open(&made.folder).unwrap();
    while store.compact(UnixSeconds(NOON + 10 * 86_400), &mut || ()).unwrap() != Compaction::default() {}
    drop(store);
    check(600, 1200, 10);
    check(3540, 3660, 2);
    check(7140, 7260, 2);
    assert_eq!(per_second(), before);
    let args = part(601, 602);
    let ended = made.whatif(&args.each_ref().map(String::as_str)).assert_code(90);
    assert!(ended.stderr.contains("no samples were taken from"), "{ended:#?}");

    // Once they are hours, whole hours are told from one another.
    made.text(&["gc", "--coarse-after", "1d"]);
    check(0, 3600, 60);
    check(3600, 10_800, 120);
    check(600, 3700, 60);
    let hours = per_second();
    let hot = |changes: &serde_json::Value| by_name(changes)["all::cycles::hot_in_this_test"].clone();
    let value = |changes: &serde_json::Value| hot(changes)["difference"]["value"].as_f64().unwrap();
    assert!((value(&hours) - value(&before)).abs() < 1e-6, "{hours:#}");
}

fn rfc(at: i64) -> String {
    let (day, second) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    // Days since a date that is known, as a leap year and month are not needed here.
    let days_of_2026 = day - 20_454;
    let months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut month, mut left) = (1, days_of_2026);
    for days in months {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!(
        "2026-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
        left + 1,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[test]
fn a_function_is_shown_by_lines_and_instructions() {
    let made = made();
    let text = made.text(&["list", "hot_in_this_test"]);
    assert!(text.contains("all::cycles::hot_in_this_test in ") && text.contains("tests/cycles.rs"), "{text}");
    assert!(text.contains("wrapping_mul") || text.contains("fn hot_in_this_test"), "{text}");
    let json = made.json(&["list", "hot_in_this_test"]);
    let sources = json["sources"].as_array().unwrap();
    assert_eq!(sources[0]["total"], 144_000);
    let text = made.text(&["annotate", "hot_in_this_test"]);
    if cfg!(target_arch = "x86_64") {
        assert!(text.contains("%r") && text.contains("; cycles.rs:"), "{text}");
        let json = made.json(&["annotate", "hot_in_this_test"]);
        let instructions = json["code"][0]["instructions"].as_array().unwrap();
        let samples: u64 = instructions.iter().map(|one| one["samples"].as_u64().unwrap()).sum();
        assert_eq!(samples, 120_000);
    } else {
        assert!(text.contains("only code for x86-64"), "{text}");
    }
    let ended = made.whatif(&["list", "hot_in_this_tests"]).assert_code(90);
    assert!(ended.stderr.contains("similar ones: all::cycles::hot_in_this_test"), "{ended:#?}");
    let ended = made.whatif(&["list", "*_in_this_test"]).assert_code(90);
    assert!(
        ended.stderr.contains(
            "may be any of 2 functions: all::cycles::hot_in_this_test, all::cycles::warm_in_this_test"
        ),
        "{ended:#?}"
    );
    let ended = made.whatif(&["annotate", "copy_page"]).assert_code(0);
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("! samples of the kernel are kept by function"), "{words}");
    assert!(words.contains("perf record -a, then perf annotate"), "{words}");
    let ended = made.whatif(&["annotate", "*onerror*"]).assert_code(0);
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("! samples of generated code are kept by function"), "{words}");
    assert!(words.contains("perf inject --jit"), "{words}");
}

#[test]
fn flame_graphs_hold_hostile_names_as_text() {
    let made = made();
    let said = made.text(&["flame"]);
    assert!(said.contains("240000 samples, in whatif-flame.html"), "{said}");
    let page = std::fs::read_to_string(made.sandbox.path("whatif-flame.html")).unwrap();
    assert!(page.contains("script-src 'sha256-") && !page.contains("<img"), "{page}");
    assert!(page.contains("hot_in_this_test"));
    let folded = made.text(&["flame", "--folded", "--roots", "none"]);
    // Where it is inlined, the compiler decides.
    let without = folded.replace(";core::hint::black_box", "");
    assert!(
        without.contains(
            "all::cycles::warm_in_this_test;all::cycles::hot_in_this_test;do_syscall_64;copy_page 24000\n"
        ),
        "{folded}"
    );
    assert!(folded.contains(r"onerror=alert(1)>\u{1b}[31m:x "), "{folded}");
    made.text(&["flame", "--folded", "--roots", "none", "-o", "x.folded"]);
    assert_eq!(std::fs::read_to_string(made.sandbox.path("x.folded")).unwrap(), folded);
    let ended = made.whatif(&["flame", "-o", "nowhere/x.html"]).assert_code(90);
    assert!(
        ended.stderr.contains("cannot write nowhere/x.html; choose another place with -o FILE"),
        "{ended:#?}"
    );
}

/// The data of a flame page.
#[track_caller]
fn flame_data(made: &Made, file: &str) -> serde_json::Value {
    let page = std::fs::read_to_string(made.sandbox.path(file)).unwrap();
    let (_, rest) = page.split_once(r#"<script type="application/json" id="whatif-data">"#).unwrap();
    let data: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    data["flame"].clone()
}

/// Samples of each function alone and on stacks, each once, by name and image: of `boxes` with so many numbers each.
fn counts_of(data: &serde_json::Value) -> BTreeMap<(String, String), (u64, u64)> {
    let boxes: Vec<i64> = data["boxes"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    let boxes: Vec<&[i64]> = boxes.chunks(4).collect();
    let mut counts: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for one in &boxes {
        let name = &data["names"][one[1] as usize];
        let text = |field: &str| name[field].as_str().unwrap().to_owned();
        let mut around = one[0];
        while around >= 0 && boxes[around as usize][1] != one[1] {
            around = boxes[around as usize][0];
        }
        let count = counts.entry((text("name"), text("image"))).or_default();
        count.0 += one[2] as u64;
        count.1 += if around < 0 { one[3] as u64 } else { 0 };
    }
    counts
}

#[test]
fn the_flame_page_counts_what_the_tables_count() {
    let made = made();
    for option in [None, Some("--no-inlined")] {
        let with = |words: &[&'static str]| words.iter().copied().chain(option).collect::<Vec<_>>();
        made.text(&with(&["flame"]));
        let counts = counts_of(&flame_data(&made, "whatif-flame.html"));
        let top = made.json(&with(&["top", "--top", "1000"]));
        let of_list = made.json(&with(&["list", "hot_in_this_test"]))["sources"][0]["samples"].clone();
        let of_annotate = made.json(&with(&["annotate", "hot_in_this_test"]))["code"][0]["own"].clone();
        let hot = &by_name(&top["rows"])["all::cycles::hot_in_this_test"];
        let image = hot["image"].as_str().unwrap().to_owned();
        let (of_flame, _) = counts[&("all::cycles::hot_in_this_test".to_owned(), image)];
        let all = [of_flame.into(), of_list, of_annotate];
        assert!(all.iter().all(|samples| *samples == hot["samples"]), "{option:?}: {all:?}, {hot}");
    }
    made.text(&["flame"]);
    let data = flame_data(&made, "whatif-flame.html");
    let counts = counts_of(&data);
    let top = made.json(&["top", "--top", "1000"]);
    let rows = top["rows"].as_array().unwrap();
    assert!(rows.len() > 3, "{top:#}");
    for row in rows {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let expected = (row["samples"].as_u64().unwrap(), row["total"].as_u64().unwrap());
        // What has no name is called by its image.
        let image = if text("image").is_empty() { text("name") } else { text("image") };
        assert_eq!(counts[&(text("name"), image)], expected, "{row:#}");
    }
    let own: u64 = counts.values().map(|(own, _)| own).sum();
    assert_eq!(own, top["heading"]["samples"].as_u64().unwrap());
    // Processes are the outermost boxes.
    let processes = made.json(&["top", "--by", "process", "--top", "1000"]);
    for row in processes["rows"].as_array().unwrap() {
        let process = (row["name"].as_str().unwrap().to_owned(), String::new());
        assert_eq!(counts[&process].1, row["samples"].as_u64().unwrap(), "{row:#}");
    }
    let kind = |name: &str| {
        let names = data["names"].as_array().unwrap();
        names.iter().find(|of| of["name"] == name).unwrap()["kind"].clone()
    };
    assert_eq!(
        (kind("all::cycles::hot_in_this_test"), kind("copy_page")),
        ("program".into(), "kernel".into())
    );
}

#[test]
fn the_flame_page_of_a_difference_has_both() {
    let made = made();
    let said = made.text(&["diff", "before", "2", "--flame", "difference.html"]);
    assert!(said.contains("compared with before, in difference.html: open it in a browser"), "{said}");
    let data = flame_data(&made, "difference.html");
    assert_eq!(data["before"]["asked"], "before");
    let of = |epoch: &str| {
        made.text(&["flame", "--epoch", epoch, "-o", "one.html"]);
        counts_of(&flame_data(&made, "one.html"))
    };
    assert_eq!(counts_of(&data), of("2"));
    // With what was before in the place of what is now.
    let before: Vec<i64> =
        data["before"]["boxes"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    let mut old = data.clone();
    for (nth, two) in before.chunks(2).enumerate() {
        (old["boxes"][4 * nth + 2], old["boxes"][4 * nth + 3]) = (two[0].into(), two[1].into());
    }
    assert_eq!(counts_of(&old), of("before"));
    let ended = made.whatif(&["diff", "before", "2", "--flame", "x.html", "--json"]);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
}

/// An epoch of an hour in which a release of a server lies in a folder of its own, and has `handles` of 1000 samples a minute in `handle`.
fn add_release(store: &mut Store, release: u32, start: i64, handles: u32) {
    let machine = MachineInfo { key: "m".into(), host: "m".into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&machine).unwrap();
    let event = store.event("cpu-clock").unwrap();
    let name = format!("r{release}");
    let epoch = store.begin_epoch(machine, &setting("stacks"), Some(&name), UnixSeconds(start)).unwrap();
    let path = format!("/srv/shop/releases/{release}/bin/server");
    let server = CodeImage { path, build_id: format!("{release:04x}"), kind: ImageKind::File };
    let server = store.image(&server).unwrap();
    let symbol = |name: &str| vec![Symbol { function: name.into(), ..Symbol::default() }];
    store.add_symbols(server, &[(Offset(0x10), symbol("handle")), (Offset(0x20), symbol("log"))]).unwrap();
    let label =
        store.label(&Label { process: "server".into(), cgroup: String::new(), ..Label::default() }).unwrap();
    let node = |offset| Node { parent: Node::NONE, image: server, offset: Offset(offset) };
    let mut batch = Batch { nodes: vec![node(0x10), node(0x20)], ..Batch::default() };
    for minute in 0..60 {
        let time = UnixSeconds(start + 60 * minute);
        for (node, count) in [(0, handles), (1, 1000 - handles)] {
            batch.counts.push(Count { time, label, event, node, count });
        }
        batch.books.push(Books {
            event,
            start: time,
            length: Nanos::new(60_000_000_000),
            expected: 1000,
            stored: 1000,
            unknown: 0,
            lost: 0,
            idle: 0,
            covered: Nanos::new(100_000_000_000),
            own_cpu: Nanos::new(1_000_000),
            kernel_cpu: Nanos::new(1_000_000),
            resident: 1 << 20,
            squares: 0,
        });
    }
    store.flush(epoch, &batch).unwrap();
    store.end_epoch(epoch, UnixSeconds(start + 3600)).unwrap();
}

#[test]
fn a_function_is_the_same_in_the_next_release() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let mut store = Store::open(&folder).unwrap();
    add_release(&mut store, 41, NOON, 400);
    add_release(&mut store, 42, NOON + 3600, 600);
    drop(store);
    let made = Made { sandbox, folder };
    let changes = made.json(&["diff", "r41", "r42"])["changes"].clone();
    assert_eq!(changes.as_array().unwrap().len(), 2, "{changes:#}");
    let handle = by_name(&changes)["handle"].clone();
    assert_eq!(handle["image"], "server (2 paths)");
    assert!((handle["difference"]["value"].as_f64().unwrap() - 0.2).abs() < 1e-6, "{handle:#}");
    let images = made.json(&["diff", "r41", "r42", "--by", "image"])["changes"].clone();
    assert_eq!(by_name(&images).keys().collect::<Vec<_>>(), ["server (2 paths)"], "{images:#}");
    let rows = made.json(&["stats", "--across", "epoch"])["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows:#}");
    assert_eq!(by_name(&rows)["handle"]["image"], "server (2 paths)", "{rows:#}");
}

#[test]
fn differences_are_certain_or_not() {
    let made = made();
    let json = made.json(&["diff", "before", "2"]);
    let changes = json["changes"].as_array().unwrap();
    let hot = by_name(&json["changes"])["all::cycles::hot_in_this_test"].clone();
    assert!((hot["difference"]["value"].as_f64().unwrap() - 0.2).abs() < 1e-6, "{hot}");
    assert!(hot["certain"].as_f64().unwrap() > 0.18, "{hot}");
    assert!(json["a"]["spans"].as_u64().unwrap() >= 8);
    let last = changes.last().unwrap();
    assert_eq!(last["certain"], 0.0, "{last}");
    let text = made.text(&["diff", "before", "2", "--by", "image"]);
    assert!(text.contains("A: before") && text.contains("spans of") && text.contains("[kernel]"), "{text}");
    let spans = [format!("{}..{}", rfc(NOON), rfc(NOON + 7200)), format!("{}..", rfc(NOON + 7200))];
    let of_times = made.json(&["diff", &spans[0], &spans[1]]);
    assert_eq!(of_times["changes"], json["changes"]);
    let per_second = made.json(&["diff", "before", "2", "--per", "second"]);
    let hot = by_name(&per_second["changes"])["all::cycles::hot_in_this_test"].clone();
    // 200 of the 1200 samples of a minute.
    assert!((hot["difference"]["value"].as_f64().unwrap() - 1.0 / 6.0).abs() < 1e-6, "{hot}");
    for (args, says) in [
        (&["diff", "nothing", "2"][..], "'nothing' is neither a span of time"),
        (&["diff", "2x..1d", "2"], "is no time; give an age"),
        (&["diff", "2d..1d", "2", "--since", "1d"], "leave --since and --until out"),
        (&["diff", "./nowhere", "2"], "there is no database of continuous profiles at ./nowhere"),
    ] {
        let ended = made.whatif(args).assert_code(90);
        assert!(ended.stderr.contains(says), "{args:?}: {ended:#?}");
    }
}

#[test]
fn where_two_spans_cannot_be_compared_the_nearest_that_can_are_told() {
    let made = made();
    let span = |from: i64, to: i64| format!("{}..{}", rfc(NOON + from), rfc(NOON + to));
    // Within a time bucket, and after the last one.
    for (a, b, nearest) in [
        (span(601, 621), span(621, 641), [span(540, 600), span(600, 660)].join(" ")),
        (
            span(90_000, 90_030),
            span(90_030, 90_060),
            format!("{} {}..", span(14_280, 14_340), rfc(NOON + 14_340)),
        ),
    ] {
        for options in [&[][..], &["--flame", "x.html"]] {
            let ended = made.whatif(&[&["diff", &a, &b], options].concat()).assert_code(90);
            let command = ended.stderr.split_once("the nearest spans that can be compared: whatif ");
            let (_, command) = command.unwrap_or_else(|| panic!("{ended:#?}"));
            assert!(command.trim_end().ends_with(&nearest), "{nearest}: {ended:#?}");
            made.text(&command.split_whitespace().collect::<Vec<_>>());
        }
    }
}

#[test]
fn conditions_fail_by_what_is_certain() {
    let made = made();
    let sides = [
        format!("{}..{}", rfc(NOON), rfc(NOON + 7200)),
        format!("{}..{}", rfc(NOON + 7200), rfc(NOON + 14_400)),
    ];
    let [before, after] = &sides;
    // In `hot_in_this_test` are 40 % before, and 60 % after; in the kernel 10 % all the time.
    let hot = "hot_in_this_test";
    for (condition, code, verdict) in [
        (format!("share({hot}, {after}) > 1.2 * share({hot}, {before})"), 1, "holds"),
        (format!("share({hot}, {after}) > 1.6 * share({hot}, {before})"), 0, "does_not_hold"),
        (format!("share({hot}, {after}) > share({hot}, {before}) + 15%"), 1, "holds"),
        (format!("share({hot}, {after}) > share({hot}, {before}) + 19.99%"), 0, "may_hold"),
        (format!("share({hot}, {after}) > share({hot}, {before}) + 25%"), 0, "does_not_hold"),
        (format!("share({hot}, {before}) < 50%"), 1, "holds"),
        (format!("share(*, {after}) > 1.2 * share(*, {before}) + 5%"), 1, "holds"),
        (format!("share(*, {after}) > 10 * share(*, {before}) + 5%"), 0, "does_not_hold"),
        (
            format!("share(image:[kernel], {after}) > 1.2 * share(image:[kernel], {before})"),
            0,
            "does_not_hold",
        ),
        (format!("total(warm_in_this_test, {after}) > 30%"), 1, "holds"),
        (format!("share(warm_in_this_test, {after}) > 30%"), 0, "does_not_hold"),
        (format!("share(process:server, {after}) < 0.9 * share(process:server, {before})"), 1, "holds"),
        // 600 of 1200 samples a minute, which stand for 120 s.
        (format!("cpu({hot}, {after}) > 3500"), 1, "holds"),
        (format!("cpu({hot}, {after}) > 3700"), 0, "does_not_hold"),
        (format!("share(no_such_function, {after}) > 1%"), 2, "cannot_be_judged"),
        ("share(*, 2000-01-01..2000-01-02) > 1%".to_owned(), 2, "cannot_be_judged"),
    ] {
        let ended = made.whatif(&["diff", "--json", "--fail-if", &condition]).assert_code(code);
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let judged = &json["conditions"][0];
        assert_eq!(judged["verdict"], verdict, "{judged:#}");
        assert_eq!(ended.stderr.is_empty(), verdict == "does_not_hold", "{ended:#?}");
        assert_eq!(judged["why"].is_null(), code != 2, "{judged:#}");
    }
    // The sides of a difference have names, and several conditions are judged.
    let conditions = [&format!("share({hot}, B) > 1.2 * share({hot}, A)"), "share(*) > 99%"];
    let args = ["diff", "before", "2", "--fail-if", conditions[0], "--fail-if", conditions[1]];
    let ended = made.whatif(&args).assert_code(1);
    assert!(ended.stdout.contains("A: before") && ended.stdout.contains("look closer:"), "{ended:#?}");
    assert!(ended.stderr.contains("holds: all::cycles::hot_in_this_test"), "{ended:#?}");
    // What is told to look closer can be pasted.
    let json = made.whatif(&[&args[..], &["--json"]].concat()).assert_code(1).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let closer = json["conditions"][0]["closer"].as_str().unwrap().to_owned();
    let words: Vec<&str> = closer.split(' ').skip(1).collect();
    assert!(made.text(&words).contains("hot_in_this_test"), "{closer}");
    for (args, says) in [
        (&["diff"][..], "required"),
        (&["diff", "before"], "required"),
        (&["diff", "before", "--fail-if", "share(f) > 1%"], "required"),
        (&["diff", "--fail-if", "share(f)"], "there is nothing to compare with"),
    ] {
        let ended = made.whatif(args).assert_code(2);
        assert!(ended.stderr.contains(says), "{args:?}: {ended:#?}");
    }
}

#[test]
fn two_runs_with_a_gap_are_not_one() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let mut store = Store::open(&folder).unwrap();
    add_epoch(&mut store, "alpha", NOON, 10, 400, Some("before"), 0);
    add_epoch(&mut store, "alpha", NOON + 645, 10, 600, None, 200);
    drop(store);
    let made = Made { sandbox, folder };
    let history = made.json(&["status", "--history", "--since", "2000-01-01"]);
    let rows: Vec<_> = history["rows"].as_array().unwrap().iter().collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["epoch", "gap", "epoch", "lost"], "{history:#}");
    assert_eq!((&rows[1]["at"], &rows[1]["until"]), (&(NOON + 600).into(), &(NOON + 645).into()));
    assert!(
        rows[1]["message"].as_str().unwrap().starts_with("nothing was collected for 45 s"),
        "{history:#}"
    );
    let lost = rows[3]["message"].as_str().unwrap();
    assert!(lost.starts_with("14.3 % of the samples of") && lost.contains("2000 of 14000"), "{lost}");
    let text = made.text(&["status", "--history", "--since", "2000-01-01"]);
    assert!(text.contains(":45  epoch 2 began: "), "{text}");
    assert!(made.text(&["status", "--history", "--since", "1h"]).contains("nothing happened"));
}

#[test]
fn variation_is_told_from_chance() {
    let made = made();
    let json = made.json(&["stats", "--across", "epoch"]);
    let first = &json["rows"][0];
    let names = ["all::cycles::hot_in_this_test", "</script><img src=x onerror=alert(1)>\u{1b}[31m;x"];
    assert!(names.contains(&first["name"].as_str().unwrap()), "{first}");
    let hot = by_name(&json["rows"])["all::cycles::hot_in_this_test"].clone();
    assert_eq!((hot["min"].as_f64(), hot["max"].as_f64()), (Some(0.4), Some(0.6)));
    assert_eq!(hot["most_in"], "2");
    for across in ["machine", "day"] {
        let ended = made.whatif(&["stats", "--across", across]).assert_code(90);
        assert!(ended.stderr.contains("so nothing can vary"), "{across}: {ended:#?}");
    }
    for across in ["hour", "process"] {
        let text = made.text(&["stats", "--across", across, "--by", "image"]);
        assert!(text.contains("std dev") && text.contains(&format!("({across})")), "{text}");
    }
}

#[test]
fn epochs_are_listed_and_named() {
    let made = made();
    let text = made.text(&["epochs"]);
    assert!(text.contains("before") && text.contains("cpu-clock …"), "{text}");
    // While the database is being written.
    let writer = Store::open(&made.folder).unwrap();
    assert_eq!(made.text(&["epochs", "--name", "after"]), "epoch 2 is now called after\n");
    drop(writer);
    let json = made.json(&["epochs"]);
    assert_eq!(json["epochs"][1]["name"], "after");
    assert_eq!(json["epochs"][0]["samples"], 120 * 1200);
    made.text(&["diff", "before", "after"]);
    let ended = made.whatif(&["epochs", "--name", "7"]).assert_code(90);
    assert!(ended.stderr.contains("cannot be the name of an epoch"), "{ended:#?}");
}

#[test]
fn garbage_is_collected_by_one_writer() {
    let made = made();
    for (args, says) in [
        (&["gc"][..], "nothing says what is old: give --keep 30d"),
        (&["gc", "--keep", "never"], "'never' is no age; give a number and a unit"),
        (&["gc", "--most", "lots"], "'lots' is no size"),
    ] {
        let ended = made.whatif(args).assert_code(90);
        assert!(ended.stderr.contains(says), "{args:?}: {ended:#?}");
    }
    let writer = Store::open(&made.folder).unwrap();
    let ended = made.whatif(&["gc", "--keep", "30d"]).assert_code(90);
    assert!(ended.stderr.contains("while the collector runs it removes what is old by itself"), "{ended:#?}");
    drop(writer);
    let text = made.text(&["gc", "--keep", "1h"]);
    assert!(text.starts_with("removed "), "{text}");
}

#[test]
fn what_a_dry_run_says_is_what_is_done() {
    // One is old, two are newer than any `--keep` here.
    let now = seconds_now();
    let made = || {
        let sandbox = Sandbox::new();
        let folder = sandbox.path("db");
        let mut store = Store::open(&folder).unwrap();
        for (days, minutes) in [(50, 120), (5, 60), (4, 30)] {
            add_epoch(&mut store, "alpha", now - days * 86_400, minutes, 400, None, 0);
        }
        drop(store);
        Made { sandbox, folder }
    };
    let content = |folder: &Path| {
        let names = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            // Of the log of a database that is being read.
            entries
                .filter(|name| !name.to_string_lossy().contains("catalogue.db-"))
                .collect::<std::collections::BTreeSet<_>>()
        };
        (names(folder.to_owned()), names(folder.join("segments")))
    };
    for (args, segments) in [
        (&["--keep", "30d"][..], 1),
        (&["--keep", "30d", "--most", "1"], 3),
        (&["--coarse-after", "1d"], 0),
        (&["--keep", "10d", "--coarse-after", "1d", "--most", "1G"], 1),
        (&["--keep", "100d"], 0),
    ] {
        let made = made();
        let before = (content(&made.folder), made.json(&["top"])["heading"]["samples"].clone());
        let would = made.text(&[&["gc", "--dry-run"], args].concat());
        assert!(would.starts_with(&format!("would remove {segments} segments")), "{args:?}: {would}");
        assert_eq!((content(&made.folder), made.json(&["top"])["heading"]["samples"].clone()), before);
        let done = made.text(&[&["gc"], args].concat());
        assert_eq!(would.replace("would remove", "removed"), done, "{args:?}");
    }
    // While the database is being written, too.
    let made = made();
    let writer = Store::open(&made.folder).unwrap();
    let would = made.text(&["gc", "--keep", "30d", "--dry-run"]);
    assert!(would.starts_with("would remove 1 segments"), "{would}");
    drop(writer);
}

/// Trials that are there.
fn trials(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("/.trial-")).collect()
}

#[test]
fn an_interrupted_dry_run_leaves_nothing() {
    let made = made();
    // So many that it is not done at once.
    let segments = made.folder.join("segments");
    for nth in 0..20_000 {
        std::fs::write(segments.join(format!("other-{nth}")), "").unwrap();
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut command = made.sandbox.whatif();
        command.env("WHATIF_DB", &made.folder).args(["gc", "--keep", "1d", "--dry-run"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut has_ended = false;
        while !has_ended && trials(&made.folder).is_empty() {
            has_ended = child.try_wait().unwrap().is_some();
        }
        if !has_ended {
            kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        }
        let ended = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
        let expected = [None, Some(signal.as_raw())];
        assert!(expected.contains(&ended.status.signal()), "{:?}", ended.status);
        assert_eq!(trials(&made.folder), Vec::<PathBuf>::new());
    }
    // What a `kill -9` leaves is removed by the next writer.
    std::fs::create_dir_all(made.folder.join(".trial-killed/segments")).unwrap();
    made.text(&["gc", "--keep", "10000d"]);
    assert_eq!(trials(&made.folder), Vec::<PathBuf>::new());
}

fn seconds_now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

#[test]
fn what_has_no_name_is_told_with_what_mends_it() {
    let made = made();
    let json = made.json(&["unknown"]);
    let rows = json["rows"].as_array().unwrap();
    let code = |image: &str| {
        let row = rows.iter().find(|row| row["image"] == image).unwrap_or_else(|| panic!("{rows:#?}"));
        (
            row["code"].as_str().unwrap(),
            row["samples"].as_u64().unwrap(),
            row["processes"][0].as_str().unwrap(),
        )
    };
    assert_eq!(code("/opt/gone/bin/server"), ("missing-file", 4800, "server"));
    assert_eq!(code("[unknown]"), ("no-image", 1200, "server"));
    let text = made.text(&["unknown"]);
    assert!(text.contains("6000 samples (2.5 %) have no name:"), "{text}");
    assert!(text.contains("debuginfod-find debuginfo bb"), "{text}");
}

#[test]
fn databases_are_merged() {
    let made = made();
    let other = made.sandbox.path("other");
    let mut store = Store::open(&other).unwrap();
    add_epoch(&mut store, "beta", NOON, 10, 400, None, 100);
    drop(store);
    let text = made.text(&["db", "merge", "all", "db", "other"]);
    assert!(text.starts_with("2 databases added to all (whatif top --db all)"), "{text}");
    let json = made.json(&["top", "--db", "all"]);
    assert_eq!(json["heading"]["machines"], serde_json::json!(["alpha", "beta"]));
    assert_eq!(json["heading"]["samples"], 250_000);
    let text = made.text(&["stats", "--db", "all", "--across", "machine"]);
    assert!(text.contains("alpha") || text.contains("beta"), "{text}");
    // Loss is reported with what to do about it.
    let text = made.text(&["top", "--db", "other"]);
    assert!(text.contains("! 7.7 % of the samples were lost") && text.contains("whatif status"), "{text}");
    let ended = made.whatif(&["db", "merge", "all", "nowhere"]).assert_code(90);
    assert!(ended.stderr.contains("there is no database at nowhere; name the folder of one"), "{ended:#?}");
    let ended = made.whatif(&["db", "merge", "all", "all"]).assert_code(90);
    assert!(ended.stderr.contains("cannot be added to itself"), "{ended:#?}");
    // One segment that cannot be read is reported, and is all that is missing.
    let segment =
        std::fs::read_dir(made.sandbox.path("other/segments")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&segment, "nothing").unwrap();
    let ended = made.whatif(&["db", "merge", "rest", "other", "db"]).assert_code(90);
    assert!(ended.stderr.contains("is damaged or missing: it has other bytes"), "{ended:#?}");
    assert!(ended.stderr.contains("to rest, but 1 segment could not be read"), "{ended:#?}");
    assert_eq!(made.json(&["top", "--db", "rest"])["heading"]["samples"], 240_000);
}

#[test]
fn databases_are_exported() {
    let made = made();
    for (format, begins) in
        [("pprof", &b"\x1f\x8b"[..]), ("otlp", b"\n"), ("folded", b""), ("html", b"<!doctype html>")]
    {
        made.text(&["export", "--db", "db", "--format", format, "-o", "out"]);
        let content = std::fs::read(made.sandbox.path("out")).unwrap();
        assert!(content.starts_with(begins) && content.len() > 100, "{format}");
        let mut command = made.sandbox.whatif();
        command.args(["export", "--db", "db", "--format", format]);
        assert_eq!(command.output().unwrap().stdout, content, "{format}");
    }
    let ended = made.whatif(&["export", "--db", "db", "--format", "coz"]).assert_code(90);
    assert!(ended.stderr.contains("can be written as pprof, otlp, folded or html"), "{ended:#?}");
    let ended = made.whatif(&["export", "x.db", "--db", "db", "--format", "pprof"]).assert_code(90);
    assert!(ended.stderr.contains("give either a recording, or --db DIR"), "{ended:#?}");
}

#[test]
fn what_is_not_there_is_told() {
    let made = made();
    std::fs::write(made.sandbox.path("RECORDING"), "").unwrap();
    for (args, says) in [
        (&["top", "--since", "yesterday"][..], "'yesterday' is no time; give an age"),
        (&["top", "--since", "1d", "--until", "2d"], "is not before --until"),
        (
            &["top", "--since", "1970-01-01", "--until", "1970-01-02"],
            "no samples were taken from 1970-01-01 00:00 to 1970-01-02 00:00",
        ),
        (&["top", "--process", "testr"], "no process is 'testr'; there are: tester"),
        (&["top", "--cgroup", "zzz"], "no cgroup is 'zzz'; there are: "),
        (&["top", "--machine", "alpa"], "no machine is 'alpa'; there are: alpha"),
        (&["top", "--image", "zzz"], "no image is 'zzz'; there are: "),
        (&["top", "--event", "cycles"], "no event is 'cycles'; there are: cpu-clock"),
        (&["top", "--epoch", "9"], "there is no epoch 9; see which there are: whatif db epochs"),
        (&["top", "--process", "swapper"], "but of idle CPUs (--idle)"),
        (&["top", "--db", "nowhere"], "there is no database of continuous profiles at nowhere"),
        (&["top", "--db", "."], "there is no"),
        (&["top", "--db", "RECORDING"], "if it is a recording of whatif run: whatif report RECORDING"),
        (&["top", "--recording", "nowhere.db"], "--recording nowhere.db"),
    ] {
        let ended = made.whatif(args).assert_code(90);
        assert!(ended.stderr.contains(says), "{args:?}: {ended:#?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
    // A database without samples.
    drop(Store::open(&made.sandbox.path("empty")).unwrap());
    let ended = made.whatif(&["top", "--db", "empty"]).assert_code(90);
    assert!(ended.stderr.contains("there are no samples in empty yet"), "{ended:#?}");
}

#[test]
fn output_is_plain_in_a_pipe_and_may_end_early() {
    let made = made();
    for args in [&["top"][..], &["unknown"], &["stats"], &["flame", "--folded"]] {
        assert!(!made.text(args).contains('\u{1b}'), "{args:?}");
        assert!(!made.text(args).contains('\u{202e}'), "{args:?}");
    }
    let mut command = made.sandbox.whatif();
    command
        .env("WHATIF_DB", &made.folder)
        .args(["top", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 1]).unwrap();
    drop(pipe);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

/// What perf records of a program with these options, below its `perf.data`; or why it cannot, said aloud.
fn recorded(sandbox: &Sandbox, options: &[&str], program: &[&std::ffi::OsStr]) -> bool {
    if !have("perf") {
        return false;
    }
    let mut perf = sandbox.command("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o", "perf.data"])
        .args(options)
        .arg("--")
        .args(program);
    let recorded = perf.output().unwrap();
    if !recorded.status.success() {
        let why = String::from_utf8_lossy(&recorded.stderr).into_owned();
        crate::support::skip(&format!("perf cannot record here: {why}"));
    }
    recorded.status.success()
}

#[test]
fn perf_data_becomes_an_epoch() {
    let shell = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"].map(std::ffi::OsStr::new);
    // Compressed, too, which not every perf can; and without build IDs, over which some fail.
    for options in [&["-g"][..], &["-g", "-z", "--no-buildid"]] {
        let sandbox = Sandbox::new();
        if !recorded(&sandbox, options, &shell) {
            continue;
        }
        let folder = sandbox.path("db");
        let ended = whatif_in(&sandbox, &folder, &["import", "perf.data", "--name", "perf"]).assert_code(0);
        assert!(
            ended.stdout.contains("samples of cpu-clock") && ended.stdout.contains("in epoch 1"),
            "{ended:#?}"
        );
        let ended = whatif_in(&sandbox, &folder, &["import", "perf.data"]).assert_code(90);
        assert!(ended.stderr.contains("already, as epoch 1: its samples would count twice"), "{ended:#?}");
        let ended = whatif_in(&sandbox, &folder, &["import", "perf.data", "--name", "1"]).assert_code(90);
        assert!(ended.stderr.contains("cannot be the name of an epoch"), "{ended:#?}");
        let ended = whatif_in(&sandbox, &folder, &["top", "--by", "image", "--epoch", "perf", "--json"])
            .assert_code(0);
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let images: Vec<_> =
            json["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert!(images.iter().any(|image| image.ends_with("sh")), "{images:?}");
        let ended = whatif_in(&sandbox, &folder, &["top", "--process", "sh"]).assert_code(0);
        assert!(ended.stdout.contains("cpu-clock on "), "{ended:#?}");
        let ended = whatif_in(&sandbox, &folder, &["import", "perf.data", "-o", "x.db"]).assert_code(90);
        assert!(ended.stderr.contains("name its folder with --db DIR, and leave -o out"), "{ended:#?}");
    }
}

#[test]
fn generated_code_in_perf_data_has_the_names_of_its_map() {
    let Some(program) = crate::support::program("jit.c") else { return };
    let sandbox = Sandbox::new();
    if !recorded(&sandbox, &["--no-buildid"], &[program.as_os_str(), "keep".as_ref()]) {
        return;
    }
    let folder = sandbox.path("db");
    whatif_in(&sandbox, &folder, &["import", "perf.data"]).assert_code(0);
    let map = std::fs::read_to_string(sandbox.path("map")).unwrap();
    std::fs::remove_file(map.trim()).unwrap();
    let ended = whatif_in(&sandbox, &folder, &["top", "--json"]).assert_code(0);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let is_hot = |row: &serde_json::Value| row["name"] == "js:hot" && row["image"] == "[generated by jit]";
    assert!(rows.iter().any(is_hot), "{json:#}");
}

/// How a collector samples a machine, with callers (`stacks`) or without (`pc`).
fn setting(mode: &str) -> Setting {
    Setting {
        scope: "machine".to_owned(),
        mode: mode.to_owned(),
        events: vec!["cpu-clock".to_owned()],
        sampler: "perf events".to_owned(),
        rate_hz: 10.0,
        resolution: Nanos::new(60_000_000_000),
        version: "0".to_owned(),
        labels: Default::default(),
    }
}

/// A database in which `function` of the program at `path`, which may be gone, has all samples.
fn sampled_in(folder: &Path, path: &Path, build_id: &str, offset: u64) {
    let mut store = Store::open(folder).unwrap();
    let machine = MachineInfo { key: "m".to_owned(), host: "m".to_owned(), kernel: String::new(), cpus: 1 };
    let machine = store.machine(&machine).unwrap();
    let setting = setting("pc");
    let event = store.event("cpu-clock").unwrap();
    let epoch = store.begin_epoch(machine, &setting, None, UnixSeconds(NOON)).unwrap();
    let path = path.to_string_lossy().into_owned();
    let image =
        store.image(&CodeImage { path, build_id: build_id.to_owned(), kind: ImageKind::File }).unwrap();
    let label = store
        .label(&Label { process: "gone".to_owned(), cgroup: String::new(), ..Label::default() })
        .unwrap();
    let time = UnixSeconds(NOON);
    let batch = Batch {
        nodes: vec![Node { parent: Node::NONE, image, offset: Offset(offset) }],
        counts: vec![Count { time, label, event, node: 0, count: 600 }],
        books: vec![Books {
            event,
            start: time,
            length: Nanos::new(60_000_000_000),
            expected: 600,
            stored: 600,
            unknown: 0,
            lost: 0,
            idle: 0,
            covered: Nanos::new(60_000_000_000),
            own_cpu: Nanos::ZERO,
            kernel_cpu: Nanos::ZERO,
            resident: 0,
            squares: 0,
        }],
    };
    store.flush(epoch, &batch).unwrap();
    store.end_epoch(epoch, UnixSeconds(NOON + 60)).unwrap();
}

/// A program that waits until it is ended, however its test ends.
struct Waiting(std::process::Child);

impl Waiting {
    /// Starts `command`, which says a line once it is there.
    fn start(mut command: std::process::Command) -> Result<Waiting, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut said = [0];
        if child.stdout.as_mut().unwrap().read_exact(&mut said).is_ok() {
            return Ok(Waiting(child));
        }
        let ended = child.wait_with_output().unwrap();
        Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program, its build ID, and where a function of it is in the file.
fn waiting_program() -> Option<(PathBuf, String, u64)> {
    let program = crate::support::program_as("waits.c", "waits", &["-Wl,--build-id"])?;
    let image = Image::open(&program).unwrap();
    let offset = offsets(&image, "wait_for_the_end")[1];
    Some((program, image.build_id().expect("it was built with one"), offset))
}

#[test]
fn files_that_are_gone_have_names_while_a_process_runs_them() {
    let Some((program, build_id, offset)) = waiting_program() else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let copy = sandbox.path("server");
    sampled_in(&folder, &copy, &build_id, offset);
    let top = || whatif_in(&sandbox, &folder, &["top"]).assert_code(0).stdout;
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let nobody = words(top());
    assert!(nobody.contains("100.0 % of the samples have no names, those of "), "{nobody}");
    assert!(nobody.contains("/server (not here)") && nobody.contains(&build_id), "{nobody}");
    assert_eq!(nobody.matches("have no names").count(), 1, "{nobody}");
    let json = whatif_in(&sandbox, &folder, &["top", "--json"]).assert_code(0);
    assert!(json.stdout.contains(r#""code": "nameless""#) || json.stdout.contains(r#""code":"nameless""#));

    // By another process: one that another test starts meanwhile would have the file open for writing, and nothing could execute it.
    assert!(std::process::Command::new("cp").arg(&program).arg(&copy).status().unwrap().success());
    let running = Waiting::start(sandbox.command(&copy)).unwrap();
    // Replaced, as an upgrade does it: the new file is another one.
    std::fs::remove_file(&copy).unwrap();
    std::fs::copy(this_program(), &copy).unwrap();
    let listed = whatif_in(&sandbox, &folder, &["annotate", "wait_for_the_end"]).assert_code(0);
    assert!(cfg!(not(target_arch = "x86_64")) || listed.stdout.contains("%r"), "{listed:#?}");
    let replaced = top();
    assert!(replaced.contains("wait_for_the_end") && !replaced.contains("no names"), "{replaced}");
    drop(running);
    // They were kept.
    assert!(top().contains("wait_for_the_end"));
}

#[test]
fn stripped_programs_have_no_names_until_their_debug_file_is_there() {
    let Some((program, build_id, offset)) = waiting_program() else { return };
    let sandbox = Sandbox::new();
    let aside = sandbox.path("aside");
    std::fs::create_dir(&aside).unwrap();
    let (stripped, debug) = (sandbox.path("server"), aside.join("server.debug"));
    if !have("objcopy") {
        return crate::support::skip("without objcopy nothing can be stripped here");
    }
    let mut keep = sandbox.command("objcopy");
    keep.arg("--only-keep-debug").args([&program, &debug]);
    run(keep).assert_code(0);
    let mut strip = sandbox.command("objcopy");
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", debug.display()));
    strip.args([&program, &stripped]);
    run(strip).assert_code(0);

    let cache = sandbox.path("cache");
    let ask = |folder: &Path, args: &[&str]| {
        let mut command = sandbox.whatif();
        command.env_remove("DEBUGINFOD_CACHE_PATH").env("XDG_CACHE_HOME", &cache);
        command.env("WHATIF_DB", folder).args(args);
        run(command).assert_code(0).stdout
    };
    let assert_nameless = |folder: &Path| {
        // The second time from what is kept.
        for _ in 0..2 {
            let text = ask(folder, &["top"]);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("/server (no symbols)") && !text.contains("+0x"), "{text}");
        }
        let unknown = ask(folder, &["unknown", "--json"]);
        assert!(unknown.contains("no-symbols") && unknown.contains("/server"), "{unknown}");
    };
    let in_cache = cache.join("debuginfod_client").join(&build_id).join("debuginfo");
    for (db, place) in [("linked", sandbox.path("server.debug")), ("cached", in_cache)] {
        let folder = sandbox.path(db);
        sampled_in(&folder, &stripped, &build_id, offset);
        assert_nameless(&folder);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(&debug, &place).unwrap();
        assert!(ask(&folder, &["top"]).contains("wait_for_the_end"), "{}", place.display());
        std::fs::remove_file(&place).unwrap();
        // It was kept.
        assert!(ask(&folder, &["top"]).contains("wait_for_the_end"), "{}", place.display());
    }
    // Nor is it called after the link that leads to it.
    let folder = sandbox.path("gone");
    sampled_in(&folder, &stripped, &build_id, offset);
    let _running = Waiting::start(sandbox.command(&stripped)).unwrap();
    std::fs::remove_file(&stripped).unwrap();
    assert_nameless(&folder);
}

#[test]
fn code_of_other_machines_is_said_to_be_so() {
    let Some((program, build_id, offset)) = waiting_program() else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let foreign = sandbox.path("foreign");
    let mut bytes = std::fs::read(&program).unwrap();
    // e_machine: RISC-V, which is not tested on.
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    std::fs::write(&foreign, bytes).unwrap();
    sampled_in(&folder, &foreign, &build_id, offset);
    let ended = whatif_in(&sandbox, &folder, &["annotate", "wait_for_the_end"]).assert_code(0);
    let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("only code for x86-64 can be taken apart here, and this is for RISC-V"),
        "{words}"
    );
    assert!(words.contains("whatif list FUNCTION") && words.contains("objdump -d "), "{words}");
}

#[test]
fn files_of_other_mount_namespaces_have_names_while_a_process_runs_there() {
    let Some((program, build_id, offset)) = waiting_program() else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let hidden = sandbox.path("hidden");
    std::fs::create_dir(&hidden).unwrap();
    let inside = hidden.join("server");
    sampled_in(&folder, &inside, &build_id, offset);
    let mut command = sandbox.command("unshare");
    // What runs there is another file than the one that is asked for, so that nothing but its file system leads to that.
    let script = r#"mount -t tmpfs none "$1" && cp "$2" "$1/server" && exec "$2""#;
    command.args(["--mount", "--", "sh", "-c", script, "sh"]).args([&hidden, &program]);
    let _running = match Waiting::start(command) {
        Ok(running) => running,
        Err(why) => return crate::support::skip(&format!("no mount namespace can be made here: {why}")),
    };
    assert!(!inside.exists());
    let text = whatif_in(&sandbox, &folder, &["top"]).assert_code(0).stdout;
    assert!(text.contains("wait_for_the_end"), "{text}");
}

/// A recording in which the hot function does nothing for progress, the warm one does, and so does one that was never sampled.
fn recording(path: &Path, build_id: &str) {
    let truth = |name, slope| crate::synthetic::Truth { name, slope, noise: 0.01, blocks: 60 };
    let mut rows = crate::synthetic::rows(&[
        truth("hot:1", 0.0),
        truth("warm:2", 0.6),
        truth("rare:3", 0.5),
        truth("rare:4", 0.1),
    ]);
    for region in rows.regions.values_mut() {
        let (name, _) = region.name.split_once(':').unwrap();
        region.image = profile::Image {
            path: this_program().to_string_lossy().into_owned(),
            build_id: Some(build_id.to_owned()),
        };
        // Of the rare one only lines were tried.
        match name {
            "rare" => region.function = Some("all::cycles::rare_in_this_test".to_owned()),
            name => {
                region.kind = RegionKind::Function;
                region.name = format!("all::cycles::{name}_in_this_test");
            }
        }
    }
    let mut recorder = Recorder::create(path).unwrap();
    recorder.add(&rows).unwrap();
    recorder.close().unwrap();
}

#[test]
fn cost_stands_beside_worth() {
    let made = made();
    let build_id = Image::open(&this_program()).unwrap().build_id().unwrap_or_default();
    std::fs::create_dir(made.folder.join("recordings")).unwrap();
    recording(&made.folder.join("recordings/run.db"), &build_id);
    let json = made.json(&["top"]);
    assert_eq!(json["recordings"], serde_json::json!(["run.db"]));
    let rows = by_name(&json["rows"]);
    let (hot, warm) = (&rows["all::cycles::hot_in_this_test"], &rows["all::cycles::warm_in_this_test"]);
    assert_eq!(
        (hot["worth"]["verdict"].as_str(), hot["mark"].as_str()),
        (Some("no-effect"), Some("hot-but-does-not-matter")),
        "{hot}"
    );
    assert_eq!(warm["worth"]["verdict"], "helps", "{warm}");
    assert!((warm["worth"]["slope"].as_f64().unwrap() - 0.6).abs() < 0.1, "{warm}");
    assert_eq!(warm["worth"]["other_build"], build_id.is_empty());
    let rare = &json["not_hot"][0];
    assert_eq!(rare["name"], "all::cycles::rare_in_this_test", "{json:#}");
    // Both lines together, and the better one by name.
    assert!((rare["worth"]["slope"].as_f64().unwrap() - 0.6).abs() < 0.1, "{rare}");
    assert_eq!(rare["worth"]["line"], "rare:3");
    let text = made.text(&["top"]);
    assert!(
        text.contains("○ ") && text.contains("● 0.") && text.contains("These matter, but are not hot"),
        "{text}"
    );
    assert!(!made.text(&["top", "--no-recordings"]).contains("worth"));
    let same = &warm["worth"];
    assert_eq!(&made.json(&["list", "warm_in_this_test"])["sources"][0]["worth"], same);
    assert_eq!(&made.json(&["annotate", "warm_in_this_test"])["code"][0]["worth"], same);
    for (words, rows) in
        [(&["diff", "before", "2"][..], "changes"), (&["stats", "--across", "epoch"], "rows")]
    {
        let json = made.json(words);
        assert_eq!(&by_name(&json[rows])["all::cycles::warm_in_this_test"]["worth"], same, "{json:#}");
    }
    made.text(&["flame", "-o", "worth.html"]);
    let page = std::fs::read_to_string(made.sandbox.path("worth.html")).unwrap();
    assert!(page.contains(r#""verdict":"helps""#), "{page}");
    // Another build says so.
    recording(&made.sandbox.path("old.db"), "0123");
    std::fs::remove_file(made.folder.join("recordings/run.db")).unwrap();
    let json = made.json(&["top", "--recording", "old.db"]);
    assert_eq!(by_name(&json["rows"])["all::cycles::warm_in_this_test"]["worth"]["other_build"], true);
}

/// Needed by nothing but debug information.
#[test]
fn the_functions_that_are_sampled_are_here() {
    let image = Image::open(&this_program()).unwrap();
    let scope = Scope::new(ScopeOptions::default()).unwrap();
    let entry = image.function_entries("hot_in_this_test")[0];
    assert_eq!(image.frames(entry, &scope).last().unwrap().function.base(), "all::cycles::hot_in_this_test");
    assert_eq!(image.stated(image.file_offset(entry).unwrap()), Some(entry));
}
