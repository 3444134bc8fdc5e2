//! Who calls whom: the stacks of a run, from end to end.

use crate::support::{Sandbox, program, program_as};
use profile::{CallTree, Recording, Rows};

fn rows(sandbox: &Sandbox) -> Rows {
    Recording::open(&sandbox.recording()).unwrap().rows().unwrap()
}

/// The share of the samples whose stacks end with these functions, the innermost one last; lines are all the same.
fn share(tree: &CallTree<'_>, callers: &[&str]) -> f64 {
    let name = |call: &profile::stacks::Call| tree.functions[call.function].function.name.as_str();
    let ends = |nth: usize| {
        let mut stack = tree.callers(Some(nth));
        callers.iter().rev().all(|wanted| stack.next().is_some_and(|call| name(call) == *wanted))
    };
    let here = (0..tree.calls.len()).filter(|nth| ends(*nth)).map(|nth| tree.calls[nth].own.count);
    here.sum::<u64>() as f64 / tree.all.count as f64
}

#[test]
fn a_run_keeps_who_called_whom() {
    let Some(callers) = program("callers.c") else { return };
    let sandbox = Sandbox::new();
    for run in 1..=2 {
        let options = ["--region", "helper", "--speedup", "50", "--duration", "3"];
        sandbox.profile(&options, &callers, &[]).assert_code(0);
        let rows = rows(&sandbox);
        let tree = CallTree::new(&rows);
        let samples: u64 = rows.sessions.iter().map(|session| session.samples.count).sum();
        assert_eq!((tree.all.count, tree.missing.count), (samples, 0), "every sample has a stack");
        // The helper works four times as long for A as for B.
        let (of_a, of_b) = (share(&tree, &["main", "A", "helper"]), share(&tree, &["main", "B", "helper"]));
        assert!((0.65..=0.95).contains(&of_a) && (0.05..=0.35).contains(&of_b), "{of_a} {of_b}");
        // Before there are tables for the C library, stacks end at `main`, which is no beginning.
        let truncated = tree.truncated.count as f64 / samples as f64;
        assert!(truncated < 0.3, "{truncated}");
        let outermost = |call: &profile::stacks::Call| &tree.functions[call.function].function.name;
        let roots: Vec<_> = tree.calls.iter().filter(|call| call.parent.is_none()).map(outermost).collect();
        assert!(roots.iter().any(|name| *name == "_start"), "{roots:?}");
        // The helper's line is known, and which calls it is.
        let helper =
            tree.calls.iter().find(|call| outermost(call) == "helper" && call.own.count > 0).unwrap();
        assert!(helper.line.is_some(), "{helper:?}");
        let is_ours = |of: &profile::stacks::CalledFunction<'_>| of.function.name.starts_with("whatif_rt");
        assert!(!tree.functions.iter().any(is_ours), "{:?}", tree.functions);
        let sessions = rows.sessions.len();
        assert_eq!(sessions, run);
        let of_first = CallTree::of(&rows, |session| session == rows.sessions[0].id);
        assert_eq!(of_first.all.count, rows.sessions[0].samples.count);
    }
    let report = sandbox.report();
    let stacks = &report["stacks"];
    assert_eq!(stacks["missing_samples"], 0, "{stacks}");
    let texts = stacks["texts"].as_array().unwrap();
    let functions = stacks["functions"].as_array().unwrap();
    let helper =
        functions.iter().find(|of| texts[of[0].as_u64().unwrap() as usize] == "helper").expect("the helper");
    // On a busy machine it may not have been tried often enough for an estimate.
    if let Some(nth) = helper[3].as_u64() {
        let of = &report["regions"][nth as usize];
        assert_eq!((&of["name"], &of["kind"]), (&"helper".into(), &"function".into()));
    }
    let folded = crate::support::run({
        let mut command = sandbox.whatif();
        command.args(["export", "--format", "folded"]).arg(sandbox.recording());
        command
    })
    .assert_code(0);
    assert!(folded.stdout.contains(";main;A;helper;"), "{}", folded.stdout);
}

#[test]
fn code_that_is_made_at_run_time_is_on_stacks() {
    let Some(jit) = program("jit.c") else { return };
    let sandbox = Sandbox::new();
    // It has no progress point: there is no answer, but there are stacks.
    let ended = sandbox.profile(&[], &jit, &[]);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let rows = rows(&sandbox);
    let tree = CallTree::new(&rows);
    let made = share(&tree, &["main", "js:hot"]);
    assert!(made > 0.8, "{made} of {:?}", tree.functions);
}

#[test]
fn stacks_without_their_outermost_frames_are_marked() {
    // Neither frame pointers nor tables.
    let without = ["-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let Some(callers) = program_as("callers.c", "callers-without", &without) else { return };
    let sandbox = Sandbox::new();
    sandbox.profile(&["--duration", "1"], &callers, &[]);
    let rows = rows(&sandbox);
    let tree = CallTree::new(&rows);
    assert!(tree.truncated.count * 2 > tree.all.count, "{:?} of {:?}", tree.truncated, tree.all);
    assert_eq!(tree.missing.count, 0);
}

/// What looks like a return address may be any number.
#[test]
fn the_first_byte_of_an_image_is_no_return_address() {
    // As Go's linker lays programs out: nothing is mapped before the code.
    let flags = ["-no-pie", "-Wl,-z,noseparate-code"];
    let Some(program) = program_as("first_byte.c", "first_byte", &flags) else { return };
    let sandbox = Sandbox::new();
    sandbox
        .profile(&["--region", "leaf", "--speedup", "50", "--duration", "2"], &program, &[])
        .assert_code(0);
    assert!(sandbox.samples("leaf") > 100);
}
