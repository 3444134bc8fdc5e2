//! The controller: launches a program, conducts experiments on it and records them.
//!
//! **Does:** decide what to try (`experiment`), measure it (`series`, `window`), watch the program (`observe`, `images`) and write down what was found (`record`).
//!
//! **Does not:** sample or delay: the runtime does, inside the program. It does not draw either: an [`Audience`] is told what there is to show.
//!
//! **Constraints:** no unsafe code; nothing is printed to standard output, which is the program's; whatever fails here, the program goes on to its end and ends as it would have.
//!
//! **Place:** sample → delay → **experiment → record** → profile → report.
#![forbid(unsafe_code)]

// Their doc comments are the help texts that clap prints.
#[allow(missing_docs)]
pub mod arguments;
pub mod attach;
mod audience;
mod audit;
mod backlog;
mod balance;
mod calls;
mod candidates;
mod circles;
mod clients;
mod clocks;
mod code_scope;
mod cpu_budget;
mod dead_slots;
mod diagnosis;
pub mod embedded;
mod executing;
mod experiment;
mod failure;
mod finer;
mod first_functions;
mod follow;
mod futex_code;
mod go_functions;
mod heat;
mod hint;
mod images;
mod in_flight;
mod input;
mod jit;
pub mod launch;
mod limits;
mod made;
mod naming;
pub mod needs;
mod now;
mod observe;
mod options;
mod outlook;
mod overhead;
mod owner;
mod points;
mod progress;
mod ran_as;
mod ranges;
mod record;
mod region;
mod runs;
mod series;
pub mod span;
mod stacks;
mod strangers;
mod survey;
mod threads;
mod unwind_tables;
mod usage;
mod warning;
mod window;
mod without_functions;

pub use audience::Audience;
pub use failure::{NO_ANSWER, list};
pub use follow::{leads_on, outline};
pub use launch::is_marked;
pub use limits::{AskedLimits, Guard};
pub use profile::shell::command;
pub use usage::Usage;

use anyhow::{Context as _, Result};
use failure::Failure;
use follow::{Follower, Joined, Programs, Wanted};
use hint::Hint;
use images::{Executed, Images};
use input::{Again, Input};
use kernel::SharedMapping;
use launch::{Target, Tree};
use limits::{Limits, Said, Why};
use now::monotonic;
use observe::{Observer, lock};
use options::Options;
use points::{PointSpec, Points};
use profile::coz::load_either;
use profile::{Interpreter, Nanos, Recording};
use record::{Session, Tallies};
use region::{Presence, RegionSpec};
use runs::{Runs, VisitCosts};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use series::{Outcome, Series};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use strangers::Strangers;
use symbols::debuginfod::Told;
use warning::Warning;
use window::Conductor;
use wire::layout::Sampler;

/// Exit status when `whatif` itself failed.
pub const FAILED: i32 = 90;

/// How often samples are drained.
const DRAIN: Duration = Duration::from_millis(10);
/// How long a program may take until the runtime is there.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Whether what was typed names places: `points` after `-p`, `latencies` after `--latency`, `regions` after `--region`.
///
/// # Errors
/// What is wrong with the first one that does not, and what is right.
pub fn check_places(points: &[String], latencies: &[String], regions: &[String]) -> Result<()> {
    regions.iter().for_each(|region| drop(region::RegionSpec::parse(region)));
    PointSpec::all(points, latencies).map(drop)
}

