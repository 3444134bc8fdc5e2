//! Stacks with names, for flame graphs and exports.

use super::functions::base;
use super::grouping::{NONE, Roots};
use super::label_key::LabelKey;
use super::nameless;
use super::names::Names;
use super::query::Query;
use super::worth::Worths;
use crate::{CodeKind, CodePosition, Flame, ImageName, Line, StackNode, Stacks};
use anyhow::{Result, bail};
use archive::{ImageId, Node, OFF_CPU, Offset, Tree};
use std::collections::{BTreeMap, HashMap, HashSet};

/// All stacks of a query, with their names.
///
/// # Errors
/// What the database says.
pub fn stacks(query: &mut Query) -> Result<Stacks> {
    let tree = query.tree()?;
    query.names.learn(&query.db, tree.positions.iter().copied())?;
    query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
    query.doubt_stacks(&tree);
    Ok(named(&tree, &query.names))
}

/// The flame graph of a query, with processes and threads as its outermost boxes.
///
/// # Errors
/// What the database says.
pub fn flame(query: &mut Query) -> Result<Flame> {
    flame_of(query, &Roots::default())
}

/// The same with these as its outermost boxes.
///
/// # Errors
/// What the database says.
pub fn flame_of(query: &mut Query, roots: &Roots) -> Result<Flame> {
    let mut flame = Flame::default();
    add_forest(&mut flame, query, roots, 1.0)?;
    flame.add_up();
    Ok(flame)
}

/// Adds the stacks of a query above their outermost boxes, with so many samples for each that it has; returns how many there are now.
fn add_forest(flame: &mut Flame, query: &mut Query, Roots(by): &Roots, scale: f64) -> Result<u64> {
    let (tree, groups) = query.forest(by)?;
    query.names.learn(&query.db, tree.positions.iter().copied())?;
    query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
    query.doubt_stacks(&tree);
    let only = processes_of_one_name(by, groups.keys());
    let mut shown: BTreeMap<Vec<&str>, Vec<(u32, u64)>> = BTreeMap::new();
    for (roots, leaves) in &groups {
        let is_shown = |at: &usize| by[*at] != LabelKey::Thread || !only.contains(&roots[..*at]);
        let roots = (0..roots.len()).filter(is_shown).map(|at| roots[at].as_str()).collect();
        shown.entry(roots).or_default().extend(leaves);
    }
    Ok(add_branches(flame, (&tree, &query.names), &shown, scale))
}

/// Adds the part of a tree that each of those who ran has samples in, above their boxes; otherwise as [`add_forest`].
pub fn add_branches(
    flame: &mut Flame,
    (tree, names): (&Tree, &Names),
    of: &BTreeMap<Vec<&str>, Vec<(u32, u64)>>,
    scale: f64,
) -> u64 {
    let mut samples = 0;
    for (roots, leaves) in of {
        let mut branch = branch(tree, leaves);
        // What is left of one goes to the next, so that no time is lost.
        let mut left = 0.5;
        for count in branch.counts.iter_mut().filter(|count| **count > 0) {
            left += *count as f64 * scale;
            *count = left as u64;
            left -= *count as f64;
        }
        samples += branch.counts.iter().sum::<u64>();
        flame.add_above(roots, &named(&branch, names));
    }
    samples
}

/// Of all who ran those (by what comes before the thread) whose threads have no names but that of their process: they need no box.
fn processes_of_one_name<'a>(
    by: &[LabelKey],
    groups: impl Iterator<Item = &'a Vec<String>>,
) -> HashSet<&'a [String]> {
    let Some(thread) = by.iter().position(|key| *key == LabelKey::Thread) else { return HashSet::new() };
    let process = by[..thread].iter().position(|key| *key == LabelKey::Process);
    let mut is_one: HashMap<&[String], bool> = HashMap::new();
    for group in groups {
        let text = &group[thread];
        let is_same = text == NONE || process.is_some_and(|process| group[process] == *text);
        *is_one.entry(&group[..thread]).or_insert(true) &= is_same;
    }
    is_one.into_iter().filter(|(_, is_one)| *is_one).map(|(before, _)| before).collect()
}

/// The part of a tree that leads to some of its frames, with these samples.
fn branch(tree: &Tree, leaves: &[(u32, u64)]) -> Tree {
    let mut used: BTreeMap<u32, u64> = BTreeMap::new();
    for (leaf, count) in leaves {
        *used.entry(*leaf).or_insert(0) += count;
        let mut at = *leaf as usize;
        while let Some(caller) = tree.parent(at) {
            if used.contains_key(&(caller as u32)) {
                break;
            }
            used.insert(caller as u32, 0);
            at = caller;
        }
    }
    let mut branch = Tree::default();
    let (mut frames, mut places) = (HashMap::new(), HashMap::new());
    for (frame, count) in used {
        let nth = frame as usize;
        let place = *places.entry(tree.places[nth]).or_insert_with(|| {
            branch.positions.push(tree.position(nth));
            branch.positions.len() as u32 - 1
        });
        frames.insert(frame, branch.parents.len() as u32);
        branch.parents.push(tree.parent(nth).map_or(Node::NONE, |caller| frames[&(caller as u32)]));
        branch.places.push(place);
        branch.counts.push(count);
    }
    branch
}

