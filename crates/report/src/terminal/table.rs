//! The table of one progress point: what each region is worth to it.

use profile::{
    Mark, PointEstimate, PointSummary, Profile, QuantileGain, REFERENCE, RegionEstimate, Target, Verdict,
    plus_minus, printable, verdict_words,
};

use super::columns::exactly;
use super::paint::{Colour, paint};
use super::{Style, curve, line_of, note, percentile};

const SLOPE: usize = 12;
const INTERVAL: usize = 13;
const EXPERIMENTS: usize = 11;
const SHARE: usize = 5;
/// Where there are fewer columns, the number of experiments makes room for the share in production.
const WIDE: usize = 112;

/// Columns that not every table has.
#[derive(Clone, Copy)]
struct Columns {
    /// As wide as the longest verdict.
    verdict: usize,
    experiments: bool,
    production: bool,
}

impl Columns {
    fn of(profile: &Profile, shown: &[(&RegionEstimate, &PointEstimate)], style: Style) -> Columns {
        let production = profile.regions.iter().any(|region| region.production.is_some());
        let verdict = Cells::verdict_width(shown.iter().map(|(_, estimate)| *estimate));
        Columns { verdict, experiments: !production || style.width >= WIDE, production }
    }

    /// What all columns but the region and the curve take, with two spaces before each, and the indentation.
    fn taken(self) -> usize {
        let experiments = if self.experiments { EXPERIMENTS + 2 } else { 0 };
        let production = if self.production { SHARE + 2 } else { 0 };
        SLOPE + INTERVAL + self.verdict + SHARE + 4 * 2 + 2 + experiments + production
    }

    /// `verdict` is already as wide as it has to be.
    fn row(self, cells: &Cells, verdict: &str, region: usize, gain: &str) -> String {
        let Cells { mark, slope, interval, experiments, share, production, .. } = cells;
        let name = exactly(&cells.region, region);
        let mut line = format!("{mark} {name}  {slope:>SLOPE$}  {interval:>INTERVAL$}  {verdict}");
        if self.experiments {
            line.push_str(&format!("  {experiments:>EXPERIMENTS$}"));
        }
        line.push_str(&format!("  {share:>SHARE$}"));
        if self.production {
            line.push_str(&format!("  {production:>SHARE$}"));
        }
        line.push_str(&format!("  {gain}"));
        line.trim_end().to_owned()
    }
}

/// One row of the table in words. Nothing in it can move a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The region and its place.
    pub region: String,
    /// The slope and its standard error.
    pub slope: String,
    /// The slope's 95 % interval.
    pub interval: String,
    /// What that means.
    pub verdict: &'static str,
    /// How many experiments it is known from.
    pub experiments: String,
    /// The share of all CPU time.
    pub share: String,
    /// The share in production.
    pub production: String,
    /// What cost and worth together say, or a space.
    pub mark: char,
}

impl Cells {
    /// What stands above them.
    pub fn head() -> Cells {
        Cells {
            region: "region".into(),
            slope: "slope (se)".into(),
            interval: "95 % interval".into(),
            verdict: "verdict",
            experiments: "experiments".into(),
            share: "share".into(),
            production: "prod.".into(),
            mark: ' ',
        }
    }

    /// As wide as the longest verdict of these, and what stands above them.
    pub fn verdict_width<'a>(estimates: impl Iterator<Item = &'a PointEstimate>) -> usize {
        let verdicts = estimates.map(|estimate| words(estimate).len());
        verdicts.fold(Cells::head().verdict.len(), usize::max)
    }

    /// What is known of a region, for one point.
    pub fn new(profile: &Profile, of_region: &RegionEstimate, estimate: &PointEstimate) -> Cells {
        Cells {
            region: name(profile, of_region),
            slope: slope(estimate),
            interval: interval(estimate),
            verdict: words(estimate),
            experiments: estimate.blocks.to_string(),
            share: share(of_region.share),
            production: share(of_region.production),
            mark: sign(of_region.mark()),
        }
    }
}

/// What the table of a point shows.
pub fn title(point: &PointSummary) -> String {
    match point.target {
        Target::Throughput(_) => format!("What makes `{}` faster", printable(&point.name)),
        Target::Latency { .. } => format!("What makes the latency of `{}` shorter", printable(&point.name)),
    }
}

