//! `whatif run`: launch a program, conduct experiments on it, record them, report.
//!
//! sample → delay → **experiment → record** → profile → report
//!
//! This folder is the controller. It decides ([`experiment`]), measures ([`window`]), watches
//! ([`observe`], [`images`]) and writes down ([`record`]); sampling and delaying happen in the runtime,
//! inside the program. Nothing here is printed to standard output, which is the program's.

mod experiment;
mod failure;
mod futex_code;
mod images;
mod in_flight;
mod observe;
mod options;
mod progress;
mod record;
mod region;
mod strangers;
mod window;

use crate::{cli, embedded, launch, show};
use anyhow::{Context as _, Result};
use failure::Failure;
use images::Images;
use observe::Observer;
use options::Options;
use perf::SharedRegion;
use profile::{Nanos, Recording};
use record::{Place, Session, Tallies};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};
use strangers::Strangers;
use window::{Conductor, Order};
use wire::layout::Sampler;

/// How often samples are drained.
const DRAIN: Duration = Duration::from_millis(10);
/// How often the totals are written, so that a killed controller leaves a useful file.
const SAVE: Duration = Duration::from_secs(1);
/// How long the first samples are collected before the first experiment.
const FIRST_LOOK: Nanos = Nanos::from_millis(30);
/// How long a program may take until the runtime is there.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Runs a program under the profiler. Returns how the program ended, and why there is no answer if there
/// is none.
pub fn run(args: &cli::Run) -> Result<(launch::Exit, i32)> {
    let executable = launch::check(&args.program[0])?;
    let options = Options::new(args, executable.command())?;
    if let Some(failure) = without_debug_information(&options, &executable) {
        eprintln!("whatif: {failure}");
        return Ok((launch::Exit::Code(0), failure.status()));
    }
    if let Some(note) = executable.note().filter(|_| !options.quiet) {
        eprintln!("whatif: {note}");
    }
    let runtime = embedded::unpack()?;
    let recorder = Recording::create(&options.output)?;
    let region = SharedRegion::create().context(
        "cannot create memory to share with the program; check the limits of this container (memfd, RLIMIT_AS)",
    )?;
    offer(&region, &options);
    let started = SystemTime::now();
    let start = monotonic();
    let child = launch::spawn(&executable, &args.program[1..], &runtime, &region)?;
    let facts = || facts(&options, &executable, args, &region, started);
    let supervised = supervise(&options, &executable, &region, &child, recorder, (start, &facts));
    // Whatever became of the recording, the program goes on to its end and ends as it would have.
    let exit = child.verdict(child.wait());
    let failure = match supervised {
        Ok(failure) => failure,
        Err(error) => {
            eprintln!("whatif: {error:#}");
            return Ok((exit, crate::FAILED));
        }
    };
    if let Some(failure) = &failure {
        eprintln!("whatif: {failure}");
    }
    Ok((exit, failure.map_or(0, |failure| failure.status())))
}

/// Profiles a program that has been started, until its end; says why there is no answer if there is none.
fn supervise(
    options: &Options,
    executable: &launch::Executable,
    region: &SharedRegion,
    child: &launch::Child,
    recorder: profile::Recorder,
    (start, facts): (Nanos, &dyn Fn() -> profile::SessionStart),
) -> Result<Option<Failure>> {
    let attached = wait_for_runtime(region, child, executable);
    let mut session = Session::begin(recorder, start, &facts())?;
    if let Some(failure) = attached {
        session.warn(&failure.warning())?;
        return Ok(Some(failure));
    }
    let images = Images::new(
        child.pid(),
        std::fs::canonicalize(executable.image()).unwrap_or_else(|_| executable.image().to_owned()),
        options.binaries.clone(),
        options.scope.clone(),
    );
    let observer =
        Mutex::new(Observer::new(region.memory(), images, options.requests.clone(), options.granularity));
    let outcome = profile(options, region, child, &observer, &mut session)?;
    let exit = child.wait();
    let mut observer = lock(&observer);
    observer.drain();
    let now = monotonic();
    let tallies = Tallies::of(&observer, &session, now);
    session.samples(tallies, outcome.delayed, region.memory().slots.totals().lost)?;
    let failure = diagnose(options, region, &observer, &outcome, now.saturating_sub(start));
    for warning in failure.iter().map(Failure::warning).chain(warnings(region, &observer)) {
        session.warn(&warning)?;
    }
    session.finish(&observer, now, ended(exit))?;
    if outcome.blocks == 0 {
        if !options.quiet {
            eprintln!("whatif: recorded in {}", options.output.display());
        }
        return Ok(failure);
    }
    let answer = show::load(&options.output)?;
    if !options.quiet {
        show::after_run(&answer, &options.output);
    }
    // With baselines only there is nothing to estimate, and nobody has asked for it.
    let asked = !options.choices.speedups.iter().all(|speedup| speedup.is_zero());
    Ok(failure.or_else(|| without_estimate(&answer, outcome.blocks).filter(|_| asked)))
}

