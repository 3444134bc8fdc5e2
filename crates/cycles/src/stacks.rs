//! Stacks with names, for flame graphs and exports.

use super::functions::base;
use super::nameless;
use super::names::Names;
use super::query::Query;
use super::worth::Worths;
use crate::{CodeKind, CodePosition, Flame, ImageName, Line, StackNode, Stacks};
use anyhow::{Result, bail};
use archive::{ImageId, Node, OFF_CPU, Offset, Tree};
use std::collections::HashMap;

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

/// The flame graph of a query, with processes as its outermost boxes.
///
/// # Errors
/// What the database says.
pub fn flame(query: &mut Query, inlined: bool) -> Result<Flame> {
    let (mut tree, processes) = query.forest()?;
    query.names.learn(&query.db, tree.positions.iter().copied())?;
    query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
    query.doubt_stacks(&tree);
    let mut flame = Flame::default();
    for (process, leaves) in processes {
        tree.counts.fill(0);
        leaves.iter().for_each(|(frame, count)| tree.counts[*frame as usize] += count);
        flame.add_process(&process, &named(&tree, &query.names), inlined);
    }
    flame.add_up();
    Ok(flame)
}

/// The flame graph of time on and off the CPU: `query` is of the clock, `off` the same of [`OFF_CPU`]. Its samples are as long as those of
/// `off`, and so are those that `query` says it has.
///
/// # Errors
/// What the database says; what was sampled is no clock.
pub fn both(query: &mut Query, off: &mut Query, inlined: bool) -> Result<Flame> {
    let (Some(on_each), Some(off_each)) = (query.heading.nanos_per_sample, off.heading.nanos_per_sample)
    else {
        bail!(
            "{} is counted and not timed, so it cannot stand beside time off the CPU\n  choose a clock: --event cpu-clock",
            query.heading.event
        );
    };
    let mut flame = Flame::default();
    let mut samples = 0;
    for (query, scale) in [(&mut *query, on_each / off_each), (&mut *off, 1.0)] {
        let (mut tree, processes) = query.forest()?;
        query.names.learn(&query.db, tree.positions.iter().copied())?;
        query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
        query.doubt_stacks(&tree);
        for (process, leaves) in processes {
            tree.counts.fill(0);
            leaves.iter().for_each(|(frame, count)| tree.counts[*frame as usize] += count);
            // What is left of one goes to the next, so that no time is lost.
            let mut left = 0.5;
            for count in tree.counts.iter_mut().filter(|count| **count > 0) {
                left += *count as f64 * scale;
                *count = left as u64;
                left -= *count as f64;
            }
            samples += tree.counts.iter().sum::<u64>();
            flame.add_process(&process, &named(&tree, &query.names), inlined);
        }
    }
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
