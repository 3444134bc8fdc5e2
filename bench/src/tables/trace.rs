//! Samples one by one, for trying tables on them.

use collect::{ImageIndex, SampleSeen, SampleSink};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

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
    pub address: u64,
    /// The image.
    pub image: ImageIndex,
    /// The position in the image.
    pub offset: u64,
    /// Hash of address space, label and event.
    pub seed: u64,
    /// The node of its stack, which is the same for all processes, until the counts are taken.
    pub node: u32,
    /// Where its callchain is.
    callchain: Range<usize>,
}

impl Trace {
    /// The callchain of one of the samples, or its address alone.
    pub fn callchain(&self, sample: &Traced) -> &[u64] {
        &self.addresses[sample.callchain.clone()]
    }

    fn push(&mut self, sample: &SampleSeen<'_>) {
        let begin = self.addresses.len();
        self.addresses.extend_from_slice(sample.callchain);
        let SampleSeen { cpu, pid, image, offset, seed, node, .. } = *sample;
        let address = sample.address.0;
        let callchain = begin..self.addresses.len();
        self.samples.push(Traced { cpu, pid, address, image, offset, seed, node, callchain });
    }
}

/// A trace that a collector fills.
#[derive(Clone, Debug, Default)]
pub struct Filling(Arc<Mutex<Trace>>);

impl Filling {
    /// What has come in since the last time.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SampleSink for Filling {
    fn take(&mut self, sample: &SampleSeen<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }
}
