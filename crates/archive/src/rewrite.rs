//! Rewriting: several segments become one, or one another.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::EventId;
use super::Node;
use super::catalogue::Segment;
use super::columns::{ColumnReader, wrong};
use super::draft::{Draft, Outline, ROOM, Unfinished, Written};
use super::frames::Frames;
use super::model::whole_seconds;
use super::rare::{self, Shared};
use super::segment::{self, Needed, Row, Stacks};
use super::steps::Steps;
use storage::Error;

/// A segment gets no more frames than this from others: what a frame needs in memory (some 35 bytes) bounds the writer,
/// what it needs on disk the database, and the time that it takes to read them bounds a query.
const MOST_NODES: usize = 400_000;
/// So often all of it is folded once more.
const AGAIN: u32 = 4;
/// Where there would be more, so many stay.
const FOLDED_NODES: usize = MOST_NODES / 2;

/// What becomes of the keys of another database.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) images: HashMap<i32, i32>,
    pub(super) labels: HashMap<i32, i32>,
    pub(super) events: HashMap<i32, i32>,
}

/// What to change on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes<'a> {
    /// Other keys.
    pub(super) keys: Option<&'a Keys>,
    /// Longer time buckets, in seconds.
    pub(super) bucket: Option<i64>,
    /// The image that may stand for the callers of rare stacks.
    pub(super) mark: Option<i32>,
}

impl Changes<'_> {
    fn image(&self, image: i32) -> Option<i32> {
        self.keys.map_or(Some(image), |keys| keys.images.get(&image).copied())
    }

    fn event(&self, event: i32) -> Option<i32> {
        self.keys.map_or(Some(event), |keys| keys.events.get(&event).copied())
    }

    fn label(&self, label: i32) -> Option<i32> {
        self.keys.map_or(Some(label), |keys| keys.labels.get(&label).copied())
    }

    fn time(&self, time: i64) -> i64 {
        self.bucket.map_or(time, |bucket| time.div_euclid(bucket) * bucket)
    }
}

/// Writes the samples of the first few of `inputs` (files in `from`) as one segment in `to`, and returns how many they
/// were: one at least, and as many more as fit into memory. It calls `breathe` every few milliseconds.
pub(super) fn rewrite(
    from: &Path,
    inputs: &[Segment],
    changes: Changes<'_>,
    to: &Path,
    steps: &mut Steps,
    breathe: &mut dyn FnMut(),
) -> Result<(usize, Written, Unfinished), Error> {
    let (outline, shared, used) = outlined(from, inputs, changes, breathe)?;
    let inputs = &inputs[..used];
    let begin = inputs.iter().map(|input| input.begin).min().unwrap_or_default();
    let bucket = changes.bucket.unwrap_or_else(|| {
        inputs.iter().map(|input| whole_seconds(input.resolution)).max().unwrap_or_default()
    });
    let window = window(bucket);
    let mut draft = Draft::new(to, outline, begin, steps)?;
    let number = |input: &Segment| input.begin.0.div_euclid(window);
    for inputs in inputs.chunk_by(|a, b| number(a) == number(b)) {
        let sources: Vec<Samples> = inputs
            .iter()
            .map(|input| Samples::new(from, input, changes, shared, &draft))
            .collect::<Result<_, _>>()?;
        for places in pieces(&sources, draft.frames(), breathe)? {
            for source in &sources {
                source.rows(changes, Needed::ALL, |row| {
                    // A frame without a place has no samples, which `push` complains about.
                    if places.contains(&row.node) || row.node == Node::NONE {
                        draft.push(row)
                    } else {
                        Ok(())
                    }
                })?;
                breathe();
            }
            draft.pause()?;
            breathe();
        }
    }
    let (written, files) = draft.finish()?;
    let samples: u64 = inputs.iter().map(|input| input.samples).sum();
    if samples != written.samples {
        let what = format!("{samples} samples were expected here and beyond, and {} found", written.samples);
        return Err(wrong(&from.join(&inputs[0].samples_file), &what));
    }
    Ok((used, written, files))
}

