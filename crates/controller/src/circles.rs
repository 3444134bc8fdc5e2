//! Which code only waits: circles through a `pause`, found by decoding the code that samples fall into.
//!
//! **Does:** read the code around a sampled address, decode it, find the shortest way from that instruction back to itself, and
//! publish it to the runtime if it runs through a `pause`. **Does not:** decide whether a thread spins; the runtime does, in its
//! signal handler. **Constraints:** a sampled address is the first byte of an instruction, and so is what a jump leads to; nothing
//! else is, so the code in front of an address is only decoded where a jump leads back to it.
//!
//! A lock's slow path is often inlined beside its fast path and the work under the lock, so that all three lie in one loop.
//! An instruction belongs to a circle only if the shortest way around leads through the `pause`, and the `pause` has no shorter
//! way around without the instruction.

use crate::ranges::joined;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use wire::SharedMemory;

/// How far from a sampled address code is looked at, in bytes.
const NEAR: u64 = 256;
/// The most instructions of a circle.
const LONGEST: usize = 48;
/// The most instructions from a `pause` to the end of a function that does nothing else, both included.
const EPILOGUE: usize = 5;
/// Addresses that are remembered as looked at.
const REMEMBERED: usize = 1 << 16;
/// The two bytes of `pause`. Without them there is nothing to decode.
const PAUSE: [u8; 2] = [0xf3, 0x90];

/// The circles of the program, as far as samples have fallen into them.
#[derive(Debug)]
pub struct Circles {
    memory: &'static SharedMemory,
    looked_at: HashSet<u64>,
    /// Where an instruction of a circle begins and ends, and whether it is the `pause` or the one behind it.
    instructions: BTreeMap<u64, (u64, bool)>,
    /// The code of the process that was looked at last.
    code: Option<(u32, File)>,
    /// The file that was looked at last.
    file: Option<(PathBuf, File)>,
    unpublished: bool,
}

impl Circles {
    /// Without any, for the program that `memory` is shared with.
    pub fn new(memory: &'static SharedMemory) -> Self {
        let (looked_at, instructions) = (HashSet::new(), BTreeMap::new());
        Self { memory, looked_at, instructions, code: None, file: None, unpublished: false }
    }

    /// Looks at the code around an address that a thread was sampled at; `source` says where it can be read. Code that cannot be read has no
    /// circles: the runtime then only takes a thread for spinning that gets nowhere from one sample to the next.
    pub fn look_at(&mut self, address: u64, source: impl FnOnce() -> Option<Source>) {
        if self.looked_at.contains(&address) {
            return;
        }
        if self.looked_at.len() >= REMEMBERED {
            self.looked_at.clear();
        }
        self.looked_at.insert(address);
        let bytes = match source() {
            Some(Source::Process(pid)) => self.read(pid, address),
            Some(Source::File(path, offset)) => self.read_file(path, offset, address),
            None => None,
        };
        let Some((start, bytes)) = bytes else { return };
        if memchr::memmem::find(&bytes, &PAUSE).is_some() {
            for instruction in circle(&bytes, start, address) {
                self.instructions.insert(instruction.start, (instruction.end, instruction.pauses));
                self.unpublished = true;
            }
        }
    }

    /// The code there has gone, or other code has come there.
    pub fn forget(&mut self, gone: &Range<u64>) {
        self.looked_at.retain(|address| !gone.contains(address));
        // Another file may have its name.
        self.file = None;
        let before = self.instructions.len();
        self.instructions.retain(|address, _| !gone.contains(address));
        self.unpublished |= self.instructions.len() != before;
    }

    /// Tells the runtime, if there is anything new.
    pub fn publish(&mut self) {
        if std::mem::take(&mut self.unpublished) {
            let ranges = |wanted: fn(bool) -> bool| {
                let of_kind = self.instructions.iter().filter(move |(_, (_, pauses))| wanted(*pauses));
                joined(of_kind.map(|(start, (end, _))| *start..*end))
            };
            self.memory.circles.publish(&ranges(|_| true), &ranges(|pauses| pauses));
        }
    }

