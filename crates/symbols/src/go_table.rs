//! The functions of a program in Go, by the table that its runtime uses (`.gopclntab`) and that stripping leaves: where each begins and ends, and its name.
//!
//! The table's header and its entries are those of `debug/gosym` and of the linker (`cmd/link/internal/ld/pcln.go`), which have changed with Go 1.2, 1.16, 1.18, 1.20 and 1.26; of 64-bit
//! little-endian programs.

use crate::elf::{Content, Elf, LONGEST_WHOLE};
use std::ops::Range;

/// The sections that may have it.
pub(crate) const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// The largest programs have some 300,000.
const MOST_FUNCTIONS: u64 = 4 << 20;
/// Entries that are read at a time.
const CHUNK: u64 = 4096;
/// What is known of so many functions, in bytes: some 60 of each.
const LONGEST_CHUNK: u64 = 16 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct GoTable {
    content: Content,
    layout: Layout,
}

/// Where in the section what is.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// How many functions it has.
    functions: u64,
    /// Where functions are counted from; zero if their addresses are written down.
    text: u64,
    /// Where names are.
    names: u64,
    /// Where entries are, and what they count from.
    entries: u64,
    /// What an entry counts from.
    base: u64,
    /// How long a word of an entry is, in bytes.
    word: u64,
}

/// A function: its code (none in damaged tables), and where in the section its name is, which is closed by NUL.
pub(crate) struct GoFunction {
    pub code: Range<u64>,
    pub name: u32,
}

impl GoTable {
    /// None if there is none, or if it is of a version that is not known.
    pub fn of(elf: &Elf) -> Option<GoTable> {
        if !(elf.headers.is_64 && elf.headers.little_endian) {
            return None;
        }
        let (section, content) = SECTIONS.iter().find_map(|name| Some((*name, elf.content(name)?)))?;
        if content.is_packed() {
            return None;
        }
        let header = content.read(0, Layout::LONGEST.min(content.length()))?.0;
        let mut layout = Layout::parse(&header)?;
        if layout.functions > MOST_FUNCTIONS {
            return None;
        }
        let has_no_text = layout.is_relative() && layout.text == 0;
        if has_no_text
            && let Some(text) = elf.relocated(elf.section_address(section)?.checked_add(Layout::TEXT)?)
        {
            layout.text = text;
        } else if has_no_text {
            // It has been left out since Go 1.26: it is where Go's linker puts code, if the program begins with one of these functions.
            layout.text = elf.section_address(".text")?;
            let table = GoTable { content, layout };
            let mut is_right = false;
            table.each(|function| {
                is_right |= function.code.start == elf.headers.entry;
                !is_right
            });
            return is_right.then_some(table);
        }
        Some(GoTable { content, layout })
    }

    /// How long it is, in bytes.
    pub fn length(&self) -> u64 {
        self.content.length() as u64
    }

    /// What the names of functions are offsets into.
    pub fn names(&self) -> Content {
        self.content.clone()
    }

    /// The section, unless it is larger than what is read as a whole.
    pub fn whole(&self) -> Option<Vec<u8>> {
        if self.length() > LONGEST_WHOLE {
            self.content.refuse();
            return None;
        }
        self.read(0, self.length())
    }

    /// All functions in the order of their code; false if `with` says so, or if the table is damaged.
    pub fn each(&self, mut with: impl FnMut(GoFunction) -> bool) -> bool {
        let Layout { functions, text, names, entries, base, word } = self.layout;
        let (size, is_relative) = (2 * word, self.layout.is_relative());
        // Each part is read once, in a table that is not damaged.
        let mut left = self.length().saturating_mul(2);
        for first in (0..functions).step_by(CHUNK as usize) {
            let count = CHUNK.min(functions - first);
            // The next one begins where the last one ends.
            let Some(chunk) = self.read(entries + first * size, count * size + word) else { return false };
            let entry = |at: u64| number(&chunk, at, word);
            let places: Vec<(u64, u64)> =
                (0..count).map(|nth| (entry(nth * size), entry(nth * size + word))).collect();
            let ends = places.iter().skip(1).map(|(start, _)| *start).chain([entry(count * size)]);
            let lowest = places.iter().map(|(_, place)| *place).min().unwrap_or(0);
            let highest = places.iter().map(|(_, place)| *place).max().unwrap_or(0);
            // An entry of its own begins with the address, and then has where the name is.
            let length = (highest - lowest).saturating_add(word + 4);
            if length > LONGEST_CHUNK || length > left {
                return false;
            }
            left -= length;
            let Some(facts) = self.read(base.saturating_add(lowest), length) else { return false };
            for ((start, place), end) in places.iter().zip(ends) {
                let name = number(&facts, place - lowest + word, 4);
                let from = if is_relative { text } else { 0 };
                let code = from.saturating_add(*start)..from.saturating_add(end);
                let Ok(name) = u32::try_from(names + name) else { continue };
                if !with(GoFunction { code, name }) {
                    return false;
                }
            }
        }
        true
    }

    fn read(&self, start: u64, length: u64) -> Option<Vec<u8>> {
        if start.checked_add(length)? > self.content.length() as u64 {
            return None;
        }
        Some(self.content.read(start as usize, length as usize)?.0)
    }
}

impl Layout {
    /// Headers are not longer.
    const LONGEST: usize = 72;
    /// Where a header has what functions are counted from.
    const TEXT: u64 = 24;

