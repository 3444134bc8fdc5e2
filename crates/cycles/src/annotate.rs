//! `whatif annotate`: a function's instructions, with counts.

use super::arguments;
use super::code::{self, Decoded};
use super::functions::base;
use super::list::the_function;
use super::names::Found;
use super::query::Query;
use super::worth::Worths;
use crate::{Annotation, Code, Instruction};
use anyhow::{Result, bail};
use archive::{ImageId, ImageKind, Leaf};
use profile::printable;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use symbols::{FileOffset, Scope, ScopeOptions, Segment, Svma};

/// `whatif annotate`.
pub fn annotate(args: &arguments::Annotate) -> Result<Annotation> {
    let mut query = Query::new(&args.which)?;
    let leaves = query.leaves()?;
    query.names.learn(&query.db, leaves.iter().map(|leaf| (leaf.image, leaf.offset)))?;
    let symbols = |leaf: &Leaf| query.names.symbols(leaf.image, leaf.offset);
    let function = the_function(
        &args.function,
        leaves.iter().flat_map(|leaf| query.names.functions(leaf.image, leaf.offset)),
    )?;
    let base_of = |leaf: &Leaf, function: &str| base(function, query.names.is_verbatim(leaf.image));
    let is_of =
        |leaf: &&Leaf| symbols(leaf).last().is_some_and(|symbol| base_of(leaf, &symbol.function) == function);
    let mut by_image: BTreeMap<ImageId, Vec<Leaf>> = BTreeMap::new();
    for leaf in leaves.iter().filter(is_of) {
        by_image.entry(leaf.image).or_default().push(*leaf);
    }
    if by_image.is_empty() {
        let around: BTreeSet<String> = leaves
            .iter()
            .filter(|leaf| symbols(leaf).iter().any(|symbol| base_of(leaf, &symbol.function) == function))
            .filter_map(|leaf| Some(base_of(leaf, &symbols(leaf).last()?.function)))
            .collect();
        let around: Vec<String> = around.into_iter().take(5).collect();
        bail!(
            "all samples of '{}' are where it was inlined, so it has no code of its own\n  see it there: whatif annotate '{}'",
            printable(&function),
            printable(around.first().map_or("FUNCTION", String::as_str))
        );
    }
    let mut own: BTreeMap<ImageId, u64> = BTreeMap::new();
    for leaf in &leaves {
        if symbols(leaf).first().is_some_and(|symbol| base_of(leaf, &symbol.function) == function) {
            *own.entry(leaf.image).or_default() += leaf.count;
        }
    }
    let mut code: Vec<Code> = Vec::new();
    let worths = Worths::load(&args.causes, &query.db)?;
    for (image, leaves) in by_image {
        let worth = worths.of(&function, &query.names.image(image));
        let pieces = of_image(&query, image, &leaves)?.into_iter();
        let own = own.get(&image).copied().unwrap_or(0);
        code.extend(pieces.map(|piece| Code { worth: worth.clone(), own, ..piece }));
    }
    code.sort_by_key(|code| std::cmp::Reverse(code.samples));
    Ok(Annotation { function, code, all: args.all, heading: query.heading.clone() })
}

