//! Disk: what may be on it when the power fails.
//!
//! POSIX promises little, and so does this: the bytes of a file are there once the file was synced, and its name once its folder
//! was. What was not synced is there or not, in any mixture of blocks; names come and go in the order in which they were changed, as
//! file systems with a journal keep them. (Those sync the name of a new file together with the file, and data before names; what holds
//! here holds there.)

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::log::Event;

/// What disks write as a whole.
const BLOCK: usize = 512;

/// What survives of that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// Names, but no bytes.
    Names,
    /// All but a part of the last write: its first blocks are there.
    Torn,
    /// The same with its last blocks.
    TornBackwards,
    /// Blocks and names by chance.
    Chance,
}

impl Survival {
    pub const EACH: [Survival; 6] =
        [Self::All, Self::Nothing, Self::Names, Self::Torn, Self::TornBackwards, Self::Chance];

    pub fn name(self) -> &'static str {
        match self {
            Self::All => "everything",
            Self::Nothing => "what was synced",
            Self::Names => "and names",
            Self::Torn => "a torn write",
            Self::TornBackwards => "its other part",
            Self::Chance => "blocks by chance",
        }
    }
}

/// The files and folders of a state, by their paths; folders have no bytes.
pub type State = BTreeMap<PathBuf, Option<Vec<u8>>>;

#[derive(Clone, Debug)]
enum Node {
    File { synced: Vec<u8>, since: Vec<Change> },
    Folder { synced: Entries, since: Vec<Renaming> },
}

type Entries = BTreeMap<OsString, usize>;

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

#[derive(Clone, Debug)]
enum Renaming {
    Link(OsString, usize),
    Rename(OsString, OsString),
    Unlink(OsString),
}

/// The first node is the folder itself.
#[derive(Debug)]
pub struct Disk {
    nodes: Vec<Node>,
    /// The file of the last thing that was done, if that was a write.
    written_last: Option<usize>,
}

impl Disk {
    /// A folder as it is, all of it synced.
    pub fn of(folder: &Path) -> Result<Disk> {
        let mut disk = Disk { nodes: Vec::new(), written_last: None };
        disk.add(folder)?;
        Ok(disk)
    }

