//! Why there is no answer, and what makes one doubtful.

use super::failure::{self, Failure};
use super::observe::Observer;
use super::options::Options;
use super::points::Points;
use super::region::Presence;
use super::series::Outcome;
use super::{region, sampler};
use kernel::SharedRegion;
use profile::Nanos;
use std::sync::atomic::Ordering;
use wire::layout::Sampler;

/// Counting visits may take this share of a CPU without a word.
const COSTLY: f64 = 0.05;

/// Why there is no answer, if there is none.
pub fn diagnose(
    options: &Options,
    region: &SharedRegion,
    points: &Points,
    observer: &Observer,
    outcome: &Outcome,
    duration: Nanos,
) -> Option<Failure> {
    if !options.sampling() {
        return None;
    }
    let seconds = duration.as_secs_f64();
    let memory = region.memory();
    let points = points.list();
    let (samples, _) = observer.totals();
    if sampler(region) == Sampler::None {
        let errno = memory.header.refusal.load(Ordering::Relaxed) as i32;
        return Some(Failure::NoSampler { perf: std::io::Error::from_raw_os_error(errno).to_string() });
    }
    // A few may fall into what every program does at its start, and one of them into its `main`.
    const FEW: u64 = 5;
    if samples < FEW && observer.in_scope() < 2 {
        return Some(Failure::NoSamples { seconds });
    }
    if options.requests.is_empty() && observer.in_scope() == 0 {
        // Every Rust program has line information for the standard library; what counts is the scope's.
        let blind =
            |image: &symbols::Image| !image.has_line_info_in(&options.scope) && !image.has_functions();
        let mut opened = observer.images().opened().peekable();
        if options.default_scope && opened.peek().is_some() && opened.all(blind) {
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
    if options.look.is_some() {
        return None;
    }
    if points.is_empty() && !options.end_to_end {
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
    let what = match request {
        region::Request::Function(_) => "function",
        region::Request::Line(..) => "line",
        region::Request::CalledFrom(..) => "path",
    };
    for image in observer.images().opened() {
        match request.find_in(image) {
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
pub fn points(points: &Points) -> Vec<profile::Warning> {
    let warning = |code: &str, message: String, advice: &str| profile::Warning {
        code: code.to_owned(),
        message,
        advice: advice.to_owned(),
    };
    let waiting: Vec<String> = points.waiting().map(str::to_owned).collect();
    let never = (!waiting.is_empty()).then(|| {
        let names = failure::list(&waiting, 5);
        let advice =
            "check the name, and that --binary GLOB names the library; whatif points PROGRAM lists places";
        warning(
            "point-not-found",
            format!("no library was loaded that has the progress point {names}"),
            advice,
        )
    });
    let refused = points.refused().map(|why| {
        let message = format!("a progress point could not be counted when its library was loaded: {why}");
        warning("point-not-counted", message, "place fewer points, or mark them in the source")
    });
    let not_counted: Vec<String> = points.not_counted().map(str::to_owned).collect();
    let sampled = (!not_counted.is_empty()).then(|| {
        let names = failure::list(&not_counted, 5);
        let message = format!("visits to {names} could not be counted: samples in it, or in what it calls, stand in for them");
        let advice = "allow perf events with sudo sysctl kernel.perf_event_paranoid=2 (in a container also the seccomp \
                      profile), or mark the point in the source";
        warning("sampled-point", message, advice)
    });
    never.into_iter().chain(sampled).chain(refused).collect()
}

/// Doubts that do not prevent an answer. `counted`: the share of the run that each placed point's visits cost.
pub fn warnings(
    region: &SharedRegion,
    observer: &Observer,
    counted: &[(String, f64)],
) -> Vec<profile::Warning> {
    let memory = region.memory();
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, advice: &str| {
        warnings.push(profile::Warning { code: code.to_owned(), message, advice: advice.to_owned() });
    };
    let errno = memory.header.refusal.load(Ordering::Relaxed) as i32;
    let refusal = match errno {
        0 => "--sampler asked for it".to_owned(),
        _ => format!("perf said: {}", std::io::Error::from_raw_os_error(errno)),
    };
    match sampler(region) {
        Sampler::PerfUser => warn(
            "user-time-only",
            format!("kernel time was not sampled ({refusal})"),
            "allow it with: sudo sysctl kernel.perf_event_paranoid=1",
        ),
        Sampler::Timer => warn(
            "cpu-timer",
            format!("a CPU-time timer took the samples, as coarse as the kernel's tick ({refusal})"),
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
    if memory.unwind.refused() > 0 {
        warn(
            "callers-unknown",
            format!("there was no room for the callers of {} libraries", memory.unwind.refused()),
            "time in them may be attributed to no caller, or to the wrong one, unless they have frame pointers: \
             -fno-omit-frame-pointer",
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
    for (point, share) in counted.iter().filter(|(_, share)| *share > COSTLY) {
        warn(
            "costly-point",
            format!(
                "counting visits to {point} took the time of {:.0} % of a CPU, which looks like time in the code that is visited",
                share * 100.0
            ),
            "choose a place that is visited less often (whatif points suggests some), mark it in the source, or use -p sampled:PLACE",
        );
    }
    for (path, source) in observer.images().by_function() {
        let names = match source {
            symbols::NameSource::Symbols => "the names of its symbol table",
            symbols::NameSource::DynamicSymbols => "the names of its dynamic symbols, or their addresses",
            symbols::NameSource::Addresses => "their addresses",
        };
        warn(
            "functions-only",
            format!("{} has no debug information: regions are whole functions, with {names}", path.display()),
            "for lines and source compile with -g (Rust: debug = 1 in the profile), or install the package with the debug symbols",
        );
    }
    let (samples, _) = observer.totals();
    if observer.cut() * 100 > samples {
        warn(
            "deep-stacks",
            format!(
                "{} of {samples} stacks were deeper than {} frames: callers beyond were not seen",
                observer.cut(),
                wire::MAX_FRAMES
            ),
            "nothing to do, unless --region names a function that is further out",
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
    for (image, damage) in observer.images().opened().filter_map(|image| Some((image, image.damage()?))) {
        warn(
            "damaged-debug-information",
            format!("{}: {damage}; what could be understood was used", image.path().display()),
            "build it again, or install the debug symbols of just this build",
        );
    }
    for problem in observer.images().problems() {
        warn("image-unreadable", problem.clone(), "rebuild that file with debug information");
    }
    warnings
}
