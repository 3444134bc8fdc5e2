//! A process that runs already: whether it can be attached to.

use super::finding::{Finding, State};
use controller::attach::{Examined, examine};
use std::ffi::OsStr;
use std::path::Path;

/// The number of a process; nothing if it is no number, or a file has that name.
pub fn number(name: &OsStr) -> Option<u32> {
    name.to_str()?.parse().ok().filter(|_| !Path::new(name).exists())
}

/// What is found out about the process with this number; nothing if it is none.
pub fn look(name: &OsStr) -> Option<Vec<Finding>> {
    let pid = controller::attach::told_of(number(name)?);
    Some(match examine(pid) {
        Ok(examined) => of(pid, &examined),
        Err(error) => {
            let text = format!("{error:#}");
            vec![Finding::new(
                "attach",
                State::Problem,
                profile::printable(&text),
                "nothing of it is profiled",
            )]
        }
    })
}

fn of(pid: u32, examined: &Examined) -> Vec<Finding> {
    let shown = examined.program.display().to_string();
    let mut findings = vec![Finding::good("program", profile::printable(&shown))];
    findings.push(Finding::good("attach", format!("whatif attach {pid}")));
    findings.push(Finding::good("threads", examined.threads.to_string()));
    match (&examined.started[..], examined.refused) {
        ([], _) => {}
        (started, 0) => findings.push(Finding::good(
            "processes",
            format!("{} that it has started, which are profiled with it", started.len()),
        )),
        (started, refused) => findings.push(
            Finding::new(
                "processes",
                State::Warning,
                format!("{refused} of {} that it has started cannot be attached to", started.len()),
                "they count as the world",
            )
            .advice(format!("see why: whatif doctor {}", started[0])),
        ),
    }
    if examined.is_dormant {
        findings.push(Finding::good("runtime", "there since the last whatif attach, and used again"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_number_is_a_process() {
        assert_eq!(look(OsStr::new("sleep")), None);
        let nothing = look(OsStr::new("2147483646")).unwrap();
        assert_eq!((nothing.len(), nothing[0].state), (1, State::Problem));
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let found = look(OsStr::new(&child.id().to_string())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Not everywhere may processes be traced.
        assert!(
            found[0].state == State::Problem || found[1].found == format!("whatif attach {}", child.id())
        );
    }
}