/// Runs a program under the profiler. Returns how the program ended, and the exit status that says why there is no answer if there
/// is none.
///
/// # Errors
/// Why the program was not run.
pub fn run(args: &arguments::Run, audience: Box<dyn Audience>) -> Result<(launch::Exit, i32)> {
    needs::descriptors()?;
    // Of our own library there is no debug information anywhere.
    symbols::debuginfod::allow(|path| !embedded::is_runtime_at(path), told_of_servers);
    let executable = launch::check_to_start(&args.program[0])?;
    let wanted = Wanted::behind(args, &executable).map_err(Usage::of)?.map(Arc::new);
    let named_after = wanted.as_ref().and_then(|wanted| wanted.guess(&args.program[1..]));
    // A script by its own name, not by that of its interpreter.
    let named_after = named_after.as_deref().unwrap_or(Path::new(&args.program[0]));
    let mut options = Options::new(args, named_after).map_err(Usage::of)?;
    let mut costs = VisitCosts::default();
    if wanted.is_some() {
        // Everything else is found out when it is known which program it is about.
        options.remember_command();
    } else {
        if let Some(failure) = without_debug_information(&options, &executable) {
            kernel::say!("whatif: {failure}");
            return Ok((launch::Exit::Code(0), failure.status()));
        }
        costs = prepare(&mut options, &executable)?;
        if let Some(note) = executable.note().filter(|_| !options.quiet) {
            kernel::say!("whatif: {note}");
        }
    }
    let left_out = match &args.leave_out[..] {
        [] => None,
        functions => Some(without_functions::copy(embedded::RUNTIME, functions)?),
    };
    let runtime = match &left_out {
        Some((_, copy)) => copy.clone(),
        None => embedded::unpack()?.path,
    };
    let hint = wanted.is_none().then(|| ask_production(&options, &executable)).flatten();
    audience.begins(&options.output)?;
    let mut runs = Runs::new(&options, &costs, hint, audience);
    let input = Input::own();
    let (exit, ended) = loop {
        let (exit, ended) = match &wanted {
            None => once(args, &options, &executable, &runtime, &mut runs)?,
            Some(wanted) => once_behind((args, wanted), &mut options, &executable, &runtime, &mut runs)?,
        };
        if !matches!(exit, launch::Exit::Code(0)) || ended.is_err() || !runs.again(&options) {
            break (exit, ended);
        }
        match input.again() {
            Again::Same => {}
            Again::Perhaps if runs.done == 1 && !options.quiet => kernel::say!(
                "whatif: standard input is a pipe that has come to its end: if the program reads it, give it a file (whatif run … < \
                 FILE), which every run reads from its beginning"
            ),
            Again::Perhaps => {}
            Again::Not => {
                kernel::say!(
                    "whatif: the program has read all of its standard input, which comes through a pipe, so it is not run again; \
                     give it a file (whatif run … < FILE), which every run reads from its beginning"
                );
                break (exit, ended);
            }
        }
    };
    if let Some(times) = options.repeat
        && runs.done < times
        && runs.is_over(&options)
        && !options.quiet
    {
        kernel::say!(
            "whatif: --duration limits all runs together, and was over after {} of {times}; a longer one has room for all",
            runs.done
        );
    }
    let (failure, is_told) = match ended.and_then(|failure| answer(&options, &runs, failure)) {
        Ok(answered) => answered,
        Err(error) => {
            kernel::say!("whatif: {error:#}");
            return Ok((exit, FAILED));
        }
    };
    if let Some(failure) = failure.as_ref().filter(|_| !is_told) {
        kernel::say!("whatif: {failure}");
    }
    if !launch::asked_to_end() {
        runs.audience.ended(&options.output);
    }
    Ok((exit, failure.map_or(0, |failure| failure.status())))
}

/// Finds out what has to be known of the program before it is profiled.
fn prepare(options: &mut Options, executable: &launch::Executable) -> Result<VisitCosts> {
    adopt_crate(options, executable);
    let costs = VisitCosts { visit: check_counting(options)?, noting: points::noting_cost(&options.points) };
    if let Some(name) = canonical(executable).file_name() {
        options.file = name.to_string_lossy().into_owned();
    }
    check_code(options, executable)?;
    check_build(options, executable)?;
    // Better known before it has run than afterwards.
    if let Some(instead) =
        options.of_interpreter_with_command().filter(|_| options.looks_for_point() && !options.quiet)
    {
        kernel::say!("whatif: {instead}");
    }
    Ok(costs)
}

/// Begins to read what production says of the program.
fn ask_production(options: &Options, executable: &launch::Executable) -> Option<Hint> {
    let source = options.hint.as_ref()?;
    if !options.quiet {
        kernel::say!(
            "whatif: reading {} meanwhile: what costs most there is tried first",
            source.folder.display()
        );
    }
    Some(Hint::ask(source, options, &canonical(executable)))
}

/// The message while servers are asked for debug information.
fn told_of_servers(told: Told<'_>) {
    kernel::say!("whatif: {}", profile::printable(&told.to_string()));
}

/// Why there is no memory to share with the program.
fn without_memory(error: std::io::Error) -> anyhow::Error {
    let advice = if error.kind() == std::io::ErrorKind::FileTooLarge {
        format!(
            "no file may have the {} MB that it takes; raise the limit for files (`ulimit -f unlimited`), from a new login if the \
             shell refuses to",
            wire::SharedMemory::SIZE.div_ceil(1 << 20)
        )
    } else {
        "check the limits of this container (memfd, RLIMIT_AS)".to_owned()
    };
    anyhow::Error::new(error).context(format!("cannot create memory to share with the program; {advice}"))
}

