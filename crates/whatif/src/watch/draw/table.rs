//! The ranked table: the report's rows, as many columns of them as there is room for, and each interval as a bar.

use super::columns::{Columns, GAP};
use super::pen::{DIM, Pen, REVERSED};
use super::{Room, Scene};
use profile::Profile;
use ratatui::style::Style;
use report::terminal::{Axis, Cells, exactly, left_out, title};

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>, profile: &Profile) -> Room {
    let Some(point) = scene.point() else { return Room::default() };
    if pen.left() >= 4 {
        let hidden = profile.regions.len() - scene.rows.len();
        let filtered = if hidden > 0 { format!(" ({hidden} filtered out)") } else { String::new() };
        pen.line(&format!("{}{filtered}", title(point)), Style::new());
    }
    if scene.rows.is_empty() {
        let why = match &*scene.view.filter {
            "" => format!(
                "no region is known well enough for a row yet: {}",
                left_out(&profile.left_out).join(", ")
            ),
            _ => "no name contains that; Esc shows all".to_owned(),
        };
        pen.line(why.trim_end_matches(": "), DIM);
        return Room::default();
    }
    let production = profile.regions.iter().any(|region| region.production.is_some());
    let verdict = Cells::verdict_width(scene.rows.iter().map(|(_, estimate)| *estimate));
    let columns = Columns::new(pen.width(), verdict, production);
    if pen.left() >= 3 {
        let bar = if columns.interval > 0 { "" } else { "interval" };
        pen.line(&line(&Cells::head(), &exactly(bar, columns.bar), columns), DIM);
    }
    let selected = scene.selected().map_or(0, |(row, _)| row);
    let page = pen.left();
    let first = first(selected, page, scene.rows.len());
    let axis = Axis::of(scene.rows.iter().filter_map(|(_, estimate)| estimate.slope.as_ref()));
    for (nth, (region, estimate)) in scene.rows.iter().enumerate().skip(first).take(page) {
        let cells = Cells::new(profile, region, estimate);
        let bar = axis.draw(estimate.slope.as_ref(), columns.bar);
        let drawn = pen.line(&line(&cells, &bar, columns), Style::new());
        let style = pen.verdict(estimate.verdict);
        pen.restyle(drawn, verdict_at(columns), columns.verdict, style);
        if nth == selected {
            pen.restyle(drawn, 0, usize::MAX, REVERSED);
        }
    }
    Room { page, scroll: 0 }
}

/// The first row that is shown, so that the selected one is, in the middle if it can be.
fn first(selected: usize, page: usize, rows: usize) -> usize {
    selected.saturating_sub(page / 2).min(rows.saturating_sub(page))
}

/// One row, without what has no room.
fn line(cells: &Cells, bar: &str, columns: Columns) -> String {
    let mut line = exactly(&cells.region, columns.region);
    let mut add = |cell: String, width: usize| {
        if width > 0 {
            line.push_str(&" ".repeat(GAP));
            line.push_str(&cell);
        }
    };
    let right = |text: &str, width: usize| format!("{text:>width$}");
    add(right(&cells.slope, columns.slope), columns.slope);
    add(bar.to_owned(), columns.bar);
    add(right(&cells.interval, columns.interval), columns.interval);
    add(exactly(cells.verdict, columns.verdict), columns.verdict);
    add(right(&cells.share, columns.share), columns.share);
    add(right(&cells.production, columns.production), columns.production);
    add(right(&cells.experiments, columns.experiments), columns.experiments);
    line
}

/// Where the verdict begins.
fn verdict_at(columns: Columns) -> usize {
    let before = [columns.slope, columns.bar, columns.interval].into_iter().filter(|width| *width > 0);
    columns.region + before.map(|width| GAP + width).sum::<usize>() + GAP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_seen() {
        for (selected, page, rows, expected) in [
            (0, 5, 20, 0),
            (2, 5, 20, 0),
            (3, 5, 20, 1),
            (10, 5, 20, 8),
            (19, 5, 20, 15),
            (3, 5, 4, 0),
            (3, 0, 4, 3),
        ] {
            assert_eq!(first(selected, page, rows), expected, "{selected} {page} {rows}");
        }
    }
}
