//! The frames of Python's interpreter, read when a sample is taken: a moment later the process has gone on.
//!
//! Instructions for the program of [`stack_copies`](crate::stack_copies), which runs in the kernel before each sample. For processes that it
//! was told of, they look for the thread among those of the interpreter, follow its frames, and write them into the ring in front of
//! the copy of the stack. They read memory of the sampled process only, and at most [`MOST_FRAMES`] frames of it and
//! [`MOST_THREADS`] threads: what lies there is whatever the process has put there.

use crate::bpf::{Code, Condition, Label, Map, MapKind, Operation, Register};
use std::io;

/// Frames that are read of a stack.
pub const MOST_FRAMES: usize = 512;
/// Threads and interpreters that are looked at for one.
pub const MOST_THREADS: usize = 256;
/// Processes whose frames are read.
pub const MOST_PROCESSES: usize = 1 << 12;

/// Where an interpreter has its frames: addresses in its process, and distances in bytes.
///
/// What these are called in CPython is `_PyRuntimeState`, `PyInterpreterState`, `PyThreadState`, `_PyCFrame` and `_PyInterpreterFrame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Where the first interpreter's address is.
    pub head: u64,
    /// In an interpreter: where the address of the next one is.
    pub next: u64,
    /// In an interpreter: where the address of its first thread is.
    pub threads: u64,
    /// In a thread: where the address of the next one is.
    pub next_thread: u64,
    /// In a thread: where its number is (gettid(2), in its own PID namespace).
    pub number: u64,
    /// In a thread: where the address of its innermost frame is.
    pub frame: u64,
    /// The thread has the address of a structure on the C stack instead, with the address of the frame here.
    pub indirect: Option<u64>,
    /// In a frame: where the address of its code is; below 72.
    pub code: u64,
    /// In a frame: where the address of its caller's frame is; below 72.
    pub previous: u64,
    /// The PID namespace of the process: device and inode (`/proc/PID/ns/pid`).
    pub namespace: (u64, u64),
}

/// What the program knows of an interpreter, in its map.
const WORDS: usize = 12;
const HEAD: i16 = 0;
const NEXT: i16 = 8;
const THREADS: i16 = 16;
const NEXT_THREAD: i16 = 24;
const NUMBER: i16 = 32;
const FRAME: i16 = 40;
const IS_INDIRECT: i16 = 48;
const INDIRECT: i16 = 56;
const CODE: i16 = 64;
const PREVIOUS: i16 = 72;
const DEVICE: i16 = 80;
const INODE: i16 = 88;

impl Interpreter {
    fn words(&self) -> [u64; WORDS] {
        let Self { head, next, threads, next_thread, number, frame, indirect, code, previous, namespace } =
            *self;
        let (is_indirect, indirect) = (indirect.is_some().into(), indirect.unwrap_or(0));
        let (device, inode) = namespace;
        [
            head,
            next,
            threads,
            next_thread,
            number,
            frame,
            is_indirect,
            indirect,
            code,
            previous,
            device,
            inode,
        ]
    }
}

/// A frame of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpreterFrame {
    /// Where it is.
    pub address: u64,
    /// Where its code is.
    pub code: u64,
    /// What the interpreter knows of it: the eight bytes at 64.
    pub flags: u64,
}

/// Why no more frames follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramesEnd {
    /// There are none.
    Outermost,
    /// No more are read.
    Deep,
    /// There is no memory there.
    Unreadable,
    /// The interpreter does not know the thread.
    NoThread,
}

/// The frames of a thread, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpreterFrames<'a> {
    /// See [`Interpreter::indirect`]: that structure, or the innermost frame.
    pub first: u64,
    /// Why no more follow.
    pub end: FramesEnd,
    bytes: &'a [u8],
}

impl<'a> InterpreterFrames<'a> {
    /// Frames that have just been read: for tests, in which there is no kernel.
    #[must_use]
    pub fn of(first: u64, end: FramesEnd, bytes: &'a [u8]) -> Self {
        Self { first, end, bytes }
    }

