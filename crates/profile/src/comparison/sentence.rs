//! The comparison in one sentence.

use super::{Change, Comparison, PointChange, RegionChange};
use crate::estimate::Target;
use crate::sentence::{name, plus_minus, subject};

/// How many regions a sentence can carry.
const NAMED: usize = 2;

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
        let both = || self.points.iter().enumerate().filter(|(_, point)| point.is_in_both());
        let certain = both().find(|(_, point)| point.sign().is_some());
        let Some((nth, point)) = certain.or_else(|| both().find(|(_, p)| p.gain.is_some())).or(both().next())
        else {
            return "The recordings have no progress point in common, so that nothing can be compared."
                .into();
        };
        format!("{}; {}.", point_claim(point), self.regions_claim(nth))
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
            let decimals = usize::from(gain.half_width() < 0.0095 || gain.value.abs() < 0.0095);
            let end = |gain: f64| format!("{:.decimals$} % {}", 100.0 * gain.abs(), point.word(gain));
            format!(
                "It is not clear yet whether {subject} {verb} {better} or {worse} than before: {}, but anything from {} to {} fits the data",
                end(gain.value),
                end(gain.hi),
                end(gain.lo)
            )
        }
        None => format!("Too little was measured to say whether {subject} changed"),
    }
}
