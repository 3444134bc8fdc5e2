//! One thread of the profiled program: its account, its books, its ring.

use crate::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, length};
use crate::mixing::Mixing;
use crate::ring::Ring;
use crate::{LocalAccount, Nanos};

/// Threads that can be profiled at once. Further ones run unprofiled and are counted.
pub const MAX_SLOTS: usize = length(16_384, 2);

/// The slot is unused.
const FREE: u32 = 0;
/// A thread that is being created, or runs.
const TAKEN: u32 = 1;

/// Where a process comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// It is the first one, or was forked from it.
    First = 0,
    /// It runs a program that another process has executed, whose addresses are translated ([`files`](crate::files)).
    Executed = 1,
    /// It was forked from one that does.
    ForkedFromExecuted = 2,
}

/// What tells the program of one process from that of another: by its file's inode and size.
#[must_use]
pub const fn fingerprint(inode: u64, size: u64) -> u64 {
    inode ^ size.rotate_left(40)
}

/// The same in the room that a sample has for it: not zero, unless the fingerprint is.
#[must_use]
pub const fn mark(fingerprint: u64) -> u16 {
    // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): the high bits depend on all others.
    let high = (fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
    if fingerprint != 0 && high == 0 { 1 } else { high }
}

/// A thread without a sample for this long is not running.
const LONG: Nanos = Nanos(50_000_000);

/// What a thread is doing, as far as the runtime knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Activity {
    /// Running, or waiting for a CPU.
    Running = 0,
    /// In a call that waits for another thread.
    WaitingForThread = 1,
    /// In a call that waits for a device or a clock.
    WaitingForWorld = 2,
    /// Making good a debt, asleep.
    Pausing = 3,
    /// Making good a debt without giving its CPU away (rule 8).
    KeepingCpu = 4,
}

/// Cumulative sums in nanoseconds over all threads that ever used the slot: the controller takes
/// differences, so nothing is lost when threads end and slots are used again. Written by the owner with
/// single atomic additions (its signal handler may interrupt it), relaxed.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Books {
    /// Credited for own samples in the selected region (rule 1).
    pub credited: AtomicU64,
    /// The part of `credited` for waits for the world that the region made, which no sample shows.
    pub asleep: AtomicU64,
    /// Credited for waits on other threads that a function announced (rule 5).
    pub inherited: AtomicU64,
    /// Credited for waits on other threads that a function announced and that spin.
    pub spun: AtomicU64,
    /// Credited for waits that no function announced, or that a thread would have ended during a pause for the world.
    pub hidden: AtomicU64,
    /// Credited for waits for a CPU (rule 7).
    pub queued: AtomicU64,
    /// Credit that was taken back because something let the thread go that comes at a time of its own (rule 6).
    pub taken_back: AtomicU64,
    /// Delay that it was credited with because what has ended its wait answers something that another thread has sent, in nanoseconds.
    pub answered: AtomicU64,
    /// Time from one arrival to the next in threads that wait for arrivals with a clock of their own, during experiments.
    pub serving: AtomicU64,
    /// The part of `serving` that the threads waited.
    pub idle: AtomicU64,
    /// Time from one arrival to the next in threads that wait for arrivals whose clock is not known, during experiments.
    pub doubtful: AtomicU64,
    /// Requests that were put off for longer than the time between two of their connection, by clients that seem to wait for an answer before the next: an open loop
    /// that has so few connections cannot go on while it is put off.
    pub crowded: AtomicU64,
    /// What noting visits at breakpoints took.
    pub noting: AtomicU64,
    /// Paused (rule 2).
    pub paid: AtomicU64,
    /// Paused longer than asked; taken off later debts.
    pub overslept: AtomicU64,
    /// CPU time that samples stood for.
    pub sampled: AtomicU64,
    /// Samples.
    pub samples: AtomicU64,
    /// Samples whose credit came too late for its experiment.
    pub stale: AtomicU64,
    /// Credit that had to wait until a call was over.
    pub deferred: AtomicU64,
    /// The part of `deferred` that has been given.
    pub caught_up: AtomicU64,
    /// For the audit, which shares nothing with the rules: time in calls that another thread ended, in ticks of the processor's
    /// clock.
    pub in_waits: AtomicU64,
    /// For the audit: time in calls that the world or a timeout ended, in ticks.
    pub in_world: AtomicU64,
    /// For the audit: time in pauses asleep.
    pub in_pauses: AtomicU64,
    /// For the audit: time in waits that no function announced, as context switches show.
    pub in_hidden: AtomicU64,
    /// For the audit: CPU time of pauses.
    pub pausing: AtomicU64,
    /// What `required` grew during waits that another thread ended.
    pub grown: AtomicU64,
    /// How many waits another thread ended.
    pub handovers: AtomicU64,
    /// How many of these were for a lock under which the thread then mostly ran the region.
    pub sections: AtomicU64,
}

