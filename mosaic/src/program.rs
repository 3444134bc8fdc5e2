//! A program: actors that loop over steps, and the objects that they share.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::kinds::{self, names};

/// A program. Objects and actors are numbered from 0, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Of the work that actors draw.
    pub seed: u64,
    /// What the grammar made it of; means nothing to code that runs it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shapes: BTreeSet<String>,
    /// What actors share.
    #[serde(default)]
    pub objects: Vec<Object>,
    /// The threads that do something.
    pub actors: Vec<Actor>,
}

/// What actors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// Taken by [`Step::Locked`].
    Lock(kinds::Lock),
    /// Filled by [`Step::Push`], emptied by [`Step::Pop`] or [`Step::Dispatch`].
    Queue {
        /// How it works.
        kind: kinds::Queue,
        /// Items that it has room for.
        capacity: u32,
        /// Items that it begins with.
        #[serde(default, skip_serializing_if = "is_zero")]
        primed: u32,
    },
    /// Waited at by all that have a [`Step::Barrier`] on it.
    Barrier(kinds::Barrier),
    /// Counted by [`Step::Arrive`], waited for by [`Step::Await`].
    Latch(kinds::Latch),
    /// What an event loop waits in.
    Poll {
        /// Where its timer comes from.
        timer: kinds::Timer,
        /// Between two events of the timer.
        micros: u32,
        /// Whether sources deliver once and are armed again by `epoll_ctl`.
        #[serde(default)]
        rearmed: bool,
    },
}

/// One or several threads that endlessly do the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The process that it is in: 0 is the first one, others are forked from it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub process: u32,
    /// How many there are.
    pub copies: u32,
    /// The loop.
    pub steps: Vec<Step>,
}

/// What an actor does. Numbers are those of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Works in a region, for a time that is drawn anew each time.
    Work {
        /// 0 to 7: `R0` to `R7`.
        region: u8,
        /// How long.
        time: Time,
    },
    /// Does `steps` while it has a lock.
    Locked {
        /// The lock.
        lock: usize,
        /// As one of several readers.
        #[serde(default)]
        shared: bool,
        /// Work, yields, locks with larger numbers.
        steps: Vec<Step>,
    },
    /// Adds an item; waits while the queue is full.
    Push(usize),
    /// Takes an item; waits while the queue is empty.
    Pop(usize),
    /// Waits until all actors that use the barrier are there.
    Barrier(usize),
    /// Counts one at a latch.
    Arrive(usize),
    /// Waits until a latch has counted so many, and takes them off.
    Await {
        /// The latch.
        latch: usize,
        /// How many.
        arrivals: u32,
    },
    /// Handles events as they come, until one of `until` was among them.
    Dispatch {
        /// Where it waits.
        poll: usize,
        /// The queue that ends it.
        until: usize,
        /// What to do with an item of each queue.
        arms: Vec<Arm>,
        /// What to do when the timer goes off.
        timer: Vec<Step>,
    },
    /// Lets time pass.
    Wait {
        /// How.
        how: kinds::Wait,
        /// How long.
        micros: u32,
    },
    /// `sched_yield`
    Yield,
    /// Starts threads that do `steps` once, does something else `meanwhile`, and joins them.
    Spawn {
        /// How they are started.
        how: kinds::Thread,
        /// How many.
        threads: u32,
        /// Work, waits, locks, files.
        steps: Vec<Step>,
        /// Steps of the thread that started them, meanwhile.
        #[serde(default)]
        meanwhile: Vec<Step>,
    },
    /// Writes to a file of its own.
    Write {
        /// How much.
        bytes: u32,
        /// And waits until it is on the disk.
        sync: bool,
    },
    /// Does `steps` several times.
    Repeat {
        /// How often.
        times: u32,
        /// What.
        steps: Vec<Step>,
    },
    /// Visits the progress point.
    Visit,
}

/// A source of events and what is done about one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Where an item comes from.
    pub queue: usize,
    /// What is done with it.
    pub steps: Vec<Step>,
}

