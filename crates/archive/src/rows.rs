//! Rows: all samples of a selection one by one, for those who put them into another store.

use std::collections::BTreeMap;

use super::part::Part;
use super::query::Query;
use super::{Books, Database, EpochId, LabelId, Selection, Tree, UnixSeconds, catalogue};
use storage::Error;

/// Samples of one time bucket, label and frame. Several rows may be alike but in `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Begin of the time bucket.
    pub time: UnixSeconds,
    /// Who ran.
    pub label: LabelId,
    /// Index of the sampled frame in the tree.
    pub frame: u32,
    /// How many samples.
    pub count: u64,
}

/// All samples of a selection, of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The frames; their counts are the sums over all rows.
    pub tree: Tree,
    /// The samples, in no order.
    pub rows: Vec<Sampled>,
}

impl Database {
    /// Samples of a selection one by one, of one event.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn rows(&self, selection: &Selection) -> Result<Rows, Error> {
        self.again_if_missing(|| {
            let (mut growing, mut rows) = (super::query::Growing::default(), Vec::new());
            Query::new(self, selection)?.for_each(
                |part| Ok((of_part(&part)?, part.stacks)),
                |(found, stacks)| {
                    let leaves: Vec<(u32, u64)> = found.iter().map(|row| (row.frame, row.count)).collect();
                    let map = growing.add(&stacks, std::iter::once(&leaves));
                    rows.extend(
                        found.into_iter().map(|row| Sampled { frame: map[row.frame as usize], ..row }),
                    );
                },
            )?;
            Ok(Rows { tree: growing.finish(), rows })
        })
    }

    /// What each epoch is called in every database that it is merged into.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn uids(&self) -> Result<BTreeMap<EpochId, String>, Error> {
        self.read("epochs", |from| {
            from.prepare("SELECT id, uid FROM epochs")?
                .query_map([], |row| Ok((EpochId::new(row.get(0)?), row.get(1)?)))?
                .collect()
        })
    }

    /// The books of all events and epochs, as they are at one moment.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn all_books(&self) -> Result<Vec<(EpochId, Books)>, Error> {
        let books = self.read("books", |from| catalogue::books(from, None, Selection::ALWAYS))?;
        Ok(books.into_iter().map(|(epoch, _, books)| (epoch, books)).collect())
    }
}

/// The samples of a segment; `frame` is the number of the frame there.
fn of_part(part: &Part<'_>) -> Result<Vec<Sampled>, Error> {
    let mut found = Vec::new();
    part.rows(true, |row| {
        if row.count > 0 {
            found.push(Sampled {
                time: UnixSeconds(row.time),
                label: LabelId::new(i64::from(row.label)),
                frame: row.node,
                count: u64::from(row.count),
            });
        }
    })?;
    Ok(found)
}
