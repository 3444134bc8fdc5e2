//! Where the callers of code are, by what its files have written down: read a function at a time, when the function is first met.

use crate::errands::Errands;
use crate::files::as_seen_by;
use crate::hash::Mixed;
use crate::images::{ImageIndex, Images};
use crate::slots::Marks;
use crate::space::Mapping;
use crate::walk::Code;
use archive::{CodeImage, ImageKind};
use kernel::clock::thread_cpu_time;
use kernel::maps::FileId;
use kernel::untrusted::{has_trusted_files, is_local, is_roots_own};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use symbols::{Caller, CallerLookup, FileOffset, FunctionCallers, PythonExports};

/// Positions whose callers are known at once.
const MOST_POSITIONS: usize = 1 << 15;
/// Files that are open at a time.
const MOST_FILES: usize = 64;
/// A file that could not be opened is tried again after this time: by another process, perhaps.
const AGAIN: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct Callers {
    positions: HashMap<(Scope, u32, u64), Caller, Mixed>,
    /// By where they begin.
    functions: HashMap<(Scope, ImageIndex), BTreeMap<u64, Function>>,
    files: HashMap<(Scope, ImageIndex), File>,
    /// Files that have an interpreter of Python, and how many have been found.
    pythons: HashMap<(Scope, ImageIndex), Arc<PythonExports>>,
    generation: u64,
    /// What the functions take, in bytes, and may take.
    bytes: usize,
    most: usize,
    errands: Errands,
}

/// A piece of code, of which it is known where its callers are.
#[derive(Debug)]
struct Function {
    end: u64,
    rows: Box<[(u64, Caller)]>,
}

impl Function {
    /// Memory that it takes, about.
    fn bytes(&self) -> usize {
        size_of::<(u64, Self)>() * 2 + size_of_val(&*self.rows)
    }
}

#[derive(Debug)]
enum File {
    Open(Opened),
    /// Not before this.
    Missing(Instant),
}

#[derive(Clone, Debug)]
struct Opened {
    file: Arc<CallerLookup>,
    /// Reading it may take forever.
    may_wait: bool,
    /// What it says is good for the processes of all users.
    is_shared: bool,
}

/// For whom something is known. Anyone can make a file with a path and a build ID, in a mount namespace of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// The file belongs to root, and no one else may write it.
    All,
    User(u32),
    /// It has no build ID: another file may have been put in its place.
    Process(u32),
}

impl Scope {
    /// Where what is not shared is known.
    fn of(owner: Owner, image: &CodeImage) -> Self {
        if image.build_id.is_empty() { Self::Process(owner.pid) } else { Self::User(owner.user) }
    }
}

/// Whose code it is.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub pid: u32,
    pub user: u32,
}

/// Where nothing is written down, this much code is taken to be of one kind.
const UNKNOWN: u64 = 16;

impl Callers {
    /// Nothing is known. All of it may take about `most` bytes.
    pub fn new(most: usize) -> Self {
        Self {
            positions: HashMap::default(),
            functions: HashMap::new(),
            files: HashMap::new(),
            pythons: HashMap::new(),
            generation: 0,
            bytes: 0,
            most: most.saturating_sub(MOST_POSITIONS * size_of::<((Scope, u32, u64), Caller)>()),
            errands: Errands::frugal(),
        }
    }

    /// How to find the caller of the code at a position of an image, which a process has mapped.
    pub fn of(&mut self, owner: Owner, mapping: &Mapping, offset: u64, images: &Images) -> Code {
        if let Some(known) = self.positions.get(&(Scope::All, mapping.image.0, offset)) {
            return Code::Known(*known);
        }
        let image = images.get(mapping.image);
        let own = Scope::of(owner, image);
        if let Some(known) = self.positions.get(&(own, mapping.image.0, offset)) {
            return Code::Known(*known);
        }
        if image.kind != ImageKind::File {
            return Code::Known(Caller::Unknown);
        }
        let known = |scope| Some((scope, self.known(scope, mapping.image, offset)?));
        let Some((scope, caller)) = known(Scope::All)
            .or_else(|| known(own))
            .or_else(|| self.learn((owner, own), mapping, offset, images))
        else {
            return Code::Unread;
        };
        if self.positions.len() >= MOST_POSITIONS {
            self.positions.clear();
        }
        self.positions.insert((scope, mapping.image.0, offset), caller);
        Code::Known(caller)
    }

    fn known(&self, scope: Scope, image: ImageIndex, offset: u64) -> Option<Caller> {
        let (_, function) = self.functions.get(&(scope, image))?.range(..=offset).next_back()?;
        if offset >= function.end {
            return None;
        }
        let after = function.rows.partition_point(|(at, _)| *at <= offset);
        Some(after.checked_sub(1).map_or(Caller::Unknown, |row| function.rows[row].1))
    }

