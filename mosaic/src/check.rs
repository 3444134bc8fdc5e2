//! What a program must keep to, so that it runs and makes progress.

use std::error::Error;
use std::fmt;

use crate::kinds;
use crate::program::{Actor, MOST_ACTORS, Object, Program, REGIONS, Step, walk};
use crate::rehearsal::{Stuck, rehearse};

/// Why a program is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Fault {}

/// Where a step stands, which decides what it may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In an actor's loop.
    Loop,
    /// Under a lock with this number.
    Section(usize),
    /// In a short-lived thread, or in the thread that waits for it.
    Short,
    /// In an event loop.
    Event,
}

macro_rules! require {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(Fault(format!($($message)+)));
        }
    };
}

impl Program {
    /// Whether the program can run, and makes progress.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn check(&self) -> Result<(), Fault> {
        /// Orders of events tried, and visits in each.
        const REHEARSALS: u64 = 3;
        const VISITS: u32 = 30;
        require!(!self.actors.is_empty(), "there are no actors");
        require!(self.threads() <= MOST_ACTORS, "there are more than {MOST_ACTORS} actors");
        for (number, actor) in self.actors.iter().enumerate() {
            require!(actor.copies >= 1 && actor.copies <= MOST_ACTORS, "there is no copy of actor {number}");
            require!(actor.process < 8, "actor {number} is in a process above 7");
            require!(!actor.steps.is_empty(), "actor {number} does nothing");
            self.check_steps(&actor.steps, Place::Loop)
                .map_err(|Fault(why)| Fault(format!("actor {number}: {why}")))?;
        }
        self.check_visit()?;
        for number in 0..self.objects.len() {
            self.check_object(number).map_err(|Fault(why)| Fault(format!("object {number}: {why}")))?;
        }
        for seed in 0..REHEARSALS {
            rehearse(self, VISITS, seed).map_err(|stuck| match stuck {
                Stuck::Deadlock(visits) => {
                    Fault(format!("all actors wait for each other after {visits} visits"))
                }
                Stuck::Starved(visits) => {
                    Fault(format!("the point is visited {visits} times and never again"))
                }
            })?;
        }
        Ok(())
    }

    fn check_visit(&self) -> Result<(), Fault> {
        let visits = self.steps().filter(|step| **step == Step::Visit).count();
        require!(visits == 1, "the progress point is visited at {visits} places, not at one");
        let measured = self.measured().map(|number| &self.actors[number]);
        let alone = measured.is_some_and(|actor| actor.copies == 1 && actor.process == 0);
        require!(alone, "the visit stands in the loop of one actor of the first process that there is once");
        Ok(())
    }

    fn check_steps(&self, steps: &[Step], place: Place) -> Result<(), Fault> {
        for step in steps {
            for object in step.objects() {
                require!(object < self.objects.len(), "there is no object {object}");
            }
            let waits =
                matches!(step, Step::Pop(_) | Step::Barrier(_) | Step::Await { .. } | Step::Dispatch { .. });
            let tells = matches!(step, Step::Push(_) | Step::Arrive(_));
            let pauses = matches!(step, Step::Wait { .. } | Step::Write { .. } | Step::Spawn { .. });
            match place {
                Place::Loop => {}
                Place::Section(_) => require!(!(waits || tells || pauses), "a section does nothing but work"),
                Place::Short => require!(!(waits || tells), "short-lived threads do not wait for others"),
                Place::Event => {
                    require!(!(waits || pauses), "what an event loop does about an event does not wait")
                }
            }
            match step {
                Step::Work { region, time } => {
                    require!(*region < REGIONS, "there is no region {region}");
                    let (low, high) = time.range();
                    require!(low >= 500 && high <= 60_000_000, "work takes 0.5 µs to 60 ms");
                }
                Step::Locked { lock, shared, steps } => {
                    let Object::Lock(kind) = self.objects[*lock] else {
                        return Err(Fault(format!("{lock} is no lock")));
                    };
                    require!(!shared || kind.has_readers(), "lock {lock} has no readers");
                    if let Place::Section(outer) = place {
                        require!(outer < *lock, "lock {lock} is taken inside lock {outer}");
                    }
                    self.check_steps(steps, Place::Section(*lock))?;
                }
                Step::Push(queue) | Step::Pop(queue) => {
                    require!(matches!(self.objects[*queue], Object::Queue { .. }), "{queue} is no queue");
                }
                Step::Barrier(barrier) => {
                    require!(matches!(self.objects[*barrier], Object::Barrier(_)), "{barrier} is no barrier");
                }
                Step::Arrive(latch) | Step::Await { latch, .. } => {
                    require!(matches!(self.objects[*latch], Object::Latch(_)), "{latch} is no latch");
                }
                Step::Dispatch { poll, until, arms, timer } => {
                    require!(matches!(self.objects[*poll], Object::Poll { .. }), "{poll} is no event loop");
                    require!(arms.iter().any(|arm| arm.queue == *until), "queue {until} has no arm");
                    for arm in arms {
                        let pollable = matches!(self.objects[arm.queue], Object::Queue { kind, .. } if kind.is_pollable());
                        require!(pollable, "queue {} cannot be waited for with epoll", arm.queue);
                        self.check_steps(&arm.steps, Place::Event)?;
                    }
                    self.check_steps(timer, Place::Event)?;
                    let told = walk(timer).any(|step| matches!(step, Step::Push(_) | Step::Arrive(_)));
                    require!(!told, "what a timer does concerns no other actor");
                }
                Step::Wait { micros, .. } => {
                    require!((20..=50_000).contains(micros), "waits take 20 µs to 50 ms");
                }
                Step::Spawn { threads, steps, meanwhile, .. } => {
                    require!((1..=8).contains(threads), "1 to 8 short-lived threads are started at a time");
                    self.check_steps(steps, Place::Short)?;
                    self.check_steps(meanwhile, Place::Short)?;
                }
                Step::Write { bytes, .. } => {
                    require!((1..=1 << 20).contains(bytes), "1 byte to 1 MB are written");
                }
                Step::Repeat { times, steps } => {
                    require!((1..=2000).contains(times), "steps are repeated 1 to 2000 times");
                    require!(!walk(steps).any(|step| *step == Step::Visit), "the visit is repeated");
                    self.check_steps(steps, place)?;
                }
                Step::Visit => require!(place == Place::Loop, "the visit stands inside something"),
                Step::Yield => {}
            }
        }
        Ok(())
    }

    fn check_object(&self, number: usize) -> Result<(), Fault> {
        let users: Vec<&Actor> = self
            .actors
            .iter()
            .filter(|actor| walk(&actor.steps).any(|step| step.objects().contains(&number)))
            .collect();
        let Some(first) = users.first() else { return Err(Fault("no actor uses it".to_owned())) };
        let one_process = users.iter().all(|actor| actor.process == first.process);
        let all = |wanted: &dyn Fn(&Step) -> bool| self.steps().filter(|step| wanted(step)).count();
        match self.objects[number] {
            Object::Queue { kind, capacity, primed } => {
                require!((1..=kind.most()).contains(&capacity), "it has room for 1 to {} items", kind.most());
                require!(primed <= capacity, "it begins with more items than it has room for");
                require!(one_process || kind.crosses(), "processes cannot share a {}", kind.name());
                require!(all(&|step| *step == Step::Push(number)) > 0, "it has no producer");
                let pops = all(&|step| *step == Step::Pop(number));
                let arms: usize = self
                    .steps()
                    .filter_map(|step| match step {
                        Step::Dispatch { arms, .. } => {
                            Some(arms.iter().filter(|arm| arm.queue == number).count())
                        }
                        _ => None,
                    })
                    .sum();
                require!(pops + arms > 0, "it has no consumer");
                require!(arms == 0 || (arms == 1 && pops == 0), "an event loop is its only consumer");
            }
            Object::Poll { micros, .. } => {
                require!((500..=1_000_000).contains(&micros), "its timer takes 0.5 ms to 1 s");
                let alone = users.len() == 1 && first.copies == 1;
                let once = all(&|step| matches!(step, Step::Dispatch { poll, .. } if *poll == number)) == 1;
                require!(alone && once, "one actor waits in it, at one place");
            }
            Object::Latch(_) => {
                let waiting: Vec<&&Actor> = users
                    .iter()
                    .filter(|actor| {
                        walk(&actor.steps)
                            .any(|step| matches!(step, Step::Await { latch, .. } if *latch == number))
                    })
                    .collect();
                require!(waiting.len() == 1 && waiting[0].copies == 1, "one actor waits for it");
                require!(one_process, "processes cannot share a latch");
            }
            Object::Lock(kind) => {
                require!(one_process, "processes cannot share a {}", kinds::Lock::name(kind));
            }
            Object::Barrier(kind) => require!(one_process, "processes cannot share a {}", kind.name()),
        }
        Ok(())
    }
}