/// Runs the program once. The error is our own: whatever became of the recording, the program goes on to its end
/// and ends as it would have.
fn once(
    args: &arguments::Run,
    options: &Options,
    executable: &launch::Executable,
    runtime: &Path,
    runs: &mut Runs,
) -> Result<(launch::Exit, Result<Option<Failure>>)> {
    /// A program that cannot be profiled may have ended.
    const ENDING: wire::Nanos = wire::Nanos(50_000_000);
    let recorder = Recording::create(&options.output)?;
    let shared = SharedMapping::create().map_err(without_memory)?;
    offer(&shared, options);
    // Before the program competes for CPUs.
    kernel::wakeup::Cost::known();
    let started = SystemTime::now();
    let start = monotonic();
    let follower = follow_what_it_executes(args, &shared, runtime)?;
    let asks = follower.as_ref().map(Follower::variable);
    let (child, guarding) = if executable.held_at().is_some() {
        let look_after = |held: &launch::Held| attach::look_after_held(held, &shared);
        let (child, begun) = launch::spawn_held(executable, &args.program[1..], look_after)?;
        let refused = || Err(anyhow::anyhow!("the kernel does not allow ptrace here"));
        let guarding = begun.unwrap_or_else(refused).and_then(|(held, guarding)| guarding.put_in(held));
        if let Err(error) = &guarding
            && child.wait_until(kernel::clock::monotonic() + ENDING).is_none()
        {
            let error = format!("{error:#}");
            kernel::say!("whatif: the program runs unprofiled: {}", profile::printable(&error));
        }
        (child, guarding.ok())
    } else {
        let with = launch::With::Memory(&shared, asks.as_deref());
        (launch::spawn(executable, &args.program[1..], runtime, with)?, None)
    };
    let repeat = runs.done;
    let arguments = || args.program[1..].iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let facts = || facts((options, std::process::id()), executable, arguments(), &shared, (started, repeat));
    let before = runs.blocks;
    let tree = tree(&shared, options, options.may_hold());
    follower.iter().for_each(|follower| follower.set_tree(Arc::clone(&tree)));
    let target = Target::child(&child).with(tree);
    let programs = follower.as_ref().map(Follower::programs).unwrap_or_default();
    let supervised =
        supervise(options, executable, (&shared, programs), &target, recorder, (start, &facts), runs);
    runs.is_done(before);
    let ended = child.verdict(child.wait());
    guarding.into_iter().for_each(attach::Guarding::end);
    if !options.quiet {
        say_of_followed(follower.iter().flat_map(Follower::notes));
    }
    Ok((ended, supervised))
}

/// What may go on when the first program has ended.
fn tree(shared: &SharedMapping, options: &Options, may_hold: bool) -> Arc<Tree> {
    Arc::new(Tree::new(shared, options.until_exit, may_hold, options.quiet))
}

/// What the program executes is to join it. Where that cannot be had, it is profiled alone, and that is said.
fn follow_what_it_executes(
    args: &arguments::Run,
    shared: &SharedMapping,
    runtime: &Path,
) -> Result<Option<Follower>> {
    let Some(wanted) = Wanted::executed_by_it(args).map_err(Usage::of)? else { return Ok(None) };
    let begun = Follower::start(Arc::new(wanted), runtime).and_then(|follower| {
        follower.begin(shared)?;
        Ok(follower)
    });
    Ok(begun.inspect_err(|error| kernel::say!("whatif: {error:#}")).ok())
}

/// What there is to be said of programs that were executed.
fn say_of_followed(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        kernel::say!("whatif: {note}");
    }
}

/// Runs a wrapper once, and profiles the program that it leads to; the next one if that ends before an experiment.
fn once_behind(
    (args, wanted): (&arguments::Run, &Arc<Wanted>),
    options: &mut Options,
    wrapper: &launch::Executable,
    runtime: &Path,
    runs: &mut Runs,
) -> Result<(launch::Exit, Result<Option<Failure>>)> {
    /// How long a wrapper may go on, after its program was asked to end, until it is asked itself.
    const AFTERWARDS: Duration = Duration::from_secs(1);
    let follower = Follower::start(Arc::clone(wanted), runtime)?;
    if let Some(program) = &runs.profiled {
        follower.only(program);
    }
    follower.expect(memory_to_join_with(options)?);
    // Before the program competes for CPUs.
    kernel::wakeup::Cost::known();
    let variable = follower.variable();
    let child = launch::spawn(wrapper, &args.program[1..], runtime, launch::With::Socket(&variable))?;
    let (before, begin) = (runs.blocks, Instant::now());
    let mut ended = None;
    loop {
        let over = options.duration.map(|most| if ended.is_none() { begin } else { runs.begin } + most);
        let Some(joined) = follower.wait(&child, over) else { break };
        if ended.is_none() && runs.done == 0 {
            runs.begin = Instant::now();
        }
        let so_far = runs.blocks;
        let result = profile_joined(&joined, &follower, options, &child, runs);
        if runs.blocks > so_far || options.end_to_end {
            runs.profiled = Some(canonical(&joined.executable));
        }
        // What was measured counts, whatever the next program was.
        if ended.is_none() || result.is_err() || runs.blocks > so_far || runs.blocks == before {
            ended = Some(result);
        }
        let is_enough = child.was_asked() || launch::asked_to_end() || runs.is_enough(options);
        if is_enough
            || runs.is_over(options)
            || options.end_to_end
            || ended.as_ref().is_some_and(Result::is_err)
        {
            break;
        }
        if let Some(program) = &runs.profiled {
            follower.only(program);
        }
        match memory_to_join_with(options) {
            Ok(shared) => follower.expect(shared),
            Err(error) => {
                ended = Some(Err(error));
                break;
            }
        }
    }
    let (notes, instead) = (follower.notes(), follower.instead());
    drop(follower);
    let is_over = runs.is_over(options) && options.then == arguments::Then::Terminate;
    if child.was_asked() && !ended_within(&Target::child(&child), AFTERWARDS) || ended.is_none() && is_over {
        child.terminate(options.stop_signal);
    }
    let exit = child.verdict_of_wrapper(child.wait());
    runs.is_done(before);
    if !options.quiet && ended.is_some() {
        say_of_followed(notes);
    }
    let nothing = || Failure::NothingJoined { wrapper: wrapper.command().display().to_string(), instead };
    Ok((exit, ended.unwrap_or_else(|| Ok(Some(nothing())))))
}