    /// Reads what is written down for the function there; nothing if that cannot be done just now.
    fn learn(
        &mut self,
        (owner, own): (Owner, Scope),
        mapping: &Mapping,
        offset: u64,
        images: &Images,
    ) -> Option<(Scope, Caller)> {
        if !self.errands.accepts(owner.user) {
            return None;
        }
        // Whose it was when it was started need not be whose it is: a user who logs in begins as root.
        let is_certain = kernel::cpu::user(owner.pid) == Some(owner.user);
        let opened = self.opened((owner, own), mapping, images, is_certain)?;
        let scope = if opened.is_shared && own == Scope::User(owner.user) { Scope::All } else { own };
        let FunctionCallers { code, rows } = if opened.file.has_tables() {
            self.read(owner, &opened, offset)?.unwrap_or_else(|| {
                let start = offset - offset % UNKNOWN;
                FunctionCallers { code: start..start.saturating_add(UNKNOWN), rows: Vec::new() }
            })
        } else {
            FunctionCallers { code: 0..u64::MAX, rows: Vec::new() }
        };
        let function = Function { end: code.end, rows: rows.into() };
        if self.bytes + function.bytes() > self.most {
            self.functions = HashMap::new();
            self.bytes = 0;
        }
        self.bytes += function.bytes();
        self.functions.entry((scope, mapping.image)).or_default().insert(code.start, function);
        Some((scope, self.known(scope, mapping.image, offset)?))
    }

    /// Nothing if it cannot be read, nothing of it if nothing is written down there.
    fn read(&mut self, owner: Owner, opened: &Opened, offset: u64) -> Option<Option<FunctionCallers>> {
        let file = Arc::clone(&opened.file);
        if opened.may_wait {
            return self.errands.run(owner.user, move || file.function(FileOffset(offset)));
        }
        let begin = thread_cpu_time();
        let found = file.function(FileOffset(offset));
        self.errands.charge(owner.user, thread_cpu_time().saturating_sub(begin));
        Some(found)
    }

    /// The file of an image; only one that is shared if it is not certain whose process it is.
    fn opened(
        &mut self,
        (owner, own): (Owner, Scope),
        mapping: &Mapping,
        images: &Images,
        is_certain: bool,
    ) -> Option<Opened> {
        let key = (own, mapping.image);
        match self.files.get(&key) {
            Some(File::Open(opened)) => {
                return Some(opened.clone()).filter(|opened| is_certain || opened.is_shared);
            }
            Some(File::Missing(until)) if *until > Instant::now() => return None,
            _ => {}
        }
        let image = images.get(mapping.image);
        let (path, build_id) = (image.path.clone(), image.build_id.clone());
        let (pid, Mapping { start, end, .. }) = (owner.pid, *mapping);
        let opened = self.errands.run(owner.user, move || {
            let is_it = |file: &CallerLookup| file.identity().unwrap_or_default() == build_id;
            let open = |path: &Path| CallerLookup::open(path).ok().filter(is_it);
            let file = open(Path::new(&format!("/proc/{pid}/map_files/{:x}-{:x}", start.0, end.0)))
                .or_else(|| open(&as_seen_by(pid, path.as_bytes(), FileId::default())?))
                // It has ended: the same file may still be there.
                .or_else(|| (!build_id.is_empty()).then(|| open(Path::new(&path))).flatten())?;
            let may_wait = !is_local(file.file(), has_trusted_files(pid));
            let is_shared = is_roots_own(file.file());
            Some(Opened { file: Arc::new(file), may_wait, is_shared })
        });
        // Otherwise it was not tried.
        let opened = opened?;
        if !is_certain && opened.as_ref().is_none_or(|opened| !opened.is_shared) {
            return None;
        }
        if self.files.len() >= MOST_FILES {
            // One's own first.
            let scope_is_own = |(scope, _): &&(Scope, ImageIndex)| *scope == own;
            let oldest = self.files.keys().find(scope_is_own).or_else(|| self.files.keys().next()).copied();
            oldest.map(|key| self.files.remove(&key));
        }
        if let Some(opened) = &opened
            && let Some(python) = opened.file.python()
        {
            let scope = if opened.is_shared && own == Scope::User(owner.user) { Scope::All } else { own };
            self.pythons.insert((scope, mapping.image), Arc::new(python.clone()));
            self.generation += 1;
        }
        let state = match &opened {
            Some(opened) => File::Open(opened.clone()),
            None => File::Missing(Instant::now() + AGAIN),
        };
        self.files.insert(key, state);
        opened
    }

    /// The interpreter of Python in an image that a process has mapped, as far as is known.
    pub fn python(&self, owner: Owner, image: ImageIndex, images: &Images) -> Option<&Arc<PythonExports>> {
        let own = Scope::of(owner, images.get(image));
        [Scope::All, own].into_iter().find_map(|scope| self.pythons.get(&(scope, image)))
    }

    /// Another number after more files with interpreters have been found; zero before the first one.
    pub fn pythons(&self) -> u64 {
        self.generation
    }

