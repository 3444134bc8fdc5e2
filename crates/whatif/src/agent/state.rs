//! State: what the agent does and has done, in a file of the database's folder; and `whatif agent status`, which shows it.

use super::cli;
use crate::show;
use anyhow::{Context as _, Result, bail};
use fleet::Order;
use profile::{counted, printable};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

/// The file.
const NAME: &str = "agent.json";
/// No state is larger.
const LARGEST: u64 = 16 << 20;
/// One that is older than this is of an agent that is stuck or gone.
const STALE: u64 = 60;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub pid: u32,
    pub version: String,
    pub started_unix: u64,
    pub written_unix: u64,
    /// Whether the agent has ended in order.
    pub ended: bool,
    /// Parts of the time, from 0 to 1.
    pub duty: f64,
    pub most_delay: f64,
    pub session_s: f64,
    /// Why no experiment may be made.
    pub stopped: Option<String>,
    pub server: Option<ServerState>,
    pub spool: SpoolState,
    pub companions: Vec<CompanionState>,
    pub services: Vec<ServiceState>,
}

/// The server that is asked whether experiments may be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerState {
    pub url: String,
    pub answered_unix: Option<u64>,
    pub error: Option<String>,
    pub last_order: Option<Order>,
}

/// Recordings that wait to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpoolState {
    pub files: u64,
    pub bytes: u64,
    pub max_bytes: u64,
    /// Those that a server has, and that were removed to make room.
    pub sent_files: u64,
    pub sent_bytes: u64,
    /// Those that no server has, and that were removed for lack of room.
    pub removed_files: u64,
    pub removed_bytes: u64,
}

/// The collector, or the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompanionState {
    pub name: String,
    pub running: bool,
    pub ends: u32,
    pub last_error: Option<String>,
}

/// A service; sums are those of all agents that had this folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceState {
    pub name: String,
    pub which: String,
    /// `waiting`, `health`, `session` or `back-off`.
    pub doing: String,
    pub sessions: u64,
    /// Sessions without an experiment because something went wrong.
    pub failed: u64,
    /// Moments that passed without a session, and why the last one did.
    pub skipped: u64,
    pub last_skip: Option<String>,
    pub experiments: u64,
    /// For how long there was an agent, for how long it was attached to, and how long its threads were delayed, each of them.
    pub watched_s: f64,
    pub attached_s: f64,
    pub delayed_s: f64,
    /// Delay that has to come in again before there is more.
    pub owed_s: f64,
    pub last_error: Option<String>,
    /// What ended the last session that ended before its time.
    pub last_halt: Option<Halt>,
    pub breaches: u64,
    pub last_breaches: Vec<Breach>,
    /// How long it is left alone.
    pub back_off_s: f64,
    pub back_off_steps: u32,
    pub back_off_until_unix: Option<u64>,
    /// When all this was the case.
    pub at_unix: u64,
}

/// A session ended before its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Halt {
    pub why: String,
    /// When that was said, on the machine's monotonic clock.
    pub asked_monotonic_ns: u64,
    /// As in [`Breach`].
    pub still_after_ms: Option<f64>,
}

/// A guard held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breach {
    pub at_unix: u64,
    pub guard: String,
    pub seen: String,
    /// How long it took until no thread was delayed; none if some still were when that was last looked at.
    pub still_after_ms: Option<f64>,
    pub back_off_s: f64,
}

