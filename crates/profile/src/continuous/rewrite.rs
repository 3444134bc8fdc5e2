//! Rewriting: several segments become one, or one another.

use std::collections::HashMap;
use std::path::Path;

use super::EventId;
use super::Node;
use super::catalogue::Segment;
use super::columns::ColumnReader;
use super::draft::{Draft, Outline, Unfinished, Written};
use super::segment::{self, Row, Stacks};
use super::steps::Steps;
use crate::Error;

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

/// Writes the samples of the first few of `inputs` (files in `from`) as one segment in `to`, and says how many they
/// were: one at least, and as many more as fit into memory.
pub(super) fn rewrite(
    from: &Path,
    inputs: &[Segment],
    changes: Changes<'_>,
    to: &Path,
    steps: &mut Steps,
) -> Result<(usize, Written, Unfinished), Error> {
    let mut outline = Outline::default();
    let mut used = 0;
    for input in inputs {
        let before = outline.frames.len();
        let path = from.join(&input.stacks_file);
        let reader = ColumnReader::open(&path)?;
        let unknown = || reader.wrong("it has a key that its catalogue does not know");
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
    }
    let inputs = &inputs[..used];
    let mut draft =
        Draft::new(to, outline, inputs.iter().map(|input| input.begin).min().unwrap_or_default(), steps)?;
    let mut hour = None;
    for input in inputs {
        let of = input.begin.0.div_euclid(3600);
        if hour.replace(of).is_some_and(|before| before != of) {
            draft.pause()?;
        }
        let path = from.join(&input.stacks_file);
        let stacks = Stacks::read(&ColumnReader::open(&path)?)?;
        let map = add_frames(&stacks, changes, |parent, image, offset| draft.frame(parent, image, offset));
        let path = from.join(&input.samples_file);
        let unknown = || Error::DamagedSegment {
            path: path.clone(),
            detail: "it has a key that its catalogue does not know".to_owned(),
        };
        let map = map.ok_or_else(unknown)?;
        segment::read_rows(&path, map.len(), None, |row| {
            draft.push(Row {
                time: changes.time(row.time),
                label: changes.label(row.label).ok_or_else(unknown)?,
                event: changes.event(row.event).ok_or_else(unknown)?,
                node: map[row.node as usize],
                count: row.count,
            })
        })?;
    }
    let (written, files) = draft.finish()?;
    Ok((used, written, files))
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
