//! The stubs by which a program calls functions of libraries (its procedure linkage table): they have no symbols of their own, and are
//! called after the function that they lead to, `memcpy@plt`; of x86-64 (psABI, 5.2).

use std::collections::HashMap;
use std::ops::Range;

use object::elf;
use object::{Endianness, LittleEndian};

use crate::alias::plain;
use crate::elf::Elf;
use crate::symbol_table::name_at;

/// Where linkers put stubs.
const SECTIONS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];
/// No stub is longer.
const STUB: u64 = 16;
/// The first entry of the table is none of an import: it leads to the dynamic linker, which finds the function at the first call (glibc's name).
const RESOLVER: &str = "_dl_runtime_resolve";
/// The sections of programs with 60,000 imported functions are not larger.
const LONGEST: u64 = 1 << 20;
const LONGEST_TABLE: u64 = 4 << 20;

/// A stub, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub range: Range<u64>,
    pub name: String,
}

/// The stubs of a file, in the order of their addresses.
pub(crate) fn stubs(elf: &Elf) -> Vec<Stub> {
    let is_known = elf.headers.machine == elf::EM_X86_64 && elf.headers.is_64 && elf.headers.little_endian;
    let has_any = SECTIONS.iter().any(|section| elf.has_section(section));
    if !is_known || !has_any {
        return Vec::new();
    }
    let imports = Imports::read(elf);
    let mut stubs: Vec<Stub> =
        SECTIONS.iter().flat_map(|section| of_section(elf, section, &imports)).collect();
    stubs.sort_by_key(|stub| stub.range.start);
    stubs.dedup_by_key(|stub| stub.range.start);
    stubs
}

/// What is imported: by the word of the table that its address is put into, and in the order of `.rela.plt`.
#[derive(Default)]
struct Imports {
    by_word: HashMap<u64, String>,
    in_order: Vec<Option<String>>,
}

impl Imports {
    fn read(elf: &Elf) -> Imports {
        let mut imports = Imports::default();
        let read = |name| elf.read_section_up_to(name, LONGEST_TABLE);
        let (Some(symbols), Some(names)) = (read(".dynsym"), read(".dynstr")) else { return imports };
        let Ok(symbols) = object::pod::slice_from_all_bytes::<elf::Sym64<Endianness>>(&symbols) else {
            return imports;
        };
        let little = Endianness::Little;
        let name = |symbol: u32| {
            let symbol = symbols.get(symbol as usize)?;
            let name = name_at(&names, symbol.st_name.get(little));
            let name = String::from_utf8_lossy(name);
            (!name.is_empty()).then(|| plain(&name).to_owned())
        };
        for (section, is_ordered) in [(".rela.plt", true), (".rela.dyn", false)] {
            let Some(table) = read(section) else { continue };
            let Ok(entries) = object::pod::slice_from_all_bytes::<elf::Rela64<LittleEndian>>(&table) else {
                continue;
            };
            for entry in entries {
                let wanted = [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT]
                    .contains(&entry.r_type(LittleEndian, false));
                let name = if wanted { name(entry.r_sym(LittleEndian, false)) } else { None };
                if let Some(name) = &name {
                    imports.by_word.insert(entry.r_offset.get(LittleEndian), name.clone());
                }
                if is_ordered {
                    imports.in_order.push(name);
                }
            }
        }
        imports
    }
}

fn of_section(elf: &Elf, section: &str, imports: &Imports) -> Vec<Stub> {
    let (Some(range), Some(code)) = (elf.section_range(section), elf.read_section_up_to(section, LONGEST))
    else {
        return Vec::new();
    };
    // Without branch protection those of `.plt.got` are half as long.
    let is_short = section == ".plt.got" && !code.starts_with(&ENDBR64);
    let length = if is_short { STUB / 2 } else { STUB };
    let places = (range.start..).step_by(length as usize);
    let stubs = places.zip(code.chunks_exact(length as usize)).filter_map(|(start, code)| {
        let name = leads_to(start, code, imports)?;
        Some(Stub { range: start..start + length, name: format!("{name}@plt") })
    });
    stubs.collect()
}

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// What a stub jumps to: the dynamic linker, if it hands over a word of the table (`push word(%rip)`); or an import, by a word of the table (`jmp *word(%rip)`), or by its number (`push $number`) where it only asks for
/// the word to be filled in.
fn leads_to<'i>(start: u64, code: &[u8], imports: &'i Imports) -> Option<&'i str> {
    let mut at = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let word = |at: usize| Some(i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
    if code.get(at..at + 2) == Some(&[0xff, 0x35]) {
        return Some(RESOLVER);
    }
    if code.get(at) == Some(&0x68) {
        let number = usize::try_from(word(at + 1)?).ok()?;
        return imports.in_order.get(number)?.as_deref();
    }
    // `bnd`.
    at += usize::from(code.get(at) == Some(&0xf2));
    if code.get(at..at + 2) != Some(&[0xff, 0x25]) {
        return None;
    }
    let next = start.wrapping_add(at as u64 + 6);
    let word = next.wrapping_add_signed(i64::from(word(at + 2)?));
    imports.by_word.get(&word).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_leads_to_a_function() {
        let imports = Imports {
            by_word: HashMap::from([(0x4018, "memcpy".to_owned()), (0x4020, "write".to_owned())]),
            in_order: vec![Some("memcpy".to_owned()), None, Some("write".to_owned())],
        };
        let jump = |start: u64, length: u64, word: u64| {
            let distance = (word.wrapping_sub(start + length) as u32).to_le_bytes();
            [&[0xff, 0x25][..], &distance].concat()
        };
        let push = |number: u32| [&[0x68][..], &number.to_le_bytes()].concat();
        for (code, expected) in [
            (jump(0x1030, 6, 0x4018), Some("memcpy")),
            ([&ENDBR64[..], &jump(0x1030, 10, 0x4020)].concat(), Some("write")),
            ([&ENDBR64[..], &[0xf2], &jump(0x1030, 11, 0x4020)].concat(), Some("write")),
            ([&ENDBR64[..], &push(2)].concat(), Some("write")),
            (push(0), Some("memcpy")),
            ([&[0xff, 0x35, 0xe2, 0x2f, 0, 0][..], &jump(0x1026, 6, 0x4010)].concat(), Some(RESOLVER)),
            (push(1), None),
            (push(3), None),
            (push(u32::MAX), None),
            (jump(0x1030, 6, 0x4019), None),
            (vec![0xff], None),
            (vec![0x90; 16], None),
            (vec![], None),
        ] {
            assert_eq!(leads_to(0x1030, &code, &imports), expected, "{code:x?}");
        }
    }
}
