//! Threads: each gets a slot, a sampler and its creator's account (rule 10), and gives them back.
//!
//! The calls that create threads are in `interpose/threads.rs`; what a thread runs first and last is here.

use crate::memory::shared;
use crate::real::real;
use crate::{call_stack, delay, follow, maps, sampler, signals, stretch, sys, tls, urgent, wait};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release, SeqCst},
};
use wire::Account;
use wire::slot::{Activity, Slot};

const RLIMIT_STACK: i64 = 3;

/// Key of thread-specific data whose destructor runs however a thread ends: return, `pthread_exit`,
/// cancellation.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// A fingerprint of the program that this process runs.
static PROGRAM: AtomicU64 = AtomicU64::new(0);

type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type CStart = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Once, before the first thread is registered.
pub fn prepare() {
    PROGRAM.store(sys::own_program(), Relaxed);
    if KEY.load(Relaxed) != u32::MAX {
        return;
    }
    let mut key = 0_u32;
    let create = real!(pthread_key_create: fn(*mut u32, Option<unsafe extern "C" fn(*mut c_void)>) -> c_int);
    if let Some(create) = create {
        // SAFETY: a valid place for the key, and a destructor that lives as long as the process.
        if unsafe { create(&raw mut key, Some(ended)) } == 0 {
            KEY.store(key, Relaxed);
        }
    }
}

/// Whether threads tell us that they end without any memory of the C library's.
pub fn is_told_of_ends() -> bool {
    const WITHOUT_MEMORY: u32 = 32;
    KEY.load(Relaxed) < WITHOUT_MEMORY
}

/// Registers the calling thread as the process's first. `stack_high`: an address above its stack;
/// `masked`: which of our signals it was started with blocked; `account`: that of the thread that has executed it.
pub fn register_main(stack_high: usize, masked: u32, account: Account) {
    if let Some(slot) = shared().slots.take() {
        let size = sys::soft_limit(RLIMIT_STACK).min(1 << 30) as usize;
        slot.stack_high.store(stack_high & !15, Relaxed);
        slot.stack_low.store(stack_high.saturating_sub(size), Relaxed);
        slot.local.inherit(account);
        slot.masked.store(masked, Relaxed);
        begin(slot);
    }
}

/// What a thread that the program has created does with its slot when it starts to run.
fn start(slot: &'static Slot) {
    find_stack(slot);
    begin_counted(slot);
    wait::after_birth(slot);
}

/// Begins, and counts what that takes.
pub fn begin_counted(slot: &'static Slot) {
    counted(|| begin(slot));
}

/// Does what threads do only because they are profiled, and counts the CPU time that it takes.
fn counted(does: impl FnOnce()) {
    let begin = sys::cpu_time();
    does();
    follow::took(shared(), begin);
}

/// What every thread does with its slot when it starts to run.
pub fn begin(slot: &'static Slot) {
    slot.doing(Activity::Running);
    slot.busy.store(0, Relaxed);
    slot.settling.store(0, Relaxed);
    slot.whole.store(0, Relaxed);
    slot.caught.store(0, Relaxed);
    slot.entering.store(0, Relaxed);
    slot.passed.store(0, Relaxed);
    signals::unshield();
    slot.word.store(tls::word(), Relaxed);
    // Before it is settling: the guardian waits for threads with the number of its process only.
    slot.pid.store(sys::getpid(), Relaxed);
    // With musl it has its creator's word at first. A program that was let go meanwhile gets none, which would lead to another thread's slot in the next session.
    tls::set_slot(None);
    tls::settling(slot, || {
        tls::set_slot(Some(slot));
        take_up(slot);
    });
}

/// Registers the calling thread, which has run before: whose stack reaches from `stack.start` to `stack.end`, and which has `mask` blocked.
pub fn register_late(stack: core::ops::Range<usize>, mask: u64) -> Option<&'static Slot> {
    let slot = shared().slots.take()?;
    slot.stack_low.store(stack.start, Relaxed);
    slot.stack_high.store(stack.end & !15, Relaxed);
    // It has nothing to do with what accrued before.
    slot.local.inherit(shared().required.load());
    slot.masked.store(signals::own_bits_of(mask), Relaxed);
    begin(slot);
    Some(slot)
}

