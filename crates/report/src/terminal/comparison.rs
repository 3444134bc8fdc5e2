//! The comparison of two recordings: the sentence, the points, what each region is worth now and was before.

use profile::{
    Change, Comparison, Estimate, Nanos, PointChange, PointLevel, RegionChange, RegionKind, SlopeChange,
    Target, printable,
};

use super::columns::{exactly, wrap};
use super::paint::{Colour, paint};
use super::table::number;
use super::{Style, draw_warnings, line_of, note, run, three_digits};

const SLOPE: usize = 6;
const INTERVAL: usize = 13;
const CHANGE: usize = 18;
/// The columns above, the two spaces before each, and the indentation.
const TAKEN: usize = 3 * SLOPE + INTERVAL + CHANGE + 5 * 2 + 2;

/// The whole comparison. Ends with a newline.
pub fn render(comparison: &Comparison<'_>, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let mut out = String::new();
    for line in wrap(&comparison.sentence(), style.width) {
        line_of(&mut out, &paint(style, Colour::Bold, &line));
    }
    if !comparison.points.is_empty() {
        line_of(&mut out, "\nProgress points");
        for point in &comparison.points {
            note(&mut out, &describe(point), style);
        }
    }
    let mut drawn = false;
    for (nth, point) in comparison.points.iter().enumerate() {
        if point.is_in_both() && point.gain.is_some() {
            drawn |= table(&mut out, comparison, nth, style);
        }
    }
    if drawn {
        let legend = "slope: gain per speedup, in the first recording and in the second; then their difference \
                      and its 95 % interval. Verdicts allow for how many regions there are: of 20 comparisons in \
                      which nothing changed, one reports a change.";
        line_of(&mut out, "");
        note(&mut out, legend, style);
    }
    for (title, profile) in [("Runs before", comparison.before), ("Runs after", comparison.after)] {
        line_of(&mut out, &format!("\n{title}"));
        for session in &profile.rows.sessions {
            note(&mut out, &run(session), style);
        }
    }
    draw_warnings(&mut out, &comparison.warnings, style);
    out
}

/// `requests: 1002 per second → 1251 per second: 20.1 % less time (95 % interval 19.6 to 20.6 %), 1.3 × the throughput`.
fn describe(point: &PointChange<'_>) -> String {
    let summary = point.summary();
    let latency = matches!(summary.target, Target::Latency { .. });
    let level = |level: Option<PointLevel<'_>>| match (level, level.and_then(|level| level.period_ns)) {
        (None, _) => "not there".to_owned(),
        (_, None) => "not visited".to_owned(),
        (_, Some(period)) if latency => Nanos::new(period as u64).to_string(),
        (_, Some(period)) => format!("{} per second", three_digits(1e9 / period)),
    };
    let change = |gain: f64| format!("{:.1} % {}", gain.abs() * 100.0, point.word(gain));
    let throughput =
        point.throughput().map(|factor| format!(", {factor} the throughput")).unwrap_or_default();
    let change = match point.gain {
        Some(gain) if gain.half_width().is_finite() => {
            let Estimate { value, lo, hi, .. } = gain;
            // In the direction that the word has.
            let (lo, hi) = if value > -0.0005 { (lo, hi) } else { (-hi, -lo) };
            format!("{} (95 % interval {} to {} %){throughput}", change(value), gained(lo), gained(hi))
        }
        Some(gain) => {
            format!("{}{throughput}, from too few experiments to say how sure", change(gain.value))
        }
        None => String::new(),
    };
    let change = if change.is_empty() { change } else { format!(": {change}") };
    format!(
        "{}{}: {} → {}{change}",
        printable(&summary.name),
        if latency { " (latency)" } else { "" },
        level(point.before),
        level(point.after)
    )
}

/// In per cent.
fn gained(gain: f64) -> String {
    let percent = gain * 100.0;
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent }; // never "−0"
    format!("{percent:.1}").replace('-', "−")
}

/// Draws the regions in the order of what there is to say; whether there were any.
fn table(out: &mut String, comparison: &Comparison<'_>, point: usize, style: Style) -> bool {
    let ranked = comparison.ranked(point);
    if ranked.is_empty() {
        return false;
    }
    let summary = comparison.points[point].summary();
    let shown = match summary.target {
        Target::Throughput(_) => format!("`{}`", printable(&summary.name)),
        Target::Latency { .. } => format!("the latency of `{}`", printable(&summary.name)),
    };
    line_of(out, &format!("\nWhat regions are worth to {shown}"));
    let region = (style.width - TAKEN).min(60);
    let head = format!(
        "  {}  {:>SLOPE$}  {:>SLOPE$}  {:>SLOPE$}  {:>INTERVAL$}  change",
        exactly("region", region),
        "before",
        "after",
        "difference",
        "95 % interval"
    );
    line_of(out, &paint(style, Colour::Dim, &head));
    let shown = &ranked[..ranked.len().min(style.top)];
    for (of_region, slope) in shown {
        line_of(out, row(of_region, slope, region, style).trim_end());
    }
    for (of_region, _) in shown {
        if let Some(moved) = moved(of_region) {
            note(out, &moved, style);
        }
    }
    if shown.len() < ranked.len() {
        let more = format!("  … and {} more: --top {}", ranked.len() - shown.len(), ranked.len());
        line_of(out, &paint(style, Colour::Dim, &more));
    }
    true
}

fn row(of_region: &RegionChange<'_>, slope: &SlopeChange<'_>, width: usize, style: Style) -> String {
    let value = |estimate: Option<Estimate>| match estimate {
        Some(estimate) => number(format!("{:.2}", estimate.value)),
        None => "–".into(),
    };
    let interval = match slope.difference {
        Some(apart) if apart.half_width().is_finite() => number(format!("{:.2} … {:.2}", apart.lo, apart.hi)),
        _ => "–".into(),
    };
    format!(
        "  {}  {:>SLOPE$}  {:>SLOPE$}  {:>SLOPE$}  {interval:>INTERVAL$}  {}",
        exactly(&printable(&of_region.region().label_in(of_region.program())), width),
        value(slope.before.and_then(|estimate| estimate.slope)),
        value(slope.after.and_then(|estimate| estimate.slope)),
        value(slope.difference),
        change(slope.change, style),
    )
}

fn change(change: Change, style: Style) -> String {
    let (text, colour) = match change {
        Change::BecameCritical => ("became critical", Colour::Bold),
        Change::NoLongerCritical => ("no longer critical", Colour::Bold),
        Change::More => ("more", Colour::Green),
        Change::Less => ("less", Colour::Red),
        Change::Unchanged => ("unchanged", Colour::Plain),
        Change::CannotTell => ("cannot tell yet", Colour::Yellow),
        Change::OnlyBefore => ("only before", Colour::Dim),
        Change::OnlyAfter => ("only after", Colour::Dim),
    };
    paint(style, colour, text)
}

/// That a line has another number now.
fn moved(region: &RegionChange<'_>) -> Option<String> {
    let (before, after) = (region.before?.region, region.after?.region);
    (after.kind == RegionKind::Line && before.name != after.name)
        .then(|| format!("{} was {} before.", printable(&after.name), printable(&before.name)))
}
