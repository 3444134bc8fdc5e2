//! Nothing is silent: every run without an answer has a status and a message of its own, and says what to do.

use crate::support::{NO_ANSWER, Sandbox, can_count, program, program_as, run, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A way in which there is no answer, or not the whole of it.
struct Case {
    /// What the kernel refuses (`programs/without.c`).
    without: &'static str,
    options: &'static [&'static str],
    /// How `failing.c` is compiled.
    compiled: &'static [&'static str],
    /// What the program does.
    does: &'static str,
    /// 0: there may be an answer, or none for want of time.
    status: i32,
    /// Of the stored warning; none if there is no recording.
    code: &'static str,
    /// On standard error, or in the warning if there is nothing on standard error.
    says: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        does: "sleeps",
        status: 95,
        code: "no-samples",
        says: &["too little CPU time", "work to do"],
        ..NOTHING
    },
    Case {
        options: &["--scope", "nosuch*"],
        status: 96,
        code: "nothing-in-scope",
        says: &["none of", "--scope GLOB"],
        ..NOTHING
    },
    Case {
        options: &["--region", "nosuch"],
        status: 2,
        says: &["no code at --region nosuch in failing-", "--binary GLOB"],
        ..NOTHING
    },
    Case { options: &["--region", "hit"], status: 2, says: &["similar", "hot"], ..NOTHING },
    Case {
        options: &["--region", "hot", "--region", "main.c:77"],
        status: 2,
        says: &["main.c:77"],
        ..NOTHING
    },
    Case {
        options: &["--region", "failing.c:7"],
        compiled: &["-g0"],
        status: 2,
        says: &["no line information", "-g"],
        ..NOTHING
    },
    Case {
        options: &["--region", "deep"],
        status: 97,
        code: "region-never-ran",
        says: &["deep never ran", "spends time there"],
        ..NOTHING
    },
    // The other one may have an answer.
    Case {
        options: &["--region", "hot", "--region", "deep"],
        code: "region-without-samples",
        says: &["deep never ran"],
        ..NOTHING
    },
    Case {
        does: "points_nothing_out",
        status: 98,
        code: "no-progress-point",
        says: &["no progress point", "WHATIF_PROGRESS"],
        ..NOTHING
    },
    Case {
        does: "visits_once",
        status: 99,
        code: "point-never-reached",
        says: &["start-up", "profile a run that reaches"],
        ..NOTHING
    },
    // What is written down of the code.
    Case {
        options: &["--scope", "*.c"],
        compiled: &["-g0", "-s", "-fno-asynchronous-unwind-tables", "-Wl,--no-eh-frame-hdr"],
        status: 91,
        says: &["no debug information", "compile it with -g"],
        ..NOTHING
    },
    Case {
        compiled: &["-g0"],
        code: "functions-only",
        says: &["names of its symbol table", "compile with -g"],
        ..NOTHING
    },
    Case {
        compiled: &["-g0", "-s"],
        code: "functions-only",
        says: &["their addresses", "debug symbols"],
        ..NOTHING
    },
    Case {
        compiled: &["damaged"],
        code: "damaged-debug-information",
        says: &["what could be", "build it again"],
        ..NOTHING
    },
    Case { does: "deep", code: "deep-stacks", says: &["deeper than 200 frames", "--region"], ..NOTHING },
    // Points from outside.
    Case {
        options: &["-p", "fn:nosuch"],
        status: 2,
        says: &["no code at the progress point nosuch", "--binary GLOB"],
        ..NOTHING
    },
    Case {
        options: &["-p", "faling.c:7"],
        status: 2,
        says: &["no code at the progress point", "failing.c"],
        ..NOTHING
    },
    Case {
        options: &["-p", "failing.c:7"],
        compiled: &["-g0"],
        status: 2,
        says: &["no line information", "-g"],
        ..NOTHING
    },
    Case {
        options: &["-p", "usdt:no:such"],
        status: 2,
        says: &["no code at the progress point no:such"],
        ..NOTHING
    },
    Case { options: &["-p", "syscall:nosuch"], status: 90, says: &["nosuch", "man 2 syscalls"], ..NOTHING },
    Case { options: &["-p", "hot:"], status: 2, says: &["-p server.rs:42"], ..NOTHING },
    Case {
        options: &["-p", "fn:nosuch", "--binary", "*nosuch*"],
        status: 96,
        code: "point-not-found",
        says: &["none of", "--binary GLOB"],
        ..NOTHING
    },
    Case {
        without: "perf",
        options: &["--latency", "fn:hot..fn:deep"],
        status: 90,
        says: &["cannot count visits", "perf_event_paranoid", "-p sampled:PLACE"],
        ..NOTHING
    },
    Case {
        without: "perf",
        options: &["-p", "common.h:57"],
        code: "sampled-point",
        says: &["visits to common.h:57 could not be counted", "seccomp profile"],
        ..NOTHING
    },
    // The program counts them itself.
    Case {
        without: "perf",
        options: &["-p", "fn:hot"],
        code: "cpu-timer",
        says: &["as coarse as the kernel's tick"],
        ..NOTHING
    },
    // How samples are taken.
    Case {
        without: "perf",
        code: "cpu-timer",
        says: &["as coarse as the kernel's tick", "seccomp profile"],
        ..NOTHING
    },
    Case {
        without: "perf,timers",
        status: 94,
        code: "no-sampler",
        says: &["sampling was refused", "Permission denied", "seccomp"],
        ..NOTHING
    },
    Case {
        options: &["--sampler", "timer"],
        code: "cpu-timer",
        says: &["--sampler asked for it"],
        ..NOTHING
    },
    Case {
        options: &["--sampler", "perf-user"],
        code: "user-time-only",
        says: &["kernel time was not"],
        ..NOTHING
    },
];

