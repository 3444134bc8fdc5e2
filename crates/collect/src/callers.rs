//! Where the callers of code are, by what its files have written down: read a function at a time, when the function is first met.

use crate::errands::Errands;
use crate::files::as_seen_by;
use crate::hash::Mixed;
use crate::images::{ImageIndex, Images};
use crate::slots::Marks;
use crate::space::Mapping;
use crate::walk::Code;
use archive::ImageKind;
use kernel::clock::thread_cpu_time;
use kernel::maps::FileId;
use kernel::untrusted::{has_trusted_files, is_local};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use symbols::{Caller, CallerLookup, FileOffset, FunctionCallers};

/// Positions whose callers are known at once.
const MOST_POSITIONS: usize = 1 << 15;
/// Files that are open at a time.
const MOST_FILES: usize = 64;
/// A file that could not be opened is tried again after this time: by another process, perhaps.
const AGAIN: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct Callers {
    positions: HashMap<(u32, u64), Caller, Mixed>,
    /// By where they begin.
    functions: HashMap<ImageIndex, BTreeMap<u64, Function>>,
    files: HashMap<ImageIndex, File>,
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

#[derive(Debug)]
enum File {
    /// And whether reading it may take forever.
    Open(Arc<CallerLookup>, bool),
    /// Not before this.
    Missing(Instant),
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
            bytes: 0,
            most: most.saturating_sub(MOST_POSITIONS * size_of::<((u32, u64), Caller)>()),
            errands: Errands::frugal(),
        }
    }

    /// How to find the caller of the code at a position of an image, which a process has mapped.
    pub fn of(&mut self, owner: Owner, mapping: &Mapping, offset: u64, images: &Images) -> Code {
        let key = (mapping.image.0, offset);
        if let Some(known) = self.positions.get(&key) {
            return Code::Known(*known);
        }
        if images.get(mapping.image).kind != ImageKind::File {
            return Code::Known(Caller::Unknown);
        }
        let caller = match self.known(mapping.image, offset) {
            Some(caller) => caller,
            None => match self.learn(owner, mapping, offset, images) {
                Some(caller) => caller,
                None => return Code::Unread,
            },
        };
        if self.positions.len() >= MOST_POSITIONS {
            self.positions.clear();
        }
        self.positions.insert(key, caller);
        Code::Known(caller)
    }

    fn known(&self, image: ImageIndex, offset: u64) -> Option<Caller> {
        let (_, function) = self.functions.get(&image)?.range(..=offset).next_back()?;
        if offset >= function.end {
            return None;
        }
        let after = function.rows.partition_point(|(at, _)| *at <= offset);
        Some(after.checked_sub(1).map_or(Caller::Unknown, |row| function.rows[row].1))
    }

    /// Reads what is written down for the function there; nothing if that cannot be done just now.
    fn learn(&mut self, owner: Owner, mapping: &Mapping, offset: u64, images: &Images) -> Option<Caller> {
        if !self.errands.accepts(owner.user) {
            return None;
        }
        let found = self.read(owner, mapping, offset, images);
        let FunctionCallers { code, rows } = found?.unwrap_or_else(|| {
            let start = offset - offset % UNKNOWN;
            FunctionCallers { code: start..start + UNKNOWN, rows: Vec::new() }
        });
        let bytes = size_of::<(u64, Function)>() * 2 + rows.len() * size_of::<(u64, Caller)>();
        if self.bytes + bytes > self.most {
            self.functions = HashMap::new();
            self.bytes = 0;
        }
        self.bytes += bytes;
        let function = Function { end: code.end, rows: rows.into() };
        self.functions.entry(mapping.image).or_default().insert(code.start, function);
        self.known(mapping.image, offset)
    }

    /// Nothing if it is not known, nothing of it if it is known that nothing is written down.
    fn read(
        &mut self,
        owner: Owner,
        mapping: &Mapping,
        offset: u64,
        images: &Images,
    ) -> Option<Option<FunctionCallers>> {
        let (file, may_wait) = match self.files.get(&mapping.image) {
            Some(File::Open(file, may_wait)) => (Arc::clone(file), *may_wait),
            Some(File::Missing(until)) if *until > Instant::now() => return None,
            _ => self.open(owner, mapping, images)?,
        };
        if may_wait {
            return self.errands.run(owner.user, move || file.function(FileOffset(offset)));
        }
        let begin = thread_cpu_time();
        let found = file.function(FileOffset(offset));
        self.errands.charge(owner.user, thread_cpu_time().saturating_sub(begin));
        Some(found)
    }

    fn open(
        &mut self,
        owner: Owner,
        mapping: &Mapping,
        images: &Images,
    ) -> Option<(Arc<CallerLookup>, bool)> {
        let image = images.get(mapping.image);
        let (path, build_id) = (image.path.clone(), image.build_id.clone());
        let (pid, Mapping { start, end, .. }) = (owner.pid, *mapping);
        let opened = self.errands.run(owner.user, move || {
            let is_it = |file: &CallerLookup| file.build_id().unwrap_or_default() == build_id;
            let open = |path: &Path| CallerLookup::open(path).ok().filter(is_it);
            let file = open(Path::new(&format!("/proc/{pid}/map_files/{:x}-{:x}", start.0, end.0)))
                .or_else(|| open(&as_seen_by(pid, path.as_bytes(), FileId::default())?))
                // It has ended: the same file may still be there.
                .or_else(|| (!build_id.is_empty()).then(|| open(Path::new(&path))).flatten())?;
            let may_wait = !is_local(file.file(), has_trusted_files(pid));
            Some((Arc::new(file), may_wait))
        });
        if self.files.len() >= MOST_FILES {
            self.files.clear();
        }
        // Otherwise it was not tried.
        let file = opened?;
        let state = match &file {
            Some((file, may_wait)) => File::Open(Arc::clone(file), *may_wait),
            None => File::Missing(Instant::now() + AGAIN),
        };
        self.files.insert(mapping.image, state);
        file
    }

    /// Forgets images that have no mark: their numbers may be given to others.
    pub fn keep(&mut self, marks: &Marks) {
        self.positions.retain(|(image, _), _| marks.has(*image));
        self.functions.retain(|image, _| marks.has(image.0));
        self.files.retain(|image, _| marks.has(image.0));
        let of = |function: &Function| size_of::<(u64, Function)>() * 2 + size_of_val(&*function.rows);
        self.bytes = self.functions.values().flat_map(BTreeMap::values).map(of).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Address, Nanos};

    /// What this process has mapped of its own program, and an image of it.
    fn ours(images: &mut Images) -> Mapping {
        let maps = kernel::maps(std::process::id()).unwrap();
        let address = Address(ours as *const () as u64);
        let ours = maps.into_iter().find(|mapping| mapping.contains(address)).unwrap();
        let path = ours.path.unwrap();
        let build_id = CallerLookup::open(&path).unwrap().build_id().unwrap_or_default();
        let bytes: Vec<u8> = (0..build_id.len() / 2)
            .map(|nth| u8::from_str_radix(&build_id[2 * nth..2 * nth + 2], 16).unwrap())
            .collect();
        let image = images.intern(ImageKind::File, path.to_str().unwrap().as_bytes(), &bytes);
        Mapping { start: ours.start, end: ours.end, image, offset: ours.offset.0 }
    }

    #[test]
    fn a_function_is_read_once_and_only_while_it_is_paid_for() {
        let mut images = Images::new(&[]);
        let mapping = ours(&mut images);
        let offset = mapping.offset + (ours as *const () as u64 - mapping.start.0) + 1;
        let owner = Owner { pid: std::process::id(), user: 7 };
        let mut callers = Callers::new(8 << 20);
        let rule = callers.of(owner, &mapping, offset, &images);
        assert!(matches!(rule, Code::Known(Caller::By(_))), "{rule:?}");
        assert_eq!(callers.of(owner, &mapping, offset, &images), rule);
        let functions = |callers: &Callers| callers.functions.values().map(BTreeMap::len).sum::<usize>();
        assert_eq!(functions(&callers), 1);
        // Not even its neighbours, while the user has had enough.
        callers.errands.charge(7, Nanos(10_000_000_000));
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
        let owner = Owner { pid: std::process::id(), user: 7 };
        assert_eq!(callers.of(owner, &mapping, mapping.offset + 64, &images), Code::Unread);
        assert!(matches!(callers.files[&other], File::Missing(_)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut images = Images::new(&[]);
        let mapping = ours(&mut images);
        let mut callers = Callers::new(MOST_POSITIONS * size_of::<((u32, u64), Caller)>() + (16 << 10));
        let owner = Owner { pid: std::process::id(), user: 7 };
        for at in (0..mapping.end.0 - mapping.start.0).step_by(64).take(2000) {
            callers.errands = Errands::default();
            callers.of(owner, &mapping, mapping.offset + at, &images);
            assert!(callers.bytes <= 16 << 10, "{}", callers.bytes);
        }
    }
}
