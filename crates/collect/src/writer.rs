//! Handing what was collected over to the database.

use crate::Collected;
use crate::legend::Legend;
use archive::{Batch, Books, Count, EpochId, EventId, Flushed, ImageId, LabelId, Offset, Store, UnixSeconds};
use std::collections::HashSet;
use storage::Error;

/// Positions that are remembered to have their names; others are given them again.
const MOST_NAMED: usize = 1 << 16;

/// Stores what was collected, and names that could not be found later with the first samples that need them.
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

    /// Stores `collected`. If that fails nothing has been stored, and it may be tried again.
    ///
    /// # Errors
    /// As for [`Store::flush`].
    pub fn write(
        &mut self,
        collected: &Collected,
        store: &mut Store,
        epoch: EpochId,
    ) -> Result<Flushed, Error> {
        let Legend { images, labels, .. } = &collected.legend;
        let images = images.iter().map(|image| store.image(image)).collect::<Result<Vec<_>, _>>()?;
        let labels = labels.iter().map(|label| store.label(label)).collect::<Result<Vec<_>, _>>()?;
        let events =
            collected.events.iter().map(|event| store.event(event.name())).collect::<Result<Vec<_>, _>>()?;
        let new = collected.legend.symbols(&images, |image, offset| self.named.contains(&(image, offset)));
        for (image, symbols) in &new {
            store.add_symbols(*image, symbols)?;
        }
        let batch = self.batch(collected, &images, &labels, &events);
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

    fn batch(
        &self,
        collected: &Collected,
        images: &[ImageId],
        labels: &[LabelId],
        events: &[EventId],
    ) -> Batch {
        let time = UnixSeconds(collected.start.0 - collected.start.0.rem_euclid(self.resolution));
        Batch {
            nodes: collected.frames.iter().map(|frame| frame.with(images)).collect(),
            counts: collected
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
                .zip(&collected.books)
                .map(|(&event, tally)| Books {
                    event,
                    start: collected.start,
                    length: collected.length,
                    expected: tally.expected,
                    stored: tally.stored,
                    unknown: tally.unknown,
                    lost: tally.lost(),
                    idle: tally.idle,
                    covered: storage::Nanos::new(tally.covered.0),
                    own_cpu: collected.own_cpu,
                    kernel_cpu: collected.kernel_cpu,
                    resident: collected.resident,
                    squares: tally.squares,
                })
                .collect(),
        }
    }
}
