//! `whatif fleet`: a recording that was really made gets to a server, and the answer is the one that the recording gives.

use crate::attach::{begin, wait_until, wait_until_recorded};
use crate::machines;
use crate::nodes::Nodes;
use crate::support::{Ended, Sandbox, program, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// So many are enough for an answer about a host.
const WINDOWS_OF_A_HOST: usize = 16;

fn json(ended: Ended) -> Value {
    let ended = ended.assert_success();
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
}

fn fleet(sandbox: &Sandbox, words: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.arg("fleet").args(words).env_remove("WHATIF_FLEET_URL");
    run(command)
}

#[test]
fn gates_for_releases_end_as_compare_does() {
    let sandbox = Sandbox::new();
    let db = sandbox.path("db");
    machines::write(&db, 3, 100);
    let db = db.to_str().unwrap();
    // What takes more in version 1.1 is function 3.
    let of = |condition: &str| {
        fleet(&sandbox, &["diff", "1.0", "1.1", "--db", db, "--json", "--fail-if", condition])
    };
    let json = |ended: &Ended| serde_json::from_str::<Value>(&ended.stdout).unwrap();
    let name = "shop::function_3";
    let share = json(&of(&format!("share({name}) > 0%")))["conditions"][0]["rows"][0]["value"].clone();
    let (value, hi) = (share["value"].as_f64().unwrap(), share["hi"].as_f64().unwrap());
    // Where the interval spans both answers, the gate is passed with a note, as that of compare is.
    let between = format!("share({name}) > {}%", 100.0 * (value - (hi - value) / 2.0));
    for (condition, code, verdict, said) in [
        (&*format!("share({name}, B) > 1.2 * share({name}, A)"), 1, "holds", "' holds: shop::function_3"),
        ("share(*, B) > 1.2 * share(*, A) + 1%", 1, "holds", "' holds: shop::function_3"),
        (&*between, 0, "may_hold", "note: --fail-if"),
        (&*format!("share({name}, B) > 9 * share({name}, A)"), 0, "does_not_hold", ""),
        ("share(image:server) < 0.1%", 0, "does_not_hold", ""),
        ("share(nothing) > 1%", 2, "cannot_be_judged", "cannot be judged: no sampled function"),
        ("total(*) > 1%", 2, "cannot_be_judged", "write share(NAME)"),
    ] {
        let ended = of(condition).assert_code(code);
        assert!(ended.stderr.contains(said) && ended.stderr.is_empty() == said.is_empty(), "{ended:#?}");
        assert_eq!(json(&ended)["conditions"][0]["verdict"], verdict, "{condition}: {ended:#?}");
    }
    let wrong = of("share(f) > 3").assert_code(2);
    assert!(wrong.stderr.contains("a share is in per cent"), "{wrong:#?}");
}

#[test]
fn stacks_of_a_fleet_are_folded_or_a_page() {
    let sandbox = Sandbox::new();
    let db = sandbox.path("db");
    machines::write(&db, 3, 100);
    let of = |words: &[&str]| {
        fleet(&sandbox, &[&["flame", "--db", db.to_str().unwrap()][..], words].concat()).assert_success()
    };
    let folded = of(&["--folded"]);
    assert!(folded.stderr.contains("have no names") && !folded.stderr.contains("not shown"), "{folded:#?}");
    let lines: Vec<&str> = folded.stdout.lines().collect();
    assert!(lines.is_sorted() && lines.len() > 20, "{}", folded.stdout);
    assert!(folded.stdout.contains("\nshop.service;server;[server];shop::function_3 "), "{}", folded.stdout);
    let sum = |text: &str| {
        let counts = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        counts.sum::<u64>()
    };
    let few = of(&["--folded", "--most", "7"]);
    assert_eq!(sum(&few.stdout), sum(&folded.stdout));
    assert!(few.stdout.starts_with("[other stacks] ") && few.stdout.lines().count() <= 8, "{}", few.stdout);
    assert!(
        few.stderr.contains("are in stacks that are not shown") && few.stderr.contains("--most N"),
        "{few:#?}"
    );
    let page = sandbox.path("page.html");
    let said = of(&["-o", page.to_str().unwrap(), "--roots", "none"]);
    assert!(said.stdout.starts_with(&format!("{} samples, in ", sum(&folded.stdout))), "{said:#?}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!") && page.contains(r#""name":"shop::function_3""#), "{page}");
}

#[test]
fn a_recording_is_worth_the_same_on_a_server() {
    let Some(program) = program("hinted.c") else { return };
    let sandbox = Sandbox::new();
    let recording = sandbox.recording();
    // It runs until there is something to compare.
    let mut command = sandbox.profiling(&["--region", "needed", "--speedup", "25,50"], &program, &["10000"]);
    command.env("WHATIF_LABELS", "service=rounds,version=1.0");
    let mut session = begin(&sandbox, command);
    wait_until_recorded(&sandbox, &mut session, |rows| rows.windows.len() >= WINDOWS_OF_A_HOST);
    kill_process(Pid::from_child(&session), Signal::INT).unwrap();
    wait_until("the end of the run", || session.try_wait().unwrap().is_some());
    let fleet = |words: &[&str]| fleet(&sandbox, words);
    let path = recording.to_str().unwrap();
    let mut local = json(fleet(&["worth", "--json", "--recordings", path]));
    let [row] = &local["rows"].as_array().unwrap()[..] else { panic!("{local:#}") };
    assert_eq!(
        (&row["service"], &row["point"], &row["code"]["name"]),
        (&"rounds".into(), &"round".into(), &"needed".into())
    );
    assert_eq!(
        (&row["code"]["program"], &local["runs"], &local["hosts"]),
        (&"hinted".into(), &1.into(), &1.into()),
        "{local:#}"
    );
    // A slope is more than this, if it is known at all.
    let (code, said) = match (row["numbers"].is_null(), row["doubt"].is_null()) {
        (true, _) => (2, "cannot be judged: no host has made five experiments"),
        (false, false) => (2, "cannot be judged: what was measured is not trusted"),
        (false, true) => (1, "holds: "),
    };
    let gate = ["worth", "--top", "0", "--fail-if", "slope(needed, round) > -99", "--recordings", path];
    let ended = fleet(&gate).assert_code(code);
    assert!(ended.stderr.contains(said), "{ended:#?}");
    let Some(nodes) = Nodes::start(1) else { return };
    let url = nodes.urls()[0].clone();
    fleet(&["init", "--url", &url]).assert_success();
    let sent = fleet(&["push", "--recordings", path, "--url", &url]).assert_success();
    assert!(sent.stdout.contains("sent 1 run: "), "{}", sent.stdout);
    let sent = fleet(&["push", "--recordings", path, "--url", &url]).assert_success();
    assert!(!sent.stdout.contains(" run"), "{}", sent.stdout);
    let mut remote = json(fleet(&["worth", "--json", "--url", &url]));
    (local["database"], remote["database"]) = (Value::Null, Value::Null);
    assert_eq!(local, remote);
    let text = fleet(&["worth", "--url", &url]).assert_success().stdout;
    assert!(
        text.contains("hinted.c:7 in hinted (rounds)") && text.contains("less time per `round`"),
        "{text}"
    );
}
