//! The comparison in one sentence, and what the page says of each point: the number first.

use super::{Change, Comparison, PointChange, RegionChange};
use crate::answer::{lessened, rate};
use crate::estimate::{Estimate, Target};
use crate::sentence::{capitalized, name, plus_minus, subject};
use crate::units::Nanos;

/// How many regions a sentence can carry.
const NAMED: usize = 2;

/// What became of a point, for the first screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointHeadline {
    /// In large letters: "18 % ± 9 less time per `document`". The number after "±" is half the 95 % interval.
    pub headline: String,
    /// What that is in visits or time: "371 k → 403 k per second, 1.1 × the throughput", or what fits the data where the sign is
    /// not certain; `None` where it is not known.
    pub brings: Option<String>,
    /// What became of the regions: "`parse` (p.c:12) became critical."
    pub rest: String,
}

impl Comparison<'_> {
    /// Whether both recordings have a progress point of the same name: without one nothing can be compared.
    pub fn has_common_point(&self) -> bool {
        self.points.iter().any(PointChange::is_in_both)
    }

    /// The comparison in one sentence, such as "`requests` takes 12 % ± 2 % less time than before (1.1 × the throughput); `parse` (p.c:12)
    /// became critical."
    ///
    /// The number after "±" is half the 95 % interval. Throughput comes before latency, what is certain
    /// before what is not.
    pub fn sentence(&self) -> String {
        let Some(nth) = self.first_point() else {
            return "The recordings have no progress point in common, so that nothing can be compared."
                .into();
        };
        format!("{}; {}.", point_claim(&self.points[nth]), self.regions_claim(nth))
    }

    /// The position of the point that the sentence is about.
    pub fn first_point(&self) -> Option<usize> {
        let find = |is_right: fn(&PointChange<'_>) -> bool| {
            self.points.iter().position(|point| point.is_in_both() && is_right(point))
        };
        find(|point| point.sign().is_some())
            .or_else(|| find(|point| point.gain.is_some()))
            .or_else(|| find(|_| true))
    }

    /// What the first screen says of the point at this position in [`points`](Comparison::points).
    pub fn headline(&self, nth: usize) -> PointHeadline {
        let point = &self.points[nth];
        let rest = capitalized(&format!("{}.", self.regions_claim(nth)));
        let Some(gain) = point.gain.filter(|gain| gain.half_width().is_finite()) else {
            return PointHeadline { headline: capitalized(&point_claim(point)), brings: None, rest };
        };
        let what = lessened(point.summary());
        let sense = if gain.value < 0.0 { "more" } else { "less" };
        let amount = plus_minus(&gain, gain.value.abs());
        let claim = format!(
            "{} {sense}{}",
            amount.trim_end_matches(" %"),
            what.strip_prefix("less").unwrap_or(&what)
        );
        match point.sign() {
            Some(_) => PointHeadline { headline: claim, brings: levels(point), rest },
            None => PointHeadline {
                headline: format!("Not certain: {claim}"),
                brings: Some(format!("Anything from {} fits the data", ends(point, &gain))),
                rest,
            },
        }
    }

    fn regions_claim(&self, point: usize) -> String {
        let ranked = self.ranked(point);
        let with = |change| -> Vec<&RegionChange<'_>> {
            ranked.iter().filter(|(_, slope)| slope.change == change).map(|(region, _)| *region).collect()
        };
        let claims: Vec<String> = [
            (Change::BecameCritical, "became critical", "became critical"),
            (Change::NoLongerCritical, "is no longer critical", "are no longer critical"),
            (Change::More, "is worth more than before", "are worth more than before"),
            (Change::Less, "is worth less than before", "are worth less than before"),
        ]
        .into_iter()
        .filter_map(|(change, one, many)| claim(&with(change), one, many))
        .take(2)
        .collect();
        if !claims.is_empty() {
            return claims.join(", and ");
        }
        match with(Change::CannotTell).len() {
            0 if with(Change::Unchanged).is_empty() => "no region was tried in both".into(),
            0 => "no region is worth more or less than before".into(),
            1 => "no region is known to be worth more or less than before; of one region it is not known yet"
                .into(),
            n => {
                format!(
                    "no region is known to be worth more or less than before; of {n} regions it is not known yet"
                )
            }
        }
    }
}

/// The claim about one or many regions, if there are any.
fn claim(regions: &[&RegionChange<'_>], one: &str, many: &str) -> Option<String> {
    let names: Vec<String> =
        regions.iter().take(NAMED).map(|region| name(region.region(), region.program())).collect();
    match regions.len() {
        0 => None,
        1 => Some(format!("{} {one}", names[0])),
        2 => Some(format!("{} {many}", names.join(" and "))),
        n => Some(format!("{} and {} more {many}", names.join(", "), n - NAMED)),
    }
}

/// "`requests` takes 45 % ± 2 % less time than before (1.8 × the throughput)", without a full stop.
fn point_claim(point: &PointChange<'_>) -> String {
    let subject = subject(point.summary());
    let Some(gain) = point.gain else {
        return format!("{subject} was not visited in both recordings, so that it cannot be compared");
    };
    let verb = if matches!(point.summary().target, Target::Latency { .. }) { "is" } else { "takes" };
    match point.sign() {
        Some(_) => {
            let change = format!("{} {}", plus_minus(&gain, gain.value.abs()), point.word(gain.value));
            let throughput = point.throughput().map(|factor| format!(" ({factor} the throughput)"));
            format!("{subject} {verb} {change} than before{}", throughput.unwrap_or_default())
        }
        None if gain.half_width().is_finite() => {
            let (better, worse) = (point.word(1.0), point.word(-1.0));
            format!(
                "It is not clear yet whether {subject} {verb} {better} or {worse} than before: {}, but anything from {} fits the data",
                end(point, &gain, gain.value),
                ends(point, &gain)
            )
        }
        None => format!("Too little was measured to say whether {subject} changed"),
    }
}

/// "4 % less time", with as many decimals as the interval is worth.
fn end(point: &PointChange<'_>, gain: &Estimate, value: f64) -> String {
    let decimals = usize::from(gain.half_width() < 0.0095 || gain.value.abs() < 0.0095);
    format!("{:.decimals$} % {}", 100.0 * value.abs(), point.word(value))
}

/// "11 % less time to 7 % more time": the best and the worst that fits the data.
fn ends(point: &PointChange<'_>, gain: &Estimate) -> String {
    format!("{} to {}", end(point, gain, gain.hi), end(point, gain, gain.lo))
}

/// "371 k → 403 k per second, 1.1 × the throughput", of a latency or a whole program times.
fn levels(point: &PointChange<'_>) -> Option<String> {
    let [before, after] = [point.before?.period_ns?, point.after?.period_ns?];
    let summary = point.summary();
    if summary.whole || matches!(summary.target, Target::Latency { .. }) {
        return Some(format!("{} → {}", Nanos::new(before as u64), Nanos::new(after as u64)));
    }
    let throughput = point.throughput().map(|factor| format!(", {factor} the throughput"));
    Some(format!(
        "{} → {} per second{}",
        rate(1e9 / before),
        rate(1e9 / after),
        throughput.unwrap_or_default()
    ))
}
