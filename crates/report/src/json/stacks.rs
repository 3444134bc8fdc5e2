//! Stacks as lists of numbers: a tree of thousands of frames is short enough for a page.

use std::collections::HashMap;

use profile::stacks::{Call, CalledFunction, Tally};
use profile::{CallTree, Profile, RegionId};
use serde::Serialize;

/// Name, file and image (by their place in `texts`), and region (by its place in the report's `regions`).
type OfFunction = (usize, Option<usize>, Option<usize>, Option<usize>);
/// Caller (by its place in this list), function, line, 1 if it is part of its caller's code, the region that the line
/// is, samples of which it is the innermost frame, and their CPU time.
type OfCall = (Option<usize>, usize, Option<u32>, u8, Option<usize>, u64, u64);

#[derive(Serialize)]
pub(super) struct OfStacks<'a> {
    samples: u64,
    weight_ns: u64,
    truncated_samples: u64,
    missing_samples: u64,
    missing_weight_ns: u64,
    texts: Vec<&'a str>,
    functions: Vec<OfFunction>,
    calls: Vec<OfCall>,
}

impl<'a> OfStacks<'a> {
    /// `None` for a recording without stacks.
    pub fn new(profile: &'a Profile) -> Option<OfStacks<'a>> {
        if profile.rows.stack_samples.is_empty() {
            return None;
        }
        let tree = CallTree::new(&profile.rows);
        let estimated: HashMap<RegionId, usize> =
            profile.regions.iter().enumerate().map(|(nth, estimate)| (estimate.region, nth)).collect();
        let region = |id: Option<RegionId>| id.and_then(|id| estimated.get(&id).copied());
        let mut texts = Texts::default();
        let functions = tree
            .functions
            .iter()
            .map(|CalledFunction { function, region: of, .. }| {
                let image = Some(function.image.path.as_str()).filter(|path| !path.is_empty());
                let (file, image) = (function.file.as_deref(), image);
                let name = texts.place(&function.name);
                (name, file.map(|file| texts.place(file)), image.map(|path| texts.place(path)), region(*of))
            })
            .collect();
        let call = |of: &Call| {
            let Tally { count, weight } = of.own;
            (of.parent, of.function, of.line, u8::from(of.inlined), region(of.region), count, weight.get())
        };
        Some(OfStacks {
            samples: tree.all.count,
            weight_ns: tree.all.weight.get(),
            truncated_samples: tree.truncated.count,
            missing_samples: tree.missing.count,
            missing_weight_ns: tree.missing.weight.get(),
            calls: tree.calls.iter().map(call).collect(),
            texts: texts.texts,
            functions,
        })
    }
}

/// Every text once.
#[derive(Default)]
struct Texts<'a> {
    texts: Vec<&'a str>,
    known: HashMap<&'a str, usize>,
}

impl<'a> Texts<'a> {
    fn place(&mut self, text: &'a str) -> usize {
        *self.known.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() - 1
        })
    }
}
