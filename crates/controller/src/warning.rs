//! Warnings of a run: what can make an answer doubtful, in words, with what to do about it.
//!
//! Why there is no answer at all is a [`Failure`](crate::failure::Failure).

use crate::failure;
use profile::printable;
use std::io;
use std::path::PathBuf;
use symbols::NameSource;

/// How many functions a warning names.
const NAMED: usize = 3;
/// How many progress points a warning names.
const NAMED_POINTS: usize = 5;

/// One doubt, with what was seen. The text is what was seen; [`advice`](Self::advice) is what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Warning {
    #[error("no program was executed, and no library was loaded, that has the progress point {}", failure::list(.points, NAMED_POINTS))]
    PointNotFound { points: Vec<String> },

    /// Others did. `advice`: what may have been meant.
    #[error("the region {} never ran, so nothing is known of it", printable(.region))]
    RegionWithoutSamples { region: String, advice: String },

    #[error("no progress point is marked: visits to {} count as progress", printable(.place))]
    ChosenPoint { place: String },

    #[error(
        "most of the time is not in the program's own code: {} was looked into as well",
        failure::list(.files, NAMED)
    )]
    ChosenFiles { files: Vec<String> },

    /// At least one, and the share of the machine that they used.
    #[error("its clients ({}) run on the same machine and used {:.0} % of its CPUs", failure::list(.names, NAMED), .share * 100.0)]
    ClientsHere { names: Vec<String>, share: f64 },

    #[error("a progress point could not be counted when its library was loaded: {why}")]
    PointNotCounted { why: String },

    #[error(
        "visits to {} could not be counted: samples in it, or in what it calls, stand in for them",
        failure::list(.points, NAMED_POINTS)
    )]
    SampledPoint { points: Vec<String> },

    /// `errno`: what perf said, or zero.
    #[error("kernel time was not sampled ({})", refusal(*.errno))]
    UserTimeOnly { errno: i32 },

    #[error("a CPU-time timer took the samples, as coarse as the kernel's tick ({})", refusal(*.errno))]
    CpuTimer { errno: i32 },

    #[error(
        "threads could not see when they waited for a CPU, which matters if there are more of them than CPUs"
    )]
    NoSwitchRecords,

    #[error("there was no room for the callers of {libraries} libraries")]
    CallersUnknown { libraries: u32 },

    #[error(
        "the program has code that calls the futex itself: waits that no function announced were taken for \
         waits on other threads"
    )]
    UnannouncedWaits,

    /// `port`: at which they come.
    #[error("what came to port {port} does not come as --clients says: reports tell how, with --explain")]
    OtherClients { port: u16 },

    #[error(
        "the program is written in Go, and threads are accounted for, not goroutines: where one of these hands work to another, or waits for it, without the \
         kernel, gains can be wrong by more than their intervals say"
    )]
    Goroutines,

    /// `share`: of a CPU.
    #[error(
        "counting visits to {point} took the time of {:.0} % of a CPU, which looks like time in the code that is visited",
        .share * 100.0
    )]
    CostlyPoint { point: String, share: f64 },

    /// `share`: of the CPU time.
    #[error(
        "{} longer under whatif: that was {:.0} % of the CPU time; gains are corrected for it, and their intervals hold what was measured as well",
        match programs {
            0 => "threads take a little longer to begin and to end".to_owned(),
            _ => format!("{programs} programs were executed, and each takes"),
        },
        100.0 * .share
    )]
    CostlyExecution { programs: u32, share: f64 },

    #[error(
        "executed programs have more pieces of code than whatif can tell apart: samples in the others belong to no code"
    )]
    CodeWithoutPlace,

    /// `share`: of the samples; `factor`: how many times as long that code takes.
    #[error(
        "the breakpoint that counts visits to {} slows other code down: that within the same {} bytes, which had {:.0} % of the samples, \
         takes up to {factor:.1} times as long on this CPU while the breakpoint is there{}",
        printable(.point),
        kernel::visits::LINE,
        .share * 100.0,
        .why.as_ref().map(|why| format!(" (the program cannot count these visits itself: {why})")).unwrap_or_default()
    )]
    SlowBesidePoint {
        point: String,
        share: f64,
        factor: f64,
        /// Why the program cannot count its visits itself, if it is a function.
        why: Option<String>,
    },

    /// At least one image, and where the names of its functions are from.
    #[error("{}", without_debug_information(.images))]
    FunctionsOnly { images: Vec<(PathBuf, NameSource)> },

    #[error(
        "{deep} of {samples} stacks were deeper than {} frames: callers beyond were not seen",
        wire::MAX_FRAMES
    )]
    DeepStacks { deep: u64, samples: u64 },

    #[error("{lost} of {samples} samples were lost between program and profiler")]
    LostSamples { lost: u64, samples: u64 },

    #[error("{refused} threads ran unprofiled: more than {} at once", wire::slot::MAX_SLOTS)]
    TooManyThreads { refused: u64 },

    #[error(
        "{threads} threads of the program have installed a seccomp filter that does not allow what sampling needs: they, and those \
         that they created, were not sampled from then on"
    )]
    Sandboxed { threads: u32 },

    #[error(
        "SIGSYS ended the program: a seccomp filter, which may allow what the program needs alone and not what a profiler needs"
    )]
    EndedByFilter,

    #[error("{}: {damage}; what could be understood was used", .image.display())]
    DamagedDebugInformation { image: PathBuf, damage: String },

    #[error("the program made more functions while it ran than have names: the later ones have none")]
    GeneratedCodeUnknown,

    #[error("{problem}")]
    ImageUnreadable { problem: String },

    /// The database cannot be read, or has no samples. `advice`: what the error itself says.
    #[error("production says nothing (--hint-db): {problem}")]
    HintUnavailable { problem: String, advice: Option<String> },

    #[error("production says nothing (--hint-db): the database was not read to its end")]
    HintNotRead,

    #[error("reading the database of --hint-db took longer than the run, which was not told what it says")]
    HintLate,

    #[error("{} has no samples of {} since {since} (--hint-db)", printable(.folder), printable(.program))]
    HintNotThere { folder: String, program: String, since: String },

    /// `builds`: the beginnings of their IDs.
    #[error(
        "the profiles of {} in production are of another build ({}; this one is {this})",
        printable(.program),
        if .builds.is_empty() { "without build ID".to_owned() } else { .builds.join(", ") }
    )]
    HintOtherBuild { program: String, builds: Vec<String>, this: String },

    /// `shown`: whether shares in production are shown all the same.
    #[error(
        "{:.0} % of the samples of {} in production have no names{}",
        100.0 * .share,
        printable(.program),
        if *.shown { "" } else { ": no shares are shown" }
    )]
    HintNameless { program: String, share: f64, shown: bool },

    #[error("there are only {samples} samples of {} in production", printable(.program))]
    HintFewSamples { program: String, samples: u64 },

    /// `at`: since the session began; `took`: from then until no thread was delayed.
    #[error("experiments ended before their time, after {:.3} s: {}; {}", .at.as_secs_f64(), printable(.why), until_still(*.took))]
    GuardBreached { at: profile::Nanos, why: String, took: Option<profile::Nanos> },

    /// The same, by an order of the process that has started them.
    #[error("experiments ended before their time, after {:.3} s: {}; {}", .at.as_secs_f64(), printable(.why), until_still(*.took))]
    Halted { at: profile::Nanos, why: String, took: Option<profile::Nanos> },

    /// Functions and their shares in production, most first; at least one.
    #[error("{}", elsewhere(.unseen))]
    ProductionElsewhere { unseen: Vec<(String, f64)> },
}

