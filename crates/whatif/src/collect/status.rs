//! How the collector is: what it says of itself after every write, and `whatif status`.

use super::cli;
use super::options::Options;
use crate::show;
use anyhow::{Context as _, Result, bail};
use archive::{EpochId, KeptNames, Setting};
use collect::{Collected, Collector, Interpreted, Lapses, NamesRead, Tally, Unwound};
use cycles::default_folder;
use report::cycles::Answer as _;
use serde_json::{Value, json};
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;

/// No status is longer, in bytes.
const LARGEST: u64 = 1 << 20;
/// The file in the folder.
const NAME: &str = "status.json";

/// CPU time, in nanoseconds, and samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    machine: f64,
    own: f64,
    kernel: f64,
    /// Samples that there was no room for.
    no_room: u64,
    expected: u64,
    lost: u64,
    surplus: u64,
    excess: u64,
    unwound: Unwound,
    /// What was left out of labels.
    lapses: Lapses,
    interpreted: Interpreted,
    /// How often the kernel allowed no more samples for a moment.
    throttled: u64,
}

/// What the collector says of itself.
#[derive(Debug)]
pub struct State {
    fixed: Value,
    last: Value,
    /// Since the start.
    sums: Sums,
    problem: Option<String>,
    waiting: usize,
    given_up: u64,
    names: NamesRead,
    max_symbols: u64,
}

impl State {
    pub fn new(options: &Options, setting: &Setting, epoch: EpochId, collector: &Collector) -> Self {
        let cost = collector.cost_of_a_sample();
        let fixed = json!({
            "pid": std::process::id(),
            "started_unix": super::service::now().0,
            "epoch": epoch.get(),
            "scope": setting.scope,
            "events": setting.events,
            "sampler": setting.sampler,
            "mode": setting.mode,
            "epoch_labels": setting.labels,
            "callers": super::service::callers_in_words(collector.callers().0),
            "reads_python": collector.reads_interpreters(),
            "rate_asked_hz": setting.rate_hz,
            "interval_s": options.interval,
            "max_cpu": options.budget.cpu,
            "kernel_cost_of_a_sample_ns": cost.map(|cost| cost.0),
        });
        let (sums, names, max_symbols) = (Sums::default(), NamesRead::default(), options.max_symbols);
        Self { fixed, last: Value::Null, sums, problem: None, waiting: 0, given_up: 0, names, max_symbols }
    }

    /// What the last interval brought.
    pub fn counted(&mut self, collected: &Collected, rate_hz: f64, a_sample: Option<wire::Nanos>) {
        self.fixed["kernel_cost_of_a_sample_ns"] = a_sample.map(|cost| cost.0).into();
        self.sums.machine += collected.length.get() as f64 * f64::from(collected.cpus);
        self.sums.own += collected.own_cpu.get() as f64;
        self.sums.kernel += collected.kernel_cpu.get() as f64;
        self.sums.no_room += collected.books.iter().map(|books| books.no_room).sum::<u64>();
        let sum = |of: fn(&Tally) -> u64| collected.books.iter().map(of).sum::<u64>();
        self.sums.expected += sum(|books| books.expected);
        self.sums.lost += sum(Tally::lost);
        self.sums.surplus += sum(|books| books.surplus);
        self.sums.excess += sum(|books| books.excess);
        self.sums.unwound += collected.unwound;
        self.sums.lapses += collected.lapses;
        self.sums.interpreted += collected.interpreted;
        self.sums.throttled += collected.books.iter().map(|books| books.throttled).sum::<u64>();
        let books = |place: usize| {
            let books = collected.books.get(place).copied().unwrap_or_default();
            json!({
                "expected": books.expected, "stored": books.stored, "unknown": books.unknown,
                "lost": books.lost(), "no_room": books.no_room, "surplus": books.surplus, "idle": books.idle,
                "throttled": books.throttled, "covered_s": books.covered.0 as f64 / 1e9,
            })
        };
        self.last = json!({
            "begin_unix": collected.start.0,
            "length_s": collected.length.as_secs_f64(),
            "books": (0..collected.books.len()).map(books).collect::<Vec<_>>(),
            "rate_hz": rate_hz,
            "resident_bytes": collected.resident,
        });
    }

    /// Which names were read since the start.
    pub fn names(&mut self, names: NamesRead) {
        self.names = names;
    }

