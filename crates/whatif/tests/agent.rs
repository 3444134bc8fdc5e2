//! The agent: sessions of a service now and then, which end when they should, and are let go whatever becomes of the agent.
//!
//! Nothing here depends on how long something takes: the service says itself when it is to be slow, and the agent says what it has done. How soon delays end is for
//! `bench accept --only attach::`.

use crate::attach::{Running, has_process, has_windows, may_trace, rows, wait_for_guardian, wait_until};
use crate::support::{HANG, Sandbox, program_as, run, skip};
use profile::{Recording, Rows};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A service under a name of its own, so that the agent finds this one.
fn service(name: &str) -> Option<Running> {
    let program = may_trace().then(|| program_as("served.c", name, &[])).flatten()?;
    Some(Running::start(&program))
}

fn tell(service: &mut Running, word: &str) {
    let told = service.child.stdin.as_mut().unwrap().write_all(word.as_bytes());
    assert_eq!((service.line().as_str(), told.is_ok()), ("fine", true));
}

/// An agent that works, with what it has said.
struct Agent<'a> {
    child: Child,
    sandbox: &'a Sandbox,
}

impl<'a> Agent<'a> {
    /// One that attaches to a service half of the time, for two seconds each. With this seed the first moment comes soon.
    fn start(sandbox: &'a Sandbox, service: &str, options: &[&str]) -> Self {
        let mut words =
            vec!["--no-collect", "--seed", "1965", "--duty", "50%", "--session", "2s", "--most-delay", "50%"];
        let which = format!("name={service}");
        words.extend(["--experiment", &which, "--point", "fn:handle"]);
        words.extend(options);
        Self::spawn(sandbox, &words)
    }

    fn spawn(sandbox: &'a Sandbox, options: &[&str]) -> Self {
        let mut command = sandbox.whatif();
        command.args(["agent", "--db"]).arg(database(sandbox)).args(options);
        command.env_remove("WHATIF_FLEET_URL").stdin(Stdio::null()).stdout(Stdio::null());
        let said = std::fs::File::create(sandbox.path("said")).unwrap();
        Self { child: command.stderr(said).spawn().unwrap(), sandbox }
    }

    /// Waits until the agent says that it is so. A hang is a failure.
    #[track_caller]
    fn wait(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let state = self.state();
            if state.as_ref().is_some_and(&is_so) {
                return state.unwrap();
            }
            let said = || std::fs::read_to_string(self.sandbox.path("said")).unwrap();
            assert!(begin.elapsed() < HANG, "not {what}: {state:#?}\n{}", said());
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn state(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(database(self.sandbox).join("agent.json")).ok()?).ok()
    }

    /// Ends it as a service manager does.
    fn end(mut self) -> Value {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        wait_until("the end of the agent", || self.child.try_wait().unwrap().is_some());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.state().unwrap()
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn database(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("db")
}

/// The finished recordings, oldest first.
fn recordings(sandbox: &Sandbox) -> Vec<(String, Rows)> {
    let folder = std::fs::read_dir(database(sandbox).join("recordings")).unwrap();
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), Recording::open(path).unwrap().rows().unwrap())).collect()
}

/// Whether there is an experiment in a session that is under way.
fn has_experiments(sandbox: &Sandbox) -> bool {
    let all = std::fs::read_dir(database(sandbox).join("agent")).into_iter().flatten().flatten();
    all.filter_map(|entry| rows(&entry.path())).any(|rows| has_windows(&rows))
}

fn of_service(state: &Value) -> &Value {
    &state["services"][0]
}

/// After how long experiments were to end, by the warning with this code, and no window is later or half.
#[track_caller]
fn ended_in_order(rows: &Rows, code: &str) -> String {
    let mut warnings = rows.warnings.iter().map(|(_, warning)| warning);
    let warning = warnings.find(|warning| warning.code == code);
    let warning = warning.unwrap_or_else(|| panic!("no {code}: {:#?}", rows.warnings));
    let at = warning.message.split("after ").nth(1).and_then(|rest| rest.split(' ').next());
    let at: f64 = at.unwrap().parse().unwrap();
    for window in &rows.windows {
        let end = window.start.as_secs_f64() + window.elapsed.as_secs_f64();
        assert!(end <= at + 0.001, "a window was kept that ended at {end}: {}", warning.message);
    }
    assert_eq!(rows.windows.len() % 2, 0, "half an experiment was kept");
    assert!(warning.message.contains(" later"), "{}", warning.message);
    warning.message.clone()
}

