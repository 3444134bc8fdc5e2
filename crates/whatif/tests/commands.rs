//! What is typed: help, versions, wrong arguments, completions and manual pages.

use crate::support::{Ended, Sandbox, have, run, skip};
use object::{Object as _, ObjectSection as _};
use std::fs;
use std::process::Command;

#[track_caller]
fn whatif(sandbox: &Sandbox, arguments: &[&str]) -> Ended {
    let mut command = sandbox.whatif();
    command.args(arguments);
    run(command)
}

/// Where these texts are, one after the other.
#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?}, or too early, in\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn alone_it_says_what_to_type() {
    let ended = whatif(&Sandbox::new(), &[]).assert_code(0);
    in_order(&ended.stdout, &["whatif run -- ", "whatif open", "whatif compare ", "whatif --help"]);
    assert!(ended.stderr.is_empty());
}

#[test]
fn help_begins_with_what_is_needed_first() {
    let sandbox = Sandbox::new();
    for arguments in [&["--help"][..], &["-h"], &["help"]] {
        let help = whatif(&sandbox, arguments).assert_code(0).stdout;
        in_order(
            &help,
            &[
                "Usage: whatif",
                "\n  run ",
                "\n  report ",
                "\n  open ",
                "\n  watch ",
                "\n  compare ",
                "\n  points ",
            ],
        );
        in_order(&help, &["\n  collect ", "\n  status ", "\n  top ", "\n  db ", "Options:", "--version"]);
        for former in ["gc", "epochs", "merge", "import", "unknown", "man"] {
            assert!(!help.contains(&format!("\n  {former} ")), "{former} in\n{help}");
        }
    }
    let db = whatif(&sandbox, &["db", "--help"]).assert_code(0).stdout;
    in_order(&db, &["\n  merge ", "\n  import ", "\n  epochs ", "\n  unknown ", "\n  gc "]);
    let gc = whatif(&sandbox, &["db", "gc", "--help"]).assert_code(0).stdout;
    in_order(&gc, &["Remove", "Options:", "Example: whatif db gc "]);
}

#[test]
fn usage_errors_are_status_2() {
    let sandbox = Sandbox::new();
    let cases: &[&[&str]] = &[
        &["nosuch"],
        &["--nosuch"],
        &["run"],
        &["run", "--nosuch", "--", "true"],
        &["run", "--repeat", "0", "--", "true"],
        &["run", "--granularity", "word", "--", "true"],
        &["run", "--live", "--list-regions", "--", "true"],
        &["points"],
        &["points", "--nosuch", "--", "true"],
        &["report", "a.db", "b.db"],
        &["compare", "a.db"],
        &["compare", "a.db", "b.db", "--fail-if", "gain"],
        &["export", "a.db"],
        &["export", "--format", "nosuch", "a.db"],
        &["top", "--by", "word"],
        &["diff", "1d..now"],
        &["list"],
        &["collect", "--interval", "0"],
        &["db"],
        &["db", "nosuch"],
        &["db", "merge", "a.db", "-o", "b.db"],
        &["merge", "a.db", "b.db"],
        &["completions", "csh"],
    ];
    for case in cases {
        let ended = whatif(&sandbox, case);
        assert_eq!(ended.code(), Some(2), "{case:?} {ended:#?}");
        assert!(ended.stdout.is_empty() && ended.stderr.contains("--help"), "{case:?} {ended:#?}");
    }
    // What cannot be read is no usage error.
    for case in [&["report", "a.db"][..], &["export", "--format", "json", "a.db"], &["db", "import", "a.coz"]]
    {
        whatif(&sandbox, case).assert_code(90);
    }
}

#[test]
fn recordings_and_databases_are_merged_under_one_name() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("a.db"), "").unwrap();
    fs::write(sandbox.path("b.db"), "").unwrap();
    let ended = whatif(&sandbox, &["db", "merge", "a.db", "b.db"]).assert_code(90);
    assert!(ended.stderr.contains("whatif db merge -o FILE"), "{ended:#?}");
}

