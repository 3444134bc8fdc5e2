//! The first screens: what `whatif` alone and `whatif --help` print.

use crate::cli::{Cli, Command};
use clap::builder::styling::Styles;
use clap::{CommandFactory as _, Subcommand as _};

/// What `whatif` alone prints.
pub const WELCOME: &str = "\
whatif: what would happen to your program if this code were faster?

  whatif run -- ./server --port 8080     run a program and find out which of its code is worth making faster
  whatif open                            show the answer in a browser: curves, source, every experiment
  whatif compare before.db after.db      after a change: what became faster, and what is critical now

Progress is counted where the program marks it, or where -p says; whatif points -- ./server suggests places.
All commands: whatif --help. One of them, with an example: whatif run --help.
";

/// The commands, as they are listed together: a heading and their names.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Find out what is worth making faster", &["run", "report", "open", "watch", "compare"]),
    ("Before and after that", &["points", "doctor", "export"]),
    (
        "A whole machine, all day",
        &["collect", "status", "top", "diff", "stats", "flame", "list", "annotate"],
    ),
    ("Files", &["db"]),
    ("This command", &["completions"]),
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

fn without_hidden(command: &clap::Command) -> clap::Command {
    let mut visible = clap::Command::new(command.get_name().to_owned())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(without_hidden));
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        visible = visible.after_help(after.clone());
    }
    visible
}
