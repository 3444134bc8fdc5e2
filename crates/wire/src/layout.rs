//! The shared memory as a whole.

use crate::arrivals::Arrivals;
use crate::channel::Channels;
use crate::circles::Circles;
use crate::code::CodeMap;
use crate::counter::Counters;
use crate::experiment::Experiments;
use crate::files::Files;
use crate::history::History;
use crate::hits::Hits;
use crate::latency::{Begun, Distributions};
use crate::made::Made;
use crate::mixing::Mixing;
use crate::slot::Slots;
use crate::unwind::Unwind;
use crate::{Epoch, MAGIC, Nanos, PROTOCOL, SharedAccount};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How far the runtime has got with attaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Handshake {
    /// No runtime has mapped the memory.
    Waiting = 0,
    /// The runtime is there and samples.
    Attached = 1,
    /// The runtime has another protocol or build ID and keeps out of the way.
    Mismatch = 2,
}

/// Where samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sampler {
    /// No thread has tried yet.
    Unknown = 0,
    /// perf task clock, kernel time included.
    Perf = 1,
    /// perf task clock, user time only (`perf_event_paranoid` 2).
    PerfUser = 2,
    /// POSIX timer on the thread's CPU clock: as coarse as the kernel's tick.
    Timer = 3,
    /// Neither could be had.
    None = 4,
}

impl Sampler {
    /// The sampler with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Perf,
            2 => Self::PerfUser,
            3 => Self::Timer,
            4 => Self::None,
            _ => Self::Unknown,
        }
    }
}

/// One thread, in the unit of [`Header::strangers`].
pub const THREAD: u32 = 1024;

/// What both sides must know before anything else.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`], written by the controller before the program starts.
    magic: AtomicU64,
    /// [`PROTOCOL`] of the controller.
    protocol: AtomicU32,
    handshake: AtomicU32,
    /// What [`Header::offer`] was told: the controller's build ID.
    build_id: AtomicU64,
    /// What [`Header::accept`] was told: the runtime's build ID, for the message when they differ.
    runtime_build_id: AtomicU64,
    /// Process ID of the first program.
    pub pid: AtomicU32,
    /// Process ID of the controller, for a program that waits for it.
    pub controller: AtomicU32,
    /// A [`Sampler`]: the least capable one that any thread had to take.
    pub sampler: AtomicU32,
    /// Why the better samplers were refused: the `errno` of `perf_event_open`, zero if it was not.
    pub refusal: AtomicU32,
    /// The most capable [`Sampler`] that threads are to take; [`Sampler::None`] if none at all (`--start-only`).
    pub sampling: AtomicU32,
    /// Mean CPU time between two samples, in nanoseconds.
    pub period: AtomicU64,
    /// Threads that have a CPU for a shorter time than this, in the mean, are sampled by a timer; nanoseconds, zero if none is to be.
    pub short_run: AtomicU64,
    /// The runtime stops sampling when the monotonic clock has passed this: the controller, which moves it
    /// on, is gone. Zero: for good. The controller says so, or the runtime, where the controller has ended.
    pub alive_until: AtomicU64,
    /// The running number of the window; threads pause on it with a futex, so that no pause outlives its
    /// experiment.
    pub epoch: AtomicU32,
    /// How finely the region and other code take turns.
    pub mixing: Mixing,
    /// Whether the current window is an experiment, with a speedup or without: threads then do all that it takes to
    /// credit them, so that a baseline differs from what it is compared with in nothing but the pauses.
    pub experimenting: AtomicU32,
    /// Whether threads take `SIGTRAP` for a sample or a visit: not in a program that is debugged.
    pub traps: AtomicU32,
    /// What a breakpoint costs at which a thread notes a visit, besides what the runtime does there, in nanoseconds: zero if that is not known.
    pub trap_cost: AtomicU32,
    /// Whether arrivals are held up now and then, to find out which clock they have: [`arrivals`](crate::arrivals).
    pub probing: AtomicU32,
    /// How many ask for requests to be counted: [`Source::answered`](crate::arrivals::Source::answered).
    pub counting_requests: AtomicU32,
    /// Rules of virtual time that are switched off, as bits: rule 7 is bit 7. For the experiments that show
    /// what each rule is good for.
    pub without: AtomicU32,
    /// [`Fault`]s that are injected on purpose, as bits. For the experiments that show that the audit notices them.
    pub faults: AtomicU32,
    /// The processor's clock when the memory was made, in ticks.
    pub clock_ticks: AtomicU64,
    /// The monotonic clock at the moment of `clock_ticks`.
    pub clock_time: AtomicU64,
    /// Nanoseconds per tick of the processor's clock, in 2⁻²⁴; zero until a sample has measured it.
    pub clock_rate: AtomicU64,
    /// Whether threads have context-switch records: [`Switches`].
    pub switches: AtomicU32,
    /// CPUs that the program may use.
    pub cpus: AtomicU32,
    /// Threads that could run when the controller last looked.
    pub running: AtomicU32,
    /// CPUs that the machine has.
    pub machine_cpus: AtomicU32,
    /// Threads of others that want a CPU, a running mean; one thread is [`THREAD`].
    pub strangers: AtomicU32,
    /// A [`Hold`]: whether the program waits with its first instruction (a futex), because the controller has something to do before.
    pub hold: AtomicU32,
    /// Not zero when an image of the program calls the futex by an instruction of its own: a wait that no
    /// function of ours has seen is then taken for one on another thread.
    pub inline_futex: AtomicU32,
    /// Threads of the program that have installed a seccomp filter which does not allow what sampling and pauses need, and are left alone since.
    pub sandboxed: AtomicU32,
    /// Whether programs that are executed wait, for a short time, until the controller has placed its points in them.
    pub placing: AtomicU32,
    /// How many processes have joined, by executing a program or because they were attached to: each has the number up to it.
    pub executed: AtomicU32,
    /// How many of these have executed a program.
    pub begun: AtomicU32,
    /// How long it took programs to ask what becomes of those that they execute, those to join, and threads to be sampled from their begin to their end, in nanoseconds
    /// of CPU time, all together.
    pub joining: AtomicU64,
}

