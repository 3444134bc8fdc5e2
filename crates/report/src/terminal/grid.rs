//! A grid: cells in columns that are as wide as they need to be.

use unicode_width::UnicodeWidthStr;

/// One line for each row, all but the last column set to the right. Numbers that are meant for computing
/// are not shortened, so the lines may be wider than the terminal.
pub(super) fn lines<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let mut line = String::from(" ");
        for (nth, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if nth + 1 < N { width - cell.width() } else { 0 };
            line.push_str(&" ".repeat(gap + 1 + usize::from(nth > 0)));
            line.push_str(cell);
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["a", "größe", "why"]), row(["100", "1", ""]), row(["", "", "x"])];
        assert_eq!(lines(&rows), ["    a  größe  why", "  100      1", "              x"].map(str::to_owned));
    }
}
