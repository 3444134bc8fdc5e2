//! What is in a record.

use super::wait::{self, WaitEnds};
use crate::maps::FileId;
use crate::python_frames::InterpreterFrames;
use wire::{Address, Nanos};

const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALLCHAIN: u64 = 1 << 5;
const RAW: u64 = 1 << 10;
const REGISTERS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;

/// Frame pointer, stack pointer and instruction, in this order (`perf_regs.h` of x86).
pub(super) const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// The words of a sample, in this order, and of the end of every other record.
pub(super) fn sample_type(stacks: bool, copies: bool) -> u64 {
    let callers = if stacks { CALLCHAIN } else { 0 };
    IDENTIFIER | IP | TID | TIME | callers | if copies { REGISTERS_USER | STACK_USER } else { 0 }
}

/// The same of a record in front of a sample that has a copy of its stack.
pub(super) fn stack_type() -> u64 {
    IDENTIFIER | IP | TID | TIME | RAW
}

const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const KSYMBOL: u32 = 17;

const KSYMBOL_UNREGISTER: u16 = 1 << 0;

const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_BUILD_ID: u16 = 1 << 14;

/// The code of a process and its stack, when a sample was taken of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The instruction that it executed, or that called the kernel.
    pub instruction: u64,
    /// The frame pointer, if the program uses it as one.
    pub frame_pointer: u64,
    /// The stack pointer.
    pub stack_pointer: u64,
    /// What lies at the stack pointer, as far as it was copied.
    pub bytes: &'a [u8],
    /// Pages of it that were not there, and are zeros here: a bit for each, from the one that the stack pointer is in.
    pub missing: u32,
}

impl UserStack<'_> {
    /// The word at an address, if it was copied.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let at = address.checked_sub(self.stack_pointer)?;
        let word = u64::from_ne_bytes(*self.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?);
        let is_missing = |at: u64| {
            let page = (self.stack_pointer % PAGE + at) / PAGE;
            self.missing.checked_shr(page as u32).is_some_and(|pages| pages & 1 != 0)
        };
        (!is_missing(at) && !is_missing(at + 7)).then_some(word)
    }
}

/// Frames of the kernel's stack, as a program has written them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStack<'a>(pub(super) &'a [u8]);

impl KernelStack<'_> {
    /// From the inside outwards.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

/// Most that is copied of a stack, in bytes: no record is longer than 64 KB.
pub const MOST_COPIED: u32 = 14 << 12;
/// What is copied of the stack of a process of which nothing is known, in bytes.
pub const USUALLY_COPIED: u32 = 8 << 10;

/// What samples of a ring consist of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub stacks: bool,
    pub copies: bool,
    /// By which the kernel calls the event of [`stack_type`], if there is one.
    pub output: Option<u64>,
    /// The same of waits.
    pub waits: Option<u64>,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// The stack of the sample that this CPU takes next.
    Stack {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Its stack.
        stack: UserStack<'a>,
    },
    /// The frames of the interpreter that runs the sample that this CPU takes next.
    Interpreter {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Its frames.
        frames: InterpreterFrames<'a>,
    },
    /// A thread has been switched away from, perhaps for long, and this is its stack.
    WaitBegins {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// When.
        since: Nanos,
        /// The kernel's frames.
        kernel: KernelStack<'a>,
        /// Its own; no bytes and zeros if that could not be copied.
        stack: UserStack<'a>,
    },
    /// A thread has been switched to again, and this wait counts.
    WaitEnds(WaitEnds<'a>),
    /// A process maps code.
    Map {
        /// The process.
        pid: u32,
        /// The first address.
        start: Address,
        /// How many bytes.
        length: u64,
        /// Where in the file `start` lies.
        offset: u64,
        /// Up to 20 bytes, where the kernel has it at hand.
        build_id: &'a [u8],
        /// Which file it is, where there is no build ID; inode zero where that is not reported.
        file: FileId,
        /// The file, as the process sees it, or a name in brackets; `//anon` for memory of no file.
        path: &'a [u8],
    },
    /// A thread has another name.
    Name {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// Because the process executes another program, which has mapped nothing yet.
        executes: bool,
        /// The name.
        name: &'a [u8],
    },
    /// A thread or a process starts.
    Fork {
        /// The process of the thread that starts.
        pid: u32,
        /// The process that started it: the same if it is a thread.
        parent: u32,
        /// The thread that starts, and the thread that started it.
        threads: (u32, u32),
    },
    /// A thread ends.
    Exit {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// The kernel has generated code (a BPF program, a trampoline), or does without it from now on.
    KernelCode {
        /// The first address.
        start: Address,
        /// How many bytes.
        length: u32,
        /// Its name, as in `/proc/kallsyms`.
        name: &'a [u8],
        /// It is there no more.
        gone: bool,
    },
    /// There was no room for this many records (of any kind).
    Lost {
        /// How many.
        records: u64,
    },
    /// The kernel takes no samples until its next tick, for there were more in this one than it allows
    /// (`kernel.perf_event_max_sample_rate`, which it lowers itself when they take too long).
    Throttled {
        /// Which descriptor took too many; see [`Cpu::ids`](super::Cpu::ids).
        id: u64,
    },
    /// Something else.
    Other,
}

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Which descriptor took it; see [`Cpu::ids`](super::Cpu::ids).
    pub id: u64,
    /// The instruction.
    pub address: Address,
    /// The process; zero for that of idle CPUs, `u32::MAX` for one that has ended.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The addresses of the callers, from the instruction outwards, after marks that say whose code follows; empty where
    /// none were asked for.
    pub callchain: &'a [u64],
    /// The process's stack, if it was copied with the sample ([`Setup::copies`](super::Setup::copies)).
    pub stack: Option<UserStack<'a>>,
}

