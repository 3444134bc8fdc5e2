//! Which events are meant.

use anyhow::{Result, bail};
use kernel::stream::Source;

/// What to sample, and why not something better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// The first one is what everything else is compared with.
    pub sources: Vec<Source>,
    /// Those after the first take turns.
    pub rotate: bool,
    /// For the database.
    pub sampler: String,
}

/// The paper's three configurations by name, or a list. `exists`: whether this machine has an event.
pub fn events(text: &str, exists: impl Fn(Source) -> bool) -> Result<Events> {
    let hardware = named("cycles").is_ok_and(&exists);
    let (first, second, others): (_, _, &[&str]) = if hardware {
        ("cycles", "cache-misses", &["cache-misses", "branch-misses", "instructions"])
    } else {
        ("cpu-clock", "page-faults", &["page-faults", "context-switches", "cpu-migrations"])
    };
    let (names, rotate) = match text {
        "cycles" => (vec![first], false),
        "default" => (vec![first, second], false),
        "mux" => ([&[first], others].concat(), true),
        list => (list.split(',').map(str::trim).collect(), false),
    };
    let sources = names.iter().map(|name| named(name)).collect::<Result<Vec<Source>>>()?;
    for (place, source) in sources.iter().enumerate() {
        if sources[..place].contains(source) {
            bail!("--events names {source} twice; give each event once");
        }
    }
    let sampler =
        if hardware { "perf" } else { "perf, software events: this machine has no hardware counters" };
    Ok(Events { sources, rotate, sampler: sampler.to_owned() })
}

fn named(name: &str) -> Result<Source> {
    match Source::named(name) {
        Some(source) => Ok(source),
        None => bail!(
            "--events: there is no event '{name}'; give cycles, default, mux, or a list of: {}",
            Source::names().collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, hardware: bool) -> Option<(Vec<&'static str>, bool)> {
        let events = events(text, |_| hardware).ok()?;
        Some((events.sources.iter().map(|source| source.name()).collect(), events.rotate))
    }

    #[test]
    fn the_papers_configurations_exist_with_and_without_counters() {
        assert_eq!(names("cycles", true), Some((vec!["cycles"], false)));
        assert_eq!(names("cycles", false), Some((vec!["cpu-clock"], false)));
        assert_eq!(names("default", false), Some((vec!["cpu-clock", "page-faults"], false)));
        assert_eq!(names("mux", true).map(|(names, rotate)| (names.len(), rotate)), Some((4, true)));
        assert_eq!(
            names("task-clock, major-faults", false),
            Some((vec!["task-clock", "major-faults"], false))
        );
        assert_eq!(names("cycels", false), None);
        assert_eq!(names("cpu-clock,cpu-clock", false), None);
    }
}
