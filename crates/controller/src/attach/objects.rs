//! The objects that a running program has loaded, read from its memory: their symbols, and the words that lead to functions of others.
//!
//! From memory and not from files, which may have been replaced since, or lie where we cannot see them.

use anyhow::{Context as _, Result, bail, ensure};
use kernel::process_memory::{TraceeMemory, told};
use std::collections::HashMap;

/// `elf.h`.
mod tag {
    pub const PLTRELSZ: u64 = 2;
    pub const HASH: u64 = 4;
    pub const STRTAB: u64 = 5;
    pub const SYMTAB: u64 = 6;
    pub const RELA: u64 = 7;
    pub const RELASZ: u64 = 8;
    pub const STRSZ: u64 = 10;
    pub const DEBUG: u64 = 21;
    pub const JMPREL: u64 = 23;
    pub const GNU_HASH: u64 = 0x6fff_fef5;
}

const SYMBOL: usize = 24;
const RELOCATION: usize = 24;
/// More than any table has; against nonsense.
const MOST: u64 = 1 << 28;

/// What a relocation stands for; `elf.h`.
const ADDRESS: u32 = 1;
const GLOBAL: u32 = 6;
const JUMP: u32 = 7;

/// A function or object.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    pub address: u64,
    /// Whether a function at that address says where it really is.
    pub is_indirect: bool,
}

/// One loaded object.
#[derive(Debug)]
pub struct Object {
    pub name: String,
    base: u64,
    tables: HashMap<u64, u64>,
}

/// A word that leads to a function.
#[derive(Clone, Debug)]
pub struct Word {
    pub place: u64,
    pub name: String,
    pub value: u64,
    /// Whether the loader writes the function's address there with the first call.
    pub is_lazy: bool,
}

/// What the loader says of an object: its base, and where its name and its dynamic section are.
pub type Link = [u64; 3];

/// The list of a process's loader, in its order; an empty one of a static program.
///
/// # Errors
/// It has not been loaded yet; or memory cannot be read.
pub fn links(pid: u32, memory: &TraceeMemory) -> Result<Vec<Link>> {
    const OBJECTS: usize = 4096;
    let Start { debug, has_loader, .. } = Start::of(pid, memory)?;
    if !has_loader {
        return Ok(Vec::new());
    }
    ensure!(debug != 0, "it has not been loaded yet; try again");
    let mut links = Vec::new();
    let mut link = memory.word(debug.wrapping_add(8))?;
    while link != 0 && links.len() < OBJECTS {
        let mut words = [0; 32];
        memory.read(link, &mut words)?;
        links.push([0, 8, 16].map(|at| number(&words, at)));
        link = number(&words, 24);
    }
    Ok(links)
}

/// The loaded objects of a process, in the loader's order.
///
/// # Errors
/// Memory cannot be read.
pub fn loaded(links: &[Link], memory: &TraceeMemory) -> Result<Vec<Object>> {
    let object = |[base, name, dynamic]: Link| {
        Ok(Object { name: text(memory, name)?, base, tables: dynamic_of(memory, base, dynamic)? })
    };
    links.iter().copied().map(object).collect()
}

/// What the kernel has told the program at its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// The program's first instruction.
    pub entry: u64,
    /// Whether a loader has loaded it: it is no static program.
    pub has_loader: bool,
    /// Where that tells debuggers what it has loaded; zero before it has done so.
    pub debug: u64,
}

impl Start {
    /// Of a process.
    ///
    /// # Errors
    /// Its memory cannot be read.
    pub fn of(pid: u32, memory: &TraceeMemory) -> Result<Self> {
        const PHDR: u64 = 3;
        const COUNT: u64 = 5;
        const HEADER: u64 = 56;
        const DYNAMIC: u32 = 2;
        const INTERPRETER: u32 = 3;
        const OWN: u32 = 6;
        let told =
            kernel::process_memory::told_at_start(pid).context("its auxiliary vector cannot be read")?;
        let find = |kind| told.iter().find(|(number, _)| *number == kind).map(|(_, value)| *value);
        let (Some(at), Some(count), Some(entry)) = (find(PHDR), find(COUNT), find(told::ENTRY)) else {
            bail!("its auxiliary vector is empty")
        };
        let mut start = Self { entry, ..Self::default() };
        let (mut bias, mut dynamic) = (0, None);
        for nth in 0..count.min(64) {
            let header = at.wrapping_add(nth * HEADER);
            let (kind, address) = (memory.word(header)? as u32, memory.word(header.wrapping_add(16))?);
            match kind {
                OWN => bias = at.wrapping_sub(address),
                DYNAMIC => dynamic = Some(address),
                INTERPRETER => start.has_loader = true,
                _ => {}
            }
        }
        if let (Some(dynamic), true) = (dynamic, start.has_loader) {
            let tables = dynamic_of(memory, 0, bias.wrapping_add(dynamic))?;
            start.debug = tables.get(&tag::DEBUG).copied().unwrap_or(0);
        }
        Ok(start)
    }
}

