//! Draft: a segment that is being written.
//!
//! First the frames of all that goes into it, then its samples. Until the catalogue knows it, its files do not count:
//! they are removed with it, and by the next process that opens the database if this process dies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::columns::{ColumnWriter, unwritten};
use super::frames::Frames;
use super::segment::{Row, sample_columns, stack_columns};
use super::steps::Steps;
use super::{Node, UnixSeconds, checksum};
use storage::Error;

/// How many rows are sorted and written together; what one such group needs in memory is what a draft needs.
const GROUP: usize = 384 * 1024;
/// How many rows can be pushed between two [pauses](Draft::pause) and are sorted as a whole.
pub(super) const ROOM: usize = GROUP / 4 * 3;

/// The frames of a draft, and how many samples of each event fell into each of them itself.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) frames: Frames,
    pub(super) counts: BTreeMap<i32, Vec<u64>>,
}

impl Outline {
    /// Adds samples to a frame.
    pub(super) fn add(&mut self, event: i32, frame: u32, count: u64) {
        let counts = self.counts.entry(event).or_default();
        if counts.len() <= frame as usize {
            counts.resize(frame as usize + 1, 0);
        }
        counts[frame as usize] += count;
    }

    /// Takes samples away that were added.
    pub(super) fn take(&mut self, event: i32, frame: u32, count: u64) {
        if let Some(of_frame) = self.counts.get_mut(&event).and_then(|counts| counts.get_mut(frame as usize))
        {
            *of_frame -= count;
        }
    }

    /// The samples of a frame itself, of all events.
    pub(super) fn samples(&self, frame: usize) -> u64 {
        self.counts.values().filter_map(|counts| counts.get(frame)).sum()
    }

    /// Forgets the frames from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.frames.truncate(length);
        self.counts.values_mut().for_each(|counts| counts.truncate(length));
    }

    /// For each frame its place in the file, and [`Node::NONE`] for those without samples. Callers come first, and the
    /// frames that one calls stand together, so that a column of callers only rises. Where only the sampled instruction
    /// is known, they are ordered by their samples, most first: the numbers of frequent ones are neighbours then, and
    /// those of rare ones too.
    fn places(&self) -> Vec<u32> {
        let frames = &self.frames;
        let count = |at: usize| self.samples(at);
        let mut used: Vec<bool> = (0..frames.len()).map(|at| count(at) > 0).collect();
        let mut is_flat = true;
        for at in (0..used.len()).rev() {
            let parent = frames.parent(at);
            if parent != Node::NONE {
                is_flat = false;
                used[parent as usize] |= used[at];
            }
        }
        let mut depths: Vec<u16> = Vec::with_capacity(used.len());
        for at in 0..used.len() {
            let parent = frames.parent(at);
            depths.push(if parent == Node::NONE { 0 } else { depths[parent as usize].saturating_add(1) });
        }
        let mut order: Vec<u32> = (0..used.len() as u32).filter(|&at| used[at as usize]).collect();
        drop(used);
        // Deeper than any depth that is told apart, callers still come first.
        order.sort_by_key(|&at| depths[at as usize]);
        let mut places = vec![Node::NONE; frames.len()];
        let mut next = 0;
        for level in order.chunk_by_mut(|&a, &b| depths[a as usize] == depths[b as usize]) {
            if depths[level[0] as usize] < u16::MAX {
                level.sort_unstable_by_key(|&at| {
                    let at = at as usize;
                    let caller = match frames.parent(at) {
                        Node::NONE if is_flat => u64::MAX - count(at),
                        Node::NONE => 0,
                        parent => u64::from(places[parent as usize]),
                    };
                    (caller, frames.image(at), frames.offset(at))
                });
            }
            for &at in &*level {
                places[at as usize] = next;
                next += 1;
            }
        }
        places
    }
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    pub(super) stacks_file: String,
    pub(super) samples_file: String,
    pub(super) stacks_bytes: u64,
    pub(super) samples_bytes: u64,
    pub(super) nodes: u64,
    pub(super) samples: u64,
    /// Begin of the first time bucket.
    pub(super) begin: UnixSeconds,
    /// Begin of the last time bucket.
    pub(super) last: UnixSeconds,
    pub(super) images: BTreeSet<i32>,
    pub(super) labels: BTreeSet<i32>,
}

/// Whether a file has a name that a draft gives its files.
pub(super) fn is_ours(file: &str) -> bool {
    let mut parts = file.split('.');
    let random = parts.next().and_then(|name| name.rsplit_once('-')).map_or("", |(_, random)| random);
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    random.len() == 16 && is_hex(random) && file.ends_with(".parquet")
}

