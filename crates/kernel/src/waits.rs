//! Where threads wait: each time that a thread is given a CPU again after it had none, sampled in proportion to how long that took.
//!
//! A program of ours runs at each switch from one thread to another (`tp_btf/sched_switch`). Of the thread that goes it keeps when that is; of the
//! thread that comes it knows how long it was away. With the period T, that becomes a record ([`Record::WaitEnds`](crate::stream::Record::WaitEnds)) always if it is T or more, and
//! otherwise with the probability (time / T): so each record of a short wait stands for T, and that of a long one for its own time, and sums
//! are right whatever the waits are.
//!
//! The stack of a process can only be read while it runs, which is when the thread goes, and nothing says then how long it will be away. So
//! it is copied ([`Record::WaitBegins`](crate::stream::Record::WaitBegins)) with the probability that the thread's waits had lately. That decides which waits have callers, and never how many there are.
//!
//! A second program (`tp_btf/sched_waking`) keeps who wakes a thread that waits. Threads of the kernel are left out.

use crate::bpf::{Code, Condition, Label, Map, MapKind, Operation, Program, Register};
use crate::btf::Types;
use crate::stack_reading::{
    CURRENT_TASK, KEY, SAVED_FRAME_POINTER, SAVED_INSTRUCTION, SMP_PROCESSOR_ID, TASK_REGISTERS, copy_stack,
    look_up, output, registers,
};
pub use crate::stream::WaitState as State;
use crate::stream::{
    BY_INTERRUPT, BY_THREAD, Cpu, FOR_DEVICE, KERNEL_FRAMES, MOST_COPIED, TASK_DEAD, WAIT_ENDS_BYTES,
    WAIT_HEADER,
};
use Operation::{Add, And, Multiply, Or, Set, ShiftRight, Subtract};
use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use wire::Nanos;

/// Threads that are followed at a time.
const THREADS: usize = 1 << 15;
/// Processes of which it is known how much of their stacks is copied.
const PROCESSES: usize = 1 << 13;
/// What is copied of the stack of a process of which nothing is known, in bytes.
pub const USUALLY: u32 = 4 << 10;
/// The longest period: the program multiplies it by a number of 32 bits.
pub const LONGEST_PERIOD: Nanos = Nanos(1 << 31);

/// Switched on for the whole machine.
#[derive(Debug)]
pub struct Waits {
    /// By thread.
    threads: Map,
    /// How many bytes of stacks are copied, by process.
    wanted: Map,
    /// How many stacks may still be copied, by CPU.
    allowance: Map,
    cpus: Vec<u32>,
    period: Map,
    problems: Map,
    /// The rest lives as long as this does.
    _programs: [Program; 2],
    _links: [OwnedFd; 2],
    _scratch: Map,
    _outputs: Map,
    _events: Vec<OwnedFd>,
}

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Since when.
    pub since: Nanos,
    /// In which state.
    pub state: State,
}

