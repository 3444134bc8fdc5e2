//! Reducing a program to the smallest one that still has some property.

use crate::kinds;
use crate::program::{Actor, Object, Program, Step, Time, walk};

/// The smallest program that can be reached from `program` by single reductions, each of which leaves a program that is
/// valid and has the property that `keeps` asks for. It ends: every reduction makes the program [cheaper](cost).
pub fn smallest(program: Program, mut keeps: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program;
    while let Some(smaller) = candidates(&best).into_iter().find(|candidate| keeps(candidate)) {
        best = smaller;
    }
    best
}

/// All valid programs that are one reduction smaller, the largest reductions first.
#[must_use]
pub fn candidates(program: &Program) -> Vec<Program> {
    let mut found: Vec<Program> = Vec::new();
    for candidate in reductions(program) {
        let candidate = repaired(candidate);
        if cost(&candidate) < cost(program) && !found.contains(&candidate) && candidate.check().is_ok() {
            found.push(candidate);
        }
    }
    found
}

/// What is to be made small. Every kind costs as much as there are simpler ones.
#[must_use]
pub fn cost(program: &Program) -> u64 {
    fn rank<T: PartialEq>(all: &[T], kind: &T) -> u64 {
        all.iter().position(|one| one == kind).unwrap_or(0) as u64
    }
    let actor = |actor: &Actor| 1000 + 400 * u64::from(actor.copies) + 300 * u64::from(actor.process);
    let object = |object: &Object| {
        100 + match object {
            Object::Lock(kind) => rank(kinds::Lock::ALL, kind),
            Object::Queue { kind, capacity, primed } => {
                rank(kinds::Queue::ALL, kind) + u64::from(*capacity + *primed)
            }
            Object::Barrier(kind) => rank(kinds::Barrier::ALL, kind),
            Object::Latch(kind) => rank(kinds::Latch::ALL, kind),
            Object::Poll { timer, rearmed, .. } => rank(kinds::Timer::ALL, timer) + u64::from(*rearmed),
        }
    };
    let step = |step: &Step| {
        50 + match step {
            Step::Work { time: Time::Constant(_), .. } => 0,
            Step::Work { .. } => 1,
            Step::Locked { shared, .. } => 1 + u64::from(*shared),
            Step::Wait { how, .. } => 1 + rank(kinds::Wait::ALL, how),
            Step::Spawn { how, threads, .. } => rank(kinds::Thread::ALL, how) + 10 * u64::from(*threads),
            Step::Write { bytes, sync } => u64::from(bytes.ilog2()) + u64::from(*sync),
            Step::Repeat { times, .. } => u64::from(*times),
            Step::Dispatch { arms, .. } => 20 * arms.len() as u64,
            _ => 0,
        }
    };
    program.actors.iter().map(actor).sum::<u64>()
        + program.objects.iter().map(object).sum::<u64>()
        + program.steps().map(step).sum::<u64>()
}

fn reductions(program: &Program) -> Vec<Program> {
    let mut found = Vec::new();
    let changed = |change: &dyn Fn(&mut Program)| {
        let mut changed = program.clone();
        change(&mut changed);
        changed
    };
    for actor in 0..program.actors.len() {
        found.push(changed(&|program| _ = program.actors.remove(actor)));
    }
    for object in 0..program.objects.len() {
        found.push(changed(&|program| without(program, object)));
    }
    for actor in 0..program.actors.len() {
        let copies = program.actors[actor].copies;
        for fewer in [1, copies / 2, copies - 1] {
            if fewer >= 1 {
                found.push(changed(&|program| program.actors[actor].copies = fewer));
            }
        }
        found.push(changed(&|program| program.actors[actor].process = 0));
    }
    for number in 0..program.steps().count() {
        found.push(at_step(program, number, &|_| Vec::new()));
        found.push(at_step(program, number, &|step| step.inner().into_iter().flatten().cloned().collect()));
    }
    for object in 0..program.objects.len() {
        for simpler in simpler_objects(program.objects[object]) {
            found.push(changed(&|program| program.objects[object] = simpler));
        }
    }
    for (number, step) in program.steps().enumerate() {
        for simpler in simpler_steps(step) {
            found.push(at_step(program, number, &|_| vec![simpler.clone()]));
        }
    }
    found
}

