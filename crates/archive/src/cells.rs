//! Cells: samples by machine, label and span of time at once, as a map over time shows them. They are added up while the segments are
//! read, so that there are never more of them than the map has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::part::Part;
use super::query::Query;
use super::{Database, ImageId, LabelId, MachineId, Selection, UnixSeconds};
use storage::Error;

/// Samples of one machine and label in one span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The machine.
    pub machine: MachineId,
    /// Who ran.
    pub label: LabelId,
    /// Where the span begins: a whole number of spans since 1970.
    pub time: UnixSeconds,
}

impl Database {
    /// Samples by machine, label and spans of this many `seconds`; those whose sampled instruction is in one of the images
    /// `without` are left out.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn cells(
        &self,
        selection: &Selection,
        seconds: i64,
        without: &BTreeSet<ImageId>,
    ) -> Result<BTreeMap<Cell, u64>, Error> {
        let seconds = seconds.max(1);
        self.again_if_missing(|| {
            let mut cells: BTreeMap<Cell, u64> = BTreeMap::new();
            Query::new(self, selection)?.for_each(
                |part| of_part(&part, seconds, without),
                |(machine, found)| {
                    for ((label, time), count) in found {
                        let (label, time) = (LabelId::new(i64::from(label)), UnixSeconds(time));
                        *cells.entry(Cell { machine, label, time }).or_default() += count;
                    }
                },
            )?;
            Ok(cells)
        })
    }

    /// A number that is another one whenever there are other samples: for those who keep answers.
    ///
    /// # Errors
    ///
    /// See [`machines`](Self::machines).
    pub fn revision(&self) -> Result<[i64; 3], Error> {
        self.read("segments", |from| {
            from.prepare("SELECT count(*), coalesce(max(id), 0), coalesce(sum(id), 0) FROM segments")?
                .query_row([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
        })
    }
}

type OfPart = (MachineId, HashMap<(i32, i64), u64>);

fn of_part(part: &Part<'_>, seconds: i64, without: &BTreeSet<ImageId>) -> Result<OfPart, Error> {
    let is_out = |image: &i32| without.contains(&ImageId::new(i64::from(*image)));
    let left_out: Vec<bool> = part.stacks.images.iter().map(is_out).collect();
    let mut found: HashMap<(i32, i64), u64> = HashMap::new();
    part.rows(true, |row| {
        if !left_out[row.node as usize] {
            let time = row.time - row.time.rem_euclid(seconds);
            *found.entry((row.label, time)).or_default() += u64::from(row.count);
        }
    })?;
    Ok((part.machine(), found))
}