/// The frames of the first few of `inputs`, how many these are, and which callers stay if not all do.
fn outlined(
    from: &Path,
    inputs: &[Segment],
    changes: Changes<'_>,
    breathe: &mut dyn FnMut(),
) -> Result<(Outline, Option<Shared>, usize), Error> {
    let mut outline = Outline::default();
    let (mut used, mut is_folded) = (0, false);
    for input in inputs {
        let before = outline.frames.len();
        let added = add_input(&mut outline, from, input, changes, None)?;
        breathe();
        if outline.frames.len() > MOST_NODES {
            let folded = changes.mark.map(|mark| rare::fold(&outline, mark, FOLDED_NODES, breathe).0);
            match folded.filter(|folded| folded.frames.len() <= FOLDED_NODES || used == 0) {
                Some(folded) => (outline, is_folded) = (folded, true),
                None if used == 0 => {}
                None => {
                    added.into_iter().for_each(|(event, frame, count)| outline.take(event, frame, count));
                    outline.truncate(before);
                    break;
                }
            }
        }
        used += 1;
    }
    let Some(mark) = changes.mark.filter(|_| is_folded) else { return Ok((outline, None, used)) };
    // What was folded early was folded by what had been seen until then: all of it again, by the callers that stay at the end. Some that
    // were rare at first stay now, and may make it too many once more.
    let (folded, mut shared) = rare::fold(&outline, mark, FOLDED_NODES, breathe);
    let mut outline = shared.outline(folded);
    let (mut next, mut left) = (0, AGAIN);
    while next < used {
        add_input(&mut outline, from, &inputs[next], changes, Some(shared))?;
        next += 1;
        breathe();
        if outline.frames.len() > MOST_NODES && left > 0 {
            let (folded, fewer) = rare::fold(&outline, mark, FOLDED_NODES, breathe);
            (shared, next, left) = (fewer, 0, left - 1);
            outline = shared.outline(folded);
        }
    }
    Ok((outline, Some(shared), used))
}

/// Adds the frames of a segment, and their samples, which it returns: event, frame and how many.
fn add_input(
    outline: &mut Outline,
    from: &Path,
    input: &Segment,
    changes: Changes<'_>,
    shared: Option<Shared>,
) -> Result<Vec<(i32, u32, u64)>, Error> {
    let path = from.join(&input.stacks_file);
    let reader = ColumnReader::open(&path, input.bytes)?;
    let unknown = || unknown_key(&path);
    let stacks = Stacks::read(&reader)?;
    let mut counts = Vec::new();
    for event in segment::events(&reader) {
        let of_frames = segment::self_counts(&reader, EventId::new(i64::from(event)))?;
        counts.push((changes.event(event).ok_or_else(unknown)?, of_frames));
    }
    let frames = changed_frames(&stacks, changes).ok_or_else(unknown)?;
    let has_samples =
        |at: usize| counts.iter().any(|(_, counts)| counts.get(at).is_some_and(|count| *count > 0));
    let map = match shared {
        Some(shared) => shared.places(&mut outline.frames, frames, has_samples, Frames::find, Frames::intern),
        None => whole(frames, |parent, image, offset| outline.frames.intern(parent, image, offset)),
    };
    let mut added = Vec::new();
    for (event, counts) in counts {
        for (&frame, count) in map.iter().zip(counts).filter(|(_, count)| *count > 0) {
            outline.add(event, frame, count);
            added.push((event, frame, count));
        }
    }
    Ok(added)
}

/// Which of the `inputs` cannot be read, if that is what is wrong. (What is written has other names.)
pub(super) fn unreadable<'s>(error: &Error, inputs: &'s [Segment]) -> Option<&'s Segment> {
    let (Error::DamagedSegment { path, .. } | Error::NotFound { path } | Error::Io { path, .. }) = error
    else {
        return None;
    };
    inputs.iter().find(|input| input.files().iter().any(|file| path.ends_with(file)))
}

/// The length of the spans of time, in seconds, whose rows are sorted together. The longer they are, the less it takes to
/// say which frames they are of; but the list of their times should not have more than 256 entries: numbers of one byte
/// compress best, since neighbours repeat. And a query for an hour reads less of a day that has several of them.
fn window(bucket: i64) -> i64 {
    const LENGTHS: [i64; 9] = [600, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400];
    let fits = |length: &&i64| **length <= bucket.saturating_mul(256);
    LENGTHS.iter().rfind(fits).copied().unwrap_or(LENGTHS[0])
}

