//! A query: what was typed becomes a selection and the heading of the answer.

use super::arguments::Which;
use super::names::Names;
use super::pattern::{glob, is_in_cgroup, last, matching, none};
use super::{folder, heading, nameless, time, truncated};
use crate::Heading;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use archive::*;
use jiff::Zoned;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A database and what is asked of it.
pub struct Query {
    /// The database.
    pub db: Database,
    /// Which samples.
    pub selection: Selection,
    /// The heading; commands fill in how many samples their answer is about.
    pub heading: Heading,
    /// Images and their names.
    pub names: Names,
    /// Whether idle CPUs count.
    pub idle: bool,
    /// The books of each epoch.
    pub books: Vec<(EpochId, Books)>,
}

/// Opens the database in a folder.
pub fn open(named: Option<&Path>) -> Result<(PathBuf, Database)> {
    let folder = folder::default_folder(named)?;
    ensure!(
        folder.is_dir(),
        "there is no database of continuous profiles at {}\n  start the collector with: whatif collect --db {}\n  or name \
         another folder with --db DIR",
        folder.display(),
        folder.display()
    );
    let db =
        Database::open(&folder).with_context(|| format!("cannot read the database {}", folder.display()))?;
    Ok((folder, db))
}

/// By name: nodes of a tree, and how many samples each has.
type Roots = BTreeMap<String, Vec<(u32, u64)>>;

impl Query {
    /// Understands what was typed.
    pub fn new(which: &Which) -> Result<Query> {
        let (folder, db) = open(which.folder.db.as_deref())?;
        let now = Zoned::now();
        let at = |text: &Option<String>| text.as_deref().map(|text| time::parse(text, &now)).transpose();
        let since = at(&which.since).map_err(anyhow::Error::msg).context("--since")?;
        let until = at(&which.until).map_err(anyhow::Error::msg).context("--until")?;
        Query::between(which, &folder, db, since, until)
    }

    /// A query between times that are already parsed.
    pub fn between(
        which: &Which,
        folder: &Path,
        db: Database,
        since: Option<UnixSeconds>,
        until: Option<UnixSeconds>,
    ) -> Result<Query> {
        let Some(span) = db.span()? else {
            bail!(
                "there are no samples in {} yet\n  see whether the collector runs: whatif status --db {}",
                folder.display(),
                folder.display()
            );
        };
        let (machines, epochs, images, events) = (db.machines()?, db.epochs()?, db.images()?, db.events()?);
        let mut selection = Selection {
            time: time_between(&span, since, until)?,
            machines: which.machine.as_ref().map(|name| machines_named(name, &machines)).transpose()?,
            epochs: which.epoch.as_ref().map(|name| epochs_named(name, &epochs)).transpose()?,
            labels: labels_of(which, &db)?,
            images: which.image.as_ref().map(|name| images_named(name, &images)).transpose()?,
            ..Selection::default()
        };
        let event = match &which.event {
            Some(name) => event_named(name, &events)?,
            None => first_with_samples(&db, &selection, &events, folder)?,
        };
        selection.event = Some(event);
        let books = db.books(&selection)?;
        let mut heading =
            heading::of(events.get(&event).map_or("", String::as_str), &books, &epochs, &machines);
        heading.database = folder.to_string_lossy().into_owned();
        heading.selection = said(which);
        heading.with_idle = which.idle;
        if books.is_empty() {
            return Err(no_samples(&db, &selection, &span, folder)?);
        }
        Ok(Query { db, selection, heading, names: Names::new(images), idle: which.idle, books })
    }

    /// Whether samples of an image are part of the answer.
    pub fn counts(&self, image: ImageId) -> bool {
        self.idle || self.names.images().get(&image).is_none_or(|image| image.kind != ImageKind::Idle)
    }

    /// Samples by position, those of idle CPUs only if they were asked for. There are some.
    pub fn leaves(&mut self) -> Result<Vec<Leaf>> {
        let mut leaves = self.db.leaves(&self.selection)?;
        leaves.retain(|leaf| self.counts(leaf.image));
        self.heading.samples = leaves.iter().map(|leaf| leaf.count).sum();
        self.is_not_empty()?;
        Ok(leaves)
    }