fn simpler_objects(object: Object) -> Vec<Object> {
    fn simpler<T: Copy + PartialEq>(all: &[T], kind: T) -> impl Iterator<Item = T> {
        all.iter().copied().take_while(move |one| *one != kind)
    }
    match object {
        Object::Lock(kind) => simpler(kinds::Lock::ALL, kind).map(Object::Lock).collect(),
        Object::Barrier(kind) => simpler(kinds::Barrier::ALL, kind).map(Object::Barrier).collect(),
        Object::Latch(kind) => simpler(kinds::Latch::ALL, kind).map(Object::Latch).collect(),
        Object::Queue { kind, capacity, primed } => {
            let queue = |kind, capacity, primed| Object::Queue { kind, capacity, primed };
            let kinds = simpler(kinds::Queue::ALL, kind).map(|kind| queue(kind, capacity, primed));
            let smaller = [1, capacity / 2].map(|capacity| queue(kind, capacity, primed.min(capacity)));
            let fewer = (primed > 1).then(|| queue(kind, capacity, 1));
            kinds.chain(smaller).chain(fewer).collect()
        }
        Object::Poll { timer, micros, rearmed } => simpler(kinds::Timer::ALL, timer)
            .map(|timer| Object::Poll { timer, micros, rearmed })
            .chain(rearmed.then_some(Object::Poll { timer, micros, rearmed: false }))
            .collect(),
    }
}

