//! Gains in words. One meaning of faster: a gain is the share of the time between two visits (or of a latency) that disappears.

use super::{Needed, Piece};
use crate::estimate::{Dot, ENOUGH_BLOCKS, Estimate, PointEstimate, REFERENCE, Target, Verdict, WORTH};
use crate::ranking::PointSummary;
use crate::sentence::{per_visit, subject};
use crate::units::Nanos;

/// What less time at [`REFERENCE`] brings to a point: "20 % less time there → 8 % less time per `insert` (6 to 10), 371 k → 403 k per
/// second; at most 31 % less (24 to 38), however fast it gets". `None` where it is not known.
pub(super) fn brings(point: &PointSummary, estimate: &PointEstimate) -> Option<String> {
    let effect = estimate.effect.filter(|effect| effect.half_width().is_finite())?;
    let less = per_cent(effect.value, decimals(&effect));
    let what = lessened(point);
    let mut text = format!("{REFERENCE} less time there → {less} {what} ({})", percent_range(&effect));
    match (point.target, point.rate, point.latency) {
        (Target::Latency { .. }, _, Some(latency)) => {
            let then = Nanos::new((latency.get() as f64 * (1.0 - effect.value)).max(0.0) as u64);
            text.push_str(&format!(", {latency} → {then}"));
        }
        (Target::Throughput(_), Some(now), _) if point.whole && now > 0.0 => {
            let [now, then] =
                [1.0, 1.0 - effect.value].map(|share| Nanos::new((share.max(0.0) * 1e9 / now) as u64));
            text.push_str(&format!(", {now} → {then}"));
        }
        (Target::Throughput(_), Some(now), _) if effect.value < 1.0 => {
            text.push_str(&format!(", {} → {} per second", rate(now), rate(now / (1.0 - effect.value))));
        }
        _ => {}
    }
    let most = estimate.most.filter(|most| most.half_width().is_finite() && most.value > effect.value);
    if let Some(most) = most {
        text.push_str(&format!(
            "; at most {} less ({}), however fast it gets",
            percent(&most),
            percent_range(&most)
        ));
    }
    Some(text)
}

/// What there is less of: "less time per `insert`", "less latency of `request`".
pub fn lessened(point: &PointSummary) -> String {
    match point.target {
        Target::Throughput(_) if point.whole => format!("less time for {}", subject(point)),
        Target::Throughput(_) => format!("less time per {}", per_visit(point)),
        Target::Latency { .. } => format!("less {}", subject(point).trim_start_matches("the ")),
    }
}

/// The same of the best candidate among `pieces`, where nothing is known to help yet.
pub(super) fn may_bring(point: &PointSummary, piece: &Piece, pieces: &[Piece]) -> Option<String> {
    let estimate = piece.estimate.as_ref()?;
    let effect = estimate.effect.filter(|effect| effect.half_width().is_finite())?;
    let candidate = format!("Best candidate so far: {}", piece.name);
    if !effect.says_something() {
        return Some(format!(
            "{candidate}, but what less time there brings is not known to within {REFERENCE}"
        ));
    }
    let digits = decimals(&effect);
    let what = lessened(point);
    let best =
        format!("{candidate}. {REFERENCE} less time there → {} {what}", per_cent(effect.value, digits));
    // The interval would call it a gain; why it is not called so.
    if effect.lo > 0.0 && piece.note.is_none() {
        return Some(format!("{best} ({}), {}", percent_range(&effect), not_called(estimate, pieces)));
    }
    Some(format!(
        "{best}, but anything from {} to {} fits the data",
        per_cent(effect.lo, digits),
        per_cent(effect.hi, digits)
    ))
}

