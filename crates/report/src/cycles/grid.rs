//! A grid of cells with a head: numbers to the right, texts to the left, and one text that gives way.

use crate::terminal::Style;
use crate::terminal::columns::exactly;
use crate::terminal::paint::{Colour, paint};
use unicode_width::UnicodeWidthStr as _;

/// No text that gives way is made narrower.
const NARROWEST: usize = 10;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// A number.
    Right,
    /// A text.
    Left,
    /// A text whose middle is left out where there is no room.
    Gives,
}

/// A row: its cells, and its colour.
pub(super) struct Cells(pub Vec<String>, pub Colour);

/// Appends the grid.
pub(super) fn draw(out: &mut String, style: Style, columns: &[(&str, Set)], rows: &[Cells]) {
    // A column that says nothing is left out.
    let used: Vec<bool> =
        (0..columns.len()).map(|nth| rows.iter().any(|Cells(row, _)| !row[nth].is_empty())).collect();
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(nth, (head, _))| {
            rows.iter().map(|Cells(row, _)| row[nth].width()).max().unwrap_or(0).max(head.width())
        })
        .collect();
    let taken = |widths: &[usize]| -> usize {
        widths.iter().zip(&used).filter(|(_, used)| **used).map(|(width, _)| width + 2).sum()
    };
    // The widest text gives way first.
    loop {
        let over = taken(&widths).saturating_sub(style.width);
        let gives = columns
            .iter()
            .enumerate()
            .filter(|(nth, (_, set))| *set == Set::Gives && used[*nth] && widths[*nth] > NARROWEST);
        let widest = gives.map(|(nth, _)| nth).max_by_key(|nth| widths[*nth]);
        match widest {
            Some(widest) if over > 0 => widths[widest] -= 1,
            _ => break,
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (nth, cell) in cells.enumerate().filter(|(nth, _)| used[*nth]) {
            let width = widths[nth];
            line.push_str("  ");
            match columns[nth].1 {
                Set::Right => {
                    line.push_str(&format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width()))))
                }
                Set::Left => {
                    line.push_str(&format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width()))))
                }
                Set::Gives => line.push_str(&exactly(cell, width)),
            }
        }
        line.trim_end().to_owned()
    };
    let head = line(&mut columns.iter().map(|(head, _)| *head));
    out.push_str(&paint(style, Colour::Dim, &head));
    out.push('\n');
    for Cells(row, colour) in rows {
        out.push_str(&paint(style, *colour, &line(&mut row.iter().map(String::as_str))));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_text_gives_way_and_empty_columns_are_left_out() {
        let style = Style { width: 40, ..Style::default() };
        let row = |cells: [&str; 4]| Cells(cells.map(str::to_owned).into(), Colour::Plain);
        let columns = [("n", Set::Right), ("none", Set::Left), ("name", Set::Gives), ("image", Set::Gives)];
        let mut out = String::new();
        let rows =
            [row(["1", "", "a_rather_long_name_of_a_function", "libc.so"]), row(["100", "", "b", "x"])];
        draw(&mut out, style, &columns, &rows);
        assert_eq!(
            out,
            "    n  name                      image\n    1  a_rather_lo…f_a_function  libc.so\n  100  b                         x\n",
        );
    }
}
