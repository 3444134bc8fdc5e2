//! Guardian: the process of ours that puts the runtime into programs and takes it out again.
//!
//! It is a child of the command, in a process group of its own, and ignores what ends commands: whatever becomes of that one, it sees the end of a pipe and lets all
//! programs go. So it is the only one that stops their threads: who is stopped in the middle of a call of ours is never left alone.
//!
//! A thread of it looks after each process, the main thread after the first one: the kernel wants all that is asked about a stopped thread from the one that has stopped it.
//!
//! It says on its standard output what has been done, and hears on its standard input what to do: see [`said`].

use super::loader::Loader;
use super::{members, refusal};
use crate::launch::Held;
use anyhow::{Context as _, Result, bail};
use kernel::SharedMapping;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, setpgid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::layout::Hold;

/// What it says, and hears.
pub mod said {
    /// A program that is about to be held goes on whatever happens.
    pub const READY: &str = "ready";
    /// With the number of its descriptor of the new shared memory.
    pub const MEMORY: &str = "memory";
    /// What it hears then: the memory has been offered.
    pub const START: &str = "start";
    /// With the number of a process, and how many of its words lead to the runtime.
    pub const ATTACHED: &str = "attached";
    /// What it hears then, with the number of a process: that joins. It says [`ATTACHED`] or [`REFUSED`] of that.
    pub const ADD: &str = "add";
    /// The last that it says; with the longest time that a thread was stopped, in microseconds.
    pub const RELEASED: &str = "released";
    /// With the number of a process, and the reason. Nothing of it has been changed, or will have been in a moment.
    pub const REFUSED: &str = "refused";
    /// With the number of a process, and the reason: it was not let go as it should have been. The last that matters.
    pub const FAILED: &str = "failed";
}

/// What says how it gets into the container that the processes are in.
pub const INSIDE: &str = "WHATIF_INSIDE_AGAIN";

/// What says that it looks after a program that is held until the runtime has been put into it: see [`HeldProgram`].
pub const HELD_PROGRAM: &str = "WHATIF_HELD_PROGRAM";

/// Time between two looks at a program.
const LOOK: Duration = Duration::from_millis(20);
/// The same for objects that were loaded.
const LOOK_FOR_OBJECTS: Duration = Duration::from_millis(200);
/// The same for a thread that may stop at any moment, and is to go on then.
const LOOK_FOR_LATE_ONES: Duration = Duration::from_millis(1);
/// How long the command may take to offer its memory.
const OFFER: Duration = Duration::from_secs(60);

/// Runs as the guardian of a process, and of those that are added, until that one has ended or was let go. Returns the exit status.
#[must_use]
pub fn guard(pid: u32) -> i32 {
    if let Ok(way) = std::env::var(INSIDE)
        && let Err(error) = kernel::name_spaces::enter_again(&way)
    {
        say_of(said::REFUSED, pid, &format!("its container cannot be entered: {error}"));
        return 1;
    }
    // Not a session of its own: the kernel shares CPUs out by sessions (autogroups), and one that sleeps mostly may wait for a second.
    let _ = setpgid(None, None);
    for signal in [SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGUSR1, SIGUSR2] {
        kernel::signals::ignore(signal);
    }
    let asked = Arc::new(AtomicBool::new(false));
    if signal_hook::flag::register(SIGTERM, Arc::clone(&asked)).is_err() {
        return 1;
    }
    // Nobody sees its standard error.
    std::panic::set_hook(Box::new(move |panic| {
        say_of(said::FAILED, pid, &format!("this is a bug of whatif: {panic}"));
        std::process::abort();
    }));
    kernel::clock::sleep_precisely();
    // The program waits for us where others want the CPU as well. Only root may.
    let _ = rustix::process::setpriority_process(None, -15);
    let held = std::env::var(HELD_PROGRAM).ok().as_deref().and_then(HeldProgram::parse);
    let ended = match held {
        Some(held) => run_held(pid, &held, asked),
        None => run(pid, asked),
    };
    match ended {
        Ok(()) => 0,
        Err(error) => {
            say_of(said::REFUSED, pid, &format!("{error:#}"));
            1
        }
    }
}

