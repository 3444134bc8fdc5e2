//! Python's functions on the stacks that `whatif collect` finds. How many stacks they are on is for `bench accept`.

use crate::collect::{Collecting, Killed, OFTEN, beside_others};
use crate::support::{answer, between, interpreters, link, program_as, skip, stacks};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// What works in `shares.py`, and who calls it: `sorted` and `sum` are functions of C, the other one is called by Python at once.
const WORKS: [(&str, &str, bool); 3] = [
    ("Work.once", "Work.by_key", true),
    ("Work.once", "Work.numbers", true),
    ("Work.inner", "Work.leaf", false),
];
/// What calls them in the main thread and in another one.
const BEGINS: [&str; 2] = ["main", "Thread._bootstrap"];

/// Whether a function works that is called from C, or is not, and all of its callers are there and nothing of the interpreter.
fn is_whole(stack: &[String], begin: &str, (caller, name, is_called_by_c): (&str, &str, bool)) -> bool {
    between(stack, caller, name).is_some_and(|called_by| called_by.is_empty() != is_called_by_c)
        && between(stack, "serve", name).is_some()
        && between(stack, begin, "serve").is_some()
        && !stack.iter().any(|name| name == "_PyEval_EvalFrameDefault")
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
        let Some(collecting) = Collecting::start(OFTEN) else { return };
        if answer(&["status", "--json"], &collecting.folder)["reads_python"] != true {
            return skip("the kernel does not let the frames of interpreters be read");
        }
        let name = format!("py-{version}");
        let mut command = beside_others(link(folder.path(), &name, &interpreter));
        let _running =
            Killed(command.arg(&script).args(["0.2", "1000000"]).stdout(Stdio::null()).spawn().unwrap());
        let db = collecting.folder.clone();
        let status = collecting.wait_for(|status| {
            let stacks = stacks(&db, &name);
            let is_there = |begin: &str, work| stacks.iter().any(|(stack, _)| is_whole(stack, begin, work));
            BEGINS.iter().all(|begin| WORKS.iter().all(|work| is_there(begin, *work)))
                && status["python"]["named"].as_u64() > Some(0)
        });
        assert_eq!(status["reads_python"], true, "{status:#}");
        let ended = collecting.end("-TERM");
        // Functions are of their files.
        let rows = answer(&["top", "--process", &name, "--by", "image", "--json"], &ended);
        assert!(rows.to_string().contains("tests/programs/shares.py"), "{rows:#}");
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
        Killed(beside_others(link).arg(kind).spawn().unwrap())
    });
    let Some(collecting) = Collecting::start(OFTEN) else { return };
    let of = |folder: &Path, kind: &str| stacks(folder, &format!("forged-{kind}"));
    let works = |stack: &[String]| stack.iter().any(|name| name == "innermost");
    let made_up = |stack: &[String]| stack.iter().filter(|name| *name == "[without a name]").count();
    // Circles stand for calls that are too deep, all others for nothing.
    let is_deep = |kind: &str| matches!(kind, "1" | "3");
    let is_seen = |kind: &str| {
        of(&collecting.folder, kind)
            .iter()
            .any(|(stack, _)| works(stack) && (!is_deep(kind) || made_up(stack) > 0))
    };
    let has_seen_them = |status: &Value| {
        status["reads_python"] != true || {
            let count = |what: &str| status["python"][what].as_u64().unwrap_or(0);
            ["mismatched", "other_threads", "unnamed_frames"].iter().all(|what| count(what) > 0)
                && kinds.iter().all(|kind| is_seen(kind))
        }
    };
    let status = collecting.wait_for(has_seen_them);
    let ended = collecting.end("-TERM");
    if status["reads_python"] != true {
        return skip("the kernel does not let the frames of interpreters be read");
    }
    for kind in kinds {
        for (stack, _) in of(&ended, kind) {
            assert!(made_up(&stack) <= if is_deep(kind) { 512 } else { 0 }, "{kind}: {stack:?}");
        }
    }
    std::fs::remove_dir_all(ended).unwrap();
}
