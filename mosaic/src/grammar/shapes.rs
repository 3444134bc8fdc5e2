//! Shapes: groups of actors, and the measured actor's part in each.
//!
//! A shape gets a budget, the time that a visit has for it. It ends with [`Draft::measured`], the steps of the measured
//! actor. None can get stuck: items flow one way, or in circles in which there are never more of them than a queue has room for.

use super::draft::Draft;
use crate::kinds::{Barrier, Latch, Lock, Queue, Timer};
use crate::program::{Arm, MOST_ACTORS, Object, Step};

/// Sections of a lock that are longer than that are not short, in nanoseconds.
const SHORT: u64 = 20_000;
/// A thread that was woken has a CPU after this time, if there is one, in nanoseconds.
const AWAKE: u64 = 80_000;

/// The shapes.
pub const NAMES: &[&str] = &[
    "pipeline",
    "contended",
    "barriers",
    "fork_join",
    "scatter",
    "requests",
    "server",
    "event_pool",
    "pool",
    "rings",
    "spawner",
];

/// One to three shapes, sometimes none, and more steps and actors here and there.
pub fn compose(draft: &mut Draft, budget: u64) {
    let shapes = match draft.dice.between(0, 99) {
        0..=5 => 0,
        6..=54 => 1,
        55..=89 => 2,
        _ => 3,
    };
    let each = budget / shapes.max(1);
    if shapes == 0 || draft.dice.chance(25) {
        let time = draft.part(each, 20, 80);
        let steps = draft.something(time);
        draft.measured(steps);
    }
    for _ in 0..shapes {
        let name = draft.dice.pick(NAMES);
        draft.shape(name);
        match name {
            "pipeline" => pipeline(draft, each),
            "contended" => contended(draft, each),
            "barriers" => barriers(draft, each),
            "fork_join" => fork_join(draft, each),
            "scatter" => scatter(draft, each),
            "requests" => requests(draft, each),
            "server" => server(draft, each),
            "event_pool" => event_pool(draft, each),
            "pool" => pool(draft, each),
            "rings" => rings(draft, each),
            _ => {
                let step = draft.spawn(each);
                draft.measured(vec![step]);
            }
        }
    }
    if draft.dice.chance(25) {
        beside(draft, budget);
    }
    if draft.dice.chance(30) {
        decorate(draft, budget);
    }
}

/// A process for a shape's actors: mostly the first one.
fn process(draft: &mut Draft) -> u32 {
    if draft.dice.chance(25) { draft.next_process() } else { 0 }
}

fn queue(draft: &mut Draft, kind: Queue, capacity: u64, primed: u64) -> usize {
    let capacity = u32::try_from(capacity).unwrap_or(1).clamp(1, kind.most());
    let primed = u32::try_from(primed).unwrap_or(0).min(capacity);
    draft.object(Object::Queue { kind, capacity, primed })
}

/// Steps as often as it takes to be done with `budget`, if each takes `time`.
fn repeated(budget: u64, time: u64, steps: Vec<Step>) -> Vec<Step> {
    let times = u32::try_from(budget / time.max(1)).unwrap_or(1).min(400);
    if times > 1 { vec![Step::Repeat { times, steps }] } else { steps }
}

/// Stages with queues between them; the measured actor is the last.
fn pipeline(draft: &mut Draft, budget: u64) {
    let process = process(draft);
    let stages = draft.dice.between(1, 3);
    let items = if draft.dice.chance(40) { draft.dice.magnitude(2, 32) } else { 1 };
    let each = budget / items;
    let mut before: Option<usize> = None;
    for stage in 0..stages {
        let copies = if draft.dice.chance(30) { draft.dice.between(2, 3) } else { 1 };
        // The last queue leads to the measured actor's process.
        let last = stage + 1 == stages;
        let kind = draft.queue_kind(process > 0 && last);
        let capacity = draft.dice.magnitude(1, 16);
        let after = queue(draft, kind, capacity, 0);
        let mean = draft.part(each, 20, 95) * copies;
        let mut steps = before.map(Step::Pop).into_iter().collect::<Vec<_>>();
        steps.extend(draft.something(mean));
        steps.push(Step::Push(after));
        draft.actor(process, copies, steps);
        before = Some(after);
    }
    let mut steps = before.map(Step::Pop).into_iter().collect::<Vec<_>>();
    if draft.dice.chance(70) {
        let mean = draft.part(each, 10, 90);
        steps.push(draft.work(mean));
    }
    draft.measured(repeated(items, 1, steps));
}