/// One line, if the command still reads what this says.
fn say(what: &str, more: &str) {
    let line = format!("{what} {}\n", more.replace('\n', " "));
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(line.as_bytes());
    let _ = output.flush();
}

/// The same of a process.
fn say_of(what: &str, pid: u32, more: &str) {
    say(what, &format!("{pid} {more}"));
}

/// What all processes have in common.
struct Session {
    /// Whether they are to be let go, by [`SIGTERM`], because the command is no longer there, or because the first one has ended.
    asked: Arc<AtomicBool>,
    /// Whether one of them could not be let go as it should have been, which was said.
    failed: AtomicBool,
    /// How many there are.
    count: AtomicU32,
    /// How long a thread was stopped at most, in microseconds.
    longest: AtomicU64,
    shared: SharedMapping,
}

impl Session {
    /// Of one process.
    fn new(asked: Arc<AtomicBool>, shared: SharedMapping) -> Self {
        Self {
            asked,
            failed: AtomicBool::new(false),
            count: AtomicU32::new(1),
            longest: AtomicU64::new(0),
            shared,
        }
    }

    fn is_over(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }
}

fn run(pid: u32, asked: Arc<AtomicBool>) -> Result<()> {
    let mut first = Guarded::new(pid)?;
    let heard = hear(Arc::clone(&asked))?;
    let shared = first.loader.put_in()?;
    let shared = SharedMapping::adopt(shared).context("cannot create memory to share with the program");
    let offered = shared.and_then(|shared| first.wait_for_offer(shared, &heard, &asked));
    let shared = match offered {
        Ok(shared) => shared,
        Err(error) => {
            first.loader.undo();
            return Err(error);
        }
    };
    let session = Arc::new(Session::new(asked, shared));
    if !first.start() {
        first.let_go(&session);
        return Ok(());
    }
    let others: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
    let (adding, all) = (Arc::clone(&session), Arc::clone(&others));
    std::thread::Builder::new().name("adds".into()).spawn(move || add_all(&heard, &adding, &all))?;
    first.look_after(&session);
    session.end();
    first.let_go(&session);
    loop {
        let next = others.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(next) = next else { break };
        let _ = next.join();
    }
    if !session.failed.load(Ordering::Relaxed) {
        say(said::RELEASED, &session.longest.load(Ordering::Relaxed).to_string());
    }
    Ok(())
}

/// What it has to know of a program that is held: the number of its descriptor of the memory, where it is held, and what is there otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldProgram {
    pub memory: i32,
    pub at: u64,
    pub before: [u8; 2],
}

impl HeldProgram {
    /// As the value of [`HELD_PROGRAM`].
    pub fn told(&self) -> String {
        format!("{} {} {}", self.memory, self.at, u16::from_ne_bytes(self.before))
    }

    fn parse(told: &str) -> Option<Self> {
        let mut words = told.split(' ');
        let (memory, at, before) = (words.next()?, words.next()?, words.next()?);
        let before: u16 = before.parse().ok()?;
        Some(Self { memory: memory.parse().ok()?, at: at.parse().ok()?, before: before.to_ne_bytes() })
    }
}

