//! perf.data: what `perf record` writes, counted by stack.
//!
//! Its records are those that the kernel writes ([`records`]), so the collector's follower takes them ([`collect::Recorded`]): each address
//! is that of a file at its time. The file has no names; those of the kernel and of generated code are added if this is the machine, and
//! that kernel still runs, and the processes have left their lists. What the compiler put into files (`perf inject --jit`) is in files like
//! any other.

mod records;
mod sections;

use anyhow::{Context as _, Result};
use collect::{Recorded, Recording};
use linux_perf_data::linux_perf_event_reader::{AttrFlags, RecordType, SamplingPolicy};
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use records::Decoder;
use std::io::{Read, Seek};

/// In `misc` of an mmap record: there is a build ID.
const WITH_BUILD_ID: u16 = 1 << 14;
/// Where the length of the build ID stands.
const LENGTH_OF_BUILD_ID: usize = 32;
/// The longest that a build ID can be.
const LONGEST_BUILD_ID: u8 = 20;

/// A file's content.
#[derive(Debug, Default)]
pub struct Content {
    /// The machine's name.
    pub host: String,
    /// The machine's kernel.
    pub kernel: String,
    /// The machine's CPUs.
    pub cpus: u32,
    /// The version of perf.
    pub version: String,
    /// Whether all processes were sampled.
    pub whole_machine: bool,
    /// Whether there are callchains.
    pub has_stacks: bool,
    /// What to add to perf's clock for nanoseconds since 1970, if the file says.
    pub wall_offset: Option<i128>,
    /// The time of the first sample, by perf's clock.
    pub first: u64,
    /// The time of the last sample, by perf's clock.
    pub last: u64,
    /// What was sampled.
    pub events: Vec<Event>,
    /// The samples.
    pub counted: Recording,
}

/// What was sampled, and what became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// `cpu-clock`
    pub name: String,
    /// Samples for each second, where that is known.
    pub rate_hz: Option<f64>,
    /// Samples.
    pub samples: u64,
    /// Samples that perf had no room for.
    pub lost: u64,
}

impl Content {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }
}

/// Reads a file.
pub fn read(mut file: impl Read + Seek) -> Result<Content> {
    sections::check(&mut file)?;
    file.rewind()?;
    let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file)?;
    let text = |text: Result<Option<&str>, _>| text.ok().flatten().unwrap_or_default().to_owned();
    let command = perf_file.cmdline().ok().flatten().unwrap_or_default();
    let mut content = Content {
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
    };
    let to = Recorded::new(is_running(&content.kernel), is_of_this_machine(&content.host));
    let mut decoder = Decoder::new(to, perf_file.build_ids().unwrap_or_default());
    let asked =
        perf_file.event_attributes().iter().any(|event| event.attr.flags.contains(AttrFlags::BUILD_ID));
    for attribute in perf_file.event_attributes() {
        let name = attribute.name().unwrap_or("event").to_owned();
        let rate_hz = match attribute.attr.sampling_policy {
            SamplingPolicy::Frequency(rate) => Some(rate as f64),
            // Clocks count nanoseconds.
            SamplingPolicy::Period(period) if name.contains("clock") => Some(1e9 / period.get() as f64),
            _ => None,
        };
        content.events.push(Event {
            name: name.split(':').next().unwrap_or(&name).to_owned(),
            rate_hz,
            ..Event::default()
        });
    }
    while let Some(record) = record_iter.next_record(&mut perf_file).context("a record is damaged")? {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let mut record = record;
        if record.record_type == RecordType::MMAP2 && record.misc & WITH_BUILD_ID != 0 {
            let length = record.data.get(LENGTH_OF_BUILD_ID..LENGTH_OF_BUILD_ID + 1);
            if !has_build_id(asked, length.map(|byte| byte.as_slice()[0])) {
                record.misc &= !WITH_BUILD_ID;
            }
        }
        decoder.take(&mut content, attr_index, record.parse().context("a record is damaged")?);
    }
    content.counted = decoder.to.counted();
    content.cpus = content.cpus.max(1);
    if content.host.is_empty() {
        content.host = "unknown".to_owned();
    }
    Ok(content)
}

/// Whether an mmap record that says so has a build ID of this length where otherwise the device and inode are. While another
/// profiler has asked for build IDs, the kernel sets the bit in the records of all profilers (perf_event_mmap_output leaves it
/// set for the next one). Records that perf itself adds to a file (`perf inject`) do not come from the kernel.
fn has_build_id(asked: bool, length: Option<u8>) -> bool {
    length.is_some_and(|length| if asked { length <= LONGEST_BUILD_ID } else { length == LONGEST_BUILD_ID })
}

/// Whether that is this machine's name.
fn is_of_this_machine(host: &str) -> bool {
    std::fs::read_to_string("/proc/sys/kernel/hostname").is_ok_and(|name| name.trim() == host)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sampled_is_told_by_the_command() {
        assert!(is_whole_machine(&["perf", "record", "-F", "99", "-a", "--", "sleep", "2"]));
        assert!(!is_whole_machine(&["perf", "record", "--", "ls", "-a"]));
    }

    #[test]
    fn build_ids_that_nobody_asked_for_are_devices() {
        for (asked, length, expected) in [
            (true, Some(20), true),
            (true, Some(8), true),
            (true, Some(254), false),
            (true, None, false),
            // Major numbers: of virtual disks, of SCSI disks, of file systems without one.
            (false, Some(254), false),
            (false, Some(8), false),
            (false, Some(0), false),
            (false, Some(20), true),
        ] {
            assert_eq!(has_build_id(asked, length), expected, "{asked} {length:?}");
        }
    }

    #[test]
    fn files_that_are_cut_short_are_no_panic() {
        assert!(read(std::io::Cursor::new(b"PERFILE2".to_vec())).is_err());
        assert!(read(std::io::Cursor::new([b"PERFILE2".as_slice(), &[0xff; 300]].concat())).is_err());
    }
}
