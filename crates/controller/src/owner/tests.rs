//! The decision by examples, and against that of the runtime.

use super::*;
use crate::ranges::ends;
use wire::{Epoch, Nanos, SharedMemory, Speedup};

/// Code of a function, or out of scope.
fn code(function: Option<u32>, named: &[usize], calling: &[usize]) -> Code<u32> {
    Code {
        function,
        line: function.map(|function| 100 + function),
        named: named.to_vec(),
        calling: calling.to_vec(),
        sampled: Vec::new(),
    }
}

fn specs(texts: &[&str]) -> Vec<RegionSpec> {
    texts.iter().map(|text| RegionSpec::parse(text)).collect()
}

fn ask(specs: &[RegionSpec]) -> Question<'_> {
    Question { specs, points: false, caller: true }
}

#[test]
fn the_first_frame_in_scope_owns_the_stack() {
    let foreign = code(None, &[], &[]);
    let (inner, outer) = (code(Some(1), &[], &[]), code(Some(2), &[], &[]));
    for (stack, function, caller) in [
        (vec![], None, None),
        (vec![&foreign], None, None),
        (vec![&inner], Some(1), None),
        (vec![&foreign, &inner, &outer], Some(1), Some(2)),
        (vec![&inner, &inner, &foreign, &outer, &inner], Some(1), Some(2)),
        (vec![&outer, &inner], Some(2), Some(1)),
    ] {
        let found = owner(stack.iter().copied(), ask(&[]));
        let line = function.map(|function| 100 + function);
        assert_eq!((found.function, found.line, found.caller), (function, line, caller), "{stack:?}");
    }
}

#[test]
fn a_named_region_has_all_it_calls_and_its_caller_is_further_out() {
    let specs = specs(&["work", "work@serve"]);
    let leaf = code(Some(1), &[], &[]);
    let work = code(Some(2), &[0, 1], &[]);
    let serve = code(Some(3), &[], &[1]);
    let inlined = code(Some(3), &[0, 1], &[1]);
    for (stack, named) in [
        (vec![&leaf, &work], &[0][..]),
        (vec![&leaf, &work, &leaf, &serve], &[0, 1]),
        (vec![&serve, &work], &[0]),
        (vec![&leaf, &inlined], &[0, 1]),
        (vec![&work, &work, &serve, &serve], &[0, 1]),
        (vec![&leaf, &serve], &[]),
    ] {
        assert_eq!(owner(stack.iter().copied(), ask(&specs)).named, named, "{stack:?}");
    }
}

#[test]
fn no_frame_is_read_that_can_add_nothing() {
    let read = |question: Question<'_>| {
        let mut read = 0;
        let stack = [Some(1), Some(1), Some(2), Some(3)].map(|function| code(function, &[], &[]));
        owner(stack.iter().inspect(|_| read += 1), question);
        read
    };
    let specs = specs(&["work"]);
    for (question, expected) in [
        (Question { specs: &[], points: false, caller: false }, 1),
        (Question { specs: &[], points: false, caller: true }, 3),
        (Question { specs: &[], points: true, caller: false }, 4),
        (Question { specs: &specs, points: false, caller: false }, 4),
    ] {
        assert_eq!(read(question), expected, "{question:?}");
    }
}

/// Random code, as the controller knows it once it has seen all of it, and stacks of such code.
struct World {
    specs: Vec<RegionSpec>,
    pieces: Vec<(Range<u64>, Code<u32>)>,
    images: Vec<Range<u64>>,
}

const FUNCTIONS: u32 = 4;

impl World {
    fn new(random: &mut fastrand::Rng) -> Self {
        let specs = specs(&["a", "b", "a@c", "b@d"]);
        let some = |random: &mut fastrand::Rng, of: Range<usize>| -> Vec<usize> {
            of.filter(|_| random.u8(..4) == 0).collect()
        };
        let (mut at, mut pieces, mut images) = (1000, Vec::new(), Vec::new());
        for _ in 0..random.usize(1..4) {
            let begin = at;
            for _ in 0..random.usize(1..12) {
                let end = at + random.u64(1..20);
                let function = random.bool().then(|| random.u32(..FUNCTIONS));
                let line = function.map(|function| 100 + 2 * function + random.u32(..2));
                let (named, calling) = (some(random, 0..specs.len()), some(random, 2..specs.len()));
                pieces.push((at..end, Code { function, line, named, calling, sampled: Vec::new() }));
                at = end;
            }
            images.push(begin..at);
            at += random.u64(1..50);
        }
        Self { specs, pieces, images }
    }

