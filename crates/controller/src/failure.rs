//! Why a run gave no answer. Each reason has its own exit status, so that scripts can tell them apart,
//! and says what to do.

use crate::images::NAMES_OF_MADE;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// The exit statuses of runs whose program was profiled and succeeded, and that have no answer.
pub const NO_ANSWER: RangeInclusive<i32> = 94..=101;

/// A run without an answer. Shown when the program has ended, and stored as a warning.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(
        "{program} has no debug information, so its code cannot be told apart; compile it with -g (Rust: \
         debug = 1 in the profile), or name a library that has some with --binary GLOB"
    )]
    NoDebugInformation { program: String },

    #[error(
        "the runtime did not attach to {program}, so nothing was measured; check that it is dynamically \
         linked and does not clear LD_PRELOAD (a wrapper script? run the program itself under whatif)"
    )]
    NotAttached { program: String },

    #[error(
        "{wrapper} did not lead to a program that could be profiled: {instead}; name the one that is meant with --follow NAME, run \
         it itself (whatif run -- PROGRAM), or profile {wrapper} with --no-follow"
    )]
    NothingJoined {
        wrapper: String,
        /// What it executed.
        instead: String,
    },

    #[error(
        "the runtime library is of another build than this whatif ({runtime:016x}, not {controller:016x}); \
         delete the cache folder (~/.cache/whatif, or below XDG_CACHE_HOME) or reinstall whatif"
    )]
    Mismatch { controller: u64, runtime: u64 },

    #[error(
        "sampling was refused: {perf}no timer of CPU time could be made; allow one of them in this container \
         (seccomp, ulimit -i), or run: sysctl kernel.perf_event_paranoid=2"
    )]
    NoSampler {
        /// What perf said, as the beginning of a sentence; nothing if it was not asked.
        perf: String,
    },

    #[error(
        "the program used too little CPU time to be sampled (it waited, or ended after {seconds:.2} s); \
         profile a run with work to do"
    )]
    NoSamples { seconds: f64 },

    /// `share`: of a CPU.
    #[error(
        "the program was idle ({:.1} % of a CPU for {seconds:.0} s); send it requests, or give it other work, while whatif runs",
        100.0 * .share
    )]
    Idle { seconds: f64, share: f64 },

    #[error(
        "none of {samples} samples was in scope; {seen}widen it with --scope GLOB (source files) or --binary \
         GLOB (libraries)"
    )]
    NothingInScope { samples: u64, seen: String },

    /// `instead`: what can be judged, and the command for it.
    #[error("none of {samples} samples was in scope; {instead}")]
    NothingOfInterpreted { samples: u64, instead: String },

    #[error("none of {samples} samples was in scope, because the program ran {seen}; {NAMES_OF_MADE}")]
    NothingNamed { samples: u64, seen: String },

    #[error(
        "/proc is not mounted, so the program's code cannot be looked up; mount it where whatif runs: mount -t proc proc /proc"
    )]
    NoProc,

    #[error("the region {region} never ran; {hint}")]
    RegionNeverRan { region: String, hint: String },

    #[error(
        "no progress point: nothing says what counts as a unit of work; {}",
        .instead.as_deref().unwrap_or(
            "say where one is done with -p FILE:LINE or -p fn:NAME, or judge a program that ends by itself by how long it takes: \
             --end-to-end; or mark a point with whatif::progress!() (Rust, package whatif-points) or WHATIF_PROGRESS (C and C++, whatif.h), \
             and rebuild"
        )
    )]
    NoProgressPoint {
        /// Of an interpreter: what can be judged, and the command for it.
        instead: Option<String>,
    },

    #[error("no suggestions; {why}")]
    NoSuggestions { why: String },

    #[error(
        "no progress point was visited during an experiment (registered: {points}); profile a run that \
         reaches one, or put one where work is done more often"
    )]
    PointNeverReached { points: String },

    #[error(
        "{} ended after {seconds:.2} s, before an experiment was complete; {}",
        if *.is_over { "the time that was given" } else { "the program" },
        if *.is_over {
            "give it more: --duration 10s"
        } else {
            "give it more work, or judge it by how long whole runs take: whatif run --end-to-end -- …"
        }
    )]
    TooShort {
        seconds: f64,
        /// Whether `--duration` ended it, and not the program.
        is_over: bool,
    },

    #[error(
        "{} too few for an answer; let the program run longer (or again, into the \
         same file with -o), or ask one question with --region and --speedup",
        if *.experiments == 1 { "one experiment was".to_owned() } else { format!("{experiments} experiments were") }
    )]
    TooFewExperiments { experiments: u64 },

    #[error(
        "{windows} windows are left out because the program's threads did not pay their delays in time; they may \
         wait in a way that whatif cannot see: try --region on other code"
    )]
    Unbalanced { windows: usize },
}

