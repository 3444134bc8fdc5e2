//! Where a region stands in its program's source.

use std::fs;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};

use crate::subject::Subject;

/// The name of the file that a subject's regions are in.
pub fn file_name(subject: &dyn Subject) -> String {
    subject.source().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The lines of the function `region`, from its name to its closing brace.
pub fn lines_of(subject: &dyn Subject, region: &str) -> Result<RangeInclusive<u32>> {
    let path = subject.source();
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    find(&text, region).with_context(|| format!("{} defines no function {region}", path.display()))
}

/// The definition of `function` in C, C++ or Rust that is formatted like our targets: its name and
/// parameters, then a brace. Braces in strings and comments are not expected.
fn find(text: &str, function: &str) -> Option<RangeInclusive<u32>> {
    let mut searched = 0;
    while let Some(found) = text[searched..].find(function) {
        let start = searched + found;
        searched = start + function.len();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let rest = &text[searched..];
        if text[..start].ends_with(is_part) || !rest.starts_with(['(', '<']) {
            continue;
        }
        // A call or a declaration ends before any brace opens.
        let Some(open) = rest.find(['{', ';']).filter(|end| rest[*end..].starts_with('{')) else { continue };
        // Parameters do not contain what statements do; the parentheses of a call inside another
        // function's condition close before its brace, too, but do not begin the line.
        if !begins_a_definition(text, start) {
            continue;
        }
        let mut depth = 0;
        for (offset, c) in rest[open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(line_at(text, start)..=line_at(text, searched + open + offset));
            }
        }
    }
    None
}

/// Whether the words before `start` in its line are those of a definition at the outermost level, or in
/// Rust the keyword `fn`.
fn begins_a_definition(text: &str, start: usize) -> bool {
    let line = text[..start].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[line..start];
    before.trim_end().ends_with("fn")
        || (!before.starts_with([' ', '\t'])
            && before.chars().all(|c| c.is_alphanumeric() || "_ *:&<>()".contains(c)))
}

fn line_at(text: &str, offset: usize) -> u32 {
    let lines = text[..offset].bytes().filter(|byte| *byte == b'\n').count();
    u32::try_from(lines).unwrap_or(u32::MAX - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found() {
        let c = "/* A(x) { */\n__attribute__((always_inline)) static inline void D(void) { }\nstatic void A(void);\nREGION static void A(void) { WORK(a); }\n\n\
                 REGION static long BA(int x)\n{\n    if (A()) {\n    }\n}\n\nREGION static void B(void)\n\
                 {\n    for (;;) {\n        WORK(b);\n    }\n}\nint main(void) { B(); }\n";
        for (function, expected) in
            [("A", Some(4..=4)), ("BA", Some(6..=10)), ("B", Some(12..=17)), ("C", None), ("D", Some(2..=2))]
        {
            assert_eq!(find(c, function), expected, "{function}");
        }
        let rust = "#[inline(never)]\nfn A(iterations: u64) {\n    work!(iterations);\n}\n\
                    impl X {\n    pub fn row<T>(&self) -> u32 {\n        A(3);\n    }\n}\n";
        for (function, expected) in [("A", Some(2..=4)), ("row", Some(6..=8)), ("work", None)] {
            assert_eq!(find(rust, function), expected, "{function}");
        }
    }

    #[test]
    fn regions_of_the_first_targets_are_found() {
        for target in targets::TARGETS.iter().filter(|target| ["single", "mutex_rs"].contains(&target.name)) {
            for region in target.regions {
                lines_of(target, region).unwrap();
            }
        }
    }
}
