//! A program without threads and clocks: which actor waits for which, and how much work a visit takes.
//!
//! Actors take turns in random order; work takes no time, and is added up. Where an actor has to wait for an item, a place, a
//! barrier or a latch, the next one has its turn. What an actor does never depends on time, and queues do not
//! lose anything, so a program that makes progress here makes progress in any order of events; the random orders are for
//! queues with several consumers, where chance decides which of them takes an item.

use crate::dice::Dice;
use crate::program::{Actor, Object, Program, REGIONS, Step, walk};

/// What a visit takes.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// Work in nanoseconds per visit, by actor (all copies together) and region. Of actors that run [freely](is_free), that
    /// of one turn of each copy.
    pub work: Vec<[f64; REGIONS as usize]>,
    /// The time that an actor lets pass per visit, in nanoseconds, likewise.
    pub waits: Vec<f64>,
    /// Nanoseconds per visit during which each object, if it is a lock, is held by actors that do not run freely.
    pub held: Vec<f64>,
}

/// A program that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// All actors wait, after so many visits.
    Deadlock(u32),
    /// Others do something, but the point is not visited again after so many visits.
    Starved(u32),
}

/// Whether an actor waits for no other one, but for locks.
#[must_use]
pub fn is_free(actor: &Actor) -> bool {
    !walk(&actor.steps).any(|step| {
        matches!(
            step,
            Step::Push(_)
                | Step::Pop(_)
                | Step::Barrier(_)
                | Step::Arrive(_)
                | Step::Await { .. }
                | Step::Dispatch { .. }
                | Step::Visit
        )
    })
}

/// Runs the program until its point was visited so often. Its objects must be those that its steps need (`Program::check`).
///
/// # Errors
///
/// When it makes no progress.
pub fn rehearse(program: &Program, visits: u32, seed: u64) -> Result<Rehearsal, Stuck> {
    /// Steps per visit; the largest program needs some thousands.
    const MOST: u64 = 50_000;
    let mut stage = Stage::new(program, seed);
    let mut steps = 0;
    while stage.visits < visits {
        let mut moved = false;
        for _ in 0..stage.players.len() {
            let player = stage.dice.index(stage.players.len());
            moved |= stage.turn(player);
        }
        // Chance may have left an actor out.
        for player in 0..stage.players.len() {
            moved |= !moved && stage.turn(player);
        }
        if !moved {
            return Err(Stuck::Deadlock(stage.visits));
        }
        steps += stage.players.len() as u64;
        if steps > MOST * u64::from(visits) {
            return Err(Stuck::Starved(stage.visits));
        }
    }
    Ok(stage.costs(program))
}

/// Where an actor is.
struct Player<'a> {
    actor: usize,
    frames: Vec<Frame<'a>>,
    /// The generation of the barrier that it waits at.
    waits_in: Option<u64>,
}

/// A list of steps that is being done.
struct Frame<'a> {
    steps: &'a [Step],
    at: usize,
    /// How often it begins again.
    again: u32,
}

struct Stage<'a> {
    dice: Dice,
    players: Vec<Player<'a>>,
    objects: Vec<State>,
    work: Vec<[f64; REGIONS as usize]>,
    waits: Vec<f64>,
    held: Vec<f64>,
    visits: u32,
}

#[derive(Clone, Copy)]
enum State {
    Queue { items: u32, capacity: u32 },
    Barrier { missing: u32, parties: u32, generation: u64 },
    Latch(u32),
    Other,
}

impl<'a> Stage<'a> {
    fn new(program: &'a Program, seed: u64) -> Self {
        let parties = |barrier: usize| {
            let uses = |actor: &&Actor| walk(&actor.steps).any(|step| *step == Step::Barrier(barrier));
            program.actors.iter().filter(uses).map(|actor| actor.copies).sum()
        };
        let objects = program.objects.iter().enumerate().map(|(number, object)| match *object {
            Object::Queue { capacity, primed, .. } => State::Queue { items: primed, capacity },
            Object::Barrier(_) => {
                State::Barrier { missing: parties(number), parties: parties(number), generation: 0 }
            }
            Object::Latch(_) => State::Latch(0),
            Object::Lock(_) | Object::Poll { .. } => State::Other,
        });
        let players = program.actors.iter().enumerate().filter(|(_, actor)| !is_free(actor));
        let players = players.flat_map(|(number, actor)| {
            (0..actor.copies).map(move |_| Player {
                actor: number,
                frames: vec![Frame { steps: &actor.steps, at: 0, again: 0 }],
                waits_in: None,
            })
        });
        Self {
            dice: Dice::new(seed, 0),
            players: players.collect(),
            objects: objects.collect(),
            work: vec![[0.0; REGIONS as usize]; program.actors.len()],
            waits: vec![0.0; program.actors.len()],
            held: vec![0.0; program.objects.len()],
            visits: 0,
        }
    }