#[test]
fn a_guard_of_attach_ends_the_experiments_and_throws_the_window_away() {
    let Some(mut service) = service("served_by_hand") else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args([
        "attach",
        "-q",
        "-p",
        "fn:handle",
        "--speedup",
        "25,50",
        "--guard",
        "throughput < 1/s over 2s",
        "-o",
    ]);
    command.arg(sandbox.recording()).arg(service.pid());
    let mut whatif = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("experiments", || {
        assert!(whatif.try_wait().unwrap().is_none(), "the session has ended");
        rows(&sandbox.recording()).is_some_and(|rows| rows.windows.len() >= 4)
    });
    tell(&mut service, "stop\n");
    wait_until("the end of the session", || whatif.try_wait().unwrap().is_some());
    assert!(whatif.wait().unwrap().code().is_some());
    let rows = Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    let said = ended_in_order(&rows, "guard-breached");
    assert!(
        said.contains("throughput over 2 s was ") && said.contains("--guard 'throughput < 1/s over 2s'"),
        "{said}"
    );
    wait_for_guardian(&service.pid());
    tell(&mut service, "go\n");
}

#[test]
fn delay_and_speedups_of_attach_are_limited() {
    let Some(mut service) = service("served_limited") else { return };
    let sandbox = Sandbox::new();
    let attach = |options: &[&str]| {
        let mut command = sandbox.whatif();
        command
            .args(["attach", "-p", "fn:handle", "-o"])
            .arg(sandbox.recording())
            .args(options)
            .arg(service.pid());
        run(command)
    };
    // Longer than a test may take.
    let ended =
        attach(&["--region", "work", "--duration", "1000", "--most-delay", "0.01%", "--most-speedup", "30%"]);
    assert!(
        ended.stderr.contains("as long as --most-delay allows") && ended.stderr.contains("was let go"),
        "{ended:#?}"
    );
    let rows = Recording::open(&sandbox.recording()).unwrap().rows().unwrap();
    assert!(rows.windows.iter().all(|window| window.speedup.per_mille() <= 300) && !rows.windows.is_empty());
    for (options, what) in [
        (&["--most-delay", "1%"][..], "--duration"),
        (&["--guard", "errors > 1"], "neither throughput nor latency nor cpu"),
        (&["--guard", "throughput > 5%"], "has to be below"),
        (&["--most-speedup", "x"], "such as 2%"),
        (&["--most-speedup", "1%"], "leaves no speedup"),
    ] {
        let ended = attach(options);
        assert!(ended.code() == Some(2) && ended.stderr.contains(what), "{options:?} {ended:#?}");
    }
    // A guard that cannot hold is no guard.
    let ended = attach(&["--duration", "1000", "--guard", "throughput(nothing) < 1/s"]);
    assert!(ended.stderr.contains("a progress point that is not there; there are: handle"), "{ended:#?}");
    tell(&mut service, "?\n");
}

