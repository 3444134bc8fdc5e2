//! Query: which segments hold what is asked for, and what they say.
//!
//! A segment that is asked for as a whole is answered from its frames alone, which know their samples; of the others
//! the samples are read too. Segments are read by several threads and put together by one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use super::catalogue::{self, Segment};
use super::columns::ColumnReader;
use super::frames::Frames;
use super::segment::{self, Row, Stacks};
use super::{
    By, Database, EventId, Group, ImageId, LabelId, Leaf, Node, Offset, Selection, Tree, UnixSeconds,
};
use crate::Error;

/// A selection, and the segments it is about.
pub(super) struct Query<'a> {
    selection: &'a Selection,
    folder: PathBuf,
    event: EventId,
    segments: Vec<Segment>,
}

impl<'a> Query<'a> {
    pub(super) fn new(database: &Database, selection: &'a Selection) -> Result<Query<'a>, Error> {
        let event = database.event(selection)?.unwrap_or(EventId::new(0));
        let mut segments = database.read(catalogue::segments)?;
        segments.retain(|segment| may_have(segment, selection));
        // The large ones first, so that the threads end together.
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.bytes));
        Ok(Query { selection, folder: catalogue::segments_folder(database.folder()), event, segments })
    }

    pub(super) fn leaves(&self) -> Result<Vec<Leaf>, Error> {
        let mut sums = Sums::default();
        self.for_each(
            |part| {
                let counts = part.counts()?;
                part.leaves_of(&counts)
            },
            |_, leaves| leaves.iter().for_each(|leaf| sums.add(Node::NONE, leaf)),
        )?;
        Ok(sums.leaves().map(|(_, leaf)| leaf).collect())
    }

    pub(super) fn leaves_by(&self, by: By) -> Result<BTreeMap<Group, Vec<Leaf>>, Error> {
        let mut groups: BTreeMap<Group, u32> = BTreeMap::new();
        let mut sums = Sums::default();
        self.for_each(
            |part| part.leaves_by(by),
            |_, parts| {
                for (group, leaves) in parts {
                    let next = groups.len() as u32;
                    let index = *groups.entry(group).or_insert(next);
                    leaves.iter().for_each(|leaf| sums.add(index, leaf));
                }
            },
        )?;
        let names: HashMap<u32, Group> = groups.into_iter().map(|(group, index)| (index, group)).collect();
        let mut by: BTreeMap<Group, Vec<Leaf>> = BTreeMap::new();
        for (index, leaf) in sums.leaves() {
            by.entry(names[&index]).or_default().push(leaf);
        }
        Ok(by)
    }

    pub(super) fn tree(&self) -> Result<Tree, Error> {
        let mut frames = Frames::default();
        let mut sums: Vec<u64> = Vec::new();
        self.for_each(
            |part| {
                let mut counts = part.counts()?;
                let stacks = part.open(Stacks::read)?;
                counts.resize(stacks.len(), 0);
                part.clear_other_images(&stacks.images, &mut counts);
                Ok((stacks, counts))
            },
            |_, (stacks, counts)| {
                // Frames without samples, themselves or in what they call, are left out.
                let mut used: Vec<bool> = counts.iter().map(|&count| count > 0).collect();
                for at in (0..used.len()).rev() {
                    if used[at] && stacks.parents[at] != Node::NONE {
                        used[stacks.parents[at] as usize] = true;
                    }
                }
                let mut map = vec![Node::NONE; used.len()];
                for at in (0..used.len()).filter(|&at| used[at]) {
                    let parent = match stacks.parents[at] {
                        Node::NONE => Node::NONE,
                        parent => map[parent as usize],
                    };
                    map[at] = frames.intern(parent, stacks.images[at], stacks.offsets[at]);
                    sums.resize(frames.len(), 0);
                    sums[map[at] as usize] += counts[at];
                }
            },
        )?;
        let nodes = (0..frames.len())
            .map(|at| Node {
                parent: frames.parent(at),
                image: ImageId::new(i64::from(frames.image(at))),
                offset: Offset(frames.offset(at)),
            })
            .collect();
        Ok(Tree { nodes, counts: sums })
    }

    pub(super) fn by_label(&self) -> Result<BTreeMap<LabelId, u64>, Error> {
        let mut labels: BTreeMap<LabelId, u64> = BTreeMap::new();
        self.for_each(
            |part| {
                let wanted = part.wanted_nodes()?;
                let mut labels: HashMap<i32, u64> = HashMap::new();
                part.rows(|row| {
                    if wanted.as_ref().is_none_or(|wanted| wanted[row.node as usize]) {
                        *labels.entry(row.label).or_default() += u64::from(row.count);
                    }
                })?;
                Ok(labels)
            },
            |_, part| {
                for (label, count) in part {
                    *labels.entry(LabelId::new(i64::from(label))).or_default() += count;
                }
            },
        )?;
        Ok(labels)
    }

    /// Does `work` for each segment in several threads, and `fold`s what comes of it in this one.
    fn for_each<T: Send>(
        &self,
        work: impl Fn(&Part<'_>) -> Result<T, Error> + Sync,
        mut fold: impl FnMut(&Segment, T),
    ) -> Result<(), Error> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(self.segments.len());
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (to, from) = sync_channel(threads);
            for _ in 0..threads {
                let (to, work, next) = (to.clone(), &work, &next);
                scope.spawn(move || {
                    // A ticket for each segment; nothing else is published by it.
                    while let Some(segment) = self.segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let part = Part { query: self, segment };
                        if to.send((segment, work(&part))).is_err() {
                            break; // somebody else failed
                        }
                    }
                });
            }
            drop(to);
            from.into_iter().try_for_each(|(segment, result)| {
                fold(segment, result?);
                Ok(())
            })
        })
    }
}

