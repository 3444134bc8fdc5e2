//! What regions are called that the user has not named: the names of functions, lines and modules.

use crate::arguments::Granularity;
use profile::RegionKind;
use symbols::Frame;

/// How code is named: the same for samples of this run and of others.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    pub granularity: Granularity,
    /// Whether instances of generic functions have names of their own.
    pub instances: bool,
}

impl Naming {
    /// The name of the region that a frame belongs to, and the source file that is part of it.
    pub fn of(self, kind: RegionKind, frame: &Frame) -> (String, Option<String>) {
        let mut file = frame.file.as_deref().map(str::to_owned);
        let name = match (kind, &file, frame.line) {
            (RegionKind::Line, Some(file), Some(line)) => {
                format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
            }
            _ if self.granularity == Granularity::Module => module(frame),
            _ if self.instances => frame.function.to_string(),
            _ => frame.function.base().to_owned(),
        };
        if self.granularity == Granularity::Module && frame.function.base().contains("::") {
            file = None; // it may be in several
        }
        (name, file)
    }
}

impl Naming {
    /// The same for functions on stacks, which are no modules.
    pub fn of_functions(self) -> Self {
        Self { granularity: Granularity::Function, ..self }
    }
}

/// What a function is part of: its module or type, or else its source file.
fn module(frame: &Frame) -> String {
    let file = || {
        let file = frame.file.as_deref()?;
        Some(file.rsplit('/').next().unwrap_or(file).to_owned())
    };
    match frame.function.base().rsplit_once("::") {
        Some((module, _)) if !module.is_empty() => module.to_owned(),
        _ => file().unwrap_or_else(|| frame.function.base().to_owned()),
    }
}
