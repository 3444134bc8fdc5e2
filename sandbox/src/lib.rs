//! What integration tests and `bench accept` share: compiling the small programs in `crates/whatif/tests/programs`, running
//! them with and without the profiler, and reading recordings.
//!
//! # Constraints
//!
//! * Nothing here waits for a time and hopes: what is waited for is an event, and a limit that no healthy run comes near turns a
//!   hang into a failure.
//! * All functions panic where something goes wrong, because that is how tests fail.
//!
//! # What it does not do
//!
//! It judges nothing that is measured: that is for checks of `bench accept`.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panics")]

mod clients;
mod collected;
mod compile;
mod copy;
mod ended;
mod place;
mod recorded;
mod said;

pub use clients::with_clients;
pub use collected::{answer, between, interpreters, link, says_there_is_nothing, stacks};
pub use compile::{
    compiled, compiles, go_program, go_program_as, have, other_go_programs, program, program_as, program_by,
    static_program, target, target_as, target_by, without_preloading,
};
pub use copy::{copy_to, write_script};
pub use ended::{Ended, HANG, NO_ANSWER, run, run_with};
pub use place::{scratch, use_whatif, whatif, workspace};
pub use recorded::{ENOUGH, samples_of, visits_of};
pub use said::{remark, skip};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many descriptors of perf events a process has.
pub fn perf_events(pid: u32) -> usize {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    files.filter(|file| file.to_string_lossy().contains("perf_event")).count()
}

/// A working folder, gone with the test.
#[derive(Debug)]
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// Makes a folder.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir_in(scratch()).unwrap() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// A command that runs in the folder, in the environment that all of them share.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder())
            .env("XDG_CACHE_HOME", scratch().join("cache"))
            .env_remove("COLUMNS")
            .env_remove("LD_PRELOAD")
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("WHATIF_REGION");
        command
    }

    /// The `whatif` command.
    #[must_use]
    pub fn whatif(&self) -> Command {
        self.command(place::whatif())
    }

    /// The recording of [`profiling`](Self::profiling).
    pub fn recording(&self) -> PathBuf {
        self.path("recording.db")
    }

    /// What is in the recording.
    #[track_caller]
    pub fn rows(&self) -> profile::Rows {
        profile::Recording::open(&self.recording()).unwrap().rows().unwrap()
    }

    /// `whatif run`, quiet, into [`recording`](Self::recording).
    pub fn profiling(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.whatif();
        command.args(["run", "-q", "-o"]).arg(self.recording()).args(options);
        command.arg("--").arg(program).args(arguments);
        command
    }

    /// Runs [`profiling`](Self::profiling).
    #[track_caller]
    pub fn profile(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
        run(self.profiling(options, program, arguments))
    }

    /// Runs a program alone.
    #[track_caller]
    pub fn native(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = self.command(program);
        command.args(arguments);
        run(command)
    }

    /// The report on the recording.
    #[track_caller]
    pub fn report(&self) -> serde_json::Value {
        let mut command = self.whatif();
        command.arg("report").arg(self.recording()).arg("--json");
        let ended = run(command).assert_code(0);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout))
    }

    /// What `report --explain` says of a region.
    #[track_caller]
    pub fn explained(&self, region: &str) -> serde_json::Value {
        let mut command = self.whatif();
        command.args(["report", "--explain", region, "--json"]).arg(self.recording());
        serde_json::from_str(&run(command).assert_code(0).stdout).unwrap()
    }

    /// The windows of the recording, one per line, to be shown when a test fails.
    #[track_caller]
    pub fn windows(&self) -> String {
        let rows = profile::Recording::open(&self.recording()).unwrap().rows().unwrap();
        rows.windows.iter().map(|window| format!("{window:?}\n")).collect()
    }

    /// Samples of a region in all sessions of the recording, whether experiments were about it or not.
    #[track_caller]
    pub fn samples(&self, region: &str) -> u64 {
        samples_of(&profile::Recording::open(&self.recording()).unwrap().rows().unwrap(), region)
    }

    /// Runs the program without the profiler and with it: the same end, the same output.
    #[track_caller]
    pub fn compare(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Ended {
        let native = self.native(program, arguments);
        let profiled = self.profile(options, program, arguments);
        same(&native, &profiled);
        profiled
    }

    /// [`compare`](Self::compare) for a program that must succeed, under constant delays.
    #[track_caller]
    pub fn unharmed(&self, program: &Path, arguments: &[&str]) -> Ended {
        let profiled = self.compare(DELAYS, program, arguments);
        assert!(profiled.stdout.ends_with("done\n"), "{profiled:#?}");
        profiled
    }
}

/// A thread that does not run `hot` is paused most of the time. (Programs with `common.h` have that function, and
/// a thread that runs it.)
pub const DELAYS: &[&str] = &["--region", "hot", "--speedup", "50,100"];

/// The same end and the same output. A program that succeeds may not have run for long enough for an
/// answer, which a status of our own reports.
#[track_caller]
pub fn same(native: &Ended, profiled: &Ended) {
    assert_eq!(native.stdout, profiled.stdout, "{native:#?}\n{profiled:#?}");
    assert_eq!(native.signal(), profiled.signal(), "{native:#?}\n{profiled:#?}");
    if native.code() == Some(0) {
        assert!(profiled.is_success(), "{profiled:#?}");
    } else {
        assert_eq!(native.code(), profiled.code(), "{native:#?}\n{profiled:#?}");
    }
}

/// A region of a report.
#[track_caller]
pub fn region<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let regions = report["regions"].as_array().unwrap();
    regions.iter().find(|region| region["name"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

/// A progress point of a report.
#[track_caller]
pub fn point<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let points = report["points"].as_array().unwrap();
    points.iter().find(|point| point["name"] == name).unwrap_or_else(|| panic!("no {name} in {report:#}"))
}
