//! `whatif run --hint-db`: what production says, of a database that is made here, is where experiments begin.

use crate::support::{Ended, Sandbox, program, run};
use crate::synthetic::{self, Truth};
use archive::*;
use profile::{Mark, Nanos, Production, Recorder, Recording, RegionKind, Rows};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use symbols::{Image, Svma};

/// Samples in each function of the program; those of a library are called by the first.
const NEEDED: u32 = 100;
const LIBRARY: u32 = 50;
const NOBODY_WAITS: u32 = 600;
const ELSEWHERE: u32 = 250;

/// Tenths of a second, much longer than a run may hang.
const WITHOUT_END: &str = "10000";

/// Whose samples are in the database.
#[derive(Clone, Copy, PartialEq)]
enum Build {
    Same,
    /// Of another one, whose functions have names.
    Other,
    /// Of another one, of which nothing is known.
    Nameless,
    /// Of another program.
    None,
}

/// An offset in the file that lies in a function.
fn offset(image: &Image, function: &str) -> Offset {
    let entry = image.function_entries(function).into_iter().next().expect("the function is there");
    let range = image.container(entry).unwrap();
    Offset(image.file_offset(Svma((range.start.0 + range.end.0) / 2)).unwrap().0)
}

/// Makes a database with a minute of samples.
fn database(folder: &Path, program: &Path, build: Build) {
    let mut store = Store::open(folder).unwrap();
    let machine = MachineInfo { key: "alpha".into(), host: "alpha".into(), kernel: "6.1".into(), cpus: 2 };
    let machine = store.machine(&machine).unwrap();
    let setting = Setting {
        scope: "machine".into(),
        mode: "stacks".into(),
        events: vec!["cpu-clock".into()],
        sampler: "perf events".into(),
        rate_hz: 10.0,
        resolution: Nanos::new(60_000_000_000),
        version: "0".into(),
        labels: Default::default(),
    };
    let event = store.event("cpu-clock").unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    let start = UnixSeconds(now - now.rem_euclid(60) - 3600);
    let epoch = store.begin_epoch(machine, &setting, None, start).unwrap();
    let path = std::fs::canonicalize(program).unwrap();
    let image = Image::open(&path).unwrap();
    let name = match build {
        Build::None => "/srv/something-else".to_owned(),
        _ => path.to_string_lossy().into_owned(),
    };
    let build_id = match build {
        Build::Same => image.build_id().unwrap_or_default(),
        _ => "ffffffffffffffff".to_owned(),
    };
    let file = |path: &str, build_id: &str| CodeImage {
        path: path.to_owned(),
        build_id: build_id.to_owned(),
        kind: ImageKind::File,
    };
    let own = store.image(&file(&name, &build_id)).unwrap();
    let library = store.image(&file("/lib/somewhere.so", "aa")).unwrap();
    let idle = CodeImage { path: "[idle]".into(), build_id: String::new(), kind: ImageKind::Idle };
    let idle = store.image(&idle).unwrap();
    let functions = ["main", "needed", "nobody_waits", "elsewhere"];
    if build == Build::Other {
        let symbol = |name: &str| Symbol { function: name.into(), file: "/src/hinted.c".into(), line: 7 };
        let symbols = functions.map(|name| (offset(&image, name), vec![symbol(name)]));
        store.add_symbols(own, &symbols).unwrap();
    }
    let process = name.rsplit('/').next().unwrap().chars().take(15).collect::<String>();
    let label = store.label(&Label { process, cgroup: "/system.slice".into(), ..Label::default() }).unwrap();
    let nobody =
        store.label(&Label { process: "swapper".into(), cgroup: String::new(), ..Label::default() }).unwrap();
    let [main, needed, nobody_waits, elsewhere] = functions.map(|name| offset(&image, name));
    let node = |parent, image, offset| Node { parent, image, offset };
    let nodes = vec![
        node(Node::NONE, own, main),
        node(0, own, needed),
        node(1, library, Offset(0x1000)),
        node(Node::NONE, own, nobody_waits),
        node(0, own, elsewhere),
        node(Node::NONE, idle, Offset(0)),
    ];
    let count = |label, node, count| Count { time: start, label, event, node, count };
    let counts = vec![
        count(label, 1, NEEDED),
        count(label, 2, LIBRARY),
        count(label, 3, NOBODY_WAITS),
        count(label, 4, ELSEWHERE),
        count(nobody, 5, 5000),
    ];
    let all = u64::from(NEEDED + LIBRARY + NOBODY_WAITS + ELSEWHERE) + 5000;
    let books = Books {
        event,
        start,
        length: Nanos::new(60_000_000_000),
        expected: all,
        stored: all,
        unknown: 0,
        lost: 0,
        idle: 5000,
        covered: Nanos::new(120_000_000_000),
        own_cpu: Nanos::ZERO,
        kernel_cpu: Nanos::ZERO,
        resident: 1 << 20,
        squares: 0,
    };
    store.flush(epoch, &Batch { nodes, counts, books: vec![books] }).unwrap();
    store.end_epoch(epoch, UnixSeconds(start.0 + 60)).unwrap();
}