/// Threads that all do the same: work under a lock, work without it.
fn contended(draft: &mut Draft, budget: u64) {
    let kind = draft.dice.pick(Lock::ALL);
    let spins = matches!(kind, Lock::SpinPause | Lock::SpinYield);
    let others = if spins { 1 } else { draft.dice.pick(&[1, 1, 2, 3, 5, 7]) };
    let lock = draft.object(Object::Lock(kind));
    let section = if draft.dice.chance(50) {
        draft.dice.between(2_000, 20_000)
    } else {
        draft.dice.magnitude(20_000, 800_000).min(budget)
    };
    let outside = section * draft.dice.pick(&[20, 50, 100, 200, 400]) / 100;
    let inner = draft.region();
    let outer = draft.region_beside(&[inner]);
    let readers = kind.has_readers() && draft.dice.chance(50);
    // Many readers without pauses would keep writers out for good. So would a thread with a long section that takes the lock again before another one is
    // awake: what it then is worth is an accident of the scheduler.
    let (others, pause) = match section {
        _ if readers => (others.min(2), section / 2),
        ..=SHORT => (others, section / 10),
        _ => (others, (section / 4).max(AWAKE)),
    };
    let mut both = Vec::new();
    if draft.dice.chance(20) {
        // A second lock, taken inside the first.
        let second = draft.dice.pick(&Lock::ALL[..5]);
        let second = draft.object(Object::Lock(second));
        let steps = vec![draft.work_in(inner, section / 2)];
        both.push(Step::Locked { lock: second, shared: false, steps });
    }
    both.push(draft.work_in(inner, section));
    let mut steps = vec![Step::Locked { lock, shared: readers, steps: both.clone() }];
    if readers {
        // Now and then a thread writes.
        steps.insert(0, Step::Repeat { times: 3, steps: steps.clone() });
        steps[1] = Step::Locked { lock, shared: false, steps: both };
    }
    steps.push(draft.work_in(outer, outside));
    steps.push(Draft::rest(pause));
    let turn = (section + outside + pause) * if readers { 4 } else { 1 };
    draft.actor(0, others, steps.clone());
    draft.measured(repeated(budget / 2, turn, steps));
}

/// Phases that begin and end together.
fn barriers(draft: &mut Draft, budget: u64) {
    let kind = draft.dice.pick(Barrier::ALL);
    let others = match kind {
        Barrier::SpinPause => 1,
        _ => draft.dice.pick(&[1, 1, 2, 3]),
    };
    let phases = draft.dice.between(1, 3);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let each = budget / phases;
    for _ in 0..phases {
        let barrier = draft.object(Object::Barrier(kind));
        let (one, other) = (draft.part(each, 20, 100), draft.part(each, 20, 100));
        ours.push(draft.work(one));
        theirs.push(draft.work(other));
        ours.push(Step::Barrier(barrier));
        theirs.push(Step::Barrier(barrier));
    }
    draft.actor(0, others, theirs);
    draft.measured(ours);
}

/// A team as OpenMP has it: a serial part of less than a millisecond, during which the others spin, and a parallel one.
fn fork_join(draft: &mut Draft, budget: u64) {
    let kind = draft.dice.pick(&[Barrier::SpinFutex, Barrier::SpinYield, Barrier::SpinPause]);
    let others = if kind == Barrier::SpinPause { 1 } else { draft.dice.pick(&[1, 1, 2, 3]) };
    let (begin, end) = (draft.object(Object::Barrier(kind)), draft.object(Object::Barrier(kind)));
    let serial = draft.dice.between(20, 70) * budget.min(1_300_000) / 100;
    let parallel = draft.part(budget.min(3 * serial), 30, 90);
    let (serial_in, parallel_in) = (draft.region(), draft.region());
    let parallel_in = if parallel_in == serial_in { draft.region_beside(&[serial_in]) } else { parallel_in };
    let parallel_work = draft.work_in(parallel_in, parallel);
    let ours = vec![
        Step::Barrier(begin),
        parallel_work.clone(),
        Step::Barrier(end),
        draft.work_in(serial_in, serial),
    ];
    draft.actor(0, others, vec![Step::Barrier(begin), parallel_work, Step::Barrier(end)]);
    draft.measured(repeated(budget, serial + parallel, ours));
}