/// Whether the catalogue leaves open that a segment has something of a selection.
fn may_have(segment: &Segment, selection: &Selection) -> bool {
    fn any<T: Copy + Eq>(wanted: &Option<Vec<T>>, of: T) -> bool {
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&of))
    }
    let listed = |list: &str, mut wanted: Box<dyn Iterator<Item = i64> + '_>| {
        let keys = catalogue::keys(list);
        wanted.any(|key| keys.contains(&key))
    };
    let labels = selection.labels.as_ref();
    let images = selection.images.as_ref();
    any(&selection.machines, segment.machine)
        && any(&selection.epochs, segment.epoch)
        && selection.time.as_ref().is_none_or(|time| segment.begin < time.end && segment.last >= time.start)
        && labels.is_none_or(|of| listed(&segment.labels, Box::new(of.iter().map(|label| label.get()))))
        && images.is_none_or(|of| listed(&segment.images, Box::new(of.iter().map(|image| image.get()))))
}

/// One segment of a query.
struct Part<'a> {
    query: &'a Query<'a>,
    segment: &'a Segment,
}

impl Part<'_> {
    fn path(&self, file: &str) -> PathBuf {
        self.query.folder.join(file)
    }

    fn open<T>(&self, read: impl FnOnce(&ColumnReader<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let path = self.path(&self.segment.stacks_file);
        read(&ColumnReader::open(&path)?)
    }

    /// Whether all its samples are asked for, as far as time and labels go.
    fn is_whole(&self) -> bool {
        let (segment, selection) = (self.segment, self.query.selection);
        let in_time = |time: &std::ops::Range<UnixSeconds>| {
            time.contains(&segment.begin) && time.contains(&segment.last)
        };
        let labelled = |labels: &Vec<LabelId>| {
            catalogue::keys(&segment.labels).iter().all(|&key| labels.contains(&LabelId::new(key)))
        };
        selection.time.as_ref().is_none_or(in_time) && selection.labels.as_ref().is_none_or(labelled)
    }

    /// Samples of the frames themselves, whatever their images; there may be less of them than frames.
    fn counts(&self) -> Result<Vec<u64>, Error> {
        if self.is_whole() {
            return self.open(|stacks| segment::self_counts(stacks, self.query.event));
        }
        let mut counts = Vec::new();
        self.rows(|row| add(&mut counts, &row))?;
        Ok(counts)
    }

    /// The positions of frames with samples, kept apart; a group may come several times.
    fn leaves_by(&self, by: By) -> Result<Vec<(Group, Vec<Leaf>)>, Error> {
        let span_of = |time: i64, length: i64| UnixSeconds(time.div_euclid(length.max(1)) * length.max(1));
        let whole = match by {
            By::Epoch => Some(Group::Epoch(self.segment.epoch)),
            By::Machine => Some(Group::Machine(self.segment.machine)),
            By::Label => None,
            By::Time(length) => {
                let of = span_of(self.segment.begin.0, length);
                (of == span_of(self.segment.last.0, length)).then_some(Group::Time(of))
            }
        };
        if let Some(group) = whole {
            return Ok(vec![(group, self.leaves_of(&self.counts()?)?)]);
        }
        let positions = self.positions()?;
        let mut groups: HashMap<Group, Vec<Leaf>> = HashMap::new();
        // Rows of a group are neighbours: one list of counts serves them all, one after the other.
        let mut counts = vec![0_u64; positions.images.len()];
        let (mut touched, mut of): (Vec<u32>, Option<Group>) = (Vec::new(), None);
        let mut settle = |of: Option<Group>, counts: &mut [u64], touched: &mut Vec<u32>| {
            if let Some(of) = of {
                let leaf = |at: u32| positions.leaf(at as usize, std::mem::take(&mut counts[at as usize]));
                groups.entry(of).or_default().extend(touched.drain(..).filter_map(leaf));
            }
        };
        self.rows(|row| {
            let group = match by {
                By::Time(length) => Group::Time(span_of(row.time, length)),
                _ => Group::Label(LabelId::new(i64::from(row.label))),
            };
            if of != Some(group) {
                settle(of.replace(group), &mut counts, &mut touched);
            }
            let count = &mut counts[row.node as usize];
            if *count == 0 {
                touched.push(row.node);
            }
            *count += u64::from(row.count);
        })?;
        settle(of, &mut counts, &mut touched);
        Ok(groups.into_iter().collect())
    }

    /// Hands on the samples of the event, time and labels that are asked for.
    fn rows(&self, mut each: impl FnMut(Row)) -> Result<(), Error> {
        let selection = self.query.selection;
        let labels: Option<HashSet<i64>> =
            selection.labels.as_ref().map(|labels| labels.iter().map(|label| label.get()).collect());
        let time = selection.time.as_ref();
        let path = self.path(&self.segment.samples_file);
        segment::read_rows(&path, self.nodes()?, time, |row| {
            if i64::from(row.event) == self.query.event.get()
                && time.is_none_or(|time| time.contains(&UnixSeconds(row.time)))
                && labels.as_ref().is_none_or(|labels| labels.contains(&i64::from(row.label)))
            {
                each(row);
            }
            Ok(())
        })
    }

    fn nodes(&self) -> Result<usize, Error> {
        self.open(|stacks| Ok((0..stacks.groups()).map(|group| stacks.rows(group)).sum()))
    }

    /// Whether each frame lies in one of the images that are asked for.
    fn wanted_nodes(&self) -> Result<Option<Vec<bool>>, Error> {
        let Some(wanted) = &self.query.selection.images else { return Ok(None) };
        let images = self.open(|stacks| column(stacks, "image"))?;
        Ok(Some(images.iter().map(|&image| wanted.contains(&ImageId::new(i64::from(image)))).collect()))
    }

    fn clear_other_images(&self, images: &[i32], counts: &mut [u64]) {
        if let Some(wanted) = &self.query.selection.images {
            for (count, &image) in counts.iter_mut().zip(images) {
                if !wanted.contains(&ImageId::new(i64::from(image))) {
                    *count = 0;
                }
            }
        }
    }

    /// The positions of frames with samples.
    fn leaves_of(&self, counts: &[u64]) -> Result<Vec<Leaf>, Error> {
        let positions = self.positions()?;
        Ok(counts.iter().enumerate().filter_map(|(at, &count)| positions.leaf(at, count)).collect())
    }

    fn positions(&self) -> Result<Positions<'_>, Error> {
        self.open(|stacks| {
            let mut offsets = Vec::new();
            for group in 0..stacks.groups() {
                stacks.longs(group, "offset", &mut offsets)?;
            }
            let wanted = self.query.selection.images.as_deref();
            Ok(Positions { images: column(stacks, "image")?, offsets, wanted })
        })
    }
}

