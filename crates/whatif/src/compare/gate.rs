//! The gate: whether a condition holds, and how sure that is.

use profile::condition::{Condition, Quantity};
use profile::{Comparison, ENOUGH_BLOCKS, Estimate, PointChange, RegionChange, printable};
use std::fmt;

/// Exit status when a condition of `--fail-if` holds for certain.
pub const HOLDS: i32 = 1;
/// Exit status when a condition cannot be judged: it names what is not there, or was not measured. The
/// same as for an option that cannot be understood.
pub const CANNOT_BE_JUDGED: i32 = 2;

/// What to think of a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judgement {
    /// It holds in all of the 95 % interval.
    Holds(Measured),
    /// It holds for the estimate, but not in all of the interval.
    MayHold(Measured),
    /// It does not hold for the estimate.
    DoesNotHold,
}

/// What was compared with the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    estimate: Estimate,
    /// Whether it is shown in per cent.
    gain: bool,
}

impl fmt::Display for Measured {
    /// `−4.0 %, 95 % interval −5.1 … −2.9 %`; with the real minus of the reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, lo, hi, .. } = self.estimate;
        let text = match (self.gain, self.estimate.half_width().is_finite()) {
            (true, true) => {
                format!("{:.1} %, 95 % interval {:.1} … {:.1} %", value * 100.0, lo * 100.0, hi * 100.0)
            }
            (false, true) => format!("{value:.2}, 95 % interval {lo:.2} … {hi:.2}"),
            (true, false) => format!("{:.1} %, from too few windows to say how sure", value * 100.0),
            (false, false) => format!("{value:.2}, from too few windows to say how sure"),
        };
        f.write_str(&text.replace('-', "−"))
    }
}

/// Judges a condition; the error says why that is impossible, and what to do about it.
pub fn judge(comparison: &Comparison<'_>, condition: &Condition) -> Result<Judgement, String> {
    Ok(match &condition.quantity {
        Quantity::Gain(name) => of(condition, gain(comparison, name)?, true),
        Quantity::Slope(names) => of(condition, slope(comparison, names)?, false),
    })
}

/// What an estimate says about a condition. `gain`: whether it is shown in per cent.
pub fn of(condition: &Condition, estimate: Estimate, gain: bool) -> Judgement {
    let holds = |value| condition.relation.holds(value, condition.limit);
    // The end of the interval that is the last to be beyond the limit.
    let last = if condition.relation.is_upwards() { estimate.lo } else { estimate.hi };
    let measured = Measured { estimate, gain };
    match (holds(estimate.value), holds(last)) {
        (true, true) => Judgement::Holds(measured),
        (true, false) => Judgement::MayHold(measured),
        (false, _) => Judgement::DoesNotHold,
    }
}

/// Judges a condition about two programs that were run by turns, whose gains `gain` knows by name. Says on standard error what became
/// of it, unless it plainly does not hold; returns the exit status.
pub fn judge_turns(condition: &Condition, gain: impl Fn(&str) -> Result<Estimate, String>) -> i32 {
    let judgement = match &condition.quantity {
        Quantity::Gain(name) => gain(name).map(|estimate| of(condition, estimate, true)),
        Quantity::Slope(_) => Err("slopes are what whatif compare knows, from recordings".to_owned()),
    };
    say(condition, judgement, "more rounds make the interval narrower (--duration 10m)")
}

/// Says on standard error what became of a condition, unless it plainly does not hold; returns the exit status. `advice`: what makes
/// it more certain.
pub fn say(condition: &Condition, judgement: Result<Judgement, String>, advice: &str) -> i32 {
    let typed = printable(&condition.text);
    match judgement {
        Ok(Judgement::Holds(measured)) => {
            kernel::say!("whatif: --fail-if '{typed}' holds: {measured}");
            HOLDS
        }
        Ok(Judgement::MayHold(measured)) => {
            kernel::say!(
                "whatif: note: --fail-if '{typed}' holds for the estimate, but not for certain: {measured}\n  {advice}"
            );
            0
        }
        Ok(Judgement::DoesNotHold) => 0,
        Err(why) => {
            kernel::say!("whatif: --fail-if '{typed}' cannot be judged: {why}");
            CANNOT_BE_JUDGED
        }
    }
}

fn gain(comparison: &Comparison<'_>, name: &str) -> Result<Estimate, String> {
    let (_, point) = find_point(comparison, name)?;
    let missing = |which| Err(format!("{which} recording does not have that point; {}", points(comparison)));
    match (point.before, point.after, point.gain) {
        (None, ..) => missing("the first"),
        (_, None, _) => missing("the second"),
        (.., Some(gain)) => Ok(gain),
        (.., None) => {
            Err("the point was not visited without speedups in both recordings; record longer runs, or \
                           give the program more work"
                .into())
        }
    }
}

