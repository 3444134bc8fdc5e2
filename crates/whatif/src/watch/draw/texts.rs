//! Texts that fill the screen: the warnings, and what keys do.

use super::Room;
use super::pen::Pen;
use ratatui::style::Style;
use report::terminal::wrap;

/// What each key does.
const KEYS: [(&str, &str); 15] = [
    ("↑ ↓, k j", "select a region; its curve is below the table where there is room"),
    ("PgUp PgDn", "a screen further"),
    ("Home End, g G", "the first, the last"),
    ("Enter, →, l", "the curve of the region, large"),
    ("Esc, ←, h", "back; in the table: show all regions again"),
    ("/", "show only regions whose names contain what you type; Enter keeps it, Esc drops it"),
    ("s", "another order: worth, share of the time, experiments, name"),
    ("p", "another progress point"),
    ("w", "all warnings, with what can be done about them"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit; the run goes on"),
    (
        "slope",
        "gain per speedup: 0.50 means 10 % less time per visit for 20 % less time in the region; ± is its standard error",
    ),
    ("interval", "95 % of the slope: ─ with the estimate ━, and │ at zero, all rows on one axis"),
    ("share", "of all CPU time"),
    ("prod.", "share of the program's samples in production, if the run was told (whatif run --hint-db)"),
];

/// In lines of at most `width` columns.
pub(super) fn help(width: usize) -> Vec<String> {
    const KEY: usize = 15;
    let mut lines = Vec::new();
    for (key, what) in KEYS {
        let beside = width.saturating_sub(KEY);
        if beside < 20 {
            lines.extend(wrap(&format!("{key}: {what}"), width));
            continue;
        }
        for (nth, line) in wrap(what, beside).iter().enumerate() {
            let key = if nth == 0 { key } else { "" };
            lines.push(format!("{key:KEY$}{line}"));
        }
    }
    lines
}

/// Each with its advice, as in the report.
pub(super) fn warnings(warnings: &[(String, String)], width: usize) -> Vec<String> {
    let indented = |first: &str, text: &str| {
        let first = first.to_owned();
        let lines = wrap(text, width.saturating_sub(4)).into_iter().enumerate();
        lines.map(move |(nth, line)| format!("{}{line}", if nth == 0 { first.as_str() } else { "    " }))
    };
    let of_one = |(message, advice): &(String, String)| -> Vec<String> {
        indented("  ! ", message).chain(indented("    ", advice)).collect()
    };
    warnings.iter().flat_map(of_one).collect()
}

/// As many lines as there is room for; the last one is `more` if some are missing.
pub(super) fn shortened(lines: &[String], room: usize, more: &str) -> Vec<String> {
    if lines.len() <= room {
        return lines.to_vec();
    }
    let Some(last) = room.checked_sub(1) else { return Vec::new() };
    let mut shown = lines[..last].to_vec();
    shown.push(match more.trim_start() == more {
        true => format!("{} {more}", lines[last]),
        false => more.to_owned(),
    });
    shown
}

/// The lines from `first` on, but none after the end.
pub(super) fn scrolled(pen: &mut Pen<'_>, lines: &[String], first: usize) -> Room {
    let page = pen.left();
    let scroll = lines.len().saturating_sub(page);
    if lines.is_empty() {
        pen.line("there are no warnings", Style::new());
    }
    pen.plain(&lines[first.min(scroll)..]);
    Room { page, scroll }
}
