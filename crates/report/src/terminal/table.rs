//! The table of one progress point: what each region is worth to it.

use profile::{
    Mark, PointEstimate, PointSummary, Profile, Region, RegionEstimate, Target, Verdict, plus_minus,
    printable,
};

use super::columns::exactly;
use super::paint::{Colour, paint};
use super::{Style, curve, line_of, note};

const SLOPE: usize = 12;
const INTERVAL: usize = 13;
const VERDICT: usize = 9;
const WINDOWS: usize = 4;
const SHARE: usize = 5;
/// Where there are fewer columns, the number of windows makes room for the share in production.
const WIDE: usize = 100;

/// Columns that not every table has.
#[derive(Clone, Copy)]
struct Columns {
    windows: bool,
    production: bool,
}

impl Columns {
    fn of(profile: &Profile, style: Style) -> Columns {
        let production = profile.regions.iter().any(|region| region.production.is_some());
        Columns { windows: !production || style.width >= WIDE, production }
    }

    /// What all columns but the region and the curve take, with two spaces before each, and the indentation.
    fn taken(self) -> usize {
        let windows = if self.windows { WINDOWS + 2 } else { 0 };
        let production = if self.production { SHARE + 2 } else { 0 };
        SLOPE + INTERVAL + VERDICT + SHARE + 4 * 2 + 2 + windows + production
    }

    /// The numbers between the verdict and the curve.
    fn cells(self, windows: &str, share: &str, production: &str) -> String {
        let mut cells = String::new();
        if self.windows {
            cells = format!("{windows:>WINDOWS$}  ");
        }
        cells.push_str(&format!("{share:>SHARE$}"));
        if self.production {
            cells.push_str(&format!("  {production:>SHARE$}"));
        }
        cells
    }
}

/// Draws the regions in the order of what they are worth to `point`.
pub(super) fn draw(out: &mut String, profile: &Profile, point: &PointSummary, style: Style) {
    let ranked = profile.ranked(point.target);
    if ranked.is_empty() {
        return;
    }
    let title = match point.target {
        Target::Throughput(_) => format!("What makes `{}` faster", printable(&point.name)),
        Target::Latency { .. } => format!("What makes the latency of `{}` shorter", printable(&point.name)),
    };
    line_of(out, &title);
    let columns = Columns::of(profile, style);
    let room = style.width.saturating_sub(columns.taken());
    let curve = (room / 4).clamp(5, 20);
    let region = room.saturating_sub(curve + 2).clamp(8, 60);
    let head = format!(
        "  {}  {:>SLOPE$}  {:>INTERVAL$}  {:VERDICT$}  {}  gain",
        exactly("region", region),
        "slope ± se",
        "95 % interval",
        "verdict",
        columns.cells("win", "share", "prod."),
    );
    line_of(out, &paint(style, Colour::Dim, &head));

    let shown = &ranked[..ranked.len().min(style.top)];
    let gains = shown.iter().flat_map(|(_, e)| &e.curve).filter(|dot| !dot.speedup.is_zero());
    // A column for each speedup that was tried, where there is room: gaps then mean missing data.
    let tried = shown.iter().map(|(_, e)| e.curve.len().saturating_sub(1)).max().unwrap_or(0);
    let curve = curve.min(tried);
    let top = gains.filter_map(|dot| Some(dot.gain?.value)).fold(0.1, f64::max);
    for (of_region, estimate) in shown {
        let line = format!(
            "{} {}  {:>SLOPE$}  {:>INTERVAL$}  {}  {}  {}",
            sign(of_region.mark()),
            exactly(&name(profile.region(of_region)), region),
            slope(estimate),
            interval(estimate),
            verdict(estimate.verdict, style),
            columns.cells(
                &of_region.windows.to_string(),
                &share(of_region.share),
                &share(of_region.production)
            ),
            curve::draw(&estimate.curve, curve, top.min(1.0)),
        );
        line_of(out, line.trim_end());
    }
    for (of_region, estimate) in shown.iter().filter(|(region, _)| region.phase < 1.0) {
        let (name, phase) = (name(profile.region(of_region)), of_region.phase);
        let slopes = estimate.slope.map_or_else(String::new, |slope| {
            format!(
                ": its slope is {:.2} while it does, and {:.2} over the whole run",
                slope.value / phase,
                slope.value
            )
        });
        note(out, &format!("{name} runs in {:.0} % of the run{slopes}.", phase * 100.0), style);
    }
    for (of_region, estimate) in shown {
        if let Some(limit) = limit(estimate) {
            note(out, &format!("{}: {limit}.", name(profile.region(of_region))), style);
        }
    }
    if shown.len() < ranked.len() {
        let more = format!("  … and {} more: --top {}", ranked.len() - shown.len(), ranked.len());
        line_of(out, &paint(style, Colour::Dim, &more));
    }
}

