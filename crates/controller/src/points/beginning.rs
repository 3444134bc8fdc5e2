//! The first instructions of a function, which give way for a jump: whether that can go unnoticed.
//!
//! A jump takes five bytes. Code that leads between the instructions in their place would run into the midst of it. So they are moved only
//! if nothing leads there, as far as the image's code, data and symbols tell; nothing that they do may fail, or take long, because a debugger, an unwinder or a handler of signals
//! would find them where it does not know them. Counting keeps the flags where these may be looked at.
//!
//! Where the first instruction cannot be moved, one behind it may begin them, as long as all those before are run one after the other.
//!
//! A call can be the last of them: the code elsewhere puts the address behind it on the stack, and jumps. Where shadow stacks are kept this is seen, so not there. What is
//! shorter than the jump can give way with what fills the room behind it.
//!
//! Jumps through tables cannot be followed. They lead to no place from which the function would push once more what it has pushed; so where the last of the
//! instructions is a push, nothing leads between them. Where it is none, the function must have no such jumps.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter as _, GasFormatter, Instruction, InstructionInfoFactory,
    Mnemonic, OpKind, Register, RflagsBits, UsedRegister,
};
use std::collections::HashSet;
use std::ops::Range;
use symbols::references::{distances, has_address};
use symbols::{Image, Svma};

/// No more instructions are looked at to find those that can give way.
const MOST_FIRST: usize = 24;
/// `jmp rel32`.
pub const JUMP: usize = 5;
/// Functions that are longer are not looked through.
const LONGEST: u64 = 1 << 20;
/// Images of which more is loaded are not.
const MOST_LOADED: u64 = 256 << 20;
/// So much of an image is looked through at a time.
const PIECE: usize = 1 << 18;
/// The bytes of an address.
const ADDRESS: u64 = 8;
/// No image that is loaded where it says begins in the first.
pub const PAGE: u64 = 4096;
/// No more is filled between two functions.
const FILLING: u64 = 64;
/// How far a jump of two bytes leads.
const SHORT: u64 = 130;
/// In the names of V8's builtins, which V8 copies as bytes.
const COPIED: &str = "Builtins_";
/// Sections of code.
const TEXT: &str = ".text";
/// Sections of code that leads to other images.
const LINKAGE: &str = ".plt";
/// The flags that counting changes.
const FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;

/// A function whose first instructions can give way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Its code, as it is in the file.
    pub code: Vec<u8>,
    /// What gives way.
    pub first: First,
}

/// The instructions of a function that give way for a jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// Their bytes in the function's code.
    pub taken: Range<usize>,
    /// Whether the last of them is a call.
    pub calls: bool,
    /// Whether they, or what comes behind them, look at the flags of what came before.
    pub keeps_flags: bool,
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
    let mut code = image.bytes(&(start..Svma(end))).ok_or(Why::NoFunction)?;
    code.extend(filling(image, end));
    let end = first + code.len() as u64;
    let first_instructions = first_instructions(&code, first)?;
    // Behind the function's own address.
    let between = first + 1..first + first_instructions.taken.end as u64;
    let is_known = image.has_label(&(Svma(between.start)..Svma(between.end)))
        || leads_from_beside(image, first..end, &between)
        || leads_from_anywhere(image, &between).ok_or(Why::Large)?;
    if is_known { Err(Why::Entered) } else { Ok(Beginning { code, first: first_instructions }) }
}

/// What fills the room behind a function, and is part of none: as much as a jump may take of it.
fn filling(image: &Image, end: u64) -> Vec<u8> {
    const LONGEST_INSTRUCTION: u64 = 15;
    let behind = Svma(end)..Svma(end.saturating_add(JUMP as u64 - 1 + LONGEST_INSTRUCTION));
    let Some(mut bytes) = image.bytes(&behind) else { return Vec::new() };
    let next = image.functions_in(&behind).iter().map(|one| one.start.0.saturating_sub(end)).min();
    bytes.truncate(next.unwrap_or(u64::MAX).min(bytes.len() as u64) as usize);
    let all = Decoder::with_ip(64, &bytes, end, DecoderOptions::NONE).into_iter().take_while(fills);
    let mut length = 0;
    for one in all {
        length += one.len();
        if length >= JUMP - 1 {
            break;
        }
    }
    bytes.truncate(length);
    bytes
}

/// Whether it may be in the room between functions.
fn fills(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
}