impl Failure {
    /// The exit status of `whatif` when the program itself succeeded.
    pub fn status(&self) -> i32 {
        match self {
            Self::NoDebugInformation { .. } => 91,
            Self::NotAttached { .. } => 92,
            Self::Mismatch { .. } => 93,
            Self::NoSampler { .. } => 94,
            Self::NoSamples { .. } | Self::Idle { .. } => 95,
            Self::NothingInScope { .. } | Self::NothingNamed { .. } | Self::NothingOfInterpreted { .. } => 96,
            Self::RegionNeverRan { .. } => 97,
            Self::NoProgressPoint { .. } | Self::NoSuggestions { .. } => 98,
            Self::PointNeverReached { .. } => 99,
            Self::TooShort { .. } | Self::TooFewExperiments { .. } => 100,
            Self::Unbalanced { .. } => 101,
            Self::NoProc => 102,
            Self::NothingJoined { .. } => 103,
        }
    }

    /// A short, stable name, stored with the recording.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDebugInformation { .. } => "no-debug-information",
            Self::NotAttached { .. } => "not-attached",
            Self::Mismatch { .. } => "runtime-mismatch",
            Self::NoSampler { .. } => "no-sampler",
            Self::NoSamples { .. } => "no-samples",
            Self::Idle { .. } => "idle",
            Self::NothingInScope { .. } | Self::NothingNamed { .. } | Self::NothingOfInterpreted { .. } => {
                "nothing-in-scope"
            }
            Self::RegionNeverRan { .. } => "region-never-ran",
            Self::NoProgressPoint { .. } => "no-progress-point",
            Self::NoSuggestions { .. } => "no-suggestions",
            Self::PointNeverReached { .. } => "point-never-reached",
            Self::TooShort { .. } | Self::TooFewExperiments { .. } => "too-short",
            Self::Unbalanced { .. } => "unbalanced",
            Self::NoProc => "no-proc",
            Self::NothingJoined { .. } => "nothing-joined",
        }
    }
}

/// As it is stored: what was seen, and what to do.
impl From<&Failure> for profile::Warning {
    fn from(failure: &Failure) -> Self {
        let text = failure.to_string();
        let (message, advice) = text.split_once("; ").unwrap_or((&text, ""));
        Self { code: failure.code().to_owned(), message: message.to_owned(), advice: advice.to_owned() }
    }
}

/// `a, b and 3 more`.
pub fn list(names: &[String], most: usize) -> String {
    let mut text = names[..names.len().min(most)].join(", ");
    if names.len() > most {
        let _ = write!(text, " and {} more", names.len() - most);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_without_an_answer_have_no_gap() {
        let text = String::new;
        let failures = [
            Failure::NoSampler { perf: text() },
            Failure::NoSamples { seconds: 1.0 },
            Failure::NothingInScope { samples: 1, seen: text() },
            Failure::RegionNeverRan { region: text(), hint: text() },
            Failure::NoProgressPoint { instead: None },
            Failure::PointNeverReached { points: text() },
            Failure::TooShort { seconds: 1.0, is_over: false },
            Failure::Unbalanced { windows: 1 },
        ];
        assert_eq!(failures.map(|failure| failure.status()).to_vec(), NO_ANSWER.collect::<Vec<_>>());
    }
}
