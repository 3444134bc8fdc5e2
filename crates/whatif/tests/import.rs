//! `whatif db import`, and profiles of Coz wherever a recording can be named.

use crate::support::{Ended, Sandbox, run};

/// A profile in which `hash.c:88` is worth half.
fn profile() -> String {
    let mut text = String::from("startup\ttime=1790000000000000000\n");
    let mut experiment = |speedup: f64| {
        let visits = (1000.0 / (1.0 - 0.5 * speedup)) as u64;
        text += &format!(
            "experiment\tselected=/src/hash.c:88\tspeedup={speedup:.2}\tduration=100000000\tselected-samples=50\n"
        );
        text += &format!("throughput-point\tname=requests\tdelta={visits}\n");
    };
    for nth in 1..=20 {
        experiment(0.0);
        experiment(f64::from(nth) / 20.0);
    }
    text + "runtime\ttime=5000000000\nsamples\tlocation=/src/hash.c:88\tcount=2500\n"
}

fn with_profile() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("old.coz"), profile()).unwrap();
    sandbox
}

#[track_caller]
fn whatif(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.args(args);
    run(command)
}

#[test]
fn a_profile_becomes_a_recording() {
    let sandbox = with_profile();
    let ended = whatif(&sandbox, &["import", "old.coz"]).assert_code(0);
    assert_eq!(ended.stdout, "1 run with 40 experiments, in whatif-old.db (whatif report whatif-old.db)\n");
    assert!(ended.stderr.starts_with("whatif: these are single experiments that Coz made"), "{ended:#?}");

    // It is found without being named.
    let text = whatif(&sandbox, &["report"]).assert_code(0).stdout;
    assert!(
        text.starts_with(
            "Speed up `hash.c:88` first\n  20 % less time there → 10.0 % less time per `requests`"
        ),
        "{text}"
    );
    assert!(text.contains("! these are single experiments that Coz made"), "{text}");

    let again = whatif(&sandbox, &["import", "old.coz"]).assert_code(90);
    assert!(again.stderr.contains("whatif-old.db exists already; give"), "{again:#?}");
    whatif(&sandbox, &["import", "old.coz", "-o", "other.db"]).assert_code(0);
    let twice = whatif(&sandbox, &["merge", "whatif-old.db", "other.db", "-o", "both.db"]).assert_code(90);
    assert!(twice.stderr.contains("it would count twice"), "{twice:#?}");
}

#[test]
fn a_profile_is_shown_as_it_is() {
    let sandbox = with_profile();
    whatif(&sandbox, &["import", "old.coz", "-o", "a.db"]).assert_code(0);
    for args in [
        &["report"][..],
        &["report", "--json"],
        &["report", "--explain", "hash.c:88"],
        &["export", "--format", "html"],
        &["export", "--format", "coz-jsonl"],
        &["export", "--format", "csv"],
    ] {
        let of = |file: &str| whatif(&sandbox, &[args, &[file]].concat()).assert_code(0).stdout;
        // But for the name in the commands that come next.
        let same = |file: &str| of(file).replace("old.coz", "a.db");
        assert_eq!(same("old.coz"), same("a.db"), "{args:?}");
    }
    whatif(&sandbox, &["compare", "a.db", "old.coz"]).assert_code(0);
    // And back: the format of newer releases is read as well.
    whatif(&sandbox, &["export", "--format", "coz-jsonl", "old.coz", "-o", "new.jsonl"]).assert_code(0);
    let text = whatif(&sandbox, &["report", "new.jsonl"]).assert_code(0).stdout;
    assert!(
        text.starts_with(
            "Speed up `hash.c:88` first\n  20 % less time there → 10.0 % less time per `requests`"
        ),
        "{text}"
    );
    let files: Vec<_> =
        std::fs::read_dir(sandbox.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), 3, "nothing else is written: {files:?}");
}

#[test]
fn every_format_is_written() {
    let sandbox = with_profile();
    for (format, begins) in [
        ("json", &b"{"[..]),
        ("html", b"<!"),
        ("coz", b"startup\t"),
        ("coz-jsonl", b"{\"type\":\"startup\""),
        ("pprof", b"\x1f\x8b"),
        ("firefox", b"{\"meta\":"),
        ("folded", b"unknown program;hash.c:88 2500\n"),
        ("csv", b"region,kind,"),
        ("markdown", b"**Speed up `hash.c:88` first**"),
    ] {
        whatif(&sandbox, &["export", "--format", format, "old.coz", "-o", "out"]).assert_code(0);
        let content = std::fs::read(sandbox.path("out")).unwrap();
        assert!(content.starts_with(begins), "{format}: {:?}", content.get(..begins.len()));
        // A pipe gets the same, whether it is text or not.
        let mut command = sandbox.whatif();
        command.args(["export", "--format", format, "old.coz"]);
        assert_eq!(command.output().unwrap().stdout, content, "{format}");
    }
}

#[test]
fn what_is_no_profile_is_told() {
    let sandbox = with_profile();
    std::fs::write(sandbox.path("notes.txt"), "startup went well\n").unwrap();
    whatif(&sandbox, &["import", "old.coz", "-o", "a.db"]).assert_code(0);
    for (args, says) in [
        (["import", "notes.txt"], "cannot import notes.txt: this is no profile of Coz"),
        (
            ["import", "a.db"],
            "a.db is no profile of Coz but a database; if it is a recording, it can be shown as it is: whatif report a.db",
        ),
        (["import", "missing.coz"], "cannot read missing.coz; give a profile"),
        (["report", "notes.txt"], "notes.txt is not a whatif recording"),
        (["report", "missing.coz"], "there is no recording at missing.coz"),
    ] {
        let ended = whatif(&sandbox, &args).assert_code(90);
        assert!(ended.stderr.contains(says), "{args:?}: {ended:#?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
    assert!(!sandbox.path("whatif-notes.db").exists());
}

#[test]
fn damaged_lines_are_counted() {
    let sandbox = Sandbox::new();
    let text = profile()
        .replace("selected-samples=50\nthroughput-point\tname=requests\tdelta=1025\n", "selected-samp\u{0}");
    std::fs::write(sandbox.path("bad.coz"), text).unwrap();
    let text = whatif(&sandbox, &["report", "bad.coz"]).assert_code(0).stdout;
    assert!(text.contains("! 2 lines of the profile could not be used (line 4 first"), "{text}");
    assert!(
        text.starts_with(
            "Speed up `hash.c:88` first\n  20 % less time there → 10.0 % less time per `requests`"
        ),
        "{text}"
    );
}

#[test]
fn where_a_profile_of_coz_is_taken_the_help_says_so() {
    let sandbox = Sandbox::new();
    for command in ["report", "export", "open", "watch", "merge", "compare", "import"] {
        let help = whatif(&sandbox, &[command, "--help"]).assert_code(0).stdout;
        assert!(help.contains("Coz"), "{help}");
    }
}
