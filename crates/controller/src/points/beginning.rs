//! The first instructions of a function, which give way for a jump: whether that can go unnoticed.
//!
//! A jump takes five bytes. Code that leads between the instructions in their place would run into the midst of it. So they are moved only
//! if nothing leads there, as far as the image's code, data and symbols tell; nothing that they do may fail, or take long, because a debugger, an unwinder or a handler of signals
//! would find them where it does not know them; and nothing may depend on the flags, which counting changes.
//!
//! Jumps through tables cannot be followed. They lead to no place from which the function would push once more what it has pushed; so where the last of the
//! instructions is a push, nothing leads between them. Where it is none, the function must have no such jumps.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter as _, GasFormatter, Instruction, Mnemonic, OpKind,
    Register, RflagsBits,
};
use std::collections::HashSet;
use std::ops::Range;
use symbols::references::{distances, has_address};
use symbols::{Image, Svma};

/// `jmp rel32`.
pub const JUMP: usize = 5;
/// Functions that are longer are not looked through.
const LONGEST: u64 = 1 << 20;
/// Images of which more is loaded are not.
const MOST_LOADED: u64 = 256 << 20;
/// So much of an image is looked through at a time.
const PIECE: usize = 1 << 18;
/// No more is filled between two functions.
const FILLING: u64 = 64;
/// How far a jump of two bytes leads.
const SHORT: u64 = 130;
/// In the names of V8's builtins, which V8 copies as bytes.
const COPIED: &str = "Builtins_";
/// Sections of code.
const TEXT: &str = ".text";
/// The flags that counting changes.
const FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// A function whose first instructions can give way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Its code, as it is in the file.
    pub code: Vec<u8>,
    /// How many bytes of it.
    pub taken: usize,
}

/// Why a function stays as it is, and cannot count its visits itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("no function is known to begin there")]
    NoFunction,
    #[error("Go's functions are left alone")]
    Go,
    #[error("programs copy the code of that section")]
    Copied,
    #[error("it is an entry of another function")]
    Entry,
    #[error("it is shorter than the jump that takes its first five bytes")]
    Short,
    #[error("it is too large to be looked through")]
    Large,
    #[error("its instruction {0} cannot be moved")]
    Instruction(String),
    #[error("it may be told by the flags what to do")]
    Flags,
    #[error("there are data in its code")]
    Data,
    #[error("other code may lead between its first instructions")]
    Entered,
    #[error("there is no room behind its segment for the code that counts")]
    NoRoom,
    #[error("its first instructions cannot be changed now")]
    NotNow,
}

/// The beginning of the function that starts at a stated address.
///
/// # Errors
/// Why it must stay as it is.
pub fn of(image: &Image, start: Svma) -> Result<Beginning, Why> {
    let Svma(first) = start;
    let behind = first.checked_add(1).ok_or(Why::NoFunction)?;
    let here = image.functions_in(&(start..Svma(behind)));
    let end = here.iter().filter(|one| one.start == start).map(|one| one.end.0).max();
    let end = end.or_else(|| image.container(start).filter(|one| one.start == start).map(|one| one.end.0));
    let end = end.ok_or(Why::NoFunction)?;
    if image.is_go() {
        // Go knows how much of a small stack each function needs.
        return Err(Why::Go);
    }
    // Sections of other names are made to be found, and may be copied.
    if image.symbol(start).is_some_and(|name| name.to_string().contains(COPIED))
        || image.section(start).is_some_and(|name| !name.starts_with(TEXT))
    {
        return Err(Why::Copied);
    }
    // Within another function it is an entry of that.
    if here.iter().any(|one| one.start < start) {
        return Err(Why::Entry);
    }
    if end.checked_sub(first).is_none_or(|length| length > LONGEST) {
        return Err(Why::Large);
    }
    let code = image.bytes(&(start..Svma(end))).ok_or(Why::NoFunction)?;
    let taken = first_instructions(&code, first)?;
    let between = first + 1..first + taken as u64;
    let is_known = image.has_label(&(Svma(between.start)..Svma(between.end)))
        || leads_from_beside(image, first..end, &between)
        || leads_from_anywhere(image, &between).ok_or(Why::Large)?;
    if is_known { Err(Why::Entered) } else { Ok(Beginning { code, taken }) }
}

