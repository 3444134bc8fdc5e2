//! Samples of whole CPUs, and what processes map, execute and end, as the kernel writes it: perf_event_open(2).
//!
//! A CPU has one ring. All its events write into it, each record in the order of its time but for the few that an
//! interrupt writes while another one is being written. Nothing is copied: a record is looked at where the kernel has put
//! it, and its room is given back afterwards.

mod record;
mod ring;
mod source;
mod wait;

pub use record::{KernelStack, MOST_COPIED, Record, Sample, USUALLY_COPIED, UserStack};
pub use ring::Ring;
pub use source::{Source, Unit};
pub(crate) use wait::{
    BY_INTERRUPT, BY_THREAD, FOR_DEVICE, KERNEL_FRAMES, TASK_DEAD, WAIT_ENDS_BYTES, WAIT_HEADER,
};
pub use wait::{WaitEnds, WaitState, Waker};

use crate::event::{Attributes, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, Where, open};
use record::Layout;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::param::page_size;
use rustix::time::Timespec;
use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use wire::Nanos;

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Whether samples have callchains, and not only the instruction.
    pub stacks: bool,
    /// Whether the kernel copies the stack with every sample, [`USUALLY_COPIED`] bytes of it: where
    /// [`StackCopies`](crate::stack_copies::StackCopies) are not to be had.
    pub copies: bool,
    /// Whether the kernel's own code is sampled.
    pub kernel: bool,
    /// Bytes of a CPU's ring: a power of two, and of whole pages.
    pub ring_bytes: usize,
}

/// Whose code is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The code of all processes: takes `CAP_PERFMON`.
    Machine,
    /// The code of these threads and of what they start.
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
    /// What those had counted that were closed.
    closed: Reading,
}

/// What an event has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// In the unit of the event.
    pub count: u64,
    /// For how long it was switched on and had a counter (of a thread's: while it ran), on all CPUs together.
    pub running: Nanos,
    /// Samples that there was no room for (Linux 6.0; zero before).
    pub lost: u64,
}

impl Cpu {
    /// A ring for CPU `number`. With [`Scope::Machine`] what all processes do is written into it from now on.
    ///
    /// # Errors
    /// The kernel's error: `EACCES` or `EPERM` where it is not allowed (also when more memory would be locked than
    /// `perf_event_mlock_kb` allows), `EMFILE`.
    pub fn open(number: u32, scope: &Scope, setup: Setup) -> io::Result<Self> {
        let place = match scope {
            Scope::Machine => Where::Cpu(number),
            Scope::Threads(_) => Where::ThreadOnCpu(0, number),
        };
        let mut attributes = attributes(Source::NOTHING, setup);
        if *scope == Scope::Machine {
            attributes.flags |= PROCESSES | KSYMBOL;
        }
        let anchor = open_newest(&mut attributes, place)?;
        let layout = Layout { stacks: setup.stacks, copies: setup.copies, output: None, waits: None };
        let ring = Ring::map(&anchor, setup.ring_bytes, layout)?;
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
        self.events.push(Event { source, period, descriptors: Vec::new(), closed: Reading::default() });
        let added = match scope {
            Scope::Machine => self.open_event(self.events.len() - 1, Where::Cpu(self.number)),
            Scope::Threads(threads) => self.open_threads(self.events.len() - 1, threads),
        };
        if added.is_err() {
            self.events.pop();
        }
        added
    }

    /// Opens an event for each of the threads; those that have ended meanwhile are left out.
    fn open_threads(&mut self, event: usize, threads: &[u32]) -> io::Result<()> {
        for &thread in threads {
            match self.open_event(event, Where::ThreadOnCpu(thread, self.number)) {
                // It has ended, or belongs to another user.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EACCES)) => {}
                opened => opened?,
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
        self.events[event].descriptors.iter().filter_map(id)
    }

    /// What `event` has counted. Takes some microseconds, for the CPU is asked itself.
    #[must_use]
    pub fn reading(&self, event: usize) -> Reading {
        let Event { source, descriptors, closed, .. } = &self.events[event];
        let mut sum = *closed;
        descriptors.iter().for_each(|descriptor| sum += read(descriptor));
        if source.unit() == Unit::Nanos {
            // A clock that the kernel stops until the next tick (it allows so many samples between two of them, and a CPU that
            // sleeps has none) counts nothing meanwhile, but is on.
            sum.count = sum.running.0;
        }
        sum
    }

    /// Closes what belongs to threads that have ended, if all that they started have ended as well. Returns the numbers by which
    /// the kernel calls them in samples that may still be in the ring.
    ///
    /// As long as a thread lives that inherited an event, its descriptor must stay open: closing it closes the event of all of them.
    pub fn close_ended(&mut self) -> Vec<u64> {
        let mut ids = Vec::new();
        for event in &mut self.events {
            let open = std::mem::take(&mut event.descriptors);
            let mut asked: Vec<PollFd<'_>> =
                open.iter().map(|fd| PollFd::new(fd, PollFlags::empty())).collect();
            // If it fails, none counts as ended: the next call asks again.
            let _ = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            let ended: Vec<bool> = asked.iter().map(|fd| fd.revents().contains(PollFlags::HUP)).collect();
            for (descriptor, ended) in open.into_iter().zip(ended) {
                if ended {
                    event.closed += read(&descriptor);
                    ids.extend(id(&descriptor));
                } else {
                    event.descriptors.push(descriptor);
                }
            }
        }
        ids
    }

    /// How many descriptors its events have.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.events.iter().map(|event| event.descriptors.len()).sum()
    }

    /// Samples `event` every `period` of its unit from now on. What has passed since its last sample is forgotten.
    ///
    /// Not for [`Scope::Threads`]: `PERF_EVENT_IOC_PERIOD` is for one event, and not (as `ENABLE`) for those that were inherited
    /// from it, and the kernel exchanges the events of such threads when it switches from one to the other
    /// (`perf_event_context_sched_out`). So some would have this period and some the old one, and it is unknown which.
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

    /// What is sampled.
    pub(crate) fn sampling(&self) -> impl Iterator<Item = &OwnedFd> {
        self.events.iter().flat_map(|event| &event.descriptors)
    }

    /// An event by which a BPF program writes [`Record::Stack`] into the ring.
    pub(crate) fn open_output(&mut self) -> io::Result<OwnedFd> {
        let event = self.open_program_output()?;
        self.ring.layout.output = id(&event);
        Ok(event)
    }

    /// An event by which one writes [`Record::WaitBegins`] and [`Record::WaitEnds`].
    pub(crate) fn open_wait_output(&mut self) -> io::Result<OwnedFd> {
        let event = self.open_program_output()?;
        self.ring.layout.waits = id(&event);
        Ok(event)
    }

    fn open_program_output(&self) -> io::Result<OwnedFd> {
        const SOFTWARE: u32 = 1;
        const BPF_OUTPUT: u64 = 10;
        let attributes = attributes(Source::NOTHING, self.setup);
        let mut attributes = Attributes {
            kind: SOFTWARE,
            config: BPF_OUTPUT,
            sample_type: record::stack_type(),
            sample_period: 1,
            ..attributes
        };
        let event = open_newest(&mut attributes, Where::Cpu(self.number))?;
        // SAFETY: the argument is a descriptor, which the kernel only looks up.
        check(unsafe {
            libc::ioctl(event.as_raw_fd(), SET_OUTPUT, self.anchor.as_raw_fd() as libc::c_ulong)
        })?;
        Ok(event)
    }

    /// Its ring.
    pub fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }
}

