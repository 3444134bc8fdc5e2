//! `whatif db merge`: what databases have is added to another.

use crate::show;
use anyhow::{Context as _, Result, bail, ensure};
use archive::{Database, Store};
use std::path::{Path, PathBuf};

/// `whatif db merge`, of databases: `into` is made if it does not exist, and those in `all` stay as they are.
pub fn merge(into: &Path, all: &[PathBuf]) -> Result<()> {
    let mut others = Vec::new();
    for from in all {
        ensure!(from.is_dir(), "there is no database at {}; name the folder of one", from.display());
        let is_same = match (from.canonicalize(), into.canonicalize()) {
            (Ok(from), Ok(into)) => from == into,
            _ => false,
        };
        if is_same {
            bail!("{} cannot be added to itself; name another folder", from.display());
        }
        let db =
            Database::open(from).with_context(|| format!("cannot read the database {}", from.display()))?;
        others.push((from, db));
    }
    let mut store = Store::open(into).with_context(|| {
        format!("{} cannot be written; if a collector writes it, merge into a new folder", into.display())
    })?;
    let mut left_out = 0;
    for (from, db) in &others {
        for error in store.merge(db).with_context(|| format!("cannot add {}", from.display()))? {
            kernel::say!("whatif: {error}");
            left_out += 1;
        }
    }
    ensure!(
        left_out == 0,
        "everything else was added to {}, but {left_out} segment{} could not be read\n  \
         once that is fixed, give the same command again: nothing is added twice",
        into.display(),
        if left_out == 1 { "" } else { "s" }
    );
    let plural = if others.len() == 1 { "" } else { "s" };
    show::print(&format!(
        "{} database{plural} added to {} (whatif top --db {})\n",
        others.len(),
        into.display(),
        into.display()
    ))
}
