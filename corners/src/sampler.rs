//! What takes the samples.

/// What takes the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Perf events with the kernel's time.
    Perf,
    /// Perf events without it.
    PerfUser,
    /// Timers of CPU time.
    Timer,
}

impl Sampler {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::Perf, Self::PerfUser, Self::Timer];

    /// As `whatif run --sampler` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::PerfUser => "perf-user",
            Self::Timer => "timer",
        }
    }
}
