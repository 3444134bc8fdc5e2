//! The machine: CPUs, a run queue, threads, and virtual time, by discrete events and without a clock.
//!
//! It executes a [`Program`] in one of two ways. *Exact*: computations in the region really take less
//! time. *Virtual*: they take all of it, threads are sampled, and the account of [`wire::account`] — the
//! very code that the runtime uses — says who owes what.
//!
//! # What a rule of virtual time has to achieve
//!
//! Every thread has a clock of its own, the time minus its `local`; so has every CPU. A thread that waits
//! takes over the clock of the thread that ends its wait, if that one is later, and a thread that gets a CPU and
//! the CPU take the later of their two clocks. The time of the whole is the time minus `required`: no thread
//! is behind it, and a thread that is ahead of it owes the difference.

use std::collections::VecDeque;

use wire::{Epoch, LocalAccount, Nanos, SharedAccount, Speedup, Waiting};

use crate::program::{Barrier, Compute, Lock, Op, Post, Program, Sleep, Unlock, Until, Visit, Wait, Yield};
use crate::rules::{Rules, World};

mod account;

/// One window of an execution.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// By how much the region is faster.
    pub speedup: Speedup,
    /// How long nothing is counted at its beginning.
    pub lead_in: u64,
    /// How long it lasts, the lead-in included.
    pub length: u64,
}

/// What a window has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Visits after the lead-in.
    pub visits: u64,
    /// Effective time at the first of them and at the last.
    first: i64,
    last: i64,
    /// How much `required` grew in the whole window.
    pub required: u64,
    /// For how long all threads together paused in it.
    pub paused: u64,
}

impl Measured {
    fn visit(&mut self, effective: i64) {
        if self.visits == 0 {
            self.first = effective;
        }
        self.visits += 1;
        self.last = effective;
    }

    /// Effective nanoseconds for each visit; `None` if there were hardly any.
    pub fn period(&self) -> Option<f64> {
        (self.visits > 10).then(|| (self.last - self.first) as f64 / (self.visits - 1) as f64)
    }
}

/// A generator (SplitMix64), so that every execution is the same on every machine.
struct Random(u64);

impl Random {
    /// Uniform in −1 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Queued,
    On(usize),
    Blocked,
    Asleep { until: u64, pausing: bool },
}

struct Thread {
    /// Index of the next step; of the one under way, if that is a wait or a sleep.
    step: usize,
    state: State,
    /// When it began to wait, for a thread or a CPU, or to sleep.
    since: u64,
    /// What `required` was when it began to wait for a thread, if the end of that wait is still to be
    /// credited; and when it began to wait for a CPU.
    blocked: Option<Waiting>,
    queued: Option<Waiting>,
    /// What is left of the computation under way, and whether it is in the region.
    left: u64,
    region: bool,
    /// Its latest deadline.
    due: u64,
    /// What is left of a pause that keeps the CPU.
    pause: u64,
    /// It must be level before it goes on.
    paying: bool,
    /// What it owes it owes to the world.
    world: bool,
    local: LocalAccount,
    /// Time overslept, taken off later debts; and since when it oversleeps.
    carry: u64,
    overslept_since: Option<u64>,
    /// CPU time since the last sample, and when the next is due.
    unsampled: u64,
    sample_at: u64,
    samples: u32,
    /// CPU time since the last credit, and that part of it which was in the region.
    uncredited: u64,
    uncredited_region: u64,
    /// Index of the call that began the stretch of code under way; and for each such call how many samples
    /// have hit the region afterwards, of how many.
    stretch: usize,
    learned: Vec<(u64, u64)>,
    /// Credit of the samples of a batch that is not complete yet.
    batch: u64,
    durations: Random,
    jitter: Random,
}

struct Cpu {
    thread: Option<usize>,
    slice: u64,
    /// Account of the thread that had it last, and until when.
    local: LocalAccount,
    free_since: u64,
}

#[derive(Default)]
struct Mutex {
    taken: bool,
    waiters: VecDeque<usize>,
}

