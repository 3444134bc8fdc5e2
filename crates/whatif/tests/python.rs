//! Python's functions on the stacks that `whatif collect` finds.

use crate::collect::{Collecting, Killed, answer};
use crate::support::{Sandbox, program_as, run, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Interpreters that are installed here, by their versions.
fn interpreters() -> BTreeMap<String, PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let own = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let own = own.map(|version| version.path().join("bin/python3"));
    let paths = ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from).into_iter().chain(own);
    let mut found = BTreeMap::new();
    for path in paths {
        let says =
            Command::new(&path).args(["-c", "import sys; print(*sys.version_info[:3], sep='.')"]).output();
        let Ok(said) = says else { continue };
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if ["3.11.", "3.12.", "3.13."].iter().any(|known| version.starts_with(known)) {
            found.entry(version).or_insert(path);
        }
    }
    found
}

/// The stacks of a process, outermost frame first, and how many samples each has.
#[track_caller]
fn stacks(folder: &Path, process: &str) -> Vec<(Vec<String>, u64)> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["flame", "--folded", "--process", process, "--db"]).arg(folder);
    let ended = run(command);
    if ended.stderr.contains("there are no") {
        return Vec::new();
    }
    let ended = ended.assert_code(0);
    let stack = |line: &str| {
        let (stack, samples) = line.rsplit_once(' ').unwrap();
        (stack.split(';').map(str::to_owned).collect(), samples.parse().unwrap())
    };
    ended.stdout.lines().map(stack).collect()
}

/// An interpreter under a name of its own, so that its process has this name.
fn link(folder: &Path, name: &str, interpreter: &Path) -> PathBuf {
    let link = folder.join(name);
    std::os::unix::fs::symlink(interpreter.canonicalize().unwrap(), &link).unwrap();
    link
}

/// Whether the functions on a stack that are called `from` and `to` are there in this order, and what is between them.
fn between<'a>(stack: &'a [String], from: &str, to: &str) -> Option<&'a [String]> {
    let to = stack.iter().rposition(|name| name == to)?;
    let from = stack[..to].iter().rposition(|name| name == from)?;
    Some(&stack[from + 1..to])
}

#[test]
fn functions_of_python_are_on_stacks_with_those_of_c() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/shares.py");
    let interpreters = interpreters();
    if interpreters.is_empty() {
        return skip("no Python of version 3.11, 3.12 or 3.13 is installed");
    }
    let folder = tempfile::tempdir().unwrap();
    for (version, interpreter) in interpreters {
        let options = ["--rate", "500", "--interval", "1", "--max-cpu", "100%"];
        let Some(collecting) = Collecting::start(&options) else { return };
        if answer(&["status", "--json"], &collecting.folder)["reads_python"] != true {
            return skip("the kernel does not let the frames of interpreters be read");
        }
        let name = format!("py-{version}");
        let started = Command::new(link(folder.path(), &name, &interpreter))
            .arg(&script)
            .arg("4")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = started.wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let took: Vec<f64> = said.split_whitespace().map(|seconds| seconds.parse().unwrap()).collect();
        // What was sampled at its end is stored.
        let ended = collecting.end("-TERM");
        let stacks = stacks(&ended, &name);
        let status = answer(&["status", "--json"], &ended);
        let all: u64 = stacks.iter().map(|(_, samples)| samples).sum();
        let working = |stack: &[String]| stack.iter().any(|name| name == "Work.once");
        let found: u64 = stacks.iter().filter(|(stack, _)| working(stack)).map(|(_, samples)| samples).sum();
        // It is started, and read for the first time.
        assert!(found * 10 > all * 9, "{version}: {found} of {all} {status:#}\n{stacks:#?}");
        let mut shares = [0.0; 3];
        for (stack, samples) in stacks.iter().filter(|(stack, _)| working(stack)) {
            for (nth, name) in ["Work.by_key", "Work.numbers", "Work.leaf"].iter().enumerate() {
                let caller = if nth == 2 { "Work.inner" } else { "Work.once" };
                let Some(called_by) = between(stack, caller, name) else { continue };
                // A generator is called once by Python, which makes it.
                if nth == 1 && called_by.is_empty() {
                    continue;
                }
                shares[nth] += *samples as f64 / found as f64;
                // `sorted` and `sum` are functions of C, the other one is called by Python at once.
                assert_eq!(called_by.is_empty(), nth == 2, "{version}: {stack:?}");
                assert!(between(stack, "serve", name).is_some(), "{version}: {stack:?}");
                let begins = ["main", "Thread._bootstrap"];
                let of_which = begins.iter().filter(|name| between(stack, name, "serve").is_some()).count();
                assert_eq!(of_which, 1, "{version}: {stack:?}");
                let is_interpreter = |name: &String| name == "_PyEval_EvalFrameDefault";
                assert!(!stack.iter().any(is_interpreter), "{version}: {stack:?}");
            }
        }
        let sum: f64 = took.iter().sum();
        for (nth, share) in shares.iter().enumerate() {
            let truth = took[nth] / sum;
            // Five standard errors, and what is in none of the three.
            let error = 5.0 * (truth * (1.0 - truth) / found as f64).sqrt() + 0.01;
            assert!(
                (share - truth).abs() < error,
                "{version}: {shares:?} of {found}, and not {truth} ± {error}: {took:?}"
            );
        }
        // Functions are of their files.
        let rows = answer(&["top", "--process", &name, "--by", "image", "--json"], &ended);
        assert!(rows.to_string().contains("tests/programs/shares.py"), "{rows:#}");
        assert!(status["python"]["named"].as_u64() >= Some(found), "{status:#}");
        std::fs::remove_dir_all(ended).unwrap();
    }
}