/// The memory that the next program joins with. It waits before its first instruction until it is known what is to be done with it.
fn memory_to_join_with(options: &Options) -> Result<SharedMapping> {
    let shared = SharedMapping::create().map_err(without_memory)?;
    offer(&shared, options);
    shared.hold(true);
    Ok(shared)
}

/// Profiles a program that has joined, until its end.
fn profile_joined(
    joined: &Joined,
    follower: &Follower,
    options: &mut Options,
    child: &launch::Child,
    runs: &mut Runs,
) -> Result<Option<Failure>> {
    let (shared, executable) = (&joined.shared, &joined.executable);
    let held = Held(shared);
    let (started, start) = (SystemTime::now(), monotonic());
    let unprofiled = Unprofiled(shared);
    if let Some(failure) = without_debug_information(options, executable) {
        return Ok(Some(failure));
    }
    let costs = prepare(options, executable)?;
    (runs.visit_cost, runs.noting_cost) = (costs.visit, costs.noting);
    // Until there are experiments the next program may be another one.
    if runs.hint.is_none() || runs.profiled.is_none() {
        runs.hint = ask_production(options, executable);
    }
    let not_attached = || Failure::NotAttached { program: executable.command().display().to_string() };
    let Some(target) = joined.target(child) else { return Ok(Some(not_attached())) };
    // The wrapper may go on with another program, which is no daemon of this one.
    let tree = tree(shared, options, false);
    follower.set_tree(Arc::clone(&tree));
    let target = target.with(tree);
    if !options.quiet && runs.done == 0 {
        let path = executable.image().display().to_string();
        kernel::say!("whatif: profiling {} (process {})", profile::printable(&path), target.pid());
    }
    let recorder = Recording::create(&options.output)?;
    let repeat = runs.done;
    let pid = target.pid();
    let facts = || facts((options, pid), executable, arguments_of(pid), shared, (started, repeat));
    // From here on that looks after both.
    std::mem::forget((unprofiled, held));
    supervise(options, executable, (shared, follower.programs()), &target, recorder, (start, &facts), runs)
}

/// The arguments that a process was started with.
fn arguments_of(pid: u32) -> Vec<String> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|byte| *byte == 0);
    words.skip(1).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Shows the answer, if there is one; why there is none otherwise, and whether that has been said. `failure`: of the last run.
fn answer(options: &Options, runs: &Runs, failure: Option<Failure>) -> Result<(Option<Failure>, bool)> {
    if let (0, Some(Failure::NoProgressPoint { .. }), false) = (runs.blocks, &failure, options.quiet) {
        // There is a profile, which says so.
        runs.audience.answered(&load_either(&options.output)?, &options.output);
        return Ok((failure, true));
    }
    if runs.blocks == 0 {
        if !options.quiet
            && options.survey.is_none()
            && !matches!(failure, Some(Failure::NothingJoined { .. }))
        {
            kernel::say!("whatif: recorded in {}", options.output.display());
        }
        return Ok((failure, false));
    }
    let answer = load_either(&options.output)?;
    if !options.quiet && !runs.shown {
        runs.audience.answered(&answer, &options.output);
        if options.stops_when_sure() && !runs.outlook.is_sure() {
            kernel::say!(
                "whatif: this is not as sure as --precision asks; profile more into the same file with -o"
            );
        }
    }
    // One of several runs may have been without an experiment.
    let failure = failure.filter(|failure| !matches!(failure, Failure::TooShort { .. }));
    // With baselines only there is nothing to estimate, and the user has not asked for it.
    let asked = !options.choices.speedups.iter().all(|speedup| speedup.is_zero());
    Ok((failure.or_else(|| without_estimate(&answer, runs.blocks).filter(|_| asked)), false))
}

/// Shows the answer while the program goes on; whether it could be shown.
fn show_at_once(options: &Options, audience: &dyn Audience) -> Result<bool> {
    if options.quiet {
        return Ok(false);
    }
    audience.answered(&load_either(&options.output)?, &options.output);
    let goes_on = "this is as exact as --precision asks; the program goes on without experiments";
    kernel::say!("whatif: {goes_on} (--then terminate ends it; --duration N goes on measuring)");
    Ok(true)
}

