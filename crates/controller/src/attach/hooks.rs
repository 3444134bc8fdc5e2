//! Entry hooks: functions of a program that lead elsewhere where they begin.
//!
//! A jump is written over the first instructions of a function, which lead on to the rest of it from another place: that is the original from then on. Each function
//! has a cell near the program, because the jump does not reach far:
//!
//! | offset | what is there |
//! |---|---|
//! | 0 | a jump to the runtime's function, which may be anywhere |
//! | 16 | the first instructions, and a jump to the one behind them |
//!
//! Where a function only announces that it is called (Go's scheduler), its cell is
//!
//! | offset | what is there |
//! |---|---|
//! | 0 | 32 in `r12`, the function's number in `r13`, and a jump to the runtime |
//! | 32 | the first instructions, and a jump to the one behind them |
//!
//! Where a program makes its system calls by itself (Go), the jump is written over the `syscall` instruction and what comes behind it:
//!
//! | offset | what is there |
//! |---|---|
//! | 0 | to 54, if the call creates a process or a thread, which may go on with another stack, or does not return; otherwise a jump to the runtime, with 56 as the place to go on at |
//! | 54 | the system call |
//! | 56 | the instructions behind it, and a jump to the one behind them |
//!
//! The cells stay where they are when the hooks are taken away, because threads may be in them.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock,
};
use std::ops::Range;

/// How much room a cell takes.
pub const CELL: u64 = 128;
/// Where in a cell the original begins.
pub const ORIGINAL: u64 = 16;
/// A `syscall` instruction.
pub const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// How long the jump is.
pub const JUMP: u64 = 5;

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Where the function begins.
    pub place: u64,
    /// What is there without the hook.
    pub before: [u8; JUMP as usize],
    /// What is there with it.
    pub jump: [u8; JUMP as usize],
    /// What its cell is filled with.
    pub cell: Vec<u8>,
    /// Where a thread goes on that was in the system call when the jump was written over it, which may be begun again.
    pub behind_call: Option<u64>,
}

impl Hook {
    /// For a function whose code begins at `place`, with a cell at `cell`; it is to lead to `target`. None if that is not possible: the function is too short, something jumps into
    /// its beginning, or its beginning cannot be elsewhere.
    pub fn new(code: &[u8], place: u64, cell: u64, target: u64) -> Option<Self> {
        Self::leading(code, place, cell, far_jump(target), ORIGINAL)
    }

    /// For a function of Go at `place` which announces itself by its `number` to `target`, and goes on. None as for [`Hook::new`].
    pub fn announced(code: &[u8], place: u64, cell: u64, target: u64, number: u32) -> Option<Self> {
        const GOES_ON: u64 = 32;
        let mut bytes = vec![0x4c, 0x8d, 0x25, 25, 0, 0, 0]; // lea r12, [32]
        bytes.extend([0x41, 0xbd]); // mov r13d, number
        bytes.extend(number.to_le_bytes());
        bytes.extend(far_jump(target));
        Self::leading(code, place, cell, bytes, GOES_ON)
    }

    /// With a cell that begins with `bytes`, and has the function's first instructions so far behind its beginning.
    fn leading(code: &[u8], place: u64, cell: u64, mut bytes: Vec<u8>, original: u64) -> Option<Self> {
        let head = head(code, place)?;
        bytes.resize(original as usize, 0xcc);
        bytes.extend(elsewhere(&code[..head], place, cell + original)?);
        bytes.extend(far_jump(place + head as u64));
        Self::with(code, place, cell, bytes, None)
    }