/// The entries of a dynamic section.
fn dynamic_of(memory: &TraceeMemory, base: u64, at: u64) -> Result<HashMap<u64, u64>> {
    const ENTRIES: usize = 256;
    let mut tables = HashMap::new();
    if at == 0 {
        return Ok(tables);
    }
    let bytes = memory.read_up_to(at, ENTRIES * 16)?;
    for entry in bytes.chunks_exact(16) {
        let (tag, value) = (number(entry, 0), number(entry, 8));
        if tag == 0 {
            break;
        }
        let is_address =
            matches!(tag, tag::HASH | tag::STRTAB | tag::SYMTAB | tag::RELA | tag::JMPREL | tag::GNU_HASH);
        // glibc relocates these in place, except where the section can only be read.
        let value = if is_address && value < base { value.wrapping_add(base) } else { value };
        tables.insert(tag, value);
    }
    Ok(tables)
}

fn text(memory: &TraceeMemory, at: u64) -> Result<String> {
    const LONGEST: usize = 4096;
    if at == 0 {
        return Ok(String::new());
    }
    let bytes = memory.read_up_to(at, LONGEST)?;
    Ok(String::from_utf8_lossy(name_in(&bytes, 0)).into_owned())
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_ne_bytes(word.try_into().unwrap()))
}