/// Profiles a program that has been started, until its end; returns why there is no answer if there is none.
fn supervise(
    options: &Options,
    executable: &launch::Executable,
    (shared, programs): (&SharedMapping, Arc<Programs>),
    target: &Target<'_>,
    recorder: profile::Recorder,
    (start, facts): (Nanos, &dyn Fn() -> profile::SessionStart),
    runs: &mut Runs,
) -> Result<Option<Failure>> {
    let held = Held(shared);
    let _descriptors = Descriptors::more();
    let attached = wait_for_runtime(shared, target, executable);
    let mut session = Session::begin(recorder, start, &facts())?;
    if let Some(failure) = attached {
        session.warn(&failure)?;
        return Ok(Some(failure));
    }
    programs.begin(&canonical(executable), executable.image());
    let images = Images::new(
        target.pid(),
        canonical(executable),
        &options.scope,
        Executed { memory: shared.memory(), programs: Arc::clone(&programs) },
    );
    let later = options.scope.binaries.is_some();
    let cost = runs.noting_cost.map_or(0, |cost| u32::try_from(cost.0).unwrap_or(0));
    shared.memory().header.trap_cost.store(cost, Ordering::Relaxed);
    let points =
        Points::place(shared.memory(), &options.points, &images, target.pid(), &options.scope.sources, later);
    let points = match points {
        Ok(points) => points,
        Err(error) => {
            // It waits before `main` for its points, so that nothing of it has run: better no run than one for nothing.
            target.kill();
            session.finish(monotonic(), ended(target.wait()), true)?;
            return Err(error);
        }
    };
    // A run that is one window begins with it.
    let held = options.end_to_end.then_some(held);
    if let Some(means) =
        points.means(runs.visit_cost, runs.noting_cost).filter(|_| !options.quiet && runs.done == 0)
    {
        kernel::say!("whatif: counting visits by {means}");
    }
    let observer = Mutex::new(Observer::new(shared.memory(), images, options, points.sampled()));
    let outcome =
        profile(options, (shared, &programs), target, &points, &observer, &mut session, (&mut *runs, held))?;
    shared.memory().header.placing.store(0, Ordering::Relaxed);
    runs.blocks += outcome.blocks;
    let mut observer = lock(&observer);
    observer.drain();
    let now = monotonic();
    let tallies = Tallies::of(&observer, &session, now);
    session.samples(tallies, outcome.delayed, shared.memory().slots.totals().lost)?;
    session.arrivals(shared.memory())?;
    if let Some(hint) = &runs.hint {
        tell_production(hint, &observer, &mut session)?;
    }
    let (duration, is_over) = (now.saturating_sub(start), runs.is_over(options));
    let failure = diagnosis::diagnose(options, shared, &points, &observer, &outcome, duration, is_over);
    let (failure, halted) = halted(&options.limits, start, failure);
    halted.iter().try_for_each(|warning| session.warn(warning))?;
    let counted = points.costs(runs.visit_cost, runs.noting_cost, now.saturating_sub(start));
    let mut of_places = diagnosis::points(&points);
    of_places.extend(diagnosis::regions(options, &observer));
    of_places.extend(diagnosis::beside_points(&points, &observer));
    // Counting visits and sampling cost something, and are no longer needed.
    drop(points);
    shared.memory().header.alive_until.store(0, Ordering::Relaxed);
    if options.survey.is_none() {
        session.stacks(&observer.named_stacks())?;
    }
    // Where a run is one of many, it may be short.
    let short = options.again() && matches!(failure, Some(Failure::TooShort { .. }));
    if let Some(failure) = failure.as_ref().filter(|_| !short) {
        session.warn(failure)?;
    }
    for warning in of_places.iter().chain(&diagnosis::warnings(shared, &observer, &counted)) {
        session.warn(warning)?;
    }
    session.images(&observer)?;
    let goes_on = options.leaves_alone && options.then == arguments::Then::Continue && runs.outlook.is_sure();
    if goes_on && !target.has_ended() {
        runs.shown = show_at_once(options, &*runs.audience)?;
    }
    let exit = target.wait();
    if let Some(warning) = exit.and_then(diagnosis::end) {
        session.warn(&warning)?;
    }
    session.finish(monotonic(), ended(exit), target.was_asked())?;
    if let Some(survivors) = target.survivors().filter(|_| !options.quiet) {
        kernel::say!("whatif: {survivors}");
    }
    Ok(failure)
}

/// Experiments that were to end before their time, and what is to be said of that. That there were too few of them is no failure then. `start`: of the session.
fn halted(limits: &Limits, start: Nanos, failure: Option<Failure>) -> (Option<Failure>, Option<Warning>) {
    let Some(why) = limits.halt.why() else { return (failure, None) };
    let is_early = matches!(
        failure,
        Some(
            Failure::TooShort { .. }
                | Failure::NoSamples { .. }
                | Failure::Idle { .. }
                | Failure::PointNeverReached { .. }
        )
    );
    let ended = limits.halt.ended();
    let took = ended.and_then(limits::Ended::took);
    let at = ended.map_or(Nanos::ZERO, |ended| ended.asked.saturating_sub(start));
    let warning = match why {
        Why::DelaySpent => None,
        Why::Breach { .. } => Some(Warning::GuardBreached { at, why: why.to_string(), took }),
        Why::Ordered(_) => Some(Warning::Halted { at, why: why.to_string(), took }),
    };
    (failure.filter(|_| !is_early), warning)
}

