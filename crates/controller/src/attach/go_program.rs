//! Programs in Go: where they make system calls, and the functions of their scheduler.

use super::hooked_program::{Function, LONGEST, loaded};
use crate::go_functions::{self, GoFunction};
use anyhow::{Context as _, Result, ensure};
use iced_x86::{Code, Decoder, DecoderOptions};
use object::elf::{FileHeader64, PT_TLS, SHT_SYMTAB, STT_TLS};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache};
use std::fs::File;
use std::path::Path;
use wire::late::SCHEDULER;

/// A program in Go.
#[derive(Debug)]
pub struct Go {
    /// The functions that make system calls.
    pub calls: Vec<Calls>,
    /// Those of Go's scheduler, by their places in [`SCHEDULER`].
    pub scheduler: Vec<(usize, Function)>,
    /// Whether it has C code and glibc as well, which a loader has loaded.
    pub has_c: bool,
    /// Where a thread of such a program has its goroutine, from its thread pointer, and where its `m` has the one that it runs for the program; zeros if that is not known.
    pub goroutine: [u64; 2],
}

/// A function that makes system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    pub start: u64,
    pub length: usize,
    /// Its code, and a few bytes behind it.
    pub code: Vec<u8>,
    /// Where the `syscall` instructions are, from its beginning.
    pub at: Vec<usize>,
}

/// Functions of Go that make system calls in which threads wait, wake others, or change what they do about signals. Those of the packages that other
/// system calls are made by have all kinds of names.
const OF_GO: [&str; 9] =
    ["futex", "usleep", "osyield", "epollwait", "epollctl", "read", "write1", "closefd", "rt_sigaction"];
const PACKAGES_OF_GO: [&str; 3] = ["syscall.", "runtime/internal/syscall.", "internal/runtime/syscall"];
/// Its parent waits meanwhile, and has the same stack.
const VFORK_OF_GO: &str = "syscall.rawVfork";
/// Bytes behind a function.
const BEHIND: u64 = 8;

/// Programs in Go have some twenty functions that make system calls, with one or two in each.
const MOST_CALLING: usize = 1024;
const MOST_CALLS: usize = 16;
/// Go's name for where a thread has its goroutine.
const GOROUTINE: &[u8] = b"runtime.tlsg";

impl Go {
    /// The program in a file, which is loaded so many bytes from where the file says. `has_libc`: with a C library besides.
    ///
    /// # Errors
    /// Why it cannot be hooked.
    pub fn read(path: &Path, bias: u64, has_libc: bool) -> Result<Self> {
        let data = &ReadCache::new(File::open(path).context("its program cannot be read")?);
        let header = FileHeader64::<Endianness>::parse(data).context("its program is damaged")?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, data)?;
        let sections = header.sections(endian, data).context("its program is damaged")?;
        let schedules = |name: &str| SCHEDULER.iter().position(|schedules| schedules.name == name);
        let is_wanted = |name: &str| makes_calls(name) || schedules(name).is_some();
        let functions = go_functions::find(path, MOST_CALLING, is_wanted)?;
        let read = |start: u64, length: u64| loaded(data, segments, endian, (start, length));
        let (mut calls, mut scheduler) = (Vec::new(), Vec::new());
        for GoFunction { start, length, name } in functions {
            let Some(code) = read(start, length.min(LONGEST) + BEHIND) else { continue };
            let (place, length) = (start.wrapping_add(bias), length.min(LONGEST) as usize);
            match schedules(&name) {
                Some(nth) => {
                    let code = code[..length].to_vec();
                    scheduler.push((nth, Function { start: place, code, is_indirect: false }));
                }
                None => calls.extend(Calls::of(place, length, code)),
            }
        }
        ensure!(!calls.is_empty(), "none of the functions that its tables name makes system calls");
        scheduler.sort_unstable_by_key(|(nth, function)| (*nth, function.start));
        scheduler.dedup_by_key(|(nth, _)| *nth);
        let own = segments.iter().find(|segment| segment.p_type(endian) == PT_TLS);
        let symbols = sections.symbols(endian, data, SHT_SYMTAB).unwrap_or_default();
        let mut named = symbols.iter().filter(|symbol| {
            symbol.st_type() == STT_TLS && symbols.symbol_name(endian, *symbol) == Ok(GOROUTINE)
        });
        let named = named.next().map(|symbol| symbol.st_value(endian));
        let place =
            own.map_or(0, |own| place_of_goroutine((own.p_memsz(endian), own.p_align(endian)), named));
        let info = sections.section_by_name(endian, b".go.buildinfo");
        let info = info.and_then(|(_, section)| section.data(endian, data).ok()).unwrap_or_default();
        let goroutine = place_in_thread(info).map_or([0; 2], |current| [place, current]);
        Ok(Self { calls, scheduler, has_c: has_libc, goroutine })
    }
}

