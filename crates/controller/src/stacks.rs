//! Stacks: equal ones are counted together, by where their code is in its files.
//!
//! A sample whose callchain has been seen costs one look for its hash. A new one becomes nodes of files and positions, which
//! keep their meaning when the file is unmapped; code that the program has made gets its names at once, for it may be replaced.
//! All other names are looked up when the run is over, each position once (`naming.rs`).

use crate::images::{Images, Position};
use crate::unwind_tables::Code;
use profile::Nanos;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use symbols::Frame;
use wire::ring::Sample;
use wire::unwind::{Caller, Unwind};

/// Frames that are kept of a run: those of a large program, a hundred times over what most have.
const MOST_NODES: usize = 1 << 15;
/// Different callchains that are kept at a time.
const MOST_CHAINS: usize = 1 << 16;

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub parent: Parent,
    pub place: Place,
}

/// What called a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    /// The frame with this number.
    Node(u32),
    /// Nothing is known further out. The address tells whether there is anything (see [`Stacks::is_whole`]), if it is not zero. Then the
    /// mark of the program that the process runs.
    Outermost(u64, u16),
    /// Frames for which there was no room in the sample, of a process that runs the program with this mark.
    Cut(u16),
}

/// Where code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In this file of [`Stacks::file`], so many bytes from its beginning.
    File(u32, u64),
    /// In no file: with these names of [`Stacks::made`].
    Made(u32),
}

/// What is known of code in no file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Made {
    /// What the program says of code that it has made, innermost first.
    Frames(Vec<Frame>),
    /// Where it is, such as `[vdso]`.
    Memory(String),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Stacks {
    nodes: Vec<Node>,
    numbers: HashMap<Node, u32>,
    /// How many samples each node is the innermost frame of, and the CPU time they stand for.
    tallies: Vec<(u64, Nanos)>,
    /// The innermost node of each callchain that was seen since the mappings have changed.
    chains: HashMap<u64, u32>,
    hasher: RandomState,
    files: Vec<Code>,
    file_numbers: HashMap<kernel::maps::FileId, u32>,
    made: Vec<Made>,
    made_numbers: HashMap<Made, u32>,
    /// Outermost addresses that a table has said to be where threads begin.
    begins: HashSet<u64>,
}

impl Stacks {
    /// Counts a sample. False if its callchain is a new one, which [`first`](Self::first) counts.
    pub fn again(&mut self, sample: &Sample) -> bool {
        let Some(node) = self.chains.get(&self.hash(sample)) else { return false };
        self.add(*node, sample);
        true
    }

    /// Counts a sample whose callchain is a new one. One for which there is no room is not counted.
    pub fn first(&mut self, sample: &Sample, images: &mut Images, unwind: &Unwind) {
        let Some(&outermost) = sample.callchain().last() else { return };
        let mut parent = match self.place(outermost.0, images) {
            _ if sample.cut => Parent::Cut(sample.program),
            Place::File(..) => Parent::Outermost(outermost.0, sample.program),
            // There is no table for it, wherever it is.
            Place::Made(_) => Parent::Outermost(0, sample.program),
        };
        // The table may be gone when it is asked for the next time.
        if unwind.caller(outermost) == Caller::Nobody {
            self.begins.insert(outermost.0);
        }
        for frame in sample.callchain().iter().rev() {
            let place = self.place(frame.0, images);
            let Some(node) = self.node(Node { parent, place }) else { return };
            parent = Parent::Node(node);
        }
        let Parent::Node(node) = parent else { return };
        if self.chains.len() >= MOST_CHAINS {
            self.chains.clear();
        }
        self.chains.insert(self.hash(sample), node);
        self.add(node, sample);
    }

    /// Something else may be at addresses that were seen.
    pub fn forget_addresses(&mut self) {
        self.chains.clear();
    }

    /// All frames, callers before what they call, with the samples that they are the innermost frame of.
    pub fn nodes(&self) -> impl Iterator<Item = (Node, u64, Nanos)> {
        self.nodes.iter().zip(&self.tallies).map(|(node, (count, weight))| (*node, *count, *weight))
    }

    /// The marks of the programs that they are of.
    pub fn programs(&self) -> BTreeSet<u16> {
        let program = |node: &Node| match node.parent {
            Parent::Outermost(_, program) | Parent::Cut(program) => Some(program),
            Parent::Node(_) => None,
        };
        self.nodes.iter().filter_map(program).collect()
    }

    /// The file of [`Place::File`].
    pub fn file(&self, number: u32) -> &Code {
        &self.files[number as usize]
    }

    /// The names of [`Place::Made`].
    pub fn made(&self, number: u32) -> &Made {
        &self.made[number as usize]
    }

    /// Whether a table says that nothing called the code at the outermost address of a stack: a thread begins there.
    pub fn is_whole(&self, outermost: u64, unwind: &Unwind) -> bool {
        self.begins.contains(&outermost) || unwind.caller(wire::Address(outermost)) == Caller::Nobody
    }

    fn hash(&self, sample: &Sample) -> u64 {
        self.hasher.hash_one((sample.cut, sample.program, sample.callchain()))
    }

    fn add(&mut self, node: u32, sample: &Sample) {
        let tally = &mut self.tallies[node as usize];
        tally.0 += 1;
        tally.1 += Nanos::new(sample.weight.0);
    }

