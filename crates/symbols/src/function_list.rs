//! All functions of a file in the order in which its code has them, in little memory: for those who keep names for later.
//!
//! A symbol table of some hundred megabytes is read several times, each time for a part of the code that has no more functions than there is
//! room for; names are read one by one.

use std::cmp::Reverse;
use std::fs::File;
use std::path::Path;

use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};

use crate::address::{FileOffset, Load};
use crate::alias::{plain, rank};
use crate::debug_file::debug_file_paths;
use crate::elf::{Content, Elf};
use crate::error::ImageError;
use crate::go_table::{GoFunction, GoTable};
use crate::identity::identity;
use crate::stubs::{Stub, stubs};
use crate::symbol_table::length_without_size;

/// Symbols that are looked at: large browsers have three million.
const MOST_SYMBOLS: usize = 8 << 20;
/// Symbols that are read at a time.
const CHUNK: usize = 4096;
/// The code is cut into so many pieces, to find those with few enough functions.
const PIECES: usize = 4096;
/// Names are read in pages, of which the last ones are kept.
const PAGE: usize = 4096;
const PAGES: usize = 64;
/// Longer names are left out.
const LONGEST_NAME: usize = 16 << 10;
/// Memory that is there for functions at least, in bytes.
const LEAST_ROOM: usize = 64 << 10;

/// Takes the functions of a list.
pub trait TakesFunctions {
    /// One that begins at `start` in the file; whether there is room for more.
    fn take(&mut self, start: FileOffset, length: u64, name: &str) -> bool;
    /// Whether it may take longer. Asked every few thousand symbols.
    fn may_go_on(&mut self) -> bool;
}

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// All functions were taken, or there are none.
    All,
    /// More were not taken, or it took too long.
    Stopped,
}

/// See the module.
#[derive(Debug)]
pub struct FunctionList {
    elf: Elf,
}

/// A function.
struct Function {
    start: u64,
    length: u32,
    name: u32,
    is_public: bool,
}

impl FunctionList {
    /// Opens a file. Reads headers only.
    ///
    /// # Errors
    /// As for [`Image::open`](crate::Image::open).
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Ok(Self { elf: Elf::open(path)? })
    }

    /// See [`Image::identity`](crate::Image::identity).
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        identity(&self.elf)
    }

    /// Whether that is a build ID.
    #[must_use]
    pub fn has_build_id(&self) -> bool {
        self.elf.headers.build_id.is_some()
    }

    /// How long its symbol table is, with names, in bytes: reading takes the longer.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        let length = |section| self.elf.content(section).map_or(0, |content| content.length() as u64);
        match length(".symtab") {
            0 => match GoTable::of(&self.elf) {
                Some(table) => table.length(),
                None => length(".dynsym") + length(".dynstr"),
            },
            symbols => symbols + length(".strtab"),
        }
    }

    /// What is read.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.elf.file
    }

    /// Hands over all functions in the order of their code, aliases once, with about `room` bytes of memory. They are those of the symbol
    /// table, of the debug file with this build ID where that has the only one, of Go's own table, or else those that the dynamic linker needs; and the stubs
    /// by which functions of libraries are called.
    pub fn read(&self, room: usize, to: &mut dyn TakesFunctions) -> ListEnd {
        let full = ListedTable::of(&self.elf, ".symtab", ".strtab");
        let apart = || {
            let id = self.elf.headers.build_id.as_deref()?;
            let places = debug_file_paths(&crate::debug_file::hex(id)).into_iter();
            let open = places.filter_map(|place| Elf::open(&place.path).ok());
            let mut open = open.filter(|file| file.headers.build_id.as_deref() == Some(id));
            open.find_map(|file| ListedTable::of(&file, ".symtab", ".strtab"))
        };
        let full = full.or_else(apart);
        if full.is_none()
            && let Some(table) = GoTable::of(&self.elf)
        {
            return self.read_go(&table, to);
        }
        let elf = full.is_some().then_some(&self.elf);
        let table = full.or_else(|| ListedTable::of(&self.elf, ".dynsym", ".dynstr"));
        let loads = &self.elf.headers.loads;
        let mut hand =
            Hand { loads, elf, stubs: stubs(&self.elf), next: 0, reach: 0, without_size: None, to };
        let end = table.map_or(ListEnd::All, |mut table| {
            let (is_64, little) = (self.elf.headers.is_64, self.elf.headers.little_endian);
            let endian = if little { Endianness::Little } else { Endianness::Big };
            if is_64 {
                table.read::<elf::FileHeader64<Endianness>>(endian, room, &mut hand)
            } else {
                table.read::<elf::FileHeader32<Endianness>>(endian, room, &mut hand)
            }
        });
        let is_complete = end == ListEnd::All && hand.all_before(u64::MAX);
        if end == ListEnd::All && !is_complete { ListEnd::Stopped } else { end }
    }

    /// The same for a stripped program in Go.
    fn read_go(&self, table: &GoTable, to: &mut dyn TakesFunctions) -> ListEnd {
        let mut names = Names::of(table.names());
        let (loads, stubs) = (&self.elf.headers.loads, stubs(&self.elf));
        let mut hand = Hand { loads, elf: None, stubs, next: 0, reach: 0, without_size: None, to };
        let (mut nth, mut is_stopped) = (0, false);
        let is_whole = table.each(|GoFunction { code, name }| {
            nth += 1;
            is_stopped |= nth % CHUNK == 0 && !hand.to.may_go_on();
            let length = code.end.saturating_sub(code.start);
            if length > 0
                && let Some(name) = names.read(name)
            {
                let name = String::from_utf8_lossy(name).into_owned();
                is_stopped |= !hand.function(code.start, length, &name);
            }
            !is_stopped
        });
        let is_complete = is_whole && !is_stopped && hand.all_before(u64::MAX);
        if is_complete { ListEnd::All } else { ListEnd::Stopped }
    }
}