    /// A few steps of one player; whether there was any.
    fn turn(&mut self, player: usize) -> bool {
        let most = self.dice.between(1, 8);
        (0..most).take_while(|_| self.step(player)).count() > 0
    }

    /// One step of a player, unless it has to wait.
    fn step(&mut self, player: usize) -> bool {
        let Self { players, objects, .. } = self;
        let Player { actor, frames, waits_in } = &mut players[player];
        let actor = *actor;
        let outermost = frames.len() == 1;
        let Some(frame) = frames.last_mut() else { return false };
        let Some(step) = frame.steps.get(frame.at) else {
            if outermost {
                frame.at = 0;
            } else if frame.again > 0 {
                frame.again -= 1;
                frame.at = 0;
            } else {
                frames.pop();
            }
            return true;
        };
        match step {
            Step::Push(queue) => match &mut objects[*queue] {
                State::Queue { items, capacity } if *items < *capacity => *items += 1,
                _ => return false,
            },
            Step::Pop(queue) => {
                if !take(&mut objects[*queue]) {
                    return false;
                }
            }
            Step::Barrier(barrier) => {
                let State::Barrier { missing, parties, generation } = &mut objects[*barrier] else {
                    return false;
                };
                match *waits_in {
                    None if *missing > 1 => {
                        *missing -= 1;
                        *waits_in = Some(*generation);
                        return true;
                    }
                    None => {
                        *missing = *parties;
                        *generation += 1;
                    }
                    Some(since) if since == *generation => return false,
                    Some(_) => *waits_in = None,
                }
            }
            Step::Arrive(latch) => {
                if let State::Latch(count) = &mut objects[*latch] {
                    *count += 1;
                }
            }
            Step::Await { latch, arrivals } => match &mut objects[*latch] {
                State::Latch(count) if *count >= *arrivals => *count -= arrivals,
                _ => return false,
            },
            Step::Dispatch { until, arms, .. } => {
                let first = self.dice.index(arms.len());
                let arm = arms.iter().cycle().skip(first).take(arms.len());
                let Some(arm) = arm.into_iter().find(|arm| take(&mut objects[arm.queue])) else {
                    return false;
                };
                frame.at += usize::from(arm.queue == *until);
                frames.push(Frame { steps: &arm.steps, at: 0, again: 0 });
                return true;
            }
            Step::Locked { lock, steps, .. } => {
                self.held[*lock] += time_of(steps);
                frame.at += 1;
                frames.push(Frame { steps, at: 0, again: 0 });
                return true;
            }
            Step::Repeat { times, steps } => {
                frame.at += 1;
                frames.push(Frame { steps, at: 0, again: times.saturating_sub(1) });
                return true;
            }
            Step::Visit => self.visits += 1,
            Step::Work { .. } | Step::Wait { .. } | Step::Spawn { .. } | Step::Write { .. } | Step::Yield => {
                add(std::slice::from_ref(step), 1.0, &mut self.work[actor], &mut self.waits[actor]);
            }
        }
        frame.at += 1;
        true
    }

    #[expect(clippy::cast_lossless)]
    fn costs(mut self, program: &Program) -> Rehearsal {
        let visits = self.visits.max(1) as f64;
        for (number, actor) in program.actors.iter().enumerate() {
            if is_free(actor) {
                add(&actor.steps, actor.copies.into(), &mut self.work[number], &mut self.waits[number]);
            } else {
                self.work[number].iter_mut().for_each(|nanos| *nanos /= visits);
                self.waits[number] /= visits;
            }
        }
        self.held.iter_mut().for_each(|nanos| *nanos /= visits);
        Rehearsal { work: self.work, waits: self.waits, held: self.held }
    }
}

fn take(queue: &mut State) -> bool {
    match queue {
        State::Queue { items, .. } if *items > 0 => {
            *items -= 1;
            true
        }
        _ => false,
    }
}

/// What starting a thread takes, a write, and one that waits for the disk; roughly, in nanoseconds.
const THREAD: f64 = 60_000.0;
const WRITE: f64 = 20_000.0;
const DISK: f64 = 500_000.0;