/// What a region that helps is worth at most, if another bottleneck takes over before 100 %.
fn limit(estimate: &PointEstimate) -> Option<String> {
    let bend = estimate.bend.filter(|_| estimate.verdict == Verdict::Helps)?;
    let most = estimate.most.filter(|most| most.half_width().is_finite())?;
    Some(format!(
        "worth up to {}; beyond a speedup of {} another bottleneck takes over",
        plus_minus(&most, most.value),
        plus_minus(&bend, bend.value)
    ))
}

/// A region and its place, without line breaks or tricks.
pub(super) fn name(region: &Region) -> String {
    printable(&region.label()).into_owned()
}

fn slope(estimate: &PointEstimate) -> String {
    match &estimate.slope {
        Some(slope) if slope.se.is_finite() => number(format!("{:.2} ± {:.2}", slope.value, slope.se)),
        Some(slope) => number(format!("{:.2} ±  ?  ", slope.value)),
        None => "–".into(),
    }
}

fn interval(estimate: &PointEstimate) -> String {
    match &estimate.slope {
        Some(slope) if slope.half_width().is_finite() => number(format!("{:.2} … {:.2}", slope.lo, slope.hi)),
        _ => "–".into(),
    }
}

/// With a real minus, and none before a zero.
pub(super) fn number(digits: String) -> String {
    digits.replace("-0.00", "0.00").replace('-', "−")
}

pub(super) fn verdict(verdict: Verdict, style: Style) -> String {
    let (text, colour) = match verdict {
        Verdict::Helps => ("helps", Colour::Green),
        Verdict::NoEffect => ("no effect", Colour::Plain),
        Verdict::Hurts => ("hurts", Colour::Red),
        Verdict::NotEnoughData => ("unsettled", Colour::Yellow),
        Verdict::Idle => ("idle", Colour::Dim),
    };
    paint(style, colour, &format!("{text:VERDICT$}"))
}

/// What cost and worth together say, at a glance.
fn sign(mark: Option<Mark>) -> char {
    match mark {
        Some(Mark::HotButDoesNotMatter) => '○',
        Some(Mark::MattersButIsNotHot) => '◆',
        None => ' ',
    }
}

/// What the legend has to say about shares in production and signs.
pub(super) fn legend(profile: &Profile, style: Style) -> String {
    let columns = Columns::of(profile, style);
    let windows = if columns.windows { " win: windows." } else { "" };
    let production = profile.production().filter(|_| columns.production).map(|covered| {
        format!(
            " prod.: of the program's samples in production ({}, {} to {}).",
            match covered.hosts {
                1 => "1 machine".to_owned(),
                hosts => format!("{hosts} machines"),
            },
            covered.since.day(),
            covered.until.day()
        )
    });
    let has = |mark| profile.regions.iter().any(|region: &RegionEstimate| region.mark() == Some(mark));
    let hot = if has(Mark::HotButDoesNotMatter) { " ○ is hot, but does not matter." } else { "" };
    let matters = if has(Mark::MattersButIsNotHot) { " ◆ matters, but is not hot." } else { "" };
    let production = production.unwrap_or_default();
    format!("{windows} share: of all CPU time.{production} gain: at small to full speedups.{hot}{matters}")
}

fn share(share: Option<f64>) -> String {
    match share {
        Some(share) if share > 0.0 && share < 0.005 => "<1 %".into(),
        Some(share) => format!("{:.0} %", share * 100.0),
        None => "–".into(),
    }
}
