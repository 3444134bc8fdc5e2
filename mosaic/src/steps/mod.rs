//! Doing what a program says: its objects made of real ones, its actors of threads and processes.
//!
//! One file per sort of object; [`run`] puts them together. Unsafe code is in `posix` and `kernel`, the functions of the C library; everything
//! goes through that library, because a profiler that interposes its functions is to see what a C program would show it.

mod barriers;
#[allow(unsafe_code)]
mod kernel;
mod locks;
mod polls;
#[allow(unsafe_code)]
mod posix;
mod queues;
mod waits;

use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

use targets::run::{Arguments, Run};

use self::barriers::{Barrier, Latch};
use self::kernel::{Child, Fork};
use self::locks::Lock;
use self::polls::{Event, Poll};
use self::queues::Queue;
use crate::dice::Dice;
use crate::kinds;
use crate::program::{Arm, Object, POINT, Program, Step, walk};
use crate::regions::Regions;

/// An object of a program.
enum Thing {
    Lock(Lock),
    Queue(Queue),
    Barrier(Barrier),
    Latch(Latch),
    Poll(Poll),
}

/// What all actors of a process know.
struct Stage<'a> {
    program: &'a Program,
    things: Vec<Thing>,
    regions: Regions,
}

/// One thread of an actor.
struct Player<'a> {
    stage: &'a Stage<'a>,
    /// Of the times that it works.
    dice: Dice,
    file: Option<File>,
    /// What the measured actor knows besides.
    measured: Option<(&'a Run, &'a [Child])>,
}

/// Runs a program that is [valid](Program::check) for as long as the arguments say, and prints its rate.
///
/// # Errors
///
/// When the system has no more descriptors, memory or processes.
///
/// # Panics
///
/// When the program is not valid.
pub fn run(program: &Program, arguments: Arguments) -> io::Result<()> {
    let regions = Regions::of(&arguments);
    let stage = Stage { program, things: things(program)?, regions };
    let run = arguments.start(POINT);
    let mut children = Vec::new();
    let last = program.actors.iter().map(|actor| actor.process).max().unwrap_or(0);
    for process in 1..=last {
        match kernel::fork()? {
            Fork::Parent(child) => children.push(child),
            Fork::Child => return stage.play(process, None),
        }
    }
    stage.play(0, Some((&run, &children)))
}

impl<'a> Stage<'a> {
    /// Runs the actors of a process, the measured one or the first in this thread. Does not return if there is one.
    fn play(&'a self, process: u32, measured: Option<(&'a Run, &'a [Child])>) -> io::Result<()> {
        let main = measured.and_then(|_| self.program.measured());
        let actors = self.program.actors.iter().enumerate();
        let here = actors.filter(|(number, actor)| actor.process == process && Some(*number) != main);
        let mut others: Vec<(usize, u32)> =
            here.flat_map(|(number, actor)| (0..actor.copies).map(move |copy| (number, copy))).collect();
        let first = match main {
            Some(actor) => (actor, 0),
            None if others.is_empty() => return Ok(()),
            None => others.remove(0),
        };
        thread::scope(|scope| {
            for (actor, copy) in others {
                scope.spawn(move || self.player(actor, copy, None).play(&self.program.actors[actor].steps));
            }
            self.player(first.0, first.1, measured).play(&self.program.actors[first.0].steps)
        })
    }

