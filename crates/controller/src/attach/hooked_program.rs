//! Programs whose own code is changed, by their symbol tables: the functions of the C library that a static one has in itself; or where it makes system calls by itself (Go).

use super::go_program::Go;
use super::hooks::JUMP;
use super::image::{WORD, WORD_OF_GO, WORD_OF_MUSL};
use super::objects::Symbol;
use crate::launch::Go as Kind;
use anyhow::{Context as _, Result, bail, ensure};
use object::elf::{
    FileHeader64, PT_LOAD, ProgramHeader64, SHN_UNDEF, SHT_STRTAB, SHT_SYMTAB, STB_LOCAL, STT_FUNC,
    STT_GNU_IFUNC, STT_OBJECT, SectionHeader64,
};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadCache};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

/// A function that is in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub start: u64,
    /// As the file has it; not more of it than [`LONGEST`].
    pub code: Vec<u8>,
    /// Whether it says where the function really is.
    pub is_indirect: bool,
}

/// See the module.
#[derive(Debug)]
pub struct HookedProgram {
    functions: HashMap<String, Function>,
    /// What one in Go has instead.
    pub go: Option<Go>,
    /// Where threads have their word.
    pub word: u64,
}

/// Functions of the C library are not longer; what lies behind is not looked at.
pub(super) const LONGEST: u64 = 1 << 16;
/// Symbol tables, and their names, are not larger.
const LARGEST: u64 = 1 << 30;
/// Names of functions that matter are not longer.
const LONGEST_NAME: usize = 256;
/// Symbols that only one C library has, and that every static program with it has.
const OF_GLIBC: &str = "__libc_setup_tls";
const OF_MUSL: &str = "__init_libc";
/// The first function of the C library that a program needs: linkers put the library's behind it, and the program's own before it.
const FIRST: &str = "__libc_start_main";

impl HookedProgram {
    /// The program that a process runs, and whose first instruction is at `entry`; the functions of these names. `kind`: if it is in Go.
    ///
    /// # Errors
    /// Why its functions cannot be found.
    pub fn read(pid: u32, entry: u64, names: &HashSet<String>, kind: Option<Kind>) -> Result<Self> {
        Self::parse(Path::new(&format!("/proc/{pid}/exe")), entry, names, kind)
    }

    fn parse(path: &Path, entry: u64, names: &HashSet<String>, kind: Option<Kind>) -> Result<Self> {
        let data = &ReadCache::new(File::open(path).context("its program cannot be read")?);
        let header = FileHeader64::<Endianness>::parse(data).context("its program is damaged")?;
        let endian = header.endian()?;
        let bias = entry.wrapping_sub(header.e_entry(endian));
        let sections = header.sections(endian, data).context("its program is damaged")?;
        if let Some(kind) = kind {
            let go = Go::read(path, bias, kind == Kind::WithC)?;
            let word = if go.has_c { WORD } else { WORD_OF_GO };
            return Ok(Self { functions: HashMap::new(), go: Some(go), word });
        }
        let is_large = |section: &SectionHeader64<Endianness>| {
            matches!(section.sh_type(endian), SHT_SYMTAB | SHT_STRTAB) && section.sh_size(endian) > LARGEST
        };
        ensure!(!sections.iter().any(is_large), "its symbol table is too large");
        let symbols = sections.symbols(endian, data, SHT_SYMTAB).context("its symbol table is damaged")?;
        let names_of =
            sections.section(symbols.string_section()).and_then(|section| section.data(endian, data));
        let names_of = names_of.unwrap_or_default();
        ensure!(
            !symbols.is_empty(),
            "it is a static program without a symbol table, so the functions in which its threads wait cannot be found; \
             build it without stripping it (strip --strip-debug keeps the table)"
        );
        let (mut starts, mut found, mut known) = (Vec::new(), HashMap::new(), HashMap::new());
        for symbol in symbols.iter() {
            let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
            let is_defined = symbol.st_shndx(endian) != SHN_UNDEF;
            if !is_defined || !is_function && symbol.st_type() != STT_OBJECT {
                continue;
            }
            let start = symbol.st_value(endian);
            if is_function {
                starts.push(start);
            }
            let name = names_of.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            let name = &name[..name.len().min(LONGEST_NAME)];
            let name = &name[..memchr::memchr(0, name).unwrap_or(0)];
            let Ok(name) = std::str::from_utf8(name) else { continue };
            if [OF_GLIBC, OF_MUSL, FIRST].contains(&name) {
                known.insert(name.to_owned(), start);
            }
            // Others are those of one source file.
            if symbol.st_bind() != STB_LOCAL && names.contains(name) {
                let is_indirect = symbol.st_type() == STT_GNU_IFUNC;
                found.insert(name.to_owned(), (start, symbol.st_size(endian), is_indirect));
            }
        }
        let segments = header.program_headers(endian, data)?;
        let read = |start: u64, length: u64| loaded(data, segments, endian, (start, length));
        let word = match (known.contains_key(OF_GLIBC), known.contains_key(OF_MUSL)) {
            (true, false) => WORD,
            (false, true) => WORD_OF_MUSL,
            _ => bail!("it is a static program whose C library is neither glibc nor musl"),
        };
        let Some(first) = known.get(FIRST) else { bail!("its symbol table has no {FIRST}") };
        starts.sort_unstable();
        // Where another function begins in the first bytes it is entered there.
        let is_entered = |start: u64| {
            let behind = starts.partition_point(|other| *other <= start);
            starts.get(behind).is_some_and(|other| *other < start.saturating_add(JUMP))
        };
        // What the program has defined itself may be something else.
        found.retain(|_, (start, ..)| *start >= *first && !is_entered(*start));
        let function = |(name, (start, size, is_indirect)): (String, (u64, u64, bool))| {
            let next = starts.get(starts.partition_point(|other| *other <= start)).copied();
            let length = if size > 0 { size } else { next.unwrap_or(start) - start };
            let code = read(start, length.min(LONGEST)).unwrap_or_default().to_vec();
            (name, Function { start: start.wrapping_add(bias), code, is_indirect })
        };
        let functions = found.into_iter().map(function).collect();
        Ok(Self { functions, go: None, word })
    }

