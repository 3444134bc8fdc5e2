//! `whatif open --db`: the page asks, and is told what the commands say.

use crate::support::{Sandbox, run, whatif};
use archive::*;
use profile::Nanos;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A whole hour.
const START: i64 = 1_790_000_400 - 1_790_000_400 % 86_400 + 43_200;
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}";

/// Half a minute without a collector, then a second run with other shares.
const GAP: (i64, i64) = (START + 590, START + 635);

/// Two runs with 45 seconds between them, in time buckets of a minute: `work` has 300 and then 500 of 1000 samples a minute.
fn made(folder: &Path) {
    let mut store = Store::open(folder).unwrap();
    let host = |name: &str| MachineInfo {
        key: name.to_owned(),
        host: name.to_owned(),
        kernel: "6.1".to_owned(),
        cpus: 2,
    };
    let machine = store.machine(&host("alpha")).unwrap();
    add_run(&mut store, machine, START..GAP.0, 300);
    // The last flush is shorter than a second.
    add_run(&mut store, machine, GAP.1..START + 1201, 500);
    let other = store.machine(&host("beta")).unwrap();
    add_run(&mut store, other, START..START + 60, 100);
}

fn add_run(store: &mut Store, machine: MachineId, time: std::ops::Range<i64>, work: u32) {
    let setting = Setting {
        scope: "machine".to_owned(),
        mode: "stacks".to_owned(),
        events: vec!["cpu-clock".to_owned()],
        sampler: "perf events".to_owned(),
        rate_hz: 10.0,
        resolution: Nanos::new(60_000_000_000),
        version: "0".to_owned(),
        ..Setting::default()
    };
    let event = store.event("cpu-clock").unwrap();
    let epoch = store.begin_epoch(machine, &setting, None, UnixSeconds(time.start)).unwrap();
    let mut image = |path: &str, kind| {
        store.image(&CodeImage { path: path.to_owned(), build_id: "aa".to_owned(), kind }).unwrap()
    };
    let (server, idle) = (image("[jit of server]", ImageKind::Generated), image("[idle]", ImageKind::Idle));
    let symbol = |name: &str| vec![Symbol { function: name.into(), ..Symbol::default() }];
    let names = [(Offset(1), symbol("main")), (Offset(2), symbol("work")), (Offset(3), symbol(HOSTILE))];
    store.add_symbols(server, &names).unwrap();
    let mut label = |process: &str, cgroup: &str| {
        store
            .label(&Label { process: process.to_owned(), cgroup: cgroup.to_owned(), ..Label::default() })
            .unwrap()
    };
    let one = label("server", "/system.slice/server.service/worker");
    let two = label("<b>other", "/user.slice/session-1.scope");
    let nobody = label("swapper", "");
    let node = |parent, image, offset| Node { parent, image, offset: Offset(offset) };
    let mut batch = Batch {
        nodes: vec![
            node(Node::NONE, server, 1),
            node(0, server, 2),
            node(0, server, 3),
            node(Node::NONE, idle, 0),
        ],
        ..Batch::default()
    };
    let mut at = time.start;
    while at < time.end {
        let bucket = at - at.rem_euclid(60);
        let end = time.end.min(bucket + 60);
        let length = Nanos::new(if end - at == 1 { 400_000_000 } else { (end - at) as u64 * 1_000_000_000 });
        let mut count = |label, node, count| {
            batch.counts.push(Count { time: UnixSeconds(bucket), label, event, node, count });
        };
        count(one, 1, work);
        count(one, 0, 20);
        count(two, 2, 1000 - 20 - work);
        count(nobody, 3, 200);
        batch.books.push(Books {
            event,
            start: UnixSeconds(at),
            length,
            expected: 1200,
            stored: 1200,
            unknown: 0,
            lost: 0,
            idle: 200,
            covered: Nanos::new(2 * length.get()),
            own_cpu: Nanos::ZERO,
            kernel_cpu: Nanos::ZERO,
            resident: 1 << 20,
            squares: 0,
        });
        at = end;
    }
    store.flush(epoch, &batch).unwrap();
    store.end_epoch(epoch, UnixSeconds(time.end)).unwrap();
}

/// A page that is served.
struct Served {
    child: Child,
    host: String,
    query: String,
    sandbox: Sandbox,
    folder: PathBuf,
}