/// How many bytes the first instructions have that must give way for a jump.
///
/// # Errors
/// Why they cannot, as far as the function itself tells.
fn first_instructions(code: &[u8], start: u64) -> Result<usize, Why> {
    let decoder = || Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let (mut taken, mut ends_with_push, mut has_frame) = (0, false, false);
    for instruction in &mut decoder() {
        if taken >= JUMP {
            break;
        }
        if !can_be_moved(&instruction, has_frame) {
            return Err(Why::Instruction(text(&instruction)));
        }
        taken += instruction.len();
        ends_with_push = pushes(&instruction);
        has_frame |= begins_frame(&instruction);
    }
    if taken < JUMP {
        return Err(Why::Short);
    }
    if is_out_of_step(decoder(), start..start + code.len() as u64) {
        return Err(Why::Data);
    }
    // A loop back to the first instruction would count each of its turns.
    let within = start..start + taken as u64;
    let mut through_tables = false;
    let leads_there = |instruction: Instruction| {
        through_tables |= instruction.flow_control() == FlowControl::IndirectBranch;
        leads_into(&instruction, &within)
    };
    let is_led_to = decoder().iter().any(leads_there);
    if is_led_to || through_tables && !ends_with_push {
        return Err(Why::Entered);
    }
    if depends_on_flags(decoder()) { Err(Why::Flags) } else { Ok(taken) }
}

/// An instruction, for people.
fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    GasFormatter::new().format(instruction, &mut text);
    text
}

/// Whether a jump within the code leads to no instruction, as these are read one after the other: there are data in it.
fn is_out_of_step(decoder: Decoder<'_>, code: Range<u64>) -> bool {
    let (mut begins, mut targets) = (HashSet::new(), Vec::new());
    for instruction in decoder {
        begins.insert(instruction.ip());
        if is_branch(&instruction) && code.contains(&instruction.near_branch_target()) {
            targets.push(instruction.near_branch_target());
        }
    }
    targets.iter().any(|target| !begins.contains(target))
}

fn leads_into(instruction: &Instruction, range: &Range<u64>) -> bool {
    is_branch(instruction) && range.contains(&instruction.near_branch_target())
        || instruction.is_ip_rel_memory_operand() && range.contains(&instruction.ip_rel_memory_address())
}

/// Whether it jumps or calls to an address that it contains.
pub fn is_branch(instruction: &Instruction) -> bool {
    instruction.op_kinds().any(|kind| kind == OpKind::NearBranch64)
}

/// Whether the stack grows by it.
fn pushes(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Push => true,
        Mnemonic::Sub => {
            instruction.op0_register() == Register::RSP && instruction.op1_kind() != OpKind::Register
        }
        _ => false,
    }
}

/// Whether it is `mov rbp, rsp`.
fn begins_frame(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == Register::RBP
        && instruction.op1_register() == Register::RSP
}

/// Whether it does the same elsewhere, and cannot fail but for the end of the stack, as a push does. `has_frame`: `rbp` is in the stack.
fn can_be_moved(instruction: &Instruction, has_frame: bool) -> bool {
    use Mnemonic::{
        Add, And, Cmp, Dec, Endbr64, Imul, Inc, Lea, Mov, Movaps, Movsx, Movsxd, Movzx, Neg, Nop, Not, Or,
        Push, Pxor, Sar, Shl, Shr, Sub, Test, Xor, Xorps,
    };
    let is_simple = match instruction.mnemonic() {
        Push => instruction.op0_kind() != OpKind::Memory,
        Lea | Nop | Endbr64 => true,
        Add | And | Cmp | Dec | Imul | Inc | Mov | Movsx | Movsxd | Movzx | Neg | Not | Or | Sar | Shl
        | Shr | Sub | Test | Xor => {
            has_no_memory(instruction)
                || reads_what_is_there(instruction)
                || is_of_stack(instruction, has_frame)
        }
        Movaps | Pxor | Xorps => has_no_memory(instruction),
        _ => instruction.is_jcc_short_or_near(),
    };
    is_simple
        && !instruction.is_invalid()
        && !instruction.has_lock_prefix()
        && instruction.memory_base() != Register::EIP
}