/// Experiments were conducted, but not a region has enough of them for an answer.
fn without_estimate(answer: &profile::Profile, blocks: u64) -> Option<Failure> {
    if !answer.regions.is_empty() {
        return None;
    }
    let unbalanced = answer.left_out.windows.unbalanced;
    Some(if unbalanced as u64 >= blocks {
        Failure::Unbalanced { windows: unbalanced }
    } else {
        Failure::TooFewExperiments { experiments: blocks }
    })
}

fn ended(exit: launch::Exit) -> profile::Exit {
    match exit {
        launch::Exit::Code(code) => profile::Exit::Code(code),
        launch::Exit::Signal(signal) => profile::Exit::Signal(signal),
    }
}

/// Waits for the program's end, at most so long; whether it has come.
fn ended_within(child: &launch::Child, time: Duration) -> bool {
    child.wait_until(wire::Nanos(perf::clock::monotonic().0 + time.as_nanos() as u64)).is_some()
}

fn monotonic() -> Nanos {
    Nanos::new(perf::clock::monotonic().0)
}

/// A poisoned lock means that the other thread has panicked and the run is over anyway.
fn lock(observer: &Mutex<Observer>) -> MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Without debug information there is nothing to tell apart: better said before the program runs.
fn without_debug_information(options: &Options, executable: &launch::Executable) -> Option<Failure> {
    if options.binaries.is_some() || !options.sampling {
        return None;
    }
    let image = symbols::Image::open(executable.image()).ok()?;
    (!image.has_line_info())
        .then(|| Failure::NoDebugInformation { program: executable.image().display().to_string() })
}

/// The controller's half of the handshake.
fn offer(region: &SharedRegion, options: &Options) {
    let header = &region.memory().header;
    header.sampling.store(u32::from(options.sampling), Ordering::Relaxed);
    header.period.store(options.period.get(), Ordering::Relaxed);
    header.alive_until.store(perf::clock::monotonic().0 + 30_000_000_000, Ordering::Relaxed);
    header.without.store(options.without_rules, Ordering::Relaxed);
    header.machine_cpus.store(perf::cpu::online(), Ordering::Relaxed);
    header.offer();
}

/// Waits until the runtime has answered; the reason if it will not.
fn wait_for_runtime(
    region: &SharedRegion,
    child: &launch::Child,
    executable: &launch::Executable,
) -> Option<Failure> {
    let header = &region.memory().header;
    let program = || executable.command().display().to_string();
    let begin = Instant::now();
    loop {
        match header.handshake() {
            wire::Handshake::Attached => return None,
            wire::Handshake::Mismatch => {
                let (controller, runtime) = header.build_ids();
                return Some(Failure::Mismatch { controller, runtime });
            }
            wire::Handshake::Waiting => {}
        }
        if ended_within(child, Duration::from_micros(500)) {
            // It may have attached and ended between the two looks.
            let attached = header.handshake() == wire::Handshake::Attached;
            return (!attached).then(|| Failure::NotAttached { program: program() });
        }
        if begin.elapsed() > HANDSHAKE {
            return Some(Failure::NotAttached { program: program() });
        }
    }
}

/// How an attempt to profile went.
#[derive(Debug, Default)]
struct Outcome {
    blocks: u64,
    visited: bool,
    delayed: Nanos,
}

