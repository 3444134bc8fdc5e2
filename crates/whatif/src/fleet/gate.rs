//! Gate: whether a condition of `whatif fleet worth --fail-if` holds; exit status and words are those of `whatif compare`.

use crate::compare::gate::{self, Judgement};
use fleet::{CodeRow, Numbers, Worths};
use profile::condition::{Condition, Quantity};
use profile::{Estimate, printable};
use std::collections::BTreeSet;

/// So many names are told of those that there are.
const NAMED: usize = 10;

/// Judges a condition; the error says why that is impossible, and what to do about it.
pub fn judge(worths: &Worths, condition: &Condition) -> Result<Judgement, String> {
    match &condition.quantity {
        Quantity::Slope(names) => Ok(gate::of(condition, slope(worths, names)?, false)),
        Quantity::Gain(_) => Err(
            "gains are what whatif compare and whatif ab know, of two recordings or programs; write 'slope(CODE, POINT) > 0.5'"
                .to_owned(),
        ),
    }
}

/// What a piece of code is worth, in the mean of hosts.
fn slope(worths: &Worths, names: &str) -> Result<Estimate, String> {
    let row = find(worths, names)?;
    if let Some(doubt) = &row.doubt {
        let advice = row.advice.as_deref().unwrap_or_default();
        return Err(format!("what was measured is not trusted: {doubt}; {advice}"));
    }
    let Some(Numbers { slope, slope_se, slope_lo, slope_hi, .. }) = row.numbers else {
        return Err(
            "no host has made five experiments on it; wait until agents have, or begin earlier (--since)"
                .to_owned(),
        );
    };
    Ok(Estimate { value: slope, se: slope_se, lo: slope_lo, hi: slope_hi })
}

/// Names may have commas: the point is what follows any of them.
fn find<'a>(worths: &'a Worths, names: &str) -> Result<&'a CodeRow, String> {
    let is_meant = |row: &&CodeRow| {
        let mut splits = names.match_indices(',').map(|(at, _)| (names[..at].trim(), names[at + 1..].trim()));
        splits.any(|(code, point)| is_code(row, code) && is_point(row, point))
    };
    let found: Vec<&CodeRow> = worths.rows.iter().filter(is_meant).collect();
    match found.as_slice() {
        [row] => Ok(row),
        [] => Err(format!("nothing of that name was tried; there are {}", listed(worths.rows.iter(), name))),
        several => Err(format!(
            "that is several: {}; tell them apart with --service, or with one of these names",
            listed(several.iter().copied(), |row| format!("{} of {}", name(row), row.service))
        )),
    }
}

fn is_code(row: &CodeRow, name: &str) -> bool {
    row.code.name == name || row.code.label == name || row.code.function.as_deref() == Some(name)
}

/// By name or, where a name is both, `throughput:NAME` and `latency:NAME`.
fn is_point(row: &CodeRow, name: &str) -> bool {
    row.point == name || name.split_once(':').is_some_and(|of| of == (row.kind, &*row.point))
}

fn name(row: &CodeRow) -> String {
    format!("{}, {}", row.code.label, row.point)
}

fn listed<'a>(rows: impl Iterator<Item = &'a CodeRow>, name: impl Fn(&CodeRow) -> String) -> String {
    let names: BTreeSet<String> = rows.map(name).collect();
    let more = names.len().saturating_sub(NAMED);
    let named = names.iter().take(NAMED).map(|name| format!("`{}`", printable(name)));
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::CodeAt;
    use profile::Verdict;

    fn row(service: &str, code: &str, point: &str, slope: Option<(f64, f64, f64)>) -> CodeRow {
        let numbers = slope.map(|(slope, slope_lo, slope_hi)| Numbers {
            slope,
            slope_lo,
            slope_hi,
            slope_se: (slope_hi - slope_lo) / 4.0,
            ..Numbers::default()
        });
        CodeRow {
            service: service.into(),
            point: point.into(),
            kind: "throughput",
            code: CodeAt { name: code.into(), label: format!("{code} shop.c:8"), ..CodeAt::default() },
            verdict: Verdict::Helps,
            doubt: None,
            advice: None,
            numbers,
            cores: None,
            mark: None,
            versions: Vec::new(),
            changes: Vec::new(),
        }
    }

    #[test]
    fn a_slope_is_judged_as_compare_judges_one() {
        let mut worths = Worths {
            rows: vec![
                row("shop", "parse", "requests", Some((0.5, 0.4, 0.6))),
                row("shop", "f<a, b>", "x, y", Some((0.1, -0.1, 0.3))),
                row("shop", "few", "requests", None),
                row("shop", "both", "requests", None),
                row("cart", "both", "requests", None),
            ],
            ..Worths::default()
        };
        let judged = |worths: &Worths, text: &str| judge(worths, &text.parse().unwrap());
        for (text, expected) in [
            ("slope(parse, requests) > 0.3", "holds"),
            ("slope(parse shop.c:8, throughput:requests) > 0.45", "may hold"),
            ("slope(parse, requests) < 0.45", "does not hold"),
            ("slope(f<a, b>, x, y) > 0", "may hold"),
        ] {
            let found = match judged(&worths, text).unwrap() {
                Judgement::Holds(_) => "holds",
                Judgement::MayHold(_) => "may hold",
                Judgement::DoesNotHold => "does not hold",
            };
            assert_eq!(found, expected, "{text}");
        }
        worths.rows[0].doubt = Some("nothing was credited".into());
        for (text, why) in [
            ("slope(parse, requests) > 0.3", "is not trusted: nothing was credited"),
            ("slope(few, requests) > 0", "no host has made five experiments"),
            ("slope(parse, latency:requests) > 0", "there are `both shop.c:8, requests`, "),
            (
                "slope(both, requests) > 0",
                "`both shop.c:8, requests of cart`, `both shop.c:8, requests of shop`",
            ),
            ("gain(requests) > 3%", "slope(CODE, POINT)"),
        ] {
            let error = judged(&worths, text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
