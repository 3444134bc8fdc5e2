//! What was found out, and how good that is.

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
    pub fn name(self) -> &'static str {
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
    pub topic: &'static str,
    pub state: State,
    /// What is there.
    pub found: String,
    /// What follows from it.
    pub means: Option<String>,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Finding {
    pub fn good(topic: &'static str, found: impl Into<String>) -> Self {
        Self { topic, state: State::Good, found: found.into(), means: None, advice: None }
    }

    pub fn new(
        topic: &'static str,
        state: State,
        found: impl Into<String>,
        means: impl Into<String>,
    ) -> Self {
        Self { topic, state, found: found.into(), means: Some(means.into()), advice: None }
    }

    pub fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}
