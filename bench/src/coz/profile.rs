//! Coz's profile: the text of its releases, and the JSON lines of newer ones.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::interval::{Interval, count, resampled};
use crate::profiler::Prediction;
use crate::report::interpolated;

/// What of one or several profiles is needed here.
#[derive(Debug, Default)]
pub struct Profile {
    experiments: Vec<Experiment>,
    /// Samples by `FILE:LINE`.
    samples: BTreeMap<String, u64>,
}

#[derive(Debug, Default, PartialEq)]
struct Experiment {
    /// The line that was sped up, as `FILE:LINE`.
    line: String,
    /// In per cent.
    speedup: u32,
    /// In nanoseconds, without the delays that Coz added.
    duration: f64,
    /// By progress point.
    visits: BTreeMap<String, f64>,
}

/// A line of a profile: its type, and its fields by name.
type Record = (String, BTreeMap<String, String>);

/// Durations and visits of one line's experiments, by speedup in per cent.
type Dots = BTreeMap<u32, Vec<(f64, f64)>>;

impl Profile {
    /// Lines that mean nothing here are skipped. A last line that was cut off is none.
    pub fn parse(text: &str) -> Self {
        let mut profile = Self::default();
        for (kind, fields) in text.lines().filter_map(record) {
            let number = |name: &str| fields.get(name).and_then(|value| value.parse::<f64>().ok());
            let name = fields.get("name").or(fields.get("location"));
            match (kind.as_str(), name) {
                ("experiment", _) => {
                    if let (Some(speedup), Some(duration)) = (number("speedup"), number("duration")) {
                        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                        let speedup = (speedup * 100.0).round() as u32;
                        let line = fields.get("selected").cloned().unwrap_or_default();
                        profile.experiments.push(Experiment {
                            line,
                            speedup,
                            duration,
                            visits: BTreeMap::new(),
                        });
                    }
                }
                ("throughput-point", Some(name)) => {
                    if let (Some(experiment), Some(delta)) = (profile.experiments.last_mut(), number("delta"))
                    {
                        experiment.visits.insert(name.clone(), delta);
                    }
                }
                ("samples", Some(name)) => {
                    // Cumulative over the run: the last one counts.
                    if let Some(count) = fields.get("count").and_then(|count| count.parse().ok()) {
                        profile.samples.insert(name.clone(), count);
                    }
                }
                _ => {}
            }
        }
        profile
    }

    /// Adds another run's experiments.
    pub fn add(&mut self, other: Self) {
        self.experiments.extend(other.experiments);
        for (line, count) in other.samples {
            *self.samples.entry(line).or_default() += count;
        }
    }

    /// The line of `file` within `lines` that has the most samples.
    pub fn busiest_line(&self, file: &str, lines: &RangeInclusive<u32>) -> Option<u32> {
        self.samples
            .iter()
            .filter_map(|(location, count)| {
                let (path, line) = location.rsplit_once(':')?;
                let line = line.parse().ok().filter(|line| lines.contains(line))?;
                (path == file || path.ends_with(&format!("/{file}"))).then_some((*count, line))
            })
            .max()
            .map(|(_, line)| line)
    }

    /// The line that its viewer ranks first after the first `share` of the experiments, and the gain there at
    /// `speedup` (between those that were tried).
    ///
    /// The viewer shows lines with at least five speedups, counting zero, and ranks them by the area under the
    /// curve per speedup, where that is largest (`max_normalized_area` in its `profile.ts`).
    pub fn best(&self, share: f64, point: &str, speedup: f64) -> Option<(String, Option<f64>)> {
        const ENOUGH: usize = 5;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let first = (share * count(self.experiments.len()) + 1e-9).floor() as usize;
        let mut lines: BTreeMap<&str, Dots> = BTreeMap::new();
        for experiment in self.experiments.iter().take(first) {
            let Some(visits) = experiment.visits.get(point) else { continue };
            let of_line = lines.entry(&experiment.line).or_default();
            of_line.entry(experiment.speedup).or_default().push((experiment.duration, *visits));
        }
        let curves = lines.into_iter().map(|(line, of_line)| (line, curve(&of_line)));
        let (line, curve) = curves
            .filter(|(_, curve)| curve.len() >= ENOUGH)
            .max_by(|(_, a), (_, b)| impact(a).total_cmp(&impact(b)))?;
        Some((line.to_owned(), interpolated(&curve, speedup)))
    }

