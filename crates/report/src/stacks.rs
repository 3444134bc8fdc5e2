//! Stacks: where the samples of a recording were taken, for formats that know nothing else.
//!
//! A recording keeps no callchains, only how often each region was sampled. The innermost code in scope is a function
//! and, where there is debug information, a line of it: these two are the stack. Regions that count samples of others
//! once more (functions with all they call, functions by their caller) are no part of it. What was sampled
//! elsewhere, or in regions that were not kept, has a name of its own, so that totals are right.

use std::collections::BTreeMap;

use profile::{Image, Nanos, Profile, Region, RegionId, RegionKind, SessionId};

/// What stands for code that is no region.
pub(crate) const ELSEWHERE: &str = "[other code]";

/// Samples at one place.
pub(crate) struct Stack<'a> {
    /// The base name of the program.
    pub(crate) program: &'a str,
    /// The function, by its region or by its name in the line's; `None` where it is unknown.
    pub(crate) function: Option<&'a str>,
    /// The innermost region; `None` for code that is none.
    pub(crate) region: Option<(RegionId, &'a Region)>,
    /// The region of the function that a line is in.
    pub(crate) within: Option<RegionId>,
    pub(crate) count: u64,
    pub(crate) weight: Nanos,
}

impl<'a> Stack<'a> {
    /// The names of its frames within the program, the outermost first.
    pub(crate) fn frames(&self) -> Vec<&'a str> {
        let Some((_, region)) = self.region else { return vec![ELSEWHERE] };
        let line = (region.kind == RegionKind::Line).then_some(region.name.as_str());
        self.function.into_iter().chain(line).collect()
    }

    pub(crate) fn image(&self) -> Option<&'a Image> {
        self.region.map(|(_, region)| &region.image)
    }
}

/// The stacks of all runs, by program and region; those of code elsewhere come last.
pub(crate) fn of(profile: &Profile) -> Vec<Stack<'_>> {
    let programs: BTreeMap<SessionId, &str> =
        profile.rows.sessions.iter().map(|session| (session.id, base(&session.start.program))).collect();
    let mut sampled: BTreeMap<&str, BTreeMap<RegionId, Tally>> = BTreeMap::new();
    for samples in &profile.rows.samples {
        if let Some(program) = programs.get(&samples.session) {
            let of_program = sampled.entry(program).or_default();
            of_program.entry(samples.region).or_default().add(samples.count, samples.weight);
        }
    }
    let mut all: BTreeMap<&str, Tally> = BTreeMap::new();
    for session in &profile.rows.sessions {
        let of_program = all.entry(base(&session.start.program)).or_default();
        of_program.add(session.samples.count, session.samples.weight);
    }
    let mut stacks = Vec::new();
    for (program, total) in all {
        let before = stacks.len();
        stacks.extend(of_program(profile, program, sampled.remove(program).unwrap_or_default()));
        let mut rest = total;
        stacks[before..].iter().for_each(|stack: &Stack<'_>| rest.take(stack.count, stack.weight));
        if rest != Tally::default() {
            let Tally { count, weight } = rest;
            stacks.push(Stack { program, function: None, region: None, within: None, count, weight });
        }
    }
    stacks
}

fn of_program<'a>(
    profile: &'a Profile,
    program: &'a str,
    mut sampled: BTreeMap<RegionId, Tally>,
) -> Vec<Stack<'a>> {
    let region = |id: &RegionId| &profile.rows.regions[id];
    sampled.retain(|id, _| !region(id).inclusive && !is_path(profile, region(id)));
    let functions: Vec<RegionId> =
        sampled.keys().copied().filter(|id| region(id).kind == RegionKind::Function).collect();
    let mut within: BTreeMap<RegionId, RegionId> = BTreeMap::new();
    let lines: Vec<(RegionId, Tally)> = sampled
        .iter()
        .filter(|(id, _)| region(id).kind == RegionKind::Line)
        .map(|(id, tally)| (*id, *tally))
        .collect();
    for (line, tally) in lines {
        // What is a line's is not its function's as well.
        if let Some(function) = function_of(region(&line), &functions, region) {
            within.insert(line, function);
            sampled.entry(function).or_default().take(tally.count, tally.weight);
        }
    }
    sampled.retain(|_, tally| *tally != Tally::default());
    let stack = |(id, Tally { count, weight }): (RegionId, Tally)| {
        let own = region(&id);
        let function = match own.kind {
            RegionKind::Function => Some(own.name.as_str()),
            RegionKind::Line => match within.get(&id) {
                Some(function) => Some(region(function).name.as_str()),
                None => own.function.as_deref(),
            },
        };
        Stack { program, function, region: Some((id, own)), within: within.get(&id).copied(), count, weight }
    };
    sampled.into_iter().map(stack).collect()
}

/// Whether a region is a function as one caller calls it: `callee@caller`.
fn is_path(profile: &Profile, region: &Region) -> bool {
    let Some((callee, _)) = region.name.rsplit_once('@') else { return false };
    let is_callee = |other: &Region| {
        other.kind == RegionKind::Function && other.name == callee && other.image == region.image
    };
    region.kind == RegionKind::Function && profile.rows.regions.values().any(is_callee)
}

/// The function that a line is in. A line has the full name of one instance of its function; the function has that
/// of one too, not always the same, and what all of them share.
fn function_of<'a>(
    line: &Region,
    functions: &[RegionId],
    region: impl Fn(&RegionId) -> &'a Region,
) -> Option<RegionId> {
    let full = line.function.as_deref()?;
    let here = || functions.iter().filter(|id| region(id).image == line.image);
    let same = here().find(|id| region(id).function.as_deref() == Some(full));
    let similar = || {
        let sharing = here().filter(|id| full.contains(region(id).name.as_str()));
        sharing.max_by_key(|id| region(id).name.len())
    };
    same.or_else(similar).copied()
}

/// How many samples, and the time they stand for.
#[derive(Clone, Copy, Default, PartialEq)]
struct Tally {
    count: u64,
    weight: Nanos,
}

impl Tally {
    fn add(&mut self, count: u64, weight: Nanos) {
        self.count = self.count.saturating_add(count);
        self.weight += weight;
    }

    fn take(&mut self, count: u64, weight: Nanos) {
        self.count = self.count.saturating_sub(count);
        self.weight = self.weight.saturating_sub(weight);
    }
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