impl Waits {
    /// Begins, with this period.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` without `CAP_BPF` and `CAP_PERFMON`; or what it lacks (BTF, Linux 5.15).
    pub fn start(cpus: &mut [Cpu], period: Nanos) -> io::Result<Self> {
        crate::stack_copies::is_in_first_namespace()?;
        let types = Types::read()?;
        let most = cpus.iter().map(|cpu| cpu.number() as usize + 1).max().unwrap_or(1);
        let threads = Map::new(MapKind::Hash, 4, ENTRY as usize, THREADS)?;
        let scratch = Map::new(MapKind::Array, 4, (WAIT_HEADER as u32 + MOST_COPIED) as usize, most)?;
        let outputs = Map::new(MapKind::Events, 4, 4, most)?;
        let wanted = Map::new(MapKind::Recent, 4, 4, PROCESSES)?;
        let allowance = Map::new(MapKind::Array, 4, 8, most)?;
        let (period_map, problems) =
            (Map::new(MapKind::Array, 4, 8, 1)?, Map::new(MapKind::Array, 4, 16, 1)?);
        let mut events = Vec::new();
        for cpu in &mut *cpus {
            let output = cpu.open_wait_output()?;
            outputs.set(&cpu.number().to_ne_bytes(), &output.as_raw_fd().to_ne_bytes())?;
            events.push(output);
        }
        let (switch, arguments) = types.tracepoint("sched_switch")?;
        let (waking, _) = types.tracepoint("sched_waking")?;
        let fields = Fields::of(&types, arguments)?;
        let maps = Maps {
            threads: &threads,
            scratch: &scratch,
            outputs: &outputs,
            period: &period_map,
            problems: &problems,
            wanted: &wanted,
            allowance: &allowance,
        };
        let programs = [
            Program::load_for_tracepoint(&switched(&maps, &fields), switch)?,
            Program::load_for_tracepoint(&woken(&threads, &fields), waking)?,
        ];
        let [switched, woken] = &programs;
        let set = |period: Nanos| period_map.set(&[0; 4], &clipped(period).to_ne_bytes());
        set(period)?;
        let links = [woken.attach_to_tracepoint()?, switched.attach_to_tracepoint()?];
        Ok(Self {
            threads,
            wanted,
            allowance,
            cpus: cpus.iter().map(Cpu::number).collect(),
            period: period_map,
            problems,
            _programs: programs,
            _links: links,
            _scratch: scratch,
            _outputs: outputs,
            _events: events,
        })
    }

    /// Another period from now on, [`LONGEST_PERIOD`] at most.
    pub fn set_period(&self, period: Nanos) {
        let _ = self.period.set(&[0; 4], &clipped(period).to_ne_bytes());
    }

    /// Copies so many stacks on each CPU at most, until the next call. There are none before the first.
    pub fn allow(&self, stacks: u64) {
        for cpu in &self.cpus {
            let _ = self.allowance.set(&cpu.to_ne_bytes(), &stacks.to_ne_bytes());
        }
    }

    /// Copies this many bytes of the stacks of a process from now on, [`MOST_COPIED`] at most.
    pub fn want(&self, pid: u32, bytes: u32) {
        let _ = self.wanted.set(&pid.to_ne_bytes(), &bytes.min(MOST_COPIED).to_ne_bytes());
    }

    /// Says that a thread waits of which nothing is known, because it has done so all the time.
    pub fn add(&self, waiting: Waiting) {
        let Waiting { pid, tid, since, state } = waiting;
        let mut entry = [0_u8; ENTRY as usize];
        entry[SINCE as usize..][..8].copy_from_slice(&since.0.to_ne_bytes());
        entry[STATE as usize..][..4].copy_from_slice(&state.word().to_ne_bytes());
        entry[PROCESS as usize..][..4].copy_from_slice(&pid.to_ne_bytes());
        self.threads.add(&tid.to_ne_bytes(), &entry);
    }

    /// All threads that wait.
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        self.threads.entries(|key, value| {
            let word = |at: i16| Some(u64::from_ne_bytes(*value.get(at as usize..)?.first_chunk()?));
            let tid = key.first_chunk().map(|tid| u32::from_ne_bytes(*tid));
            if let (Some(tid), Some(since @ 1..), Some(state)) = (tid, word(SINCE), word(STATE)) {
                let (pid, state) = ((state >> 32) as u32, State::of(state as u32));
                waiting.push(Waiting { pid, tid, since: Nanos(since), state });
            }
        });
        waiting
    }

    /// Time of records that there was no room for, and how often a thread was left out because there are too many; since the beginning.
    #[must_use]
    pub fn problems(&self) -> (Nanos, u64) {
        let mut value = [0_u8; 16];
        self.problems.get(&[0; 4], &mut value);
        let word = |at: usize| u64::from_ne_bytes(*value[at..].first_chunk().unwrap_or(&[0; 8]));
        (Nanos(word(0)), word(8))
    }
}

fn clipped(period: Nanos) -> u64 {
    period.0.clamp(1, LONGEST_PERIOD.0)
}

// What is kept of a thread: since when it waits (zero if it runs), how long it is expected to wait, its state and
// process, who has woken it and when.
const SINCE: i16 = 0;
const EXPECTED: i16 = 8;
const STATE: i16 = 16;
const PROCESS: i16 = 20;
const WAKER: i16 = 24;
const WAKER_KIND: i16 = 28;
const WOKEN: i16 = 32;
const ENTRY: i16 = 40;

