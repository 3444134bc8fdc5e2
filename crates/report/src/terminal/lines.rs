//! A report as it grows: lines and paragraphs are added at its end.

use super::columns::wrap;
use super::style::Style;

/// Adds a line.
pub(super) fn line_of(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Adds an indented paragraph.
pub(super) fn note(out: &mut String, text: &str, style: Style) {
    for (nth, line) in wrap(text, style.width - 4).iter().enumerate() {
        line_of(out, &format!("{}{line}", if nth == 0 { "  " } else { "    " }));
    }
}