/// Why an effect whose interval has no zero is not known to help.
fn not_called(estimate: &PointEstimate, pieces: &[Piece]) -> String {
    let tried = pieces.iter().filter(|piece| piece.estimate.is_some()).count();
    let is_clear = estimate.slope.is_some_and(|slope| slope.lo > WORTH);
    match (estimate.blocks, is_clear) {
        (..ENOUGH_BLOCKS, _) => "but there are too few experiments to rely on that".into(),
        (_, false) => "but over all speedups together it may bring next to nothing".into(),
        // Only that so many were tried speaks against it.
        (_, true) if tried > 1 => {
            format!(
                "but that may be chance: of {tried} pieces of code that were tried, one that brings nothing can look like this"
            )
        }
        (_, true) => "but that may be chance".into(),
    }
}

/// What to think of an estimate, as people read it. A verdict is about all speedups; where [`REFERENCE`] is not certain, or chance not quite out of the question, it is probable.
pub fn verdict_words(estimate: &PointEstimate) -> &'static str {
    let is_unsure = estimate.effect.is_some_and(|effect| effect.lo <= 0.0 && effect.hi >= 0.0);
    match estimate.verdict {
        Verdict::Helps if is_unsure => "probably helps",
        Verdict::Hurts if is_unsure => "probably hurts",
        Verdict::NotEnoughData if estimate.is_probable => match estimate.slope {
            Some(slope) if slope.value > 0.0 => "probably helps",
            _ => "probably hurts",
        },
        Verdict::NotEnoughData if Needed::of(estimate).is_some_and(|needed| !needed.helps()) => "too noisy",
        verdict => verdict.words(),
    }
}

/// Visits per second with three digits: `9.42`, `10.1 k`, `403 k`, `1.20 M`.
pub fn rate(per_second: f64) -> String {
    let digits = |number: f64| {
        let decimals = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
        format!("{number:.decimals$}")
    };
    match per_second {
        rate if rate < 9_999.5 => digits(rate).replace(".00", ""),
        rate if rate < 999_500.0 => format!("{} k", digits(rate / 1e3)),
        rate => format!("{} M", digits(rate / 1e6)),
    }
}

/// The throughput that a gain leaves, as a factor: "1.8 ×". `None` for a gain of all of it or more.
pub fn factor(gain: f64) -> Option<String> {
    let factor = 1.0 / (1.0 - gain);
    (gain < 1.0 && factor.is_finite()).then(|| {
        let decimals = if (factor - 1.0).abs() < 0.095 { 2 } else { usize::from(factor < 9.95) };
        format!("{factor:.decimals$} ×")
    })
}

/// Its value in per cent, with as many decimals as the interval is worth: `8 %`.
pub fn percent(estimate: &Estimate) -> String {
    per_cent(estimate.value, decimals(estimate))
}

/// An interval in per cent, without the sign: `6 to 10`. An end beside zero never seems to be zero: whether the interval holds it decides what
/// is known.
pub fn percent_range(estimate: &Estimate) -> String {
    let is_hidden = |end: f64| end != 0.0 && end.abs() < 0.005;
    let hides_sign = is_hidden(estimate.lo) || is_hidden(estimate.hi);
    let decimals = decimals(estimate).max(usize::from(hides_sign));
    let shown = |value: f64| per_cent(value, decimals).trim_end_matches(" %").to_owned();
    format!("{} to {}", shown(estimate.lo), shown(estimate.hi))
}

/// The gain at a speedup (0 to 1) by a curve's points, with its interval: by straight lines between them. `None` beyond the largest that was tried.
pub fn gain_at(curve: &[Dot], speedup: f64) -> Option<Estimate> {
    let known = curve.iter().filter(|dot| !dot.speedup.is_zero());
    let zero = Estimate { value: 0.0, se: 0.0, lo: 0.0, hi: 0.0 };
    let mut below = (0.0, zero);
    for (at, gain) in known.filter_map(|dot| Some((dot.speedup.fraction(), dot.gain?))) {
        if speedup <= at {
            let part = (speedup - below.0) / (at - below.0);
            let between = |from: f64, to: f64| from + part * (to - from);
            let (from, to) = (below.1, gain);
            return Some(Estimate {
                value: between(from.value, to.value),
                se: between(from.se, to.se),
                lo: between(from.lo, to.lo),
                hi: between(from.hi, to.hi),
            });
        }
        below = (at, gain);
    }
    None
}