    /// A function.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// Where one of the functions is.
    pub fn place(&self) -> Option<u64> {
        let functions = self.functions.values().map(|function| function.start);
        let calls = self.go.iter().flat_map(|go| &go.calls).map(|calls| calls.start);
        functions.chain(calls).min()
    }

    /// Whether it has loaded a C library.
    pub fn has_libc(&self) -> bool {
        self.go.as_ref().is_some_and(|go| go.has_c)
    }

    /// The same for what only has to be known.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        self.function(name).map(|it| Symbol { address: it.start, is_indirect: it.is_indirect })
    }
}

/// So many bytes that a file has for an address, before the load bias is added.
pub(super) fn loaded<'d>(
    data: &'d ReadCache<File>,
    segments: &[ProgramHeader64<Endianness>],
    endian: Endianness,
    (start, length): (u64, u64),
) -> Option<&'d [u8]> {
    let bytes = |segment: &ProgramHeader64<Endianness>| {
        segment.data_range(endian, data, start, length).ok().flatten()
    };
    segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_librarys_functions_are_found_and_not_the_programs_own() {
        let folder = tempfile::tempdir().unwrap();
        let (source, path) = (folder.path().join("a.c"), folder.path().join("a.out"));
        let text = "int poll(int a) { return a; } #include <unistd.h>\nint main(void) { char c; return read(0, &c, 1) + poll(1); }"
            .replace(" #include", "\n#include");
        std::fs::write(&source, text).unwrap();
        let build = |compiler: &str| {
            let command =
                Command::new(compiler).args(["-static", "-O1", "-o"]).args([&path, &source]).status();
            command.is_ok_and(|status| status.success())
        };
        let names: HashSet<String> = ["read", "poll", "memcpy", "none"].map(str::to_owned).into();
        let read = || HookedProgram::parse(&path, u64::MAX >> 1, &names, None);
        for (compiler, word) in [("cc", WORD), ("musl-gcc", WORD_OF_MUSL)] {
            if !build(compiler) {
                println!("skipped: {compiler} -static does not work here");
                continue;
            }
            let program = read().unwrap();
            assert_eq!(program.word, word);
            let function = program.function("read").unwrap();
            assert!(!function.code.is_empty() && function.start > 1 << 62, "{function:?}");
            assert_eq!((program.function("poll"), program.function("none")), (None, None));
            assert!(Command::new("strip").arg(&path).status().unwrap().success());
            assert!(read().unwrap_err().to_string().contains("without a symbol table"));
        }
    }
}
