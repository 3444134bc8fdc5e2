//! Programs whose causal answer the simulator can compute: threads that repeat a script.

/// Microseconds, the unit in which scripts are written; everything else is in nanoseconds.
pub const US: u64 = 1_000;
/// Milliseconds.
pub const MS: u64 = 1_000_000;

/// One step of a script. Indices name mutexes, barriers and semaphores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Uses the CPU for this many nanoseconds, inside the selected region or outside.
    Compute { time: u64, region: bool },
    /// Takes a mutex; waiters get it in the order of their arrival.
    Lock(usize),
    /// Gives the mutex to the first waiter.
    Unlock(usize),
    /// Waits until every thread whose script names the barrier has arrived.
    Barrier(usize),
    /// Takes one from a semaphore.
    Wait(usize),
    /// Adds one to a semaphore.
    Post(usize),
    /// Waits for the world.
    Sleep(u64),
    /// Waits for the next of its deadlines, which lie so far apart whatever the program does: a periodic timer, the arrivals of an open loop.
    Until(u64),
    /// Goes to the end of the run queue.
    Yield,
    /// Visits the progress point.
    Visit,
}

pub use Op::{Barrier, Compute, Lock, Post, Sleep, Unlock, Until, Visit, Wait, Yield};

/// Computes inside the region.
pub const fn region(time: u64) -> Op {
    Compute { time, region: true }
}

/// Computes outside the region.
pub const fn other(time: u64) -> Op {
    Compute { time, region: false }
}

/// Threads on CPUs.
#[derive(Clone, Debug)]
pub struct Program {
    /// How many CPUs the machine has.
    pub cpus: usize,
    /// What each thread repeats forever.
    pub threads: Vec<Vec<Op>>,
    /// What each semaphore begins with.
    pub semaphores: Vec<u32>,
    /// By which part, at most, a computation takes longer or shorter than its script says. The k-th
    /// computation of a thread takes equally long in every execution, so that executions are comparable; a
    /// little variation keeps programs from locking into one of several rhythms.
    pub variation: f64,
    /// For how long a thread may keep a CPU that others want.
    pub slice: u64,
    /// Whether a thread that wakes up gets a CPU before those that were preempted.
    pub woken_first: bool,
}

impl Program {
    /// A program without semaphores whose computations vary by a twentieth.
    pub fn new(cpus: usize, threads: Vec<Vec<Op>>) -> Self {
        Self { cpus, threads, semaphores: Vec::new(), variation: 0.05, slice: 3 * MS, woken_first: false }
    }

    /// How many threads meet at a barrier.
    pub fn parties(&self, barrier: usize) -> usize {
        self.threads.iter().filter(|script| script.contains(&Barrier(barrier))).count()
    }
}

/// One thread, three fifths of whose time is the region.
pub fn single() -> Program {
    Program::new(2, vec![vec![region(3 * MS), other(2 * MS), Visit]])
}

/// The same next to a thread that nearly always sleeps.
pub fn idle() -> Program {
    Program::new(2, vec![single().threads.remove(0), vec![Sleep(40 * MS), other(200 * US)]])
}

/// Two threads that meet at a barrier after `a` in the region and `b` outside.
pub fn fork_join(a: u64, b: u64) -> Program {
    Program::new(2, vec![vec![region(a), Barrier(0), Visit], vec![other(b), Barrier(0)]])
}

/// Two threads that compute `inside` a mutex and `outside` of it; the region is one of the two.
pub fn mutex(inside: Op, outside: Op) -> Program {
    let script = vec![Lock(0), inside, Unlock(0), outside, Visit];
    Program::new(2, vec![script.clone(), script])
}

/// Three stages with bounded queues of four between them; the region is stage `selected`.
pub fn pipeline(cpus: usize, times: [u64; 3], selected: usize) -> Program {
    let work = |stage: usize| Compute { time: times[stage], region: stage == selected };
    // Semaphores 0 and 2 count items, 1 and 3 free places.
    let threads = vec![
        vec![work(0), Wait(1), Post(0)],
        vec![Wait(0), Post(1), work(1), Wait(3), Post(2)],
        vec![Wait(2), Post(3), work(2), Visit],
    ];
    Program { semaphores: vec![0, 4, 0, 4], ..Program::new(cpus, threads) }
}

/// One thread that sleeps and then computes in the region.
pub fn sleeper(sleep: u64, compute: u64) -> Program {
    Program::new(2, vec![vec![Sleep(sleep), region(compute), Visit]])
}

/// A thread that sleeps and computes a little next to one that runs the region: they meet by a semaphore.
pub fn timer_and_worker() -> Program {
    let threads = vec![vec![Sleep(6 * MS), other(MS), Visit], vec![region(3 * MS), other(2 * MS)]];
    Program::new(2, threads)
}

/// One thread that computes `work` for each arrival of an open loop; one arrives every `interval`.
pub fn arrivals(interval: u64, work: Op) -> Program {
    Program { variation: 0.3, ..Program::new(2, vec![vec![Until(interval), work, Visit]]) }
}

/// A thread that hands the arrivals of an open loop over to two workers.
pub fn dispatcher(interval: u64, work: Op) -> Program {
    let worker = vec![Wait(0), work, Visit];
    let threads = vec![vec![Until(interval), other(MS / 5), Post(0)], worker.clone(), worker];
    Program { semaphores: vec![0], ..Program::new(3, threads) }
}

/// `threads` identical threads on two CPUs, half of whose time is the region.
pub fn pool(threads: usize) -> Program {
    let script = vec![region(4 * MS), other(4 * MS), Visit];
    Program { variation: 0.3, ..Program::new(2, vec![script; threads]) }
}
