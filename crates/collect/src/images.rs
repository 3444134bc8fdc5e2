//! The images that samples fall into, each with a number.

use crate::callchain::Cut;
use crate::hash::Hashed;
use crate::slots::{Marks, Slots};
use archive::{CodeImage, ImageKind};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use symbols::hex;

/// Number of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageIndex(pub u32);

/// All images that a process has mapped, or that samples are in.
#[derive(Debug)]
pub struct Images {
    slots: Slots<CodeImage>,
    /// By hash of everything that makes them different. Programs cannot choose it: it begins with a secret.
    known: HashMap<u64, ImageIndex, Hashed>,
    state: RandomState,
    /// Memory that they take, about, in bytes.
    bytes: usize,
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
    /// Code of a process that has mapped more than its user may have followed.
    pub const TOO_MUCH: ImageIndex = ImageIndex(4);
    /// The callers of code of a user whose stacks are too many.
    pub const TOO_MANY: ImageIndex = ImageIndex(5);
    /// The callers of a stack that is cut; see [`Cut`].
    pub const CUT_DEEP: ImageIndex = ImageIndex(6);
    pub const CUT_SHORT: ImageIndex = ImageIndex(7);
    pub const CUT_UNKNOWN: ImageIndex = ImageIndex(8);
    /// The kernel's pages in every process.
    pub const VDSO: ImageIndex = ImageIndex(9);
    /// All frames of a wait that has not ended; see [`Cut`].
    pub const NOT_ENDED: ImageIndex = ImageIndex(10);
    const ALWAYS: [ImageIndex; 11] = [
        Self::IDLE,
        Self::UNKNOWN,
        Self::KERNEL,
        Self::MEMORY,
        Self::TOO_MUCH,
        Self::TOO_MANY,
        Self::CUT_DEEP,
        Self::CUT_SHORT,
        Self::CUT_UNKNOWN,
        Self::VDSO,
        Self::NOT_ENDED,
    ];

    /// With those that there always are.
    pub fn new(kernel_build_id: &[u8]) -> Self {
        let (slots, known, state) = (Slots::default(), HashMap::default(), RandomState::new());
        let mut images = Self { slots, known, state, bytes: 0 };
        for (kind, name, build_id) in [
            (ImageKind::Idle, "[idle]", &[][..]),
            (ImageKind::Unknown, "[unknown]", &[]),
            (ImageKind::Kernel, "[kernel]", kernel_build_id),
            (ImageKind::Memory, "[anonymous]", &[]),
            (ImageKind::Unknown, archive::TOO_MUCH_MAPPED, &[]),
            (ImageKind::Memory, archive::TOO_MANY_STACKS, &[]),
            (ImageKind::Memory, archive::CUT_DEEP, &[]),
            (ImageKind::Memory, archive::CUT_SHORT, &[]),
            (ImageKind::Memory, archive::CUT_UNKNOWN, &[]),
            (ImageKind::Memory, "[vdso]", &[]),
            (ImageKind::Memory, archive::NOT_ENDED, &[]),
        ] {
            images.intern(kind, name.as_bytes(), build_id);
        }
        images
    }

    /// What stands for the callers that are missing.
    pub fn cut(cut: Cut) -> ImageIndex {
        match cut {
            Cut::Deep => Self::CUT_DEEP,
            Cut::Short => Self::CUT_SHORT,
            Cut::Unknown => Self::CUT_UNKNOWN,
            Cut::Waits => Self::NOT_ENDED,
        }
    }

    /// The kernel has this build ID, as is known by now.
    pub fn set_kernel(&mut self, build_id: &[u8]) {
        self.slots.get_mut(Self::KERNEL.0).build_id = hex(build_id);
    }

    /// The kernel's pages in every process have this build ID.
    pub fn set_vdso(&mut self, build_id: &[u8]) {
        self.slots.get_mut(Self::VDSO.0).build_id = hex(build_id);
    }

    /// The number of an image.
    pub fn intern(&mut self, kind: ImageKind, path: &[u8], build_id: &[u8]) -> ImageIndex {
        let path = String::from_utf8_lossy(path);
        let key = self.state.hash_one((kind as u64, &path, build_id));
        if let Some(&index) = self.known.get(&key) {
            return index;
        }
        let image = CodeImage { path: path.into_owned(), build_id: hex(build_id), kind };
        self.bytes += bytes(&image);
        let index = ImageIndex(self.slots.add(image));
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

    /// Memory that all of them take, about, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory that one of them takes, about, in bytes.
    pub fn bytes_of(&self, index: ImageIndex) -> usize {
        bytes(self.get(index))
    }

    /// Memory that those with a mark take, about, in bytes.
    pub fn bytes_with(&self, marks: &Marks) -> usize {
        self.slots.marked(marks).map(bytes).sum()
    }

    /// Marks for [`keep`](Self::keep): those that there always are have theirs.
    pub fn marks(&self) -> Marks {
        let mut marks = self.slots.marks();
        Self::ALWAYS.iter().for_each(|image| marks.set(image.0));
        marks
    }

    /// Forgets all that have no mark.
    pub fn keep(&mut self, marks: &Marks) {
        self.known.retain(|_, index| marks.has(index.0));
        self.known.shrink_to(2 * self.known.len());
        self.slots.keep(marks);
        self.bytes = self.slots.iter().map(bytes).sum();
    }
}

fn bytes(image: &CodeImage) -> usize {
    size_of::<CodeImage>() + image.path.len() + image.build_id.len() + 2 * size_of::<(u64, ImageIndex)>()
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
