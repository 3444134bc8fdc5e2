//! Attach: profiling a program in place that runs already, and leaving it as it was.
//!
//! **Does:** find the processes that are meant (`members`) and what stands in the way (`refusal`), go into the container that they are in (`inside`), start the process that puts the runtime in (`guardian`, which works with
//! `loader`, `descriptors`, `image`, `objects`, `hooked_program`, `go_program`, `hooks` and `hooking`), and profile the programs as one that was launched and those that it has executed. What they start meanwhile joins when it lives
//! for more than a moment.
//!
//! **Does not:** know what threads did before.
//!
//! **Constraints:** whatever becomes of this process, the program is let go, and goes on.

mod descriptors;
mod go_program;
mod guardian;
mod hooked_program;
mod hooking;
mod hooks;
mod image;
mod inside;
mod loader;
mod members;
mod objects;
mod refusal;

use crate::launch::{self, Child, Exit, Held, Joined, Target};
use crate::limits::{self, Said};
use crate::{
    AskedLimits, Audience, Programs, Runs, Usage, answer, arguments, arguments_of, ask_production, embedded,
    facts, needs, offer, prepare, supervise, told_of_servers, tree, without_debug_information,
};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
pub use guardian::guard;
use guardian::{HeldProgram, said};
pub use inside::{enter_for, told_of};
use kernel::SharedMapping;
use kernel::name_spaces::is_inside;
use loader::Loader;
pub use members::Selection;
use members::Wanted;
use profile::Recording;
pub use refusal::may_trace_what_it_starts;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use wire::Nanos;

/// The hidden command that [`guard`] is.
pub const GUARDIAN: &str = "attach-guardian";

/// The number of a process, as it was typed.
///
/// # Errors
/// It is none.
pub fn number(word: &OsStr) -> Result<u32> {
    let number = word.to_str().and_then(|word| word.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| {
        let word = word.to_string_lossy().into_owned();
        Usage::of(anyhow!(
            "{word} is not the number of a process; find it with: pgrep -a {word}, or name the program: --name {word}"
        ))
    })
}

/// More processes are not attached to.
const MOST: usize = 256;

/// Profiles the processes that are meant. Returns the exit status.
///
/// # Errors
/// Why none of them is profiled; nothing has been changed then.
pub fn attach(
    args: &mut arguments::Run,
    selection: Selection,
    asked: &AskedLimits,
    audience: Box<dyn Audience>,
) -> Result<i32> {
    needs::descriptors()?;
    if let Some(status) = inside::enter(&selection, args)? {
        return Ok(status);
    }
    let selection = &inside::told(selection, args);
    if !is_inside() {
        symbols::debuginfod::allow(|path| !embedded::is_runtime_at(path), told_of_servers);
    }
    let wanted = Wanted::new(selection, args)?;
    let (pid, path, others) = find(selection, &wanted)?;
    let executable = launch::running(path.clone());
    args.program = std::iter::once(path.clone().into_os_string())
        .chain(arguments_of(pid).into_iter().map(Into::into))
        .collect();
    args.then = Some(arguments::Then::Terminate);
    let mut options = crate::options::Options::new(args, &path).map_err(Usage::of)?;
    options.is_attached = true;
    options.limit(asked).map_err(Usage::of)?;
    if let Some(failure) = without_debug_information(&options, &executable) {
        kernel::say!("whatif: {failure}");
        return Ok(failure.status());
    }
    let costs = prepare(&mut options, &executable)?;
    let hint = ask_production(&options, &executable);
    if asked.is_ordered {
        limits::follow_orders(&options.limits.halt)?;
    }
    audience.begins(&options.output)?;
    let mut runs = Runs::new(&options, &costs, hint, audience);
    let recorder = Recording::create(&options.output)?;
    kernel::wakeup::Cost::known();
    let (started, start) = (SystemTime::now(), crate::monotonic());
    let mut guarded = Guarded::start(pid)?;
    let shared = guarded.memory()?;
    offer(&shared, &options);
    shared.hold(false);
    guarded.begin()?;
    let programs = Arc::<Programs>::default();
    let Guarded { pid, child, input, heard } = guarded;
    let mut joining = Joining {
        first: pid,
        input,
        heard,
        programs: Arc::clone(&programs),
        quiet: options.quiet,
        known: HashSet::from([pid]),
        asked: HashMap::new(),
        profiled: HashSet::from([pid]),
        joined: Joined::default(),
    };
    let joined = joining.add_all(&others);
    if !options.quiet {
        let (more, them) =
            if joined == 0 { (String::new(), "it") } else { (format!(" and {joined} more"), "them") };
        let shown = path.display().to_string();
        let shown = profile::printable(&shown);
        kernel::say!("whatif: profiling {shown} (process {pid}){more}; Ctrl-C lets {them} go");
    }
    Said::Attached { pid }.say(&options.limits);
    // What it took until here is no time of the measurement.
    runs.begin = Instant::now();
    let target =
        Target::attached(&child, pid, Arc::clone(&joining.joined)).with(tree(&shared, &options, false));
    let facts = || facts((&options, pid), &executable, arguments_of(pid), &shared, (started, 0));
    let is_over = AtomicBool::new(false);
    let (ended, joining) = std::thread::scope(|scope| {
        let follows = scope.spawn(|| joining.follow(&wanted, &is_over));
        let ended = supervise(
            &options,
            &executable,
            (&shared, programs),
            &target,
            recorder,
            (start, &facts),
            &mut runs,
        );
        is_over.store(true, Ordering::Relaxed);
        follows.thread().unpark();
        (ended, follows.join())
    });
    let Ok(Joining { heard, input, .. }) = joining else { bail!("a thread has failed") };
    let released = Guarded { pid, child, input, heard }.release();
    runs.is_done(0);
    let harm = released.as_ref().err().map(|error| format!("{error:#}"));
    Said::Recorded { experiments: runs.blocks, limits: &options.limits, harm: harm.as_deref() }
        .say(&options.limits);
    let (failure, is_told) = ended.and_then(|failure| answer(&options, &runs, failure))?;
    if let Some(failure) = failure.as_ref().filter(|_| !is_told) {
        kernel::say!("whatif: {failure}");
    }
    match released {
        Ok(Some(stop)) if !options.quiet && joined == 0 => {
            kernel::say!("whatif: process {pid} was let go, and goes on ({stop})")
        }
        Ok(Some(stop)) if !options.quiet => {
            kernel::say!("whatif: all processes were let go, and go on ({stop})")
        }
        Ok(_) => {}
        Err(error) => {
            let text = format!("{error:#}");
            kernel::say!("whatif: {}", profile::printable(&text));
        }
    }
    runs.audience.ended(&options.output);
    Ok(failure.map_or(0, |failure| failure.status()))
}