    /// All frames.
    pub fn iter(&self) -> impl Iterator<Item = InterpreterFrame> + 'a {
        let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(std::array::from_fn(|nth| bytes[at + nth]));
        self.bytes.chunks_exact(A_FRAME as usize).map(move |bytes| InterpreterFrame {
            address: word(bytes, 0),
            code: word(bytes, 8),
            flags: word(bytes, 16),
        })
    }

    /// What the program has written; nothing if it is a copy of a stack.
    pub(crate) fn parse(raw: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?));
        if word(0)? & MARK == 0 {
            return None;
        }
        let length = usize::try_from(word(0)? & !MARK).ok()?;
        let end = match word(16)? {
            0 => FramesEnd::Outermost,
            1 => FramesEnd::Deep,
            2 => FramesEnd::Unreadable,
            _ => FramesEnd::NoThread,
        };
        Some(Self { first: word(8)?, end, bytes: raw.get(HEADER as usize..)?.get(..length)? })
    }
}

/// In the place where a copy of a stack has its length.
const MARK: u64 = 1 << 63;
/// In front of the frames: mark and length, [`InterpreterFrames::first`], and why they end.
const HEADER: i16 = 24;
const A_FRAME: i16 = 24;
const FRAMES: i32 = MOST_FRAMES as i32 * A_FRAME as i32;
/// What is read of a frame, and where it is put.
const READ: i32 = 72;
const BUFFER: i32 = HEADER as i32 + FRAMES;
const FLAGS: i16 = 64;

/// The maps that the instructions need.
#[derive(Debug)]
pub(crate) struct Maps {
    interpreters: Map,
    scratch: Map,
}

impl Maps {
    /// For CPUs whose numbers are below `cpus`, and at most this many processes.
    pub(crate) fn new(cpus: usize, processes: usize) -> io::Result<Self> {
        let interpreters = Map::new(MapKind::Hash, 4, WORDS * 8, processes.min(MOST_PROCESSES))?;
        let scratch = Map::new(MapKind::Array, 4, (BUFFER + READ) as usize, cpus)?;
        Ok(Self { interpreters, scratch })
    }

    /// Reads the frames of a process from now on, or no longer. If there is no room for it, they are not read.
    pub(crate) fn follow(&self, pid: u32, interpreter: Option<&Interpreter>) {
        match interpreter {
            Some(interpreter) => {
                let bytes: Vec<u8> = interpreter.words().iter().flat_map(|word| word.to_ne_bytes()).collect();
                let _ = self.interpreters.set(&pid.to_ne_bytes(), &bytes);
            }
            None => self.interpreters.remove(&pid.to_ne_bytes()),
        }
    }
}

// Functions of the kernel (bpf-helpers(7)).
const MAP_LOOKUP: i32 = 1;
const SMP_PROCESSOR_ID: i32 = 8;
const PERF_EVENT_OUTPUT: i32 = 25;
const PROBE_READ_USER: i32 = 112;
const NAMESPACE_PID_TGID: i32 = 120;

// On the program's own stack, below what the copy of the stack has there.
const KEY: i16 = -4;
const SAVED: i16 = -48;
const THREAD_NUMBER: i16 = -56;
const FIRST: i16 = -64;
const THREAD: i16 = -72;
const NEXT_ONE: i16 = -80;
const WORD: i16 = -88;
const END: i16 = -96;