/// A machine that executes a program.
pub struct Machine<'a> {
    program: &'a Program,
    /// None: exact.
    rules: Option<&'a Rules>,
    now: u64,
    epoch: Epoch,
    speedup: Speedup,
    required: SharedAccount,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    queue: VecDeque<usize>,
    mutexes: Vec<Mutex>,
    barriers: Vec<Vec<usize>>,
    semaphores: Vec<(u32, VecDeque<usize>)>,
    measured: Measured,
    counting_from: u64,
}

/// Executes `program` through all `windows`; exactly, or by `rules`.
pub fn execute(program: &Program, rules: Option<&Rules>, windows: &[Window]) -> Vec<Measured> {
    let mut machine = Machine::new(program, rules);
    windows.iter().map(|window| machine.window(window)).collect()
}

impl<'a> Machine<'a> {
    fn new(program: &'a Program, rules: Option<&'a Rules>) -> Self {
        let names = program.threads.iter().flatten().filter_map(|op| match op {
            Lock(name) | Barrier(name) => Some(*name + 1),
            _ => None,
        });
        let names = names.max().unwrap_or(0);
        let thread = |i: usize| Thread {
            step: 0,
            state: State::Queued,
            since: 0,
            blocked: None,
            queued: None,
            left: 0,
            region: false,
            due: 0,
            pause: 0,
            paying: false,
            world: false,
            local: LocalAccount::default(),
            carry: 0,
            overslept_since: None,
            unsampled: 0,
            sample_at: rules.map_or(u64::MAX, |rules| rules.period / (i as u64 + 1)),
            samples: 0,
            uncredited: 0,
            uncredited_region: 0,
            stretch: 0,
            learned: vec![(0, 0); program.threads[i].len()],
            batch: 0,
            durations: Random(i as u64),
            jitter: Random(1000 + i as u64),
        };
        let cpu = || Cpu { thread: None, slice: 0, local: LocalAccount::default(), free_since: 0 };
        Self {
            program,
            rules,
            now: 0,
            epoch: Epoch(0),
            speedup: Speedup::NONE,
            required: SharedAccount::default(),
            threads: (0..program.threads.len()).map(thread).collect(),
            cpus: (0..program.cpus).map(|_| cpu()).collect(),
            queue: (0..program.threads.len()).collect(),
            mutexes: (0..names).map(|_| Mutex::default()).collect(),
            barriers: vec![Vec::new(); names],
            semaphores: program.semaphores.iter().map(|count| (*count, VecDeque::new())).collect(),
            measured: Measured::default(),
            counting_from: 0,
        }
    }

    fn window(&mut self, window: &Window) -> Measured {
        self.speedup = window.speedup;
        if self.rules.is_some_and(|rules| rules.epochs) || self.epoch == Epoch(0) {
            self.epoch = self.epoch.next();
            self.required.begin(self.epoch);
            // No pause outlives its experiment.
            for thread in &mut self.threads {
                thread.pause = 0;
                thread.carry = 0;
                if let State::Asleep { until, pausing: true } = &mut thread.state {
                    *until = self.now;
                }
            }
        }
        let before = self.required.load().delay();
        self.measured = Measured::default();
        self.counting_from = self.now + window.lead_in;
        self.run(self.now + window.length);
        let after = self.required.load().delay();
        for thread in &self.threads {
            let (required, local) = thread.local.meet(&self.required);
            assert!(local.delay() <= required.delay(), "a thread has more delay than required");
        }
        self.measured.required = after.saturating_sub(before).0;
        self.measured
    }

    fn run(&mut self, end: u64) {
        while self.now < end {
            self.dispatch();
            let next = self.next_event().min(end);
            self.pass(next - self.now);
            for i in 0..self.threads.len() {
                match self.threads[i].state {
                    State::On(cpu) => self.step_on(i, cpu),
                    State::Asleep { until, pausing } if until <= self.now => self.wake_up(i, pausing),
                    _ => {}
                }
            }
        }
    }

    /// Gives free CPUs to the threads that have waited longest.
    fn dispatch(&mut self) {
        while let Some(cpu) = self.free_cpu() {
            let Some(i) = self.queue.pop_front() else { return };
            self.threads[i].state = State::On(cpu);
            self.cpus[cpu].thread = Some(i);
            self.cpus[cpu].slice = self.program.slice;
            self.credit_queueing(i, cpu);
            self.proceed(i);
        }
    }

