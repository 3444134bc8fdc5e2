//! Local: a database on this machine as the source of an answer, for one that is asked as a fleet would be.

use crate::batch::{Local, LocalEpoch, Taken};
use crate::code::{IDLE, build_of};
use crate::error::{Error, of_analysis};
use crate::question::Question;
use crate::ran::Ran;
use crate::source::{CountedAt, EpochAt, ImageAt, NamedAt, Source};
use crate::stack_hash::StackHash;
use crate::stacks::{Frames, StackAt, Stacked, first};
use archive::{Books, Database, Position, Setting, UnixSeconds};
use cycles::Names;
use profile::Nanos;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// A database, and what was seen in it so far.
pub struct LocalSource {
    db: Database,
    local: Local,
    names: Names,
    /// The positions that have been counted.
    seen: BTreeSet<Position>,
}

impl LocalSource {
    /// Reads a database.
    pub fn new(db: Database) -> Result<LocalSource, Error> {
        let local = Local::read(&db)?;
        let names = Names::new(local.images.clone());
        Ok(LocalSource { db, local, names, seen: BTreeSet::new() })
    }

    /// The books of complete hours that a question is about, with their epoch and event.
    fn books_of(&self, of: &Question) -> Result<Vec<(&str, &str, Books)>, Error> {
        let is_meant = of.only.hosts()?;
        let mut found = Vec::new();
        for epoch in self.local.epochs.iter().filter(|epoch| is_meant(&epoch.machine.host)) {
            for (event, books) in &epoch.books {
                if books.start < epoch.until && of.time.contains(&books.start) {
                    let event = self.local.events.get(event).map_or("", String::as_str);
                    found.push((&*epoch.uid, event, *books));
                }
            }
        }
        Ok(found)
    }

    /// Hands over the samples that a question is about, one epoch after the other.
    fn each_epoch(&self, of: &Question, mut then: impl FnMut(&LocalEpoch, &Taken)) -> Result<(), Error> {
        let (is_meant, is_host) = (of.only.meant()?, of.only.hosts()?);
        let Some(event) =
            self.local.events.iter().find(|(_, name)| **name == of.event).map(|(event, _)| *event)
        else {
            return Ok(());
        };
        for epoch in self.local.epochs.iter().filter(|epoch| is_host(&epoch.machine.host)) {
            let time = of.time.start..of.time.end.min(epoch.until);
            if time.is_empty() {
                continue;
            }
            let host = &epoch.machine.host;
            let Taken { ran, tree, mut rows } = self.local.taken(&self.db, epoch, event, time)?;
            rows.retain(|row| {
                let (build, _) = self.local.place(tree.position(row.frame as usize));
                is_meant(&ran[row.ran as usize], host) && (of.idle || build != IDLE)
            });
            then(epoch, &Taken { ran, tree, rows });
        }
        Ok(())
    }
}

/// Who ran on a host, as far as it was asked for.
fn who(of: &Question, ran: &Ran, host: &str) -> CountedAt {
    let text = |column: &str, text: &str| if of.wants(column) { text.to_owned() } else { String::new() };
    CountedAt {
        service: text("service", &ran.service),
        version: text("version", &ran.version),
        host: text("host", host),
        process: text("process", &ran.process),
        labels: text("labels", &ran.labels),
        ..CountedAt::default()
    }
}

/// Adds the books of two spans of time.
fn both(a: Books, b: Books) -> Books {
    let start = a.start.min(b.start);
    let end = a.end().max(b.end());
    Books {
        event: a.event,
        start,
        length: Nanos::new((end.0 - start.0).max(0) as u64 * 1_000_000_000),
        expected: a.expected + b.expected,
        stored: a.stored + b.stored,
        unknown: a.unknown + b.unknown,
        lost: a.lost + b.lost,
        idle: a.idle + b.idle,
        covered: a.covered + b.covered,
        own_cpu: a.own_cpu + b.own_cpu,
        kernel_cpu: a.kernel_cpu + b.kernel_cpu,
        resident: 0,
        squares: a.squares + b.squares,
    }
}

/// With the squares of samples that were found by themselves, as they are sent.
pub fn with_squares(books: Books) -> Books {
    let alone = books.stored + books.unknown;
    Books { squares: if books.squares == 0 { alone } else { books.squares }, ..books }
}

impl Source for LocalSource {
    fn place(&self) -> String {
        self.db.folder().to_string_lossy().into_owned()
    }