/// Something that a thread has begun.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Open {
    /// The place of the counter of beginnings plus one, or zero.
    pub begin: AtomicU32,
    /// The window in which it began.
    pub epoch: AtomicU32,
    /// When it began, by the thread's own clock.
    pub time: AtomicU64,
}

/// What samples found in the stretches of code that begin with one call.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Share {
    /// Names the call.
    pub name: AtomicU64,
    /// Time in the region and altogether, and the share that follows from them, as `stretch` of the runtime packs it.
    pub seen: AtomicU64,
}

/// What a thread does while the selected region runs in others, as pairs of samples at nearly the same moment show.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Meanwhile {
    /// The region that this is about.
    pub region: AtomicU32,
    /// Hits of others close to a sample of this thread.
    pub hits: AtomicU32,
    /// Hits of others at which this thread was spinning.
    pub spinning: AtomicU32,
    /// Samples of this thread.
    pub samples: AtomicU32,
    /// Samples of this thread that found it spinning.
    pub spins: AtomicU32,
    /// What the thread has made `required` grow so far, in nanoseconds.
    pub raised: AtomicU64,
    /// `required` at the last sample.
    pub required: LocalAccount,
    /// What the thread had been credited with by the last sample.
    pub credited: AtomicU64,
    /// How long spins last, compared with the time between samples.
    pub mixing: Mixing,
}

/// Calls of `sched_yield` that follow each other closely.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Row {
    /// When the first call began, by the processor's clock.
    pub begin: AtomicU64,
    /// When the last call was over, by the processor's clock.
    pub last: AtomicU64,
    /// What was noted of `required` before this moment is credited (monotonic clock).
    pub seen: AtomicU64,
    /// What had been credited for waits for a CPU by `seen`.
    pub queued: AtomicU64,
    /// What had been credited for waits for a CPU when the last call was over.
    pub queued_last: AtomicU64,
    /// What the thread was credited with for rows since its last sample, in nanoseconds.
    pub given: AtomicU64,
    /// How many calls there are.
    pub yields: AtomicU32,
    /// Samples, in all rows, that found the thread spinning.
    pub spins: AtomicU32,
    /// Samples, in all rows, that found the thread at work.
    pub works: AtomicU32,
    /// Whether there was a wait of this kind since the last sample.
    pub met: AtomicU32,
    /// A sample that found the thread at work (2) or spinning (1) and counts if the row goes on.
    pub doubtful: AtomicU32,
    reserved: u32,
}

impl Row {
    /// There was none, and no sample of any.
    pub fn forget(&self) {
        for number in [&self.yields, &self.spins, &self.works, &self.met, &self.doubtful] {
            number.store(0, Ordering::Relaxed);
        }
        self.given.store(0, Ordering::Relaxed);
    }
}

/// The deadlines that a thread waits for, one after the other.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Schedule {
    /// The last deadline, on its clock.
    pub due: AtomicU64,
    /// How long the last deadline was after the one before it.
    pub gap: AtomicU64,
    /// How far ahead the last deadline was when the thread began to wait, as an `i64`.
    pub lead: AtomicU64,
    /// How often the distance between deadlines stayed and that from the thread changed.
    pub fixed: AtomicU32,
    /// How often the distance between deadlines changed and that from the thread stayed.
    pub moving: AtomicU32,
    /// Whether the thread met the last deadline in time for which there was no delay.
    pub in_time: AtomicU32,
    reserved: u32,
}

