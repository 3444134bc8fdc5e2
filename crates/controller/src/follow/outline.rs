//! Outline: which programs a command seems to execute, by reading it, without running anything.
//!
//! Of a script only the first words of its commands are looked at; what it puts together while it runs is not known.

use super::class::Class;
use super::class_of;
use crate::launch::{self, Executable, LaunchError};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// So much of a script is read.
const MOST: u64 = 1 << 16;
/// Scripts that execute scripts.
const DEPTH: u32 = 4;
/// Words of a shell behind which a command begins.
const BEFORE_COMMANDS: [&str; 11] =
    ["!", "{", "if", "then", "else", "elif", "while", "until", "do", "exec", "command"];

/// The programs by their files, each with why it cannot be followed, if that is so.
///
/// `command` is what was typed: the program, which `executable` is, and its arguments.
#[must_use]
pub fn outline(executable: &Executable, command: &[OsString]) -> BTreeMap<PathBuf, Option<String>> {
    let mut outline = Outline { depth: DEPTH, found: BTreeMap::new() };
    match executable.script() {
        Some(script) => outline.script(script),
        None => outline.command(command.iter().map(OsString::as_os_str)),
    }
    outline.found
}

struct Outline {
    depth: u32,
    found: BTreeMap<PathBuf, Option<String>>,
}

impl Outline {
    /// One command.
    fn command<'w>(&mut self, words: impl Iterator<Item = &'w OsStr>) {
        let mut words = words.skip_while(|word| {
            word.to_str().is_some_and(|word| word.contains('=') || BEFORE_COMMANDS.contains(&word))
        });
        let mut leads_on = false;
        while let Some(word) = words.next() {
            let executable = match launch::check(word) {
                Ok(executable) => executable,
                Err(LaunchError::Unprofilable { path, why }) => {
                    let why = why.to_string();
                    let why = why.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
                    self.found.insert(path, Some(why));
                    return;
                }
                // An option of a wrapper.
                Err(_) if leads_on => continue,
                Err(_) => return,
            };
            match (executable.script(), class_of(executable.image())) {
                (Some(script), _) => return self.script(script),
                (None, Class::Wrapper) => leads_on = true,
                (None, Class::Shell) => return self.shell(words),
                (None, Class::Program) => {
                    self.found.insert(executable.image().to_owned(), None);
                    return;
                }
                (None, Class::Helper) => return,
            }
        }
    }

    /// What a shell is told by its arguments.
    fn shell<'w>(&mut self, mut words: impl Iterator<Item = &'w OsStr>) {
        while let Some(word) = words.next().and_then(OsStr::to_str) {
            // `-c`, `-ec`
            if word.starts_with('-') && word.ends_with('c') {
                return words.next().and_then(OsStr::to_str).into_iter().for_each(|text| self.text(text));
            }
            if !word.starts_with('-') {
                return self.script(Path::new(word));
            }
        }
    }

    fn script(&mut self, path: &Path) {
        let mut text = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut text));
        // The language of other interpreters is not known.
        let is_of_shell = |text: &str| match text.strip_prefix("#!") {
            None => true,
            Some(rest) => {
                let mut words = rest.lines().next().unwrap_or_default().split_whitespace();
                words.any(|word| class_of(Path::new(word)) == Class::Shell)
            }
        };
        let text = String::from_utf8_lossy(&text);
        if read.is_ok() && self.depth > 0 && is_of_shell(&text) {
            self.depth -= 1;
            self.text(&text);
            self.depth += 1;
        }
    }

    /// The commands of a script.
    fn text(&mut self, text: &str) {
        let lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim_start());
        let commands = lines
            .filter(|line| !line.starts_with('#'))
            .flat_map(|line| line.split([';', '|', '&', '(', ')', '`']));
        for command in commands {
            let words: Vec<String> =
                command.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()).collect();
            self.command(words.iter().map(OsStr::new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_programs_of_scripts_and_wrappers_are_found() {
        let own = std::env::current_exe().unwrap();
        let program = own.display();
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let plain = script(
            "plain",
            format!("#!/bin/sh\nset -e\nmkdir -p x # {program}x\nLANG=C exec \"{program}\" 1 2 &\nwait\n"),
        );
        let comment = script("comment", format!("#!/bin/sh\n# {program}\necho {program}\n"));
        let nested = script("nested", format!("#!/bin/sh\nif true; then {plain}; fi\n"));
        let endless = script("endless", format!("#!/bin/sh\n{}\n", folder.path().join("endless").display()));
        let other = script("other", format!("#!/usr/bin/env nice\n{program}\n"));
        let inline = format!("true && {program} | cat");
        for (words, has_it) in [
            (&[&*plain][..], true),
            (&["nice", "-n", "3", &plain], true),
            (&["sh", &plain], true),
            (&["sh", "-c", &inline], true),
            (&["env", "A=b", &own.display().to_string(), "x"], true),
            (&[&nested], true),
            (&[&comment], false),
            (&[&endless], false),
            (&[&other], false),
            (&["true"], false),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let found = outline(&launch::check(&words[0]).unwrap(), &words);
            let expected = if has_it { BTreeMap::from([(own.clone(), None)]) } else { BTreeMap::new() };
            assert_eq!(found, expected, "{words:?}");
        }
    }
}