    /// Forgets images that have no mark: their numbers may be given to others.
    pub fn keep(&mut self, marks: &Marks) {
        self.positions.retain(|(_, image, _), _| marks.has(*image));
        self.functions.retain(|(_, image), _| marks.has(image.0));
        self.files.retain(|(_, image), _| marks.has(image.0));
        self.pythons.retain(|(_, image), _| marks.has(image.0));
        self.bytes = self.functions.values().flat_map(BTreeMap::values).map(Function::bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read_identity;
    use wire::{Address, Nanos};

    /// What this process has mapped of its own program, and an image of it.
    fn ours(images: &mut Images) -> Mapping {
        let maps = kernel::maps(std::process::id()).unwrap();
        let address = Address(ours as *const () as u64);
        let ours = maps.into_iter().find(|mapping| mapping.contains(address)).unwrap();
        let path = ours.path.unwrap();
        let build_id = read_identity(&path).unwrap_or_default();
        let image = images.intern(ImageKind::File, path.to_str().unwrap().as_bytes(), &build_id);
        Mapping { start: ours.start, end: ours.end, image, offset: ours.offset.0 }
    }

    #[test]
    fn a_function_is_read_once_and_only_while_it_is_paid_for() {
        let mut images = Images::new(&[]);
        let mapping = ours(&mut images);
        let offset = mapping.offset + (ours as *const () as u64 - mapping.start.0) + 1;
        let owner = Owner { pid: std::process::id(), user: kernel::stream::own_user() };
        let mut callers = Callers::new(8 << 20);
        let rule = callers.of(owner, &mapping, offset, &images);
        assert!(matches!(rule, Code::Known(Caller::By(_))), "{rule:?}");
        assert_eq!(callers.of(owner, &mapping, offset, &images), rule);
        let functions = |callers: &Callers| callers.functions.values().map(BTreeMap::len).sum::<usize>();
        assert_eq!(functions(&callers), 1);
        // Not even its neighbours, while the user has had enough.
        callers.errands.charge(owner.user, Nanos(10_000_000_000));
        assert_eq!(callers.of(owner, &mapping, mapping.offset + 64, &images), Code::Unread);
        assert_eq!((functions(&callers), callers.of(owner, &mapping, offset, &images)), (1, rule));
        // What is no longer mapped is forgotten.
        callers.keep(&images.marks());
        assert_eq!((functions(&callers), callers.bytes, callers.files.len()), (0, 0, 0));
        assert!(callers.positions.is_empty());
    }

    #[test]
    fn another_file_of_the_same_name_says_nothing() {
        let mut images = Images::new(&[]);
        let ours = ours(&mut images);
        let path = images.get(ours.image).path.clone();
        let other = images.intern(ImageKind::File, path.as_bytes(), &[1, 2, 3]);
        let mapping = Mapping { image: other, ..ours };
        let mut callers = Callers::new(8 << 20);
        let owner = Owner { pid: std::process::id(), user: kernel::stream::own_user() };
        assert_eq!(callers.of(owner, &mapping, mapping.offset + 64, &images), Code::Unread);
        assert!(matches!(callers.files[&(Scope::User(owner.user), other)], File::Missing(_)));
    }

    #[test]
    fn what_a_file_of_one_user_says_is_not_said_of_others() {
        let mut images = Images::new(&[]);
        let mapping = ours(&mut images);
        let offset = mapping.offset + (ours as *const () as u64 - mapping.start.0) + 1;
        let (pid, user) = (std::process::id(), kernel::stream::own_user());
        let (we, other) = (Owner { pid, user }, Owner { pid, user: user + 1 });
        let mut callers = Callers::new(8 << 20);
        let known = callers.of(we, &mapping, offset, &images);
        assert!(matches!(known, Code::Known(Caller::By(_))));
        // This program is the tests' own, or root's.
        for is_shared in [false, true] {
            (callers.functions, callers.positions) = Default::default();
            callers.files.retain(|(scope, _), _| *scope == Scope::User(user));
            match callers.files.get_mut(&(Scope::User(user), mapping.image)) {
                Some(File::Open(opened)) => opened.is_shared = is_shared,
                missing => panic!("{missing:?}"),
            }
            assert_eq!(callers.of(we, &mapping, offset, &images), known);
            // Nothing may be learned for a user from a process of another one.
            let found =
                callers.known(if is_shared { Scope::All } else { Scope::User(user) }, mapping.image, offset);
            assert_eq!(found.map(Code::Known), Some(known), "{is_shared}");
            let of_other = callers.known(Scope::User(user + 1), mapping.image, offset);
            assert_eq!(of_other, None);
            if is_shared {
                assert_eq!(callers.of(other, &mapping, offset, &images), known);
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut images = Images::new(&[]);
        let mapping = ours(&mut images);
        let mut callers =
            Callers::new(MOST_POSITIONS * size_of::<((Scope, u32, u64), Caller)>() + (16 << 10));
        let owner = Owner { pid: std::process::id(), user: kernel::stream::own_user() };
        for at in (0..mapping.end.0 - mapping.start.0).step_by(64).take(2000) {
            callers.errands = Errands::default();
            callers.of(owner, &mapping, mapping.offset + at, &images);
            assert!(callers.bytes <= 16 << 10, "{}", callers.bytes);
        }
    }
}