/// Conducts experiments until the program or the time is over.
fn profile(
    options: &Options,
    region: &SharedRegion,
    child: &launch::Child,
    observer: &Mutex<Observer>,
    session: &mut Session,
) -> Result<Outcome> {
    perf::clock::sleep_precisely();
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut strangers = Strangers::default();
            while !stop.load(Ordering::Relaxed) {
                lock(observer).drain();
                strangers.count(region.memory());
                std::thread::sleep(DRAIN);
            }
        });
        let outcome = {
            let conductor = Conductor::new(region, |time| ended_within(child, time));
            Run::new(options, region, observer, session, child).conduct(conductor)
        };
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let outcome = outcome?;
    if child.try_wait().is_none() && options.then == cli::Then::Terminate {
        if !options.quiet {
            eprintln!(
                "whatif: the time is up; asking the program to end (SIGTERM; --then continue leaves it alone)"
            );
        }
        child.terminate();
    }
    Ok(outcome)
}

/// A session under way.
struct Run<'a> {
    options: &'a Options,
    region: &'a SharedRegion,
    observer: &'a Mutex<Observer>,
    session: &'a mut Session,
    child: &'a launch::Child,
    progress: progress::Bar,
    cpu: Option<perf::cpu::CpuUse>,
    busy: Option<f64>,
    saved: Instant,
}

impl<'a> Run<'a> {
    fn new(
        options: &'a Options,
        region: &'a SharedRegion,
        observer: &'a Mutex<Observer>,
        session: &'a mut Session,
        child: &'a launch::Child,
    ) -> Self {
        Self {
            options,
            region,
            observer,
            session,
            child,
            progress: progress::Bar::new(options.duration, options.quiet),
            cpu: perf::cpu::CpuUse::now(child.pid()).ok(),
            busy: None,
            saved: Instant::now(),
        }
    }

    fn conduct(mut self, mut conductor: Conductor<'_>) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut history = experiment::History::default();
        let mut random = fastrand::Rng::with_seed(self.options.seed);
        let begin = Instant::now();
        let over = |begin: Instant| self.options.duration.is_some_and(|most| begin.elapsed() >= most);
        if !self.options.sampling {
            while !over(begin) && conductor.wait(Nanos::from_millis(100)) {}
            return Ok(outcome);
        }
        if !conductor.wait(FIRST_LOOK) {
            return Ok(outcome);
        }
        while !over(begin) {
            let offers = {
                let mut observer = lock(self.observer);
                observer.drain();
                observer.offers(monotonic())
            };
            let Some(plan) = history.next(&offers, &self.options.choices, &mut random) else {
                self.progress.waiting();
                self.save(conductor.delayed())?;
                if !conductor.wait(Nanos::from_millis(5)) {
                    break;
                }
                continue;
            };
            let stops = self.child.stops();
            let mut windows = Vec::with_capacity(plan.windows.len());
            for (index, speedup) in plan.windows.into_iter().enumerate() {
                let place =
                    Place { block: outcome.blocks as i64, index: index as u32, region: plan.region, speedup };
                let Some(window) = self.window(&mut conductor, &mut history, place)? else { break };
                outcome.visited |= window.visits.iter().any(|visits| visits.count > 0);
                windows.push(window);
            }
            if windows.len() < plan.windows.len() {
                break; // the program has ended: a window that was cut short counts for nothing
            }
            if self.child.stops() != stops || self.child.is_stopped() {
                continue; // stopped from the terminal meanwhile: nothing was measured
            }
            self.session.block(&windows)?;
            outcome.blocks += 1;
            self.progress.block(outcome.blocks);
            self.save(conductor.delayed())?;
        }
        outcome.delayed = conductor.delayed();
        self.progress.finish();
        Ok(outcome)
    }

    fn window(
        &mut self,
        conductor: &mut Conductor<'_>,
        history: &mut experiment::History,
        place: Place,
    ) -> Result<Option<profile::Window>> {
        let order = {
            let mut observer = lock(self.observer);
            observer.drain();
            observer.watch(place.region);
            Order {
                region: u32::try_from(place.region + 1).unwrap_or(u32::MAX),
                ranges: observer.ranges(place.region),
                inclusive: observer.regions()[place.region].requested,
                speedup: place.speedup,
                length: history.length(),
            }
        };
        let Some(measured) = conductor.conduct(&order) else { return Ok(None) };
        history.learn(&measured.visits);
        self.look_at_machine();
        let mut observer = lock(self.observer);
        observer.drain();
        let seen = observer.seen(measured.start, measured.elapsed);
        self.session.window(self.region.memory(), &observer, place, &measured, seen, self.busy).map(Some)
    }

