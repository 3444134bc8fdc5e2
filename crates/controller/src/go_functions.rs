//! Functions of a program in Go, by its symbol table, or by Go's own, which stripping leaves.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use symbols::{FileOffset, FunctionList, Image, ListEnd, TakesFunctions};

/// A function: its address before the load bias is added, its length in bytes, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoFunction {
    pub start: u64,
    pub length: u64,
    pub name: String,
}

/// Memory for all functions of a part of the code, in bytes.
const ROOM: usize = 4 << 20;

struct Wanted<F> {
    is_wanted: F,
    most: usize,
    found: Vec<(FileOffset, u64, String)>,
}

impl<F: Fn(&str) -> bool> TakesFunctions for Wanted<F> {
    fn take(&mut self, start: FileOffset, length: u64, name: &str) -> bool {
        if (self.is_wanted)(name) {
            self.found.push((start, length, name.to_owned()));
        }
        self.found.len() <= self.most
    }

    fn may_go_on(&mut self) -> bool {
        true
    }
}

/// Those whose names are wanted, at most so many, in the order of their code.
///
/// # Errors
/// The file cannot be read, has neither of the tables, or has more.
pub fn find(path: &Path, most: usize, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<GoFunction>> {
    let (list, image) = (FunctionList::open(path)?, Image::open(path)?);
    let mut wanted = Wanted { is_wanted, most, found: Vec::new() };
    let end = list.read(ROOM, &mut wanted);
    ensure!(end == ListEnd::All, "its table of functions is damaged, or has too many that make system calls");
    let found = wanted.found.into_iter().map(|(start, length, name)| {
        let start = image.stated(start).context("its table of functions is damaged")?.0;
        Ok(GoFunction { start, length, name })
    });
    found.collect()
}
