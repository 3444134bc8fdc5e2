//! The answer of `whatif ab`, for people and as JSON.

use super::{Quantity, Side, Turns};
use profile::{Estimate, throughput_factor};
use std::fmt::Write as _;

/// How far a round is, on a terminal.
pub fn standing(rounds: usize, gain: &Estimate) -> String {
    if gain.half_width().is_finite() {
        format!("{rounds} rounds, {} ({})", change(gain.value), interval(gain))
    } else {
        format!("{rounds} rounds")
    }
}

/// For people.
pub fn render(turns: &Turns) -> String {
    let quantities = turns.quantities();
    let (before, after) = (controller::command(&turns.commands.0), controller::command(&turns.commands.1));
    let mut text = format!("{}\n\n", sentence(turns, quantities[0], &after));
    let _ = writeln!(text, "  before: {before}\n  after:  {after}\n");
    let _ = writeln!(text, "  {:<15}{:>12}{:>12}   {:<18}95 % interval", "", "before", "after", "difference");
    for quantity in quantities {
        let pairs = turns.pairs(*quantity);
        // The mean that the difference is of: of logarithms.
        let mean = |side: fn(&(f64, f64)) -> f64| {
            (pairs.iter().map(side).map(f64::ln).sum::<f64>() / pairs.len() as f64).exp()
        };
        let gain = turns.gain(*quantity);
        let _ = writeln!(
            text,
            "  {:<15}{:>12}{:>12}   {:<18}{}",
            label(*quantity),
            amount(*quantity, mean(|pair| pair.0)),
            amount(*quantity, mean(|pair| pair.1)),
            change(gain.value),
            interval(&gain)
        );
    }
    let runs = match turns.warmup {
        0 => "without warm-up".to_owned(),
        1 => "after one run of each to warm up".to_owned(),
        warmup => format!("after {warmup} runs of each to warm up"),
    };
    let _ = writeln!(text, "\n  {} rounds in random order, {runs}", turns.rounds.len());
    if !turns.enough {
        text += "  The difference is not known as exactly as --precision asks: give it more time with --duration 10m\n";
    }
    let _ = writeln!(text, "  Where the time goes now: whatif run -- {after}");
    text
}

/// What is to be taken away: `./after` takes 45 % less time per run (44 to 46; 1.8 × the throughput).
fn sentence(turns: &Turns, quantity: Quantity, after: &str) -> String {
    let gain = turns.gain(quantity);
    let per = if quantity == Quantity::Visits { "visit" } else { "run" };
    let times = format!("{} × the throughput", digits(throughput_factor(gain.value)));
    if !gain.half_width().is_finite() {
        return format!(
            "Too few rounds to say whether {after} takes less time per {per} ({}); give it more with --runs",
            change(gain.value)
        );
    }
    if gain.lo <= 0.0 && gain.hi >= 0.0 {
        return format!(
            "No difference is certain: {after} takes {} time per {per}, but it may be {}",
            change(gain.value),
            interval(&gain)
        );
    }
    format!("{after} takes {} time per {per} ({}; {times})", change(gain.value), interval(&gain))
}

fn label(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Time => "time per run",
        Quantity::Cpu => "CPU time",
        Quantity::Memory => "memory, at most",
        Quantity::Visits => "time per visit",
    }
}

fn amount(quantity: Quantity, value: f64) -> String {
    match quantity {
        _ if value.is_nan() => "?".to_owned(),
        Quantity::Memory => format!("{:.1} MB", value / 1e6),
        _ => profile::Nanos::new((value * 1e9).round() as u64).to_string(),
    }
}

/// `45 % less`, `20 % more`; by how much the time of before grew.
fn change(gain: f64) -> String {
    format!("{} % {}", per_cent(gain.abs()), if gain < 0.0 { "more" } else { "less" })
}

/// `44 to 46 % less`, `2 % more to 3 % less`.
fn interval(gain: &Estimate) -> String {
    if !gain.half_width().is_finite() {
        return "unknown".to_owned();
    }
    let (near, far) = if gain.value < 0.0 { (gain.hi, gain.lo) } else { (gain.lo, gain.hi) };
    if (near < 0.0) == (far < 0.0) {
        format!("{} to {}", per_cent(near.abs()), change(far))
    } else {
        format!("{} to {}", change(near), change(far))
    }
}

fn per_cent(share: f64) -> String {
    let value = 100.0 * share;
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn digits(factor: f64) -> String {
    if factor < 9.95 { format!("{factor:.2}") } else { format!("{factor:.0}") }
}

/// As docs/json.md has it.
pub fn json(turns: &Turns) -> serde_json::Value {
    let number = |value: f64| value.is_finite().then_some(value);
    let difference = |quantity: &Quantity| {
        let (gain, pairs) = (turns.gain(*quantity), turns.pairs(*quantity));
        let side = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).map(number).collect::<Vec<_>>();
        serde_json::json!({
            "quantity": quantity.name(),
            "unit": if *quantity == Quantity::Memory { "bytes" } else { "seconds" },
            "before": side(|pair| pair.0),
            "after": side(|pair| pair.1),
            "gain": number(gain.value),
            "lo": number(gain.lo),
            "hi": number(gain.hi),
            "times": number(throughput_factor(gain.value)),
        })
    };
    let order = turns.order.iter().map(|side| match side {
        Side::Before => "before",
        Side::After => "after",
    });
    serde_json::json!({
        "version": 1,
        "before": turns.commands.0,
        "after": turns.commands.1,
        "rounds": turns.rounds.len(),
        "warmup": turns.warmup,
        "order": order.collect::<Vec<_>>(),
        "enough": turns.enough,
        "differences": turns.quantities().iter().map(difference).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_in_plain_words() {
        let gain =
            |value: f64, half: f64| Estimate { value, se: half / 2.0, lo: value - half, hi: value + half };
        for (gain, text) in [
            (gain(0.45, 0.01), "45 % less: 44 to 46 % less"),
            (gain(-0.2, 0.05), "20 % more: 15 to 25 % more"),
            (gain(0.004, 0.02), "0.4 % less: 1.6 % more to 2.4 % less"),
            (gain(-0.004, 0.02), "0.4 % more: 1.6 % less to 2.4 % more"),
            (gain(0.1, f64::INFINITY), "10 % less: unknown"),
        ] {
            assert_eq!(format!("{}: {}", change(gain.value), interval(&gain)), text);
        }
    }
}