impl Sample<'_> {
    /// In [`callchain`](Self::callchain): the kernel's code follows.
    pub const KERNEL: u64 = -128_i64 as u64;
    /// In [`callchain`](Self::callchain): the process's own code follows.
    pub const USER: u64 = -512_i64 as u64;
    /// This and everything above it is a mark.
    pub const MARKS: u64 = -4095_i64 as u64;
}

/// The time of a record, and what it is. `words` are all of it, its header included.
pub(super) fn time(words: &[u64]) -> Nanos {
    let place = match kind(words[0]) {
        SAMPLE => 4,
        // Behind the name, which fills whole words and ends with a zero, and the thread. The record may be longer than what was written of it: for
        // each further event that hears of the same symbol the kernel adds the length of its end again (`perf_event_ksymbol_output`, 6.18).
        KSYMBOL => {
            let has_zero = |word: &u64| word.to_ne_bytes().contains(&0);
            5 + words.iter().skip(3).position(has_zero).unwrap_or(words.len())
        }
        // Before the identifier.
        _ => words.len().saturating_sub(2),
    };
    Nanos(words.get(place).copied().unwrap_or(0))
}

fn kind(header: u64) -> u32 {
    header as u32
}

/// What the words say; a record that is shorter than it should be is [`Record::Other`].
pub(super) fn parse<'a>(layout: Layout, words: &'a [u64], bytes: &'a [u8]) -> Record<'a> {
    let misc = (words[0] >> 32) as u16;
    let parsed = match kind(words[0]) {
        SAMPLE if layout.output == words.get(1).copied() => stack(words, bytes),
        SAMPLE if layout.waits == words.get(1).copied() => wait::parse(words, bytes),
        SAMPLE => sample(layout, words, bytes).map(Record::Sample),
        kind => read(kind, misc, words, bytes),
    };
    parsed.unwrap_or(Record::Other)
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The words that the kernel has counted in front of them, and how many words of `words` that makes together.
fn counted(words: &[u64]) -> Option<(&[u64], usize)> {
    let (&length, rest) = words.split_first()?;
    let length = usize::try_from(length).ok()?;
    Some((rest.get(..length)?, 1 + length))
}

fn sample<'a>(layout: Layout, words: &'a [u64], bytes: &'a [u8]) -> Option<Sample<'a>> {
    let head: &[u64; 5] = words.first_chunk()?;
    let mut at = head.len();
    let callchain = match layout.stacks {
        true => {
            let (callchain, taken) = counted(&words[at..])?;
            at += taken;
            callchain
        }
        false => &[],
    };
    let (id, address) = (head[1], Address(head[2]));
    let stack = layout.copies.then(|| copied(at, words, bytes)).flatten();
    Some(Sample { id, address, pid: low(head[3]), tid: high(head[3]), callchain, stack })
}

/// The registers and the stack that were copied with a sample: from the word `at` on.
fn copied<'a>(at: usize, words: &'a [u64], bytes: &'a [u8]) -> Option<UserStack<'a>> {
    const ABI_64: u64 = 2;
    let (&ABI_64, rest) = words.get(at..)?.split_first()? else { return None };
    let &[frame_pointer, stack_pointer, instruction, length] = rest.first_chunk()?;
    let length = usize::try_from(length).ok()?;
    // How many of them were really there comes last.
    let rest = bytes.get((at + 5) * 8..)?;
    let filled = usize::try_from(u64::from_ne_bytes(*rest.get(length..)?.first_chunk()?)).ok()?;
    let bytes = rest.get(..filled.min(length))?;
    Some(UserStack { instruction, frame_pointer, stack_pointer, bytes, missing: 0 })
}

/// What our own program has written in front of a sample: see [`crate::stack_copies`].
fn stack<'a>(words: &[u64], bytes: &'a [u8]) -> Option<Record<'a>> {
    let head: &[u64; 5] = words.first_chunk()?;
    // A length of 32 bits comes first.
    let raw = bytes.get(size_of_val(head) + 4..)?;
    if let Some(frames) = InterpreterFrames::parse(raw) {
        return Some(Record::Interpreter { pid: low(head[3]), tid: high(head[3]), frames });
    }
    let stack = written(raw, 32)?;
    Some(Record::Stack { pid: low(head[3]), tid: high(head[3]), stack })
}

