//! Many regions at once: how often something that has no effect is reported to help.

use crate::synthetic::{Truth, rows_of};
use profile::*;

const NAMES: [&str; 2] = ["nothing.c:1", "something.c:1"];

/// The verdicts on `nothing` regions without an effect, and on `something` regions with a large one.
fn verdicts(seed: u64, nothing: usize, something: usize) -> [Vec<Verdict>; 2] {
    let without = (0..nothing).map(|_| Truth { name: NAMES[0], slope: 0.0, noise: 0.4, blocks: 10 });
    let with = (0..something).map(|_| Truth { name: NAMES[1], slope: 0.7, noise: 0.4, blocks: 20 });
    let rows = rows_of(seed, &without.chain(with).collect::<Vec<_>>());
    let profile = Profile::new(rows, &EstimateOptions { seed, resamples: 200, ..EstimateOptions::default() });
    NAMES.map(|name| {
        let named = profile.regions.iter().filter(|region| profile.region(region).name == name);
        named.map(|region| region.points[0].verdict).collect()
    })
}

fn calls(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|v| matches!(v, Verdict::Helps | Verdict::Hurts)).count()
}

#[test]
fn regions_without_effect_are_seldom_said_to_have_one() {
    for (regions, recordings) in [(1, 800), (20, 120), (200, 20)] {
        let wrong: Vec<usize> = (0..recordings).map(|seed| calls(&verdicts(seed, regions, 0)[0])).collect();
        let spoiled = wrong.iter().filter(|wrong| **wrong > 0).count() as f64 / recordings as f64;
        let share = wrong.iter().sum::<usize>() as f64 / (regions as u64 * recordings) as f64;
        println!(
            "{regions} regions: {:.2} % called, in {:.1} % of recordings",
            100.0 * share,
            100.0 * spoiled
        );
        // Whatever is called here is called wrongly: that must happen in one recording of twenty, and
        // chance of the simulation comes on top.
        assert!(spoiled <= 0.05 + 2.0 * (0.05 * 0.95 / recordings as f64).sqrt(), "{regions}: {spoiled}");
        assert!(share <= 0.05, "{regions}: {share}");
    }
}

#[test]
fn few_calls_are_wrong_and_large_effects_are_found() {
    let (mut wrong_share, mut found, recordings) = (0.0, 0, 25);
    for seed in 0..recordings {
        let [nothing, something] = verdicts(seed, 90, 10);
        let (wrong, right) = (calls(&nothing), calls(&something));
        wrong_share += wrong as f64 / (wrong + right).max(1) as f64 / recordings as f64;
        found += right;
    }
    let found = found as f64 / (10 * recordings) as f64;
    println!("{:.1} % of calls wrong, {:.1} % of effects found", 100.0 * wrong_share, 100.0 * found);
    assert!(wrong_share <= 0.06, "{wrong_share}");
    assert!(found >= 0.9, "{found}");
}

#[test]
fn what_is_taken_back_needs_more_blocks() {
    let without = || Truth { name: NAMES[0], slope: 0.0, noise: 0.4, blocks: 10 };
    // An interval above 0.02, by chance, among twenty.
    let lucky = (0..50).find_map(|seed| {
        let rows = rows_of(seed, &[(); 20].map(|()| without()));
        let profile = Profile::new(rows, &EstimateOptions { resamples: 200, ..EstimateOptions::default() });
        let mut points = profile.regions.iter().map(|region| region.points[0].clone());
        points.find(|point| point.slope.is_some_and(|slope| slope.lo > 0.02))
    });
    let lucky = lucky.expect("one interval in twenty misses the truth");
    assert_eq!(lucky.verdict, Verdict::NotEnoughData);
    assert!(lucky.more_blocks.is_some_and(|more| more > 1), "{lucky:?}");
}

/// How many recordings there were with each decision, and in how many of them it was right.
#[derive(Default)]
struct Decided {
    right: [usize; 4],
    all: [usize; 4],
    recordings: usize,
}

impl Decided {
    fn add(&mut self, seed: u64, truths: &[Truth]) {
        let options = EstimateOptions { seed, resamples: 200, ..EstimateOptions::default() };
        let profile = Profile::new(rows_of(seed, truths), &options);
        let answer = profile.answer();
        let point = &answer.points[0];
        let gain = |piece: &Piece| truths[piece.region.get() as usize - 1].slope * REFERENCE.fraction();
        let others = |places: &[usize]| {
            let others = point.pieces.iter().enumerate().filter(|(nth, _)| !places.contains(nth));
            others.map(|(_, piece)| gain(piece)).fold(0.0, f64::max)
        };
        let (nth, is_right) = match &point.decision {
            Decision::Sure => (0, gain(&point.pieces[0]) > 0.0),
            Decision::Probably(places) => (1, gain(&point.pieces[places[0]]) > 0.0),
            Decision::OneOf(places) => (2, others(places) <= 0.03),
            Decision::NothingAbove(most) => (3, others(&[]) <= *most),
            Decision::Open => return self.recordings += 1,
        };
        self.recordings += 1;
        self.all[nth] += 1;
        self.right[nth] += usize::from(is_right);
    }

    fn share(&self, nth: usize) -> f64 {
        self.right[nth] as f64 / self.all[nth].max(1) as f64
    }

    fn show(&self, what: &str) {
        let of = |nth: usize| format!("{:3} ({:5.1} % right)", self.all[nth], 100.0 * self.share(nth));
        println!(
            "{what:28} {} recordings: sure {}, probably {}, one of few {}, nothing above {}",
            self.recordings,
            of(0),
            of(1),
            of(2),
            of(3)
        );
    }
}

/// 300 recordings of five to thirty experiments on regions with these slopes.
fn decided(slopes: &[f64], noise: f64) -> Decided {
    let mut decided = Decided::default();
    for seed in 0..300 {
        let blocks = 5 + seed as i64 % 26;
        let truth = |slope: &f64| Truth { name: NAMES[0], slope: *slope, noise, blocks };
        decided.add(seed, &slopes.iter().map(truth).collect::<Vec<_>>());
    }
    decided
}

#[test]
fn what_is_said_short_of_certainty_is_mostly_right() {
    let mut all = Decided::default();
    for (what, slopes, noise) in [
        ("one of two matters", &[0.0, 0.3][..], 0.6),
        ("each matters a little", &[0.08, 0.12, 0.2], 0.6),
        ("one of eight matters", &[0.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 0.0], 0.6),
        ("locks", &[0.0, 0.5, -0.1, 0.02, 0.3], 0.6),
        ("less noise", &[0.02, 0.25, 0.1, 0.0], 0.2),
        ("a little, and less noise", &[0.02, 0.05, 0.04, 0.03], 0.2),
        ("next to nothing", &[0.01, 0.0, 0.02], 0.1),
    ] {
        let decided = decided(slopes, noise);
        decided.show(what);
        for nth in 0..4 {
            all.all[nth] += decided.all[nth];
            all.right[nth] += decided.right[nth];
        }
        all.recordings += decided.recordings;
    }
    all.show("all");
    assert!(all.all[1] > 100 && all.share(1) >= 0.85, "probably");
    assert!(all.share(0) >= 0.98, "sure");
    assert!(all.all[2] > 20 && all.share(2) >= 0.9, "one of few");
    assert!(all.all[3] > 20 && all.share(3) >= 0.9, "nothing above");
    // Where nothing matters, half of what may be chance is on the other side.
    let nothing = decided(&[0.0; 5], 0.6);
    nothing.show("nothing matters");
    assert!(nothing.all[1] as f64 <= 0.13 * nothing.recordings as f64);
}
