//! The table of corners (`corners/src/table.rs`): alone and profiled with delays, each ends alike and sees the same. Its name chooses
//! the sampler; `bench -- corners` tries all corners under all samplers, several times.

use crate::support::{scratch, skip, whatif};
use corners::{CORNERS, Corner, Native, Outcome, Runner};
use std::sync::OnceLock;

/// With this one the first experiment begins with its delays, so that short programs have some.
const SEED: u64 = 2;

/// All programs are compiled once for all tests.
fn runner() -> Option<&'static Runner> {
    static RUNNER: OnceLock<Option<Runner>> = OnceLock::new();
    let runner = RUNNER.get_or_init(|| {
        std::process::Command::new("cc").arg("--version").output().ok()?;
        Some(Runner::new(whatif(), &scratch().join("corners")).unwrap())
    });
    if runner.is_none() {
        skip("cc is not installed");
    }
    runner.as_ref()
}

/// What is wrong with a corner under the sampler of its test.
fn wrong(runner: &Runner, corner: &Corner) -> Option<String> {
    let sampler = corner.sampler_of_test()?;
    match runner.native(corner).unwrap() {
        Native::Skipped(why) => {
            skip(&format!("{}: {why}", corner.name));
            None
        }
        Native::Unexpected(native) => Some(format!("{}, alone: {native:#?}", corner.name)),
        Native::Ran(native) => match runner.profiled(corner, sampler, SEED, &native).unwrap() {
            Outcome::Same => None,
            Outcome::Differs(how) => Some(format!("{}, {}: {how}", corner.name, sampler.name())),
        },
    }
}

fn unharmed(group: &str) {
    let Some(runner) = runner() else { return };
    let corners = CORNERS.iter().filter(|corner| corner.group() == group);
    let wrong: Vec<String> = corners.filter_map(|corner| wrong(runner, corner)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test for each group, which run beside each other.
macro_rules! groups {
    ($($group:ident)*) => {
        $(#[test]
        fn $group() {
            unharmed(stringify!($group));
        })*

        #[test]
        fn every_corner_that_has_a_test_has_a_group() {
            for corner in CORNERS.iter().filter(|corner| corner.sampler_of_test().is_some()) {
                assert!([$(stringify!($group)),*].contains(&corner.group()), "{corner:?}");
            }
        }
    };
}

groups!(processes stacks signalling limits filters locks ends kernel);
