//! Samples of whole CPUs, and what processes map, execute and end, as the kernel writes it: perf_event_open(2).
//!
//! A CPU has one ring. All its events write into it, each record in the order of its time but for the few that an
//! interrupt writes while another one is being written. Nothing is copied: a record is looked at where the kernel has put
//! it, and its room is given back afterwards.

mod record;
mod ring;
mod source;

pub use record::{Record, Sample};
pub use ring::Ring;
pub use source::{Source, Unit};

use crate::event::{Attributes, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, Where, open};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::param::page_size;
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Whether samples have callchains, and not only the instruction.
    pub stacks: bool,
    /// Whether the kernel's own code is sampled.
    pub kernel: bool,
    /// Bytes of a CPU's ring: a power of two, and of whole pages.
    pub ring_bytes: usize,
}

/// Whose code is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's: takes `CAP_PERFMON`.
    Machine,
    /// That of these threads and of what they start.
    Threads(Vec<u32>),
}

/// One CPU: its ring, and the events that write into it.
#[derive(Debug)]
pub struct Cpu {
    number: u32,
    ring: Ring,
    setup: Setup,
    /// Owns the ring.
    anchor: OwnedFd,
    events: Vec<Event>,
}

/// One event: of a CPU, or of each of some threads while they run on it.
#[derive(Debug)]
struct Event {
    source: Source,
    period: u64,
    descriptors: Vec<OwnedFd>,
}

/// What an event has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// In its unit.
    pub count: u64,
    /// Samples that there was no room for (Linux 6.0; zero before).
    pub lost: u64,
}

impl Cpu {
    /// A ring for CPU `number`. With [`Scope::Machine`] what all processes do is written into it from now on.
    ///
    /// # Errors
    /// What the kernel said: `EACCES` or `EPERM` where it is not allowed (also when more memory would be locked than
    /// `perf_event_mlock_kb` allows), `EMFILE`.
    pub fn open(number: u32, scope: &Scope, setup: Setup) -> io::Result<Self> {
        let place = match scope {
            Scope::Machine => Where::Cpu(number),
            Scope::Threads(_) => Where::ThreadOnCpu(0, number),
        };
        let mut attributes = attributes(Source::NOTHING, setup);
        if *scope == Scope::Machine {
            attributes.flags |= PROCESSES;
        }
        let anchor = open_newest(&mut attributes, place)?;
        let ring = Ring::map(&anchor, setup.ring_bytes)?;
        Ok(Self { number, ring, setup, anchor, events: Vec::new() })
    }

    /// Which CPU it is.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Adds an event that is sampled every `period` of its unit. Its number is how many there were before.
    ///
    /// # Errors
    /// As for [`open`](Self::open); `ENOENT` and `EOPNOTSUPP` where the machine does not have it.
    pub fn add(&mut self, source: Source, period: u64, scope: &Scope) -> io::Result<()> {
        self.events.push(Event { source, period, descriptors: Vec::new() });
        let added = match scope {
            Scope::Machine => self.open_event(self.events.len() - 1, Where::Cpu(self.number)),
            Scope::Threads(threads) => self.add_threads(threads),
        };
        if added.is_err() {
            self.events.pop();
        }
        added
    }

