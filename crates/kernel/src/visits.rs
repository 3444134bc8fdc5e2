//! Counting how often a process executes an instruction, or completes a system call, in all its threads, present and
//! future: perf_event_open(2).
//!
//! A hardware breakpoint that only counts costs the program an exception and needs no privilege, but a CPU has four.
//! A uprobe costs a trap and needs `CAP_PERFMON` (or root), and there may be any number; it switches on a probe that is guarded by a
//! semaphore, which a breakpoint does not ([`semaphore`](crate::semaphore)). It counts for every process that runs the same file: a thread would inherit it by
//! reading the file's name from memory that is not there, and could not be started. System calls are counted by
//! tracepoints, which need tracefs. None of them changes what the program does.

use crate::clock;
use crate::cpu::own_thread;
use crate::event::{Attributes, REMOVE_ON_EXEC, Where, open, read};
use std::ffi::CString;
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use wire::{Address, Nanos};

/// An instruction of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is in the process.
    pub address: Address,
    /// The file it is in, and how many bytes from the beginning of the file.
    pub file: (PathBuf, u64),
    /// The counter of 16 bits that must not be zero for it to be executed.
    pub guard: Option<Guard>,
}

/// What guards an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Where it is in the process.
    pub address: Address,
    /// How many bytes from the beginning of the instruction's file.
    pub in_file: u64,
}

/// How an instruction is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// One of the CPU's four debug registers.
    Breakpoint,
    /// One of the CPU's debug registers, with a signal to the visiting thread, which notes the visit itself.
    Trap,
    /// A trap in its place.
    Uprobe,
    /// A line of the kernel's own.
    Tracepoint,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub struct Counter {
    means: Means,
    /// One for each thread that there was, which those that it starts inherit; or one for each CPU.
    events: Vec<OwnedFd>,
}

impl Counter {
    /// Begins to count how often these processes, and those that they fork, execute `instruction`, by the first means that
    /// works. A guarded one is only watched by a uprobe, which switches it on.
    ///
    /// # Errors
    /// The kernel's error: `ENOSPC` when all breakpoints are in use, `EACCES` or `EPERM` when it is not
    /// allowed, `ENOENT` where there are none (some virtual machines).
    pub fn new(pids: &[u32], instruction: &Instruction) -> io::Result<Self> {
        if instruction.guard.is_some() {
            return Self::by(Means::Uprobe, pids, instruction);
        }
        Self::by(Means::Breakpoint, pids, instruction).or_else(|error| {
            // A caller that may not use the second is told why the first failed.
            Self::by(Means::Uprobe, pids, instruction).map_err(|_| error)
        })
    }

    /// Has every visit of the process `pid` to `address` raise `SIGTRAP` in the visiting thread, with `data` in `si_perf_data`: a handler must be there, and
    /// the signal must not be blocked.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and where the kernel does not know such events (before 5.13).
    pub fn trap(pid: u32, address: Address, data: u64) -> io::Result<Self> {
        let attributes = Attributes::trap(address, data);
        let threads = threads(&[pid])?;
        let events = threads.iter().map(|thread| open(&attributes, Where::Thread(*thread)));
        Ok(Self { means: Means::Trap, events: events.collect::<io::Result<_>>()? })
    }

