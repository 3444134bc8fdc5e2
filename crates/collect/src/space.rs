//! What a process has mapped.

use crate::images::{ImageIndex, Images};
use wire::Address;

/// Code in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: Address,
    /// The first address after it.
    pub end: Address,
    /// What is mapped.
    pub image: ImageIndex,
    /// The position in the image that lies at `start`.
    pub offset: u64,
}

/// The code of a process. Processes that were forked from one another have the same one until one of them changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Another number for every content.
    pub id: u64,
    /// In the order of their addresses; none overlap.
    mappings: Vec<Mapping>,
    /// How many there were when all of them were read.
    looked_at: usize,
}

/// Mappings of code that a process may have: no program is known that has a tenth of them.
const MOST: usize = 8192;
/// Mappings that a process may have before it is looked at again.
const SOME: usize = 1024;

impl Space {
    /// Nothing is mapped.
    pub fn new(id: u64) -> Self {
        Self { id, mappings: Vec::new(), looked_at: 0 }
    }

    /// Of a process that has mapped too much: all of it is one thing.
    pub fn given_up(id: u64) -> Self {
        let (start, end, image) = (Address(0), Address(u64::MAX), Images::TOO_MUCH);
        Self { id, mappings: vec![Mapping { start, end, image, offset: 0 }], looked_at: 1 }
    }

    /// Whether it is that of a process that has mapped too much.
    pub fn is_given_up(&self) -> bool {
        self.mappings.first().is_some_and(|mapping| mapping.image == Images::TOO_MUCH)
    }

    /// Maps something, in the place of what was there.
    pub fn insert(&mut self, new: Mapping) {
        if new.start >= new.end || self.is_given_up() {
            return;
        }
        let first = self.mappings.partition_point(|old| old.end <= new.start);
        let last = self.mappings.partition_point(|old| old.start < new.end);
        let mut pieces = [None; 3];
        if let Some(before) = self.mappings[first..last].first().filter(|old| old.start < new.start) {
            pieces[0] = Some(Mapping { end: new.start, ..*before });
        }
        pieces[1] = Some(new);
        if let Some(after) = self.mappings[first..last].last().filter(|old| old.end > new.end) {
            let offset = after.offset.wrapping_add(new.end.0 - after.start.0);
            pieces[2] = Some(Mapping { start: new.end, offset, ..*after });
        }
        self.mappings.splice(first..last, pieces.into_iter().flatten());
    }

    /// What lies at `address`, and at which position of it.
    #[cfg(test)]
    pub fn find(&self, address: Address) -> Option<(ImageIndex, u64)> {
        self.mapping(address).map(|(mapping, offset)| (mapping.image, offset))
    }

    /// What lies at `address`, and at which position of its image.
    pub fn mapping(&self, address: Address) -> Option<(&Mapping, u64)> {
        let place = self.mappings.partition_point(|mapping| mapping.end <= address);
        let mapping = self.mappings.get(place).filter(|mapping| mapping.start <= address)?;
        // A damaged recording may say anything of where a mapping begins.
        Some((mapping, mapping.offset.wrapping_add(address.0 - mapping.start.0)))
    }

    /// The images that are mapped.
    pub fn images(&self) -> impl Iterator<Item = ImageIndex> {
        self.mappings.iter().map(|mapping| mapping.image)
    }

    /// What is mapped.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Memory that it takes without its images, about, in bytes.
    pub fn bytes(&self) -> usize {
        self.mappings.len() * size_of::<Mapping>()
    }

    /// Whether there is more than is followed.
    pub fn is_too_much(&self) -> bool {
        self.mappings.len() > MOST
    }

    /// Whether there is much more than when it was last looked at as a whole: the kernel does not report what is unmapped.
    pub fn is_overgrown(&self) -> bool {
        self.mappings.len() > 2 * self.looked_at + SOME
    }

    /// It has been looked at as a whole.
    pub fn is_complete(&mut self) {
        self.looked_at = self.mappings.len();
    }

    /// Whether exactly this is mapped already.
    pub fn has(&self, mapping: &Mapping) -> bool {
        let place = self.mappings.partition_point(|old| old.end <= mapping.start);
        self.mappings.get(place) == Some(mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, image: u32) -> Mapping {
        Mapping { start: Address(start), end: Address(end), image: ImageIndex(image), offset: start * 10 }
    }

    #[test]
    fn what_is_mapped_last_is_what_lies_there() {
        // Against an array of what lies at each address.
        let random = &mut fastrand::Rng::with_seed(11);
        let mut space = Space::new(0);
        let mut plain = [None; 64];
        for image in 0..4000 {
            let start = random.u64(0..64);
            let new = mapping(start, random.u64(start..=64), image);
            space.insert(new);
            for address in new.start.0..new.end.0 {
                plain[address as usize] = Some((new.image, new.offset + (address - new.start.0)));
            }
            for address in 0..64 {
                assert_eq!(space.find(Address(address)), plain[address as usize], "{address} in {space:?}");
            }
            assert!(new.start == new.end || space.has(&new));
        }
        assert_eq!(space.find(Address(64)), None);
    }

    #[test]
    fn offsets_of_damaged_files_do_not_overflow() {
        let (start, end) = (Address(0x1000), Address(u64::MAX));
        let mut space = Space::new(0);
        space.insert(Mapping { start, end, image: ImageIndex(7), offset: u64::MAX });
        assert_eq!(space.find(Address(0x1010)), Some((ImageIndex(7), 0xf)));
        assert_eq!(space.find(Address(0xfff)), None);
        space.insert(Mapping {
            start: Address(0x2000),
            end: Address(0x3000),
            image: ImageIndex(8),
            offset: 0,
        });
        assert_eq!(space.find(Address(0x3001)), Some((ImageIndex(7), 0x2000)));
    }

    #[test]
    fn what_is_never_unmapped_is_noticed() {
        let mut space = Space::new(0);
        let add = |space: &mut Space, numbers: std::ops::Range<u64>| {
            numbers.for_each(|at| space.insert(mapping(2 * at, 2 * at + 1, 1)));
        };
        add(&mut space, 0..SOME as u64);
        assert!(!space.is_overgrown());
        add(&mut space, 0..SOME as u64 + 1);
        assert!(space.is_overgrown());
        space.is_complete();
        assert!(!space.is_overgrown(), "it is as large as that");
    }
}
