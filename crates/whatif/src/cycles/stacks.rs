//! Stacks with names, for flame graphs and exports.

use super::functions::base;
use super::names::Names;
use profile::continuous::{ImageId, Node, Offset, Tree};
use report::cycles::{ImageName, Line, Place, StackNode, Stacks};
use std::collections::HashMap;

/// The tree with the names that are known.
pub fn named(tree: &Tree, names: &Names) -> Stacks {
    let mut stacks = Stacks::default();
    let mut images: HashMap<ImageId, u32> = HashMap::new();
    let mut places: HashMap<(ImageId, Offset), u32> = HashMap::new();
    // Frames that nothing was counted above are left out.
    let totals = super::functions::totals(tree);
    let mut kept: Vec<u32> = Vec::with_capacity(tree.nodes.len());
    for (nth, node) in tree.nodes.iter().enumerate() {
        if totals[nth] == 0 {
            kept.push(Node::NONE);
            continue;
        }
        let Node { image, offset, .. } = *node;
        let place = *places.entry((image, offset)).or_insert_with(|| {
            let number = *images.entry(image).or_insert_with(|| {
                let known = names.image(image);
                stacks.images.push(ImageName { path: known.path, build_id: known.build_id });
                stacks.images.len() as u32 - 1
            });
            stacks.places.push(Place { image: number, offset: offset.0, lines: lines(names, image, offset) });
            stacks.places.len() as u32 - 1
        });
        let parent = if node.parent == Node::NONE { StackNode::NONE } else { kept[node.parent as usize] };
        kept.push(stacks.nodes.len() as u32);
        stacks.nodes.push(StackNode { parent, place, count: tree.counts[nth] });
    }
    stacks
}

fn lines(names: &Names, image: ImageId, offset: Offset) -> Vec<Line> {
    let symbols = names.symbols(image, offset);
    if symbols.is_empty() {
        let name = names.nameless(image);
        return vec![Line { function: name.clone(), base: name, ..Line::default() }];
    }
    let line = |symbol: &profile::continuous::Symbol| Line {
        function: symbol.function.clone(),
        base: base(&symbol.function),
        file: symbol.file.clone(),
        line: symbol.line,
    };
    symbols.iter().map(line).collect()
}
