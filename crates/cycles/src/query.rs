//! A query: what was typed becomes a selection and the heading of the answer.

use super::arguments::Which;
use super::names::Names;
use super::pattern::{glob, is_in_cgroup, last, matching, none};
use super::{heading, nameless, place, time};
use crate::Heading;
use anyhow::{Context as _, Result, bail, ensure};
use archive::*;
use jiff::Zoned;
use std::collections::BTreeMap;
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
    let folder = place::default_folder(named)?;
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
        let mut selection = Selection::default();
        let mut said = Vec::new();
        if since.is_some() || until.is_some() {
            let from = since.unwrap_or(span.start);
            // Whatever is being written now belongs to it.
            let to = until.unwrap_or(UnixSeconds(i64::MAX));
            ensure!(from < to, "--since {} is not before --until; give an earlier time", time::local(from));
            selection.time = Some(from..to);
        }
        let machines = db.machines()?;
        if let Some(pattern) = &which.machine {
            let found = matching(pattern, &machines, |machine| vec![&machine.host, &machine.key])
                .with_context(|| {
                    none("machine", pattern, machines.values().map(|machine| machine.host.as_str()))
                })?;
            selection.machines = Some(found);
        }
        let epochs = db.epochs()?;
        if let Some(asked) = &which.epoch {
            selection.epochs = Some(epochs_named(asked, &epochs)?);
            said.push(format!("epoch {asked}"));
        }
        if which.process.is_some() || which.cgroup.is_some() {
            let labels = db.labels()?;
            let mut found: BTreeMap<LabelId, Label> = labels.clone();
            if let Some(pattern) = &which.process {
                let glob = glob(pattern)?;
                found.retain(|_, label| glob.is_match(&label.process));
                said.push(format!("process {pattern}"));
            }
            if let Some(pattern) = &which.cgroup {
                let glob = glob(pattern.trim_matches('/'))?;
                found.retain(|_, label| is_in_cgroup(&glob, &label.cgroup));
                said.push(format!("cgroup {pattern}"));
            }
            if found.is_empty() {
                let names = || labels.values().map(|label| label.process.as_str());
                match (&which.process, &which.cgroup) {
                    (Some(pattern), None) => bail!(none("process", pattern, names())),
                    (None, Some(pattern)) => {
                        bail!(none("cgroup", pattern, labels.values().map(|label| label.cgroup.as_str())))
                    }
                    _ => bail!("no process of that name ran in such a cgroup; see: whatif top --by cgroup"),
                }
            }
            selection.labels = Some(found.into_keys().collect());
        }
        let images = db.images()?;
        if let Some(pattern) = &which.image {
            let found = matching(pattern, &images, |image| vec![&image.path, last(&image.path)])
                .with_context(|| none("image", pattern, images.values().map(|image| last(&image.path))))?;
            selection.images = Some(found);
            said.push(format!("image {pattern}"));
        }
        let events = db.events()?;
        selection.event = Some(match &which.event {
            Some(name) => match events.iter().find(|(_, known)| *known == name) {
                Some((id, _)) => *id,
                None => bail!(none("event", name, events.values().map(String::as_str))),
            },
            None => {
                let has_books = |id: &EventId| {
                    let of = Selection { event: Some(*id), ..selection.clone() };
                    Ok::<_, profile::Error>(
                        db.books(&of)?.iter().any(|(_, books)| books.expected + books.stored > 0),
                    )
                };
                let mut chosen = None;
                for id in events.keys() {
                    if has_books(id)? {
                        chosen = Some(*id);
                        break;
                    }
                }
                match chosen.or_else(|| events.keys().next().copied()) {
                    Some(event) => event,
                    None => bail!(
                        "the database in {} has no events: the collector has stored nothing yet",
                        folder.display()
                    ),
                }
            }
        });
        let books = db.books(&selection)?;
        let event = selection.event.and_then(|event| events.get(&event).cloned()).unwrap_or_default();
        let mut heading = heading::of(&event, &books, &epochs, &machines);
        heading.database = folder.to_string_lossy().into_owned();
        heading.selection = said;
        heading.with_idle = which.idle;
        if books.is_empty() {
            let bucket = db.resolution(&Selection::default())?.unwrap_or_default().get() / 1_000_000_000;
            bail!(
                "no samples were taken {}; {} has some from {}, in time buckets of {bucket} s\n  choose another time with --since \
                 and --until; a time bucket counts where it begins",
                selection.time.as_ref().map_or("in this selection".to_owned(), |asked| {
                    let until =
                        if asked.end.0 == i64::MAX { "now".to_owned() } else { time::local(asked.end) };
                    format!("from {} to {until}", time::local(asked.start))
                }),
                folder.display(),
                time::span(span.start, span.end)
            );
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

    fn is_not_empty(&self) -> Result<()> {
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

    /// The CPU time that so many samples stand for, in nanoseconds, if they do.
    pub fn cpu_ns(&self, samples: u64) -> Option<u64> {
        self.heading.nanos_per_sample.map(|each| (samples as f64 * each).round() as u64)
    }
}

/// Epochs by number or name.
pub fn epochs_named(asked: &str, epochs: &[Epoch]) -> Result<Vec<EpochId>> {
    let number = asked.parse::<i64>().ok();
    let found: Vec<EpochId> = epochs
        .iter()
        .filter(|epoch| Some(epoch.id.get()) == number || epoch.name.as_deref() == Some(asked))
        .map(|epoch| epoch.id)
        .collect();
    if found.is_empty() {
        bail!("there is no epoch {asked}; see which there are: whatif epochs");
    }
    Ok(found)
}
