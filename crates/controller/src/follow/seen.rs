//! Seen: the programs that were executed and are not profiled, and why; for the messages at the end.

use profile::printable;
use std::path::{Path, PathBuf};

/// More are only counted.
const MOST: usize = 200;
/// So many are named.
const NAMED: usize = 5;

/// Why a program that may have been meant is not profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It cannot be, for this reason.
    Cannot(String),
    /// What was asked for is not in it, as this says.
    Lacks(String),
    /// Another one was profiled.
    Busy,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Seen {
    programs: Vec<(PathBuf, Why)>,
    /// Programs that prepare something.
    helpers: Vec<String>,
}

impl Seen {
    pub fn add(&mut self, program: &Path, why: Why) {
        if self.programs.len() < MOST && !self.programs.iter().any(|(known, _)| known == program) {
            self.programs.push((program.to_owned(), why));
        }
    }

    pub fn helper(&mut self, program: &Path) {
        let name = shown(program);
        if self.helpers.len() < MOST && !self.helpers.contains(&name) {
            self.helpers.push(name);
        }
    }

    /// What a program that was profiled leaves to be said.
    pub fn forget(&mut self, program: &Path) {
        self.programs.retain(|(known, _)| known != program);
    }

    fn of(&self, which: impl Fn(&Path, &Why) -> Option<String>) -> Vec<String> {
        let programs = self.programs.iter();
        programs
            .filter_map(|(program, why)| Some(format!("{}{}", shown(program), which(program, why)?)))
            .collect()
    }

    /// What to say at the end, where a program was profiled. `share`: what a program that could not be followed took of the CPU time, 0 to 1.
    pub fn notes(&self, share: impl Fn(&Path) -> Option<f64>) -> Vec<String> {
        let busy = self.of(|_, why| (*why == Why::Busy).then(String::new));
        let cannot = self.of(|program, why| match why {
            Why::Cannot(reason) => {
                Some(format!(" ({reason}{})", share(program).map(took).unwrap_or_default()))
            }
            _ => None,
        });
        let mut notes = Vec::new();
        if !busy.is_empty() {
            notes.push(format!(
                "also started, and not profiled: {}; choose one with --follow NAME",
                crate::failure::list(&busy, NAMED)
            ));
        }
        if !cannot.is_empty() {
            notes.push(format!(
                "could not be followed: {}; its time counts as the world's",
                crate::failure::list(&cannot, NAMED)
            ));
        }
        notes
    }

    /// What there was, where no program was profiled, as the middle of a sentence.
    pub fn instead(&self) -> String {
        let why = |_: &Path, why: &Why| match why {
            Why::Cannot(reason) => Some(format!(" ({reason})")),
            Why::Lacks(reason) => Some(format!(" ({reason})")),
            Why::Busy => Some(String::new()),
        };
        let programs = self.of(why);
        match (programs.is_empty(), self.helpers.is_empty()) {
            (false, _) => format!("it executed {}", crate::failure::list(&programs, NAMED)),
            (true, false) => format!("it executed only {}", crate::failure::list(&self.helpers, NAMED)),
            (true, true) => "it executed none".to_owned(),
        }
    }
}

/// What a share of the CPU time is in words, behind the reason. What a process takes after it was last looked at is not in it.
fn took(share: f64) -> String {
    match 100.0 * share {
        0.0 => "; its CPU time is too short to be measured".to_owned(),
        little if little < 1.0 => format!("; at least {little:.1} % of the CPU time"),
        much => format!("; at least {much:.0} % of the CPU time"),
    }
}

fn shown(program: &Path) -> String {
    printable(&program.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_names_each_program_once() {
        let mut seen = Seen::default();
        assert_eq!((seen.instead().as_str(), seen.notes(|_| None)), ("it executed none", vec![]));
        seen.helper(Path::new("/bin/mkdir"));
        seen.helper(Path::new("/bin/mkdir"));
        assert_eq!(seen.instead(), "it executed only /bin/mkdir");
        for _ in 0..2 {
            seen.add(Path::new("/a"), Why::Busy);
            seen.add(Path::new("/b"), Why::Cannot("it is static".to_owned()));
        }
        assert_eq!(seen.instead(), "it executed /a, /b (it is static)");
        let notes = seen.notes(|_| None);
        assert!(
            notes[0].contains("not profiled: /a;") && notes[1].contains("/b (it is static)"),
            "{notes:?}"
        );
        for (share, told) in [
            (0.0, "/b (it is static; its CPU time is too short to be measured);"),
            (0.004, "/b (it is static; at least 0.4 % of the CPU time);"),
            (0.25, "/b (it is static; at least 25 % of the CPU time); its time counts as the world's"),
        ] {
            let notes = seen.notes(|program| (program == Path::new("/b")).then_some(share));
            assert!(notes[1].contains(told), "{notes:?}");
        }
        seen.forget(Path::new("/a"));
        assert_eq!(seen.notes(|_| None).len(), 1);
    }
}