    /// Samples these threads as well. Those that have ended meanwhile are left out.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn add_threads(&mut self, threads: &[u32]) -> io::Result<()> {
        for event in 0..self.events.len() {
            for &thread in threads {
                match self.open_event(event, Where::ThreadOnCpu(thread, self.number)) {
                    // It has ended, or is somebody else's.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EACCES)) => {}
                    opened => opened?,
                }
            }
        }
        Ok(())
    }

    fn open_event(&mut self, event: usize, place: Where) -> io::Result<()> {
        let Event { source, period, .. } = self.events[event];
        let mut attributes = attributes(source, self.setup);
        attributes.sample_period = period;
        if let Where::ThreadOnCpu(..) = place {
            attributes.flags |= INHERIT;
            if event == 0 {
                attributes.flags |= PROCESSES;
            }
        }
        let descriptor = open_newest(&mut attributes, place)?;
        // SAFETY: the argument is a descriptor, which the kernel only looks up.
        check(unsafe {
            libc::ioctl(descriptor.as_raw_fd(), SET_OUTPUT, self.anchor.as_raw_fd() as libc::c_ulong)
        })?;
        self.events[event].descriptors.push(descriptor);
        Ok(())
    }

    /// The numbers by which the kernel calls the descriptors of `event` in [`Sample::id`].
    pub fn ids(&self, event: usize) -> impl Iterator<Item = u64> + '_ {
        self.events[event].descriptors.iter().filter_map(|descriptor| {
            let mut id = 0_u64;
            // SAFETY: the kernel writes eight bytes to a variable of eight bytes.
            let got = unsafe { libc::ioctl(descriptor.as_raw_fd(), GET_ID, &raw mut id) };
            (got == 0).then_some(id)
        })
    }

    /// What `event` has counted. Takes some microseconds, for the CPU is asked itself.
    #[must_use]
    pub fn reading(&self, event: usize) -> Reading {
        let mut sum = Reading::default();
        for descriptor in &self.events[event].descriptors {
            let mut words = [0_u64; 2];
            // SAFETY: the kernel writes at most sixteen bytes to a variable of sixteen bytes.
            let length =
                unsafe { libc::read(descriptor.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
            if length >= 8 {
                sum.count += words[0];
                sum.lost += words[1];
            }
        }
        sum
    }

    /// Samples `event` every `period` of its unit from now on. What has passed since its last sample is forgotten.
    pub fn set_period(&mut self, event: usize, period: u64) {
        self.events[event].period = period;
        for descriptor in &self.events[event].descriptors {
            // SAFETY: the kernel reads eight bytes of a variable of eight bytes. It refuses only zero.
            unsafe { libc::ioctl(descriptor.as_raw_fd(), SET_PERIOD, &raw const period) };
        }
    }

    /// Switches `event` on or off.
    pub fn enable(&mut self, event: usize, on: bool) {
        let request = if on { ENABLE } else { DISABLE };
        for descriptor in &self.events[event].descriptors {
            // SAFETY: these requests have no argument to speak of.
            unsafe { libc::ioctl(descriptor.as_raw_fd(), request, 0) };
        }
    }

    /// Its ring.
    pub fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }
}

/// Whether this machine has an event, as far as this process may know.
#[must_use]
pub fn exists(source: Source) -> bool {
    let setup = Setup { stacks: false, kernel: false, ring_bytes: page_size() };
    let mut attributes = attributes(source, setup);
    attributes.sample_period = 1_000_000_000;
    open_newest(&mut attributes, Where::Thread(0)).is_ok()
}

/// The calling thread, for [`Scope::Threads`].
#[must_use]
pub fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The threads of a process; none if it has gone.
#[must_use]
pub fn threads(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The user that this process acts as.
#[must_use]
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Waits until one of the rings is half full, or for `timeout`, or for a signal.
pub fn wait(cpus: &[Cpu], timeout: std::time::Duration) {
    let mut descriptors: Vec<PollFd<'_>> =
        cpus.iter().map(|cpu| PollFd::from_borrowed_fd(cpu.anchor.as_fd(), PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // Interrupted: then there may be something to do as well.
    let _ = poll(&mut descriptors, Some(&timeout));
}

/// What processes map, execute, start and end, with build IDs where the kernel knows them.
const PROCESSES: u64 = MMAP | MMAP2 | COMM | COMM_EXEC | TASK | BUILD_ID;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK: u64 = 1 << 25;
const BUILD_ID: u64 = 1 << 34;
const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;

const READ_LOST: u64 = 1 << 4;

const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_PERIOD: libc::c_ulong = 0x4008_2404;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const GET_ID: libc::c_ulong = 0x8008_2407;

fn attributes(source: Source, setup: Setup) -> Attributes {
    let mut flags = EXCLUDE_HYPERVISOR | WATERMARK | SAMPLE_ID_ALL | USE_CLOCK;
    if !setup.kernel {
        flags |= EXCLUDE_KERNEL | EXCLUDE_CALLCHAIN_KERNEL;
    }
    let (kind, config) = source.numbers();
    Attributes {
        config,
        sample_type: record::sample_type(setup.stacks),
        read_format: READ_LOST,
        flags,
        wakeup: u32::try_from(setup.ring_bytes / 2).unwrap_or(u32::MAX),
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::new(kind)
    }
}

/// Does without what older kernels do not know.
fn open_newest(attributes: &mut Attributes, place: Where) -> io::Result<OwnedFd> {
    let unknown = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    match open(attributes, place) {
        // Linux before 6.0.
        Err(error) if unknown(&error) => attributes.read_format = 0,
        opened => return opened,
    }
    match open(attributes, place) {
        // Linux before 5.12.
        Err(error) if unknown(&error) => attributes.flags &= !BUILD_ID,
        opened => return opened,
    }
    open(attributes, place)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