/// Hands functions over with their offsets in the file, and stubs between them.
struct Hand<'a> {
    loads: &'a [Load],
    /// The file, if all its functions are listed: those without a size end where the next one begins.
    elf: Option<&'a Elf>,
    stubs: Vec<Stub>,
    next: usize,
    /// Where the functions so far end.
    reach: u64,
    /// The last function, if its symbol has no size.
    without_size: Option<(u64, String)>,
    to: &'a mut dyn TakesFunctions,
}

impl Hand<'_> {
    fn function(&mut self, start: u64, length: u64, name: &str) -> bool {
        if !self.all_before(start) {
            return false;
        }
        if length == 0 {
            self.without_size = (start >= self.reach).then(|| (start, name.to_owned()));
            return true;
        }
        self.reach = self.reach.max(start.saturating_add(length));
        self.hand(start, length, name)
    }

    fn all_before(&mut self, start: u64) -> bool {
        if let Some((begin, name)) = self.without_size.take() {
            let length = self.elf.map_or(0, |elf| length_without_size(elf, begin, start));
            if !self.stubs_before(begin) || (length > 0 && !self.hand(begin, length, &name)) {
                return false;
            }
        }
        self.stubs_before(start)
    }

    fn stubs_before(&mut self, start: u64) -> bool {
        while let Some(stub) = self.stubs.get(self.next).filter(|stub| stub.range.start < start) {
            let Stub { range, name } = stub.clone();
            self.next += 1;
            if !self.hand(range.start, range.end - range.start, &name) {
                return false;
            }
        }
        true
    }

    fn hand(&mut self, start: u64, length: u64, name: &str) -> bool {
        let Some(load) = load_of(self.loads, start) else { return true };
        self.to.take(FileOffset(load.offset.0.saturating_add(start - load.address.0)), length, name)
    }
}

/// The code that an address is in, as far as it is in the file.
fn load_of(loads: &[Load], address: u64) -> Option<&Load> {
    let inside = |load: &&Load| address.checked_sub(load.address.0).is_some_and(|at| at < load.file_size);
    loads.iter().filter(|load| load.executable).find(inside)
}

/// A symbol table, and its names.
struct ListedTable {
    symbols: Content,
    names: Names,
}

impl ListedTable {
    /// Nothing if the file has none. Packed ones would have to be unpacked as a whole.
    fn of(elf: &Elf, symbols: &str, names: &str) -> Option<ListedTable> {
        let plain = |section| elf.content(section).filter(|content| !content.is_packed());
        let (symbols, names) = (plain(symbols)?, plain(names)?);
        Some(ListedTable { symbols, names: Names::of(names) })
    }

