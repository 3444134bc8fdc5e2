//! The first instructions of a function, which give way for a jump: whether that can go unnoticed.
//!
//! A jump takes five bytes. Code that leads between the instructions in their place would run into the midst of it. So they are moved only
//! if nothing leads there, as far as the image's code, data and symbols tell; nothing that they do may fail, or take long, because a debugger, an unwinder or a handler of signals
//! would find them where it does not know them; and nothing may depend on the flags, which counting changes.
//!
//! Jumps through tables cannot be followed. They lead to no place from which the function would push once more what it has pushed; so where the last of the
//! instructions is a push, nothing leads between them. Where it is none, the function must have no such jumps.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register, RflagsBits};
use std::collections::HashSet;
use std::ops::Range;
use symbols::{Image, Svma};

/// `jmp rel32`.
pub const JUMP: usize = 5;
/// Functions that are longer are not looked through.
const LONGEST: u64 = 1 << 20;
/// Images of which more is loaded are not.
const MOST_LOADED: u64 = 256 << 20;
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

/// The beginning of the function that starts at a stated address; `None` where it must stay as it is.
pub fn of(image: &Image, start: Svma) -> Option<Beginning> {
    let Svma(first) = start;
    let here = image.functions_in(&(start..Svma(first.checked_add(1)?)));
    let end = here.iter().filter(|one| one.start == start).map(|one| one.end.0).max();
    let end = end.or_else(|| image.container(start).filter(|one| one.start == start).map(|one| one.end.0))?;
    // Sections of other names are made to be found, and may be copied; Go knows how much of a small stack each function needs.
    let is_refused = image.is_go()
        || image.symbol(start).is_some_and(|name| name.to_string().contains(COPIED))
        || image.section(start).is_some_and(|name| !name.starts_with(TEXT));
    // Within another function it is an entry of that.
    if is_refused || here.iter().any(|one| one.start < start) || end.checked_sub(first)? > LONGEST {
        return None;
    }
    let code = image.bytes(&(start..Svma(end)))?;
    let taken = first_instructions(&code, first)?;
    let between = first + 1..first + taken as u64;
    let is_known = image.has_label(&(Svma(between.start)..Svma(between.end)))
        || leads_from_beside(image, first..end, &between)
        || leads_from_anywhere(image, &between)?;
    (!is_known).then_some(Beginning { code, taken })
}

/// How many bytes the first instructions have that must give way for a jump; `None` if they cannot, as far as the function itself tells.
fn first_instructions(code: &[u8], start: u64) -> Option<usize> {
    let decoder = || Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let (mut taken, mut ends_with_push) = (0, false);
    for instruction in &mut decoder() {
        if taken >= JUMP {
            break;
        }
        if !can_be_moved(&instruction) {
            return None;
        }
        taken += instruction.len();
        ends_with_push = pushes(&instruction);
    }
    if is_out_of_step(decoder(), start..start + code.len() as u64) {
        return None;
    }
    // A loop back to the first instruction would count each of its turns.
    let within = start..start + taken as u64;
    let mut through_tables = false;
    let leads_there = |instruction: Instruction| {
        through_tables |= instruction.flow_control() == FlowControl::IndirectBranch;
        leads_into(&instruction, &within)
    };
    let is_led_to = decoder().iter().any(leads_there);
    let is_safe = taken >= JUMP && !is_led_to && (ends_with_push || !through_tables);
    (is_safe && !depends_on_flags(decoder())).then_some(taken)
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

/// Whether it does the same elsewhere, and cannot fail.
fn can_be_moved(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Add, And, Cmp, Dec, Endbr64, Inc, Lea, Mov, Movsx, Movsxd, Movzx, Nop, Or, Push, Sar, Shl, Shr, Sub,
        Test, Xor,
    };
    let is_simple = match instruction.mnemonic() {
        Push => instruction.op0_kind() != OpKind::Memory,
        Lea | Nop | Endbr64 => true,
        Add | And | Cmp | Dec | Inc | Mov | Movsx | Movsxd | Movzx | Or | Sar | Shl | Shr | Sub | Test
        | Xor => has_no_memory(instruction) || reads_what_is_there(instruction),
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
        let bytes = image.bytes(&(load.address..Svma(load.address.0.checked_add(load.file_size)?)))?;
        let found = if load.executable {
            has_distance(&bytes, load.address.0, range)
        } else {
            has_address(&bytes, range)
        };
        if found {
            return Some(true);
        }
    }
    Some(false)
}

/// Whether four bytes, wherever they are, are the distance of something in `range` from behind them.
fn has_distance(code: &[u8], start: u64, range: &Range<u64>) -> bool {
    let length = range.end - range.start;
    // Behind the first four bytes.
    let from = range.start.wrapping_sub(start.wrapping_add(4));
    code.windows(4).enumerate().any(|(at, bytes)| {
        let distance = i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])) as u64;
        distance.wrapping_sub(from.wrapping_sub(at as u64)) < length
    })
}

/// Whether four or eight bytes, at their usual places, are an address in `range`.
fn has_address(data: &[u8], range: &Range<u64>) -> bool {
    let wide = |word: &[u8]| range.contains(&u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let narrow =
        |word: &[u8]| range.contains(&u64::from(u32::from_le_bytes(word.try_into().unwrap_or_default())));
    // A wide one is a narrow one and zero, but for addresses beyond four gigabytes.
    if range.end <= 1 << 32 { data.chunks_exact(4).any(narrow) } else { data.chunks_exact(8).any(wide) }
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
            assert_eq!(first_instructions(code, 0x1000), taken, "{code:x?}");
        }
    }

    #[test]
    fn distances_and_addresses_are_found_wherever_they_are() {
        let between = 0x1001..0x1005;
        for (target, found) in [(0x1000_u64, false), (0x1001, true), (0x1004, true), (0x1005, false)] {
            for at in 0..4 {
                let mut code = vec![0x90; at];
                // jmp
                code.push(0xe9);
                code.extend((target.wrapping_sub(0x2000 + at as u64 + 5) as u32).to_le_bytes());
                assert_eq!(has_distance(&code, 0x2000, &between), found, "{target:x} from {at}");
            }
            let mut data = vec![0; 8];
            data.extend(target.to_le_bytes());
            assert_eq!(has_address(&data, &between), found, "{target:x}");
        }
    }
}
