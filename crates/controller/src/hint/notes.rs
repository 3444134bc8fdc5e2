//! Notes: what is doubtful about what production says.

use super::program::{Program, short};
use super::{Answer, Costs, Source};
use crate::warning::Warning;
use profile::Region;

/// Fewer samples do not say what is hot.
const FEW: u64 = 100;
/// A larger share of samples without names is worth a note.
const NAMELESS: f64 = 0.1;
/// Where a larger share of samples has no names, no shares are shown for the rest either.
const MOST_NAMELESS: f64 = 0.5;
/// A function that costs at least this in production should run here.
const SHOULD_RUN: f64 = 0.05;

fn nothing(warning: Warning) -> Answer {
    Answer { costs: None, warnings: vec![warning] }
}

/// The database cannot be read, or has no samples: the first line says so, and the others what to do.
pub fn failed(error: &anyhow::Error) -> Answer {
    let text = format!("{error:#}");
    let (problem, advice) = match text.split_once('\n') {
        Some((problem, advice)) => {
            (problem, Some(advice.split('\n').map(str::trim).collect::<Vec<_>>().join("; ")))
        }
        None => (&*text, None),
    };
    nothing(Warning::HintUnavailable { problem: problem.to_owned(), advice })
}

/// The thread that reads it has gone.
pub fn nobody() -> Answer {
    nothing(Warning::HintNotRead)
}

/// It takes longer than the run.
pub fn late() -> Answer {
    nothing(Warning::HintLate)
}

/// The program is not in the database.
pub fn not_there(program: &Program, source: &Source) -> Answer {
    nothing(Warning::HintNotThere {
        folder: source.folder.to_string_lossy().into_owned(),
        program: program.name().to_owned(),
        since: source.since.day(),
    })
}

/// What there is. `other`: the builds it is of, if not of the one that is run.
pub fn judged(costs: Costs, program: &Program, other: Option<&[String]>) -> Answer {
    let name = || program.name().to_owned();
    let mut warnings = Vec::new();
    if let Some(builds) = other {
        let mut builds: Vec<String> = builds.iter().filter(|id| !id.is_empty()).map(|id| short(id)).collect();
        builds.dedup();
        let this = program.build_id.as_deref().map_or("none".to_owned(), short);
        warnings.push(Warning::HintOtherBuild { program: name(), builds, this });
    }
    let share = costs.nameless as f64 / costs.samples.max(1) as f64;
    let shown = share <= MOST_NAMELESS;
    if share > NAMELESS {
        warnings.push(Warning::HintNameless { program: name(), share, shown });
    }
    if costs.samples < FEW {
        warnings.push(Warning::HintFewSamples { program: name(), samples: costs.samples });
    }
    let says_something = costs.samples > 0 && shown;
    Answer { costs: says_something.then_some(costs), warnings }
}

/// What is hot in production and did not run here. `samples`: how many there were here.
pub fn unseen<'r>(costs: &Costs, samples: u64, ran: impl Iterator<Item = &'r Region>) -> Option<Warning> {
    // With fewer, code that does run may not have been met.
    if samples < FEW || costs.samples < FEW {
        return None;
    }
    let unseen = costs.unseen(SHOULD_RUN, ran);
    (!unseen.is_empty()).then_some(Warning::ProductionElsewhere { unseen })
}