    /// What it predicts for `point`; nothing without experiments at this speedup and at zero.
    pub fn prediction(&self, speedup: u32, point: &str) -> Option<Prediction> {
        let of = |speedup| -> Vec<(f64, f64)> {
            self.experiments
                .iter()
                .filter(|experiment| experiment.speedup == speedup)
                .filter_map(|experiment| Some((experiment.duration, *experiment.visits.get(point)?)))
                .collect()
        };
        let (sped_up, baseline) = (of(speedup), of(0));
        let gain = |sped_up: &[(f64, f64)], baseline: &[(f64, f64)]| 1.0 - period(sped_up) / period(baseline);
        let estimate = gain(&sped_up, &baseline);
        if !estimate.is_finite() {
            return None;
        }
        let Interval { estimate, low, high } =
            Interval::bootstrapped(estimate, || gain(&resampled(&sped_up), &resampled(&baseline)));
        let finite = |end: f64| Some(end).filter(|end| end.is_finite());
        Some(Prediction {
            speedup,
            gain: estimate,
            low: finite(low),
            high: finite(high),
            windows: sped_up.len() as u64,
            baseline_windows: baseline.len() as u64,
            unbalanced: None,
            left_out: None,
            method_error: None,
            verdict: None,
            trusted: None,
        })
    }
}

/// Speedups and gains of one line, ascending; nothing without experiments at zero.
fn curve(of_line: &Dots) -> Vec<(f64, f64)> {
    let Some(baseline) = of_line.get(&0) else { return Vec::new() };
    let gain = |sped_up: &[(f64, f64)]| 1.0 - period(sped_up) / period(baseline);
    of_line
        .iter()
        .map(|(speedup, sped_up)| (f64::from(*speedup) / 100.0, gain(sped_up)))
        // What is not a number, or beyond these, the viewer leaves out.
        .filter(|(_, gain)| (-1.0..=2.0).contains(gain))
        .collect()
}

/// The largest area under `curve` up to some speedup, divided by that speedup.
fn impact(curve: &[(f64, f64)]) -> f64 {
    let (mut area, mut most) = (0.0, 0.0_f64);
    for pair in curve.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        area += (y0 + y1) / 2.0 * (x1 - x0);
        most = most.max(area / x1);
    }
    most
}

/// Time per visit, of experiments (duration, visits); not a number without any.
fn period(experiments: &[(f64, f64)]) -> f64 {
    let (duration, visits) =
        experiments.iter().fold((0.0, 0.0), |(duration, visits), one| (duration + one.0, visits + one.1));
    duration / visits
}

