//! What code is worth, from causal recordings.

use super::arguments::Causes;
use super::functions::base;
use super::pattern::last;
use crate::Worth;
use anyhow::{Context as _, Result};
use archive::{CodeImage, Database};
use profile::coz::load_either;
use profile::{Mark, PointEstimate, Profile, RegionKind, Verdict};
use std::collections::BTreeMap;

/// What recordings say about a function of an image.
#[derive(Clone, Debug)]
struct Known {
    function: String,
    image: profile::Image,
    worth: Worth,
    /// How well it fits what samples are counted for: the function itself, with all it calls, its lines.
    rank: u8,
}

/// What recordings say about functions.
#[derive(Clone, Debug, Default)]
pub struct Worths {
    known: Vec<Known>,
    /// The recordings.
    pub recordings: Vec<String>,
}

/// A line, what is known of it, and the point that becomes faster.
type Line<'a> = (String, &'a PointEstimate, String);

impl Worths {
    /// From the recordings that were named, and those of the database. Later ones are the better ones.
    pub fn load(causes: &Causes, db: &Database) -> Result<Worths> {
        let mut all = Worths::default();
        if causes.no_recordings {
            return Ok(all);
        }
        for path in db.recordings() {
            match load_either(&path) {
                Ok(profile) => all.add(&profile, &path.to_string_lossy()),
                Err(error) => kernel::say!(
                    "whatif: {}: {error:#}\n  --no-recordings leaves recordings out",
                    path.display()
                ),
            }
        }
        for path in &causes.recordings {
            let profile = load_either(path).with_context(|| format!("--recording {}", path.display()))?;
            all.add(&profile, &path.to_string_lossy());
        }
        Ok(all)
    }

    fn add(&mut self, profile: &Profile, recording: &str) {
        let recording = last(recording).to_owned();
        self.recordings.push(recording.clone());
        let mut lines: BTreeMap<(String, profile::Image), Vec<Line<'_>>> = BTreeMap::new();
        let mut found = Vec::new();
        for estimate in &profile.regions {
            let region = profile.region(estimate);
            // What one caller makes of it is not the function.
            if region.name.contains('@') {
                continue;
            }
            let of_points = estimate.points.iter().zip(&profile.points).filter(|(of, _)| of.slope.is_some());
            let Some((of_point, point)) = of_points.min_by(|(a, _), (b, _)| order(a).total_cmp(&order(b)))
            else {
                continue;
            };
            match (region.kind, &region.function) {
                (RegionKind::Function, _) => found.push(Known {
                    function: region.name.clone(),
                    image: region.image.clone(),
                    worth: worth(of_point, &point.name, &recording),
                    rank: u8::from(region.inclusive),
                }),
                (RegionKind::Line, Some(function)) if !region.inclusive => {
                    let key = (base(function, false), region.image.clone());
                    lines.entry(key).or_default().push((region.name.clone(), of_point, point.name.clone()));
                }
                _ => {}
            }
        }
        for ((function, image), mut of) in lines {
            of.sort_by(|(_, a, _), (_, b, _)| order(a).total_cmp(&order(b)));
            let Some((line, best, point)) = of.first() else { continue };
            let mut worth = worth(best, point, &recording);
            // Small gains of different lines add up, and so do the squares of their errors.
            let slopes: Vec<_> =
                of.iter().filter(|(.., other)| other == point).filter_map(|(_, of, _)| of.slope).collect();
            worth.slope = slopes.iter().map(|slope| slope.value).sum();
            let half = slopes.iter().map(|slope| slope.half_width().powi(2)).sum::<f64>().sqrt();
            let interval = half.is_finite().then_some((worth.slope - half, worth.slope + half));
            (worth.lo, worth.hi) = interval.unzip();
            worth.line = Some(line.clone());
            found.push(Known { function, image, worth, rank: 2 });
        }
        // A later recording takes the place of an earlier one.
        self.known
            .retain(|old| !found.iter().any(|new| new.function == old.function && new.image == old.image));
        self.known.extend(found);
    }

