//! What can be measured: a program with regions that can really be shrunk.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use targets::{Language, Target};

/// A program with certain arguments. `REGION=FACTOR` shrinks a region, `seconds=S` says how long it runs, and it prints its rate.
pub trait Subject: fmt::Debug {
    /// What tables call it.
    fn name(&self) -> &str;

    /// The program as it was built for us.
    fn program(&self) -> Result<PathBuf>;

    /// Arguments that make the program this subject.
    fn arguments(&self) -> Vec<String>;

    /// The progress point, which is also the word after `rate` in the program's output.
    fn point(&self) -> &str;

    /// Functions whose work `REGION=FACTOR` shrinks.
    fn regions(&self) -> Vec<&str>;

    /// The file in which the regions are defined.
    fn source(&self) -> PathBuf;

    /// Options of `whatif run` without which the program would not be this subject.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
}

impl Subject for Target {
    fn name(&self) -> &str {
        self.name
    }

    fn program(&self) -> Result<PathBuf> {
        Ok(targets::path(self.name)?)
    }

    fn arguments(&self) -> Vec<String> {
        self.arguments.iter().map(|argument| (*argument).to_owned()).collect()
    }

    fn point(&self) -> &str {
        self.point
    }

    fn regions(&self) -> Vec<&str> {
        self.regions.to_vec()
    }

    fn source(&self) -> PathBuf {
        let (folder, extension) = match self.language {
            Language::C => ("targets/c", "c"),
            Language::Cpp => ("targets/c", "cpp"),
            Language::Rust => ("targets/src/bin", "rs"),
        };
        in_workspace(folder).join(self.program).with_extension(extension)
    }

    /// The programs that execute what asks them: that is the world.
    fn options(&self) -> &'static [&'static str] {
        if matches!(self.program, "world" | "hyper_rs") { &["--no-follow"] } else { &[] }
    }
}

/// A path that is given from the top of the sources.
pub fn in_workspace(path: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).join(path)
}
