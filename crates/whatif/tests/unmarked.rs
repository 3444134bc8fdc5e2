//! The first hour: programs that mark no progress point, run as they are.

use crate::support::{
    Ended, Sandbox, can_change_code, can_count, can_stop_threads, have, program, run, skip, whatif,
};
use kernel::visits::Means;
use std::path::Path;

/// `whatif run` with these options into the sandbox's recording, not quiet.
#[track_caller]
fn run_with(sandbox: &Sandbox, options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.args(["run", "-o"]).arg(sandbox.recording()).args(options).arg("--").arg(program).args(arguments);
    run(command)
}

/// `whatif points` of a program, for as long as it runs; and what it writes as JSON.
fn whatif_points(program: &Path, arguments: &[&str]) -> (Ended, serde_json::Value) {
    let sandbox = Sandbox::new();
    let file = sandbox.path("points.json");
    let mut command = sandbox.whatif();
    command.args(["points", "--duration", "30", "--json"]).arg(&file).arg("--").arg(program).args(arguments);
    let ended = run(command);
    let json = std::fs::read(&file).ok().map(|json| serde_json::from_slice(&json).unwrap());
    (ended, json.unwrap_or_default())
}

#[track_caller]
fn warnings(report: &serde_json::Value) -> Vec<String> {
    let code = |warning: &serde_json::Value| warning["code"].as_str().unwrap().to_owned();
    report["warnings"].as_array().unwrap().iter().map(code).collect()
}

#[test]
fn without_a_point_a_place_is_chosen_while_the_program_runs() {
    let Some(units) = program("units.c").filter(|_| can_count()) else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--seed", "1", "-o"]).arg(sandbox.recording()).arg("--").arg(&units);
    // The program ends with 7, whether there is an answer or not.
    let is_visited = |window: &profile::Window| window.visits.iter().any(|visits| visits.count > 0);
    let ended = sandbox.run_until(command, |rows| rows.windows.iter().any(is_visited)).assert_code(7);
    assert!(ended.stderr.contains("no progress point is marked in this program"), "{ended:#?}");
    assert!(ended.stderr.contains("count as progress"), "{ended:#?}");
    let report = sandbox.report();
    assert!(warnings(&report).contains(&"chosen-point".to_owned()), "{report:#}");
    let name = report["points"][0]["name"].as_str().unwrap();
    assert!(["serve", "parse"].contains(&name), "{name}");
}

#[test]
fn what_is_called_too_often_for_breakpoints_is_counted_by_the_program_while_it_runs() {
    let Some(hot) = program("hot_unit.c").filter(|_| can_change_code() && can_stop_threads()) else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["run", "--seed", "1", "-o"]).arg(sandbox.recording()).arg("--").arg(&hot);
    let is_visited = |window: &profile::Window| window.visits.iter().any(|visits| visits.count > 0);
    let ended = sandbox.run_until(command, |rows| rows.windows.iter().any(is_visited)).assert_code(7);
    assert!(ended.stderr.contains("visits to fn:handle count as progress"), "{ended:#?}");
    assert!(ended.stderr.contains("(the program counts them itself)"), "{ended:#?}");
    assert_eq!(sandbox.report()["points"][0]["name"], "handle");
}

#[test]
fn without_any_place_there_is_the_plain_profile() {
    let Some(failing) = program("failing.c") else { return };
    let sandbox = Sandbox::new();
    let ended = run_with(&sandbox, &[], &failing, &["points_nothing_out"]).assert_code(98);
    let said = ended.stderr.matches("nothing says what counts as a unit of work").count();
    assert_eq!(said, 1, "{ended:#?}");
    let report = sandbox.report();
    assert!(warnings(&report).contains(&"no-progress-point".to_owned()), "{report:#}");
    assert!(sandbox.samples("hot") > 0);
    let quiet = Sandbox::new();
    quiet.profile(&[], &failing, &["points_nothing_out"]).assert_code(98);
    let (suggested, json) = whatif_points(&failing, &["ends"]);
    let suggested = suggested.assert_code(98);
    assert!(suggested.stderr.contains("no suggestions; the program ended"), "{suggested:#?}");
    assert_eq!((&json["places"], &json["command"]), (&serde_json::json!([]), &serde_json::Value::Null));
    assert!(json["nothing"].as_str().unwrap().contains("the program ended"), "{json:#}");
}