const NOTHING: Case =
    Case { without: "", options: &[], compiled: &[], does: "works", status: 0, code: "", says: &[] };

#[test]
fn every_failure_has_its_status_and_its_advice() {
    let Some(without) = program("without.c") else { return };
    for (nth, case) in CASES.iter().enumerate() {
        let name = format!("failing-{}", case.compiled.concat().replace(|c: char| !c.is_alphanumeric(), "-"));
        let flags: &[&str] = if case.compiled == ["damaged"] { &[] } else { case.compiled };
        let Some(mut failing) = program_as("failing.c", &name, flags) else { return };
        let sandbox = Sandbox::new();
        if case.compiled == ["damaged"] {
            let Some(damaged) = damaged(&sandbox, &failing) else { continue };
            failing = damaged;
        }
        let mut command = sandbox.profiling(case.options, &failing, &[case.does]);
        if !case.without.is_empty() {
            let inner = command;
            command = sandbox.command(&without);
            command.arg(case.without).arg(inner.get_program()).args(inner.get_args());
        }
        // Experiments on what visits a point only once must be recorded for that to be noticed.
        let ended = match case.does {
            "visits_once" => sandbox.run_until(command, |rows| !rows.windows.is_empty()),
            _ => run(command),
        };
        if ended.code() == Some(77) {
            skip(&format!("the kernel does not refuse {} when it is told to", case.without));
            continue;
        }
        // A doubt is stored in any case; whether there is an answer besides depends on the machine.
        let as_expected =
            if case.status == 0 { ended.is_success() } else { ended.code() == Some(case.status) };
        if !as_expected && ended.stderr.contains("cannot count visits") && !can_count() {
            continue;
        }
        assert!(as_expected, "case {nth}: {ended:#?}");
        let mut said = ended.stderr.clone();
        if !case.code.is_empty() {
            // Also for those who look at the recording later.
            let warnings = sandbox.report()["warnings"].clone();
            let of_code = |code: &str| warnings.as_array().unwrap().iter().find(|one| one["code"] == code);
            if case.code == "user-time-only" && of_code("cpu-timer").is_some() {
                skip("perf is refused");
                continue;
            }
            let stored = of_code(case.code);
            let stored =
                stored.unwrap_or_else(|| panic!("case {nth}: {} in {warnings:#} {ended:#?}", case.code));
            let mut report = sandbox.whatif();
            report.arg("report").arg(sandbox.recording());
            run(report).assert_code(0);
            if case.status == 0 {
                said = format!("{} {}", stored["message"], stored["advice"]);
            }
        }
        for part in case.says {
            assert!(said.contains(part), "case {nth}: {part:?} is missing in {said} {ended:#?}");
        }
        if case.status != 0 {
            let lines = ended.stderr.lines().filter(|line| line.starts_with("whatif: ")).count();
            assert_eq!(lines, 1, "case {nth}, one message: {ended:#?}");
        }
    }
}

/// A copy of a program whose debug information makes no sense from some place on.
fn damaged(sandbox: &Sandbox, program: &Path) -> Option<PathBuf> {
    let (info, damaged) = (sandbox.path("info"), sandbox.path("damaged"));
    let objcopy = |option: String| {
        let done = Command::new("objcopy").arg(option).arg(program).arg(&damaged).status();
        done.is_ok_and(|status| status.success())
    };
    if !objcopy(format!("--dump-section=.debug_info={}", info.display())) {
        skip("there is no objcopy to damage debug information with");
        return None;
    }
    let mut bytes = std::fs::read(&info).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    std::fs::write(&info, bytes).unwrap();
    objcopy(format!("--update-section=.debug_info={}", info.display())).then_some(damaged)
}

#[test]
fn the_programs_own_failure_comes_first() {
    let Some(exits) = program("exits.c") else { return };
    Sandbox::new().profile(&["--scope", "nosuch*"], &exits, &["42"]).assert_code(42);
}