// In the value of `problems`.
const NO_ROOM: i16 = 0;
const TOO_MANY: i16 = 8;

/// What a thread is expected to wait of which nothing is known, as a part of the period: 1 / 2^this.
const FIRST_SHIFT: i32 = 2;
/// Longer waits say no more of the next one.
const LONG: i32 = 1 << 30;
/// Kernel threads, in `task_struct.flags`.
const PF_KTHREAD: i32 = 0x0020_0000;

/// Where things are in the kernel's structures.
struct Fields {
    pid: i16,
    tgid: i16,
    flags: i16,
    stack: i16,
    state: i16,
    /// The tracepoint says the state itself (Linux 5.18).
    has_state: bool,
    /// The word with the bit that says that a thread waits for a device, and the bit.
    device: (i16, i32),
}

impl Fields {
    fn of(types: &Types, arguments: u32) -> io::Result<Self> {
        let offset = |field| types.field("task_struct", field)?.offset();
        let device = types.field("task_struct", "in_iowait")?;
        let within = device.bit % 32;
        let device_word = i16::try_from((device.bit - within) / 8)
            .map_err(|_| io::Error::other("a field of the kernel's is too far away"))?;
        Ok(Self {
            pid: offset("pid")?,
            tgid: offset("tgid")?,
            flags: offset("flags")?,
            stack: offset("stack")?,
            // Linux 5.14 has renamed it.
            state: offset("__state").or_else(|_| offset("state"))?,
            has_state: arguments >= 4,
            device: (device_word, (1_u32 << within) as i32),
        })
    }
}

struct Maps<'a> {
    threads: &'a Map,
    scratch: &'a Map,
    outputs: &'a Map,
    period: &'a Map,
    problems: &'a Map,
    wanted: &'a Map,
    allowance: &'a Map,
}

// Functions of the kernel (bpf-helpers(7)).
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const TIME: i32 = 5;
const RANDOM: i32 = 7;
const CURRENT_TASK_ADDRESS: i32 = 35;
const STACK: i32 = 67;
const TASK_STACK: i32 = 141;

// On the program's own stack, behind what reading stacks takes.
const NOW: i16 = -48;
const WORD: i16 = -56;
const PERIOD: i16 = -72;
const LASTED: i16 = -80;
const ZERO: i16 = -88;
const ENTRY_COPY: i16 = -128;

const KERNEL_BYTES: i32 = 8 * KERNEL_FRAMES as i32;

/// Runs at each switch. Its registers: 6 what it was called with, 7 the thread (then its stack pointer), 8 the time (then how many bytes are wanted),
/// 9 what is known of the thread (then where the record is put).
fn switched<'a>(maps: &Maps<'a>, fields: &Fields) -> Code<'a> {
    let mut code = Code::new();
    let code = &mut code;
    let (comes, end) = (code.label(), code.label());
    code.register(Set, R6, R1);
    code.call(TIME);
    code.store(R10, NOW, R0);
    code.register(Set, R8, R0);
    goes(code, maps, fields, comes);
    code.here(comes);
    comes_back(code, maps, fields, end);
    code.here(end);
    code.number(Set, R0, 0);
    code.exit();
    std::mem::take(code)
}

/// The thread's number into [`KEY`]; to `end` if it is an idle CPU's or the kernel's.
fn key_of_thread(code: &mut Code<'_>, fields: &Fields, end: Label) {
    code.load_half(R1, R7, fields.pid);
    code.jump_if(R1, Condition::Equal, 0, end);
    code.store_half(R10, KEY, R1);
    code.load_half(R1, R7, fields.flags);
    code.jump_if(R1, Condition::Common, PF_KTHREAD, end);
}

