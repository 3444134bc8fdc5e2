//! What was counted between two moments.

use crate::meter::Tally;
use crate::stacks::{Counted, Frame};
use profile::Nanos;
use profile::continuous::UnixSeconds;

/// Everything between two moments; no sample is in two cuts, and none between them.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// When it began,
    pub start: UnixSeconds,
    /// and how long it took.
    pub length: Nanos,
    /// Frames, parents before their children.
    pub(crate) frames: Vec<Frame>,
    pub(crate) counts: Vec<Counted>,
    /// What became of the samples, event by event.
    pub books: Vec<EventBooks>,
    /// CPU time the collector used.
    pub own_cpu: Nanos,
    /// CPU time the kernel used for taking samples, as far as that is known.
    pub kernel_cpu: Nanos,
    /// Memory that the collector had resident, in bytes.
    pub resident: u64,
    /// CPUs that were sampled.
    pub cpus: u32,
}

/// Of one event.
pub type EventBooks = Tally;

impl Cut {
    /// Samples that are stored, and different stacks among them.
    pub fn size(&self) -> (u64, usize) {
        (self.counts.iter().map(|counted| u64::from(counted.count)).sum(), self.counts.len())
    }

    /// Forgets the samples, which count as lost from now on. Returns how many they were.
    pub fn give_up(&mut self) -> u64 {
        self.frames = Vec::new();
        self.counts = Vec::new();
        let mut sum = 0;
        for books in &mut self.books {
            sum += books.stored + books.unknown;
            books.no_room += books.stored + books.unknown;
            (books.stored, books.unknown, books.idle) = (0, 0, 0);
        }
        sum
    }

    /// Memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.frames.len() * size_of::<Frame>() + self.counts.len() * size_of::<Counted>()
    }
}