impl Schedule {
    /// There was none.
    pub fn forget(&self) {
        for number in [&self.due, &self.gap, &self.lead] {
            number.store(0, Ordering::Relaxed);
        }
        for number in [&self.fixed, &self.moving, &self.in_time] {
            number.store(0, Ordering::Relaxed);
        }
    }
}

/// The last time that a thread waited for any of several descriptors, on the monotonic clock, and what it got from outside.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Polled {
    /// When it began to wait.
    pub began: AtomicU64,
    /// When it went on.
    pub ended: AtomicU64,
    /// When it went on the time before.
    pub before: AtomicU64,
    /// Whether nothing was there when it began.
    pub waited: AtomicU32,
    /// The delay of the thread that set in motion what has ended the wait, if that is known.
    pub sender: LocalAccount,
    /// Counted down from a few with every arrival that it did not wait for: zero means that it has a backlog without delays, too.
    pub in_time: AtomicU32,
    /// When its last arrival was handed to it.
    pub arrival: AtomicU64,
    /// The mean time between arrivals, in nanoseconds.
    pub gap: AtomicU64,
    /// The window that this is about.
    pub epoch: AtomicU32,
    /// The window in which the last thing with a clock of its own came.
    pub served_epoch: AtomicU32,
    /// When the last thing with a clock of its own was handed to the thread.
    pub served: AtomicU64,
}

impl Polled {
    /// There was none.
    pub fn forget(&self) {
        for number in [&self.began, &self.ended, &self.before, &self.arrival, &self.gap] {
            number.store(0, Ordering::Relaxed);
        }
        for number in [&self.waited, &self.in_time, &self.epoch, &self.served_epoch] {
            number.store(0, Ordering::Relaxed);
        }
    }
}

/// A thread.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[cfg_attr(not(loom), repr(C, align(4096)))]
pub struct Slot {
    state: AtomicU32,
    /// Thread ID, zero until the thread runs.
    pub tid: AtomicU32,
    /// Process ID: children share the table.
    pub pid: AtomicU32,
    /// An [`Origin`].
    pub origin: AtomicU32,
    /// The number of the program among those that were executed, also in its forked children.
    pub generation: AtomicU32,
    /// Whether the controller has placed its points in the process; the thread waits for it (a futex) where [`placing`](crate::Header::placing) says so.
    pub placed: AtomicU32,
    /// A fingerprint of the program that the process runs ([`fingerprint`]).
    pub program: AtomicU64,
    /// An [`Activity`].
    pub activity: AtomicU32,
    /// The delay it has been credited with or has paid.
    pub local: LocalAccount,
    /// Overslept time of this epoch that has not been taken off a debt yet.
    pub carry: LocalAccount,
    /// Debts of this epoch that were put off: `local` says that they are paid, and the thread pauses for several at once.
    pub arrears: LocalAccount,
    /// Greater than zero while the thread changes its own account outside the signal handler, which
    /// then leaves the account alone.
    pub busy: AtomicU32,
    /// Whether a sample arrived while `busy`; its credit is in `deferred`.
    pub interrupted: AtomicU32,
    /// Credit that waits for `busy` to end, and the epoch it belongs to.
    pub deferred: LocalAccount,
    /// The sums.
    pub books: Books,

    /// Runtime only: greater than zero while the thread begins, pauses or handles a sample, so that it must not come under a filter of system calls.
    pub settling: AtomicU32,

