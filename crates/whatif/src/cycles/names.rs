//! Names for positions in images.
//!
//! What the catalogue knows comes first: names of the kernel, of generated code, and all that an earlier query found. The
//! rest is looked up in files, but only in the very build that was sampled, and kept in the catalogue for the next query.

use anyhow::Result;
use profile::continuous::{CodeImage, Database, ImageId, ImageKind, Offset, Symbol};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use symbols::{FileOffset, Image, Scope, ScopeOptions};

/// Positions that one thread looks up at a time.
const CHUNK: usize = 1000;

/// Why positions of an image have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// No file is known to be mapped there.
    NoImage,
    /// Memory of no file, and nobody said what is in it.
    Memory,
    /// The program generates code and does not say what.
    Generated,
    /// The kernel's names were not known when it was sampled.
    Kernel,
    /// The file is not here.
    Missing,
    /// The file here is of another build.
    OtherBuild,
    /// The file cannot be understood.
    Unreadable,
    /// The file says nothing about these positions.
    NoSymbols,
}

impl Problem {
    /// Short and stable.
    pub fn code(self) -> &'static str {
        match self {
            Problem::NoImage => "no-image",
            Problem::Memory => "memory",
            Problem::Generated => "generated",
            Problem::Kernel => "kernel",
            Problem::Missing => "missing-file",
            Problem::OtherBuild => "other-build",
            Problem::Unreadable => "unreadable-file",
            Problem::NoSymbols => "no-symbols",
        }
    }

    /// For people: why, and what mends it.
    pub fn explained(self) -> (&'static str, &'static str) {
        match self {
            Problem::NoImage => (
                "the address lay in no mapping that the collector knew of",
                "short-lived processes can be the reason; if it is much, see the log of the collector: journalctl -u whatif",
            ),
            Problem::Memory => (
                "memory of no file: code that a program wrote itself, without saying what it is",
                "if it is a just-in-time compiler, let it write a map: node --perf-basic-prof, java -XX:+DumpPerfMapAtExit, \
                 PYTHONPERFSUPPORT=1",
            ),
            Problem::Generated => (
                "generated code without a name in the map of its program",
                "let the compiler write its map as it goes (node --perf-basic-prof), not only at its end",
            ),
            Problem::Kernel => (
                "the kernel does not tell its addresses",
                "let the collector read them: sysctl kernel.kptr_restrict=0, or run it with CAP_SYSLOG",
            ),
            Problem::Missing => (
                "the file is not on this machine, or no longer: it was deleted, replaced, or is in a container's file system",
                "get its debug file by build ID (debuginfod-find debuginfo BUILD-ID), put it below /usr/lib/debug/.build-id, or \
                 ask while the container runs",
            ),
            Problem::OtherBuild => (
                "the file here is of another build than the one that was sampled",
                "keep the debug files of what you deploy below /usr/lib/debug/.build-id, or let debuginfod have them",
            ),
            Problem::Unreadable => {
                ("the file cannot be read as a program", "run this as a user who can read it")
            }
            Problem::NoSymbols => (
                "the file has no symbols for this code",
                "install its debug package (apt install PACKAGE-dbgsym, dnf debuginfo-install PACKAGE), or build it with -g",
            ),
        }
    }
}

/// A file that was found for an image.
pub struct Found {
    /// The file.
    pub image: Image,
    /// Whether it is the program itself, rather than its debug information alone.
    pub has_code: bool,
}

/// Finds the file of an image: the very build.
pub fn open(image: &CodeImage) -> Result<Found, Problem> {
    match image.kind {
        ImageKind::File => {}
        ImageKind::Kernel => return Err(Problem::Kernel),
        ImageKind::Generated => return Err(Problem::Generated),
        ImageKind::Memory => return Err(Problem::Memory),
        ImageKind::Idle | ImageKind::Unknown => return Err(Problem::NoImage),
    }
    let path = Path::new(&image.path);
    let is_right =
        |found: &Image| image.build_id.is_empty() || found.build_id().as_deref() == Some(&image.build_id);
    let mut problem = Problem::Missing;
    // Whatever a path of another mount namespace names here, a pipe would never end.
    if path.is_file() {
        match Image::open(path) {
            Ok(found) if is_right(&found) => return Ok(Found { image: found, has_code: true }),
            Ok(_) => problem = Problem::OtherBuild,
            Err(_) => problem = Problem::Unreadable,
        }
    }
    for (place, has_code) in elsewhere(&image.build_id, |name| std::env::var_os(name).map(PathBuf::from)) {
        if place.is_file()
            && let Ok(found) = Image::open(&place)
            && is_right(&found)
        {
            return Ok(Found { image: found, has_code });
        }
    }
    Err(problem)
}

