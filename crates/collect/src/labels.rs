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
    /// Memory that they take, about, in bytes.
    bytes: usize,
}

impl Labels {
    /// The number of a label.
    pub fn intern(&mut self, label: Label) -> LabelIndex {
        if let Some(&index) = self.known.get(&label) {
            return index;
        }
        self.bytes += bytes(&label);
        let index = LabelIndex(self.slots.add(label.clone()));
        self.known.insert(label, index);
        index
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Memory that all of them take, about, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory that one of them takes, about, in bytes.
    pub fn bytes_of(&self, index: LabelIndex) -> usize {
        bytes(self.get(index))
    }

    /// What a number stands for.
    pub fn get(&self, index: LabelIndex) -> &Label {
        self.slots.get(index.0)
    }

    /// Memory that those with a mark take, about, in bytes.
    pub fn bytes_with(&self, marks: &Marks) -> usize {
        self.slots.marked(marks).map(bytes).sum()
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
        self.bytes = self.slots.iter().map(bytes).sum();
    }
}

/// It is kept twice.
fn bytes(label: &Label) -> usize {
    2 * (size_of::<Label>() + letters(label)) + 2 * size_of::<LabelIndex>()
}

/// Memory that its texts take, about, in bytes.
pub fn letters(label: &Label) -> usize {
    let Label { process, cgroup, thread, pid: _, command, user_labels } = label;
    let texts = [process, cgroup, thread, command].map(String::len).into_iter().sum::<usize>();
    let a_pair = 2 * size_of::<(String, String)>();
    texts + user_labels.iter().map(|(name, value)| a_pair + name.len() + value.len()).sum::<usize>()
}
