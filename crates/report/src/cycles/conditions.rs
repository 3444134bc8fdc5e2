//! What became of the conditions of `whatif diff --fail-if`.

use super::grid::{self, Cells, Set};
use super::heading::lines;
use super::quantity::{count, percent};
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{ConditionVerdict, Conditions, Judged, JudgedRow, Share, Side};
use profile::printable;

impl Answer for Conditions {
    const KIND: &'static str = "conditions";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        for (nth, judged) in self.conditions.iter().enumerate() {
            if nth > 0 {
                out.push('\n');
            }
            one(judged, &mut out, style);
        }
        out
    }
}

fn one(judged: &Judged, out: &mut String, style: Style) {
    let (colour, verdict) = match judged.verdict {
        ConditionVerdict::Holds if judged.judged > 1 => (
            Colour::Red,
            format!(
                "holds for {} of {} {}",
                count(judged.held as u64),
                count(judged.judged as u64),
                of_many(&judged.by)
            ),
        ),
        ConditionVerdict::Holds => (Colour::Red, "holds".to_owned()),
        ConditionVerdict::MayHold => (Colour::Yellow, "may hold, but that is not certain".to_owned()),
        ConditionVerdict::DoesNotHold => (Colour::Green, "does not hold".to_owned()),
        ConditionVerdict::CannotBeJudged => (Colour::Yellow, "cannot be judged".to_owned()),
    };
    lines(out, style, Colour::Bold, "", &printable(&judged.condition));
    lines(out, style, colour, "  ", &verdict);
    if let Some(why) = &judged.why {
        lines(out, style, Colour::Plain, "  ", &printable_lines(why));
    }
    for side in [&judged.of, &judged.with].into_iter().flatten() {
        said(side, out, style);
    }
    if !judged.rows.is_empty() {
        table(judged, out, style);
        let at_once = match judged.judged {
            0 | 1 => "Intervals hold the truth in 95 of 100 cases".to_owned(),
            many => format!(
                "All intervals of these {} {} hold the truth at once in 95 of 100 cases",
                count(many as u64),
                of_many(&judged.by)
            ),
        };
        let text = format!("{at_once}; a condition holds if all of the last one is beyond the limit.");
        lines(out, style, Colour::Dim, "  ", &text);
    }
    if let Some(closer) = judged.closer.as_ref().filter(|_| judged.verdict >= ConditionVerdict::MayHold) {
        lines(out, style, Colour::Plain, "  ", "look closer:");
        out.push_str(&format!("  {closer}\n"));
    }
}

/// Each line by itself: what is hostile stays on its own.
fn printable_lines(text: &str) -> String {
    text.split('\n').map(|line| printable(line).trim().to_owned()).collect::<Vec<_>>().join("\n")
}

fn of_many(by: &str) -> String {
    match by {
        "process" => "processes".to_owned(),
        by => format!("{by}s"),
    }
}

fn said(side: &Side, out: &mut String, style: Style) {
    let heading = &side.heading;
    let basis = match side.spans {
        0 => "sure as counts alone say, for there are too few spans of time to see how much they vary"
            .to_owned(),
        n => format!("sure as {} spans of {} s say by how much they vary", count(n as u64), side.span_s),
    };
    let text = format!(
        "{}: {}, {} samples of {} on {}; {basis}",
        side.asked,
        heading.time,
        count(heading.samples),
        heading.event,
        heading.machines.join(", "),
    );
    lines(out, style, Colour::Plain, "  ", &printable(&text));
    for note in &heading.warnings {
        lines(out, style, Colour::Yellow, "! ", &printable(&note.message));
        lines(out, style, Colour::Plain, "  ", &printable(&note.advice));
    }
}

fn table(judged: &Judged, out: &mut String, style: Style) {
    let asked = |side: &Option<Side>| {
        side.as_ref().map_or_else(String::new, |side| printable(&side.asked).into_owned())
    };
    let (of, with) = (asked(&judged.of), asked(&judged.with));
    let columns = [
        (of.as_str(), Set::Right),
        ("95 %", Set::Left),
        (with.as_str(), Set::Right),
        ("95 %", Set::Left),
        ("above the limit", Set::Right),
        ("95 %", Set::Left),
        ("", Set::Left),
        (judged.by.as_str(), Set::Gives),
        ("image", Set::Gives),
    ];
    let is_time = judged.quantity == "cpu";
    let value = |share: f64| if is_time { seconds(share) } else { percent(share) };
    let interval = |share: &Share| interval(share, is_time);
    let cells = |row: &JudgedRow| {
        let (colour, mark) = match row.verdict {
            ConditionVerdict::Holds => (Colour::Red, ""),
            ConditionVerdict::MayHold => (Colour::Plain, "?"),
            _ => (Colour::Plain, "no"),
        };
        let other = |of: &dyn Fn(&Share) -> String| row.other.as_ref().map_or_else(String::new, of);
        let cells = vec![
            value(row.value.value),
            interval(&row.value),
            other(&|share| value(share.value)),
            other(&interval),
            value(row.excess.value),
            interval(&row.excess),
            mark.to_owned(),
            printable(&row.name).into_owned(),
            printable(super::top::short(&row.image)).into_owned(),
        ];
        Cells(cells, colour)
    };
    grid::draw(out, style, &columns, &judged.rows.iter().map(cells).collect::<Vec<_>>());
}

/// `612 s/h`
fn seconds(seconds: f64) -> String {
    let text = if seconds.abs() < 10.0 { format!("{seconds:.2} s/h") } else { format!("{seconds:.0} s/h") };
    text.replace('-', "−")
}

/// `7.8 … 8.6`
fn interval(share: &Share, is_time: bool) -> String {
    let end = |end: f64| match is_time {
        _ if !end.is_finite() => "?".to_owned(),
        true => seconds(end).replace(" s/h", ""),
        false => format!("{:.2}", 100.0 * end).replace('-', "−"),
    };
    format!("{} … {}", end(share.lo), end(share.hi))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_told_with_values_and_a_command() {
        let share = |value, lo, hi| Share { value, lo, hi };
        let row = JudgedRow {
            name: "parse\u{1b}[2J".into(),
            image: "server".into(),
            verdict: ConditionVerdict::Holds,
            value: share(0.3, 0.27, 0.33),
            other: Some(share(0.1, 0.09, 0.11)),
            excess: share(0.18, 0.15, 0.21),
        };
        let judged = Judged {
            condition: "share(*) > 1.2 * share(*, 7d..1d)".into(),
            verdict: ConditionVerdict::Holds,
            quantity: "share".into(),
            by: "function".into(),
            of: Some(Side { asked: "1d..now".into(), ..Side::default() }),
            with: Some(Side { asked: "7d..1d".into(), ..Side::default() }),
            judged: 312,
            held: 1,
            rows: vec![row],
            closer: Some("whatif list parse --since 2026-11-21T10:00:00Z".into()),
            ..Judged::default()
        };
        let failed = Judged {
            condition: "cpu(f) > 3".into(),
            verdict: ConditionVerdict::CannotBeJudged,
            why: Some("no sampled function is 'f'".into()),
            ..Judged::default()
        };
        let text =
            Conditions { conditions: vec![judged, failed] }.draw(Style { width: 120, ..Style::default() });
        for part in [
            "holds for 1 of 312 functions",
            "30.0 %  27.00 … 33.00",
            "10.0 %  9.00 … 11.00",
            "18.0 %  15.00 … 21.00",
            "All intervals of these 312 functions",
            "  whatif list parse --since 2026-11-21T10:00:00Z",
            "cannot be judged\n  no sampled function is 'f'",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
