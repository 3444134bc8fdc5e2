//! What an image has at all: for checking what the user named, and for telling them what they may
//! have meant. These may read all debug information (a second for a large program); they are for
//! start-up checks and error messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimli::UnitOffset;

use crate::function_name::FunctionName;
use crate::image::Image;
use crate::line_table::Span;
use crate::path::{FilePattern, file_name};
use crate::scope::Scope;
use crate::suggestion::nearest;

/// Whether a source line has code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineLookup {
    /// It has.
    Exact,
    /// It has none; this line of the same file is the nearest that has (the later of two).
    NearestWithCode(u32),
    /// No file that matches has code.
    NoSuchFile {
        /// Files with code whose names are near, best first.
        similar: Vec<String>,
    },
}

impl Image {
    /// Every function that has code here, out of line or inlined, sorted by full name.
    pub fn function_names(&self) -> Vec<FunctionName> {
        let mut names: BTreeSet<FunctionName> = self.symbols().names().collect();
        self.visit_debug_names(|name| {
            names.insert(name);
            false
        });
        names.into_iter().filter(|name| !name.is_unknown()).collect()
    }

    /// Whether a function that [matches](FunctionName::matches) has code here.
    pub fn has_function(&self, pattern: &str) -> bool {
        self.symbols().names().any(|name| name.matches(pattern))
            || self.visit_debug_names(|name| name.matches(pattern))
    }

    /// The functions (their [base](FunctionName::base) names) nearest to a pattern that matches
    /// none, best first, at most five.
    pub fn suggest(&self, pattern: &str) -> Vec<String> {
        let names = self.function_names();
        nearest(pattern, names.iter().map(FunctionName::base), "::")
    }

    /// Whether `line` of a file that [matches](crate::file_matches) has code, and what is near if
    /// not.
    pub fn has_line(&self, file_pattern: &str, line: u32) -> LineLookup {
        let pattern = FilePattern::new(file_pattern);
        let mut files: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut near: Option<u32> = None;
        for (file, spans) in self.line_runs() {
            if spans.iter().any(|span| span.line().is_some()) {
                files.insert(Arc::clone(file));
            }
            if !pattern.matches(file) {
                continue;
            }
            for theirs in spans.iter().filter_map(Span::line) {
                if theirs == line {
                    return LineLookup::Exact;
                }
                let order = |other: u32| (other.abs_diff(line), other < line);
                near = Some(match near {
                    Some(near) if order(near) <= order(theirs) => near,
                    _ => theirs,
                });
            }
        }
        near.map_or_else(
            || LineLookup::NoSuchFile {
                similar: nearest(file_name(file_pattern), files.iter().map(|file| &**file), "/"),
            },
            LineLookup::NearestWithCode,
        )
    }

    /// All code with a source file, in runs of one file.
    pub(crate) fn line_runs(&self) -> impl Iterator<Item = (&Arc<str>, &[Span])> {
        let info = self.debug_info().into_iter();
        info.flat_map(|info| info.units().flat_map(|unit| info.lines(unit).runs()))
    }

    /// Whether any source file in `scope` was compiled with line information: if not, every
    /// experiment will be refused, and the user should rebuild with `-g` (Rust: `debug = 1`).
    /// Quick if a main source file is in scope.
    pub fn has_line_info_in(&self, scope: &Scope) -> bool {
        let Some(info) = self.debug_info() else { return false };
        info.units().any(|unit| scope.contains(info.main_file(unit)))
            || info.units().any(|unit| info.lines(unit).files().any(|file| scope.contains(Some(file))))
    }

    /// Calls `visit` with the functions of the debug information until it returns true, and tells
    /// whether it did.
    fn visit_debug_names(&self, mut visit: impl FnMut(FunctionName) -> bool) -> bool {
        let Some(info) = self.debug_info() else { return false };
        info.units().any(|unit| {
            let functions = info.subprograms(unit).with_code();
            let found = info
                .with_unit(unit, |reader| functions.iter().any(|die| visit(reader.name(UnitOffset(*die)))));
            found.unwrap_or(false)
        })
    }
}