    /// What has not been written.
    pub fn waiting(&mut self, intervals: usize, given_up: u64) {
        (self.waiting, self.given_up) = (intervals, given_up);
    }

    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub fn set_problem(&mut self, problem: Option<String>) {
        self.problem = problem;
    }

    /// Says so in the folder. On a full disk it does without.
    pub fn write(&self, folder: &Path) {
        let mut whole = self.fixed.clone();
        whole["last"] = self.last.clone();
        let part = |sum: f64| sum / self.sums.machine.max(1.0);
        whole["own_cpu"] = part(self.sums.own).into();
        whole["no_room"] = self.sums.no_room.into();
        let Sums { expected, lost, surplus, excess, .. } = self.sums;
        whole["balance"] =
            json!({ "expected": expected, "lost": lost, "surplus": surplus, "excess": excess });
        let Unwound { whole: to_the_root, by_frame_pointers, short, unknown, deep } = self.sums.unwound;
        whole["stacks"] = json!({
            "whole": to_the_root, "by_frame_pointers": by_frame_pointers, "truncated": {
                "copy_too_short": short, "no_unwind_table": unknown, "too_deep": deep,
            },
        });
        let Lapses { folded_names, unnumbered, refused_labels, unread } = self.sums.lapses;
        whole["labels"] = json!({
            "thread_names_taken_together": folded_names, "processes_without_number": unnumbered,
            "user_labels_refused": refused_labels, "environments_unread": unread,
        });
        let NamesRead { kept, in_part, nameless, gone, no_room, not_written, never_answered, waiting, cpu } =
            self.names;
        whole["symbols"] = json!({
            "max_bytes": self.max_symbols, "cpu_s": cpu.0 as f64 / 1e9, "read": kept, "in_part": in_part, "left_out": {
                "no_symbols": nameless, "gone": gone, "no_room": no_room, "not_written": not_written,
                "never_answered": never_answered, "waiting": waiting,
            },
        });
        let Interpreted {
            named,
            mismatched,
            other_threads,
            unnamed_frames,
            unknown_versions,
            not_allowed,
            given_up,
        } = self.sums.interpreted;
        whole["python"] = json!({
            "named": named, "mismatched": mismatched, "other_threads": other_threads, "unnamed_frames": unnamed_frames,
            "processes": {
                "unknown_version": unknown_versions, "not_allowed": not_allowed, "given_up": given_up,
            },
        });
        whole["throttled"] = self.sums.throttled.into();
        whole["kernel_cpu"] = part(self.sums.kernel).into();
        whole["problem"] = self.problem.clone().into();
        whole["waiting_intervals"] = self.waiting.into();
        whole["given_up_samples"] = self.given_up.into();
        let new = folder.join(".status.json.new");
        // One that a killed collector left behind, or a link that another user has put there.
        let _ = std::fs::remove_file(&new);
        let written = storage::open_regular(&new, std::fs::OpenOptions::new().write(true).create_new(true))
            .and_then(|mut file| file.write_all(format!("{whole:#}\n").as_bytes()))
            .and_then(|()| std::fs::rename(&new, folder.join(NAME)));
        if written.is_err() {
            let _ = std::fs::remove_file(new);
        }
    }

    /// Nothing is collected any more.
    pub fn end(&mut self, folder: &Path) {
        self.fixed["ended"] = true.into();
        self.write(folder);
    }
}

/// `whatif status`.
pub fn status(args: &cli::Status) -> Result<()> {
    if args.history {
        let history = cycles::history(args.folder.db.as_deref(), &args.since)?;
        return match args.json {
            true => show::print(&history.json()),
            false => show::print(&history.draw(show::style(std::io::stdout().is_terminal(), 0))),
        };
    }
    let folder = default_folder(args.folder.db.as_deref())?;
    let read = storage::read_regular(&folder.join(NAME), LARGEST);
    let text = match read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "no collector has written into {}\n  start one with: whatif collect --db {0}, or name another folder with --db",
            folder.display()
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(
            "you may not read {}\n  use sudo, let your group read it (docs/continuous.md), or name another folder with --db",
            folder.display()
        ),
        Err(error) => bail!(
            "{} cannot be read: {error}\n  name the folder of a database with --db",
            folder.join(NAME).display()
        ),
    };
    let mut state: Value = serde_json::from_str(&text).with_context(|| {
        format!("{} is damaged; the collector's next write repairs it", folder.join(NAME).display())
    })?;
    let bytes = size_of(&folder);
    state["running"] = is_running(&state).into();
    state["folder"] = folder.display().to_string().into();
    state["folder_bytes"] = bytes.into();
    if state["symbols"].is_object() {
        let size = KeptNames::of(&folder, 0).size();
        (state["symbols"]["files"], state["symbols"]["bytes"]) = (size.tables.into(), size.bytes.into());
    }
    if args.json {
        return show::print(&format!("{state:#}\n"));
    }
    show::print(&words(&state, super::service::now().0))
}

