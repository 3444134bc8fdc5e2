//! `whatif fleet`: hands what was typed to the crate `fleet`, and shows the answers.

mod gate;

use crate::compare;
use crate::continuous::{answer, put_flame, said_of_conditions};
use crate::show;
use anyhow::{Context as _, Result};
use fleet::Pushed;
use fleet::arguments::{Command, GiveOrder, Push, Worth};
use fleet::command;
use profile::{counted, printable};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Does what was asked. Returns the exit status.
pub fn fleet(asked: &Command) -> Result<i32> {
    match asked {
        Command::Init(args) => show::print(&format!("{}\n", command::init(args)?.join("\n"))),
        Command::Push(args) => push(args),
        Command::Top(args) => answer(&command::top(args)?, args.json),
        Command::Flame(args) => {
            let (heading, flame) = command::flame(args)?;
            if args.drawing.folded {
                // On a page they are above the graph.
                for note in &heading.warnings {
                    kernel::say!("whatif: {}\n  {}", printable(&note.message), printable(&note.advice));
                }
            }
            put_flame(&heading, &flame, &args.drawing)
        }
        Command::Diff(args) => {
            let difference = command::diff(args)?;
            answer(&difference, args.json)?;
            return Ok(said_of_conditions(difference.conditions.as_ref()));
        }
        Command::Worth(args) => return worth(args),
        Command::Hosts(args) => {
            let hosts = command::hosts(args)?;
            told("fleet-hosts", &hosts, hosts.text(), args.json)
        }
        Command::Status(args) => {
            let standing = command::status(args)?;
            told("fleet-status", &standing, standing.text(), args.json)
        }
        Command::Stop(args) => ordered(args, true),
        Command::Resume(args) => ordered(args, false),
        Command::Sql(args) => {
            let text = command::sql(args)?;
            // Names are whatever users call their processes: nothing of it may do something to the terminal.
            let is_safe = !std::io::stdout().is_terminal();
            let lines = text.lines().map(|line| format!("{}\n", printable(line)));
            show::print(&if is_safe { text } else { lines.collect() })
        }
    }?;
    Ok(0)
}

/// Returns the exit status.
fn worth(args: &Worth) -> Result<i32> {
    let mut worths = command::whole_worth(args)?;
    let judged: Vec<_> = args.fail_if.iter().map(|of| (of, gate::judge(&worths, of))).collect();
    worths.shorten(args.top);
    told("fleet-worth", &worths, worths.text(), args.json)?;
    let advice = "more hosts, or more time of the same, make the interval narrower";
    let said = judged.into_iter().map(|(condition, judged)| compare::gate::say(condition, judged, advice));
    Ok(said.fold(0, i32::max))
}

fn told(kind: &'static str, answer: &impl Serialize, text: String, json: bool) -> Result<()> {
    show::print(&if json { format!("{}\n", report::cycles::line(kind, answer).trim_end()) } else { text })
}

fn ordered(args: &GiveOrder, stopped: bool) -> Result<()> {
    let order = command::give_order(args, stopped)?;
    let what = if stopped {
        "agents that reach the server end their experiments within seconds, and begin none until: whatif fleet resume"
    } else {
        "agents make experiments again"
    };
    let (who, reason) = (printable(&order.who), printable(&order.reason));
    show::print(&format!("{who}: {reason}\n{what}\n"))
}

fn push(args: &Push) -> Result<()> {
    let so_far = Arc::new(Mutex::new(Pushed::default()));
    if args.follow {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for signals")?;
        let so_far = Arc::clone(&so_far);
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                // At once, whatever is being sent: the next sender asks the server what it has.
                let told = show::print(&sent(*so_far.lock().unwrap_or_else(PoisonError::into_inner)));
                std::process::exit(i32::from(told.is_err()));
            }
        });
    }
    let mut after = |pushed: Pushed| so_far.lock().unwrap_or_else(PoisonError::into_inner).add(pushed);
    let mut wait = |longest: Duration| {
        std::thread::sleep(longest);
        true
    };
    let all = command::push(args, &mut after, &mut |text| kernel::say!("whatif: {text}"), &mut wait)?;
    show::print(&sent(all))
}

fn sent(pushed: Pushed) -> String {
    let Pushed { hours, found, rows, samples, runs, windows, runs_found, waiting, refused } = pushed;
    let of = counted;
    let were = |count: u64| if count == 1 { "was" } else { "were" };
    let found = match found {
        0 => String::new(),
        found => format!("; {} {} there already", of(found, "hour"), were(found)),
    };
    let (hours, samples, rows) = (of(hours, "hour"), of(samples, "sample"), of(rows, "row"));
    let mut text = format!("sent {hours}: {samples} in {rows}{found}\n");
    if runs + runs_found + waiting + refused > 0 {
        text += &format!("sent {}: {}", of(runs, "run"), of(windows, "window"));
        for (count, one, several) in [
            (runs_found, "was there already", "were there already"),
            (waiting, "is not over, and waits", "are not over, and wait"),
            (
                refused,
                "cannot be read, or does not say where it was recorded",
                "cannot be read, or do not say where they were recorded",
            ),
        ] {
            if count > 0 {
                text += &format!("; {count} {}", if count == 1 { one } else { several });
            }
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let one = Pushed {
            hours: 1,
            found: 1,
            rows: 1,
            samples: 1,
            runs: 1,
            windows: 1,
            runs_found: 1,
            waiting: 1,
            refused: 1,
        };
        assert_eq!(
            sent(one),
            "sent 1 hour: 1 sample in 1 row; 1 hour was there already\n\
             sent 1 run: 1 window; 1 was there already; 1 is not over, and waits; 1 cannot be read, or does not say where it was recorded\n"
        );
        let mut two = one;
        two.add(one);
        assert_eq!(
            sent(two),
            "sent 2 hours: 2 samples in 2 rows; 2 hours were there already\n\
             sent 2 runs: 2 windows; 2 were there already; 2 are not over, and wait; 2 cannot be read, or do not say where they were recorded\n"
        );
    }
}