    /// The bytes around `address`, and where they begin.
    fn read(&mut self, pid: u32, address: u64) -> Option<(u64, Vec<u8>)> {
        const PAGE: u64 = 4096;
        if self.code.as_ref().is_none_or(|(of, _)| *of != pid) {
            self.code = Some((pid, File::open(format!("/proc/{pid}/mem")).ok()?));
        }
        let (_, file) = self.code.as_ref()?;
        let mut bytes = vec![0; 2 * NEAR as usize];
        // The page in front may not be mapped.
        for start in [address.saturating_sub(NEAR), address.saturating_sub(NEAR).max(address & !(PAGE - 1))] {
            if let Ok(read) = file.read_at(&mut bytes, start)
                && read as u64 > address - start
            {
                bytes.truncate(read);
                return Some((start, bytes));
            }
        }
        self.code = None;
        None
    }

    /// The bytes around what is at `offset` in a file, and where they begin if that is at `address`.
    fn read_file(&mut self, path: PathBuf, offset: u64, address: u64) -> Option<(u64, Vec<u8>)> {
        if self.file.as_ref().is_none_or(|(of, _)| *of != path) {
            let file = File::open(&path).ok()?;
            self.file = Some((path, file));
        }
        let (_, file) = self.file.as_ref()?;
        let before = NEAR.min(offset);
        let mut bytes = vec![0; 2 * NEAR as usize];
        let read = file.read_at(&mut bytes, offset - before).ok()?;
        bytes.truncate(read);
        Some((address - before, bytes)).filter(|_| read as u64 > before)
    }
}

/// Where code can be read.
#[derive(Debug)]
pub enum Source {
    /// In the memory of this process.
    Process(u32),
    /// In this file, so many bytes from its beginning.
    File(PathBuf, u64),
}

/// An instruction of a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    start: u64,
    end: u64,
    /// Whether it is the `pause`, or the one that is executed behind it.
    pauses: bool,
}

/// A decoded instruction, as far as it matters where it leads.
#[derive(Clone, Copy, Debug)]
struct Step {
    end: u64,
    pause: bool,
    /// Whether it is the end of a function.
    returns: bool,
    /// Whether it calls a function.
    calls: bool,
    /// The next one, unless it always jumps.
    next: Option<u64>,
    /// Where it may jump to.
    target: Option<u64>,
}

/// The circle through a `pause` that the instruction at `address` belongs to; nothing if it belongs to none. `bytes` is the code
/// from `start` on.
fn circle(bytes: &[u8], start: u64, address: u64) -> Vec<Instruction> {
    let code = Disassembly { bytes, start };
    let alone = code.pauses_and_returns(address);
    if !alone.is_empty() {
        return alone;
    }
    let Some(around) = code.shortest(address) else { return Vec::new() };
    let Some(pause) = around.iter().copied().find(|at| code.step(*at).is_some_and(|step| step.pause)) else {
        return Vec::new();
    };
    let Some(circle) = code.shortest(pause).filter(|circle| circle.contains(&address)) else {
        return Vec::new();
    };
    let behind = circle.get(1).copied().unwrap_or(pause);
    let instruction = |at: &u64| {
        let end = code.step(*at).map_or(*at + 1, |step| step.end);
        Instruction { start: *at, end, pauses: *at == pause || *at == behind }
    };
    circle.iter().map(instruction).collect()
}

/// Code that is decoded where something leads to it.
struct Disassembly<'a> {
    bytes: &'a [u8],
    start: u64,
}