/// Where the frames of a segment are.
struct Positions<'a> {
    images: Vec<i32>,
    offsets: Vec<i64>,
    wanted: Option<&'a [ImageId]>,
}

impl Positions<'_> {
    /// The samples of a frame, if there are any and its image is asked for.
    fn leaf(&self, at: usize, count: u64) -> Option<Leaf> {
        let image = ImageId::new(i64::from(*self.images.get(at)?));
        let wanted = count > 0 && self.wanted.is_none_or(|wanted| wanted.contains(&image));
        wanted.then(|| Leaf { image, offset: Offset(self.offsets[at] as u64), count })
    }
}

fn column(from: &ColumnReader<'_>, name: &str) -> Result<Vec<i32>, Error> {
    let mut values = Vec::new();
    for group in 0..from.groups() {
        from.shorts(group, name, &mut values)?;
    }
    Ok(values)
}

fn add(counts: &mut Vec<u64>, row: &Row) {
    let node = row.node as usize;
    if counts.len() <= node {
        counts.resize(node + 1, 0);
    }
    counts[node] += u64::from(row.count);
}

/// Samples by group and position.
#[derive(Default)]
struct Sums {
    /// A position is a frame whose caller is the group.
    positions: Frames,
    counts: Vec<u64>,
}

impl Sums {
    fn add(&mut self, group: u32, leaf: &Leaf) {
        let image = i32::try_from(leaf.image.get()).unwrap_or(i32::MAX);
        let at = self.positions.intern(group, image, leaf.offset.0) as usize;
        self.counts.resize(self.positions.len(), 0);
        self.counts[at] += leaf.count;
    }

    fn leaves(&self) -> impl Iterator<Item = (u32, Leaf)> {
        let positions = &self.positions;
        (0..positions.len()).map(|at| {
            let image = ImageId::new(i64::from(positions.image(at)));
            (
                positions.parent(at),
                Leaf { image, offset: Offset(positions.offset(at)), count: self.counts[at] },
            )
        })
    }
}