    /// The share of the machine that others used over the last half second or more.
    fn look_at_machine(&mut self) {
        let Ok(now) = perf::cpu::CpuUse::now(self.child.pid()) else { return };
        match &self.cpu {
            Some(before) if now.passed.saturating_sub(before.passed).0 < 1_000_000_000 => {}
            Some(before) => {
                self.busy = Some(now.others_since(*before));
                self.cpu = Some(now);
            }
            None => self.cpu = Some(now),
        }
    }

    /// Writes the samples so far, once a second, and gives back what dead processes have left.
    fn save(&mut self, delayed: Nanos) -> Result<()> {
        if self.saved.elapsed() < SAVE {
            return Ok(());
        }
        self.saved = Instant::now();
        let memory = self.region.memory();
        collect_slots(memory, self.child.pid());
        let tallies = Tallies::of(&lock(self.observer), self.session, monotonic());
        self.session.samples(tallies, delayed, memory.slots.totals().lost)
    }
}

/// Gives back the slots of forked children that have ended or now execute another program.
fn collect_slots(memory: &wire::SharedMemory, pid: u32) {
    let image = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    for slot in memory.slots.used() {
        // In this order: a thread that takes the slot meanwhile says who it is last.
        let thread = slot.tid.load(Ordering::Acquire);
        let owner = slot.pid.load(Ordering::Relaxed);
        if !slot.is_taken() || owner == pid || owner == 0 || thread == 0 {
            continue;
        }
        let gone = std::fs::read_link(format!("/proc/{owner}/exe")).ok() != image
            || !std::path::Path::new(&format!("/proc/{owner}/task/{thread}")).exists();
        if gone {
            memory.slots.give_back(slot);
        }
    }
}

fn sampler(region: &SharedRegion) -> Sampler {
    Sampler::from_number(region.memory().header.sampler.load(Ordering::Relaxed))
}

