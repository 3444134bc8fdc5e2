//! The grammar: which programs there are, and which one a seed is.
//!
//! The measured actor's loop is a list of *parts*. Each part is one or two steps of it, or its side of a *shape* that has actors of
//! its own (`shapes`): a pipeline that feeds it, workers that share a lock with it, a barrier, a team that spins, a pool, a server,
//! an event loop. Other actors do things of their own beside it. Everything is put together so that it cannot get stuck, and
//! [`Program::check`] sees to it that this is so.
//!
//! Times are drawn so that a visit takes about 0.6 to 6 ms: a budget is drawn, parts divide it, and what a rehearsal says that
//! a visit will take corrects it once.

mod draft;
mod shapes;
mod steps;

use crate::dice::Dice;
use crate::kinds;
use crate::program::{Object, Program, REST, Step};
use crate::rehearsal::{Rehearsal, is_free, rehearse};

use self::draft::Draft;

/// CPUs that programs are made for.
const CPUS: f64 = 2.0;

/// The period that is meant, in nanoseconds: 1700 to 170 visits a second. Programs for which more or less is to be expected
/// are drawn again.
const BUDGET: (u64, u64) = (600_000, 6_000_000);
const PERIOD: (f64, f64) = (500_000.0, 10_000_000.0);

/// The program that `seed` is.
///
/// # Panics
///
/// When the grammar cannot make a valid program in a thousand attempts; every second attempt makes one.
#[must_use]
pub fn draw(seed: u64) -> Program {
    (0..1000).find_map(|attempt| attempted(seed, attempt)).expect("half of all attempts are valid")
}

fn attempted(seed: u64, attempt: u64) -> Option<Program> {
    let mut dice = Dice::new(seed, attempt);
    let budget = dice.magnitude(BUDGET.0, BUDGET.1).min(BUDGET.1);
    let mut draft = Draft::new(dice);
    shapes::compose(&mut draft, budget);
    let mut program = draft.finish();
    program.seed = seed;
    if program.threads() > 2 {
        program.objects.iter_mut().for_each(|object| *object = patient(*object));
    } else if Dice::new(seed, u64::MAX - attempt).chance(60) {
        program.objects.iter_mut().for_each(|object| *object = impatient(*object));
    }
    program.check().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let expected = period(&program)? as u64;
    program.actors.iter_mut().for_each(|actor| actor.steps = scaled(&actor.steps, budget, expected));
    let period = period(&program)?;
    (period >= PERIOD.0 && period <= PERIOD.1 && program.check().is_ok()).then_some(program)
}

/// An object that wastes no time slices where more threads can run than there are CPUs: spinning without end is for programs that have
/// a CPU for each.
fn patient(object: Object) -> Object {
    match object {
        Object::Queue { kind: kinds::Queue::RingPause, capacity, primed } => {
            Object::Queue { kind: kinds::Queue::RingPauseYield, capacity, primed }
        }
        Object::Barrier(kinds::Barrier::SpinPause) => Object::Barrier(kinds::Barrier::SpinFutex),
        Object::Lock(kinds::Lock::SpinPause) => Object::Lock(kinds::Lock::SpinYield),
        object => object,
    }
}

/// A ring that is waited for with `pause` only: few programs have a CPU for each actor, and these are to show it.
fn impatient(object: Object) -> Object {
    match object {
        Object::Queue { kind: kinds::Queue::RingPauseYield | kinds::Queue::RingYield, capacity, primed } => {
            Object::Queue { kind: kinds::Queue::RingPause, capacity, primed }
        }
        object => object,
    }
}

