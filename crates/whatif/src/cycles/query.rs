//! A query: what was typed becomes a selection and the heading of the answer.

use super::cli::Which;
use super::names::Names;
use super::{place, time};
use anyhow::{Context as _, Result, bail, ensure};
use globset::{GlobBuilder, GlobMatcher};
use jiff::Zoned;
use profile::continuous::*;
use report::cycles::{Books as Totals, Heading, Note};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A larger share of samples that were lost or have no image is worth a warning.
const MUCH: f64 = 0.01;
/// Samples were taken this much less often than was asked for.
const RARER: f64 = 0.8;

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

    /// The same with times that are already understood.
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
        let mut heading = heading(&event, &books, &epochs, &machines);
        heading.database = folder.to_string_lossy().into_owned();
        heading.selection = said;
        heading.with_idle = which.idle;
        if books.is_empty() {
            bail!(
                "no samples were taken {}; {} has some from {}\n  choose another time with --since and --until",
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

    /// The same, kept apart.
    pub fn leaves_by(&mut self, by: By) -> Result<BTreeMap<Group, Vec<Leaf>>> {
        let mut groups = self.db.leaves_by(&self.selection, by)?;
        for leaves in groups.values_mut() {
            leaves.retain(|leaf| self.counts(leaf.image));
        }
        self.heading.samples = groups.values().flatten().map(|leaf| leaf.count).sum();
        self.is_not_empty()?;
        Ok(groups)
    }

    /// All stacks, likewise.
    pub fn tree(&mut self) -> Result<Tree> {
        let mut tree = self.db.tree(&self.selection)?;
        for (node, count) in tree.nodes.iter().zip(&mut tree.counts) {
            if !self.counts(node.image) {
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

    /// The CPU time that so many samples stand for, in nanoseconds.
    pub fn cpu_ns(&self, samples: u64) -> u64 {
        (samples as f64 * self.heading.nanos_per_sample).round() as u64
    }
}

/// The books in all, and what to think of them.
fn heading(
    event: &str,
    books: &[(EpochId, Books)],
    epochs: &[Epoch],
    machines: &BTreeMap<MachineId, MachineInfo>,
) -> Heading {
    let mut totals = Totals::default();
    let mut by_epoch: BTreeMap<EpochId, u64> = BTreeMap::new();
    for (epoch, of) in books {
        totals.expected += of.expected;
        totals.stored += of.stored;
        totals.unknown += of.unknown;
        totals.lost += of.lost;
        totals.idle += of.idle;
        totals.covered_ns += of.covered.get();
        totals.own_cpu_ns += of.own_cpu.get();
        totals.kernel_cpu_ns += of.kernel_cpu.get();
        *by_epoch.entry(*epoch).or_default() += of.stored + of.unknown;
    }
    let used: Vec<&Epoch> = epochs.iter().filter(|epoch| by_epoch.contains_key(&epoch.id)).collect();
    let of: BTreeSet<MachineId> = used.iter().map(|epoch| epoch.machine).collect();
    let of: Vec<&MachineInfo> = of.iter().filter_map(|id| machines.get(id)).collect();
    let start = books.iter().map(|(_, of)| of.start).min();
    let end =
        books.iter().map(|(_, of)| UnixSeconds(of.start.0 + (of.length.get() / 1_000_000_000) as i64)).max();
    let taken = totals.stored + totals.unknown;
    let seconds = totals.covered_ns as f64 / 1e9;
    let rate = if seconds > 0.0 { taken as f64 / seconds } else { 0.0 };
    let most = used.iter().max_by_key(|epoch| by_epoch[&epoch.id]);
    let asked_rate = most.map_or(0.0, |epoch| epoch.setting.rate_hz);
    // A clock of CPUs that run all the time ticks for all of their time; other events only while something runs.
    let whole_machine = event.contains("clock") && used.iter().all(|epoch| epoch.setting.scope == "machine");
    let nanos_per_sample = match (whole_machine, totals.expected) {
        (true, expected) if expected > 0 => totals.covered_ns as f64 / expected as f64,
        _ if asked_rate > 0.0 => 1e9 / asked_rate,
        _ => 0.0,
    };
    let mut heading = Heading {
        event: event.to_owned(),
        machines: of.iter().map(|machine| machine.host.clone()).collect(),
        cpus: of.iter().map(|machine| machine.cpus).sum(),
        since: start.map(|start| start.0),
        until: end.map(|end| end.0),
        time: start.zip(end).map_or_else(String::new, |(start, end)| time::span(start, end)),
        books: totals,
        rate,
        asked_rate,
        nanos_per_sample,
        ..Heading::default()
    };
    heading.warnings = warnings(&heading, whole_machine);
    heading
}

/// Doubts about the books.
fn warnings(heading: &Heading, whole_machine: bool) -> Vec<Note> {
    let Totals { expected, unknown, lost, .. } = heading.books;
    let note = |code: &str, message: String, advice: &str| Note {
        code: code.to_owned(),
        message,
        advice: advice.to_owned(),
    };
    let share = |part: u64| if expected > 0 { part as f64 / expected as f64 } else { 0.0 };
    let mut notes = Vec::new();
    if share(lost) > MUCH {
        let message = format!(
            "{:.1} % of the samples were lost, perhaps most of them in the same code",
            100.0 * share(lost)
        );
        let advice = "see when and why: whatif status; give the collector a lower rate (--rate) or more memory (--max-memory)";
        notes.push(note("lost", message, advice));
    }
    if share(unknown) > MUCH {
        let message = format!("{:.1} % of the samples are of code that nobody knows", 100.0 * share(unknown));
        notes.push(note("unknown", message, "see which processes, and what mends it: whatif unknown"));
    }
    if whole_machine && heading.rate > 0.0 && heading.rate < RARER * heading.asked_rate {
        let message = format!(
            "{:.1} samples a second and CPU were taken of {:.1} that were asked for",
            heading.rate, heading.asked_rate
        );
        let advice = "the collector takes fewer when it costs more than it may: --max-cpu allows it more";
        notes.push(note("rate", message, advice));
    }
    notes
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

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn glob(pattern: &str) -> Result<GlobMatcher> {
    let glob = GlobBuilder::new(&escaped(pattern)).literal_separator(false).build();
    Ok(glob
        .with_context(|| format!("'{pattern}' is no pattern; * stands for any text, ? for one character"))?
        .compile_matcher())
}

/// Names such as `[kernel]` stand in brackets, which are no sets of characters.
fn escaped(pattern: &str) -> String {
    pattern.replace('[', "[[]")
}

/// The keys of all that have a text which matches; `None` if there is none.
fn matching<K: Copy + Ord, V>(
    pattern: &str,
    all: &BTreeMap<K, V>,
    texts: impl Fn(&V) -> Vec<&str>,
) -> Option<Vec<K>> {
    let glob = glob(pattern).ok()?;
    let found: Vec<K> = all
        .iter()
        .filter(|(_, value)| texts(value).iter().any(|text| glob.is_match(text)))
        .map(|(key, _)| *key)
        .collect();
    (!found.is_empty()).then_some(found)
}

/// Whether a cgroup, or one that it is in, is meant.
fn is_in_cgroup(glob: &GlobMatcher, path: &str) -> bool {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return glob.is_match("");
    }
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).any(|part| glob.is_match(part) || glob.is_match(last(part)))
}

/// That there is nothing like what was asked for, and what there is.
fn none<'a>(what: &str, pattern: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: BTreeSet<&str> = known.filter(|name| !name.is_empty()).collect();
    let near = symbols::nearest_names(pattern, known.iter().copied());
    let pattern = profile::printable(pattern);
    let shown: Vec<&str> = if near.is_empty() {
        known.into_iter().take(8).collect()
    } else {
        near.iter().map(String::as_str).collect()
    };
    match shown.as_slice() {
        [] => format!("no {what} is '{pattern}': there is none at all; leave the option out"),
        shown => format!("no {what} is '{pattern}'; there are: {}", profile::printable(&shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_meant_with_all_below_them() {
        for (pattern, path, expected) in [
            ("system.slice", "/system.slice/nginx.service", true),
            ("nginx*", "/system.slice/nginx.service", true),
            ("system.slice/nginx.service", "/system.slice/nginx.service/worker", true),
            ("user.slice", "/system.slice/nginx.service", false),
            ("slice", "/system.slice", false),
        ] {
            assert_eq!(is_in_cgroup(&glob(pattern).unwrap(), path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn brackets_are_part_of_names() {
        assert!(glob("[kernel]").unwrap().is_match("[kernel]"));
        assert!(glob("[k*").unwrap().is_match("[kernel]"));
        assert!(!glob("[kernel]").unwrap().is_match("k"));
    }

    #[test]
    fn loss_is_a_warning() {
        let heading = |lost, unknown, rate| Heading {
            books: Totals { expected: 1000, lost, unknown, ..Totals::default() },
            rate,
            asked_rate: 97.0,
            ..Heading::default()
        };
        let codes =
            |heading: Heading| warnings(&heading, true).into_iter().map(|note| note.code).collect::<Vec<_>>();
        assert_eq!(codes(heading(10, 10, 96.0)), Vec::<String>::new());
        assert_eq!(codes(heading(11, 11, 50.0)), ["lost", "unknown", "rate"]);
    }

    #[test]
    fn what_there_is_not_is_told_with_what_there_is() {
        let known = ["nginx", "postgres", ""];
        assert_eq!(none("process", "ngnx", known.into_iter()), "no process is 'ngnx'; there are: nginx");
        assert_eq!(
            none("process", "zzz", known.into_iter()),
            "no process is 'zzz'; there are: nginx, postgres"
        );
        assert_eq!(
            none("event", "x", [].into_iter()),
            "no event is 'x': there is none at all; leave the option out"
        );
    }
}