    /// The free CPU that has been free longest, in virtual time.
    fn free_cpu(&self) -> Option<usize> {
        let delay = |cpu: &Cpu| cpu.local.meet(&self.required).1.delay().0 + self.now - cpu.free_since;
        let free = (0..self.cpus.len()).filter(|i| self.cpus[*i].thread.is_none());
        free.max_by_key(|i| delay(&self.cpus[*i]))
    }

    fn next_event(&self) -> u64 {
        let at = |thread: &Thread| match thread.state {
            State::On(cpu) => {
                let burst = if thread.pause > 0 {
                    thread.pause
                } else {
                    thread.left.min(thread.sample_at.saturating_sub(thread.unsampled))
                };
                Some(self.now + burst.min(self.cpus[cpu].slice))
            }
            State::Asleep { until, .. } => Some(until),
            _ => None,
        };
        self.threads.iter().filter_map(at).min().expect("a thread can go on")
    }

    /// Lets time pass.
    fn pass(&mut self, time: u64) {
        self.now += time;
        for cpu in &mut self.cpus {
            let Some(i) = cpu.thread else { continue };
            cpu.slice -= time;
            let thread = &mut self.threads[i];
            if thread.pause > 0 {
                if self.rules.is_some_and(|rules| rules.virtual_slices) {
                    cpu.slice += time;
                }
                thread.pause -= time;
                self.measured.paused += time;
                thread.local.pay(self.required.load(), Nanos(time));
            } else {
                thread.left -= time;
                thread.unsampled += time;
                thread.uncredited += time;
                if thread.region {
                    thread.uncredited_region += time;
                }
            }
        }
    }

    /// What happens to a thread on a CPU now, if anything.
    fn step_on(&mut self, i: usize, cpu: usize) {
        let thread = &self.threads[i];
        if thread.pause == 0 {
            if thread.unsampled >= thread.sample_at {
                self.sample(i);
            }
            self.proceed(i);
        }
        if self.cpus[cpu].slice == 0 {
            self.cpus[cpu].slice = self.program.slice;
            if self.threads[i].state == State::On(cpu) && !self.queue.is_empty() {
                self.threads[i].pause = 0;
                self.leave_cpu(i, State::Queued);
                self.enqueue(i, false);
            }
        }
    }

    fn enqueue(&mut self, i: usize, woken: bool) {
        self.threads[i].state = State::Queued;
        self.threads[i].since = self.now;
        self.threads[i].queued = Some(self.threads[i].local.wait(&self.required));
        let end = if woken && self.program.woken_first { 0 } else { self.queue.len() };
        self.queue.insert(end, i);
    }

    fn leave_cpu(&mut self, i: usize, state: State) {
        let State::On(cpu) = self.threads[i].state else { unreachable!("thread {i} has no CPU") };
        let level = self.threads[i].local.meet(&self.required).1;
        self.cpus[cpu].local.inherit(level);
        self.cpus[cpu].free_since = self.now;
        self.cpus[cpu].thread = None;
        self.threads[i].state = state;
    }

    /// A sleep is over: one of the program's, or a pause.
    fn wake_up(&mut self, i: usize, pausing: bool) {
        let script = &self.program.threads[i];
        if !pausing && matches!(script[self.threads[i].step % script.len()], Until(_)) {
            self.meet_deadline(i);
        }
        let thread = &mut self.threads[i];
        if pausing {
            let slept = self.now - thread.since;
            self.measured.paused += slept;
            thread.local.pay(self.required.load(), Nanos(slept));
            thread.overslept_since = self.rules.filter(|rules| rules.carry).map(|_| self.now);
        } else {
            thread.step += 1;
            thread.world = true;
            thread.paying = self.rules.is_some_and(|rules| rules.world != World::Later);
        }
        // Paying to the world takes no CPU, and the moment that it takes to find out is none here.
        let asleep = self.rules.is_some_and(|rules| rules.world == World::AtOnceAsleep);
        if !(thread.world && thread.paying && asleep && self.pay_asleep(i)) {
            self.enqueue(i, true);
        }
    }

