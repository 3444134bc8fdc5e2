//! Which code experiments may be about: that of some source files (`--scope`, `--exclude`) in some programs and libraries (`--binary`).

use crate::arguments;
use anyhow::{Context as _, Result};
use globset::{Glob, GlobSet, GlobSetBuilder};
use symbols::{Scope, ScopeOptions};

/// The code that the options ask for.
#[derive(Clone, Debug)]
pub struct CodeScope {
    pub sources: Scope,
    /// Whether the user has named no source files, so that functions without any may be of interest.
    pub is_default: bool,
    /// Names of programs and libraries, if the user has given any; otherwise the program itself.
    pub binaries: Option<GlobSet>,
}

impl CodeScope {
    /// Decides what was typed.
    pub fn new(args: &arguments::Run) -> Result<Self> {
        let sources =
            Scope::new(ScopeOptions { sources: args.scopes.clone(), excludes: args.excludes.clone() })?;
        let is_default = args.scopes.is_empty() && args.excludes.is_empty();
        Ok(Self { sources, is_default, binaries: binaries(&args.binaries)? })
    }
}

fn binaries(globs: &[String]) -> Result<Option<GlobSet>> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(
            Glob::new(glob).with_context(|| format!("--binary {glob}: not a glob; write e.g. '*libfoo*'"))?,
        );
    }
    Ok(Some(set.build()?))
}