/// Files that are removed again unless they are kept.
#[derive(Debug, Default)]
pub(super) struct Unfinished(Vec<PathBuf>);

impl Unfinished {
    pub(super) fn keep(mut self) {
        self.0.clear();
    }

    fn rename(&mut self, nth: usize, to: PathBuf) -> io::Result<()> {
        fs::rename(&self.0[nth], &to)?;
        self.0[nth] = to;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for path in &self.0 {
            // If it fails, the next process that opens the database does it.
            let _ = fs::remove_file(path);
        }
    }
}

/// A segment whose frames are written and whose samples follow.
pub(super) struct Draft<'a> {
    folder: &'a Path,
    steps: &'a mut Steps,
    files: Unfinished,
    /// The beginning of their names.
    name: String,
    /// The frames of what was outlined.
    frames: Frames,
    /// Where each of the frames is in the file.
    places: Vec<u32>,
    writer: ColumnWriter,
    samples_path: PathBuf,
    rows: Vec<Row>,
    written: Written,
    /// Whether a row has been written.
    any: bool,
}

impl<'a> Draft<'a> {
    /// Writes the frames. `folder` is that of the segments, `about` a moment to name the files after.
    pub(super) fn new(
        folder: &'a Path,
        outline: Outline,
        about: UnixSeconds,
        steps: &'a mut Steps,
    ) -> Result<Draft<'a>, Error> {
        let name = format!("{}-{:016x}", about.minute(), fastrand::u64(..));
        let mut written = Written::default();
        let stacks_path = folder.join(format!("{name}.stacks.parquet"));
        let samples_path = folder.join(format!("{name}.samples.parquet"));
        let mut files = Unfinished(vec![stacks_path.clone(), samples_path.clone()]);
        let places = outline.places();
        step(steps, "make the file of the stacks", &stacks_path)?;
        let file = File::create_new(&stacks_path).map_err(|e| failed(&stacks_path, &e))?;
        step(steps, "write the stacks", &stacks_path)?;
        let (file, sum) =
            write_stacks(file, &outline, &places, &mut written).map_err(|e| unwritten(&stacks_path, &e))?;
        step(steps, "sync the stacks", &stacks_path)?;
        written.stacks_bytes = synced(&file).map_err(|e| failed(&stacks_path, &e))?;
        step(steps, "name the stacks", &stacks_path)?;
        written.stacks_file = checksum::name(&name, sum, "stacks");
        files.rename(0, folder.join(&written.stacks_file)).map_err(|e| failed(&stacks_path, &e))?;
        step(steps, "make the file of the samples", &samples_path)?;
        let file = File::create_new(&samples_path).map_err(|e| failed(&samples_path, &e))?;
        let writer = ColumnWriter::new(file, "samples", &sample_columns())
            .map_err(|e| unwritten(&samples_path, &e))?;
        let frames = outline.frames;
        Ok(Draft {
            folder,
            steps,
            files,
            name,
            frames,
            places,
            writer,
            samples_path,
            rows: Vec::new(),
            written,
            any: false,
        })
    }

    /// The frames that were outlined.
    pub(super) fn outlined(&self) -> &Frames {
        &self.frames
    }

    /// The place in the file of a frame with that index; [`Node::NONE`] if it has no samples, itself or in what it calls.
    pub(super) fn place(&self, frame: u32) -> u32 {
        self.places.get(frame as usize).copied().unwrap_or(Node::NONE)
    }

    /// How many frames there are in the file.
    pub(super) fn frames(&self) -> usize {
        self.written.nodes as usize
    }

    /// Adds samples; `node` is the place of the frame.
    pub(super) fn push(&mut self, row: Row) -> Result<(), Error> {
        if row.node as usize >= self.frames() {
            // The frames of a segment do not say what its samples say.
            return Err(Error::DamagedSegment {
                path: self.samples_path.clone(),
                detail: "a sample lies in a frame without samples".to_owned(),
            });
        }
        self.rows.push(row);
        if self.rows.len() < GROUP {
            return Ok(());
        }
        self.tidy();
        if self.rows.len() < GROUP / 2 { Ok(()) } else { self.write() }
    }

    /// Says that other frames or other times follow, which are better kept apart.
    pub(super) fn pause(&mut self) -> Result<(), Error> {
        if self.rows.len() < GROUP / 4 {
            return Ok(());
        }
        self.tidy();
        if self.rows.len() < GROUP / 4 { Ok(()) } else { self.write() }
    }

    /// Writes what is left, and gives the two files, which are removed again unless they are kept.
    pub(super) fn finish(mut self) -> Result<(Written, Unfinished), Error> {
        self.tidy();
        if !self.rows.is_empty() {
            self.write()?;
        }
        let Draft { folder, steps, mut files, name, writer, samples_path, mut written, .. } = self;
        step(steps, "write the end of the samples", &samples_path)?;
        let (file, sum) = writer.finish().map_err(|e| unwritten(&samples_path, &e))?;
        step(steps, "sync the samples", &samples_path)?;
        written.samples_bytes = synced(&file).map_err(|e| failed(&samples_path, &e))?;
        step(steps, "name the samples", &samples_path)?;
        written.samples_file = checksum::name(&name, sum, "samples");
        files.rename(1, folder.join(&written.samples_file)).map_err(|e| failed(&samples_path, &e))?;
        // The names of the files must survive a power failure as well.
        step(steps, "sync the folder", folder)?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| failed(folder, &e))?;
        Ok((written, files))
    }

    /// Sorts the rows and makes one of those that are alike.
    fn tidy(&mut self) {
        self.rows.sort_unstable_by_key(Row::key);
        self.rows.dedup_by(|row, before| {
            let sum = (row.key() == before.key()).then(|| before.count.checked_add(row.count)).flatten();
            before.count = sum.unwrap_or(before.count);
            sum.is_some()
        });
    }

    fn write(&mut self) -> Result<(), Error> {
        step(self.steps, "write samples", &self.samples_path)?;
        let written = &mut self.written;
        for row in &self.rows {
            let (time, label) = (UnixSeconds(row.time), row.label);
            if !self.any {
                (written.begin, written.last, self.any) = (time, time, true);
            }
            (written.begin, written.last) = (written.begin.min(time), written.last.max(time));
            written.samples += u64::from(row.count);
            // Rows of a label are neighbours.
            if written.labels.last() != Some(&label) {
                written.labels.insert(label);
            }
        }
        let rows = &self.rows;
        let mut group = || {
            let mut group = self.writer.group()?;
            group.longs(rows.iter().map(|row| row.time.saturating_mul(1000)))?;
            group.shorts(rows.iter().map(|row| row.label))?;
            group.shorts(rows.iter().map(|row| row.event))?;
            group.shorts(rows.iter().map(|row| row.node as i32))?;
            group.shorts(rows.iter().map(|row| row.count as i32))?;
            group.finish()
        };
        group().map_err(|e| unwritten(&self.samples_path, &e))?;
        self.rows.clear();
        Ok(())
    }
}

