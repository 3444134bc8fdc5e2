//! Frames: the stacks of one segment or of a whole query, each frame once.

use super::Node;

/// Frames in columns; a parent has a lower index than its children, and no two are alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    pub(super) parents: Vec<u32>,
    pub(super) images: Vec<i32>,
    pub(super) offsets: Vec<u64>,
    /// Open addressing: indices of frames, or [`Node::NONE`]; the length is a power of two.
    slots: Vec<u32>,
}

impl Frames {
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The index of a frame, which is added if it is new.
    pub(super) fn intern(&mut self, parent: u32, image: i32, offset: u64) -> u32 {
        if (self.len() + 1) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let slot = self.slot(parent, image, offset);
        if self.slots[slot] == Node::NONE {
            self.slots[slot] = self.len() as u32;
            self.parents.push(parent);
            self.images.push(image);
            self.offsets.push(offset);
        }
        self.slots[slot]
    }

    /// Forgets the frames from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.parents.truncate(length);
        self.images.truncate(length);
        self.offsets.truncate(length);
        self.index(self.slots.len());
    }

    /// The slot of a frame: where it is, or where it belongs.
    fn slot(&self, parent: u32, image: i32, offset: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = mixed(parent, image, offset) as usize & mask;
        loop {
            let at = self.slots[slot] as usize;
            if at == Node::NONE as usize
                || (self.offsets[at] == offset && self.parents[at] == parent && self.images[at] == image)
            {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        self.index((self.slots.len() * 2).max(64));
    }

    fn index(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, Node::NONE);
        for at in 0..self.len() {
            let slot = self.slot(self.parents[at], self.images[at], self.offsets[at]);
            self.slots[slot] = at as u32;
        }
    }
}

/// Scatters a frame over all 64 bits.
fn mixed(parent: u32, image: i32, offset: u64) -> u64 {
    let caller = (u64::from(parent) << 32) | u64::from(image as u32);
    let product = u128::from(caller ^ 0x9e37_79b9_7f4a_7c15) * u128::from(offset ^ 0xd6e8_feb8_6659_fd93);
    let folded = (product >> 64) as u64 ^ product as u64;
    // Either factor may have been zero or a small power of two.
    (folded ^ caller.rotate_left(17) ^ offset).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 20
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
    }
}