/// What is known of a process that can be attached to.
#[derive(Debug)]
pub struct Examined {
    /// The file that it runs.
    pub program: PathBuf,
    /// How many it has.
    pub threads: usize,
    /// What it, or what it has started, has started; those that cannot be attached to are first.
    pub started: Vec<u32>,
    /// How many of these cannot be attached to.
    pub refused: usize,
    /// Whether it has been profiled before, and has the runtime.
    pub is_dormant: bool,
}

/// Looks at a process, which is left as it is.
///
/// # Errors
/// Why it cannot be attached to.
pub fn examine(pid: u32) -> Result<Examined> {
    let program = refusal::check(pid)?;
    refusal::check_filters(pid)?;
    let loader = Loader::new(pid)?;
    let can_attach = |pid: &u32| check(*pid).is_ok();
    let started = members::started_by(pid);
    let (refused, others): (Vec<u32>, Vec<u32>) = started.into_iter().partition(|pid| !can_attach(pid));
    Ok(Examined {
        program,
        threads: kernel::cpu::threads(pid).len(),
        refused: refused.len(),
        started: [refused, others].concat(),
        is_dormant: loader.has_run(),
    })
}

/// Whether a process can be attached to; its program.
///
/// # Errors
/// Why not.
fn check(pid: u32) -> Result<PathBuf> {
    let path = refusal::check(pid)?;
    // An object's name may be anything.
    let attached = Loader::new(pid).map_err(|error| anyhow!("{}", profile::printable(&format!("{error:#}"))));
    attached.with_context(|| format!("process {pid} cannot be attached to"))?;
    Ok(path)
}

/// The process that is the first one, its program, and the others.
fn find(selection: &Selection, wanted: &Wanted) -> Result<(u32, PathBuf, Vec<u32>)> {
    // What has a number was meant: it is no use without.
    for pid in &selection.processes {
        check(*pid)?;
    }
    let found = wanted.now();
    let mut reason = None;
    for (nth, pid) in found.iter().enumerate() {
        match check(*pid) {
            Ok(path) => return Ok((*pid, path, [&found[..nth], &found[nth + 1..]].concat())),
            Err(refusal) => reason = reason.or(Some(refusal)),
        }
    }
    let none =
        || anyhow!("no process runs that is meant by {}; find it with: pgrep -a NAME", selection.shown());
    Err(reason.unwrap_or_else(none))
}

