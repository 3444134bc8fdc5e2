//! Names for positions in images.
//!
//! What the catalogue knows comes first: names of the kernel, of generated code, and all that an earlier query found. The
//! rest is looked up in files, but only in the very build that was sampled, and kept in the catalogue for the next query. What no file says any
//! more is among the names that the collector has kept (`archive::KeptNames`): of functions, without lines.

use super::pattern::last;
use super::running::Running;
use anyhow::Result;
use archive::{CodeImage, Database, ImageId, ImageKind, KeptNames, KnownPositions, Offset, Position, Symbol};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use symbols::{DebugFilePath, FileOffset, Image, Scope, ScopeOptions};

/// Positions that one thread looks up at a time.
const CHUNK: usize = 1000;

/// Why positions of an image have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// No file is known to be mapped there.
    NoImage,
    /// Memory of no file, whose content is unknown.
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
    /// The collector follows only so much of each user.
    Limit,
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
            Problem::Limit => "limit",
        }
    }

    /// Why, in a few words.
    pub fn brief(self) -> &'static str {
        match self {
            Problem::NoImage => "no file known",
            Problem::Memory => "memory of no file",
            Problem::Generated => "not in its map",
            Problem::Kernel => "addresses hidden",
            Problem::Missing => "not here",
            Problem::OtherBuild => "another build is here",
            Problem::Unreadable => "not readable",
            Problem::NoSymbols => "no symbols",
            Problem::Limit => "more than is followed",
        }
    }

    /// How to fix it, for this build.
    pub fn advice(self, build_id: &str) -> String {
        let (_, advice) = self.explained();
        advice.replace("BUILD-ID", if build_id.is_empty() { "BUILD-ID" } else { build_id })
    }

    /// For people: why, and how to fix it.
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
                 ask as root while a process still runs it",
            ),
            Problem::OtherBuild => (
                "the file here is of another build than the one that was sampled",
                "keep the debug files of what you deploy below /usr/lib/debug/.build-id, let debuginfod have them, or ask as root \
                 while a process still runs it",
            ),
            Problem::Unreadable => {
                ("the file cannot be read as a program", "run this as a user who can read it")
            }
            Problem::NoSymbols => (
                "the file has no symbols for this code",
                "install its debug package (apt install PACKAGE-dbgsym, dnf debuginfo-install PACKAGE), or build it with -g",
            ),
            Problem::Limit => (
                "processes of this user had more mappings, more different stacks or longer lists of generated code than the \
                 collector follows for one user, or a list that it could not read",
                "if they are programs you need to see, let the collector take more memory: whatif collect --max-memory 256M",
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
    /// Where it was found, for people.
    pub place: PathBuf,
}

/// Opens the file, or the one that running processes have.
fn open_or(image: &CodeImage, running: &Running) -> Result<Found, Problem> {
    open(image).or_else(|problem| {
        let is_file = image.kind == ImageKind::File;
        let (image, place) = running.find(image).filter(|_| is_file).ok_or(problem)?;
        Ok(Found { image, has_code: true, place })
    })
}

/// Finds the file of an image: the very build.
fn open(image: &CodeImage) -> Result<Found, Problem> {
    match image.kind {
        ImageKind::File => {}
        ImageKind::Kernel => return Err(Problem::Kernel),
        ImageKind::Generated => return Err(Problem::Generated),
        ImageKind::Memory => return Err(Problem::Memory),
        ImageKind::Idle | ImageKind::Unknown => return Err(Problem::NoImage),
    }
    let path = Path::new(&image.path);
    let is_right =
        |found: &Image| image.build_id.is_empty() || found.identity().as_deref() == Some(&image.build_id);
    let mut problem = Problem::Missing;
    // Whatever a path of another mount namespace names here, a pipe would never end.
    if path.is_file() {
        match Image::open(path) {
            Ok(found) if is_right(&found) => {
                return Ok(Found { image: found, has_code: true, place: path.to_owned() });
            }
            Ok(_) => problem = Problem::OtherBuild,
            Err(_) => problem = Problem::Unreadable,
        }
    }
    for DebugFilePath { path, has_code } in symbols::debug_file_paths(&image.build_id) {
        if path.is_file()
            && let Ok(found) = Image::open(&path)
            && is_right(&found)
        {
            return Ok(Found { image: found, has_code, place: path });
        }
    }
    if !image.build_id.is_empty()
        && !symbols::is_content_identity(&image.build_id)
        && let Some(place) = symbols::debuginfod::fetch(&image.build_id, path)
        && let Ok(found) = Image::open(&place)
        && is_right(&found)
    {
        return Ok(Found { image: found, has_code: false, place });
    }
    Err(problem)
}

/// All names that are known.
pub struct Names {
    running: Running,
    images: BTreeMap<ImageId, CodeImage>,
    known: HashMap<ImageId, KnownPositions>,
    /// Names that the collector has kept of files.
    kept: Option<KeptNames>,
    problems: BTreeMap<ImageId, Problem>,
    /// Whether inlined functions are functions of their own.
    inlined: bool,
}

