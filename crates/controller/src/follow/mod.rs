//! Following what programs execute: a wrapper (`taskset`, `env`, `sh -c`, a script) to the program that it leads to, and that program to all that it executes.
//!
//! **Does:** answer what the runtime asks before a program is executed ([`wire::follow`]): whether that is followed
//! as well, joins (is profiled) as the first program of a session or with the one that is profiled already, or is left alone; and hand over the first one.
//!
//! **Does not:** know what a program did before it was executed.
//!
//! **Constraints:** who asks waits, so nothing but looking for the progress points takes long; what cannot be followed runs as without us.

mod class;
mod left_alone;
mod outline;
mod place;
mod programs;
mod seen;
mod socket;

use crate::launch::{self, Executable, LaunchError, Target, Tree};
use crate::points::PointSpec;
use crate::region::{Presence, RegionSpec};
use crate::{arguments, embedded};
use anyhow::{Context as _, Result};
use class::{Class, Step};
use globset::{Glob, GlobMatcher};
use kernel::SharedMapping;
use kernel::cpu::ProcessStat;
use kernel::peer::Peer;
pub use outline::outline;
use place::Process;
pub use programs::{Programs, Used};
use rustix::process::geteuid;
use seen::{Seen, Why};
use socket::{Connection, Socket};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use symbols::{Image, Scope};
use wire::SharedMemory;
use wire::follow::{LONGEST_ANSWER, LONGEST_REQUEST, Request, Verdict};

/// Time between two looks whether the wrapper has ended.
const LOOK: Duration = Duration::from_millis(5);

/// How long the next program waits until the recording of the last one is complete; the runtime has less patience than twice that.
const COMPLETION: Duration = Duration::from_secs(5);

/// Which program is meant.
#[derive(Debug)]
pub struct Wanted {
    /// By `--follow`.
    named: Option<GlobMatcher>,
    points: Vec<PointSpec>,
    regions: Vec<RegionSpec>,
    sources: Scope,
    /// Whether points and regions may be in libraries.
    anywhere: bool,
}

impl Wanted {
    /// What is looked for behind the program that was typed; none if that one is meant itself.
    ///
    /// # Errors
    /// What was typed is no glob.
    pub fn behind(args: &arguments::Run, executable: &Executable) -> Result<Option<Self>> {
        if args.no_follow {
            return Ok(None);
        }
        let named = named(args)?;
        let leads_on = match &named {
            Some(named) => !is_named(named, executable.image()),
            None => leads_on(executable),
        };
        if !leads_on {
            return Ok(None);
        }
        Ok(Some(Self {
            named,
            points: PointSpec::all(&args.points, &args.latencies)?,
            regions: args.regions.iter().map(|region| RegionSpec::parse(region)).collect(),
            sources: crate::code_scope::CodeScope::new(args)?.sources,
            anywhere: !args.binaries.is_empty(),
        }))
    }

    /// What joins the program that was typed; none if nothing is to be followed.
    ///
    /// # Errors
    /// What was typed is no glob.
    pub fn executed_by_it(args: &arguments::Run) -> Result<Option<Self>> {
        if args.no_follow {
            return Ok(None);
        }
        let sources = crate::code_scope::CodeScope::new(args)?.sources;
        Ok(Some(Self { named: named(args)?, points: vec![], regions: vec![], sources, anywhere: true }))
    }

    /// The program that a wrapper's arguments seem to name, for the name of the recording.
    pub fn guess(&self, arguments: &[OsString]) -> Option<PathBuf> {
        let is_program = |word: &&OsString| {
            let bytes = word.as_bytes();
            !bytes.starts_with(b"-")
                && !bytes.contains(&b'=')
                && bytes.iter().any(|byte| !byte.is_ascii_digit())
        };
        let programs = arguments.iter().filter(is_program).filter_map(|word| launch::check(word).ok());
        let mut images = programs.map(|program| program.image().to_owned());
        images.find(|image| match &self.named {
            Some(named) => is_named(named, image),
            None => matches!(class_of(image), Class::Program | Class::Helper),
        })
    }

