//! Stacks with names, and the same merged by function: what flame graphs are made of.

use super::Worth;
use std::collections::HashMap;

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageName {
    /// Its path, or a name in brackets.
    pub path: String,
    /// Its build ID, or nothing.
    pub build_id: String,
}

/// A function at a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its full name.
    pub function: String,
    /// The name that all its instances share.
    pub base: String,
    /// The source file, or nothing.
    pub file: String,
    /// The line, or zero.
    pub line: u32,
}

/// A position in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodePosition {
    /// Index of the image.
    pub image: u32,
    /// The position.
    pub offset: u64,
    /// What is there, innermost inlined function first; never empty.
    pub lines: Vec<Line>,
}

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackNode {
    /// Index of the caller, less than its own; `u32::MAX` for the outermost.
    pub parent: u32,
    /// Index of the position.
    pub position: u32,
    /// Samples of it alone.
    pub count: u64,
}

impl StackNode {
    /// The parent of the outermost frames.
    pub const NONE: u32 = u32::MAX;
}

/// Stacks, as a tree of positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Images.
    pub images: Vec<ImageName>,
    /// Places.
    pub positions: Vec<CodePosition>,
    /// Frames; callers before those they call.
    pub nodes: Vec<StackNode>,
}

impl Stacks {
    /// A few stacks, for tests of whatever draws them.
    #[doc(hidden)]
    pub fn example() -> Stacks {
        let line = |base: &str, line| Line {
            function: format!("{base}(int)"),
            base: base.to_owned(),
            file: "/src/a.c".to_owned(),
            line,
        };
        let position = |offset, lines| CodePosition { image: 0, offset, lines };
        let node = |parent, position, count| StackNode { parent, position, count };
        Stacks {
            images: vec![ImageName { path: "/bin/a;b".to_owned(), build_id: "abcd".to_owned() }],
            positions: vec![
                position(1, vec![line("main", 1)]),
                position(2, vec![line("tiny", 9), line("work", 5)]),
                position(3, vec![line("work", 6)]),
            ],
            nodes: vec![node(StackNode::NONE, 0, 1), node(0, 1, 10), node(0, 2, 100), node(2, 2, 1000)],
        }
    }
}

/// A function in a flame graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Name {
    /// Its name.
    pub function: String,
    /// Its image.
    pub image: String,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
}

/// A box of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBox {
    /// Index of the box below, less than its own; `u32::MAX` for the lowest.
    pub parent: u32,
    /// Index of the name.
    pub name: u32,
    /// Samples of it alone.
    pub own: u64,
    /// Samples of it and of the boxes above it.
    pub total: u64,
}

/// Stacks merged by function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// Functions.
    pub names: Vec<Name>,
    /// Boxes; callers before those they call.
    pub boxes: Vec<FlameBox>,
}

impl Flame {
    /// Merges what has the same functions on its stack; inlined functions are functions of their own if `inlined`.
    pub fn new(stacks: &Stacks, inlined: bool) -> Flame {
        let mut flame = Flame::default();
        let mut names: HashMap<(&str, u32), u32> = HashMap::new();
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let mut box_of: Vec<u32> = Vec::with_capacity(stacks.nodes.len());
        for node in &stacks.nodes {
            let mut at =
                if node.parent == StackNode::NONE { StackNode::NONE } else { box_of[node.parent as usize] };
            let position = &stacks.positions[node.position as usize];
            let lines =
                if inlined { &position.lines[..] } else { &position.lines[position.lines.len() - 1..] };
            for line in lines.iter().rev() {
                let name = *names.entry((&line.base, position.image)).or_insert_with(|| {
                    let image = stacks.images[position.image as usize].path.clone();
                    flame.names.push(Name { function: line.base.clone(), image, worth: None });
                    flame.names.len() as u32 - 1
                });
                at = *known.entry((at, name)).or_insert_with(|| {
                    flame.boxes.push(FlameBox { parent: at, name, own: 0, total: 0 });
                    flame.boxes.len() as u32 - 1
                });
            }
            flame.boxes[at as usize].own += node.count;
            box_of.push(at);
        }
        for nth in (0..flame.boxes.len()).rev() {
            flame.boxes[nth].total += flame.boxes[nth].own;
            let FlameBox { parent, total, .. } = flame.boxes[nth];
            if parent != StackNode::NONE {
                flame.boxes[parent as usize].total += total;
            }
        }
        flame
    }

    /// All samples.
    pub fn total(&self) -> u64 {
        self.boxes.iter().map(|one| one.own).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_same_functions_is_merged() {
        let boxes = |inlined| {
            let flame = Flame::new(&Stacks::example(), inlined);
            flame
                .boxes
                .iter()
                .map(|one| (flame.names[one.name as usize].function.clone(), one.own, one.total))
                .collect::<Vec<_>>()
        };
        let of = |name: &str, own, total| (name.to_owned(), own, total);
        assert_eq!(boxes(false), [of("main", 1, 1111), of("work", 110, 1110), of("work", 1000, 1000)]);
        assert_eq!(
            boxes(true),
            [of("main", 1, 1111), of("work", 100, 1110), of("tiny", 10, 10), of("work", 1000, 1000)]
        );
    }
}
