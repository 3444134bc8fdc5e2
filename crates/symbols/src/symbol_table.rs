//! Functions as the symbol table knows them: ranges and linker names, no lines.

use std::cmp::Reverse;
use std::ops::Range;

use object::read::StringTable;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};

use crate::alias::{plain, rank};
use crate::allowance::LONGEST_TEXT;
use crate::elf::Elf;
use crate::function_name::{FunctionName, FunctionPattern};
use crate::go_table::{GoFunction, GoTable};
use crate::range_index::{Entry, RangeIndex};

/// The sized functions of `.symtab`, or of `.dynsym` where that is all there is.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    functions: RangeIndex<u32>,
    /// Where the names are from.
    source: Source,
    /// All names, each closed by NUL; the index's values are offsets into it.
    names: Vec<u8>,
    /// From here on they are made up.
    made_up: u32,
    /// Where functions begin whose symbols have no size, in order.
    without_size: Vec<u64>,
}

/// Where function names are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The full symbol table.
    Symbols,
    /// The table of Go's runtime, which has the names of all functions in Go.
    Go,
    /// The names that the dynamic linker needs; other functions, if any are known, are called by their address.
    DynamicSymbols,
    /// None: functions are called by their address.
    Addresses,
}

impl SymbolTable {
    /// From the first file that has a symbol table.
    pub fn read<'a>(files: impl Iterator<Item = &'a Elf> + Clone) -> SymbolTable {
        let read = |name: &str, strings: &str, source| {
            files.clone().find_map(|elf| {
                let table = SymbolTable::parse(elf, name, strings, source)?;
                (!table.functions.entries().is_empty()).then_some(table)
            })
        };
        let none = || SymbolTable {
            functions: RangeIndex::new(Vec::new()),
            source: Source::Addresses,
            names: Vec::new(),
            made_up: 0,
            without_size: Vec::new(),
        };
        read(".symtab", ".strtab", Source::Symbols)
            .or_else(|| files.clone().find_map(SymbolTable::of_go))
            .or_else(|| read(".dynsym", ".dynstr", Source::DynamicSymbols))
            .unwrap_or_else(none)
    }

    /// Where the names are from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The same with functions that have no name, only a place: `program+0x1180`.
    pub fn with_unnamed(mut self, program: &str, places: impl Iterator<Item = Range<u64>>) -> SymbolTable {
        let mut entries: Vec<Entry<u32>> = self.functions.entries().to_vec();
        let unnamed: Vec<Range<u64>> =
            places.filter(|range| self.containing(range.start).is_none()).collect();
        self.made_up = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        for range in unnamed {
            let Ok(value) = u32::try_from(self.names.len()) else { break };
            self.names.extend_from_slice(format!("{program}+{:#x}\0", range.start).as_bytes());
            entries.push(Entry { range, value });
        }
        SymbolTable { functions: RangeIndex::new(entries), ..self }
    }

    fn parse(elf: &Elf, symbols: &str, strings: &str, source: Source) -> Option<SymbolTable> {
        let symbols = elf.read_section(symbols)?;
        let names = elf.read_section(strings)?;
        let endian = if elf.headers.little_endian { Endianness::Little } else { Endianness::Big };
        let mut found = if elf.headers.is_64 {
            functions::<elf::FileHeader64<Endianness>>(&symbols, &names, endian)
        } else {
            functions::<elf::FileHeader32<Endianness>>(&symbols, &names, endian)
        };
        // Large programs have a million.
        drop(symbols);
        // Aliases: of several names for one range the last one added wins.
        found.sort_unstable_by_key(|it| (it.start, Reverse(it.end), it.preference, it.name));
        let is_complete = source == Source::Symbols;
        let without_size = if is_complete { end_those_without_size(elf, &mut found) } else { Vec::new() };
        let entry = |it: Function| Entry { range: it.start..it.end, value: it.name };
        let entries = found.into_iter().map(entry).collect();
        Some(SymbolTable {
            functions: RangeIndex::new(entries),
            source,
            names,
            made_up: u32::MAX,
            without_size,
        })
    }

    /// By the table that stripping leaves.
    fn of_go(elf: &Elf) -> Option<SymbolTable> {
        let table = GoTable::of(elf)?;
        let mut entries = Vec::new();
        table.each(|GoFunction { code: range, name: value }| {
            if !range.is_empty() {
                entries.push(Entry { range, value });
            }
            true
        });
        let names = table.whole()?;
        let functions = RangeIndex::new(entries);
        let is_empty = functions.entries().is_empty();
        let table =
            SymbolTable { functions, source: Source::Go, names, made_up: u32::MAX, without_size: Vec::new() };
        (!is_empty).then_some(table)
    }

    /// Whether a symbol of any kind that belongs to a section is at an address in `range`; of 64-bit files.
    pub fn has_label(elf: &Elf, range: &Range<u64>) -> bool {
        if !elf.headers.is_64 {
            return false;
        }
        let endian = if elf.headers.little_endian { Endianness::Little } else { Endianness::Big };
        [".symtab", ".dynsym"].iter().filter_map(|table| elf.read_section(table)).any(|symbols| {
            let symbols = object::pod::slice_from_all_bytes::<elf::Sym64<Endianness>>(&symbols);
            let is_there = |symbol: &elf::Sym64<Endianness>| {
                let of_section = !matches!(symbol.st_shndx(endian), elf::SHN_UNDEF | elf::SHN_ABS);
                of_section && range.contains(&symbol.st_value(endian))
            };
            symbols.is_ok_and(|symbols| symbols.iter().any(is_there))
        })
    }

    /// The function that contains `address`: its range and name.
    pub fn containing(&self, address: u64) -> Option<&Entry<u32>> {
        self.functions.containing(address)
    }

    /// The demangled name of an entry.
    pub fn name(&self, entry: &Entry<u32>) -> FunctionName {
        let bytes = name_at(&self.names, entry.value);
        FunctionName::from_linkage(plain(&String::from_utf8_lossy(bytes)))
    }

    /// The demangled name of an entry, unless it is only a place.
    pub fn real_name(&self, entry: &Entry<u32>) -> Option<FunctionName> {
        (entry.value < self.made_up).then(|| self.name(entry))
    }

    /// Where the functions that match begin; not the pieces that compilers move elsewhere (`work.cold`), which are entered
    /// from within.
    pub fn starts(&self, pattern: &FunctionPattern<'_>) -> impl Iterator<Item = u64> {
        let matches = |entry: &&Entry<u32>| {
            pattern.matches(&String::from_utf8_lossy(name_at(&self.names, entry.value)))
                && !self.is_piece(entry)
        };
        self.functions.entries().iter().filter(matches).map(|entry| entry.range.start)
    }

    /// Whether a function, or a piece of one, matches.
    pub fn has(&self, pattern: &FunctionPattern<'_>) -> bool {
        let mut names = self.functions.entries().iter().map(|entry| name_at(&self.names, entry.value));
        names.any(|name| pattern.matches(&String::from_utf8_lossy(name)))
    }

    /// Where the functions are, pieces included; those whose symbols say where they end.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let has_size = |range: &Range<u64>| self.without_size.binary_search(&range.start).is_err();
        self.functions.entries().iter().map(|entry| entry.range.clone()).filter(has_size)
    }

    /// Whether code that is seldom run was moved here, away from its function.
    pub fn is_moved(&self, address: u64) -> bool {
        self.containing(address).is_some_and(|entry| self.is_piece(entry))
    }

    fn is_piece(&self, entry: &Entry<u32>) -> bool {
        name_at(&self.names, entry.value).windows(5).any(|part| part == b".cold")
    }

    /// The demangled names of all functions.
    pub fn names(&self) -> impl Iterator<Item = FunctionName> + '_ {
        self.functions.entries().iter().map(|entry| self.name(entry))
    }
}