impl Served {
    fn start(options: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let folder = sandbox.path("db");
        made(&folder);
        let mut command = sandbox.whatif();
        command.args(["open", "--no-browser", "--db"]).arg(&folder).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, query) = line.trim().strip_prefix("http://").unwrap().split_once("/?").unwrap();
        let (host, query) = (host.to_owned(), query.to_owned());
        Self { child, host, query, sandbox, folder }
    }

    fn get(&self, path: &str, more: &str) -> (u16, String) {
        self.ask(&format!("{path}?{}{more}", self.query))
    }

    fn ask(&self, address: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let request = format!("GET {address} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[track_caller]
    fn json(&self, path: &str, more: &str) -> serde_json::Value {
        let (status, body) = self.get(path, more);
        assert_eq!(status, 200, "{path} {more}: {body}");
        assert!(!body.contains('\u{202e}'), "{body}");
        serde_json::from_str(&body).unwrap()
    }

    #[track_caller]
    fn command(&self, words: &[&str]) -> serde_json::Value {
        let mut command = self.sandbox.whatif();
        command.env("WHATIF_DB", &self.folder).args(words).arg("--json");
        serde_json::from_str(&run(command).assert_code(0).stdout).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn counts(rows: &serde_json::Value) -> BTreeMap<&str, u64> {
    let of = |row: &'_ serde_json::Value| row["samples"].as_u64().unwrap();
    rows.as_array().unwrap().iter().map(|row| (row["name"].as_str().unwrap(), of(row))).collect()
}

fn rfc(at: i64) -> String {
    // All of it is on one day.
    let second = at.rem_euclid(86_400);
    format!("2026-09-21T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[test]
fn page_and_terminal_say_the_same_of_a_map_a_span_and_a_difference() {
    let served = Served::start(&[]);
    let (status, page) = served.get("/", "");
    assert!(status == 200 && page.contains("whatif-data") && page.contains("default-src 'none'"));
    let first = served.json("/data.json", "");
    assert_eq!(
        (first["kind"].as_str(), &first["first"]["since"]),
        (Some("database"), &serde_json::Value::Null)
    );

    // The map: its rows are those of `top`, and its columns are minutes.
    for by in ["process", "cgroup", "image"] {
        let map = served.json("/api/heat", &format!("&by={by}&columns=100"));
        let top = served.command(&["top", "--by", by, "--top", "100"]);
        assert_eq!(counts(&map["rows"]), counts(&top["rows"]), "{by}");
        assert_eq!(map["heading"]["samples"], top["heading"]["samples"]);
        assert_eq!((map["column_s"].as_i64(), map["columns"].as_u64()), (Some(60), Some(21)));
        for row in map["rows"].as_array().unwrap() {
            let cells = row["cells"].as_array().unwrap();
            assert_eq!(cells.iter().map(|cell| cell.as_u64().unwrap()).sum::<u64>(), row["samples"]);
        }
    }
    let functions = served.json("/api/heat", "&by=function");
    assert_eq!(counts(&functions["rows"]), counts(&served.command(&["top", "--top", "100"])["rows"]));
    let units = served.json("/api/heat", "&by=unit");
    let names: Vec<&str> = counts(&units["rows"]).into_keys().collect();
    assert_eq!(names, ["server.service", "session-1.scope"]);

    // A span.
    let times = format!("&since={START}&until={}", START + 300);
    let span = served.json("/api/span", &times);
    let typed = ["top", "--top", "200", "--since", &rfc(START), "--until", &rfc(START + 300)];
    let top = served.command(&typed);
    assert_eq!(top["heading"]["samples"], 6000);
    assert_eq!((&span["table"]["rows"], &span["table"]["heading"]), (&top["rows"], &top["heading"]));
    let boxes: Vec<i64> =
        span["flame"]["boxes"].as_array().unwrap().iter().map(|of| of.as_i64().unwrap()).collect();
    assert_eq!(boxes.chunks(4).map(|of| of[2]).sum::<i64>(), 6000, "each sample is in one box");
    let of_server = served.json("/api/span", &format!("{times}&process=serv*"));
    assert_eq!(of_server["table"]["heading"]["samples"], 320 * 5 + 120);

    // Two spans compared.
    let (a, b) = ((START, START + 300), (START + 720, START + 1200));
    let more = format!("&since1={}&until1={}&since2={}&until2={}", a.0, a.1, b.0, b.1);
    let found = served.json("/api/diff", &more);
    let [one, other] = [a, b].map(|(from, to)| format!("{}..{}", rfc(from), rfc(to)));
    let diff = served.command(&["diff", &one, &other, "--top", "200"]);
    assert_eq!(found["table"]["changes"], diff["changes"]);
    assert!(diff["changes"].as_array().unwrap().iter().any(|change| change["certain"].as_f64() > Some(0.1)));
    assert_eq!(found["flame"]["before"]["samples"], 6000);

    // What it says to type says the same.
    let next = span["next"][0].as_str().unwrap();
    let mut shell = served.sandbox.command("sh");
    let whatif = whatif().to_str().unwrap();
    shell.args(["-c", &format!("{} --top 200 --json", next.replacen("whatif", whatif, 1))]);
    let typed: serde_json::Value = serde_json::from_str(&run(shell).assert_code(0).stdout).unwrap();
    assert_eq!(typed["rows"], top["rows"]);
}

#[test]
fn time_in_which_nothing_was_collected_is_told_to_the_second() {
    let served = Served::start(&[]);
    let map = served.json("/api/heat", "&by=process");
    assert_eq!(map["gaps"], serde_json::json!([[GAP.0, GAP.1]]));
    // 50 seconds of the tenth minute and 25 of the eleventh: as many samples are more CPU there.
    let scale: Vec<f64> = map["scale"].as_array().unwrap().iter().map(|of| of.as_f64().unwrap()).collect();
    let cores = |column: usize| scale[column] * 1000.0;
    assert!((cores(5) - 2.0 * 1000.0 / 1200.0).abs() < 1e-9, "{scale:?}");
    assert!((cores(9) - cores(5)).abs() < 1e-9 && (cores(10) - cores(5)).abs() < 1e-9, "{scale:?}");

    // A machine has its own.
    let hosts = served.json("/api/heat", "&by=machine");
    let row = |name: &str| {
        let rows = hosts["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["own"].clone()
    };
    assert_eq!(row("alpha")["gaps"], serde_json::json!([[GAP.0, GAP.1]]));
    let own: Vec<bool> = row("beta")["scale"].as_array().unwrap().iter().map(|of| of.is_null()).collect();
    assert_eq!(own, [[false].as_slice(), &[true; 20]].concat());
    // Merged columns are whole time buckets.
    let map = served.json("/api/heat", "&by=process&columns=3");
    assert_eq!((map["column_s"].as_i64(), map["columns"].as_u64()), (Some(600), Some(3)));
}

#[test]
fn what_a_request_may_be_has_bounds() {
    let served = Served::start(&["--process", "serv*"]);
    assert_eq!(served.json("/data.json", "")["first"]["process"], "serv*");
    let huge = format!("&process={}", "%2a".repeat(400));
    for (path, more, status) in [
        ("/api/heat", "&by=nonsense", 400),
        ("/api/heat", "&columns=1e9", 400),
        ("/api/heat", "&rows=99999999999999999999", 400),
        ("/api/heat", "&since=9223372036854775807", 400),
        ("/api/span", "&since=5&until=4", 400),
        ("/api/span", "&since=1&until=2", 422),
        ("/api/span", "&process=nothing-like-it", 422),
        ("/api/span", "&event=%1b%5b2J", 422),
        ("/api/span", "&epoch=..%2f..", 422),
        ("/api/span", "&process=%00%ff%e2%80%ae", 422),
        ("/api/span", &huge, 200),
        ("/api/diff", "", 400),
        ("/api/diff", "&since1=1&until1=2&since2=3&until2=4", 422),
        ("/api/../etc/passwd", "", 404),
        ("/nothing", "", 404),
    ] {
        let (found, body) = served.get(path, more);
        assert_eq!(found, status, "{path} {more}: {body}");
        if status != 200 {
            assert!(!body.contains(['\u{1b}', '\u{202e}', '\0']), "{body:?}");
        }
    }
    assert_eq!(served.ask("/api/span?token=0").0, 403);
    // Names are what they are, and stay in the data.
    let (_, body) = served.get("/api/span", "");
    assert!(body.contains("onerror"), "{body}");
}

#[test]
fn an_answer_is_of_the_samples_that_there_are_now() {
    let served = Served::start(&[]);
    let samples = || served.json("/api/span", "")["table"]["heading"]["samples"].as_u64().unwrap();
    let before = samples();
    assert_eq!(samples(), before);
    let mut store = Store::open(&served.folder).unwrap();
    let machine = MachineInfo { key: "alpha".into(), host: "alpha".into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&machine).unwrap();
    add_run(&mut store, machine, START + 1260..START + 1320, 700);
    drop(store);
    assert_eq!(samples(), before + 1000);
}

#[test]
fn a_page_that_is_a_file_has_its_answers() {
    let sandbox = Sandbox::new();
    let (folder, file) = (sandbox.path("db"), sandbox.path("page.html"));
    made(&folder);
    let mut command = sandbox.whatif();
    command.arg("open").arg(&folder).arg("-o").arg(&file);
    let ended = run(command).assert_code(0);
    assert!(ended.stdout.contains("open it in a browser"), "{ended:?}");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(!page.contains("<img src=x") && page.contains(r"\u003c/script>\u003cimg src=x"));
    let (_, data) = page.split_once(r#"id="whatif-data">"#).unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let by: Vec<&str> =
        data["heats"].as_array().unwrap().iter().map(|map| map["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["process", "unit", "cgroup", "machine", "function", "image"]);
    assert_eq!(data["span"]["table"]["heading"]["samples"], data["heats"][0]["heading"]["samples"]);

    for (words, why) in [
        (&["open", "x.db", "-o", "y.html"][..], "give either a recording, or --db DIR"),
        (&["open", "--db", "/nonexistent", "--no-browser"], "there is no database"),
        (&["open", "--db", "db", "--since", "1999-01-01", "--until", "1999-01-02"], "no samples were taken"),
    ] {
        let mut command = sandbox.whatif();
        command.args(words);
        let ended = run(command).assert_code(90);
        assert!(ended.stderr.contains(why), "{words:?}: {}", ended.stderr);
    }
}

/// Two days of two hosts, with nights, storms and gaps: `WHATIF_DAYS=/tmp/days cargo test … page::two_days -- --ignored`, then
/// `whatif open --db /tmp/days`.
#[test]
#[ignore = "writes a database to look at, to the folder $WHATIF_DAYS"]
fn two_days_to_look_at() {
    let folder = PathBuf::from(std::env::var_os("WHATIF_DAYS").expect("WHATIF_DAYS names a folder"));
    let mut random = fastrand::Rng::with_seed(7);
    let mut store = Store::open(&folder).unwrap();
    let setting = Setting {
        scope: "machine".to_owned(),
        mode: "stacks".to_owned(),
        events: vec!["cpu-clock".to_owned()],
        sampler: "perf events".to_owned(),
        rate_hz: 97.0,
        resolution: Nanos::new(60_000_000_000),
        version: "0".to_owned(),
        ..Setting::default()
    };
    let event = store.event("cpu-clock").unwrap();
    let code =
        CodeImage { path: "/srv/app".to_owned(), build_id: "ab".to_owned(), kind: ImageKind::Generated };
    let image = store.image(&code).unwrap();
    let names: Vec<(Offset, Vec<Symbol>)> = (0..3000)
        .map(|nth| {
            let function = format!("app::module_{}::function_{nth}", nth % 40).into();
            (Offset(nth), vec![Symbol { function, ..Symbol::default() }])
        })
        .collect();
    store.add_symbols(image, &names).unwrap();
    let labels: Vec<LabelId> = (0..40)
        .map(|nth| {
            let cgroup = format!("/system.slice/unit-{}.service", nth % 12);
            store.label(&Label { process: format!("process-{nth}"), cgroup, ..Label::default() }).unwrap()
        })
        .collect();
    for (host, gaps) in [("alpha", [(600, 640), (1500, 1900)]), ("beta", [(601, 630), (1700, 1900)])] {
        let machine =
            MachineInfo { key: host.to_owned(), host: host.to_owned(), kernel: "6.1".to_owned(), cpus: 16 };
        let machine = store.machine(&machine).unwrap();
        let epoch = store.begin_epoch(machine, &setting, None, UnixSeconds(START)).unwrap();
        // An hour at a time: a disk takes its time to sync.
        let mut batch = Batch::default();
        for minute in 0..2880_i64 {
            if minute % 60 == 0 && minute > 0 {
                store.flush(epoch, &std::mem::take(&mut batch)).unwrap();
            }
            if gaps.iter().any(|(from, to)| (*from..*to).contains(&minute)) {
                continue;
            }
            let time = UnixSeconds(START + 60 * minute);
            let day = 0.6 + 0.4 * (minute as f64 / 1440.0 * std::f64::consts::TAU).sin();
            let mut busy = 0;
            for (nth, label) in labels.iter().enumerate() {
                let storm = if nth == 3 && (2200..2300).contains(&minute) { 20.0 } else { 1.0 };
                for _ in 0..12 {
                    let (mut parent, stack) = (Node::NONE, random.u64(0..30));
                    for depth in 0..8 {
                        // The outer frames of different stacks are the same ones.
                        let offset = Offset(stack / (8 - depth) + 30 * (depth % 2) + 64 * (nth as u64));
                        batch.nodes.push(Node { parent, image, offset });
                        parent = batch.nodes.len() as u32 - 1;
                    }
                    let count = (day * storm * 60.0 / (nth + 1) as f64 * random.f64()) as u32 + 1;
                    busy += u64::from(count);
                    batch.counts.push(Count { time, label: *label, event, node: parent, count });
                }
            }
            let expected = (16 * 60 * 97).max(busy);
            batch.books.push(Books {
                event,
                start: time,
                length: Nanos::new(60_000_000_000),
                expected,
                stored: expected,
                unknown: 0,
                lost: 0,
                idle: expected - busy,
                covered: Nanos::new(16 * 60_000_000_000),
                own_cpu: Nanos::ZERO,
                kernel_cpu: Nanos::ZERO,
                resident: 1 << 20,
                squares: 0,
            });
        }
        store.flush(epoch, &batch).unwrap();
        store.end_epoch(epoch, UnixSeconds(START + 2880 * 60)).unwrap();
        while store.compact(UnixSeconds(START + 10 * 86_400), &mut || ()).unwrap() != Compaction::default() {}
    }
}
