//! What a database should say, kept as plain rows.

use std::collections::BTreeMap;

use archive::{
    Batch, Books, By, Cell, CodeImage, Condition, Count, EpochId, EventId, Group, ImageId, ImageKind, Label,
    LabelId, Leaf, MachineId, Node, Offset, Position, Selection, Setting, Store, Tree, UnixSeconds,
};
use storage::Nanos;

/// Positions from the outermost frame to the sampled one.
pub type Path = Vec<(ImageId, Offset)>;

#[derive(Clone)]
struct Row {
    machine: MachineId,
    epoch: EpochId,
    label: LabelId,
    event: EventId,
    time: UnixSeconds,
    path: Path,
    count: u64,
}

/// All that was flushed.
#[derive(Clone, Default)]
pub struct Expected {
    rows: Vec<Row>,
    books: Vec<(MachineId, EpochId, Books)>,
}

impl Expected {
    pub fn add(&mut self, machine: MachineId, epoch: EpochId, batch: &Batch) {
        for count in &batch.counts {
            let (mut path, mut at) = (Vec::new(), count.node);
            while at != Node::NONE {
                let node = batch.nodes[at as usize];
                path.insert(0, (node.image, node.offset));
                at = node.parent;
            }
            let (label, event, time) = (count.label, count.event, count.time);
            self.rows.push(Row { machine, epoch, label, event, time, path, count: u64::from(count.count) });
        }
        self.books.extend(batch.books.iter().map(|books| (machine, epoch, *books)));
    }

    pub fn samples(&self) -> u64 {
        self.rows.iter().map(|row| row.count).sum()
    }

    fn selected(&self, of: &Selection) -> impl Iterator<Item = &Row> {
        let event = self.event(of);
        self.rows.iter().filter(move |row| {
            Some(row.event) == event
                && of.time.as_ref().is_none_or(|time| time.contains(&row.time))
                && of.machines.as_ref().is_none_or(|machines| machines.contains(&row.machine))
                && of.epochs.as_ref().is_none_or(|epochs| epochs.contains(&row.epoch))
                && of.labels.as_ref().is_none_or(|labels| labels.contains(&row.label))
                && of.images.as_ref().is_none_or(|images| images.contains(&row.path[row.path.len() - 1].0))
                && of.condition.as_ref().is_none_or(|condition| {
                    condition.holds(row.epoch, row.label, row.path[row.path.len() - 1].0)
                })
        })
    }

    /// All settings ask for the same first event, which has the first key.
    fn event(&self, of: &Selection) -> Option<EventId> {
        of.event.or(self.rows.iter().map(|row| row.event).min())
    }

    pub fn leaves(&self, of: &Selection) -> BTreeMap<(ImageId, Offset), u64> {
        let mut sums = BTreeMap::new();
        self.selected(of).for_each(|row| *sums.entry(row.path[row.path.len() - 1]).or_default() += row.count);
        sums
    }

    pub fn leaves_by(&self, of: &Selection, by: By) -> BTreeMap<Group, BTreeMap<(ImageId, Offset), u64>> {
        let mut groups: BTreeMap<Group, BTreeMap<_, u64>> = BTreeMap::new();
        for row in self.selected(of) {
            let group = match by {
                By::Epoch => Group::Epoch(row.epoch),
                By::Machine => Group::Machine(row.machine),
                By::Label => Group::Label(row.label),
                By::LabelAndEpoch => Group::LabelAndEpoch(row.label, row.epoch),
                By::Time(span) => Group::Time(UnixSeconds(row.time.0.div_euclid(span) * span)),
            };
            *groups.entry(group).or_default().entry(row.path[row.path.len() - 1]).or_default() += row.count;
        }
        groups
    }

    pub fn paths(&self, of: &Selection) -> BTreeMap<Path, u64> {
        let mut sums = BTreeMap::new();
        self.selected(of).for_each(|row| *sums.entry(row.path.clone()).or_default() += row.count);
        sums
    }

    pub fn labels(&self, of: &Selection) -> BTreeMap<LabelId, u64> {
        let mut sums = BTreeMap::new();
        self.selected(of).for_each(|row| *sums.entry(row.label).or_default() += row.count);
        sums
    }

    pub fn cells(&self, of: &Selection, span: i64, without: ImageId) -> BTreeMap<Cell, u64> {
        let mut sums = BTreeMap::new();
        for row in self.selected(of).filter(|row| row.path[row.path.len() - 1].0 != without) {
            let time = UnixSeconds(row.time.0.div_euclid(span) * span);
            *sums.entry(Cell { machine: row.machine, label: row.label, time }).or_default() += row.count;
        }
        sums
    }

    pub fn books(&self, of: &Selection) -> u64 {
        self.books
            .iter()
            .filter(|(machine, epoch, books)| {
                Some(books.event) == self.event(of)
                    && of.time.as_ref().is_none_or(|time| time.contains(&books.start))
                    && of.machines.as_ref().is_none_or(|machines| machines.contains(machine))
                    && of.epochs.as_ref().is_none_or(|epochs| epochs.contains(epoch))
            })
            .map(|(_, _, books)| books.expected)
            .sum()
    }