/// A stack as our own programs write it, whose bytes begin at `at`: see [`crate::stack_reading`].
pub(super) fn written(raw: &[u8], at: usize) -> Option<UserStack<'_>> {
    let word = |at: usize| Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?));
    let bytes = raw.get(at..)?.get(..low(word(0)?) as usize)?;
    let (missing, instruction, frame_pointer, stack_pointer) =
        (high(word(0)?), word(8)?, word(16)?, word(24)?);
    Some(UserStack { instruction, frame_pointer, stack_pointer, bytes, missing })
}

fn read<'a>(kind: u32, misc: u16, words: &'a [u64], bytes: &'a [u8]) -> Option<Record<'a>> {
    Some(match kind {
        MMAP2 | MMAP => {
            let head: &[u64; 5] = words.first_chunk()?;
            let (build_id, file, name): (&[u8], _, usize) = match (kind, misc & MISC_BUILD_ID != 0) {
                (MMAP2, true) => {
                    let length = usize::from(*bytes.get(40)?).min(20);
                    (bytes.get(44..44 + length)?, FileId::default(), 72)
                }
                (MMAP2, false) => {
                    let device = *words.get(5)?;
                    (&[], FileId { device: (low(device), high(device)), inode: *words.get(6)? }, 72)
                }
                _ => (&[], FileId::default(), 40),
            };
            Record::Map {
                pid: low(head[1]),
                start: Address(head[2]),
                length: head[3],
                offset: head[4],
                build_id,
                file,
                path: text(bytes.get(name..)?),
            }
        }
        COMM => Record::Name {
            pid: low(*words.get(1)?),
            tid: high(words[1]),
            executes: misc & MISC_COMM_EXEC != 0,
            name: text(bytes.get(16..)?),
        },
        FORK => Record::Fork {
            pid: low(*words.get(1)?),
            parent: high(words[1]),
            threads: (low(*words.get(2)?), high(words[2])),
        },
        EXIT => Record::Exit { pid: low(*words.get(1)?), tid: low(*words.get(2)?) },
        KSYMBOL => Record::KernelCode {
            start: Address(*words.get(1)?),
            length: low(*words.get(2)?),
            name: text(bytes.get(24..)?),
            gone: (words[2] >> 48) as u16 & KSYMBOL_UNREGISTER != 0,
        },
        LOST => Record::Lost { records: *words.get(2)? },
        // Time, then the identifier.
        THROTTLE => Record::Throttled { id: *words.get(2)? },
        _ => Record::Other,
    })
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}
