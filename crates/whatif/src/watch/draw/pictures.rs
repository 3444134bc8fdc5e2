//! Pictures: the curve of the selected region, and how fast the program was without speedups, over time.

use super::Scene;
use super::pen::{BOLD, DIM, Pen};
use profile::{Profile, Verdict, printable};
use ratatui::style::Style;
use report::terminal::{self, Cells};

/// Beside this there is room for a second picture.
const TWO: usize = 100;

/// Below the table.
pub(super) fn small(pen: &mut Pen<'_>, scene: &Scene<'_>, profile: &Profile) {
    if pen.left() < 4 {
        return;
    }
    pen.line("", Style::new());
    let half = if pen.width() >= TWO { pen.width() / 2 } else { pen.width() };
    if half < pen.width() {
        let rest = pen.width() - half;
        timeline(&mut pen.columns(half + 1, rest - 1), scene, profile);
    }
    curve(&mut pen.columns(0, half), scene, profile);
}

/// All of the screen.
pub(super) fn large(pen: &mut Pen<'_>, scene: &Scene<'_>, profile: &Profile) {
    // Over time below, where there is room.
    let below = if pen.left() >= 18 { (pen.left() / 3).min(14) } else { 0 };
    timeline(&mut pen.bottom(below), scene, profile);
    if let Some(point) = scene.point()
        && pen.left() >= 6
    {
        pen.line(&terminal::title(point), Style::new());
    }
    curve(pen, scene, profile);
}

/// The curve of the selected region, below what is known of it.
fn curve(pen: &mut Pen<'_>, scene: &Scene<'_>, profile: &Profile) {
    let Some((_, (region, estimate))) = scene.selected() else {
        pen.line("no region is selected", DIM);
        return;
    };
    let cells = Cells::new(profile, region, estimate);
    let width = pen.width();
    pen.line(&terminal::exactly(&cells.region, width), BOLD);
    let known = format!(
        "slope {} [{}], {} experiments: {}",
        cells.slope, cells.interval, cells.experiments, cells.verdict
    );
    let style = pen.verdict(estimate.verdict);
    pen.line(&known, style);
    if let Some(lines) = terminal::curve(&estimate.curve, width, pen.left()) {
        pen.plain(&lines);
        return;
    }
    let why = match estimate.verdict {
        Verdict::Idle => "the point was not visited in most windows",
        _ if estimate.curve.iter().any(|dot| dot.gain.is_some()) => "there is no room for its curve",
        _ => "there is no curve: the point was not visited at any speedup",
    };
    pen.line(why, DIM);
}

fn timeline(pen: &mut Pen<'_>, scene: &Scene<'_>, profile: &Profile) {
    let Some(point) = scene.point() else { return };
    let width = pen.width();
    pen.line(&format!("`{}` without speedups, over time", printable(&point.name)), BOLD);
    // How often it is visited comes first; changes are marked on the axis.
    if pen.left() >= 5 {
        pen.line(&terminal::describe(point), Style::new());
    }
    if let Some(lines) = terminal::timeline(profile, point, width, pen.left()) {
        pen.plain(&lines);
    }
}
