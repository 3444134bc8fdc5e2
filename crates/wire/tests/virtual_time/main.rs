//! Virtual time without a clock: a machine is simulated on which a program runs, once with the region
//! really faster and once virtually, and both must gain the same.
//!
//! ```text
//! $ cargo test --release -p whatif-wire --test virtual_time
//! $ cargo test --release -p whatif-wire --test virtual_time -- --ignored --nocapture --test-threads 1
//! ```
//!
//! The second command prints the tables that `docs/theory.md` cites.
//!
//! * [`program`]: scripts of threads, and the programs whose answers are known.
//! * [`rules`]: the rules of virtual time, each of which can be broken.
//! * [`machine`]: CPUs, a run queue, locks; and what the rules add to them.
//! * [`random`]: random programs.
//! * [`tables`]: experiments with other rules.
//!
//! Nothing here depends on the machine that runs the tests.

#![cfg(not(loom))]

mod machine;
mod program;
mod random;
mod rules;
mod tables;

use machine::{Window, execute};
use program::*;
use rules::*;
use wire::Speedup;

/// The speedups that are tried, in percent.
const SPEEDUPS: [u32; 4] = [25, 50, 75, 100];

fn window(percent: u32, lead_in: u64, length: u64) -> Window {
    Window { speedup: Speedup(percent * 10_000), lead_in, length }
}

/// By how many percent a visit takes less (effective) time with the region faster by `percent`. `None` if
/// there were hardly any visits.
fn gain(program: &Program, rules: Option<&Rules>, percent: u32) -> Option<f64> {
    let period =
        |percent| execute(program, rules, &[window(percent, 100 * MS, 4_000 * MS)]).remove(0).period();
    Some(100.0 * (1.0 - period(percent)? / period(0)?))
}

/// By how many points the answer of a virtual execution is too large.
fn error(program: &Program, rules: &Rules, percent: u32) -> f64 {
    let truth = gain(program, None, percent).expect("the program makes progress");
    gain(program, Some(rules), percent).unwrap_or(f64::NEG_INFINITY) - truth
}

/// The largest error over all speedups.
fn worst(program: &Program, rules: &Rules) -> f64 {
    SPEEDUPS.into_iter().map(|percent| error(program, rules, percent).abs()).fold(0.0, f64::max)
}

/// The programs whose answer was worked out by hand, and that answer at 100 %.
fn canonical() -> Vec<(&'static str, Program, f64)> {
    let stages = [3 * MS, 4 * MS, 3 * MS];
    let saturated = |selected| Program { variation: 0.3, ..pipeline(2, stages, selected) };
    vec![
        ("single", single(), 60.0),
        ("next to an idle thread", idle(), 60.0),
        ("fork and join, the region 5 % longer", fork_join(4200 * US, 4 * MS), 5.0),
        ("barrier, 6 ms in the region against 4", fork_join(6 * MS, 4 * MS), 33.3),
        ("barrier, 4 ms in the region against 6", fork_join(4 * MS, 6 * MS), 0.0),
        ("inside a mutex", mutex(region(3 * MS), other(2 * MS)), 66.7),
        ("outside of it", mutex(other(3 * MS), region(2 * MS)), 0.0),
        ("pipeline, bottleneck", pipeline(4, stages, 1), 25.0),
        ("pipeline, another stage", pipeline(4, stages, 0), 0.0),
        ("saturated pipeline, longest stage", saturated(1), 45.5),
        ("saturated pipeline, first stage", saturated(0), 28.0),
        ("sleep and compute", sleeper(6 * MS, 4 * MS), 40.0),
        ("a timer next to the region", timer_and_worker(), 0.0),
        ("arrivals of an open loop", arrivals(10 * MS, region(6 * MS)), 0.0),
        ("arrivals that are too many until it is faster", arrivals(4 * MS, region(6 * MS)), 33.3),
        ("arrivals for two workers", dispatcher(5 * MS, region(8 * MS)), 0.0),
        ("2 threads on 2 CPUs", pool(2), 50.0),
        ("4 threads on 2 CPUs", pool(4), 50.0),
        ("8 threads on 2 CPUs", pool(8), 50.0),
    ]
}

#[test]
fn the_simulator_finds_the_answers_that_were_worked_out_by_hand() {
    for (name, program, expected) in canonical() {
        let found = gain(&program, None, 100).unwrap();
        assert!((found - expected).abs() < 1.0, "{name}: {found:.2} instead of {expected:.1}");
    }
}

/// A sample is worth 20 µs of computations that take milliseconds, and 4 s hold about 500 visits: both are
/// good for a few tenths of a point. More is an error of the theory.
#[test]
fn virtually_faster_is_really_faster() {
    for (name, program, _) in canonical() {
        let worst = worst(&program, &Rules::THEORY);
        assert!(worst < 0.7, "{name}: {worst:.2} points off");
    }
}

/// With samples every millisecond, and a scheduler that does not know of virtual time.
#[test]
fn the_runtime_comes_close() {
    for (name, program, _) in canonical() {
        let worst = worst(&program, &Rules::RUNTIME);
        let bound = if name.starts_with("saturated") { 8.0 } else { 2.0 };
        assert!(worst < bound, "{name}: {worst:.2} points off");
    }
}

#[test]
fn a_region_that_never_runs_predicts_nothing() {
    let program = mutex(other(3 * MS), other(2 * MS));
    assert_eq!(gain(&program, Some(&Rules::RUNTIME), 100), Some(0.0));
}

#[test]
fn a_region_that_is_everything_predicts_its_speedup() {
    let program = mutex(region(3 * MS), region(2 * MS));
    for percent in [25, 50, 75] {
        let found = gain(&program, Some(&Rules::THEORY), percent).unwrap();
        assert!((found - f64::from(percent)).abs() < 0.5, "{found:.1} at {percent} %");
    }
}