    /// The same by one means only, a breakpoint or a uprobe.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn by(means: Means, pids: &[u32], instruction: &Instruction) -> io::Result<Self> {
        Self::of_threads(means, &threads(pids)?, instruction)
    }

    fn of_threads(means: Means, threads: &[u32], instruction: &Instruction) -> io::Result<Self> {
        if means == Means::Breakpoint {
            return Self::in_threads(means, &Attributes::breakpoint(instruction.address), threads);
        }
        let path = CString::new(instruction.file.0.as_os_str().as_bytes())?;
        let attributes = Attributes::uprobe(uprobe_type()?, &path, instruction);
        let cpus = crate::cpu::numbers();
        let events =
            cpus.into_iter().map(|cpu| open(&attributes, Where::Cpu(cpu))).collect::<io::Result<_>>()?;
        Ok(Self { means, events })
    }

    /// Begins to count how many system calls called `name` the process `pid` completes.
    ///
    /// # Errors
    /// `NotFound` where the kernel has no such call or tracefs is not mounted, `PermissionDenied` where it may not be
    /// read, otherwise the kernel's error.
    pub fn system_call(pid: u32, name: &str) -> io::Result<Self> {
        let attributes = Attributes::tracepoint(tracepoint(&format!("syscalls/sys_exit_{name}"))?);
        Self::in_threads(Means::Tracepoint, &attributes, &threads(&[pid])?)
    }

    /// Threads that start while the list is read inherit an event or are missed; before `main` that is rare.
    fn in_threads(means: Means, attributes: &Attributes, threads: &[u32]) -> io::Result<Self> {
        let mut events = Vec::new();
        for &thread in threads {
            let opened = open(attributes, Where::Thread(thread)).or_else(|error| {
                // Linux before 5.13 does not know how to leave a program that replaces this one.
                if error.raw_os_error() != Some(libc::EINVAL) {
                    return Err(error);
                }
                let older = Attributes { flags: attributes.flags & !REMOVE_ON_EXEC, ..*attributes };
                open(&older, Where::Thread(thread))
            });
            match opened {
                Ok(event) => events.push(event),
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        if events.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(Self { means, events })
    }

    /// How it counts.
    #[must_use]
    pub fn means(&self) -> Means {
        self.means
    }

    /// Visits so far, in all threads together, ended ones included. Takes some microseconds per running thread.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.events.iter().map(|event| read(event).unwrap_or(0)).fold(0, u64::wrapping_add)
    }
}

/// What a visit costs by these means on this machine, measured on ourselves.
///
/// # Errors
/// Where they are not to be had: as for [`Counter::new`].
pub fn cost(means: Means) -> io::Result<Nanos> {
    let watch = move || {
        let instruction = in_ourselves().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Counter::of_threads(means, &[own_thread()], &instruction)
    };
    in_own_thread(watch, measured)
}

/// What a visit costs that raises a signal in the visiting thread ([`Counter::trap`]), besides what its handler does.
///
/// # Errors
/// As for [`Counter::trap`].
pub fn trap_cost() -> io::Result<Nanos> {
    let address = Address(visited as *const () as u64);
    in_own_thread(move || open(&Attributes::trap(address, 0), Where::Thread(own_thread())), measured)
}

/// How many times as long code takes while a breakpoint is armed at an instruction in the same [line](LINE), which it does not execute: 1
/// where breakpoints slow nothing down, 3.5 on some CPUs of AMD.
///
/// # Errors
/// As for [`Counter::new`].
pub fn slowdown_beside() -> io::Result<f64> {
    let Some(address) = beside::address() else { return Ok(1.0) };
    let attributes = Attributes::breakpoint(address);
    let watch = move || open(&attributes, Where::Thread(own_thread()));
    // By turns, so that both meet the same CPUs and the same neighbours; each the best of several.
    let (mut alone, mut watched) = (measured_beside(), Nanos(u64::MAX));
    for _ in 0..2 {
        watched = watched.min(in_own_thread(watch, measured_beside)?);
        alone = alone.min(measured_beside());
    }
    let factor = watched.0 as f64 / alone.0.max(1) as f64;
    // Less may be chance: the clocks of CPUs differ by as much.
    Ok(if factor < CERTAIN { 1.0 } else { factor })
}

/// A factor that no difference between CPUs explains.
const CERTAIN: f64 = 1.8;

/// Bytes of code that a CPU may execute more slowly because of a breakpoint among them.
pub const LINE: u64 = 64;

/// The time of a loop beside an instruction that is never executed.
fn measured_beside() -> Nanos {
    let once = || {
        let begin = clock::thread_cpu_time();
        beside::run(20_000);
        clock::thread_cpu_time().saturating_sub(begin)
    };
    // The best of a few: interruptions count as well.
    (0..5).map(|_| once()).fold(Nanos(u64::MAX), Nanos::min)
}

