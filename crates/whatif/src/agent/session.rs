//! Session: one `whatif attach`, a process of its own, which ends when this one does, or when this one says nothing for a while.

use super::options::{Options, Service};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// It is told that this process is there as often as this.
const SIGN_OF_LIFE: Duration = Duration::from_millis(250);
/// What attaching, letting go and writing may take besides the session's time.
const SLACK: Duration = Duration::from_secs(60);
/// After it was told to end it has so long, and after it was asked to by a signal so long again.
const PATIENCE: Duration = Duration::from_secs(10);
/// As many of its last lines are kept.
const KEPT: usize = 20;

/// Why a session ended before its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Halted {
    /// The condition that held, if it was one.
    pub guard: Option<String>,
    pub why: String,
    /// Whether it is only that there was as much delay as there may be.
    pub is_spent: bool,
    /// When it was to end, on the monotonic clock.
    pub asked_ns: u64,
    /// How long it took until no thread was delayed, in milliseconds; none if some still were when that was last looked at.
    pub still_after_ms: Option<f64>,
}

/// What has become of one.
#[derive(Debug)]
pub struct Outcome {
    /// Where it was written.
    pub path: PathBuf,
    /// From its begin to the end of everything.
    pub took: Duration,
    pub attached: bool,
    pub halted: Option<Halted>,
    pub experiments: u64,
    pub delayed: Duration,
    /// In its own words, if it failed.
    pub error: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    told: Receiver<Value>,
    /// The lines of its standard error.
    said: Receiver<String>,
    /// The last ones of these.
    last_lines: VecDeque<String>,
    path: PathBuf,
    begun: Instant,
    length: Duration,
    signed: Instant,
    /// When it was told to end, and how often it was asked by a signal since.
    halting: Option<(Instant, u32)>,
    attached: bool,
    halted: Option<Halted>,
    recorded: Option<(u64, Duration)>,
    /// What has gone wrong when the service was let go.
    harm: Option<String>,
}

