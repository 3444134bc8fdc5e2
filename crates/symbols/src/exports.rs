//! Single symbols that an ELF file exports, found without reading all of them: by the hash table that linkers write for the dynamic
//! linker (`.gnu.hash`).

use crate::address::{FileOffset, Load, Svma, bias};
use crate::elf::{Content, Elf};

/// Where a file has the state of a Python interpreter that it contains or is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonExports {
    /// `_PyRuntime`.
    runtime: Svma,
    /// `Py_Version`: an `unsigned long` (Python 3.11).
    version: Option<Svma>,
    /// `_PyEval_EvalFrameDefault`, in the file.
    evaluator: Option<std::ops::Range<u64>>,
    loads: Vec<Load>,
}

/// Symbols with the same hash that are looked at: there are one or two.
const MOST_ALIKE: usize = 64;
const HEADER: usize = 16;
const SYMBOL: usize = 24;
/// The largest pages that programs are linked for.
const PAGE: u64 = 0x1000;

impl PythonExports {
    /// What a file says; nothing if it has no interpreter.
    pub(crate) fn of(elf: &Elf) -> Option<Self> {
        let exports = Exports::of(elf)?;
        let (runtime, _) = exports.find(b"_PyRuntime")?;
        let evaluator = exports.find(b"_PyEval_EvalFrameDefault").and_then(|(Svma(address), size)| {
            let loads = elf.headers.loads.iter().filter(|load| load.executable);
            let start = loads.filter_map(|load| {
                let at = address.checked_sub(load.address.0).filter(|at| *at < load.file_size)?;
                load.offset.0.checked_add(at)
            });
            let start = { start }.next()?;
            Some(start..start.checked_add(size)?)
        });
        let version = exports.find(b"Py_Version").map(|(address, _)| address);
        Some(Self { runtime, version, evaluator, loads: elf.headers.loads.clone() })
    }

    /// Where a process has `_PyRuntime` and `Py_Version` that has mapped the file's code at `start` from `offset` on.
    #[must_use]
    pub fn in_process(&self, start: u64, offset: FileOffset) -> Option<(u64, Option<u64>)> {
        let bias = bias(&self.loads, PAGE, start, offset)?;
        Some((self.runtime.to_process(bias), self.version.map(|version| version.to_process(bias))))
    }

    /// The function that executes Python's code, by its place in the file.
    #[must_use]
    pub fn evaluator(&self) -> Option<std::ops::Range<u64>> {
        self.evaluator.clone()
    }
}

struct Exports {
    hashes: Content,
    symbols: Content,
    names: Content,
}

impl Exports {
    fn of(elf: &Elf) -> Option<Self> {
        let is_known = elf.headers.is_64 && elf.headers.little_endian;
        let section = |name| elf.content(name).filter(|content| is_known && !content.is_packed());
        Some(Self { hashes: section(".gnu.hash")?, symbols: section(".dynsym")?, names: section(".dynstr")? })
    }

    /// Address and length of a symbol.
    fn find(&self, name: &[u8]) -> Option<(Svma, u64)> {
        let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (header, _) = self.hashes.read(0, HEADER)?;
        let (buckets, first, blooms) =
            (word(&header, 0)? as usize, word(&header, 4)? as usize, word(&header, 8)? as usize);
        let hash = gnu_hash(name);
        let at_buckets = HEADER.checked_add(blooms.checked_mul(8)?)?;
        let bucket = (hash as usize).checked_rem(buckets)?;
        let (start, _) = within(&self.hashes, at_buckets.checked_add(4 * bucket)?, 4)?;
        let start = word(&start, 0)? as usize;
        let chains = at_buckets.checked_add(4 * buckets)?;
        for nth in start..start.checked_add(MOST_ALIKE)? {
            let (link, _) = within(&self.hashes, chains.checked_add(4 * nth.checked_sub(first)?)?, 4)?;
            let link = word(&link, 0)?;
            if link | 1 == hash | 1
                && let Some(found) = self.symbol(nth, name)
            {
                return Some(found);
            }
            if link & 1 != 0 {
                break;
            }
        }
        None
    }

    /// The symbol of this number, if it is defined and has this name.
    fn symbol(&self, nth: usize, name: &[u8]) -> Option<(Svma, u64)> {
        let (symbol, _) = within(&self.symbols, nth.checked_mul(SYMBOL)?, SYMBOL)?;
        let word = |at: usize| Some(u64::from_le_bytes(*symbol.get(at..)?.first_chunk()?));
        let (at_name, section) = (word(0)? as u32 as usize, (word(0)? >> 48) as u16);
        let (found, _) = within(&self.names, at_name, name.len() + 1)?;
        let is_it = section != 0 && found.strip_suffix(&[0]) == Some(name);
        is_it.then_some((Svma(word(8)?), word(16)?))
    }
}

/// Bytes of a section that it has.
fn within(
    content: &Content,
    start: usize,
    length: usize,
) -> Option<(Vec<u8>, Option<crate::unpacking::Share>)> {
    (start.checked_add(length)? <= content.length()).then(|| content.read(start, length))?
}

/// Bernstein's hash, as `.gnu.hash` has it.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn exported_symbols_are_found_by_their_hashes() {
        // The C library that this test has mapped.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(libc) = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .find(|path| path.contains("libc.so"))
        else {
            return eprintln!("skipped: there is no C library here");
        };
        let elf = Elf::open(Path::new(libc)).unwrap();
        let exports = Exports::of(&elf).unwrap();
        for name in ["qsort", "getpid", "environ", "stdout"] {
            assert!(
                exports.find(name.as_bytes()).is_some_and(|(Svma(address), size)| address > 0 && size > 0),
                "{name}"
            );
        }
        for name in ["", "_PyRuntime", "qsor", "qsorts"] {
            assert_eq!(exports.find(name.as_bytes()), None, "{name}");
        }
        assert_eq!(PythonExports::of(&elf), None);
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
    }
}