/// Of the thread that goes.
fn goes<'a>(code: &mut Code<'a>, maps: &Maps<'a>, fields: &Fields, end: Label) {
    let (alive, waits, device, known, copying) =
        (code.label(), code.label(), code.label(), code.label(), code.label());
    code.load(R7, R6, 8);
    key_of_thread(code, fields, end);
    if fields.has_state {
        code.load(R1, R6, 24);
    } else {
        code.load_half(R1, R7, fields.state);
    }
    code.register(Set, R2, R1);
    code.number(And, R2, TASK_DEAD);
    code.jump_if(R2, Condition::Equal, 0, alive);
    code.map(R1, maps.threads);
    code.register(Set, R2, R10);
    code.number(Add, R2, KEY.into());
    code.call(MAP_DELETE);
    code.jump(end);
    code.here(alive);
    // It had to go, whatever it was about to do.
    code.load(R2, R6, 0);
    code.number(And, R2, 1);
    code.jump_if(R2, Condition::Equal, 0, waits);
    code.number(Set, R1, 0);
    code.here(waits);
    code.load_half(R2, R7, fields.device.0);
    code.number(And, R2, fields.device.1);
    code.jump_if(R2, Condition::Equal, 0, device);
    code.number(Or, R1, FOR_DEVICE as i32);
    code.here(device);
    code.store(R10, WORD, R1);
    look_up(code, maps.threads);
    code.jump_if(R0, Condition::NotEqual, 0, known);
    new_thread(code, maps, end);
    code.here(known);
    code.register(Set, R9, R0);
    code.store(R9, SINCE, R8);
    code.load(R1, R10, WORD);
    code.store_half(R9, STATE, R1);
    code.load_half(R1, R7, fields.tgid);
    code.store_half(R9, PROCESS, R1);
    code.number(Set, R1, 0);
    code.store(R9, WAKER, R1);
    code.store(R9, WOKEN, R1);
    // Whether its stack is copied.
    code.load(R9, R9, EXPECTED);
    look_up_first(code, maps.period, end);
    code.load(R1, R0, 0);
    code.jump_if_register(R9, Condition::AtLeast, R1, copying);
    random_below(code, R1);
    code.jump_if_register(R9, Condition::Above, R0, copying);
    code.jump(end);
    code.here(copying);
    copy(code, maps, fields, end);
}

/// Makes an entry for a thread that is seen for the first time, and leaves it in register 0.
fn new_thread<'a>(code: &mut Code<'a>, maps: &Maps<'a>, end: Label) {
    let made = code.label();
    look_up_first(code, maps.period, end);
    code.load(R2, R0, 0);
    code.number(ShiftRight, R2, FIRST_SHIFT);
    code.number(Set, R1, 0);
    for place in (0..ENTRY).step_by(8) {
        code.store(R10, ENTRY_COPY + place, if place == EXPECTED { R2 } else { R1 });
    }
    code.map(R1, maps.threads);
    code.register(Set, R2, R10);
    code.number(Add, R2, KEY.into());
    code.register(Set, R3, R10);
    code.number(Add, R3, ENTRY_COPY.into());
    code.number(Set, R4, 0);
    code.call(MAP_UPDATE);
    code.jump_if(R0, Condition::Equal, 0, made);
    look_up_first(code, maps.problems, end);
    code.number(Set, R1, 1);
    code.add_at(R0, TOO_MANY, R1);
    code.jump(end);
    code.here(made);
    look_up(code, maps.threads);
    code.jump_if(R0, Condition::Equal, 0, end);
}

/// A random number below register 1, which is of 32 bits, in register 0.
fn random_below(code: &mut Code<'_>, period: Register) {
    code.store(R10, PERIOD, period);
    code.call(RANDOM);
    code.load(R1, R10, PERIOD);
    code.register(Multiply, R0, R1);
    code.number(ShiftRight, R0, 32);
}

/// This CPU's place for records into register 9.
fn place<'a>(code: &mut Code<'a>, maps: &Maps<'a>, end: Label) {
    code.call(SMP_PROCESSOR_ID);
    code.store_half(R10, KEY, R0);
    look_up(code, maps.scratch);
    code.jump_if(R0, Condition::Equal, 0, end);
    code.register(Set, R9, R0);
}