#[test]
fn sessions_come_again_and_again_until_a_guard_holds() {
    let Some(mut service) = service("served_guarded") else { return };
    let sandbox = Sandbox::new();
    let mut agent =
        Agent::start(&sandbox, "served_guarded", &["--guard", "throughput < 1/s over 1s", "--session", "4s"]);
    agent.wait("two sessions", |state| {
        of_service(state)["sessions"].as_u64() >= Some(2)
            && of_service(state)["experiments"].as_u64() > Some(0)
    });
    tell(&mut service, "stop\n");
    let state = agent.wait("a breach", |state| of_service(state)["breaches"] == 1);
    let breach = &of_service(&state)["last_breaches"][0];
    assert_eq!(
        (&breach["guard"], &breach["back_off_s"]),
        (&"throughput < 1/s over 1s".into(), &300.0.into()),
        "{state:#}"
    );
    assert_eq!(of_service(&state)["doing"], "back-off");
    let all = recordings(&sandbox);
    assert!(
        all.len() >= 2 && all.iter().all(|(name, _)| name.starts_with("agent-served_guarded-")),
        "{all:?}"
    );
    ended_in_order(&all.last().unwrap().1, "guard-breached");
    assert!(all.iter().flat_map(|(_, rows)| &rows.windows).all(|window| window.speedup.per_mille() <= 500));
    // It is left alone: moments pass without a session.
    let sessions = of_service(&state)["sessions"].clone();
    let state = agent.wait("left alone", |state| of_service(state)["skipped"].as_u64() > Some(0));
    assert_eq!(of_service(&state)["sessions"], sessions);
    let mut status = sandbox.whatif();
    status.args(["agent", "status", "--db"]).arg(database(&sandbox));
    let said = run(status).assert_code(0).stdout;
    assert!(said.contains("is left alone for another") && said.contains("1 time a guard held"), "{said}");
    let state = agent.end();
    assert!(state["ended"] == true && of_service(&state)["attached_s"].as_f64() > Some(0.0), "{state:#}");
    wait_for_guardian(&service.pid());
    // What it has left is what the next one begins with.
    let mut agent = Agent::start(&sandbox, "served_guarded", &[]);
    let state = agent.wait("there again", |state| state["ended"] == false);
    assert_eq!(
        (&of_service(&state)["breaches"], &of_service(&state)["doing"]),
        (&1.into(), &"back-off".into()),
        "{state:#}"
    );
    agent.end();
    tell(&mut service, "go\n");
}

#[test]
fn a_file_ends_a_session_and_its_absence_lets_others_begin() {
    let Some(mut service) = service("served_stopped") else { return };
    let sandbox = Sandbox::new();
    let switch = sandbox.path("stop");
    let options = ["--kill-switch", switch.to_str().unwrap()];
    let long = [&options[..], &["--session", "300s"]].concat();
    let mut agent = Agent::start(&sandbox, "served_stopped", &long);
    agent.wait("a session", |state| of_service(state)["doing"] == "session");
    wait_until("an experiment", || has_experiments(&sandbox));
    std::fs::write(&switch, "").unwrap();
    let state = agent
        .wait("stopped", |state| state["stopped"].is_string() && of_service(state)["doing"] != "session");
    assert!(
        state["stopped"].as_str().unwrap().contains("--kill-switch") && of_service(&state)["breaches"] == 0,
        "{state:#}"
    );
    wait_for_guardian(&service.pid());
    let all = recordings(&sandbox);
    let [(_, rows)] = &all[..] else { panic!("{all:?}") };
    let said = ended_in_order(rows, "halted");
    assert!(said.contains("exists (--kill-switch)") && !rows.windows.is_empty(), "{said}");
    agent.end();
    // As long as the file is there, moments pass without a session.
    let mut agent = Agent::start(&sandbox, "served_stopped", &options);
    let state = agent.wait("a moment that passes", |state| of_service(state)["skipped"].as_u64() > Some(0));
    assert_eq!(of_service(&state)["sessions"], 1);
    std::fs::remove_file(&switch).unwrap();
    agent.wait("a session again", |state| of_service(state)["sessions"] == 2 && state["stopped"].is_null());
    agent.end();
    wait_for_guardian(&service.pid());
    tell(&mut service, "?\n");
}

#[test]
fn a_health_command_that_fails_ends_a_session() {
    let Some(mut service) = service("served_healthy") else { return };
    let sandbox = Sandbox::new();
    let well = sandbox.path("well");
    std::fs::write(&well, "").unwrap();
    let guard = format!("health: test -e {}", well.display());
    let mut agent = Agent::start(&sandbox, "served_healthy", &["--guard", &guard, "--session", "300s"]);
    agent.wait("a session", |state| of_service(state)["doing"] == "session");
    std::fs::remove_file(&well).unwrap();
    let state = agent.wait("a breach", |state| of_service(state)["breaches"] == 1);
    let breach = &of_service(&state)["last_breaches"][0];
    assert_eq!(breach["guard"], guard.as_str(), "{state:#}");
    assert!(breach["seen"].as_str().unwrap().contains("exit status: 1"), "{state:#}");
    agent.end();
    wait_for_guardian(&service.pid());
    tell(&mut service, "?\n");
}