#[test]
fn without_debug_information_there_are_functions() {
    for (name, flags, region, names) in [
        ("failing-plain", &["-g0"][..], "hot", "the names of its symbol table"),
        ("failing-stripped", &["-g0", "-s"], "failing-stripped+0x", "their addresses"),
    ] {
        let Some(program) = program_as("failing.c", name, flags) else { return };
        let sandbox = Sandbox::new();
        let mut command = sandbox.whatif();
        command.args(["run", "--list-regions", "--"]).arg(&program).arg("works");
        let listed = run(command).assert_code(0).stderr;
        assert!(listed.lines().any(|line| line.contains(" %  ") && line.contains(region)), "{listed}");
        // Experiments work as well, and the recording says what is missing.
        let command = sandbox.profiling(&["--speedup", "50"], &program, &["works"]);
        let has_experiment = |rows: &profile::Rows| {
            rows.windows.iter().any(|window| rows.regions[&window.region].name.starts_with(region))
        };
        sandbox.run_until(command, has_experiment).assert_success();
        let report = sandbox.report();
        let warnings = report["warnings"].as_array().unwrap().clone();
        let said = warnings.iter().find(|warning| warning["code"] == "functions-only");
        let said = said.unwrap_or_else(|| panic!("{warnings:#?}"));
        assert!(said["message"].as_str().unwrap().ends_with(names), "{said:#}");
    }
}

#[test]
fn bad_options() {
    let Some(failing) = program("failing.c") else { return };
    for (options, parts) in [
        (&["--speedup", "0"][..], &["--speedup 0", "baselines", "--speedup 25,50,100"][..]),
        (&["--speedup", "101"], &["--speedup 101", "--speedup 25,50,100"]),
        (&["--speedup", "x"], &["--speedup x", "--speedup 25,50,100"]),
        (&["--speedup", "50,,10"], &["--speedup", "--speedup 25,50,100"]),
        (&["--duration", "0"], &["--duration", "seconds above zero", "15s, 2m, 1h"]),
        (&["--duration", "-1"], &["--duration"]),
        (&["--duration", "NaN"], &["--duration"]),
        (&["--duration", "1e300"], &["--duration"]),
        (&["--scope", "["], &["["]),
        (&["--exclude", "{a"], &["{a"]),
        (&["--binary", "["], &["--binary [", "'*libfoo*'"]),
        (&["--region", " "], &["--region is empty", "FILE:LINE"]),
        (&["--period", "5"], &["--period"]),
        (&["--seed", "x"], &["--seed"]),
        (&["--no-delays", "--speedup", "50"], &["--no-delays"]),
    ] {
        let sandbox = Sandbox::new();
        let ended = sandbox.profile(options, &failing, &["works"]);
        assert_eq!(ended.code(), Some(2), "{ended:#?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{part:?} is missing in {ended:#?}");
        }
        assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
        assert_eq!(ended.stdout, "");
        assert!(!sandbox.recording().exists(), "{ended:#?}");
    }
}

#[test]
fn a_recording_that_cannot_be_written() {
    let Some(failing) = program("failing.c") else { return };
    let sandbox = Sandbox::new();
    let to = |output: &Path| {
        let mut command = sandbox.whatif();
        command.args(["run", "-q", "-o"]).arg(output).arg("--").arg(&failing).arg("works");
        let ended = run(command).assert_code(90);
        assert!(ended.stderr.starts_with("whatif: ") && ended.stderr.lines().count() > 1, "{ended:#?}");
        assert!(!ended.stderr.contains("bug"), "{ended:#?}");
        ended
    };
    to(Path::new("/no/such/folder/recording.db"));
    to(Path::new("/proc/recording.db"));
    to(sandbox.folder());
    // What is something else is left alone, to the byte.
    for content in [&b"a letter to my aunt\n"[..], b"SQLite format 3\0 but no more", &[0; 5000]] {
        let path = sandbox.path("precious");
        std::fs::write(&path, content).unwrap();
        let ended = to(&path);
        assert!(ended.stderr.contains("precious"), "{ended:#?}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
        let beside = std::fs::read_dir(sandbox.folder()).unwrap().count();
        assert_eq!(beside, 1, "nothing was put beside it");
    }
}

#[test]
fn recordings_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let report = |arguments: &[&str]| {
        let mut command = sandbox.whatif();
        command.arg("report").args(arguments);
        run(command).assert_code(90).stderr
    };
    assert!(report(&[]).contains("whatif run -- PROGRAM"));
    assert!(report(&["missing.db"]).contains("whatif run -o missing.db -- PROGRAM"));
    std::fs::write(sandbox.path("letter.db"), "Dear aunt").unwrap();
    assert!(report(&["letter.db"]).contains("not a whatif recording"));
    std::fs::write(sandbox.path("empty.db"), "").unwrap();
    assert!(report(&["empty.db"]).contains("is empty"));
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    let mut command = sandbox.whatif();
    command.args(["report", "folder"]);
    let of_folder = run(command).assert_code(2).stderr;
    assert!(of_folder.contains("whatif open --db folder, or whatif top --db folder"), "{of_folder}");
}

#[test]
fn statuses_without_an_answer_are_those_that_tests_take_for_success() {
    assert_eq!(controller::NO_ANSWER, NO_ANSWER);
}
