//! Exposition: metrics as Prometheus reads them, text format 0.0.4. Reads nothing itself.

use super::metrics::Counts;
use std::fmt::Write as _;

/// What the answer is written in.
pub const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is looked up when the metrics are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    pub started_unix: i64,
    pub own_cpu_ns: u64,
    pub resident: Option<u64>,
    pub database_bytes: Option<u64>,
    pub segments: Option<u64>,
}

/// What a sample of a metric is told apart by, and its value.
type Value<'a> = (Option<(&'a str, &'a str)>, f64);

/// All metrics.
pub fn text(counts: &Counts, now: &Now) -> String {
    let mut out = String::with_capacity(8 << 10);
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let of_events = |of: &dyn Fn(&collect::Tally) -> f64| -> Vec<(String, f64)> {
        counts.events.iter().map(|(event, books)| (event.clone(), of(books))).collect()
    };
    let mut by_event = |name: &str, help: &str, of: &dyn Fn(&collect::Tally) -> f64| {
        let values = of_events(of);
        let values: Vec<Value<'_>> =
            values.iter().map(|(event, value)| (Some(("event", &**event)), *value)).collect();
        family(&mut out, "counter", name, help, &values);
    };
    by_event("whatif_samples_expected_total", "Samples that the event's own counter called for.", &|books| {
        books.expected as f64
    });
    by_event(
        "whatif_samples_stored_total",
        "Samples of a known image, those of idle CPUs among them.",
        &|books| books.stored as f64,
    );
    by_event("whatif_samples_unknown_total", "Samples of no known image.", &|books| books.unknown as f64);
    by_event(
        "whatif_samples_lost_total",
        "Samples that were not taken or not kept: expected less stored and unknown.",
        &|books| books.lost() as f64,
    );
    by_event(
        "whatif_samples_no_room_total",
        "Samples among the lost that there was no room for.",
        &|books| books.no_room as f64,
    );
    by_event(
        "whatif_samples_surplus_total",
        "Samples beyond those that were called for; there should be none.",
        &|books| books.surplus as f64,
    );
    by_event(
        "whatif_samples_excess_total",
        "Samples that the kernel says it had no room for beyond those that are missing; there should be none.",
        &|books| books.excess as f64,
    );
    by_event("whatif_samples_idle_total", "Samples of idle CPUs.", &|books| books.idle as f64);
    by_event(
        "whatif_sampling_throttled_total",
        "Times that the kernel allowed no more samples until its next tick.",
        &|books| books.throttled as f64,
    );
    by_event("whatif_covered_seconds_total", "CPU time that the samples stand for.", &|books| {
        seconds(books.covered.0)
    });

    let unwound = &counts.unwound;
    let stacks = [("unwind_tables", unwound.whole), ("frame_pointers", unwound.by_frame_pointers)];
    let values: Vec<Value<'_>> =
        stacks.iter().map(|(by, count)| (Some(("by", *by)), *count as f64)).collect();
    family(
        &mut out,
        "counter",
        "whatif_stacks_whole_total",
        "Stacks that are not marked as truncated, by how callers were found.",
        &values,
    );
    let stacks =
        [("copy_too_short", unwound.short), ("no_unwind_table", unwound.unknown), ("too_deep", unwound.deep)];
    let values: Vec<Value<'_>> =
        stacks.iter().map(|(why, count)| (Some(("why", *why)), *count as f64)).collect();
    family(
        &mut out,
        "counter",
        "whatif_stacks_truncated_total",
        "Stacks whose outermost frames are missing, by why.",
        &values,
    );

    let mut one = |kind: &str, name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            family(&mut out, kind, name, help, &[(None, value)]);
        }
    };
    let flag = |on: bool| Some(f64::from(u8::from(on)));
    one("counter", "whatif_cpu_seconds_total", "CPU time of the collector.", Some(seconds(now.own_cpu_ns)));
    let kernel = Some(seconds(counts.kernel_cpu_ns));
    one(
        "counter",
        "whatif_kernel_cpu_seconds_total",
        "CPU time of the kernel for taking samples, estimated.",
        kernel,
    );
    let cost = counts.a_sample_ns.map(seconds);
    one(
        "gauge",
        "whatif_sample_cost_seconds",
        "CPU time that the kernel takes for one sample, as measured last.",
        cost,
    );
    one("gauge", "whatif_resident_bytes", "Memory of the collector.", now.resident.map(|bytes| bytes as f64));
    one(
        "gauge",
        "whatif_database_bytes",
        "Size of the database.",
        now.database_bytes.map(|bytes| bytes as f64),
    );
    one(
        "gauge",
        "whatif_database_segments",
        "Segments of the database.",
        now.segments.map(|count| count as f64),
    );
    one(
        "counter",
        "whatif_flushes_total",
        "Times that the collector has written, or tried to.",
        Some(counts.flushes as f64),
    );
    one(
        "counter",
        "whatif_flush_failures_total",
        "Times that nothing could be stored.",
        Some(counts.failures as f64),
    );
    let flushed = counts.last_flush_unix.map(|unix| unix as f64);
    one("gauge", "whatif_last_flush_timestamp_seconds", "When everything was stored last.", flushed);
    one(
        "gauge",
        "whatif_waiting_flushes",
        "Intervals that wait in memory until they can be stored.",
        Some(counts.waiting as f64),
    );
    one(
        "counter",
        "whatif_samples_given_up_total",
        "Samples that there was no room for in memory.",
        Some(counts.given_up() as f64),
    );
    one("gauge", "whatif_rate_hertz", "Samples for each second and CPU.", Some(counts.rate_hz));
    one(
        "gauge",
        "whatif_rate_asked_hertz",
        "Samples for each second and CPU that were asked for.",
        Some(counts.rate_asked_hz),
    );
    one(
        "gauge",
        "whatif_governor_holding_back",
        "1 while fewer samples are taken because more would cost too much.",
        flag(counts.is_held_back),
    );
    one(
        "counter",
        "whatif_rate_changes_total",
        "Times that the governor has changed the rate.",
        Some(counts.rate_changes as f64),
    );
    one(
        "gauge",
        "whatif_max_cpu_ratio",
        "Part of the machine that collecting may cost (--max-cpu).",
        Some(counts.max_cpu),
    );
    one("gauge", "whatif_processes", "Processes that are followed.", Some(counts.processes as f64));
    one("gauge", "whatif_images", "Images that are known.", Some(counts.images as f64));
    one("counter", "whatif_epochs_total", "Epochs that were begun.", Some(counts.epochs as f64));
    one("gauge", "whatif_start_time_seconds", "When the process began.", Some(now.started_unix as f64));
    let version = [(Some(("version", env!("CARGO_PKG_VERSION"))), 1.0)];
    family(&mut out, "gauge", "whatif_build_info", "The version of the collector.", &version);
    out
}

