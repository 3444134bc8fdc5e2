//! Records, taken one after the other: processes are followed, and samples counted.

use super::callchain::frames;
use super::generated::Generated;
use super::process::{Mapping, Process};
use super::{Content, Frame, Seen};
use crate::continuous::kallsyms::Kallsyms;
use archive::{CodeImage, ImageKind, Label, Node, Offset, Symbol};
use linux_perf_data::linux_perf_event_reader::{CpuMode, EventRecord, Mmap2FileId, RawData};
use linux_perf_data::{DsoInfo, DsoKey};
use std::collections::{HashMap, HashSet};

/// The idle process, which runs when no other does.
const IDLE: i32 = 0;
/// The kernel's map begins no further behind `_text`.
const FAR: u64 = 2 << 20;
/// Maps of the kernel are recorded as those of this process.
const KERNEL: i32 = -1;
/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;

/// What has been read so far.
#[derive(Default)]
pub struct Reader {
    pub content: Content,
    build_ids: HashMap<DsoKey, DsoInfo>,
    kallsyms: Option<Kallsyms>,
    /// Names of generated code, if it was generated here.
    generated: Option<Generated>,
    named: HashSet<(u32, Offset)>,
    processes: HashMap<i32, Process>,
    images: HashMap<CodeImage, u32>,
    labels: HashMap<Label, u32>,
    nodes: HashMap<Frame, u32>,
}

impl Reader {
    /// Nothing has been read; names are looked up in these as far as they are of the machine that was recorded.
    pub fn new(
        content: Content,
        build_ids: HashMap<DsoKey, DsoInfo>,
        kallsyms: Option<Kallsyms>,
        generated: Option<Generated>,
    ) -> Reader {
        Reader { content, build_ids, kallsyms, generated, ..Reader::default() }
    }

    /// Takes a record, in the order of time.
    pub fn take(&mut self, event: usize, record: EventRecord<'_>) {
        let text = |data: RawData<'_>| String::from_utf8_lossy(&data.as_slice()).into_owned();
        match record {
            EventRecord::Comm(comm) => {
                let process = self.processes.entry(comm.pid).or_default();
                if comm.is_execve {
                    process.maps.clear();
                }
                if comm.pid == comm.tid {
                    process.name = text(comm.name);
                }
            }
            EventRecord::Fork(fork) if fork.pid != fork.ppid => {
                let child = self.processes.get(&fork.ppid).cloned().unwrap_or_default();
                self.processes.insert(fork.pid, child);
            }
            EventRecord::Mmap(map) if map.is_executable || map.pid == KERNEL => {
                let mapping = (map.address, map.length, map.page_offset);
                self.map(map.pid, mapping, &text(map.path), None, map.cpu_mode);
            }
            EventRecord::Mmap2(map) if map.protection & EXECUTABLE != 0 || map.pid == KERNEL => {
                let build_id = match map.file_id {
                    Mmap2FileId::BuildId(build_id) => Some(build_id),
                    Mmap2FileId::InodeAndVersion(_) => None,
                };
                let mapping = (map.address, map.length, map.page_offset);
                self.map(map.pid, mapping, &text(map.path), build_id, map.cpu_mode);
            }
            EventRecord::Lost(lost) => {
                // The record does not say of which event.
                if let Some(event) = self.content.events.first_mut() {
                    event.lost = event.lost.saturating_add(lost.count);
                }
            }
            EventRecord::Sample(sample) => {
                let chain =
                    sample.callchain.map(|chain| (0..chain.len()).filter_map(|nth| chain.get(nth)).collect());
                let chain: Vec<u64> = chain.unwrap_or_default();
                self.content.has_stacks |= !chain.is_empty();
                let ip = sample.ip.unwrap_or(0);
                let frames = frames(&chain, ip, sample.cpu_mode == CpuMode::Kernel);
                self.sample(event, sample.pid.unwrap_or(0), sample.timestamp.unwrap_or(0), &frames);
            }
            _ => {}
        }
    }

    fn map(
        &mut self,
        pid: i32,
        (start, length, offset): (u64, u64, u64),
        path: &str,
        build_id: Option<Vec<u8>>,
        mode: CpuMode,
    ) {
        let listed = || {
            let key = DsoKey::detect(path.as_bytes(), mode)?;
            self.build_ids.get(&key).map(|known| known.build_id.clone())
        };
        let build_id = hex(&build_id.or_else(listed).unwrap_or_default());
        let (image, start, offset) = if pid == KERNEL || mode == CpuMode::Kernel {
            match path.starts_with("[kernel") {
                // The names of this machine's kernel say best where it begins, if it was not booted to another place since.
                true => {
                    let is_here = |names: &Kallsyms| {
                        names.text().is_some_and(|text| (text..text + FAR).contains(&start))
                    };
                    self.kallsyms = self.kallsyms.take().filter(is_here);
                    let text = self.kallsyms.as_ref().and_then(Kallsyms::text);
                    let begin = text.unwrap_or(start);
                    (
                        CodeImage { path: "[kernel]".to_owned(), build_id, kind: ImageKind::Kernel },
                        start,
                        start - begin,
                    )
                }
                false => (CodeImage { path: path.to_owned(), build_id, kind: ImageKind::Kernel }, start, 0),
            }
        } else if path.starts_with('/') && !collect::is_memory(path.as_bytes()) {
            (CodeImage { path: path.to_owned(), build_id, kind: ImageKind::File }, start, offset)
        } else {
            let path = if path.starts_with('[') { path } else { "[anonymous]" };
            (CodeImage { path: path.to_owned(), build_id: String::new(), kind: ImageKind::Memory }, start, 0)
        };
        let image = self.image(image);
        let end = start.saturating_add(length);
        self.processes.entry(pid).or_default().maps.push(Mapping { start, end, offset, image });
    }

