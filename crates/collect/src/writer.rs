//! Handing a cut over to the database.

use crate::Cut;
use crate::legend::{Legend, Named};
use crate::stacks::Stacks;
use archive::{
    Batch, Books, Count, EpochId, EventId, Flushed, ImageId, LabelId, Node, Offset, Store, Symbol,
    UnixSeconds,
};
use std::collections::{BTreeMap, HashSet};
use storage::Error;

/// Positions that are remembered to have their names; others are given them again.
const MOST_NAMED: usize = 1 << 16;

/// Stores cuts, and names that could not be found later with the first cut that needs them.
#[derive(Debug)]
pub struct Writer {
    /// Length of a time bucket, in seconds.
    resolution: i64,
    /// Positions that have their names.
    named: HashSet<(ImageId, Offset)>,
}

impl Writer {
    /// `resolution`: length of a time bucket, in seconds.
    pub fn new(resolution: i64) -> Self {
        Self { resolution: resolution.max(1), named: HashSet::new() }
    }

    /// Stores `cut`. If that fails nothing has been stored, and it may be tried again.
    ///
    /// # Errors
    /// As for [`Store::flush`].
    pub fn write(&mut self, cut: &Cut, store: &mut Store, epoch: EpochId) -> Result<Flushed, Error> {
        let Legend { images, labels, .. } = &cut.legend;
        let images = images.iter().map(|image| store.image(image)).collect::<Result<Vec<_>, _>>()?;
        let labels = labels.iter().map(|label| store.label(label)).collect::<Result<Vec<_>, _>>()?;
        let events =
            cut.events.iter().map(|event| store.event(event.name())).collect::<Result<Vec<_>, _>>()?;
        let new = self.unnamed(cut, &images);
        for (image, symbols) in &new {
            store.add_symbols(*image, symbols)?;
        }
        let batch = self.batch(cut, &images, &labels, &events);
        let flushed = store.flush(epoch, &batch)?;
        if self.named.len() > MOST_NAMED {
            self.named.clear();
        }
        for (image, symbols) in new {
            self.named.extend(symbols.into_iter().map(|(offset, _)| (image, offset)));
        }
        Ok(flushed)
    }

    /// The database may have forgotten names that were no longer needed.
    pub fn forget_names(&mut self) {
        self.named.clear();
    }

    fn batch(&self, cut: &Cut, images: &[ImageId], labels: &[LabelId], events: &[EventId]) -> Batch {
        let time = UnixSeconds(cut.start.0 - cut.start.0.rem_euclid(self.resolution));
        Batch {
            nodes: cut
                .frames
                .iter()
                .map(|frame| Node {
                    parent: if frame.parent == Stacks::ROOT { Node::NONE } else { frame.parent },
                    image: images[frame.image.0 as usize],
                    offset: Offset(frame.offset),
                })
                .collect(),
            counts: cut
                .counts
                .iter()
                .map(|counted| Count {
                    time,
                    label: labels[counted.label.0 as usize],
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
                    covered: storage::Nanos::new(tally.covered.0),
                    own_cpu: cut.own_cpu,
                    kernel_cpu: cut.kernel_cpu,
                    resident: cut.resident,
                })
                .collect(),
        }
    }

    /// Names that have not been stored.
    fn unnamed(&self, cut: &Cut, images: &[ImageId]) -> BTreeMap<ImageId, Vec<(Offset, Vec<Symbol>)>> {
        let mut new: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &Named { image, offset, function } in &cut.legend.named {
            let (image, offset) = (images[image.0 as usize], Offset(offset));
            if !self.named.contains(&(image, offset)) {
                let function = cut.legend.functions[function as usize].as_str().into();
                let symbol = Symbol { function, ..Symbol::default() };
                new.entry(image).or_default().push((offset, vec![symbol]));
            }
        }
        new
    }
}
