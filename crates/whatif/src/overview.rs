//! The first screens: what `whatif` alone and `whatif --help` print.

use crate::cli::{Cli, Command};
use clap::builder::styling::Styles;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Subcommand as _};
use std::ffi::OsString;

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
    ("Your shell", &["completions"]),
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

/// An error about a command that does not exist names the nearest ones that can be typed; clap looks among those of before, too, and finds
/// all that are a little like it. `first`: the first argument.
pub fn with_nearest_command(mut error: clap::Error, first: Option<OsString>) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let all = visible();
    let group = first.and_then(|first| all.find_subcommand(first)).filter(|group| group.has_subcommands());
    let names = group.unwrap_or(&all).get_subcommands().map(clap::Command::get_name);
    let nearest = symbols::nearest_names(typed, names);
    error.remove(ContextKind::SuggestedSubcommand);
    if !nearest.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(nearest));
    }
    error
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
            let words: Vec<_> = std::iter::once("whatif").chain(typed.split(' ')).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let error = with_nearest_command(error, Some(words[1].into()));
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
