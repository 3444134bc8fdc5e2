//! Batch: samples of a local database as the fleet knows them, an hour or another span of an epoch.

use crate::code::build_of;
use crate::error::Error;
use crate::hour::Hour;
use crate::ran::Ran;
use crate::stack_hash::{self, StackHash};
use archive::{
    Books, CodeImage, CollectorEpoch, Database, EpochId, EventId, ImageId, Label, LabelId, MachineInfo,
    Position, Selection, Setting, Tree, UnixSeconds,
};
use profile::Nanos;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// A collector that runs has flushed what is older than this, in seconds, and than its last books.
const SLACK: i64 = 120;

/// An epoch of a local database.
pub struct LocalEpoch {
    /// What it is called everywhere.
    pub uid: String,
    /// What the database says of it.
    pub epoch: CollectorEpoch,
    /// Its machine.
    pub machine: MachineInfo,
    /// All books, oldest first.
    pub books: Vec<(EventId, Books)>,
    /// The hours that have samples or books and are over.
    pub hours: BTreeSet<Hour>,
    /// When the hours are over that are: everything before it is complete.
    pub until: UnixSeconds,
}

/// What a local database has, as it is at one moment.
pub struct Local {
    /// The epochs, by uid.
    pub epochs: Vec<LocalEpoch>,
    /// The events.
    pub events: BTreeMap<EventId, String>,
    /// Who ran.
    pub labels: BTreeMap<LabelId, Label>,
    /// Files that samples fall into.
    pub images: BTreeMap<ImageId, CodeImage>,
}

/// Samples of one time bucket, frame and who ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TakenRow {
    /// Index of who ran.
    pub ran: u32,
    /// Index of the frame.
    pub frame: u32,
    /// Begin of the time bucket.
    pub time: UnixSeconds,
    /// How many samples.
    pub count: u64,
}

/// Samples of one event.
#[derive(Default)]
pub struct Taken {
    /// Who ran.
    pub ran: Vec<Ran>,
    /// The frames.
    pub tree: Tree,
    /// The samples: no two alike but in `count`, in order.
    pub rows: Vec<TakenRow>,
}

impl Local {
    /// Reads it. The epochs come first: of one that had ended by then everything is there, and a collector that flushes and ends while this reads is taken for one that runs.
    ///
    /// Only hours with books are there. Where samples have none yet, a merge is under way, and the books come when it is over.
    pub fn read(db: &Database) -> Result<Local, Error> {
        let known = db.epochs()?;
        let (machines, uids, events) = (db.machines()?, db.uids()?, db.events()?);
        let mut books: HashMap<EpochId, Vec<(EventId, Books)>> = HashMap::new();
        for (epoch, of) in db.all_books()? {
            books.entry(epoch).or_default().push((of.event, of));
        }
        let mut epochs = Vec::new();
        for epoch in known {
            let (Some(uid), Some(machine)) = (uids.get(&epoch.id), machines.get(&epoch.machine)) else {
                continue;
            };
            let mut books = books.remove(&epoch.id).unwrap_or_default();
            for (_, of) in &mut books {
                *of = as_its_samples(*of, &epoch.setting);
            }
            books.sort_by_key(|(event, of)| (of.start, *event));
            let until = complete_until(&epoch, &books);
            let all = books.iter().map(|(_, of)| Hour::of(of.start));
            let hours = all.filter(|hour| hour.span().end <= until).collect();
            epochs.push(LocalEpoch {
                uid: uid.clone(),
                machine: machine.clone(),
                epoch,
                books,
                hours,
                until,
            });
        }
        epochs.sort_by(|a, b| a.uid.cmp(&b.uid));
        Ok(Local { epochs, events, labels: db.labels()?, images: db.images()? })
    }

    /// The samples of an epoch, an event and a span of time.
    pub fn taken(
        &self,
        db: &Database,
        of: &LocalEpoch,
        event: EventId,
        time: Range<UnixSeconds>,
    ) -> Result<Taken, Error> {
        let selection = Selection {
            time: Some(time),
            epochs: Some(vec![of.epoch.id]),
            event: Some(event),
            ..Selection::default()
        };
        let found = db.rows(&selection)?;
        let mut taken = Taken { tree: found.tree, ..Taken::default() };
        let mut numbers: HashMap<Ran, u32> = HashMap::new();
        let mut of_label: HashMap<LabelId, u32> = HashMap::new();
        let none = Label::default();
        for row in found.rows {
            let ran = *of_label.entry(row.label).or_insert_with(|| {
                let ran = Ran::of(self.labels.get(&row.label).unwrap_or(&none), &of.epoch.setting);
                let next = numbers.len() as u32;
                *numbers.entry(ran.clone()).or_insert_with(|| {
                    taken.ran.push(ran);
                    next
                })
            });
            taken.rows.push(TakenRow { ran, frame: row.frame, time: row.time, count: row.count });
        }
        taken.rows.sort_unstable();
        taken.rows.dedup_by(|next, row| {
            let is_same = (next.ran, next.frame, next.time) == (row.ran, row.frame, row.time);
            if is_same {
                row.count += next.count;
            }
            is_same
        });
        Ok(taken)
    }

    /// What each frame is called in every database.
    pub fn hashes(&self, tree: &Tree) -> Vec<StackHash> {
        let mut hashes: Vec<StackHash> = Vec::with_capacity(tree.len());
        for frame in 0..tree.len() {
            let (build, offset) = self.place(tree.position(frame));
            let caller = tree.parent(frame).map_or(stack_hash::NONE, |caller| hashes[caller]);
            hashes.push(stack_hash::called_from(&caller, build, offset));
        }
        hashes
    }

