//! Stacks with names, and the same merged by function: what flame graphs are made of.

use super::Worth;
use archive::{CodeImage, ImageKind, OFF_CPU_FRAME, WOKEN_BY};
use serde::Serialize;
use std::collections::HashMap;

/// Whose code it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeKind {
    /// No code: the process that runs it.
    Process,
    /// A program's own.
    Program,
    /// A library's.
    Library,
    /// The kernel's.
    Kernel,
    /// Made by the program while it ran.
    Generated,
    /// No code: what is inside of it waits.
    Waiting,
    /// Nothing is known of it.
    #[default]
    Unknown,
}

impl CodeKind {
    /// Libraries are told from programs by their names, as linkers do: `libc.so.6`.
    pub fn of(image: &CodeImage) -> CodeKind {
        let name = image.path.rsplit('/').next().unwrap_or_default();
        match image.kind {
            ImageKind::Kernel | ImageKind::Idle => CodeKind::Kernel,
            ImageKind::Generated => CodeKind::Generated,
            ImageKind::Memory if is_wait(&image.path) => CodeKind::Waiting,
            ImageKind::Memory | ImageKind::Unknown => CodeKind::Unknown,
            ImageKind::File if name.ends_with(".so") || name.contains(".so.") => CodeKind::Library,
            ImageKind::File => CodeKind::Program,
        }
    }
}

/// Whether it is the name of a frame that says how a thread waits, or who ended that.
fn is_wait(path: &str) -> bool {
    path.starts_with(OFF_CPU_FRAME) || path.starts_with(WOKEN_BY)
}

/// Functions that stacks are known to begin with: those that start programs, threads, kernel threads and CPUs.
const BEGINNINGS: [&str; 20] = [
    "_start",
    "main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "thread_start",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.rt0_go",
    "ret_from_fork",
    "ret_from_fork_asm",
    "secondary_startup_64",
    "secondary_startup_64_no_verify",
    "common_startup_64",
    "rest_init",
];

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageName {
    /// Its path, or a name in brackets.
    pub path: String,
    /// Its build ID, or nothing.
    pub build_id: String,
    /// Whose code is in it.
    pub kind: CodeKind,
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

impl Line {
    /// Whose code it is, in an image of this kind: Rust's standard library is a library, also where it is part of the program.
    fn kind_in(&self, image: CodeKind) -> CodeKind {
        match image {
            CodeKind::Program if profile::is_rust_std(&self.function, Some(&self.file)) => CodeKind::Library,
            kind => kind,
        }
    }
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
            images: vec![ImageName {
                path: "/bin/a;b".to_owned(),
                build_id: "abcd".to_owned(),
                kind: CodeKind::Program,
            }],
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
    /// Its image; none for a process.
    pub image: String,
    /// Whose code it is.
    pub kind: CodeKind,
    /// What making it faster is worth.
    pub worth: Option<Worth>,
}

/// A box of a flame graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlameBox {
    /// Index of the box below, less than its own; `u32::MAX` for the lowest.
    pub parent: u32,
    /// Index of the name.
    pub name: u32,
    /// Samples of it alone.
    pub own: u64,
    /// Samples of it and of the boxes above it.
    pub total: u64,
    /// Whether there must be callers of which nothing is known.
    pub is_cut: bool,
    /// In a comparison: samples of it, and with the boxes above it, before.
    pub before: (u64, u64),
}

/// Stacks merged by function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// Functions.
    pub names: Vec<Name>,
    /// Boxes; callers before those they call.
    pub boxes: Vec<FlameBox>,
    known_names: HashMap<(String, String), u32>,
    /// Boxes of who ran, by the box below and the name.
    roots: HashMap<(u32, u32), u32>,
}

impl Flame {
    /// Merges what has the same functions on its stack.
    pub fn new(stacks: &Stacks) -> Flame {
        let mut flame = Flame::default();
        flame.add(StackNode::NONE, stacks);
        flame.add_up();
        flame
    }

    /// Adds the stacks of some who ran above boxes of their own, such as process and thread, of which the outer ones may be there.
    /// [`add_up`](Self::add_up) comes after the last one.
    pub(crate) fn add_above(&mut self, roots: &[&str], stacks: &Stacks) {
        let mut root = StackNode::NONE;
        for text in roots {
            let name = self.name(text, "", CodeKind::Process);
            root = *self.roots.entry((root, name)).or_insert_with(|| {
                self.boxes.push(FlameBox { parent: root, name, ..FlameBox::default() });
                self.boxes.len() as u32 - 1
            });
        }
        self.add(root, stacks);
    }

    /// Adds a box of samples of which nothing else is said, with none above it.
    pub(crate) fn add_alone(&mut self, name: &str, samples: u64) {
        let name = self.name(name, "", CodeKind::Unknown);
        self.boxes.push(FlameBox { parent: StackNode::NONE, name, own: samples, ..FlameBox::default() });
    }