/// Writes down what production says, and what is doubtful about it.
fn tell_production(hint: &Hint, observer: &Observer, session: &mut Session) -> Result<()> {
    let answer = hint.at_last();
    for warning in &answer.warnings {
        session.warn(warning)?;
    }
    let Some(costs) = &answer.costs else { return Ok(()) };
    session.production(observer, costs)?;
    let ran = observer.regions().iter().filter(|known| known.samples > 0).map(|known| &known.region);
    match hint::unseen(costs, observer.totals().0, ran) {
        Some(warning) => session.warn(&warning),
        None => Ok(()),
    }
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

fn ended(exit: Option<launch::Exit>) -> profile::Exit {
    match exit {
        None => profile::Exit::Unknown,
        Some(launch::Exit::Code(code)) => profile::Exit::Code(code),
        Some(launch::Exit::Signal(signal)) => profile::Exit::Signal(signal),
    }
}

/// Waits for the program's end, at most so long; whether it has come.
fn ended_within(target: &Target<'_>, time: Duration) -> bool {
    target.has_ended_by(wire::Nanos(kernel::clock::monotonic().0 + time.as_nanos() as u64))
}

/// A Rust program that was installed from the registry has its own code where dependencies are otherwise.
fn adopt_crate(options: &mut Options, executable: &launch::Executable) {
    let scope = &mut options.scope;
    if !scope.is_default || scope.binaries.is_some() {
        return;
    }
    let image = symbols::Image::open(executable.image());
    if let Some(folder) = image.ok().and_then(|image| image.own_crate(&scope.sources)) {
        scope.sources.adopt(folder);
    }
}

/// Without any function there is nothing to tell apart: better said before the program runs. The user who names source
/// files needs debug information; all others are told that functions have to do.
fn without_debug_information(options: &Options, executable: &launch::Executable) -> Option<Failure> {
    if options.scope.binaries.is_some() || options.scope.names_programs() || !options.sampling() {
        return None;
    }
    let image = symbols::Image::open(executable.image()).ok()?;
    let enough = image.has_line_info() || options.scope.is_default && image.has_functions();
    (!enough).then(|| Failure::NoDebugInformation { program: executable.image().display().to_string() })
}

/// As many open files as we may have, for there may be thousands of libraries; the next program gets what we were given.
struct Descriptors(Option<Rlimit>);

impl Descriptors {
    fn more() -> Self {
        let given = getrlimit(Resource::Nofile);
        let most = Rlimit { current: given.maximum, maximum: given.maximum };
        Self(setrlimit(Resource::Nofile, most).is_ok().then_some(given))
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if let Some(given) = self.0.take() {
            let _ = setrlimit(Resource::Nofile, given);
        }
    }
}

/// The program waits before `main` until this is dropped, if it was asked to ([`offer`]).
struct Held<'a>(&'a SharedMapping);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

/// The program has joined, and is sampled no more when this is dropped.
struct Unprofiled<'a>(&'a SharedMapping);

impl Drop for Unprofiled<'_> {
    fn drop(&mut self) {
        self.0.memory().header.alive_until.store(0, Ordering::Relaxed);
    }
}

/// The program's file without links, as the kernel calls it.
fn canonical(executable: &launch::Executable) -> std::path::PathBuf {
    std::fs::canonicalize(executable.image()).unwrap_or_else(|_| executable.image().to_owned())
}

/// Results of different builds do not add up: better said before the program runs.
fn check_build(options: &Options, executable: &launch::Executable) -> Result<()> {
    if !options.output.exists() {
        return Ok(());
    }
    let mut builds = profile::Builds::default();
    let recording = match Recording::open(&options.output) {
        // Its run was killed before it began: there is nothing to be added to.
        Err(profile::Error::Empty { .. }) => return Ok(()),
        recording => recording?,
    };
    builds.add(&recording.images()?);
    let path = canonical(executable);
    let Ok(image) = symbols::Image::open(&path) else { return Ok(()) };
    let image = profile::Image { path: path.display().to_string(), build_id: image.build_id() };
    if let Some(other) = builds.add([&image]) {
        let file = options.output.display();
        anyhow::bail!(
            "{file} holds runs of another build of {} ({}; this one is {}): results of different builds do not add up\n  \
             record this one into a file of its own (-o NEW.db), and see what changed with: whatif compare {file} NEW.db",
            other.path,
            other.known,
            other.new
        );
    }
    Ok(())
}

/// Looks for points and regions that the user named: better said before the program runs. What libraries have, and programs that are
/// executed, is known only then.
///
/// # Errors
/// A place that does not exist, or a region that cannot come.
fn check_code(options: &Options, executable: &launch::Executable) -> Result<()> {
    let names_none = options.points.is_empty() && options.regions.is_empty();
    if names_none || options.scope.binaries.is_some() {
        return Ok(());
    }
    // By the name that it will be mapped under: what is found is kept for then.
    let image = symbols::Image::open(&canonical(executable))?;
    let check = |point: &PointSpec| point.check(&image, &options.scope.sources);
    options.points.iter().try_for_each(check).map_err(Usage::of)?;
    check_regions(options, &image)?;
    drop(image);
    kernel::heap::give_back();
    Ok(())
}

