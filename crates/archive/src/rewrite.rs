//! Rewriting: several segments become one, or one another.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::EventId;
use super::Node;
use super::catalogue::Segment;
use super::columns::{ColumnReader, wrong};
use super::draft::{Draft, Outline, ROOM, Unfinished, Written};
use super::model::whole_seconds;
use super::segment::{self, Needed, Row, Stacks};
use super::steps::Steps;
use storage::Error;

/// A segment gets no more frames than this from others: what a frame needs in memory (some 35 bytes) bounds the writer.
const MOST_NODES: usize = 600_000;

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
    let mut outline = Outline::default();
    let mut used = 0;
    for input in inputs {
        let before = outline.frames.len();
        let path = from.join(&input.stacks_file);
        let reader = ColumnReader::open(&path)?;
        let unknown = || unknown_key(&path);
        let map = add_frames(&Stacks::read(&reader)?, changes, |parent, image, offset| {
            outline.frames.intern(parent, image, offset)
        })
        .ok_or_else(unknown)?;
        if used > 0 && outline.frames.len() > MOST_NODES {
            outline.truncate(before);
            break;
        }
        for event in segment::events(&reader) {
            let counts = segment::self_counts(&reader, EventId::new(i64::from(event)))?;
            let event = changes.event(event).ok_or_else(unknown)?;
            for (&frame, &count) in map.iter().zip(&counts) {
                if count > 0 {
                    outline.add(event, frame, count);
                }
            }
        }
        used += 1;
        breathe();
    }
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
            .map(|input| Samples::new(from, input, changes, &mut draft))
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
    /// Where each of its frames is in the new one.
    places: Vec<u32>,
}

impl Samples {
    fn new(
        from: &Path,
        input: &Segment,
        changes: Changes<'_>,
        draft: &mut Draft<'_>,
    ) -> Result<Samples, Error> {
        let path = from.join(&input.stacks_file);
        let reader = ColumnReader::open(&path)?;
        let add = |parent, image, offset| draft.frame(parent, image, offset);
        let frames = add_frames(&Stacks::read(&reader)?, changes, add).ok_or_else(|| unknown_key(&path))?;
        let places = frames.into_iter().map(|frame| draft.place(frame)).collect();
        Ok(Samples { path: from.join(&input.samples_file), places })
    }

    /// How many rows there are.
    fn count(&self) -> Result<usize, Error> {
        let reader = ColumnReader::open(&self.path)?;
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
        segment::read_rows(&self.path, self.places.len(), None, needed, |row| {
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

/// The new index of each frame.
fn add_frames(
    stacks: &Stacks,
    changes: Changes<'_>,
    mut intern: impl FnMut(u32, i32, u64) -> u32,
) -> Option<Vec<u32>> {
    let mut map: Vec<u32> = Vec::with_capacity(stacks.len());
    for at in 0..stacks.len() {
        let parent = match stacks.parents[at] {
            Node::NONE => Node::NONE,
            parent => map[parent as usize],
        };
        map.push(intern(parent, changes.image(stacks.images[at])?, stacks.offsets[at]));
    }
    Some(map)
}
