//! The three kinds of address that must never be mixed: in the process, in the file, and as the
//! ELF file states it.

/// A position in a file, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOffset(pub u64);

/// A stated virtual memory address: what the ELF file's symbols, program headers and debug
/// information say. The process address minus the load bias ([`crate::Image::bias`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Svma(pub u64);

impl Svma {
    /// The stated address of `address` in a process that loaded the image with `bias`.
    pub fn from_process(address: u64, bias: u64) -> Svma {
        Svma(address.wrapping_sub(bias))
    }

    /// Where a process that loaded the image with `bias` has this address.
    pub fn to_process(self, bias: u64) -> u64 {
        self.0.wrapping_add(bias)
    }
}

/// One `PT_LOAD` program header: a piece of the file that becomes a piece of memory (elf(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Where the piece starts in the file.
    pub offset: FileOffset,
    /// Where it is in memory, before the load bias is added. Not always equal to `offset`: lld
    /// places them apart by default.
    pub address: Svma,
    /// Bytes taken from the file.
    pub file_size: u64,
    /// Bytes occupied in memory; what exceeds `file_size` is zero (`.bss`).
    pub memory_size: u64,
    /// Whether the piece holds code.
    pub executable: bool,
}

/// The piece that is at `offset` in the file, and its stated address there; code is preferred where pieces share a page.
pub(crate) fn stated(loads: &[Load], offset: FileOffset) -> Option<(&Load, Svma)> {
    let inside = |load: &&Load| offset.0.checked_sub(load.offset.0).is_some_and(|at| at < load.memory_size);
    let load = loads.iter().filter(inside).min_by_key(|load| !load.executable)?;
    Some((load, Svma(load.address.0.checked_add(offset.0 - load.offset.0)?)))
}

/// The load bias of a mapping, from the program headers.
///
/// `page` is the largest page size to expect. Adjacent segments of one file may share a page, so
/// one mapping offset can belong to two of them; code is preferred, because samples are in code.
pub(crate) fn bias(loads: &[Load], page: u64, mapping_start: u64, mapping_offset: FileOffset) -> Option<u64> {
    let offset = mapping_offset.0;
    let first_byte = |load: &Load| load.offset.0 & !(page - 1);
    let load = loads
        .iter()
        .filter(|load| load.file_size > 0)
        .filter(|load| first_byte(load) <= offset)
        .filter(|load| offset < load.offset.0.saturating_add(load.file_size))
        .min_by_key(|load| (!load.executable, load.offset.0.abs_diff(offset)))?;
    let stated = load.address.0.wrapping_add(offset.wrapping_sub(load.offset.0));
    Some(mapping_start.wrapping_sub(stated))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(offset: u64, address: u64, size: u64, executable: bool) -> Load {
        Load {
            offset: FileOffset(offset),
            address: Svma(address),
            file_size: size,
            memory_size: size,
            executable,
        }
    }

    #[test]
    fn bias_follows_program_headers() {
        let gnu = [load(0, 0, 0x600, false), load(0x1000, 0x1000, 0x500, true)];
        // lld: the code's file offset is not page-aligned and shares its page with the headers.
        let lld = [load(0, 0, 0x5f0, false), load(0x5f0, 0x15f0, 0x400, true)];
        let fixed = [load(0x1000, 0x401000, 0x3000, true)];
        let base = 0x5555_5555_0000;
        for (name, loads, start, offset, expected) in [
            ("gnu ld", &gnu[..], base + 0x1000, 0x1000, Some(base)),
            ("gnu ld, headers", &gnu[..], base, 0, Some(base)),
            ("lld", &lld[..], base + 0x1000, 0, Some(base)),
            ("not PIE", &fixed[..], 0x401000, 0x1000, Some(0)),
            ("split by mprotect", &fixed[..], 0x403000, 0x3000, Some(0)),
            ("no such part", &fixed[..], 0x9000, 0x9000, None),
        ] {
            assert_eq!(bias(loads, 0x1000, start, FileOffset(offset)), expected, "{name}");
        }
    }

    #[test]
    fn bias_may_be_negative() {
        // A prelinked library loaded below its stated address.
        let loads = [load(0, 0x7000_0000, 0x1000, true)];
        let bias = bias(&loads, 0x1000, 0x1000_0000, FileOffset(0)).unwrap();
        assert_eq!(Svma::from_process(0x1000_0123, bias), Svma(0x7000_0123));
        assert_eq!(Svma(0x7000_0123).to_process(bias), 0x1000_0123);
    }
}