    /// The samples, kept apart by `by`.
    pub fn parts(&mut self, by: By) -> Result<Parts> {
        let mut parts = self.db.parts(&self.selection, by)?;
        let counts: Vec<bool> = parts.positions.iter().map(|(image, _)| self.counts(*image)).collect();
        for leaves in parts.groups.values_mut() {
            leaves.retain(|(at, _)| counts[*at as usize]);
        }
        self.heading.samples = parts.groups.values().map(|leaves| Parts::samples(leaves)).sum();
        self.is_not_empty()?;
        Ok(parts)
    }

    /// All stacks, likewise.
    pub fn tree(&mut self) -> Result<Tree> {
        let mut tree = self.db.tree(&self.selection)?;
        let counts: Vec<bool> = tree.positions.iter().map(|(image, _)| self.counts(*image)).collect();
        for (place, count) in tree.places.iter().zip(&mut tree.counts) {
            if !counts[*place as usize] {
                *count = 0;
            }
        }
        self.heading.samples = tree.counts.iter().sum();
        self.is_not_empty()?;
        Ok(tree)
    }

    /// All stacks, kept apart by the name of the process.
    pub fn forest(&mut self) -> Result<(Tree, Roots)> {
        let Forest { mut tree, groups } = self.db.forest(&self.selection, By::Label)?;
        let labels = self.db.labels()?;
        let counts: Vec<bool> = tree.positions.iter().map(|(image, _)| self.counts(*image)).collect();
        let is_counted = |frame: u32| counts[tree.places[frame as usize] as usize];
        let mut processes: BTreeMap<String, Vec<(u32, u64)>> = BTreeMap::new();
        for (group, leaves) in groups {
            let Group::Label(label) = group else { continue };
            let name = labels.get(&label).map_or("", |label| label.process.as_str()).to_owned();
            processes.entry(name).or_default().extend(leaves.iter().filter(|(frame, _)| is_counted(*frame)));
        }
        processes.retain(|_, leaves| !leaves.is_empty());
        for (place, count) in tree.places.iter().zip(&mut tree.counts) {
            if !counts[*place as usize] {
                *count = 0;
            }
        }
        self.heading.samples = tree.counts.iter().sum();
        self.is_not_empty()?;
        Ok((tree, processes))
    }

    /// Refuses to answer about nothing.
    pub(super) fn is_not_empty(&self) -> Result<()> {
        if self.heading.samples == 0 {
            let idle =
                if self.heading.books.idle > 0 && !self.idle { " but of idle CPUs (--idle)" } else { "" };
            let of = match self.heading.selection.as_slice() {
                [] => String::new(),
                said => format!(" of {}", said.join(", ")),
            };
            bail!(
                "there are no samples{of} in {}{idle}\n  choose another time with --since and --until, or see what there is: \
                 whatif top --by process",
                self.heading.time
            );
        }
        Ok(())
    }

    /// Warns of samples without names, once those that there are have been [learned](Names::learn).
    pub fn doubt_names(&mut self, positions: &[Position], samples: &[u64]) {
        self.heading.warnings.extend(nameless::note(&self.names, positions, samples));
    }

    /// Warns of stacks that are truncated.
    pub fn doubt_stacks(&mut self, tree: &Tree) {
        self.heading.warnings.extend(truncated::note(&self.names, tree));
    }

    /// The CPU time that so many samples stand for, in nanoseconds, if they do.
    pub fn cpu_ns(&self, samples: u64) -> Option<u64> {
        self.heading.nanos_per_sample.map(|each| (samples as f64 * each).round() as u64)
    }
}

/// What was typed besides times and machines, for the heading.
fn said(which: &Which) -> Vec<String> {
    let asked = [
        ("epoch", &which.epoch),
        ("process", &which.process),
        ("cgroup", &which.cgroup),
        ("image", &which.image),
    ];
    asked.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?))).collect()
}

/// The time that is asked for, if any is.
fn time_between(
    span: &Range<UnixSeconds>,
    since: Option<UnixSeconds>,
    until: Option<UnixSeconds>,
) -> Result<Option<Range<UnixSeconds>>> {
    if since.is_none() && until.is_none() {
        return Ok(None);
    }
    let from = since.unwrap_or(span.start);
    // What is being written now belongs to it.
    let to = until.unwrap_or(UnixSeconds(i64::MAX));
    ensure!(from < to, "--since {} is not before --until; give an earlier time", time::local(from));
    Ok(Some(from..to))
}