fn record(line: &str) -> Option<Record> {
    if line.starts_with('{') {
        let Value::Object(object) = serde_json::from_str(line).ok()? else { return None };
        let mut fields: BTreeMap<String, String> = object
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(text) => (name, text),
                other => (name, other.to_string()),
            })
            .collect();
        return Some((fields.remove("type")?, fields));
    }
    let mut words = line.split('\t');
    let kind = words.next()?.to_owned();
    let fields = words
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Some((kind, fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on target `single`, shortened.
    const TEXT: &str = "startup\ttime=1795277996949206016
experiment\tselected=/w/targets/c/single.c:12\tspeedup=0.50\tduration=350640835\tselected-samples=299
throughput-point\tname=round\tdelta=47
experiment\tselected=/w/targets/c/single.c:12\tspeedup=0.00\tduration=500140740\tselected-samples=299
throughput-point\tname=round\tdelta=46
throughput-point\tname=other\tdelta=7
experiment\tselected=/w/targets/c/single.c:12\tspeedup=0.00\tduration=500176459\tselected-samples=273
throughput-point\tname=round\tdelta=44
runtime\ttime=2055391230
samples\tlocation=/w/targets/c/single.c:12\tcount=1202
samples\tlocation=/w/targets/c/single.c:14\tcount=799
";

    /// Like [`TEXT`], as newer versions of Coz write it.
    const JSON: &str = r#"{"type":"startup","time":1795277992435085946}
{"type":"experiment","selected":"/w/targets/c/single.c:12","speedup":0.50,"duration":350640835,"selected_samples":299}
{"type":"throughput-point","name":"round","delta":47}
{"type":"experiment","selected":"/w/targets/c/single.c:12","speedup":0.00,"duration":500140740,"selected_samples":299}
{"type":"throughput-point","name":"round","delta":46}
{"type":"throughput-point","name":"other","delta":7}
{"type":"experiment","selected":"/w/targets/c/single.c:12","speedup":0.00,"duration":500176459,"selected_samples":273}
{"type":"throughput-point","name":"round","delta":44}
{"type":"runtime","time":2055381585}
{"type":"samples","location":"/w/targets/c/single.c:12","count":1202}
{"type":"samples","location":"/w/targets/c/single.c:14","count":799}
{"type":"sampl"#;

    #[test]
    fn both_formats_predict_the_same() {
        for text in [TEXT, JSON] {
            let profile = Profile::parse(text);
            let prediction = profile.prediction(50, "round").unwrap();
            let expected = 1.0 - (350_640_835.0 / 47.0) / ((500_140_740.0 + 500_176_459.0) / 90.0);
            assert!((prediction.gain - expected).abs() < 1e-9, "{prediction:?}");
            assert_eq!((prediction.windows, prediction.baseline_windows), (1, 2));
            assert!(prediction.low.unwrap() <= expected && expected <= prediction.high.unwrap());
            assert_eq!(profile.prediction(25, "round"), None, "no such experiment");
            assert_eq!(profile.prediction(50, "other"), None, "never visited");
        }
    }

    #[test]
    fn the_busiest_line_lies_within_the_function() {
        let profile = Profile::parse(TEXT);
        for (file, lines, expected) in [
            ("single.c", 10..=20, Some(12)),
            ("single.c", 13..=20, Some(14)),
            ("single.c", 15..=20, None),
            ("ingle.c", 10..=20, None),
        ] {
            assert_eq!(profile.busiest_line(file, &lines), expected, "{file} {lines:?}");
        }
    }

    #[test]
    fn the_best_line_is_the_one_with_the_largest_area() {
        use std::fmt::Write as _;
        let mut text = String::new();
        // B gains as much as it is sped up, A nothing, and C was tried at three speedups only.
        for speedup in [0_u32, 20, 40, 60, 80] {
            for (line, visits) in
                [("a.c:1", 100.0), ("a.c:2", 100.0 / (1.0 - f64::from(speedup) / 100.0)), ("a.c:3", 900.0)]
            {
                if line != "a.c:3" || speedup < 50 {
                    let speedup = f64::from(speedup) / 100.0;
                    let _ = write!(
                        text,
                        "experiment\tselected={line}\tspeedup={speedup}\tduration=1000\n\
                         throughput-point\tname=round\tdelta={visits}\n"
                    );
                }
            }
        }
        let profile = Profile::parse(&text);
        let (line, gain) = profile.best(1.0, "round", 0.5).unwrap();
        assert_eq!(line, "a.c:2");
        assert!((gain.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(profile.best(0.5, "round", 0.5), None, "too few speedups yet");
        assert_eq!(profile.best(1.0, "other", 0.5), None, "never visited");
    }
}