/// An upper limit in whole per cents, never below what it is: `3 %`.
pub(super) fn whole(limit: f64) -> String {
    // What a float lacks to a whole number is no per cent.
    format!("{:.0} %", (limit * 100.0 - 1e-9).ceil())
}

/// As many decimals as the interval is worth.
fn decimals(estimate: &Estimate) -> usize {
    usize::from(estimate.half_width() < 0.0095 || estimate.value.abs() < 0.0095)
}

/// No more time disappears than there was, however far an interval reaches.
pub(super) fn per_cent(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$} %", value.min(1.0) * 100.0).replace('-', "−");
    // Never "−0".
    if text.starts_with("−0") && !text.contains(|c: char| ('1'..='9').contains(&c)) {
        text.replacen('−', "", 1)
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Speedup;

    fn estimate(value: f64, half: f64) -> Estimate {
        Estimate { value, se: half / 2.0, lo: value - half, hi: value + half }
    }

    #[test]
    fn rates_have_three_digits() {
        for (per_second, expected) in [
            (0.5, "0.50"),
            (2.0, "2"),
            (9.42, "9.42"),
            (52.84, "52.8"),
            (371.2, "371"),
            (9_999.0, "9999"),
            (10_062.0, "10.1 k"),
            (403_400.0, "403 k"),
            (1_204_000.0, "1.20 M"),
        ] {
            assert_eq!(rate(per_second), expected);
        }
    }

    #[test]
    fn less_time_is_more_throughput() {
        assert_eq!(factor(0.45).as_deref(), Some("1.8 ×"));
        assert_eq!(factor(0.04).as_deref(), Some("1.04 ×"));
        assert_eq!(factor(-1.0).as_deref(), Some("0.5 ×"));
        assert_eq!(factor(0.96).as_deref(), Some("25 ×"));
        assert_eq!(factor(1.0), None);
    }

    #[test]
    fn intervals_are_as_exact_as_they_are() {
        assert_eq!(percent_range(&estimate(0.08, 0.02)), "6 to 10");
        assert_eq!(percent_range(&estimate(0.08, 0.004)), "7.6 to 8.4");
        assert_eq!(percent_range(&estimate(0.01, 0.03)), "−2 to 4");
        assert_eq!(percent_range(&estimate(0.016, 0.02)), "−0.4 to 3.6");
        assert_eq!(percent_range(&Estimate { lo: 0.0, ..estimate(0.016, 0.02) }), "0 to 4");
        assert_eq!(percent_range(&estimate(0.95, 0.07)), "88 to 100");
        assert_eq!(percent_range(&estimate(0.107, 0.103)), "0.4 to 21.0");
        assert_eq!(percent_range(&estimate(-0.107, 0.103)), "−21.0 to −0.4");
    }

    #[test]
    fn between_two_speedups_a_gain_is_between_theirs() {
        let dot = |percent, value| Dot {
            speedup: Speedup::from_percent(percent).unwrap(),
            raw: Some(value),
            gain: Some(estimate(value, 0.02)),
            windows: 5,
        };
        let curve = [dot(0, 0.0), dot(20, 0.1), dot(60, 0.2)];
        let at = |speedup| gain_at(&curve, speedup).map(|gain| (gain.value * 1e6).round() / 1e6);
        assert_eq!(at(0.1), Some(0.05));
        assert_eq!(at(0.2), Some(0.1));
        assert_eq!(at(0.4), Some(0.15));
        assert_eq!(at(0.7), None);
        let half = gain_at(&curve, 0.1).unwrap().half_width();
        assert!((half - 0.01).abs() < 1e-9, "{half}");
    }
}
