//! The first screens: what `whatif` alone and `whatif --help` print.

use crate::cli::{Cli, Command};
use clap::builder::styling::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as _, CommandFactory as _, Subcommand as _};
use controller::arguments::Run;
use std::cell::LazyCell;
use std::ffi::OsString;
use std::path::Path;

/// What `whatif` alone prints.
pub const WELCOME: &str = "\
whatif: what would happen to your program if this code were faster?

  whatif run -- ./server --port 8080
      run a program, and find out which of its code is worth making faster
  whatif open
      show the answer in a browser: curves, source, every experiment
  whatif compare before.db after.db
      after a change: what became faster, and what is critical now

Progress is counted where the program marks it, or where -p says; to find
places: whatif points -- ./server
All commands: whatif --help. One of them, with an example: whatif run --help
";

/// The commands, as they are listed together: a heading and their names.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Find out what is worth making faster", &["run", "attach", "report", "open", "watch", "compare", "ab"]),
    ("Before and after that", &["points", "doctor", "export"]),
    ("A whole machine, all day", &["collect", "status", "top", "diff", "stats", "flame", "list", "annotate"]),
    ("Many machines", &["agent", "fleet"]),
    ("Recordings and databases", &["db"]),
    ("Your shell and your assistant", &["completions", "mcp"]),
];

/// The template of `whatif --help`, with the groups in it.
pub fn template() -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let all = Command::augment_subcommands(clap::Command::new("whatif"));
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        text += &format!("\n{header}{heading}:{header:#}\n");
        for name in names {
            let about = all.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {literal}{name:<11}{literal:#}  {about}\n");
        }
    }
    text + &format!(
        "\n{header}Options:{header:#}\n{{options}}\n\nOne command, with all of its options and an example: whatif COMMAND --help\n"
    )
}

/// All that can be typed, for completions and manual pages: without names of before and options for tests of ourselves.
pub fn visible() -> clap::Command {
    without_hidden(&Cli::command()).version(env!("CARGO_PKG_VERSION"))
}

/// What other profilers call a command of ours, and how ours is typed.
const OF_OTHERS: [(&str, &str); 6] = [
    ("record", "whatif run -- PROGRAM"),
    ("profile", "whatif run -- PROGRAM"),
    ("start", "whatif run -- PROGRAM"),
    ("show", "whatif report"),
    ("view", "whatif open"),
    ("flamegraph", "whatif flame"),
];

/// An error with what can be typed instead. `words`: what was typed behind `whatif`.
pub fn with_advice(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let all = visible();
    let mut command = &all;
    for word in words {
        let Some(named) = command.find_subcommand(word) else { break };
        command = named;
    }
    let wrong = |kind| match error.get(kind) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => String::new(),
    };
    let instead = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = wrong(ContextKind::InvalidSubcommand);
            let instead = instead_of(&typed, words);
            // clap looks among names of before, too, and finds all that are a little like it.
            let names = command.get_subcommands().map(clap::Command::get_name);
            let nearest = symbols::nearest_names(&typed, names);
            error.remove(ContextKind::SuggestedSubcommand);
            if !nearest.is_empty() && instead.is_empty() {
                error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(nearest));
            }
            instead
        }
        ErrorKind::UnknownArgument if is_dashes(&wrong(ContextKind::InvalidArg)) => {
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::Usage);
            let at = words.iter().position(|word| word.to_str().is_some_and(is_dashes));
            let with_two = words.iter().enumerate().map(|(nth, word)| match Some(nth) == at {
                true => "--".into(),
                false => word.to_string_lossy(),
            });
            vec![profile::shell::command(std::iter::once("whatif".into()).chain(with_two))]
        }
        ErrorKind::MissingRequiredArgument => {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            help.lines().filter_map(|line| line.strip_prefix("Example: ")).map(str::to_owned).collect()
        }
        _ => return error,
    };
    if !instead.is_empty() {
        let instead = instead.into_iter().map(Into::into).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(instead));
    }
    error
}

/// Whether it was to be `--`.
fn is_dashes(word: &str) -> bool {
    word.len() > 2 && word.bytes().all(|byte| byte == b'-')
}

