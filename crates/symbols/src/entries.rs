//! Where code is entered: the instructions at which visits to a line or a function are counted. These may read all
//! debug information, like the [catalogue](crate::LineLookup).

use std::collections::{BTreeMap, BTreeSet};

use crate::address::Svma;
use crate::function_name::{FunctionName, FunctionPattern};
use crate::image::Image;
use crate::path::FilePattern;
use crate::scope::Scope;
use crate::search::Hit;

/// One copy of a line: the out-of-line function that it is in, and the calls that were inlined around it.
type Copy = (Option<Svma>, Vec<(FunctionName, Option<u32>)>);

impl Image {
    /// The first instruction of `line` of a file that [matches](crate::file_matches), in every copy of it: one for
    /// each function that it is part of, and for each place where that function was inlined. Ascending; empty if
    /// the line has no code.
    ///
    /// A line whose code is in several pieces is entered at the one with the lowest address, as debuggers
    /// have it: the header of a loop before its first round.
    pub fn line_entries(&self, file_pattern: &str, line: u32, scope: &Scope) -> Vec<Svma> {
        let pattern = FilePattern::new(file_pattern);
        let mut copies: BTreeMap<Copy, Svma> = BTreeMap::new();
        self.visit_lines(&pattern, |spans| {
            for span in spans.iter().filter(|span| span.line() == Some(line)) {
                let start = Svma(span.start);
                let lowest = copies.entry(self.copy(start, scope)).or_insert(start);
                *lowest = start.min(*lowest);
            }
        });
        self.in_place(copies.into_values().collect()).into_iter().collect()
    }

    /// Without the pieces of functions that were moved elsewhere because they seldom run, unless there is nothing else.
    fn in_place(&self, entries: BTreeSet<Svma>) -> BTreeSet<Svma> {
        let in_place: BTreeSet<Svma> =
            entries.iter().copied().filter(|Svma(entry)| !self.symbols().is_moved(*entry)).collect();
        if in_place.is_empty() { entries } else { in_place }
    }

    /// Which copy of its line an instruction belongs to.
    fn copy(&self, address: Svma, scope: &Scope) -> Copy {
        let frames = self.frames(address, scope).into_iter().enumerate();
        // The innermost frame's line is the line itself.
        let calls = frames.map(|(nth, frame)| (frame.function, frame.line.filter(|_| nth > 0)));
        (self.container(address).map(|container| container.start), calls.collect())
    }

    /// The first instruction of every function that [matches](FunctionName::matches): out of line, and wherever it
    /// was inlined. Ascending; empty if there is none.
    pub fn function_entries(&self, pattern: &str) -> Vec<Svma> {
        let pattern = FunctionPattern::new(pattern);
        let mut entries: BTreeSet<Svma> = self.symbols().starts(&pattern).map(Svma).collect();
        // Of a function in several pieces the debug information does not say which is the first.
        let named = !entries.is_empty();
        let Some(info) = self.debug_info() else { return entries.into_iter().collect() };
        for hit in info.search(self.files(), &pattern) {
            entries.extend(match hit {
                Hit::OutOfLine(start) => Some(Svma(start)).filter(|_| !named),
                Hit::Inlined(ranges) => {
                    self.in_place(ranges.iter().map(|range| Svma(range.start)).collect()).first().copied()
                }
                Hit::Abstract => None,
            });
        }
        entries.into_iter().collect()
    }
}