    fn add(&mut self, path: &Path) -> Result<usize> {
        let id = self.nodes.len();
        if !path.is_dir() {
            self.nodes.push(Node::File { synced: fs::read(path)?, since: Vec::new() });
            return Ok(id);
        }
        self.nodes.push(Node::Folder { synced: Entries::new(), since: Vec::new() });
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let node = self.add(&entry.path())?;
            if let Node::Folder { synced, .. } = &mut self.nodes[id] {
                synced.insert(entry.file_name(), node);
            }
        }
        Ok(id)
    }

    /// Whether the last thing that was done was a write.
    pub fn has_written_last(&self) -> bool {
        self.written_last.is_some()
    }

    pub fn apply(&mut self, event: &Event) -> Result<()> {
        self.written_last = None;
        match event {
            Event::Create(path) if self.find(path).is_none() => {
                self.link(path, Node::File { synced: Vec::new(), since: Vec::new() })?;
            }
            Event::Create(_) | Event::Said(_) => {}
            Event::Folder(path) => {
                self.link(path, Node::Folder { synced: Entries::new(), since: Vec::new() })?
            }
            Event::Write { path, offset, bytes } => {
                self.change(path, Change::Write(*offset, bytes.clone()))?;
                self.written_last = self.find(path);
            }
            Event::Resize(path, length) => self.change(path, Change::Resize(*length))?,
            Event::Remove(path) => self.rename(path, Renaming::Unlink(name(path)?))?,
            Event::Rename(from, to) => {
                if from.parent() != to.parent() {
                    bail!("{} moves to another folder", from.display());
                }
                self.rename(from, Renaming::Rename(name(from)?, name(to)?))?;
            }
            Event::Sync(path) => {
                let id = self.find(path).with_context(|| format!("{} is not there", path.display()))?;
                match &mut self.nodes[id] {
                    Node::File { synced, since } => since.drain(..).for_each(|change| change.apply(synced)),
                    Node::Folder { synced, since } => since.drain(..).for_each(|change| change.apply(synced)),
                }
            }
        }
        Ok(())
    }

    /// What is there after a power failure now.
    pub fn state(&self, survival: Survival, random: &mut fastrand::Rng) -> State {
        let mut state = State::new();
        self.collect(0, Path::new(""), survival, random, &mut state);
        state
    }

    fn collect(
        &self,
        id: usize,
        path: &Path,
        survival: Survival,
        random: &mut fastrand::Rng,
        state: &mut State,
    ) {
        match &self.nodes[id] {
            Node::File { synced, since } => {
                let mut bytes = synced.clone();
                let is_last = self.written_last == Some(id);
                for (nth, change) in since.iter().enumerate() {
                    change.survive(&mut bytes, survival, is_last && nth + 1 == since.len(), random);
                }
                state.insert(path.to_owned(), Some(bytes));
            }
            Node::Folder { synced, since } => {
                let mut entries = synced.clone();
                let most = match survival {
                    Survival::Nothing => 0,
                    Survival::Chance => random.usize(..=since.len()),
                    _ => since.len(),
                };
                since[..most].iter().for_each(|change| change.clone().apply(&mut entries));
                state.insert(path.to_owned(), None);
                for (name, node) in entries {
                    self.collect(node, &path.join(name), survival, random, state);
                }
            }
        }
    }

    /// The node that a path leads to at this moment.
    fn find(&self, path: &Path) -> Option<usize> {
        path.iter().try_fold(0, |id, name| match &self.nodes[id] {
            Node::Folder { synced, since } => {
                let mut entries = synced.clone();
                since.iter().for_each(|change| change.clone().apply(&mut entries));
                entries.get(name).copied()
            }
            Node::File { .. } => None,
        })
    }

    fn link(&mut self, path: &Path, node: Node) -> Result<()> {
        self.nodes.push(node);
        self.rename(path, Renaming::Link(name(path)?, self.nodes.len() - 1))
    }

    fn rename(&mut self, path: &Path, change: Renaming) -> Result<()> {
        let folder = self.find(path.parent().unwrap_or(Path::new("")));
        match folder.map(|id| &mut self.nodes[id]) {
            Some(Node::Folder { since, .. }) => since.push(change),
            _ => bail!("there is no folder of {}", path.display()),
        }
        Ok(())
    }

    fn change(&mut self, path: &Path, change: Change) -> Result<()> {
        match self.find(path).map(|id| &mut self.nodes[id]) {
            Some(Node::File { since, .. }) => since.push(change),
            _ => bail!("there is no file {}", path.display()),
        }
        Ok(())
    }
}

impl Change {
    fn apply(self, to: &mut Vec<u8>) {
        match self {
            Change::Write(offset, bytes) => put(to, offset, &bytes),
            Change::Resize(length) => to.resize(length, 0),
        }
    }

    fn survive(&self, to: &mut Vec<u8>, survival: Survival, is_last: bool, random: &mut fastrand::Rng) {
        let (offset, bytes) = match (self, survival) {
            (_, Survival::Nothing | Survival::Names) => return,
            // Its length comes with the names.
            (Change::Resize(length), Survival::Chance) if random.bool() => return to.resize(*length, 0),
            (Change::Resize(_), Survival::Chance) => return,
            (Change::Resize(length), _) => return to.resize(*length, 0),
            (Change::Write(offset, bytes), _) => (*offset, bytes),
        };
        let torn = matches!(survival, Survival::Torn | Survival::TornBackwards) && is_last;
        if !torn && survival != Survival::Chance {
            return put(to, offset, bytes);
        }
        let ends: Vec<usize> = ends(offset, bytes.len()).collect();
        let cut = random.usize(..ends.len().max(1));
        let mut begin = 0;
        for (nth, end) in ends.into_iter().enumerate() {
            let survives = match survival {
                Survival::Torn => nth < cut,
                Survival::TornBackwards => nth > cut,
                _ => random.bool(),
            };
            if survives {
                put(to, offset + begin, &bytes[begin..end]);
            }
            begin = end;
        }
    }
}