fn simpler_steps(step: &Step) -> Vec<Step> {
    match step {
        Step::Work { region, time } => {
            vec![Step::Work { region: *region, time: Time::Constant(time.mean()) }]
        }
        Step::Locked { lock, shared: true, steps } => {
            vec![Step::Locked { lock: *lock, shared: false, steps: steps.clone() }]
        }
        Step::Wait { how, micros } => kinds::Wait::ALL
            .iter()
            .take_while(|one| *one != how)
            .map(|how| Step::Wait { how: *how, micros: *micros })
            .collect(),
        Step::Spawn { how, threads, steps, meanwhile } => {
            let spawn = |how, threads| Step::Spawn {
                how,
                threads,
                steps: steps.clone(),
                meanwhile: meanwhile.clone(),
            };
            vec![spawn(*how, 1), spawn(kinds::Thread::ALL[0], *threads)]
        }
        Step::Repeat { times, steps } => {
            vec![Step::Repeat { times: (*times / 2).max(1), steps: steps.clone() }]
        }
        Step::Dispatch { poll, until, arms, timer } => (0..arms.len())
            .filter(|arm| arms[*arm].queue != *until)
            .map(|arm| {
                let mut arms = arms.clone();
                arms.remove(arm);
                Step::Dispatch { poll: *poll, until: *until, arms, timer: timer.clone() }
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The program with `change` in place of one step, counted as [`Program::steps`] does.
fn at_step(program: &Program, number: usize, change: &dyn Fn(&Step) -> Vec<Step>) -> Program {
    fn rewritten(
        steps: Vec<Step>,
        next: &mut usize,
        number: usize,
        change: &dyn Fn(&Step) -> Vec<Step>,
    ) -> Vec<Step> {
        let mut result = Vec::new();
        for step in steps {
            let here = *next;
            *next += 1;
            if here == number {
                *next += walk(std::slice::from_ref(&step)).count() - 1;
                result.extend(change(&step));
            } else {
                result
                    .push(step.mapped(&mut |inner| rewritten(inner, next, number, change), &|object| object));
            }
        }
        result
    }
    let mut program = program.clone();
    let mut next = 0;
    for actor in &mut program.actors {
        actor.steps = rewritten(std::mem::take(&mut actor.steps), &mut next, number, change);
    }
    program
}

/// Removes all steps on an object; what was done under a lock is done without.
fn without(program: &mut Program, object: usize) {
    fn rewritten(steps: Vec<Step>, object: usize) -> Vec<Step> {
        let mut result = Vec::new();
        for step in steps {
            let step = match step {
                Step::Locked { lock, steps, .. } if lock == object => {
                    result.extend(rewritten(steps, object));
                    continue;
                }
                Step::Dispatch { poll, until, mut arms, timer } => {
                    arms.retain(|arm| arm.queue != object);
                    if poll == object || until == object || arms.is_empty() {
                        continue;
                    }
                    Step::Dispatch { poll, until, arms, timer }
                }
                step if step.objects().contains(&object) => continue,
                step => step,
            };
            result.push(step.mapped(&mut |inner| rewritten(inner, object), &|object| object));
        }
        result
    }
    for actor in &mut program.actors {
        actor.steps = rewritten(std::mem::take(&mut actor.steps), object);
    }
}

/// The program without what a removal has made useless: empty lists of steps, actors without steps, queues without a producer or
/// a consumer, objects that no actor uses.
fn repaired(mut program: Program) -> Program {
    loop {
        let before = cost(&program);
        for actor in &mut program.actors {
            actor.steps = trimmed(std::mem::take(&mut actor.steps));
        }
        program.actors.retain(|actor| !actor.steps.is_empty());
        for number in 0..program.objects.len() {
            let is_filled = program
                .steps()
                .any(|step| matches!(step, Step::Push(queue) | Step::Arrive(queue) if *queue == number));
            let is_emptied = program.steps().any(|step| match step {
                Step::Pop(queue) => *queue == number,
                Step::Await { latch, .. } => *latch == number,
                Step::Dispatch { arms, .. } => arms.iter().any(|arm| arm.queue == number),
                _ => false,
            });
            let flows = matches!(program.objects[number], Object::Queue { .. } | Object::Latch(_));
            if flows && is_filled != is_emptied {
                without(&mut program, number);
            }
        }
        let used = |number: usize| program.steps().any(|step| step.objects().contains(&number));
        if let Some(unused) = (0..program.objects.len()).find(|number| !used(*number)) {
            program.objects.remove(unused);
            let renumbered = |object: usize| if object > unused { object - 1 } else { object };
            for actor in &mut program.actors {
                actor.steps = renamed(std::mem::take(&mut actor.steps), &renumbered);
            }
        }
        if cost(&program) == before {
            return program;
        }
    }
}

fn trimmed(steps: Vec<Step>) -> Vec<Step> {
    let is_empty = |step: &Step| matches!(step, Step::Locked { steps, .. } | Step::Repeat { steps, .. } if steps.is_empty());
    let steps = steps.into_iter().map(|step| step.mapped(&mut trimmed, &|object| object));
    steps.filter(|step| !is_empty(step)).collect()
}

fn renamed(steps: Vec<Step>, object: &dyn Fn(usize) -> usize) -> Vec<Step> {
    steps.into_iter().map(|step| step.mapped(&mut |inner| renamed(inner, object), object)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_valid_and_small() {
        for (seed, kind) in [(1, None), (2, None), (3, None), (4, Some("queue_tcp")), (5, Some("forked"))] {
            let drawn = (0..).map(|more| crate::draw(seed + 1000 * more));
            let has = |program: &Program| kind.is_none_or(|kind| program.kinds().contains(kind));
            let program = drawn.into_iter().find(has).unwrap();
            let before = cost(&program);
            let small = smallest(program, |candidate| {
                assert_eq!(candidate.check(), Ok(()));
                has(candidate)
            });
            assert!(cost(&small) <= before && has(&small), "{small}");
            // Where nothing is asked for, a visit is enough.
            assert!(kind.is_some() || small.steps().count() == 1, "{small}");
        }
    }

    #[test]
    fn every_reduction_is_smaller_and_valid() {
        for seed in 0..20 {
            let program = crate::draw(seed);
            let candidates = candidates(&program);
            assert!(!candidates.is_empty(), "{program}");
            for candidate in candidates {
                assert!(cost(&candidate) < cost(&program), "{program}\n{candidate}");
                assert_eq!(candidate.check(), Ok(()), "{candidate}");
            }
        }
    }
}