/// Writes the frames of the thread into the ring, if its process is one of those. Registers: 6 is the sample, 8 is left as it is; the number of
/// the process is in [`KEY`].
pub(crate) fn write<'a>(code: &mut Code<'a>, maps: &'a Maps, outputs: &'a Map) {
    use Condition::{AtLeast, Equal, NotEqual};
    use Operation::{Add, Set, Subtract};
    use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
    let (done, next, thread, found, output) =
        (code.label(), code.label(), code.label(), code.label(), code.label());
    let (frames, direct, missing, unreadable) = (code.label(), code.label(), code.label(), code.label());
    code.store(R10, SAVED, R8);
    look_up(code, &maps.interpreters);
    code.jump_if(R0, Equal, 0, done);
    code.register(Set, R7, R0);
    // The interpreter calls threads by their numbers in the namespace of the process.
    code.load(R1, R7, DEVICE);
    code.load(R2, R7, INODE);
    code.register(Set, R3, R10);
    code.number(Add, R3, THREAD_NUMBER.into());
    code.number(Set, R4, 8);
    code.call(NAMESPACE_PID_TGID);
    code.jump_if(R0, NotEqual, 0, done);
    code.load_half(R1, R10, THREAD_NUMBER);
    code.store(R10, THREAD_NUMBER, R1);
    code.call(SMP_PROCESSOR_ID);
    code.store_half(R10, KEY, R0);
    look_up(code, &maps.scratch);
    code.jump_if(R0, Equal, 0, done);
    code.register(Set, R8, R0);
    code.number(Set, R1, 0);
    for place in [FIRST, THREAD] {
        code.store(R10, place, R1);
    }
    code.load(R3, R7, HEAD);
    read_word(code, NEXT_ONE, missing);
    code.number(Set, R9, MOST_THREADS as i32);
    // The threads of one interpreter after the other.
    code.here(next);
    code.jump_if(R9, Equal, 0, missing);
    code.number(Subtract, R9, 1);
    code.load(R3, R10, THREAD);
    code.jump_if(R3, NotEqual, 0, thread);
    code.load(R3, R10, NEXT_ONE);
    code.jump_if(R3, Equal, 0, missing);
    add_distance(code, THREADS);
    read_word(code, THREAD, missing);
    code.load(R3, R10, NEXT_ONE);
    add_distance(code, NEXT);
    read_word(code, NEXT_ONE, missing);
    code.jump(next);
    code.here(thread);
    add_distance(code, NUMBER);
    read_word(code, WORD, missing);
    code.load(R1, R10, WORD);
    code.load(R2, R10, THREAD_NUMBER);
    code.jump_if_register(R1, Equal, R2, found);
    code.load(R3, R10, THREAD);
    add_distance(code, NEXT_THREAD);
    read_word(code, THREAD, missing);
    code.jump(next);
    // Its innermost frame.
    code.here(found);
    code.number(Set, R9, 0);
    code.load(R3, R10, THREAD);
    add_distance(code, FRAME);
    read_word(code, FIRST, unreadable);
    code.load(R3, R10, FIRST);
    code.store(R10, THREAD, R3);
    code.load(R1, R7, IS_INDIRECT);
    code.jump_if(R1, Equal, 0, direct);
    code.jump_if(R3, Equal, 0, direct);
    add_distance(code, INDIRECT);
    read_word(code, THREAD, unreadable);
    code.here(direct);
    // Register 9 is where the next frame is put.
    code.here(frames);
    say_end(code, FramesEnd::Outermost);
    code.load(R3, R10, THREAD);
    code.jump_if(R3, Equal, 0, output);
    say_end(code, FramesEnd::Deep);
    code.jump_if(R9, AtLeast, FRAMES, output);
    code.register(Set, R1, R8);
    code.number(Add, R1, BUFFER);
    code.number(Set, R2, READ);
    code.call(PROBE_READ_USER);
    code.jump_if(R0, NotEqual, 0, unreadable);
    code.register(Set, R4, R8);
    code.register(Add, R4, R9);
    code.load(R1, R10, THREAD);
    code.store(R4, HEADER, R1);
    field(code, CODE, unreadable);
    code.store(R4, HEADER + 8, R1);
    code.register(Set, R2, R8);
    code.number(Add, R2, BUFFER);
    code.load(R1, R2, FLAGS);
    code.store(R4, HEADER + 16, R1);
    field(code, PREVIOUS, unreadable);
    code.store(R10, THREAD, R1);
    code.number(Add, R9, A_FRAME.into());
    code.jump(frames);
    code.here(missing);
    code.number(Set, R9, 0);
    say_end(code, FramesEnd::NoThread);
    code.jump(output);
    code.here(unreadable);
    say_end(code, FramesEnd::Unreadable);
    code.here(output);
    code.wide(R1, MARK);
    code.register(Add, R1, R9);
    code.store(R8, 0, R1);
    for (place, saved) in [(8, FIRST), (16, END)] {
        code.load(R1, R10, saved);
        code.store(R8, place, R1);
    }
    code.register(Set, R5, R9);
    code.number(Add, R5, HEADER.into());
    code.register(Set, R1, R6);
    code.map(R2, outputs);
    /// `BPF_F_CURRENT_CPU`
    const THIS_CPU: u64 = 0xffff_ffff;
    code.wide(R3, THIS_CPU);
    code.register(Set, R4, R8);
    code.call(PERF_EVENT_OUTPUT);
    code.here(done);
    // So that the kernel need not check what follows for each number of frames.
    code.number(Set, R7, 0);
    code.number(Set, R9, 0);
    code.load(R8, R10, SAVED);
}