/// A distribution of times, in nanoseconds of the machine that iterations are calibrated on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Time {
    /// Always the same.
    Constant(u32),
    /// Anything between two times.
    Uniform(u32, u32),
    /// With this mean, cut at five times of it.
    Exponential(u32),
    /// The first, or in so many per cent of the cases the second.
    Two(u32, u32, u8),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The progress point.
pub const POINT: &str = "round";

/// How many regions there are.
pub const REGIONS: u8 = 8;

/// The last region: work that the grammar puts where a loop without its other regions would let no other thread in, and that is never asked about.
pub const REST: u8 = REGIONS - 1;

/// The actors of a program, copies counted.
pub const MOST_ACTORS: u32 = 16;

/// The name of a region's function.
#[must_use]
pub fn region_name(region: u8) -> String {
    format!("R{region}")
}

impl Program {
    /// The program as one line that [`Program::parse`] understands.
    ///
    /// # Panics
    ///
    /// Never: there is nothing in a program that JSON has no word for.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a program is plain data")
    }

    /// The program of a text.
    ///
    /// # Errors
    ///
    /// When it is none; the message says where.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Actors, copies counted.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.actors.iter().map(|actor| actor.copies).sum()
    }

    /// The number of the actor that visits the progress point.
    #[must_use]
    pub fn measured(&self) -> Option<usize> {
        self.actors.iter().position(|actor| actor.steps.contains(&Step::Visit))
    }

    /// All steps, those inside others after these.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.actors.iter().flat_map(|actor| walk(&actor.steps))
    }

    /// The names of all kinds of things in it.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<&str> {
        let mut kinds: BTreeSet<&str> = self.shapes.iter().map(String::as_str).collect();
        for object in &self.objects {
            match object {
                Object::Lock(kind) => _ = kinds.insert(kind.name()),
                Object::Queue { kind, .. } => _ = kinds.insert(kind.name()),
                Object::Barrier(kind) => _ = kinds.insert(kind.name()),
                Object::Latch(kind) => _ = kinds.insert(kind.name()),
                Object::Poll { timer, rearmed, .. } => {
                    kinds.extend([timer.name(), names::DISPATCH]);
                    kinds.extend(rearmed.then_some(names::REARMED));
                }
            }
        }
        for step in self.steps() {
            match step {
                Step::Wait { how, .. } => _ = kinds.insert(how.name()),
                Step::Yield => _ = kinds.insert(names::YIELD),
                Step::Spawn { how, .. } => _ = kinds.insert(how.name()),
                Step::Write { sync, .. } => _ = kinds.insert(if *sync { names::FSYNC } else { names::FILE }),
                Step::Locked { steps, .. } => {
                    let is_short =
                        |step: &Step| matches!(step, Step::Work { time, .. } if time.mean() <= 20_000);
                    kinds.extend(steps.iter().all(is_short).then_some(names::SHORT_SECTIONS));
                }
                _ => {}
            }
        }
        kinds.extend(self.actors.iter().any(|actor| actor.process > 0).then_some(names::FORKED));
        kinds.extend((self.threads() >= 6).then_some(names::CROWDED));
        kinds
    }
}

/// `steps`, and those inside them.
pub fn walk(steps: &[Step]) -> Box<dyn Iterator<Item = &Step> + '_> {
    Box::new(
        steps.iter().flat_map(|step| {
            std::iter::once(step).chain(step.inner().into_iter().flat_map(|steps| walk(steps)))
        }),
    )
}

impl Step {
    /// The lists of steps inside it.
    #[must_use]
    pub fn inner(&self) -> Vec<&Vec<Step>> {
        match self {
            Self::Locked { steps, .. } | Self::Repeat { steps, .. } => vec![steps],
            Self::Spawn { steps, meanwhile, .. } => vec![steps, meanwhile],
            Self::Dispatch { arms, timer, .. } => arms.iter().map(|arm| &arm.steps).chain([timer]).collect(),
            _ => Vec::new(),
        }
    }

