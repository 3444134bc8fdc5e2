//! Progress points in programs that mark none: `-p` and `--latency`. What is counted is what the program counts itself.

use crate::attach::{is_sampled, is_visited, wait_until, wait_until_recorded};
use crate::points::whole_runs;
use crate::support::{
    NO_ANSWER, Sandbox, can_change_code, can_count, program, program_as, with_clients, workspace,
};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// The line of `placed.c` that says `marker`.
fn line_of(marker: &str) -> String {
    let path = workspace().join("crates/whatif/tests/programs/placed.c");
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().position(|line| line.contains(marker)).unwrap() + 1;
    format!("placed.c:{line}")
}

#[test]
fn visits_are_those_of_a_point_that_is_marked() {
    let Some(placed) = program("placed.c").filter(|_| can_count()) else { return };
    let line = line_of("a round is done");
    let options = ["--region", "hot", "-p", &line, "-p", "ended", "--latency", "fn:begun..fn:ended"];
    let Some(counted) = whole_runs(&options, &placed, &["400"]) else { return };
    for name in ["marked", "round", &line, "ended", "begun..ended"] {
        assert_eq!(counted.visits(name), counted.made, "{name}");
    }
}

#[test]
fn a_program_counts_visits_to_its_functions_itself() {
    let Some(program) = program("counted.c").filter(|_| can_count() && can_change_code()) else { return };
    let points = [
        ("from_global", 1),
        ("sign", 2),
        ("in_register", 1),
        ("calls", 1),
        ("calls_through", 1),
        ("leaves", 1),
        ("returns", 1),
        ("compares", 2),
        ("entered_within", 1),
        ("loops", 1),
    ];
    let options = points.iter().flat_map(|(name, _)| ["-p", name]);
    let options: Vec<&str> = ["--region", "hot"].into_iter().chain(options).collect();
    let Some(counted) = whole_runs(&options, &program, &[]) else { return };
    // The others are counted by breakpoints, or otherwise where those slow the code beside them.
    let says = "8 functions that the program counts itself (some ns a visit) and 2 ";
    assert!(counted.said.contains(says), "{}", counted.said);
    let why = "loops cannot count its visits itself: other code may lead";
    assert!(counted.said.contains(why), "{}", counted.said);
    assert_eq!(counted.visits("marked"), counted.made);
    for (name, each) in points {
        assert_eq!(counted.visits(name), each * counted.made, "{name}");
    }
}

#[test]
fn an_inlined_function_is_visited_wherever_it_is() {
    let Some(placed) = program("placed.c").filter(|_| can_count()) else { return };
    let Some(counted) = whole_runs(&["--region", "hot", "-p", "fn:twice"], &placed, &["400"]) else { return };
    assert_eq!(counted.visits("twice"), 2 * counted.made);
}

#[test]
fn requests_are_counted_when_they_are_answered() {
    let Some(server) = program("requests.c") else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let options = ["--region", "hot", "-p", "net:requests", "-p", "net:requests:1"];
    // A head and a body.
    let counted =
        with_clients(&socket, 2, 2, || whole_runs(&options, &server, &[socket.to_str().unwrap(), "200"]));
    let Some(counted) = counted else { return };
    assert_eq!(counted.visits("marked"), counted.made);
    assert_eq!(counted.visits("net:requests"), counted.made);
    assert_eq!(counted.visits("net:requests:1"), 0, "they come by another way");
    assert!(counted.said.contains("that the runtime counts when"), "{}", counted.said);
}

#[test]
fn what_is_not_there_is_said_before_the_program_runs() {
    let Some(placed) = program("placed.c") else { return };
    let sandbox = Sandbox::new();
    for (place, advice) in [
        ("fn:endet", "ended"),
        ("placed.c:2", "nearest one that has is placed.c:"),
        ("plaecd.c:5", "placed.c"),
        ("placed.c:x", "-p server.rs:42"),
    ] {
        let ended = sandbox.profile(&["-p", place], &placed, &[]).assert_code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(advice), "{place}: {ended:#?}");
    }
}

/// A program that loads a library when it runs, and the library.
fn host_and_plugin() -> Option<(PathBuf, PathBuf)> {
    let host = program_as("plugin.c", "plugin-host", &["-DHOST"]).filter(|_| can_count())?;
    Some((host, program_as("plugin.c", "plugin.so", &["-shared", "-fPIC"])?))
}

/// A host that is profiled, with its plugin alone in scope; the session, and what is told to the host.
fn profile_host(sandbox: &Sandbox, options: &[&str], (host, plugin): &(PathBuf, PathBuf)) -> Child {
    let options = [&["--binary", "*plugin.so"], options].concat();
    let mut command = sandbox.profiling(&options, host, &[plugin.to_str().unwrap()]);
    let said = File::create(sandbox.path("said")).unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said).spawn().unwrap()
}

/// Has a host go on to what it does next.
fn go_on(session: &mut Child) {
    session.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

/// The host has ended as it should have; what was said.
#[track_caller]
fn ended(sandbox: &Sandbox, mut session: Child) -> String {
    wait_until("the end of the host", || session.try_wait().unwrap().is_some());
    let output = session.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let status = output.status.code().unwrap();
    assert!(status == 0 || NO_ANSWER.contains(&status), "{status}");
    std::fs::read_to_string(sandbox.path("said")).unwrap()
}

#[test]
fn a_point_may_be_in_the_program_when_only_a_library_is_named() {
    let Some(both) = host_and_plugin() else { return };
    let sandbox = Sandbox::new();
    let mut session = profile_host(&sandbox, &["-p", "fn:call", "--no-delays"], &both);
    wait_until_recorded(&sandbox, &mut session, |rows| is_visited(rows, "call"));
    go_on(&mut session);
    go_on(&mut session);
    let said = ended(&sandbox, session);
    assert!(!said.contains("not loaded"), "{said}");
}

#[test]
fn a_library_may_be_loaded_later_and_again() {
    let Some(both) = host_and_plugin() else { return };
    let sandbox = Sandbox::new();
    let options = ["-p", "fn:serve", "-p", "fn:serve_again", "--speedup", "50"];
    let mut session = profile_host(&sandbox, &options, &both);
    wait_until_recorded(&sandbox, &mut session, |rows| {
        is_visited(rows, "serve") && is_sampled(rows, "serve")
    });
    go_on(&mut session);
    // This function is called when the library has been loaded again.
    wait_until_recorded(&sandbox, &mut session, |rows| {
        is_visited(rows, "serve_again") && is_sampled(rows, "serve_again")
    });
    go_on(&mut session);
    ended(&sandbox, session);
}

#[test]
fn a_point_that_no_library_has_is_warned_of() {
    let Some(both) = host_and_plugin() else { return };
    let sandbox = Sandbox::new();
    let mut session = profile_host(&sandbox, &["-p", "fn:nosuch"], &both);
    // There is a point besides.
    wait_until_recorded(&sandbox, &mut session, |rows| is_visited(rows, "marked"));
    go_on(&mut session);
    go_on(&mut session);
    ended(&sandbox, session);
    let report = sandbox.report();
    let warnings = report["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "point-not-found"), "{warnings:#?}");
}
