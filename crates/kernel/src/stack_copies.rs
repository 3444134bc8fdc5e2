//! Copies of the top of sampled stacks, so that callers can be found where there are no frame pointers.
//!
//! A program of ours runs in the kernel before each sample (`bpf`), looks up how much of this process's stack is wanted, and writes that into the
//! same ring, in front of the sample. Nothing is copied of a process that needs none, and no more than it needs of the others.
//! `PERF_SAMPLE_STACK_USER` would copy as much of all of them.

use crate::bpf::{Code, Condition, Map, MapKind, Operation, Program, Register};
use crate::python_frames::{self, Interpreter};
use crate::stack_reading::{
    CODE_SEGMENT, CURRENT_PID_TGID, CURRENT_TASK, KEY, SAVED_FRAME_POINTER, SAVED_INSTRUCTION,
    SMP_PROCESSOR_ID, TASK_REGISTERS, copy_stack, look_up, output, registers,
};
use crate::stream::{Cpu, MOST_COPIED, USUALLY_COPIED};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Processes that something else than the usual can be said of.
const PROCESSES: usize = 1 << 16;
/// In front of the bytes: how many they are and which pages are not there (see [`copy_stack`]), instruction, frame pointer, stack pointer.
const HEADER: i32 = 32;

/// Switched on for all events of some CPUs.
#[derive(Debug)]
pub struct StackCopies {
    /// How many bytes are wanted, by process.
    wanted: Map,
    /// Whose interpreters' frames are read as well, if the kernel lets it.
    interpreters: Option<python_frames::Maps>,
    program: Program,
    /// The rings that copies are written into, by CPU, and the events that those belong to.
    outputs: Map,
    attached: Vec<(u32, OwnedFd)>,
    /// It lives as long as the program does.
    _scratch: Map,
}

impl StackCopies {
    /// Copies stacks before each sample of all events that these CPUs have, from now on.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` without `CAP_BPF` and `CAP_PERFMON`, `EINVAL` or `EACCES` where the kernel lacks what the program
    /// uses (before 5.15, or without BTF). Then nothing is copied.
    pub fn start(cpus: &mut [Cpu]) -> io::Result<Self> {
        let mut copies = Self::load(cpus, PROCESSES)?;
        copies.attach(cpus)?;
        Ok(copies)
    }

    /// For a measurement of what they cost, which [attaches](Self::attach) them now and then: loading takes longer than that.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn to_measure(cpus: &[Cpu]) -> io::Result<Self> {
        Self::load(cpus, 1)
    }

    /// Nothing is copied yet. For this many processes something else than the usual can be said.
    fn load(cpus: &[Cpu], processes: usize) -> io::Result<Self> {
        is_in_first_namespace()?;
        let most = cpus.iter().map(|cpu| cpu.number() as usize + 1).max().unwrap_or(1);
        let wanted = Map::new(MapKind::Hash, 4, 4, processes)?;
        let scratch = Map::new(MapKind::Array, 4, (HEADER as u32 + MOST_COPIED) as usize, most)?;
        let outputs = Map::new(MapKind::Events, 4, 4, most)?;
        let mut interpreters = python_frames::Maps::new(most, processes).ok();
        let with =
            interpreters.as_ref().map(|maps| Program::load(&copy(&wanted, &scratch, &outputs, Some(maps))));
        let program = match with {
            Some(Ok(program)) => program,
            // A kernel that does not understand loops, or a function that they call.
            _ => {
                interpreters = None;
                Program::load(&copy(&wanted, &scratch, &outputs, None))?
            }
        };
        Ok(Self { wanted, interpreters, program, outputs, attached: Vec::new(), _scratch: scratch })
    }

    /// Copies stacks before each sample of all events that these CPUs have, until those are closed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn attach(&mut self, cpus: &mut [Cpu]) -> io::Result<()> {
        for cpu in &mut *cpus {
            let output = cpu.open_output()?;
            self.outputs.set(&cpu.number().to_ne_bytes(), &output.as_raw_fd().to_ne_bytes())?;
            self.attached.push((cpu.number(), output));
        }
        cpus.iter().flat_map(Cpu::sampling).try_for_each(|event| self.program.attach(event))
    }

    /// Gives the rings back.
    pub fn detach(&mut self) {
        for (cpu, _) in self.attached.drain(..) {
            self.outputs.remove(&cpu.to_ne_bytes());
        }
    }

    /// Copies this many bytes of the stack of a process from now on, [`MOST_COPIED`] at most; nothing: as many as of one that is not known.
    /// If there is no room to remember it, [`USUALLY_COPIED`].
    pub fn want(&self, pid: u32, bytes: Option<u32>) {
        match bytes {
            Some(bytes) => drop(self.wanted.set(&pid.to_ne_bytes(), &bytes.min(MOST_COPIED).to_ne_bytes())),
            None => self.wanted.remove(&pid.to_ne_bytes()),
        }
    }

    /// Whether the frames of interpreters can be read.
    #[must_use]
    pub fn reads_interpreters(&self) -> bool {
        self.interpreters.is_some()
    }

    /// Reads the frames of a process's interpreter from now on, or no longer.
    pub fn follow(&self, pid: u32, interpreter: Option<&Interpreter>) {
        if let Some(maps) = &self.interpreters {
            maps.follow(pid, interpreter);
        }
    }
}

