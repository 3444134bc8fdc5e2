//! Samples one by one, for trying tables on them.

use crate::images::ImageIndex;
use wire::Address;

/// A sample, as a table might see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// CPU that took it.
    pub cpu: u32,
    /// The process,
    pub pid: u32,
    /// and the address in it.
    pub address: Address,
    /// The image,
    pub image: ImageIndex,
    /// and the position in it.
    pub offset: u64,
    /// Hash of address space, label, event and callchain.
    pub chain: u64,
    /// The node of its stack, which is the same for all processes, until the next cut.
    pub node: u32,
}