/// Where the blocks of a write end, from its beginning on.
fn ends(offset: usize, length: usize) -> impl Iterator<Item = usize> {
    let first = BLOCK - offset % BLOCK;
    (0..).map(move |nth| first + nth * BLOCK).take_while(move |end| *end < length).chain([length])
}

fn put(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if to.len() < offset + bytes.len() {
        to.resize(offset + bytes.len(), 0);
    }
    to[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl Renaming {
    fn apply(self, to: &mut Entries) {
        match self {
            Renaming::Link(name, node) => {
                to.insert(name, node);
            }
            Renaming::Unlink(name) => {
                to.remove(&name);
            }
            Renaming::Rename(from, new) => {
                if let Some(node) = to.remove(&from) {
                    to.insert(new, node);
                }
            }
        }
    }
}

fn name(path: &Path) -> Result<OsString> {
    Ok(path.file_name().with_context(|| format!("{} has no name", path.display()))?.to_owned())
}

/// Makes the files of a state in an empty folder.
pub fn write(state: &State, folder: &Path) -> Result<()> {
    for (path, bytes) in state {
        match bytes {
            Some(bytes) => fs::write(folder.join(path), bytes)?,
            None => fs::create_dir_all(folder.join(path))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, offset: usize, length: usize) -> Event {
        Event::Write { path: path.into(), offset, bytes: vec![7; length] }
    }

    fn bytes(disk: &Disk, survival: Survival, path: &str) -> Option<Vec<u8>> {
        disk.state(survival, &mut fastrand::Rng::with_seed(1)).get(Path::new(path)).cloned().flatten()
    }

    #[test]
    fn what_was_not_synced_may_be_gone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), "old").unwrap();
        let mut disk = Disk::of(folder.path()).unwrap();
        for event in [Event::Create("new".into()), write("new", 0, 3)] {
            disk.apply(&event).unwrap();
        }
        assert_eq!(bytes(&disk, Survival::All, "new"), Some(vec![7; 3]));
        assert_eq!(bytes(&disk, Survival::Names, "new"), Some(vec![]));
        assert_eq!(bytes(&disk, Survival::Nothing, "new"), None);
        disk.apply(&Event::Sync("new".into())).unwrap();
        assert_eq!(bytes(&disk, Survival::Nothing, "new"), None);
        assert_eq!(bytes(&disk, Survival::Names, "new"), Some(vec![7; 3]));
        disk.apply(&Event::Sync("".into())).unwrap();
        assert_eq!(bytes(&disk, Survival::Nothing, "new"), Some(vec![7; 3]));
        // A file takes another's name in one step.
        disk.apply(&Event::Rename("new".into(), "old".into())).unwrap();
        assert_eq!(bytes(&disk, Survival::Nothing, "old").as_deref(), Some(&b"old"[..]));
        assert_eq!(bytes(&disk, Survival::All, "old"), Some(vec![7; 3]));
        assert_eq!(bytes(&disk, Survival::All, "new"), None);
        disk.apply(&Event::Remove("old".into())).unwrap();
        assert_eq!(bytes(&disk, Survival::All, "old"), None);
    }

    #[test]
    fn the_last_write_is_torn_between_blocks() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), [0; 4000]).unwrap();
        let mut disk = Disk::of(folder.path()).unwrap();
        disk.apply(&write("file", 0, 100)).unwrap();
        disk.apply(&write("file", 500, 1500)).unwrap();
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let random = &mut fastrand::Rng::with_seed(seed);
            let state = disk.state(Survival::Torn, random);
            let bytes = state[Path::new("file")].as_ref().unwrap();
            assert!(bytes.len() == 4000 && bytes[..100] == [7; 100]);
            lengths.insert(bytes[500..].iter().take_while(|byte| **byte == 7).count());
        }
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 12, 524, 1036]);
        assert_eq!(ends(512, 512).collect::<Vec<_>>(), [512]);
    }
}
