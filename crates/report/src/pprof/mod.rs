//! A profile for pprof and all that reads its format: samples, CPU time and causal slopes.
//!
//! The format is a gzipped protocol buffer, `message.rs`. Every stack that was sampled is one sample, see `stacks.rs`.
//!
//! | value | unit | what |
//! |---|---|---|
//! | `samples` | count | samples of the whole recording |
//! | `cpu` | nanoseconds | the CPU time that they stand for |
//! | `causal_slope` | thousandths | what 1 % there is worth, in thousandths of a per cent: 550 is a slope of 0.55 |
//!
//! With several points that are not idle there is a slope for each: `causal_slope:POINT`. A slope that is not certain to
//! help or to hurt is 0, because the format has no intervals for values; those are in labels of the sample, with the
//! verdict. What the lines of a function are worth is taken off the function's own value, so that functions add up
//! to their slope. Regions that are no part of a stack (functions with all they call, functions by their caller) have a
//! slope and no samples. Slopes of different code do not add up to anything.

pub mod message;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use flate2::write::GzEncoder;
use profile::stacks::Tally;
use profile::{PointEstimate, Profile, RegionEstimate, RegionId, Verdict};
use prost::Message as _;

use crate::stacks::{self, Stack};
use message::{Label, Sample};
use table::Table;

/// A gzipped protocol buffer.
pub fn render(profile: &Profile) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    let plain = of(profile).encode_to_vec();
    gzip.write_all(&plain).and_then(|()| gzip.finish()).expect("memory takes any bytes")
}

fn of(profile: &Profile) -> message::Profile {
    let mut table = Table::default();
    let live: Vec<(usize, String)> = live(profile);
    let mut types = vec![table.value_type("samples", "count"), table.value_type("cpu", "nanoseconds")];
    types.extend(live.iter().map(|(_, name)| table.value_type(name, "thousandths")));

    let stacks = with_all_regions(profile);
    let estimates: BTreeMap<RegionId, &RegionEstimate> =
        profile.regions.iter().map(|estimate| (estimate.region, estimate)).collect();
    let lines: BTreeSet<(RegionId, RegionId)> =
        stacks.iter().filter_map(|stack| Some((stack.within?, stack.region?))).collect();
    let of_lines = |function: RegionId, point: usize| -> i64 {
        let within = lines.iter().filter(|(other, _)| *other == function);
        within.map(|(_, line)| certain(&estimates, *line, point)).sum()
    };
    // A region of several programs is worth what it is worth once.
    let mut said = BTreeSet::new();
    let sample = |stack: &Stack<'_>| {
        let mut value = vec![whole(stack.tally.count), whole(stack.tally.weight.get())];
        let mut label = Vec::new();
        let region = stack.region.filter(|id| said.insert(*id));
        for (nth, name) in &live {
            let own = region.map_or(0, |id| certain(&estimates, id, *nth));
            value.push(if own == 0 { 0 } else { own - region.map_or(0, |id| of_lines(id, *nth)) });
            if let Some(estimate) = region.and_then(|id| estimates.get(&id)) {
                label.extend(labels(&mut table, name, &estimate.points[*nth]));
            }
        }
        // The innermost comes first.
        let location_id = stack.frames.iter().rev().map(|frame| table.location(frame)).collect();
        Sample { location_id, value, label }
    };
    let samples = stacks.iter().map(sample).collect();

    let period_type = types[1];
    let first = profile.rows.sessions.first().map(|session| &session.start);
    let durations = profile.rows.sessions.iter().filter_map(|session| Some(session.end?.duration));
    let comment = vec![
        table.text(&profile::printable(&profile.sentence())),
        table.text("slopes of different code do not add up; one that is not certain is 0, see the labels"),
    ];
    let default_sample_type = table.text("cpu");
    message::Profile {
        sample_type: types,
        sample: samples,
        mapping: table.mappings,
        location: table.locations,
        function: table.functions,
        string_table: table.texts,
        time_nanos: first.map_or(0, |start| whole(start.started.get())),
        duration_nanos: whole(durations.sum::<profile::Nanos>().get()),
        period_type: Some(period_type),
        period: first.map_or(0, |start| whole(start.sample_period.get())),
        comment,
        default_sample_type,
    }
}

/// The points that were visited, by their place among all, with the name of their slope.
fn live(profile: &Profile) -> Vec<(usize, String)> {
    let live: Vec<_> = profile.points.iter().enumerate().filter(|(_, point)| !point.idle).collect();
    let alone = live.len() == 1;
    let name = |name: &str| match alone {
        true => "causal_slope".to_owned(),
        false => format!("causal_slope:{}", profile::printable(name)),
    };
    live.into_iter().map(|(nth, point)| (nth, name(&point.name))).collect()
}

/// The stacks that were sampled, and regions of which only a slope is known.
fn with_all_regions(profile: &Profile) -> Vec<Stack<'_>> {
    let mut stacks = stacks::of(profile);
    for estimate in &profile.regions {
        if stacks.iter().all(|stack| stack.region != Some(estimate.region)) {
            let region = (estimate.region, profile.region(estimate));
            stacks.push(Stack::of_region("", region, None, Tally::default()));
        }
    }
    stacks
}

/// The slope of a region in thousandths; 0 if it is not certain that there is one.
fn certain(estimates: &BTreeMap<RegionId, &RegionEstimate>, region: RegionId, point: usize) -> i64 {
    let estimate = estimates.get(&region).map(|estimate| &estimate.points[point]);
    let certain = estimate.filter(|of| matches!(of.verdict, Verdict::Helps | Verdict::Hurts));
    certain.and_then(|estimate| estimate.slope).map_or(0, |slope| thousandths(slope.value))
}

fn labels(table: &mut Table, name: &str, estimate: &PointEstimate) -> Vec<Label> {
    let verdict = table.text(estimate.verdict.name());
    let key = table.text(&name.replacen("causal_slope", "verdict", 1));
    let mut labels = vec![Label { key, str: verdict, ..Label::default() }];
    let slope = estimate.slope.filter(|slope| slope.half_width().is_finite());
    for (which, part) in slope.iter().flat_map(|slope| [("_lo", slope.lo), ("_hi", slope.hi)]) {
        let key = table.text(&name.replacen("causal_slope", &format!("causal_slope{which}"), 1));
        let num_unit = table.text("thousandths");
        labels.push(Label { key, num: thousandths(part), num_unit, ..Label::default() });
    }
    labels
}

fn thousandths(slope: f64) -> i64 {
    (slope * 1000.0).round() as i64
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