/// Where a build may be kept, and whether it would be with its code.
fn elsewhere(build_id: &str, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<(PathBuf, bool)> {
    if build_id.len() < 3 || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Vec::new();
    }
    let cache = variable("DEBUGINFOD_CACHE_PATH")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("debuginfod_client")))
        .or_else(|| Some(variable("HOME")?.join(".cache/debuginfod_client")));
    let (first, rest) = build_id.split_at(2);
    let cached = cache.map(|cache| cache.join(build_id));
    let cached = cached.into_iter();
    let of_machine = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    cached
        .clone()
        .map(|folder| (folder.join("executable"), true))
        .chain([(of_machine, false)])
        .chain(cached.map(|folder| (folder.join("debuginfo"), false)))
        .collect()
}

/// All names that are known.
pub struct Names {
    images: BTreeMap<ImageId, CodeImage>,
    known: HashMap<ImageId, HashMap<Offset, Vec<Symbol>>>,
    problems: BTreeMap<ImageId, Problem>,
}

impl Names {
    /// No names yet.
    pub fn new(images: BTreeMap<ImageId, CodeImage>) -> Names {
        Names { images, known: HashMap::new(), problems: BTreeMap::new() }
    }

    /// All images.
    pub fn images(&self) -> &BTreeMap<ImageId, CodeImage> {
        &self.images
    }

    /// An image; of none that is known, an unknown one.
    pub fn image(&self, id: ImageId) -> CodeImage {
        let unknown =
            || CodeImage { path: "[unknown]".to_owned(), build_id: String::new(), kind: ImageKind::Unknown };
        self.images.get(&id).cloned().unwrap_or_else(unknown)
    }

    /// Finds out about positions.
    pub fn learn(
        &mut self,
        db: &Database,
        wanted: impl IntoIterator<Item = (ImageId, Offset)>,
    ) -> Result<()> {
        let mut by_image: BTreeMap<ImageId, BTreeSet<Offset>> = BTreeMap::new();
        for (image, offset) in wanted {
            by_image.entry(image).or_default().insert(offset);
        }
        let mut jobs: Vec<(ImageId, Vec<Offset>)> = Vec::new();
        for (id, offsets) in by_image {
            let kind = self.image(id).kind;
            if kind == ImageKind::Idle || kind == ImageKind::Unknown {
                continue;
            }
            if let std::collections::hash_map::Entry::Vacant(entry) = self.known.entry(id) {
                entry.insert(db.symbols(id)?);
            }
            let known = &self.known[&id];
            let missing: Vec<Offset> =
                offsets.into_iter().filter(|offset| !known.contains_key(offset)).collect();
            if missing.is_empty() {
                continue;
            }
            if kind == ImageKind::File {
                jobs.push((id, missing));
            } else if let Err(problem) = open(&self.image(id)) {
                self.problems.insert(id, problem);
            }
        }
        for (id, found) in look_up(&self.images, &jobs) {
            match found {
                Ok(found) => {
                    if found.len() < jobs.iter().find(|(job, _)| *job == id).map_or(0, |(_, all)| all.len()) {
                        self.problems.insert(id, Problem::NoSymbols);
                    }
                    db.remember_symbols(id, &found);
                    self.known.entry(id).or_default().extend(found);
                }
                Err(problem) => {
                    self.problems.insert(id, problem);
                }
            }
        }
        Ok(())
    }

    /// What is at a position, innermost inlined function first; nothing if nobody knows.
    pub fn symbols(&self, image: ImageId, offset: Offset) -> &[Symbol] {
        self.known.get(&image).and_then(|known| known.get(&offset)).map_or(&[], Vec::as_slice)
    }

    /// The functions at a position, and whether their names [are verbatim](Self::is_verbatim).
    pub fn functions(&self, image: ImageId, offset: Offset) -> impl Iterator<Item = (&str, bool)> {
        let is_verbatim = self.is_verbatim(image);
        self.symbols(image, offset).iter().map(move |symbol| (symbol.function.as_str(), is_verbatim))
    }

    /// Why positions of an image have no names, if some have none.
    pub fn problem(&self, image: ImageId) -> Option<Problem> {
        let by_kind = match self.image(image).kind {
            ImageKind::Unknown => Some(Problem::NoImage),
            _ => None,
        };
        by_kind.or_else(|| self.problems.get(&image).copied())
    }

    /// Whether names of an image are names and nothing more: of scripts, and of C, whatever characters they have.
    pub fn is_verbatim(&self, image: ImageId) -> bool {
        let kind = self.images.get(&image).map(|image| image.kind);
        matches!(kind, Some(ImageKind::Generated | ImageKind::Kernel))
    }