impl State {
    /// What an agent before has left; nothing if there is none, or it cannot be understood.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&storage::read_regular(&folder.join(NAME), LARGEST).ok()?).ok()
    }

    /// Writes it, in place of what was there.
    ///
    /// # Errors
    /// It cannot be written; what was there stays.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let new = folder.join(".agent.json.new");
        // One that a killed agent left behind, or a link that another user has put there.
        let _ = std::fs::remove_file(&new);
        let text = serde_json::to_string_pretty(self)?;
        let mut options = OpenOptions::new();
        storage::open_regular(&new, options.write(true).create_new(true).mode(0o640))
            .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
            .and_then(|()| std::fs::rename(&new, folder.join(NAME)))
            .inspect_err(|_| drop(std::fs::remove_file(&new)))
    }

    fn words(&self, now: u64) -> String {
        let mut text = String::new();
        let age = now.saturating_sub(self.written_unix);
        let is = match (self.ended, age > STALE) {
            (true, _) => format!("has ended {}", ago(age)),
            (false, true) => format!("has said nothing for {} (was it killed?)", span(age as f64)),
            (false, false) => format!(
                "runs (process {}, for {})",
                self.pid,
                span(now.saturating_sub(self.started_unix) as f64)
            ),
        };
        let _ = writeln!(
            text,
            "the agent {is}; {} of the time, {} of delay at most",
            part(self.duty),
            part(self.most_delay)
        );
        if let Some(why) = &self.stopped {
            let _ = writeln!(text, "no experiments: {}", printable(why));
        }
        if let Some(server) = &self.server {
            let answered = match server.answered_unix {
                Some(at) => format!("has answered {}", ago(now.saturating_sub(at))),
                None => "has not answered yet".to_owned(),
            };
            let _ = write!(text, "server {}: {answered}", printable(&server.url));
            let _ = match &server.error {
                Some(error) => {
                    writeln!(text, "; its last word holds, for now: {}", printable(&error.replace('\n', " ")))
                }
                None => writeln!(text),
            };
        }
        for companion in &self.companions {
            let is = if companion.running { "runs" } else { "does not run" };
            let error =
                companion.last_error.iter().map(|error| format!("; last time it {}", printable(error)));
            let _ = writeln!(text, "{}: {is}{}", companion.name, error.collect::<String>());
        }
        let SpoolState { files, bytes, max_bytes, sent_files, removed_files, .. } = self.spool;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let _ =
            write!(text, "recordings: {files}, {:.1} MB of {:.0}", megabytes(bytes), megabytes(max_bytes));
        let were = |number: u64| if number == 1 { "was" } else { "were" };
        if sent_files > 0 {
            let _ = write!(text, "; {sent_files} that {} sent made room", were(sent_files));
        }
        let _ = match removed_files {
            0 => writeln!(text),
            removed => {
                writeln!(text, "; {removed} {} removed unsent for lack of room (--max-spool)", were(removed))
            }
        };
        for service in &self.services {
            service.words(&mut text, now);
        }
        text
    }
}

impl ServiceState {
    /// The part of the time that it was attached to, and that it was delayed.
    fn spent(&self) -> (f64, f64) {
        let all = self.watched_s.max(1.0);
        (self.attached_s / all, self.delayed_s / all)
    }

    fn words(&self, text: &mut String, now: u64) {
        let doing = match self.doing.as_str() {
            "session" => "is being profiled".to_owned(),
            "health" => "its health is asked for".to_owned(),
            "back-off" => format!("is left alone for another {}", span(self.back_off_s)),
            _ => "waits for its next moment".to_owned(),
        };
        let (duty, delay) = self.spent();
        let _ = writeln!(text, "\n{} ({}): {doing}", printable(&self.name), printable(&self.which));
        let _ = writeln!(
            text,
            "  {}, {}; attached {} of {} ({}), delayed {}",
            counted(self.sessions, "session"),
            counted(self.experiments, "experiment"),
            span(self.attached_s),
            span(self.watched_s),
            part(duty),
            part(delay)
        );
        if self.skipped > 0 {
            let why = self.last_skip.iter().map(|why| format!("; the last one: {}", printable(why)));
            let _ = writeln!(
                text,
                "  {} passed without a session{}",
                counted(self.skipped, "moment"),
                why.collect::<String>()
            );
        }
        if let Some(error) = &self.last_error {
            let _ = writeln!(
                text,
                "  {} failed; the last one: {}",
                counted(self.failed, "session"),
                printable(error)
            );
        }
        if self.breaches > 0 {
            let _ = writeln!(text, "  {} a guard held:", counted(self.breaches, "time"));
        }
        for breach in self.last_breaches.iter().rev().take(3) {
            let took = breach.still_after_ms.map(|ms| format!(", {ms:.1} ms later no thread was delayed"));
            let _ = writeln!(
                text,
                "    {}: {}{}",
                ago(now.saturating_sub(breach.at_unix)),
                printable(&breach.seen),
                took.unwrap_or_default()
            );
        }
    }
}

