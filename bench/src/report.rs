//! The part of `whatif report --json` that is needed here (`docs/json.md`). Speedups and gains are fractions.

use serde::{Deserialize, Serialize};

use crate::profiler::{Prediction, Question};

#[derive(Debug, Deserialize)]
pub struct Report {
    /// What to take away, for people.
    #[serde(default)]
    pub sentence: String,
    /// The most useful first.
    regions: Vec<Region>,
    left_out: Option<LeftOut>,
}

#[derive(Debug, Deserialize)]
pub struct Region {
    /// The function's name, or `file:line`.
    name: String,
    /// The function, also of a line.
    function: Option<String>,
    points: Vec<PointReport>,
    /// Whether the profiler's own books allow to trust what it says of the region, where it keeps such books.
    #[serde(default)]
    audit: Option<Audit>,
}

/// The profiler's own doubt.
#[derive(Clone, Debug, Deserialize)]
pub struct Audit {
    trusted: bool,
    reason: Option<String>,
}

impl Audit {
    /// Why an answer is not to be trusted, if it is not.
    pub fn doubt(&self) -> Option<&str> {
        (!self.trusted).then(|| self.reason.as_deref().unwrap_or("it gives no reason"))
    }
}

#[derive(Debug, Deserialize)]
struct PointReport {
    point: String,
    verdict: Option<Verdict>,
    #[serde(default)]
    probable: bool,
    slope: Option<f64>,
    method_error: Option<f64>,
    speedups: Vec<Measured>,
    #[serde(default)]
    quantiles: Vec<QuantileReport>,
}

/// What becomes of a quantile of a latency.
#[derive(Debug, Deserialize)]
struct QuantileReport {
    share: f64,
    speedups: Vec<Measured>,
}

impl PointReport {
    /// Its verdict, or what it calls probable.
    fn said(&self) -> Option<Verdict> {
        match self.slope {
            Some(slope) if self.probable && slope > 0.0 => Some(Verdict::ProbablyHelps),
            Some(_) if self.probable => Some(Verdict::ProbablyHurts),
            _ => self.verdict,
        }
    }

    /// What it says of `point`: itself, or one of its percentiles, as `request/95`.
    fn about(&self, point: &str) -> Option<&[Measured]> {
        if self.point == point {
            return Some(&self.speedups);
        }
        let percentile: f64 = point.strip_prefix(&self.point)?.strip_prefix('/')?.parse().ok()?;
        let of = self.quantiles.iter().find(|one| (one.share * 100.0 - percentile).abs() < 0.5)?;
        Some(&of.speedups)
    }
}

