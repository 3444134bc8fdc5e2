//! Executing: how much more CPU time programs of a tree, and threads, need to begin and to end because they are profiled.
//!
//! **Does:** count the programs that were executed, what asking for them and joining took, and what it took threads, as the runtime says it; and measure what the runtime cannot see of itself: that
//! it is loaded, and what it has mapped is taken away in the end. For that a program that does nothing is executed several times, by turns with and without the runtime, in a
//! memory of its own. **Does not:** judge what that does to gains (`profile/src/estimate/executing.rs`).
//!
//! Where the program is missing, or cannot be executed, only what the runtime says is known.

use crate::embedded;
use kernel::SharedMapping;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use wire::{Nanos, SharedMemory};

/// Before that many programs it is not worth while to find out what one costs.
const MANY: u32 = 20;
/// How often each program is executed to find out, and how often before, because the first ones find nothing in the caches.
const TIMES: usize = 11;
const WARM_UP: usize = 2;
/// Programs that do nothing.
const PROGRAMS: [&str; 2] = ["/bin/true", "/usr/bin/true"];

/// What was counted up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executed {
    programs: u32,
    joining: Nanos,
}

impl Executed {
    /// Up to now.
    pub fn now(memory: &SharedMemory) -> Self {
        let header = &memory.header;
        Self { programs: header.begun.load(Relaxed), joining: Nanos(header.joining.load(Relaxed)) }
    }

    /// The CPU time that programs and threads have needed more to begin and to end than without us since `before`, as far as it is known.
    pub fn cost_since(self, before: Self) -> Nanos {
        let programs = self.programs.wrapping_sub(before.programs);
        self.joining.saturating_sub(before.joining) + unseen(programs)
    }

    /// The same since the beginning.
    pub fn cost(self) -> Nanos {
        self.cost_since(Self::default())
    }

    /// How many programs there were.
    pub fn programs(self) -> u32 {
        self.programs
    }
}

/// The CPU time that the runtime costs each program, and cannot see itself; none until it has been measured, or where it cannot be.
static UNSEEN: OnceLock<Option<Nanos>> = OnceLock::new();

fn unseen(programs: u32) -> Nanos {
    let each = UNSEEN.get().copied().flatten().unwrap_or(Nanos::ZERO);
    Nanos(each.0.saturating_mul(programs.into()))
}

/// Measures what executing a program costs, once, as soon as that matters, and returns when that is known: after about 50 ms, most of which is CPU time. So not in a window.
pub fn prepare(memory: &SharedMemory) {
    // In a container the program would be that one's.
    if memory.header.begun.load(Relaxed) >= MANY && !kernel::name_spaces::is_inside() {
        UNSEEN.get_or_init(|| measure(memory));
    }
}

fn measure(memory: &SharedMemory) -> Option<Nanos> {
    let program = PROGRAMS.into_iter().map(Path::new).find(|program| program.is_file())?;
    let runtime = embedded::unpack().ok()?.path;
    let own = SharedMapping::create().ok()?;
    let header = &own.memory().header;
    // As the programs are sampled.
    header.sampling.store(memory.header.sampling.load(Relaxed), Relaxed);
    header.period.store(memory.header.period.load(Relaxed), Relaxed);
    header.short_run.store(memory.header.short_run.load(Relaxed), Relaxed);
    header.machine_cpus.store(memory.header.machine_cpus.load(Relaxed), Relaxed);
    header.controller.store(std::process::id(), Relaxed);
    header.offer(embedded::BUILD_ID);
    let mut costs = Vec::new();
    for time in 0..WARM_UP + TIMES {
        let without = run(program, None)?;
        let before = Executed::now(own.memory());
        let with = run(program, Some((&own, &runtime)))?;
        let after = Executed::now(own.memory());
        // One that has not joined costs something else.
        if after.programs == before.programs {
            return None;
        }
        let seen = after.joining.saturating_sub(before.joining);
        if time >= WARM_UP {
            costs.push(with.saturating_sub(without).saturating_sub(seen));
        }
    }
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied()
}

/// The CPU time of a program, from when it was forked.
fn run(program: &Path, with: Option<(&SharedMapping, &Path)>) -> Option<Nanos> {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_remove("LD_PRELOAD");
    if let Some((memory, runtime)) = with {
        // As one that another program has executed (`runtime/src/attach.rs`).
        let told = format!("{},0", memory.fd().as_raw_fd());
        command.env("LD_PRELOAD", runtime).env(wire::REGION_VARIABLE, told);
    }
    let mut child = {
        let _blocked = kernel::signals::AllBlocked::new();
        kernel::child::spawn(command, with.map(|(memory, _)| memory.fd())).ok()?
    };
    let pid = Pid::from_child(&child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
    // It has ended, and its times can still be read.
    let times = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()));
    child.wait().ok().filter(|status| status.success())?;
    times.ok()?.split(' ').next()?.parse().ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_executed_since_is_what_costs() {
        let at = |programs, joining| Executed { programs, joining: Nanos(joining) };
        // Nothing has been measured in this process.
        assert_eq!(at(7, 900).cost_since(at(5, 400)), Nanos(500));
        assert_eq!((at(7, 900).cost(), at(7, 900).programs()), (Nanos(900), 7));
    }

    #[test]
    fn the_program_joins_and_the_cost_is_found() {
        if !PROGRAMS.iter().any(|program| Path::new(program).is_file()) {
            return eprintln!("skipped: no program that does nothing is installed");
        }
        let memory = SharedMapping::create().unwrap();
        memory.memory().header.period.store(1_000_000, Relaxed);
        let cost = measure(memory.memory());
        assert!(cost.is_some_and(|cost| cost < Nanos(100_000_000)), "{cost:?}");
    }
}
