//! One region's curves, drawn with braille cells: the gain over the speedup, with its band.

use profile::{Dot, Explanation, PointEstimate, PointSummary, Target, Verdict, printable};

use super::braille::Braille;
use super::paint::{Colour, paint};
use super::{Style, line_of, note, table};

/// Rows of a plot in the report.
const HEIGHT: usize = 12;
/// Columns left of it.
const LABELS: usize = 8;
/// Rows below it.
const AXIS: usize = 2;
/// Gains beyond are cut off: an interval may reach to minus anything.
const MOST: f64 = 1.5;

/// The curves of one region, for each progress point. Ends with a newline.
pub fn render(explanation: &Explanation<'_>, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let mut out = String::new();
    let region = &explanation.profile.rows.regions[&explanation.region];
    line_of(&mut out, &paint(style, Colour::Bold, &printable(&explanation.profile.label(region))));
    let Ok(estimate) = explanation.estimate else {
        note(&mut out, "nothing is estimated: --explain says why", style);
        return out;
    };
    let summary = |point: &PointEstimate| explanation.profile.point(point.target);
    for point in &estimate.points {
        if let Some(summary) = summary(point).filter(|_| point.verdict != Verdict::Idle) {
            line_of(&mut out, "");
            of_point(&mut out, point, summary, style);
        }
    }
    out
}

fn of_point(out: &mut String, point: &PointEstimate, summary: &PointSummary, style: Style) {
    let kind = if matches!(point.target, Target::Latency { .. }) { "latency" } else { "throughput" };
    let slope = point.slope.map_or(String::new(), |slope| {
        format!(", slope {:.2} [{:.2}, {:.2}]", slope.value, slope.lo, slope.hi)
    });
    let verdict = table::verdict(point, 0, style);
    note(
        out,
        &format!("{} ({kind}){slope}, {} experiments: {verdict}", printable(&summary.name), point.blocks),
        style,
    );
    let Some(plot) = Plot::new(&point.curve, style.width.min(100) - LABELS - 2, HEIGHT) else {
        note(out, "there is no curve: the point was not visited at any speedup", style);
        return;
    };
    for line in plot.lines() {
        line_of(out, &line);
    }
    let band = match plot.has_band {
        true => "line: the gain; dotted: its 95 % interval",
        false => "line: the gain; too few experiments for an interval",
    };
    note(out, &format!("{band}; on the line at zero the speedups that were tried"), style);
}

/// The curve with its axes in at most so many columns and rows; `None` where there is none, or no room for it.
pub fn curve(dots: &[Dot], width: usize, height: usize) -> Option<Vec<String>> {
    let columns = width.checked_sub(LABELS + 2).filter(|columns| *columns >= 20)?;
    let rows = height.checked_sub(AXIS).filter(|rows| *rows >= 2)?;
    Some(Plot::new(dots, columns, rows)?.lines())
}

/// A curve between its axes.
struct Plot {
    picture: Braille,
    columns: usize,
    low: f64,
    high: f64,
    has_band: bool,
}

impl Plot {
    /// `None` without a gain at any speedup.
    fn new(curve: &[Dot], columns: usize, rows: usize) -> Option<Plot> {
        // Speedup, and gain, lower and upper end.
        let ends: Vec<(f64, [f64; 3])> = curve
            .iter()
            .filter_map(|dot| {
                let gain = dot.gain?;
                let end = |value: f64| if value.is_finite() { value.clamp(-MOST, MOST) } else { f64::NAN };
                Some((dot.speedup.fraction(), [end(gain.value), end(gain.lo), end(gain.hi)]))
            })
            .collect();
        if ends.iter().all(|(speedup, _)| *speedup == 0.0) {
            return None;
        }
        let values = || ends.iter().flat_map(|(_, ends)| *ends).filter(|value| value.is_finite());
        let (low, high) = (values().fold(0.0, f64::min), values().fold(0.05, f64::max));
        let has_band = ends.iter().any(|(_, [_, lo, hi])| hi - lo > 0.0);
        let mut plot = Plot { picture: Braille::new(columns, rows), columns, low, high, has_band };
        for column in (0..columns * 2).step_by(4) {
            plot.set(column, 0.0);
        }
        for (speedup, _) in &ends {
            let column = (speedup * (columns * 2 - 1) as f64).round() as usize;
            for column in column.saturating_sub(1)..=column {
                plot.set(column, 0.0);
            }
        }
        for pair in ends.windows(2) {
            plot.draw(&pair[0], &pair[1]);
        }
        Some(plot)
    }

    /// What is between two speedups that were tried, side by side: straight lines, for nothing is known there.
    fn draw(&mut self, (from, a): &(f64, [f64; 3]), (to, b): &(f64, [f64; 3])) {
        let across = (self.columns * 2 - 1) as f64;
        let (first, last) = ((from * across).round() as usize, (to * across).round() as usize);
        for column in first..=last {
            let part = if last > first { (column - first) as f64 / (last - first) as f64 } else { 1.0 };
            let at = |nth: usize| a[nth] + (b[nth] - a[nth]) * part;
            self.set(column, at(0));
            if self.has_band && column % 3 == 0 {
                self.set(column, at(1));
                self.set(column, at(2));
            }
        }
    }