    /// Counts a sample; frames are innermost first.
    fn sample(&mut self, event: usize, pid: i32, time: u64, frames: &[(u64, bool)]) {
        self.content.first = self.content.first.min(time);
        self.content.last = self.content.last.max(time);
        let name = self.processes.get(&pid).map(|process| process.name.clone()).unwrap_or_default();
        let mut parent = Node::NONE;
        if pid == IDLE {
            let idle =
                CodeImage { path: "[idle]".to_owned(), build_id: String::new(), kind: ImageKind::Idle };
            let image = self.image(idle);
            parent = self.node(Frame { parent, image, offset: Offset(0) });
        } else {
            for (address, is_kernel) in frames.iter().rev() {
                let of = if *is_kernel { KERNEL } else { pid };
                let position = self.processes.get(&of).and_then(|process| process.position(*address));
                let position = self.made(of, *address, position).or(position);
                let (image, offset) = position.unwrap_or_else(|| {
                    let path = if *is_kernel { "[kernel]" } else { "[unknown]" };
                    let kind = if *is_kernel { ImageKind::Kernel } else { ImageKind::Unknown };
                    let image = CodeImage { path: path.to_owned(), build_id: String::new(), kind };
                    (self.image(image), Offset(0))
                });
                let before = self.nodes.len();
                parent = self.node(Frame { parent, image, offset });
                if *is_kernel && self.nodes.len() > before {
                    self.name(image, offset, *address);
                }
            }
        }
        let label = Label { process: name, cgroup: String::new() };
        let next = self.labels.len() as u32;
        let number = *self.labels.entry(label.clone()).or_insert(next);
        if number == next {
            self.content.labels.push(label);
        }
        let Some(of) = self.content.events.get_mut(event) else { return };
        of.samples += 1;
        let seen = Seen { second: time / 1_000_000_000, label: number, event: event as u32, node: parent };
        *self.content.counts.entry(seen).or_default() += 1;
    }

    /// A function that a program has made, where `found` is no file.
    fn made(&mut self, pid: i32, address: u64, found: Option<(u32, Offset)>) -> Option<(u32, Offset)> {
        let is_file =
            found.is_some_and(|(image, _)| self.content.images[image as usize].kind != ImageKind::Memory);
        if pid == KERNEL || is_file {
            return None;
        }
        let function = self.generated.as_mut()?.function(pid, address)?;
        let program = self.processes.get(&pid).map_or("", |process| process.name.as_str());
        let path = format!("[generated by {program}]");
        let image = self.image(CodeImage { path, build_id: String::new(), kind: ImageKind::Generated });
        // As the collector has it: they are the same functions.
        let position = (image, Offset(collect::function_number(&function)));
        if self.named.insert(position) {
            let symbol = Symbol { function: function.into(), ..Symbol::default() };
            self.content.symbols.entry(image).or_default().push((position.1, vec![symbol]));
        }
        Some(position)
    }

    /// Names a position in the kernel.
    fn name(&mut self, image: u32, offset: Offset, address: u64) {
        let Some(function) = self.kallsyms.as_ref().and_then(|names| names.name(address)) else { return };
        let symbol = Symbol { function: function.into(), ..Symbol::default() };
        self.content.symbols.entry(image).or_default().push((offset, vec![symbol]));
    }

    fn image(&mut self, image: CodeImage) -> u32 {
        let next = self.images.len() as u32;
        let number = *self.images.entry(image.clone()).or_insert(next);
        if number == next {
            self.content.images.push(image);
        }
        number
    }

    fn node(&mut self, frame: Frame) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.nodes.entry(frame).or_insert(next);
        if number == next {
            self.content.nodes.push(frame);
        }
        number
    }
}

/// In hexadecimal digits, without the zeros that fill a shorter one up.
fn hex(build_id: &[u8]) -> String {
    let shortest =
        [8, 16].into_iter().find(|n| build_id.len() > *n && build_id[*n..].iter().all(|byte| *byte == 0));
    let bytes = &build_id[..shortest.unwrap_or(build_id.len())];
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_has_a_path_is_no_file() {
        for (path, kind) in [
            ("/usr/bin/cat", ImageKind::File),
            ("/dev/shm/code.so", ImageKind::File),
            ("//anon", ImageKind::Memory),
            ("/memfd:doublemapper (deleted)", ImageKind::Memory),
            ("/dev/zero (deleted)", ImageKind::Memory),
            ("/SYSV00000000 (deleted)", ImageKind::Memory),
            ("/anon_hugepage (deleted)", ImageKind::Memory),
            ("[vdso]", ImageKind::Memory),
        ] {
            let mut reader = Reader::default();
            reader.map(7, (0x1000, 0x1000, 0), path, None, CpuMode::User);
            let kinds: Vec<ImageKind> = reader.content.images.iter().map(|image| image.kind).collect();
            assert_eq!(kinds, [kind], "{path}");
        }
    }

    #[test]
    fn build_ids_that_were_filled_up_are_as_they_were() {
        assert_eq!(hex(&[0xab; 20]), "ab".repeat(20));
        let mut short = [0; 20];
        short[..16].fill(0xcd);
        assert_eq!(hex(&short), "cd".repeat(16));
        assert_eq!(hex(&[]), "");
    }
}