/// Whether the process that wrote the state still collects. (Asking for the writer's lock could keep a writer out.)
fn is_running(state: &Value) -> bool {
    let Some(pid) = state["pid"].as_u64() else { return false };
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    state["ended"] != true && line.split(|byte| *byte == 0).any(|word| word == b"collect")
}

/// Bytes of everything in a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// Of a collector that has not ended in order.
const UNSEEN: &str = " as far as can be seen here (the collector has not ended in order: if it was killed, or the machine went off, what it had \
     counted since its last write is gone)";

fn words(state: &Value, now: i64) -> String {
    // Another user may have written the file.
    let text = |value: &Value| profile::printable(value.as_str().unwrap_or("?")).into_owned();
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let ago = |value: &Value| age(now - value.as_i64().unwrap_or(now));
    let mut lines = vec![match state["running"].as_bool() {
        Some(true) => format!("collecting for {} (process {})", ago(&state["started_unix"]), state["pid"]),
        _ => format!(
            "not collecting{}; start it with: whatif collect --db {}",
            if state["ended"] == true { "" } else { UNSEEN },
            text(&state["folder"])
        ),
    }];
    let events: Vec<String> = state["events"].as_array().into_iter().flatten().map(&text).collect();
    lines.push(format!(
        "{}: {} at {} Hz per CPU, {}, epoch {}; by {}",
        scope_in_words(&text(&state["scope"])),
        events.join(", "),
        number(&state["rate_asked_hz"]),
        match (state["callers"].is_string(), state["mode"] == "pc") {
            (true, _) => text(&state["callers"]),
            (false, true) => "without callers".to_owned(),
            (false, false) => "with callers".to_owned(),
        },
        state["epoch"],
        text(&state["sampler"]),
    ));
    let last = &state["last"];
    if last.is_null() {
        lines.push(format!("nothing written yet: that happens every {} s", state["interval_s"]));
    } else {
        lines.push(cost(state));
        lines.push(format!(
            "last interval: began {} ago, {:.0} s, {} Hz per CPU",
            ago(&last["begin_unix"]),
            number(&last["length_s"]),
            number(&last["rate_hz"]).round(),
        ));
        for (event, books) in events.iter().zip(last["books"].as_array().into_iter().flatten()) {
            lines.push(format!(
                "  {event}: {} expected = {} stored ({} idle) + {} unknown + {} lost ({} for lack of room; the CPU did not take \
                 the others in time)",
                books["expected"], books["stored"], books["idle"], books["unknown"], books["lost"], books["no_room"]
            ));
        }
    }
    lines.extend(stacks(&state["stacks"]));
    lines.extend(labels(&state["labels"]));
    lines.extend(names(&state["symbols"]));
    lines.extend(python(&state["python"]));
    let by_tables = state["callers"].as_str().is_some_and(|callers| callers.contains("unwind tables"));
    if state["reads_python"] == false && by_tables {
        lines.push(
            "Python's functions are not on stacks: only C functions of the interpreter; reading its frames takes BPF, for the whole machine\n  \
             run it as root, or as a service (whatif collect --print unit), on Linux 5.15 or later"
                .to_owned(),
        );
    }
    lines.extend(balance(&state["balance"]));
    if let Some(times @ 1..) = state["throttled"].as_u64() {
        lines.push(format!(
            "since the start the kernel has allowed no more samples {times} times, until its next tick: those are among the lost\n  \
             it allows as many as kernel.perf_event_max_sample_rate says, and lowers that itself; take fewer (--rate), or raise it:\n  \
             sudo sysctl kernel.perf_event_max_sample_rate=100000"
        ));
    }
    lines.push(format!(
        "database: {}, {:.1} MB",
        text(&state["folder"]),
        number(&state["folder_bytes"]) / 1e6
    ));
    if let Some(problem) = state["problem"].as_str() {
        lines.push(format!(
            "nothing can be stored: {problem}\n  {} intervals wait in memory, {} samples were given up",
            state["waiting_intervals"], state["given_up_samples"]
        ));
    }
    lines.join("\n") + "\n"
}