/// A way of breaking the engine on purpose, by its bit in [`Header::faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// Every sample is taken for one of a thread that spins.
    EverythingSpins = 1,
    /// A third of the credit of rule 1 is dropped.
    CreditIsDropped = 2,
    /// Waits for other threads are treated as waits for the world (rule 6 for rule 5).
    ThreadsAreTheWorld = 4,
    /// Waits for the world are treated as waits for other threads (rule 5 for rule 6).
    TheWorldIsAThread = 8,
}

/// Whether the program waits with its first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hold {
    /// It goes on.
    Free = 0,
    /// It waits for the controller, but not for ever.
    Waits = 1,
    /// The controller changes its code: it waits as long as there is a controller.
    Changing = 2,
    /// It has gone on without the controller, which must not change its code any more.
    Gone = 3,
}

/// Whether threads know when they were without a CPU (rule 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Switches {
    /// No thread has tried yet.
    Unknown = 0,
    /// From context-switch records.
    Recorded = 1,
    /// At least one thread could not have them (no perf, or no more locked memory).
    Refused = 2,
}

impl Switches {
    /// The value with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Recorded,
            2 => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

impl Header {
    /// Where samples come from.
    pub fn sampler(&self) -> Sampler {
        Sampler::from_number(self.sampler.load(Ordering::Relaxed))
    }