impl Disassembly<'_> {
    /// The instruction at `address`, if it can be decoded and something is known to be executed behind it.
    fn step(&self, address: u64) -> Option<Step> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let decoded = Decoder::with_ip(64, rest, address, DecoderOptions::NONE).decode();
        if decoded.is_invalid() {
            return None;
        }
        let end = decoded.next_ip();
        let (next, target) = match decoded.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => (Some(end), None),
            FlowControl::UnconditionalBranch => (None, Some(decoded.near_branch_target())),
            FlowControl::ConditionalBranch => (Some(end), Some(decoded.near_branch_target())),
            _ => (None, None),
        };
        let flow = decoded.flow_control();
        let (returns, calls) =
            (flow == FlowControl::Return, matches!(flow, FlowControl::Call | FlowControl::IndirectCall));
        Some(Step { end, pause: decoded.code() == Code::Pause, returns, calls, next, target })
    }

    /// The `pause` at `address` and what is executed behind it, if the function returns then: the circle is in a caller, which may know it
    /// by a pointer only.
    fn pauses_and_returns(&self, address: u64) -> Vec<Instruction> {
        let Some(pause) = self.step(address).filter(|step| step.pause) else { return Vec::new() };
        let mut found = vec![Instruction { start: address, end: pause.end, pauses: true }];
        let mut next = pause.next;
        while let Some((at, step)) = next.and_then(|at| Some((at, self.step(at)?)))
            && step.target.is_none()
            && !step.calls
            && found.len() < EPILOGUE
        {
            found.push(Instruction { start: at, end: step.end, pauses: true });
            if step.returns {
                return found;
            }
            next = step.next;
        }
        Vec::new()
    }

    /// The shortest way from the instruction at `from` back to it, in the order of execution; `None` if there is none of at most
    /// [`LONGEST`] instructions in these bytes.
    fn shortest(&self, from: u64) -> Option<Vec<u64>> {
        let mut came_from: HashMap<u64, u64> = HashMap::new();
        let mut reached = BTreeSet::from([from]);
        let mut open = VecDeque::from([(from, 1)]);
        while let Some((at, length)) = open.pop_front() {
            let Some(step) = self.step(at) else { continue };
            for to in [step.next, step.target].into_iter().flatten() {
                if to == from {
                    let mut way = vec![at];
                    while let Some(before) = came_from.get(&way[way.len() - 1]) {
                        way.push(*before);
                    }
                    way.reverse();
                    return Some(way);
                }
                if length < LONGEST && reached.insert(to) {
                    came_from.insert(to, at);
                    open.push_back((to, length + 1));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x40_1000;

    /// Where circles are found, of all instructions that linear decoding finds.
    fn in_circles(code: &[u8]) -> Vec<u64> {
        let mut decoder = Decoder::with_ip(64, code, BASE, DecoderOptions::NONE);
        let mut found = Vec::new();
        while decoder.can_decode() {
            let at = decoder.decode().ip();
            if !circle(code, BASE, at).is_empty() {
                found.push(at - BASE);
            }
        }
        found
    }

    #[test]
    fn a_loop_around_a_pause_is_a_circle_with_all_its_instructions() {
        // 1: pause; mov (%rdi),%eax; test %eax,%eax; jne 1b; ret
        let code = [0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x75, 0xf8, 0xc3];
        assert_eq!(in_circles(&code), [0, 2, 4, 6]);
        let found = circle(&code, BASE, BASE + 6);
        let pauses: Vec<u64> = found.iter().filter(|at| at.pauses).map(|at| at.start - BASE).collect();
        assert_eq!(pauses, [0, 2]);
    }

    #[test]
    fn the_bytes_of_a_pause_inside_other_instructions_are_none() {
        // 1: add $1,%rax (4 bytes) …; jne -13; nop: the bytes f3 90.
        let code = [0x48, 0x83, 0xc0, 0x01, 0x48, 0x31, 0xc3, 0x48, 0xff, 0xc9, 0x90, 0x75, 0xf3, 0x90, 0xc3];
        assert!(memchr::memmem::find(&code, &PAUSE).is_some());
        assert_eq!(in_circles(&code), [0_u64; 0]);
        // mov $0x90f390f3,%eax in a loop.
        let code = [0xb8, 0xf3, 0x90, 0xf3, 0x90, 0xff, 0xc9, 0x75, 0xf7, 0xc3];
        assert_eq!(in_circles(&code), [0_u64; 0]);
    }

    #[test]
    fn work_beside_the_slow_path_of_a_lock_is_no_circle() {
        #[rustfmt::skip]
        let code = [
            // top (0):  mov $1,%eax;  xchg %eax,(%rdi);  test %eax,%eax;  jne slow
            0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0,
            // work (11): three multiplications;  movl $0,(%rdi);  dec %rcx;  jne top;  ret
            0x48, 0x0f, 0xaf, 0xd2, 0x48, 0x0f, 0xaf, 0xd2,
            0xc7, 0x07, 0, 0, 0, 0, 0x48, 0xff, 0xc9,
            0x75, 0xe2,
            0xc3,
        ];
        // slow, which the first jump leads to:
        let mut code = code.to_vec();
        let slow = code.len() as u64;
        code[10] = (slow - 11) as u8;
        // pause;  mov (%rdi),%eax;  test %eax,%eax;  jne slow;  jmp top
        code.extend([0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x75, 0xf8, 0xeb, 0]);
        let last = code.len() - 1;
        code[last] = (code.len() as i64).wrapping_neg() as u8;
        assert_eq!(in_circles(&code), [slow, slow + 2, slow + 4, slow + 6]);
    }

    #[test]
    fn a_function_that_only_pauses_is_part_of_a_circle_in_its_caller() {
        // pause; pop %rbp; ret
        let code = [0xf3, 0x90, 0x5d, 0xc3];
        let found = circle(&code, BASE, BASE);
        assert_eq!(
            found.iter().map(|at| (at.start - BASE, at.pauses)).collect::<Vec<_>>(),
            [(0, true), (2, true), (3, true)]
        );
        assert_eq!(circle(&code, BASE, BASE + 2), [], "the bytes in front may be something else");
        // pause; call …; ret, and pause; ud2
        assert_eq!(circle(&[0xf3, 0x90, 0xe8, 0, 0, 0, 0, 0xc3], BASE, BASE), []);
        assert_eq!(circle(&[0xf3, 0x90, 0x0f, 0x0b], BASE, BASE), []);
    }

    #[test]
    fn code_that_is_damaged_or_ends_is_no_circle() {
        assert_eq!(circle(&PAUSE, BASE, BASE), []);
        assert_eq!(circle(&PAUSE, BASE, BASE + 40), []);
        assert_eq!(circle(&[0xf3, 0x90, 0x06, 0xeb, 0xfb], BASE, BASE), []);
        assert_eq!(circle(&[], BASE, BASE), []);
    }

    /// Loops that end in `dec %ecx; jne`, of so many bytes, with every padding that compilers put behind a jump, at several
    /// alignments, as assembler text.
    fn loops() -> String {
        // Instructions that compute, of one to four bytes, none of which stands for itself as padding.
        const FILLING: [&str; 4] =
            [".byte 0x53", ".byte 0x01, 0xd8", ".byte 0x48, 0x01, 0xd8", ".byte 0x48, 0x0f, 0xaf, 0xd8"];
        const PADDING: [&str; 14] = [
            "nop",
            "nop; nop",
            ".byte 0x66, 0x90",
            ".byte 0x0f, 0x1f, 0x00",
            ".byte 0x0f, 0x1f, 0x40, 0x00",
            ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
            ".byte 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00",
            ".byte 0x0f, 0x1f, 0x80, 0, 0, 0, 0",
            ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
            ".byte 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
            "int3",
            "xchg %ax, %ax",
            ".p2align 4",
            ".p2align 5, 0xcc",
        ];
        let mut text = String::from(".text\n");
        for length in 4..=40_usize {
            for padding in PADDING {
                for alignment in [0, 1, 3, 7, 15] {
                    text.push_str(&format!(".p2align 5\n.skip {alignment}, 0x90\n1:\n"));
                    let mut left = length - 4;
                    while left > 0 {
                        let part = left.min(1 + (length + left) % 4);
                        text.push_str(&format!("{}\n", FILLING[part - 1]));
                        left -= part;
                    }
                    text.push_str(&format!("dec %ecx\njne 1b\n{padding}\nret\n"));
                }
            }
        }
        text
    }

    #[test]
    fn no_loop_that_computes_is_a_circle_whatever_pads_it() {
        let folder = tempfile::tempdir().unwrap();
        let (source, binary) = (folder.path().join("loops.s"), folder.path().join("loops.o"));
        std::fs::write(&source, loops()).unwrap();
        match std::process::Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&binary).output() {
            Err(error) => return eprintln!("skipped: cc cannot be started: {error}"),
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        }
        use object::{Object as _, ObjectSection as _};
        let file = std::fs::read(&binary).unwrap();
        let object = object::File::parse(&*file).unwrap();
        let code = object.section_by_name(".text").unwrap().data().unwrap();
        let pauses = memchr::memmem::find_iter(code, &PAUSE).count();
        assert!(pauses > 4, "some of them have the bytes of a pause: {pauses}");
        let mut decoder = Decoder::with_ip(64, code, BASE, DecoderOptions::NONE);
        while decoder.can_decode() {
            let at = decoder.decode().ip();
            let first = (at - BASE).saturating_sub(NEAR) as usize;
            let last = ((at - BASE + NEAR) as usize).min(code.len());
            assert_eq!(circle(&code[first..last], BASE + first as u64, at), [], "{:#x}", at - BASE);
        }
    }
}
