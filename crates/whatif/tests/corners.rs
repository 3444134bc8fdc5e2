//! The table of corners (`corners/src/table.rs`): alone and profiled with delays, each ends alike and sees the same. Each one under one sampler, by turns;
//! `bench -- corners` tries all of them under all samplers, several times.

use crate::support::{Sandbox, remark, skip};
use corners::{CORNERS, Corner, Native, Outcome, Runner, Sampler};
use std::path::Path;
use std::sync::OnceLock;

/// With this one the first experiment begins with its delays, so that short programs have some.
const SEED: u64 = 2;
/// All programs are compiled once for all tests.
fn runner() -> Option<&'static Runner> {
    static RUNNER: OnceLock<Option<Runner>> = OnceLock::new();
    let runner = RUNNER.get_or_init(|| {
        std::process::Command::new("cc").arg("--version").output().ok()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corners");
        Some(Runner::new(Path::new(env!("CARGO_BIN_EXE_whatif")), &folder).unwrap())
    });
    if runner.is_none() {
        skip("cc is not installed");
    }
    runner.as_ref()
}

/// What is wrong with a corner under a sampler.
fn wrong(runner: &Runner, corner: &Corner, sampler: Sampler) -> Option<String> {
    let native = match runner.native(corner).unwrap() {
        Native::Ran(native) => native,
        Native::Skipped(why) => {
            skip(&format!("{}: {why}", corner.name));
            return None;
        }
        Native::Unexpected(native) => return Some(format!("{}, alone: {native:#?}", corner.name)),
    };
    let what = format!("{}, {}", corner.name, sampler.name());
    match (corner.known(sampler), runner.profiled(corner, sampler, SEED, &native).unwrap()) {
        (None, Outcome::Same) | (Some(_), Outcome::Differs(_)) => None,
        (None, Outcome::Differs(how)) => Some(format!("{what}: {how}")),
        // Whether a known difference shows depends on the machine (a signal's frame is larger with AVX-512) and on when samples come.
        (Some(why), Outcome::Same) => {
            remark(&format!("{what}: does not differ here, although '{why}'"));
            None
        }
    }
}

fn unharmed(group: &str) {
    let sandbox = Sandbox::new();
    let Some(runner) = runner() else { return };
    let turns = CORNERS.iter().zip(Sampler::ALL.into_iter().cycle());
    let corners = turns.filter(|(corner, _)| corner.group() == group);
    let wrong: Vec<String> = corners.filter_map(|(corner, sampler)| wrong(runner, corner, sampler)).collect();
    drop(sandbox);
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
        fn every_corner_has_a_group() {
            for corner in CORNERS {
                assert!([$(stringify!($group)),*].contains(&corner.group()), "{corner:?}");
            }
        }
    };
}

groups!(processes stacks signalling limits filters locks ends kernel tests real);