/// Writes the length of the kernel's stack that is in register 0, or zero if there is none.
fn kernel_bytes(code: &mut Code<'_>, to: i16) {
    let (some, none) = (code.label(), code.label());
    code.jump_if(R0, Condition::Above, KERNEL_BYTES, none);
    code.jump(some);
    code.here(none);
    code.number(Set, R0, 0);
    code.here(some);
    code.store(R9, to, R0);
}

/// Copies the stack of the thread that goes, in register 7.
fn copy<'a>(code: &mut Code<'a>, maps: &Maps<'a>, fields: &Fields, end: Label) {
    let (no_stack, much) = (code.label(), code.label());
    code.load_half(R1, R7, fields.tgid);
    code.store(R10, WORD, R1);
    place(code, maps, end);
    // The ring must have room for everything else, whatever runs here until it is read.
    look_up(code, maps.allowance);
    code.jump_if(R0, Condition::Equal, 0, end);
    code.load(R1, R0, 0);
    code.jump_if(R1, Condition::Equal, 0, end);
    code.number(Subtract, R1, 1);
    code.store(R0, 0, R1);
    code.store(R9, 32, R8);
    code.register(Set, R1, R6);
    code.register(Set, R2, R9);
    code.number(Add, R2, 48);
    code.number(Set, R3, KERNEL_BYTES);
    code.number(Set, R4, 0);
    code.call(STACK);
    kernel_bytes(code, 40);
    code.number(Set, R1, 0);
    for place in [0, 8, 16, 24] {
        code.store(R9, place, R1);
    }
    code.register(Set, R1, R7);
    code.call(TASK_REGISTERS);
    registers(code, R0, no_stack);
    for (place, saved) in [(8, SAVED_INSTRUCTION), (16, SAVED_FRAME_POINTER)] {
        code.load(R1, R10, saved);
        code.store(R9, place, R1);
    }
    code.store(R9, 24, R7);
    code.number(Set, R8, USUALLY as i32);
    code.load(R1, R10, WORD);
    code.store_half(R10, KEY, R1);
    look_up(code, maps.wanted);
    code.jump_if(R0, Condition::Equal, 0, much);
    code.load_half(R8, R0, 0);
    code.here(much);
    copy_stack(code, WAIT_HEADER);
    code.here(no_stack);
    code.load_half(R5, R9, 0);
    code.jump_if(R5, Condition::Above, MOST_COPIED as i32, end);
    code.number(Add, R5, WAIT_HEADER);
    output(code, maps.outputs);
}

