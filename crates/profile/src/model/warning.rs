//! Warnings: doubts about a recording, kept with it.

/// A doubt that was shown in the terminal and is shown again by every report.
///
/// Code that warns has an enum of what can go wrong and turns it into this; a recording must stay
/// readable by a `whatif` that knows other warnings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Warning {
    /// Which warning: short, stable, kebab-case.
    pub code: String,
    /// What was seen.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// The codes of what leaves a run without any answer.
const FAILURES: [&str; 10] = [
    "no-proc",
    "no-debug-information",
    "not-attached",
    "runtime-mismatch",
    "no-sampler",
    "no-samples",
    "nothing-in-scope",
    "region-never-ran",
    Warning::NO_PROGRESS_POINT,
    "too-short",
];

impl Warning {
    /// Whether it says why a run gave no answer.
    pub fn is_failure(&self) -> bool {
        FAILURES.contains(&self.code.as_str())
    }

    /// The code where no progress point was marked, and one was chosen.
    pub const CHOSEN_POINT: &str = "chosen-point";
    /// The code where nothing says what counts as a unit of work.
    pub const NO_PROGRESS_POINT: &str = "no-progress-point";
    /// The code where the breakpoint of a progress point slowed the program down.
    pub const SLOW_BESIDE_POINT: &str = "slow-beside-point";
    /// The code where goroutines, which are not accounted for, hand work to one another.
    pub const GOROUTINES: &str = "goroutines";
    /// The code where most of the time was in libraries, and they were looked into as well.
    pub const CHOSEN_FILES: &str = "chosen-files";
    /// The code where nearly all that used the machine beside the program were its own clients, or servers that it asks.
    pub const CLIENTS_HERE: &str = "clients-here";
    /// The code where a condition that the user has named ended the experiments.
    pub const GUARD_BREACHED: &str = "guard-breached";
    /// The code where functions are known, and no lines.
    pub const FUNCTIONS_ONLY: &str = "functions-only";
}
