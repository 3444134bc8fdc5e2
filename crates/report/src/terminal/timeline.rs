//! The baseline over time, drawn with braille cells: how fast a point was visited in every window without speedup.

use std::collections::BTreeMap;

use profile::{Drift, PointSummary, Profile, SessionId};

use super::braille::Braille;
use super::three_digits;

/// Columns left of the picture.
const LABELS: usize = 8;
/// Rows below it.
const AXIS: usize = 2;

/// In at most so many columns and rows, run after run; `None` where there is nothing to draw, or no room for it. A window is
/// a dot; where a mark stands on the axis, the program's speed changed or another run begins.
pub fn timeline(profile: &Profile, point: &PointSummary, width: usize, height: usize) -> Option<Vec<String>> {
    let columns = width.checked_sub(LABELS + 2).filter(|columns| *columns >= 10)?;
    let rows = height.checked_sub(AXIS).filter(|rows| *rows >= 1)?;
    let runs = Runs::new(profile);
    let windows: Vec<(f64, f64)> = profile
        .baselines(point)
        .into_iter()
        .filter_map(|window| {
            let (time, visits) = window.progress(point.target.counted());
            let rate = Some(visits as f64 / time * 1e9).filter(|rate| rate.is_finite() && *rate >= 0.0)?;
            let middle = window.start.get() as f64 + window.elapsed.get() as f64 / 2.0;
            Some((runs.begins.get(&window.session)? + middle, rate))
        })
        .collect();
    let most = windows.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    if most <= 0.0 || runs.length <= 0.0 {
        return None;
    }
    let mut picture = Braille::new(columns, rows);
    let (across, down) = ((picture.across() - 1) as f64, (picture.down() - 1) as f64);
    for (time, rate) in &windows {
        let (x, y) = (time / runs.length * across, (1.0 - rate / most) * down);
        picture.set(x.round() as usize, y.round() as usize);
    }
    let of_point = profile.drift.iter().filter(|drift| drift.target == point.target);
    let begins = runs.begins.values().skip(1).copied();
    let marks = begins.chain(of_point.flat_map(|drift| runs.changes(drift)));
    let marks: Vec<usize> =
        marks.map(|time| (time / runs.length * (columns - 1) as f64).round() as usize).collect();

    let mut lines = Vec::new();
    for (row, cells) in picture.lines().into_iter().enumerate() {
        let label = if row == 0 { format!("{}/s", three_digits(most)) } else { String::new() };
        lines.push(format!("{label:>LABELS$} │{}", cells.trim_end()));
    }
    let axis: String = (0..columns).map(|column| if marks.contains(&column) { '┴' } else { '─' }).collect();
    lines.push(format!("{:>LABELS$} └{axis}", "0"));
    let end = format!("{:.0} s", runs.length / 1e9);
    let gap = columns.saturating_sub("0 s".len() + end.len());
    lines.push(format!("{:>LABELS$}  0 s{:gap$}{end}", "", ""));
    Some(lines)
}

/// The runs of a recording, one after the other. Times in nanoseconds.
struct Runs {
    begins: BTreeMap<SessionId, f64>,
    length: f64,
}

impl Runs {
    fn new(profile: &Profile) -> Runs {
        let mut ends: BTreeMap<SessionId, u64> = BTreeMap::new();
        for window in &profile.rows.windows {
            let end = ends.entry(window.session).or_default();
            *end = (*end).max(window.end().get());
        }
        let mut length = 0.0;
        let begins = ends.into_iter().map(|(session, end)| {
            let begin = length;
            length += end as f64;
            (session, begin)
        });
        Runs { begins: begins.collect(), length }
    }

    /// When the program's speed changed.
    fn changes(&self, drift: &Drift) -> Vec<f64> {
        let Some(begin) = self.begins.get(&drift.session) else { return Vec::new() };
        drift.segments.windows(2).map(|pair| begin + pair[0].end.get() as f64).collect()
    }
}
