//! Stacks: where the samples of a recording were taken, for formats that know nothing else.
//!
//! Runs whose stacks were recorded have all their frames. Of the others (earlier versions, and profiles of Coz) it is only known how often each
//! region was sampled: there the innermost code in scope is a function and, where there is debug information, a line of
//! it, and these two are the stack. Regions that count samples of others once more (functions with all they call, functions by
//! their caller) are no part of it. What was sampled elsewhere, or in regions or stacks that were not kept, has a name of its
//! own, so that totals are right.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use profile::stacks::Tally;
use profile::{CallTree, Image, Profile, Region, RegionId, RegionKind, SessionId};

/// What stands for code that is no region.
const ELSEWHERE: &str = "[other code]";
/// What stands for stacks that were not kept.
const NOT_KEPT: &str = "[stacks that were not kept]";

/// A function on a stack, and the line in it.
pub(crate) struct Frame<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<u32>,
    pub(crate) image: Option<&'a Image>,
    /// The regions that it is, the line first.
    pub(crate) regions: [Option<RegionId>; 2],
}

/// Samples with one stack.
pub(crate) struct Stack<'a> {
    /// The base name of the program.
    pub(crate) program: &'a str,
    /// The outermost first; at least one.
    pub(crate) frames: Vec<Frame<'a>>,
    /// The line of the innermost one, in words.
    pub(crate) line: Option<Cow<'a, str>>,
    /// The region that the samples belong to; `None` for code that is none.
    pub(crate) region: Option<RegionId>,
    /// The region of the function that a line is in.
    pub(crate) within: Option<RegionId>,
    pub(crate) tally: Tally,
}

impl<'a> Stack<'a> {
    /// The names within the program, the outermost first, each with the regions that it is.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, [Option<RegionId>; 2])> {
        let line = self.line.as_deref().zip(self.frames.last().map(|frame| frame.regions));
        self.frames.iter().map(|frame| (&*frame.name, frame.regions)).chain(line)
    }

    /// A place of which no caller is known.
    pub(crate) fn of_region(
        program: &'a str,
        (id, region): (RegionId, &'a Region),
        within: Option<(RegionId, &'a Region)>,
        tally: Tally,
    ) -> Stack<'a> {
        let function = match (region.kind, within) {
            (RegionKind::Function, _) => Some(region.name.as_str()),
            (RegionKind::Line, Some((_, function))) => Some(function.name.as_str()),
            (RegionKind::Line, None) => region.function.as_deref(),
        };
        let is_line = region.kind == RegionKind::Line;
        let name = match function {
            Some(function) if region.inclusive && !is_line => {
                Cow::from(format!("{function} with all it calls"))
            }
            Some(function) => Cow::from(function),
            None => Cow::from(region.name.as_str()),
        };
        let frame = Frame {
            name,
            file: region.file.as_deref(),
            line: region.line,
            image: Some(&region.image),
            regions: [Some(id), None],
        };
        Stack {
            program,
            frames: vec![frame],
            line: function.filter(|_| is_line).map(|_| region.name.as_str().into()),
            region: Some(id),
            within: within.map(|(id, _)| id),
            tally,
        }
    }

    fn of_nothing(program: &'a str, name: &'a str, tally: Tally) -> Stack<'a> {
        let frame = Frame { name: name.into(), file: None, line: None, image: None, regions: [None; 2] };
        Stack { program, frames: vec![frame], line: None, region: None, within: None, tally }
    }
}

