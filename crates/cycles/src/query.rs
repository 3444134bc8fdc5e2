//! A query: what was typed becomes a selection and the heading of the answer.

use super::arguments::Which;
use super::filter::{self, Choice};
use super::grouping::Groups;
use super::label_key::LabelKey;
use super::names::Names;
use super::pattern::none;
use super::{folder, heading, nameless, servers, time, truncated};
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

/// What `--no-inlined` is called in headings.
pub const NOT_INLINED: &str = "inlined functions in their callers";

/// Opens the database in a folder.
pub fn open(named: Option<&Path>) -> Result<(PathBuf, Database)> {
    let folder = folder::default_folder(named)?;
    ensure!(
        !folder.is_file(),
        "{} is a file, and a database of continuous profiles is a folder\n  if it is a recording of whatif run: {}",
        folder.display(),
        profile::shell::command(["whatif", "report", &folder.to_string_lossy()])
    );
    ensure!(
        folder.is_dir(),
        "there is no database of continuous profiles at {}\n  start the collector with: whatif collect --db {}\n  or name \
         another folder with --db DIR",
        folder.display(),
        folder.display()
    );
    let db = Database::open(&folder).map_err(|error| unreadable(&folder, error))?;
    Ok((folder, db))
}

/// Why a database cannot be read, and what helps.
fn unreadable(folder: &Path, error: profile::Error) -> anyhow::Error {
    let is_denied = |path: &Path| {
        std::fs::File::open(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    match &error {
        profile::Error::Io { path, .. } if is_denied(path) => anyhow!(
            "you may not read {}\n  use sudo, let your group read it (docs/continuous.md), or name another folder with --db",
            folder.display()
        ),
        profile::Error::Newer { found, known, .. } => anyhow!(
            "the database {} was written by a newer whatif (format {found}; this one reads up to {known})\n  update whatif, or name another \
             folder with --db",
            folder.display()
        ),
        _ => anyhow::Error::new(error).context(format!("cannot read the database {}", folder.display())),
    }
}

/// By who ran, one text for each key: nodes of a tree, and how many samples each has.
type Roots = BTreeMap<Vec<String>, Vec<(u32, u64)>>;

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
        if which.debuginfod {
            servers::ask();
        }
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
            epochs: which.epoch.as_ref().map(|name| epochs_named(name, &epochs)).transpose()?,
            ..Selection::default()
        };
        let asked = filter::asked(which);
        if !asked.is_empty() {
            let labels = db.labels()?;
            let choice = Choice { labels: &labels, images: &images, epochs: &epochs, machines: &machines };
            filter::select(&asked, &choice, &mut selection)?;
        }
        let event = match &which.event {
            _ if which.off_cpu => off_cpu(&events, folder)?,
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
        let mut names = Names::new(images);
        names.set_inlined(!which.no_inlined);
        Ok(Query { db, selection, heading, names, idle: which.idle, books })
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

    /// All stacks, kept apart by who ran.
    pub fn forest(&mut self, by: &[LabelKey]) -> Result<(Tree, Roots)> {
        let Forest { mut tree, groups } = self.db.forest(&self.selection, By::LabelAndEpoch)?;
        let names = Groups::of(&self.db, by)?;
        let counts: Vec<bool> = tree.positions.iter().map(|(image, _)| self.counts(*image)).collect();
        let is_counted = |frame: u32| counts[tree.places[frame as usize] as usize];
        let mut roots = Roots::new();
        for (group, leaves) in groups {
            let counted = leaves.iter().filter(|(frame, _)| is_counted(*frame));
            roots.entry(names.name(group)).or_default().extend(counted);
        }
        roots.retain(|_, leaves| !leaves.is_empty());
        for (place, count) in tree.places.iter().zip(&mut tree.counts) {
            if !counts[*place as usize] {
                *count = 0;
            }
        }
        self.heading.samples = tree.counts.iter().sum();
        self.is_not_empty()?;
        Ok((tree, roots))
    }

    /// Fails with advice if the answer is about no samples.
    pub fn is_not_empty(&self) -> Result<()> {
        if self.heading.samples == 0 {
            let idle =
                if self.heading.books.idle > 0 && !self.idle { " but of idle CPUs (--idle)" } else { "" };
            let of = match self.heading.selection.as_slice() {
                [] => String::new(),
                said => format!(" of {}", said.join(", ")),
            };
            let found = format!("there are no samples{of} in {}{idle}", self.heading.time);
            let advice =
                "choose another time with --since and --until, or see what there is: whatif top --by process";
            return Err(NoSamples { found, advice }.into());
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
    let only = which.only.iter().map(|only| format!("where {}", only.text));
    let not_inlined = which.no_inlined.then(|| NOT_INLINED.to_owned());
    let said = asked.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
    said.chain(only).chain(not_inlined).collect()
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

fn event_named(name: &str, events: &BTreeMap<EventId, String>) -> Result<EventId> {
    match events.iter().find(|(_, known)| *known == name) {
        Some((event, _)) => Ok(*event),
        None => bail!(none("event", name, events.values().map(String::as_str))),
    }
}

/// The event of waiting time.
fn off_cpu(events: &BTreeMap<EventId, String>, folder: &Path) -> Result<EventId> {
    let found = events.iter().find(|(_, name)| *name == OFF_CPU).map(|(event, _)| *event);
    found.ok_or_else(|| {
        anyhow!(
            "{} has no time off the CPU\n  collect it with: whatif collect --off-cpu (it takes BPF, and says if there is none)",
            folder.display()
        )
    })
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
    let found = format!(
        "no samples were taken {asked}; {} has some from {}, in time buckets of {bucket} s, each of which counts where it begins",
        folder.display(),
        time::span(span.start, span.end)
    );
    Ok(NoSamples { found, advice: "choose another time with --since and --until" }.into())
}

/// That there are no samples in a selection.
#[derive(Debug)]
pub struct NoSamples {
    /// Where there are none, and where there are some.
    pub found: String,
    /// What to do.
    pub advice: &'static str,
}

impl std::error::Error for NoSamples {}

impl std::fmt::Display for NoSamples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  {}", self.found, self.advice)
    }
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
