//! Opening the events: what is asked for, and why it may not be had.

use crate::limits::Limits;
use crate::naming::NameKeeping;
use kernel::stack_copies::StackCopies;
use kernel::stream::{Cpu, Scope, Setup, Source, Unit, is_out_of_descriptors};
use std::io;

/// Periods differ from their mean by up to this part of it.
pub const JITTER: f64 = 0.1;
/// Room that is enough for a while, in bytes.
const LEAST_RING: usize = 1 << 16;

/// What is collected.
#[derive(Clone, Debug)]
pub struct Options {
    /// Samples per second and CPU.
    pub rate_hz: f64,
    /// What is sampled; the first one is what everything else is compared with.
    pub sources: Vec<Source>,
    /// Only one of the sources after the first is on at a time.
    pub rotate: bool,
    /// Callchains, or only the instruction.
    pub stacks: bool,
    /// Callers of code without frame pointers as well.
    pub unwind: bool,
    /// Command lines of processes that live long.
    pub commands: bool,
    /// Where threads wait, as well.
    pub off_cpu: bool,
    /// The whole machine, or the processes of this user.
    pub machine: bool,
    /// Room for the kernel to write into, for each CPU, in bytes.
    pub ring_bytes: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// How much memory lists may take that grow with what programs do.
    pub limits: Limits,
    /// Where the names of functions are kept, if they are.
    pub names: Option<NameKeeping>,
}

impl Options {
    /// Whole stacks by the CPU clock, so many a second on each CPU, of the whole machine or of this user's processes; names are not kept.
    ///
    /// # Panics
    /// Where the kernel has no clock.
    #[must_use]
    pub fn of_clock(machine: bool, rate_hz: f64) -> Self {
        Self {
            rate_hz,
            sources: vec![Source::named("cpu-clock").expect("every kernel has it")],
            rotate: false,
            stacks: true,
            unwind: true,
            commands: false,
            off_cpu: false,
            machine,
            ring_bytes: 1 << 20,
            seed: 1,
            limits: Limits::of(64 << 20, 1e9),
            names: None,
        }
    }
}

/// Why nothing can be collected.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel does not allow it.
    #[error("the kernel does not allow to sample {what}: {source}\n  {advice}")]
    NotAllowed {
        /// Whose code.
        what: &'static str,
        /// What to do.
        advice: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// This machine does not have such an event.
    #[error(
        "this machine has no event {event}: {source}\n  \
         a virtual machine often has no hardware counters; without --events the clock is used"
    )]
    NoEvent {
        /// Its name.
        event: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// There are too few descriptors for one's own threads.
    #[error(
        "there are too few descriptors to sample threads by themselves: {source}\n  \
         each takes a descriptor for each CPU and event; allow more with ulimit -n, or give fewer --events"
    )]
    TooMany {
        /// The kernel's error.
        source: io::Error,
    },
    /// Something else.
    #[error("cannot sample: {source}\n  `whatif doctor` says what this machine allows")]
    Other {
        /// The kernel's error.
        source: io::Error,
    },
}

const ADVICE_MACHINE: &str = "run it as root, or as a service with just the capabilities it needs: whatif collect --print unit; \
     --own samples your own processes without";
const ADVICE_OWN: &str = "allow it with: sudo sysctl kernel.perf_event_paranoid=2 (in a container, its seccomp profile must allow perf_event_open)";

impl StartError {
    fn of(error: io::Error, machine: bool, event: Option<Source>) -> Self {
        match (error.kind(), event) {
            (io::ErrorKind::PermissionDenied, _) if machine => {
                Self::NotAllowed { what: "the whole machine", advice: ADVICE_MACHINE, source: error }
            }
            (io::ErrorKind::PermissionDenied, _) => {
                Self::NotAllowed { what: "your processes", advice: ADVICE_OWN, source: error }
            }
            (io::ErrorKind::NotFound | io::ErrorKind::Unsupported, Some(event)) => {
                Self::NoEvent { event: event.name(), source: error }
            }
            _ if is_out_of_descriptors(&error) => Self::TooMany { source: error },
            _ => Self::Other { source: error },
        }
    }

    /// There are not enough descriptors for anything else.
    pub(crate) fn no_reserve() -> Self {
        let source = io::Error::other("too few descriptors would be left for storing");
        Self::TooMany { source }
    }

