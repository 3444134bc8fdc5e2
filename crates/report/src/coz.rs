//! Profiles that Coz's viewer reads.
//!
//! Coz has two formats for the same records: tab-separated `key=value` lines, and one JSON object per
//! line. The viewer ignores everything but experiments and points, adds up all windows of a region and a
//! speedup, and compares with the sum at speedup 0: it knows neither our pairs nor our intervals.
//!
//! | record | fields | ours |
//! |---|---|---|
//! | `startup` | `time` | when the session began, unix ns; and a `recorder`, which Coz does not have: no experiment was under way at the end, as its last one may be |
//! | `experiment` | `selected`, `speedup`, `duration`, `selected-samples` (JSON: `selected_samples`) | one per window; the duration is effective, ns |
//! | `throughput-point` | `name`, `delta` | visits in the window |
//! | `latency-point` | `name`, `arrivals`, `departures`, `difference` | the difference is what is in flight: the mean over the window, where Coz has the value at its end |
//! | `runtime` | `time` | ns |
//! | `samples` | `location`, `count` | over the whole session |
//!
//! `selected` is `file:line`; where a function's first line is also a region of its own, or has no debug
//! information, the function's name stands in front. The old format has whole numbers only: a mean of less
//! than one in flight is rounded there. In both, hostile characters of names are made visible.
//!
//! Reading these formats is `profile`'s (`profile::coz`).
//!
//! Windows that our own estimates leave out (cut, unbalanced, without effective time) are left out here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use profile::{
    LeftOutReason, Point, PointId, PointKind, Profile, Region, RegionId, RegionKind, Rows, Window, printable,
};

/// The tab-separated format of Coz 0.2.
pub fn render_legacy(profile: &Profile) -> String {
    render(profile, |out, record| record.write_tabs(out))
}

/// The format of Coz 0.2.5 and later: a JSON object per line.
pub fn render_jsonl(profile: &Profile) -> String {
    render(profile, |out, record| record.write_json(out))
}

/// One line of a profile.
struct Record<'a> {
    kind: &'static str,
    fields: &'a [(&'static str, Field<'a>)],
}

enum Field<'a> {
    Text(&'a str),
    Whole(u64),
    /// Written whole where the format has no fractions.
    Mean(f64),
    Speedup(f64),
}

impl Record<'_> {
    fn write_tabs(&self, out: &mut String) -> fmt::Result {
        write!(out, "{}", self.kind)?;
        for (key, field) in self.fields {
            write!(out, "\t{key}=")?;
            match field {
                Field::Text(text) => write!(out, "{}", printable(text))?,
                Field::Whole(number) => write!(out, "{number}")?,
                Field::Mean(mean) => write!(out, "{mean:.0}")?,
                Field::Speedup(speedup) => write!(out, "{speedup}")?,
            }
        }
        writeln!(out)
    }

    fn write_json(&self, out: &mut String) -> fmt::Result {
        write!(out, "{{\"type\":\"{}\"", self.kind)?;
        for (key, field) in self.fields {
            write!(out, ",\"{}\":", key.replace('-', "_"))?;
            match field {
                Field::Text(text) => write!(out, "{}", serde_json::Value::from(&*printable(text)))?,
                Field::Whole(number) => write!(out, "{number}")?,
                Field::Mean(mean) => write!(out, "{}", (mean * 1000.0).round() / 1000.0)?,
                Field::Speedup(speedup) => write!(out, "{speedup}")?,
            }
        }
        writeln!(out, "}}")
    }
}

fn render(profile: &Profile, line: fn(&mut String, &Record<'_>) -> fmt::Result) -> String {
    let rows = &profile.rows;
    let labels = labels(rows);
    let mut out = String::new();
    let mut put = |kind, fields: &[(&'static str, Field<'_>)]| {
        line(&mut out, &Record { kind, fields }).expect("a string takes any text");
    };
    for session in &rows.sessions {
        let recorder = ("recorder", Field::Text("whatif"));
        put("startup", &[("time", Field::Whole(session.start.started.get())), recorder]);
        for window in rows.windows.iter().filter(|w| w.session == session.id && counts(w)) {
            put(
                "experiment",
                &[
                    ("selected", Field::Text(&labels[&window.region])),
                    ("speedup", Field::Speedup(window.speedup.fraction())),
                    ("duration", Field::Whole(window.effective_ns() as u64)),
                    ("selected-samples", Field::Whole(window.region_samples)),
                ],
            );
            for (&id, point) in rows.points.iter().filter(|(_, p)| p.kind == PointKind::Throughput) {
                let fields = [("name", Field::Text(&point.name)), ("delta", Field::Whole(window.visits(id)))];
                put("throughput-point", &fields);
            }
            for (name, begin, end) in pairs(rows) {
                let fields = [
                    ("name", Field::Text(name)),
                    ("arrivals", Field::Whole(window.visits(begin))),
                    ("departures", Field::Whole(window.visits(end))),
                    ("difference", Field::Mean(in_flight(window, begin))),
                ];
                put("latency-point", &fields);
            }
        }
        let time = session.end.map_or(session.samples.until, |end| end.duration);
        put("runtime", &[("time", Field::Whole(time.get()))]);
        for samples in rows.samples.iter().filter(|s| s.session == session.id && s.count > 0) {
            let location = Field::Text(&labels[&samples.region]);
            put("samples", &[("location", location), ("count", Field::Whole(samples.count))]);
        }
    }
    out
}

/// Less than a nanosecond of effective time would be written as none.
fn counts(window: &Window) -> bool {
    LeftOutReason::with_least(window, 1.0).is_none()
}

/// Latency pairs.
fn pairs(rows: &Rows) -> impl Iterator<Item = (&str, PointId, PointId)> {
    let begins = rows.points.iter().filter(|(_, point)| point.kind == PointKind::Begin);
    begins.filter_map(|(&begin, Point { name, .. })| {
        let is_end = |(_, other): &(_, &Point)| other.kind == PointKind::End && other.name == *name;
        let (&end, _) = rows.points.iter().find(is_end)?;
        Some((name.as_str(), begin, end))
    })
}

/// The mean number in flight.
fn in_flight(window: &Window, begin: PointId) -> f64 {
    let of_pair = window.in_flight.iter().filter(|pair| pair.begin == begin);
    // Not `sum`: that of nothing is −0.
    let integral = of_pair.fold(0.0, |sum, pair| sum + pair.integral.get() as f64);
    (integral / window.elapsed.get() as f64).max(0.0)
}

/// What the viewer shall call each region: all different.
fn labels(rows: &Rows) -> BTreeMap<RegionId, String> {
    let mut taken = BTreeSet::new();
    let mut labels = BTreeMap::new();
    // Lines first: the plain `file:line` is theirs.
    let mut regions: Vec<_> = rows.regions.iter().collect();
    regions.sort_by_key(|(id, region)| (region.kind == RegionKind::Function, region.inclusive, **id));
    for (&id, region) in regions {
        let candidates = [place(region), format!("{} {}", region.name, place(region))];
        let unique = format!("{} #{}", candidates[1], id.get());
        let label = candidates.into_iter().find(|label| !taken.contains(label)).unwrap_or(unique);
        taken.insert(label.clone());
        labels.insert(id, label);
    }
    labels
}

fn place(region: &Region) -> String {
    match (&region.file, region.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => region.name.clone(),
    }
}