/// What `required` sums up instead of maximising is paid by every thread, so the answer stays right — but
/// two threads that run the region side by side pause each other for nothing.
#[test]
fn rule_1_keeps_pauses_short() {
    let program = Program::new(2, vec![vec![region(3 * MS), other(MS), Visit]; 2]);
    let sum = Rules { maximum: false, ..Rules::THEORY };
    assert!(error(&program, &sum, 50).abs() < 1.0);
    let paused = |rules| execute(&program, Some(&rules), &[window(50, 0, 1_000 * MS)])[0].paused;
    assert!(paused(sum) > 3 * paused(Rules::THEORY));
}

#[test]
fn without_rule_2_waits_count_as_gains() {
    let rules = Rules { pause: Pause::Never, ..Rules::THEORY };
    assert!(error(&fork_join(6 * MS, 4 * MS), &rules, 100) > 50.0);
}

/// Ten samples at a time, as in Coz.
#[test]
fn without_rule_3_debts_are_forgiven() {
    let prompt = Rules { period: MS, ..Rules::THEORY };
    let batches = Rules { batch: 10, woken: Woken::Growth, ..prompt };
    for program in [fork_join(6 * MS, 4 * MS), mutex(region(3 * MS), other(2 * MS))] {
        assert!(worst(&program, &prompt) < 2.0);
        assert!(worst(&program, &batches) > 7.0);
    }
}

/// The waker pays only at its next sample, and the thread it wakes has been credited with that already.
#[test]
fn without_rule_4_debts_are_forgiven_too_early() {
    let rules = Rules { pay_first: false, ..Rules::RUNTIME };
    let program = mutex(region(3 * MS), other(2 * MS));
    assert!(worst(&program, &Rules::RUNTIME) < 2.0);
    assert!(worst(&program, &rules) > 4.0);
}

/// Two threads that take turns, next to a third one that runs the region: what the one paid the other pays
/// again.
#[test]
fn without_rule_5_waiting_is_paid_twice() {
    let turns = |first, second| vec![Wait(first), other(2 * MS), Post(second), Visit];
    let threads = vec![turns(0, 1), turns(1, 0), vec![region(2 * MS), other(2 * MS)]];
    let program = Program { semaphores: vec![1, 0], ..Program::new(3, threads) };
    let rules = Rules { woken: Woken::Nothing, ..Rules::THEORY };
    assert!(worst(&program, &Rules::THEORY) < 0.5);
    assert!(worst(&program, &rules) > 20.0);
    assert!(worst(&mutex(region(3 * MS), other(2 * MS)), &rules) > 50.0);
}

/// A thread that sleeps nearly always is not sampled once in a short window: it never learns what it owes.
#[test]
fn without_rule_6_a_thread_that_sleeps_runs_ahead() {
    let program = Program::new(
        2,
        vec![vec![Sleep(10 * MS), other(20 * US), Visit], vec![region(5 * MS), other(5 * MS)]],
    );
    let windows = [0, 100].map(|percent| window(percent, 0, 500 * MS));
    let gain = |world| {
        let rules = Rules { world, ..Rules::RUNTIME };
        let periods: Vec<f64> =
            execute(&program, Some(&rules), &windows).iter().map(|m| m.period().unwrap()).collect();
        100.0 * (1.0 - periods[1] / periods[0])
    };
    assert!(gain(World::AtOnceAsleep).abs() < 1.0);
    assert!(gain(World::Later) > 40.0);
}

/// Code that is faster leaves more idle time, and nothing else; a wait of the same length would let it do more.
#[test]
fn without_deadlines_in_rule_6_idle_time_is_a_gain() {
    let rules = Rules { deadlines: false, ..Rules::THEORY };
    for program in [arrivals(10 * MS, region(6 * MS)), dispatcher(5 * MS, region(8 * MS))] {
        assert!(worst(&program, &Rules::THEORY) < 0.7);
        assert!(worst(&program, &rules) > 20.0);
    }
}

#[test]
fn without_rule_7_threads_pay_for_waiting_for_a_cpu() {
    let rules = Rules { queue: Queue::Nothing, ..Rules::THEORY };
    assert!(worst(&pool(2), &rules) < 1.0);
    assert!(worst(&pool(4), &rules) > 20.0);
    assert!(worst(&pool(8), &rules) > 40.0);
}

#[test]
fn without_rule_8_a_pause_delays_nobody() {
    let rules = Rules { pause: Pause::Asleep, queue: Queue::Growth, ..Rules::THEORY };
    assert!(worst(&pool(2), &rules) < 1.0);
    assert!(worst(&pool(4), &rules) > 5.0);
    assert!(worst(&pool(8), &rules) > 5.0);
}

/// A thread comes back from a long sleep in the window after the one in which its debt accrued.
#[test]
fn without_rule_9_a_baseline_pays_for_the_window_before() {
    let program =
        Program::new(2, vec![vec![Sleep(90 * MS), other(MS), Visit], vec![region(9 * MS), other(MS)]]);
    let block = [window(100, 0, 100 * MS), window(0, 0, 10 * MS), window(0, 0, 100 * MS)];
    let paused = |epochs| -> u64 {
        let rules = Rules { epochs, ..Rules::RUNTIME };
        let measured = execute(&program, Some(&rules), &block.repeat(100));
        measured.iter().skip(2).step_by(3).map(|baseline| baseline.paused).sum()
    };
    assert_eq!(paused(true), 0);
    assert!(paused(false) > 100 * 10 * MS, "{}", paused(false));
}
