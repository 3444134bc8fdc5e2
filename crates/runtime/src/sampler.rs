//! What interrupts a thread: a perf event or a timer, its start and stop, and the CPU time that it counts.
//!
//! A software perf event on the task clock is used where the kernel allows one, otherwise a POSIX timer
//! on the thread's CPU clock, which is only as fine as the kernel's tick. Neither needs a ring buffer:
//! the signal's context has the instruction and the frame pointer, for samples in system calls as well.
//!
//! The event raises `SIGTRAP` in the thread itself (`attr.sigtrap`, Linux 5.13): the kernel does that on
//! its way back to user mode, without a second interrupt and without waking a thread that sleeps, so no
//! system call ever fails with `EINTR` for it. An asynchronous signal on overflow costs twice as much
//! (measured: 16 µs more per sample on a virtual machine, of which this is free). It is what older
//! kernels, traced programs (a debugger would stop at every sample) and forked children (which are likely
//! to execute another program, where a pending `SIGTRAP` would be deadly) get.
//!
//! The event goes on counting in a pause that keeps its CPU, so it is set anew behind each, and a sample that fell into
//! one is dropped. (Otherwise the code behind pauses would be sampled sooner, or be taken for what was sampled in
//! them: measured, a tenth of a region's time went to other code.)
//!
//! Does nothing with a sample: `sampling` does, whose handler this file does not know.

use crate::memory::shared;
use crate::{period, random, switches, sys};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use wire::Nanos;
use wire::layout::Sampler;
use wire::slot::Slot;

/// Carries samples without an interrupt of its own; see the module.
pub const SIGTRAP: i32 = 5;
/// Carries samples otherwise. By default it is ignored, so one that is pending when the program
/// executes another does not kill that one; debuggers pass it on without stopping.
pub const SIGURG: i32 = 23;

/// `si_code` of a `SIGTRAP` from perf; `si_perf_data` is then the address of the slot.
pub const TRAP_PERF: i32 = 6;
/// `si_code` of a timer's signal; its value is then the address of the slot.
pub const SI_TIMER: i32 = -2;

/// CPU time that a pause uses if it sleeps.
const SHORT: Nanos = Nanos(20_000);

const F_SETFL: i64 = 4;
const F_SETSIG: i64 = 10;
const F_SETOWN_EX: i64 = 15;
const O_ASYNC: i64 = 0o20000;

const IOC_ENABLE: i64 = 0x2400;
const IOC_DISABLE: i64 = 0x2401;
const IOC_PERIOD: i64 = 0x4008_2404;

/// Who uses `SIGURG`.
static URG: AtomicU32 = AtomicU32::new(FREE);
const FREE: u32 = 0;
const CARRIES: u32 = 1;
const TAKEN: u32 = 2;

/// Whether `SIGURG` is the program's.
pub fn urg_is_taken() -> bool {
    URG.load(SeqCst) == TAKEN
}

/// Whether `SIGURG` carries samples.
pub fn urg_carries() -> bool {
    URG.load(SeqCst) == CARRIES
}

/// `SIGURG` carries samples from now on; false if it is the program's.
pub fn use_urg() -> bool {
    URG.compare_exchange(FREE, CARRIES, SeqCst, SeqCst) != Err(TAKEN)
}

/// `SIGURG` is the program's from now on; whether it has carried samples until now.
pub fn leave_urg() -> bool {
    URG.swap(TAKEN, SeqCst) == CARRIES
}

/// Whether each signal may carry samples: asked when one is needed.
#[derive(Clone, Copy, Debug)]
pub struct Permitted {
    pub trap: fn() -> bool,
    pub urg: fn() -> bool,
}