/// Adds what `steps` take when they are done so `often`.
fn add(steps: &[Step], often: f64, work: &mut [f64; REGIONS as usize], waits: &mut f64) {
    for step in steps {
        match step {
            Step::Work { region, time } => {
                work[usize::from(*region)] += often * f64::from(time.mean());
            }
            Step::Wait { micros, .. } => *waits += often * (f64::from(*micros) * 1000.0 + 60_000.0),
            Step::Write { sync, .. } => *waits += often * if *sync { DISK } else { WRITE },
            Step::Spawn { threads, steps, meanwhile, .. } => {
                *waits += often * f64::from(*threads) * THREAD;
                let mut theirs = 0.0;
                add(steps, often * f64::from(*threads), work, &mut theirs);
                *waits += theirs / f64::from((*threads).max(1));
                add(meanwhile, often, work, waits);
            }
            Step::Repeat { times, steps } => add(steps, often * f64::from(*times), work, waits),
            Step::Locked { steps, .. } => add(steps, often, work, waits),
            _ => {}
        }
    }
}

/// The work in `steps` once, in nanoseconds.
fn time_of(steps: &[Step]) -> f64 {
    let (mut work, mut waits) = ([0.0; REGIONS as usize], 0.0);
    add(steps, 1.0, &mut work, &mut waits);
    work.iter().sum()
}

impl Rehearsal {
    /// Work per visit by region, over all actors.
    #[must_use]
    pub fn by_region(&self) -> [f64; REGIONS as usize] {
        let mut regions = [0.0; REGIONS as usize];
        for actor in &self.work {
            for (sum, nanos) in regions.iter_mut().zip(actor) {
                *sum += nanos;
            }
        }
        regions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Barrier, Queue};
    use crate::program::Time;

    fn work(nanos: u32) -> Step {
        Step::Work { region: 0, time: Time::Constant(nanos) }
    }

    fn queue(capacity: u32) -> Object {
        Object::Queue { kind: Queue::CondPthread, capacity, primed: 0 }
    }

    fn program(objects: Vec<Object>, actors: Vec<(u32, Vec<Step>)>) -> Program {
        let actors = actors.into_iter().map(|(copies, steps)| Actor { process: 0, copies, steps }).collect();
        Program { objects, actors, ..Program::default() }
    }

    #[test]
    fn work_is_added_up_per_visit() {
        let twice = |steps| Step::Repeat { times: 2, steps };
        let program = program(
            vec![queue(2)],
            vec![
                (1, vec![twice(vec![Step::Pop(0)]), work(3000), Step::Visit]),
                (2, vec![work(10_000), Step::Push(0)]),
                (1, vec![work(7000)]),
            ],
        );
        let rehearsal = rehearse(&program, 200, 1).unwrap();
        assert!((rehearsal.work[0][0] - 3000.0).abs() < 1.0, "{rehearsal:?}");
        // Two items a visit, and a few that have not been taken yet.
        assert!((rehearsal.work[1][0] - 20_000.0).abs() < 400.0, "{rehearsal:?}");
        assert!((rehearsal.work[2][0] - 7000.0).abs() < 1.0, "a turn of an actor that runs freely");
    }

    #[test]
    fn programs_that_get_stuck_are_found() {
        let cross = program(
            vec![queue(1), queue(1)],
            vec![(1, vec![Step::Pop(0), Step::Push(1), Step::Visit]), (1, vec![Step::Pop(1), Step::Push(0)])],
        );
        assert_eq!(rehearse(&cross, 9, 1).unwrap_err(), Stuck::Deadlock(0));
        // Others live on.
        let starved = program(
            vec![queue(1), queue(1)],
            vec![(1, vec![Step::Pop(0), Step::Visit]), (1, vec![Step::Push(1)]), (1, vec![Step::Pop(1)])],
        );
        assert_eq!(rehearse(&starved, 9, 1).unwrap_err(), Stuck::Starved(0));
        let barrier = |turns: usize| {
            let more = vec![Step::Barrier(0); turns];
            program(
                vec![Object::Barrier(Barrier::Pthread), queue(1)],
                vec![
                    (1, [more, vec![Step::Pop(1), Step::Visit]].concat()),
                    (1, vec![Step::Barrier(0), Step::Push(1)]),
                ],
            )
        };
        assert!(rehearse(&barrier(1), 50, 3).is_ok());
        assert!(rehearse(&barrier(2), 50, 3).is_err(), "one of them comes twice as often");
    }
}