/// The stacks of all runs, by program and region; those of code elsewhere come last.
pub(crate) fn of(profile: &Profile) -> Vec<Stack<'_>> {
    let rows = &profile.rows;
    let with_stacks: BTreeSet<SessionId> = rows.stack_samples.iter().map(|samples| samples.session).collect();
    let mut programs: BTreeMap<&str, Vec<SessionId>> = BTreeMap::new();
    for session in &rows.sessions {
        programs.entry(base(&session.start.program)).or_default().push(session.id);
    }
    let mut stacks = Vec::new();
    for (program, sessions) in programs {
        let (known, places): (Vec<SessionId>, Vec<SessionId>) =
            sessions.into_iter().partition(|session| with_stacks.contains(session));
        if !known.is_empty() {
            stacks.extend(of_calls(
                profile,
                &CallTree::of(rows, |session| known.contains(&session)),
                program,
            ));
        }
        stacks.extend(of_places(profile, program, &places));
    }
    // One run may have had several programs.
    stacks.sort_by_key(|stack| stack.program);
    stacks
}

/// The stacks that were recorded.
fn of_calls<'a>(profile: &Profile, tree: &CallTree<'a>, program: &'a str) -> Vec<Stack<'a>> {
    let is_own = |id: &RegionId| !profile.rows.regions[id].inclusive;
    let mut stacks = Vec::new();
    for (nth, call) in tree.calls.iter().enumerate().filter(|(_, call)| call.own != Tally::default()) {
        let mut frames: Vec<Frame<'a>> = tree
            .callers(Some(nth))
            .map(|call| {
                let of = &tree.functions[call.function];
                Frame {
                    name: of.function.name.as_str().into(),
                    file: of.function.file.as_deref(),
                    line: call.line,
                    image: Some(&of.function.image).filter(|image| !image.path.is_empty()),
                    regions: [call.region, of.region],
                }
            })
            .collect();
        // The innermost frame that is a region has the samples.
        let own = |frame: &Frame<'_>| frame.regions.map(|id| id.filter(is_own));
        let owner = frames.iter().map(own).find(|regions| *regions != [None; 2]);
        let [line, function] = owner.unwrap_or_default();
        frames.reverse();
        // Where there are several programs, the outermost frame says which one it is.
        let outermost = tree.callers(Some(nth)).last().map(|call| tree.functions[call.function].function);
        let own = outermost.filter(|function| frames.len() > 1 && function.is_program());
        if own.is_some() {
            frames.remove(0);
        }
        let program = own.map_or(program, |function| &*function.name);
        let file = frames.last().and_then(|frame| frame.file);
        stacks.push(Stack {
            program,
            line: file.zip(call.line).map(|(file, line)| format!("{}:{line}", base(file)).into()),
            frames,
            region: line.or(function),
            within: function.filter(|_| line.is_some()),
            tally: call.own,
        });
    }
    if tree.missing != Tally::default() {
        stacks.push(Stack::of_nothing(program, NOT_KEPT, tree.missing));
    }
    stacks
}

/// What is known of runs whose stacks were not recorded.
fn of_places<'a>(profile: &'a Profile, program: &'a str, sessions: &[SessionId]) -> Vec<Stack<'a>> {
    let rows = &profile.rows;
    let mut sampled: BTreeMap<RegionId, Tally> = BTreeMap::new();
    for samples in rows.samples.iter().filter(|samples| sessions.contains(&samples.session)) {
        *sampled.entry(samples.region).or_default() += Tally { count: samples.count, weight: samples.weight };
    }
    let mut rest = Tally::default();
    for session in rows.sessions.iter().filter(|session| sessions.contains(&session.id)) {
        rest += Tally { count: session.samples.count, weight: session.samples.weight };
    }
    let mut stacks = of_program(profile, program, sampled);
    stacks.iter().for_each(|stack| rest = rest.without(stack.tally));
    if rest != Tally::default() {
        stacks.push(Stack::of_nothing(program, ELSEWHERE, rest));
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
            let own = sampled.entry(function).or_default();
            *own = own.without(tally);
        }
    }
    sampled.retain(|_, tally| *tally != Tally::default());
    let stack = |(id, tally): (RegionId, Tally)| {
        let within = within.get(&id).map(|function| (*function, region(function)));
        Stack::of_region(program, (id, region(&id)), within, tally)
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

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