/// What the profiler makes of its estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Helps,
    NoEffect,
    Hurts,
    NotEnoughData,
    /// No more than `NotEnoughData`, and still probable.
    ProbablyHelps,
    ProbablyHurts,
    NotTrusted,
    /// The program waits for arrivals, not they for it.
    Idle,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Measured {
    speedup: f64,
    gain: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
    #[serde(default)]
    windows: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct LeftOut {
    windows_unbalanced: u64,
    windows_cut: u64,
    windows_overdrawn: u64,
    windows_unpaired: u64,
}

impl Report {
    /// The region that is ranked first.
    pub fn first(&self) -> Option<&Region> {
        self.regions.first()
    }

    /// The region of which the sentence says that it is worth making faster.
    pub fn named(&self) -> Option<&Region> {
        let name = named(&self.sentence)?;
        self.regions.iter().find(|region| region.name == name)
    }

    pub fn answers(&self, question: &Question) -> Vec<Prediction> {
        self.answers_about(question.region, question.point(), question.speedups)
    }

    /// What it says of the audit of `region`, if anything.
    pub fn audit(&self, region: &str) -> Option<&Audit> {
        self.regions.iter().find(|one| is_called(&one.name, region))?.audit.as_ref()
    }

    /// The answers for `point` if `region` were faster by each of `asked`, in per cent.
    pub fn answers_about(&self, region: &str, point: &str, asked: &[u32]) -> Vec<Prediction> {
        let measured: Vec<(&Measured, &PointReport, Option<bool>)> = self
            .regions
            .iter()
            .filter(|one| is_called(&one.name, region))
            .flat_map(|region| {
                let trusted = region.audit.as_ref().map(|audit| audit.trusted);
                region.points.iter().map(move |point| (point, trusted))
            })
            .filter_map(|(one, trusted)| Some((one.about(point)?, one, trusted)))
            .flat_map(|(said, point, trusted)| said.iter().map(move |one| (one, point, trusted)))
            .collect();
        let baseline_windows =
            measured.iter().filter(|(one, ..)| one.speedup.abs() < 0.005).map(|(one, ..)| one.windows).sum();
        let mut answers = Vec::new();
        for (Measured { speedup, gain, lo, hi, windows }, point, trusted) in measured {
            let fraction = *speedup;
            let speedup = asked.iter().find(|asked| (f64::from(**asked) / 100.0 - fraction).abs() < 0.005);
            if let (Some(&speedup), Some(gain)) = (speedup, *gain) {
                answers.push(Prediction {
                    speedup,
                    gain,
                    low: *lo,
                    high: *hi,
                    windows: *windows,
                    baseline_windows,
                    unbalanced: self.left_out.map(|left_out| left_out.windows_unbalanced),
                    left_out: self.left_out.map(|left_out| {
                        left_out.windows_cut + left_out.windows_overdrawn + left_out.windows_unpaired
                    }),
                    method_error: point.method_error.map(|of_slope| of_slope * fraction),
                    verdict: point.said(),
                    trusted,
                });
            }
        }
        answers
    }
}

impl Region {
    /// Whether it is the function `region` of a target, or a line of it.
    pub fn belongs_to(&self, region: &str) -> bool {
        let function = self.function.as_deref().unwrap_or(&self.name);
        is_called(function, region) || is_called(&self.name, region)
    }

    /// What tables call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What `point` gains at `speedup`: as reported, or between what is reported at the speedups around it.
    pub fn gain(&self, point: &str, speedup: f64) -> Option<f64> {
        let point = self.points.iter().find(|one| one.point == point)?;
        let curve = point.speedups.iter().filter_map(|one| Some((one.speedup, one.gain?)));
        interpolated(&curve.collect::<Vec<_>>(), speedup)
    }
}

/// The value at `x` of the line through `curve`, whose points ascend; nothing beyond its ends.
pub fn interpolated(curve: &[(f64, f64)], x: f64) -> Option<f64> {
    /// Speedups are whole per mille.
    const SAME: f64 = 0.0005;
    if let Some((_, y)) = curve.iter().find(|(at, _)| (at - x).abs() < SAME) {
        return Some(*y);
    }
    let pair = curve.windows(2).find(|pair| pair[0].0 < x && x < pair[1].0)?;
    let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
    Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
}

/// What a sentence such as "20 % less time in `A` (a.c:7) makes `round` 10 % ± 1 % shorter; …" is about;
/// nothing if it is about what hurts, or if it knows too little to say.
fn named(sentence: &str) -> Option<&str> {
    let begin =
        sentence.strip_prefix("20 % less time in `").or_else(|| sentence.strip_prefix("Less time in `"));
    let (name, rest) = begin?.split_once('`')?;
    let claim = rest.split_once(';').map_or(rest, |(claim, _)| claim);
    claim.contains(" shorter").then_some(name)
}

/// Whether a reported name means `region`: the name may have a path before it and parameters after.
fn is_called(name: &str, region: &str) -> bool {
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    name.rsplit("::").next() == Some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"regions": [
        {"kind": "function", "name": "mutex_rs::A", "file": "a.rs", "line": 7, "samples": 9,
         "audit": {"trusted": false, "reason": "credits are missing"},
         "points": [
            {"point": "round", "kind": "throughput", "verdict": "helps", "slope": 1, "method_error": 0.02, "slope_lo": 0, "slope_hi": 2,
             "speedups": [
                {"speedup": 0, "gain": 0, "lo": -0.1, "hi": 0.1, "windows": 24},
                {"speedup": 0.25, "gain": 0.2, "lo": 0.1, "hi": null, "windows": 8},
                {"speedup": 0.5, "gain": null, "lo": null, "hi": null, "windows": 0},
                {"speedup": 0.35, "gain": 0.3, "lo": 0.1, "hi": 0.3, "windows": 8}]},
            {"point": "other", "speedups": [{"speedup": 0.25, "gain": 1, "lo": 1, "hi": 1, "windows": 1}]}]},
        {"name": "BA", "points": []}],
        "left_out": {"regions_without_baseline": 9, "windows_unbalanced": 3, "windows_cut": 1,
                     "windows_overdrawn": 0, "windows_unpaired": 2}}"#;

    #[test]
    fn answers_are_read_from_the_report() {
        let report: Report = serde_json::from_str(REPORT).unwrap();
        let target = targets::TARGETS.iter().find(|target| target.point == "round").unwrap();
        let answers = report.answers(&Question { target, region: "A", speedups: &[25, 50], seconds: 1.0 });
        let expected = Prediction {
            speedup: 25,
            gain: 0.2,
            low: Some(0.1),
            high: None,
            windows: 8,
            baseline_windows: 24,
            unbalanced: Some(3),
            left_out: Some(3),
            method_error: Some(0.005),
            verdict: Some(Verdict::Helps),
            trusted: Some(false),
        };
        assert_eq!(answers, [expected]);
    }

    #[test]
    fn the_gain_between_two_speedups_lies_between_theirs() {
        let report: Report = serde_json::from_str(REPORT).unwrap();
        let first = report.first().unwrap();
        assert!(first.belongs_to("A") && !first.belongs_to("BA"));
        for (speedup, expected) in [(0.25, Some(0.2)), (0.3, Some(0.25)), (0.125, Some(0.1)), (0.5, None)] {
            let gain = first.gain("round", speedup);
            match (gain, expected) {
                (Some(gain), Some(expected)) => assert!((gain - expected).abs() < 1e-9, "{speedup}: {gain}"),
                _ => assert_eq!(gain, expected, "{speedup}"),
            }
        }
        assert_eq!(first.gain("nothing", 0.25), None);
    }

    #[test]
    fn sentences_name_what_helps() {
        for (sentence, expected) in [
            (
                "20 % less time in `A` (a.c:7) makes `round` 10 % ± 3 % shorter; nothing else matters.",
                Some("A"),
            ),
            ("20 % less time in `a.c:7` makes the latency of `x` 1 % ± 1 % shorter; more.", Some("a.c:7")),
            ("20 % less time in `A` makes `round` 10 % ± 3 % longer: contention; nothing helps.", None),
            (
                "Less time in `A` makes `x` shorter over all speedups (slope 0.10 ± 0.06), but how much at 20 % is not certain (3 % ± 4 % shorter); more.",
                Some("A"),
            ),
            ("Not enough data yet to say what makes `round` faster; the best candidate is `A`: wait.", None),
            ("", None),
        ] {
            assert_eq!(named(sentence), expected, "{sentence}");
        }
        let mut report: Report = serde_json::from_str(REPORT).unwrap();
        report.sentence =
            "20 % less time in `BA` (b.c:7) makes `round` 1 % ± 0.1 % shorter; more.".to_owned();
        assert_eq!(report.named().map(Region::name), Some("BA"));
    }

    #[test]
    fn regions_are_known_by_their_last_name() {
        for (name, expected) in [
            ("A", true),
            ("mutex_rs::A", true),
            ("A()", true),
            ("ns::A(int, std::string)", true),
            ("BA", false),
            ("A::B", false),
        ] {
            assert_eq!(is_called(name, "A"), expected, "{name}");
        }
    }
}