/// Which of its first instructions must give way for a jump.
///
/// # Errors
/// Why they cannot, as far as the function itself tells.
fn first_instructions(code: &[u8], start: u64) -> Result<First, Why> {
    let decoder = || Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let begun: Vec<Instruction> = decoder().into_iter().take(MOST_FIRST).collect();
    let mut about = InstructionInfoFactory::new();
    let straight = begun.iter().take_while(|one| may_stay(&mut about, one)).count();
    let function = start..start + code.len() as u64;
    let all = (0..begun.len().min(straight + 1)).map(|nth| together(&begun, nth, &function));
    let all: Vec<Result<Together, Why>> = all.collect();
    // A call costs more than others.
    let found = all.iter().enumerate().filter_map(|(nth, one)| Some((nth, one.as_ref().ok()?)));
    let Some((nth, &Together { taken, ends_with_push, calls })) = found.min_by_key(|(_, one)| one.calls)
    else {
        return Err(all.into_iter().find_map(Result::err).unwrap_or(Why::Short));
    };
    let from = (begun[nth].ip() - start) as usize;
    let taken = from..from + taken;
    if is_out_of_step(decoder(), function.clone()) {
        return Err(Why::Data);
    }
    // A loop back to the first instructions would count each of its turns.
    let within = start..start + taken.end as u64;
    let mut through_tables = false;
    let leads_there = |instruction: Instruction| {
        through_tables |= may_be_through_table(&instruction);
        leads_into(&instruction, &within)
    };
    let is_led_to = decoder().iter().any(leads_there);
    if is_led_to || through_tables && !ends_with_push {
        return Err(Why::Entered);
    }
    let rest = Decoder::with_ip(64, &code[from..], begun[nth].ip(), DecoderOptions::NONE);
    let are_set = begun[..nth].iter().any(|one| one.rflags_modified() & FLAGS != 0);
    let keeps_flags = depends_on_flags(rest, are_set);
    Ok(First { taken, calls, keeps_flags })
}

/// Instructions that can give way together.
struct Together {
    /// Their bytes.
    taken: usize,
    ends_with_push: bool,
    calls: bool,
}

/// As many of a function's first instructions as a jump takes the place of, from one of them on.
fn together(begun: &[Instruction], first: usize, function: &Range<u64>) -> Result<Together, Why> {
    let (mut taken, mut ends_with_push, mut calls) = (0, false, false);
    let mut has_frame = begun[..first].iter().any(begins_frame);
    // Whether what comes is never reached from what came.
    let mut has_left = false;
    for instruction in &begun[first..] {
        if taken >= JUMP {
            break;
        }
        let cannot = || Err(Why::Instruction(text(instruction)));
        taken += instruction.len();
        if has_left {
            if !fills(instruction) {
                return Err(Why::Short);
            }
            continue;
        }
        match leaves(instruction) {
            // It comes back behind itself.
            Some(Leaves::Call) if taken < JUMP => return cannot(),
            // Over room that is kept for others who change code (XRay), or to what has an effect on the CPU (retpolines).
            Some(_) if function.contains(&instruction.near_branch_target()) => return cannot(),
            // Where a probe may be put (USDT).
            None if instruction.mnemonic() == Mnemonic::Nop && instruction.len() == 1 => return cannot(),
            Some(Leaves::Call) => calls = true,
            Some(Leaves::ForGood) => has_left = true,
            None if can_be_moved(instruction, has_frame) => {}
            None => return cannot(),
        }
        ends_with_push = pushes(instruction);
        has_frame |= begins_frame(instruction);
    }
    if taken < JUMP { Err(Why::Short) } else { Ok(Together { taken, ends_with_push, calls }) }
}

/// Whether an instruction may stay before what gives way: the next one is run after it, and finds the stack where it was but for what is pushed and popped, because counting
/// uses what is below.
fn may_stay(about: &mut InstructionInfoFactory, instruction: &Instruction) -> bool {
    use iced_x86::OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    let registers = about.info(instruction).used_registers();
    let is_stack = |one: &UsedRegister| one.register().full_register() == Register::RSP;
    let changes = |one: &UsedRegister| matches!(one.access(), Write | ReadWrite | CondWrite | ReadCondWrite);
    let is_moved = registers.iter().any(|one| is_stack(one) && changes(one));
    let is_little = match instruction.mnemonic() {
        Mnemonic::Push => true,
        Mnemonic::Pop => instruction.op0_register().full_register() != Register::RSP,
        Mnemonic::Sub => instruction.op1_kind() == OpKind::Immediate8to64,
        _ => false,
    };
    instruction.flow_control() == FlowControl::Next && (!is_moved || is_little)
}

