//! Known shares have their names when nothing of what ran is there any more: `programs/truth.c`, as programs are run and lost.

use crate::support::{HANG, Sandbox, program_as, run, skip};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FUNCTIONS: [&str; 4] = ["half_of_it", "third_of_it", "some_of_it", "little_of_it"];
/// CPU time that each program takes.
const SECONDS: &str = "2";

/// What is done with a program's file as soon as it runs.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Keep,
    Delete,
    Replace,
}

/// A program that runs.
struct Running {
    name: &'static str,
    kind: &'static str,
    child: Child,
    /// What tells its files from all others.
    builds: Vec<String>,
    /// The shares that it has said.
    truth: Vec<f64>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A collector.
struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn build(file: &Path) -> String {
    symbols::Image::open(file).unwrap().identity().unwrap()
}

/// Starts a program with a name of its own, in a folder that only its user may look into.
fn start(
    folder: &Path,
    name: &'static str,
    (program, kind, library): (&Path, &'static str, Option<&Path>),
    then: Then,
    before: &[&str],
) -> Running {
    let place = folder.join(format!("of-{name}"));
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
    let own = place.join(name);
    fs::copy(program, &own).unwrap();
    let mut builds = vec![build(&own)];
    let mut words: Vec<String> =
        before.iter().map(|word| word.replace("PLACE", &place.to_string_lossy())).collect();
    words.push(if before.is_empty() { own.to_string_lossy().into_owned() } else { format!("/{name}") });
    words.extend([SECONDS, kind].map(str::to_owned));
    if let Some(library) = library {
        let copy = place.join("libtruth.so");
        fs::copy(library, &copy).unwrap();
        builds.push(build(&copy));
        words.push(copy.to_string_lossy().into_owned());
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    // It has been loaded when it has executed.
    let comm = format!("/proc/{}/comm", child.id());
    let begin = Instant::now();
    while fs::read_to_string(&comm).unwrap_or_default().trim() != name {
        assert!(begin.elapsed() < HANG, "{name} does not run");
        std::thread::sleep(Duration::from_millis(2));
    }
    match then {
        Then::Keep => {}
        Then::Delete => fs::remove_file(&own).unwrap(),
        Then::Replace => {
            let other = place.join("other");
            fs::copy(std::env::current_exe().unwrap(), &other).unwrap();
            fs::rename(&other, &own).unwrap();
        }
    }
    Running { name, kind, child, builds, truth: Vec::new() }
}

#[track_caller]
fn top(folder: &Path, process: &str) -> Vec<(String, String, u64, u64)> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["top", "--json", "--top", "100000", "--process", process, "--db"]).arg(folder);
    let answer: Value = serde_json::from_str(&run(command).assert_code(0).stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let total = row["total"].as_u64().unwrap_or(0);
        (text(&row["name"]), text(&row["image"]), row["samples"].as_u64().unwrap(), total)
    };
    answer["rows"].as_array().unwrap().iter().map(row).collect()
}

/// What chance may make of a share, and one per cent.
fn tolerance(share: f64, samples: u64) -> f64 {
    0.01 + 5.0 * (share * (1.0 - share) / samples as f64).sqrt()
}

#[test]
fn shares_are_right_and_named_when_everything_has_gone() {
    let Some(plain) = program_as("truth.c", "truth", &["-ldl"]) else { return };
    let library = program_as("truth.c", "libtruth.so", &["-DSHARED", "-shared", "-fPIC"]).unwrap();
    let without_build = program_as("truth.c", "truth-without", &["-ldl", "-Wl,--build-id=none"]).unwrap();
    let alone = program_as("truth.c", "truth-static", &["-static", "-ldl"]).unwrap();
    let sandbox = Sandbox::new();
    let folder = sandbox.recording().with_file_name("cycles");
    let programs = sandbox.recording().with_file_name("programs");
    fs::create_dir(&programs).unwrap();
    let mut command = sandbox.whatif();
    command.args(["collect", "--rate", "997", "--interval", "1", "--max-cpu", "100%", "--db"]).arg(&folder);
    let mut collector = Collector(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(collector.0.stderr.take().unwrap()).lines();
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0);
    loop {
        let line = said.next().unwrap().unwrap();
        if line.contains("does not allow") && !is_root {
            return skip(&line);
        }
        if line.contains("collecting the whole machine") {
            break;
        }
    }
    std::thread::spawn(move || said.for_each(drop));
    let start = |name, what, then, before: &[&str]| start(&programs, name, what, then, before);
    let mut running = vec![
        start("t-shares", (&plain, "shares", None), Then::Keep, &[]),
        start("t-replaced", (&plain, "shares", None), Then::Replace, &[]),
        start("t-no-build", (&without_build, "shares", None), Then::Keep, &[]),
        start("t-forks", (&plain, "forks", None), Then::Keep, &[]),
        start("t-dlopen", (&plain, "dlopen", Some(&library)), Then::Keep, &[]),
        start("t-static", (&alone, "shares", None), Then::Delete, &[]),
        start("t-vdso", (&plain, "vdso", None), Then::Keep, &[]),
    ];
    if cfg!(target_arch = "x86_64") {
        running.push(start("t-jit", (&plain, "jit", None), Then::Keep, &[]));
    }
    match is_root {
        true => running.push(start("t-chroot", (&alone, "shares", None), Then::Delete, &["chroot", "PLACE"])),
        false => skip("chroot takes root"),
    }
    for program in &mut running {
        let mut line = String::new();
        BufReader::new(program.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        program.truth = line.split_whitespace().map(|share| share.parse().unwrap()).collect();
        assert_eq!(program.truth.len(), FUNCTIONS.len(), "{}: {line}", program.name);
    }
    // While they run their names are read, however long that takes on a busy machine.
    let begin = Instant::now();
    let kept = || -> Vec<String> {
        let listed = fs::read_dir(folder.join("symbols")).into_iter().flatten().flatten();
        listed.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let is_kept = |build: &String| kept().iter().any(|name| name.starts_with(build));
    while !running.iter().flat_map(|program| &program.builds).all(is_kept) {
        assert!(begin.elapsed() < HANG, "{:?}", kept());
        std::thread::sleep(Duration::from_millis(20));
    }
    for program in &mut running {
        drop(program.child.stdin.take());
        program.child.wait().unwrap();
    }
    fs::remove_dir_all(&programs).unwrap();
    assert!(Command::new("kill").arg(collector.0.id().to_string()).status().unwrap().success());
    assert!(collector.0.wait().unwrap().success());

    for program in &running {
        let (name, rows) = (program.name, top(&folder, program.name));
        let samples = |function: &str| -> u64 {
            rows.iter().filter(|(name, ..)| name == function).map(|(_, _, samples, _)| samples).sum()
        };
        let all: u64 = rows.iter().map(|(.., samples, _)| samples).sum();
        if program.kind == "vdso" {
            let (share, truth) = (samples("half_of_it") as f64 / all as f64, program.truth[0]);
            assert!(
                (share - truth).abs() < 0.02 + tolerance(truth, all),
                "{name}: {share} for {truth} of {all}"
            );
            let is_clock = |(name, image, samples, _): &&(String, String, u64, u64)| {
                name.starts_with("__vdso_") && image == "[vdso]" && *samples > 0
            };
            assert!(rows.iter().any(|row| is_clock(&row)), "{rows:?}");
            continue;
        }
        let of_four: u64 = FUNCTIONS.iter().map(|function| samples(function)).sum();
        // Starting processes is work as well, and a busy machine takes fewer samples.
        assert!(of_four > 100 && of_four > all / 2, "{name}: {of_four} of {all}: {rows:?}");
        for (function, truth) in FUNCTIONS.iter().zip(&program.truth) {
            let share = samples(function) as f64 / of_four as f64;
            let allowed = tolerance(*truth, of_four);
            assert!((share - truth).abs() < allowed, "{name}: {function} {share} for {truth} of {of_four}");
            println!("{name}: {function} {:.2} % for {:.2} % of {of_four}", 100.0 * share, 100.0 * truth);
        }
        let nameless = format!("[{name}]");
        let nameless: Vec<_> = rows.iter().filter(|(name, ..)| *name == nameless).collect();
        assert!(nameless.is_empty(), "{name}: {nameless:?}");
    }
}

#[test]
fn names_are_not_kept_where_none_are_wanted() {
    let sandbox = Sandbox::new();
    let folder = sandbox.recording().with_file_name("cycles");
    let collect = |options: &[&str]| {
        let mut command = sandbox.whatif();
        command.args(["collect", "--rate", "200", "--duration", "1", "--db"]).arg(&folder).args(options);
        run(command)
    };
    let refused = collect(&["--max-symbols", "600M", "--max-disk", "1G"]).assert_code(2);
    assert!(refused.stderr.contains("more than half of --max-disk 1G"), "{refused:#?}");
    let refused = collect(&["--max-symbols", "much"]).assert_code(2);
    assert!(refused.stderr.contains("--max-symbols much is no size"), "{refused:#?}");
    let ended = collect(&["--max-symbols", "0"]);
    if ended.code() != Some(0) {
        return skip(&ended.stderr);
    }
    assert!(!folder.join("symbols").exists());
    let mut command = sandbox.whatif();
    command.args(["status", "--db"]).arg(&folder);
    let status = run(command).assert_code(0);
    assert!(status.stdout.contains("names: not kept (--max-symbols 0)"), "{status:#?}");
}