/// Programs know processes by their numbers in the first namespace, and records say those of our own.
pub(crate) fn is_in_first_namespace() -> io::Result<()> {
    const FIRST: &str = "pid:[4026531836]";
    match std::fs::read_link("/proc/self/ns/pid")?.as_os_str() == FIRST {
        true => Ok(()),
        false => Err(io::Error::other("processes have other numbers in this PID namespace")),
    }
}

/// The program. Its registers: 6 the sample, 7 the stack pointer, 8 how many bytes are wanted, 9 where they are put.
fn copy<'a>(
    wanted: &'a Map,
    scratch: &'a Map,
    outputs: &'a Map,
    interpreters: Option<&'a python_frames::Maps>,
) -> Code<'a> {
    use Operation::{Add, And, Set, ShiftRight};
    use Register::{R0, R1, R5, R6, R7, R8, R9, R10};
    let mut code = Code::new();
    let (end, known, in_kernel, copying) = (code.label(), code.label(), code.label(), code.label());
    code.register(Set, R6, R1);
    code.call(CURRENT_PID_TGID);
    code.number(ShiftRight, R0, 32);
    code.jump_if(R0, Condition::Equal, 0, end);
    code.store_half(R10, KEY, R0);
    look_up(&mut code, wanted);
    code.number(Set, R8, USUALLY_COPIED as i32);
    code.jump_if(R0, Condition::Equal, 0, known);
    code.load_half(R8, R0, 0);
    code.here(known);
    code.jump_if(R8, Condition::Equal, 0, end);
    if let Some(maps) = interpreters {
        python_frames::write(&mut code, maps, outputs);
    }
    // The registers are those of the interrupted code, which may be the kernel's.
    code.load(R1, R6, CODE_SEGMENT);
    code.number(And, R1, 3);
    code.jump_if(R1, Condition::Equal, 0, in_kernel);
    registers(&mut code, R6, end);
    code.jump(copying);
    code.here(in_kernel);
    code.call(CURRENT_TASK);
    code.register(Set, R1, R0);
    code.call(TASK_REGISTERS);
    registers(&mut code, R0, end);
    code.here(copying);
    code.call(SMP_PROCESSOR_ID);
    code.store_half(R10, KEY, R0);
    look_up(&mut code, scratch);
    code.jump_if(R0, Condition::Equal, 0, end);
    code.register(Set, R9, R0);
    for (place, saved) in [(8, SAVED_INSTRUCTION), (16, SAVED_FRAME_POINTER)] {
        code.load(R1, R10, saved);
        code.store(R9, place, R1);
    }
    code.store(R9, 24, R7);
    copy_stack(&mut code, HEADER);
    code.load_half(R5, R9, 0);
    code.jump_if(R5, Condition::Equal, 0, end);
    code.jump_if(R5, Condition::Above, MOST_COPIED as i32, end);
    code.number(Add, R5, HEADER);
    output(&mut code, outputs);
    code.here(end);
    // The sample itself is written in any case.
    code.number(Set, R0, 1);
    code.exit();
    code
}
