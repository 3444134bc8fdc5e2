//! Part: one segment of a query.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::catalogue::{self, Segment};
use super::columns::{ColumnReader, wrong};
use super::segment::{self, Needed, Row, Stacks};
use super::{By, EventId, Group, ImageId, LabelId, MachineId, Selection, UnixSeconds};
use storage::Error;

/// Samples of frames, by the number of the frame in its segment. A frame may come several times.
pub(super) type Leaves = Vec<(u32, u64)>;

/// No segment has samples of a longer time, in seconds: those of a day are merged, and no others.
const LONGEST: i64 = 7 * 86_400;

/// What a query wants of a segment.
pub(super) struct Part<'a> {
    selection: &'a Selection,
    event: EventId,
    folder: &'a Path,
    segment: &'a Segment,
    reader: ColumnReader,
    /// The frames of the segment.
    pub(super) stacks: Stacks,
    /// Whether samples of each of the frames are asked for, if they are not all.
    wanted: Option<Vec<bool>>,
    /// Whether there are samples of other events.
    has_others: bool,
}

impl<'a> Part<'a> {
    pub(super) fn new(
        selection: &'a Selection,
        event: EventId,
        folder: &'a Path,
        segment: &'a Segment,
    ) -> Result<Part<'a>, Error> {
        let reader = ColumnReader::open(&folder.join(&segment.stacks_file), segment.bytes)?;
        let stacks = Stacks::read(&reader)?;
        let is_in = |images: &Vec<ImageId>| {
            let images: HashSet<i64> = images.iter().map(|image| image.get()).collect();
            stacks.images.iter().map(|&image| images.contains(&i64::from(image))).collect()
        };
        let wanted = selection.images.as_ref().map(is_in);
        let has_others = segment::events(&reader).iter().any(|&of| i64::from(of) != event.get());
        Ok(Part { selection, event, folder, segment, reader, stacks, wanted, has_others })
    }

    /// Samples of the frames themselves.
    pub(super) fn leaves(&self) -> Result<Leaves, Error> {
        if self.is_whole() {
            return Ok(self.in_order(&segment::self_counts(&self.reader, self.event)?));
        }
        let mut counts = vec![0_u64; self.stacks.len()];
        self.rows(false, |row| counts[row.node as usize] += u64::from(row.count))?;
        Ok(self.in_order(&counts))
    }

    fn in_order(&self, counts: &[u64]) -> Leaves {
        let all = (0_u32..).zip(counts.iter().copied());
        all.filter(|&(frame, count)| count > 0 && self.wants(frame)).collect()
    }

    /// The same, kept apart. A group may come several times.
    pub(super) fn leaves_by(&self, by: By) -> Result<Vec<(Group, Leaves)>, Error> {
        match by {
            By::Epoch => Ok(vec![(Group::Epoch(self.segment.epoch), self.leaves()?)]),
            By::Machine => Ok(vec![(Group::Machine(self.segment.machine), self.leaves()?)]),
            By::Label | By::LabelAndEpoch => {
                let group = |label: i32| match (by, LabelId::new(i64::from(label))) {
                    (By::LabelAndEpoch, label) => Group::LabelAndEpoch(label, self.segment.epoch),
                    (_, label) => Group::Label(label),
                };
                // Rows of a label are neighbours.
                let mut groups: Vec<(Group, Leaves)> = Vec::new();
                let mut before = None;
                self.rows(true, |row| {
                    if before.replace(row.label) != Some(row.label) {
                        groups.push((group(row.label), Vec::new()));
                    }
                    if let Some((_, leaves)) = groups.last_mut() {
                        add(leaves, &row);
                    }
                })?;
                Ok(groups)
            }
            By::Time(length) => {
                let length = length.max(1);
                let Segment { begin: UnixSeconds(begin), last: UnixSeconds(last), .. } = *self.segment;
                let first = begin.div_euclid(length);
                let group = |nth: i64| Group::Time(UnixSeconds((first + nth) * length));
                if first == last.div_euclid(length) {
                    return Ok(vec![(group(0), self.leaves()?)]);
                }
                let samples = self.folder.join(&self.segment.samples_file);
                if !(0..=LONGEST).contains(&last.saturating_sub(begin)) {
                    return Err(wrong(&samples, "it has the samples of more than a week"));
                }
                let mut groups: Vec<Leaves> = Vec::new();
                let mut all_inside = true;
                self.rows(false, |row| {
                    all_inside &= (begin..=last).contains(&row.time);
                    let nth = (row.time.clamp(begin, last).div_euclid(length) - first) as usize;
                    if groups.len() <= nth {
                        groups.resize_with(nth + 1, Vec::new);
                    }
                    add(&mut groups[nth], &row);
                })?;
                if !all_inside {
                    return Err(wrong(&samples, "it has samples of other times than its catalogue says"));
                }
                Ok((0..).map(group).zip(groups).collect())
            }
        }
    }

    /// Samples of each label.
    pub(super) fn by_label(&self) -> Result<HashMap<i32, u64>, Error> {
        let mut labels: HashMap<i32, u64> = HashMap::new();
        self.rows(true, |row| *labels.entry(row.label).or_default() += u64::from(row.count))?;
        Ok(labels)
    }

    /// Whether all its samples are asked for, as far as time, labels and conditions go.
    fn is_whole(&self) -> bool {
        let (segment, selection) = (self.segment, self.selection);
        let in_time = |time: &std::ops::Range<UnixSeconds>| {
            time.contains(&segment.begin) && time.contains(&segment.last)
        };
        let labelled = |labels: &Vec<LabelId>| {
            let labels: HashSet<i64> = labels.iter().map(|label| label.get()).collect();
            catalogue::keys(&segment.labels).iter().all(|key| labels.contains(key))
        };
        selection.time.as_ref().is_none_or(in_time)
            && selection.labels.as_ref().is_none_or(labelled)
            && selection.condition.is_none()
    }

    fn wants(&self, frame: u32) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted[frame as usize])
    }

    /// The machine that it is of.
    pub(super) fn machine(&self) -> MachineId {
        self.segment.machine
    }

    /// Hands on the samples that are asked for; their labels only `with_labels`.
    pub(super) fn rows(&self, with_labels: bool, mut each: impl FnMut(Row)) -> Result<(), Error> {
        let labels: Option<HashSet<i64>> =
            self.selection.labels.as_ref().map(|labels| labels.iter().map(|label| label.get()).collect());
        let time = self.selection.time.as_ref();
        let condition = self.selection.condition.as_ref();
        let mut known: HashMap<(i32, i32), bool> = HashMap::new();
        let mut holds = |row: &Row| {
            let Some(condition) = condition else { return true };
            let image = self.stacks.images[row.node as usize];
            *known.entry((row.label, image)).or_insert_with(|| {
                let (label, image) = (LabelId::new(i64::from(row.label)), ImageId::new(i64::from(image)));
                condition.holds(self.segment.epoch, label, image)
            })
        };
        let with_labels = with_labels || labels.is_some() || condition.is_some();
        let needed = Needed { labels: with_labels, events: self.has_others };
        let samples = self.folder.join(&self.segment.samples_file);
        segment::read_rows((&samples, self.segment.bytes), self.stacks.len(), time, needed, |row| {
            if (!needed.events || i64::from(row.event) == self.event.get())
                && time.is_none_or(|time| time.contains(&UnixSeconds(row.time)))
                && labels.as_ref().is_none_or(|labels| labels.contains(&i64::from(row.label)))
                && self.wants(row.node)
                && holds(&row)
            {
                each(row);
            }
            Ok(())
        })
    }
}

/// Adds samples to those of a group; those of a frame are neighbours, mostly.
fn add(leaves: &mut Leaves, row: &Row) {
    match leaves.last_mut() {
        Some((frame, count)) if *frame == row.node => *count += u64::from(row.count),
        _ => leaves.push((row.node, u64::from(row.count))),
    }
}