impl Warning {
    /// A short, stable name, stored with the recording.
    pub fn code(&self) -> &'static str {
        match self {
            Self::PointNotFound { .. } => "point-not-found",
            Self::RegionWithoutSamples { .. } => "region-without-samples",
            Self::ChosenPoint { .. } => profile::Warning::CHOSEN_POINT,
            Self::ChosenFiles { .. } => profile::Warning::CHOSEN_FILES,
            Self::ClientsHere { .. } => profile::Warning::CLIENTS_HERE,
            Self::PointNotCounted { .. } => "point-not-counted",
            Self::SampledPoint { .. } => "sampled-point",
            Self::UserTimeOnly { .. } => "user-time-only",
            Self::CpuTimer { .. } => "cpu-timer",
            Self::NoSwitchRecords => "no-switch-records",
            Self::CallersUnknown { .. } => "callers-unknown",
            Self::UnannouncedWaits => "unannounced-waits",
            Self::OtherClients { .. } => "other-clients",
            Self::Goroutines => profile::Warning::GOROUTINES,
            Self::CostlyPoint { .. } => "costly-point",
            Self::CostlyExecution { .. } => "costly-execution",
            Self::CodeWithoutPlace => "code-without-place",
            Self::SlowBesidePoint { .. } => profile::Warning::SLOW_BESIDE_POINT,
            Self::FunctionsOnly { .. } => profile::Warning::FUNCTIONS_ONLY,
            Self::DeepStacks { .. } => "deep-stacks",
            Self::LostSamples { .. } => "lost-samples",
            Self::TooManyThreads { .. } => "too-many-threads",
            Self::Sandboxed { .. } => "sandboxed",
            Self::EndedByFilter => "ended-by-filter",
            Self::DamagedDebugInformation { .. } => "damaged-debug-information",
            Self::GeneratedCodeUnknown => "generated-code-unknown",
            Self::ImageUnreadable { .. } => "image-unreadable",
            Self::HintUnavailable { .. } | Self::HintNotRead => "hint-unavailable",
            Self::HintLate => "hint-late",
            Self::HintNotThere { .. } => "hint-not-there",
            Self::HintOtherBuild { .. } => "hint-other-build",
            Self::HintNameless { .. } => "hint-nameless",
            Self::HintFewSamples { .. } => "hint-few-samples",
            Self::ProductionElsewhere { .. } => "production-elsewhere",
            Self::GuardBreached { .. } => profile::Warning::GUARD_BREACHED,
            Self::Halted { .. } => "halted",
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> &str {
        match self {
            Self::PointNotFound { .. } => {
                "check the names of program and place, and that --binary GLOB names the library; whatif points PROGRAM lists places"
            }
            Self::RegionWithoutSamples { advice, .. } => advice,
            Self::ChosenPoint { .. } => {
                "if that is no unit of work, name a place where one is done: -p FILE:LINE or -p NAME (whatif points suggests some)"
            }
            Self::ClientsHere { .. } => {
                "what clients use belongs to each request, and the numbers allow for that; if they are elsewhere in production, let them be so in the measurement"
            }
            Self::ChosenFiles { .. } => "name what is to be looked into with --binary GLOB",
            Self::PointNotCounted { .. } => "place fewer points, or mark them in the source",
            Self::SampledPoint { .. } => {
                "allow perf events with sudo sysctl kernel.perf_event_paranoid=2 (in a container also the seccomp \
                 profile), or mark the point in the source"
            }
            Self::UserTimeOnly { .. } => "allow it with: sudo sysctl kernel.perf_event_paranoid=1",
            Self::CpuTimer { .. } => {
                "allow perf with: sudo sysctl kernel.perf_event_paranoid=2 (in a container also the seccomp profile)"
            }
            Self::NoSwitchRecords => {
                "allow more locked memory: ulimit -l 65536, or sudo sysctl kernel.perf_event_mlock_kb=65536"
            }
            Self::CallersUnknown { .. } => {
                "time in them may be attributed to no caller, or to the wrong one, unless they have frame pointers: \
                 -fno-omit-frame-pointer"
            }
            Self::UnannouncedWaits => {
                "nothing to do, unless the program also reads files or the network by system calls of its own"
            }
            Self::OtherClients { .. } => {
                "what was found counts, and not what was said, but what was measured before that is in doubt: measure again without --clients, into a new recording"
            }
            Self::Goroutines => {
                "take gains for hints, and check them by changing the code: whatif ab -- BEFORE -- AFTER"
            }
            Self::CostlyPoint { .. } => {
                "mark it in the source, which costs next to nothing, or count a place that is visited less often, such as a system call \
                 (-p syscall:NAME), or requests (-p net:requests)"
            }
            Self::CostlyExecution { programs: 0, .. } => {
                "let threads live longer: keep some that work is handed to"
            }
            Self::CostlyExecution { .. } => {
                "give each process more work, or profile one of the programs alone (--follow NAME, or whatif run -- PROGRAM)"
            }
            Self::CodeWithoutPlace => "profile fewer programs at a time, with --follow NAME",
            Self::SlowBesidePoint { why: Some(_), .. } => {
                "name another function (-p fn:NAME), or a place in other code, or mark the point in the source"
            }
            Self::SlowBesidePoint { why: None, .. } => {
                "name a function (-p fn:NAME), which the program can often count itself without a breakpoint, or a place in other code, or mark the \
                 point in the source"
            }
            Self::FunctionsOnly { .. } => {
                "for lines and source compile with -g (Rust: debug = 1 in the profile), or install the package with the debug \
                 symbols"
            }
            Self::DeepStacks { .. } => "nothing to do, unless --region names a function that is further out",
            Self::LostSamples { .. } => {
                "leave the profiler some CPU time, or sample less often with --period 2000"
            }
            Self::TooManyThreads { .. } => "profile with fewer threads at a time",
            Self::Sandboxed { .. } => {
                "what they do later is missing from every answer: profile without the sandbox if the program has an option for that"
            }
            Self::EndedByFilter => {
                "run it without whatif: if it does not end so, switch the sandbox off for profiling, or have it installed by the C \
                 library's prctl or syscall"
            }
            Self::DamagedDebugInformation { .. } => {
                "build it again, or install the debug symbols of just this build"
            }
            Self::GeneratedCodeUnknown => {
                "profile a shorter run, or let the compiler keep its code (node --no-flush-bytecode)"
            }
            Self::ImageUnreadable { .. } => "rebuild that file with debug information",
            Self::GuardBreached { .. } => {
                "see whether it was the experiments or something else; if it was them, allow less delay (--most-speedup, --most-delay)"
            }
            Self::Halted { .. } => "nothing to do: what was measured before counts",
            _ => self.advice_on_production(),
        }
    }

    /// The same for what concerns `--hint-db`.
    fn advice_on_production(&self) -> &str {
        match self {
            Self::HintUnavailable { advice: Some(advice), .. } => advice,
            Self::HintNotRead => "see what is wrong with it: whatif top --db DIR",
            Self::HintLate => "take less of it, as in --hint-since 1d, or let the program run longer",
            Self::HintNotThere { .. } => {
                "take more of it, as in --hint-since 30d, or collect profiles where the program works: whatif collect; what \
                 there is: whatif top --by process"
            }
            Self::HintOtherBuild { .. } => {
                "shares in production are those of functions with the same names, and of no lines; profile the build that is in \
                 production to have both"
            }
            Self::HintNameless { .. } => {
                "keep the debug files of what you deploy below /usr/lib/debug/.build-id, or let debuginfod have them; see \
                 why: whatif db unknown"
            }
            Self::HintFewSamples { .. } => "take more of it, as in --hint-since 30d",
            Self::ProductionElsewhere { .. } => {
                "is this load like production's? What does not run cannot be tried: give the program such work"
            }
            _ => "see what there is: whatif db epochs --db DIR",
        }
    }
}

impl From<&Warning> for profile::Warning {
    fn from(warning: &Warning) -> Self {
        Self {
            code: warning.code().to_owned(),
            message: warning.to_string(),
            advice: warning.advice().to_owned(),
        }
    }
}

/// How long it took until no thread was delayed.
fn until_still(took: Option<profile::Nanos>) -> String {
    match took {
        Some(took) => format!(
            "{:.1} ms later no thread was delayed, and what the window had measured was thrown away",
            took.get() as f64 / 1e6
        ),
        None => "some threads still paused two seconds later".to_owned(),
    }
}

/// Why there are no better samples.
fn refusal(errno: i32) -> String {
    match errno {
        0 => "--sampler asked for it".to_owned(),
        _ => format!("perf said: {}", io::Error::from_raw_os_error(errno)),
    }
}

fn kind_of(names: NameSource) -> &'static str {
    match names {
        NameSource::Symbols => "the names of its symbol table",
        NameSource::Go => "the names of Go's own table",
        NameSource::DynamicSymbols => "the names of its dynamic symbols, or their addresses",
        NameSource::Addresses => "their addresses",
    }
}