    /// A random selection; times are whole hours, so that thinning out does not change the answer.
    pub fn selection(&self, random: &mut fastrand::Rng) -> Selection {
        let mut of = Selection::default();
        let row = |random: &mut fastrand::Rng| random.choice(&self.rows).cloned();
        if let (0, Some(a), Some(b)) = (random.u8(..2), row(random), row(random)) {
            let hour = |time: UnixSeconds| time.0.div_euclid(3600) * 3600;
            let (a, b) = (hour(a.time), hour(b.time));
            of.time =
                Some(UnixSeconds(a.min(b))..UnixSeconds(a.max(b) + if random.bool() { 3600 } else { 0 }));
        }
        if let (0, Some(row)) = (random.u8(..4), row(random)) {
            of.machines = Some(vec![row.machine]);
        }
        if let (0, Some(row)) = (random.u8(..4), row(random)) {
            of.epochs = Some(vec![row.epoch, EpochId::new(999)]);
        }
        if let (0, Some(a), Some(b)) = (random.u8(..3), row(random), row(random)) {
            of.labels = Some(vec![a.label, b.label]);
        }
        if let (0, Some(row)) = (random.u8(..3), row(random)) {
            of.event = Some(row.event);
        }
        if let (0, Some(a), Some(b)) = (random.u8(..3), row(random), row(random)) {
            of.images = Some(vec![a.path[a.path.len() - 1].0, b.path[0].0]);
        }
        if let (0, Some(a), Some(b)) = (random.u8(..3), row(random), row(random)) {
            let label = Condition::Label([a.label].into());
            let image = Condition::Image([b.path[b.path.len() - 1].0].into());
            let epoch = Condition::Not(Box::new(Condition::Epoch([b.epoch].into())));
            of.condition = Some(Condition::Any(vec![label, Condition::All(vec![image, epoch])]));
        }
        of
    }
}

pub fn by_position(leaves: &[Leaf]) -> BTreeMap<(ImageId, Offset), u64> {
    let sums: BTreeMap<_, _> = leaves.iter().map(|leaf| ((leaf.image, leaf.offset), leaf.count)).collect();
    assert_eq!(sums.len(), leaves.len(), "no position twice");
    sums
}

pub fn by_place(positions: &[Position], leaves: &[(u32, u64)]) -> BTreeMap<Position, u64> {
    let mut sums = BTreeMap::new();
    leaves.iter().for_each(|(at, count)| *sums.entry(positions[*at as usize]).or_default() += count);
    sums
}

pub fn by_path(tree: &Tree) -> BTreeMap<Path, u64> {
    assert_eq!((tree.places.len(), tree.counts.len()), (tree.len(), tree.len()));
    let positions: std::collections::BTreeSet<_> = tree.positions.iter().collect();
    assert_eq!(positions.len(), tree.positions.len(), "no two positions alike");
    let mut paths: Vec<Path> = Vec::new();
    for at in 0..tree.len() {
        assert!(tree.parent(at).is_none_or(|parent| parent < at), "parents come first");
        let mut path = tree.parent(at).map(|parent| paths[parent].clone()).unwrap_or_default();
        path.push(tree.position(at));
        paths.push(path);
    }
    let all: std::collections::BTreeSet<_> = paths.iter().collect();
    assert_eq!(all.len(), paths.len(), "no two frames alike");
    paths.into_iter().zip(tree.counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}

pub fn setting() -> Setting {
    Setting {
        scope: "machine".into(),
        mode: "stacks".into(),
        events: vec!["cpu-clock".into(), "page-faults".into()],
        sampler: "perf".into(),
        rate_hz: 97.0,
        resolution: Nanos::new(60_000_000_000),
        version: "0".into(),
        labels: [("region".to_owned(), "eu-1".to_owned())].into(),
    }
}

/// A batch with random stacks of a small world, so that many are alike.
pub fn batch(store: &mut Store, at: UnixSeconds, random: &mut fastrand::Rng) -> Batch {
    let events = [store.event("cpu-clock").unwrap(), store.event("page-faults").unwrap()];
    let mut batch = Batch::default();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..random.usize(0..80) {
        let mut parent = Node::NONE;
        for _ in 0..random.usize(1..6) {
            let number = random.u32(..8);
            let image = CodeImage {
                path: format!("/bin/{number}"),
                build_id: if number == 0 { String::new() } else { format!("{number:08x}") },
                kind: ImageKind::File,
            };
            let node = Node {
                parent,
                image: store.image(&image).unwrap(),
                offset: Offset(random.u64(..3) << random.u32(..62)),
            };
            // Sometimes the same frame is there twice.
            let known = batch.nodes.iter().position(|of| *of == node).filter(|_| random.u8(..10) > 0);
            parent = known.unwrap_or(batch.nodes.len()) as u32;
            if known.is_none() {
                batch.nodes.push(node);
            }
        }
        let label = Label {
            process: format!("p{}", random.u8(..5)),
            cgroup: format!("/{}", random.u8(..2)),
            thread: ["", "worker"][random.usize(..2)].to_owned(),
            pid: [0, 7][random.usize(..2)],
            ..Label::default()
        };
        let count = Count {
            time: UnixSeconds(at.0 + 60 * random.i64(0..3)),
            label: store.label(&label).unwrap(),
            event: events[usize::from(random.u8(..4) == 0)],
            node: parent,
            count: random.u32(1..100),
        };
        if seen.insert((count.time, count.label.get(), count.event.get(), count.node)) {
            batch.counts.push(count);
        }
    }
    for event in events {
        let length = Nanos::new(60_000_000_000);
        batch.books.push(Books {
            event,
            start: at,
            length,
            expected: random.u64(..10_000),
            stored: random.u64(..10_000),
            unknown: 1,
            lost: 2,
            idle: 3,
            covered: length,
            own_cpu: Nanos::ZERO,
            kernel_cpu: Nanos::ZERO,
            resident: random.u64(..10_000),
            squares: random.u64(..10_000),
        });
    }
    batch
}
