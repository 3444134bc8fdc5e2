//! Query: which segments hold what is asked for, and what they say.
//!
//! A segment that is asked for as a whole is answered from its frames alone, which know their samples; of the others
//! the samples are read too. Segments are read by several threads and put together by one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use super::catalogue::{self, Segment};
use super::frames::{Frames, Positions};
use super::part::Part;
use super::{By, Database, EventId, Forest, Group, LabelId, Leaf, Node, Parts, Selection, Tree};
use storage::{Error, Nanos};

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
        let mut segments = database.read("segments", catalogue::segments)?;
        segments.retain(|segment| may_have(segment, selection));
        // The large ones first, so that the threads end together.
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.bytes));
        Ok(Query { selection, folder: catalogue::segments_folder(database.folder()), event, segments })
    }

    pub(super) fn resolution(&self) -> Option<Nanos> {
        self.segments.iter().map(|segment| segment.resolution).max()
    }

    pub(super) fn leaves(&self) -> Result<Vec<Leaf>, Error> {
        let mut positions = Positions::default();
        let mut sums: Vec<u64> = Vec::new();
        self.for_each(
            |part| Ok((part.leaves()?, part.stacks)),
            |(leaves, stacks)| {
                for (frame, count) in leaves {
                    let at = positions.intern(stacks.images[frame as usize], stacks.offsets[frame as usize]);
                    sums.resize(positions.len(), 0);
                    sums[at as usize] += count;
                }
            },
        )?;
        let leaf = |((image, offset), count)| Leaf { image, offset, count };
        Ok(positions.iter().zip(sums).map(leaf).collect())
    }

    pub(super) fn parts(&self, by: By) -> Result<Parts, Error> {
        let mut positions = Positions::default();
        let mut parts = Parts::default();
        self.for_each(
            |part| Ok((part.leaves_by(by)?, part.stacks)),
            |(groups, stacks)| {
                let mut known = vec![Node::NONE; stacks.len()];
                for (group, mut leaves) in groups {
                    for (frame, _) in &mut leaves {
                        let at = *frame as usize;
                        if known[at] == Node::NONE {
                            known[at] = positions.intern(stacks.images[at], stacks.offsets[at]);
                        }
                        *frame = known[at];
                    }
                    parts.groups.entry(group).or_default().append(&mut leaves);
                }
            },
        )?;
        parts.positions = positions.iter().collect();
        Ok(parts)
    }

    pub(super) fn tree(&self) -> Result<Tree, Error> {
        let mut growing = Growing::default();
        self.for_each(
            |part| Ok((part.leaves()?, part.stacks)),
            |(leaves, stacks)| drop(growing.add(&stacks, std::iter::once(&leaves))),
        )?;
        Ok(growing.finish())
    }

    pub(super) fn forest(&self, by: By) -> Result<Forest, Error> {
        let mut growing = Growing::default();
        let mut groups: BTreeMap<Group, Vec<(u32, u64)>> = BTreeMap::new();
        self.for_each(
            |part| Ok((part.leaves_by(by)?, part.stacks)),
            |(parts, stacks)| {
                let map = growing.add(&stacks, parts.iter().map(|(_, leaves)| leaves));
                for (group, leaves) in parts {
                    let of_group = groups.entry(group).or_default();
                    let sampled = leaves.into_iter().filter(|(_, count)| *count > 0);
                    of_group.extend(sampled.map(|(frame, count)| (map[frame as usize], count)));
                }
            },
        )?;
        Ok(Forest { tree: growing.finish(), groups })
    }

    pub(super) fn by_label(&self) -> Result<BTreeMap<LabelId, u64>, Error> {
        let mut labels: BTreeMap<LabelId, u64> = BTreeMap::new();
        self.for_each(
            |part| part.by_label(),
            |part| {
                for (label, count) in part {
                    *labels.entry(LabelId::new(i64::from(label))).or_default() += count;
                }
            },
        )?;
        Ok(labels)
    }

    /// Does `work` for each segment in several threads, and `fold`s what comes of it in this one.
    pub(super) fn for_each<T: Send>(
        &self,
        work: impl Fn(Part<'_>) -> Result<T, Error> + Sync,
        mut fold: impl FnMut(T),
    ) -> Result<(), Error> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(self.segments.len());
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (to, from) = sync_channel(threads);
            let mut started = 0;
            for _ in 0..threads {
                let (to, work, next) = (to.clone(), &work, &next);
                let thread = thread::Builder::new().spawn_scoped(scope, move || {
                    // A ticket for each segment; nothing else is published by it.
                    while let Some(segment) = self.segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let part = Part::new(self.selection, self.event, &self.folder, segment);
                        if to.send(part.and_then(work)).is_err() {
                            break; // another thread failed
                        }
                    }
                });
                started += usize::from(thread.is_ok());
            }
            drop(to);
            if started == 0 {
                return self.segments.iter().try_for_each(|segment| {
                    let part = Part::new(self.selection, self.event, &self.folder, segment);
                    fold(part.and_then(&work)?);
                    Ok(())
                });
            }
            from.into_iter().try_for_each(|result| {
                fold(result?);
                Ok(())
            })
        })
    }
}

/// A tree that gets the frames of one segment after the other.
#[derive(Default)]
pub(super) struct Growing {
    frames: Frames,
    sums: Vec<u64>,
}

impl Growing {
    /// Adds the frames of a segment that samples fell into, or into what they call; returns where each of its frames is.
    pub(super) fn add<'l>(
        &mut self,
        stacks: &super::segment::Stacks,
        leaves: impl Iterator<Item = &'l Vec<(u32, u64)>>,
    ) -> Vec<u32> {
        let mut counts = vec![0_u64; stacks.len()];
        leaves.flatten().for_each(|(frame, count)| counts[*frame as usize] += count);
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
            map[at] = self.frames.intern(parent, stacks.images[at], stacks.offsets[at]);
            self.sums.resize(self.frames.len(), 0);
            self.sums[map[at] as usize] += counts[at];
        }
        map
    }

    pub(super) fn finish(self) -> Tree {
        let (parents, places, positions) = self.frames.into_columns();
        Tree { positions: positions.iter().collect(), parents, places, counts: self.sums }
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