    fn add(&mut self, root: u32, stacks: &Stacks) {
        let mut names: HashMap<(&str, u32), u32> = HashMap::new();
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let mut box_of: Vec<u32> = Vec::with_capacity(stacks.nodes.len());
        // Where no stack has two frames, none were asked for.
        let has_callers = stacks.nodes.iter().any(|node| node.parent != StackNode::NONE);
        for node in &stacks.nodes {
            let mut at = if node.parent == StackNode::NONE { root } else { box_of[node.parent as usize] };
            let position = &stacks.positions[node.position as usize];
            for line in position.lines.iter().rev() {
                let image = &stacks.images[position.image as usize];
                let name = *names
                    .entry((&line.base, position.image))
                    .or_insert_with(|| self.name(&line.base, &image.path, line.kind_in(image.kind)));
                at = *known.entry((at, name)).or_insert_with(|| {
                    // Outside of everything there is no box.
                    let outside = self.boxes.get(at as usize).map(|one| self.names[one.name as usize].kind);
                    let is_outermost = at == root || outside == Some(CodeKind::Waiting);
                    let is_code = image.kind != CodeKind::Waiting;
                    let is_cut =
                        has_callers && is_outermost && is_code && !BEGINNINGS.contains(&line.base.as_str());
                    self.boxes.push(FlameBox { parent: at, name, is_cut, ..FlameBox::default() });
                    self.boxes.len() as u32 - 1
                });
            }
            self.boxes[at as usize].own += node.count;
            box_of.push(at);
        }
    }

    /// The number of a function, which is added if it is new.
    fn name(&mut self, function: &str, image: &str, kind: CodeKind) -> u32 {
        let key = (function.to_owned(), image.to_owned());
        *self.known_names.entry(key).or_insert_with(|| {
            let (function, image) = (function.to_owned(), image.to_owned());
            self.names.push(Name { function, image, kind, worth: None });
            self.names.len() as u32 - 1
        })
    }

    /// Adds the samples of every box to those that it is above.
    pub(crate) fn add_up(&mut self) {
        self.boxes.iter_mut().for_each(|one| one.total = one.own);
        for nth in (0..self.boxes.len()).rev() {
            let FlameBox { parent, total, .. } = self.boxes[nth];
            if parent != StackNode::NONE {
                self.boxes[parent as usize].total += total;
            }
        }
        self.find_beginnings();
    }

    /// What starts a program has no name where it is stripped: it is known by what it calls, and calls nothing else.
    fn find_beginnings(&mut self) {
        let mut starts: Vec<Option<bool>> = vec![None; self.boxes.len()];
        for one in &self.boxes {
            if one.parent != StackNode::NONE && one.total > 0 {
                let is_beginning = BEGINNINGS.contains(&self.names[one.name as usize].function.as_str());
                let starts = &mut starts[one.parent as usize];
                *starts = Some(starts.unwrap_or(true) && is_beginning);
            }
        }
        for (one, starts) in self.boxes.iter_mut().zip(starts) {
            one.is_cut &= one.own > 0 || starts != Some(true);
        }
    }

    /// The same with what each box was before. What is no longer there has no samples.
    #[must_use]
    pub fn compared_with(mut self, before: &Flame) -> Flame {
        let mut known: HashMap<(u32, u32), u32> =
            (0..).zip(&self.boxes).map(|(nth, one)| ((one.parent, one.name), nth)).collect();
        let mut box_of: Vec<u32> = Vec::with_capacity(before.boxes.len());
        for old in &before.boxes {
            let parent = if old.parent == StackNode::NONE { old.parent } else { box_of[old.parent as usize] };
            let Name { function, image, kind, .. } = &before.names[old.name as usize];
            let name = self.name(function, image, *kind);
            let nth = *known.entry((parent, name)).or_insert_with(|| {
                let is_cut = old.is_cut;
                self.boxes.push(FlameBox { parent, name, is_cut, ..FlameBox::default() });
                self.boxes.len() as u32 - 1
            });
            self.boxes[nth as usize].before = (old.own, old.total);
            box_of.push(nth);
        }
        self
    }