    /// The stack that ends in a frame, the outermost one first.
    pub fn stack(&self, tree: &Tree, frame: usize) -> Vec<(&str, u64)> {
        let frames = std::iter::successors(Some(frame), |frame| tree.parent(*frame));
        let mut stack: Vec<(&str, u64)> = frames.map(|frame| self.place(tree.position(frame))).collect();
        stack.reverse();
        stack
    }

    /// The build and the offset of a position.
    pub fn place(&self, (image, offset): Position) -> (&str, u64) {
        (self.images.get(&image).map_or("[unknown]", build_of), offset.0)
    }
}

/// The books from where the time bucket of their samples begins, so that both are of the same hour where buckets do not divide it. Those that begin with an hour stay:
/// they are of an hour that was thinned out.
fn as_its_samples(books: Books, setting: &Setting) -> Books {
    if Hour::of(books.start).start() == books.start {
        return books;
    }
    let start = setting.bucket(books.start);
    let earlier = Nanos::new((books.start.0 - start.0).max(0) as u64 * 1_000_000_000);
    Books { start, length: books.length + earlier, ..books }
}

/// Up to when an epoch has everything: to the end of the last hour that is over for certain.
fn complete_until(epoch: &CollectorEpoch, books: &[(EventId, Books)]) -> UnixSeconds {
    if epoch.ended.is_some() {
        return UnixSeconds(i64::MAX);
    }
    let last = books.iter().map(|(_, of)| of.end().0).max().unwrap_or(0);
    let bucket = (epoch.setting.resolution.get() / 1_000_000_000) as i64;
    Hour::of(UnixSeconds(last - SLACK.max(bucket))).start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::MachineId;

    fn setting(seconds: u64) -> Setting {
        Setting { resolution: Nanos::new(seconds * 1_000_000_000), ..Setting::default() }
    }

    /// The books of a minute of the first event.
    fn minute(start: i64) -> Books {
        Books {
            event: EventId::new(1),
            start: UnixSeconds(start),
            length: Nanos::new(60_000_000_000),
            expected: 0,
            stored: 0,
            unknown: 0,
            lost: 0,
            idle: 0,
            covered: Nanos::ZERO,
            own_cpu: Nanos::ZERO,
            kernel_cpu: Nanos::ZERO,
            resident: 0,
            squares: 0,
        }
    }

    #[test]
    fn books_are_of_the_hour_of_their_samples() {
        // Of seven minutes, the ninth bucket begins at 3360 and ends at 3780.
        for (start, bucket, of) in
            [(3359, 420, 2940), (3601, 420, 3360), (3660, 420, 3360), (3781, 420, 3780), (3617, 60, 3600)]
        {
            let books = as_its_samples(minute(start), &setting(bucket));
            assert_eq!((books.start, books.end()), (UnixSeconds(of), minute(start).end()), "{start}");
        }
        // An hour that was thinned out.
        assert_eq!(as_its_samples(minute(7200), &setting(420)), minute(7200));
    }

    #[test]
    fn hours_with_samples_and_no_books_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = archive::Store::open(folder.path()).unwrap();
        let about = MachineInfo { key: "k".into(), host: "h".into(), kernel: "6.1".into(), cpus: 1 };
        let machine = store.machine(&about).unwrap();
        let epoch = store.begin_epoch(machine, &setting(60), None, UnixSeconds(0)).unwrap();
        let (event, label) = (store.event("cpu-clock").unwrap(), store.label(&Label::default()).unwrap());
        let image =
            CodeImage { path: "/bin/a".into(), build_id: "0a".into(), kind: archive::ImageKind::File };
        let image = store.image(&image).unwrap();
        for (start, has_books) in [(0, true), (3600, false), (7200, true)] {
            let node = archive::Node { parent: archive::Node::NONE, image, offset: archive::Offset(1) };
            let count = archive::Count { time: UnixSeconds(start), label, event, node: 0, count: 7 };
            let books = has_books.then(|| Books { event, stored: 7, ..minute(start) });
            let batch =
                archive::Batch { nodes: vec![node], counts: vec![count], books: books.into_iter().collect() };
            store.flush(epoch, &batch).unwrap();
        }
        let hours = || {
            let local = Local::read(&Database::open(folder.path()).unwrap()).unwrap();
            let [epoch] = &local.epochs[..] else { panic!("{} epochs", local.epochs.len()) };
            epoch.hours.iter().map(|hour| hour.0).collect::<Vec<_>>()
        };
        // The last one may go on.
        assert_eq!(hours(), [0]);
        store.end_epoch(epoch, UnixSeconds(7260)).unwrap();
        assert_eq!(hours(), [0, 2]);
    }

    #[test]
    fn an_hour_is_over_when_the_next_has_begun_for_certain() {
        let epoch = |ended| CollectorEpoch {
            id: EpochId::new(1),
            machine: MachineId::new(1),
            name: None,
            setting: setting(60),
            started: UnixSeconds(0),
            ended,
        };
        let books = |end: i64| [(EventId::new(1), minute(end - 60))];
        for (end, expected) in [(3600, 0), (3719, 0), (3720, 3600), (7319, 3600), (7320, 7200)] {
            assert_eq!(complete_until(&epoch(None), &books(end)), UnixSeconds(expected), "{end}");
        }
        assert_eq!(complete_until(&epoch(Some(UnixSeconds(60))), &books(60)), UnixSeconds(i64::MAX));
    }
}
