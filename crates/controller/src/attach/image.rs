//! The runtime's file, as it is to lie in a program that has run before: its segments, what has to be written where, and the functions that it has.

use super::objects::Symbol;
use anyhow::{Context as _, Result, bail};
use object::elf::{PF_W, PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
};
use std::collections::HashMap;

pub const PAGE: u64 = 4096;

/// Where a thread has the word that says which slot is its own, relative to its thread pointer. In glibc on x86-64 this is the last of eight words that `tcbhead_t` has for
/// padding: no version uses it, and it is zero in every new thread.
pub const WORD: u64 = 0x2b8;
/// The same in musl on x86-64: what `struct pthread` has for the entry of system calls of other architectures. A new thread has what its creator has there.
pub const WORD_OF_MUSL: u64 = 0x20;

/// The same in Go: the second of five words behind the one for the goroutine that `m.tls` has for nothing; the third is for a stack of ours (`runtime/src/interpose/by_number.rs`).
pub const WORD_OF_GO: u64 = 8;

/// The section with the functions that the runtime interposes, and what each takes there: address, name, length of the name, the address of a function that makes the system call, and a word of the runtime's.
const REAL: &str = "whatif_real";
pub const REAL_SIZE: usize = 40;
/// Where the plain one is.
pub const REAL_PLAIN: u64 = 24;

/// `elf.h`.
const ADDRESS: u32 = 1;
const GLOBAL: u32 = 6;
const JUMP: u32 = 7;
const RELATIVE: u32 = 8;
const THREAD_OFFSET: u32 = 18;

/// A piece that is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub start: u64,
    /// Where what is in the file ends.
    pub filled: u64,
    pub end: u64,
    pub offset: u64,
    pub is_writable: bool,
    pub is_executable: bool,
}

impl Segment {
    /// As mmap(2) wants it.
    pub fn protection(&self) -> u64 {
        1 | if self.is_writable { 2 } else { 0 } | if self.is_executable { 4 } else { 0 }
    }
}

/// What a word of the runtime is to hold.
#[derive(Clone, Debug)]
pub enum Value {
    /// An address of its own.
    Own(u64),
    /// How far from the thread pointer a thread's word is, and so much more.
    Word(u64),
    /// A function or object of the program's libraries.
    Of(String),
}

/// See the module.
#[derive(Debug)]
pub struct RuntimeImage {
    pub segments: Vec<Segment>,
    pub values: Vec<(u64, Value)>,
    /// Functions and objects that others see, by name.
    pub exports: HashMap<String, u64>,
    /// Where the table of functions behind its own is, and how long.
    pub real: (u64, u64),
}

impl RuntimeImage {
    /// Reads it.
    ///
    /// # Errors
    /// It is not what we have built.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let file = ElfFile64::<Endianness>::parse(bytes).context("the runtime is damaged")?;
        let endian = file.endian();
        let mut segments = Vec::new();
        for header in file.elf_header().program_headers(endian, bytes)? {
            if header.p_type(endian) != PT_LOAD {
                continue;
            }
            let (start, offset) = (header.p_vaddr(endian), header.p_offset(endian));
            segments.push(Segment {
                start,
                filled: start + header.p_filesz(endian),
                end: start + header.p_memsz(endian),
                offset,
                is_writable: header.p_flags(endian) & PF_W != 0,
                is_executable: header.p_flags(endian) & PF_X != 0,
            });
        }
        let exports = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition())
            .map(|symbol| Ok((symbol.name()?.to_owned(), symbol.address())))
            .collect::<Result<_>>()?;
        let real = file.section_by_name(REAL).context("the runtime has no table of functions")?;
        Ok(Self { segments, values: values(&file)?, exports, real: (real.address(), real.size()) })
    }

    /// How much room it takes, whole pages.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end).max().unwrap_or(0).next_multiple_of(PAGE)
    }

    /// The address of what has that name.
    pub fn export(&self, name: &str) -> u64 {
        self.exports.get(name).copied().unwrap_or_default()
    }

    /// Where it has a `syscall` instruction.
    ///
    /// # Errors
    /// It is not what we have built.
    pub fn instruction(&self, file: &[u8]) -> Result<u64> {
        const LONGEST: usize = 64;
        let start = self.export(wire::late::name::PLAIN_CALL);
        let segment =
            self.segments.iter().find(|one| one.is_executable && (one.start..one.filled).contains(&start));
        let segment = segment.context("the runtime is damaged")?;
        let code = file.get((start - segment.start + segment.offset) as usize..).unwrap_or_default();
        let code = &code[..code.len().min(LONGEST)];
        let at = code.windows(2).position(|pair| pair == super::hooks::SYSTEM_CALL);
        Ok(start + at.context("the runtime is damaged")? as u64)
    }

    /// What it needs of the program's libraries.
    pub fn needs(&self) -> Vec<&str> {
        let needed = self.values.iter().filter_map(|(_, value)| match value {
            Value::Of(name) => Some(&name[..]),
            _ => None,
        });
        needed.collect()
    }

    /// The writable pieces as they are to be, if it lies at `base`, threads have their word at `word` and `symbols` are where these are: where each begins, and what is in it.
    pub fn data(
        &self,
        file: &[u8],
        (base, word): (u64, u64),
        symbols: &HashMap<String, Symbol>,
    ) -> Vec<(u64, Vec<u8>)> {
        let piece = |segment: &Segment| {
            let length = (segment.filled - segment.start) as usize;
            // What is behind it in the file does not belong there.
            let whole = segment.filled.next_multiple_of(PAGE) - segment.start;
            let mut bytes = file[segment.offset as usize..][..length].to_vec();
            bytes.resize(whole as usize, 0);
            for (place, value) in &self.values {
                if (segment.start..segment.filled).contains(place) {
                    let at = (place - segment.start) as usize;
                    bytes[at..at + 8].copy_from_slice(&value.at((base, word), symbols).to_ne_bytes());
                }
            }
            (base + segment.start, bytes)
        };
        self.segments.iter().filter(|segment| segment.is_writable).map(piece).collect()
    }

    /// The functions that the runtime's stand in front of, in the order of their table: their names.
    pub fn real_names(&self, file: &[u8]) -> Vec<String> {
        let offset = |address: u64| {
            let segment = self.segments.iter().find(|one| (one.start..one.filled).contains(&address))?;
            Some((address - segment.start + segment.offset) as usize)
        };
        let names: HashMap<u64, u64> = self
            .values
            .iter()
            .filter_map(|(place, value)| match value {
                Value::Own(address) => Some((*place, *address)),
                _ => None,
            })
            .collect();
        let name = |nth: u64| {
            let at = names.get(&(self.real.0 + nth * REAL_SIZE as u64 + 8)).copied().and_then(offset)?;
            let text = file.get(at..)?.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        (0..self.real.1 / REAL_SIZE as u64).map(|nth| name(nth).unwrap_or_default()).collect()
    }
}

