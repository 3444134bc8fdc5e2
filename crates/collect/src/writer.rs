//! Handing a cut over to the database.

use crate::collector::Names;
use crate::images::ImageIndex;
use crate::labels::LabelIndex;
use crate::stacks::Stacks;
use crate::{Collector, Cut};
use profile::Error;
use profile::continuous::{
    Batch, Books, Count, EpochId, Flushed, ImageId, ImageKind, LabelId, Node, Offset, Store, Symbol,
    UnixSeconds,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Stores cuts, and names that nobody could find later with the first cut that needs them.
#[derive(Debug)]
pub struct Writer {
    /// Length of a time bucket, in seconds.
    resolution: i64,
    /// Positions that have their names.
    named: HashSet<(ImageIndex, u64)>,
}

impl Writer {
    /// `resolution`: length of a time bucket, in seconds.
    pub fn new(resolution: i64) -> Self {
        Self { resolution: resolution.max(1), named: HashSet::new() }
    }

    /// Stores `cut`, which `collector` has made. If that fails nothing has been stored, and it may be tried again.
    ///
    /// # Errors
    /// As for [`Store::flush`].
    pub fn write(
        &mut self,
        collector: &Collector,
        cut: &Cut,
        store: &mut Store,
        epoch: EpochId,
    ) -> Result<Flushed, Error> {
        let names = collector.names();
        let images = keys(cut.frames.iter().map(|frame| frame.image), |image: ImageIndex| {
            store.image(names.images.get(image))
        })?;
        let labels = keys(cut.counts.iter().map(|counted| counted.label), |label: LabelIndex| {
            store.label(names.labels.get(label))
        })?;
        let mut events = Vec::new();
        for source in names.sources {
            events.push(store.event(source.name())?);
        }
        let new = self.unnamed(cut, &names, &images);
        for (image, symbols) in &new.symbols {
            store.add_symbols(*image, symbols)?;
        }
        let batch = self.batch(cut, &images, &labels, &events);
        let flushed = store.flush(epoch, &batch)?;
        self.named.extend(new.positions);
        Ok(flushed)
    }

    /// The database may have forgotten names that nobody needed any more.
    pub fn forget_names(&mut self) {
        self.named.clear();
    }

    fn batch(
        &self,
        cut: &Cut,
        images: &HashMap<ImageIndex, ImageId>,
        labels: &HashMap<LabelIndex, LabelId>,
        events: &[profile::continuous::EventId],
    ) -> Batch {
        let time = UnixSeconds(cut.start.0 - cut.start.0.rem_euclid(self.resolution));
        Batch {
            nodes: cut
                .frames
                .iter()
                .map(|frame| Node {
                    parent: if frame.parent == Stacks::ROOT { Node::NONE } else { frame.parent },
                    image: images[&frame.image],
                    offset: Offset(frame.offset),
                })
                .collect(),
            counts: cut
                .counts
                .iter()
                .map(|counted| Count {
                    time,
                    label: labels[&counted.label],
                    event: events[counted.event as usize],
                    node: counted.node,
                    count: counted.count,
                })
                .collect(),
            books: events
                .iter()
                .zip(&cut.books)
                .map(|(&event, tally)| Books {
                    event,
                    start: cut.start,
                    length: cut.length,
                    expected: tally.expected,
                    stored: tally.stored,
                    unknown: tally.unknown,
                    lost: tally.lost(),
                    idle: tally.idle,
                    covered: profile::Nanos::new(cut.length.get() * u64::from(cut.cpus)),
                    own_cpu: cut.own_cpu,
                    kernel_cpu: cut.kernel_cpu,
                    resident: cut.resident,
                })
                .collect(),
        }
    }

    fn unnamed(&self, cut: &Cut, names: &Names<'_>, images: &HashMap<ImageIndex, ImageId>) -> New {
        let mut new = New::default();
        for frame in &cut.frames {
            let position = (frame.image, frame.offset);
            let function = match names.images.get(frame.image).kind {
                ImageKind::Kernel => names.kernel.name(frame.image, frame.offset),
                ImageKind::Generated => names.generated.name(frame.image, frame.offset),
                _ => continue,
            };
            let Some(function) = function else { continue };
            if !self.named.contains(&position) && new.positions.insert(position) {
                let symbol = Symbol { function: function.to_owned(), file: String::new(), line: 0 };
                let of_image = new.symbols.entry(images[&frame.image]).or_default();
                of_image.push((Offset(frame.offset), vec![symbol]));
            }
        }
        new
    }
}

/// Names that are stored for the first time.
#[derive(Debug, Default)]
struct New {
    positions: HashSet<(ImageIndex, u64)>,
    symbols: BTreeMap<ImageId, Vec<(Offset, Vec<Symbol>)>>,
}

/// The database's key of each number.
fn keys<I: Copy + Eq + std::hash::Hash, K>(
    numbers: impl Iterator<Item = I>,
    mut key: impl FnMut(I) -> Result<K, Error>,
) -> Result<HashMap<I, K>, Error> {
    let mut keys = HashMap::new();
    for number in numbers {
        if let std::collections::hash_map::Entry::Vacant(vacant) = keys.entry(number) {
            vacant.insert(key(number)?);
        }
    }
    Ok(keys)
}