fn take_up(slot: &'static Slot) {
    slot.program.store(PROGRAM.load(Relaxed), Relaxed);
    slot.origin.store(maps::origin() as u32, Relaxed);
    slot.generation.store(maps::generation(), Relaxed);
    slot.placed.store(0, Relaxed);
    slot.scratch.store(0, Relaxed);
    // Release: a reader that sees the thread ID also sees whose it is.
    slot.tid.store(sys::gettid(), Release);
    slot.interrupted.store(0, Relaxed);
    slot.carry.inherit(Account::default());
    slot.arrears.inherit(Account::default());
    slot.slack.store(sys::timer_slack(), Relaxed);
    slot.held.store(0, Relaxed);
    slot.spinning.store(0, Relaxed);
    slot.released_after.store(0, Relaxed);
    slot.circle_low.store(usize::MAX, Relaxed);
    slot.circle_seen.store(0, Relaxed);
    slot.circle_high.store(0, Relaxed);
    slot.pending.inherit(Account::default());
    slot.row.forget();
    slot.executing.store(0, Relaxed);
    slot.schedule.forget();
    slot.polled.forget();
    slot.open.iter().for_each(|open| open.begin.store(0, Relaxed));
    slot.behind.store(0, Relaxed);
    slot.yielding.store(0, Relaxed);
    slot.yielded.store(0, Relaxed);
    slot.missed.store(0, Relaxed);
    slot.timed_out.store(0, Relaxed);
    stretch::begin(slot);
    slot.last_sample.store(sys::now().0, Relaxed);
    let set = real!(pthread_setspecific: fn(u32, *const c_void) -> c_int);
    let key = KEY.load(Relaxed);
    if let Some(set) = set
        && key != u32::MAX
    {
        // SAFETY: a key of our own. The first 32 keys need no memory; ours is among them, because it was
        // made before the program's.
        unsafe { set(key, core::ptr::from_ref(slot).cast()) };
    }
    sampler::start(slot, urgent::PERMITTED);
    signals::adopt(slot);
}

/// The thread is over, or as good as. A thread that joins it is credited for the wait, so pay first (rule 4).
pub fn end(slot: &'static Slot) {
    // A thread that was cancelled asynchronously has left what it was in the midst of.
    slot.busy.store(0, Relaxed);
    slot.whole.store(0, Relaxed);
    delay::pay(slot);
    // Once all threads are left alone, the runtime makes no system calls in one that is not settling. The thread that leaves them alone closes the event of this one.
    let is_settling = slot.settling.fetch_add(1, SeqCst) != 0;
    let finishes = is_settling || !tls::are_all_left();
    if finishes {
        counted(|| {
            sampler::stop(slot);
            follow::forget_scratch(slot);
        });
    }
    slot.settling.store(0, Release);
    tls::set_slot(None);
    if finishes {
        shared().slots.give_back_of(slot, slot.tid.load(Relaxed));
    }
}

/// The thread is about to end, and is not told of it any more in a program that has no thread-specific data.
pub fn ends() {
    if let Some(slot) = tls::slot().filter(|_| has_no_key()) {
        end(slot);
    }
}

/// Whether the program has no thread-specific data at all.
pub fn has_no_key() -> bool {
    KEY.load(Relaxed) == u32::MAX
}

/// Destructor of [`KEY`].
unsafe extern "C" fn ended(_: *mut c_void) {
    if tls::is_in_go_with_c()
        && let Some(start) = call_stack::take_away()
    {
        sys::unmap(start, call_stack::SIZE);
    }
    if let Some(slot) = tls::slot() {
        end(slot);
    }
}

/// The calling thread has given up `former` and is to be sampled as before.
pub fn begin_again(former: &'static Slot) {
    let Some(slot) = shared().slots.take() else { return };
    slot.stack_low.store(former.stack_low.load(Relaxed), Relaxed);
    slot.stack_high.store(former.stack_high.load(Relaxed), Relaxed);
    slot.masked.store(former.masked.load(Relaxed), Relaxed);
    slot.local.inherit(former.local.load());
    begin(slot);
}