fn slope(comparison: &Comparison<'_>, names: &str) -> Result<Estimate, String> {
    // Names may have commas: the point is what follows one of them, the last one first.
    let splits = || names.rmatch_indices(',').map(|(at, _)| (names[..at].trim(), names[at + 1..].trim()));
    let split = splits().find(|(_, point)| find_point(comparison, point).is_ok()).or(splits().next());
    let (region, point) = split.unwrap_or((names, ""));
    let (nth, _) = find_point(comparison, point)?;
    let region = find_region(comparison, region)?;
    let measured = region.points[nth].after.and_then(|after| Some((after.slope?, after.blocks)));
    match measured {
        Some((slope, blocks)) if blocks >= ENOUGH_BLOCKS => Ok(slope),
        // The interval of so few blocks is itself a guess.
        Some((slope, _)) => Ok(Estimate { lo: f64::NEG_INFINITY, hi: f64::INFINITY, ..slope }),
        None => Err(format!(
            "the second recording does not say what that region is worth to that point; have it tried with: \
             whatif run --region '{}'",
            printable(&region.region().name)
        )),
    }
}

/// A point and its position, by name or, where a name is both, `throughput:NAME` and `latency:NAME`.
fn find_point<'a, 'c>(
    comparison: &'c Comparison<'a>,
    name: &str,
) -> Result<(usize, &'c PointChange<'a>), String> {
    let full = |point: &PointChange<'_>| {
        let summary = point.summary();
        format!("{}:{}", summary.target.kind(), summary.name)
    };
    let named = |(_, point): &(usize, &PointChange<'_>)| point.summary().name == name || full(point) == name;
    let found: Vec<_> = comparison.points.iter().enumerate().filter(named).collect();
    match found.as_slice() {
        [found] => Ok(*found),
        [] => Err(format!("there is no point `{}`; {}", printable(name), points(comparison))),
        several => {
            let names: Vec<String> = several.iter().map(|(_, point)| full(point)).collect();
            Err(format!("`{}` is several points; name one of {}", printable(name), list(&names)))
        }
    }
}

/// A region by its name, by where it is, by both as reports show it, or by its full name.
fn find_region<'a, 'c>(comparison: &'c Comparison<'a>, name: &str) -> Result<&'c RegionChange<'a>, String> {
    let full = |change: &RegionChange<'_>| {
        let region = change.region();
        match region.location().filter(|location| *location != region.name) {
            Some(location) => format!("{} {location}", region.name),
            None => region.name.clone(),
        }
    };
    let named = |change: &&RegionChange<'_>| {
        let region = change.region();
        region.name == name
            || full(change) == name
            || region.location().as_deref() == Some(name)
            || region.function.as_deref() == Some(name)
    };
    let found: Vec<&RegionChange<'_>> = comparison.regions.iter().filter(named).collect();
    let all = |regions: &[&RegionChange<'_>]| list(&regions.iter().map(|r| full(r)).collect::<Vec<_>>());
    match found.as_slice() {
        [found] => Ok(found),
        [] if comparison.regions.is_empty() => Err("no region was tried in either recording".into()),
        [] => {
            let regions: Vec<_> = comparison.regions.iter().collect();
            Err(format!("no region `{}` was tried; those that were are {}", printable(name), all(&regions)))
        }
        several => Err(format!("`{}` is several regions; name one of {}", printable(name), all(several))),
    }
}

fn points(comparison: &Comparison<'_>) -> String {
    let names: Vec<String> = comparison.points.iter().map(|point| point.summary().name.clone()).collect();
    match names.len() {
        0 => "the recordings have no points at all".into(),
        _ => format!("there are {}", list(&names)),
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{}`", printable(name))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_shown_with_its_interval() {
        let estimate = Estimate { value: -0.04, se: 0.005, lo: -0.051, hi: -0.029 };
        let shown = |gain, estimate| Measured { estimate, gain }.to_string();
        assert_eq!(shown(true, estimate), "−4.0 %, 95 % interval −5.1 … −2.9 %");
        assert_eq!(shown(false, estimate), "−0.04, 95 % interval −0.05 … −0.03");
        let unknown = Estimate { se: f64::INFINITY, lo: f64::NEG_INFINITY, hi: f64::INFINITY, ..estimate };
        assert_eq!(shown(true, unknown), "−4.0 %, from too few windows to say how sure");
    }
}