    /// What is missing in a program.
    fn missing(&self, executable: &Executable) -> Option<String> {
        if self.anywhere || self.points.is_empty() && self.regions.is_empty() {
            return None;
        }
        let path = canonical(executable.image());
        let image = match Image::open(&path) {
            Ok(image) => image,
            Err(error) => return Some(error.to_string()),
        };
        let placed = self.points.iter().filter(|point| point.is_in_image());
        let lacking = placed.filter_map(|point| point.check(&image, &self.sources).err());
        let region = self.regions.iter().find(|region| region.find_in(&image) != Presence::There);
        let region = region.map(|region| format!("there is no code of {region}"));
        let missing = lacking.map(|error| format!("{error:#}")).next().or(region);
        drop(image);
        kernel::heap::give_back();
        missing
    }
}

/// What `--follow` says.
fn named(args: &arguments::Run) -> Result<Option<GlobMatcher>> {
    let advice =
        |glob: &str| format!("--follow {glob}: not a glob; write the name of a program, e.g. 'server*'");
    let glob = args.follow.as_ref().map(|glob| Glob::new(glob).with_context(|| advice(glob))).transpose()?;
    Ok(glob.map(|glob| glob.compile_matcher()))
}

fn is_named(glob: &GlobMatcher, program: &Path) -> bool {
    program.file_name().is_some_and(|name| glob.is_match(name))
        || canonical(program).file_name().is_some_and(|name| glob.is_match(name))
}

fn class_of(program: &Path) -> Class {
    let by_name = |path: &Path| path.file_name().map_or(Class::Program, class::of);
    match by_name(program) {
        // `/bin/sh` is a link to a shell, whatever its name.
        Class::Program => by_name(&canonical(program)),
        class => class,
    }
}

fn canonical(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A program that has joined, and waits before its first instruction.
#[derive(Debug)]
pub struct Joined {
    pub shared: SharedMapping,
    pub executable: Executable,
    /// The process that it is; none if a child of the process that asked becomes it.
    pub pid: Option<u32>,
    /// The process that asked.
    pub asked: u32,
}

impl Joined {
    /// The process to profile; none if it has ended, or has not attached.
    pub fn target<'a>(&self, child: &'a launch::Child) -> Option<Target<'a>> {
        /// How long a program that is spawned may take until the runtime is there.
        const ATTACHING: Duration = Duration::from_secs(20);
        let pid = match self.pid {
            Some(pid) => pid,
            None => {
                let header = &self.shared.memory().header;
                let begin = Instant::now();
                while header.handshake() == wire::Handshake::Waiting {
                    let is_late = begin.elapsed() > ATTACHING;
                    if is_late || !Path::new(&format!("/proc/{}", self.asked)).exists() {
                        return None;
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
                header.pid.load(Ordering::Relaxed)
            }
        };
        Target::behind(child, pid).ok()
    }
}

/// Whether a program leads to another one, which is the one that `run` profiles.
#[must_use]
pub fn leads_on(executable: &Executable) -> bool {
    matches!(class_of(executable.image()), Class::Wrapper | Class::Shell)
}

/// Answers those that are followed, in a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    desk: Arc<Desk>,
    joined: Receiver<Joined>,
}

/// What the answering thread works with.
#[derive(Debug)]
struct Desk {
    socket: Socket,
    wanted: Arc<Wanted>,
    runtime: PathBuf,
    /// A copy of it for other users, where its folder is this user's alone.
    public: Mutex<Option<(tempfile::TempDir, PathBuf)>>,
    next: Mutex<Next>,
    changed: Condvar,
    /// The only program that may join from now on.
    only: Mutex<Option<PathBuf>>,
    seen: Mutex<Seen>,
    programs: Arc<Programs>,
    preloads: Mutex<HashMap<Preloaded, OsString>>,
    /// Programs that were found to be executable, by the name and the file.
    checked: Mutex<HashMap<(PathBuf, FileState), Checked>>,
}

/// Device, inode, and time of change: what is called like it is another file, or was written since, if these differ.
type FileState = (u64, u64, i64, i64);