fn machines_named(pattern: &str, machines: &BTreeMap<MachineId, MachineInfo>) -> Result<Vec<MachineId>> {
    matching(pattern, machines, |machine| vec![&machine.host, &machine.key])
        .with_context(|| none("machine", pattern, machines.values().map(|machine| machine.host.as_str())))
}

fn images_named(pattern: &str, images: &BTreeMap<ImageId, CodeImage>) -> Result<Vec<ImageId>> {
    matching(pattern, images, |image| vec![&image.path, last(&image.path)])
        .with_context(|| none("image", pattern, images.values().map(|image| last(&image.path))))
}

/// The labels of the processes and cgroups that are asked for, if any are.
fn labels_of(which: &Which, db: &Database) -> Result<Option<Vec<LabelId>>> {
    if which.process.is_none() && which.cgroup.is_none() {
        return Ok(None);
    }
    let labels = db.labels()?;
    let mut found: BTreeMap<LabelId, Label> = labels.clone();
    if let Some(pattern) = &which.process {
        let glob = glob(pattern)?;
        found.retain(|_, label| glob.is_match(&label.process));
    }
    if let Some(pattern) = &which.cgroup {
        let glob = glob(pattern.trim_matches('/'))?;
        found.retain(|_, label| is_in_cgroup(&glob, &label.cgroup));
    }
    if found.is_empty() {
        match (&which.process, &which.cgroup) {
            (Some(pattern), None) => {
                bail!(none("process", pattern, labels.values().map(|label| label.process.as_str())))
            }
            (None, Some(pattern)) => {
                bail!(none("cgroup", pattern, labels.values().map(|label| label.cgroup.as_str())))
            }
            _ => bail!("no process of that name ran in such a cgroup; see: whatif top --by cgroup"),
        }
    }
    Ok(Some(found.into_keys().collect()))
}

fn event_named(name: &str, events: &BTreeMap<EventId, String>) -> Result<EventId> {
    match events.iter().find(|(_, known)| *known == name) {
        Some((event, _)) => Ok(*event),
        None => bail!(none("event", name, events.values().map(String::as_str))),
    }
}

/// The first event that has samples in the selection, or else the first.
fn first_with_samples(
    db: &Database,
    selection: &Selection,
    events: &BTreeMap<EventId, String>,
    folder: &Path,
) -> Result<EventId> {
    for event in events.keys() {
        let of_event = Selection { event: Some(*event), ..selection.clone() };
        if db.books(&of_event)?.iter().any(|(_, books)| books.expected + books.stored > 0) {
            return Ok(*event);
        }
    }
    match events.keys().next() {
        Some(event) => Ok(*event),
        None => {
            bail!("the database in {} has no events: the collector has stored nothing yet", folder.display())
        }
    }
}

/// That there are no samples in the selection, and when there are some.
fn no_samples(
    db: &Database,
    selection: &Selection,
    span: &Range<UnixSeconds>,
    folder: &Path,
) -> Result<anyhow::Error> {
    let bucket = db.resolution(&Selection::default())?.unwrap_or_default().get() / 1_000_000_000;
    let asked = selection.time.as_ref().map_or("in this selection".to_owned(), |asked| {
        let until = if asked.end.0 == i64::MAX { "now".to_owned() } else { time::local(asked.end) };
        format!("from {} to {until}", time::local(asked.start))
    });
    Ok(anyhow!(
        "no samples were taken {asked}; {} has some from {}, in time buckets of {bucket} s\n  choose another time with --since \
         and --until; a time bucket counts where it begins",
        folder.display(),
        time::span(span.start, span.end)
    ))
}

/// Epochs by number or name.
pub fn epochs_named(asked: &str, epochs: &[CollectorEpoch]) -> Result<Vec<EpochId>> {
    let number = asked.parse::<i64>().ok();
    let found: Vec<EpochId> = epochs
        .iter()
        .filter(|epoch| Some(epoch.id.get()) == number || epoch.name.as_deref() == Some(asked))
        .map(|epoch| epoch.id)
        .collect();
    if found.is_empty() {
        bail!("there is no epoch {asked}; see which there are: whatif db epochs");
    }
    Ok(found)
}
