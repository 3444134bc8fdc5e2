//! Drift in words: where the program's speed changed while it was measured.

use profile::{Drift, Profile, Segment, Target, printable};

use super::three_digits;

/// One paragraph for each change.
pub(super) fn changes(profile: &Profile) -> Vec<String> {
    profile.drift.iter().flat_map(|drift| of_session(profile, drift)).collect()
}

fn of_session(profile: &Profile, drift: &Drift) -> Vec<String> {
    let point = profile.points.iter().find(|point| point.target == drift.target);
    let name = printable(point.map_or("", |point| &point.name)).into_owned();
    let what = match drift.target {
        Target::Throughput(_) => format!("throughput of `{name}`"),
        Target::Latency { .. } => format!("the rate at which `{name}` ends"),
    };
    let run = match profile.rows.sessions.len() {
        0 | 1 => String::new(),
        _ => format!(" in run {}", drift.session.get()),
    };
    let said = |pair: &[Segment]| {
        let (before, after) = (&pair[0], &pair[1]);
        format!(
            "{what}{run} {} after {} (from {} to {}): results before and after are kept apart",
            change(before.change_to(after)),
            before.end,
            rate(before),
            rate(after)
        )
    };
    drift.segments.windows(2).map(said).collect()
}

fn change(change: f64) -> String {
    match change * 100.0 {
        fall if fall < 0.0 => format!("fell by {:.0} %", -fall),
        rise if rise.is_finite() => format!("rose by {rise:.0} %"),
        _ => "began".to_owned(),
    }
}

fn rate(segment: &Segment) -> String {
    let half = segment.rate.half_width();
    format!("{}/s ± {}", three_digits(segment.rate.value), three_digits(half))
}