fn state(file: &std::fs::Metadata) -> FileState {
    (file.dev(), file.ino(), file.ctime(), file.ctime_nsec())
}

/// A program that is executable.
#[derive(Clone, Debug)]
struct Checked {
    executable: Executable,
    /// Its file without links.
    canonical: PathBuf,
    class: Class,
    /// None if it cannot be seen.
    state: Option<FileState>,
}

impl Checked {
    fn of(executable: Executable) -> Self {
        let canonical = canonical(executable.image());
        let state = std::fs::metadata(&canonical).ok().map(|file| state(&file));
        Self { class: class_of(executable.image()), canonical, state, executable }
    }
}

/// What the beginning of `LD_PRELOAD` depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Preloaded {
    file: FileState,
    runtime: PathBuf,
    users: Vec<u8>,
}

/// What the next program joins with.
#[derive(Debug, Default)]
struct Next {
    /// None while one is profiled.
    memory: Option<SharedMapping>,
    /// That of the one that has joined last.
    joined: Option<&'static SharedMemory>,
    /// The file of that memory, for what is executed meanwhile.
    session: Option<OwnedFd>,
    /// What may go on when its first program has ended.
    tree: Option<Arc<Tree>>,
    /// There is no other first program than the one that was typed.
    only_one: bool,
    /// No further one is to join.
    closed: bool,
}

impl Next {
    fn begin(&mut self, shared: &SharedMapping) -> std::io::Result<()> {
        self.joined = Some(shared.memory());
        self.session = Some(shared.fd().try_clone_to_owned()?);
        Ok(())
    }

    fn expect(&mut self, shared: SharedMapping) {
        (self.memory, self.session, self.joined, self.tree) = (Some(shared), None, None, None);
    }

    /// Whether the first program of the session has ended, and the run does not go on with what it has left.
    fn has_ended(&self) -> bool {
        if self.tree.as_ref().is_some_and(|tree| tree.may_go_on()) {
            return false;
        }
        let pid = self.joined.map(|memory| memory.header.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0);
        let state = |pid| ProcessStat::of(pid).map_or('X', |stat| stat.state);
        pid.is_some_and(|pid| matches!(state(pid), 'Z' | 'X'))
    }

