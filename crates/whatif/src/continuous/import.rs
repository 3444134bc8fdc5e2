//! `whatif db import perf.data`: what perf has recorded becomes an epoch of a database.

use super::perf_data;
use crate::{cli, show};
use anyhow::{Context as _, Result, bail, ensure};
use archive::{Batch, Books, Count, EventId, ImageKind, MachineInfo, Setting, Store, UnixSeconds};
use collect::Recording;
use cycles::check_epoch_name as check_name;
use cycles::default_folder;
use cycles::time;
use profile::Nanos;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

/// What a perf.data file begins with.
const MAGIC: &[u8; 8] = b"PERFILE2";
/// Recordings that are shorter keep seconds apart, longer ones minutes; in seconds.
const SHORT: i64 = 600;

/// Whether a file was written by `perf record`.
pub fn is_perf_data(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    // A pipe could keep us waiting.
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *MAGIC
}

/// `whatif db import`, of such a file.
pub fn import(args: &cli::Import) -> Result<()> {
    ensure!(
        args.output.is_none(),
        "{} is added to a database of continuous profiles; name its folder with --db DIR, and leave -o out",
        args.file.display()
    );
    args.name.as_deref().map_or(Ok(()), check_name)?;
    let from = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot read {from}"))?;
    let changed =
        file.metadata().and_then(|data| data.modified()).unwrap_or_else(|_| std::time::SystemTime::now());
    let ended = changed.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let content = perf_data::read(std::io::BufReader::new(file)).with_context(|| {
        format!("cannot understand {from}; write it again with: perf record -a -g -o FILE, without a pipe")
    })?;
    ensure!(
        content.samples() > 0,
        "{from} has no samples; record for longer, or with another event: perf record -e cpu-clock"
    );

    let folder = default_folder(args.folder.db.as_deref())?;
    let mut store = Store::open(&folder).with_context(|| {
        format!(
            "{} cannot be written; if a collector writes it, import into a new folder with --db DIR",
            folder.display()
        )
    })?;
    // Nanoseconds of perf's clock to seconds since 1970.
    let offset = content.wall_offset.unwrap_or_else(|| ended.as_nanos() as i128 - i128::from(content.last));
    let wall = |at: u64| UnixSeconds(((i128::from(at) + offset) / 1_000_000_000) as i64);
    let (begin, end) = (wall(content.first), UnixSeconds(wall(content.last).0 + 1));
    let resolution = if end.0 - begin.0 <= SHORT { 1 } else { 60 };

    let machine = store.machine(&MachineInfo {
        key: archive::machine_key(&content.host),
        host: content.host.clone(),
        kernel: content.kernel.clone(),
        cpus: content.cpus,
    })?;
    // perf adds events of its own that have no samples.
    let sampled = || content.events.iter().filter(|event| event.samples > 0);
    let setting = Setting {
        scope: if content.whole_machine { "machine" } else { "own processes" }.to_owned(),
        mode: if content.has_stacks { "stacks" } else { "pc" }.to_owned(),
        events: sampled().map(|event| event.name.clone()).collect(),
        sampler: format!("perf {}", content.version),
        rate_hz: sampled().next().and_then(|event| event.rate_hz).unwrap_or(0.0),
        resolution: Nanos::new(resolution * 1_000_000_000),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        labels: BTreeMap::new(),
    };
    let Recording { frames, counts, legend } = &content.counted;
    let images = legend.images.iter().map(|image| store.image(image)).collect::<Result<Vec<_>, _>>()?;
    let labels = legend.labels.iter().map(|label| store.label(label)).collect::<Result<Vec<_>, _>>()?;
    let key = |event: &perf_data::Event| match event.samples {
        0 => Ok(None),
        _ => store.event(&event.name).map(Some),
    };
    let events = content.events.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    for (image, symbols) in legend.symbols(&images, |_, _| false) {
        store.add_symbols(image, &symbols)?;
    }
    // The same recording, wherever it is imported.
    let uid = format!("perf {} {} {} {}", content.host, content.first, content.last, content.samples());
    let begun = store.begin_imported(&uid, machine, &setting, args.name.as_deref(), begin)?;
    let epoch = match begun {
        Ok(epoch) => epoch,
        Err(epoch) => bail!(
            "{from} is in {} already, as epoch {}: its samples would count twice; to have it once more, import it into another folder \
             with --db DIR",
            folder.display(),
            epoch.get()
        ),
    };
    let nodes = frames.iter().map(|frame| frame.with(&images)).collect();
    let mut batch = Batch { nodes, ..Batch::default() };
    let mut sums = std::collections::BTreeMap::new();
    for seen in counts {
        let at = wall(seen.second.saturating_mul(1_000_000_000)).0;
        let bucket = UnixSeconds(at - at.rem_euclid(resolution as i64));
        *sums.entry((bucket, seen.label, seen.event, seen.node)).or_insert(0_u64) += u64::from(seen.count);
    }
    batch.counts = sums
        .into_iter()
        .filter_map(|((time, label, event, node), count)| {
            let (label, event) = (labels[label.0 as usize], events[event as usize]?);
            Some(Count { time, label, event, node, count: u32::try_from(count).unwrap_or(u32::MAX) })
        })
        .collect();
    batch.books = books(&content, &events, &batch.counts, begin..end, resolution as i64);
    store.flush(epoch, &batch)?;
    store.end_epoch(epoch, end)?;
    show::print(&format!(
        "{} samples of {}, {}, in epoch {} of {} (whatif top --db {} --epoch {})\n",
        content.samples(),
        profile::printable(&setting.events.join(", ")),
        time::span(begin, end),
        epoch.get(),
        folder.display(),
        folder.display(),
        epoch.get()
    ))
}

