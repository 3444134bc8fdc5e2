//! Frames: the stacks of one segment or of a whole query, each frame once.

use super::{ImageId, Node, Offset, Position};

/// Frames in columns; a caller has a lower index than what it calls, and no two are alike.
///
/// Of the many frames of a long time few lie at different positions, so that positions are kept once: 8 bytes for a
/// frame, and some 6 to find it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    parents: Vec<u32>,
    positions: Vec<u32>,
    known: Positions,
    slots: Slots,
}

impl Frames {
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The index of the caller, or [`Node::NONE`].
    pub(super) fn parent(&self, at: usize) -> u32 {
        self.parents[at]
    }

    pub(super) fn image(&self, at: usize) -> i32 {
        self.known.images[self.positions[at] as usize]
    }

    pub(super) fn offset(&self, at: usize) -> u64 {
        self.known.offsets[self.positions[at] as usize]
    }

    /// The index of a frame, which is added if it is new.
    pub(super) fn intern(&mut self, parent: u32, image: i32, offset: u64) -> u32 {
        let position = self.known.intern(image, offset);
        let (parents, positions) = (&mut self.parents, &mut self.positions);
        let next = parents.len() as u32;
        let at = self.slots.find_or_add(
            next,
            |at| frame_hash(parents[at as usize], positions[at as usize]),
            frame_hash(parent, position),
            |at| parents[at as usize] == parent && positions[at as usize] == position,
        );
        if at == next {
            parents.push(parent);
            positions.push(position);
        }
        at
    }

    /// The index of a frame, if there is one.
    pub(super) fn find(&self, parent: u32, image: i32, offset: u64) -> Option<u32> {
        let position = self.known.find(image, offset)?;
        self.slots.find(frame_hash(parent, position), |at| {
            self.parents[at as usize] == parent && self.positions[at as usize] == position
        })
    }

    /// The callers, the positions as indices, and what they stand for.
    pub(super) fn into_columns(self) -> (Vec<u32>, Vec<u32>, Positions) {
        (self.parents, self.positions, self.known)
    }

    /// Forgets the frames from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.parents.truncate(length);
        self.positions.truncate(length);
        let (parents, positions) = (&self.parents, &self.positions);
        self.slots.fill(length as u32, |at| frame_hash(parents[at as usize], positions[at as usize]));
    }
}

/// Positions in images, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Positions {
    images: Vec<i32>,
    offsets: Vec<u64>,
    slots: Slots,
}

impl Positions {
    pub(super) fn len(&self) -> usize {
        self.images.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Position> + '_ {
        let images = self.images.iter().map(|&image| ImageId::new(i64::from(image)));
        images.zip(self.offsets.iter().map(|&offset| Offset(offset)))
    }

    /// The index of a position, if there is one.
    fn find(&self, image: i32, offset: u64) -> Option<u32> {
        self.slots.find(position_hash(image, offset), |at| {
            self.offsets[at as usize] == offset && self.images[at as usize] == image
        })
    }

    /// The index of a position, which is added if it is new.
    pub(super) fn intern(&mut self, image: i32, offset: u64) -> u32 {
        let (images, offsets) = (&mut self.images, &mut self.offsets);
        let next = images.len() as u32;
        let at = self.slots.find_or_add(
            next,
            |at| position_hash(images[at as usize], offsets[at as usize]),
            position_hash(image, offset),
            |at| offsets[at as usize] == offset && images[at as usize] == image,
        );
        if at == next {
            images.push(image);
            offsets.push(offset);
        }
        at
    }
}

/// A hash table of indices, with open addressing; [`Node::NONE`] marks what is free, and the length is a power of two.
#[derive(Clone, Debug, Default)]
struct Slots(Vec<u32>);

impl Slots {
    /// The index that `is_it`; `hash` is that of the one looked for.
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.0[self.slot(hash, is_it)]).filter(|at| *at != Node::NONE)
    }

    /// The slot of the index that `is_it`, or the free one where it would be; there is a free one.
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let mask = self.0.len() - 1;
        let mut slot = hash as usize & mask;
        while self.0[slot] != Node::NONE && !is_it(self.0[slot]) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// The index that `is_it`; or `next`, which is added. `hash_of` an index, and `hash` of the one looked for.
    fn find_or_add(
        &mut self,
        next: u32,
        hash_of: impl Fn(u32) -> u64,
        hash: u64,
        is_it: impl Fn(u32) -> bool,
    ) -> u32 {
        if (next as usize + 1) * 4 > self.0.len() * 3 {
            let length = (self.0.len() * 2).max(64);
            self.0.resize(length, Node::NONE);
            self.fill(next, hash_of);
        }
        let slot = self.slot(hash, is_it);
        if self.0[slot] == Node::NONE {
            self.0[slot] = next;
        }
        self.0[slot]
    }

    /// Holds the indices below `length`, and no others.
    fn fill(&mut self, length: u32, hash_of: impl Fn(u32) -> u64) {
        self.0.fill(Node::NONE);
        for at in 0..length {
            let slot = self.slot(hash_of(at), |_| false);
            self.0[slot] = at;
        }
    }
}

fn frame_hash(parent: u32, position: u32) -> u64 {
    mixed((u64::from(parent) << 32) | u64::from(position))
}

fn position_hash(image: i32, offset: u64) -> u64 {
    mixed(offset ^ u64::from(image as u32).rotate_left(40))
}

/// Scatters a number over all 64 bits.
fn mixed(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_frame_is_kept_once() {
        let mut frames = Frames::default();
        for round in 0..2 {
            for at in 0..1000_u32 {
                let parent = if at == 0 { Node::NONE } else { at / 2 };
                assert_eq!(frames.intern(parent, (at % 7) as i32, u64::from(at)), at, "round {round}");
            }
        }
        frames.truncate(10);
        assert_eq!(frames.len(), 10);
        assert_eq!(frames.intern(2, 5, 5), 5);
        assert_eq!(frames.intern(2, 5, 6), 10);
        assert_eq!(frames.find(2, 5, 6), Some(10));
        assert_eq!(
            (frames.find(2, 5, 7), frames.find(1, 5, 6), Frames::default().find(0, 1, 2)),
            (None, None, None)
        );
        assert_eq!((frames.parent(10), frames.image(10), frames.offset(10)), (2, 5, 6));
    }
}