/// What collecting costs, in one figure and its parts.
fn cost(state: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let per_cent = |part: f64| format!("{:.2} %", 100.0 * part);
    let (own, kernel) = (number(&state["own_cpu"]), number(&state["kernel_cpu"]));
    let (all, of_kernel) = match state["kernel_cost_of_a_sample_ns"].is_null() {
        true => (format!("at least {}", per_cent(own)), "an unknown part".to_owned()),
        false => (per_cent(own + kernel), per_cent(kernel)),
    };
    format!(
        "uses {all} of this machine since then: {} the collector, {of_kernel} the kernel's sampling (budget {}); {:.0} MB of memory",
        per_cent(own),
        per_cent(number(&state["max_cpu"])),
        number(&state["last"]["resident_bytes"]) / 1e6,
    )
}

/// How the stacks of samples ended since the start, of those that were unwound.
fn stacks(state: &Value) -> Option<String> {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let (whole, truncated) = (count(&state["whole"]), &state["truncated"]);
    let kinds = [
        ("copy_too_short", "larger than their copies"),
        ("no_unwind_table", "without an unwind table at hand"),
        ("too_deep", "too deep"),
    ];
    let cut: u64 = kinds.iter().map(|(kind, _)| count(&truncated[kind])).sum();
    let all = whole + cut;
    let part = |count: u64| format!("{:.1} %", 100.0 * count as f64 / all as f64);
    let of = |(kind, words): &(&str, &str)| {
        let count = count(&truncated[kind]);
        (count > 0).then(|| format!("{} {words}", part(count)))
    };
    let parts: Vec<String> = kinds.iter().filter_map(of).collect();
    (all > 0).then(|| {
        format!(
            "stacks: {all} by unwind tables, {} of them whole{}; {} by frame pointers",
            part(whole),
            if cut > 0 { format!(" (truncated: {})", parts.join(", ")) } else { String::new() },
            count(&state["by_frame_pointers"])
        )
    })
}

/// What was left out of labels since the start.
fn labels(state: &Value) -> Option<String> {
    let kinds = [
        ("thread_names_taken_together", "names of threads were taken together"),
        ("processes_without_number", "processes were not kept apart by number"),
        ("user_labels_refused", "labels in WHATIF_LABELS were refused"),
        ("environments_unread", "environments could not be read"),
    ];
    let of = |(kind, words): &(&str, &str)| {
        let count = state[kind].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {words}"))
    };
    let parts: Vec<String> = kinds.iter().filter_map(of).collect();
    (!parts.is_empty()).then(|| format!("labels: {} (docs/collector.md says when)", parts.join(", ")))
}

/// Of how many files names are kept, and of which not.
fn names(state: &Value) -> Option<String> {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let left_out = [
        ("gone", "gone or not readable when their names were to be read"),
        ("no_symbols", "without symbols"),
        ("no_room", "for lack of room: allow more with --max-symbols"),
        ("not_written", "the disk did not take"),
        ("never_answered", "never answered"),
        ("waiting", "waiting to be read (a hundredth of a CPU for each user)"),
    ];
    let of = |(kind, words): &(&str, &str)| {
        let count = count(&state["left_out"][kind]);
        (count > 0).then(|| format!("{count} {words}"))
    };
    let left_out: Vec<String> = left_out.iter().filter_map(of).collect();
    let part = match count(&state["in_part"]) {
        0 => String::new(),
        part => format!(", {part} of them in part"),
    };
    match count(&state["max_bytes"]) {
        _ if state.is_null() => None,
        0 => Some("names: not kept (--max-symbols 0)".to_owned()),
        most => Some(format!(
            "names: kept of {} files, {:.1} MB of {:.0} MB; {} read since the start{part}{}",
            count(&state["files"]),
            count(&state["bytes"]) as f64 / 1e6,
            most as f64 / 1e6,
            count(&state["read"]),
            if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) }
        )),
    }
}