/// The books of each time bucket. When samples were lost is not known, so that is spread evenly.
fn books(
    content: &perf_data::Content,
    events: &[Option<EventId>],
    counts: &[Count],
    time: Range<UnixSeconds>,
    resolution: i64,
) -> Vec<Books> {
    let (UnixSeconds(begin), UnixSeconds(end)) = (time.start, time.end);
    // Of each event and time bucket: samples, those of no known image, those of idle CPUs.
    let mut taken: HashMap<(EventId, i64), [u64; 3]> = HashMap::new();
    let Recording { frames, legend, .. } = &content.counted;
    for count in counts {
        let kind = legend.images[frames[count.node as usize].image.0 as usize].kind;
        let sums = taken.entry((count.event, count.time.0)).or_default();
        let counts = [true, kind == ImageKind::Unknown, kind == ImageKind::Idle];
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, counts)| *sum += u64::from(count.count) * u64::from(counts));
    }
    let length = content.last.saturating_sub(content.first).max(1);
    let mut books = Vec::new();
    for (event, of) in events.iter().zip(&content.events) {
        let Some(event) = *event else { continue };
        let mut start = begin;
        while start < end {
            let bucket = start - start.rem_euclid(resolution);
            let until = end.min(bucket + resolution);
            let before =
                |total: u64, at: i64| u128::from(total) * (at - begin) as u128 / (end - begin) as u128;
            let part = |total: u64| (before(total, until) - before(total, start)) as u64;
            let [samples, unknown, idle] = taken.get(&(event, bucket)).copied().unwrap_or_default();
            let lost = part(of.lost);
            let covered = match (content.whole_machine, of.rate_hz) {
                (true, _) => part(length.saturating_mul(u64::from(content.cpus))),
                (false, Some(rate)) => (samples as f64 / rate * 1e9) as u64,
                (false, None) => 0,
            };
            books.push(Books {
                event,
                start: UnixSeconds(start),
                length: Nanos::new((until - start) as u64 * 1_000_000_000),
                expected: samples + lost,
                stored: samples - unknown,
                unknown,
                lost,
                idle,
                covered: Nanos::new(covered),
                own_cpu: Nanos::ZERO,
                kernel_cpu: Nanos::ZERO,
                resident: 0,
                squares: 0,
            });
            start = until;
        }
    }
    books
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::{CodeImage, LabelId};
    use collect::stacks::{Frame, Stacks};
    use collect::{ImageIndex, Legend};

    #[test]
    fn every_time_bucket_has_books() {
        let image = |kind| CodeImage { path: String::new(), build_id: String::new(), kind };
        let frame = |image| Frame { parent: Stacks::ROOT, image: ImageIndex(image), offset: 0 };
        let images = vec![image(ImageKind::File), image(ImageKind::Unknown), image(ImageKind::Idle)];
        let content = perf_data::Content {
            whole_machine: true,
            cpus: 2,
            first: 5_000_000_000,
            last: 155_000_000_000,
            events: vec![perf_data::Event { lost: 10, ..perf_data::Event::default() }],
            counted: Recording {
                frames: vec![frame(0), frame(1), frame(2)],
                legend: Legend { images, ..Legend::default() },
                ..Recording::default()
            },
            ..perf_data::Content::default()
        };
        let event = EventId::new(1);
        let count =
            |time, node, count| Count { time: UnixSeconds(time), label: LabelId::new(1), event, node, count };
        let counts = [count(600, 0, 100), count(600, 1, 10), count(600, 2, 1), count(720, 0, 50)];
        let books = super::books(&content, &[Some(event)], &counts, UnixSeconds(610)..UnixSeconds(760), 60);
        let rows: Vec<_> = books
            .iter()
            .map(|of| (of.start.0, of.length.get() / 1_000_000_000, of.stored, of.unknown, of.lost, of.idle))
            .collect();
        assert_eq!(rows, [(610, 50, 101, 10, 3, 1), (660, 60, 0, 0, 4, 0), (720, 40, 50, 0, 3, 0)]);
        assert!(books.iter().all(|of| of.expected == of.stored + of.unknown + of.lost));
        assert_eq!(books.iter().map(|of| of.covered.get()).sum::<u64>(), 300_000_000_000);
    }

    #[test]
    fn files_of_perf_are_known_by_their_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for (content, expected) in
            [(&b"PERFILE2rest"[..], true), (b"PERFILE", false), (b"startup\ttime=1", false)]
        {
            std::fs::write(&path, content).unwrap();
            assert_eq!(is_perf_data(&path), expected);
        }
        assert!(!is_perf_data(Path::new("/nowhere")));
    }
}