    /// Whether a user with more rights could.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::NotAllowed { .. })
    }
}

/// The mean period of a source.
pub fn period_of(source: Source, rate_hz: f64) -> f64 {
    match source.unit() {
        Unit::Nanos => 1e9 / rate_hz,
        // At about 2 GHz.
        Unit::Cycles => 2e9 / rate_hz,
        // At ten thousand a second; the same for all, so that samples of one source are worth the same.
        Unit::Occurrences => 1e4 / rate_hz,
    }
}

/// How callers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// They are not asked for.
    No,
    /// The kernel follows frame pointers.
    FramePointers,
    /// And where programs have none, as much of their stacks is copied as it takes (BPF).
    Copies,
    /// The same, but the kernel copies as much of every stack: it allows no BPF.
    CopiesOfAll,
}

/// What was opened.
pub struct Opened {
    /// All CPUs that are online.
    pub cpus: Vec<Cpu>,
    /// The period of each event of each CPU.
    pub periods: Vec<Vec<u64>>,
    /// With what the kernel allowed.
    pub setup: Setup,
    /// The copies of stacks, and why there are none if there should be.
    pub copies: Option<std::io::Result<StackCopies>>,
}

impl Opened {
    /// How callers are found.
    pub fn callers(&self) -> Callers {
        match self.copies {
            _ if !self.setup.stacks => Callers::No,
            Some(Ok(_)) => Callers::Copies,
            _ if self.setup.copies => Callers::CopiesOfAll,
            _ => Callers::FramePointers,
        }
    }
}

/// Opens the events of all CPUs: with smaller rings, and then without the kernel's code, where it does not allow more; and with copies
/// of stacks, if they are asked for.
pub fn open_all(scope: &Scope, options: &Options, random: &mut fastrand::Rng) -> Result<Opened, StartError> {
    let copies = options.stacks && options.unwind;
    if !copies || !options.machine {
        return open_with(scope, options, copies, random);
    }
    let mut opened = open_with(scope, options, false, random)?;
    match StackCopies::start(&mut opened.cpus) {
        Ok(copies) => Ok(Opened { copies: Some(Ok(copies)), ..opened }),
        Err(error) => {
            drop(opened);
            Ok(Opened { copies: Some(Err(error)), ..open_with(scope, options, true, random)? })
        }
    }
}

fn open_with(
    scope: &Scope,
    options: &Options,
    copies: bool,
    random: &mut fastrand::Rng,
) -> Result<Opened, StartError> {
    let mut setup = Setup { stacks: options.stacks, copies, kernel: true, ring_bytes: options.ring_bytes };
    loop {
        let opened =
            kernel::cpu::numbers().into_iter().map(|number| open(number, scope, setup, options, random));
        match opened.collect::<Result<Vec<_>, _>>() {
            Ok(opened) => {
                let (cpus, periods) = opened.into_iter().unzip();
                return Ok(Opened { cpus, periods, setup, copies: None });
            }
            // More memory would be locked than is allowed (`perf_event_mlock_kb`, `ulimit -l`), perhaps.
            Err(error) if error.is_permission() && setup.ring_bytes > LEAST_RING => setup.ring_bytes /= 2,
            // A user without privileges may sample without the kernel's code.
            Err(error) if error.is_permission() && !options.machine && setup.kernel => {
                setup.kernel = false;
                setup.ring_bytes = options.ring_bytes;
            }
            Err(error) => return Err(error),
        }
    }
}

fn open(
    number: u32,
    scope: &Scope,
    setup: Setup,
    options: &Options,
    random: &mut fastrand::Rng,
) -> Result<(Cpu, Vec<u64>), StartError> {
    let mut cpu =
        Cpu::open(number, scope, setup).map_err(|error| StartError::of(error, options.machine, None))?;
    let mut periods = Vec::new();
    for &source in &options.sources {
        // CPUs should not be interrupted all at once.
        let period = (period_of(source, options.rate_hz) * (1.0 + JITTER * random.f64())).max(1.0) as u64;
        cpu.add(source, period, scope)
            .map_err(|error| StartError::of(error, options.machine, Some(source)))?;
        periods.push(period);
    }
    Ok((cpu, periods))
}