/// The value in a map of what was put into [`KEY`], or zero.
fn look_up<'a>(code: &mut Code<'a>, map: &'a Map) {
    code.map(Register::R1, map);
    code.register(Operation::Set, Register::R2, Register::R10);
    code.number(Operation::Add, Register::R2, KEY.into());
    code.call(MAP_LOOKUP);
}

/// Adds one of the interpreter's distances to the address in register 3.
fn add_distance(code: &mut Code<'_>, distance: i16) {
    code.load(Register::R1, Register::R7, distance);
    code.register(Operation::Add, Register::R3, Register::R1);
}

/// Reads the process's word at the address in register 3 into a place of the stack.
fn read_word(code: &mut Code<'_>, place: i16, failed: Label) {
    code.register(Operation::Set, Register::R1, Register::R10);
    code.number(Operation::Add, Register::R1, place.into());
    code.number(Operation::Set, Register::R2, 8);
    code.call(PROBE_READ_USER);
    code.jump_if(Register::R0, Condition::NotEqual, 0, failed);
}

/// The word of the frame that was read last, at one of the interpreter's distances, in register 1.
fn field(code: &mut Code<'_>, distance: i16, failed: Label) {
    use Register::{R1, R2, R7, R8};
    code.load(R1, R7, distance);
    code.jump_if(R1, Condition::Above, READ - 8, failed);
    code.register(Operation::Set, R2, R8);
    code.register(Operation::Add, R2, R1);
    code.number(Operation::Add, R2, BUFFER);
    code.load(R1, R2, 0);
}

fn say_end(code: &mut Code<'_>, end: FramesEnd) {
    code.number(Operation::Set, Register::R1, end as i32);
    code.store(Register::R10, END, Register::R1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_from_copies_of_stacks() {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let raw = bytes(&[MARK | 48, 7, 1, 10, 11, 12, 20, 21, 22, 99]);
        let frames = InterpreterFrames::parse(&raw).unwrap();
        assert_eq!((frames.first, frames.end), (7, FramesEnd::Deep));
        let all: Vec<_> = frames.iter().map(|frame| (frame.address, frame.code, frame.flags)).collect();
        assert_eq!(all, [(10, 11, 12), (20, 21, 22)]);
        assert_eq!(InterpreterFrames::parse(&bytes(&[48, 7, 1, 10])), None);
        assert_eq!(
            InterpreterFrames::parse(&bytes(&[MARK | 48, 7, 1, 10])),
            None,
            "it is longer than what is there"
        );
        assert_eq!(InterpreterFrames::parse(&bytes(&[MARK])), None);
    }
}