    fn read<H: FileHeader<Endian = Endianness>>(
        &mut self,
        endian: Endianness,
        room: usize,
        hand: &mut Hand<'_>,
    ) -> ListEnd {
        let most = room.max(LEAST_ROOM) / size_of::<Function>();
        let code = hand.loads.iter().filter(|load| load.executable);
        let bounds = |load: &Load| (load.address.0, load.address.0.saturating_add(load.file_size));
        let (lowest, highest) =
            code.map(bounds).fold((u64::MAX, 0), |(low, high), (start, end)| (low.min(start), high.max(end)));
        if lowest >= highest {
            return ListEnd::All;
        }
        // How many functions begin in each piece of the code.
        let piece = (highest - lowest).div_ceil(PIECES as u64);
        let mut counts = vec![0_usize; PIECES];
        let is_counted = self.each::<H>(endian, hand, |function| {
            if let Some(count) = counts.get_mut(((function.start - lowest) / piece) as usize) {
                *count += 1;
            }
        });
        if !is_counted {
            return ListEnd::Stopped;
        }
        let mut first = 0;
        while first < PIECES {
            let (mut end, mut sum) = (first, 0);
            while end < PIECES && (end == first || sum + counts[end] <= most) {
                sum += counts[end];
                end += 1;
            }
            let part = lowest + first as u64 * piece..lowest.saturating_add(end as u64 * piece);
            first = end;
            if sum == 0 {
                continue;
            }
            let mut functions = Vec::with_capacity(sum.min(most));
            let mut is_full = false;
            let is_read = self.each::<H>(endian, hand, |function| {
                if part.contains(&function.start) {
                    is_full |= functions.len() == most;
                    if functions.len() < most {
                        functions.push(function);
                    }
                }
            });
            if !is_read || !self.hand_over(functions, hand) || is_full {
                return ListEnd::Stopped;
            }
        }
        ListEnd::All
    }

    /// Of aliases the one that people know.
    fn hand_over(&mut self, mut functions: Vec<Function>, hand: &mut Hand<'_>) -> bool {
        functions.sort_unstable_by_key(|it| (it.start, Reverse(it.length), it.name));
        for (nth, aliases) in functions
            .chunk_by(|one, other| (one.start, one.length) == (other.start, other.length))
            .enumerate()
        {
            if nth % CHUNK == 0 && !hand.to.may_go_on() {
                return false;
            }
            let mut best: Option<(u32, Vec<u8>)> = None;
            // Code that was folded can have thousands.
            for alias in aliases.iter().take(PAGES) {
                let Some(name) = self.names.read(alias.name) else { continue };
                let rank = rank(name, alias.is_public);
                if best.as_ref().is_none_or(|(best, _)| rank >= *best) {
                    best = Some((rank, name.to_vec()));
                }
            }
            let Some((_, name)) = best else { continue };
            let name = String::from_utf8_lossy(&name);
            if !hand.function(aliases[0].start, aliases[0].length.into(), plain(&name)) {
                return false;
            }
        }
        true
    }

    /// All functions with a name in the code of the file, in the order of the table; false if it takes too long.
    fn each<H: FileHeader<Endian = Endianness>>(
        &self,
        endian: Endianness,
        hand: &mut Hand<'_>,
        mut with: impl FnMut(Function),
    ) -> bool {
        let size = size_of::<H::Sym>();
        let count = (self.symbols.length() / size).min(MOST_SYMBOLS);
        for first in (0..count).step_by(CHUNK) {
            let Some((bytes, _)) = self.symbols.read(first * size, CHUNK.min(count - first) * size) else {
                return true;
            };
            let Ok(symbols) = object::pod::slice_from_all_bytes::<H::Sym>(&bytes) else { return true };
            for symbol in symbols {
                let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
                let (start, length): (u64, u64) =
                    (symbol.st_value(endian).into(), symbol.st_size(endian).into());
                let is_here = is_function
                    && symbol.st_shndx(endian) != elf::SHN_UNDEF
                    && symbol.st_name(endian) != 0
                    && load_of(hand.loads, start).is_some();
                if is_here {
                    let is_public = symbol.st_bind() != elf::STB_LOCAL;
                    let length = u32::try_from(length).unwrap_or(u32::MAX);
                    with(Function { start, length, name: symbol.st_name(endian), is_public });
                }
            }
            if !hand.to.may_go_on() {
                return false;
            }
        }
        true
    }
}

/// Names, of which some pages are kept.
struct Names {
    content: Content,
    pages: Vec<(usize, Vec<u8>)>,
    name: Vec<u8>,
}

impl Names {
    fn of(content: Content) -> Names {
        Names { content, pages: (0..PAGES).map(|_| (usize::MAX, Vec::new())).collect(), name: Vec::new() }
    }

    /// The name at an offset; nothing if there is none, or if it is too long.
    fn read(&mut self, offset: u32) -> Option<&[u8]> {
        let Names { content, pages, name } = self;
        name.clear();
        let mut at = offset as usize;
        loop {
            let rest = page(pages, content, at / PAGE)?.get(at % PAGE..).filter(|rest| !rest.is_empty())?;
            let end = memchr::memchr(0, rest);
            name.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            if name.len() > LONGEST_NAME {
                return None;
            }
            if end.is_some() {
                return (!name.is_empty()).then_some(name);
            }
            at += rest.len();
        }
    }
}

