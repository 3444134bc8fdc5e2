//! Which code experiments may be about: that of some source files (`--scope`, `--exclude`) in some programs and libraries (`--binary`). Source
//! files can be those of one program (`--scope worker:src/`).

use crate::arguments;
use anyhow::{Context as _, Result};
use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};
use symbols::{Scope, ScopeOptions};

/// The code that the options ask for.
#[derive(Clone, Debug)]
pub struct CodeScope {
    /// The source files, whatever program they are of.
    pub sources: Scope,
    /// Whether the user has named no source files, so that functions without any may be of interest.
    pub is_default: bool,
    /// Names of programs and libraries, if the user has given any; otherwise the program itself.
    pub binaries: Option<GlobSet>,
    scopes: Vec<Sources>,
    excludes: Vec<Sources>,
}

/// Source files, as they were typed.
#[derive(Clone, Debug)]
struct Sources {
    /// The program that they are of; none for any.
    program: Option<GlobMatcher>,
    glob: String,
}

impl Sources {
    /// `PROGRAM:GLOB`, where a program has no slash; otherwise a glob.
    fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once(':');
        let Some((program, glob)) =
            parts.filter(|(program, glob)| !program.is_empty() && !program.contains('/') && !glob.is_empty())
        else {
            return Ok(Self { program: None, glob: text.to_owned() });
        };
        let of = Glob::new(program).with_context(|| {
            format!("{text}: {program} is no name of a program; write e.g. --scope 'worker*:src/*'")
        })?;
        Ok(Self { program: Some(of.compile_matcher()), glob: glob.to_owned() })
    }
}

impl CodeScope {
    /// Decides what was typed.
    pub fn new(args: &arguments::Run) -> Result<Self> {
        let parse =
            |globs: &[String]| globs.iter().map(|text| Sources::parse(text)).collect::<Result<Vec<_>>>();
        let (scopes, excludes) = (parse(&args.scopes)?, parse(&args.excludes)?);
        // What one program does without others may have.
        let everywhere = excludes.iter().filter(|sources| sources.program.is_none());
        let sources = Scope::new(ScopeOptions { sources: globs(&scopes), excludes: globs(everywhere) })?;
        Scope::new(ScopeOptions { sources: vec![], excludes: globs(&excludes) })?;
        let is_default = args.scopes.is_empty() && args.excludes.is_empty();
        Ok(Self { sources, is_default, binaries: binaries(&args.binaries)?, scopes, excludes })
    }

    /// Whether source files are named of single programs.
    pub fn names_programs(&self) -> bool {
        self.scopes.iter().chain(&self.excludes).any(|sources| sources.program.is_some())
    }

    /// The source files of a program or library, of which `is_called` says whether a name is meant for it; none if they are those of all.
    pub fn sources_of(&self, is_called: impl Fn(&GlobMatcher) -> bool) -> Option<Scope> {
        if !self.names_programs() {
            return None;
        }
        let is_meant = |sources: &&Sources| sources.program.as_ref().is_none_or(&is_called);
        let sources = globs(self.scopes.iter().filter(is_meant));
        if sources.is_empty() && !self.scopes.is_empty() {
            return Some(Scope::nothing());
        }
        let excludes = globs(self.excludes.iter().filter(is_meant));
        // All of them are known to be globs.
        Scope::new(ScopeOptions { sources, excludes }).ok()
    }
}

fn globs<'a>(sources: impl IntoIterator<Item = &'a Sources>) -> Vec<String> {
    sources.into_iter().map(|sources| sources.glob.clone()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        run: arguments::Run,
    }

    fn scope(words: &[&str]) -> Result<CodeScope> {
        CodeScope::new(&Typed::parse_from([&["run"], words, &["--", "x"]].concat()).run)
    }

    /// Whether a source file of a program is in scope.
    fn has(scope: &CodeScope, program: &str, file: &str) -> bool {
        let of_program = scope.sources_of(|glob| glob.is_match(program));
        of_program.as_ref().unwrap_or(&scope.sources).contains(Some(file))
    }

    #[test]
    fn source_files_may_be_those_of_one_program() {
        for (words, worker, master) in [
            (&[][..], [true, true], [true, true]),
            (&["--scope", "a.c"], [true, false], [true, false]),
            (&["--scope", "work*:a.c"], [true, false], [false, false]),
            (&["--scope", "worker:src/", "--scope", "b.c"], [true, true], [false, true]),
            (&["--scope", "master:b.c"], [false, false], [false, true]),
            (&["--exclude", "worker:a.c"], [false, true], [true, true]),
            (&["--scope", "src/x:a.c"], [false, false], [false, false]),
        ] {
            let scope = scope(words).unwrap();
            let of = |program| ["/p/src/a.c", "/p/src/b.c"].map(|file| has(&scope, program, file));
            assert_eq!((of("worker"), of("master")), (worker, master), "{words:?}");
            assert_eq!(scope.is_default, words.is_empty());
        }
    }

    #[test]
    fn what_is_no_glob_is_refused() {
        for words in [["--scope", "[:a.c"], ["--scope", "worker:["], ["--exclude", "worker:["]] {
            let error = format!("{:#}", scope(&words).unwrap_err());
            assert!(error.contains('['), "{error}");
        }
    }
}