/// What can be typed instead of a command that does not exist: for one of another profiler, and where the command is missing before a
/// program or a recording.
fn instead_of(typed: &str, words: &[OsString]) -> Vec<String> {
    if let Some((_, ours)) = OF_OTHERS.iter().find(|(theirs, _)| *theirs == typed) {
        return vec![(*ours).to_owned()];
    }
    let is_first = words.first().is_some_and(|first| *first == *typed);
    if !is_first || !Path::new(typed).is_file() {
        return Vec::new();
    }
    let missing: &[&str] = if typed.ends_with(".db") { &["report"] } else { &["run", "--"] };
    let words = words.iter().map(|word| word.to_string_lossy());
    vec![profile::shell::command(["whatif"].iter().chain(missing).map(|word| (*word).into()).chain(words))]
}

/// The first option of `whatif run` among the arguments of a program, which get it, where no `--` says that they are meant to. `words`:
/// what was typed behind `whatif`.
pub fn option_behind_the_program<'a>(words: &[OsString], program: &'a [OsString]) -> Option<&'a str> {
    if words.iter().any(|word| word == "--") {
        return None;
    }
    // Made only where there is an option at all: the program waits for it.
    let options = LazyCell::new(|| Run::augment_args(clap::Command::new("run")));
    let is_long = |name: &str| {
        options.get_arguments().any(|option| !option.is_hide_set() && option.get_long() == Some(name))
    };
    let mut arguments = program.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).peekable();
    while let Some(word) = arguments.next() {
        let is_ours = match word.strip_prefix("--") {
            Some(long) => is_long(long.split('=').next().unwrap_or(long)),
            // What else is short, many programs have.
            None => word == "-o" || word == "-p" && arguments.peek().is_some_and(|place| place.contains(':')),
        };
        if is_ours {
            return Some(word);
        }
    }
    None
}