/// The processes that join the first one.
struct Joining {
    first: u32,
    input: ChildStdin,
    heard: Heard,
    programs: Arc<Programs>,
    quiet: bool,
    /// The first one, and those that have been added, or could not be.
    known: HashSet<u32>,
    /// Those of which the guardian has not said yet whether they join, and their programs.
    asked: HashMap<u32, PathBuf>,
    /// Those that are profiled.
    profiled: HashSet<u32>,
    /// Those of these, besides the first one, that none of the others has started.
    joined: Joined,
}

impl Joining {
    /// Adds those of these that can be attached to, and says which cannot; how many there are.
    fn add_all(&mut self, processes: &[u32]) -> usize {
        /// So many are named.
        const NAMED: usize = 5;
        let (mut added, mut refused) = (0, Vec::new());
        for pid in processes {
            match self.add(*pid) {
                Ok(()) => added += 1,
                // It has ended meanwhile.
                Err(_) if members::has_ended(*pid) => {}
                Err(error) => {
                    let why = format!("{error:#}");
                    refused.push(format!("process {pid} is not profiled: {}", profile::printable(&why)));
                }
            }
        }
        if !self.quiet {
            let more = refused.len().saturating_sub(NAMED);
            refused.iter().take(NAMED).for_each(|text| kernel::say!("whatif: {text}"));
            if more > 0 {
                kernel::say!("whatif: {more} more processes are not profiled, for reasons like these");
            }
        }
        added
    }

    fn add(&mut self, pid: u32) -> Result<()> {
        /// One that takes longer joins later, or never.
        const PATIENCE: Duration = Duration::from_secs(5);
        self.known.insert(pid);
        ensure!(self.profiled.len() < MOST, "no more than {MOST} processes can be profiled at once");
        let path = refusal::check(pid)?;
        self.input
            .write_all(format!("{} {pid}\n", said::ADD).as_bytes())
            .context("the guardian has ended")?;
        self.asked.insert(pid, path);
        let until = Instant::now() + PATIENCE;
        while self.asked.contains_key(&pid) {
            let Some(line) = self.heard.next(Some(until))? else {
                bail!("it does not stop (is it frozen?); it joins when it does")
            };
            let answer = self.take(&line);
            if line.pid == Some(pid) {
                answer?;
            }
        }
        Ok(())
    }

    /// An answer of the guardian.
    fn take(&mut self, line: &Line) -> Result<()> {
        let Some((pid, path)) = line.pid.and_then(|pid| self.asked.remove_entry(&pid)) else { return Ok(()) };
        ensure!(line.what == said::ATTACHED, "{}", line.more);
        self.programs.joins(&path);
        self.profiled.insert(pid);
        self.set_joined();
        Ok(())
    }

