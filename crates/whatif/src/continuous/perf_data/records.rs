//! The records of a perf.data file, as the kernel writes them into its rings, for the collector's follower: what they mean for processes is in
//! `collect::processes`.

use super::Content;
use collect::Recorded;
use kernel::maps::FileId;
use kernel::stream::{Record, Sample};
use linux_perf_data::linux_perf_event_reader::{CpuMode, EventRecord, Mmap2FileId, RawData, SampleRecord};
use linux_perf_data::{DsoInfo, DsoKey};
use std::collections::HashMap;
use wire::{Address, Nanos};

/// Maps of the kernel are recorded as those of this process.
const KERNEL: i32 = -1;
/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;

/// Hands records over.
pub struct Decoder {
    pub to: Recorded,
    /// Build IDs that the file lists by themselves.
    build_ids: HashMap<DsoKey, DsoInfo>,
    callchain: Vec<u64>,
}

impl Decoder {
    pub fn new(to: Recorded, build_ids: HashMap<DsoKey, DsoInfo>) -> Self {
        Self { to, build_ids, callchain: Vec::new() }
    }

    /// Takes a record, in the order of time; `content` gets what records tell about the file as a whole.
    pub fn take(&mut self, content: &mut Content, event: usize, record: EventRecord<'_>) {
        match record {
            EventRecord::Comm(comm) => {
                let (pid, tid, executes) = (comm.pid as u32, comm.tid as u32, comm.is_execve);
                self.to.take(Record::Name { pid, tid, executes, name: &comm.name.as_slice() });
            }
            EventRecord::Fork(fork) => {
                let threads = (fork.tid as u32, fork.ptid as u32);
                self.to.take(Record::Fork { pid: fork.pid as u32, parent: fork.ppid as u32, threads });
            }
            EventRecord::Exit(exit) => {
                self.to.take(Record::Exit { pid: exit.pid as u32, tid: exit.tid as u32 })
            }
            EventRecord::Mmap(map) if map.is_executable || map.pid == KERNEL => {
                let mapping = (map.address, map.length, map.page_offset);
                self.map(map.pid, mapping, map.path, None, map.cpu_mode);
            }
            EventRecord::Mmap2(map) if map.protection & EXECUTABLE != 0 || map.pid == KERNEL => {
                let build_id = match map.file_id {
                    Mmap2FileId::BuildId(build_id) => Some(build_id),
                    Mmap2FileId::InodeAndVersion(_) => None,
                };
                let mapping = (map.address, map.length, map.page_offset);
                self.map(map.pid, mapping, map.path, build_id, map.cpu_mode);
            }
            EventRecord::Lost(lost) => {
                // It is unknown of which event.
                if let Some(event) = content.events.first_mut() {
                    event.lost = event.lost.saturating_add(lost.count);
                }
            }
            EventRecord::Sample(sample) => self.sample(content, event, &sample),
            _ => {}
        }
    }

    fn map(
        &mut self,
        pid: i32,
        (start, length, offset): (u64, u64, u64),
        path: RawData<'_>,
        build_id: Option<Vec<u8>>,
        mode: CpuMode,
    ) {
        let path = &*path.as_slice();
        let listed = || {
            let key = DsoKey::detect(path, mode)?;
            self.build_ids.get(&key).map(|known| known.build_id.clone())
        };
        let build_id = build_id.or_else(listed).unwrap_or_default();
        self.to.take(Record::Map {
            pid: if mode == CpuMode::Kernel { u32::MAX } else { pid as u32 },
            start: Address(start),
            length,
            offset,
            build_id: without_filling(&build_id),
            file: FileId::default(),
            path,
        });
    }

    fn sample(&mut self, content: &mut Content, event: usize, sample: &SampleRecord<'_>) {
        let time = sample.timestamp.unwrap_or(0);
        content.first = content.first.min(time);
        content.last = content.last.max(time);
        let address = sample.ip.unwrap_or(0);
        let callchain =
            sample.callchain.iter().flat_map(|chain| (0..chain.len()).filter_map(|n| chain.get(n)));
        self.callchain.clear();
        self.callchain.push(if sample.cpu_mode == CpuMode::Kernel { Sample::KERNEL } else { Sample::USER });
        self.callchain.extend(callchain);
        content.has_stacks |= self.callchain.len() > 1;
        let Some(of) = content.events.get_mut(event) else { return };
        of.samples += 1;
        // As a rule it says itself whose code comes first.
        let is_marked = matches!(self.callchain.get(1), Some(&(Sample::KERNEL | Sample::USER)));
        let callchain = &self.callchain[usize::from(is_marked)..];
        let (pid, tid) = (sample.pid.unwrap_or(0) as u32, sample.tid.unwrap_or(0) as u32);
        let sample = Sample { id: 0, address: Address(address), pid, tid, callchain, stack: None };
        self.to.sample(Nanos(time), event as u32, &sample);
    }
}

/// A build ID without the zeros that fill a shorter one up.
fn without_filling(build_id: &[u8]) -> &[u8] {
    let shortest =
        [8, 16].into_iter().find(|n| build_id.len() > *n && build_id[*n..].iter().all(|byte| *byte == 0));
    &build_id[..shortest.unwrap_or(build_id.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_that_were_filled_up_are_as_they_were() {
        assert_eq!(without_filling(&[0xab; 20]), [0xab; 20]);
        let mut short = [0; 20];
        short[..16].fill(0xcd);
        assert_eq!(without_filling(&short), [0xcd; 16]);
        assert_eq!(without_filling(&[]), [0; 0]);
    }
}