impl Names {
    /// No names yet.
    pub fn new(images: BTreeMap<ImageId, CodeImage>) -> Names {
        Names {
            running: Running::default(),
            images,
            known: HashMap::new(),
            kept: None,
            problems: BTreeMap::new(),
            inlined: true,
        }
    }

    /// Whether inlined functions are functions of their own; otherwise they are part of the function that they were inlined into.
    pub fn set_inlined(&mut self, inlined: bool) {
        self.inlined = inlined;
    }

    /// Names that were found elsewhere: [`learn`](Self::learn) is not needed, and there are no others.
    pub fn of_known(images: BTreeMap<ImageId, CodeImage>, known: HashMap<ImageId, KnownPositions>) -> Names {
        Names { known, ..Names::new(images) }
    }

    /// Finds the file of an image: the very build, where it belongs, or as a process has it that still runs.
    pub fn open(&self, image: &CodeImage) -> Result<Found, Problem> {
        open_or(image, &self.running)
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
    pub fn learn(&mut self, db: &Database, wanted: impl IntoIterator<Item = Position>) -> Result<()> {
        let mut wanted: Vec<Position> = wanted.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let has_names = |id: &ImageId| !matches!(self.image(*id).kind, ImageKind::Idle | ImageKind::Unknown);
        let by_image: Vec<(ImageId, &[Position])> = wanted
            .chunk_by(|(image, _), (other, _)| image == other)
            .map(|of_image| (of_image[0].0, of_image))
            .filter(|(id, _)| has_names(id))
            .collect();
        let new: Vec<ImageId> =
            by_image.iter().map(|(id, _)| *id).filter(|id| !self.known.contains_key(id)).collect();
        self.known.extend(db.symbols(&new)?);
        let mut jobs: Vec<(ImageId, Vec<Offset>)> = Vec::new();
        let mut unnamed: Vec<(ImageId, Vec<Offset>, Problem)> = Vec::new();
        for (id, positions) in by_image {
            let (known, image) = (&self.known[&id], self.image(id));
            let offsets = positions.iter().map(|(_, offset)| *offset);
            let mut missing: Vec<Offset> =
                offsets.filter(|offset| !known.named.contains_key(offset)).collect();
            if missing.is_empty() {
                continue;
            }
            if image.kind != ImageKind::File {
                if let Err(problem) = open(&image) {
                    self.problems.insert(id, problem);
                }
                continue;
            }
            let searched = searched(&image);
            // Servers may have names for them.
            let is_asked = symbols::debuginfod::is_allowed();
            let is_nameless =
                |offset: &mut Offset| !is_asked && known.nameless.get(offset) == Some(&searched);
            let nameless: Vec<Offset> = missing.extract_if(.., is_nameless).collect();
            if !nameless.is_empty() {
                unnamed.push((id, nameless, Problem::NoSymbols));
            }
            if !missing.is_empty() {
                jobs.push((id, missing));
            }
        }
        for ((id, found), (_, wanted)) in look_up(&self.images, &jobs, &self.running).into_iter().zip(&jobs) {
            match found {
                Ok(found) => {
                    let nameless = found.iter().filter(|(_, symbols)| symbols.is_empty());
                    let nameless: Vec<Offset> = nameless.map(|(offset, _)| *offset).collect();
                    if !nameless.is_empty() {
                        unnamed.push((id, nameless, Problem::NoSymbols));
                    }
                    db.remember_symbols(id, &found, searched(&self.image(id)));
                    let named = found.into_iter().filter(|(_, symbols)| !symbols.is_empty());
                    self.known.entry(id).or_default().named.extend(named);
                }
                Err(problem) => unnamed.push((id, wanted.clone(), problem)),
            }
        }
        self.take_kept(db, unnamed);
        Ok(())
    }

    /// What files do not say just now, the collector may have read from them. It is not remembered as what files say: they may say more again,
    /// such as lines.
    fn take_kept(&mut self, db: &Database, unnamed: Vec<(ImageId, Vec<Offset>, Problem)>) {
        let kept = self.kept.get_or_insert_with(|| KeptNames::of(db.folder(), 0));
        let images = &self.images;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let found = in_threads(threads, unnamed.len(), |nth| {
            let (id, offsets, _) = &unnamed[nth];
            images.get(id).map(|image| kept.look_up(image, offsets)).unwrap_or_default()
        });
        for ((id, offsets, problem), found) in unnamed.into_iter().zip(found) {
            if found.len() < offsets.len() {
                self.problems.insert(id, problem);
            }
            let named = found.into_iter().map(|(offset, name)| {
                let function = symbols::FunctionName::from_linkage(&name).full().into();
                (offset, vec![Symbol { function, ..Symbol::default() }])
            });
            self.known.entry(id).or_default().named.extend(named);
        }
    }

    /// What is at a position, innermost inlined function first; nothing if it is unknown.
    pub fn symbols(&self, image: ImageId, offset: Offset) -> &[Symbol] {
        let known = self.known.get(&image).and_then(|known| known.named.get(&offset));
        let all = known.map_or(&[][..], Vec::as_slice);
        if self.inlined { all } else { &all[all.len().saturating_sub(1)..] }
    }

    /// The functions at a position, and whether their names [are verbatim](Self::is_verbatim).
    pub fn functions(&self, image: ImageId, offset: Offset) -> impl Iterator<Item = (&str, bool)> {
        let is_verbatim = self.is_verbatim(image);
        self.symbols(image, offset).iter().map(move |symbol| (&*symbol.function, is_verbatim))
    }

    /// Why positions of an image have no names, if some have none.
    pub fn problem(&self, image: ImageId) -> Option<Problem> {
        let found = self.image(image);
        match found.kind {
            ImageKind::Unknown | ImageKind::Memory if is_limit(&found.path) => Some(Problem::Limit),
            ImageKind::Unknown => Some(Problem::NoImage),
            _ => self.problems.get(&image).copied(),
        }
    }

    /// Whether names of an image are names and nothing more: of scripts, and of C, whatever characters they have.
    pub fn is_verbatim(&self, image: ImageId) -> bool {
        self.images.get(&image).is_some_and(|image| match image.kind {
            ImageKind::Generated | ImageKind::Kernel => true,
            ImageKind::File => is_jitted(&image.path),
            _ => false,
        })
    }

    /// Whether an image stands for frames that are missing.
    pub fn is_mark(&self, image: ImageId) -> bool {
        self.images().get(&image).is_some_and(|image| archive::is_mark(&image.path))
    }

    /// What stands for code of an image that has no name.
    pub fn nameless(&self, image: ImageId) -> String {
        let CodeImage { path, .. } = self.image(image);
        if path.starts_with('[') {
            return path;
        }
        format!("[{}]", last(&path))
    }
}

/// Whether the collector wrote this in the place of what it could not follow.
fn is_limit(path: &str) -> bool {
    [archive::LIST_GIVEN_UP, archive::TOO_MUCH_MAPPED, archive::TOO_MANY_STACKS].contains(&path)
}

/// Whether `perf inject --jit` wrote this file, for one function that some program has generated.
fn is_jitted(path: &str) -> bool {
    let name = last(path);
    name.starts_with("jitted-") && name.ends_with(".so")
}

type Answer = Result<Vec<(Offset, Vec<Symbol>)>, Problem>;

/// Looks positions up in files, with as many threads as there are CPUs.
fn look_up(
    images: &BTreeMap<ImageId, CodeImage>,
    jobs: &[(ImageId, Vec<Offset>)],
    running: &Running,
) -> Vec<(ImageId, Answer)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all: usize = jobs.iter().map(|(_, offsets)| offsets.len()).sum();
    // Opening a file is not worth a thread if there is nothing to look up in it.
    let threads = threads.min(all.div_ceil(CHUNK / 4)).max(1);
    let files: Vec<_> = in_threads(threads, jobs.len(), |nth| open_or(&images[&jobs[nth].0], running));
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
        offsets.iter().map(|offset| (*offset, at(image, *offset, &scope))).collect::<Vec<_>>()
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

/// What of the files that may name code of an image is here, as one number: another one if there may be more to find than
/// before.
fn searched(image: &CodeImage) -> u32 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    let path = PathBuf::from(&image.path);
    let linked = symbols::linked_debug_files(&path);
    let kept = symbols::debug_file_paths(&image.build_id).into_iter().map(|place| place.path);
    // The files, not their folders: in those of builds, and in /tmp, files come and go that tell nothing.
    for path in kept.chain(linked).chain([path]) {
        let data = std::fs::metadata(path).ok();
        data.map(|data| (data.ino(), data.len(), data.mtime(), data.mtime_nsec())).hash(&mut hasher);
    }
    hasher.finish() as u32
}