/// Starts sampling the calling thread, whose slot is `slot`.
pub fn start(slot: &Slot, permitted: Permitted) {
    let header = &shared().header;
    slot.asynchronous.store(0, Relaxed);
    switches::reset(slot);
    slot.times_run.store(0, Relaxed);
    let best = Sampler::from_number(header.sampling.load(Relaxed));
    if matches!(best, Sampler::None | Sampler::Unknown) || is_over() {
        return;
    }
    // Goes on where the last thread of the slot has left off. If every thread began a period of its own, one
    // that is shorter than a period would never have a sample.
    if slot.random.load(Relaxed) == 0 {
        slot.random.store(sys::now().0 ^ (u64::from(slot.tid.load(Relaxed)) << 32) | 1, Relaxed);
        slot.unsampled.store(period::some_age(slot).0, Relaxed);
    }
    let unsampled = slot.unsampled.swap(0, Relaxed);
    let first = period::rest(slot, Nanos(unsampled));
    slot.remainder.store(1, Relaxed);
    // An event counts from zero. May wrap around below it, for it is only ever subtracted from the same clock.
    slot.sampled_until.store(0_u64.wrapping_sub(unsampled), Relaxed);
    let perf = |trap| if best == Sampler::Timer { None } else { start_event(slot, first, best, trap) };
    let by_trap = || (permitted.trap)().then(|| perf(true)).flatten();
    let by_urg = || if best != Sampler::Timer && (permitted.urg)() { perf(false) } else { None };
    let by_timer = || {
        slot.sampled_until.store(sys::cpu_time().0.wrapping_sub(unsampled), Relaxed);
        start_timer(slot, first, permitted)
    };
    let sampler = by_trap().or_else(by_urg).unwrap_or_else(by_timer);
    header.sampler.fetch_max(sampler as u32, Relaxed);
}

/// Whether nothing will be sampled any more: the controller has said so, or was found to have ended ([`look_for_controller`]).
fn is_over() -> bool {
    shared().header.alive_until() == Nanos::ZERO
}

/// Nothing was heard of the controller for a while. Whether sampling is over because it has ended; one that is only stopped may go on.
/// Called from the signal handler.
pub fn look_for_controller() -> bool {
    let header = &shared().header;
    let controller = header.controller.load(Relaxed);
    if !is_over() && controller != 0 && sys::has_ended(controller) {
        header.alive_until.store(0, Relaxed);
        // The controller, which has asked for them, has ended.
        header.counting_requests.store(0, Relaxed);
    }
    is_over()
}

/// Opens the perf event; kernel time first, without if that is refused or not wanted.
fn start_event(slot: &Slot, period: Nanos, best: Sampler, trap: bool) -> Option<Sampler> {
    const SOFTWARE: u64 = 1;
    const SIZE: u64 = 128;
    const TASK_CLOCK: u64 = 1;
    const DISABLED: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HV: u64 = 1 << 6;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const USE_CLOCKID: u64 = 1 << 25;
    const CONTEXT_SWITCH: u64 = 1 << 26;
    const SAMPLE_TIME: u64 = 1 << 2;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const TRAP: u64 = 1 << 37;
    let mut attributes = [0_u64; 16];
    attributes[0] = SOFTWARE | (SIZE << 32);
    attributes[1] = TASK_CLOCK;
    attributes[2] = period.0;
    // For the records of context switches: their time, on the monotonic clock.
    attributes[3] = SAMPLE_TIME;
    attributes[5] = DISABLED | EXCLUDE_HV | SAMPLE_ID_ALL | USE_CLOCKID | CONTEXT_SWITCH;
    attributes[11] = (sys::CLOCK_MONOTONIC as u64) << 32;
    if trap {
        attributes[5] |= REMOVE_ON_EXEC | TRAP;
        attributes[15] = core::ptr::from_ref(slot).addr() as u64; // comes back with the signal
    }
    let refusal = &shared().header.refusal;
    let mut sampler = Sampler::Perf;
    let mut fd = if best == Sampler::PerfUser { -1 } else { sys::perf_event_open(&attributes) };
    if fd < 0 {
        sampler = Sampler::PerfUser;
        attributes[5] |= EXCLUDE_KERNEL;
        if best != Sampler::PerfUser {
            refusal.store(-fd as u32, Relaxed);
        }
        fd = sys::perf_event_open(&attributes);
    }
    if fd < 0 {
        return None;
    }
    let fd = sys::out_of_the_way(fd as i32);
    let owner = [0_i32, sys::gettid() as i32]; // F_OWNER_TID
    let ready = trap
        || sys::fcntl(fd, F_SETFL, O_ASYNC) >= 0
            && sys::fcntl(fd, F_SETSIG, i64::from(SIGURG)) >= 0
            && sys::fcntl(fd, F_SETOWN_EX, owner.as_ptr() as i64) >= 0;
    slot.event.store(fd, Relaxed);
    slot.asynchronous.store(if trap { 0 } else { SIGURG as u32 }, Relaxed);
    if !ready || sys::ioctl(fd, IOC_ENABLE, 0) < 0 {
        slot.event.store(-1, Relaxed);
        slot.asynchronous.store(0, Relaxed);
        sys::close(fd);
        return None;
    }
    Some(sampler)
}