    /// Runtime only: descriptor of the sampling event, or −1.
    pub event: AtomicI32,
    /// Runtime only: kernel ID of the sampling timer, or −1.
    pub timer: AtomicI32,
    /// Runtime only: CPU time of the thread when the last sample had been handled, in nanoseconds.
    pub sampled_until: AtomicU64,
    /// Runtime only: whether the next sample is one that fell into a pause.
    pub overdue: AtomicU32,
    /// Runtime only: whether the current period is only what was left of an ended thread's.
    pub remainder: AtomicU32,
    /// Runtime only: the mean period of which the current one was drawn, in nanoseconds.
    pub mean_period: AtomicU64,
    /// Runtime only: how often the thread had got a CPU when that was last looked at, or zero.
    pub times_run: AtomicU64,
    /// Runtime only: its CPU time then, in nanoseconds.
    pub looked_at: AtomicU64,
    /// Runtime only: whether a sample has found it waiting by spinning since then.
    pub spun: AtomicU32,
    /// Runtime only: whether a timer has missed it for long, so that it is not sampled by one any more.
    pub missed: AtomicU32,
    /// Runtime only: what it waited since for CPUs that others had, in nanoseconds.
    pub stolen: AtomicU64,
    /// Runtime only: CPU time of ended threads that no sample has stood for yet, in nanoseconds.
    pub unsampled: AtomicU64,
    /// Runtime only: state of the generator for the jitter.
    pub random: AtomicU64,
    /// Bounds of the stack, for the walk along frame pointers. In a program that was attached to the controller sets them; until then they are those of a page.
    pub stack_low: AtomicUsize,
    /// See `stack_low`.
    pub stack_high: AtomicUsize,
    /// Runtime only: where it puts together what it asks before it executes a program, or zero. A `vfork`ed child uses its parent's.
    pub scratch: AtomicUsize,
    /// Runtime only: what the new thread is to run.
    pub start: AtomicUsize,
    /// Runtime only: its argument.
    pub argument: AtomicUsize,
    /// Runtime only: timer slack that the program had set, restored after a pause; nanoseconds.
    pub slack: AtomicU64,
    /// Runtime only: `required` when a `_coz_pre_block` began, for its `_coz_post_block`.
    pub blocked: LocalAccount,
    /// Runtime only: samples since the thread's wait began. One that keeps using the CPU does not wait: it
    /// has left the call with `siglongjmp`.
    pub waited: AtomicU32,
    /// Runtime only: the signal that carries samples if it is asynchronous, which ends some system calls early; zero otherwise.
    pub asynchronous: AtomicU32,
    /// Runtime only: those of our two signals that the program believes to have blocked, as bits.
    pub masked: AtomicU32,
    /// Runtime only: those that have come for the program meanwhile.
    pub held: AtomicU32,
    /// Runtime only: the `siginfo_t` of each.
    pub held_info: [[AtomicU64; 16]; 2],

    /// Runtime only: greater than zero while the thread pauses or handles a sample: no handler of the program's runs meanwhile.
    pub whole: AtomicU32,
    /// Runtime only: the signal whose handler waits for that to end, or zero.
    pub caught: AtomicU32,
    /// Runtime only: what the thread had blocked when it came.
    pub caught_mask: AtomicU64,
    /// Runtime only: its `siginfo_t`.
    pub caught_info: [AtomicU64; 16],
    /// Runtime only: whether the thread blocks more signals for a moment than the program has it block: it enters a handler, or is about to.
    pub entering: AtomicU32,
    /// Runtime only: what it blocks otherwise.
    pub entering_mask: AtomicU64,
    /// Runtime only: the signal that another thread has passed on to this one, or zero.
    pub passed: AtomicU32,
    /// Runtime only: its `siginfo_t`, as far as the kernel fills one for a signal to a process.
    pub passed_info: [AtomicU64; 6],