    fn events(&self, of: &Question) -> Result<Vec<String>, Error> {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, event, books) in self.books_of(of)? {
            *all.entry(event).or_default() += books.expected + books.stored;
        }
        Ok(all.into_iter().filter(|(_, count)| *count > 0).map(|(event, _)| event.to_owned()).collect())
    }

    fn epochs(&self) -> Result<Vec<EpochAt>, Error> {
        let epoch = |of: &crate::batch::LocalEpoch| EpochAt {
            uid: of.uid.clone(),
            machine: of.machine.clone(),
            setting: Setting { events: Vec::new(), labels: BTreeMap::new(), ..of.epoch.setting.clone() },
            started: of.epoch.started,
        };
        Ok(self.local.epochs.iter().map(epoch).collect())
    }

    fn books(&self, of: &Question) -> Result<Vec<(String, Books)>, Error> {
        let mut sums: BTreeMap<&str, Books> = BTreeMap::new();
        for (epoch, event, books) in self.books_of(of)? {
            if event == of.event {
                let books = with_squares(books);
                sums.entry(epoch).and_modify(|sum| *sum = both(*sum, books)).or_insert(books);
            }
        }
        Ok(sums.into_iter().map(|(epoch, books)| (epoch.to_owned(), books)).collect())
    }

    fn counts(&mut self, of: &Question) -> Result<Vec<(CountedAt, u64)>, Error> {
        let mut sums: HashMap<CountedAt, u64> = HashMap::new();
        let mut seen: BTreeSet<Position> = BTreeSet::new();
        self.each_epoch(of, |epoch, taken| {
            for row in &taken.rows {
                let position = taken.tree.position(row.frame as usize);
                let (build, offset) = self.local.place(position);
                seen.insert(position);
                let at = CountedAt {
                    build: build.to_owned(),
                    offset,
                    span: match of.width {
                        0 => UnixSeconds(0),
                        width => UnixSeconds(row.time.0 - row.time.0.rem_euclid(width)),
                    },
                    ..who(of, &taken.ran[row.ran as usize], &epoch.machine.host)
                };
                *sums.entry(at).or_default() += row.count;
            }
        })?;
        self.seen.extend(seen);
        Ok(sums.into_iter().collect())
    }

    fn stacks(&mut self, of: &Question, most: usize) -> Result<Stacked, Error> {
        let mut numbers: HashMap<CountedAt, u32> = HashMap::new();
        let mut sums: HashMap<(u32, StackHash), u64> = HashMap::new();
        self.each_epoch(of, |epoch, taken| {
            let hashes = self.local.hashes(&taken.tree);
            let number = |ran: &Ran| {
                let next = numbers.len() as u32;
                *numbers.entry(who(of, ran, &epoch.machine.host)).or_insert(next)
            };
            let ran: Vec<u32> = taken.ran.iter().map(number).collect();
            for row in &taken.rows {
                *sums.entry((ran[row.ran as usize], hashes[row.frame as usize])).or_default() += row.count;
            }
        })?;
        let samples = sums.values().sum();
        let mut names = vec![Rc::default(); numbers.len()];
        numbers.into_iter().for_each(|(who, number)| names[number as usize] = Rc::new(who));
        let row = |((who, stack), count): ((u32, StackHash), u64)| StackAt {
            who: Rc::clone(&names[who as usize]),
            stack,
            count,
        };
        let rows = first(sums.into_iter().map(row).collect(), most);
        // Frames are read again: those of all stacks may be many.
        let wanted: HashSet<StackHash> = rows.iter().map(|row| row.stack).collect();
        let (mut frames, mut seen) = (Frames::default(), BTreeSet::new());
        self.each_epoch(of, |_, taken| {
            let (tree, hashes) = (&taken.tree, self.local.hashes(&taken.tree));
            let mut is_done = vec![false; tree.len()];
            let leaves = taken.rows.iter().map(|row| row.frame as usize);
            for leaf in leaves.filter(|leaf| wanted.contains(&hashes[*leaf])) {
                if frames.innermost(&hashes[leaf]).is_none() {
                    frames.add(hashes[leaf], self.local.stack(tree, leaf).iter().copied());
                }
                // The same stack may be of other positions elsewhere: of a build that has another path there.
                let mut frame = Some(leaf);
                while let Some(at) = frame.filter(|at| !std::mem::replace(&mut is_done[*at], true)) {
                    seen.insert(tree.position(at));
                    frame = tree.parent(at);
                }
            }
        })?;
        self.seen.extend(seen);
        Ok(Stacked { rows, frames, samples })
    }

    fn images(&self, builds: &[&str]) -> Result<Vec<ImageAt>, Error> {
        let builds: BTreeSet<&str> = builds.iter().copied().collect();
        let all = self.local.images.values().filter(|image| builds.contains(build_of(image)));
        let all = all.map(|image| ImageAt {
            build: build_of(image).to_owned(),
            path: image.path.clone(),
            kind: image.kind.name().to_owned(),
        });
        Ok(all.collect())
    }

    fn names(&mut self, positions: &[(&str, u64)]) -> Result<Vec<NamedAt>, Error> {
        let wanted: BTreeSet<(&str, u64)> = positions.iter().copied().collect();
        let of: Vec<Position> =
            self.seen.iter().copied().filter(|at| wanted.contains(&self.local.place(*at))).collect();
        named(&mut self.names, &self.db, &self.local, of)
    }
}

/// What is known of positions, those without names left out.
pub fn named(
    names: &mut Names,
    db: &Database,
    local: &Local,
    positions: Vec<Position>,
) -> Result<Vec<NamedAt>, Error> {
    names.learn(db, positions.iter().copied()).map_err(of_analysis)?;
    let named = positions.into_iter().filter_map(|(image, offset)| {
        let symbols = names.symbols(image, offset);
        let (build, offset) = local.place((image, offset));
        let names =
            symbols.iter().map(|symbol| (symbol.function.to_string(), symbol.file.to_string(), symbol.line));
        (!symbols.is_empty()).then(|| NamedAt { build: build.to_owned(), offset, names: names.collect() })
    });
    Ok(named.collect())
}