#[test]
fn a_program_that_waits_is_said_to_be_idle() {
    let Some(failing) = program("failing.c") else { return };
    let sandbox = Sandbox::new();
    for ended in [run_with(&sandbox, &[], &failing, &["waits"]), whatif_points(&failing, &["waits"]).0] {
        let ended = ended.assert_code(95);
        assert!(ended.stderr.contains("idle (0.") && ended.stderr.contains("send it requests"), "{ended:#?}");
    }
}

#[test]
fn a_point_that_cannot_be_placed_ends_the_run_at_once() {
    let Some(placed) = program("placed.c").filter(|_| can_count()) else { return };
    let sandbox = Sandbox::new();
    // A CPU has four breakpoints, and more take a privilege.
    let privileged = kernel::visits::cost(Means::Uprobe).is_ok();
    let places = ["begun", "ended", "hot", "main"];
    let mut command = if privileged {
        if !have("setpriv") {
            return;
        }
        let mut command = sandbox.command("setpriv");
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]).arg(whatif());
        command
    } else {
        sandbox.whatif()
    };
    command.arg("run").arg("-o").arg(sandbox.recording());
    for place in places {
        command.args(["-p", place]);
    }
    // Samples cannot stand in for the ends of a latency.
    command.args(["--latency", "rounds..now", "--"]).arg(&placed);
    let ended = run(command);
    if ended.is_success() {
        return skip("the privilege to use uprobes cannot be given up here");
    }
    assert!(ended.code() == Some(90) && ended.stdout.is_empty(), "nothing of it has run: {ended:#?}");
    assert!(ended.stderr.contains("cannot count visits: the CPU has four breakpoints"), "{ended:#?}");
}

#[test]
fn the_stop_signal_is_the_users_choice() {
    let Some(stubborn) = program("stubborn.c") else { return };
    let sandbox = Sandbox::new();
    let options = ["--duration", "1s", "--stop-signal", "sigint"];
    let ended = run_with(&sandbox, &options, &stubborn, &[]);
    assert!(ended.stderr.contains("asking the program to end (SIGINT;"), "{ended:#?}");
    // Unless it was asked before it had said what it does then.
    let session = sandbox.report()["sessions"][0].clone();
    assert!(session["exit_code"] == 0 || session["exit_signal"] == 2, "{session:#}");
    // It was whatif that stopped it, and the report says so.
    assert_eq!(session["stopped"], true, "{session:#}");
    let mut text = sandbox.whatif();
    text.args(["report", "--details"]).arg(sandbox.recording());
    let text = run(text).assert_code(0).stdout;
    assert!(text.contains("stopped by whatif after") && !text.contains("killed by signal"), "{text}");
    let wrong = run_with(&sandbox, &["--stop-signal", "KILL"], &stubborn, &[]).assert_code(2);
    assert!(wrong.stderr.contains("TERM, INT, QUIT"), "{wrong:#?}");
}

#[test]
fn what_was_typed_wrongly_has_the_status_of_usage_errors() {
    let Some(units) = program("units.c") else { return };
    for options in [
        &["-p", "units.c:0"][..],
        &["-p", "src/units.c"],
        &["-p", "nosuch"],
        &["--latency", "fn:serve"],
        &["--speedup", "0"],
        &["--precision", "x"],
        &["--duration", "5x"],
        &["--binary", "["],
    ] {
        let sandbox = Sandbox::new();
        let ended = run_with(&sandbox, options, &units, &["0.1"]).assert_code(2);
        assert!(ended.stdout.is_empty() && !sandbox.recording().exists(), "{options:?}: {ended:#?}");
    }
}
