//! `whatif mcp`, driven as an assistant does it: by lines of JSON on its standard input and output.

use crate::attach::wait_until;
use crate::compare::{BEFORE, SLOWER, recordings};
use crate::support::{Sandbox, program};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A server, and what has been asked of it.
struct Served {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    asked: u64,
    /// How often it said that something goes on.
    told: u64,
    sandbox: Sandbox,
}

impl Served {
    fn start(sandbox: Sandbox) -> Self {
        let mut command = sandbox.whatif();
        command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        let mut served = Self { child, input, output, asked: 0, told: 0, sandbox };
        let about = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        let answer = served.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "whatif", "{answer:#}");
        served.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        served
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Asks, and does not wait for the answer.
    fn begin(&mut self, method: &str, parameters: &Value) {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters}));
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.begin(method, parameters);
        loop {
            let line = self.output.next().expect("it answers").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.asked {
                return message;
            }
            assert_eq!(message["method"], "notifications/progress", "{message:#}");
            self.told += 1;
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask(
            "tools/call",
            &json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "token"}}),
        );
        answer["result"].clone()
    }

    /// What a call answered.
    #[track_caller]
    fn answered(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result:#}");
        result["structuredContent"].clone()
    }

    /// Why a call was refused.
    #[track_caller]
    fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result:#}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The client goes.
    fn leave(&mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_assistant_profiles_a_program() {
    let Some(live) = program("live.c") else { return };
    let mut served = Served::start(Sandbox::new());
    let tools = served.ask("tools/list", &json!({}));
    let names: Vec<_> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["points", "run", "report", "compare"]);
    let folder = served.sandbox.folder().to_owned();
    let arguments =
        json!({"program": [live, "1000"], "recording": "x.db", "directory": folder, "seconds": 3});
    let run = served.answered("run", &arguments);
    // What is known after three seconds is not what this is about.
    assert_eq!(run["answer"]["version"], 1, "{run:#}");
    assert_eq!(run["recording"], json!(folder.join("x.db")));
    assert!(served.told > 0, "a client that hears nothing gives up");
    let points = served.answered("points", &json!({"program": [live, "1000"], "seconds": 3}));
    assert!(points["found"]["places"].is_array(), "{points:#}");
    served.leave();
}

#[test]
fn an_assistant_compares_recordings() {
    let mut served = Served::start(recordings(&BEFORE.rows(), &SLOWER.rows()));
    let [before, after] = ["a.db", "b.db"].map(|name| served.sandbox.path(name));
    let brief = served.answered("report", &json!({"recording": before}));
    assert!(brief["sentence"].as_str().unwrap().contains("hash.c:88"), "{brief:#}");
    let numbers = served.answered("report", &json!({"recording": before, "explain": "hash.c:88"}));
    assert!(numbers["explanation"].as_str().unwrap().contains("hash.c:88"), "{numbers:#}");
    let comparison = served.answered("compare", &json!({"before": before, "after": after}));
    assert_eq!(comparison["points"][0]["change"], "worse", "{comparison:#}");
    served.leave();
}

#[test]
fn what_is_wrong_is_said_to_the_assistant() {
    let mut served = Served::start(recordings(&BEFORE.rows(), &SLOWER.rows()));
    // There is an answer already, to something else.
    let old = served.sandbox.path("a.db");
    let refused = served.refused("run", &json!({"program": ["./no-such-program"], "recording": old}));
    assert!(refused.contains("was not found"), "{refused}");
    for (tool, arguments, said) in [
        ("run", json!({"program": [], "recording": "x.db"}), "`program` is empty"),
        ("run", json!({"program": ["./no-such-program"], "recording": "x.db"}), "was not found"),
        ("run", json!({"program": ["true"], "recording": "x.db", "seconds": 0}), "more than 0"),
        ("run", json!({"program": ["true"]}), "missing field `recording`"),
        ("run", json!({"programme": ["true"], "recording": "x.db"}), "unknown field `programme`"),
        ("run", json!({"program": ["true"], "recording": "x.db", "directory": "/no/such"}), "/no/such"),
        ("report", json!({"recording": "no.db"}), "there is no recording at no.db"),
        ("compare", json!({"before": "no.db", "after": "no.db"}), "there is no recording at no.db"),
    ] {
        let refused = served.refused(tool, &arguments);
        assert!(refused.contains(said), "{tool} {arguments}: {refused}");
    }
    let unknown = served.ask("tools/call", &json!({"name": "guess", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("no tool `guess`"), "{unknown:#}");
    served.leave();
}

#[test]
fn what_a_program_leaves_behind_holds_nothing_up() {
    let Some(live) = program("live.c") else { return };
    let mut served = Served::start(Sandbox::new());
    let pid = served.sandbox.path("pid");
    // It has the pipe that whatif and the program write messages to.
    let script = format!("sleep 100000 & echo $! > {}; exec {} 1", pid.display(), live.display());
    let arguments = json!({
        "program": ["sh", "-c", script],
        "recording": served.sandbox.path("x.db"),
        "seconds": 3,
    });
    served.call("run", &arguments);
    let left: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    // It may have been ended with the program.
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_raw(left).unwrap(),
        rustix::process::Signal::KILL,
    );
    served.leave();
}

#[test]
fn programs_end_with_the_request_and_with_the_client() {
    let mut served = Served::start(Sandbox::new());
    let end: [fn(&mut Served); 2] = [
        |served| {
            let taken_back = json!({"requestId": served.asked, "reason": "test"});
            served
                .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back}));
        },
        Served::leave,
    ];
    for (nth, end) in end.into_iter().enumerate() {
        let pid = served.sandbox.path(&format!("pid-{nth}"));
        let script = format!("echo $$ > {0}.part; mv {0}.part {0}; exec sleep 100000", pid.display());
        let arguments = json!({
            "program": ["sh", "-c", script],
            "recording": served.sandbox.path(&format!("{nth}.db")),
            "seconds": 100_000,
        });
        served.begin("tools/call", &json!({"name": "run", "arguments": arguments}));
        wait_until("the program to run", || pid.exists());
        let pid = std::fs::read_to_string(&pid).unwrap();
        let process = Path::new("/proc").join(pid.trim());
        end(&mut served);
        wait_until("the program to end", || !process.exists());
    }
}