impl Value {
    fn at(&self, (base, word): (u64, u64), symbols: &HashMap<String, Symbol>) -> u64 {
        match self {
            Self::Own(address) => base + address,
            Self::Word(more) => word + more,
            Self::Of(name) => symbols.get(name).map_or(0, |symbol| symbol.address),
        }
    }
}

fn values(file: &ElfFile64<'_, Endianness>) -> Result<Vec<(u64, Value)>> {
    let symbols = file.dynamic_symbol_table().context("the runtime has no symbols")?;
    let mut values = Vec::new();
    for (place, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { bail!("the runtime is damaged") };
        let addend = relocation.addend().cast_unsigned();
        let value = match (r_type, relocation.target()) {
            (RELATIVE, _) => Value::Own(addend),
            (THREAD_OFFSET, _) => Value::Word(addend),
            (ADDRESS | GLOBAL | JUMP, RelocationTarget::Symbol(index)) => {
                use object::ObjectSymbolTable as _;
                let symbol = symbols.symbol_by_index(index)?;
                if symbol.is_definition() {
                    Value::Own(symbol.address() + if r_type == ADDRESS { addend } else { 0 })
                } else {
                    Value::Of(symbol.name()?.to_owned())
                }
            }
            (other, _) => bail!("the runtime has a relocation that is not known ({other})"),
        };
        values.push((place, value));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_can_be_put_into_a_program() {
        let image = RuntimeImage::parse(crate::embedded::RUNTIME).unwrap();
        use wire::late::name;
        for name in [
            name::FIND,
            name::START,
            name::OPEN,
            name::JOIN,
            name::REDIRECT,
            name::RESTORE,
            name::LEAVE,
            name::SILENCE,
            name::DONE,
            name::STATE,
            name::SYSTEM_CALL,
            name::SCHEDULER,
            name::SYSTEM_CALL_WITH_C,
            name::SCHEDULER_WITH_C,
            name::PLAIN_CALL,
            name::MEMORY_FUNCTIONS[0].1,
            name::MEMORY_FUNCTIONS[2].1,
            name::MEMORY_FUNCTIONS[3].1,
            name::MEMORY_FUNCTIONS[4].1,
            "pthread_create",
            "read",
        ] {
            assert_ne!(image.export(name), 0, "{name}");
        }
        assert!(image.needs().contains(&"_r_debug"));
        let instruction = image.instruction(crate::embedded::RUNTIME).unwrap();
        assert!(instruction > image.export(name::PLAIN_CALL));
        assert!(image.real.1.is_multiple_of(REAL_SIZE as u64) && image.real.1 > 0);
        let names = image.real_names(crate::embedded::RUNTIME);
        assert!(names.iter().any(|name| name == "pthread_create") && !names.iter().any(String::is_empty));
        assert!(image.values.iter().any(|(_, value)| matches!(value, Value::Word(0))));
        for segment in &image.segments {
            assert_eq!(segment.start % PAGE, segment.offset % PAGE);
        }
    }
}
