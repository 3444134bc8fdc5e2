//! What can be sampled.

use std::fmt;

/// An event source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    name: &'static str,
    kind: u32,
    config: u64,
    unit: Unit,
}

/// What a source counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Cycles of a CPU: some billions a second.
    Cycles,
    /// Something else that happens.
    Occurrences,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

const ALL: [Source; 14] = [
    Source { name: "cpu-clock", kind: SOFTWARE, config: 0, unit: Unit::Nanos },
    Source { name: "task-clock", kind: SOFTWARE, config: 1, unit: Unit::Nanos },
    Source { name: "page-faults", kind: SOFTWARE, config: 2, unit: Unit::Occurrences },
    Source { name: "context-switches", kind: SOFTWARE, config: 3, unit: Unit::Occurrences },
    Source { name: "cpu-migrations", kind: SOFTWARE, config: 4, unit: Unit::Occurrences },
    Source { name: "minor-faults", kind: SOFTWARE, config: 5, unit: Unit::Occurrences },
    Source { name: "major-faults", kind: SOFTWARE, config: 6, unit: Unit::Occurrences },
    Source { name: "cycles", kind: HARDWARE, config: 0, unit: Unit::Cycles },
    Source { name: "instructions", kind: HARDWARE, config: 1, unit: Unit::Cycles },
    Source { name: "cache-references", kind: HARDWARE, config: 2, unit: Unit::Occurrences },
    Source { name: "cache-misses", kind: HARDWARE, config: 3, unit: Unit::Occurrences },
    Source { name: "branches", kind: HARDWARE, config: 4, unit: Unit::Occurrences },
    Source { name: "branch-misses", kind: HARDWARE, config: 5, unit: Unit::Occurrences },
    Source { name: "stalled-cycles-frontend", kind: HARDWARE, config: 7, unit: Unit::Cycles },
];

impl Source {
    /// Never happens.
    pub(super) const NOTHING: Self =
        Self { name: "dummy", kind: SOFTWARE, config: 9, unit: Unit::Occurrences };

    /// Time that threads wait, which no event of the kernel counts: see [`crate::waits`]. Not among the [`names`](Self::names).
    pub const OFF_CPU: Self = Self { name: "off-cpu", kind: SOFTWARE, config: 9, unit: Unit::Nanos };

    /// The source of this name, as perf-list(1) has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|source| source.name == name)
    }

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.into_iter().map(|source| source.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// What it counts in.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.unit
    }

    /// `type` and `config` of perf_event_open(2).
    pub(super) fn numbers(self) -> (u32, u64) {
        (self.kind, self.config)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
