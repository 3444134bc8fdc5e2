//! Which regions a sampled stack belongs to: one decision, for the samples of this run and for those of production.
//!
//! A sample belongs to the first frame of its stack that is in scope, and to every region that the user names and any of its
//! frames is in, if the caller that goes with the name is further out.
//!
//! The runtime makes the same decision inside the program, where it knows nothing but addresses
//! ([`Experiment::owns`](wire::experiment::Experiment::owns)). [`Selection::new`] is what it is told of a region; the tests hold
//! one decision against the other.

use crate::ranges::joined;
use crate::region::RegionSpec;
use profile::RegionKind;
use std::borrow::Borrow;
use std::ops::Range;
use symbols::Frame;
use wire::Address;

/// What a piece of code is to regions. `R` says which region a function or line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code<R> {
    /// The function that a sample here belongs to, if any of its frames is in scope.
    pub function: Option<R>,
    /// The line that a sample here belongs to, if it is known.
    pub line: Option<R>,
    /// The named regions, by number, that any of its frames matches.
    pub named: Vec<usize>,
    /// The named regions whose caller it is in.
    pub calling: Vec<usize>,
    /// The sampled points that any of its frames matches.
    pub sampled: Vec<usize>,
}

impl<R> Default for Code<R> {
    /// Code that no region has.
    fn default() -> Self {
        Self { function: None, line: None, named: Vec::new(), calling: Vec::new(), sampled: Vec::new() }
    }
}

impl<R> Code<R> {
    /// What code with these frames, innermost first, is. `region` finds the region of a frame.
    pub fn new(
        frames: &[Frame],
        specs: &[RegionSpec],
        mut region: impl FnMut(RegionKind, &Frame) -> R,
    ) -> Self {
        let owner = frames.iter().find(|frame| frame.in_scope);
        let calling = specs.iter().enumerate().filter(|(_, spec)| spec.is_called_from(frames));
        Self {
            function: owner.map(|frame| region(RegionKind::Function, frame)),
            line: owner.filter(|frame| frame.line.is_some()).map(|frame| region(RegionKind::Line, frame)),
            named: matching(specs, frames),
            calling: calling.map(|(nth, _)| nth).collect(),
            sampled: Vec::new(),
        }
    }

    /// Whether any of its frames is in scope.
    pub fn is_in_scope(&self) -> bool {
        self.function.is_some()
    }
}

/// The named regions, by number, that any of the frames matches.
pub fn matching<'r>(specs: impl IntoIterator<Item = &'r RegionSpec>, frames: &[Frame]) -> Vec<usize> {
    let matches = |spec: &RegionSpec| frames.iter().any(|frame| spec.matches(frame));
    let numbered = specs.into_iter().enumerate();
    numbered.filter(|(_, spec)| matches(spec)).map(|(nth, _)| nth).collect()
}

/// What is asked of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub specs: &'a [RegionSpec],
    /// Whether there are sampled points.
    pub points: bool,
    /// Whether the caller of the function matters.
    pub caller: bool,
}

/// What a sampled stack belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<R> {
    /// The function of the first frame in scope.
    pub function: Option<R>,
    /// The line of that frame.
    pub line: Option<R>,
    /// The nearest other function in scope.
    pub caller: Option<R>,
    /// The named regions.
    pub named: Vec<usize>,
    /// The sampled points.
    pub sampled: Vec<usize>,
}

/// One of the regions that a stack may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<R> {
    /// A function or a line.
    Own(R),
    /// A function as another one calls it.
    Path(R, R),
    /// The one that the user names, by number.
    Named(usize),
}

/// Says what a stack belongs to. `stack`: its code from the sampled instruction outwards; not read further than it takes to answer.
pub fn owner<R, C>(stack: impl IntoIterator<Item = C>, question: Question<'_>) -> Owner<R>
where
    R: Copy + PartialEq,
    C: Borrow<Code<R>>,
{
    let mut found =
        Owner { function: None, line: None, caller: None, named: Vec::new(), sampled: Vec::new() };
    // Named regions whose caller has not been met yet.
    let mut uncalled: Vec<usize> = Vec::new();
    for code in stack {
        let code = code.borrow();
        match found.function {
            None => (found.function, found.line) = (code.function, code.line),
            Some(_) if found.caller.is_none() && code.function != found.function => {
                found.caller = code.function;
            }
            _ => {}
        }
        for nth in &code.named {
            let has_caller = question.specs[*nth].has_caller();
            let list = if has_caller { &mut uncalled } else { &mut found.named };
            list.push(*nth);
        }
        found.named.extend(code.calling.iter().filter(|nth| uncalled.contains(nth)));
        found.sampled.extend(&code.sampled);
        if question.is_answered(&found) {
            break;
        }
    }
    for numbers in [&mut found.named, &mut found.sampled] {
        numbers.sort_unstable();
        numbers.dedup();
    }
    found
}

impl Question<'_> {
    /// Whether frames further out can add nothing.
    fn is_answered<R>(&self, found: &Owner<R>) -> bool {
        found.function.is_some()
            && (!self.caller || found.caller.is_some())
            && self.specs.is_empty()
            && !self.points
    }
}

impl<R: Copy + PartialEq> Owner<R> {
    /// Whether the stack belongs to this region.
    pub fn is(&self, which: Which<R>) -> bool {
        match which {
            Which::Own(region) => self.function == Some(region) || self.line == Some(region),
            Which::Path(function, caller) => self.function == Some(function) && self.caller == Some(caller),
            Which::Named(nth) => self.named.contains(&nth),
        }
    }
}

/// What the runtime is told of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The code of the region, sorted and disjoint.
    pub ranges: Vec<(Address, Address)>,
    /// The code of its callers, sorted and disjoint; none if they do not matter.
    pub callers: Vec<(Address, Address)>,
    /// Whether any frame counts, and not only the first in scope.
    pub inclusive: bool,
}

impl Selection {
    /// `pieces`: all code that is known, with its addresses, in their order.
    pub fn new<'p, R, P>(pieces: P, which: Which<R>) -> Self
    where
        R: Copy + PartialEq + 'p,
        P: Iterator<Item = (Range<u64>, &'p Code<R>)> + Clone,
    {
        let ranges =
            |is_part: &dyn Fn(&Code<R>) -> bool| addresses(pieces.clone().filter(|(_, code)| is_part(code)));
        match which {
            Which::Own(region) => Self {
                ranges: ranges(&|code| code.function == Some(region) || code.line == Some(region)),
                ..Self::default()
            },
            Which::Path(function, caller) => Self {
                ranges: ranges(&|code| code.function == Some(function)),
                callers: ranges(&|code| code.function == Some(caller)),
                inclusive: false,
            },
            Which::Named(nth) => Self {
                ranges: ranges(&|code| code.named.contains(&nth)),
                callers: ranges(&|code| code.calling.contains(&nth)),
                inclusive: true,
            },
        }
    }
}

/// The code that the runtime may pass over when it looks for the first frame in scope.
pub fn outside<'p, R: 'p>(
    pieces: impl Iterator<Item = (Range<u64>, &'p Code<R>)>,
) -> Vec<(Address, Address)> {
    addresses(pieces.filter(|(_, code)| !code.is_in_scope()))
}

fn addresses<'p, R: 'p>(pieces: impl Iterator<Item = (Range<u64>, &'p Code<R>)>) -> Vec<(Address, Address)> {
    joined(pieces.map(|(range, _)| range))
}

#[cfg(test)]
mod tests;