/// The regions among these, in the program.
fn check_regions(options: &Options, image: &symbols::Image) -> Result<()> {
    /// What brings a program to more code than its own.
    const BRINGS_CODE: [&str; 15] = [
        "dlopen",
        "dlmopen",
        "execl",
        "execle",
        "execlp",
        "execv",
        "execve",
        "execveat",
        "execvp",
        "execvpe",
        "fexecve",
        "popen",
        "posix_spawn",
        "posix_spawnp",
        "system",
    ];
    // What an interpreter runs is in no file of its own.
    if Interpreter::of(&options.file).is_some() {
        return Ok(());
    }
    let hint = |spec: &RegionSpec| match spec.find_in(image) {
        Presence::There => None,
        Presence::Meant(hint) => Some(hint),
        Presence::Unknown => Some(spec.unknown_in(image, &options.scope.sources)),
    };
    let missing =
        |spec| Some(format!("there is no code at --region {spec} in {}; {}", options.file, hint(spec)?));
    let Some(says) = options.regions.iter().find_map(missing) else { return Ok(()) };
    if image.has_dynamic_name(&BRINGS_CODE) == Some(false) {
        return Err(Usage::of(anyhow::anyhow!(says)));
    }
    if !options.quiet {
        kernel::say!(
            "whatif: {} (unless it comes with what the program executes or loads)",
            profile::printable(&says)
        );
    }
    Ok(())
}

/// Whether visits can be counted, and what each costs; samples stand in for them where they cannot, and that is said.
fn check_counting(options: &mut Options) -> Result<Option<wire::Nanos>> {
    match points::check(&options.points) {
        Err(refusal) => {
            // A program may count visits itself; if it turns out that it cannot, samples stand in for them then.
            let counted =
                options.points.iter_mut().filter(|spec| spec.is_in_image() && !spec.may_count_itself());
            let counted: Vec<_> = counted.collect();
            anyhow::ensure!(counted.iter().all(|spec| spec.can_be_sampled()), refusal);
            if !options.quiet && !counted.is_empty() {
                kernel::say!(
                    "whatif: visits cannot be counted ({}), so samples stand in for them; allow perf events with sudo sysctl \
                     kernel.perf_event_paranoid=2 (in a container also the seccomp profile)",
                    refusal.root_cause()
                );
            }
            counted.into_iter().for_each(PointSpec::sample);
            Ok(None)
        }
        cost => cost,
    }
}

/// The controller's half of the handshake.
fn offer(shared: &SharedMapping, options: &Options) {
    let header = &shared.memory().header;
    header.sampling.store(options.sampler as u32, Ordering::Relaxed);
    header.period.store(options.period.get(), Ordering::Relaxed);
    header.short_run.store(options.short_run().get(), Ordering::Relaxed);
    header.alive_until.store(kernel::clock::monotonic().0 + 30_000_000_000, Ordering::Relaxed);
    header.without.store(options.without_rules, Ordering::Relaxed);
    shared.memory().arrivals.said.store(options.clients as u32, Ordering::Relaxed);
    header.faults.store(options.faults, Ordering::Relaxed);
    shared.hold(!options.points.is_empty() || options.end_to_end);
    let places = options.points.iter().any(PointSpec::is_in_image);
    header.placing.store(places.into(), Ordering::Relaxed);
    header.machine_cpus.store(kernel::cpu::online(), Ordering::Relaxed);
    header.controller.store(std::process::id(), Ordering::Relaxed);
    header.offer(embedded::BUILD_ID);
}

/// Waits until the runtime has answered; the reason if it will not.
fn wait_for_runtime(
    shared: &SharedMapping,
    target: &Target<'_>,
    executable: &launch::Executable,
) -> Option<Failure> {
    let header = &shared.memory().header;
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
        if ended_within(target, Duration::from_micros(500)) {
            // It may have attached and ended between the two looks.
            let attached = header.handshake() == wire::Handshake::Attached;
            return (!attached).then(|| Failure::NotAttached { program: program() });
        }
        if begin.elapsed() > HANDSHAKE {
            return Some(Failure::NotAttached { program: program() });
        }
    }
}

