//! Samples one by one, for trying tables on them.

use crate::images::ImageIndex;
use std::ops::Range;
use wire::Address;

/// Samples in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The samples themselves.
    pub samples: Vec<Traced>,
    /// The callchains of the samples.
    addresses: Vec<u64>,
}

/// A sample, as a table might see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// CPU that took it.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The address in the process.
    pub address: Address,
    /// The image.
    pub image: ImageIndex,
    /// The position in the image.
    pub offset: u64,
    /// Hash of address space, label and event.
    pub seed: u64,
    /// The node of its stack, which is the same for all processes, until the next cut.
    pub node: u32,
    /// Where its callchain is.
    pub(crate) callchain: Range<usize>,
}

impl Trace {
    /// The callchain of one of the samples, or its address alone.
    pub fn callchain(&self, sample: &Traced) -> &[u64] {
        &self.addresses[sample.callchain.clone()]
    }

    /// Adds a sample.
    pub(crate) fn push(&mut self, sample: Traced, callchain: &[u64]) {
        let begin = self.addresses.len();
        self.addresses.extend_from_slice(callchain);
        self.samples.push(Traced { callchain: begin..self.addresses.len(), ..sample });
    }
}
