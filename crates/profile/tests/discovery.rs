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