/// Where `m.curg` is in Go's `struct m`, by the version that the linker has written down; none if there is no version there.
fn place_in_thread(info: &[u8]) -> Option<u64> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const VERSION: &[u8] = b"go1.";
    let version = info.strip_prefix(MAGIC)?;
    let version =
        &version[version.windows(VERSION.len()).position(|part| part == VERSION)? + VERSION.len()..];
    let digits = version.iter().take(3).take_while(|digit| digit.is_ascii_digit());
    let minor = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    // `gobuf.ret`, which is in `m.morebuf`, is gone since then.
    const WITHOUT_RESULT: u32 = 25;
    Some(if minor >= WITHOUT_RESULT { 184 } else { 192 })
}

/// Where a thread has its goroutine, from its thread pointer: the program's own thread-local words, so large and aligned so, end there, and the one for the goroutine begins at `place` in
/// them. Go's linker may have no symbol for the only one.
fn place_of_goroutine((size, alignment): (u64, u64), place: Option<u64>) -> u64 {
    const WORD: u64 = 8;
    let place = place.or((size == WORD).then_some(0)).filter(|place| place.saturating_add(WORD) <= size);
    let end = size.checked_next_multiple_of(alignment.max(1)).unwrap_or(0);
    place.map_or(0, |place| place.wrapping_sub(end))
}

/// Whether a function of Go makes system calls that matter, as far as its name tells.
fn makes_calls(name: &str) -> bool {
    let name = name.strip_suffix(".abi0").unwrap_or(name);
    match name.strip_prefix("runtime.") {
        Some(name) => OF_GO.contains(&name),
        None => {
            PACKAGES_OF_GO.iter().any(|package| name.starts_with(package)) && !name.starts_with(VFORK_OF_GO)
        }
    }
}

impl Calls {
    /// None if it makes none.
    fn of(start: u64, length: usize, code: &[u8]) -> Option<Self> {
        let own = code.get(..length)?;
        let decoder = Decoder::with_ip(64, own, start, DecoderOptions::NONE);
        let at = decoder.into_iter().filter(|it| it.code() == Code::Syscall);
        let at: Vec<usize> = at.map(|it| (it.ip() - start) as usize).take(MOST_CALLS).collect();
        (!at.is_empty()).then(|| Self { start, length, code: code.to_vec(), at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_the_linker_has_written() {
        let info = |version: &[u8]| [&b"\xff Go buildinf:\x08\x02\0\0\x08"[..], version].concat();
        assert_eq!(place_in_thread(&info(b"go1.19.8")), Some(192));
        assert_eq!(place_in_thread(&info(b"go1.25")), Some(184));
        assert_eq!((place_in_thread(&info(b"devel")), place_in_thread(b"go1.19")), (None, None));
    }

    #[test]
    fn the_goroutine_is_in_the_programs_own_thread_local_words() {
        assert_eq!(place_of_goroutine((8, 8), None), 0_u64.wrapping_sub(8));
        assert_eq!(place_of_goroutine((40, 16), Some(8)), 0_u64.wrapping_sub(40));
        assert_eq!(place_of_goroutine((40, 8), None), 0, "it may be any of them");
        assert_eq!(place_of_goroutine((8, 8), Some(8)), 0, "damaged");
    }
}