impl Session {
    /// Begins one of a length, in which threads may be delayed for so long.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn begin(
        options: &Options,
        service: &Service,
        path: &Path,
        (length, delay): (Duration, Duration),
    ) -> std::io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("whatif").args(["attach", "--ordered", "--quiet", "--duration"]);
        command.arg(format!("{:.3}", length.as_secs_f64()));
        let percent = |part: f64| format!("{:.6}%", 100.0 * part);
        let delay = (delay.as_secs_f64() / length.as_secs_f64()).clamp(1e-6, 1.0);
        command.args(["--most-delay", &percent(delay), "--most-speedup", &percent(options.most_speedup)]);
        let guards: Vec<String> = service.guards.iter().map(|guard| guard.text.clone()).collect();
        for (option, values) in [
            ("--point", &service.points),
            ("--latency", &service.latencies),
            ("--scope", &service.scopes),
            ("--binary", &service.binaries),
            ("--guard", &guards),
        ] {
            command.args(values.iter().map(|value| format!("{option}={value}")));
        }
        let (option, what) = &service.which;
        command.arg(format!("{option}={what}")).arg("--output").arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let ((tells, told), (says, said)) = (channel(), channel());
        lines(output, move |line| drop(serde_json::from_str(&line).map(|value| tells.send(value))))?;
        lines(errors, move |line| drop(says.send(line)))?;
        let now = Instant::now();
        Ok(Self {
            child,
            input,
            told,
            said,
            last_lines: VecDeque::new(),
            path: path.to_owned(),
            begun: now,
            length,
            signed: now,
            halting: None,
            attached: false,
            halted: None,
            recorded: None,
            harm: None,
        })
    }

    /// Has it end at once. `guard`: the condition that holds, if it is one.
    pub fn halt(&mut self, why: &str, guard: Option<&str>) {
        if self.halting.is_none() {
            self.halting = Some((Instant::now(), 0));
            self.tell(&json!({"halt": why, "guard": guard}).to_string());
        }
    }

    /// Whether it was told to end.
    pub fn is_halting(&self) -> bool {
        self.halting.is_some()
    }

    fn tell(&mut self, line: &str) {
        // One that has ended hears nothing.
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// Looks how it is, and tells it to go on; what has become of it when it has ended.
    pub fn step(&mut self) -> Option<Outcome> {
        self.hear();
        match self.child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Some(self.ended(Ok(status))),
            Err(error) => return Some(self.ended(Err(error.to_string()))),
        }
        if self.signed.elapsed() >= SIGN_OF_LIFE {
            self.signed = Instant::now();
            self.tell("");
        }
        if self.halting.is_none() && self.begun.elapsed() > self.length + SLACK {
            self.halt("the session does not end by itself", None);
        }
        if let Some((since, asked)) = self.halting
            && since.elapsed() > PATIENCE * (asked + 1)
        {
            // Its guardian lets the service go in either case.
            let signal = if asked == 0 { Signal::TERM } else { Signal::KILL };
            let _ = kill_process(Pid::from_child(&self.child), signal);
            self.halting = Some((since, asked + 1));
        }
        None
    }

    fn hear(&mut self) {
        while let Ok(line) = self.told.try_recv() {
            self.take(&line);
        }
        while let Ok(line) = self.said.try_recv() {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: String) {
        self.last_lines.push_back(line);
        if self.last_lines.len() > KEPT {
            self.last_lines.pop_front();
        }
    }

    fn take(&mut self, line: &Value) {
        self.attached |= line["attached"].is_u64();
        if let Value::Object(halted) = &line["halted"] {
            let word = |name: &str| halted.get(name).and_then(Value::as_str).map(str::to_owned);
            self.halted = Some(Halted {
                guard: word("guard"),
                why: word("why").unwrap_or_default(),
                asked_ns: halted.get("asked_ns").and_then(Value::as_u64).unwrap_or(0),
                is_spent: halted.get("is_spent") == Some(&Value::Bool(true)),
                still_after_ms: halted.get("still_after_ns").and_then(Value::as_f64).map(|ns| ns / 1e6),
            });
        }
        if let Value::Object(recorded) = &line["recorded"] {
            let number = |name: &str| recorded.get(name).and_then(Value::as_u64).unwrap_or(0);
            self.recorded = Some((number("experiments"), Duration::from_nanos(number("delayed_ns"))));
            self.harm = recorded.get("harm").and_then(Value::as_str).map(str::to_owned);
        }
    }

    fn ended(&mut self, status: Result<ExitStatus, String>) -> Outcome {
        // What it has said last may be on its way through the threads that read it, which end with its pipes.
        let until = Instant::now() + PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok(line) = self.told.recv_timeout(left()) {
            self.take(&line);
        }
        while let Ok(line) = self.said.recv_timeout(left()) {
            self.keep(line);
        }
        let failed = match &status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(status.to_string()),
            Err(why) => Some(why.clone()),
        };
        let (experiments, delayed) = self.recorded.unwrap_or_else(|| delayed_by(&self.path));
        // Too few for an answer of its own are something all the same; one that died is a failure whatever it had.
        let is_dead = status.as_ref().map_or(true, |status| status.code().is_none());
        let failed = failed.filter(|_| experiments == 0 || is_dead);
        Outcome {
            path: self.path.clone(),
            took: self.begun.elapsed(),
            attached: self.attached,
            halted: self.halted.take(),
            experiments,
            delayed,
            error: self.harm.take().or_else(|| failed.map(|status| self.words().unwrap_or(status))),
        }
    }

    /// What it has said last, as one line.
    fn words(&self) -> Option<String> {
        let begin = self.last_lines.iter().rposition(|line| line.starts_with("whatif: "))?;
        let words: Vec<&str> = self.last_lines.range(begin..).map(|line| line.trim()).collect();
        Some(words.join(" ").trim_start_matches("whatif: ").to_owned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It ends with its input.
        self.input = None;
        let _ = self.child.try_wait();
    }
}

/// Experiments and delay of a session that was killed, as far as they were written.
fn delayed_by(path: &Path) -> (u64, Duration) {
    let rows = profile::Recording::open(path).and_then(|recording| recording.rows());
    rows.map_or((0, Duration::ZERO), |rows| {
        let required = rows.windows.iter().map(|window| window.required.get()).sum();
        (rows.windows.len() as u64 / 2, Duration::from_nanos(required))
    })
}

/// Hands on what is read, line by line, until there is no more.
fn lines(
    from: Option<impl Read + Send + 'static>,
    mut to: impl FnMut(String) + Send + 'static,
) -> std::io::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let read = move || BufReader::new(from).lines().map_while(Result::ok).for_each(&mut to);
    std::thread::Builder::new().name("session".into()).spawn(read).map(drop)
}