/// Conducts experiments until the program or the time is over.
fn profile(
    options: &Options,
    (shared, programs): (&SharedMapping, &Programs),
    target: &Target<'_>,
    points: &Points,
    observer: &Mutex<Observer>,
    session: &mut Session,
    (runs, held): (&mut Runs, Option<Held<'_>>),
) -> Result<Outcome> {
    kernel::clock::sleep_precisely();
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let drainer = std::thread::Builder::new().name("drainer".into()).spawn_scoped(scope, || {
            // Nothing else is in a hurry.
            if points.are_in_images() {
                programs.wake_me();
            }
            let mut strangers = Strangers::default();
            let mut arrivals = lock(observer).images().arrivals();
            while !stop.load(Ordering::Relaxed) {
                {
                    let mut observer = lock(observer);
                    observer.drain();
                    let now = observer.images().arrivals();
                    if std::mem::replace(&mut arrivals, now) != now {
                        points.follow(&options.points, observer.images(), &options.scope.sources);
                    }
                    observer.be_eager(points.waiting().next().is_some());
                }
                strangers.count(shared.memory(), || target.roots());
                programs.left_alone().look_now_and_then(|pid| shared.memory().slots.has_process(pid));
                rest(options, (points, programs), observer, &stop);
            }
        });
        let drainer = drainer.context(
            "no thread could be had to read samples, so the program runs unprofiled; raise the limit on processes (ulimit -u), or \
             end other programs",
        )?;
        let until =
            options.duration.map(|most| monotonic() + Nanos::from(most.saturating_sub(runs.begin.elapsed())));
        let limits = &options.limits;
        let lookout = std::thread::Builder::new()
            .name("lookout".into())
            .spawn_scoped(scope, || limits::look_out(limits, points, shared.memory(), &stop));
        if let Err(error) = &lookout {
            limits.halt.ask(Why::Ordered(format!("nothing looks whether --guard holds: {error}")));
        }
        let mut conductor = Conductor::new(shared, points, until, limits, |time| ended_within(target, time));
        let outcome = match options.survey {
            Some(what) => {
                let nothing = survey::conduct(what, options, points, observer, &mut conductor);
                nothing.map(|nothing| Outcome { nothing, ..Outcome::default() })
            }
            None => {
                let series = Series::new(options, shared, points, observer, session, target, runs);
                series.conduct(conductor, || drop(held))
            }
        };
        stop.store(true, Ordering::Relaxed);
        // The program has ended, and its parent should not have to wait for the others' naps.
        drainer.thread().unpark();
        lookout.iter().for_each(|lookout| lookout.thread().unpark());
        outcome
    });
    if outcome.as_ref().is_err_and(|error| error.is::<heat::Refused>()) {
        kernel::say!("whatif: a progress point costs too much; asking the program to end");
        target.terminate(options.stop_signal);
    }
    let outcome = outcome?;
    if let Some((why, ended)) = options.limits.halt.why().zip(options.limits.halt.ended()) {
        Said::Halted(why, ended).say(&options.limits);
    }
    if !target.has_ended() && options.then == arguments::Then::Terminate {
        if !options.quiet {
            let halted = options.limits.halt.why().map(ToString::to_string);
            let why = match (&halted, options.survey, runs.outlook.is_sure()) {
                (Some(why), ..) => &profile::printable(why),
                (None, Some(_), _) => "that is all",
                (None, None, _) if !points.is_any() && !runs.is_over(options) => {
                    "nothing can count as progress"
                }
                (None, None, true) => "all is known as exactly as --precision asks",
                (None, None, false) => "the time is up",
            };
            // `whatif points` has no such option.
            let otherwise = match options.survey {
                Some(options::Survey::Points) => "",
                _ => "; --then continue leaves it alone",
            };
            let signal = arguments::name_of(options.stop_signal);
            let asked = format!("asking the program to end ({signal}{otherwise})");
            let asked = if options.is_attached { "letting the program go".to_owned() } else { asked };
            kernel::say!("whatif: {why}; {asked}");
        }
        target.terminate(options.stop_signal);
    }
    Ok(outcome)
}

/// Until samples are drained again. A program that has just been executed may wait for its points meanwhile.
fn rest(
    options: &Options,
    (points, programs): (&Points, &Programs),
    observer: &Mutex<Observer>,
    stop: &AtomicBool,
) {
    const MOMENT: Duration = Duration::from_micros(500);
    if !points.are_in_images() {
        return std::thread::park_timeout(DRAIN);
    }
    let end = Instant::now() + DRAIN;
    loop {
        points.follow_executed(&options.points, lock(observer).images(), &options.scope.sources);
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::park_timeout(if programs.are_attaching() { MOMENT } else { left });
    }
}

/// `pid`: a process that has the environment and the cgroup of the program, which it has from `whatif` until it is there.
fn facts(
    (options, pid): (&Options, u32),
    executable: &launch::Executable,
    arguments: Vec<String>,
    shared: &SharedMapping,
    (started, repeat): (SystemTime, u32),
) -> profile::SessionStart {
    let system = rustix::system::uname();
    let sampler = shared.memory().header.sampler();
    profile::SessionStart {
        started: Nanos::from(started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
        program: executable.command().display().to_string(),
        arguments,
        directory: std::env::current_dir().unwrap_or_default().display().to_string(),
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        cpus: kernel::cpu::usable(),
        seed: options.seed,
        options: ran_as::with(
            &options.typed,
            pid,
            shared.memory().header.machine_cpus.load(Ordering::Relaxed),
        ),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sampler: match sampler {
            Sampler::Perf | Sampler::PerfUser => "perf task-clock".to_owned(),
            Sampler::Timer => "cpu timer".to_owned(),
            Sampler::None | Sampler::Unknown => "none".to_owned(),
        },
        sample_period: options.period,
        kernel_time: matches!(sampler, Sampler::Perf | Sampler::Timer),
        repeat,
        fixed_regions: !options.regions.is_empty(),
        fixed_speedups: options.fixed_speedups,
    }
}