fn without_hidden(command: &clap::Command) -> clap::Command {
    let mut visible = clap::Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(without_hidden));
    if visible.has_subcommands() {
        let is_required = command.is_subcommand_required_set();
        visible = visible.subcommand_required(is_required).subcommand_value_name("COMMAND");
    }
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        visible = visible.after_help(after.clone());
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    /// The words of a line of a shell, without `sudo` and without where its output goes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for character in line.chars() {
            match character {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                _ => words.last_mut().unwrap().push(character),
            }
        }
        let end = words.iter().position(|word| word == ">" || word == "|").unwrap_or(words.len());
        words[..end].iter().filter(|word| *word != "sudo").cloned().collect()
    }

    /// All that stand at the end of a branch: `whatif db gc`, not `whatif db`.
    fn leaves(command: &clap::Command) -> Vec<clap::Command> {
        match command.has_subcommands() {
            true => command.get_subcommands().flat_map(leaves).collect(),
            false => vec![command.clone()],
        }
    }

    /// The error for what is typed behind `whatif`.
    fn refused(typed: &str) -> clap::Error {
        let words: Vec<OsString> = typed.split_whitespace().map(Into::into).collect();
        let all = std::iter::once("whatif".into()).chain(words.clone());
        with_advice(Cli::try_parse_from(all).unwrap_err(), &words)
    }

    #[test]
    fn what_can_be_typed_instead_is_said() {
        for (typed, instead) in [
            ("record -- ./server", &["tip: whatif run -- PROGRAM"][..]),
            ("profile ./server", &["tip: whatif run -- PROGRAM"]),
            ("show server.db", &["tip: whatif report"]),
            ("run --- ./server --- -x", &["tip: whatif run -- ./server --- -x"]),
            ("points --- ./server", &["tip: whatif points -- ./server"]),
            ("/dev/../bin/sh -c x", &["tip: whatif run -- /dev/../bin/sh -c x"]),
            (
                "attach",
                &[
                    "tip: whatif attach --duration 30 -p fn:handle_request --unit shop",
                    "tip: whatif attach 4711",
                ],
            ),
            ("run", &["tip: whatif run --duration 60 -o server.db -- ./server --port 8080"]),
            ("diff", &["tip: whatif diff 2d..1d 1d..now"]),
            ("export", &["tip: whatif export --format html -o report.html server.db"]),
            ("completions", &["tip: whatif completions bash"]),
            ("compare before.db", &["tip: whatif compare before.db after.db"]),
            ("list", &["tip: whatif list parse_header"]),
            ("db merge", &["tip: whatif db merge monday.db tuesday.db -o both.db"]),
        ] {
            let error = refused(typed).to_string();
            for tip in instead {
                assert!(error.contains(tip), "{typed}: {tip:?} is missing in {error}");
            }
            assert!(!error.contains("similar"), "{typed}: {error}");
        }
    }

    #[test]
    fn options_of_ours_among_the_programs_arguments_are_noticed() {
        for (typed, found) in [
            ("run ./x -o x.db", Some("-o")),
            ("run --seed 1 ./x a --duration=3s -o x", Some("--duration=3s")),
            ("run ./x -p fn:work", Some("-p")),
            ("run ./x -p 8080 -v --verbose", None),
            ("run -- ./x -o x.db", None),
            ("run ./x -- -o", None),
            ("points ./x --scope a", Some("--scope")),
        ] {
            let words: Vec<OsString> = typed.split(' ').map(Into::into).collect();
            let at = words.iter().position(|word| word == "./x").unwrap();
            assert_eq!(option_behind_the_program(&words, &words[at..]), found, "{typed}");
        }
    }

    #[test]
    fn the_nearest_command_is_named() {
        for (typed, near) in [
            ("rnu", &["run"][..]),
            ("repot", &["report"]),
            ("opne", &["open"]),
            ("comapre", &["compare"]),
            ("stat", &["stats", "status"]),
            ("db mrege", &["merge"]),
            ("nonsense", &[]),
        ] {
            let error = refused(typed);
            let found = match error.get(ContextKind::SuggestedSubcommand) {
                Some(ContextValue::Strings(names)) => names.clone(),
                _ => Vec::new(),
            };
            assert_eq!(found, near, "{typed}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn every_command_has_an_example_that_can_be_typed() {
        // Those that are hidden, too.
        let mut examples = 0;
        for command in leaves(&Cli::command()) {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("Example: ")).collect();
            assert!(!lines.is_empty(), "whatif {name} has no example");
            for line in lines {
                let words = words(line);
                assert!(
                    words.iter().any(|word| word == name) || command.is_hide_set(),
                    "{line} is not of {name}"
                );
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{line}\n{error}");
                }
                examples += 1;
            }
        }
        assert!(examples > 20);
    }

    #[test]
    fn every_command_is_in_one_group() {
        let visible = visible();
        let mut all: Vec<_> =
            visible.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let mut listed: Vec<_> =
            GROUPS.iter().flat_map(|(_, names)| *names).map(ToString::to_string).collect();
        all.sort();
        listed.sort();
        assert_eq!(all, listed);
    }

    #[test]
    fn names_of_before_mean_the_same() {
        let parsed = |words: &[&str]| {
            let command = Cli::try_parse_from(["whatif"].iter().chain(words)).unwrap().command;
            match command {
                Command::Former(former) => format!("{:?}", former.now()),
                Command::Db(db) => format!("{:?}", db.command),
                other => panic!("{other:?}"),
            }
        };
        let cases: [&[&str]; 6] = [
            &["gc", "--keep", "30d", "--most", "2G", "--dry-run", "--db", "x"],
            &["epochs", "--name", "v1", "--json"],
            &["unknown", "--since", "1d", "--top", "3"],
            &["import", "perf.data", "--name", "trial"],
            &["import", "profile.coz", "-o", "x.db"],
            &["merge", "a.db", "b.db", "-o", "c.db"],
        ];
        for words in cases {
            assert_eq!(parsed(words), parsed(&[&["db"], words].concat()));
        }
    }

    #[test]
    fn what_is_visible_needs_nothing_that_is_hidden() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                // Panics if a conflict is with something that is not there.
                let _ = command.get_arg_conflicts_with(argument);
            }
            command.get_subcommands().for_each(check);
        }
        let mut visible = visible();
        visible.build();
        check(&visible);
    }

    #[test]
    fn eighty_columns_are_enough() {
        let help = Cli::command().render_help().to_string();
        for line in help.lines().chain(WELCOME.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