    fn pieces(&self) -> impl Iterator<Item = (Range<u64>, &Code<u32>)> + Clone {
        self.pieces.iter().map(|(range, code)| (range.clone(), code))
    }

    /// The code at an address; none outside the images.
    fn at(&self, Address(address): Address) -> Option<&Code<u32>> {
        let after = self.pieces.partition_point(|(range, _)| range.start <= address);
        let (range, code) = self.pieces.get(after.checked_sub(1)?)?;
        range.contains(&address).then_some(code)
    }

    /// In and between images, with the ends of pieces more often than other addresses.
    fn stack(&self, random: &mut fastrand::Rng) -> Vec<Address> {
        let depth = random.usize(..8);
        let frame = || {
            let (Range { start, end }, _) = random.choice(&self.pieces).unwrap();
            Address(match random.u8(..4) {
                0 => *start,
                1 => end - 1,
                2 => *end,
                _ => random.u64(990..end + 10),
            })
        };
        std::iter::repeat_with(frame).take(depth).collect()
    }

    fn regions(&self) -> Vec<Which<u32>> {
        let functions = (0..FUNCTIONS).map(Which::Own);
        let lines = (0..2 * FUNCTIONS).map(|line| Which::Own(100 + line));
        let pairs = (0..FUNCTIONS).flat_map(|f| (0..FUNCTIONS).map(move |caller| (f, caller)));
        let paths = pairs.filter(|(f, caller)| f != caller).map(|(f, caller)| Which::Path(f, caller));
        let named = (0..self.specs.len()).map(Which::Named);
        functions.chain(lines).chain(paths).chain(named).collect()
    }

    fn publish(&self, memory: &SharedMemory) {
        let images = self.images.iter().cloned().map(ends);
        memory.code.publish(images, outside(self.pieces()));
    }

    /// Whether the selection says all there is to know: a region whose caller has no code looks like one that needs no caller, but
    /// it has no samples, so that no experiment is about it.
    fn can_be_tried(&self, which: Which<u32>, selection: &Selection) -> bool {
        let needs_caller = match which {
            Which::Own(_) => false,
            Which::Path(..) => true,
            Which::Named(nth) => self.specs[nth].has_caller(),
        };
        needs_caller != selection.callers.is_empty()
    }
}

#[test]
fn the_runtime_decides_the_same_by_addresses() {
    let shared = kernel::SharedMapping::create().unwrap();
    let memory = shared.memory();
    let experiment = memory.experiments.of(Epoch(1));
    let (mut compared, mut hits) = (0, 0);
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new(&mut random);
        // As in a program: only specs with a caller have one.
        for (.., code) in &mut world.pieces {
            code.calling.retain(|nth| world.specs[*nth].has_caller());
        }
        world.publish(memory);
        let stacks: Vec<Vec<Address>> = (0..20).map(|_| world.stack(&mut random)).collect();
        for which in world.regions() {
            let selection = Selection::new(world.pieces(), which);
            if !world.can_be_tried(which, &selection) {
                continue;
            }
            let Selection { ranges, callers, inclusive } = selection;
            let known = ranges.len() + callers.len();
            let said = experiment.describe(1, Speedup::NONE, inclusive, Nanos(1), ranges, callers);
            assert_eq!(said, known);
            for stack in &stacks {
                let codes = stack.iter().filter_map(|frame| world.at(*frame));
                let ours = owner(codes, ask(&world.specs)).is(which);
                assert_eq!(experiment.owns(&memory.code, stack), ours, "seed {seed}, {which:?}, {stack:?}");
                compared += 1;
                hits += u32::from(ours);
            }
        }
    }
    // It would prove little if hardly any stack belonged to a region.
    assert!(compared > 50_000 && hits * 20 > compared, "{hits} of {compared}");
}