/// Whether a timer samples the calling thread although it has an event.
pub fn has_both(slot: &Slot) -> bool {
    slot.timer.load(Relaxed) >= 0 && slot.event.load(Relaxed) >= 0
}

/// Whether a timer could sample the calling thread in place of its event: that raises `SIGTRAP`, as the timer's will be, and tells of the kernel's time as well. (On kernels that
/// have such events a timer expires where the thread returns to its program, so that no system call ends early either.)
pub fn may_choose(slot: &Slot) -> bool {
    let is_event = slot.event.load(Relaxed) >= 0 && slot.asynchronous.load(Relaxed) == 0;
    is_event && shared().header.sampler() == Sampler::Perf
}

/// From now on a timer samples the calling thread, whose event counts and comes very seldom (`by_timer`), or the event does again. Only where that is possible
/// ([`may_choose`]). Called from the signal handler.
pub fn choose(slot: &Slot, by_timer: bool) {
    /// The shortest period of an event beside a timer: much longer than a tick, before which the kernel sets no timer of its own for it.
    const SELDOM: u64 = 50_000_000;
    let event = slot.event.load(SeqCst);
    if event < 0 || by_timer == has_both(slot) {
        return;
    }
    if by_timer {
        let Some(timer) = sys::cpu_timer(SIGTRAP, core::ptr::from_ref(slot).addr()) else { return };
        // For threads that no tick ever finds, and where a signal of the timer's is lost.
        set_period(slot, Nanos(SELDOM + random::draw(slot) % SELDOM));
        slot.timer.store(timer, SeqCst);
    }
    // Another thread may have silenced this one meanwhile.
    if !by_timer || slot.event.load(SeqCst) != event {
        end_timer(slot);
    }
    set_period(slot, period::next(slot));
}

fn start_timer(slot: &Slot, period: Nanos, permitted: Permitted) -> Sampler {
    let signal = if (permitted.urg)() {
        SIGURG
    } else if (permitted.trap)() {
        SIGTRAP
    } else {
        return Sampler::None; // a debugger would stop at every sample
    };
    match sys::cpu_timer(signal, core::ptr::from_ref(slot).addr()) {
        Some(timer) => {
            slot.asynchronous.store(signal as u32, Relaxed);
            slot.timer.store(timer, Relaxed);
            sys::arm_timer(timer, period);
            Sampler::Timer
        }
        None => Sampler::None,
    }
}

/// Ends sampling for the thread of `slot`, which must be the calling one.
pub fn stop(slot: &Slot) {
    switches::close(slot);
    slot.unsampled.store(since_last_sample(slot, cpu_time(slot)).0, Relaxed);
    silence(slot);
    // A sample that has come in between may have mapped it: the thread's first one does.
    switches::close(slot);
}

/// Stops sampling the thread of `slot`, which may be another one of this process, and just beginning. Called from the signal handler as well.
pub fn silence(slot: &Slot) {
    loop {
        // As long as a sample can come, it is known as one.
        let event = slot.event.load(Relaxed);
        // The program may have closed all descriptors that it does not know, and have another file by this number.
        let is_event = event >= 0 && sys::ioctl(event, IOC_DISABLE, 0) >= 0;
        if slot.event.compare_exchange(event, -1, SeqCst, Relaxed).is_ok() {
            if is_event {
                sys::close(event);
            }
            break;
        }
    }
    end_timer(slot);
}

fn end_timer(slot: &Slot) {
    let timer = slot.timer.swap(-1, SeqCst);
    if timer >= 0 {
        sys::delete_timer(timer);
    }
}

/// Stops sampling the calling thread for as long as it tries to execute another program: a sample that
/// falls due meanwhile would be delivered to that program, which knows nothing of it. `vfork`ed children
/// run on their parent's slot and are told apart by their thread ID.
/// (A timer's `SIGURG` is ignored there.)
pub fn suspend(slot: &Slot) -> bool {
    if slot.tid.load(Relaxed) != sys::gettid() {
        return false;
    }
    let timer = slot.timer.load(Relaxed);
    let is_trap = timer >= 0 && slot.asynchronous.load(Relaxed) != SIGURG as u32;
    if is_trap {
        sys::arm_timer(timer, Nanos(0));
    }
    let event = slot.event.load(Relaxed);
    event >= 0 && sys::ioctl(event, IOC_DISABLE, 0) >= 0 || is_trap
}