/// Gives back the slot of the thread that has executed this process's program, if it was this process's.
pub fn take_over(slot: u32) {
    let slots = &shared().slots;
    let former = slots.used().get(slot as usize);
    let own = |slot: &&Slot| slot.is_taken() && slot.pid.load(Relaxed) == sys::getpid();
    // The controller may do the same, because the process runs another program.
    former.into_iter().filter(own).for_each(|slot| slots.give_back_of(slot, slot.tid.load(Relaxed)));
}

/// A slot for a thread that is about to be created, with its creator's account.
pub fn reserve(start: usize, argument: *mut c_void, stack_size: usize) -> Option<&'static Slot> {
    if tls::is_left() {
        return None;
    }
    let slot = shared().slots.take()?;
    slot.start.store(start, Relaxed);
    slot.argument.store(argument.addr(), Relaxed);
    slot.stack_low.store(stack_size, Relaxed); // the size, until the thread knows its stack
    if let Some(creator) = tls::slot() {
        // What the creator has just done is credited before, not when the new thread runs.
        stretch::cross(creator, stretch::Call { function: start, subject: 0 });
    }
    let (local, masked) = tls::slot()
        .map_or_else(Default::default, |creator| (creator.local.load(), signals::handed_down(creator)));
    slot.local.inherit(if shared().header.has_rule(10) { local } else { local.emptied() });
    slot.masked.store(masked, Relaxed);
    Some(slot)
}

/// The stack of the calling thread reaches from here down to its size.
fn find_stack(slot: &Slot) {
    let here = core::ptr::from_ref(&slot).addr();
    let size = slot.stack_low.load(Relaxed);
    // Our caller is `start_thread` in the C library; a page above us is still the stack (thread control
    // block and static TLS follow), and the walk wants our caller's frames no more.
    slot.stack_high.store((here + 256) & !15, Relaxed);
    slot.stack_low.store(here.saturating_sub(size), Relaxed);
}

/// The program's part of a thread is over: its last stretch of code ends, and what it owes is paid.
fn returned() {
    if let Some(slot) = tls::slot() {
        stretch::cross(slot, stretch::Call { function: 0, subject: 0 });
        delay::pay(slot);
    }
}

/// Runs a POSIX thread. The frame is visible to unwinders and has nothing to clean up.
///
/// # Safety
/// `slot` must be what [`reserve`] has returned for this thread.
pub unsafe extern "C" fn run(slot: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` passed a slot that no other thread has.
    let slot: &'static Slot = unsafe { &*slot.cast() };
    let (start, argument) = (slot.start.load(Relaxed), slot.argument.load(Relaxed));
    self::start(slot);
    // SAFETY: what the program passed to `pthread_create`.
    let result = unsafe {
        core::mem::transmute::<usize, Start>(start)(core::ptr::with_exposed_provenance_mut(argument))
    };
    returned();
    result
}

/// Runs a C11 thread.
///
/// # Safety
/// As for [`run`].
pub unsafe extern "C" fn run_c11(slot: *mut c_void) -> c_int {
    // SAFETY: `thrd_create` passed a slot that no other thread has.
    let slot: &'static Slot = unsafe { &*slot.cast() };
    let (start, argument) = (slot.start.load(Relaxed), slot.argument.load(Relaxed));
    self::start(slot);
    // SAFETY: what the program passed to `thrd_create`.
    let result = unsafe {
        core::mem::transmute::<usize, CStart>(start)(core::ptr::with_exposed_provenance_mut(argument))
    };
    returned();
    result
}

/// The size that a thread's stack will have.
///
/// # Safety
/// `attributes` must be null or initialised thread attributes.
pub unsafe fn stack_size(attributes: *const c_void) -> usize {
    let get = real!(pthread_attr_getstacksize: fn(*const c_void, *mut usize) -> c_int);
    let mut size = 0;
    if let Some(get) = get
        && !attributes.is_null()
    {
        // SAFETY: the caller vouches for the attributes.
        unsafe { get(attributes, &raw mut size) };
    }
    if size == 0 {
        // The default is the soft limit of the main stack, or 2 MiB where there is none.
        size = sys::soft_limit(RLIMIT_STACK) as usize;
        if size > 1 << 40 {
            size = 2 << 20;
        }
    }
    // Less than that is surely mapped below the first frame.
    size.saturating_sub(32 * 1024)
}