    fn player(&'a self, actor: usize, copy: u32, measured: Option<(&'a Run, &'a [Child])>) -> Player<'a> {
        let stream = 1 + actor as u64 * 64 + u64::from(copy);
        Player { stage: self, dice: Dice::new(self.program.seed, stream), file: None, measured }
    }

    fn lock(&self, number: usize) -> &Lock {
        match &self.things[number] {
            Thing::Lock(lock) => lock,
            _ => unreachable!("{number} is a lock in a valid program"),
        }
    }

    fn queue(&self, number: usize) -> &Queue {
        match &self.things[number] {
            Thing::Queue(queue) => queue,
            _ => unreachable!("{number} is a queue in a valid program"),
        }
    }

    fn barrier(&self, number: usize) -> &Barrier {
        match &self.things[number] {
            Thing::Barrier(barrier) => barrier,
            _ => unreachable!("{number} is a barrier in a valid program"),
        }
    }

    fn latch(&self, number: usize) -> &Latch {
        match &self.things[number] {
            Thing::Latch(latch) => latch,
            _ => unreachable!("{number} is a latch in a valid program"),
        }
    }

    fn poll(&self, number: usize) -> &Poll {
        match &self.things[number] {
            Thing::Poll(poll) => poll,
            _ => unreachable!("{number} is an event loop in a valid program"),
        }
    }

    /// The descriptor of a queue that has one.
    fn readable(&self, queue: usize) -> RawFd {
        self.queue(queue).readable().expect("an event loop's queues have descriptors")
    }
}

/// The objects of `program`, event loops after the queues that they wait for.
fn things(program: &Program) -> io::Result<Vec<Thing>> {
    let parties = |barrier: usize| {
        let uses = |steps: &[Step]| walk(steps).any(|step| *step == Step::Barrier(barrier));
        program.actors.iter().filter(|actor| uses(&actor.steps)).map(|actor| actor.copies).sum()
    };
    let mut things = Vec::new();
    for (number, object) in program.objects.iter().enumerate() {
        things.push(match *object {
            Object::Lock(kind) => Some(Thing::Lock(Lock::new(kind))),
            Object::Queue { kind, capacity, primed } => {
                Some(Thing::Queue(Queue::new(kind, capacity, primed)?))
            }
            Object::Barrier(kind) => Some(Thing::Barrier(Barrier::new(kind, parties(number)))),
            Object::Latch(kind) => Some(Thing::Latch(Latch::new(kind))),
            Object::Poll { .. } => None,
        });
    }
    for (number, object) in program.objects.iter().enumerate() {
        let Object::Poll { timer, micros, rearmed } = *object else { continue };
        let arms: Vec<RawFd> = program
            .steps()
            .filter_map(|step| match step {
                Step::Dispatch { poll, arms, .. } if *poll == number => Some(arms),
                _ => None,
            })
            .flatten()
            .filter_map(|arm| match &things[arm.queue] {
                Some(Thing::Queue(queue)) => queue.readable(),
                _ => None,
            })
            .collect();
        things[number] = Some(Thing::Poll(Poll::new(timer, micros, rearmed, &arms)?));
    }
    Ok(things.into_iter().flatten().collect())
}

impl Player<'_> {
    /// Repeats `steps` endlessly.
    fn play(&mut self, steps: &[Step]) -> ! {
        loop {
            self.perform(steps);
        }
    }

    /// Does `steps` once.
    fn perform(&mut self, steps: &[Step]) {
        let stage = self.stage;
        for step in steps {
            match step {
                Step::Work { region, time } => stage.regions.work(*region, time.draw(&mut self.dice)),
                Step::Locked { lock, shared, steps } => {
                    stage.lock(*lock).with(*shared, || self.perform(steps));
                }
                Step::Push(queue) => stage.queue(*queue).push(),
                Step::Pop(queue) => stage.queue(*queue).pop(),
                Step::Barrier(barrier) => stage.barrier(*barrier).wait(),
                Step::Arrive(latch) => stage.latch(*latch).arrive(),
                Step::Await { latch, arrivals } => stage.latch(*latch).wait(*arrivals),
                Step::Dispatch { poll, until, arms, timer } => self.dispatch(*poll, *until, arms, timer),
                Step::Wait { how, micros } => waits::wait(*how, Duration::from_micros((*micros).into())),
                Step::Yield => thread::yield_now(),
                Step::Spawn { how, threads, steps, meanwhile } => {
                    self.spawn(*how, *threads, steps, meanwhile);
                }
                Step::Write { bytes, sync } => self.write(*bytes, *sync),
                Step::Repeat { times, steps } => (0..*times).for_each(|_| self.perform(steps)),
                Step::Visit => self.visit(),
            }
        }
    }

    fn dispatch(&mut self, poll: usize, until: usize, arms: &[Arm], timer: &[Step]) {
        let stage = self.stage;
        let mut done = false;
        while !done {
            stage.poll(poll).turn(|event| match event {
                Event::Timer => self.perform(timer),
                Event::Item(number) => {
                    let arm = &arms[number];
                    stage.queue(arm.queue).pop();
                    self.perform(&arm.steps);
                    stage.poll(poll).taken(number, stage.readable(arm.queue));
                    done |= arm.queue == until;
                }
            });
        }
    }

    fn spawn(&mut self, how: kinds::Thread, threads: u32, steps: &[Step], meanwhile: &[Step]) {
        let stage = self.stage;
        let seed = self.dice.any();
        let theirs = |number: u32| {
            let dice = Dice::new(seed, number.into());
            Player { stage, dice, file: None, measured: None }.perform(steps);
        };
        match how {
            kinds::Thread::Pthread => posix::threads(threads, &theirs, || self.perform(meanwhile)),
            kinds::Thread::Std => thread::scope(|scope| {
                let started: Vec<_> =
                    (0..threads).map(|number| scope.spawn(move || theirs(number))).collect();
                self.perform(meanwhile);
                for thread in started {
                    thread.join().expect("a panic ends the process");
                }
            }),
        }
    }

    fn write(&mut self, bytes: u32, sync: bool) {
        let written = match &self.file {
            Some(file) => waits::write(file, bytes, sync),
            None => waits::scratch().and_then(|file| waits::write(self.file.insert(file), bytes, sync)),
        };
        if let Err(error) = written {
            eprintln!("a temporary file cannot be written: {error} (is there room in $TMPDIR?)");
            std::process::exit(1);
        }
    }

    fn visit(&self) {
        whatif::progress!("round");
        let Some((run, children)) = self.measured else { return };
        run.visited();
        if run.over() {
            children.iter().for_each(Child::end);
            run.finish();
        }
    }
}
