//! Names of functions are kept while they can be had: the functions of every file that has samples are read once, soon after the first
//! sample, from the processes that have the file mapped, and put into the folder of the database (`archive::KeptNames`).
//!
//! A thread of its own does it, so that sampling waits for no file. What it may take is a part of a CPU for each user; if it does not come
//! back from a file, it is left behind with it. (`errands` has the same rules for what is waited for.)

use crate::errands::{Errands, is_running};
use crate::files::as_seen_by;
use crate::hash::Mixed;
use crate::images::ImageIndex;
use crate::slots::Marks;
use crate::space::Mapping;
use archive::{CodeImage, ImageKind, Kept, KeptNames, NameTableWriter, Offset, TableOwner};
use kernel::clock::thread_cpu_time;
use kernel::maps::FileId;
use kernel::signals::AllBlocked;
use kernel::untrusted::{has_trusted_files, is_local, is_roots_own};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};
use symbols::{FileOffset, FunctionList, ListEnd, TakesFunctions};
use wire::Address;
use wire::Nanos;

/// Files that wait to be read.
const MOST_WAITING: usize = 1024;
/// The same of one user.
const MOST_OF_USER: usize = 128;
/// Files of one user that are read one after the other.
const BATCH: usize = 8;
/// A thread that has waited for so long for one file is left behind.
const PATIENCE: Duration = Duration::from_secs(5);
/// Threads that were left behind; with more of them nothing is read.
const MOST_AWAY: usize = 4;
/// A file that could not be opened is tried again after this time, and after twice as long each time: by another process, perhaps.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(300);
/// The folder is told this often that a file is still sampled.
const REMIND: Duration = Duration::from_secs(1200);
/// CPU time that one file may take.
const LONGEST: Nanos = Nanos(3_000_000_000);
/// Files with larger symbol tables take more than some milliseconds.
const LARGE: u64 = 2 << 20;
/// The largest table, as a part of what all may take.
const LARGEST: u64 = 8;
/// Functions that one file may have.
const MOST_FUNCTIONS: u32 = 3_000_000;

/// Where names are kept, and how much may be.
#[derive(Clone, Debug)]
pub struct NameKeeping {
    /// The folder of the database.
    pub folder: PathBuf,
    /// Bytes that they may take there.
    pub most_bytes: u64,
    /// Memory that reading a file may take, in bytes.
    pub memory: usize,
}

/// Files that were sampled, by what became of their names since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamesRead {
    /// Read and kept.
    pub kept: u64,
    /// Of these, those that have more functions than one file may have, or took too long: the rest has no names.
    pub in_part: u64,
    /// They have none.
    pub nameless: u64,
    /// They were gone, another build lay in their place, or they may not be read.
    pub gone: u64,
    /// All that is kept has been sampled lately.
    pub no_room: u64,
    /// The disk did not take them.
    pub not_written: u64,
    /// Files that never answered.
    pub never_answered: u64,
    /// They have not been read yet: what reading may take in a while has been taken.
    pub waiting: u64,
    /// CPU time that reading has taken.
    pub cpu: Nanos,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Naming {
    keeping: Option<Arc<Keeping>>,
    known: HashMap<ImageIndex, State, Mixed>,
    waiting: VecDeque<Wanted>,
    clerk: Option<Clerk>,
    /// Threads that have not come back, with the user whose files they read.
    away: Vec<(u32, Receiver<()>)>,
    /// Whose files have taken how much.
    expenses: Option<Errands>,
    now: Option<Instant>,
    read: NamesRead,
}

#[derive(Debug)]
struct Keeping {
    names: KeptNames,
    settings: NameKeeping,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It waits, or is being read; it was tried so often before.
    Wanted(u32),
    /// Nothing is to be done before this.
    Until(Instant, u32),
}