    /// Whether the program that has joined last has ended, so that there will be room for another one, or it will be closed.
    fn is_about_to_change(&self) -> bool {
        self.memory.is_none() && !self.closed && !self.only_one && self.has_ended()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Follower {
    /// # Errors
    /// No socket, or no thread could be had.
    pub fn start(wanted: Arc<Wanted>, runtime: &Path) -> Result<Self> {
        let advice = "cannot follow what the command executes; raise the limits on open files and processes (ulimit -n, ulimit -u), \
                      or profile the program itself: whatif run -- PROGRAM";
        let desk = Arc::new(Desk {
            socket: Socket::open().context(advice)?,
            wanted,
            runtime: runtime.to_owned(),
            public: Mutex::default(),
            next: Mutex::default(),
            changed: Condvar::new(),
            only: Mutex::default(),
            seen: Mutex::default(),
            programs: Arc::default(),
            preloads: Mutex::default(),
            checked: Mutex::default(),
        });
        let (sender, joined) = channel();
        let answering = Arc::clone(&desk);
        let answer = move || {
            while let Some(connection) = answering.socket.accept() {
                answering.serve(&connection, &sender);
            }
        };
        std::thread::Builder::new().name("follow".into()).spawn(answer).context(advice)?;
        Ok(Self { desk, joined })
    }

    /// The value of our variable in the environment of the wrapper.
    pub fn variable(&self) -> String {
        self.desk.socket.variable()
    }

    /// Lets the next program join, with this memory.
    pub fn expect(&self, shared: SharedMapping) {
        lock(&self.desk.next).expect(shared);
        self.desk.changed.notify_all();
    }

    /// The first program, which is about to be started, has this memory: what it executes joins it.
    ///
    /// # Errors
    /// The kernel's: too many open files.
    pub fn begin(&self, shared: &SharedMapping) -> std::io::Result<()> {
        let mut next = lock(&self.desk.next);
        next.only_one = true;
        next.begin(shared)
    }

    /// The run of the program that has joined last may go on with these.
    pub fn set_tree(&self, tree: Arc<Tree>) {
        lock(&self.desk.next).tree = Some(tree);
    }

    /// The programs that have joined besides the first one.
    pub fn programs(&self) -> Arc<Programs> {
        Arc::clone(&self.desk.programs)
    }

    /// From now on only this program may join: what was measured is about it.
    pub fn only(&self, program: &Path) {
        *lock(&self.desk.only) = Some(canonical(program));
    }

    /// Waits until a program has joined; none if the wrapper has ended, or `until` has come, before.
    pub fn wait(&self, child: &launch::Child, until: Option<Instant>) -> Option<Joined> {
        loop {
            let has_ended = child.try_wait().is_some();
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            match self.joined.recv_timeout(if has_ended { Duration::ZERO } else { LOOK }) {
                Ok(joined) => return Some(joined),
                Err(RecvTimeoutError::Timeout) if !has_ended && !is_over => {}
                Err(_) => {
                    lock(&self.desk.next).memory = None;
                    return None;
                }
            }
        }
    }

    /// What to say at the end, where a program was profiled.
    pub fn notes(&self) -> Vec<String> {
        let programs = self.desk.programs.so_far();
        let all: f64 = programs.iter().map(|program| program.cpu.get() as f64).sum();
        let share = |program: &Path| {
            let path = canonical(program).display().to_string();
            let of_it = programs.iter().filter(|known| known.obstacle.is_some() && known.path == path);
            let cpu = of_it.map(|program| program.cpu.get() as f64).reduce(|sum, cpu| sum + cpu)?;
            Some(cpu / all.max(1.0))
        };
        let refused =
            programs.iter().filter(|program| program.obstacle.as_deref() == Some(left_alone::NOT_LOADED));
        for program in refused {
            self.desk.add(Path::new(&program.path), Why::Cannot(left_alone::NOT_LOADED.to_owned()));
        }
        let notes = lock(&self.desk.seen).notes(share);
        self.desk.programs.note().into_iter().chain(notes).collect()
    }

    /// See [`Seen::instead`].
    pub fn instead(&self) -> String {
        lock(&self.desk.seen).instead()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        lock(&self.desk.next).closed = true;
        self.desk.changed.notify_all();
        self.desk.socket.close();
        // Its thread may still look at something when this process ends.
        lock(&self.desk.public).take();
    }
}

/// Whether a process may be one that is followed: others could keep it waiting, although they do not know the token.
fn may_ask(peer: Peer) -> bool {
    let is_trusted = peer.user == geteuid().as_raw() || peer.user == 0;
    is_trusted || launch::descends(peer.pid, std::process::id())
}

/// What a process that asks is told.
enum Answer {
    LeaveAlone,
    Follow(Checked),
    Join(Checked, SharedMapping),
    JoinToo(Checked, OwnedFd),
}

impl Desk {
    fn serve(&self, connection: &Connection, joined: &Sender<Joined>) {
        let mut buffer = [0; LONGEST_REQUEST];
        let Some(peer) = connection.peer().filter(|peer| may_ask(*peer)) else { return };
        let parsed = connection.read(&mut buffer).and_then(Request::parse);
        let Some((request, [path, preload, search])) =
            parsed.filter(|(request, _)| self.socket.knows(request))
        else {
            return;
        };
        let process = Process::of(peer.pid);
        // Who does not get the answer goes on alone as well.
        let leave = || {
            connection.answer(Verdict::LeftAlone, &[], None);
        };
        let Some(file) = process.file(&request, path, search) else { return leave() };
        let Some(runtime) = self.runtime_for(process, peer.user) else {
            self.cannot(process, &request, &file, "it runs in another root folder or as another user");
            return leave();
        };
        let first = |program: &Checked| self.first_of_preload(program, &runtime, preload);
        match self.judge(process, &request, &file) {
            Answer::LeaveAlone => leave(),
            Answer::Follow(program) => {
                let first = first(&program);
                if first.len() >= LONGEST_ANSWER {
                    return leave();
                }
                connection.answer(Verdict::Followed, first.as_bytes(), None);
            }
            Answer::JoinToo(program, memory) => {
                let first = first(&program);
                let has_room = first.len() < LONGEST_ANSWER;
                if has_room {
                    // It may attach at once, and is of interest then.
                    let file = program.canonical;
                    self.programs.add(file.clone(), program.executable.image());
                    connection.answer(Verdict::JoinsToo, first.as_bytes(), Some(memory.as_fd()));
                    // Which child a spawned one will be is not known. (Behind the answer: the process waits no longer.)
                    if !request.way.is_another_process() {
                        self.programs.left_alone().joins(process.id(), file);
                    }
                }
            }
            Answer::Join(program, shared) => {
                let first = first(&program);
                // The program is looked at while this passes.
                let patience = kernel::clock::monotonic().0 + 30_000_000_000;
                shared.memory().header.alive_until.store(patience, Ordering::Relaxed);
                if first.len() < LONGEST_ANSWER
                    && connection.answer(Verdict::Joins, first.as_bytes(), Some(shared.fd()))
                    && connection.is_executed()
                {
                    let executable = program.executable;
                    lock(&self.seen).forget(executable.image());
                    let pid = (!request.way.is_another_process()).then_some(peer.pid);
                    let _ = joined.send(Joined { shared, executable, pid, asked: peer.pid });
                } else {
                    lock(&self.next).expect(shared);
                }
            }
        }
    }

    fn judge(&self, process: Process, request: &Request, file: &Path) -> Answer {
        let mut checked = self.check(file);
        if request.way.searches() && matches!(checked, Err(LaunchError::Format(_))) {
            // What is no program the C library gives to the shell.
            checked = launch::check_as_executed("/bin/sh".into()).map(Checked::of);
        }
        let program = match checked {
            Ok(program) => program,
            Err(LaunchError::Unprofilable { path, why }) => {
                let why = why.to_string();
                self.cannot(
                    process,
                    request,
                    &path,
                    why.lines().next().unwrap_or_default().trim_end_matches('.'),
                );
                return Answer::LeaveAlone;
            }
            Err(_) => return Answer::LeaveAlone,
        };
        let image = program.executable.image();
        let named = self.wanted.named.as_ref().map(|glob| is_named(glob, image));
        let is_free = self.has_room();
        if !is_free && let Some(memory) = self.session() {
            return match named {
                Some(false) => Answer::Follow(program),
                _ => self.join_too((process, request), program, memory),
            };
        }
        let by_shell = process.program().is_some_and(|program| class_of(&program) == Class::Shell);
        let is_other = lock(&self.only).as_ref().is_some_and(|only| *only != program.canonical);
        match class::next(program.class, named, by_shell, !is_free || is_other) {
            Step::Follow => {
                lock(&self.seen).helper(image);
                Answer::Follow(program)
            }
            Step::Busy => {
                if !lock(&self.next).closed {
                    self.add(image, Why::Busy);
                }
                Answer::LeaveAlone
            }
            Step::Join => self.join((process, request), program),
        }
    }

    /// What the kernel makes of a file. A script executes the same ones again and again.
    fn check(&self, file: &Path) -> Result<Checked, LaunchError> {
        const MOST: usize = 1000;
        let check = || launch::check_as_executed(file.to_owned()).map(Checked::of);
        let Ok(metadata) = std::fs::metadata(file) else { return check() };
        let key = (file.to_owned(), state(&metadata));
        if let Some(known) = lock(&self.checked).get(&key) {
            return Ok(known.clone());
        }
        let program = check()?;
        // A script depends on its interpreter as well.
        if program.executable.image() == file {
            let mut checked = lock(&self.checked);
            if checked.len() >= MOST {
                checked.clear();
            }
            checked.insert(key, program.clone());
        }
        Ok(program)
    }

    /// The memory that the program has that is profiled, if one is.
    fn session(&self) -> Option<OwnedFd> {
        let next = lock(&self.next);
        next.session.as_ref().filter(|_| !next.closed && !next.has_ended())?.try_clone().ok()
    }

    /// Whether a program runs where it can join; what it is seen as otherwise.
    fn is_in_reach(&self, (process, request): (Process, &Request), executable: &Executable) -> bool {
        let reason = if !process.has_our_numbers() {
            "it runs in a PID namespace of its own"
        } else if !process.shares_existing(executable.image()) {
            "it runs in another root folder"
        } else {
            return true;
        };
        self.cannot(process, request, executable.image(), reason);
        false
    }

    fn join_too(&self, asks: (Process, &Request), program: Checked, memory: OwnedFd) -> Answer {
        if !self.is_in_reach(asks, &program.executable) {
            return Answer::LeaveAlone;
        }
        Answer::JoinToo(program, memory)
    }

    fn join(&self, asks: (Process, &Request), program: Checked) -> Answer {
        if !self.is_in_reach(asks, &program.executable) {
            return Answer::LeaveAlone;
        }
        if let Some(missing) = self.wanted.missing(&program.executable) {
            self.add(program.executable.image(), Why::Lacks(missing));
            return Answer::Follow(program);
        }
        let mut next = lock(&self.next);
        match next.memory.take() {
            // Without a descriptor left it is profiled alone.
            Some(shared) => {
                let _ = next.begin(&shared);
                Answer::Join(program, shared)
            }
            None => Answer::LeaveAlone,
        }
    }

    /// Whether a program can join now. Where the last one has just ended, that is known when its recording is complete.
    fn has_room(&self) -> bool {
        let next = lock(&self.next);
        let waits = |next: &mut Next| next.is_about_to_change();
        let waited = self.changed.wait_timeout_while(next, COMPLETION, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.memory.is_some()
    }

    /// The beginning of `LD_PRELOAD` for a program. A script executes the same ones again and again.
    fn first_of_preload(&self, program: &Checked, runtime: &Path, users: &[u8]) -> OsString {
        const MOST: usize = 1000;
        let find = || launch::first_of_preload(&program.executable, runtime, OsStr::from_bytes(users));
        let Some(file) = program.state else { return find() };
        let key = Preloaded { file, runtime: runtime.to_owned(), users: users.to_owned() };
        let mut known = lock(&self.preloads);
        if known.len() >= MOST {
            known.clear();
        }
        known.entry(key).or_insert_with(find).clone()
    }

    /// A program cannot be followed: its time is looked at from outside.
    fn cannot(&self, process: Process, request: &Request, program: &Path, reason: &str) {
        let spawns = request.way.is_another_process();
        self.programs.left_alone().add(process.id(), spawns, canonical(program), reason);
        if class_of(program) == Class::Program {
            self.add(program, Why::Cannot(reason.to_owned()));
        }
    }

    fn add(&self, program: &Path, why: Why) {
        lock(&self.seen).add(program, why);
    }

    /// Where the loader finds the runtime in a process: a copy that is for every user, if it is another user's.
    fn runtime_for(&self, process: Process, user: u32) -> Option<PathBuf> {
        let own = geteuid().as_raw();
        let runtime = if user == own || user == 0 || place::is_public(&self.runtime) {
            self.runtime.clone()
        } else {
            self.public_copy()?
        };
        process.shares_existing(&runtime).then_some(runtime)
    }

    /// A copy that every user can read and only its owner can exchange; it lasts as long as this.
    fn public_copy(&self) -> Option<PathBuf> {
        let mut public = lock(&self.public);
        if public.is_none() {
            let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755));
            let folder = tempfile::Builder::new().prefix("whatif-").tempdir().ok()?;
            let copy = folder.path().join(self.runtime.file_name()?);
            std::fs::copy(&self.runtime, &copy)
                .and_then(|_| open(&copy))
                .and_then(|()| open(folder.path()))
                .ok()?;
            let usable =
                place::is_public(&copy) && embedded::is_runtime_at(&copy) && embedded::may_run_from(&copy);
            *public = usable.then_some((folder, copy));
        }
        public.as_ref().map(|(_, copy)| copy.clone())
    }
}