/// The program could not be executed: goes on.
pub fn resume(slot: &Slot) {
    let event = slot.event.load(Relaxed);
    if event >= 0 {
        sys::ioctl(event, IOC_ENABLE, 0);
    }
    if event < 0 || has_both(slot) {
        set_period(slot, period::rest(slot, since_last_sample(slot, cpu_time(slot))));
    }
}

/// Forgets a sampler that belongs to the parent process. (Its descriptor is a copy; timers are not
/// inherited.)
pub fn forget(slot: &Slot) {
    let event = slot.event.swap(-1, Relaxed);
    if event >= 0 {
        sys::close(event);
    }
    slot.timer.store(-1, Relaxed);
}

/// The time that the thread has been on a CPU. What a hypervisor took from it counts, as far as an event tells:
/// the code was slower for it. (The thread's own clock leaves it out.) Called from the signal handler.
pub fn cpu_time(slot: &Slot) -> Nanos {
    let event = slot.event.load(Relaxed);
    let counted = if event < 0 { None } else { sys::read_word(event) };
    counted.map_or_else(sys::cpu_time, Nanos)
}

/// The signals of which a thread's samples may be, as a mask: they are never blocked in the kernel.
pub fn carriers(slot: &Slot) -> u64 {
    let urg = slot.asynchronous.load(Relaxed) == SIGURG as u32;
    1 << (SIGTRAP - 1) | if urg { 1 << (SIGURG - 1) } else { 0 }
}

/// Whether a `SIGURG` is a sample of this thread, by this event or by a timer.
pub fn is_by_urg(slot: &Slot, event: i32, info: &[u64; 16]) -> bool {
    match info[1] as u32 as i32 {
        SI_TIMER => info[3] as usize == core::ptr::from_ref(slot).addr(),
        // POLL_IN … POLL_HUP, with the descriptor behind the band.
        1..=6 => info[3] as u32 as i32 == event,
        _ => false,
    }
}

/// What a pause comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A sample, in its handler.
    Sample,
    /// Code since the last sample.
    Code,
}

/// A pause ends that began at `cpu` of the thread's CPU time. No code of the program ran: no
/// sample stands for that time, and the next one comes when it would have come without the pause. Those that fell due meanwhile have waited if the pause is in the
/// handler of one, and were dropped otherwise. Called from the signal handler.
pub fn paused(slot: &Slot, cpu: Nanos, behind: Behind) {
    let now = cpu_time(slot);
    let took = now.saturating_sub(cpu);
    slot.books.pausing.fetch_add(took.0, Relaxed);
    slot.sampled_until.fetch_add(took.0, Relaxed);
    let slept = took < SHORT;
    match behind {
        Behind::Sample => {
            if sys::pending_signals() & carriers(slot) != 0 {
                slot.overdue.store(1, Relaxed);
            }
            if !slept {
                set_period(slot, period::next(slot));
            }
        }
        Behind::Code => {
            let dropped = slot.overdue.swap(0, Relaxed) != 0;
            if !slept || dropped {
                set_period(slot, period::rest(slot, since_last_sample(slot, now)));
                slot.remainder.store(1, Relaxed);
            }
        }
    }
}

/// The CPU time since the last sample. Not counted below zero: what pauses used was taken off. Called from the signal handler.
pub fn since_last_sample(slot: &Slot, cpu: Nanos) -> Nanos {
    let since = cpu.0.wrapping_sub(slot.sampled_until.load(Relaxed)) as i64;
    Nanos(since.max(0) as u64)
}

/// The next sample comes after this much CPU time. Called from the signal handler.
pub fn set_period(slot: &Slot, period: Nanos) {
    let (event, timer) = (slot.event.load(Relaxed), slot.timer.load(Relaxed));
    if timer >= 0 {
        sys::arm_timer(timer, period);
    } else if event >= 0 {
        sys::ioctl(event, IOC_PERIOD, (&raw const period.0) as i64);
    }
}
