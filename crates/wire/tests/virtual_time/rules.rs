//! The rules of virtual time (`crates/runtime/README.md`), each of which can be broken.

use crate::program::{MS, US};

/// Rules 2 and 8: how a thread pauses that owes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pause {
    /// Not at all.
    Never,
    /// It sleeps; another thread may have its CPU meanwhile.
    Asleep,
    /// It keeps its CPU.
    OnCpu,
    /// It keeps its CPU if more threads can run than there are CPUs when the pause begins.
    IfWanted,
}

/// Rule 5: what a thread is credited with that was woken by another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Woken {
    /// Nothing.
    Nothing,
    /// What `required` grew during the wait.
    Growth,
    /// The time that it waited, but not more than would give it the delay of its waker.
    Waker,
}

/// Rule 6: what a thread does that comes back from the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum World {
    /// It goes on until it is sampled.
    Later,
    /// It pays, in the way of all pauses.
    AtOnce,
    /// It pays asleep.
    AtOnceAsleep,
}

/// Rule 7: what a thread is credited with that had to wait for a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    /// Nothing.
    Nothing,
    /// What `required` grew during the wait.
    Growth,
    /// The time that it waited, but not more than makes it level.
    Level,
    /// The time that it waited, but not more than would give it the delay of the thread that had the CPU before;
    /// and it owes what that one left unpaid.
    Holder,
}

/// What is known about the time between the last sample and a call that waits or wakes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Boundary {
    /// Nothing: the next sample will tell.
    Ignored,
    /// That part of it which samples have found to be the region, on average, after the last such call.
    /// Samples are credited like that, too, instead of for what they find.
    Learned,
    /// An oracle knows which part of it was the region; and of the time before samples, too.
    Known,
}

/// How a virtual execution is conducted.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Mean CPU time between two samples.
    pub period: u64,
    /// 1: `required` is the maximum of all credits, not their sum.
    pub maximum: bool,
    /// 2 and 8.
    pub pause: Pause,
    /// 3: samples that are handled at a time.
    pub batch: u32,
    /// 4: threads pay before they block or wake.
    pub pay_first: bool,
    /// 5.
    pub woken: Woken,
    /// 6.
    pub world: World,
    /// 6, for what comes at a time of its own: the thread's clock shows that time at least.
    pub deadlines: bool,
    /// 7.
    pub queue: Queue,
    /// 7, for the wait for a CPU that follows a sleeping pause: taken off later debts instead.
    pub carry: bool,
    /// 9: a new window begins level.
    pub epochs: bool,
    /// Not a rule, and no kernel does it: time slices are of virtual time.
    pub virtual_slices: bool,
    /// Not a rule: see [`Boundary`].
    pub boundary: Boundary,
}

impl Rules {
    /// The theory: all clocks are kept, of CPUs as well, and there is hardly any time between samples.
    pub const THEORY: Self = Self {
        period: 20 * US,
        maximum: true,
        pause: Pause::OnCpu,
        batch: 1,
        pay_first: true,
        woken: Woken::Waker,
        world: World::AtOnceAsleep,
        deadlines: true,
        queue: Queue::Holder,
        carry: false,
        epochs: true,
        virtual_slices: true,
        boundary: Boundary::Ignored,
    };

    /// What `crates/runtime` does, but for stretches: here a sample is all that credits.
    pub const RUNTIME: Self = Self {
        period: MS,
        pause: Pause::IfWanted,
        woken: Woken::Growth,
        queue: Queue::Growth,
        carry: true,
        virtual_slices: false,
        ..Self::THEORY
    };
}
