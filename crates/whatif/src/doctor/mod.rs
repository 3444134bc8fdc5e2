//! `whatif doctor`: what this machine and a program allow, what that means for a profile, and how to fix what is wrong.
//!
//! **Does:** look and try, within two seconds. **Does not:** run the program, or change anything. **Constraints:** what
//! cannot be found out is reported as unknown; a shortcoming always comes with its consequence.

mod finding;
mod machine;
mod process;
mod program;

use crate::{cli, show};
use anyhow::Result;
use finding::{Finding, State};
use std::fmt::Write as _;

/// Exit status when something keeps `whatif` from measuring at all.
const PROBLEM: i32 = 1;

/// `whatif doctor`. Returns the exit status.
pub fn doctor(args: &cli::Doctor) -> Result<i32> {
    let named = args.program.first();
    if let Some(pid) = named.and_then(|name| process::number(name))
        && let Some(status) = controller::attach::enter_for(pid)?
    {
        return Ok(status);
    }
    // In a container there is nothing to be found out about the machine.
    let machine = if kernel::name_spaces::is_inside() { Vec::new() } else { machine::look() };
    let program = named.map(|name| process::look(name).unwrap_or_else(|| program::look(&args.program)));
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
        if !machine.is_empty() {
            text += &section("This machine", &machine);
        }
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