    /// For a system call `at` so many bytes from the beginning of a function at `start`, which is `length` long; its `code`, and what lies behind it. None if that is not possible.
    pub fn of_call(
        code: &[u8],
        (start, length): (u64, usize),
        at: usize,
        cell: u64,
        target: u64,
    ) -> Option<Self> {
        let place = start + at as u64;
        let midst = place + 1..place + JUMP;
        let decoder = Decoder::with_ip(64, code.get(..length)?, start, DecoderOptions::NONE);
        let goes_there = |it: Instruction| has_target(&it) && midst.contains(&it.near_branch_target());
        if decoder.into_iter().any(goes_there) {
            return None;
        }
        let tail = tail(code.get(at..)?, length.checked_sub(at)?, place)?;
        let mut bytes = vec![
            0x3d, 56, 0, 0, 0, // cmp eax, 56: clone
            0x72, 0x1a, // jb 33
            0x83, 0xf8, 60, // cmp eax, 60: fork, vfork, execve, exit
            0x76, 0x2a, // jbe 54
            0x3d, 231, 0, 0, 0, // cmp eax, 231: exit_group
            0x74, 0x23, // je 54
            0x3d, 0x42, 1, 0, 0, // cmp eax, 322: execveat
            0x74, 0x1c, // je 54
            0x3d, 0xb3, 1, 0, 0, // cmp eax, 435: clone3
            0x74, 0x15, // je 54
            0x48, 0x8d, 0x0d, 0x10, 0, 0, 0, // lea rcx, [56]
        ];
        bytes.extend(far_jump(target));
        bytes.extend(SYSTEM_CALL);
        let behind = cell + bytes.len() as u64;
        let rest = &code[at + SYSTEM_CALL.len()..at + tail];
        bytes.extend(elsewhere(rest, place + SYSTEM_CALL.len() as u64, behind)?);
        bytes.extend(far_jump(place + tail as u64));
        Self::with(&code[at..], place, cell, bytes, Some(behind))
    }

    fn with(code: &[u8], place: u64, cell: u64, bytes: Vec<u8>, behind_call: Option<u64>) -> Option<Self> {
        let distance = i32::try_from(cell.wrapping_sub(place + JUMP).cast_signed()).ok()?;
        let mut jump = [0xe9; JUMP as usize];
        jump[1..].copy_from_slice(&distance.to_le_bytes());
        let before = code.get(..JUMP as usize)?.try_into().ok()?;
        (bytes.len() as u64 <= CELL).then_some(Self { place, before, jump, cell: bytes, behind_call })
    }

    /// Where a thread at an address goes on, if that is right behind the system call that the hook replaces.
    pub fn moved(&self, address: u64) -> Option<u64> {
        self.behind_call.filter(|_| address == self.place + SYSTEM_CALL.len() as u64)
    }

    /// Where a thread must not be when the hook is set: in the midst of what it replaces.
    pub fn midst(&self) -> Range<u64> {
        self.place + 1..self.place + JUMP
    }
}

/// `jmp [rip]`, and the address.
fn far_jump(target: u64) -> Vec<u8> {
    [&[0xff, 0x25, 0, 0, 0, 0][..], &target.to_le_bytes()].concat()
}

/// A function that makes a system call with its own arguments and returns what the kernel does.
pub fn plain_call(number: u32) -> Vec<u8> {
    // mov eax, number; mov r10, rcx; syscall; ret
    [&[0xb8][..], &number.to_le_bytes(), &[0x49, 0x89, 0xca], &SYSTEM_CALL, &[0xc3]].concat()
}

/// The same instructions for another place.
fn elsewhere(code: &[u8], place: u64, to: u64) -> Option<Vec<u8>> {
    let instructions: Vec<_> = Decoder::with_ip(64, code, place, DecoderOptions::NONE).into_iter().collect();
    let block = InstructionBlock::new(&instructions, to);
    Some(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer)
}

fn has_target(instruction: &Instruction) -> bool {
    let flow = instruction.flow_control();
    matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call)
}

/// Whether what comes behind an instruction may be executed.
fn goes_on(instruction: &Instruction) -> bool {
    let flow = instruction.flow_control();
    let leaves = [
        FlowControl::UnconditionalBranch,
        FlowControl::IndirectBranch,
        FlowControl::Return,
        FlowControl::Interrupt,
        FlowControl::XbeginXabortXend,
        FlowControl::Exception,
    ];
    !leaves.contains(&flow)
}