/// What a file says about a position. A function that is only called by its address has no name: what is kept in the
/// catalogue is never removed, and a debug file may still come.
fn at(image: &Image, Offset(offset): Offset, scope: &Scope) -> Vec<Symbol> {
    let Some(address) = image.stated(FileOffset(offset)) else { return Vec::new() };
    let frames = image.named_frames(address, scope);
    if frames.iter().all(|frame| frame.function.is_unknown()) {
        return Vec::new();
    }
    let symbol = |frame: symbols::Frame| Symbol {
        function: frame.function.full().into(),
        file: frame.file.as_deref().unwrap_or_default().into(),
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
    let work = || {
        loop {
            // Only hands out numbers; the mutex publishes what was done.
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                return;
            }
            let result = what(nth);
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((nth, result));
        }
    };
    std::thread::scope(|scope| {
        // This one does what is left by those that could not be had.
        for _ in 1..threads.min(count) {
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_unstable_by_key(|(nth, _)| *nth);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_a_file_is_not_searched_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let path = path.to_string_lossy().into_owned();
        let image = CodeImage { path: path.clone(), build_id: "0123".to_owned(), kind: ImageKind::File };
        let before = searched(&image);
        std::fs::write(folder.path().join("another"), "").unwrap();
        assert_eq!(searched(&image), before);
        std::fs::write(&path, "another").unwrap();
        assert_ne!(searched(&image), before);
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