    fn set_joined(&mut self) {
        let is_root = |pid: &u32| *pid != self.first && !members::has_ancestor(*pid, &self.profiled);
        let roots = self.profiled.iter().copied().filter(is_root).collect();
        *self.joined.lock().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// Those that have ended are forgotten: their numbers may mean others.
    fn forget_ended(&mut self) {
        let (first, mut is_any) = (self.first, false);
        self.asked.retain(|pid, _| !members::has_ended(*pid));
        for set in [&mut self.known, &mut self.profiled] {
            set.retain(|pid| {
                let stays = *pid == first || !members::has_ended(*pid);
                is_any |= !stays;
                stays
            });
        }
        if is_any {
            self.set_joined();
        }
    }

    /// Adds what is started from now on and lives for more than a moment, until the session is over.
    fn follow(mut self, wanted: &Wanted, is_over: &AtomicBool) -> Self {
        /// Time between two looks.
        const LOOK: Duration = Duration::from_secs(1);
        /// Looking takes no more than this part of the time, as a divisor, as long as that is not [`LONGEST`]: there may be thousands of processes.
        const MOST_SHARE: u32 = 50;
        const LONGEST: Duration = Duration::from_secs(4);
        let mut seen: HashSet<u32> = HashSet::new();
        let mut rest = LOOK;
        while !is_over.load(Ordering::Relaxed) {
            std::thread::park_timeout(rest);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let begin = Instant::now();
            let now: HashSet<u32> = wanted.now().into_iter().collect();
            rest = (begin.elapsed() * MOST_SHARE).clamp(LOOK, LONGEST);
            self.forget_ended();
            // Those that were asked before, and have answered since.
            while let Ok(Some(line)) = self.heard.next(Some(Instant::now())) {
                // One that has ended meanwhile is refused as well, which is no news.
                let has_ended = line.pid.is_some_and(members::has_ended);
                if let (Err(error), false) = (self.take(&line), self.quiet || has_ended) {
                    let (pid, why) = (line.pid.unwrap_or(0), format!("{error:#}"));
                    kernel::say!("whatif: process {pid} is not profiled: {}", profile::printable(&why));
                }
            }
            let new: Vec<u32> = now.difference(&self.known).copied().collect();
            let (old, young): (Vec<u32>, Vec<u32>) = new.into_iter().partition(|pid| seen.contains(pid));
            self.add_all(&old);
            seen = young.into_iter().collect();
        }
        self
    }
}

/// A line that the guardian has said.
#[derive(Debug)]
struct Line {
    /// One of [`said`].
    what: String,
    /// The process that it is about.
    pid: Option<u32>,
    /// What comes behind.
    more: String,
}

impl Line {
    fn parse(line: &str) -> Self {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let about = [said::ATTACHED, said::REFUSED, said::FAILED].contains(&what);
        let (number, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        let pid = number.parse().ok().filter(|_| about);
        let more = if pid.is_some() { behind } else { rest };
        Self { what: what.to_owned(), pid, more: more.to_owned() }
    }

    /// Whether it is about the whole session, which is over.
    fn is_last(&self) -> bool {
        [said::RELEASED, said::FAILED].contains(&&*self.what)
    }
}

/// Why the guardian says no more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Over {
    #[error("the session is over")]
    Said,
    #[error("what looks after the processes has ended")]
    Ended,
}

/// What the guardian says.
#[derive(Debug)]
struct Heard {
    lines: Receiver<Line>,
    /// What it has said last, when something else was waited for.
    last: Option<Line>,
}

impl Heard {
    fn of(output: ChildStdout) -> std::io::Result<Self> {
        let (sender, lines) = channel();
        let read = move || {
            for line in BufReader::new(output).lines() {
                if line.is_ok_and(|line| sender.send(Line::parse(&line)).is_err()) {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("guardian".into()).spawn(read)?;
        Ok(Self { lines, last: None })
    }

    /// The next line about a process; none if that has not come by then.
    ///
    /// # Errors
    /// The session is over, or the guardian has ended.
    fn next(&mut self, until: Option<Instant>) -> Result<Option<Line>, Over> {
        let line = match until {
            None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.lines.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match line {
            Ok(line) if line.is_last() => {
                self.last = Some(line);
                Err(Over::Said)
            }
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Over::Ended),
        }
    }

    /// The last line, which is waited for; none if the guardian has ended without one.
    fn last(&mut self) -> Option<Line> {
        while self.last.is_none() && self.next(None).is_ok() {}
        self.last.take()
    }
}

/// Has a guardian look after a program that is about to be held.
///
/// # Errors
/// Why there is none.
pub fn look_after_held(held: &Held, shared: &SharedMapping) -> Result<Guarding> {
    let program = HeldProgram { memory: shared.fd().as_raw_fd(), at: held.at, before: held.before };
    let mut command = guardian_of(held.pid());
    command.env(guardian::HELD_PROGRAM, program.told());
    let (child, input, output) = launch::guard_child(command, Some(shared.fd()))?;
    let mut guarded = Guarded::of(held.pid(), child, input, output)?;
    guarded.hear(said::READY)?;
    Ok(Guarding(guarded))
}

/// What looks after a program that we have started: it lets that go when this is dropped.
#[derive(Debug)]
pub struct Guarding(Guarded);

impl Guarding {
    /// Waits until the runtime has been put into the program, which goes on when it has been told what to do.
    ///
    /// # Errors
    /// Why it is not profiled. It goes on.
    pub fn put_in(mut self, held: Held) -> Result<Self> {
        /// Longer than the guardian waits.
        const LONGEST: Duration = Duration::from_secs(15);
        self.0.hear(said::ATTACHED)?;
        held.release_if_held_after(LONGEST);
        Ok(self)
    }

    /// The program has ended.
    pub fn end(self) {
        let Guarded { child, input, .. } = self.0;
        drop(input);
        child.wait();
    }
}

fn guardian_of(pid: u32) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args([GUARDIAN, &pid.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The guardian of a process, seen from here.
#[derive(Debug)]
struct Guarded {
    pid: u32,
    child: Child,
    input: ChildStdin,
    heard: Heard,
}

impl Guarded {
    fn start(pid: u32) -> Result<Self> {
        let mut command = guardian_of(pid);
        command.stderr(kernel::name_spaces::nowhere()?);
        if let Some(way) = kernel::name_spaces::outside(&mut command)? {
            command.env(guardian::INSIDE, way);
        }
        let (child, input, output) = launch::guard(command)?;
        Self::of(pid, child, input, output)
    }

    fn of(pid: u32, child: Child, input: Option<ChildStdin>, output: Option<ChildStdout>) -> Result<Self> {
        let (Some(input), Some(output)) = (input, output) else { bail!("the guardian has no pipes") };
        Ok(Self { pid, child, input, heard: Heard::of(output)? })
    }

    /// What comes behind a word that is waited for.
    fn hear(&mut self, word: &str) -> Result<String> {
        let line = self.heard.next(None);
        let line = line.map_err(|over| self.with_end(over))?.context("the guardian cannot be heard")?;
        match line.what.as_str() {
            what if what == word => Ok(line.more),
            said::REFUSED => {
                bail!("process {} cannot be attached to: {}", self.pid, profile::printable(&line.more))
            }
            what => bail!("the guardian of process {} answers with {what}", self.pid),
        }
    }

    /// What is over, and how the guardian has ended if that is why.
    fn with_end(&self, over: Over) -> anyhow::Error {
        /// What closes its output ends at once.
        const SOON: Nanos = Nanos(1_000_000_000);
        let end = match (over, &self.heard.last) {
            (Over::Said, Some(line)) => return anyhow!("{over}: {}", profile::printable(&line.more)),
            (Over::Said, None) => None,
            (Over::Ended, _) => self.child.wait_until(Nanos(kernel::clock::monotonic().0 + SOON.0)),
        };
        match end {
            None => anyhow!(over),
            Some(Exit::Code(code)) => anyhow!("{over}, with status {code}"),
            Some(Exit::Signal(signal)) => anyhow!("{over}, by signal {signal}"),
        }
    }

    /// The memory that the program has mapped.
    fn memory(&mut self) -> Result<SharedMapping> {
        let number: u32 = self.hear(said::MEMORY)?.parse()?;
        let path = format!("/proc/{}/fd/{number}", self.child.pid());
        let file = File::options().read(true).write(true).open(&path);
        let file = file.context("the shared memory cannot be opened")?;
        SharedMapping::adopt(file.into()).context("the shared memory cannot be mapped")
    }

    /// The memory has been offered.
    fn begin(&mut self) -> Result<()> {
        self.input.write_all(format!("{}\n", said::START).as_bytes()).context("the guardian has ended")?;
        self.hear(said::ATTACHED).map(drop)
    }

    /// Has the program let go, and waits until it is; what there is to be said of that.
    fn release(mut self) -> Result<Option<String>> {
        self.child.terminate(Signal::TERM);
        match self.heard.last() {
            Some(line) if line.what == said::RELEASED => {
                let longest: u64 = line.more.parse().unwrap_or(0);
                self.child.wait();
                Ok((longest > 0).then(|| {
                    format!("no thread of it was stopped for longer than {:.1} ms", longest as f64 / 1e3)
                }))
            }
            Some(line) => bail!("not all processes could be let go as they were: {}", line.more),
            None => bail!(
                "{} (process {}, which goes on, no longer profiled)",
                self.with_end(Over::Ended),
                self.pid
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guardian_says_is_about_a_process_or_the_session() {
        let parse = |line: &str| {
            let Line { what, pid, more } = Line::parse(line);
            (what, pid, more)
        };
        let said = |what: &str, pid, more: &str| (what.to_owned(), pid, more.to_owned());
        assert_eq!(parse("attached 12 345"), said("attached", Some(12), "345"));
        assert_eq!(parse("refused 12 it is stopped; 7"), said("refused", Some(12), "it is stopped; 7"));
        assert_eq!(parse("released 800"), said("released", None, "800"));
        assert_eq!(parse("memory 5"), said("memory", None, "5"));
        assert_eq!(parse("refused nothing"), said("refused", None, "nothing"));
        assert!(Line::parse("released 1").is_last() && Line::parse("failed 1 x").is_last());
        assert!(!Line::parse("attached 1 2").is_last());
    }
}