/// A page of names.
fn page<'a>(pages: &'a mut [(usize, Vec<u8>)], content: &Content, number: usize) -> Option<&'a [u8]> {
    let place = &mut pages[number % PAGES];
    if place.0 != number {
        let start = number.checked_mul(PAGE)?;
        let length = content.length().checked_sub(start)?.min(PAGE);
        *place = (number, content.read(start, length)?.0);
    }
    Some(&place.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::scope::{Scope, ScopeOptions};

    #[derive(Default)]
    struct All {
        functions: Vec<(u64, u64, String)>,
        most: usize,
    }

    impl TakesFunctions for All {
        fn take(&mut self, FileOffset(start): FileOffset, length: u64, name: &str) -> bool {
            self.functions.push((start, length, name.to_owned()));
            self.functions.len() < self.most
        }

        fn may_go_on(&mut self) -> bool {
            true
        }
    }

    fn all(path: &Path, room: usize) -> Vec<(u64, u64, String)> {
        let mut all = All { most: usize::MAX, ..All::default() };
        assert_eq!(FunctionList::open(path).unwrap().read(room, &mut all), ListEnd::All);
        all.functions
    }

    #[test]
    fn all_functions_are_listed_in_the_order_of_the_code_in_any_room() {
        let path = std::env::current_exe().unwrap();
        let functions = all(&path, 64 << 20);
        assert!(functions.len() > 1000, "{}", functions.len());
        assert!(functions.is_sorted_by_key(|(start, ..)| *start));
        // Far less than they take at once.
        assert_eq!(all(&path, 0), functions);
    }

    /// A name without what stands in angle brackets.
    fn without_types(name: &str) -> String {
        let mut depth = 0_i32;
        let outside = |letter: &char| {
            depth += i32::from(*letter == '<') - i32::from(*letter == '>');
            depth == 0
        };
        name.chars().filter(outside).collect()
    }

    #[test]
    fn names_are_those_that_an_image_has() {
        let path = std::env::current_exe().unwrap();
        let (image, scope) = (Image::open(&path).unwrap(), Scope::new(ScopeOptions::default()).unwrap());
        let functions = all(&path, 64 << 20);
        let mut compared = 0;
        for (start, _, name) in functions.iter().step_by(97) {
            let address = image.stated(FileOffset(*start)).unwrap();
            let frames = image.named_frames(address, &scope);
            let Some(outermost) = frames.last() else { panic!("nothing is at {start:#x}") };
            let listed = crate::function_name::FunctionName::from_linkage(name);
            // Functions with the same code are one, which is named after one of them, and the other may have no symbol at all.
            let told = without_types(&outermost.function.to_string());
            let same = told == without_types(&listed.to_string());
            let has_symbol = |(_, _, name): &(u64, u64, String)| {
                told == without_types(&crate::function_name::FunctionName::from_linkage(name).to_string())
            };
            assert!(
                same || functions.iter().filter(|(at, ..)| at == start).count() > 1
                    || !functions.iter().any(has_symbol),
                "{start:#x}: {} and {listed}",
                outermost.function
            );
            compared += 1;
        }
        assert!(compared > 10, "{compared}");
    }

    #[test]
    fn functions_without_a_size_end_where_the_next_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let (source, path) = (folder.path().join("a.s"), folder.path().join("a.out"));
        let function = |name: &str, code: &str| format!(".type {name},@function\n{name}: {code}\n");
        let lines = [
            ".globl _start\n.section .init,\"ax\"\n".to_owned(),
            function("first", ".skip 9"),
            ".text\n".to_owned(),
            function("_start", ".skip 3"),
            function("sized", ".skip 4"),
            function("inside", ".skip 5\n.size sized, . - sized"),
            function("last", ".skip 6"),
        ];
        std::fs::write(&source, lines.concat()).unwrap();
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-nostdlib", "-static", "-o"]).args([&path, &source]);
        assert!(compiler.status().unwrap().success());
        let list = all(&path, 0);
        let list: Vec<(&str, u64)> = list.iter().map(|(_, length, name)| (name.as_str(), *length)).collect();
        assert_eq!(list, [("first", 9), ("_start", 3), ("sized", 9), ("last", 6)]);
        let (image, scope) = (Image::open(&path).unwrap(), Scope::new(ScopeOptions::default()).unwrap());
        for (start, length, name) in all(&path, 1 << 20) {
            for offset in [start, start + length - 1] {
                let frames = image.named_frames(image.stated(FileOffset(offset)).unwrap(), &scope);
                assert_eq!(frames.last().unwrap().function.to_string(), name, "{offset:#x}");
            }
        }
    }

    #[test]
    fn a_list_ends_where_there_is_no_room_for_more() {
        let list = FunctionList::open(&std::env::current_exe().unwrap()).unwrap();
        let mut few = All { most: 100, ..All::default() };
        assert_eq!(list.read(1 << 20, &mut few), ListEnd::Stopped);
        assert_eq!(few.functions.len(), 100);
    }
}