fn name_in(strings: &[u8], at: usize) -> &[u8] {
    let rest = strings.get(at..).unwrap_or_default();
    rest.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl Object {
    /// The file's name without its folders.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is the C library, or its loader.
    pub fn is_libc(&self) -> bool {
        self.file_name().starts_with("libc.so.6") || self.file_name().starts_with("libc-2.") || self.is_musl()
    }

    pub fn is_loader(&self) -> bool {
        self.file_name().starts_with("ld-linux") || self.is_musl()
    }

    /// Whether it is musl, which is its own loader.
    pub fn is_musl(&self) -> bool {
        self.file_name().starts_with("ld-musl-")
            || self.file_name().starts_with("libc.musl-")
            || self.name.ends_with("/musl/lib/libc.so")
    }

    /// How large its tables are, by what it says, in bytes.
    pub fn size_of_tables(&self) -> u64 {
        let sizes = [tag::STRSZ, tag::RELASZ, tag::PLTRELSZ].map(|tag| self.tables.get(&tag).copied());
        sizes.into_iter().flatten().fold(0, |sum: u64, size| sum.saturating_add(size.min(MOST)))
    }

    fn table(&self, memory: &TraceeMemory, tag: u64, length: u64) -> Result<Vec<u8>> {
        let Some(at) = self.tables.get(&tag).filter(|_| length <= MOST) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; usize::try_from(length)?];
        memory.read(*at, &mut bytes).with_context(|| format!("a table of {} cannot be read", self.name))?;
        Ok(bytes)
    }

    fn strings(&self, memory: &TraceeMemory) -> Result<Vec<u8>> {
        self.table(memory, tag::STRTAB, self.tables.get(&tag::STRSZ).copied().unwrap_or(0))
    }

    /// How many symbols there are, by the hash table of their names.
    fn count(&self, memory: &TraceeMemory) -> Result<u64> {
        if let Some(hash) = self.tables.get(&tag::HASH) {
            return Ok(memory.word(*hash)? >> 32);
        }
        let Some(hash) = self.tables.get(&tag::GNU_HASH) else { return Ok(0) };
        let half = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4).map_or(0, |word| u64::from(u32::from_ne_bytes(word.try_into().unwrap())))
        };
        let header = memory.read_up_to(*hash, 16)?;
        let (buckets, first, filter) = (half(&header, 0), half(&header, 4), half(&header, 8));
        let table = hash.wrapping_add(16 + filter * 8);
        let heads = memory.read_up_to(table, usize::try_from(buckets.min(MOST))? * 4)?;
        let mut last = (0..heads.len() / 4).map(|nth| half(&heads, nth * 4)).max().unwrap_or(0);
        if last < first {
            return Ok(first);
        }
        let chains = table.wrapping_add(buckets * 4);
        let chain = memory.read_up_to(chains.wrapping_add((last - first) * 4), 1 << 16)?;
        last += (0..chain.len() / 4).take_while(|nth| half(&chain, nth * 4) & 1 == 0).count() as u64;
        Ok(last + 1)
    }

    /// The symbols of these names that it defines, in their default version or another.
    pub fn symbols(&self, memory: &TraceeMemory, names: &[&str]) -> Result<HashMap<String, Symbol>> {
        const INDIRECT: u8 = 10;
        let table = self.table(memory, tag::SYMTAB, self.count(memory)? * SYMBOL as u64)?;
        let strings = self.strings(memory)?;
        let mut found = HashMap::new();
        for symbol in table.chunks_exact(SYMBOL) {
            let name = name_in(&strings, u32::from_ne_bytes(symbol[..4].try_into().unwrap()) as usize);
            let is_defined = symbol[6..8] != [0, 0];
            let Some(name) = names.iter().find(|wanted| is_defined && wanted.as_bytes() == name) else {
                continue;
            };
            let address = self.base.wrapping_add(number(symbol, 8));
            found.insert((*name).to_owned(), Symbol { address, is_indirect: symbol[4] & 0xf == INDIRECT });
        }
        Ok(found)
    }

    /// The words through which it calls functions that `is_wanted`, or has their addresses.
    pub fn words(&self, memory: &TraceeMemory, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Word>> {
        let strings = self.strings(memory)?;
        let length = |tag| self.tables.get(&tag).copied().unwrap_or(0);
        let mut relocations = self.table(memory, tag::RELA, length(tag::RELASZ))?;
        relocations.extend(self.table(memory, tag::JMPREL, length(tag::PLTRELSZ))?);
        let split = |relocation: &[u8]| {
            let information = number(relocation, 8);
            (number(relocation, 0), information as u32, information >> 32, number(relocation, 16))
        };
        let is_one = |kind, addend| matches!(kind, GLOBAL | JUMP) || kind == ADDRESS && addend == 0;
        let all = || {
            relocations
                .chunks_exact(RELOCATION)
                .map(split)
                .filter(|(_, kind, _, addend)| is_one(*kind, *addend))
        };
        let symbols = all().map(|(_, _, symbol, _)| symbol + 1).max().unwrap_or(0);
        let table = self.table(memory, tag::SYMTAB, symbols * SYMBOL as u64)?;
        let mut words = Vec::new();
        for (offset, kind, symbol, _) in all() {
            let Some(symbol) = table.get(symbol as usize * SYMBOL..).filter(|_| symbol != 0) else {
                continue;
            };
            let name = name_in(&strings, u32::from_ne_bytes(symbol[..4].try_into().unwrap()) as usize);
            let Ok(name) = std::str::from_utf8(name) else { continue };
            let place = self.base.wrapping_add(offset);
            if is_wanted(name)
                && place.is_multiple_of(8)
                && let Ok(value) = memory.word(place)
            {
                let is_lazy = kind == JUMP && symbol[6..8] == [0, 0];
                words.push(Word { place, name: name.to_owned(), value, is_lazy });
            }
        }
        Ok(words)
    }

    /// Whether an address is near: in the object itself, as far as its tables tell.
    pub fn is_at(&self, address: u64, mappings: &[Area]) -> bool {
        let Some(own) = self.tables.get(&tag::STRTAB) else { return false };
        let file = |address: u64| mappings.iter().find(|area| area.has(address)).map(|area| area.file);
        file(*own).is_some_and(|own| own != (0, 0) && file(address) == Some(own))
    }
}

/// A stretch of a process's memory.
#[derive(Clone, Debug)]
pub struct Area {
    pub start: u64,
    pub end: u64,
    pub is_writable: bool,
    pub is_executable: bool,
    /// Device, as a hash, and inode of the file.
    pub file: (u64, u64),
    pub name: String,
}

impl Area {
    pub fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// What a process has mapped: proc_pid_maps(5).
pub fn areas(pid: u32) -> Result<Vec<Area>> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).context("its mappings cannot be read")?;
    let text = String::from_utf8_lossy(&text);
    let area = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let (_, device, inode) = (words.next()?, words.next()?, words.next()?);
        let device = device.bytes().fold(0, |hash: u64, byte| hash * 257 + u64::from(byte));
        Some(Area {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            is_writable: rights.as_bytes().get(1) == Some(&b'w'),
            is_executable: rights.as_bytes().get(2) == Some(&b'x'),
            file: (device, inode.parse().ok()?),
            name: words.collect::<Vec<_>>().join(" "),
        })
    };
    Ok(text.lines().filter_map(area).collect())
}
