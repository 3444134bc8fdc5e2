//! Handing a cut over to the database.

use crate::Cut;
use crate::legend::Legend;
use archive::{Batch, Books, Count, EpochId, EventId, Flushed, ImageId, LabelId, Offset, Store, UnixSeconds};
use std::collections::HashSet;
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
        let new = cut.legend.symbols(&images, |image, offset| self.named.contains(&(image, offset)));
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
            nodes: cut.frames.iter().map(|frame| frame.with(images)).collect(),
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
}