    /// All samples.
    pub fn total(&self) -> u64 {
        self.boxes.iter().map(|one| one.own).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example without inlined functions.
    fn outermost() -> Stacks {
        let mut stacks = Stacks::example();
        for position in &mut stacks.positions {
            position.lines.drain(..position.lines.len() - 1);
        }
        stacks
    }

    #[test]
    fn what_has_the_same_functions_is_merged() {
        let boxes = |stacks: &Stacks| {
            let flame = Flame::new(stacks);
            flame
                .boxes
                .iter()
                .map(|one| (flame.names[one.name as usize].function.clone(), one.own, one.total))
                .collect::<Vec<_>>()
        };
        let of = |name: &str, own, total| (name.to_owned(), own, total);
        assert_eq!(
            boxes(&Stacks::example()),
            [of("main", 1, 1111), of("work", 100, 1110), of("tiny", 10, 10), of("work", 1000, 1000)]
        );
        assert_eq!(boxes(&outermost()), [of("main", 1, 1111), of("work", 110, 1110), of("work", 1000, 1000)]);
    }

    #[test]
    fn processes_are_boxes_of_their_own_and_stacks_that_begin_nowhere_are_marked() {
        let mut flame = Flame::default();
        let mut other = outermost();
        other.positions[0].lines[0].base = "serve".to_owned();
        flame.add_above(&["a"], &outermost());
        flame.add_above(&["b"], &other);
        flame.add_up();
        let told: Vec<_> = flame
            .boxes
            .iter()
            .map(|one| (flame.names[one.name as usize].function.as_str(), one.total, one.is_cut))
            .collect();
        let of = |process, outermost, is_cut| {
            [(process, 1111, false), (outermost, 1111, is_cut), ("work", 1110, false), ("work", 1000, false)]
        };
        assert_eq!(told, [of("a", "main", false), of("b", "serve", true)].concat());
        assert_eq!(flame.total(), 2222);
        // What starts it has no name.
        let mut stripped = outermost();
        stripped.positions[0].lines[0].base = "[server]".to_owned();
        stripped.positions[2].lines[0].base = "__libc_start_main".to_owned();
        for (calls_more, is_cut) in [(true, true), (false, false)] {
            let mut flame = Flame::default();
            if !calls_more {
                stripped.nodes.remove(1);
                stripped.nodes[0].count = 0;
                stripped.nodes[2].parent = 1;
            }
            flame.add_above(&["c"], &stripped);
            flame.add_up();
            assert_eq!(flame.boxes[1].is_cut, is_cut, "{:?}", flame.boxes);
        }
        assert_eq!(flame.names.iter().filter(|name| name.function == "work").count(), 1);
        assert_eq!(flame.names[0].kind, CodeKind::Process);
    }

    #[test]
    fn a_comparison_has_what_was_before_and_what_is_gone() {
        let mut old = outermost();
        old.nodes[2].count = 40;
        old.positions[0].lines[0].base = "old_main".to_owned();
        let mut before = Flame::new(&outermost());
        let gone = Flame::new(&old);
        before.boxes[1].own = 7;
        before.add_up();
        let flame = Flame::new(&outermost()).compared_with(&before);
        let told = |flame: &Flame| -> Vec<(u64, u64, (u64, u64))> {
            flame.boxes.iter().map(|one| (one.own, one.total, one.before)).collect()
        };
        assert_eq!(told(&flame), [(1, 1111, (1, 1008)), (110, 1110, (7, 1007)), (1000, 1000, (1000, 1000))]);
        let flame = Flame::new(&outermost()).compared_with(&gone);
        assert_eq!(told(&flame)[..3], [(1, 1111, (0, 0)), (110, 1110, (0, 0)), (1000, 1000, (0, 0))]);
        assert_eq!(told(&flame)[3..], [(0, 0, (1, 1051)), (0, 0, (50, 1050)), (0, 0, (1000, 1000))]);
        assert_eq!(flame.total(), 1111);
    }

    #[test]
    fn the_standard_library_is_a_library_in_a_program_too() {
        let mut stacks = outermost();
        stacks.positions[0].lines[0].file = "/rustc/2948/library/std/src/rt.rs".to_owned();
        let flame = Flame::new(&stacks);
        let kind = |nth: usize| (flame.names[nth].function.as_str(), flame.names[nth].kind);
        assert_eq!([kind(0), kind(1)], [("main", CodeKind::Library), ("work", CodeKind::Program)]);
    }

    #[test]
    fn images_are_of_a_kind() {
        let of = |path: &str, kind| {
            let image = CodeImage { path: path.to_owned(), build_id: String::new(), kind };
            CodeKind::of(&image)
        };
        assert_eq!(of("/usr/bin/server", ImageKind::File), CodeKind::Program);
        assert_eq!(of("/lib/libc.so.6", ImageKind::File), CodeKind::Library);
        assert_eq!(of("/opt/x/plugin.so", ImageKind::File), CodeKind::Library);
        assert_eq!(of("[kernel]", ImageKind::Kernel), CodeKind::Kernel);
        assert_eq!(of("[generated]", ImageKind::Generated), CodeKind::Generated);
        assert_eq!(of("[memory]", ImageKind::Memory), CodeKind::Unknown);
    }
}