#[cfg(target_arch = "x86_64")]
mod beside {
    use wire::Address;

    /// Some rounds of a loop that is shorter than a line and begins with one; behind it are bytes that are never executed.
    // SAFETY: follows the C calling convention: it changes `rax`, `rcx`, `rdi` and flags alone, which belong to the callee, and returns.
    #[unsafe(naked)]
    extern "C" fn rounds(number: u64) {
        std::arch::naked_asm!(
            "jmp 2f",
            ".p2align 6, 0xcc",
            "2: mov rax, rdi",
            "shl rax, 13",
            "xor rax, rdi",
            "mov rcx, rax",
            "shr rcx, 7",
            "xor rax, rcx",
            "dec rdi",
            "jnz 2b",
            "ret",
            ".p2align 6, 0xcc",
        )
    }

    /// The last byte of the line that the loop is in.
    pub fn address() -> Option<Address> {
        // A short jump takes two bytes.
        let first = (rounds as *const () as u64 + 2).next_multiple_of(super::LINE);
        Some(Address(first + super::LINE - 1))
    }

    pub fn run(number: u64) {
        rounds(number.max(1));
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod beside {
    /// Lines are not known.
    pub fn address() -> Option<wire::Address> {
        None
    }

    pub fn run(_: u64) {}
}

/// What `measure` finds while what `watch` opens is open, in a thread of its own: the kernel takes 25 ms to remove a breakpoint, and nothing needs to wait for
/// that; and a program that is started meanwhile does not inherit it.
fn in_own_thread<T>(
    watch: impl FnOnce() -> io::Result<T> + Send + 'static,
    measure: fn() -> Nanos,
) -> io::Result<Nanos> {
    outlive_traps();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let watched = watch();
        let _ = tell.send(match &watched {
            Ok(_) => Ok(measure()),
            Err(error) => Err(error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error)),
        });
    })?;
    told.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// From here on `SIGTRAP` does nothing to us: some visits raise it on purpose, and under a hypervisor a breakpoint is seldom, but now and then, taken for the instruction `int1`, which would
/// end us.
fn outlive_traps() {
    extern "C" fn nothing(_: libc::c_int) {}
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: all zeros is a valid `sigaction`; the handler does nothing. What we execute does not inherit it.
    ONCE.call_once(|| unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
    });
}

/// The time of one visit: CPU time, for others may have the CPU meanwhile.
fn measured() -> Nanos {
    const VISITS: u64 = 500;
    let visits = || {
        let begin = clock::thread_cpu_time();
        for n in 0..VISITS {
            black_box(visited(n));
        }
        clock::thread_cpu_time().saturating_sub(begin)
    };
    // The best of a few: interruptions count as well.
    let best = (0..5).map(|_| visits()).fold(Nanos(u64::MAX), Nanos::min);
    Nanos(best.0 / VISITS)
}

#[inline(never)]
extern "C" fn visited(n: u64) -> u64 {
    black_box(n) + 1
}

/// An instruction that we execute ourselves.
fn in_ourselves() -> Option<Instruction> {
    let address = Address(visited as *const () as u64);
    let mapping =
        crate::maps(std::process::id()).ok()?.into_iter().find(|mapping| mapping.contains(address))?;
    let offset = mapping.offset_of(address)?;
    Some(Instruction { address, file: (mapping.path?, offset.0), guard: None })
}

/// The threads of these processes, of which the first must be there.
fn threads(pids: &[u32]) -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for (nth, pid) in pids.iter().enumerate() {
        let tasks = match std::fs::read_dir(format!("/proc/{pid}/task")) {
            Ok(tasks) => tasks,
            Err(error) if nth == 0 => return Err(error),
            Err(_) => continue,
        };
        threads.extend(tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()));
    }
    Ok(threads)
}

