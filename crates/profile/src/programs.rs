//! Time by program: which of the programs that ran as one took how much of the CPU time.

use std::collections::BTreeMap;

use crate::ranking::Profile;
use crate::units::Nanos;

/// What a program took of all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTime<'a> {
    /// The name of its file; empty for processes of which it is not known.
    pub name: &'a str,
    /// Why it could not be followed; `None` for what was profiled.
    pub obstacle: Option<&'a str>,
    /// The processes that ran it, in all runs.
    pub processes: u64,
    /// The samples in them.
    pub samples: u64,
    /// Their CPU time; of what could not be followed at least so much.
    pub cpu: Nanos,
    /// That time as a share of that of all programs, 0 to 1.
    pub share: f64,
}

impl ProgramTime<'_> {
    /// In words: `worker × 4`.
    pub fn title(&self) -> String {
        let name = if self.name.is_empty() { "other programs" } else { self.name };
        match self.processes {
            0 | 1 => name.to_owned(),
            times => format!("{name} × {times}"),
        }
    }
}

impl Profile {
    /// The programs of all runs by the names of their files, those with most time first; nothing where there was only one, which has all the time.
    pub fn programs(&self) -> Vec<ProgramTime<'_>> {
        let mut sums: BTreeMap<(&str, Option<&str>), ProgramTime<'_>> = BTreeMap::new();
        for program in self.rows.sessions.iter().flat_map(|session| &session.programs) {
            let (name, obstacle) = (program.name(), program.obstacle.as_deref());
            let nothing =
                ProgramTime { name, obstacle, processes: 0, samples: 0, cpu: Nanos::ZERO, share: 0.0 };
            let sum = sums.entry((name, obstacle)).or_insert(nothing);
            sum.processes = sum.processes.saturating_add(program.processes);
            sum.samples = sum.samples.saturating_add(program.samples);
            sum.cpu += program.cpu;
        }
        let mut programs: Vec<ProgramTime<'_>> = sums.into_values().collect();
        if programs.len() < 2 {
            return Vec::new();
        }
        let all: f64 = programs.iter().map(|program| program.cpu.get() as f64).sum();
        programs.iter_mut().for_each(|program| program.share = program.cpu.get() as f64 / all.max(1.0));
        programs.sort_by_key(|program| std::cmp::Reverse(program.cpu));
        programs
    }
}
