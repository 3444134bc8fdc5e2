//! Caveats: what recordings and comparisons of them are to be read with, in words, and what to do about it.
//!
//! What a run itself warns of is the controller's.

use crate::estimate::ENOUGH_RUNS;
use crate::model::Warning;

/// One caveat, with what was seen. The text is what was seen; [`advice`](Self::advice) is what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Caveat {
    #[error(
        "these are single experiments that Coz made: each is compared with the baseline of its line that is \
         nearest in the same run; it was not checked whether its delays were inserted as they should be, and what Coz \
         itself is off by is in no interval"
    )]
    FromCoz,

    /// `first`: the first of them.
    #[error("{}", damaged_lines(*.lines, *.first))]
    DamagedLines { lines: usize, first: usize },

    /// `images`: each with its builds.
    #[error(
        "the runs are of different builds of {}; the rates and latencies of points are those of all builds \
         together, and code that is in several of them is listed once for each",
        .images.join(", and of ")
    )]
    SeveralBuilds { images: Vec<String> },

    #[error("the recordings are of different {}: {before} and {after}", .what.noun())]
    Different { what: What, before: String, after: String },

    /// Shares of the machine.
    #[error(
        "other programs used {:.0} % of the machine in the first recording and {:.0} % in the second",
        .before * 100.0,
        .after * 100.0
    )]
    DifferentLoad { before: f64, after: f64 },

    #[error("{runs} of the runs are in both recordings, so that they are not independent")]
    SharedRuns { runs: usize },

    #[error(
        "{} against {}: the intervals of the points do not know how much one run differs from the next",
        number_of_runs(*.before),
        number_of_runs(*.after)
    )]
    FewRuns { before: usize, after: usize },
}

/// What two recordings should have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Programs,
    Arguments,
    Machines,
}

impl What {
    fn noun(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Arguments => "arguments",
            Self::Machines => "machines",
        }
    }
}

impl Caveat {
    /// A short, stable name.
    fn code(&self) -> &'static str {
        match self {
            Self::FromCoz => "from-coz",
            Self::DamagedLines { .. } => "damaged-lines",
            Self::SeveralBuilds { .. } => "several-builds",
            Self::Different { what: What::Programs, .. } => "different-programs",
            Self::Different { what: What::Arguments, .. } => "different-arguments",
            Self::Different { what: What::Machines, .. } => "different-machines",
            Self::DifferentLoad { .. } => "different-load",
            Self::SharedRuns { .. } => "shared-runs",
            Self::FewRuns { .. } => "few-runs",
        }
    }

    /// What to do about it.
    fn advice(&self) -> String {
        let advice = match self {
            Self::FromCoz => {
                "for baselines next to every window, and delays that are checked, measure it again: \
                 whatif run -- PROGRAM"
            }
            Self::DamagedLines { .. } => {
                "the experiments that they belong to count as cut short, and all others count; if there are many, \
                 let Coz write the profile again"
            }
            Self::SeveralBuilds { .. } => {
                "record each build into a file of its own (whatif run -o FILE), and see what is different with: \
                 whatif compare BEFORE AFTER"
            }
            Self::Different { what: What::Programs, .. } => {
                "compare recordings of the same program, unless one is the other under a new name"
            }
            Self::Different { what: What::Arguments, .. } => {
                "what changed may be the work and not the program: record both with the same arguments"
            }
            Self::Different { what: What::Machines, .. } => {
                "rates of different machines say nothing about the program: record both on the same one"
            }
            Self::DifferentLoad { .. } => {
                "what changed may be the machine and not the program: record both again, by turns"
            }
            Self::SharedRuns { .. } => {
                "record what is to be compared into separate files: whatif run -o FILE -- PROGRAM"
            }
            Self::FewRuns { .. } => {
                return format!(
                    "record at least {ENOUGH_RUNS} runs into each file, best by turns: whatif run -o FILE -- PROGRAM"
                );
            }
        };
        advice.to_owned()
    }
}

impl From<Caveat> for Warning {
    fn from(caveat: Caveat) -> Self {
        Self { code: caveat.code().to_owned(), message: caveat.to_string(), advice: caveat.advice() }
    }
}

fn damaged_lines(lines: usize, first: usize) -> String {
    match lines {
        1 => format!("one line of the profile could not be used (line {first}, empty ones not counted)"),
        _ => format!(
            "{lines} lines of the profile could not be used (line {first} first, empty ones not counted)"
        ),
    }
}

fn number_of_runs(runs: usize) -> String {
    if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") }
}
