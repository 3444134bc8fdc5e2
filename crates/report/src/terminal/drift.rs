//! Drift in words: where the program's speed changed while it was measured, and whether its code mattered as much
//! before and after.

use profile::{
    Drift, Era, Estimate, PointEstimate, PointSummary, Profile, RunDrift, RunSegment, Segment, SessionId,
    Target, drift, printable,
};

use super::three_digits;

/// One paragraph for each change, and one for each region that mattered more or less afterwards.
pub(super) fn changes(profile: &Profile) -> Vec<String> {
    let within = profile.drift.iter().flat_map(|drift| of_session(profile, drift));
    let between = profile.run_drift.iter().flat_map(|drift| of_runs(profile, drift));
    let regions = profile.points.iter().flat_map(|point| regions(profile, point));
    within.chain(between).chain(regions).collect()
}

/// What changed.
fn subject(profile: &Profile, target: Target) -> String {
    let point = profile.point(target);
    let name = printable(point.map_or("", |point| &point.name)).into_owned();
    match target {
        Target::Throughput(_) => format!("throughput of `{name}`"),
        Target::Latency { .. } => format!("the rate at which `{name}` ends"),
    }
}

fn of_session(profile: &Profile, drift: &Drift) -> Vec<String> {
    let run = match profile.rows.sessions.len() {
        0 | 1 => String::new(),
        _ => format!(" in run {}", drift.session.get()),
    };
    let what = format!("{}{run}", subject(profile, drift.target));
    let said = |pair: &[Segment]| said(&what, &pair[0].end.to_string(), &pair[0].rate, &pair[1].rate);
    drift.segments.windows(2).map(said).collect()
}

fn of_runs(profile: &Profile, drift: &RunDrift) -> Vec<String> {
    let what = subject(profile, drift.target);
    let said = |pair: &[RunSegment]| {
        let last = pair[0].sessions.last().map_or(0, |session| session.get());
        said(&what, &format!("run {last}"), &pair[0].rate, &pair[1].rate)
    };
    drift.segments.windows(2).map(said).collect()
}

/// That it changed.
fn said(what: &str, when: &str, before: &Estimate, after: &Estimate) -> String {
    format!(
        "{what} {} after {when} (from {} to {}): results before and after are kept apart",
        change(drift::change(before, after)),
        rate(before),
        rate(after)
    )
}

fn change(change: f64) -> String {
    match change * 100.0 {
        fall if fall < 0.0 => format!("fell by {:.0} %", -fall),
        rise if rise.is_finite() => format!("rose by {rise:.0} %"),
        _ => "began".to_owned(),
    }
}

fn rate(rate: &Estimate) -> String {
    format!("{}/s ± {}", three_digits(rate.value), three_digits(rate.half_width()))
}

/// The regions whose slopes certainly differ from one part to another.
fn regions(profile: &Profile, point: &PointSummary) -> Vec<String> {
    let said = |region: &profile::Region, estimate: &PointEstimate| {
        let parts: Vec<String> = estimate
            .eras
            .iter()
            .map(|era| {
                let Estimate { value, lo, hi, .. } = era.slope;
                format!("{value:.2} [{lo:.2}, {hi:.2}] {}", part(profile, point.target, era))
            })
            .collect();
        format!(
            "{}, `{}`: the slope was {}",
            printable(&profile.label(region)),
            printable(&point.name),
            parts.join(", ").replace('-', "−")
        )
    };
    let ranked = profile.ranked(point.target).into_iter();
    let differing = ranked.filter(|(_, estimate)| estimate.eras_differ);
    differing.map(|(region, estimate)| said(profile.region(region), estimate)).collect()
}

/// Which part of a recording that is: `until 40 s`, `from 40 s on`, `in runs 13 to 24`.
fn part(profile: &Profile, target: Target, era: &Era) -> String {
    let of = |drift: &&Drift| drift.target == target && drift.session == era.session;
    let run = |session: SessionId| match profile.rows.sessions.len() {
        0 | 1 => String::new(),
        _ => format!(" in run {}", session.get()),
    };
    if let Some(drift) = profile.drift.iter().find(of).filter(|drift| drift.changed()) {
        let (all, nth) = (&drift.segments, era.segment);
        let run = run(era.session);
        return match nth {
            0 => format!("until {}{run}", all[0].end),
            _ if nth + 1 == all.len() => format!("from {} on{run}", all[nth].start),
            _ => format!("from {} to {}{run}", all[nth].start, all[nth].end),
        };
    }
    let runs = profile.run_drift.iter().find(|drift| drift.target == target);
    let stretch = runs.and_then(|drift| drift.segments.iter().find(|s| s.sessions.contains(&era.session)));
    match stretch.map(|stretch| &stretch.sessions[..]) {
        Some([first, .., last]) => format!("in runs {} to {}", first.get(), last.get()),
        _ => format!("in run {}", era.session.get()),
    }
}