    /// What a function is worth.
    pub fn of(&self, function: &str, image: &CodeImage) -> Option<Worth> {
        let same_build = |known: &&Known| {
            !image.build_id.is_empty() && known.image.build_id.as_deref() == Some(image.build_id.as_str())
        };
        let same_path = |known: &&Known| known.image.path == image.path;
        let of_function = || self.known.iter().filter(|known| known.function == function);
        if let Some(exact) = of_function().filter(same_build).min_by_key(|known| known.rank) {
            return Some(exact.worth.clone());
        }
        let other = of_function().filter(same_path).min_by_key(|known| known.rank)?;
        let has_none = image.build_id.is_empty() || symbols::is_content_identity(&image.build_id);
        let no_builds = has_none && other.image.build_id.is_none();
        Some(Worth { other_build: !no_builds, ..other.worth.clone() })
    }

    /// Functions that matter, with their images.
    pub fn that_matter(&self) -> impl Iterator<Item = (&str, &profile::Image, &Worth)> {
        let matter = self.known.iter().filter(|known| known.worth.verdict == Verdict::Helps);
        matter.map(|known| (known.function.as_str(), &known.image, &known.worth))
    }
}

fn worth(of: &PointEstimate, point: &str, recording: &str) -> Worth {
    let slope = of.slope;
    let finite = slope.filter(|slope| slope.half_width().is_finite());
    Worth {
        slope: slope.map_or(0.0, |slope| slope.value),
        lo: finite.map(|slope| slope.lo),
        hi: finite.map(|slope| slope.hi),
        verdict: of.verdict,
        point: point.to_owned(),
        line: None,
        recording: recording.to_owned(),
        other_build: false,
    }
}

/// What helps comes first, and what is not known last; within that, the largest slope.
fn order(of: &PointEstimate) -> f64 {
    let class = match of.verdict {
        Verdict::Helps => 0.0,
        Verdict::Hurts => 1e6,
        Verdict::NoEffect => 2e6,
        Verdict::NotEnoughData => 3e6,
        Verdict::NotTrusted => 4e6,
        Verdict::Idle => 5e6,
    };
    class - of.slope.map_or(0.0, |slope| slope.value.abs().min(1e5))
}

/// What to think of what something costs (its share, with all it calls) and what it is worth.
pub fn mark(share: f64, worth: Option<&Worth>) -> Option<Mark> {
    let worth = worth?;
    // A few experiments do not show enough, and recordings do not say here how many there were.
    if matches!(worth.verdict, Verdict::NotEnoughData | Verdict::NotTrusted) {
        return None;
    }
    Mark::of_slope(share, worth.verdict, worth.lo.zip(worth.hi))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(function: &str, path: &str, build_id: Option<&str>, slope: f64, rank: u8) -> Known {
        let image = profile::Image { path: path.to_owned(), build_id: build_id.map(str::to_owned) };
        let worth = Worth { slope, verdict: Verdict::Helps, ..Worth::default() };
        Known { function: function.to_owned(), image, worth, rank }
    }

    #[test]
    fn the_same_build_comes_first_and_another_is_told() {
        let worths = Worths {
            known: vec![
                known("work", "/a", Some("11"), 0.1, 0),
                known("work", "/a", Some("22"), 0.2, 1),
                known("work", "/a", Some("22"), 0.3, 0),
                known("rest", "/b", None, 0.4, 0),
            ],
            recordings: vec![],
        };
        let of = |function: &str, path: &str, build_id: &str| {
            let image = CodeImage {
                path: path.to_owned(),
                build_id: build_id.to_owned(),
                kind: archive::ImageKind::File,
            };
            worths.of(function, &image).map(|worth| (worth.slope, worth.other_build))
        };
        assert_eq!(of("work", "/moved", "22"), Some((0.3, false)));
        assert_eq!(of("work", "/a", "33"), Some((0.1, true)));
        assert_eq!(of("rest", "/b", ""), Some((0.4, false)));
        assert_eq!(of("work", "/c", "33"), None);
    }

    #[test]
    fn cost_and_worth_are_compared() {
        let (lo, hi) = (Some(0.4), Some(0.6));
        let worth = |verdict| Worth { slope: 0.5, lo, hi, verdict, ..Worth::default() };
        for (share, verdict, expected) in [
            (0.3, Verdict::NoEffect, Some(Mark::HotButDoesNotMatter)),
            (0.001, Verdict::NoEffect, None),
            (0.3, Verdict::Helps, None),
            (0.001, Verdict::Helps, Some(Mark::MattersButIsNotHot)),
            (0.3, Verdict::NotEnoughData, None),
        ] {
            assert_eq!(mark(share, Some(&worth(verdict))), expected, "{share} {verdict:?}");
        }
        assert_eq!(mark(0.5, None), None);
    }
}
