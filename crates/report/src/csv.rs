//! A table for spreadsheets: one row for each region, point and speedup.
//!
//! Commas, quotes where they are needed, and CR LF at the end of lines (RFC 4180). Numbers have a decimal point;
//! speedups, gains and slopes are fractions; what is not known is empty. A text that a spreadsheet would take for a
//! formula gets an apostrophe in front, and hostile characters are made visible.

use std::borrow::Cow;

use profile::{Dot, Estimate, Mark, PointEstimate, Profile, RegionEstimate, printable};

/// What the columns are called.
const COLUMNS: [&str; 26] = [
    "region",
    "kind",
    "with_callees",
    "function",
    "file",
    "line",
    "image",
    "samples",
    "share",
    "phase",
    "point",
    "point_kind",
    "verdict",
    "blocks",
    "slope",
    "slope_lo",
    "slope_hi",
    "speedup",
    "gain",
    "gain_lo",
    "gain_hi",
    "raw_gain",
    "windows",
    "production_share",
    "mark",
    "program",
];

/// All regions with enough speedups, in the order of the report.
pub fn render(profile: &Profile) -> String {
    let mut text = String::new();
    put(&mut text, COLUMNS.iter().map(|column| Cow::Borrowed(*column)));
    for region in &profile.regions {
        for (point, estimate) in profile.points.iter().zip(&region.points) {
            for dot in &estimate.curve {
                let cells = of_region(profile, region)
                    .into_iter()
                    .chain([name(&point.name), point.target.kind().into()])
                    .chain(of_estimate(estimate))
                    .chain(of_dot(dot))
                    .chain(beside(region))
                    .chain([name(profile.program(profile.region(region)).unwrap_or_default())]);
                put(&mut text, cells);
            }
        }
    }
    text
}

fn of_region<'a>(profile: &'a Profile, estimate: &RegionEstimate) -> [Cow<'a, str>; 10] {
    let region = profile.region(estimate);
    [
        name(&region.name),
        region.kind.name().into(),
        region.inclusive.to_string().into(),
        name(region.function.as_deref().unwrap_or_default()),
        name(region.file.as_deref().unwrap_or_default()),
        region.line.map(|line| line.to_string()).unwrap_or_default().into(),
        name(&region.image.path),
        estimate.samples.to_string().into(),
        number(estimate.share),
        number(Some(estimate.phase)),
    ]
}

fn of_estimate(estimate: &PointEstimate) -> [Cow<'static, str>; 5] {
    let of_slope = |part: fn(Estimate) -> f64| number(estimate.slope.map(part));
    [
        estimate.verdict.name().into(),
        estimate.blocks.to_string().into(),
        of_slope(|slope| slope.value),
        of_slope(|slope| slope.lo),
        of_slope(|slope| slope.hi),
    ]
}

fn of_dot(dot: &Dot) -> [Cow<'static, str>; 6] {
    let of_gain = |part: fn(Estimate) -> f64| number(dot.gain.map(part));
    [
        dot.speedup.fraction().to_string().into(),
        of_gain(|gain| gain.value),
        of_gain(|gain| gain.lo),
        of_gain(|gain| gain.hi),
        number(dot.raw),
        dot.windows.to_string().into(),
    ]
}

/// What stands beside the worth: the cost in production, and what to think of both.
fn beside(estimate: &RegionEstimate) -> [Cow<'static, str>; 2] {
    [number(estimate.production), estimate.mark().map_or("", Mark::name).into()]
}

/// Six digits after the point; nothing for what is not known.
fn number(number: Option<f64>) -> Cow<'static, str> {
    match number.filter(|number| number.is_finite()) {
        Some(number) => format!("{:.6}", number + 0.0).into(),
        None => "".into(),
    }
}

/// A text that is no formula.
fn name(name: &str) -> Cow<'_, str> {
    let name = printable(name);
    // The last four are what the first four are to East Asian keyboards.
    match name.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        true => format!("'{name}").into(),
        false => name,
    }
}

fn put<'a>(text: &mut String, cells: impl Iterator<Item = Cow<'a, str>>) {
    for (nth, cell) in cells.enumerate() {
        if nth > 0 {
            text.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) || cell.trim() != cell {
            text.push('"');
            text.push_str(&cell.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&cell);
        }
    }
    text.push_str("\r\n");
}
