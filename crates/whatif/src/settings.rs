//! `whatif.toml` in the current folder: options and the program of `whatif run` and `whatif points`, where they are not typed.
//!
//! **Does:** put into the words of a command what the file says and nobody has typed. **Does not:** know what an option means: names are those that can be typed, without the
//! dashes.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args as _, Command};
use controller::arguments::Run;
use toml::{Table, Value};

/// Where it is looked for, in the current folder.
const FILE: &str = "whatif.toml";
/// What is no option: the program and its arguments.
const PROGRAM: &str = "program";
/// How long a run is to last says nothing of how long places are looked for.
const ONLY_OF_RUN: &str = "duration";

/// The words with what the file says, and what is said of it. `typed`: behind `whatif`; `command_of`: a command that the file is for, by its name.
pub fn completed(
    typed: Vec<OsString>,
    command_of: impl FnOnce(&str) -> Option<Command>,
) -> Result<(Vec<OsString>, Option<String>), String> {
    // Most folders have none, and then nothing else is done.
    let Ok(file) = std::fs::metadata(FILE) else { return Ok((typed, None)) };
    let Some(command) = typed.first().and_then(|word| word.to_str()).and_then(command_of) else {
        return Ok((typed, None));
    };
    if ![0, rustix::process::geteuid().as_raw()].contains(&file.uid()) {
        return Ok((typed, Some(format!("{FILE} is another user's; it is not read"))));
    }
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    with_settings(&text, command, typed).map_err(|error| format!("{FILE}: {error}"))
}

fn with_settings(
    text: &str,
    command: Command,
    mut typed: Vec<OsString>,
) -> Result<(Vec<OsString>, Option<String>), String> {
    let settings: Table =
        text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
    let all = Run::augment_args(Command::new("run"));
    if let Some(name) = settings.keys().find(|name| *name != PROGRAM && !has(&all, name)) {
        let known = all.get_arguments().filter(|argument| !argument.is_hide_set());
        let names = known.filter_map(clap::Arg::get_long).chain([PROGRAM]);
        let nearest = symbols::nearest_names(name, names);
        let tip = nearest.first().map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        return Err(format!("there is no option `{name}`{tip}"));
    }
    // What is typed wrongly is said as if there were no file.
    let parser = command.clone().mut_arg(PROGRAM, |program| program.required(false));
    let Ok(matches) = parser.try_get_matches_from(&typed) else { return Ok((typed, None)) };
    let mut added = Vec::new();
    for (name, value) in settings.iter().filter(|(name, _)| *name != PROGRAM && has(&command, name)) {
        let is_other = name == ONLY_OF_RUN && command.get_name() != "run";
        if !is_other && !is_typed(&command, &matches, name) {
            added.extend(words_of(&command, name, value)?);
        }
    }
    let program = match settings.get(PROGRAM) {
        Some(program) if matches.value_source(PROGRAM) != Some(ValueSource::CommandLine) => {
            texts(PROGRAM, program)?
        }
        _ => Vec::new(),
    };
    if added.is_empty() && program.is_empty() {
        return Ok((typed, None));
    }
    let shown: Vec<&str> =
        added.iter().map(String::as_str).chain(program.iter().map(String::as_str)).collect();
    let said = format!("{FILE} adds: {}", profile::shell::command(shown));
    typed.splice(1..1, added.into_iter().map(Into::into));
    if !program.is_empty() {
        if !typed.iter().any(|word| word == "--") {
            typed.push("--".into());
        }
        typed.extend(program.into_iter().map(Into::into));
    }
    Ok((typed, Some(said)))
}

fn option<'a>(command: &'a Command, name: &str) -> Option<&'a clap::Arg> {
    let is_it = |argument: &&clap::Arg| argument.get_long() == Some(name) && !argument.is_hide_set();
    command.get_arguments().find(is_it)
}

fn has(command: &Command, name: &str) -> bool {
    option(command, name).is_some()
}

fn is_typed(command: &Command, matches: &ArgMatches, name: &str) -> bool {
    let id = option(command, name).map(|option| option.get_id().as_str());
    id.and_then(|id| matches.value_source(id)) == Some(ValueSource::CommandLine)
}

/// An option as it could have been typed, each in one word, so that no value is taken for another option.
fn words_of(command: &Command, name: &str, value: &Value) -> Result<Vec<String>, String> {
    let is_flag =
        option(command, name).is_some_and(|option| matches!(option.get_action(), ArgAction::SetTrue));
    match value {
        Value::Boolean(is_set) if is_flag => Ok(is_set.then(|| format!("--{name}")).into_iter().collect()),
        _ if is_flag => Err(format!("`{name}` is true or false")),
        value => Ok(texts(name, value)?.into_iter().map(|value| format!("--{name}={value}")).collect()),
    }
}

/// A text or a number, or several of them.
fn texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Array(values) if values.iter().all(|value| !value.is_array()) => {
            let each = values.iter().map(|value| texts(name, value));
            each.collect::<Result<Vec<_>, _>>().map(|texts| texts.concat())
        }
        _ => Err(format!("`{name}` is a text, or a list of texts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = "
        program = ['./server', '--port', '8080']
        point = ['fn:handle', 'server.rs:42']
        duration = 60
        quiet = true
        scope = 'src/*'
    ";

    fn completed(settings: &str, typed: &str) -> Result<String, String> {
        let typed: Vec<OsString> = typed.split_whitespace().map(Into::into).collect();
        let command = match typed[0].to_str() {
            Some("points") => {
                let (scope, program) = (clap::Arg::new("scope").long("scope"), clap::Arg::new(PROGRAM));
                Command::new("points").args([scope, program.num_args(1..).required(true)])
            }
            _ => Run::augment_args(Command::new("run")),
        };
        let (words, _) = with_settings(settings, command, typed)?;
        Ok(words.join(" ".as_ref()).into_string().unwrap())
    }

    #[test]
    fn what_is_not_typed_is_taken_from_the_file() {
        for (typed, meant) in [
            (
                "run",
                "run --duration=60 --point=fn:handle --point=server.rs:42 --quiet --scope=src/* -- ./server --port 8080",
            ),
            ("run -p fn:a -q", "run --duration=60 --scope=src/* -p fn:a -q -- ./server --port 8080"),
            (
                "run --duration 5 -- ./other",
                "run --point=fn:handle --point=server.rs:42 --quiet --scope=src/* --duration 5 -- ./other",
            ),
            ("points", "points --scope=src/* -- ./server --port 8080"),
            // A mistake is told as it is without a file.
            ("run --no-such-option", "run --no-such-option"),
        ] {
            assert_eq!(completed(SETTINGS, typed).unwrap(), meant, "{typed}");
        }
    }

    #[test]
    fn a_mistake_in_the_file_is_said() {
        for (settings, said) in [
            ("durration = 5", "there is no option `durration`; did you mean `duration`?"),
            ("quiet = 3", "`quiet` is true or false"),
            ("point = [['a']]", "`point` is a text, or a list of texts"),
            ("point = ", "TOML parse error"),
            ("suggest-points = true", "there is no option `suggest-points`"),
        ] {
            let error = completed(settings, "run").unwrap_err();
            assert!(error.contains(said), "{settings}: {error}");
        }
    }
}
