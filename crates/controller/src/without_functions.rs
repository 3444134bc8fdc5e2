//! A copy of the runtime that does not stand in front of certain functions: for the experiments that show that the audit notices a
//! way of waiting that the runtime does not know (`bench -- audit`).

use anyhow::{Context as _, Result, ensure};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};
use std::path::PathBuf;
use tempfile::TempDir;

/// Bytes of an entry of the dynamic symbol table.
const ENTRY: usize = size_of::<elf::Sym64<Endianness>>();
/// Where the entry says what kind of symbol it is: `st_info` of elf(5).
const INFO: usize = 4;

/// Writes a copy of `runtime` into a folder that is gone with the returned handle. Its symbols of these names are local ones, so
/// the loader finds the C library's for everything else.
///
/// # Errors
/// When the runtime has no such function, or the folder cannot be written.
pub fn copy(runtime: &[u8], functions: &[String]) -> Result<(TempDir, PathBuf)> {
    let mut copy = runtime.to_vec();
    for function in functions {
        let at = symbol(runtime, function)?.with_context(|| {
            format!("--leave-out {function}: the runtime does not stand in front of this function")
        })?;
        copy[at + INFO] = (elf::STB_LOCAL << 4) | elf::STT_FUNC;
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder for a copy of the runtime")?;
    let path = folder.path().join("libwhatif_rt.so");
    std::fs::write(&path, copy).with_context(|| format!("cannot write {}", path.display()))?;
    Ok((folder, path))
}

/// Where the dynamic symbol table has the exported function, in bytes from the beginning of the file.
fn symbol(file: &[u8], function: &str) -> Result<Option<usize>> {
    let header = elf::FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, elf::SHT_DYNSYM)?;
    let table = sections.section(symbols.section())?;
    let begin = table.sh_offset(endian) as usize;
    let nth = symbols.iter().position(|symbol| {
        use object::read::elf::Sym as _;
        symbol.st_shndx(endian) != elf::SHN_UNDEF
            && symbol.st_bind() != elf::STB_LOCAL
            && symbol.name(endian, symbols.strings()).is_ok_and(|name| name == function.as_bytes())
    });
    let at = nth.map(|nth| begin + nth * ENTRY);
    ensure!(at.is_none_or(|at| at + ENTRY <= file.len()), "the runtime's symbol table is damaged");
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_left_out_is_no_longer_exported() {
        let runtime = crate::embedded::RUNTIME;
        let (_folder, path) = copy(runtime, &["pthread_cond_wait".to_owned()]).unwrap();
        let copied = std::fs::read(path).unwrap();
        assert!(symbol(runtime, "pthread_cond_wait").unwrap().is_some());
        assert!(symbol(&copied, "pthread_cond_wait").unwrap().is_none());
        assert!(symbol(&copied, "pthread_mutex_lock").unwrap().is_some());
        assert_eq!(copied.len(), runtime.len());
        assert!(copy(runtime, &["no_such_function".to_owned()]).is_err());
    }
}
