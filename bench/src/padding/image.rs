//! The functions of a program that can be padded.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationTarget, SymbolKind};

/// A function that begins with a patchable entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// As the linker has it.
    pub name: String,
    /// Bytes from the beginning of the image.
    pub offset: u64,
}

/// All of a program, sorted by offset.
#[derive(Debug)]
pub struct Functions(Vec<Function>);

impl Functions {
    pub fn of(program: &Path) -> Result<Self> {
        let bytes = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
        Self::parse(&bytes).with_context(|| format!("reading the functions of {}", program.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let elf = object::File::parse(bytes)?;
        let base = elf.segments().map(|segment| segment.address()).min().context("no segments")?;
        let entries = entries(&elf)?;
        let mut functions: Vec<Function> = elf
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && entries.contains(&symbol.address()))
            .filter_map(|symbol| {
                Some(Function { name: symbol.name().ok()?.to_owned(), offset: symbol.address() - base })
            })
            .collect();
        ensure!(!functions.is_empty(), "it has no symbols for its patchable entries (was it stripped?)");
        functions.sort_by(|a, b| (a.offset, &a.name).cmp(&(b.offset, &b.name)));
        // Several names of one function are one function.
        functions.dedup_by_key(|function| function.offset);
        Ok(Self(functions))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Function> {
        self.0.iter()
    }

    /// Bytes from the beginning of the image to the last function.
    pub fn extent(&self) -> u64 {
        self.0.last().map_or(0, |last| last.offset)
    }

    /// The one that is called `name`.
    pub fn called(&self, name: &str) -> Result<&Function> {
        let mut found = self.0.iter().filter(|function| function.name == name);
        match (found.next(), found.next()) {
            (Some(function), None) => Ok(function),
            (Some(_), Some(_)) => {
                bail!("several functions are called '{name}'; choose one whose name is its own")
            }
            (None, _) => bail!(
                "there is no function '{name}' that can be padded (it may have been inlined; --list shows those that run)"
            ),
        }
    }
}

/// The addresses in the section that the compiler makes of them. In a program that can be loaded anywhere they are
/// what is to be added to the base in relocations.
fn entries(elf: &object::File) -> Result<HashSet<u64>> {
    let section = elf
        .section_by_name("__patchable_function_entries")
        .context("it was compiled without -fpatchable-function-entry")?;
    let within = section.address()..section.address() + section.size();
    let relocated = elf.dynamic_relocations().into_iter().flatten();
    let mut entries: HashSet<u64> = relocated
        .filter(|(at, relocation)| within.contains(at) && relocation.target() == RelocationTarget::Absolute)
        .filter_map(|(_, relocation)| u64::try_from(relocation.addend()).ok())
        .collect();
    let words =
        section.data()?.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
    entries.extend(words.filter(|address| *address != 0));
    Ok(entries)
}