    /// Runtime only: the mapped records of context switches, or zero.
    pub switches: AtomicUsize,
    /// Runtime only: when the thread was last switched out, and whether in the middle of its work (1) or to wait (2).
    pub out_time: AtomicU64,
    /// Runtime only: see `out_time`.
    pub out_kind: AtomicU32,
    /// Runtime only: whether the thread has paused since the last sample that was looked at.
    pub paused: AtomicU32,
    /// Runtime only: whether the last sample found the thread spinning.
    pub spinning: AtomicU32,
    /// Runtime only: the sample before the thread was let go when it last spun, or zero if all credit for that has been given.
    pub released_after: AtomicU64,
    /// Runtime only: the sample after the thread was let go when it last spun.
    pub released_before: AtomicU64,
    /// Runtime only: the first place in the code where it was last seen spinning, or zero.
    pub circle_low: AtomicUsize,
    /// Runtime only: the last place in the code where it was last seen spinning.
    pub circle_high: AtomicUsize,
    /// Runtime only: how often it was seen, less what contradicted it.
    pub circle_seen: AtomicU32,
    /// Runtime only: calls of `sched_yield` since the last sample.
    pub yielded: AtomicU32,
    /// Runtime only: whether the thread is in a call of `sched_yield`.
    pub yielding: AtomicU32,
    /// Runtime only: the latest calls of `sched_yield` that followed each other closely.
    pub row: Row,
    /// Runtime only: what it did while the region ran in other threads.
    pub meanwhile: Meanwhile,
    /// Runtime only: names the call that the current stretch of code began with.
    pub site: AtomicU64,
    /// Runtime only: names the function that was called.
    pub kind: AtomicU64,
    /// Runtime only: since when, by the processor's clock, nothing of it has been credited. Not kept up to date where `share` is zero.
    pub stretch_ticks: AtomicU64,
    /// Runtime only: whether a stretch has ended since the last sample of one.
    pub crossed: AtomicU32,
    /// Runtime only: whether that sample hit the region.
    pub hit: AtomicU32,
    /// Runtime only: the region that `shares` and `hit` are about.
    pub learnt: AtomicU32,
    /// Runtime only: the share of that region in the current stretch, as far as it was known at its beginning or at the last sample; zero: nothing of it is
    /// credited before a sample finds it.
    pub share: AtomicU32,
    /// Runtime only: shares of that region in stretches, by `site`.
    pub shares: [Share; 16],
    /// Runtime only: shares of that region in stretches, by `kind`.
    pub kinds: [Share; 8],
    /// Runtime only: time that samples found in the region less the time that was credited, as an `i64`.
    pub balance: AtomicU64,
    /// Runtime only: credit that was too little to tell the others.
    pub pending: LocalAccount,
    /// When the thread began to wait, by the processor's clock.
    pub wait_ticks: AtomicU64,
    /// Runtime only: when it began to wait for a child that has its memory, by the same clock.
    pub vfork_ticks: AtomicU64,
    /// Runtime only: what it was doing before that.
    pub vfork_activity: AtomicU32,
    /// Runtime only: how long it had waited for CPUs when it fell asleep, in nanoseconds plus one, or zero.
    pub queued_before: AtomicU64,
    /// Runtime only: the region that the thread was last found in when it had waited for the world.
    pub sleeper: AtomicU32,
    /// Whether the thread is executing another program, and never comes back unless that fails.
    pub executing: AtomicU32,
    /// Runtime only: what the thread has begun and not ended.
    pub open: [Open; 8],
    /// Runtime only: whether a clock ended its last wait, and what accrued meanwhile has not been paid yet.
    pub timed_out: AtomicU32,
    /// The experiment in which a deadline or an arrival last let the thread go that was in time before; zero once it has met one in time
    /// without an experiment.
    pub behind: AtomicU32,
    /// Runtime only: what `required` was when the thread began to wait.
    pub wait_required: LocalAccount,
    /// Runtime only: what the thread waits for that comes at a time of its own.
    pub schedule: Schedule,
    /// Runtime only: what it got from outside.
    pub polled: Polled,
    /// Runtime only: fingerprint of the registers at the last sample, and its instruction.
    pub registers: AtomicU64,
    /// Runtime only: see `registers`.
    pub instruction: AtomicUsize,
    /// When the last sample was handled, or the thread began (monotonic clock).
    pub last_sample: AtomicU64,
    /// Where the thread keeps the address of this slot: the one word of it that is ours.
    pub word: AtomicUsize,

    /// Samples for the controller.
    pub ring: Ring,
}

impl Slot {
    /// Whether a thread uses the slot. Acquire: pairs with [`Slots::take`] and [`release`](Self::release).
    pub fn is_taken(&self) -> bool {
        self.state.load(Ordering::Acquire) != FREE
    }