/// Runs as the guardian of a program that is held, until it has ended.
fn run_held(pid: u32, program: &HeldProgram, asked: Arc<AtomicBool>) -> Result<()> {
    // It goes on whatever becomes of this.
    let held = Held::of(pid, program.at, program.before).context("its memory cannot be opened")?;
    hear(Arc::clone(&asked))?;
    say(said::READY, "");
    wait_until_held(pid, &held, &asked)?;
    let memory = kernel::child::inherited(program.memory).context("there is no memory to share with it")?;
    let mut only = Guarded::new(pid)?;
    let shared = SharedMapping::adopt(memory).context("the memory cannot be mapped")?;
    if let Err(error) = only.loader.share(shared.fd()).and_then(|()| only.loader.prepare()) {
        only.loader.undo();
        return Err(error);
    }
    let session = Session::new(asked, shared);
    let started = only.loader.start();
    if started.is_ok() {
        // Before it is known that they can be counted.
        only.loader.register_all();
    }
    if only.says(&started) {
        only.wait_for_command(&session);
        drop(held);
        only.look_after(&session);
    }
    only.let_go(&session);
    Ok(())
}

/// Waits until a program is where it is held.
fn wait_until_held(pid: u32, held: &Held, asked: &AtomicBool) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    while !held.is_there() {
        if members::has_ended(pid) || asked.load(Ordering::Relaxed) {
            bail!("it has ended, or the command has");
        }
        if begin.elapsed() > PATIENCE {
            bail!("it does not come to where it was to wait");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The lines on standard input; at its end the programs are to be let go.
fn hear(asked: Arc<AtomicBool>) -> Result<Receiver<String>> {
    let (lines, heard) = channel();
    let read = move || {
        for line in BufReader::new(std::io::stdin()).lines() {
            let Ok(line) = line else { break };
            if lines.send(line).is_err() {
                break;
            }
        }
        asked.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("hears".into()).spawn(read)?;
    Ok(heard)
}

/// Attaches to each process that the command names.
fn add_all(heard: &Receiver<String>, session: &Arc<Session>, all: &Mutex<Vec<JoinHandle<()>>>) {
    while let Ok(line) = heard.recv() {
        let number = line.strip_prefix(said::ADD).and_then(|number| number.trim().parse().ok());
        let Some(pid) = number else { continue };
        let of_thread = Arc::clone(session);
        let guard = move || {
            if let Err(error) = join(pid, &of_thread) {
                say_of(said::REFUSED, pid, &format!("{error:#}"));
            }
        };
        // None is added any more when the others are waited for.
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_over() {
            return say_of(said::REFUSED, pid, "the session is over");
        }
        all.retain(|thread| !thread.is_finished());
        match std::thread::Builder::new().name("guards".into()).spawn(guard) {
            Ok(thread) => all.push(thread),
            Err(error) => say_of(said::REFUSED, pid, &error.to_string()),
        }
    }
}

/// Has a process join, and looks after it until it is let go.
///
/// # Errors
/// Why it does not join; nothing of it has been changed.
fn join(pid: u32, session: &Session) -> Result<()> {
    let mut member = Guarded::new(pid)?;
    if let Err(error) = member.loader.join(session.shared.fd()).and_then(|()| member.loader.prepare()) {
        member.loader.undo();
        return Err(error);
    }
    session.count.fetch_add(1, Ordering::Relaxed);
    if member.start() {
        member.look_after(session);
    }
    member.let_go(session);
    session.count.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// A process that is looked after.
struct Guarded {
    pid: u32,
    process: OwnedFd,
    loader: Loader,
}

impl Guarded {
    fn new(pid: u32) -> Result<Self> {
        refusal::check(pid)?;
        refusal::check_filters(pid)?;
        let number = Pid::from_raw(pid.cast_signed()).context("there is no such process")?;
        let process = pidfd_open(number, PidfdFlags::empty()).context("the process cannot be watched")?;
        Ok(Self { pid, process, loader: Loader::new(pid)? })
    }

    /// Has the command offer the memory, and finds out meanwhile what is to be changed.
    fn wait_for_offer(
        &mut self,
        shared: SharedMapping,
        heard: &Receiver<String>,
        asked: &AtomicBool,
    ) -> Result<SharedMapping> {
        self.loader.prepare()?;
        say(said::MEMORY, &shared.fd().as_fd().as_raw_fd().to_string());
        let begin = Instant::now();
        loop {
            self.loader.release_late_ones();
            match heard.recv_timeout(self.rest(LOOK)) {
                Ok(line) if line == said::START => return Ok(shared),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if begin.elapsed() > OFFER => {
                    bail!("the command does not answer")
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the command has ended"),
            }
            if asked.load(Ordering::Relaxed) || self.ends_within(Duration::ZERO) {
                bail!("the command, or the program, has ended");
            }
        }
    }

    /// It is profiled from here on, or is to be let go; says which, and returns whether it is profiled.
    fn start(&mut self) -> bool {
        let started = self.loader.start();
        self.says(&started)
    }

    /// Says whether it is profiled, which it also returns.
    fn says(&self, started: &Result<i64>) -> bool {
        match started {
            Ok(redirected) => say_of(said::ATTACHED, self.pid, &redirected.to_string()),
            Err(error) => say_of(said::REFUSED, self.pid, &format!("{error:#}")),
        }
        started.is_ok()
    }

    /// Waits as long as the command has something to prepare.
    fn wait_for_command(&self, session: &Session) {
        const PATIENCE: Duration = Duration::from_secs(10);
        let begin = Instant::now();
        let is_held = || session.shared.memory().header.hold.load(Ordering::Acquire) != Hold::Free as u32;
        while is_held() && !session.is_over() && begin.elapsed() < PATIENCE {
            if self.ends_within(Duration::from_millis(1)) {
                break;
            }
        }
    }

    /// So long it may be left alone, or less where a thread is to go on as soon as it has stopped.
    fn rest(&self, time: Duration) -> Duration {
        if self.loader.has_late_ones() { time.min(LOOK_FOR_LATE_ONES) } else { time }
    }

    fn look_after(&mut self, session: &Session) {
        /// Looking at all of them takes no more than this part of the time, as a divisor.
        const MOST_SHARE: u32 = 50;
        let (mut looked, mut rest) = (Instant::now(), LOOK);
        while !self.ends_within(self.rest(rest)) && !session.is_over() && self.loader.is_there() {
            let begin = Instant::now();
            self.loader.release_late_ones();
            self.loader.measure_stacks(&session.shared);
            self.loader.register_busy_ones(&session.shared);
            let share = MOST_SHARE * session.count.load(Ordering::Relaxed).max(1);
            rest = (begin.elapsed() * share).clamp(LOOK, LOOK_FOR_OBJECTS);
            if looked.elapsed() >= LOOK_FOR_OBJECTS * session.count.load(Ordering::Relaxed).max(1) {
                let _ = self.loader.follow_objects();
                self.loader.forget_ended_threads(&session.shared);
                looked = Instant::now();
            }
        }
    }

    /// Tries until it has been done, or the program has ended; says once that it takes long.
    fn let_go(&mut self, session: &Session) {
        const LONG: Duration = Duration::from_secs(5);
        let (begin, mut is_said) = (Instant::now(), false);
        while self.is_there() {
            let Err(error) = self.loader.leave(&session.shared) else { break };
            // What is not over goes on without it.
            if begin.elapsed() > LONG && !is_said && session.is_over() {
                is_said = true;
                session.failed.store(true, Ordering::Relaxed);
                let advice = "this is tried again until it works (a process that is stopped: kill -CONT)";
                say_of(said::FAILED, self.pid, &format!("{error:#}; {advice}"));
            }
            std::thread::sleep(self.rest(LOOK));
        }
        // Those that are late still go on when this thread has ended.
        self.loader.release_late_ones();
        let longest = self.loader.longest.as_micros() as u64;
        session.longest.fetch_max(longest, Ordering::Relaxed);
    }

    /// Whether it runs the program that it ran.
    fn is_there(&self) -> bool {
        !self.ends_within(Duration::ZERO) && self.loader.is_there()
    }

    /// Waits so long, or until it ends; whether it has.
    fn ends_within(&self, time: Duration) -> bool {
        let time = Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 };
        poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
    }
}