    /// What stands for code of an image that has no name.
    pub fn nameless(&self, image: ImageId) -> String {
        let CodeImage { path, .. } = self.image(image);
        if path.starts_with('[') {
            return path;
        }
        format!("[{}]", path.rsplit('/').next().unwrap_or(&path))
    }
}

type Answer = Result<Vec<(Offset, Vec<Symbol>)>, Problem>;

/// Looks positions up in files, with as many threads as there are CPUs.
fn look_up(images: &BTreeMap<ImageId, CodeImage>, jobs: &[(ImageId, Vec<Offset>)]) -> Vec<(ImageId, Answer)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all: usize = jobs.iter().map(|(_, offsets)| offsets.len()).sum();
    // Opening a file is not worth a thread if there is nothing to look up in it.
    let threads = threads.min(all.div_ceil(CHUNK / 4)).max(1);
    let files: Vec<_> = in_threads(threads, jobs.len(), |nth| open(&images[&jobs[nth].0]));
    let Ok(scope) = Scope::new(ScopeOptions::default()) else { return Vec::new() };
    let chunks: Vec<(usize, &[Offset])> = jobs
        .iter()
        .enumerate()
        .filter(|(nth, _)| files[*nth].is_ok())
        .flat_map(|(nth, (_, offsets))| offsets.chunks(CHUNK).map(move |chunk| (nth, chunk)))
        .collect();
    let found = in_threads(threads, chunks.len(), |nth| {
        let (job, offsets) = chunks[nth];
        let Ok(Found { image, .. }) = &files[job] else { return Vec::new() };
        let named = offsets.iter().map(|offset| (*offset, at(image, *offset, &scope)));
        named.filter(|(_, symbols)| !symbols.is_empty()).collect::<Vec<_>>()
    });
    let mut answers: Vec<(ImageId, Answer)> = jobs
        .iter()
        .zip(&files)
        .map(|((id, _), file)| (*id, file.as_ref().map(|_| Vec::new()).map_err(|problem| *problem)))
        .collect();
    for ((job, _), symbols) in chunks.iter().zip(found) {
        if let Ok(answer) = &mut answers[*job].1 {
            answer.extend(symbols);
        }
    }
    answers
}

/// What a file says about a position.
fn at(image: &Image, Offset(offset): Offset, scope: &Scope) -> Vec<Symbol> {
    let Some(address) = image.stated(FileOffset(offset)) else { return Vec::new() };
    let frames = image.frames(address, scope);
    if frames.iter().all(|frame| frame.function.is_unknown()) {
        return Vec::new();
    }
    let symbol = |frame: symbols::Frame| Symbol {
        function: frame.function.full().to_owned(),
        file: frame.file.as_deref().unwrap_or_default().to_owned(),
        line: frame.line.unwrap_or(0),
    };
    frames.into_iter().map(symbol).collect()
}

/// `what` of 0, 1, … `count − 1`, in that order.
fn in_threads<T: Send>(threads: usize, count: usize, what: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if threads <= 1 || count <= 1 {
        return (0..count).map(what).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                loop {
                    // Only hands out numbers; the mutex publishes what was done.
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        return;
                    }
                    let result = what(nth);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((nth, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_unstable_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_looked_for_in_order() {
        let variable = |name: &str| (name == "HOME").then(|| PathBuf::from("/h"));
        let places: Vec<String> = elsewhere("abcdef", variable)
            .into_iter()
            .map(|(path, has_code)| format!("{} {has_code}", path.display()))
            .collect();
        assert_eq!(
            places,
            [
                "/h/.cache/debuginfod_client/abcdef/executable true",
                "/usr/lib/debug/.build-id/ab/cdef.debug false",
                "/h/.cache/debuginfod_client/abcdef/debuginfo false",
            ]
        );
        for id in ["", "ab", "../../etc/passwd"] {
            assert!(elsewhere(id, variable).is_empty());
        }
    }

    #[test]
    fn results_are_in_order() {
        for threads in [1, 3] {
            assert_eq!(in_threads(threads, 100, |n| n * 2), (0..100).map(|n| n * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_the_build_that_was_sampled_has_names() {
        let path = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let image = |path: &str, build_id: &str, kind| CodeImage {
            path: path.to_owned(),
            build_id: build_id.to_owned(),
            kind,
        };
        let problem = |image: CodeImage| open(&image).err();
        assert_eq!(problem(image(&path, "", ImageKind::File)), None);
        assert_eq!(problem(image(&path, "0123", ImageKind::File)), Some(Problem::OtherBuild));
        assert_eq!(problem(image("/nowhere", "0123", ImageKind::File)), Some(Problem::Missing));
        assert_eq!(problem(image("/dev/zero", "", ImageKind::File)), Some(Problem::Missing));
        assert_eq!(problem(image("[kernel]", "", ImageKind::Kernel)), Some(Problem::Kernel));
    }
}