    /// Lets a thread that has a CPU go on until it needs time, or loses the CPU.
    fn proceed(&mut self, i: usize) {
        for _ in 0..10_000 {
            if self.threads[i].paying && !self.pay(i) {
                return;
            }
            self.threads[i].world = false;
            if self.threads[i].left > 0 {
                return;
            }
            let script = &self.program.threads[i];
            self.threads[i].step %= script.len();
            if !self.take_step(i, script[self.threads[i].step]) {
                return;
            }
        }
        panic!("thread {i} never takes time: {:?}", self.program);
    }

    /// Takes a step that needs no time; or begins one that does, or begins to pay for it. False: it lost
    /// its CPU.
    fn take_step(&mut self, i: usize, op: Op) -> bool {
        if matches!(op, Lock(_) | Unlock(_) | Wait(_) | Post(_) | Barrier(_)) {
            self.credit_before_call(i);
        }
        match op {
            Compute { time, region } => {
                let thread = &mut self.threads[i];
                let time = (time as f64 * (1.0 + self.program.variation * thread.durations.next())) as u64;
                let faster = if region && self.rules.is_none() { self.speedup } else { Speedup::NONE };
                thread.left = time - faster.of(Nanos(time)).0;
                thread.region = region;
            }
            Lock(name) if !self.mutexes[name].taken => self.mutexes[name].taken = true,
            Wait(name) if self.semaphores[name].0 > 0 => self.semaphores[name].0 -= 1,
            // All others wait or wake.
            Lock(_) | Unlock(_) | Wait(_) | Post(_) | Barrier(_) if self.pays_first(i) => return true,
            Lock(name) => {
                self.mutexes[name].waiters.push_back(i);
                return self.block(i);
            }
            Unlock(name) => match self.mutexes[name].waiters.pop_front() {
                Some(next) => self.wake(next, i),
                None => self.mutexes[name].taken = false,
            },
            Wait(name) => {
                self.semaphores[name].1.push_back(i);
                return self.block(i);
            }
            Post(name) => match self.semaphores[name].1.pop_front() {
                Some(next) => self.wake(next, i),
                None => self.semaphores[name].0 += 1,
            },
            Barrier(name) if self.barriers[name].len() + 1 < self.program.parties(name) => {
                self.barriers[name].push(i);
                return self.block(i);
            }
            Barrier(name) => {
                for waiter in std::mem::take(&mut self.barriers[name]) {
                    self.wake(waiter, i);
                }
            }
            Sleep(time) => {
                self.leave_cpu(i, State::Asleep { until: self.now + time, pausing: false });
                self.threads[i].since = self.now;
                return false;
            }
            Until(interval) => {
                let thread = &mut self.threads[i];
                let interval = interval as f64 * (1.0 + self.program.variation * thread.durations.next());
                thread.due += interval as u64;
                if thread.due > self.now {
                    thread.since = self.now;
                    let until = thread.due;
                    self.leave_cpu(i, State::Asleep { until, pausing: false });
                    return false;
                }
                if self.meet_deadline(i) {
                    self.threads[i].step += 1;
                    self.leave_cpu(i, State::Queued);
                    self.pay_asleep(i);
                    return false;
                }
            }
            Yield => {
                self.threads[i].step += 1;
                self.leave_cpu(i, State::Queued);
                self.enqueue(i, false);
                return false;
            }
            Visit if self.now >= self.counting_from => {
                let required = self.required.load().delay().0;
                self.measured.visit(self.now as i64 - required as i64);
            }
            Visit => {}
        }
        self.threads[i].step += 1;
        true
    }

    fn block(&mut self, i: usize) -> bool {
        self.leave_cpu(i, State::Blocked);
        self.threads[i].since = self.now;
        self.threads[i].blocked = Some(self.threads[i].local.wait(&self.required));
        false
    }

    /// Thread `waker` ends the wait of thread `i`, whose step is over with it.
    fn wake(&mut self, i: usize, waker: usize) {
        self.threads[i].step += 1;
        self.credit_woken(i, waker);
        self.enqueue(i, true);
    }
}