fn family(out: &mut String, kind: &str, name: &str, help: &str, values: &[Value<'_>]) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (label, value) in values {
        let _ = match label {
            Some((key, text)) => writeln!(out, "{name}{{{key}=\"{}\"}} {value}", escaped(text)),
            None => writeln!(out, "{name} {value}"),
        };
    }
}

/// As label values are written.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Reads the format, strictly; by name and labels.
    fn read(text: &str) -> BTreeMap<String, f64> {
        let (mut values, mut types) = (BTreeMap::new(), BTreeMap::new());
        let mut helped = BTreeSet::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                assert!(!help.is_empty() && helped.insert(name), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(
                    helped.contains(name) && types.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{line}"
                );
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
                assert!(types.contains_key(name), "{line}");
                assert!(values.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line}");
            }
        }
        assert!(text.ends_with('\n'));
        values
    }

    #[test]
    fn counts_are_told_as_the_format_wants_them() {
        let tally =
            collect::Tally { expected: 10, stored: 7, unknown: 1, no_room: 1, ..collect::Tally::default() };
        let mut counts = Counts::default();
        counts.rate_hz = 96.5;
        counts.events.insert("cpu-clock".into(), tally);
        counts.events.insert("odd\"\\\nname".into(), collect::Tally::default());
        counts.written(1_790_000_000, true, 0, 3);
        counts.begin();
        counts.written(1_790_000_060, false, 1, 2);
        let now =
            Now { started_unix: 1, own_cpu_ns: 2_500_000_000, resident: Some(20 << 20), ..Now::default() };
        let values = read(&text(&counts, &now));
        for (series, value) in [
            ("whatif_samples_expected_total{event=\"cpu-clock\"}", 10.0),
            ("whatif_samples_lost_total{event=\"cpu-clock\"}", 2.0),
            ("whatif_samples_no_room_total{event=\"cpu-clock\"}", 1.0),
            ("whatif_samples_stored_total{event=\"odd\\\"\\\\\\nname\"}", 0.0),
            ("whatif_stacks_truncated_total{why=\"too_deep\"}", 0.0),
            ("whatif_cpu_seconds_total", 2.5),
            ("whatif_rate_hertz", 96.5),
            ("whatif_last_flush_timestamp_seconds", 1_790_000_000.0),
            ("whatif_flush_failures_total", 1.0),
            ("whatif_samples_given_up_total", 5.0),
            (concat!("whatif_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
        ] {
            assert_eq!(values.get(series), Some(&value), "{series}: {values:#?}");
        }
        assert!(!values.contains_key("whatif_database_bytes"), "what could not be looked up is left out");
    }
}