/// What became of the samples of processes that run Python since the start.
fn python(state: &Value) -> Option<String> {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let processes = &state["processes"];
    let kinds = [
        (&state["mismatched"], "samples whose frames do not belong to the C stack"),
        (&state["other_threads"], "samples of threads that the interpreter does not know"),
        (&state["unnamed_frames"], "frames without a name"),
        (&processes["unknown_version"], "processes of another version than 3.11, 3.12 and 3.13"),
        (&processes["not_allowed"], "processes that may not be read (CAP_SYS_PTRACE)"),
        (&processes["given_up"], "processes given up because their user has too many or too many functions"),
    ];
    let of =
        |(value, words): &(&Value, &str)| (count(value) > 0).then(|| format!("{} {words}", count(value)));
    let parts: Vec<String> = kinds.iter().filter_map(of).collect();
    let named = count(&state["named"]);
    let without = if parts.is_empty() { String::new() } else { format!(" (without: {})", parts.join(", ")) };
    (named > 0 || !parts.is_empty()).then(|| format!("Python: {named} samples with its functions{without}"))
}

/// That the books do not balance, by more than may be noise: each CPU's interval may be off by one, which is not counted.
fn balance(state: &Value) -> Option<String> {
    let count = |name: &str| state[name].as_u64().unwrap_or(0);
    let (surplus, excess) = (count("surplus"), count("excess"));
    let is_much = surplus + excess > 10 && (surplus + excess) as f64 > 0.001 * count("expected") as f64;
    is_much.then(|| {
        format!(
            "the books do not balance: since the start {surplus} samples more were taken than the event's counters called for, and \
             the kernel had no room for {excess} more than are missing\n  shares are right, CPU time may be off by as much; when it was: \
             whatif status --history"
        )
    })
}

/// Whose code is sampled.
pub fn scope_in_words(scope: &str) -> &str {
    if scope == "machine" { "the whole machine" } else { scope }
}

fn age(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_said_in_words() {
        let mut state = json!({
            "running": true, "pid": 42, "started_unix": 1000, "epoch": 3, "scope": "machine",
            "events": ["cpu-clock"], "sampler": "perf", "mode": "stacks", "rate_asked_hz": 97.0, "interval_s": 60,
            "kernel_cost_of_a_sample_ns": 9000,
            "max_cpu": 0.01, "folder": "/var/lib/whatif", "folder_bytes": 2_500_000, "last": null, "problem": null,
        });
        let text = words(&state, 1090);
        assert!(
            text.contains("collecting for 90 s (process 42)") && text.contains("nothing written yet"),
            "{text}"
        );
        state["last"] = json!({
            "begin_unix": 1030, "length_s": 60.0, "rate_hz": 97.0,
            "resident_bytes": 21_000_000,
            "books": [{"expected": 11640, "stored": 11630, "unknown": 2, "lost": 8, "no_room": 0, "idle": 9000}],
        });
        state["own_cpu"] = 0.0002.into();
        state["kernel_cpu"] = 0.0016.into();
        assert!(!words(&state, 1090).contains("max_sample_rate"));
        assert!(!words(&state, 1090).contains("names:"));
        // Another user may have written the file.
        state["sampler"] = "\u{1b}[2J\n\u{202e}".into();
        state["callers"] = "\u{7}".into();
        let text = words(&state, 1090);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        state["symbols"] = json!({
            "max_bytes": 200_000_000, "files": 12, "bytes": 1_500_000, "read": 9, "in_part": 1,
            "left_out": {"gone": 3, "no_symbols": 0, "no_room": 2, "waiting": 1},
        });
        state["throttled"] = 12.into();
        state["balance"] = json!({"expected": 100_000, "lost": 5, "surplus": 60, "excess": 30});
        assert!(!words(&state, 1090).contains("do not balance"), "noise");
        state["balance"]["excess"] = 300.into();
        state["problem"] = "the disk is full".into();
        state["running"] = false.into();
        let text = words(&state, 1090);
        for part in [
            "not collecting",
            "the whole machine: cpu-clock at 97 Hz",
            "uses 0.18 % of this machine since then: 0.02 % the collector, 0.16 % the kernel's",
            "11640 expected = 11630 stored (9000 idle) + 2 unknown + 8 lost (0 for",
            "no more samples 12 times",
            "names: kept of 12 files, 1.5 MB of 200 MB; 9 read since the start, 1 of them in part; left out: 3 gone",
            "2 for lack of room: allow more with --max-symbols, 1 waiting to be read",
            "the books do not balance: since the start 60 samples more",
            "nothing can be stored: the disk is full",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
