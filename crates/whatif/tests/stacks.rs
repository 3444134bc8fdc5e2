//! Who calls whom: the stacks of a run, from end to end.

use crate::support::{Sandbox, program, program_as};
use profile::CallTree;

/// Whether there are samples whose stacks end with these functions, the innermost one last.
fn has(tree: &CallTree<'_>, callers: &[&str]) -> bool {
    let name = |call: &profile::stacks::Call| tree.functions[call.function].function.name.as_str();
    let ends = |nth: usize| {
        let mut stack = tree.callers(Some(nth));
        callers.iter().rev().all(|wanted| stack.next().is_some_and(|call| name(call) == *wanted))
    };
    (0..tree.calls.len()).any(|nth| tree.calls[nth].own.count > 0 && ends(nth))
}

#[test]
fn a_run_keeps_who_called_whom() {
    let Some(callers) = program("callers.c") else { return };
    let sandbox = Sandbox::new();
    for run in 1..=2 {
        // So much work that there are samples of all of it.
        sandbox.profile(&["--region", "helper", "--speedup", "50"], &callers, &["200"]).assert_success();
        let rows = sandbox.rows();
        let tree = CallTree::new(&rows);
        let samples: u64 = rows.sessions.iter().map(|session| session.samples.count).sum();
        assert_eq!((tree.all.count, tree.missing.count), (samples, 0), "every sample has a stack");
        assert!(has(&tree, &["main", "A", "helper"]) && has(&tree, &["main", "B", "helper"]), "{tree:?}");
        // The helper's line is known, and which calls it is.
        let name = |call: &profile::stacks::Call| &tree.functions[call.function].function.name;
        let helper = tree.calls.iter().find(|call| name(call) == "helper" && call.own.count > 0).unwrap();
        assert!(helper.line.is_some(), "{helper:?}");
        let is_ours = |of: &profile::stacks::CalledFunction<'_>| of.function.name.starts_with("whatif_rt");
        assert!(!tree.functions.iter().any(is_ours), "{:?}", tree.functions);
        assert_eq!(rows.sessions.len(), run);
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
    // Where there is an estimate, the function names it.
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
    assert!(folded.stdout.contains("main;A;helper;"), "{}", folded.stdout);
}

#[test]
fn code_that_is_made_at_run_time_is_on_stacks() {
    let Some(jit) = program("jit.c") else { return };
    let sandbox = Sandbox::new();
    // It has no progress point: there is no answer, but there are stacks.
    sandbox.profile(&[], &jit, &[]).assert_success();
    let rows = sandbox.rows();
    let tree = CallTree::new(&rows);
    assert!(has(&tree, &["main", "js:hot"]), "{:?}", tree.functions);
}

#[test]
fn stacks_without_their_outermost_frames_are_marked() {
    // Neither frame pointers nor tables.
    let without = ["-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let Some(callers) = program_as("callers.c", "callers-without", &without) else { return };
    let sandbox = Sandbox::new();
    sandbox.profile(&[], &callers, &["200"]).assert_success();
    let rows = sandbox.rows();
    let tree = CallTree::new(&rows);
    assert!(tree.truncated.count > 0, "{:?} of {:?}", tree.truncated, tree.all);
    assert_eq!(tree.missing.count, 0);
}

/// What looks like a return address may be any number.
#[test]
fn the_first_byte_of_an_image_is_no_return_address() {
    // As Go's linker lays programs out: nothing is mapped before the code.
    let flags = ["-no-pie", "-Wl,-z,noseparate-code"];
    let Some(program) = program_as("first_byte.c", "first_byte", &flags) else { return };
    let sandbox = Sandbox::new();
    // There are windows of a region only where it was sampled.
    sandbox
        .profile(&["--region", "leaf", "--speedup", "50", "--windows", "4"], &program, &[])
        .assert_success();
    let rows = sandbox.rows();
    assert!(rows.windows.len() >= 4, "{rows:#?}");
    assert!(rows.windows.iter().all(|window| rows.regions[&window.region].name == "leaf"));
}