struct Hinted {
    sandbox: Sandbox,
    folder: PathBuf,
    ended: Ended,
}

/// Runs the program with a hint from a database of samples, until there are windows enough for all of its threads to have been sampled.
fn hinted(build: Build, options: &[&str]) -> Option<Hinted> {
    let program = program("hinted.c")?;
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    database(&folder, &program, build);
    let ended = run_hinted(&sandbox, &folder, &program, options);
    Some(Hinted { sandbox, folder, ended })
}

fn run_hinted(sandbox: &Sandbox, folder: &Path, program: &Path, options: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.args(["run", "--windows", "12", "--hint-db"]).arg(folder).args(options);
    command.arg("--").arg(program).arg(WITHOUT_END);
    run(command)
}

/// The one recording in a folder.
fn recording(folder: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn rows(path: &Path) -> Rows {
    Recording::open(path).unwrap().rows().unwrap()
}

/// The share of a region in production, and its samples there.
fn production(rows: &Rows, kind: RegionKind, name: &str) -> Option<(f64, u64)> {
    let is = |id| (rows.regions[&id].kind, rows.regions[&id].name.as_str()) == (kind, name);
    let row = rows.production.iter().find(|row| is(row.region))?;
    assert_eq!(row.hosts, 1);
    assert!(row.until.0 > row.since.0, "{row:?}");
    Some((row.share, row.samples))
}

fn warnings(rows: &Rows) -> Vec<(String, String)> {
    let of = |(_, warning): &(_, profile::Warning)| (warning.code.clone(), warning.message.clone());
    rows.warnings.iter().map(of).collect()
}

#[track_caller]
fn assert_warns(rows: &Rows, code: &str, says: &str) {
    let all = warnings(rows);
    assert!(all.iter().any(|(of, message)| of == code && message.contains(says)), "{code}: {says}\n{all:#?}");
}

#[test]
fn production_is_kept_with_the_regions() {
    let Some(Hinted { sandbox: _sandbox, folder, ended }) =
        hinted(Build::Same, &["--granularity", "function"])
    else {
        return;
    };
    let ended = ended.assert_success();
    assert!(ended.stderr.contains("meanwhile: what costs most there is tried first"), "{}", ended.stderr);
    // Beside the database, where its tools find it.
    let path = recording(&folder.join("recordings"));
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("whatif-hinted-"), "{name}");
    assert!(ended.stderr.contains(&format!("recorded in {}", path.display())), "{}", ended.stderr);

    let rows = rows(&path);
    let of = |name| production(&rows, RegionKind::Function, name);
    assert_eq!(of("needed"), Some((0.15, 150)), "with the library that it calls");
    assert_eq!(of("nobody_waits"), Some((0.6, 600)));
    assert_warns(&rows, "production-elsewhere", "25 % of the time is in `elsewhere`, which did not run here");
}

/// A recording of the program in the folder of a database, whose regions are `needed` and `nobody_waits` with what production says of them.
fn recorded(folder: &Path, program: &Path) -> PathBuf {
    let truth = |name, slope| Truth { name, slope, noise: 0.02, blocks: 20 };
    let mut rows = synthetic::rows(&[truth("needed", 0.5), truth("nobody_waits", 0.0)]);
    let path = std::fs::canonicalize(program).unwrap();
    let build_id = Image::open(&path).unwrap().build_id();
    let image = profile::Image { path: path.display().to_string(), build_id };
    rows.sessions[0].start.program.clone_from(&image.path);
    rows.sessions[0].images = vec![image.clone()];
    for (id, region) in &mut rows.regions {
        (region.kind, region.function, region.image) = (RegionKind::Function, None, image.clone());
        let (share, samples) = if region.name == "needed" { (0.15, 150) } else { (0.6, 600) };
        let (since, until) = (UnixSeconds(1_790_000_000), UnixSeconds(1_790_003_600));
        let session = rows.sessions[0].id;
        rows.production.push(Production { session, region: *id, share, samples, since, until, hosts: 1 });
    }
    std::fs::create_dir_all(folder.join("recordings")).unwrap();
    let path = folder.join("recordings/whatif-hinted-20261128-120000.db");
    let mut recorder = Recorder::create(&path).unwrap();
    recorder.add(&rows).unwrap();
    recorder.close().unwrap();
    path
}