    fn parse(header: &[u8]) -> Option<Layout> {
        let word = |nth: u64| number(header, 8 + nth * 8, 8);
        let is_known = header.get(4..8)? == [0, 0, 1, 8];
        let magic = is_known.then(|| number(header, 0, 4))?;
        let (functions, needed) = (word(0), if magic == 0xffff_fffb { 16 } else { Layout::LONGEST });
        if header.len() < needed {
            return None;
        }
        match magic {
            // Go 1.2
            0xffff_fffb => Some(Layout { functions, text: 0, names: 0, entries: 16, base: 0, word: 8 }),
            // Go 1.16
            0xffff_fffa => {
                Some(Layout { functions, text: 0, names: word(2), entries: word(6), base: word(6), word: 8 })
            }
            // Go 1.18 and 1.20
            0xffff_fff0 | 0xffff_fff1 => {
                let (names, entries) = (word(3), word(7));
                Some(Layout { functions, text: word(2), names, entries, base: entries, word: 4 })
            }
            _ => None,
        }
        .filter(|it| it.names.max(it.entries) < 1 << 32)
    }

    /// Whether functions are counted from the beginning of the code.
    fn is_relative(self) -> bool {
        self.word == 4
    }
}

/// A number of so many bytes; zero behind the end.
fn number(bytes: &[u8], at: u64, length: u64) -> u64 {
    let bytes = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(length as usize)?));
    bytes.unwrap_or_default().iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function_list::{FunctionList, ListEnd, TakesFunctions};
    use crate::{FileOffset, Image, NameSource, Scope, ScopeOptions};
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;

    const SOURCE: &str = "package main\n//go:noinline\nfunc work(n int) int { return n * 3 }\n\
                          func main() { println(work(4)) }\n";

    /// Builds a program, and the same stripped.
    fn build(folder: &Path, flags: &[&str]) -> Option<[std::path::PathBuf; 2]> {
        let source = folder.join("main.go");
        std::fs::write(&source, SOURCE).unwrap();
        let (whole, stripped) = (folder.join("whole"), folder.join("stripped"));
        let build = |to: &Path, more: &[&str]| {
            let mut command = Command::new("go");
            command.arg("build").args(flags).args(more).arg("-o").arg(to).arg(&source);
            command.env("CGO_ENABLED", "0").output().is_ok_and(|output| output.status.success())
        };
        if !build(&whole, &[]) || !build(&stripped, &["-ldflags=-s -w"]) {
            println!("skipped: go build {flags:?} does not work here");
            return None;
        }
        Some([whole, stripped])
    }

    /// The same without what functions are counted from.
    fn as_since_1_26(program: &Path) -> std::path::PathBuf {
        let mut bytes = std::fs::read(program).unwrap();
        let is_header = |part: &[u8]| part[1..] == [0xff, 0xff, 0xff, 0, 0, 1, 8] && part[0] >= 0xf0;
        let header = bytes.windows(8).position(is_header).unwrap();
        bytes[header + Layout::TEXT as usize..][..8].fill(0);
        let without = program.with_extension("without");
        std::fs::write(&without, bytes).unwrap();
        without
    }

    struct All(BTreeMap<String, u64>);

    impl TakesFunctions for All {
        fn take(&mut self, _: FileOffset, length: u64, name: &str) -> bool {
            self.0.insert(name.to_owned(), length);
            true
        }

        fn may_go_on(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn functions_of_stripped_programs_have_their_names() {
        for flags in [&[][..], &["-buildmode=pie"]] {
            let folder = tempfile::tempdir().unwrap();
            let Some([whole, stripped]) = build(folder.path(), flags) else { return };
            let list = |path: &Path| {
                let mut all = All(BTreeMap::new());
                assert_eq!(FunctionList::open(path).unwrap().read(1 << 20, &mut all), ListEnd::All);
                all.0
            };
            let (whole, listed) = (list(&whole), list(&stripped));
            for name in ["main.work", "main.main", "runtime.execute"] {
                let (symbol, table) = (whole[name], listed[name]);
                // The table has what fills the room to the next one as well.
                assert!(table >= symbol && table < symbol + 32, "{flags:?} {name}: {symbol} {table}");
            }
            if flags.is_empty() {
                assert_eq!(list(&as_since_1_26(&stripped)), listed);
            }
            let image = Image::open(&stripped).unwrap();
            assert_eq!(image.name_source(), NameSource::Go);
            let scope = Scope::new(ScopeOptions::default()).unwrap();
            let elf = Elf::open(&stripped).unwrap();
            let mut is_found = false;
            let names = elf.content(SECTIONS[0]).or_else(|| elf.content(SECTIONS[1])).unwrap();
            let names = names.read(0, names.length()).unwrap().0;
            let is_whole = GoTable::of(&elf).unwrap().each(|function| {
                if names[function.name as usize..].starts_with(b"main.work\0") {
                    let frames = image.named_frames(crate::Svma(function.code.start), &scope);
                    assert_eq!(frames.last().unwrap().function.to_string(), "main.work");
                    is_found = true;
                }
                true
            });
            assert!(is_whole && is_found, "{flags:?}");
        }
    }

    #[test]
    fn what_is_damaged_has_no_functions() {
        let mut header = vec![0; 72];
        assert!(Layout::parse(&header).is_none());
        header[..8].copy_from_slice(&[0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
        assert!(Layout::parse(&header).is_some());
        assert!(Layout::parse(&header[..71]).is_none());
        header[64..72].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Layout::parse(&header).is_none());
        assert_eq!(number(&header, u64::MAX, 8), 0);
    }
}
