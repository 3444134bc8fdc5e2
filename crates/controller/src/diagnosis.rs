//! Why there is no answer, and what makes one doubtful.

use super::executing::Executed;
use super::failure::{self, Failure};
use super::heat::COSTLY;
use super::images::MADE;
use super::launch::Exit;
use super::needs;
use super::observe::Observer;
use super::options::{Options, Survey};
use super::points::Points;
use super::region::{Presence, RegionSpec};
use super::series::Outcome;
use super::warning::Warning;
use kernel::SharedMapping;
use profile::Nanos;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use wire::SharedMemory;
use wire::layout::Sampler;

/// Breakpoints may slow the program down by this much without a word, because of hot code beside them.
const SLOWED: f64 = 0.05;

/// A program that takes less than this share of a CPU is idle.
pub const IDLE: f64 = 0.02;
/// One that ends within so many seconds is not idle, but short.
const LONG: f64 = 1.0;

/// Why there is no answer, if there is none. `duration`: of the session; `is_over`: the time that was given is.
pub fn diagnose(
    options: &Options,
    shared: &SharedMapping,
    points: &Points,
    observer: &Observer,
    outcome: &Outcome,
    duration: Nanos,
    is_over: bool,
) -> Option<Failure> {
    if !options.sampling() {
        return None;
    }
    // Whatever else is missing is missing for that.
    if !needs::has_proc() {
        return Some(Failure::NoProc);
    }
    let seconds = duration.as_secs_f64();
    let memory = shared.memory();
    let points = points.list();
    let (samples, cpu) = observer.totals();
    if memory.header.sampler() == Sampler::None {
        let errno = memory.header.refusal.load(Ordering::Relaxed) as i32;
        let refused = |error| format!("perf_event_open said {error}, and ");
        let error = (errno != 0).then(|| std::io::Error::from_raw_os_error(errno));
        return Some(Failure::NoSampler { perf: error.map(refused).unwrap_or_default() });
    }
    let share = cpu.as_secs_f64() / seconds.max(1e-9);
    let is_answered = match options.survey {
        Some(Survey::Points) => outcome.nothing.is_none(),
        Some(Survey::Regions) => true,
        None => outcome.visited || options.end_to_end,
    };
    if !is_answered && share < IDLE && seconds > LONG {
        return Some(Failure::Idle { seconds, share });
    }
    // A few may fall into what every program does at its start, and one of them into its `main`.
    const FEW: u64 = 5;
    if samples < FEW && observer.in_scope() < 2 {
        return Some(Failure::NoSamples { seconds });
    }
    if options.regions.is_empty() && observer.in_scope() == 0 {
        // Every Rust program has line information for the standard library; what counts is the scope's.
        let blind = |image: &symbols::Image| {
            !image.has_line_info_in(&options.scope.sources) && !image.has_functions()
        };
        let mut opened = observer.images().opened().peekable();
        if options.scope.is_default && opened.peek().is_some() && opened.all(blind) {
            let program = observer.images().opened().map(|image| image.path().display().to_string());
            return Some(Failure::NoDebugInformation {
                program: failure::list(&program.collect::<Vec<_>>(), 3),
            });
        }
        if let Some(instead) = options.of_interpreter_with_command().filter(|_| options.scope.is_default) {
            return Some(Failure::NothingOfInterpreted { samples, instead });
        }
        let elsewhere = observer.elsewhere();
        let seen = failure::list(&elsewhere, 3);
        if elsewhere.first().is_some_and(|name| name == MADE) {
            return Some(Failure::NothingNamed { samples, seen });
        }
        let seen = if seen.is_empty() { seen } else { format!("the program ran {seen}: ") };
        return Some(Failure::NothingInScope { samples, seen });
    }
    let never_ran = never_ran(options, observer);
    if let Some(spec) = never_ran.first()
        && never_ran.len() == options.regions.len()
    {
        return Some(Failure::RegionNeverRan { region: spec.to_string(), hint: hint(spec, observer) });
    }
    if options.survey.is_some() {
        return outcome.nothing.clone().map(|why| Failure::NoSuggestions { why });
    }
    if points.is_empty() && !options.end_to_end {
        return Some(Failure::NoProgressPoint { instead: options.of_interpreter() });
    }
    let names: Vec<String> = points.into_iter().map(|point| point.name).collect();
    of_experiments(outcome, &names, seconds, is_over)
}

/// What the experiments on a program lack that has these progress points. `is_over`: the time that was given is.
fn of_experiments(outcome: &Outcome, points: &[String], seconds: f64, is_over: bool) -> Option<Failure> {
    if outcome.blocks == 0 {
        return Some(Failure::TooShort { seconds, is_over });
    }
    (!outcome.visited).then(|| Failure::PointNeverReached { points: failure::list(points, 5) })
}

