//! Who ran, each with a number.

use crate::slots::{Marks, Slots};
use archive::Label;
use std::collections::HashMap;

/// Number of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelIndex(pub u32);

/// All labels in use.
#[derive(Debug, Default)]
pub struct Labels {
    slots: Slots<Label>,
    known: HashMap<Label, LabelIndex>,
}

impl Labels {
    /// The number of a label.
    pub fn intern(&mut self, label: Label) -> LabelIndex {
        if let Some(&index) = self.known.get(&label) {
            return index;
        }
        let index = LabelIndex(self.slots.add(label.clone()));
        self.known.insert(label, index);
        index
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// What a number stands for.
    pub fn get(&self, index: LabelIndex) -> &Label {
        self.slots.get(index.0)
    }

    /// Marks for [`keep`](Self::keep).
    pub fn marks(&self) -> Marks {
        self.slots.marks()
    }

    /// Forgets all that have no mark.
    pub fn keep(&mut self, marks: &Marks) {
        self.known.retain(|_, index| marks.has(index.0));
        self.known.shrink_to(2 * self.known.len());
        self.slots.keep(marks);
    }
}