#[test]
fn the_version_says_what_it_can_be_used_with() {
    let sandbox = Sandbox::new();
    let version = env!("CARGO_PKG_VERSION");
    let brief = whatif(&sandbox, &["-V"]).assert_code(0).stdout;
    assert_eq!(brief.lines().count(), 1, "{brief}");
    assert!(brief.starts_with(&format!("whatif {version} (")), "{brief}");
    let long = whatif(&sandbox, &["--version"]).assert_code(0).stdout;
    in_order(
        &long,
        &[
            brief.trim_end(),
            &format!("protocol {} ", wire::PROTOCOL),
            &format!("layout {} ", storage::schema::VERSION),
        ],
    );
}

#[test]
fn the_command_carries_no_debug_information() {
    if cfg!(debug_assertions) || option_env!("WHATIF_KEEP_DEBUG").is_some() {
        return skip("it was built to have some");
    }
    let bytes = fs::read(env!("CARGO_BIN_EXE_whatif")).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let sections: Vec<_> =
        file.sections().filter_map(|section| section.name().map(str::to_owned).ok()).collect();
    assert!(sections.iter().any(|name| name == ".text"));
    for name in sections {
        // A few bytes for debuggers, which strip leaves where it is.
        let is_script = name == ".debug_gdb_scripts";
        assert!(!name.starts_with(".debug_") || is_script, "{name}");
        assert_ne!(name, ".symtab");
    }
}

/// The completions for a shell, in a file.
fn completions(sandbox: &Sandbox, shell: &str) -> std::path::PathBuf {
    let script = whatif(sandbox, &["completions", shell]).assert_code(0).stdout;
    for hidden in ["--leave-out", "--suggest-points", "--without-rule"] {
        assert!(!script.contains(hidden), "{hidden} for {shell}");
    }
    let path = sandbox.path(shell);
    fs::write(&path, script).unwrap();
    path
}

#[test]
fn bash_completes() {
    let sandbox = Sandbox::new();
    completions(&sandbox, "bash");
    if !have("bash") {
        return;
    }
    let complete = |words: &str| {
        let mut bash = sandbox.command("bash");
        let script = format!(
            "set -u; source ./bash; complete -p whatif >/dev/null || exit 1
             COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
             _whatif whatif \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        bash.args(["--norc", "-c", &script]);
        let ended = run(bash).assert_code(0);
        assert!(ended.stderr.is_empty(), "{ended:#?}");
        ended.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("whatif rep"), ["report"]);
    assert_eq!(complete("whatif db g"), ["gc"]);
    assert_eq!(complete("whatif run --dur"), ["--duration"]);
    let all = complete("whatif ''");
    assert!(all.contains(&"compare".to_owned()) && !all.contains(&"gc".to_owned()), "{all:?}");
}

#[test]
fn other_shells_load_theirs() {
    let sandbox = Sandbox::new();
    for shell in ["zsh", "fish"] {
        let script = completions(&sandbox, shell);
        if have(shell) {
            let mut check = sandbox.command(shell);
            check.arg("-n").arg(&script);
            let ended = run(check).assert_code(0);
            assert!(ended.stderr.is_empty(), "{ended:#?}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    whatif(&sandbox, &["man", "pages/man1"]).assert_code(0);
    let folder = sandbox.path("pages/man1");
    let mut pages: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in ["whatif.1", "whatif-run.1", "whatif-db.1", "whatif-db-gc.1", "whatif-top.1"] {
        assert!(pages.contains(&page.to_owned()), "no {page} in {pages:?}");
    }
    for page in ["whatif-gc.1", "whatif-help.1", "whatif-man.1"] {
        assert!(!pages.contains(&page.to_owned()), "{page}");
    }
    let run_page = fs::read_to_string(folder.join("whatif-run.1")).unwrap();
    in_order(
        &run_page,
        &[".SH NAME", ".SH SYNOPSIS", "duration", ".SH EXAMPLES", "whatif run", ".SH \"SEE ALSO\""],
    );
    assert!(!run_page.contains("leave\\-out"), "{run_page}");
    if Command::new("groff").arg("--version").output().is_err() {
        return skip("groff is not installed");
    }
    for page in pages {
        let mut groff = sandbox.command("groff");
        groff.args(["-man", "-Tutf8", "-Kutf8", "-ww", "-z"]).arg(folder.join(&page));
        let ended = run(groff).assert_code(0);
        assert!(ended.stderr.is_empty(), "{page}: {ended:#?}");
    }
}