/// Regions that the user has named, without a sample.
fn never_ran<'a>(options: &'a Options, observer: &Observer) -> Vec<&'a RegionSpec> {
    let regions = options.regions.iter().zip(observer.regions());
    regions.filter(|(_, region)| region.samples == 0).map(|(spec, _)| spec).collect()
}

/// Regions that never ran, where others did.
pub fn regions(options: &Options, observer: &Observer) -> Vec<Warning> {
    let all = never_ran(options, observer);
    if !options.sampling() || all.len() == options.regions.len() {
        return Vec::new();
    }
    let warning = |spec: &RegionSpec| Warning::RegionWithoutSamples {
        region: spec.to_string(),
        advice: hint(spec, observer),
    };
    all.into_iter().map(warning).collect()
}

/// What may have been meant by a region that never ran.
fn hint(spec: &RegionSpec, observer: &Observer) -> String {
    let what = match spec {
        RegionSpec::Function(_) => "function",
        RegionSpec::Line(..) => "line",
        RegionSpec::CalledFrom(..) => "path",
    };
    for image in observer.images().opened() {
        match spec.find_in(image) {
            Presence::There => {
                return format!(
                    "the {what} is in the program, but no sample fell into it: profile a run that spends time there"
                );
            }
            Presence::Meant(hint) => return hint,
            Presence::Unknown => {}
        }
    }
    "check the name, and that the program was compiled with -g".to_owned()
}

/// Points of libraries that did not come, or could not be counted when they did.
pub fn points(points: &Points) -> Vec<Warning> {
    let waiting: Vec<String> = points.waiting().map(str::to_owned).collect();
    let never = (!waiting.is_empty()).then_some(Warning::PointNotFound { points: waiting });
    let refused = points.refused().map(|why| Warning::PointNotCounted { why: why.to_owned() });
    let not_counted: Vec<String> = points.not_counted().map(str::to_owned).collect();
    let sampled = (!not_counted.is_empty()).then_some(Warning::SampledPoint { points: not_counted });
    never.into_iter().chain(sampled).chain(refused).collect()
}

/// Hot code that the breakpoints of progress points slow down.
pub fn beside_points(points: &Points, observer: &Observer) -> Vec<Warning> {
    let mut of_points: BTreeMap<String, Vec<wire::Address>> = BTreeMap::new();
    points
        .breakpoints(observer.images())
        .for_each(|(point, address)| of_points.entry(point).or_default().push(address));
    let all = observer.beside(of_points.values().flatten());
    if all <= SLOWED {
        return Vec::new();
    }
    // Without breakpoints there are none that slow anything down.
    let factor = kernel::visits::slowdown_beside().unwrap_or(1.0);
    if all * (1.0 - 1.0 / factor) <= SLOWED {
        return Vec::new();
    }
    let shares = of_points.into_iter().map(|(point, addresses)| (point, observer.beside(&addresses)));
    let hottest = shares.max_by(|(_, one), (_, other)| one.total_cmp(other));
    let warning = |(point, share): (String, f64)| {
        let why = points.why_not_by_itself(&point).map(|why| why.to_string());
        Warning::SlowBesidePoint { point, share, factor, why }
    };
    hottest.map(warning).into_iter().collect()
}

/// What the program's end says about what the profiler did to it.
pub fn end(exit: Exit) -> Option<Warning> {
    (exit == Exit::Signal(Signal::SYS.as_raw())).then_some(Warning::EndedByFilter)
}

/// Doubts that do not prevent an answer. `counted`: the share of the run that each placed point's visits cost.
pub fn warnings(shared: &SharedMapping, observer: &Observer, counted: &[(String, f64)]) -> Vec<Warning> {
    let memory = shared.memory();
    let costly = counted.iter().filter(|(_, share)| *share > COSTLY);
    let mut warnings = of_sampler(shared);
    warnings.extend(of_memory(memory));
    warnings.extend(of_executed(memory, observer));
    warnings
        .extend(costly.map(|(point, share)| Warning::CostlyPoint { point: point.clone(), share: *share }));
    warnings.extend(of_names(observer));
    warnings.extend(of_samples(memory, observer));
    warnings.extend(of_images(observer));
    warnings
}

/// Where samples came from, if not from where they should.
fn of_sampler(shared: &SharedMapping) -> Vec<Warning> {
    let header = &shared.memory().header;
    let errno = header.refusal.load(Ordering::Relaxed) as i32;
    let sampler = shared.memory().header.sampler();
    let coarse = match sampler {
        Sampler::PerfUser => Some(Warning::UserTimeOnly { errno }),
        Sampler::Timer => Some(Warning::CpuTimer { errno }),
        _ => None,
    };
    // Without perf it has been said already.
    let perf = matches!(sampler, Sampler::Perf | Sampler::PerfUser);
    let refused = header.switches.load(Ordering::Relaxed) == wire::layout::Switches::Refused as u32;
    coarse.into_iter().chain((perf && refused).then_some(Warning::NoSwitchRecords)).collect()
}

