//! The images that samples fall into, each with a number.

use crate::hash::{Hashed, hash, mix};
use crate::slots::{Marks, Slots};
use archive::{CodeImage, ImageKind};
use std::collections::HashMap;

/// Number of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageIndex(pub u32);

/// All images that a process has mapped, or that samples are in.
#[derive(Debug)]
pub struct Images {
    slots: Slots<CodeImage>,
    /// By hash of everything that makes them different.
    known: HashMap<u64, ImageIndex, Hashed>,
}

impl Images {
    /// Nothing runs.
    pub const IDLE: ImageIndex = ImageIndex(0);
    /// It is unknown what lies there.
    pub const UNKNOWN: ImageIndex = ImageIndex(1);
    /// The kernel without its modules.
    pub const KERNEL: ImageIndex = ImageIndex(2);
    /// Memory of no file.
    pub const MEMORY: ImageIndex = ImageIndex(3);

    /// With those that there always are.
    pub fn new(kernel_build_id: &[u8]) -> Self {
        let mut images = Self { slots: Slots::default(), known: HashMap::default() };
        for (kind, name, build_id) in [
            (ImageKind::Idle, "[idle]", &[][..]),
            (ImageKind::Unknown, "[unknown]", &[]),
            (ImageKind::Kernel, "[kernel]", kernel_build_id),
            (ImageKind::Memory, "[anonymous]", &[]),
        ] {
            images.intern(kind, name.as_bytes(), build_id);
        }
        images
    }

    /// The kernel has this build ID, as is known by now.
    pub fn set_kernel(&mut self, build_id: &[u8]) {
        self.slots.get_mut(Self::KERNEL.0).build_id = hex(build_id);
    }

    /// The number of an image.
    pub fn intern(&mut self, kind: ImageKind, path: &[u8], build_id: &[u8]) -> ImageIndex {
        let bytes = |seed, bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks::<8>();
            let hashed = words.iter().fold(seed, |seed, word| mix(seed, u64::from_le_bytes(*word)));
            rest.iter().fold(mix(hashed, bytes.len() as u64), |seed, &byte| mix(seed, byte.into()))
        };
        let key = bytes(bytes(hash(kind as u64, &[]), path), build_id);
        if let Some(&index) = self.known.get(&key) {
            return index;
        }
        let index = ImageIndex(self.slots.add(CodeImage {
            path: String::from_utf8_lossy(path).into_owned(),
            build_id: hex(build_id),
            kind,
        }));
        self.known.insert(key, index);
        index
    }

    /// What a number stands for.
    pub fn get(&self, index: ImageIndex) -> &CodeImage {
        self.slots.get(index.0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Marks for [`keep`](Self::keep): those that there always are have theirs.
    pub fn marks(&self) -> Marks {
        let mut marks = self.slots.marks();
        [Self::IDLE, Self::UNKNOWN, Self::KERNEL, Self::MEMORY].iter().for_each(|image| marks.set(image.0));
        marks
    }

    /// Forgets all that have no mark.
    pub fn keep(&mut self, marks: &Marks) {
        self.known.retain(|_, index| marks.has(index.0));
        self.known.shrink_to(2 * self.known.len());
        self.slots.keep(marks);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_keeps_its_number() {
        let mut images = Images::new(&[1, 2]);
        assert_eq!(images.get(Images::KERNEL).build_id, "0102");
        assert_eq!(images.get(Images::MEMORY).kind, ImageKind::Memory);
        let one = images.intern(ImageKind::File, b"/bin/true", &[0xab]);
        let other = images.intern(ImageKind::File, b"/bin/true", &[0xac]);
        assert_ne!(one, other);
        assert_eq!(images.intern(ImageKind::File, b"/bin/true", &[0xab]), one);
        assert_eq!((images.get(one).path.as_str(), images.get(one).build_id.as_str()), ("/bin/true", "ab"));
    }
}