    /// The slot's number among those of a table.
    pub fn number(&self, slots: &Slots) -> u32 {
        let offset = core::ptr::from_ref(self).addr() - slots.slots.as_ptr().addr();
        (offset / size_of::<Slot>()) as u32
    }

    /// Gives the slot back. The books and the ring stay for the controller.
    pub fn release(&self) {
        self.tid.store(0, Ordering::Relaxed);
        self.state.store(FREE, Ordering::Release);
    }

    /// It is taken: nothing samples its thread yet. (A new memory is all zeros, and a zero is a descriptor and a timer of the program's.)
    fn has_no_sampler(&self) {
        self.event.store(-1, Ordering::Relaxed);
        self.timer.store(-1, Ordering::Relaxed);
    }

    /// What the thread is doing.
    pub fn doing(&self, activity: Activity) {
        self.activity.store(activity as u32, Ordering::Relaxed);
    }

    /// Whether the thread pauses.
    pub fn is_pausing(&self) -> bool {
        self.is_doing(Activity::Pausing) || self.is_doing(Activity::KeepingCpu)
    }

    /// Whether the addresses of its process are translated.
    pub fn is_executed(&self) -> bool {
        self.origin.load(Ordering::Relaxed) != Origin::First as u32
    }

    /// Whether its process runs a program that another one has executed, and was not forked since.
    pub fn has_executed_itself(&self) -> bool {
        self.origin.load(Ordering::Relaxed) == Origin::Executed as u32
    }

    /// Whether the thread runs or wants to, or pauses, at the time `now` (monotonic clock). One that has had no
    /// sample for long does not: it waits in a call that is not interposed.
    pub fn can_run(&self, now: Nanos) -> bool {
        let oldest = now.saturating_sub(LONG);
        let active = self.is_doing(Activity::Running) || self.is_pausing();
        active && self.is_taken() && self.last_sample.load(Ordering::Relaxed) >= oldest.0
    }

    /// Whether the thread is doing that.
    pub fn is_doing(&self, activity: Activity) -> bool {
        self.activity.load(Ordering::Relaxed) == activity as u32
    }
}

/// All threads.
#[derive(Debug)]
#[cfg_attr(loom, derive(Default))]
#[cfg_attr(not(loom), repr(C, align(4096)))]
pub struct Slots {
    /// One more than the highest slot ever used, so that the controller need not look further.
    used: AtomicU32,
    /// Where the search for a free slot begins.
    hint: AtomicU32,
    /// Threads that found none.
    pub refused: AtomicU64,
    slots: [Slot; MAX_SLOTS],
}

