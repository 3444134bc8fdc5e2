//! Who ran, each with a number.

use profile::continuous::Label;
use std::collections::HashMap;

/// Number of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelIndex(pub u32);

/// All labels seen so far.
#[derive(Debug, Default)]
pub struct Labels {
    list: Vec<Label>,
    known: HashMap<Label, LabelIndex>,
}

impl Labels {
    /// The number of a label.
    pub fn intern(&mut self, label: Label) -> LabelIndex {
        if let Some(&index) = self.known.get(&label) {
            return index;
        }
        let index = LabelIndex(self.list.len() as u32);
        self.list.push(label.clone());
        self.known.insert(label, index);
        index
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// What a number stands for.
    pub fn get(&self, index: LabelIndex) -> &Label {
        &self.list[index.0 as usize]
    }
}