/// The pieces of code in one image.
fn of_image(query: &Query, id: ImageId, leaves: &[Leaf]) -> Result<Vec<Code>> {
    let known = query.names.image(id);
    let samples: u64 = leaves.iter().map(|leaf| leaf.count).sum();
    let name = |leaf: &Leaf| {
        query
            .names
            .symbols(leaf.image, leaf.offset)
            .last()
            .map(|symbol| symbol.function.to_string())
            .unwrap_or_default()
    };
    let without = |doubt: String| Code {
        image: known.path.clone(),
        build_id: known.build_id.clone(),
        name: leaves.first().map(name).unwrap_or_default(),
        own: 0,
        samples,
        worth: None,
        doubt: Some(doubt),
        instructions: Vec::new(),
    };
    if let Some(elsewhere) = elsewhere(known.kind) {
        return Ok(vec![without(elsewhere.to_owned())]);
    }
    let (image, place) = match query.names.open(&known) {
        Ok(Found { image, has_code: true, place }) => (Arc::new(image), place),
        Ok(Found { has_code: false, .. }) => {
            return Ok(vec![without(
                "only its debug information is here, not its code; put the program itself there".to_owned(),
            )]);
        }
        Err(problem) => {
            let (why, _) = problem.explained();
            return Ok(vec![without(format!("{why}; {}", problem.advice(&known.build_id)))]);
        }
    };
    // By the address where the function begins.
    let mut pieces: BTreeMap<(u64, u64), Vec<(u64, Leaf)>> = BTreeMap::new();
    for leaf in leaves {
        let address = image.stated(FileOffset(leaf.offset.0));
        let container = address.and_then(|address| image.container(address));
        if let (Some(Svma(address)), Some(container)) = (address, container) {
            pieces.entry((container.start.0, container.end.0)).or_default().push((address, *leaf));
        }
    }
    let scope = Scope::new(ScopeOptions::default())?;
    let mut texts = Texts::default();
    let mut all = Vec::new();
    for ((start, end), sampled) in pieces {
        let range = Svma(start)..Svma(end);
        let (decoded, doubt) = match code::decode(&image, &range, (Path::new(&known.path), &place)) {
            Ok(decoded) => (decoded, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let segments = image.segments(range, &scope);
        all.push(Code {
            image: known.path.clone(),
            build_id: known.build_id.clone(),
            name: sampled.first().map(|(_, leaf)| name(leaf)).unwrap_or_default(),
            own: 0,
            samples: sampled.iter().map(|(_, leaf)| leaf.count).sum(),
            worth: None,
            instructions: instructions(decoded, &sampled, &segments, &mut texts),
            doubt,
        });
    }
    if all.is_empty() {
        all.push(without("the file does not say where the function begins and ends".to_owned()));
    }
    Ok(all)
}

/// Where to see the instructions of what is kept by function.
fn elsewhere(kind: ImageKind) -> Option<&'static str> {
    match kind {
        ImageKind::Kernel => Some(
            "samples of the kernel are kept by function, not by instruction; for its instructions: perf record -a, then perf \
             annotate",
        ),
        ImageKind::Generated => Some(
            "samples of generated code are kept by function, not by instruction; for its instructions let the compiler keep \
             them (node --perf-prof, java with libperf-jvmti.so): perf record -k mono, perf inject --jit, then perf annotate",
        ),
        _ => None,
    }
}

/// Instructions with their samples and lines. Positions are those of instructions; one within is its instruction's.
fn instructions(
    decoded: Vec<Decoded>,
    sampled: &[(u64, Leaf)],
    segments: &[Segment],
    texts: &mut Texts,
) -> Vec<Instruction> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for (address, leaf) in sampled {
        *counts.entry(*address).or_default() += leaf.count;
    }
    let of = |Decoded { range, text }: Decoded| {
        let segment = segments.partition_point(|segment| segment.range.end.0 <= range.start);
        let frames = segments.get(segment).map_or(&[][..], |segment| &segment.frames[..]);
        let innermost = frames.first();
        let file = innermost.and_then(|frame| frame.file.as_deref().map(str::to_owned));
        let line = innermost.and_then(|frame| frame.line);
        Instruction {
            address: range.start,
            samples: counts.range(range).map(|(_, count)| count).sum(),
            text,
            inlined: innermost.filter(|_| frames.len() > 1).map(|frame| frame.function.base().to_owned()),
            source: file.as_deref().zip(line).and_then(|(file, line)| texts.of(file, line)),
            file,
            line,
        }
    };
    decoded.into_iter().map(of).collect()
}

/// Lines of source files, each file read once.
#[derive(Default)]
struct Texts {
    files: HashMap<String, BTreeMap<u32, String>>,
}

impl Texts {
    fn of(&mut self, file: &str, line: u32) -> Option<String> {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), symbols::snippet(file, 1, u32::MAX).into_iter().collect());
        }
        self.files[file].get(&line).cloned()
    }
}
