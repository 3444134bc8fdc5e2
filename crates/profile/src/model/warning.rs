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