/// Jobs for several workers; the measured actor waits at a latch until all are done.
fn scatter(draft: &mut Draft, budget: u64) {
    let workers = draft.dice.between(1, 5);
    let jobs = workers * draft.dice.between(1, 3);
    let kind = draft.queue_kind(false);
    let capacity = draft.dice.magnitude(1, 16);
    let queue = queue(draft, kind, capacity, 0);
    let latch = draft.dice.pick(Latch::ALL);
    let latch = draft.object(Object::Latch(latch));
    let mean = draft.part(budget, 80, 160) / jobs;
    let mut steps = vec![Step::Pop(queue)];
    steps.extend(draft.something(mean));
    steps.push(Step::Arrive(latch));
    draft.actor(0, workers, steps);
    let jobs = u32::try_from(jobs).unwrap_or(1);
    let mut ours = vec![Step::Repeat { times: jobs, steps: vec![Step::Push(queue)] }];
    if draft.dice.chance(60) {
        let mean = draft.part(budget, 10, 80);
        ours.push(draft.work(mean));
    }
    ours.push(Step::Await { latch, arrivals: jobs });
    draft.measured(ours);
}

/// One other actor at the other end of a lock-free ring.
fn rings(draft: &mut Draft, budget: u64) {
    let kind = draft.dice.pick(&[Queue::RingYield, Queue::RingPauseYield, Queue::RingPause]);
    let items = draft.dice.magnitude(1, 32);
    let each = budget / items;
    let capacity = draft.dice.magnitude(1, 16);
    let ring = queue(draft, kind, capacity, 0);
    let (theirs, ours) = (draft.part(each, 20, 95), draft.part(each, 20, 95));
    let work = draft.work(theirs);
    draft.actor(0, 1, vec![work, Step::Push(ring)]);
    let steps = vec![Step::Pop(ring), draft.work(ours)];
    draft.measured(repeated(items, 1, steps));
}

/// A server that the measured actor asks, once or several times.
fn requests(draft: &mut Draft, budget: u64) {
    let process = process(draft);
    let (there, back) = (draft.queue_kind(process > 0), draft.queue_kind(process > 0));
    let back = if draft.dice.chance(70) && (process == 0 || there.crosses()) { there } else { back };
    let requests = if draft.dice.chance(50) { draft.dice.magnitude(2, 16) } else { 1 };
    let each = budget / requests;
    let (there, back) = (queue(draft, there, 1, 0), queue(draft, back, 1, 0));
    let (ask, answer) = (draft.part(each, 10, 60), draft.part(each, 20, 80));
    let mut serve = vec![Step::Pop(there)];
    serve.extend(draft.something(answer));
    serve.push(Step::Push(back));
    draft.actor(process, 1, serve);
    let steps = vec![draft.work(ask), Step::Push(there), Step::Pop(back)];
    draft.measured(repeated(requests, 1, steps));
}

/// A server that waits for several clients with epoll; the measured actor is one of them.
fn server(draft: &mut Draft, budget: u64) {
    let process = process(draft);
    let clients = draft.dice.between(1, 4);
    let kind = if draft.dice.chance(50) { Queue::Tcp } else { draft.pollable_kind() };
    let timer = draft.dice.pick(Timer::ALL);
    let micros = u32::try_from(draft.dice.magnitude(2_000, 20_000)).unwrap_or(5_000);
    let rearmed = draft.dice.chance(30);
    let poll = draft.object(Object::Poll { timer, micros, rearmed });
    let mut arms = Vec::new();
    let region = draft.region();
    for client in 0..clients {
        let (there, back) = (queue(draft, kind, 1, 0), queue(draft, kind, 1, 0));
        let (ask, answer) = (draft.part(budget, 10, 60), draft.part(budget, 10, 60));
        let work = draft.work_in(region, answer / clients);
        arms.push(Arm { queue: there, steps: vec![work, Step::Push(back)] });
        let mut steps = vec![draft.work(ask), Step::Push(there), Step::Pop(back)];
        if client == 0 {
            draft.measured(steps);
        } else {
            if draft.dice.chance(40) {
                steps.push(draft.wait(50, 2000));
            }
            draft.actor(0, 1, steps);
        }
    }
    let until = arms[0].queue;
    let mean = draft.part(u64::from(micros) * 1000, 1, 8);
    let timer = vec![draft.work(mean)];
    draft.actor(process, 1, vec![Step::Dispatch { poll, until, arms, timer }]);
}

