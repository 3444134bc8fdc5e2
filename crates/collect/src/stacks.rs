//! Equal stacks, counted together.
//!
//! A callchain of an address space is found by its hash, with who ran and what was sampled in the same key: one look for
//! each sample that is like one before. Only a new one is turned into nodes of images and offsets, which are shared by all
//! processes.

use crate::hash::{Hashed, Mixed, hash};
use crate::images::ImageIndex;
use crate::labels::LabelIndex;
use crate::slots::Marks;
use archive::{ImageId, Node, Offset};
use std::collections::HashMap;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The caller's node, or [`Stacks::ROOT`].
    pub parent: u32,
    /// The image that its code is in.
    pub image: ImageIndex,
    /// The position of its code in the image.
    pub offset: u64,
}

impl Frame {
    /// The same for a database, in which images have these keys.
    #[must_use]
    pub fn with(self, images: &[ImageId]) -> Node {
        let parent = if self.parent == Stacks::ROOT { Node::NONE } else { self.parent };
        Node { parent, image: images[self.image.0 as usize], offset: Offset(self.offset) }
    }
}

/// Equal samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The node of the sampled instruction.
    pub node: u32,
    /// Who ran.
    pub label: LabelIndex,
    /// What was sampled.
    pub event: u32,
    /// How many.
    pub count: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Stacks {
    frames: Vec<Frame>,
    nodes: HashMap<Frame, u32, Mixed>,
    chains: HashMap<u64, Counted, Hashed>,
    /// The counts that `chains` had when it became too large.
    counts: HashMap<(u32, u32, u32), u32, Mixed>,
}

/// The hash of a callchain: `seed` is that of its address space, label and event.
pub fn chain(seed: u64, callchain: &[u64]) -> u64 {
    hash(seed, callchain)
}

/// Different callchains that are kept at a time.
const MOST_CHAINS: usize = 1 << 16;

impl Stacks {
    /// Outside of everything.
    pub const ROOT: u32 = u32::MAX;

    /// Counts one more sample whose callchain (in its address space, with label and event) has this hash, if there was one.
    pub fn again(&mut self, chain: u64) -> Option<u32> {
        let counted = self.chains.get_mut(&chain)?;
        counted.count += 1;
        Some(counted.node)
    }

    /// Counts this many more samples of a callchain that there has been.
    pub fn more(&mut self, chain: u64, count: u32) {
        if let Some(counted) = self.chains.get_mut(&chain) {
            counted.count += count;
        }
    }

    /// The node of a frame.
    pub fn node(&mut self, frame: Frame) -> u32 {
        *self.nodes.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.frames.len()
    }

    /// The frame of a node.
    pub fn frame(&self, node: u32) -> Frame {
        self.frames[node as usize]
    }

    /// The first sample of its kind.
    pub fn first(&mut self, chain: u64, node: u32, label: LabelIndex, event: u32) {
        if self.chains.len() >= MOST_CHAINS {
            self.fold();
        }
        self.chains.insert(chain, Counted { node, label, event, count: 1 });
    }

    /// Marks everything that has samples.
    pub fn mark(&self, images: &mut Marks, labels: &mut Marks) {
        self.frames.iter().for_each(|frame| images.set(frame.image.0));
        self.chains.values().for_each(|counted| labels.set(counted.label.0));
        self.counts.keys().for_each(|(_, label, _)| labels.set(*label));
    }

    /// How much memory it takes, about, in bytes.
    pub fn bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + self.nodes.capacity() * (size_of::<(Frame, u32)>() + 1)
            + self.chains.capacity() * (size_of::<(u64, Counted)>() + 1)
            + self.counts.capacity() * (size_of::<[u32; 4]>() + 1)
    }

    /// Gives everything away and begins anew.
    pub fn take(&mut self) -> (Vec<Frame>, Vec<Counted>) {
        self.fold();
        let counts = self.counts.drain().map(|((node, label, event), count)| Counted {
            node,
            label: LabelIndex(label),
            event,
            count,
        });
        let counts = counts.collect();
        // A storm of short processes should not keep its memory forever.
        let usual = 2 * self.nodes.len().max(1 << 10);
        let frames = std::mem::replace(&mut self.frames, Vec::with_capacity(usual / 2));
        self.nodes.clear();
        self.nodes.shrink_to(usual);
        self.counts.shrink_to(1 << 12);
        (frames, counts)
    }

    /// Callchains of different processes, or of one that has mapped more, become one where they have the same nodes.
    /// After it, every callchain is a new one.
    pub fn fold(&mut self) {
        for (_, counted) in self.chains.drain() {
            *self.counts.entry((counted.node, counted.label.0, counted.event)).or_insert(0) += counted.count;
        }
        self.chains.shrink_to(1 << 14);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_counted_together() {
        let mut stacks = Stacks::default();
        let frame = |parent, offset| Frame { parent, image: ImageIndex(5), offset };
        let root = stacks.node(frame(Stacks::ROOT, 1));
        let leaf = stacks.node(frame(root, 2));
        assert_eq!((stacks.node(frame(Stacks::ROOT, 1)), stacks.node(frame(root, 2))), (root, leaf));
        // Two processes with other addresses, the same code; and another process.
        for (chain, label) in [(77, 1), (78, 1), (79, 2)] {
            assert_eq!(stacks.again(chain), None);
            stacks.first(chain, leaf, LabelIndex(label), 0);
        }
        assert_eq!(stacks.again(77), Some(leaf));
        assert_eq!(stacks.frame(leaf), frame(root, 2));
        let (frames, mut counts) = stacks.take();
        assert_eq!(frames.len(), 2);
        counts.sort_by_key(|counted| counted.label);
        let of = |label, count| Counted { node: leaf, label: LabelIndex(label), event: 0, count };
        assert_eq!(counts, [of(1, 3), of(2, 1)]);
        assert_eq!(stacks.take(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn many_processes_take_no_more_memory_than_one() {
        let mut stacks = Stacks::default();
        for chain in 0..300_000_u64 {
            let node = stacks.node(Frame { parent: Stacks::ROOT, image: ImageIndex(1), offset: chain % 100 });
            stacks.first(chain, node, LabelIndex(0), 0);
        }
        assert!(stacks.bytes() < 8 << 20, "{}", stacks.bytes());
        let (frames, counts) = stacks.take();
        assert_eq!((frames.len(), counts.len()), (100, 100));
        assert!(counts.iter().all(|counted| counted.count == 3000));
        assert!(stacks.bytes() < 2 << 20, "{}", stacks.bytes());
    }
}