#[test]
fn an_agent_that_is_killed_lets_services_go() {
    let Some(mut service) = service("served_killed") else { return };
    let before = service.descriptors();
    // While the service is attached to, or later.
    for is_under_way in [false, true] {
        let sandbox = Sandbox::new();
        let mut agent = Agent::start(&sandbox, "served_killed", &["--session", "300s"]);
        agent.wait("a session", |state| of_service(state)["doing"] == "session");
        if is_under_way {
            wait_until("an experiment", || has_experiments(&sandbox));
        }
        agent.child.kill().unwrap();
        agent.child.wait().unwrap();
        let folder = sandbox.folder().to_str().unwrap().as_bytes();
        wait_until("the end of the session", || {
            let is_of_session =
                |words: &[&[u8]]| words.len() < 2 || words.iter().any(|word| word.starts_with(folder));
            !has_process(is_of_session)
        });
        wait_for_guardian(&service.pid());
        tell(&mut service, "?\n");
        assert_eq!(service.descriptors(), before, "{is_under_way}");
    }
}

#[test]
fn what_cannot_be_attached_to_is_said_and_left_alone() {
    if !may_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut agent = Agent::start(&sandbox, "no_such_service", &[]);
    let state = agent.wait("an error", |state| of_service(state)["failed"].as_u64() > Some(0));
    let error = of_service(&state)["last_error"].as_str().unwrap();
    assert!(error.contains("no process runs that is meant by --name no_such_service"), "{error}");
    assert_eq!(of_service(&state)["doing"], "back-off");
    // A folder has one agent.
    let mut other = sandbox.whatif();
    other.args(["agent", "--db"]).arg(database(&sandbox));
    let other = run(other).assert_code(90);
    assert!(other.stderr.contains("another agent works in"), "{other:#?}");
    assert_eq!(recordings(&sandbox).len(), 0);
    agent.end();
}

#[test]
fn the_collector_ends_with_the_agent() {
    let sandbox = Sandbox::new();
    let mut agent = Agent::spawn(&sandbox, &["--collect-option=--own", "--collect-option=--rate=49"]);
    agent.wait("a collector", |state| {
        let collector = &state["companions"][0];
        collector["running"] == true || collector["last_error"].is_string()
    });
    let status = || {
        let mut command = sandbox.whatif();
        command.args(["status", "--json", "--db"]).arg(database(&sandbox));
        serde_json::from_str::<Value>(&run(command).stdout).ok()
    };
    let said = || std::fs::read_to_string(sandbox.path("said")).unwrap();
    let is_refused = || said().contains("perf") || said().contains("permission");
    wait_until("a collector that works", || {
        is_refused() || status().is_some_and(|status| status["running"] == true)
    });
    if is_refused() {
        return skip("nothing can be sampled here");
    }
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    wait_until("the end of the collector", || status().unwrap()["running"] == false);
    assert_eq!(status().unwrap()["ended"], true, "in order");
}

#[test]
fn mistakes_are_told_before_anything_is_begun() {
    let sandbox = Sandbox::new();
    let refused = |options: &[&str], what: &str| {
        let mut command = sandbox.whatif();
        command.args(["agent", "--db"]).arg(database(&sandbox)).args(options);
        let ended = run(command);
        assert!(ended.code() == Some(2) && ended.stderr.contains(what), "{options:?} {ended:#?}");
        assert!(!database(&sandbox).exists());
    };
    refused(&["--point", "fn:a"], "behind the --experiment");
    refused(&["--experiment", "shop", "--point", "fn:a"], "unit=NAME");
    refused(&["--experiment", "unit=shop"], "--point fn:handle");
    std::fs::write(sandbox.path("agent.conf"), "experiment unit=shop\nponit fn:a\n").unwrap();
    refused(&["--config", "agent.conf"], "line 2: ponit is no option; did you mean point?");
    std::fs::write(sandbox.path("agent.conf"), "experiment unit=shop\npoint fn:a\nguard throughput > 5%\n")
        .unwrap();
    refused(&["--config", "agent.conf"], "has to be below");
    let mut status = sandbox.whatif();
    status.args(["agent", "status", "--db"]).arg(database(&sandbox));
    assert!(run(status).assert_code(90).stderr.contains("start one with: whatif agent"));
}