/// Writes a file to the disk, and returns how long it is.
fn synced(file: &File) -> io::Result<u64> {
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// Whatever it was: the folder was there, and now something is wrong with it.
pub(super) fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Io { path: path.to_owned(), detail: error.to_string() }
}

pub(super) fn step(steps: &mut Steps, name: &'static str, path: &Path) -> Result<(), Error> {
    steps.next(name).map_err(|e| failed(path, &e))
}

fn write_stacks(
    file: File,
    outline: &Outline,
    places: &[u32],
    written: &mut Written,
) -> Result<(File, u32), parquet::errors::ParquetError> {
    let mut writer = ColumnWriter::new(file, "stacks", &stack_columns(outline.counts.keys().copied()))?;
    let used = places.iter().filter(|&&place| place != Node::NONE).count();
    let mut order = vec![0_u32; used];
    for (at, &place) in places.iter().enumerate() {
        if place != Node::NONE {
            order[place as usize] = at as u32;
        }
    }
    let frames = &outline.frames;
    let mut last = None;
    for &at in &order {
        let image = frames.image(at as usize);
        if last.replace(image) != Some(image) {
            written.images.insert(image);
        }
    }
    if used > 0 {
        // One column at a time: all of them together would be as large as the frames themselves.
        let mut group = writer.group()?;
        group.shorts(0..used as i32)?;
        group.shorts(order.iter().map(|&at| match frames.parent(at as usize) {
            Node::NONE => -1,
            parent => places[parent as usize] as i32,
        }))?;
        group.shorts(order.iter().map(|&at| frames.image(at as usize)))?;
        group.longs(order.iter().map(|&at| frames.offset(at as usize) as i64))?;
        for counts in outline.counts.values() {
            group.longs(order.iter().map(|&at| counts.get(at as usize).copied().unwrap_or(0) as i64))?;
        }
        group.finish()?;
    }
    written.nodes = used as u64;
    writer.finish()
}
