//! What an image has at all: for checking what the user named, and for telling them what they may
//! have meant. These may read all debug information (a second for a large program); they are for
//! start-up checks and error messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimli::UnitOffset;

use crate::debug_info::DebugInfo;
use crate::function_name::{FunctionName, FunctionPattern};
use crate::image::Image;
use crate::line_table::{LineTable, Span};
use crate::path::{FilePattern, file_name};
use crate::scope::Scope;
use crate::subprograms::Subprograms;
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
        });
        names.into_iter().filter(|name| !name.is_unknown()).collect()
    }

    /// Whether a function that [matches](FunctionName::matches) has code here.
    pub fn has_function(&self, pattern: &str) -> bool {
        let pattern = FunctionPattern::new(pattern);
        let in_debug_info = |info: &DebugInfo| !info.search(self.files(), &pattern).is_empty();
        self.symbols().has(&pattern) || self.debug_info().is_some_and(in_debug_info)
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
        let order = |other: u32| (other.abs_diff(line), other < line);
        let mut near: Option<u32> = None;
        self.visit_lines(&pattern, |spans| {
            near = spans.iter().filter_map(Span::line).chain(near).min_by_key(|theirs| order(*theirs));
        });
        match near {
            Some(theirs) if theirs == line => LineLookup::Exact,
            Some(theirs) => LineLookup::NearestWithCode(theirs),
            None => LineLookup::NoSuchFile { similar: self.similar_files(file_name(file_pattern)) },
        }
    }

    /// Files with code whose names are near, best first.
    fn similar_files(&self, name: &str) -> Vec<String> {
        let mut files: BTreeSet<Arc<str>> = BTreeSet::new();
        if let Some(info) = self.debug_info() {
            let mut with_code = |lines: &LineTable| {
                let runs = lines.runs().filter(|(_, spans)| spans.iter().any(|span| span.line().is_some()));
                files.extend(runs.map(|(file, _)| Arc::clone(file)));
            };
            let allowance = info.allowance_once();
            info.units().for_each(|unit| info.with_lines(unit, &allowance, &mut with_code));
        }
        nearest(name, files.iter().map(|file| &**file), "/")
    }

    /// Calls `visit` with all code of the files that match, in runs of one file.
    pub(crate) fn visit_lines(&self, pattern: &FilePattern, mut visit: impl FnMut(&[Span])) {
        let Some(info) = self.debug_info() else { return };
        let named = |unit: &usize| {
            info.names_file(*unit, |name| pattern.may_match(name), |file| pattern.matches(file))
        };
        let allowance = info.allowance_once();
        for unit in info.units().filter(named) {
            info.with_lines(unit, &allowance, |lines| {
                let meant = lines.runs().filter(|(file, _)| pattern.matches(file));
                meant.for_each(|(_, spans)| visit(spans));
            });
        }
    }

    /// Whether any source file in `scope` was compiled with line information: if not, every
    /// experiment will be refused, and the user should rebuild with `-g` (Rust: `debug = 1`).
    /// Quick if a main source file is in scope.
    pub fn has_line_info_in(&self, scope: &Scope) -> bool {
        let Some(info) = self.debug_info() else { return false };
        info.units().any(|unit| scope.contains(info.main_file(unit)))
            || info.units().any(|unit| info.names_file(unit, |_| true, |file| scope.contains(Some(file))))
    }

    /// The folder of the crate that a Rust program is built of, if that lies in the registry, as after `cargo install`: none
    /// of its code would be in `scope` otherwise. Ends with a slash.
    pub fn own_crate(&self, scope: &Scope) -> Option<String> {
        if !self.is_rust() {
            return None;
        }
        let info = self.debug_info()?;
        let mut found: Option<&str> = None;
        for unit in info.units() {
            let Some(file) = info.main_file(unit) else { continue };
            if scope.contains(Some(file)) {
                return None;
            }
            // Where a program begins, not a library: those that it is built of are in the registry as well.
            let begins = file.ends_with("/main.rs") || file.contains("/src/bin/");
            if let Some(folder) = crate::scope::registry_crate(file).filter(|_| begins) {
                if found.is_some_and(|other| other != folder) {
                    return None;
                }
                found = Some(folder);
            }
        }
        found.map(str::to_owned)
    }

    /// Calls `visit` with the functions of the debug information.
    fn visit_debug_names(&self, mut visit: impl FnMut(FunctionName)) {
        let Some(info) = self.debug_info() else { return };
        info.read_once(self.files(), info.units(), &info.allowance_once(), |reader| {
            let functions = Subprograms::read(reader);
            functions.with_code().iter().for_each(|die| visit(reader.name(UnitOffset(*die))));
        });
    }
}
