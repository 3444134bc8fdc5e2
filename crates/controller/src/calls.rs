//! Calls: the stacks of a run with the names of their functions, when it is over.

use crate::embedded;
use crate::images::Images;
use crate::naming::Naming;
use crate::stacks::{Made, Parent, Place, Stacks};
use crate::unwind_tables;
use profile::{Frame, Function, Image, RegionKind};
use std::collections::HashMap;
use std::sync::Arc;
use symbols::{FileOffset, Scope};
use wire::unwind::Unwind;

/// Functions that threads begin with, for programs whose C library does not say so in its tables.
const BEGINNINGS: [&str; 7] =
    ["_start", "_start_c", "clone", "__clone", "clone3", "__clone3", "start_thread"];

/// What a program is called of which the name is not known.
const UNKNOWN_PROGRAM: &str = "other programs";

/// What names are looked up in.
pub struct Names<'a> {
    pub images: &'a Images,
    pub unwind: &'a Unwind,
    pub scope: &'a Scope,
    pub naming: Naming,
}

/// A function and the line in it.
type Named = (usize, Option<u32>);

/// The tree as it grows.
#[derive(Default)]
struct Tree {
    stacks: profile::Stacks,
    functions: HashMap<Function, usize>,
    frames: HashMap<Frame<usize, usize>, usize>,
}

impl Names<'_> {
    /// The stacks with names. Positions with the same frames become one.
    pub fn of(&self, stacks: &Stacks) -> profile::Stacks {
        let mut tree = Tree::default();
        let mut named: HashMap<Place, Vec<Named>> = HashMap::new();
        let mut files: HashMap<u32, Option<(Arc<symbols::Image>, Image)>> = HashMap::new();
        let mut innermost: Vec<usize> = Vec::new();
        let mut samples: HashMap<usize, (u64, profile::Nanos)> = HashMap::new();
        let programs = self.programs(stacks, &mut tree);
        for (node, count, weight) in stacks.nodes() {
            let frames = named.entry(node.place).or_insert_with(|| match node.place {
                Place::File(number, offset) => {
                    let file = stacks.file(number);
                    let opened = files.entry(number).or_insert_with(|| self.open(file));
                    let base = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let frames = opened.as_ref().map(|(image, _)| self.frames(image, offset));
                    let image = match opened {
                        Some((_, image)) => image.clone(),
                        None => Image { path: file.path.to_string_lossy().into_owned(), build_id: None },
                    };
                    self.name(&frames.unwrap_or_default(), &format!("[{base}]"), &image, &mut tree)
                }
                Place::Made(number) => {
                    let image = Image { path: Images::MADE.to_owned(), build_id: None };
                    match stacks.made(number) {
                        Made::Frames(frames) => self.name(frames, Images::MADE, &image, &mut tree),
                        Made::Memory(name) => self.name(&[], name, &Image::default(), &mut tree),
                    }
                }
            });
            // What the runtime does belongs to the code that it does it for.
            let is_ours = matches!(node.place, Place::File(number, _) if embedded::is_runtime_at(&stacks.file(number).path));
            let frames = match node.parent {
                Parent::Node(_) if is_ours => &[],
                _ => &frames[..],
            };
            let mut parent = match node.parent {
                Parent::Node(parent) => Some(innermost[parent as usize]),
                Parent::Outermost(address, program) => {
                    let outermost = frames.last().map(|(function, _)| &tree.stacks.functions[*function]);
                    let begins = outermost.is_some_and(|function| BEGINNINGS.contains(&&*function.name));
                    let whole = begins || stacks.is_whole(address, self.unwind);
                    let program = programs.get(&program).copied();
                    if whole { program } else { Some(tree.truncated(program)) }
                }
                Parent::Cut(program) => Some(tree.truncated(programs.get(&program).copied())),
            };
            for (depth, (function, line)) in frames.iter().enumerate().rev() {
                let inlined = depth + 1 < frames.len();
                parent = Some(tree.frame(Frame { parent, function: *function, line: *line, inlined }));
            }
            let Some(frame) = parent else { continue };
            innermost.push(frame);
            if count > 0 {
                let tally = samples.entry(frame).or_default();
                *tally = (tally.0 + count, tally.1 + weight);
            }
        }
        let mut stacks = tree.stacks;
        stacks.samples = samples.into_iter().map(|(frame, (count, weight))| (frame, count, weight)).collect();
        stacks.samples.sort_unstable_by_key(|(frame, ..)| *frame);
        stacks
    }

    /// The frames that stand for programs, by their marks; none where there is only one.
    fn programs(&self, stacks: &Stacks, tree: &mut Tree) -> HashMap<u16, usize> {
        let marks = stacks.programs();
        if marks.len() < 2 {
            return HashMap::new();
        }
        let name = |mark| {
            let path = self.images.programs().with_mark(mark)?;
            Some(path.file_name()?.to_string_lossy().into_owned())
        };
        let frame = |mark| (mark, tree.program(&name(mark).unwrap_or_else(|| UNKNOWN_PROGRAM.to_owned())));
        marks.into_iter().map(frame).collect()
    }

    /// A file, if it is still the one that was mapped.
    fn open(&self, code: &unwind_tables::Code) -> Option<(Arc<symbols::Image>, Image)> {
        if let Some((image, named)) = self.images.candidate_of(code) {
            return Some((Arc::clone(image), named.clone()));
        }
        let image = Some(code).filter(|code| !code.deleted).and_then(unwind_tables::image)?;
        let named = Image { path: code.path.to_string_lossy().into_owned(), build_id: image.build_id() };
        Some((image, named))
    }

    fn frames(&self, image: &symbols::Image, offset: u64) -> Vec<symbols::Frame> {
        let address = image.stated(FileOffset(offset));
        address.map(|address| image.frames(address, self.scope)).unwrap_or_default()
    }

    /// The functions and lines of frames; `unknown` is what code without any is called. At least one.
    fn name(&self, frames: &[symbols::Frame], unknown: &str, image: &Image, tree: &mut Tree) -> Vec<Named> {
        let naming = self.naming.of_functions();
        let named = |frame: &symbols::Frame| {
            let (name, file) = naming.of(RegionKind::Function, frame);
            let function = tree.function(Function { name, file, image: image.clone() });
            (function, frame.line.filter(|line| *line > 0))
        };
        let mut named: Vec<Named> = frames.iter().map(named).collect();
        if named.is_empty() {
            let function = Function { name: unknown.to_owned(), file: None, image: image.clone() };
            named.push((tree.function(function), None));
        }
        named
    }
}

impl Tree {
    fn function(&mut self, function: Function) -> usize {
        if let Some(known) = self.functions.get(&function) {
            return *known;
        }
        self.stacks.functions.push(function.clone());
        let number = self.stacks.functions.len() - 1;
        self.functions.insert(function, number);
        number
    }

    fn frame(&mut self, frame: Frame<usize, usize>) -> usize {
        *self.frames.entry(frame).or_insert_with(|| {
            self.stacks.frames.push(frame);
            self.stacks.frames.len() - 1
        })
    }

    /// What stands for the frames that are not known, in a program if there are several.
    fn truncated(&mut self, parent: Option<usize>) -> usize {
        let function = self.function(Function::truncated());
        self.frame(Frame { parent, function, line: None, inlined: false })
    }

    /// What stands for a program.
    fn program(&mut self, name: &str) -> usize {
        let function = self.function(Function::program(name));
        self.frame(Frame { parent: None, function, line: None, inlined: false })
    }
}
