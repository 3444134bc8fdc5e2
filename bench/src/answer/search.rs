//! A search for the best region that is told nothing but the program, and what it had to say when.

use anyhow::{Context, Result};
use targets::Target;

use crate::coz::Coz;
use crate::profiler::Whatif;
use crate::recording;
use crate::report::Region;

/// What is known at some moment. Regions are called as the target calls them where it knows them.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The region that is ranked first.
    pub first: Option<String>,
    /// What the region that is ranked first gains at 50 %.
    pub gain: Option<f64>,
    /// The region that the sentence names.
    pub named: Option<String>,
}

/// A search that is over.
pub struct Search<'a> {
    /// How long it took.
    pub seconds: f64,
    /// Whether it ended because it was sure; nothing where there is no such thing.
    pub sure: Option<bool>,
    /// The answer after its first seconds.
    pub at: Box<dyn Fn(f64) -> Result<Answer> + 'a>,
}

/// What to search in.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub target: &'static Target,
    pub seed: usize,
    /// Seconds that it may take.
    pub most: f64,
    /// What `--precision` asks for.
    pub precision: &'a str,
}

/// Anything that finds regions by itself.
pub trait Searcher {
    fn name(&self) -> &'static str;
    fn search(&self, task: &Task) -> Result<Search<'_>>;
}

impl Searcher for Whatif {
    fn name(&self) -> &'static str {
        "whatif"
    }

    fn search(&self, task: &Task) -> Result<Search<'_>> {
        /// The end of a run is seen a little late, never early.
        const SLACK: f64 = 0.1;
        let target = task.target;
        Self::search(self, target, task.precision, task.most, task.seed)?;
        let seconds = recording::length(&self.file())?;
        // The next attempt shall not change this one's recording.
        let folder = tempfile::tempdir().context("making a folder for a recording")?;
        let whole = folder.path().join("whole.db");
        recording::earlier(&self.file(), f64::MAX, &whole)?;
        let at = move |seconds| {
            let earlier = folder.path().join("earlier.db");
            recording::earlier(&whole, seconds, &earlier)?;
            let report = self.report(&earlier)?;
            let called = |region: &Region| called(target, region);
            Ok(Answer {
                first: report.first().map(called),
                gain: report.first().and_then(|first| first.gain(target.point, 0.5)),
                named: report.named().map(called),
            })
        };
        Ok(Search { seconds, sure: Some(seconds < task.most - SLACK), at: Box::new(at) })
    }
}

impl Searcher for Coz {
    fn name(&self) -> &'static str {
        "coz"
    }

    /// Its profile does not say when an experiment was; they are taken to be equally long. It has no sentence:
    /// what its viewer draws first is what it names.
    fn search(&self, task: &Task) -> Result<Search<'_>> {
        let (target, most) = (task.target, task.most);
        let profile = self.search(target, most)?;
        let at = move |seconds: f64| {
            let Some((line, gain)) = profile.best(seconds / most, target.point, 0.5) else {
                return Ok(Answer::default());
            };
            let first = self.region_at(target, &line)?.unwrap_or(line);
            Ok(Answer { named: Some(first.clone()), first: Some(first), gain })
        };
        Ok(Search { seconds: most, sure: None, at: Box::new(at) })
    }
}

fn called(target: &Target, region: &Region) -> String {
    let known = target.regions.iter().find(|name| region.belongs_to(name));
    known.map_or_else(|| region.name().to_owned(), |name| (*name).to_owned())
}