impl Slots {
    /// Takes a free slot for a thread. `None`, and counted, when there is none.
    pub fn take(&self) -> Option<&Slot> {
        let first = self.hint.load(Ordering::Relaxed) as usize;
        for step in 0..MAX_SLOTS {
            let index = (first + step) % MAX_SLOTS;
            let slot = &self.slots[index];
            let free = slot.state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                self.used.fetch_max(index as u32 + 1, Ordering::AcqRel);
                self.hint.store(index as u32 + 1, Ordering::Relaxed);
                slot.has_no_sampler();
                return Some(slot);
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Takes the slot that has the place of one in another table, if it is free.
    pub fn take_same(&self, number: u32) -> Option<&Slot> {
        let slot = self.slots.get(number as usize)?;
        slot.state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        self.used.fetch_max(number + 1, Ordering::AcqRel);
        slot.has_no_sampler();
        Some(slot)
    }

    /// The first slots stay free as long as there are others.
    pub fn keep_free(&self, first: usize) {
        self.hint.fetch_max(first as u32, Ordering::Relaxed);
    }

    /// Gives a slot back and lets the next thread have it, while its memory is warm.
    pub fn give_back(&self, slot: &Slot) {
        slot.release();
        self.hint.fetch_min(slot.number(self), Ordering::Relaxed);
    }

    /// The same for the slot of a thread that is gone, unless another one has given it back meanwhile: `thread` is the thread's ID.
    pub fn give_back_of(&self, slot: &Slot, thread: u32) {
        let tid = slot.tid.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Relaxed);
        if thread != 0 && tid.is_ok() {
            self.give_back(slot);
        }
    }

    /// Every slot that was ever used, free ones included (their books count, and their rings may hold
    /// samples).
    pub fn used(&self) -> &[Slot] {
        &self.slots[..(self.used.load(Ordering::Acquire) as usize).min(MAX_SLOTS)]
    }

    /// Whether a process has threads that are profiled, or had until a moment ago.
    pub fn has_process(&self, process: u32) -> bool {
        // One that executes another program, and has not come back, is profiled only if that joins, with a slot of its own.
        let is_its = |slot: &Slot| {
            slot.pid.load(Ordering::Relaxed) == process && slot.executing.load(Ordering::Relaxed) == 0
        };
        process != 0 && self.used().iter().any(is_its)
    }

    /// The sums of all threads' books, in nanoseconds (samples: number).
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for slot in self.used() {
            let books = &slot.books;
            let read = |field: &AtomicU64| field.load(Ordering::Relaxed);
            totals.credited += Nanos(read(&books.credited));
            totals.asleep += Nanos(read(&books.asleep));
            totals.inherited += Nanos(read(&books.inherited));
            totals.spun += Nanos(read(&books.spun));
            totals.hidden += Nanos(read(&books.hidden));
            totals.deferred += Nanos(read(&books.deferred));
            totals.caught_up += Nanos(read(&books.caught_up));
            totals.pausing += Nanos(read(&books.pausing));
            totals.grown += Nanos(read(&books.grown));
            totals.handovers += read(&books.handovers);
            totals.sections += read(&books.sections);
            totals.queued += Nanos(read(&books.queued));
            totals.paid += Nanos(read(&books.paid));
            totals.taken_back += Nanos(read(&books.taken_back));
            totals.answered += Nanos(read(&books.answered));
            totals.serving += Nanos(read(&books.serving));
            totals.idle += Nanos(read(&books.idle));
            totals.doubtful += Nanos(read(&books.doubtful));
            totals.crowded += read(&books.crowded);
            totals.noting += Nanos(read(&books.noting));
            totals.overslept += Nanos(read(&books.overslept));
            totals.sampled += Nanos(read(&books.sampled));
            totals.samples += read(&books.samples);
            totals.stale += read(&books.stale);
            totals.lost += slot.ring.lost();
        }
        totals
    }
}

/// Sums over all threads; see [`Books`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Credited for samples in the region.
    pub credited: Nanos,
    /// The part of `credited` for waits for the world that the region made.
    pub asleep: Nanos,
    /// Credited for waits on other threads that a function announced.
    pub inherited: Nanos,
    /// Credited for such waits that spin.
    pub spun: Nanos,
    /// Credited for such waits that no function announced.
    pub hidden: Nanos,
    /// Credit that had to wait until a call was over.
    pub deferred: Nanos,
    /// The part of `deferred` that has been given.
    pub caught_up: Nanos,
    /// CPU time of pauses.
    pub pausing: Nanos,
    /// What `required` grew during waits that another thread ended.
    pub grown: Nanos,
    /// How many waits another thread ended.
    pub handovers: u64,
    /// How many of these were for a lock under which the thread then mostly ran the region.
    pub sections: u64,
    /// Credited for waits for a CPU.
    pub queued: Nanos,
    /// Paused.
    pub paid: Nanos,
    /// Paused longer than asked.
    pub overslept: Nanos,
    /// See [`Books::taken_back`].
    pub taken_back: Nanos,
    /// See [`Books::answered`].
    pub answered: Nanos,
    /// See [`Books::serving`].
    pub serving: Nanos,
    /// See [`Books::idle`].
    pub idle: Nanos,
    /// See [`Books::doubtful`].
    pub doubtful: Nanos,
    /// See [`Books::crowded`]
    pub crowded: u64,
    /// and [`Books::noting`].
    pub noting: Nanos,
    /// CPU time that samples stood for.
    pub sampled: Nanos,
    /// Samples.
    pub samples: u64,
    /// Samples whose credit came too late.
    pub stale: u64,
    /// Samples that found no room in a ring.
    pub lost: u64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 20480);