/// Whether it may jump through a table of places in this function. What is behind a word of the image alone is another function: places in this one would be found there.
fn may_be_through_table(instruction: &Instruction) -> bool {
    let is_word = instruction.is_ip_rel_memory_operand() && instruction.memory_index() == Register::None;
    instruction.flow_control() == FlowControl::IndirectBranch && !is_word
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

/// How an instruction leaves a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    Call,
    ForGood,
}

/// Whether it leads elsewhere, and the same can be done from another place: not through memory that may be missing, nor by what a call changes.
pub fn leaves(instruction: &Instruction) -> Option<Leaves> {
    let operand = instruction.op0_kind();
    let is_known = match operand {
        OpKind::NearBranch64 => true,
        OpKind::Register => instruction.op0_register() != Register::RSP,
        OpKind::Memory => instruction.memory_base() == Register::RIP,
        _ => false,
    };
    match instruction.mnemonic() {
        Mnemonic::Ret => Some(Leaves::ForGood),
        Mnemonic::Jmp if is_known => Some(Leaves::ForGood),
        Mnemonic::Call if is_known => Some(Leaves::Call),
        _ => None,
    }
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
        Add, And, Bsf, Bsr, Bswap, Bt, Btc, Btr, Bts, Cdq, Cdqe, Cmp, Cqo, Dec, Endbr64, Imul, Inc, Lea,
        Lzcnt, Mov, Movapd, Movaps, Movd, Movdqa, Movdqu, Movq, Movss, Movsx, Movsxd, Movups, Movzx, Neg,
        Nop, Not, Or, Pop, Popcnt, Push, Pxor, Rol, Ror, Sar, Shl, Shr, Sub, Test, Tzcnt, Vmovd, Vmovq,
        Vpxor, Vxorps, Xor, Xorpd, Xorps,
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
        Bsf | Bsr | Bswap | Bt | Btc | Btr | Bts | Cdq | Cdqe | Cqo | Lzcnt | Movapd | Movaps | Movd
        | Movdqa | Movdqu | Movq | Movss | Movups | Popcnt | Pxor | Rol | Ror | Tzcnt | Vmovd | Vmovq
        | Vpxor | Vxorps | Xorpd | Xorps => has_no_memory(instruction),
        Pop => instruction.op0_kind() == OpKind::Register && instruction.op0_register() != Register::RSP,
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

/// Whether code may look at flags that it has not set. `are_set`: what comes before in the same function sets some; no function that a compiler has made looks at those of its callers.
fn depends_on_flags(decoder: Decoder<'_>, are_set: bool) -> bool {
    let mut written = 0;
    for instruction in decoder {
        if instruction.mnemonic() == Mnemonic::Syscall {
            // It keeps the flags in a register, which no compiled code looks at.
            return false;
        }
        if instruction.rflags_read() & FLAGS & !written != 0 {
            return true;
        }
        written |= instruction.rflags_modified();
        if written & FLAGS == FLAGS {
            return false;
        }
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    are_set
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
    // What may be anywhere begins at its own zero.
    let is_fixed = image.loads().iter().all(|load| load.address.0 >= PAGE);
    for load in image.loads() {
        let end = load.address.0.checked_add(load.file_size)?;
        for start in (load.address.0..end).step_by(PIECE) {
            // A distance may begin in one piece and end in the next.
            let piece_end = end.min(start.saturating_add(PIECE as u64 + if load.executable { 3 } else { 0 }));
            let bytes = image.bytes(&(Svma(start)..Svma(piece_end)))?;
            let found = if load.executable {
                distances(&bytes, start, range).into_iter().any(|at| !is_of_another_kind(image, at))
            } else {
                let aligned = (start.next_multiple_of(ADDRESS) - start) as usize;
                has_address(bytes.get(aligned..).unwrap_or_default(), range, is_fixed)
            };
            if found {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// Whether four bytes in code are known to be no distance: the instructions of the function that they are in, of the table that leads to other images, or of what fills the room
/// between two functions, are read from the first one on, and they are another part of one of these.
fn is_of_another_kind(image: &Image, at: u64) -> bool {
    let around = |distance: u64| Svma(at.saturating_sub(distance))..Svma(at.saturating_add(4 + distance));
    let here = image.functions_in(&around(0));
    let within = here.iter().find(|one| one.start.0 <= at && at + 4 <= one.end.0);
    let (range, is_filling) = match within {
        Some(one) => (one.clone(), false),
        None if image.section(Svma(at)).is_some_and(|name| name.starts_with(LINKAGE)) => {
            let Some(range) = image.section_range(Svma(at)) else { return false };
            (range, false)
        }
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
        if instruction.is_invalid() || is_filling && !fills(&instruction) {
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
    use std::collections::{BTreeMap, BTreeSet};

    #[track_caller]
    fn assert_first(code: &[u8], taken: Option<Range<usize>>, calls: bool, keeps_flags: bool) {
        let first = taken.map(|taken| First { taken, calls, keeps_flags });
        assert_eq!(first_instructions(code, 0x1000).ok(), first, "{code:x?}");
    }

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
            // ret, and what fills the room behind it: nops, or int3
            (&[0xc3, 0x90, 0x90, 0x90, 0x90], Some(5)),
            (&[0x31, 0xc0, 0xc3, 0xcc, 0xcc, 0xcc], Some(5)),
            // xor eax, eax; ret; add eax, 1: somebody may run it
            (&[0x31, 0xc0, 0xc3, 0x83, 0xc0, 1], None),
            // xor eax, eax; jmp elsewhere
            (&[0x31, 0xc0, 0xe9, 0x10, 0, 0, 0], Some(7)),
            // jmp over nops, in whose place something may be put; ret
            (&[0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0xc3], None),
            // too short
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
            // cmovz eax, edi; and what may fail; ret
            (&[0x0f, 0x44, 0xc7, 0x8b, 0x40, 1, 0xc3], None),
            // push rbx; lea rax, [rdi + 1]; jmp over two bytes; the first two of a mov; ret; nops
            (
                &[
                    0x53, 0x48, 0x8d, 0x47, 1, 0xeb, 2, 0x48, 0xb8, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                    0x90,
                ],
                None,
            ),
            // xor eax, eax; jmp to it
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
            assert_first(code, taken.map(|taken| 0..taken), false, false);
        }
    }

    #[test]
    fn a_call_may_be_the_last_that_gives_way() {
        for (code, taken) in [
            // push rbx; call; pop rbx; ret
            (&[0x53, 0xe8, 0x10, 0, 0, 0, 0x5b, 0xc3][..], Some(6)),
            // sub rsp, 8; call [rip + 16]; ret: as Rust calls
            (&[0x48, 0x83, 0xec, 8, 0xff, 0x15, 16, 0, 0, 0, 0xc3], Some(10)),
            // mov rax, rdi; call rax; ret
            (&[0x48, 0x89, 0xf8, 0xff, 0xd0, 0xc3], Some(5)),
            // call rax; mov eax, 1; ret: comes back into what gives way
            (&[0xff, 0xd0, 0xb8, 1, 0, 0, 0, 0xc3], None),
            // push rbx; nop; call [rdi + 8]; ret: may fail
            (&[0x53, 0x0f, 0x1f, 0, 0xff, 0x57, 8, 0xc3], None),
            // push rbx; call into the function: as retpolines do
            (&[0x53, 0xe8, 1, 0, 0, 0, 0x90, 0x5b, 0xc3], None),
            // push rbx; call to the very beginning: counts as a visit, and leads into it
            (&[0x53, 0xe8, 0xfa, 0xff, 0xff, 0xff, 0xc3], None),
        ] {
            assert_first(code, taken.map(|taken| 0..taken), true, false);
        }
    }

    #[test]
    fn what_gives_way_may_be_behind_what_cannot_be_moved() {
        for (code, taken, keeps_flags) in [
            // mov rax, [rdi + 256]; ret; nops
            (&[0x48, 0x8b, 0x87, 0, 1, 0, 0, 0xc3, 0x90, 0x90, 0x90, 0x90][..], Some(7..12), false),
            // mov rax, [rdi + 8]; mov edx, 1; ret
            (&[0x48, 0x8b, 0x47, 8, 0xba, 1, 0, 0, 0, 0xc3], Some(4..9), false),
            // cmp dword ptr [rdi], 0; mov eax, 1; jne behind the end; ret: looks at what the comparison says
            (&[0x83, 0x3f, 0, 0xb8, 1, 0, 0, 0, 0x75, 0x10, 0xc3], Some(3..8), true),
            // cmp dword ptr [rdi], 0; mov eax, 1; jmp elsewhere: nothing tells whether the flags are looked at there
            (&[0x83, 0x3f, 0, 0xb8, 1, 0, 0, 0, 0xe9, 0x20, 0, 0, 0], Some(3..8), true),
            // mov rsp, [rdi]; pop rbx; pop rbp; pop r12; mov eax, esi; ret: counting uses what is below the stack
            (&[0x48, 0x8b, 0x27, 0x5b, 0x5d, 0x41, 0x5c, 0x89, 0xf0, 0xc3], None, false),
            // mov eax, [rdi]; nop, where a probe may be; ret
            (&[0x8b, 0x07, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3], None, false),
            // mov eax, [rdi]; mov edx, 1; jmp elsewhere
            (&[0x8b, 0x07, 0xba, 1, 0, 0, 0, 0xeb, 0x20], Some(2..7), false),
            // mov eax, [rdi]; call rax; mov edx, 1; ret: it may never come back
            (&[0x8b, 0x07, 0xff, 0xd0, 0xba, 1, 0, 0, 0, 0xc3], None, false),
            // mov eax, [rdi]; mov edx, 1; jmp to that: each turn would count
            (&[0x8b, 0x07, 0xba, 1, 0, 0, 0, 0xeb, 0xf9], None, false),
            // push rbp; mov rbp, rsp; push rbx; cmovz eax, edi; ret: looks at the flags
            (&[0x55, 0x48, 0x89, 0xe5, 0x53, 0x0f, 0x44, 0xc7, 0xc3], Some(0..5), true),
            // setz al; mov edx, 1; ret: what looks at the flags stays where it is
            (&[0x0f, 0x94, 0xc0, 0xba, 1, 0, 0, 0, 0xc3], Some(3..8), false),
        ] {
            assert_first(code, taken, false, keeps_flags);
        }
    }

    #[test]
    fn a_jump_through_a_word_of_the_image_leads_to_another_function() {
        // mov rdi, rsi; mov esi, 1; jmp [rip + 16]
        let code = [0x48, 0x89, 0xf7, 0xbe, 1, 0, 0, 0, 0xff, 0x25, 16, 0, 0, 0];
        assert!(first_instructions(&code, 0x1000).is_ok());
        // The same with jmp [rdi + 16], which may be in a table.
        let code = [0x48, 0x89, 0xf7, 0xbe, 1, 0, 0, 0, 0xff, 0x67, 16];
        assert_eq!(first_instructions(&code, 0x1000), Err(Why::Entered));
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
        assert_eq!(first_instructions(&[0x31, 0xc0], 0x1000), Err(Why::Short));
        // jumps to the middle of its first instructions
        assert_eq!(first_instructions(&[0x85, 0xf6, 0x7e, 0xfd, 0x31, 0xc0, 0xc3], 0x1000), Err(Why::Data));
        assert_eq!(
            first_instructions(&[0x55, 0x48, 0x89, 0xe5, 0x53, 0xeb, 0xf9], 0x1000),
            Err(Why::Entered)
        );
    }

    /// Prints for which share of the functions of some files the first instructions can give way, and why not for others: `WHATIF_FILES="/usr/bin/python3 …" cargo test --release -p
    /// whatif-controller -- --ignored --nocapture functions_of_files`.
    #[test]
    #[ignore = "looks through files of this machine"]
    fn functions_of_files() {
        const LOOKED_AT: usize = 1500;
        for file in std::env::var("WHATIF_FILES").unwrap().split(' ') {
            let image = Image::open(std::path::Path::new(file)).unwrap();
            let all = image.functions_in(&(Svma(0)..Svma(u64::MAX)));
            let some: BTreeSet<Svma> =
                all.iter().step_by((all.len() / LOOKED_AT).max(1)).map(|one| one.start).collect();
            let mut outcomes = BTreeMap::<String, usize>::new();
            for start in &some {
                let outcome = match of(&image, *start) {
                    Ok(_) => "can".to_owned(),
                    Err(Why::Instruction(_)) => "an instruction cannot be moved".to_owned(),
                    Err(why) => why.to_string(),
                };
                *outcomes.entry(outcome).or_default() += 1;
            }
            println!("{file}: {} of {} functions", some.len(), all.len());
            for (outcome, count) in outcomes {
                println!("{:6.1} % {outcome}", 100.0 * count as f64 / some.len() as f64);
            }
        }
    }
}