/// Cuts the frames into ranges of places that have as many rows as a draft has room for, or are one frame.
fn pieces(sources: &[Samples], frames: usize, breathe: &mut dyn FnMut()) -> Result<Vec<Range<u32>>, Error> {
    if sources.iter().map(Samples::count).sum::<Result<usize, Error>>()? <= ROOM {
        let all = 0..frames as u32;
        return Ok(vec![all]);
    }
    let mut rows = vec![0_usize; frames];
    let needed = Needed { labels: false, events: false };
    for source in sources {
        source.rows(Changes::default(), needed, |row| {
            if let Some(rows) = rows.get_mut(row.node as usize) {
                *rows += 1;
            }
            Ok(())
        })?;
        breathe();
    }
    let mut pieces: Vec<Range<u32>> = Vec::new();
    let mut sum = 0;
    for (place, rows) in (0_u32..).zip(rows) {
        sum += rows;
        match pieces.last_mut() {
            Some(piece) if sum <= ROOM => piece.end = place + 1,
            _ => {
                pieces.push(place..place + 1);
                sum = rows;
            }
        }
    }
    Ok(pieces)
}

/// The samples of a segment that goes into another one.
struct Samples {
    path: PathBuf,
    /// It has no more.
    bytes: u64,
    /// Where each of its frames is in the new one.
    places: Vec<u32>,
}

impl Samples {
    fn new(
        from: &Path,
        input: &Segment,
        changes: Changes<'_>,
        shared: Option<Shared>,
        draft: &Draft<'_>,
    ) -> Result<Samples, Error> {
        let path = from.join(&input.stacks_file);
        let stacks = Stacks::read(&ColumnReader::open(&path, input.bytes)?)?;
        let frames = changed_frames(&stacks, changes).ok_or_else(|| unknown_key(&path))?;
        let outlined = draft.outlined();
        let find = |parent, image, offset| outlined.find(parent, image, offset).unwrap_or(Node::NONE);
        let places = match shared {
            Some(shared) => shared.places(
                &mut (),
                frames,
                |_| true,
                |_, parent, image, offset| outlined.find(parent, image, offset),
                |_, parent, image, offset| find(parent, image, offset),
            ),
            None => whole(frames, find),
        };
        let places = places.into_iter().map(|frame| draft.place(frame)).collect();
        Ok(Samples { path: from.join(&input.samples_file), bytes: input.bytes, places })
    }

    /// How many rows there are.
    fn count(&self) -> Result<usize, Error> {
        let reader = ColumnReader::open(&self.path, self.bytes)?;
        Ok((0..reader.groups()).map(|group| reader.rows(group)).sum())
    }

    /// Its rows, as they will be.
    fn rows(
        &self,
        changes: Changes<'_>,
        needed: Needed,
        mut each: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let unknown = || unknown_key(&self.path);
        segment::read_rows((&self.path, self.bytes), self.places.len(), None, needed, |row| {
            each(Row {
                time: changes.time(row.time),
                label: changes.label(row.label).ok_or_else(unknown)?,
                event: changes.event(row.event).ok_or_else(unknown)?,
                node: self.places[row.node as usize],
                count: row.count,
            })
        })
    }
}

fn unknown_key(path: &Path) -> Error {
    wrong(path, "it has a key that its catalogue does not know")
}

/// Caller, image and offset of each frame, as they will be, if all images are known.
fn changed_frames<'s>(
    stacks: &'s Stacks,
    changes: Changes<'_>,
) -> Option<impl Iterator<Item = (u32, i32, u64)> + use<'s>> {
    let images: Vec<i32> = stacks.images.iter().map(|&image| changes.image(image)).collect::<Option<_>>()?;
    let places = stacks.parents.iter().zip(images).zip(&stacks.offsets);
    Some(places.map(|((&parent, image), &offset)| (parent, image, offset)))
}

/// The index of each frame, where all stay; `index` gives that of a frame by its caller's, image and offset.
fn whole(
    frames: impl Iterator<Item = (u32, i32, u64)>,
    mut index: impl FnMut(u32, i32, u64) -> u32,
) -> Vec<u32> {
    let mut map: Vec<u32> = Vec::new();
    for (parent, image, offset) in frames {
        let parent = match parent {
            Node::NONE => Node::NONE,
            parent => map[parent as usize],
        };
        map.push(index(parent, image, offset));
    }
    map
}