/// Several images are one warning.
fn without_debug_information(images: &[(PathBuf, NameSource)]) -> String {
    let (names, what) = match images {
        [(image, names)] => (image.display().to_string(), kind_of(*names)),
        _ => {
            let file = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).display().to_string();
            let names: Vec<String> = images.iter().map(|(path, _)| file(path)).collect();
            let first = images.first().map(|(_, names)| *names);
            let what = first.filter(|first| images.iter().all(|(_, names)| names == first));
            (
                failure::list(&names, NAMED),
                what.map_or("the names of their symbols, or their addresses", kind_of),
            )
        }
    };
    let have = if images.len() == 1 { "has" } else { "have" };
    format!("{names} {have} no debug information: regions are whole functions, with {what}")
}

/// What is hot in production and did not run here.
fn elsewhere(unseen: &[(String, f64)]) -> String {
    if let [(name, share)] = unseen {
        return format!(
            "in production {:.0} % of the time is in `{}`, which did not run here",
            100.0 * share,
            printable(name)
        );
    }
    let of = |(name, share): &(String, f64)| format!("`{}` ({:.0} %)", printable(name), 100.0 * share);
    let named: Vec<String> = unseen.iter().take(NAMED).map(of).collect();
    let more = match unseen.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("in production much of the time is in code that did not run here: {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_libraries_without_debug_information_are_one_warning() {
        let image = |name: &str, names| (PathBuf::from(format!("/usr/lib/{name}")), names);
        let one = Warning::FunctionsOnly { images: vec![image("a.so", NameSource::Symbols)] };
        assert!(one.to_string().starts_with("/usr/lib/a.so has no"), "{one}");
        assert!(one.to_string().ends_with("the names of its symbol table"), "{one}");
        let of = ["a", "b", "c", "d", "e", "f", "g"].map(|name| image(name, NameSource::DynamicSymbols));
        let seven = Warning::FunctionsOnly { images: of.into() }.to_string();
        assert!(seven.starts_with("a, b, c and 4 more have no debug information"), "{seven}");
    }
}
