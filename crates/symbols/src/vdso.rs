//! The functions that the kernel has put into every process: its pages are a library without a file.

use std::ops::Range;

use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, elf};

use crate::elf::build_id_of_notes;

/// See the module. Offsets count from its beginning.
#[derive(Clone, Debug, Default)]
pub struct VdsoFunctions {
    build_id: Vec<u8>,
    /// In order; none overlap.
    functions: Vec<(Range<u64>, String)>,
}

impl VdsoFunctions {
    /// Those of its pages; none if these are not understood, or of 32 bits.
    #[must_use]
    pub fn of(pages: &[u8]) -> VdsoFunctions {
        VdsoFunctions::read(pages).unwrap_or_default()
    }

    fn read(pages: &[u8]) -> object::read::Result<VdsoFunctions> {
        let header = elf::FileHeader64::<Endianness>::parse(pages)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, pages)?;
        let notes = sections.iter().filter(|section| section.sh_type(endian) == elf::SHT_NOTE);
        let mut notes = notes.filter_map(|section| section.data(endian, pages).ok());
        let build_id = notes.find_map(build_id_of_notes).unwrap_or_default();
        let table = sections.symbols(endian, pages, elf::SHT_DYNSYM)?;
        let mut found = Vec::new();
        for symbol in table.iter() {
            let is_function = symbol.st_type() == elf::STT_FUNC && symbol.st_shndx(endian) != elf::SHN_UNDEF;
            let (start, length) = (symbol.st_value(endian), symbol.st_size(endian));
            if let (true, Some(end)) = (is_function, start.checked_add(length))
                && let Ok(name) = symbol.name(endian, table.strings())
            {
                found.push((start..end, String::from_utf8_lossy(name).into_owned()));
            }
        }
        // `__vdso_gettimeofday` is also `gettimeofday`, which would be the C library's.
        found.sort_by_key(|(range, name)| (range.start, !name.starts_with("__vdso_"), name.clone()));
        found.dedup_by(|(later, _), (before, _)| later.start < before.end || later.start == before.start);
        Ok(VdsoFunctions { build_id, functions: found })
    }

    /// Its build ID; empty if it has none.
    #[must_use]
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// The function at an offset.
    #[must_use]
    pub fn name(&self, offset: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(range, _)| range.start <= offset);
        let (range, name) = self.functions.get(after.checked_sub(1)?)?;
        range.contains(&offset).then_some(name.as_str())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (Range<u64>, &str)> {
        self.functions.iter().map(|(range, name)| (range.clone(), name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_not_understood_have_no_functions() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for pages in [&[][..], b"\x7fELF", &program[..64], &program[..4096]] {
            assert_eq!(VdsoFunctions::of(pages).all().count(), 0);
        }
    }
}