/// `0.2 %`.
fn part(part: f64) -> String {
    let text = format!("{:.2}", 100.0 * part);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    format!("{short} %")
}

/// A length of time, roughly.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

fn ago(seconds: u64) -> String {
    format!("{} ago", span(seconds as f64))
}

/// `whatif agent status`.
pub fn status(args: &cli::Status) -> Result<()> {
    let folder = cycles::default_folder(args.folder.db.as_deref())?;
    let path = folder.join(NAME);
    let bytes = match storage::read_regular(&path, LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "no agent has written into {}\n  start one with: whatif agent --db {0}, or name another folder with --db",
            folder.display()
        ),
        Err(error) => {
            bail!("{} cannot be read: {error}\n  use sudo, or name another folder with --db", path.display())
        }
    };
    let state: State = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is damaged; the agent's next write repairs it", path.display()))?;
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&state)?),
        false => state.words(unix()),
    };
    show::print(&text)
}

/// Now, in seconds since 1970.
pub fn unix() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let breach = Breach {
            at_unix: 9_000,
            guard: "throughput < 80%".into(),
            seen: "throughput over 1 s was 1.0/s".into(),
            still_after_ms: Some(12.3),
            back_off_s: 300.0,
        };
        let service = ServiceState {
            name: "shop.service".into(),
            which: "--unit shop.service".into(),
            doing: "back-off".into(),
            sessions: 12,
            experiments: 340,
            skipped: 2,
            last_skip: Some("/etc/stop exists (--kill-switch)".into()),
            watched_s: 18_000.0,
            attached_s: 360.0,
            delayed_s: 18.0,
            breaches: 1,
            last_breaches: vec![breach],
            back_off_s: 240.0,
            ..ServiceState::default()
        };
        State {
            pid: 7,
            started_unix: 1_000,
            written_unix: 9_990,
            duty: 0.02,
            most_delay: 0.002,
            stopped: Some("/etc/stop exists".into()),
            server: Some(ServerState {
                url: "http://h:8123".into(),
                error: Some("away\n  curl".into()),
                ..ServerState::default()
            }),
            spool: SpoolState {
                files: 3,
                bytes: 1_500_000,
                max_bytes: 256_000_000,
                sent_files: 1,
                sent_bytes: 5,
                removed_files: 4,
                removed_bytes: 9,
            },
            companions: vec![CompanionState {
                name: "the collector".into(),
                running: true,
                ..CompanionState::default()
            }],
            services: vec![service],
            ..State::default()
        }
    }

    #[test]
    fn it_is_said_in_words() {
        let text = state().words(10_000);
        for words in [
            "the agent runs (process 7, for 2.5 h); 2 % of the time, 0.2 % of delay at most",
            "no experiments: /etc/stop exists",
            "server http://h:8123: has not answered yet; its last word holds, for now: away",
            "the collector: runs",
            "recordings: 3, 1.5 MB of 256; 1 that was sent made room; 4 were removed unsent",
            "shop.service (--unit shop.service): is left alone for another 4 min",
            "12 sessions, 340 experiments; attached 6 min of 5.0 h (2 %), delayed 0.1 %",
            "17 min ago: throughput over 1 s was 1.0/s, 12.3 ms later no thread was delayed",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        let ended = State { ended: true, ..state() };
        assert!(ended.words(10_000).starts_with("the agent has ended 10 s ago"));
        assert!(state().words(20_000).contains("was it killed?"));
    }

    #[test]
    fn it_is_read_as_it_was_written_and_so_are_older_ones() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::read(folder.path()), None);
        state().write(folder.path()).unwrap();
        state().write(folder.path()).unwrap();
        assert_eq!(State::read(folder.path()), Some(state()));
        std::fs::write(folder.path().join(NAME), "{\"pid\": 3, \"unknown\": 1}").unwrap();
        assert_eq!(State::read(folder.path()).unwrap().pid, 3);
    }
}
