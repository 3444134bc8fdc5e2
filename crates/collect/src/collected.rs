//! What was counted between two moments.

use crate::legend::Legend;
use crate::meter::Tally;
use crate::particulars::Lapses;
use crate::python::Interpreted;
use crate::stacks::{Counted, Frame};
use crate::unwinding::Unwound;
use archive::UnixSeconds;
use kernel::stream::Source;
use storage::Nanos;

/// Everything between two moments; no sample is in two of them, and none between them.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// When it began.
    pub start: UnixSeconds,
    /// How long it took.
    pub length: Nanos,
    /// Frames, parents before their children. Their images, and the labels of what was counted, are those of `legend`.
    pub(crate) frames: Vec<Frame>,
    pub(crate) counts: Vec<Counted>,
    pub(crate) legend: Legend,
    /// The events of what was counted.
    pub(crate) events: Vec<Source>,
    /// What became of the samples, event by event.
    pub books: Vec<Tally>,
    /// CPU time the collector used.
    pub own_cpu: Nanos,
    /// CPU time the kernel used for taking samples, as far as that is known.
    pub kernel_cpu: Nanos,
    /// How stacks ended.
    pub unwound: Unwound,
    /// What was left out of labels.
    pub lapses: Lapses,
    /// What became of those of processes that run Python.
    pub interpreted: Interpreted,
    /// Memory that the collector had resident, in bytes.
    pub resident: u64,
    /// CPUs that were sampled.
    pub cpus: u32,
}

impl Collected {
    /// Samples that are stored, and different stacks among them.
    pub fn size(&self) -> (u64, usize) {
        (self.counts.iter().map(|counted| u64::from(counted.count)).sum(), self.counts.len())
    }

    /// What became of the samples of each event, by its name.
    pub fn books_by_event(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        self.events.iter().map(|event| event.name()).zip(&self.books)
    }

    /// Samples of processes of this name.
    pub fn samples_of(&self, process: &str) -> u64 {
        let of = |counted: &&Counted| self.legend.labels[counted.label.0 as usize].process == process;
        self.counts.iter().filter(of).map(|counted| u64::from(counted.count)).sum()
    }

    /// Forgets the samples, which count as lost from now on. Returns how many they were.
    pub fn give_up(&mut self) -> u64 {
        self.frames = Vec::new();
        self.counts = Vec::new();
        self.legend = Legend::default();
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
        size_of_val(&*self.frames) + size_of_val(&*self.counts) + self.legend.bytes()
    }

    /// Makes one of this and the one before it. Neither has samples any more: they count as lost.
    pub fn follow(&mut self, mut before: Collected) {
        before.give_up();
        self.give_up();
        self.start = before.start;
        self.length = Nanos::new(self.length.get() + before.length.get());
        self.books.iter_mut().zip(before.books).for_each(|(books, before)| books.add(before));
        self.own_cpu = Nanos::new(self.own_cpu.get() + before.own_cpu.get());
        self.kernel_cpu = Nanos::new(self.kernel_cpu.get() + before.kernel_cpu.get());
    }
}