/// Draws the regions in the order of what they are worth to `point`.
pub(super) fn draw(out: &mut String, profile: &Profile, point: &PointSummary, style: Style) {
    let ranked = profile.ranked(point.target);
    if ranked.is_empty() {
        return;
    }
    line_of(out, &title(point));
    let shown = &ranked[..ranked.len().min(style.top)];
    let columns = Columns::of(profile, shown, style);
    let room = style.width.saturating_sub(columns.taken());
    let curve = (room / 4).clamp(5, 20);
    let region = room.saturating_sub(curve + 2).clamp(8, 60);
    let head = Cells::head();
    let head = columns.row(&head, &format!("{:1$}", head.verdict, columns.verdict), region, "gain");
    line_of(out, &paint(style, Colour::Dim, &head));

    let gains = shown.iter().flat_map(|(_, e)| &e.curve).filter(|dot| !dot.speedup.is_zero());
    // A column for each speedup that was tried, where there is room: gaps then mean missing data.
    let tried = shown.iter().map(|(_, e)| e.curve.len().saturating_sub(1)).max().unwrap_or(0);
    let curve = curve.min(tried);
    let top = gains.filter_map(|dot| Some(dot.gain?.value)).fold(0.1, f64::max);
    for (of_region, estimate) in shown {
        let cells = Cells::new(profile, of_region, estimate);
        let gain = curve::draw(&estimate.curve, curve, top.min(1.0));
        line_of(out, &columns.row(&cells, &verdict(estimate, columns.verdict, style), region, &gain));
    }
    for (of_region, estimate) in shown.iter().filter(|(region, _)| region.phase < 1.0) {
        let (name, phase) = (name(profile, of_region), of_region.phase);
        let slopes = estimate.slope.map_or_else(String::new, |slope| {
            number(format!(
                ": its slope is {:.2} while it does, and {:.2} over the whole run",
                slope.value / phase,
                slope.value
            ))
        });
        note(out, &format!("{name} runs in {:.0} % of the run{slopes}.", phase * 100.0), style);
    }
    for (of_region, estimate) in shown.iter().filter(|(_, estimate)| estimate.verdict == Verdict::Helps) {
        if let Some(gains) = quantiles(estimate) {
            note(out, &format!("{} {REFERENCE} less time: {gains}.", name(profile, of_region)), style);
        }
    }
    for (of_region, estimate) in shown {
        if let Some(limit) = limit(estimate) {
            note(out, &format!("{}: {limit}.", name(profile, of_region)), style);
        }
    }
    if shown.len() < ranked.len() {
        let more = format!("  … and {} more: --top {}", ranked.len() - shown.len(), ranked.len());
        line_of(out, &paint(style, Colour::Dim, &more));
    }
}

/// What it does to the slow ones, as far as that is known.
fn quantiles(estimate: &PointEstimate) -> Option<String> {
    let of_quantile = |gain: &QuantileGain| {
        format!("{} {}", percentile(gain.share), plus_minus(&gain.effect, gain.effect.value))
    };
    let known: Vec<String> = estimate.quantiles.iter().map(of_quantile).collect();
    (!known.is_empty()).then(|| known.join(", ") + " shorter")
}

/// What a region that helps is worth at most, and where more begins to bring less, if that is known.
fn limit(estimate: &PointEstimate) -> Option<String> {
    let bend = estimate.bend.filter(|_| estimate.verdict == Verdict::Helps)?;
    let most = estimate.most.filter(|most| most.half_width().is_finite())?;
    let at = plus_minus(&bend, bend.value);
    let bends = match estimate.known_bend() {
        Some(_) => format!("beyond a speedup of {at} something else begins to limit"),
        None => format!("the curve bends somewhere ({at})"),
    };
    Some(format!("worth up to {}; {bends}", plus_minus(&most, most.value)))
}

/// A region and its place, without line breaks or tricks.
fn name(profile: &Profile, of_region: &RegionEstimate) -> String {
    printable(&profile.label(profile.region(of_region))).into_owned()
}

fn slope(estimate: &PointEstimate) -> String {
    match &estimate.slope {
        Some(slope) if slope.se.is_finite() => number(format!("{:.2} ({:.2})", slope.value, slope.se)),
        Some(slope) => number(format!("{:.2}  (?)  ", slope.value)),
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

/// At least as wide as `width`.
pub(super) fn verdict(estimate: &PointEstimate, width: usize, style: Style) -> String {
    let (_, colour) = word(estimate.verdict);
    paint(style, colour, &format!("{:width$}", words(estimate)))
}

/// Of the slope, which is that of all speedups; why there is no verdict, where there is none.
fn words(estimate: &PointEstimate) -> &'static str {
    match estimate.verdict {
        Verdict::NotEnoughData => verdict_words(estimate),
        verdict => verdict.words(),
    }
}

pub(super) fn word(verdict: Verdict) -> (&'static str, Colour) {
    let colour = match verdict {
        Verdict::Helps => Colour::Green,
        Verdict::NoEffect => Colour::Plain,
        Verdict::Hurts | Verdict::NotTrusted => Colour::Red,
        Verdict::NotEnoughData => Colour::Yellow,
        Verdict::Idle => Colour::Dim,
    };
    (verdict.words(), colour)
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
    let columns = Columns::of(profile, &[], style);
    let production = profile.production().filter(|_| columns.production).map(|covered| {
        let machines = match covered.hosts {
            1 => "1 machine".to_owned(),
            hosts => format!("{hosts} machines"),
        };
        let (since, until) = (covered.since.day(), covered.until.day());
        let days = if since == until { since } else { format!("{since} to {until}") };
        format!(" prod.: of the program's samples in production ({machines}, {days}).")
    });
    let has = |mark| profile.regions.iter().any(|region: &RegionEstimate| region.mark() == Some(mark));
    let hot = if has(Mark::HotButDoesNotMatter) { " ○ is hot, but does not matter." } else { "" };
    let matters = if has(Mark::MattersButIsNotHot) { " ◆ matters, but is not hot." } else { "" };
    let production = production.unwrap_or_default();
    format!(" share: of all CPU time.{production} gain: at small to full speedups.{hot}{matters}")
}

pub(super) fn share(share: Option<f64>) -> String {
    match share {
        Some(share) if share > 0.0 && share < 0.005 => "<1 %".into(),
        Some(share) => format!("{:.0} %", share * 100.0),
        None => "–".into(),
    }
}
