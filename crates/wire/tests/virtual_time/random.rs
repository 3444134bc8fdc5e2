//! Programs generated at random.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::program::*;
use crate::rules::Rules;
use crate::{SPEEDUPS, gain};

/// A piece of a script that leaves no lock taken.
fn piece() -> impl Strategy<Value = Vec<Op>> {
    let compute =
        (2_u64..60, any::<bool>()).prop_map(|(time, region)| Compute { time: time * 100 * US, region });
    prop_oneof![
        4 => compute.clone().prop_map(|op| vec![op]),
        3 => (0..2_usize, compute).prop_map(|(lock, op)| vec![Lock(lock), op, Unlock(lock)]),
        1 => (5_u64..80).prop_map(|time| vec![Sleep(time * 100 * US)]),
        1 => Just(vec![Yield]),
    ]
}

/// Up to six threads on up to four CPUs, with two mutexes, a barrier for some of them, and queues of two
/// between neighbours. No thread can wait forever: it waits for its predecessor first, then for its
/// successor, then at the barrier, and holds no lock meanwhile.
fn programs() -> impl Strategy<Value = Program> {
    let thread = (prop::collection::vec(piece(), 1..4), any::<bool>(), any::<bool>());
    (1_usize..5, prop::collection::vec(thread, 1..7)).prop_map(|(cpus, threads)| {
        let scripts = threads.iter().enumerate().map(|(i, (pieces, takes, meets))| {
            let mut script = vec![other(500 * US)];
            if *takes && i > 0 {
                script.extend([Wait(2 * i), Post(2 * i + 1)]);
            }
            script.extend(pieces.concat());
            if threads.get(i + 1).is_some_and(|(_, takes, _)| *takes) {
                script.extend([Wait(2 * i + 3), Post(2 * i + 2)]);
            }
            script.extend(meets.then_some(Barrier(0)));
            script.extend((i == 0).then_some(Visit));
            script
        });
        let semaphores = [0, 2].repeat(threads.len());
        Program { semaphores, variation: 0.3, ..Program::new(cpus, scripts.collect()) }
    })
}

/// The first `count` random programs, always the same.
pub fn sample(count: usize) -> impl Iterator<Item = Program> {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    (0..count).map(move |_| programs().new_tree(&mut runner).expect("a strategy without filters").current())
}

/// Absolute errors of `rules` on random programs, in ascending order, and their bias. An error is the
/// difference of the periods as a part of the baseline's, in percent; of the exact one, where that is longer
/// (a faster region can let others crowd out the thread that makes the progress, many times over).
pub fn errors(count: usize, rules: &Rules) -> (Vec<f64>, f64) {
    let error = |(i, program): (usize, Program)| {
        let percent = SPEEDUPS[i % SPEEDUPS.len()];
        let truth = gain(&program, None, percent)?;
        Some(
            (gain(&program, Some(rules), percent).unwrap_or(-1_000.0) - truth)
                / (1.0 - truth / 100.0).max(1.0),
        )
    };
    let mut errors: Vec<f64> = sample(count).enumerate().filter_map(error).collect();
    let bias = errors.iter().sum::<f64>() / errors.len() as f64;
    errors.iter_mut().for_each(|error| *error = error.abs());
    errors.sort_by(f64::total_cmp);
    (errors, bias)
}

/// Some programs have two rhythms and choose between them by a coin toss (which of two threads came to a lock
/// first, by a few microseconds), so single answers may differ. The average may not be biased, and nine in
/// ten must agree.
#[test]
fn random_programs_answer_alike() {
    let (errors, bias) = errors(80, &Rules::THEORY);
    let quantile = |part: f64| errors[(errors.len() as f64 * part) as usize];
    assert!(bias.abs() < 0.3, "bias {bias:.2}");
    assert!(quantile(0.5) < 0.3, "median {:.2}", quantile(0.5));
    assert!(quantile(0.9) < 1.5, "90 % below {:.2}", quantile(0.9));
}

/// Nothing is selected: the account must not change anything, by whatever rules.
#[test]
fn a_baseline_runs_as_if_nobody_looked() {
    use crate::machine::execute;
    use crate::window;
    let windows = [window(0, 0, 500 * MS)];
    for program in sample(100) {
        let exact = execute(&program, None, &windows)[0];
        for rules in [Rules::THEORY, Rules::RUNTIME] {
            let virtually = execute(&program, Some(&rules), &windows)[0];
            assert_eq!((virtually.visits, virtually.period()), (exact.visits, exact.period()));
            assert_eq!((virtually.required, virtually.paused), (0, 0));
        }
    }
}