/// A file that has samples.
#[derive(Clone, Debug)]
struct Wanted {
    /// Nothing once the image is forgotten: its number may be given to another one.
    index: Option<ImageIndex>,
    image: CodeImage,
    pid: u32,
    user: u32,
    start: Address,
    end: Address,
    /// It is its turn even if it takes long.
    may_be_large: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was known before.
    There,
    /// It takes long, and is read when the others have been.
    Large,
    Kept {
        in_part: bool,
    },
    Nameless,
    Gone,
    NoRoom,
    NotWritten,
}

/// The thread that reads.
#[derive(Debug)]
struct Clerk {
    batches: Sender<Vec<Wanted>>,
    outcomes: Receiver<(Outcome, Nanos)>,
    ended: Receiver<()>,
    tid: u32,
    /// Whose files it has, and since when the first of them.
    user: u32,
    has: VecDeque<Wanted>,
    since: Instant,
}

impl Naming {
    /// Names are kept from now on.
    pub fn keep(&mut self, settings: NameKeeping) {
        let names = KeptNames::of(&settings.folder, settings.most_bytes);
        self.keeping = Some(Arc::new(Keeping { names, settings }));
        self.expenses = Some(Errands::frugal());
    }

    /// What became of the files that were sampled.
    pub fn read(&self) -> NamesRead {
        NamesRead { waiting: (self.waiting.len() + self.away.len()) as u64, ..self.read }
    }

    /// Whether a file that has a sample just now should be read.
    pub fn wants(&self, image: ImageIndex) -> bool {
        self.keeping.is_some()
            && match self.known.get(&image) {
                None => true,
                Some(State::Wanted(_)) => false,
                Some(State::Until(until, _)) => self.now.is_some_and(|now| now >= *until),
            }
    }

    /// A process of a user has a file mapped here, which has samples.
    pub fn want(&mut self, (pid, user): (u32, u32), mapping: &Mapping, image: &CodeImage) {
        let is_file = image.kind == ImageKind::File && !image.build_id.is_empty();
        let of_user = || self.waiting.iter().filter(|wanted| wanted.user == user).count();
        if !is_file || self.waiting.len() >= MOST_WAITING || of_user() >= MOST_OF_USER {
            return;
        }
        let Mapping { start, end, image: index, .. } = *mapping;
        let tried = match self.known.get(&index) {
            Some(State::Wanted(tried) | State::Until(_, tried)) => *tried,
            None => 0,
        };
        self.known.insert(index, State::Wanted(tried));
        let (index, image) = (Some(index), image.clone());
        self.waiting.push_back(Wanted { index, image, pid, user, start, end, may_be_large: false });
    }

    /// Looks what has been read, and lets others be read. To be called often.
    pub fn tend(&mut self) {
        if self.keeping.is_none() {
            return;
        }
        let now = Instant::now();
        self.now = Some(now);
        self.hear(now);
        self.leave_behind(now);
        if self.clerk.as_ref().is_none_or(|clerk| clerk.has.is_empty()) {
            self.send(now);
        }
    }

