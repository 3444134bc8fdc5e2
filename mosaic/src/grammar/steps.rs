//! Single steps: work, waits, yields, files, short threads.

use super::draft::Draft;
use crate::kinds::{Queue, Thread, Wait};
use crate::program::{REST, Step, Time};

impl Draft {
    /// A time with this mean in nanoseconds.
    pub fn time(&mut self, mean: u64) -> Time {
        /// The shortest work, and the longest, in nanoseconds.
        const LIMITS: (u64, u64) = (2_000, 10_000_000);
        let mean = mean.clamp(LIMITS.0, LIMITS.1);
        let nanos = |nanos: u64| u32::try_from(nanos).unwrap_or(u32::MAX);
        let time = match self.dice.between(0, 9) {
            0..=3 => Time::Constant(nanos(mean)),
            4..=6 => {
                let spread = mean * self.dice.between(10, 90) / 100;
                Time::Uniform(nanos(mean - spread), nanos(mean + spread))
            }
            7 | 8 => Time::Exponential(nanos(mean)),
            _ => {
                // The other time is four to nine times as long, and so are a few of all.
                let (longer, share) = (self.dice.between(4, 9), self.dice.between(5, 30));
                let usual = mean * 100 / (100 - share + longer * share);
                Time::Two(nanos(usual), nanos(usual * longer), u8::try_from(share).unwrap_or(10))
            }
        };
        let (low, high) = time.range();
        if u64::from(low) < LIMITS.0 || u64::from(high) > LIMITS.1 {
            Time::Constant(nanos(mean))
        } else {
            time
        }
    }

    /// Work in any region.
    pub fn work(&mut self, mean: u64) -> Step {
        let region = self.region();
        self.work_in(region, mean)
    }

    /// Work in a certain region.
    pub fn work_in(&mut self, region: u8, mean: u64) -> Step {
        Step::Work { region, time: self.time(mean) }
    }

    /// Work that stays when all that is asked about goes away.
    pub fn rest(mean: u64) -> Step {
        let nanos = u32::try_from(mean.clamp(2_000, 200_000)).unwrap_or(2_000);
        Step::Work { region: REST, time: Time::Constant(nanos) }
    }

    /// A part of `time`: so many per cent at least and at most.
    pub fn part(&mut self, time: u64, low: u64, high: u64) -> u64 {
        time * self.dice.between(low, high) / 100
    }

    /// Something that waits for the world.
    pub fn wait(&mut self, low: u64, high: u64) -> Step {
        let how = self.dice.pick(Wait::ALL);
        Step::Wait { how, micros: u32::try_from(self.dice.magnitude(low, high)).unwrap_or(100) }
    }

    /// A write to a file.
    pub fn write(&mut self) -> Step {
        let bytes = u32::try_from(self.dice.magnitude(64, 65_536)).unwrap_or(4096);
        Step::Write { bytes, sync: self.dice.chance(50) }
    }

    /// A queue of one process, or of two.
    pub fn queue_kind(&mut self, crosses: bool) -> Queue {
        loop {
            let kind = self.dice.pick(Queue::ALL);
            if !crosses || kind.crosses() {
                return kind;
            }
        }
    }

    /// A queue that an event loop can wait for.
    pub fn pollable_kind(&mut self) -> Queue {
        loop {
            let kind = self.dice.pick(Queue::ALL);
            if kind.is_pollable() {
                return kind;
            }
        }
    }

    /// What a loop without partners does for about `time`: work and a little more.
    pub fn something(&mut self, time: u64) -> Vec<Step> {
        let work = self.work(time);
        match self.dice.between(0, 9) {
            0 => vec![work, Step::Yield],
            1 | 2 => vec![work, self.wait(50, 2000)],
            3 => vec![work, self.write()],
            4 | 5 => {
                let mean = self.part(time, 20, 80);
                let other = self.work(mean);
                vec![work, other]
            }
            _ => vec![work],
        }
    }

    /// Short-lived threads, and what goes on meanwhile.
    pub fn spawn(&mut self, time: u64) -> Step {
        let how = self.dice.pick(Thread::ALL);
        let threads = self.dice.between(1, 3);
        let each = self.part(time, 30, 70) / threads + 20_000;
        let steps = self.something(each);
        let mean = self.part(time, 10, 60);
        let meanwhile = if self.dice.chance(60) { vec![self.work(mean)] } else { Vec::new() };
        Step::Spawn { how, threads: u32::try_from(threads).unwrap_or(1), steps, meanwhile }
    }
}