/// How long the first instructions are that the jump replaces.
fn head(code: &[u8], place: u64) -> Option<usize> {
    let midst = place + 1..place + JUMP;
    let mut head = None;
    let mut decoder = Decoder::with_ip(64, code, place, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let end = (instruction.next_ip() - place) as usize;
        if instruction.is_invalid() {
            // Data lies between functions: what comes behind is none of this one.
            break;
        }
        if has_target(&instruction) && midst.contains(&instruction.near_branch_target()) {
            return None;
        }
        if head.is_some() {
            continue;
        }
        let is_enough = end >= JUMP as usize;
        // The kernel goes back to a system call that it begins again.
        if instruction.code() == Code::Syscall || !goes_on(&instruction) && !is_enough {
            return None;
        }
        head = is_enough.then_some(end);
    }
    head
}

/// How long a system call is with the instructions behind it that the jump replaces; `length` bytes of the `code` belong to its function. What fills the room to the next one may be replaced as well.
fn tail(code: &[u8], length: usize, place: u64) -> Option<usize> {
    const FILLS: u8 = 0xcc;
    let mut decoder = Decoder::with_ip(64, &code[..length], place, DecoderOptions::NONE);
    let mut is_first = true;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let end = (instruction.next_ip() - place) as usize;
        let is_call = instruction.code() == Code::Syscall;
        if instruction.is_invalid() || is_call != is_first {
            return None;
        }
        is_first = false;
        if end >= JUMP as usize {
            return Some(end);
        }
        if !is_call && !goes_on(&instruction) {
            let fills = code.get(end..JUMP as usize)?;
            return fills.iter().all(|byte| *byte == FILLS).then_some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: u64 = 0x40_1000;
    const TO: u64 = 0x3f_0000;

    fn hook(code: &[u8]) -> Option<Hook> {
        Hook::new(code, PLACE, TO, 0x7fff_1234_5678)
    }

    #[test]
    fn the_first_instructions_are_elsewhere() {
        // push rbx; mov rbx, rdi; lea rax, [rip + 0x100]; ret
        let code = [0x53, 0x48, 0x89, 0xfb, 0x48, 0x8d, 0x05, 0, 1, 0, 0, 0xc3];
        let hook = hook(&code).unwrap();
        assert_eq!(hook.before, code[..5]);
        assert_eq!(hook.jump[0], 0xe9);
        let distance = i32::from_le_bytes(hook.jump[1..].try_into().unwrap());
        assert_eq!(PLACE.wrapping_add(5).wrapping_add_signed(distance.into()), TO);
        assert_eq!(hook.cell[..6], [0xff, 0x25, 0, 0, 0, 0]);
        assert_eq!(hook.cell[6..14], 0x7fff_1234_5678_u64.to_le_bytes());
        let moved = Decoder::with_ip(64, &hook.cell[16..], TO + 16, DecoderOptions::NONE).into_iter().take(4);
        let moved: Vec<_> = moved.collect();
        assert_eq!(moved[2].ip_rel_memory_address(), PLACE + 11 + 0x100, "it means the same from there");
        assert_eq!(hook.cell[hook.cell.len() - 8..], (PLACE + 11).to_le_bytes());
        assert_eq!(hook.midst(), PLACE + 1..PLACE + 5);
    }

    #[test]
    fn what_cannot_be_hooked_is_left_alone() {
        // xor eax, eax; ret
        assert_eq!(hook(&[0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90]), None, "too short");
        // dec edi; jnz to itself; three nops; jmp to the second instruction
        let back = [0xff, 0xcf, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xfa];
        assert_eq!(hook(&back), None, "a loop goes to the midst");
        let to_start = [0xff, 0xcf, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xf8];
        assert!(hook(&to_start).is_some());
        assert_eq!(hook(&[0x90; 4]), None, "nothing is behind it");
        assert_eq!(Hook::new(&[0x90; 16], PLACE, 0x7000_0000_0000, 0), None, "too far");
    }

    #[test]
    fn a_system_call_may_come_behind_it() {
        // mov al, 24; syscall; ret
        assert_eq!(hook(&[0xb0, 24, 0x0f, 0x05, 0xc3, 0x90, 0x90]), None);
        // mov eax, 202; syscall; ret
        let hook = hook(&[0xb8, 202, 0, 0, 0, 0x0f, 0x05, 0xc3]).unwrap();
        assert_eq!(hook.cell[16..21], [0xb8, 202, 0, 0, 0]);
        assert_eq!(hook.cell[27..], [(PLACE + 5).to_le_bytes()].concat());
    }

    #[test]
    fn a_function_announces_itself_and_goes_on() {
        // cmp rsp, [r14 + 16]; jbe 0x80; push rbp
        let code = [0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0x76, 0, 0, 0, 0x55];
        let hook = Hook::announced(&code, PLACE, TO, 0x7fff_1234_5678, 1).unwrap();
        let ways: Vec<_> =
            Decoder::with_ip(64, &hook.cell, TO, DecoderOptions::NONE).into_iter().take(3).collect();
        assert_eq!((ways[0].ip_rel_memory_address(), ways[1].immediate32()), (TO + 32, 1));
        assert_eq!(
            hook.cell[ways[2].next_ip() as usize - TO as usize..][..8],
            0x7fff_1234_5678_u64.to_le_bytes()
        );
        let moved: Vec<_> = Decoder::with_ip(64, &hook.cell[32..], TO + 32, DecoderOptions::NONE)
            .into_iter()
            .take(2)
            .collect();
        assert_eq!(moved[1].near_branch_target(), PLACE + 0x80, "where its stack is made larger");
        assert_eq!(hook.cell[hook.cell.len() - 8..], (PLACE + 10).to_le_bytes());
    }

    #[test]
    fn a_system_call_leads_elsewhere() {
        // mov rdi, rbx; syscall; cmp rax, -4095; jbe over nothing; ret
        let code = [0x48, 0x89, 0xdf, 0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff, 0x76, 0, 0xc3];
        let hook = Hook::of_call(&code, (PLACE, code.len()), 3, TO, 0x7fff_1234_5678).unwrap();
        assert_eq!((hook.place, hook.before), (PLACE + 3, code[3..8].try_into().unwrap()));
        assert_eq!(hook.cell[54..56], SYSTEM_CALL);
        assert_eq!(hook.cell[56..62], code[5..11]);
        assert_eq!(hook.cell[hook.cell.len() - 8..], (PLACE + 11).to_le_bytes());
        assert_eq!((hook.moved(PLACE + 5), hook.moved(PLACE + 3)), (Some(TO + 56), None));
        let ways: Vec<_> =
            Decoder::with_ip(64, &hook.cell, TO, DecoderOptions::NONE).into_iter().take(12).collect();
        let targets = [1, 3, 5, 7, 9].map(|nth: usize| ways[nth].near_branch_target());
        assert_eq!(targets, [TO + 33, TO + 54, TO + 54, TO + 54, TO + 54]);
        assert_eq!((ways[10].ip(), ways[10].ip_rel_memory_address()), (TO + 33, TO + 56));
        // syscall; ret, and what fills the room
        let short = [0x0f, 0x05, 0xc3, 0xcc, 0xcc, 0xcc];
        assert!(Hook::of_call(&short, (PLACE, 3), 0, TO, 0).is_some());
        let next = [0x0f, 0x05, 0xc3, 0x90, 0x90, 0x90];
        assert_eq!(Hook::of_call(&next, (PLACE, 3), 0, TO, 0), None, "another function begins");
        // syscall; test eax, eax; js to that test
        let back = [0x0f, 0x05, 0x85, 0xc0, 0x78, 0xfc, 0xc3];
        assert_eq!(Hook::of_call(&back, (PLACE, 7), 0, TO, 0), None);
    }
}
