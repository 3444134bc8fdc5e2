//! Segment: two files that hold the samples of a span of time.
//!
//! | file | one row per | columns |
//! |---|---|---|
//! | `….CRC.stacks.parquet` | frame | `node`: its number; `parent`: that of its caller, −1 for none; `image`, `offset`: where the code is; `self_N` for each event N: samples of the frame itself over the whole segment |
//! | `….CRC.samples.parquet` | time bucket, label, event and frame | `time`: begin of the bucket; `label`, `event`, `node`, `count` |

use std::ops::Range;
use std::path::Path;

use super::columns::{Column, ColumnReader, Kind, Packing};
use super::{EventId, Node, UnixSeconds};
use storage::Error;

/// Name of the column with the samples of an event that fell into a frame itself.
pub(super) fn self_column(event: i32) -> String {
    format!("self_{event}")
}

/// The columns of the file with frames.
pub(super) fn stack_columns(events: impl Iterator<Item = i32>) -> Vec<Column> {
    let mut columns = vec![
        Column::new("node", Kind::Int, Packing::Delta),
        Column::new("parent", Kind::Int, Packing::Delta),
        Column::new("image", Kind::Int, Packing::Dictionary),
        Column::new("offset", Kind::Long, Packing::Dictionary),
    ];
    columns.extend(events.map(|event| Column::new(&self_column(event), Kind::Long, Packing::Dictionary)));
    columns
}

/// The columns of the file with samples.
pub(super) fn sample_columns() -> Vec<Column> {
    vec![
        Column::new("time", Kind::Time, Packing::Dictionary).with_bounds(),
        Column::new("label", Kind::Int, Packing::Dictionary),
        Column::new("event", Kind::Int, Packing::Dictionary),
        Column::new("node", Kind::Int, Packing::Delta),
        Column::new("count", Kind::Unsigned, Packing::Dictionary),
    ]
}

/// The frames of a segment, in columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Stacks {
    pub(super) parents: Vec<u32>,
    pub(super) images: Vec<i32>,
    pub(super) offsets: Vec<u64>,
}

impl Stacks {
    /// Reads them.
    pub(super) fn read(from: &ColumnReader) -> Result<Stacks, Error> {
        let (images, offsets) = (from.all_shorts("image")?, from.all_longs("offset")?);
        let parents: Vec<u32> = from.all_shorts("parent")?.into_iter().map(|parent| parent as u32).collect();
        if parents.iter().enumerate().any(|(at, &parent)| parent != Node::NONE && parent as usize >= at) {
            return Err(from.wrong("a frame comes before its caller"));
        }
        Ok(Stacks { parents, images, offsets: offsets.into_iter().map(|offset| offset as u64).collect() })
    }

    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }
}

/// The events that a file with frames has samples of.
pub(super) fn events(from: &ColumnReader) -> Vec<i32> {
    from.names().filter_map(|name| name.strip_prefix("self_")?.parse().ok()).collect()
}

/// The samples of an event in each frame itself, in the order of the frames; nothing if there are none.
pub(super) fn self_counts(from: &ColumnReader, event: EventId) -> Result<Vec<u64>, Error> {
    let name = i32::try_from(event.get()).map(self_column).unwrap_or_default();
    let counts = if from.names().any(|of| of == name) { from.all_longs(&name)? } else { Vec::new() };
    Ok(counts.into_iter().map(|count| count as u64).collect())
}

/// A number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Begin of the time bucket, in seconds since 1970.
    pub(super) time: i64,
    pub(super) label: i32,
    pub(super) event: i32,
    pub(super) node: u32,
    pub(super) count: u32,
}

impl Row {
    /// What tells it from all others, in the order of a row group: the samples of a frame, one time after the other,
    /// take a fifth less than the samples of a time, one frame after the other.
    pub(super) fn key(&self) -> (i32, i32, u32, i64) {
        (self.event, self.label, self.node, self.time)
    }
}

/// Which columns of samples are read besides frames, times and counts; the others are zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    pub(super) labels: bool,
    pub(super) events: bool,
}

impl Needed {
    pub(super) const ALL: Needed = Needed { labels: true, events: true };
}

/// Hands the samples of a file, which has no more than `most` bytes, to `each`, without those row groups that have nothing in `time`.
pub(super) fn read_rows(
    (path, most): (&Path, u64),
    nodes: usize,
    time: Option<&Range<UnixSeconds>>,
    needed: Needed,
    mut each: impl FnMut(Row) -> Result<(), Error>,
) -> Result<(), Error> {
    let from = ColumnReader::open(path, most)?;
    let (mut times, mut labels, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let (mut at, mut counts) = (Vec::new(), Vec::new());
    for group in 0..from.groups() {
        if let (Some(time), Some((least, greatest))) = (time, from.bounds(group, "time"))
            && (greatest < time.start.0.saturating_mul(1000) || least >= time.end.0.saturating_mul(1000))
        {
            continue;
        }
        times.clear();
        [&mut labels, &mut events, &mut at, &mut counts].into_iter().for_each(Vec::clear);
        from.longs(group, "time", &mut times)?;
        from.shorts(group, "node", &mut at)?;
        from.shorts(group, "count", &mut counts)?;
        for (name, is_needed, values) in
            [("label", needed.labels, &mut labels), ("event", needed.events, &mut events)]
        {
            if is_needed {
                from.shorts(group, name, values)?;
            } else {
                values.resize(times.len(), 0);
            }
        }
        for row in 0..times.len() {
            let node = at[row] as u32;
            if node as usize >= nodes {
                return Err(from.wrong("a sample lies in a frame that there is not"));
            }
            each(Row {
                time: times[row].div_euclid(1000),
                label: labels[row],
                event: events[row],
                node,
                count: counts[row] as u32,
            })?;
        }
    }
    Ok(())
}