/// The flame graph of time on and off the CPU: `query` is of the clock, `off` the same of [`OFF_CPU`]. Its samples are as long as those of
/// `off`, and so are those that `query` says it has.
///
/// # Errors
/// What the database says; what was sampled is no clock.
pub fn both(query: &mut Query, off: &mut Query, roots: &Roots) -> Result<Flame> {
    let (Some(on_each), Some(off_each)) = (query.heading.nanos_per_sample, off.heading.nanos_per_sample)
    else {
        bail!(
            "{} is counted and not timed, so it cannot stand beside time off the CPU\n  choose a clock: --event cpu-clock",
            query.heading.event
        );
    };
    let mut flame = Flame::default();
    let samples =
        add_forest(&mut flame, query, roots, on_each / off_each)? + add_forest(&mut flame, off, roots, 1.0)?;
    flame.add_up();
    let heading = &mut query.heading;
    heading.event = format!("{} and {OFF_CPU}", heading.event);
    heading.warnings.append(&mut off.heading.warnings);
    (heading.samples, heading.nanos_per_sample) = (samples, Some(off_each));
    Ok(flame)
}

/// Says at each function what it is worth.
pub fn value(flame: &mut Flame, query: &Query, worths: &Worths) {
    if worths.recordings.is_empty() {
        return;
    }
    let images: Vec<_> = query.names.images().values().cloned().collect();
    for name in &mut flame.names {
        let of_path = images.iter().filter(|image| image.path == name.image);
        name.worth = of_path
            .filter_map(|image| worths.of(&name.function, image))
            .min_by_key(|worth| worth.other_build);
    }
}

/// The tree with the names that are known, in an order that depends on nothing but what was sampled.
fn named(tree: &Tree, names: &Names) -> Stacks {
    let mut stacks = Stacks::default();
    let mut images: HashMap<ImageId, u32> = HashMap::new();
    let mut positions: Vec<Option<u32>> = vec![None; tree.positions.len()];
    // Frames that nothing was counted above are left out.
    let totals = super::functions::totals(tree);
    let mut callees: HashMap<u32, Vec<usize>> = HashMap::new();
    for (nth, parent) in tree.parents.iter().enumerate().filter(|(nth, _)| totals[*nth] > 0) {
        callees.entry(*parent).or_default().push(nth);
    }
    for of in callees.values_mut() {
        // The last one is taken first.
        of.sort_by_key(|nth| std::cmp::Reverse(tree.position(*nth)));
    }
    let outermost = callees.remove(&Node::NONE).unwrap_or_default();
    let mut left: Vec<(usize, u32)> = outermost.into_iter().map(|nth| (nth, StackNode::NONE)).collect();
    while let Some((nth, parent)) = left.pop() {
        let (image, offset) = tree.position(nth);
        let position = *positions[tree.places[nth] as usize].get_or_insert_with(|| {
            let number = *images.entry(image).or_insert_with(|| {
                let known = names.image(image);
                let kind = CodeKind::of(&known);
                stacks.images.push(ImageName { path: known.path, build_id: known.build_id, kind });
                stacks.images.len() as u32 - 1
            });
            stacks.positions.push(CodePosition {
                image: number,
                offset: offset.0,
                lines: lines(names, image, offset),
            });
            stacks.positions.len() as u32 - 1
        });
        let own = stacks.nodes.len() as u32;
        stacks.nodes.push(StackNode { parent, position, count: tree.counts[nth] });
        left.extend(
            callees.remove(&(nth as u32)).unwrap_or_default().into_iter().map(|callee| (callee, own)),
        );
    }
    stacks
}

fn lines(names: &Names, image: ImageId, offset: Offset) -> Vec<Line> {
    let symbols = names.symbols(image, offset);
    if symbols.is_empty() {
        let name = names.nameless(image);
        return vec![Line { function: name.clone(), base: name, ..Line::default() }];
    }
    let is_verbatim = names.is_verbatim(image);
    let line = |symbol: &archive::Symbol| Line {
        function: symbol.function.to_string(),
        base: base(&symbol.function, is_verbatim),
        file: symbol.file.to_string(),
        line: symbol.line,
    };
    symbols.iter().map(line).collect()
}
