//! Machine code as text.

use iced_x86::{
    Decoder, DecoderOptions, Formatter as _, GasFormatter, Instruction, SymbolResolver, SymbolResult,
};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use symbols::{Image, Svma};

/// x86-64, in elf(5).
const X86_64: u16 = 62;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The stated addresses that it is at.
    pub range: Range<u64>,
    /// In assembler (AT&T, as objdump has it).
    pub text: String,
}

/// The instructions in a range of stated addresses; or why there are none. `path` is what the profile calls the image, and
/// `place` where it was found.
pub fn decode(
    image: &Arc<Image>,
    range: &Range<Svma>,
    (path, place): (&Path, &Path),
) -> Result<Vec<Decoded>, String> {
    if image.machine() != X86_64 {
        return Err(of_another_machine(image.machine(), path, place));
    }
    let bytes = image.bytes(range).ok_or(
        "the code is not in the file here, only its debug information: put the program itself there",
    )?;
    let targets = Targets { image: Arc::clone(image), here: range.start.0..range.end.0 };
    Ok(instructions(&bytes, range.start.0, Some(Box::new(targets))))
}

fn of_another_machine(number: u16, path: &Path, place: &Path) -> String {
    let found = match place == path {
        true => String::new(),
        false => format!("; it is here as {}", profile::printable(&place.to_string_lossy())),
    };
    format!(
        "only code for x86-64 can be taken apart here, and this is for {}; its lines: whatif list FUNCTION; its instructions: \
         objdump -d {} (of binutils for that machine){found}",
        machine(number),
        profile::printable(&path.to_string_lossy())
    )
}

/// What people call a machine of elf(5).
fn machine(number: u16) -> String {
    match number {
        3 => "32-bit x86".to_owned(),
        21 => "POWER".to_owned(),
        22 => "S/390".to_owned(),
        40 => "32-bit ARM".to_owned(),
        183 => "ARM64".to_owned(),
        243 => "RISC-V".to_owned(),
        258 => "LoongArch".to_owned(),
        other => format!("another machine (e_machine {other})"),
    }
}

fn instructions(bytes: &[u8], address: u64, targets: Option<Box<dyn SymbolResolver>>) -> Vec<Decoded> {
    let mut formatter = GasFormatter::with_options(targets, None);
    formatter.options_mut().set_small_hex_numbers_in_decimal(false);
    formatter.options_mut().set_uppercase_hex(false);
    formatter.options_mut().set_rip_relative_addresses(true);
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_space_after_operand_separator(false);
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut all = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        all.push(Decoded { range: instruction.ip()..instruction.next_ip(), text });
    }
    all
}

/// Names for what code refers to.
struct Targets {
    image: Arc<Image>,
    here: Range<u64>,
}

impl SymbolResolver for Targets {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        // Numbers that happen to be addresses are numbers.
        let is_place = instruction.near_branch_target() == address || instruction.is_ip_rel_memory_operand();
        if !is_place || self.here.contains(&address) {
            return None;
        }
        let name = self.image.symbol(Svma(address))?;
        let start = self.image.container(Svma(address))?.start.0;
        // Named after where it begins: the formatter says how far beyond it this is.
        Some(SymbolResult::with_string(start, name.base().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_what_the_profile_calls_them() {
        let path = Path::new("/app/server");
        let beside = of_another_machine(243, path, path);
        assert!(beside.ends_with("objdump -d /app/server (of binutils for that machine)"), "{beside}");
        let found = of_another_machine(243, path, Path::new("/proc/7/root/app/server"));
        assert_eq!(found, format!("{beside}; it is here as /proc/7/root/app/server"));
    }

    #[test]
    fn code_becomes_text() {
        // push %rbp; mov %rsp,%rbp; jmp .; ret; a byte that is no instruction
        let code = [0x55, 0x48, 0x89, 0xe5, 0xeb, 0xfe, 0xc3, 0x06];
        let all: Vec<(u64, String)> =
            instructions(&code, 0x1000, None).into_iter().map(|one| (one.range.start, one.text)).collect();
        let of = |address, text: &str| (address, text.to_owned());
        assert_eq!(
            all,
            [
                of(0x1000, "push %rbp"),
                of(0x1001, "mov %rsp,%rbp"),
                of(0x1004, "jmp 0x1004"),
                of(0x1006, "ret"),
                of(0x1007, "(bad)")
            ]
        );
    }
}