/// Of the thread that comes.
fn comes_back<'a>(code: &mut Code<'a>, maps: &Maps<'a>, fields: &Fields, end: Label) {
    let (short, counts, no_registers, written, whole) =
        (code.label(), code.label(), code.label(), code.label(), code.label());
    code.load(R7, R6, 16);
    key_of_thread(code, fields, end);
    look_up(code, maps.threads);
    code.jump_if(R0, Condition::Equal, 0, end);
    code.register(Set, R9, R0);
    code.load(R1, R9, SINCE);
    code.jump_if(R1, Condition::Equal, 0, end);
    code.load(R8, R10, NOW);
    code.jump_if_register(R1, Condition::Above, R8, end);
    code.store(R10, ENTRY_COPY, R1);
    code.number(Set, R2, 0);
    code.store(R9, SINCE, R2);
    code.register(Subtract, R8, R1);
    code.store(R10, LASTED, R8);
    // What is expected of the next one: a quarter of this one, and three of those before.
    code.register(Set, R2, R8);
    code.jump_if(R2, Condition::Above, LONG, short);
    let usual = code.label();
    code.jump(usual);
    code.here(short);
    code.number(Set, R2, LONG);
    code.here(usual);
    code.number(ShiftRight, R2, 2);
    code.load(R1, R9, EXPECTED);
    code.register(Set, R3, R1);
    code.number(ShiftRight, R3, 2);
    code.register(Subtract, R1, R3);
    code.register(Add, R1, R2);
    code.store(R9, EXPECTED, R1);
    look_up_first(code, maps.period, end);
    code.load(R1, R0, 0);
    code.store(R10, PERIOD, R1);
    code.jump_if_register(R8, Condition::AtLeast, R1, counts);
    random_below(code, R1);
    code.jump_if_register(R8, Condition::Above, R0, counts);
    code.jump(end);
    code.here(counts);
    for (from, to) in [(STATE, ENTRY_COPY + 8), (WAKER, ENTRY_COPY + 16), (WOKEN, ENTRY_COPY + 24)] {
        code.load(R1, R9, from);
        code.store(R10, to, R1);
    }
    place(code, maps, end);
    code.wide(R1, u64::MAX);
    code.store(R9, 0, R1);
    code.load_half(R1, R7, fields.pid);
    code.store_half(R9, 8, R1);
    code.load_half(R1, R7, fields.tgid);
    code.store_half(R9, 12, R1);
    for (from, to) in [
        (ENTRY_COPY, 16),
        (NOW, 24),
        (ENTRY_COPY + 8, 32),
        (ENTRY_COPY + 16, 40),
        (ENTRY_COPY + 24, 48),
        (PERIOD, 72),
    ] {
        code.load(R1, R10, from);
        code.store(R9, to, R1);
    }
    code.register(Set, R1, R7);
    code.register(Set, R2, R9);
    code.number(Add, R2, 88);
    code.number(Set, R3, KERNEL_BYTES);
    code.number(Set, R4, 0);
    code.call(TASK_STACK);
    kernel_bytes(code, 80);
    code.number(Set, R1, 0);
    code.store(R10, SAVED_INSTRUCTION, R1);
    code.register(Set, R1, R7);
    code.number(Set, R7, 0);
    code.call(TASK_REGISTERS);
    registers(code, R0, no_registers);
    code.here(no_registers);
    code.store(R9, 64, R7);
    code.load(R1, R10, SAVED_INSTRUCTION);
    code.store(R9, 56, R1);
    code.number(Set, R5, WAIT_ENDS_BYTES as i32);
    output(code, maps.outputs);
    // Less than zero.
    code.jump_if(R0, Condition::Equal, 0, written);
    look_up_first(code, maps.problems, end);
    code.load(R1, R10, LASTED);
    code.load(R2, R10, PERIOD);
    code.jump_if_register(R1, Condition::AtLeast, R2, whole);
    code.register(Set, R1, R2);
    code.here(whole);
    code.add_at(R0, NO_ROOM, R1);
    code.here(written);
}

/// Runs whenever a thread is woken. Its registers: 6 what it was called with, 7 the thread, 8 the one that runs, 9 what is known of the thread.
fn woken<'a>(threads: &'a Map, fields: &Fields) -> Code<'a> {
    let mut code = Code::new();
    let (end, by_interrupt, in_system_call, done) = (code.label(), code.label(), code.label(), code.label());
    code.register(Set, R6, R1);
    code.load(R7, R6, 0);
    key_of_thread(&mut code, fields, end);
    look_up(&mut code, threads);
    code.jump_if(R0, Condition::Equal, 0, end);
    code.register(Set, R9, R0);
    code.load(R1, R9, SINCE);
    code.jump_if(R1, Condition::Equal, 0, end);
    // The first one has woken it.
    code.load_half(R1, R9, WAKER_KIND);
    code.jump_if(R1, Condition::NotEqual, 0, end);
    code.call(TIME);
    code.store(R9, WOKEN, R0);
    code.call(CURRENT_TASK);
    code.register(Set, R8, R0);
    code.load_half(R1, R8, fields.pid);
    code.jump_if(R1, Condition::Equal, 0, by_interrupt);
    // Interrupts of the kernel's code have a stack of their own.
    const STACK_BYTES: i32 = 1 << 14;
    code.call(CURRENT_TASK_ADDRESS);
    code.register(Set, R7, R0);
    code.load(R1, R8, fields.stack);
    code.register(Subtract, R7, R1);
    code.register(Set, R1, R6);
    code.register(Subtract, R1, R8);
    code.register(Add, R7, R1);
    code.jump_if(R7, Condition::AtLeast, STACK_BYTES, by_interrupt);
    // Those of a process's code use the thread's, which then says that no system call was made.
    const SYSTEM_CALL: i16 = 120;
    code.register(Set, R1, R8);
    code.call(TASK_REGISTERS);
    code.load(R1, R0, SYSTEM_CALL);
    code.jump_if(R1, Condition::NotEqual, -1, in_system_call);
    code.here(by_interrupt);
    code.number(Set, R1, BY_INTERRUPT);
    code.store_half(R9, WAKER_KIND, R1);
    code.jump(done);
    code.here(in_system_call);
    code.load_half(R1, R8, fields.tgid);
    code.store_half(R9, WAKER, R1);
    code.number(Set, R1, BY_THREAD);
    code.store_half(R9, WAKER_KIND, R1);
    code.here(done);
    code.here(end);
    code.number(Set, R0, 0);
    code.exit();
    code
}