/// The measured actor is an event loop: wake-ups from a pool that does blocking work, sockets of clients, and a timer.
fn event_pool(draft: &mut Draft, budget: u64) {
    let workers = draft.dice.between(1, 5);
    let in_flight = workers + draft.dice.between(0, 3);
    let done = draft.dice.pick(&[Queue::Eventfd, Queue::Eventfd, Queue::Pipe, Queue::Tcp]);
    let jobs = draft.queue_kind(false);
    // As many items as there are never fill a queue.
    let in_flight = in_flight.min(u64::from(jobs.most().min(done.most())));
    let jobs = queue(draft, jobs, in_flight, in_flight);
    let done = queue(draft, done, in_flight, 0);
    let timer = draft.dice.pick(Timer::ALL);
    let micros = u32::try_from(draft.dice.magnitude(1_000, 20_000)).unwrap_or(5_000);
    let rearmed = draft.dice.chance(30);
    let poll = draft.object(Object::Poll { timer, micros, rearmed });
    let mut steps = vec![Step::Pop(jobs)];
    let mean = draft.part(budget, 20, 95) * workers.min(2);
    steps.extend(draft.something(mean));
    steps.push(Step::Push(done));
    draft.actor(0, workers, steps);
    let mean = draft.part(budget, 10, 70);
    let mut arms = vec![Arm { queue: done, steps: vec![draft.work(mean), Step::Push(jobs)] }];
    for _ in 0..draft.dice.between(0, 2) {
        let process = process(draft);
        let kind = draft.dice.pick(&[Queue::Socketpair, Queue::Tcp]);
        let (there, back) = (queue(draft, kind, 1, 0), queue(draft, kind, 1, 0));
        let (ask, answer) = (draft.part(budget, 10, 80), draft.part(budget, 5, 30));
        let mut steps = vec![draft.work(ask), Step::Push(there), Step::Pop(back)];
        if draft.dice.chance(50) {
            steps.push(draft.wait(100, 2000));
        }
        draft.actor(process, 1, steps);
        arms.push(Arm { queue: there, steps: vec![draft.work(answer), Step::Push(back)] });
    }
    let mean = draft.part(u64::from(micros) * 1000, 1, 10);
    let timer = vec![draft.work(mean)];
    draft.measured(vec![Step::Dispatch { poll, until: done, arms, timer }]);
}

/// More workers than CPUs, which get their jobs back from the measured actor.
fn pool(draft: &mut Draft, budget: u64) {
    let workers = draft.dice.between(2, 12);
    let kind = draft.queue_kind(false);
    let kind = if kind == Queue::Socketpair { Queue::CondPthread } else { kind };
    let done = if draft.dice.chance(60) { kind } else { Queue::CondStd };
    let in_flight = (workers + draft.dice.between(0, 4)).min(16);
    let (jobs, done) = (queue(draft, kind, in_flight, in_flight), queue(draft, done, in_flight, 0));
    let items = draft.dice.magnitude(1, 8);
    let mean = draft.part(2 * budget / items, 50, 95);
    let mut steps = vec![Step::Pop(jobs)];
    steps.extend(draft.something(mean));
    steps.push(Step::Push(done));
    draft.actor(0, workers, steps);
    let mut ours = vec![Step::Pop(done)];
    if draft.dice.chance(60) {
        let mean = draft.part(budget / items, 5, 40);
        ours.push(draft.work(mean));
    }
    ours.push(Step::Push(jobs));
    draft.measured(repeated(items, 1, ours));
}

/// Actors that no other actor waits for.
fn beside(draft: &mut Draft, budget: u64) {
    for _ in 0..draft.dice.between(1, 2) {
        let process = process(draft);
        let mean = draft.part(budget, 5, 60);
        let mut steps = draft.something(mean);
        if draft.dice.chance(75) {
            let micros = (budget / 1000).clamp(100, 10_000);
            steps.push(draft.wait(micros / 2, 2 * micros));
        }
        // What does no work at all must still not take a CPU.
        steps.push(Draft::rest(20_000));
        draft.actor(process, 1, steps);
    }
}

/// More steps at the end of loops: waits, yields, files, threads, a lock that several of them share.
fn decorate(draft: &mut Draft, budget: u64) {
    let loops = draft.loops();
    let lock = draft.dice.chance(50).then(|| {
        let kind = draft.dice.pick(Lock::ALL);
        draft.object(Object::Lock(kind))
    });
    let region = draft.region();
    let first = loops.len() - 1;
    for number in [first, draft.dice.index(loops.len())] {
        let mean = draft.part(budget, 2, 20);
        let step = match (lock, draft.dice.between(0, 4)) {
            (Some(lock), _) => Step::Locked { lock, shared: false, steps: vec![draft.work_in(region, mean)] },
            (None, 0) => Step::Yield,
            (None, 1) => draft.write(),
            (None, 2) if budget > 1_500_000 => draft.spawn(mean),
            (None, _) => draft.wait(50, 1000),
        };
        draft.steps_of(loops[number]).push(step);
    }
    debug_assert!(draft.loops().len() <= MOST_ACTORS as usize + 8);
}