/// The number of the kernel's uprobe event source.
fn uprobe_type() -> io::Result<u32> {
    let text = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// The number of a tracepoint.
fn tracepoint(name: &str) -> io::Result<u64> {
    let read = |root: &str| std::fs::read_to_string(format!("{root}/events/{name}/id"));
    let text =
        read("/sys/kernel/tracing").or_else(|error| read("/sys/kernel/debug/tracing").map_err(|_| error))?;
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The test that holds it is the only one that makes visits: uprobes count the visits of all tests.
    fn only_visitor() -> MutexGuard<'static, ()> {
        static ONLY: Mutex<()> = Mutex::new(());
        ONLY.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_trap_does_not_end_the_process_that_measures() {
        let _only = only_visitor();
        let _ = cost(Means::Breakpoint); // it may be refused
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TRAP).unwrap();
    }

    fn counts_exactly(means: Means) {
        let counter = match Counter::by(means, &[std::process::id()], &in_ourselves().unwrap()) {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: {means:?} is not to be had here: {error}"),
        };
        assert_eq!(counter.means(), means);
        let before = counter.count();
        for n in 0..1000 {
            black_box(visited(n));
        }
        assert_eq!(counter.count() - before, 1000);
        // Threads that start later are watched, and count when they have ended.
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for n in 0..100 {
                        black_box(visited(n));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(counter.count() - before, 1400);
    }

    /// One after the other: both count visits to the same function.
    #[test]
    fn visits_are_counted_exactly() {
        let _only = only_visitor();
        counts_exactly(Means::Breakpoint);
        counts_exactly(Means::Uprobe);
    }

    #[test]
    fn a_visit_that_raises_a_signal_costs_something() {
        let _only = only_visitor();
        match (cost(Means::Breakpoint), trap_cost()) {
            (Ok(count), Ok(signal)) => {
                println!("{} and {} ns a visit", count.0, signal.0);
                assert_ne!(signal, Nanos::ZERO);
            }
            (count, signal) => println!("skipped: {count:?}, {signal:?}"),
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_instruction_beside_is_in_the_line_of_the_loop_and_is_not_executed() {
        let address = beside::address().unwrap();
        let instruction = Instruction { address, file: (PathBuf::new(), 0), guard: None };
        let counter = match Counter::of_threads(Means::Breakpoint, &[own_thread()], &instruction) {
            Ok(counter) => counter,
            Err(error) => return println!("skipped: there are no breakpoints ({error})"),
        };
        beside::run(1000);
        assert_eq!(counter.count(), 0);
        let first = address.0 / LINE * LINE;
        // SAFETY: 64 bytes of our own code.
        let line = unsafe { std::slice::from_raw_parts(first as *const u8, LINE as usize) };
        // It begins with the loop's first instruction, and ends with what fills the line up.
        assert_eq!((&line[..3], line[63]), (&[0x48, 0x89, 0xf8][..], 0xcc));
        assert!(slowdown_beside().unwrap() >= 1.0);
    }

    #[test]
    fn a_visit_costs_something() {
        let _only = only_visitor();
        for means in [Means::Breakpoint, Means::Uprobe] {
            match cost(means) {
                Ok(cost) => {
                    println!("{means:?}: {} ns a visit", cost.0);
                    assert_ne!(cost, Nanos::ZERO, "{means:?}");
                }
                Err(error) => eprintln!("skipped: {means:?} is not to be had here: {error}"),
            }
        }
    }

    #[test]
    fn system_calls_are_counted_when_they_are_complete() {
        let counter = match Counter::system_call(std::process::id(), "getppid") {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: no tracepoints here: {error}"),
        };
        let before = counter.count();
        for _ in 0..100 {
            // SAFETY: it only answers.
            unsafe { libc::getppid() };
        }
        assert_eq!(counter.count() - before, 100);
        assert!(Counter::system_call(std::process::id(), "no_such_call").is_err());
    }

    #[test]
    fn a_process_that_has_gone_is_said_to_have() {
        let gone = Counter::new(&[u32::MAX >> 2], &in_ourselves().unwrap()).unwrap_err();
        assert!(gone.kind() == io::ErrorKind::NotFound || gone.raw_os_error() == Some(libc::ESRCH), "{gone}");
    }
}