#[test]
fn production_is_shown_beside_the_worth() {
    let Some(program) = program("hinted.c") else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    database(&folder, &program, Build::Same);
    let path = recorded(&folder, &program);
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let report = |args: &[&str]| {
        let mut command = sandbox.whatif();
        command.arg("report").arg(&path).args(args);
        run(command).assert_code(0).stdout
    };
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    assert_eq!(json["production"]["hosts"], 1, "{json:#}");
    let text = report(&["--details"]);
    assert!(text.contains("prod.") && text.contains("in production (1 machine, "), "{text}");
    for (name, share) in [("needed", 0.15_f64), ("nobody_waits", 0.6)] {
        let region = crate::support::region(&json, name);
        assert_eq!(region["production_share"], share, "{region:#}");
        let point = &region["points"][0];
        let verdict = profile::Verdict::from_name(point["verdict"].as_str().unwrap()).unwrap();
        let effect = point["effect_lo"].as_f64().zip(point["effect_hi"].as_f64());
        let effect = effect.filter(|_| point["blocks"].as_u64().unwrap() >= 5);
        let mark = Mark::of(share.max(region["share"].as_f64().unwrap()), verdict, effect);
        assert_eq!(region["mark"].as_str(), mark.map(Mark::name), "{region:#}");
        let line = text.lines().find(|line| line.split(' ').any(|word| word == name)).unwrap();
        let percent = format!(" {:.0} %", 100.0 * share);
        assert!(line.contains(&percent), "{percent} in {line}");
        assert_eq!(line.starts_with('○'), mark == Some(Mark::HotButDoesNotMatter), "{line}");
    }

    // Cost and slope side by side.
    let mut top = sandbox.whatif();
    top.args(["top", "--json", "--db"]).arg(&folder);
    let top: serde_json::Value = serde_json::from_str(&run(top).assert_code(0).stdout).unwrap();
    let row = top["rows"].as_array().unwrap().iter().find(|row| row["name"] == "nobody_waits");
    let row = row.unwrap_or_else(|| panic!("{top:#}"));
    assert_eq!((row["samples"].as_u64(), row["worth"]["recording"].as_str()), (Some(600), Some(&*name)));
}

#[test]
fn what_a_user_names_has_all_that_it_calls_in_production_too() {
    let options = ["--region", "needed", "-o", "here.db", "-q"];
    let Some(Hinted { sandbox, folder, ended }) = hinted(Build::Same, &options) else { return };
    assert!(ended.is_success(), "{ended:#?}");
    let rows = rows(&sandbox.path("here.db"));
    assert_eq!(production(&rows, RegionKind::Function, "needed"), Some((0.15, 150)));
    assert!(!folder.join("recordings").exists());
}

#[test]
fn another_build_tells_functions_by_name_or_nothing() {
    let Some(Hinted { sandbox: _sandbox, folder, ended }) = hinted(Build::Other, &["--granularity", "line"])
    else {
        return;
    };
    assert!(ended.is_success(), "{ended:#?}");
    let known = rows(&recording(&folder.join("recordings")));
    assert_warns(&known, "hint-other-build", "are of another build (ffffffff…; this one is ");
    assert_eq!(production(&known, RegionKind::Function, "nobody_waits"), Some((0.6, 600)));
    let lines = known.production.iter().filter(|row| known.regions[&row.region].kind == RegionKind::Line);
    assert_eq!(lines.count(), 0);

    let Some(Hinted { sandbox: _sandbox, folder, ended }) = hinted(Build::Nameless, &[]) else {
        return;
    };
    assert!(ended.is_success(), "{ended:#?}");
    let nameless = rows(&recording(&folder.join("recordings")));
    assert_warns(&nameless, "hint-nameless", "100 % of the samples of hinted in production have no names");
    assert_eq!(nameless.production, []);
}

#[test]
fn a_database_that_says_nothing_is_a_warning() {
    let Some(Hinted { sandbox: _sandbox, folder, ended }) = hinted(Build::None, &[]) else { return };
    assert!(ended.is_success(), "{ended:#?}");
    let path = recording(&folder.join("recordings"));
    assert_warns(&rows(&path), "hint-not-there", "has no samples of hinted since 20");

    let Some(program) = program("hinted.c") else { return };
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    drop(Store::open(&folder).unwrap());
    // Where nothing can be written beside it, the recording is here.
    std::fs::write(folder.join("recordings"), "").unwrap();
    let ended = run_hinted(&sandbox, &folder, &program, &[]);
    assert!(ended.is_success(), "{ended:#?}");
    assert!(ended.stderr.contains("recordings cannot be written"), "{}", ended.stderr);
    assert_warns(&rows(&recording(sandbox.folder())), "hint-unavailable", "there are no samples in ");
}

#[test]
fn what_is_wrong_is_said_before_the_program_starts() {
    let Some(program) = program("hinted.c") else { return };
    let sandbox = Sandbox::new();
    let missing = sandbox.path("missing");
    let ended = run_hinted(&sandbox, &missing, &program, &[]);
    assert!(ended.code() != Some(0) && ended.stdout.is_empty(), "{ended:#?}");
    assert!(ended.stderr.contains("there is no database of continuous profiles at"), "{}", ended.stderr);
    assert!(!missing.exists());
    let folder = sandbox.path("db");
    drop(Store::open(&folder).unwrap());
    let ended = run_hinted(&sandbox, &folder, &program, &["--hint-since", "yesterday"]);
    assert!(ended.code() != Some(0) && ended.stdout.is_empty(), "{ended:#?}");
    assert!(ended.stderr.contains("--hint-since: 'yesterday' is no time; give an age"), "{}", ended.stderr);
}