/// The beginning of one that is longer than names are.
pub(crate) fn name_at(names: &[u8], offset: u32) -> &[u8] {
    let names = names.get(offset as usize..).unwrap_or_default();
    let names = &names[..names.len().min(LONGEST_TEXT)];
    let table: StringTable<'_> = StringTable::new(names, 0, names.len() as u64);
    table.get(0).unwrap_or(&names[..names.len().min(BEGINNING)])
}

/// Bytes of a name that is too long.
const BEGINNING: usize = 256;

/// A symbol of a function.
struct Function {
    start: u64,
    end: u64,
    name: u32,
    /// Higher for names that people like better.
    preference: u32,
}

/// How long a function is whose symbol has no size, as those of assembler files often have none (`_init`, `frame_dummy`): it ends where the
/// next one begins, or its section ends.
pub(crate) fn length_without_size(elf: &Elf, start: u64, next: u64) -> u64 {
    let end = elf.section_around(start).map_or(start, |range| range.end).min(next);
    end.saturating_sub(start).min(LONGEST_WITHOUT_SIZE)
}

/// The next symbol may be that of a function behind others that have none.
const LONGEST_WITHOUT_SIZE: u64 = 4096;

/// Gives the functions that have no size one, unless they are within others. `functions`: in the order of their addresses, the longest first. Where these begin.
fn end_those_without_size(elf: &Elf, functions: &mut [Function]) -> Vec<u64> {
    let (mut reach, mut ended) = (0, Vec::new());
    for at in 0..functions.len() {
        let Function { start, end, .. } = functions[at];
        if end == start && start >= reach {
            let behind = at + functions[at..].partition_point(|it| it.start == start);
            let next = functions.get(behind).map_or(u64::MAX, |it| it.start);
            functions[at].end = start.saturating_add(length_without_size(elf, start, next));
            ended.push(start);
        }
        reach = reach.max(end);
    }
    ended
}

fn functions<H: FileHeader<Endian = Endianness>>(
    symbols: &[u8],
    names: &[u8],
    endian: Endianness,
) -> Vec<Function> {
    let Ok(symbols) = object::pod::slice_from_all_bytes::<H::Sym>(symbols) else {
        return Vec::new();
    };
    let is_function = |symbol: &&H::Sym| matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
    symbols
        .iter()
        .filter(is_function)
        .filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF)
        .filter_map(|symbol| {
            let start: u64 = symbol.st_value(endian).into();
            let end = start.checked_add(symbol.st_size(endian).into())?;
            let name = symbol.st_name(endian);
            // Names are long, and many may be parts of one.
            let text = names.get(name as usize..).unwrap_or_default();
            let has_name = text.first().is_some_and(|byte| *byte != 0);
            // Unnamed functions tell nothing that the debug information does not.
            let preference = rank(text, symbol.st_bind() != elf::STB_LOCAL);
            has_name.then_some(Function { start, end, name, preference })
        })
        .collect()
}
