//! Notes: what is doubtful about what production says.

use super::program::{Program, short};
use super::{Answer, Costs, Source};
use profile::{Region, Warning, printable};

/// Fewer samples do not say what is hot.
const FEW: u64 = 100;
/// A larger share of samples without names is worth a note.
const NAMELESS: f64 = 0.1;
/// Where a larger share of samples has no names, no shares are shown for the rest either.
const MOST_NAMELESS: f64 = 0.5;
/// A function that costs at least this in production should run here.
const HOT: f64 = 0.05;
/// Functions that are named.
const NAMED: usize = 3;

fn warning(code: &str, message: String, advice: &str) -> Warning {
    Warning { code: code.to_owned(), message, advice: advice.to_owned() }
}

fn nothing(code: &str, message: String, advice: &str) -> Answer {
    Answer { costs: None, warnings: vec![warning(code, message, advice)] }
}

/// The database cannot be read, or has no samples: the first line says so, and the others what to do.
pub fn failed(error: &anyhow::Error) -> Answer {
    let text = format!("{error:#}");
    let (message, advice) =
        text.split_once('\n').unwrap_or((&text, "see what there is: whatif epochs --db DIR"));
    let advice = advice.split('\n').map(str::trim).collect::<Vec<_>>().join("; ");
    nothing("hint-unavailable", format!("production says nothing (--hint-db): {message}"), &advice)
}

/// The thread that reads it has gone.
pub fn nobody() -> Answer {
    let message = "production says nothing (--hint-db): the database was not read to its end".to_owned();
    nothing("hint-unavailable", message, "see what is wrong with it: whatif top --db DIR")
}

/// It takes longer than the run.
pub fn late() -> Answer {
    let message =
        "reading the database of --hint-db took longer than the run, which was not told what it says";
    nothing(
        "hint-late",
        message.to_owned(),
        "take less of it, as in --hint-since 1d, or let the program run longer",
    )
}

/// The program is not in the database.
pub fn not_there(program: &Program, source: &Source) -> Answer {
    let message = format!(
        "{} has no samples of {} since {} (--hint-db)",
        printable(&source.folder.to_string_lossy()),
        printable(program.name()),
        source.since.day()
    );
    let advice = "take more of it, as in --hint-since 30d, or collect profiles where the program works: whatif collect; what \
                  there is: whatif top --by process";
    nothing("hint-not-there", message, advice)
}

/// What there is. `other`: the builds it is of, if not of the one that is run.
pub fn judged(costs: Costs, program: &Program, other: Option<&[String]>) -> Answer {
    let name = printable(program.name()).into_owned();
    let mut warnings = Vec::new();
    if let Some(builds) = other {
        let mut builds: Vec<String> = builds.iter().filter(|id| !id.is_empty()).map(|id| short(id)).collect();
        builds.dedup();
        let these = if builds.is_empty() { "without build ID".to_owned() } else { builds.join(", ") };
        let this = program.build_id.as_deref().map_or("none".to_owned(), short);
        warnings.push(warning(
            "hint-other-build",
            format!("the profiles of {name} in production are of another build ({these}; this one is {this})"),
            "shares in production are those of functions with the same names, and of no lines; profile the build that is in \
             production to have both",
        ));
    }
    let nameless = costs.nameless as f64 / costs.samples.max(1) as f64;
    if nameless > NAMELESS {
        let message =
            format!("{:.0} % of the samples of {name} in production have no names", 100.0 * nameless);
        let rest = if nameless > MOST_NAMELESS { ": no shares are shown" } else { "" };
        let advice = "keep the debug files of what you deploy below /usr/lib/debug/.build-id, or let debuginfod have them; see \
                      why: whatif unknown";
        warnings.push(warning("hint-nameless", message + rest, advice));
    }
    if costs.samples < FEW {
        let message = format!("there are only {} samples of {name} in production", costs.samples);
        warnings.push(warning("hint-few-samples", message, "take more of it, as in --hint-since 30d"));
    }
    let says_something = costs.samples > 0 && nameless <= MOST_NAMELESS;
    Answer { costs: says_something.then_some(costs), warnings }
}

/// What is hot in production and did not run here. `samples`: how many there were here.
pub fn unseen<'r>(costs: &Costs, samples: u64, ran: impl Iterator<Item = &'r Region>) -> Option<Warning> {
    // With fewer, code that does run may not have been met.
    if samples < FEW || costs.samples < FEW {
        return None;
    }
    let unseen = costs.unseen(HOT, ran);
    let message = match unseen.as_slice() {
        [] => return None,
        [(name, share)] => format!(
            "in production {:.0} % of the time is in `{}`, which did not run here",
            100.0 * share,
            printable(name)
        ),
        several => {
            let of =
                |(name, share): &(String, f64)| format!("`{}` ({:.0} %)", printable(name), 100.0 * share);
            let named: Vec<String> = several.iter().take(NAMED).map(of).collect();
            let more = several.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "in production much of the time is in code that did not run here: {}{more}",
                named.join(", ")
            )
        }
    };
    Some(warning(
        "production-elsewhere",
        message,
        "is this load like production's? What does not run cannot be tried: give the program such work",
    ))
}