fn has_no_memory(instruction: &Instruction) -> bool {
    instruction.op_kinds().all(|kind| kind != OpKind::Memory)
}

/// A variable of the image, or of the thread.
fn reads_what_is_there(instruction: &Instruction) -> bool {
    let is_there = instruction.memory_base() == Register::RIP
        || instruction.memory_segment() == Register::FS
            && instruction.memory_base() == Register::None
            && instruction.memory_index() == Register::None;
    let writes = instruction.op0_kind() == OpKind::Memory
        && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    is_there && !writes
}

/// A variable of the function.
fn is_of_stack(instruction: &Instruction, has_frame: bool) -> bool {
    let base = instruction.memory_base();
    instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None
        && (base == Register::RSP || base == Register::RBP && has_frame)
}

/// Whether it may be told by the flags what it is to do; no function is that a compiler has made.
fn depends_on_flags(mut decoder: Decoder<'_>) -> bool {
    let mut written = 0;
    for instruction in &mut decoder {
        if instruction.rflags_read() & FLAGS & !written != 0 {
            return true;
        }
        written |= instruction.rflags_modified();
        if written & FLAGS == FLAGS || instruction.flow_control() != FlowControl::Next {
            return false;
        }
    }
    false
}

/// Whether short jumps of the code beside a function lead between its first instructions.
fn leads_from_beside(image: &Image, function: Range<u64>, between: &Range<u64>) -> bool {
    let near = Svma(function.start.saturating_sub(SHORT))..Svma(between.end.saturating_add(SHORT));
    let beside = image.functions_in(&near).into_iter().filter(|one| one.start.0 != function.start);
    // Symbols may tell less than there is.
    let loaded =
        image.loads().iter().map(|load| load.address.0..load.address.0.saturating_add(load.file_size));
    let end = loaded.into_iter().find(|load| load.contains(&function.start)).map_or(0, |load| load.end);
    let behind = Svma(function.end)..Svma(near.end.0.min(end).max(function.end));
    beside.chain([behind]).filter(|one| one.end.0 - one.start.0 <= LONGEST).any(|one| {
        let code = image.bytes(&one).unwrap_or_default();
        let decoder = Decoder::with_ip(64, &code, one.start.0, DecoderOptions::NONE);
        decoder.into_iter().any(|instruction| leads_into(&instruction, between))
    })
}