/// Samples these threads as well, on all CPUs. Those that have ended meanwhile are left out. Returns for each descriptor the number
/// by which the kernel calls it in [`Sample::id`], and its event.
///
/// # Errors
/// As for [`Cpu::open`]. Then none of them is sampled.
pub fn add_threads(cpus: &mut [Cpu], threads: &[u32]) -> io::Result<Vec<(u64, usize)>> {
    let lengths = |cpu: &Cpu| cpu.events.iter().map(|event| event.descriptors.len()).collect();
    let before: Vec<Vec<usize>> = cpus.iter().map(lengths).collect();
    let added = cpus
        .iter_mut()
        .try_for_each(|cpu| (0..cpu.events.len()).try_for_each(|event| cpu.open_threads(event, threads)));
    let mut ids = Vec::new();
    for (cpu, before) in cpus.iter_mut().zip(before) {
        for (number, (event, before)) in cpu.events.iter_mut().zip(before).enumerate() {
            if added.is_ok() {
                ids.extend(event.descriptors[before..].iter().filter_map(id).map(|id| (id, number)));
            } else {
                // Samples may have been taken already.
                event.descriptors.drain(before..).for_each(|descriptor| event.closed += read(&descriptor));
            }
        }
    }
    added.map(|()| ids)
}

impl AddAssign for Reading {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.running += other.running;
        self.lost += other.lost;
    }
}

/// The number by which the kernel calls a descriptor.
fn id(descriptor: &OwnedFd) -> Option<u64> {
    let mut id = 0_u64;
    // SAFETY: the kernel writes eight bytes to a variable of eight bytes.
    let got = unsafe { libc::ioctl(descriptor.as_raw_fd(), GET_ID, &raw mut id) };
    (got == 0).then_some(id)
}

/// What one descriptor has counted, with what threads have that inherited it.
fn read(descriptor: &OwnedFd) -> Reading {
    let mut words = [0_u64; 3];
    // SAFETY: the kernel writes at most as many bytes as the variable has.
    let length =
        unsafe { libc::read(descriptor.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    match length {
        16.. => Reading { count: words[0], running: Nanos(words[1]), lost: words[2] },
        _ => Reading::default(),
    }
}

/// Whether this machine has an event, as far as this process may know.
#[must_use]
pub fn exists(source: Source) -> bool {
    let setup = Setup { stacks: false, copies: false, kernel: false, ring_bytes: page_size() };
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

/// Whether an error says that this process has as many descriptors open as it may.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

/// Lets this process have as many descriptors as it may at most (`ulimit -Hn`). Programs that it executes may have them, too.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // It can only be refused where it is that high already.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many more descriptors this process may have open.
#[must_use]
pub fn descriptors_left() -> usize {
    use rustix::process::{Resource, getrlimit};
    let Some(most) = getrlimit(Resource::Nofile).current else { return usize::MAX };
    // One of them is for looking.
    let open = std::fs::read_dir("/proc/self/fd").map_or(usize::MAX, |open| open.count() - 1);
    usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(open)
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
const KSYMBOL: u64 = 1 << 29;
const BUILD_ID: u64 = 1 << 34;
const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;

const READ_RUNNING: u64 = 1 << 1;
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
        sample_type: record::sample_type(setup.stacks, setup.copies),
        sample_registers: if setup.copies { record::REGISTERS } else { 0 },
        sample_stack: if setup.copies { USUALLY_COPIED } else { 0 },
        read_format: READ_RUNNING | READ_LOST,
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
        Err(error) if unknown(&error) => attributes.read_format &= !READ_LOST,
        opened => return opened,
    }
    match open(attributes, place) {
        // Linux before 5.12.
        Err(error) if unknown(&error) => attributes.flags &= !BUILD_ID,
        opened => return opened,
    }
    match open(attributes, place) {
        // Linux before 5.1.
        Err(error) if unknown(&error) => attributes.flags &= !KSYMBOL,
        opened => return opened,
    }
    open(attributes, place)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
