//! One compilation unit's line table, as spans of addresses with a file and a line.

use std::ops::Range;
use std::sync::Arc;

use gimli::{LineProgramHeader, Reader, UnitRef};

use crate::allowance::{Allowance, STEPS_AT_A_TIME};
use crate::path::{file_name, join};

/// The spans of a unit, sorted and not overlapping.
#[derive(Debug, Default)]
pub(crate) struct LineTable {
    files: Vec<Option<Arc<str>>>,
    spans: Vec<Span>,
}

/// A maximal range that the table gives one row to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
    file: u32,
    /// 0: code that belongs to no line.
    line: u32,
}

impl Span {
    pub fn line(&self) -> Option<u32> {
        (self.line != 0).then_some(self.line)
    }
}

impl LineTable {
    /// Runs the unit's line program. Rows outside `code` are of functions that the linker threw
    /// away. A program that fails half-way gives the rows up to there.
    pub fn read<R: Reader<Offset = usize>>(
        unit: UnitRef<'_, R>,
        code: &[Range<u64>],
        allowance: &Allowance,
    ) -> LineTable {
        let Some(program) = unit.line_program.clone() else { return LineTable::default() };
        let mut rows = program.rows();
        let mut spans: Vec<Span> = Vec::new();
        let mut open: Option<Span> = None;
        let mut steps = 0;
        while let Ok(Some((_, row))) = rows.next_row() {
            steps += 1;
            if steps % STEPS_AT_A_TIME == 0 && !allowance.steps(2 * STEPS_AT_A_TIME) {
                break;
            }
            if let Some(mut span) = open.take() {
                span.end = row.address();
                let is_code = code.iter().any(|code| code.contains(&span.start));
                if span.start < span.end && is_code {
                    if spans.len() == spans.capacity() {
                        let more = spans.len().max(64);
                        if !allowance.bytes(more * size_of::<Span>()) {
                            break;
                        }
                        spans.reserve_exact(more);
                    }
                    spans.push(span);
                }
            }
            if !row.end_sequence() {
                open = Some(Span {
                    start: row.address(),
                    end: row.address(),
                    file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                    line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                });
            }
        }
        let files = files(unit, rows.header(), allowance);
        LineTable { files, spans: without_overlaps(spans) }
    }

    /// The bytes that it takes of an allowance.
    pub fn size(&self) -> usize {
        let files = self.files().map(|file| file.len()).sum::<usize>();
        files + self.spans.capacity() * size_of::<Span>()
    }

    /// The spans that share an address with `range`.
    pub fn spans(&self, range: Range<u64>) -> &[Span] {
        let first = self.spans.partition_point(|span| span.end <= range.start);
        let rest = &self.spans[first..];
        &rest[..rest.partition_point(|span| span.start < range.end)]
    }

    /// All spans.
    pub fn all(&self) -> &[Span] {
        &self.spans
    }

    /// All spans of a file, where they lie side by side: each run of them with its file.
    pub fn runs(&self) -> impl Iterator<Item = (&Arc<str>, &[Span])> {
        let runs = self.spans.chunk_by(|a, b| a.file == b.file);
        runs.filter_map(|spans| Some((self.file_of(spans.first()?)?, spans)))
    }

    /// The source file of a span.
    pub fn file_of(&self, span: &Span) -> Option<&Arc<str>> {
        self.file(u64::from(span.file))
    }

    /// A source file by its number in this unit.
    pub fn file(&self, number: u64) -> Option<&Arc<str>> {
        self.files.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Every source file that is named, whether it has code or not.
    pub fn files(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.iter().flatten()
    }
}

/// Sorted; where two spans claim an address (damage, or functions folded into one), the one that
/// starts first keeps it.
fn without_overlaps(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| span.start);
    let mut taken = 0;
    spans.retain_mut(|span| {
        span.start = span.start.max(taken);
        taken = taken.max(span.end);
        span.start < span.end
    });
    spans
}

/// File numbers start at 0 in DWARF 5 and at 1 before.
fn files<R: Reader<Offset = usize>>(
    unit: UnitRef<'_, R>,
    header: &LineProgramHeader<R>,
    allowance: &Allowance,
) -> Vec<Option<Arc<str>>> {
    let count = header.file_names().len() as u64 + 1;
    // Thousands of files can have one long name.
    let is_allowed = |name: &String| allowance.bytes(name.len());
    (0..count).map(|number| file(unit, header, number, |_| true).filter(is_allowed).map(Arc::from)).collect()
}

/// The name of a file; `None` also for those that cannot be meant, by the last part of their names.
fn file<R: Reader<Offset = usize>>(
    unit: UnitRef<'_, R>,
    header: &LineProgramHeader<R>,
    number: u64,
    may_be: impl Fn(&str) -> bool,
) -> Option<String> {
    let text = |value| -> Option<String> {
        Some(unit.attr_string(value).ok()?.to_string_lossy().ok()?.into_owned())
    };
    let file = header.file(number)?;
    let name = text(file.path_name()).filter(|name| may_be(file_name(name)))?;
    let directory = match file.directory_index() {
        0 => None,
        _ => file.directory(header).and_then(text),
    };
    let compiled_in = unit.comp_dir.as_ref().and_then(|directory| directory.to_string_lossy().ok());
    Some(join(&[&compiled_in.unwrap_or_default(), &directory.unwrap_or_default(), &name]))
}

/// Whether a unit names a file that is `meant`; see [`DebugInfo::names_file`](crate::debug_info::DebugInfo::names_file).
pub(crate) fn names_file<R: Reader<Offset = usize>>(
    unit: UnitRef<'_, R>,
    may_be: impl Fn(&str) -> bool,
    mut meant: impl FnMut(&str) -> bool,
) -> bool {
    let Some(program) = &unit.line_program else { return false };
    let header = program.header();
    let count = header.file_names().len() as u64 + 1;
    (0..count).any(|number| file(unit, header, number, &may_be).is_some_and(|file| meant(&file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_cut() {
        let span = |start, end, line| Span { start, end, file: 0, line };
        let cut = without_overlaps(vec![
            span(20, 30, 3),
            span(0, 10, 1),
            span(5, 20, 2),
            span(6, 8, 9),
            span(40, 50, 4),
        ]);
        assert_eq!(cut, [span(0, 10, 1), span(10, 20, 2), span(20, 30, 3), span(40, 50, 4)]);
        let table = LineTable { files: Vec::new(), spans: cut };
        let lines = |range| -> Vec<u32> { table.spans(range).iter().map(|s| s.line).collect() };
        assert_eq!(lines(9..21), [1, 2, 3]);
        assert_eq!(lines(30..40), [0; 0]);
        assert_eq!(lines(0..u64::MAX), [1, 2, 3, 4]);
    }
}
