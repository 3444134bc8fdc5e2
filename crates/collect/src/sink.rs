//! Samples one by one, for those who want more than counts of equal stacks.

use crate::images::ImageIndex;
use wire::Address;

/// Gets each sample of code that ran, when it has been counted.
pub trait SampleSink: std::fmt::Debug + Send {
    /// Called in the order in which the samples are read.
    fn take(&mut self, sample: &SampleSeen<'_>);
}

/// A sample, and what became of it.
#[derive(Clone, Copy, Debug)]
pub struct SampleSeen<'a> {
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
    /// The node of its stack, which is the same for all processes, until the counts are taken.
    pub node: u32,
    /// Its callchain, or its address alone.
    pub callchain: &'a [u64],
}