/// The first value of an array, in register 0; [`KEY`] is kept.
fn look_up_first<'a>(code: &mut Code<'a>, map: &'a Map, end: Label) {
    code.number(Set, R1, 0);
    code.store(R10, ZERO, R1);
    code.map(R1, map);
    code.register(Set, R2, R10);
    code.number(Add, R2, ZERO.into());
    code.call(crate::stack_reading::MAP_LOOKUP);
    code.jump_if(R0, Condition::Equal, 0, end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Record, Scope, Setup, WaitEnds};
    use crate::until::until;
    use std::time::Duration;

    #[test]
    fn waits_are_written_with_their_length_and_their_stack() {
        let setup = Setup { stacks: true, copies: false, kernel: true, ring_bytes: 1 << 20 };
        let open = |number| Cpu::open(number, &Scope::Machine, setup);
        let mut cpus: Vec<Cpu> = match crate::cpu::numbers().into_iter().map(open).collect() {
            Ok(cpus) => cpus,
            Err(error) => return eprintln!("skipped: CPUs cannot be sampled here: {error}"),
        };
        let waits = match Waits::start(&mut cpus, Nanos(1_000_000)) {
            Ok(waits) => waits,
            Err(error) => return eprintln!("skipped: BPF is not to be had here: {error}"),
        };
        // From the second one on, it is known that it will be long: then its beginning is written as well.
        let (go_on, told) = std::sync::mpsc::channel::<()>();
        let (say, said) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            say.send(crate::stream::own_thread()).unwrap();
            told.into_iter().for_each(|()| std::thread::sleep(Duration::from_millis(20)));
        });
        let tid = said.recv().unwrap();
        let (mut began, mut ended) = (Vec::new(), Vec::new());
        until(|| {
            waits.allow(1000);
            go_on.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            for cpu in &mut cpus {
                let ring = cpu.ring();
                ring.refresh();
                while let Some(record) = ring.record() {
                    match record {
                        Record::WaitBegins { tid: of, since, stack, kernel, .. } if of == tid => {
                            assert!(stack.instruction > 0 && stack.stack_pointer > 0, "{stack:x?}");
                            assert!(kernel.addresses().count() > 2, "{kernel:x?}");
                            assert!(stack.bytes.len() > 100, "{}", stack.bytes.len());
                            began.push((since, stack.instruction));
                        }
                        Record::WaitEnds(WaitEnds {
                            tid: of,
                            since,
                            until,
                            state,
                            woken,
                            user,
                            kernel,
                            ..
                        }) if of == tid && until.0 - since.0 >= 20_000_000 => {
                            assert!(kernel.addresses().next().is_some());
                            ended.push((since, user.0, state, woken));
                        }
                        _ => {}
                    }
                    ring.next();
                }
                ring.release();
            }
            let slept = ended.iter().filter(|(_, _, state, _)| *state == State::Interruptible);
            let both =
                ended.iter().filter(|(since, instruction, ..)| began.contains(&(*since, *instruction)));
            slept.filter(|(.., woken)| woken.is_some()).count() >= 5 && both.count() >= 4
        });
        drop(go_on);
        sleeper.join().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            send.send(crate::stream::own_thread()).unwrap();
            std::thread::park();
        });
        let tid = receive.recv().unwrap();
        let waits_now = || waits.waiting().iter().any(|waiting| waiting.tid == tid);
        until(waits_now);
        waiter.thread().unpark();
        waiter.join().unwrap();
        // The kernel may take a moment to be done with it.
        until(|| !waits_now());
    }
}
