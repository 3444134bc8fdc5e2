//! Time by program, where several ran as one; and that of Go's runtime.

use profile::{Profile, ProgramTime, printable};
use unicode_width::UnicodeWidthStr as _;

use super::columns::{exactly, wrap};
use super::paint::{Colour, paint};
use super::{Style, line_of, table};

/// The widest that a name may be.
const NAME: usize = 32;
const SHARE: usize = 5;
const TIME: usize = 8;

/// One row for each program, where there were several; and a sentence about Go's runtime.
pub(super) fn draw(out: &mut String, profile: &Profile, style: Style) {
    by_program(out, profile, style);
    if let Some(time) = profile.go_time() {
        line_of(out, "");
        wrap(&time.sentence(), style.width).iter().for_each(|line| line_of(out, line));
    }
}

fn by_program(out: &mut String, profile: &Profile, style: Style) {
    let programs = profile.programs();
    if programs.is_empty() {
        return;
    }
    let titles: Vec<String> = programs.iter().map(|one| printable(&one.title()).into_owned()).collect();
    let shown = programs.len().min(style.top);
    let name = titles[..shown].iter().map(|title| title.width()).max().unwrap_or(0).min(NAME);
    line_of(out, "\nCPU time by program");
    for (program, title) in programs.iter().zip(&titles).take(shown) {
        let cpu = program.cpu.to_string();
        let share = table::share(Some(program.share));
        let row = format!("  {}  {share:>SHARE$}  {cpu:>TIME$}", exactly(title, name));
        match obstacle(program) {
            None => line_of(out, &row),
            Some(obstacle) => {
                let indent = row.width() + 2;
                for (nth, line) in wrap(&obstacle, style.width.saturating_sub(indent)).iter().enumerate() {
                    let before = if nth == 0 { format!("{row}  ") } else { " ".repeat(indent) };
                    line_of(out, &format!("{before}{line}"));
                }
            }
        }
    }
    if shown < programs.len() {
        let more = format!("  … and {} more: --top {}", programs.len() - shown, programs.len());
        line_of(out, &paint(style, Colour::Dim, &more));
    }
}

/// Why one was not followed, and what that means.
fn obstacle(program: &ProgramTime<'_>) -> Option<String> {
    let obstacle = program.obstacle?;
    Some(format!("at least; not followed ({}): counts as the world", printable(obstacle)))
}
