//! `whatif collect` and `whatif status` on this machine, with everything else that runs on it.

use crate::support::{Sandbox, answer, have, program, program_as, run, skip, stacks};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

/// A collector, and something that keeps a CPU busy.
pub struct Collecting {
    child: Child,
    said: Receiver<String>,
    load: Child,
    /// What it said when it began.
    pub first: String,
    pub folder: PathBuf,
    _sandbox: Sandbox,
}

/// What was not collected within this time never is: several processes that use all CPUs have to be sampled beside all other tests.
const COLLECTED: std::time::Duration = crate::support::HANG.saturating_mul(4);
/// Between two looks at what is collected, each of which starts a process.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);

impl Collecting {
    /// Starts it, and waits until it samples; `None`, said aloud, where that is not allowed.
    pub fn start(options: &[&str]) -> Option<Self> {
        let sandbox = Sandbox::new();
        let folder = sandbox.recording().with_file_name("cycles");
        let mut command = sandbox.whatif();
        command.args(["collect", "--db"]).arg(&folder).args(options);
        Self::started(command, sandbox, folder)
    }

    fn started(mut command: Command, sandbox: Sandbox, folder: PathBuf) -> Option<Self> {
        let load = beside_others("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (say, said) = std::sync::mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        let mut collecting = Self { child, said, load, first: String::new(), folder, _sandbox: sandbox };
        let first = collecting.hear(&["collecting", "does not allow", "no hardware counters"]);
        if first.contains("does not allow") {
            skip(&first);
            return None;
        }
        collecting.first = first;
        Some(collecting)
    }

    /// Waits for a line with one of these words.
    #[track_caller]
    fn hear(&self, words: &[&str]) -> String {
        let begin = std::time::Instant::now();
        loop {
            let left = crate::support::HANG.saturating_sub(begin.elapsed());
            match self.said.recv_timeout(left) {
                Ok(line) if words.iter().any(|word| line.contains(word)) => return line,
                Ok(_) => {}
                Err(error) => panic!("never said {words:?}: {error}"),
            }
        }
    }

    fn status(&self) -> Value {
        answer(&["status", "--json"], &self.folder)
    }

    /// Waits until the status says something, or the database that was written before it.
    pub fn wait_for(&self, mut is_there: impl FnMut(&Value) -> bool) -> Value {
        wait_until(|| {
            let status = self.status();
            if is_there(&status) { Ok(status) } else { Err(status) }
        })
    }

    /// Waits until the rows of `whatif top` say something.
    fn wait_for_rows(&self, options: &[&str], mut are_there: impl FnMut(&[Value]) -> bool) {
        wait_until(|| {
            let rows = groups(&self.folder, options);
            if are_there(&rows) { Ok(()) } else { Err(serde_json::json!([rows, self.status()])) }
        });
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Ends it by a signal.
    pub fn end(mut self, signal: &str) -> PathBuf {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {:?}", self.said.iter().collect::<Vec<_>>());
        // The sandbox goes with the collector.
        let kept = self.folder.with_extension(format!("{}", self.child.id()));
        let kept = std::env::temp_dir().join(kept.file_name().unwrap());
        let _ = std::fs::remove_dir_all(&kept);
        assert!(Command::new("cp").arg("-r").arg(&self.folder).arg(&kept).status().unwrap().success());
        kept
    }
}

/// Waits until `look` finds something, and returns that. A test that waits in vain fails with what there was instead.
fn wait_until<T>(mut look: impl FnMut() -> Result<T, Value>) -> T {
    let begin = std::time::Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => assert!(begin.elapsed() < COLLECTED, "{instead:#}"),
        }
        std::thread::sleep(LOOK);
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        for child in [&mut self.child, &mut self.load] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn sum(rows: &Value) -> u64 {
    rows.as_array().unwrap().iter().map(|row| row["samples"].as_u64().unwrap()).sum()
}

/// How the collector samples in these tests.
pub const OFTEN: &[&str] = &["--rate", "500", "--interval", "1", "--max-cpu", "100%"];

#[test]
fn what_runs_is_collected_and_the_books_balance() {
    let Some(collecting) = Collecting::start(OFTEN) else { return };
    let status = collecting.wait_for(|_| !groups(&collecting.folder, &["--process", "sh"]).is_empty());
    assert_eq!(status["running"], true, "{status:#}");
    let folder = collecting.end("-TERM");
    let status = answer(&["status", "--json"], &folder);
    assert_eq!(status["running"], false, "{status:#}");
    let all = answer(&["top", "--json", "--by", "process", "--idle", "--top", "100000"], &folder);
    let books = &all["heading"]["books"];
    let number = |name: &str| books[name].as_u64().unwrap_or_else(|| panic!("no {name} in {all:#}"));
    assert_eq!(number("expected"), number("stored") + number("unknown") + number("lost"));
    assert_eq!(
        sum(&all["rows"]),
        number("stored") + number("unknown"),
        "every sample is accounted for: {all:#}"
    );
    let rows = all["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["name"] == "sh"), "{all:#}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// What the collector tells at `/metrics`, by series.
fn metrics(address: &str) -> std::collections::BTreeMap<String, f64> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn the_collector_tells_prometheus_and_its_history() {
    let options = [OFTEN, &["--metrics", "127.0.0.1:0"]].concat();
    let Some(collecting) = Collecting::start(&options) else { return };
    let line = collecting.hear(&["metrics are at http://"]);
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    collecting.wait_for(|_| metrics(&address)["whatif_flushes_total"] >= 2.0);
    let all = metrics(&address);
    let event = collecting.status()["events"][0].as_str().unwrap().to_owned();
    let of = |name: &str| all[&format!("whatif_samples_{name}_total{{event=\"{event}\"}}")];
    assert!(of("expected") > 0.0, "{all:#?}");
    assert_eq!(of("expected"), of("stored") + of("unknown") + of("lost"), "{all:#?}");
    for name in
        ["whatif_resident_bytes", "whatif_database_bytes", "whatif_cpu_seconds_total", "whatif_processes"]
    {
        assert!(all[name] > 0.0, "{name}: {all:#?}");
    }
    assert_eq!((all["whatif_rate_hertz"], all["whatif_epochs_total"]), (500.0, 1.0));
    let folder = collecting.end("-TERM");
    let history = answer(&["status", "--history", "--json"], &folder);
    let rows = history["rows"].as_array().unwrap();
    let kinds: Vec<&str> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    // On a busy machine samples of the first second are lost, and the books need not balance.
    let first = kinds.iter().find(|kind| !["lost", "books"].contains(kind));
    assert!(first == Some(&"epoch") && kinds.contains(&"ended"), "{history:#}");
    let ended = rows.iter().find(|row| row["kind"] == "ended").unwrap();
    assert_eq!(ended["message"], "the collector ended: SIGTERM");
    assert!(!kinds.contains(&"killed"), "{history:#}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Killed when it is dropped, so that no other test meets it.
pub struct Killed(pub Child);

/// A program that only has to be sampled now and then. What it is there for comes at any speed, and it would take the CPUs from all
/// other tests for as long as it runs.
pub fn beside_others(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(program);
    nice
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a stack has all of its callers.
fn has_a_whole_one(stacks: &[(Vec<String>, u64)]) -> bool {
    stacks.iter().any(|(stack, _)| {
        let begins = stack.iter().any(|name| name == "_start" || name.contains("__libc_start_main"));
        begins && stack.join(";").contains("main;outer;aligned;innermost")
    })
}

#[test]
fn callers_are_found_with_frame_pointers_and_without() {
    let flags = |pointers| ["-O1", pointers, "-fno-optimize-sibling-calls"];
    let Some(without) = program_as("deep.c", "deep-none", &flags("-fomit-frame-pointer")) else { return };
    let Some(with) = program_as("deep.c", "deep-kept", &flags("-fno-omit-frame-pointer")) else { return };
    // Not beside others: it takes a hundred samples or so until whole stacks are there.
    let _running = [without, with].map(|program| Killed(Command::new(program).spawn().unwrap()));
    // The kernel copies all stacks where it samples one's own processes, otherwise BPF copies those that need it.
    for own in [&[][..], &["--own"]] {
        let Some(collecting) = Collecting::start(&[OFTEN, own].concat()) else { return };
        // The unwind tables are read meanwhile, and what was sampled before that has no whole stacks.
        let folder = collecting.folder.clone();
        wait_until(|| {
            let found = ["deep-none", "deep-kept"].map(|process| stacks(&folder, process));
            let status = collecting.status();
            let are_whole = found.iter().all(|stacks| has_a_whole_one(stacks));
            let is_there = are_whole && status["stacks"]["whole"].as_u64() > Some(0);
            if is_there { Ok(()) } else { Err(serde_json::json!([found, status])) }
        });
        let folder = collecting.end("-TERM");
        let status = answer(&["status", "--json"], &folder);
        assert!(status["callers"].as_str().unwrap().contains("unwind tables"), "{status:#}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// The rows of `whatif top`, by what it was asked by.
fn groups(folder: &Path, options: &[&str]) -> Vec<Value> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["top", "--json", "--top", "100000"]).args(options).arg("--db").arg(folder);
    let ended = run(command);
    let Ok(answer) = serde_json::from_str::<Value>(&ended.stdout) else { return Vec::new() };
    answer["rows"].as_array().unwrap().iter().map(|row| row["groups"].clone()).collect()
}

#[test]
fn threads_numbers_and_labels_of_users_are_kept() {
    let Some(program) = program("labelled.c") else { return };
    let start = |labels: &str| {
        Killed(beside_others(&program).arg("an argument").env("WHATIF_LABELS", labels).spawn().unwrap())
    };
    let wanted = "shard=3,tenant=acme";
    let before = start(wanted);
    let options = [OFTEN, &["--label", "region=eu", "--command-lines"]].concat();
    let Some(collecting) = Collecting::start(&options) else { return };
    let after = start(wanted);
    // Too long, of many, and with what a terminal obeys.
    let many: Vec<String> = (0..30).map(|number| format!("l{number}=v")).collect();
    let hostile = [&"a=b,".repeat(30_000), &many.join(","), "a=\u{1b}[2J,B=c,d"];
    let hostile: Vec<Killed> = hostile.iter().map(|labels| start(labels)).collect();
    let numbers = |of: &[&Killed]| of.iter().map(|killed| killed.0.id().to_string()).collect::<Vec<_>>();
    let has = |rows: &[Value], key: &str, text: &str| rows.iter().any(|row| row[key] == text);
    let shards = "process=labelled and label.shard=3 and thread=shard-?";
    // Numbers are there once processes have lived for ten seconds.
    let of_program = |by| ["--by", by, "--process", "labelled"];
    collecting.wait_for_rows(&of_program("pid,thread,label.shard"), |rows| {
        numbers(&[&before, &after]).iter().all(|pid| {
            let is_there = |row: &Value, thread| {
                row["pid"] == **pid && row["thread"] == thread && row["label.shard"] == "3"
            };
            ["shard-a", "shard-b"].iter().all(|thread| rows.iter().any(|row| is_there(row, *thread)))
        })
    });
    let all = numbers(&hostile.iter().collect::<Vec<_>>());
    collecting.wait_for_rows(&of_program("pid"), |rows| all.iter().all(|pid| has(rows, "pid", pid)));
    collecting.wait_for_rows(&of_program("thread"), |rows| has(rows, "thread", "pool-*"));
    // Labels are read again later where that takes too long on a busy machine, which is counted.
    collecting.wait_for_rows(&of_program("label.l0"), |rows| has(rows, "label.l0", "v"));
    // The status is written after the database. One label was too long, 22 were too many, three were none.
    let number = |status: &Value, of| status["labels"][of].as_u64().unwrap_or(0);
    let status = collecting.wait_for(|status| {
        number(status, "thread_names_taken_together") > 0
            && number(status, "user_labels_refused") >= 1 + 22 + 3
    });
    let folder = collecting.end("-TERM");
    // Samples that were taken meanwhile have none. A command line is read once.
    let is_unread = status["labels"]["environments_unread"].as_u64() > Some(0);
    // Whatever these may say, the others have the labels that they were given.
    let rows = groups(&folder, &["--by", "label.a,label.l0,label.l9,pid", "--process", "labelled"]);
    for (pid, [a, first, tenth]) in
        all.iter().zip([["[none]", "[none]", "[none]"], ["[none]", "v", "[none]"], ["[none]"; 3]])
    {
        let of_pid: Vec<&Value> = rows.iter().filter(|row| row["pid"] == **pid).collect();
        assert!(!of_pid.is_empty());
        for row in of_pid {
            let labels = ["label.a", "label.l0", "label.l9"].map(|name| &row[name]);
            assert!(
                labels == [a, first, tenth] || is_unread && labels == ["[none]"; 3],
                "{row:#} {status:#}"
            );
        }
    }
    let rows = groups(&folder, &["--by", "label.region,label.tenant,command", "--where", shards]);
    assert!(rows.iter().all(|row| row["label.region"] == "eu" && row["label.tenant"] == "acme"), "{rows:#?}");
    let command = format!("{} an argument", program.display());
    let command = &command[..command.len().min(256)];
    assert!(has(&rows, "command", command) || is_unread, "{rows:#?} {status:#}");
    // Many threads with names of their own are one in the end, and the others are still told apart.
    let rows = groups(&folder, &["--by", "thread", "--process", "labelled"]);
    assert!(has(&rows, "thread", "pool-*") && has(&rows, "thread", "shard-a"), "{rows:#?}");
    assert!(rows.len() <= 140, "{}", rows.len());
    let rows = groups(&folder, &["--by", "thread,function", "--where", shards]);
    assert!(has(&rows, "thread", "shard-a") && has(&rows, "thread", "shard-b"), "{rows:#?}");
    // The same in the other tools.
    let sandbox = Sandbox::new();
    let mut folded = sandbox.whatif();
    folded.args(["flame", "--folded", "--where", shards, "--db"]).arg(&folder);
    let folded = run(folded).assert_code(0).stdout;
    let is_right =
        |line: &str| line.starts_with("labelled;shard-a;") || line.starts_with("labelled;shard-b;");
    assert!(folded.lines().count() > 1 && folded.lines().all(is_right), "{folded}");
    let of_shards = answer(&["top", "--json", "--where", shards], &folder)["heading"]["samples"].clone();
    let across = answer(&["stats", "--json", "--across", "thread", "--where", shards], &folder);
    assert_eq!(across["heading"]["samples"], of_shards);
    assert_eq!(across["parts"].as_array().unwrap().len(), 2, "{across:#}");
    answer(&["list", "work", "--json", "--where", shards], &folder);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_that_never_answer_do_not_hold_it_up() {
    let Some(program) = program("hangs.c") else { return };
    let mut hangs = Killed(beside_others(program).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(hangs.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "yes\n" {
        skip("no file system can be mounted here (that takes root and /dev/fuse)");
        return;
    }
    let collecting = Collecting::start(OFTEN);
    let folder = collecting.map(|collecting| {
        // Books of two intervals: it went on after it had looked.
        let is_later =
            |status: &Value, than: &Value| status["last"]["begin_unix"] != than["last"]["begin_unix"];
        let has_samples = |status: &Value| status["last"]["books"][0]["stored"].as_u64() > Some(0);
        let first = collecting.wait_for(has_samples);
        collecting.wait_for(|status| is_later(status, &first) && has_samples(status));
        collecting.end("-TERM")
    });
    drop(hangs);
    let Some(folder) = folder else { return };
    let unknown = answer(&["unknown", "--json"], &folder);
    let rows = unknown["rows"].as_array().unwrap();
    let given_up = rows.iter().find(|row| row["image"] == "[generated: list given up]");
    let given_up = given_up.unwrap_or_else(|| panic!("{unknown:#}"));
    assert_eq!((given_up["code"].as_str(), &given_up["processes"][0]), (Some("limit"), &"hangs".into()));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn hanging_up_begins_again_with_the_same_process() {
    let Some(collecting) = Collecting::start(&["--rate", "200", "--interval", "1"]) else { return };
    let first = collecting.wait_for(|status| status["epoch"].is_u64());
    collecting.signal("-HUP");
    collecting.hear(&["collecting"]);
    let second = collecting.wait_for(|status| status["epoch"] != first["epoch"]);
    assert_eq!(first["pid"], second["pid"]);
    // Only one may write.
    let sandbox = Sandbox::new();
    let mut other = sandbox.whatif();
    other.args(["collect", "--duration", "1", "--db"]).arg(&collecting.folder);
    let refused = run(other).assert_code(90);
    assert!(refused.stderr.contains(&format!("{}", collecting.child.id())), "{refused:#?}");
    let folder = collecting.end("-INT");
    let epochs = answer(&["epochs", "--json"], &folder);
    assert_eq!(epochs["epochs"].as_array().map(Vec::len), Some(2), "{epochs:#}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_full_disk_is_waited_for() {
    if !have("unshare") {
        return;
    }
    let sandbox = Sandbox::new();
    let folder = sandbox.recording().with_file_name("cycles");
    std::fs::create_dir_all(&folder).unwrap();
    let script = "mount -t tmpfs -o size=32m none \"$1\" || exit 77; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(&folder).arg(sandbox.whatif().get_program());
    command.args(["collect", "--interval", "1", "--rate", "997", "--max-cpu", "100%", "--db"]).arg(&folder);
    let probe = Command::new("unshare").args(["-m", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("a file system of one's own takes root");
    }
    let Some(mut collecting) = Collecting::started(command, sandbox, folder) else { return };
    // Seen through the collector, whose file system it is.
    let inside = format!("/proc/{}/root{}", collecting.child.id(), collecting.folder.display());
    let filler = Path::new(&inside).join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    // Up to the last byte.
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    let said = collecting.hear(&["nothing can be stored just now", "stored again"]);
    assert!(said.contains("nothing can be stored just now"), "{said}");
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let said = collecting.hear(&["stored again"]);
    assert!(said.contains(" 0 samples were given up"), "{said}");
    collecting.signal("-TERM");
    assert!(collecting.child.wait().unwrap().success());
}

#[test]
fn without_privileges_own_processes_are_sampled() {
    if !have("setpriv") {
        return;
    }
    let sandbox = Sandbox::new();
    let home = sandbox.recording().parent().unwrap().to_owned();
    let folder = home.join("cycles");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let program = sandbox.whatif().get_program().to_owned();
    let allowed = Command::new("setpriv").args(nobody).arg(&program).arg("--version").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skip("user 65534 may not execute what was built here");
    }
    // What may not be read is not said to be nothing.
    let closed = home.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(&program).args(["status", "--db"]).arg(&closed);
    let ended = run(command).assert_code(90);
    assert!(ended.stderr.contains("you may not read ") && ended.stderr.contains("use sudo"), "{ended:#?}");

    let mut command = Command::new("setpriv");
    command
        .args(nobody)
        .arg(&program)
        .args(["collect", "--duration", "2", "--rate", "200", "--db"])
        .arg(&folder);
    let ended = run(command);
    if ended.stderr.contains("your processes") {
        return skip(&ended.stderr);
    }
    let ended = ended.assert_code(0);
    assert!(ended.stderr.contains("your own processes are sampled instead"), "{ended:#?}");
    assert!(ended.stderr.contains("--print unit"), "{ended:#?}");
    let status = answer(&["status", "--json"], &folder);
    assert_eq!(status["scope"], "own processes", "{status:#}");
}

#[test]
fn what_makes_no_sense_is_said() {
    let sandbox = Sandbox::new();
    for (options, advice) in [
        (&["--rate", "0"][..], "from 0.1"),
        (&["--rate", "-5"], "from 0.1"),
        (&["--events", "cycels"], "cpu-clock"),
        (&["--events", "cpu-clock,cpu-clock"], "twice"),
        (&["--max-cpu", "nothing"], "such as 1%"),
        (&["--max-disk", "much"], "2G"),
        (&["--max-disk", "2"], "10M or more"),
        (&["--max-memory", "40"], "10M or more"),
        (&["--keep", "ever"], "30d"),
        (&["--keep", "0s"], "1h or more"),
        (&["--name", "1"], "cannot be the name of an epoch"),
        (&["--interval", "3600"], "--resolution 3600"),
        (&["--duration", "0"], "15, 15s, 2m, 1h"),
        (&["--db", "/dev/null/db"], "/dev/null"),
    ] {
        let mut command = sandbox.whatif();
        command.args(["collect", "--duration", "1"]).args(options);
        if !options.contains(&"--db") {
            command.arg("--db").arg(sandbox.recording());
        }
        if options.contains(&"--duration") {
            command = sandbox.whatif();
            command.arg("collect").args(options).arg("--db").arg(sandbox.recording());
        }
        // What is wrong with the folder is no error of usage.
        let ended = run(command).assert_code(if options.contains(&"--db") { 90 } else { 2 });
        assert!(ended.stderr.contains(advice), "{options:?}: {ended:#?}");
    }
    let mut status = sandbox.whatif();
    status.args(["status", "--db"]).arg(sandbox.recording());
    assert!(run(status).assert_code(90).stderr.contains("whatif collect --db"));
    let mut unit = sandbox.whatif();
    unit.args(["collect", "--print", "unit"]);
    let unit = run(unit).assert_code(0).stdout;
    assert!(
        unit.contains("[Service]") && unit.contains("CAP_PERFMON") && unit.contains("CAP_CHECKPOINT_RESTORE"),
        "{unit}"
    );
}

/// The names that a filter of systemd stands for.
fn expanded(filter: &str, into: &mut std::collections::BTreeSet<String>) -> Option<()> {
    if !filter.starts_with('@') {
        into.insert(filter.to_owned());
        return Some(());
    }
    let output =
        std::process::Command::new("systemd-analyze").args(["syscall-filter", filter]).output().ok()?;
    assert!(output.status.success(), "{filter}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.into_iter().try_for_each(|name| expanded(name, into))
}

#[test]
fn the_service_makes_no_system_call_that_its_unit_refuses() {
    if !have("systemd-analyze") || !have("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    let mut unit = sandbox.whatif();
    unit.args(["collect", "--print", "unit"]);
    let unit = run(unit).assert_code(0).stdout;
    let filter = unit.lines().find_map(|line| line.strip_prefix("SystemCallFilter=")).unwrap();
    let mut allowed = std::collections::BTreeSet::new();
    filter.split(' ').for_each(|part| expanded(part, &mut allowed).unwrap());
    assert!(allowed.contains("read") && !allowed.contains("mount"), "{allowed:?}");

    let whatif = sandbox.whatif();
    let calls = sandbox.path("calls");
    let mut traced = sandbox.command("strace");
    traced.args(["-f", "-qq", "-c", "-U", "name", "-o"]).arg(&calls).arg(whatif.get_program());
    traced
        .args(["collect", "--own", "--quiet", "--duration", "2", "--interval", "1", "--db"])
        .arg(sandbox.path("db"));
    let ended = run(traced);
    if ended.stderr.contains("ptrace") || ended.stderr.contains("does not allow") {
        return skip(&format!("nothing can be traced, or sampled, here: {}", ended.stderr));
    }
    assert_eq!(ended.code(), Some(0), "{ended:#?}");
    let calls = std::fs::read_to_string(calls).unwrap();
    let made: Vec<&str> = calls.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Those that no collector does without.
    for name in ["perf_event_open", "execve", "fsync"] {
        assert!(made.contains(&name), "{name} in {made:?}");
    }
    let is_call = |name: &&&str| {
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let refused: Vec<_> = made
        .iter()
        .filter(is_call)
        .filter(|name| !allowed.contains(**name) && **name != "syscall" && **name != "total")
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}
