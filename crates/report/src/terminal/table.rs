//! The table of one progress point: what each region is worth to it.

use profile::{
    PointEstimate, PointSummary, Profile, Region, RegionEstimate, Target, Verdict, plus_minus, printable,
};

use super::columns::exactly;
use super::paint::{Colour, paint};
use super::{Style, curve, line_of, note};

const SLOPE: usize = 12;
const INTERVAL: usize = 13;
const VERDICT: usize = 9;
const WINDOWS: usize = 4;
const SHARE: usize = 5;
/// The columns above, the two spaces before each, and the indentation.
const TAKEN: usize = SLOPE + INTERVAL + VERDICT + WINDOWS + SHARE + 5 * 2 + 2;

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
    let curve = ((style.width - TAKEN) / 4).clamp(5, 20);
    let region = (style.width - TAKEN).saturating_sub(curve + 2).min(60);
    let head = format!(
        "  {}  {:>SLOPE$}  {:>INTERVAL$}  {:VERDICT$}  {:>WINDOWS$}  {:>SHARE$}  gain",
        exactly("region", region),
        "slope ± se",
        "95 % interval",
        "verdict",
        "win",
        "share"
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
            "  {}  {:>SLOPE$}  {:>INTERVAL$}  {}  {:>WINDOWS$}  {:>SHARE$}  {}",
            exactly(&name(profile.region(of_region)), region),
            slope(estimate),
            interval(estimate),
            verdict(estimate.verdict, style),
            of_region.windows,
            share(of_region),
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

fn share(region: &RegionEstimate) -> String {
    match region.share {
        Some(share) if share > 0.0 && share < 0.005 => "<1 %".into(),
        Some(share) => format!("{:.0} %", share * 100.0),
        None => "–".into(),
    }
}