    /// The controller's half of the handshake. `build_id` is the same in a controller and a runtime that were built together
    /// ([`build_id`](crate::build_id)).
    pub fn offer(&self, build_id: u64) {
        self.protocol.store(PROTOCOL, Ordering::Relaxed);
        self.build_id.store(build_id, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// The runtime's half, first step. False: hands off, this memory is not ours.
    pub fn accept(&self, pid: u32, build_id: u64) -> bool {
        if self.magic.load(Ordering::Acquire) != MAGIC {
            return false;
        }
        self.runtime_build_id.store(build_id, Ordering::Relaxed);
        self.pid.store(pid, Ordering::Relaxed);
        let agreed = self.is_ours(build_id);
        if !agreed {
            self.handshake.store(Handshake::Mismatch as u32, Ordering::Release);
        }
        agreed
    }

    /// The whole of it for a program that was executed by one that has attached: its number among those. None: hands off.
    pub fn accept_executed(&self, build_id: u64) -> Option<u32> {
        let agreed = self.magic.load(Ordering::Acquire) == MAGIC && self.is_ours(build_id);
        agreed.then(|| self.executed.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    fn is_ours(&self, build_id: u64) -> bool {
        self.protocol.load(Ordering::Relaxed) == PROTOCOL && self.build_id.load(Ordering::Relaxed) == build_id
    }

    /// The runtime's half, second step: the first thread is registered.
    pub fn attached(&self) {
        self.handshake.store(Handshake::Attached as u32, Ordering::Release);
    }

    /// How far the runtime has got.
    pub fn handshake(&self) -> Handshake {
        match self.handshake.load(Ordering::Acquire) {
            0 => Handshake::Waiting,
            1 => Handshake::Attached,
            _ => Handshake::Mismatch,
        }
    }

    /// The build IDs of controller and runtime.
    pub fn build_ids(&self) -> (u64, u64) {
        (self.build_id.load(Ordering::Relaxed), self.runtime_build_id.load(Ordering::Relaxed))
    }

    /// Whether a rule is in force (they all are, unless a benchmark has switched one off).
    #[inline]
    pub fn has_rule(&self, number: u32) -> bool {
        self.without.load(Ordering::Relaxed) & (1 << number) == 0
    }

    /// Whether the engine is broken on purpose.
    #[inline]
    pub fn has_fault(&self, fault: Fault) -> bool {
        self.faults.load(Ordering::Relaxed) & fault as u32 != 0
    }

    /// The number of the current window.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// When the controller counts as dead.
    pub fn alive_until(&self) -> Nanos {
        Nanos(self.alive_until.load(Ordering::Relaxed))
    }
}

/// Everything that controller and runtime share. All-zero bytes are its initial value.
#[derive(Debug)]
#[repr(C)]
pub struct SharedMemory {
    /// Who is there, and which window it is.
    pub header: Header,
    /// The delay that every thread should have by now.
    pub required: SharedAccount,
    /// When that grew.
    pub history: History,
    /// When samples last found the region running.
    pub hits: Hits,
    /// The latest [`Account`](crate::Account) in it.
    pub noted: AtomicU64,
    /// Pipes and the like.
    pub channels: Channels,
    /// What comes from outside.
    pub arrivals: Arrivals,
    /// What the windows are about.
    pub experiments: Experiments,
    /// What is in scope.
    pub code: CodeMap,
    /// Where programs that were executed have their code.
    pub files: Files,
    /// Processes of such programs that make code while they run.
    pub made: Made,
    /// Which code only waits.
    pub circles: Circles,
    /// How to find callers.
    pub unwind: Unwind,
    /// Progress points.
    pub counters: Counters,
    /// Pieces of work with keys.
    pub begun: Begun,
    /// How long pieces of work took.
    pub distributions: Distributions,
    /// Threads.
    pub slots: Slots,
}

impl SharedMemory {
    /// Bytes to map. Most of them are never touched: the file is sparse.
    pub const SIZE: usize = size_of::<Self>();

    /// Begins an epoch whose experiment has been described already, and returns the amount that
    /// `required` had reached in the epoch before. The caller wakes the threads that pause on `header.epoch`.
    pub fn begin(&self, epoch: Epoch) -> Nanos {
        // Account first: a thread that sees the new number finds the new account as well.
        let before = self.required.begin(epoch);
        self.header.epoch.store(epoch.0, Ordering::Release);
        before.delay()
    }

    /// The memory at `start`.
    ///
    /// # Safety
    /// `start` must be the page-aligned start of [`SIZE`](Self::SIZE) readable and writable bytes that
    /// stay mapped forever and are only accessed through this type.
    pub unsafe fn at(start: *mut u8) -> &'static Self {
        // SAFETY: the caller vouches for size, alignment and lifetime; every bit pattern is a valid
        // atomic, and all access goes through atomics.
        unsafe { &*start.cast::<Self>() }
    }
}