    fn set(&mut self, column: usize, gain: f64) {
        if gain.is_finite() {
            self.picture.set(column, self.down(gain));
        }
    }

    /// How many dots below the top a gain is.
    fn down(&self, gain: f64) -> usize {
        let last = self.picture.down() - 1;
        let down = (self.high - gain) / (self.high - self.low) * last as f64;
        (down.round().max(0.0) as usize).min(last)
    }

    /// The picture with its axes.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (row, cells) in self.picture.lines().into_iter().enumerate() {
            let label = self.label(row).map_or(String::new(), |gain| format!("{:.0} %", gain * 100.0));
            lines.push(format!("{label:>LABELS$} │{}", cells.trim_end()));
        }
        lines.push(format!("{:>LABELS$} └{}", "", "─".repeat(self.columns)));
        let right = self.columns.saturating_sub("0 %100 %".len() + "speedup".len());
        let (before, after) = (right / 2, right - right / 2);
        lines.push(format!("{:>LABELS$}  0 %{:before$}speedup{:after$}100 %", "gain", "", ""));
        lines
    }

    /// The gain that is written beside a row: at the top, at the bottom, and at zero.
    fn label(&self, row: usize) -> Option<f64> {
        if row == self.down(0.0) / 4 {
            return Some(0.0);
        }
        let last = self.picture.down() / 4 - 1;
        [(0, self.high), (last, self.low)].into_iter().find(|(at, _)| *at == row).map(|(_, gain)| gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Estimate, Speedup};

    fn dot(percent: u16, value: f64, half: f64) -> Dot {
        let gain = Some(Estimate { value, se: half / 2.0, lo: value - half, hi: value + half });
        Dot { speedup: Speedup::from_percent(percent).unwrap(), raw: Some(value), gain, windows: 1 }
    }

    fn rows(curve: &[Dot]) -> Vec<String> {
        Plot::new(curve, 24, HEIGHT).unwrap().picture.lines()
    }

    #[test]
    fn a_straight_line_goes_from_corner_to_corner() {
        let rows = rows(&[dot(0, 0.0, 0.0), dot(50, 0.5, 0.0), dot(100, 1.0, 0.0)]);
        assert_eq!(rows.len(), HEIGHT);
        for (nth, row) in rows[..HEIGHT - 1].iter().enumerate() {
            let first = row.chars().position(|c| c != ' ').unwrap();
            let expected = 24 * (HEIGHT - 1 - nth) / HEIGHT;
            assert!(first.abs_diff(expected) <= 1 && row.trim().chars().count() <= 3, "{nth} {rows:#?}");
        }
        // The line at zero.
        assert!(rows[HEIGHT - 1].trim().chars().count() > 20, "{rows:#?}");
    }

    #[test]
    fn a_band_lies_around_the_line_and_zero_is_labelled() {
        let curve = [dot(0, 0.0, 0.1), dot(100, -0.4, 0.1)];
        let plot = Plot::new(&curve, 24, HEIGHT).unwrap();
        assert!(plot.has_band);
        assert_eq!((plot.low, plot.high), (-0.5, 0.1));
        let labels: Vec<Option<f64>> = (0..HEIGHT).map(|row| plot.label(row)).collect();
        assert_eq!((labels[0], labels[2], labels[HEIGHT - 1]), (Some(0.1), Some(0.0), Some(-0.5)));
        assert_eq!(labels.iter().flatten().count(), 3);
        // Without a band there are fewer dots.
        let dots = |curve: &[Dot]| rows(curve).concat().chars().filter(|c| *c != ' ').count();
        assert!(dots(&curve) > dots(&[dot(0, 0.0, 0.0), dot(100, -0.4, 0.0)]) + 10);
    }

    #[test]
    fn what_is_not_known_is_not_drawn() {
        assert!(Plot::new(&[], 24, HEIGHT).is_none());
        assert!(Plot::new(&[dot(0, 0.0, 0.1)], 24, HEIGHT).is_none());
        let wild = [dot(0, 0.0, 0.0), dot(100, 0.5, f64::INFINITY)];
        let plot = Plot::new(&wild, 24, HEIGHT).unwrap();
        assert_eq!((plot.low, plot.high, plot.has_band), (0.0, 0.5, false));
    }

    #[test]
    fn a_curve_takes_the_room_that_there_is() {
        let dots = [dot(0, 0.0, 0.1), dot(100, 0.5, 0.1)];
        for (width, height) in [(30, 4), (31, 5), (200, 40)] {
            let lines = curve(&dots, width, height).unwrap();
            assert_eq!(lines.len(), height);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
        }
        for (width, height) in [(29, 40), (200, 3), (0, 0)] {
            assert_eq!(curve(&dots, width, height), None);
        }
    }
}