    fn node(&mut self, node: Node) -> Option<u32> {
        if let Some(known) = self.numbers.get(&node) {
            return Some(*known);
        }
        let number = u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < MOST_NODES)?;
        self.nodes.push(node);
        self.tallies.push((0, Nanos::ZERO));
        self.numbers.insert(node, number);
        Some(number)
    }

    fn place(&mut self, address: u64, images: &mut Images) -> Place {
        let made = match images.position(address) {
            Position::File(code, offset) => {
                let number = *self.file_numbers.entry(code.file).or_insert_with(|| {
                    self.files.push(code.clone());
                    self.files.len() as u32 - 1
                });
                return Place::File(number, offset);
            }
            Position::Made(frames) => Made::Frames(frames),
            Position::Memory(name) => Made::Memory(name),
        };
        if let Some(number) = self.made_numbers.get(&made) {
            return Place::Made(*number);
        }
        self.made.push(made.clone());
        let number = self.made.len() as u32 - 1;
        self.made_numbers.insert(made, number);
        Place::Made(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_scope::CodeScope;
    use crate::images::Executed;
    use clap::Parser as _;
    use wire::{Address, Nanos as Weight};

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        run: crate::arguments::Run,
    }

    fn sample(frames: &[u64], cut: bool) -> Sample {
        let mut sample = Sample::new(Weight(0), Weight(10));
        sample.depth = frames.len();
        sample.cut = cut;
        for (to, frame) in sample.frames.iter_mut().zip(frames) {
            *to = Address(*frame);
        }
        sample
    }

    /// Of this process, and an address of its code.
    fn images() -> (Images, u64) {
        let program = std::env::current_exe().unwrap().canonicalize().unwrap();
        let scope = CodeScope::new(&Typed::parse_from(["run", "--", "x"]).run).unwrap();
        let maps = kernel::maps(std::process::id()).unwrap();
        let is_code =
            |mapping: &&kernel::Mapping| mapping.executable && mapping.path.as_ref() == Some(&program);
        let code = maps.iter().find(is_code).unwrap().start.0;
        (Images::new(std::process::id(), program, &scope, Executed::nothing()), code)
    }

    #[test]
    fn equal_stacks_are_one_and_too_many_are_not_kept() {
        let (mut images, code) = images();
        let shared = kernel::SharedMapping::create().unwrap();
        let unwind = &shared.memory().unwind;
        let mut stacks = Stacks::default();
        let mut count = |stacks: &mut Stacks, sample: &Sample| {
            if !stacks.again(sample) {
                stacks.first(sample, &mut images, unwind);
            }
        };
        let told = |stacks: &Stacks| -> Vec<(u64, u64)> {
            stacks.nodes().map(|(_, count, weight)| (count, weight.get())).collect()
        };
        for _ in 0..3 {
            count(&mut stacks, &sample(&[code + 8, code], false));
        }
        stacks.forget_addresses();
        count(&mut stacks, &sample(&[code + 8, code], false));
        count(&mut stacks, &sample(&[code], false));
        assert_eq!(told(&stacks), [(1, 10), (4, 40)]);
        // What is not known up to its outermost frame is something else.
        count(&mut stacks, &sample(&[code + 8, code], true));
        assert_eq!(told(&stacks), [(1, 10), (4, 40), (0, 0), (1, 10)]);
        // No file is at the first page.
        count(&mut stacks, &sample(&[5, 6], false));
        let (last, ..) = stacks.nodes().last().unwrap();
        assert!(matches!(last.place, Place::Made(made) if matches!(stacks.made(made), Made::Memory(_))));
        for nth in 0..MOST_NODES as u64 {
            count(&mut stacks, &sample(&[code + 16 + nth, code], false));
        }
        let counts = told(&stacks);
        assert_eq!(counts.len(), MOST_NODES);
        let kept: u64 = counts.iter().map(|(count, _)| count).sum();
        assert_eq!(kept, 7 + MOST_NODES as u64 - 6, "each node beyond the first six is of one sample");
        assert!(shared.memory().unwind.refused() == 0);
    }

    #[test]
    fn equal_stacks_of_two_programs_are_two() {
        let (mut images, code) = images();
        let shared = kernel::SharedMapping::create().unwrap();
        let mut stacks = Stacks::default();
        for program in [7, 8, 7] {
            let sample = Sample { program, ..sample(&[code + 8, code], false) };
            if !stacks.again(&sample) {
                stacks.first(&sample, &mut images, &shared.memory().unwind);
            }
        }
        let counts: Vec<u64> = stacks.nodes().map(|(_, count, _)| count).collect();
        assert_eq!((counts, stacks.programs()), (vec![0, 2, 0, 1], BTreeSet::from([7, 8])));
    }

    #[test]
    fn a_stack_is_whole_where_a_table_says_so() {
        let (mut images, code) = images();
        let shared = kernel::SharedMapping::create().unwrap();
        let unwind = &shared.memory().unwind;
        let mut stacks = Stacks::default();
        stacks.first(&sample(&[code + 8, code], false), &mut images, unwind);
        assert!(!stacks.is_whole(code, unwind));
        let row = wire::unwind::Row::new(0, Caller::Nobody);
        assert!(unwind.add((Address(code), Address(code + 4)), Address(code), &[row]));
        assert!(stacks.is_whole(code, unwind));
        stacks.forget_addresses();
        stacks.first(&sample(&[code + 8, code], false), &mut images, unwind);
        unwind.retire(Address(code));
        assert!(stacks.is_whole(code, unwind), "it was known while the code was there");
    }
}
