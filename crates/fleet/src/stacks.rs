//! Stacks: those with most samples, whose frames a source knows, as a tree in which each caller is there once.
//!
//! What a server says is not trusted: a stack counts only if it is what it is called by, which is the hash of its frames, and if it is not deeper than any that a collector follows.

use crate::source::CountedAt;
use crate::stack_hash::{NONE, StackHash, called_from};
use archive::Node;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

/// No stack has more frames: collectors follow 1024, and put a few marks above and below them.
pub const DEEPEST: usize = 1100;

/// Samples of one stack and of one who ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackAt {
    /// Who ran, as far as it was asked for. Of which code is said by the stack.
    pub who: Rc<CountedAt>,
    /// The stack.
    pub stack: StackHash,
    /// How many samples.
    pub count: u64,
}

/// The first `most` of them: those with most samples, and of those with as many the first by who ran and by their hash. A server has the same order.
pub fn first(mut all: Vec<StackAt>, most: usize) -> Vec<StackAt> {
    all.sort_unstable_by(|a, b| {
        (Reverse(a.count), &a.who, &a.stack).cmp(&(Reverse(b.count), &b.who, &b.stack))
    });
    all.truncate(most);
    all
}

/// The stacks that an answer is made of.
#[derive(Debug, Default)]
pub struct Stacked {
    /// Those with most samples.
    pub rows: Vec<StackAt>,
    /// Their frames.
    pub frames: Frames,
    /// The samples of all stacks, of those that are not among the rows, too.
    pub samples: u64,
}

/// The frames of stacks.
#[derive(Debug, Default)]
pub struct Frames {
    builds: HashMap<String, u32>,
    /// The build and the offset of each frame, and its caller (`Node::NONE`: it has none), which comes before it.
    nodes: Vec<((u32, u64), u32)>,
    known: HashMap<((u32, u64), u32), u32>,
    /// The innermost frame of each stack.
    innermost: HashMap<StackHash, u32>,
}

impl Frames {
    /// Adds a stack, the outermost frame first, unless it is not what it is called by, or too deep.
    pub fn add<'a>(&mut self, stack: StackHash, frames: impl Iterator<Item = (&'a str, u64)> + Clone) {
        let mut depth = 0;
        let hash = frames.clone().take(DEEPEST + 1).fold(NONE, |caller, (build, offset)| {
            depth += 1;
            called_from(&caller, build, offset)
        });
        if depth == 0 || depth > DEEPEST || hash != stack {
            return;
        }
        let innermost = frames.fold(Node::NONE, |caller, (build, offset)| self.frame(caller, build, offset));
        self.innermost.insert(stack, innermost);
    }

    fn frame(&mut self, caller: u32, build: &str, offset: u64) -> u32 {
        let next = self.builds.len() as u32;
        let build = match self.builds.get(build) {
            Some(build) => *build,
            None => *self.builds.entry(build.to_owned()).or_insert(next),
        };
        let node = ((build, offset), caller);
        *self.known.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        })
    }

    /// The innermost frame of a stack; `None` where its frames are not known.
    pub fn innermost(&self, stack: &StackHash) -> Option<u32> {
        self.innermost.get(stack).copied()
    }

    /// The build and the offset of each frame, and its caller, which comes before it.
    pub fn all(&self) -> Vec<((&str, u64), u32)> {
        let mut builds = vec![""; self.builds.len()];
        self.builds.iter().for_each(|(build, number)| builds[*number as usize] = build);
        self.nodes
            .iter()
            .map(|((build, offset), caller)| ((builds[*build as usize], *offset), *caller))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(frames: &[(&str, u64)]) -> StackHash {
        frames.iter().fold(NONE, |caller, (build, offset)| called_from(&caller, build, *offset))
    }

    #[test]
    fn those_with_most_samples_come_first_in_an_order_that_is_the_same_everywhere() {
        let row = |service: &str, stack: u8, count| StackAt {
            who: Rc::new(CountedAt { service: service.into(), ..CountedAt::default() }),
            stack: [stack; 16],
            count,
        };
        let all = vec![row("b", 1, 5), row("a", 255, 5), row("a", 9, 5), row("z", 0, 6), row("a", 0, 1)];
        let told: Vec<_> =
            first(all, 4).into_iter().map(|row| (row.who.service.clone(), row.stack[0])).collect();
        let of = |service: &str, stack| (service.to_owned(), stack);
        assert_eq!(told, [of("z", 0), of("a", 9), of("a", 255), of("b", 1)]);
    }

    #[test]
    fn callers_are_there_once() {
        let (main, work) = (("a", 1), ("b", 2));
        let mut frames = Frames::default();
        for stack in [&[main, work][..], &[main], &[main, work, work], &[main, work]] {
            frames.add(hash(stack), stack.iter().copied());
        }
        assert_eq!(frames.all(), [(main, Node::NONE), (work, 0), (work, 1)]);
        assert_eq!(frames.innermost(&hash(&[main, work])), Some(1));
        assert_eq!(frames.innermost(&hash(&[work])), None);
    }

    #[test]
    fn what_is_not_what_it_is_called_by_does_not_count() {
        let mut frames = Frames::default();
        let deep = vec![("a", 1); DEEPEST + 1];
        frames.add(hash(&[("a", 1)]), [("a", 2)].into_iter());
        frames.add(hash(&deep), deep.iter().copied());
        frames.add(NONE, [].into_iter());
        assert_eq!((frames.all().len(), frames.innermost(&NONE)), (0, None));
        frames.add(hash(&deep[1..]), deep[1..].iter().copied());
        assert_eq!(frames.all().len(), DEEPEST);
    }
}