#[test]
fn what_only_says_that_it_is_python_keeps_its_stack() {
    let flags = ["-O1", "-rdynamic", "-fno-optimize-sibling-calls"];
    let Some(forged) = program_as("forged_python.c", "forged-python", &flags) else { return };
    let folder = tempfile::tempdir().unwrap();
    let kinds = ["0", "1", "2", "3"];
    let _running = kinds.map(|kind| {
        let link = link(folder.path(), &format!("forged-{kind}"), &forged);
        Killed(Command::new(link).arg(kind).spawn().unwrap())
    });
    let options = ["--rate", "500", "--interval", "1", "--max-cpu", "100%"];
    let Some(collecting) = Collecting::start(&options) else { return };
    let samples = |kind: &str| {
        let stacks = stacks(&collecting.folder, &format!("forged-{kind}"));
        stacks.iter().map(|(_, samples)| samples).sum::<u64>()
    };
    let has_seen_them = |status: &Value| {
        status["reads_python"] != true || {
            let count = |what: &str| status["python"][what].as_u64().unwrap_or(0);
            ["mismatched", "other_threads", "unnamed_frames"].iter().all(|what| count(what) > 50)
        }
    };
    let status =
        collecting.wait_for(|status| has_seen_them(status) && kinds.iter().all(|kind| samples(kind) > 100));
    let ended = collecting.end("-TERM");
    if status["reads_python"] != true {
        return skip("the kernel does not let the frames of interpreters be read");
    }
    for kind in kinds {
        let stacks = stacks(&ended, &format!("forged-{kind}"));
        let all: u64 = stacks.iter().map(|(_, samples)| samples).sum();
        let works = |stack: &[String]| stack.iter().any(|name| name == "innermost");
        let working: u64 = stacks.iter().filter(|(stack, _)| works(stack)).map(|(_, samples)| samples).sum();
        // It may be interrupted; it does nothing else.
        assert!(working * 10 > all * 9, "{kind}: {working} of {all}: {stacks:#?}");
        // Circles stand for calls that are too deep, all others for nothing.
        let is_deep = matches!(kind, "1" | "3");
        let made_up = |name: &String| name == "[without a name]";
        let with: u64 =
            stacks.iter().filter(|(stack, _)| stack.iter().any(made_up)).map(|(_, samples)| samples).sum();
        assert_eq!(with > 0, is_deep, "{kind}: {stacks:#?}");
        for (stack, _) in &stacks {
            assert!(stack.iter().filter(|name| made_up(name)).count() <= 512);
        }
    }
    std::fs::remove_dir_all(ended).unwrap();
}