fn facts(
    options: &Options,
    executable: &launch::Executable,
    args: &cli::Run,
    region: &SharedRegion,
    started: SystemTime,
) -> profile::SessionStart {
    let system = rustix::system::uname();
    let sampler = sampler(region);
    profile::SessionStart {
        started: Nanos::from(started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
        program: executable.command().display().to_string(),
        arguments: args.program[1..].iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        directory: std::env::current_dir().unwrap_or_default().display().to_string(),
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        seed: options.seed,
        options: options.typed.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sampler: match sampler {
            Sampler::Perf | Sampler::PerfUser => "perf task-clock".to_owned(),
            Sampler::Timer => "cpu timer".to_owned(),
            Sampler::None | Sampler::Unknown => "none".to_owned(),
        },
        sample_period: options.period,
        kernel_time: matches!(sampler, Sampler::Perf | Sampler::Timer),
        repeat: 0,
        fixed_regions: !options.requests.is_empty(),
        fixed_speedups: options.fixed_speedups,
    }
}

/// Why there is no answer, if there is none.
fn diagnose(
    options: &Options,
    region: &SharedRegion,
    observer: &Observer,
    outcome: &Outcome,
    duration: Nanos,
) -> Option<Failure> {
    if !options.sampling {
        return None;
    }
    let seconds = duration.as_secs_f64();
    let memory = region.memory();
    let points = window::points(memory);
    let (samples, _) = observer.totals();
    if sampler(region) == Sampler::None {
        let errno = memory.header.refusal.load(Ordering::Relaxed) as i32;
        return Some(Failure::NoSampler { perf: std::io::Error::from_raw_os_error(errno).to_string() });
    }
    if samples == 0 {
        return Some(Failure::NoSamples { seconds });
    }
    if options.requests.is_empty() && observer.in_scope() == 0 {
        // Every Rust program has line information for the standard library; what counts is the scope's.
        let blind = |image: &symbols::Image| !image.has_line_info_in(&options.scope);
        if options.default_scope && observer.images().opened().all(blind) {
            let program = observer.images().opened().map(|image| image.path().display().to_string());
            return Some(Failure::NoDebugInformation {
                program: failure::list(&program.collect::<Vec<_>>(), 3),
            });
        }
        let seen = failure::list(&observer.elsewhere(), 3);
        let seen = if seen.is_empty() { seen } else { format!("the program ran {seen}: ") };
        return Some(Failure::NothingInScope { samples, seen });
    }
    for (index, request) in options.requests.iter().enumerate() {
        if observer.regions()[index].samples == 0 {
            return Some(Failure::RegionNeverRan {
                region: request.to_string(),
                hint: hint(request, observer),
            });
        }
    }
    if points.is_empty() {
        return Some(Failure::NoProgressPoint);
    }
    if outcome.blocks == 0 {
        return Some(Failure::TooShort { seconds });
    }
    if !outcome.visited {
        let names: Vec<String> = points.into_iter().map(|point| point.name).collect();
        return Some(Failure::PointNeverReached { points: failure::list(&names, 5) });
    }
    None
}

/// What may have been meant by a region that never ran.
fn hint(request: &region::Request, observer: &Observer) -> String {
    for image in observer.images().opened() {
        match request {
            region::Request::Function(name) => {
                if image.has_function(name) {
                    return "the function is in the program, but no sample fell into it: profile a run that \
                            spends time there"
                        .to_owned();
                }
                let similar = image.suggest(name);
                if !similar.is_empty() {
                    return format!(
                        "no function has that name; similar ones: {}",
                        failure::list(&similar, 5)
                    );
                }
            }
            region::Request::Line(file, line) => match image.has_line(file, *line) {
                symbols::LineLookup::Exact => {
                    return "the line is in the program, but no sample fell into it: profile a run that \
                            spends time there"
                        .to_owned();
                }
                symbols::LineLookup::NearestWithCode(line) => {
                    return format!("the line has no code; the nearest one that has is {file}:{line}");
                }
                symbols::LineLookup::NoSuchFile { similar } if !similar.is_empty() => {
                    return format!("no source file has that name; there are {}", failure::list(&similar, 5));
                }
                symbols::LineLookup::NoSuchFile { .. } => {}
            },
        }
    }
    "check the name, and that the program was compiled with -g".to_owned()
}

/// Doubts that do not prevent an answer.
fn warnings(region: &SharedRegion, observer: &Observer) -> Vec<profile::Warning> {
    let memory = region.memory();
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, advice: &str| {
        warnings.push(profile::Warning { code: code.to_owned(), message, advice: advice.to_owned() });
    };
    let errno = memory.header.refusal.load(Ordering::Relaxed) as i32;
    let refusal = std::io::Error::from_raw_os_error(errno);
    match sampler(region) {
        Sampler::PerfUser => warn(
            "user-time-only",
            format!("kernel time was not sampled ({refusal})"),
            "allow it with: sudo sysctl kernel.perf_event_paranoid=1",
        ),
        Sampler::Timer => warn(
            "cpu-timer",
            format!(
                "perf was refused ({refusal}), so a CPU-time timer took the samples, as coarse as the kernel's tick"
            ),
            "allow perf with: sudo sysctl kernel.perf_event_paranoid=2 (in a container also the seccomp profile)",
        ),
        _ => {}
    }
    // Without perf it has been said already.
    let perf = matches!(sampler(region), Sampler::Perf | Sampler::PerfUser);
    let refused = memory.header.switches.load(Ordering::Relaxed) == wire::layout::Switches::Refused as u32;
    if perf && refused {
        warn(
            "no-switch-records",
            "threads could not see when they waited for a CPU, which matters if there are more of them than CPUs"
                .to_owned(),
            "allow more locked memory: ulimit -l 65536, or sudo sysctl kernel.perf_event_mlock_kb=65536",
        );
    }
    if memory.header.inline_futex.load(Ordering::Relaxed) != 0 {
        warn(
            "unannounced-waits",
            "the program has code that calls the futex itself: waits that no function announced were taken for \
             waits on other threads"
                .to_owned(),
            "nothing to do, unless the program also reads files or the network by system calls of its own",
        );
    }
    let totals = memory.slots.totals();
    if totals.lost > 0 {
        warn(
            "lost-samples",
            format!("{} of {} samples were lost between program and profiler", totals.lost, totals.samples),
            "leave the profiler some CPU time, or sample less often with --period 2000",
        );
    }
    let refused = memory.slots.refused.load(Ordering::Relaxed);
    if refused > 0 {
        warn(
            "too-many-threads",
            format!("{refused} threads ran unprofiled: more than {} at once", wire::slot::MAX_SLOTS),
            "profile with fewer threads at a time",
        );
    }
    for problem in observer.images().problems() {
        warn("image-unreadable", problem.clone(), "rebuild that file with debug information");
    }
    warnings
}