    /// Whether nothing is left to do just now.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.clerk.as_ref().is_none_or(|clerk| clerk.has.is_empty())
    }

    fn hear(&mut self, now: Instant) {
        while let Some(clerk) = &mut self.clerk
            && let Ok((outcome, took)) = clerk.outcomes.try_recv()
            && let Some(wanted) = clerk.has.pop_front()
        {
            clerk.since = now;
            self.read.cpu += took;
            if let Some(expenses) = &mut self.expenses {
                expenses.charge(wanted.user, took);
            }
            if outcome == Outcome::Large && wanted.index.is_some() {
                self.waiting.push_back(Wanted { may_be_large: true, ..wanted });
                continue;
            }
            self.learn(&wanted, outcome, now);
        }
    }

    fn learn(&mut self, wanted: &Wanted, outcome: Outcome, now: Instant) {
        let read = &mut self.read;
        match outcome {
            Outcome::There | Outcome::Large => {}
            Outcome::Kept { in_part } => {
                read.kept += 1;
                read.in_part += u64::from(in_part);
            }
            Outcome::Nameless => read.nameless += 1,
            Outcome::Gone => {}
            Outcome::NoRoom => read.no_room += 1,
            Outcome::NotWritten => read.not_written += 1,
        }
        let Some(index) = wanted.index else { return };
        let Some(State::Wanted(tried)) = self.known.get(&index).copied() else { return };
        let state = match outcome {
            Outcome::Gone => {
                read.gone += u64::from(tried == 0);
                let pause = AGAIN * 2_u32.saturating_pow(tried.min(16));
                State::Until(now + pause.min(AGAIN_AT_MOST), tried + 1)
            }
            _ => State::Until(now + REMIND, 0),
        };
        self.known.insert(index, state);
    }

    /// A thread that does not come back is left with its file.
    fn leave_behind(&mut self, now: Instant) {
        let is_stuck = |clerk: &Clerk| {
            !clerk.has.is_empty() && now.duration_since(clerk.since) > PATIENCE && !is_running(clerk.tid)
        };
        if let Some(clerk) = self.clerk.take_if(|clerk| is_stuck(clerk)) {
            self.read.never_answered += 1;
            let indices = clerk.has.iter().filter_map(|wanted| wanted.index);
            self.known.extend(indices.map(|index| (index, State::Until(now + AGAIN_AT_MOST, 1))));
            self.away.push((clerk.user, clerk.ended));
        }
    }

    /// Gives the thread files of one user who has something left.
    fn send(&mut self, now: Instant) {
        self.away.retain(|(_, ended)| !matches!(ended.try_recv(), Err(TryRecvError::Disconnected)));
        if self.away.len() >= MOST_AWAY || self.waiting.is_empty() {
            return;
        }
        let Self { away, expenses, waiting, .. } = self;
        let mut accepts = |user| {
            let is_away = away.iter().any(|(of, _)| *of == user);
            !is_away && expenses.as_mut().is_some_and(|expenses| expenses.accepts(user))
        };
        // Those that take long come last, and one at a time.
        let of = |large: bool| waiting.iter().filter(move |wanted| wanted.may_be_large == large);
        let mut users = of(false).chain(of(true)).map(|wanted| (wanted.user, wanted.may_be_large));
        let Some((user, large)) = users.find(|(user, _)| accepts(*user)) else { return };
        let most = if large { 1 } else { BATCH };
        let mut batch = Vec::new();
        waiting.retain(|wanted| {
            let is_sent = (wanted.user, wanted.may_be_large) == (user, large) && batch.len() < most;
            if is_sent {
                batch.push(wanted.clone());
            }
            !is_sent
        });
        let Some(keeping) = &self.keeping else { return };
        if self.clerk.is_none() {
            self.clerk = Clerk::start(Arc::clone(keeping));
        }
        let Some(clerk) = &mut self.clerk else { return };
        (clerk.user, clerk.since) = (user, now);
        clerk.has.extend(batch.iter().cloned());
        if clerk.batches.send(batch).is_err() {
            // It has ended, which it does not do by itself.
            self.clerk = None;
        }
    }

    /// Forgets images that have no mark: their numbers may be given to others.
    pub fn keep_marked(&mut self, marks: &Marks) {
        let is_kept = |index: &ImageIndex| marks.has(index.0);
        self.known.retain(|index, _| is_kept(index));
        self.waiting.retain(|wanted| wanted.index.as_ref().is_some_and(is_kept));
        for wanted in self.clerk.iter_mut().flat_map(|clerk| &mut clerk.has) {
            wanted.index = wanted.index.filter(is_kept);
        }
    }
}