/// The period to be expected, in nanoseconds: the busiest actor, the busiest lock or all CPUs, whichever takes
/// longest. What actors that run freely take is taken off the CPUs.
fn period(program: &Program) -> Option<f64> {
    let rehearsal = rehearse(program, 60, 7).ok()?;
    let Rehearsal { work, waits, held } = &rehearsal;
    let (mut all, mut longest, mut free) = (0.0, 0.0_f64, 0.0);
    for ((actor, work), waits) in program.actors.iter().zip(work).zip(waits) {
        let (work, copies) = (work.iter().sum::<f64>(), f64::from(actor.copies));
        if is_free(actor) {
            free += copies * work / (work + waits).max(1.0);
        } else {
            all += work;
            longest = longest.max((work + waits) / copies);
        }
    }
    // Those that run freely leave the others what is fair; none takes more CPUs than there are.
    let bound = program.actors.iter().filter(|actor| !is_free(actor)).map(|actor| actor.copies).sum::<u32>();
    let running = f64::from(bound).min(CPUS) + free;
    let share = (CPUS / running).min(1.0);
    let locks = held.iter().copied().fold(0.0, f64::max);
    Some((all / CPUS * (1.0 + free / CPUS)).max(longest / share).max(locks * (1.0 + free / 2.0)))
}

/// Times `part`/`of` as long, as far as there are such times.
fn scaled(steps: &[Step], part: u64, of: u64) -> Vec<Step> {
    /// Regions take so many nanoseconds.
    const LIMITS: (u32, u32) = (2_000, 10_000_000);
    let mut result = Vec::new();
    for step in steps {
        result.push(match step {
            Step::Work { region: REST, .. } => step.clone(),
            Step::Work { region, time } => {
                let scaled = time.scaled(part, of);
                let (low, high) = scaled.range();
                let fits = low >= LIMITS.0 && high <= LIMITS.1;
                Step::Work { region: *region, time: if fits { scaled } else { *time } }
            }
            step => step.clone().mapped(&mut |inner| scaled_inner(&inner, part, of), &|object| object),
        });
    }
    result
}

fn scaled_inner(steps: &[Step], part: u64, of: u64) -> Vec<Step> {
    scaled(steps, part, of)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kinds::{Barrier, Latch, Lock, Queue, Thread, Timer, Wait, names};

    #[test]
    fn every_program_is_valid() {
        for seed in 0..2000 {
            let program = draw(seed);
            assert_eq!(program.check(), Ok(()), "seed {seed}:\n{program}");
        }
    }

    #[test]
    fn a_seed_is_one_program() {
        for seed in 0..100 {
            assert_eq!(draw(seed), draw(seed));
        }
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_text_is_the_same_program() {
        for seed in 0..300 {
            let program = draw(seed);
            assert_eq!(Program::parse(&program.text()).unwrap(), program);
        }
        for wrong in ["", "{}", r#"{"seed": 1, "actors": [{"copies": 1, "steps": ["dance"]}]}"#] {
            assert!(Program::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_kind_occurs_soon() {
        let programs: Vec<Program> = (0..300).map(draw).collect();
        let occur: BTreeSet<&str> = programs.iter().flat_map(Program::kinds).collect();
        let kinds = [
            Lock::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
            Queue::ALL.iter().map(|kind| kind.name()).collect(),
            Barrier::ALL.iter().map(|kind| kind.name()).collect(),
            Latch::ALL.iter().map(|kind| kind.name()).collect(),
            Wait::ALL.iter().map(|kind| kind.name()).collect(),
            Timer::ALL.iter().map(|kind| kind.name()).collect(),
            Thread::ALL.iter().map(|kind| kind.name()).collect(),
            vec![
                names::FORKED,
                names::YIELD,
                names::FILE,
                names::FSYNC,
                names::DISPATCH,
                names::REARMED,
                names::SHORT_SECTIONS,
                names::CROWDED,
            ],
            shapes::NAMES.to_vec(),
        ];
        let missing: Vec<&str> = kinds.concat().into_iter().filter(|kind| !occur.contains(kind)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let threads: BTreeSet<u32> = programs.iter().map(Program::threads).collect();
        assert!(threads.contains(&1) && threads.iter().max() > Some(&10), "{threads:?}");
    }
}
