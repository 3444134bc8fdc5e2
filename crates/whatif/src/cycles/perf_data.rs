//! perf.data: what `perf record` writes, counted by stack.
//!
//! Processes are followed through their mmap, exec and fork records, so that each address is that of a file at its time. The
//! file has no names; those of the kernel are added if this is the machine and it still runs.

use super::kallsyms::Kallsyms;
use anyhow::{Context as _, Result};
use linux_perf_data::linux_perf_event_reader::{
    CpuMode, EventRecord, Mmap2FileId, RecordType, SamplingPolicy,
};
use linux_perf_data::{DsoInfo, DsoKey, PerfFileReader, PerfFileRecord};
use profile::continuous::{CodeImage, ImageId, ImageKind, Label, Node, Offset, Symbol};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek};

/// Stacks are not deeper, whatever a file says.
const DEEPEST: usize = 1024;
/// Values of a callchain from here on are no addresses but say whose addresses follow (perf_event.h).
const CONTEXT: u64 = -4095_i64 as u64;
const OF_THE_KERNEL: u64 = -128_i64 as u64;
const OF_THE_USER: u64 = -512_i64 as u64;
/// In `misc` of an mmap record: there is a build ID.
const WITH_BUILD_ID: u16 = 1 << 14;
/// Where the length of that stands,
const LENGTH_OF_BUILD_ID: usize = 32;
/// and how long it can be.
const LONGEST_BUILD_ID: u8 = 20;
/// The process that runs when nobody does.
const IDLE: i32 = 0;
/// The kernel's map begins no further behind `_text`.
const FAR: u64 = 2 << 20;
/// Maps of the kernel are recorded as those of this process.
const KERNEL: i32 = -1;

/// A file's content.
#[derive(Debug, Default)]
pub struct Content {
    /// Name,
    pub host: String,
    /// kernel
    pub kernel: String,
    /// and CPUs of the machine.
    pub cpus: u32,
    /// The version of perf.
    pub version: String,
    /// Whether all processes were sampled.
    pub whole_machine: bool,
    /// Whether there are callchains.
    pub has_stacks: bool,
    /// What to add to perf's clock for nanoseconds since 1970, if the file says.
    pub wall_offset: Option<i128>,
    /// The time of the first sample,
    pub first: u64,
    /// and the last, by perf's clock.
    pub last: u64,
    /// What was sampled.
    pub events: Vec<Event>,
    /// Images.
    pub images: Vec<CodeImage>,
    /// Who ran.
    pub labels: Vec<Label>,
    /// Frames, callers first.
    pub nodes: Vec<Frame>,
    /// How many samples.
    pub counts: HashMap<Seen, u64>,
    /// Names for positions, by image.
    pub symbols: BTreeMap<u32, Vec<(Offset, Vec<Symbol>)>>,
}

/// What was sampled, and what became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// `cpu-clock`
    pub name: String,
    /// Samples for each second, where that is known.
    pub rate_hz: Option<f64>,
    /// Samples,
    pub samples: u64,
    /// those of no known image,
    pub unknown: u64,
    /// those of idle CPUs,
    pub idle: u64,
    /// and those that perf had no room for.
    pub lost: u64,
}

/// A frame; the image by its place in [`Content::images`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    parent: u32,
    image: u32,
    offset: Offset,
}

impl Frame {
    /// The same, with keys of a database.
    pub fn with(self, images: &[ImageId]) -> Node {
        Node { parent: self.parent, image: images[self.image as usize], offset: self.offset }
    }
}

/// Samples that are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Seconds of perf's clock.
    pub second: u64,
    /// By their places in the lists of [`Content`].
    pub label: u32,
    /// What was sampled.
    pub event: u32,
    /// The sampled instruction.
    pub node: u32,
}

impl Content {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }
}

/// Reads a file.
pub fn read(file: impl Read + Seek) -> Result<Content> {
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file)?;
    let text = |text: Result<Option<&str>, _>| text.ok().flatten().unwrap_or_default().to_owned();
    let command = perf_file.cmdline().ok().flatten().unwrap_or_default();
    let mut to = Reader {
        content: Content {
            host: text(perf_file.hostname()),
            kernel: text(perf_file.os_release()),
            version: text(perf_file.perf_version()),
            whole_machine: is_whole_machine(&command),
            cpus: perf_file.nr_cpus().ok().flatten().map_or(0, |cpus| cpus.nr_cpus_online),
            wall_offset: perf_file
                .clock_data()
                .ok()
                .flatten()
                .map(|clock| i128::from(clock.wall_clock_ns) - i128::from(clock.clockid_time_ns)),
            first: u64::MAX,
            ..Content::default()
        },
        build_ids: perf_file.build_ids().unwrap_or_default(),
        kallsyms: Kallsyms::of_this_machine().filter(|_| is_running(&text(perf_file.os_release()))),
        ..Reader::default()
    };
    for attribute in perf_file.event_attributes() {
        let name = attribute.name().unwrap_or("event").to_owned();
        let rate_hz = match attribute.attr.sampling_policy {
            SamplingPolicy::Frequency(rate) => Some(rate as f64),
            // Clocks count nanoseconds.
            SamplingPolicy::Period(period) if name.contains("clock") => Some(1e9 / period.get() as f64),
            _ => None,
        };
        to.content.events.push(Event {
            name: name.split(':').next().unwrap_or(&name).to_owned(),
            rate_hz,
            ..Event::default()
        });
    }
    while let Some(record) = record_iter.next_record(&mut perf_file).context("a record is damaged")? {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let is_too_long = record.record_type == RecordType::MMAP2
            && record.misc & WITH_BUILD_ID != 0
            && record
                .data
                .get(LENGTH_OF_BUILD_ID..LENGTH_OF_BUILD_ID + 1)
                .is_none_or(|byte| byte.as_slice()[0] > LONGEST_BUILD_ID);
        if !is_too_long {
            to.take(attr_index, record.parse().context("a record is damaged")?);
        }
    }
    to.content.cpus = to.content.cpus.max(1);
    if to.content.host.is_empty() {
        to.content.host = "unknown".to_owned();
    }
    Ok(to.content)
}