impl Clerk {
    fn start(keeping: Arc<Keeping>) -> Option<Clerk> {
        let (batches, received) = channel::<Vec<Wanted>>();
        let (send, outcomes) = channel();
        let (ends, ended) = channel::<()>();
        let (number, numbered) = channel();
        // Signals are for the thread that waits for them.
        let blocked = AllBlocked::new();
        let thread = std::thread::Builder::new().name("whatif-names".to_owned()).stack_size(1 << 19);
        let started = thread.spawn(move || {
            let _ends = ends;
            let _ = number.send(kernel::cpu::own_thread());
            for wanted in received.into_iter().flatten() {
                let began = thread_cpu_time();
                let outcome = keeping.keep(&wanted);
                // It may be waited for no longer.
                let _ = send.send((outcome, thread_cpu_time().saturating_sub(began)));
            }
        });
        drop(blocked);
        started.ok()?;
        let tid = numbered.recv().ok()?;
        Some(Clerk { batches, outcomes, ended, tid, user: 0, has: VecDeque::new(), since: Instant::now() })
    }
}

impl Keeping {
    /// Reads the functions of a file and keeps them, if that has not been done.
    fn keep(&self, wanted: &Wanted) -> Outcome {
        let name = |owner| KeptNames::name(&wanted.image, owner);
        let Some(of_root) = name(TableOwner::Root) else { return Outcome::Nameless };
        if self.names.has(&of_root) {
            return Outcome::There;
        }
        let Some((list, is_of_ours)) = wanted.open() else { return Outcome::Gone };
        let Some(owner) = wanted.owner(&list, is_of_ours) else { return Outcome::Gone };
        let Some(name) = name(owner) else { return Outcome::Nameless };
        if owner != TableOwner::Root && self.names.has(&name) {
            return Outcome::There;
        }
        if !wanted.may_be_large && list.table_bytes() > LARGE {
            return Outcome::Large;
        }
        let Ok(writer) = self.names.begin(&name, self.settings.most_bytes / LARGEST) else {
            return Outcome::NotWritten;
        };
        let mut table = Table { writer, end: thread_cpu_time() + LONGEST, is_broken: false };
        let end = list.read(self.settings.memory, &mut table);
        if table.is_broken {
            self.names.give_up(&name);
            return Outcome::NotWritten;
        }
        if table.writer.functions() == 0 {
            self.names.give_up(&name);
            return Outcome::Nameless;
        }
        match self.names.keep(&name, table.writer) {
            Ok(Kept::Added(_)) => Outcome::Kept { in_part: end == ListEnd::Stopped },
            Ok(Kept::NoRoom) => Outcome::NoRoom,
            Err(_) => Outcome::NotWritten,
        }
    }
}

impl Wanted {
    /// The file, the very build, and whether it is one that this machine's own file systems have: as the process has mapped it, as it runs
    /// it, where the process sees it, and where we see it, if the process has ended.
    fn open(&self) -> Option<(FunctionList, bool)> {
        use std::os::unix::ffi::OsStrExt as _;
        let Wanted { pid, start, end, .. } = *self;
        let is_it = |file: &FunctionList| file.identity().as_deref() == Some(&self.image.build_id);
        let open = |path: &Path| FunctionList::open(path).ok().filter(is_it);
        let process = PathBuf::from(format!("/proc/{pid}"));
        let path = Path::new(&self.image.path);
        let of_process = || {
            open(&process.join(format!("map_files/{:x}-{:x}", start.0, end.0)))
                .or_else(|| open(&process.join("exe")))
                .or_else(|| open(&as_seen_by(pid, path.as_os_str().as_bytes(), FileId::default())?))
        };
        // Looked at before and after, for another process may have the number by now: then its own files have to be these.
        let is_trusted = has_trusted_files(pid);
        let found = of_process().map(|list| (list, is_trusted && has_trusted_files(pid)));
        found.or_else(|| Some((open(path)?, true)))
    }

    /// Who can have written the file. Where a user can have made the file system, what it says of owners means nothing.
    fn owner(&self, list: &FunctionList, is_of_ours: bool) -> Option<TableOwner> {
        let file = list.file();
        if is_roots_own(file) && is_local(file, is_of_ours) {
            return Some(TableOwner::Root);
        }
        if is_of_ours {
            return Some(TableOwner::User(file.metadata().ok()?.uid()));
        }
        // Whose it was when it was started need not be whose it is.
        (kernel::cpu::user(self.pid) == Some(self.user)).then_some(TableOwner::User(self.user))
    }
}

