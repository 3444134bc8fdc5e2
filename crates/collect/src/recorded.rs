//! Records of a file, followed like those that the kernel writes now.

use crate::follower::Follower;
use crate::labels::LabelIndex;
use crate::legend::Legend;
use crate::stacks::Frame;
use kernel::stream::{Record, Sample};
use std::collections::HashMap;
use wire::Nanos;

/// What has been read of a file so far.
#[derive(Debug)]
pub struct Recorded {
    follower: Follower,
    /// Second and event of samples; the follower takes their places in this list for events.
    kinds: Vec<(u64, u32)>,
    known: HashMap<(u64, u32), u32>,
}

/// The samples of a file, and what their numbers stand for.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Frames, callers before those they call. Their images are those of `legend`.
    pub frames: Vec<Frame>,
    /// How many samples.
    pub counts: Vec<Seen>,
    /// Images, labels, and the names that can only be known now.
    pub legend: Legend,
}

/// Samples that are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Second of the file's clock.
    pub second: u64,
    /// What was sampled.
    pub event: u32,
    /// The process that was sampled, by its place in [`Legend::labels`].
    pub label: LabelIndex,
    /// The place of the sampled instruction in [`Recording::frames`].
    pub node: u32,
    /// How many there are.
    pub count: u32,
}

impl Recorded {
    /// Nothing has been read. `same_kernel`: the kernel that wrote the records may be the one that runs here, so that it tells names;
    /// `same_machine`: the lists of generated code that processes have left here are of those in the records.
    #[must_use]
    pub fn new(same_kernel: bool, same_machine: bool) -> Self {
        let follower = Follower::recorded(same_kernel, same_machine);
        Self { follower, kinds: Vec::new(), known: HashMap::new() }
    }

    /// A record that is no sample. Records must come in the order of their times.
    pub fn take(&mut self, record: Record<'_>) {
        self.follower.take(record);
    }

    /// A sample of an event.
    pub fn sample(&mut self, time: Nanos, event: u32, sample: &Sample<'_>) {
        let kind = (time.0 / 1_000_000_000, event);
        let next = self.kinds.len() as u32;
        let number = *self.known.entry(kind).or_insert(next);
        if number == next {
            self.kinds.push(kind);
        }
        self.follower.sample(0, time, sample, number);
    }

    /// Everything that was counted.
    #[must_use]
    pub fn counted(mut self) -> Recording {
        let (frames, counts, legend) = self.follower.counted(Nanos::ZERO);
        let seen = |counted: crate::stacks::Counted| {
            let (second, event) = self.kinds[counted.event as usize];
            Seen { second, event, label: counted.label, node: counted.node, count: counted.count }
        };
        Recording { frames, counts: counts.into_iter().map(seen).collect(), legend }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::maps::FileId;
    use wire::Address;

    #[test]
    fn only_records_say_what_there_was() {
        let mut recorded = Recorded::new(false, false);
        // Ours: that we run now does not matter, nor what lies at these paths.
        let pid = std::process::id();
        let sample =
            |address| Sample { id: 0, address: Address(address), pid, tid: pid, callchain: &[], stack: None };
        let own = only_records_say_what_there_was as *const () as u64;
        recorded.sample(Nanos(7_000_000_000), 1, &sample(own));
        recorded.take(Record::Name { pid, tid: pid, executes: false, name: b"then" });
        let map = |start, path| Record::Map {
            pid,
            start: Address(start),
            length: 0x1000,
            offset: 0x3000,
            build_id: &[],
            file: FileId::default(),
            path,
        };
        recorded.take(map(0x1000, b"/proc/self/exe"));
        // A thread that was not seen to start ends: its process goes on.
        recorded.take(Record::Exit { pid, tid: pid + 1 });
        recorded.take(map(0x5000, b"/bin/sh"));
        for time in [7_000_000_001, 7_999_999_999, 8_000_000_000] {
            recorded.sample(Nanos(time), 1, &sample(0x1010));
        }
        recorded.sample(Nanos(8_000_000_000), 0, &sample(0x5020));
        let Recording { frames, mut counts, legend } = recorded.counted();
        counts.sort_by_key(|seen| (seen.second, seen.event, seen.node));
        let found: Vec<_> = counts
            .iter()
            .map(|seen| {
                let frame = frames[seen.node as usize];
                let image = &legend.images[frame.image.0 as usize];
                assert_eq!(image.build_id, "");
                let process = legend.labels[seen.label.0 as usize].process.as_str();
                (seen.second, seen.event, process, image.path.as_str(), frame.offset, seen.count)
            })
            .collect();
        assert_eq!(
            found,
            [
                (7, 1, "", "[unknown]", 0, 1),
                (7, 1, "then", "/proc/self/exe", 0x3010, 2),
                (8, 0, "then", "/bin/sh", 0x3020, 1),
                (8, 1, "then", "/proc/self/exe", 0x3010, 1),
            ]
        );
        assert!(legend.named.is_empty());
    }
}