    /// The objects that the step itself names.
    #[must_use]
    pub fn objects(&self) -> Vec<usize> {
        match self {
            Self::Locked { lock, .. } => vec![*lock],
            Self::Push(object) | Self::Pop(object) | Self::Barrier(object) | Self::Arrive(object) => {
                vec![*object]
            }
            Self::Await { latch, .. } => vec![*latch],
            Self::Dispatch { poll, until, arms, .. } => {
                arms.iter().map(|arm| arm.queue).chain([*poll, *until]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The step with `change` made to every list of steps inside it, and every object it names.
    #[must_use]
    pub fn mapped(
        self,
        steps_to: &mut dyn FnMut(Vec<Step>) -> Vec<Step>,
        object: &dyn Fn(usize) -> usize,
    ) -> Self {
        match self {
            Self::Locked { lock, shared, steps } => {
                Self::Locked { lock: object(lock), shared, steps: steps_to(steps) }
            }
            Self::Push(queue) => Self::Push(object(queue)),
            Self::Pop(queue) => Self::Pop(object(queue)),
            Self::Barrier(barrier) => Self::Barrier(object(barrier)),
            Self::Arrive(latch) => Self::Arrive(object(latch)),
            Self::Await { latch, arrivals } => Self::Await { latch: object(latch), arrivals },
            Self::Dispatch { poll, until, arms, timer } => Self::Dispatch {
                poll: object(poll),
                until: object(until),
                arms: arms
                    .into_iter()
                    .map(|Arm { queue, steps }| Arm { queue: object(queue), steps: steps_to(steps) })
                    .collect(),
                timer: steps_to(timer),
            },
            Self::Spawn { how, threads, steps, meanwhile } => {
                Self::Spawn { how, threads, steps: steps_to(steps), meanwhile: steps_to(meanwhile) }
            }
            Self::Repeat { times, steps } => Self::Repeat { times, steps: steps_to(steps) },
            plain => plain,
        }
    }
}

impl Time {
    /// The mean, in nanoseconds.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a mean of two numbers of 32 bits has no more")]
    pub fn mean(self) -> u32 {
        match self {
            Self::Constant(nanos) | Self::Exponential(nanos) => nanos,
            Self::Uniform(low, high) => u64::midpoint(low.into(), high.into()) as u32,
            Self::Two(usual, other, share) => {
                let share = u64::from(share.min(100));
                ((u64::from(usual) * (100 - share) + u64::from(other) * share) / 100) as u32
            }
        }
    }

    /// One of the times, in nanoseconds.
    pub fn draw(self, dice: &mut Dice) -> f64 {
        let share = dice.share();
        match self {
            Self::Constant(nanos) => nanos.into(),
            Self::Uniform(low, high) => f64::from(low) + share * (f64::from(high) - f64::from(low)),
            Self::Exponential(mean) => f64::from(mean) * (-(1.0 - share).ln()).min(5.0),
            Self::Two(usual, other, per_cent) => {
                f64::from(if share * 100.0 < f64::from(per_cent) { other } else { usual })
            }
        }
    }

    /// The distribution, `part`/`of` as long.
    #[must_use]
    pub fn scaled(self, part: u64, of: u64) -> Self {
        let scale = |nanos: u32| u32::try_from(u64::from(nanos) * part / of.max(1)).unwrap_or(u32::MAX);
        match self {
            Self::Constant(nanos) => Self::Constant(scale(nanos)),
            Self::Uniform(low, high) => Self::Uniform(scale(low), scale(high)),
            Self::Exponential(mean) => Self::Exponential(scale(mean)),
            Self::Two(usual, other, share) => Self::Two(scale(usual), scale(other), share),
        }
    }

    /// The shortest time that is meant, and the longest.
    #[must_use]
    pub fn range(self) -> (u32, u32) {
        match self {
            Self::Constant(nanos) => (nanos, nanos),
            Self::Exponential(mean) => (mean, mean.saturating_mul(5)),
            Self::Uniform(one, other) | Self::Two(one, other, _) => (one.min(other), one.max(other)),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let micros = |nanos: u32| f64::from(nanos) / 1000.0;
        match *self {
            Self::Constant(nanos) => write!(f, "{} µs", micros(nanos)),
            Self::Uniform(low, high) => write!(f, "{} to {} µs", micros(low), micros(high)),
            Self::Exponential(mean) => write!(f, "exponential, mean {} µs", micros(mean)),
            Self::Two(usual, other, share) => {
                write!(f, "{} µs, {share} % of the time {} µs", micros(usual), micros(other))
            }
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Lock(kind) => f.write_str(kind.name()),
            Self::Queue { kind, capacity, primed } => {
                write!(f, "{} for {capacity} items", kind.name())?;
                if *primed > 0 { write!(f, ", begins with {primed}") } else { Ok(()) }
            }
            Self::Barrier(kind) => f.write_str(kind.name()),
            Self::Latch(kind) => f.write_str(kind.name()),
            Self::Poll { timer, micros, rearmed } => {
                let rearmed = if *rearmed { ", re-armed after every event" } else { "" };
                write!(f, "event loop with a {} of {micros} µs{rearmed}", timer.name())
            }
        }
    }
}

/// The program for people.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (number, object) in self.objects.iter().enumerate() {
            writeln!(f, "object {number}: {object}")?;
        }
        let measured = self.measured();
        for (number, Actor { process, copies, steps }) in self.actors.iter().enumerate() {
            let copies = if *copies == 1 { String::new() } else { format!(", {copies} times") };
            let place = if *process == 0 { String::new() } else { format!(", in forked process {process}") };
            let measured = if measured == Some(number) { ", measured" } else { "" };
            writeln!(f, "actor {number}{copies}{place}{measured}:")?;
            describe(f, steps, 1)?;
        }
        Ok(())
    }
}

fn describe(f: &mut fmt::Formatter, steps: &[Step], depth: usize) -> fmt::Result {
    let space = "    ".repeat(depth);
    for step in steps {
        f.write_str(&space)?;
        match step {
            Step::Work { region, time } => writeln!(f, "work in {} for {time}", region_name(*region))?,
            Step::Locked { lock, shared, .. } => {
                writeln!(f, "with lock {lock}{}", if *shared { ", shared" } else { "" })?;
            }
            Step::Push(queue) => writeln!(f, "push to {queue}")?,
            Step::Pop(queue) => writeln!(f, "pop from {queue}")?,
            Step::Barrier(barrier) => writeln!(f, "wait at barrier {barrier}")?,
            Step::Arrive(latch) => writeln!(f, "arrive at latch {latch}")?,
            Step::Await { latch, arrivals } => writeln!(f, "wait for {arrivals} arrivals at latch {latch}")?,
            Step::Dispatch { poll, until, arms, timer } => {
                writeln!(f, "dispatch events of {poll} until one of queue {until} was among them")?;
                for Arm { queue, steps } in arms {
                    writeln!(f, "{space}    queue {queue}:")?;
                    describe(f, steps, depth + 2)?;
                }
                writeln!(f, "{space}    timer:")?;
                describe(f, timer, depth + 2)?;
                continue;
            }
            Step::Wait { how, micros } => writeln!(f, "{} for {micros} µs", how.name())?,
            Step::Yield => writeln!(f, "yield")?,
            Step::Spawn { how, threads, steps, meanwhile } => {
                writeln!(f, "start {threads} x {}", how.name())?;
                describe(f, steps, depth + 1)?;
                writeln!(f, "{space}and meanwhile")?;
                describe(f, meanwhile, depth + 1)?;
                continue;
            }
            Step::Write { bytes, sync } => {
                writeln!(f, "write {bytes} bytes{}", if *sync { " and fdatasync" } else { "" })?;
            }
            Step::Repeat { times, .. } => writeln!(f, "{times} times")?,
            Step::Visit => writeln!(f, "visit the progress point")?,
        }
        for steps in step.inner() {
            describe(f, steps, depth + 1)?;
        }
    }
    Ok(())
}