/// Whether this kernel is the one that runs here.
fn is_running(release: &str) -> bool {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|running| running.trim() == release)
}

/// Whether `perf record` was told to sample everything.
fn is_whole_machine(command: &[&str]) -> bool {
    let options = command.iter().take_while(|word| **word != "--");
    options.into_iter().any(|word| *word == "-a" || *word == "--all-cpus")
}

/// A part of a process's memory.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    start: u64,
    end: u64,
    /// What `start` is in the file.
    offset: u64,
    image: u32,
}

#[derive(Clone, Debug, Default)]
struct Process {
    name: String,
    maps: Vec<Mapping>,
}

impl Process {
    fn position(&self, address: u64) -> Option<(u32, Offset)> {
        // What was mapped later lies over what was there before.
        let map = self.maps.iter().rev().find(|map| (map.start..map.end).contains(&address))?;
        Some((map.image, Offset(address - map.start + map.offset)))
    }
}

#[derive(Default)]
struct Reader {
    content: Content,
    build_ids: HashMap<DsoKey, DsoInfo>,
    kallsyms: Option<Kallsyms>,
    processes: HashMap<i32, Process>,
    images: HashMap<CodeImage, u32>,
    labels: HashMap<Label, u32>,
    nodes: HashMap<Frame, u32>,
}

impl Reader {
    fn take(&mut self, event: usize, record: EventRecord<'_>) {
        let text = |data: linux_perf_data::linux_perf_event_reader::RawData<'_>| {
            String::from_utf8_lossy(&data.as_slice()).into_owned()
        };
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
                // Nobody knows of which event.
                if let Some(event) = self.content.events.first_mut() {
                    event.lost += lost.count;
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
        } else if path.starts_with('/') && !path.starts_with("//anon") && !path.starts_with("/memfd:") {
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
        let mut is_unknown = false;
        if pid == IDLE {
            let idle =
                CodeImage { path: "[idle]".to_owned(), build_id: String::new(), kind: ImageKind::Idle };
            let image = self.image(idle);
            parent = self.node(Frame { parent, image, offset: Offset(0) });
        } else {
            for (address, is_kernel) in frames.iter().rev() {
                let of = if *is_kernel { KERNEL } else { pid };
                let position = self.processes.get(&of).and_then(|process| process.position(*address));
                is_unknown = position.is_none();
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
        of.idle += u64::from(pid == IDLE);
        of.unknown += u64::from(is_unknown);
        let seen = Seen { second: time / 1_000_000_000, label: number, event: event as u32, node: parent };
        *self.content.counts.entry(seen).or_default() += 1;
    }

    /// Names a position in the kernel.
    fn name(&mut self, image: u32, offset: Offset, address: u64) {
        let Some(function) = self.kallsyms.as_ref().and_then(|names| names.name(address)) else { return };
        let symbol = Symbol { function: function.to_owned(), ..Symbol::default() };
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

/// `PROT_EXEC`.
const EXECUTABLE: u32 = 4;

/// The frames of a callchain, innermost first, and whether each is in the kernel. Return addresses become those of the call.
fn frames(chain: &[u64], ip: u64, is_kernel: bool) -> Vec<(u64, bool)> {
    let mut frames = Vec::new();
    let mut in_kernel = is_kernel;
    for value in chain {
        match *value {
            OF_THE_KERNEL => in_kernel = true,
            OF_THE_USER => in_kernel = false,
            CONTEXT.. => break, // hypervisors and guests
            address if frames.is_empty() => frames.push((address, in_kernel)),
            address if frames.len() < DEEPEST => frames.push((address.saturating_sub(1), in_kernel)),
            _ => break,
        }
    }
    if frames.is_empty() {
        frames.push((ip, is_kernel));
    }
    frames
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
    fn callchains_say_whose_addresses_follow() {
        assert_eq!(
            frames(
                &[OF_THE_KERNEL, 0xffff_0010, 0xffff_0020, OF_THE_USER, 0x1010, 0x1020],
                0xffff_0010,
                true
            ),
            [(0xffff_0010, true), (0xffff_001f, true), (0x100f, false), (0x101f, false)]
        );
        assert_eq!(frames(&[], 0x1010, false), [(0x1010, false)]);
        assert_eq!(frames(&[OF_THE_USER], 0x1010, false), [(0x1010, false)]);
        assert_eq!(frames(&vec![1; 5000], 1, false).len(), DEEPEST);
    }

    #[test]
    fn build_ids_that_were_filled_up_are_as_they_were() {
        assert_eq!(hex(&[0xab; 20]), "ab".repeat(20));
        let mut short = [0; 20];
        short[..16].fill(0xcd);
        assert_eq!(hex(&short), "cd".repeat(16));
        assert_eq!(hex(&[]), "");
    }

    #[test]
    fn what_was_sampled_is_told_by_the_command() {
        assert!(is_whole_machine(&["perf", "record", "-F", "99", "-a", "--", "sleep", "2"]));
        assert!(!is_whole_machine(&["perf", "record", "--", "ls", "-a"]));
    }

    #[test]
    fn files_that_are_cut_short_are_no_panic() {
        assert!(read(std::io::Cursor::new(b"PERFILE2".to_vec())).is_err());
        assert!(read(std::io::Cursor::new([b"PERFILE2".as_slice(), &[0xff; 300]].concat())).is_err());
    }
}