/// Whether anything in the image has an address there: by its distance in code, as it is in data and among relocations. `None` if that cannot be told.
fn leads_from_anywhere(image: &Image, range: &Range<u64>) -> Option<bool> {
    if image.loads().iter().map(|load| load.file_size).fold(0, u64::saturating_add) > MOST_LOADED {
        return None;
    }
    for load in image.loads() {
        let end = load.address.0.checked_add(load.file_size)?;
        for start in (load.address.0..end).step_by(PIECE) {
            // A distance may begin in one piece and end in the next.
            let piece_end = end.min(start.saturating_add(PIECE as u64 + if load.executable { 3 } else { 0 }));
            let bytes = image.bytes(&(Svma(start)..Svma(piece_end)))?;
            let found = if load.executable {
                distances(&bytes, start, range).into_iter().any(|at| !is_of_another_kind(image, at))
            } else {
                has_address(&bytes, range)
            };
            if found {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// Whether four bytes in code are known to be no distance: the instructions of the function that they are in, or of what fills the room between two, are read from the first one
/// on, and they are another part of one of these.
fn is_of_another_kind(image: &Image, at: u64) -> bool {
    let around = |distance: u64| Svma(at.saturating_sub(distance))..Svma(at.saturating_add(4 + distance));
    let here = image.functions_in(&around(0));
    let within = here.iter().find(|one| one.start.0 <= at && at + 4 <= one.end.0);
    let (range, is_filling) = match within {
        Some(one) => (one.clone(), false),
        None if here.is_empty() => {
            let near = image.functions_in(&around(FILLING));
            let begin = near.iter().map(|one| one.end).filter(|end| end.0 <= at).max();
            let end = near.iter().map(|one| one.start).filter(|start| start.0 >= at + 4).min();
            let Some((begin, end)) = begin.zip(end) else { return false };
            (begin..end, true)
        }
        None => return false,
    };
    if range.end.0 - range.start.0 > LONGEST {
        return false;
    }
    image.bytes(&range).is_some_and(|code| is_another_part(&code, range.start.0, at, is_filling))
}

/// Whether the four bytes at an address are part of an instruction of this code, and no distance. `is_filling`: nothing runs it.
fn is_another_part(code: &[u8], start: u64, at: u64, is_filling: bool) -> bool {
    let decoder = || Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    if is_out_of_step(decoder(), start..start + code.len() as u64) {
        return false;
    }
    let (mut decoder, mut is_known) = (decoder(), false);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let fills = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        if instruction.is_invalid() || is_filling && !fills {
            return false;
        }
        // It may begin in one and end in the next.
        if instruction.ip() < at + 4 && at < instruction.next_ip() {
            let offsets = decoder.get_constant_offsets(&instruction);
            let is_there = |offset: usize| instruction.ip() + offset as u64 == at;
            let is_distance = instruction.is_ip_rel_memory_operand()
                && is_there(offsets.displacement_offset())
                || is_branch(&instruction) && is_there(offsets.immediate_offset());
            if is_distance {
                return false;
            }
            is_known = true;
        }
    }
    is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_way_for_the_jump() {
        for (code, taken) in [
            // endbr64; push rbp; mov rbp, rsp; ret
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xc3][..], Some(5)),
            // push rbp; mov rbp, rsp; push rbx; ret
            (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3], Some(5)),
            // push rbp; mov rbp, rsp; push rbx; jmp [rax*8]: through a table, but behind the pushes
            (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0xff, 0x24, 0xc5, 0, 0, 0, 0], Some(5)),
            // mov eax, edi; add eax, 3; jmp rax: may lead to the addition
            (&[0x89, 0xf8, 0x83, 0xc0, 3, 0xff, 0xe0], None),
            // sub rsp, 24; xor eax, eax; ret
            (&[0x48, 0x83, 0xec, 0x18, 0x31, 0xc0, 0xc3], Some(6)),
            // ret; too short
            (&[0xc3, 0x90, 0x90, 0x90, 0x90], None),
            (&[0x31, 0xc0, 0x90], None),
            // mov eax, [rip + 16]; ret
            (&[0x8b, 0x05, 0x10, 0, 0, 0, 0xc3], Some(6)),
            // mov [rip + 16], eax: writes
            (&[0x89, 0x05, 0x10, 0, 0, 0, 0xc3], None),
            // mov rax, fs:[40]; ret
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 40, 0, 0, 0, 0xc3], Some(9)),
            // mov eax, [eip + 16]: an address of 32 bits
            (&[0x67, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3], None),
            // mov rax, [rdi + 256]: may fail
            (&[0x48, 0x8b, 0x87, 0, 1, 0, 0, 0xc3], None),
            // push rbp; mov rbp, rsp; mov [rbp - 8], rdi; ret: as compilers begin without optimising
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0x7d, 0xf8, 0xc3], Some(8)),
            // mov [rbp - 8], rdi; add eax, 1; ret: may be anywhere
            (&[0x48, 0x89, 0x7d, 0xf8, 0x83, 0xc0, 1, 0xc3], None),
            // mov [rsp - 8], rdi; ret
            (&[0x48, 0x89, 0x7c, 0x24, 0xf8, 0xc3], Some(5)),
            // mov [rsp + rax], rdi; mov eax, edi; ret: may be anywhere
            (&[0x48, 0x89, 0x3c, 0x04, 0x89, 0xf8, 0xc3], None),
            // pxor xmm0, xmm0; imul eax, edi; ret
            (&[0x66, 0x0f, 0xef, 0xc0, 0x0f, 0xaf, 0xc7, 0xc3], Some(7)),
            // push rdi; push rsi; rep stosb: takes long
            (&[0x57, 0x56, 0xf3, 0xaa, 0xc3], None),
            // cmovz eax, edi; lea eax, [rax + 1]; ret: told by the flags
            (&[0x0f, 0x44, 0xc7, 0x8d, 0x40, 1, 0xc3], None),
            // push rbp; mov rbp, rsp; push rbx; cmovz eax, edi: behind what is taken
            (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0x0f, 0x44, 0xc7, 0xc3], None),
            // push rbx; lea rax, [rdi + 1]; jmp over two bytes; the first two of a mov; ret; nops
            (
                &[
                    0x53, 0x48, 0x8d, 0x47, 1, 0xeb, 2, 0x48, 0xb8, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                    0x90,
                ],
                None,
            ),
            // call; jmp
            (&[0xe8, 0, 0, 0, 0, 0xc3], None),
            (&[0x31, 0xc0, 0xeb, 0xfc, 0x90, 0x90], None),
            // push rbp; xor eax, eax; inc eax; jne to the inc; ret: leads between what is taken
            (&[0x55, 0x31, 0xc0, 0xff, 0xc0, 0x75, 0xfc, 0xc3], None),
            // The same, behind what is taken: push rbp; mov rbp, rsp; push rbx; inc eax; jne to the inc; ret
            (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0xff, 0xc0, 0x75, 0xfc, 0xc3], Some(5)),
            // test esi, esi; jle behind the end; ret
            (&[0x85, 0xf6, 0x7e, 0x10, 0x31, 0xc0, 0xc3], Some(6)),
            // test esi, esi; jle to the middle of that
            (&[0x85, 0xf6, 0x7e, 0xfd, 0x31, 0xc0, 0xc3], None),
            // A loop back to the very beginning would count each turn: push rbp; mov rbp, rsp; push rbx; jmp to the first push
            (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0xeb, 0xf9], None),
        ] {
            assert_eq!(first_instructions(code, 0x1000).ok(), taken, "{code:x?}");
        }
    }

    #[test]
    fn four_bytes_are_a_distance_only_where_an_instruction_has_one() {
        // mov eax, 16; jmp behind the next; call 16 bytes further; lea rax, [rip + 16]; mov rax, [rdi + 132]; ret
        let code = [
            0xb8, 16, 0, 0, 0, 0xeb, 0, 0xe8, 16, 0, 0, 0, 0x48, 0x8d, 0x05, 16, 0, 0, 0, 0x48, 0x8b, 0x87,
            132, 0, 0, 0, 0xc3,
        ];
        let is_another = |at: u64| is_another_part(&code, 0x1000, 0x1000 + at, false);
        assert!(is_another(1) && is_another(22), "a number, and what is behind a register");
        assert!(!is_another(8) && !is_another(15), "where a call leads, and where a variable is");
        assert!(is_another(9), "it ends in the next one");
        // Data in it: jmp into the midst of the next one.
        let mut out_of_step = code;
        out_of_step[6] = 1;
        assert!(!is_another_part(&out_of_step, 0x1000, 0x1001, false));
        // nopw cs:[rax + rax]; and what runs
        let filling = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert!(is_another_part(&filling, 0x1000, 0x1005, true));
        assert!(!is_another_part(&code, 0x1000, 0x1001, true));
    }

    #[test]
    fn what_stays_as_it_is_says_why() {
        // mov rax, [rdi + 256]
        let fails = first_instructions(&[0x48, 0x8b, 0x87, 0, 1, 0, 0, 0xc3], 0x1000).unwrap_err();
        assert_eq!(fails.to_string(), "its instruction mov 0x100(%rdi),%rax cannot be moved");
        assert_eq!(first_instructions(&[0x31, 0xc0, 0x90], 0x1000), Err(Why::Short));
        // jumps to the middle of its first instructions
        assert_eq!(first_instructions(&[0x85, 0xf6, 0x7e, 0xfd, 0x31, 0xc0, 0xc3], 0x1000), Err(Why::Data));
        assert_eq!(
            first_instructions(&[0x55, 0x48, 0x89, 0xe5, 0x53, 0xeb, 0xf9], 0x1000),
            Err(Why::Entered)
        );
    }
}