/// Takes functions while there is room and time.
struct Table {
    writer: NameTableWriter<File>,
    end: Nanos,
    /// The disk is full.
    is_broken: bool,
}

impl TakesFunctions for Table {
    fn take(&mut self, FileOffset(start): FileOffset, length: u64, name: &str) -> bool {
        let pushed = self.writer.push(Offset(start), length, name.as_bytes());
        self.is_broken |= pushed.is_err();
        pushed.unwrap_or(false) && self.writer.functions() < MOST_FUNCTIONS
    }

    fn may_go_on(&mut self) -> bool {
        thread_cpu_time() < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read_identity;
    use crate::images::Images;
    use std::fs;
    use std::process::{Child, Command, Stdio};

    const MOST: u64 = 64 << 20;

    fn naming(folder: &Path) -> Naming {
        let mut naming = Naming::default();
        naming.keep(NameKeeping { folder: folder.to_owned(), most_bytes: MOST, memory: 1 << 20 });
        naming
    }

    /// What this process, or another one that runs the same program, has mapped of it.
    fn mapping_of(pid: u32, program: &Path) -> kernel::Mapping {
        let is_its = |mapping: &kernel::Mapping| {
            mapping.executable
                && mapping.path.as_ref().is_some_and(|path| path.file_name() == program.file_name())
        };
        kernel::maps(pid).unwrap().into_iter().find(is_its).unwrap()
    }

    /// Wants the names of what a process has mapped, and waits for them.
    fn read(naming: &mut Naming, pid: u32, mapping: &kernel::Mapping, image: &CodeImage) -> NamesRead {
        let mut images = Images::new(&[]);
        let index = images.intern(ImageKind::File, image.path.as_bytes(), &[1]);
        let (start, end) = (mapping.start, mapping.end);
        naming.tend();
        naming.known.clear();
        assert!(naming.wants(index));
        let user = kernel::stream::own_user();
        naming.want((pid, user), &Mapping { start, end, image: index, offset: mapping.offset.0 }, image);
        assert!(!naming.wants(index));
        while !naming.is_idle() {
            // However much it has cost.
            naming.expenses = Some(Errands::default());
            naming.tend();
            std::thread::yield_now();
        }
        NamesRead { cpu: Nanos::ZERO, ..naming.read() }
    }

    fn image_of(program: &Path) -> CodeImage {
        let build_id = symbols::hex(&read_identity(program).unwrap());
        CodeImage { path: program.to_string_lossy().into_owned(), build_id, kind: ImageKind::File }
    }

    /// A name of our own, in the middle of its function.
    fn own_name(
        folder: &Path,
        image: &CodeImage,
        mapping: &kernel::Mapping,
        base: Address,
    ) -> Option<String> {
        let offset = mapping.offset.0 + (image_of as *const () as u64 - base.0) + 1;
        KeptNames::of(folder, MOST).look_up(image, &[Offset(offset)]).remove(&Offset(offset))
    }

    /// This program again, which waits until its input ends.
    fn another(program: &Path) -> Child {
        let mut child = Command::new(program)
            .args(["--ignored", "--exact", "naming::tests::waits_for_the_end_of_its_input"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut text = String::new();
        while !text.contains("waits") {
            let mut some = [0; 64];
            let length = std::io::Read::read(&mut output, &mut some).unwrap();
            assert!(length > 0, "it has ended: {text}");
            text += &String::from_utf8_lossy(&some[..length]);
        }
        child.stdout = Some(output);
        child
    }

    #[test]
    #[ignore = "run by others"]
    fn waits_for_the_end_of_its_input() {
        use std::io::Write as _;
        std::io::stdout().write_all(b"waits\n").unwrap();
        let _ = std::io::stdin().read_line(&mut String::new());
    }

    /// `FILES="/usr/bin/git /usr/bin/node" cargo test --release -p whatif-collect --lib what_files_take -- --ignored --nocapture`
    #[test]
    #[ignore = "measures"]
    fn what_files_take() {
        let files = std::env::var("FILES").unwrap_or_else(|_| "/proc/self/exe".to_owned());
        let folder = tempfile::tempdir().unwrap();
        for file in files.split_whitespace().map(|file| fs::canonicalize(file).unwrap()) {
            let settings =
                NameKeeping { folder: folder.path().to_owned(), most_bytes: 1 << 30, memory: 4 << 20 };
            let keeping = Keeping { names: KeptNames::of(folder.path(), 1 << 30), settings };
            let image = image_of(&file);
            let (start, end) = (Address(0), Address(0));
            let wanted = Wanted {
                index: Some(ImageIndex(99)),
                image: image.clone(),
                pid: 1 << 29,
                user: 0,
                start,
                end,
                may_be_large: true,
            };
            let (before, size) = (thread_cpu_time(), keeping.names.size().bytes);
            let outcome = keeping.keep(&wanted);
            let took = thread_cpu_time().saturating_sub(before);
            let kept = keeping.names.size().bytes - size;
            let length = fs::metadata(&file).unwrap().len();
            let offsets: Vec<Offset> = (0..length / 4096).map(|page| Offset(page * 4096)).collect();
            let before = thread_cpu_time();
            let found = keeping.names.look_up(&image, &offsets);
            let looked = thread_cpu_time().saturating_sub(before);
            println!(
                "{}: {length} bytes, {outcome:?}, {:.1} ms, {kept} bytes kept; {} of {} pages named in {:.1} ms",
                file.display(),
                took.0 as f64 / 1e6,
                found.len(),
                offsets.len(),
                looked.0 as f64 / 1e6
            );
        }
    }

    #[test]
    fn names_are_kept_once_for_a_build() {
        let folder = tempfile::tempdir().unwrap();
        let mut naming = naming(folder.path());
        let program = std::env::current_exe().unwrap();
        let (pid, image) = (std::process::id(), image_of(&program));
        let mapping = mapping_of(pid, &program);
        assert_eq!(read(&mut naming, pid, &mapping, &image), NamesRead { kept: 1, ..NamesRead::default() });
        let name = own_name(folder.path(), &image, &mapping, mapping.start);
        assert!(name.as_ref().is_some_and(|name| name.contains("image_of")), "{name:?}");
        // It is there.
        assert_eq!(read(&mut naming, pid, &mapping, &image).kept, 1);
        // Another build is not taken for it.
        let other = CodeImage { build_id: "0123".to_owned(), ..image.clone() };
        let gone = NamesRead { kept: 1, gone: 1, ..NamesRead::default() };
        assert_eq!(read(&mut naming, pid, &mapping, &other), gone);
        assert!(KeptNames::of(folder.path(), MOST).look_up(&other, &[Offset(1)]).is_empty());
        // Nor is one that has ended; a number that no process has.
        let nowhere = CodeImage { path: "/nowhere".to_owned(), ..other };
        assert_eq!(read(&mut naming, 1 << 29, &mapping, &nowhere).gone, 2);
    }

    #[test]
    fn a_deleted_program_is_read_while_it_runs() {
        let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = place.path().join("deleted");
        // By another process: one that another test starts meanwhile would have the file open for writing, and nothing could execute it.
        let ours = std::env::current_exe().unwrap();
        assert!(Command::new("cp").args([&ours, &program]).status().unwrap().success());
        let image = image_of(&program);
        let mut child = another(&program);
        let before = mapping_of(child.id(), &program);
        let ours = mapping_of(std::process::id(), &std::env::current_exe().unwrap());
        fs::remove_file(&program).unwrap();
        // Another program in its place.
        fs::copy("/proc/self/exe", &program).unwrap();
        fs::File::options().append(true).open(&program).unwrap().set_len(1 << 20).unwrap();
        let found = read(&mut naming(folder.path()), child.id(), &before, &image);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(found, NamesRead { kept: 1, ..NamesRead::default() });
        let name = own_name(folder.path(), &image, &ours, ours.start);
        assert!(name.as_ref().is_some_and(|name| name.contains("image_of")), "{name:?}");
    }

    #[test]
    fn a_file_that_never_answers_holds_up_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut naming = naming(folder.path());
        let program = std::env::current_exe().unwrap();
        let (pid, image) = (std::process::id(), image_of(&program));
        let mapping = mapping_of(pid, &program);
        // A thread that waits for something that does not come, with a file in its hands.
        let (outcomes_from, outcomes) = channel();
        let (hold, ended) = channel::<()>();
        let (batches, taken) = channel();
        let stuck = Wanted {
            index: Some(ImageIndex(99)),
            image: image.clone(),
            pid,
            user: 66,
            start: mapping.start,
            end: mapping.end,
            may_be_large: false,
        };
        naming.known.insert(ImageIndex(99), State::Wanted(0));
        let since = Instant::now().checked_sub(2 * PATIENCE).unwrap();
        let waits = std::thread::spawn({
            let (number, numbered) = channel();
            let thread = std::thread::spawn(move || {
                number.send(kernel::cpu::own_thread()).unwrap();
                taken.into_iter().for_each(|_: Vec<Wanted>| ());
            });
            let tid = numbered.recv().unwrap();
            while is_running(tid) {
                std::thread::yield_now();
            }
            naming.clerk =
                Some(Clerk { batches, outcomes, ended, tid, user: 66, has: VecDeque::from([stuck]), since });
            move || thread.join().unwrap()
        });
        naming.tend();
        assert_eq!((naming.away.len(), naming.read().never_answered), (1, 1));
        waits.join().unwrap();
        // Others' files are read meanwhile.
        assert_eq!(read(&mut naming, pid, &mapping, &image).kept, 1);
        drop((hold, outcomes_from));
        naming.waiting.push_back(Wanted {
            index: Some(ImageIndex(98)),
            image,
            pid,
            user: 66,
            start: mapping.start,
            end: mapping.end,
            may_be_large: false,
        });
        naming.tend();
        assert_eq!(naming.away.len(), 0, "it has come back");
    }

    #[test]
    fn an_image_that_is_forgotten_while_it_is_read_is_not_wanted_again() {
        let answers = [Outcome::Large, Outcome::Gone, Outcome::There];
        let (folder, mut images) = (tempfile::tempdir().unwrap(), Images::new(&[]));
        let mut naming = naming(folder.path());
        let (batches, _taken) = channel();
        let (answer, outcomes) = channel();
        let (_ends, ended) = channel();
        let (user, since) = (66, Instant::now());
        let mut clerk = Clerk { batches, outcomes, ended, tid: 0, user, has: VecDeque::new(), since };
        for (nth, outcome) in answers.into_iter().enumerate() {
            let index = images.intern(ImageKind::File, format!("/build/{nth}").as_bytes(), &[1]);
            let (image, start, end) = (images.get(index).clone(), Address(0), Address(1));
            naming.known.insert(index, State::Wanted(0));
            clerk.has.push_back(Wanted {
                index: Some(index),
                image,
                pid: 1 << 29,
                user,
                start,
                end,
                may_be_large: false,
            });
            answer.send((outcome, Nanos(1))).unwrap();
        }
        naming.clerk = Some(clerk);
        let forget = |naming: &mut Naming, images: &mut Images| {
            let marks = images.marks();
            images.keep(&marks);
            naming.keep_marked(&marks);
        };
        forget(&mut naming, &mut images);
        naming.tend();
        assert!(naming.is_idle() && naming.known.is_empty());
        // There are fewer numbers now.
        forget(&mut naming, &mut images);
        assert_eq!(naming.read().cpu, Nanos(answers.len() as u64));
    }
}
