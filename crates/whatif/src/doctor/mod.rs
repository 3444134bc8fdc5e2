//! `whatif doctor`: what this machine and a program allow, what that means for a profile, and how to fix what is wrong.
//!
//! **Does:** look and try, within two seconds. **Does not:** run the program, or change anything. **Constraints:** what
//! cannot be found out is reported as unknown; a shortcoming always comes with its consequence.

mod machine;
mod program;

use crate::{cli, show};
use anyhow::Result;
use std::fmt::Write as _;

/// Exit status when something keeps `whatif` from measuring at all.
const PROBLEM: i32 = 1;

/// How good a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Answers take longer, or are less exact or less complete.
    Warning,
    /// There will be no answer.
    Problem,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Note => "note",
            State::Warning => "warning",
            State::Problem => "problem",
        }
    }
}

/// What was found out about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    topic: &'static str,
    state: State,
    /// What is there.
    found: String,
    /// What follows from it.
    means: Option<String>,
    /// What to do about it.
    advice: Option<String>,
}

impl Finding {
    fn good(topic: &'static str, found: impl Into<String>) -> Self {
        Self { topic, state: State::Good, found: found.into(), means: None, advice: None }
    }

    fn new(topic: &'static str, state: State, found: impl Into<String>, means: impl Into<String>) -> Self {
        Self { topic, state, found: found.into(), means: Some(means.into()), advice: None }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// `whatif doctor`. Returns the exit status.
pub fn doctor(args: &cli::Doctor) -> Result<i32> {
    let machine = machine::look();
    let named = args.program.first();
    let program = named.map(|_| program::look(&args.program));
    let all = || machine.iter().chain(program.iter().flatten());
    let worst = all().map(|finding| finding.state).max();
    if args.json {
        show::print(&format!("{:#}", json(&machine, program.as_deref())))?;
    } else {
        let mut text = String::new();
        if let (Some(findings), Some(name)) = (&program, named) {
            text += &section(&profile::printable(&name.to_string_lossy()), findings);
            text += "\n";
        }
        text += &section("This machine", &machine);
        text += match worst {
            Some(State::Problem) => "\nSomething is in the way: see \"problem\" above.\n",
            Some(State::Warning) => "\nwhatif works here, with the limits above.\n",
            _ => "\nwhatif works here.\n",
        };
        show::print(&text)?;
    }
    Ok(if worst == Some(State::Problem) { PROBLEM } else { 0 })
}

/// The text is indented below what it belongs to.
fn section(title: &str, findings: &[Finding]) -> String {
    let widest = findings.iter().map(|finding| finding.topic.chars().count()).max().unwrap_or(0);
    let mut text = format!("{title}\n");
    for finding in findings {
        let _ = writeln!(text, "  {:<8}{:<widest$}  {}", finding.state.name(), finding.topic, finding.found);
        for line in finding.means.iter().chain(&finding.advice).flat_map(|text| text.lines()) {
            let _ = writeln!(text, "{:indent$}{line}", "", indent = widest + 12);
        }
    }
    text
}

fn json(machine: &[Finding], program: Option<&[Finding]>) -> serde_json::Value {
    let of = |finding: &Finding| {
        serde_json::json!({
            "topic": finding.topic,
            "state": finding.state.name(),
            "found": finding.found,
            "means": finding.means,
            "advice": finding.advice,
        })
    };
    serde_json::json!({
        "version": 1,
        "whatif_version": env!("CARGO_PKG_VERSION"),
        "machine": machine.iter().map(of).collect::<Vec<_>>(),
        "program": program.map(|findings| findings.iter().map(of).collect::<Vec<_>>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shortcoming_has_a_consequence() {
        let program = program::look(&[std::env::current_exe().unwrap().into()]);
        for finding in machine::look().iter().chain(&program) {
            assert!(!finding.found.is_empty(), "{finding:?}");
            assert_eq!(finding.state > State::Good, finding.means.is_some(), "{finding:?}");
        }
        let nothing = program::look(&["/no/such/program".into()]);
        assert_eq!(nothing.iter().map(|finding| finding.state).max(), Some(State::Problem));
    }

    #[test]
    fn findings_line_up() {
        let findings = [
            Finding::good("perf", "allowed"),
            Finding::new("processors", State::Note, "2", "few").advice("buy more"),
        ];
        assert_eq!(
            section("Here", &findings),
            "Here\n  ok      perf        allowed\n  note    processors  2\n                      few\n                      buy more\n"
        );
        let json = json(&findings, None);
        assert_eq!(
            (&json["machine"][1]["means"], &json["program"]),
            (&"few".into(), &serde_json::Value::Null)
        );
    }
}