/// What the runtime could not see.
fn of_memory(memory: &SharedMemory) -> Vec<Warning> {
    let libraries = memory.unwind.refused();
    let unknown = (libraries > 0).then_some(Warning::CallersUnknown { libraries });
    let own_futex = memory.header.inline_futex.load(Ordering::Relaxed) != 0;
    let others = memory.arrivals.used().filter(|source| source.contradicts());
    let others = others.filter_map(|source| Some(Warning::OtherClients { port: source.kind()?.1 }));
    unknown.into_iter().chain(own_futex.then_some(Warning::UnannouncedWaits)).chain(others).collect()
}

/// Programs that are executed need this share of the CPU time because they are profiled: gains are corrected by as much.
const COSTLY_JOINING: f64 = 0.02;

/// What is doubtful about programs that were executed.
fn of_executed(memory: &SharedMemory, observer: &Observer) -> Vec<Warning> {
    let executed = Executed::now(memory);
    let (programs, cost) = (executed.programs(), executed.cost().0 as f64);
    let share = cost / (cost + observer.totals().1.get() as f64);
    let costly = (share > COSTLY_JOINING).then_some(Warning::CostlyExecution { programs, share });
    let unknown = memory.files.is_full().then_some(Warning::CodeWithoutPlace);
    costly.into_iter().chain(unknown).collect()
}

/// Images without names for their code.
fn of_names(observer: &Observer) -> Option<Warning> {
    let named = observer.images().by_function();
    let images: Vec<_> = named.map(|(image, names)| (image.to_owned(), names)).collect();
    (!images.is_empty()).then_some(Warning::FunctionsOnly { images })
}

/// Samples and threads that did not count as they should.
fn of_samples(memory: &SharedMemory, observer: &Observer) -> Vec<Warning> {
    let (samples, _) = observer.totals();
    let deep = observer.deep();
    let too_deep = (deep * 100 > samples).then_some(Warning::DeepStacks { deep, samples });
    let totals = memory.slots.totals();
    let (lost, samples) = (totals.lost, totals.samples);
    let lost = (lost > 0).then_some(Warning::LostSamples { lost, samples });
    let refused = memory.slots.refused.load(Ordering::Relaxed);
    let threads = (refused > 0).then_some(Warning::TooManyThreads { refused });
    let sandboxed = memory.header.sandboxed.load(Ordering::Relaxed);
    let sandboxed = (sandboxed > 0).then_some(Warning::Sandboxed { threads: sandboxed });
    too_deep.into_iter().chain(lost).chain(threads).chain(sandboxed).collect()
}

/// Images of which less could be read than there is.
fn of_images(observer: &Observer) -> Vec<Warning> {
    let images = observer.images();
    let damaged = images.opened().filter_map(|image| {
        let damage = image.damage()?.to_string();
        Some(Warning::DamagedDebugInformation { image: image.path().to_owned(), damage })
    });
    let problems = images.problems().iter();
    let made = images.has_too_many_made().then_some(Warning::GeneratedCodeUnknown);
    let goroutines = images.opened().any(symbols::Image::is_go).then_some(Warning::Goroutines);
    damaged
        .chain(made)
        .chain(goroutines)
        .chain(problems.map(|problem| Warning::ImageUnreadable { problem: problem.clone() }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_lack_time_or_visits() {
        let lack = |blocks, visited, is_over| {
            let outcome = Outcome { blocks, visited, ..Outcome::default() };
            of_experiments(&outcome, &["start-up".to_owned()], 0.1, is_over).map(|failure| {
                let stored = profile::Warning::from(&failure);
                (failure.status(), stored.code, stored.message, stored.advice)
            })
        };
        assert_eq!(lack(1, true, false), None);
        for visited in [false, true] {
            let (status, code, message, advice) = lack(0, visited, false).unwrap();
            assert_eq!((status, code.as_str()), (100, "too-short"));
            assert!(message.contains("after 0.10 s, before an experiment was complete"), "{message}");
            assert!(advice.contains("--end-to-end"), "{advice}");
        }
        let (_, _, message, advice) = lack(0, true, true).unwrap();
        assert!(message.contains("the time that was given ended after 0.10 s"), "{message}");
        assert!(advice.contains("--duration"), "{advice}");
        let (status, code, message, advice) = lack(1, false, false).unwrap();
        assert_eq!((status, code.as_str()), (99, "point-never-reached"));
        assert!(message.contains("start-up") && advice.contains("profile a run that reaches"), "{message}");
    }
}
