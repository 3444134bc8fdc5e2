//! Sampling: each thread interrupts itself about every millisecond of its own CPU time.
//!
//! Here is the handler: what it does with a sample, and what with signals that are none. What raises the signal is in
//! [`sampler`](crate::sampler).
//!
//! A sample is worth the CPU time that the thread has *measurably* used since the last one, pauses left out. The
//! period is drawn anew every few samples ([`period`]). (Setting it costs 10 µs on a virtual machine, so not for
//! every sample.)
//!
//! Samples are handled one at a time, when they happen (rule 3).

use crate::context::Context;
use crate::memory::{attached, shared};
use crate::room::Room;
use crate::sampler::{
    SI_TIMER, SIGTRAP, SIGURG, TRAP_PERF, cpu_time, is_by_urg, look_for_controller, set_period, silence,
    since_last_sample,
};
use crate::spin::{self, Spin};
use crate::switches::{self, During};
use crate::{
    account, beliefs, callchain, deferral, delay, period, progress, region, short_runs, signals, stretch,
    sys, ticks, tls, urgent, yields,
};
use core::sync::atomic::Ordering::Relaxed;
use wire::layout::Sampler;
use wire::ring::{Judgement, Sample};
use wire::slot::{Activity, Slot, mark};
use wire::{Nanos, SharedMemory};

/// Samples after which a wait that uses the CPU is none.
const LONGEST_SPIN: u32 = 50;

/// Samples between two draws of the period.
const SAMPLES_PER_PERIOD: u64 = 4;
/// How often a thread looks whether the controller is there again. Longer than any period.
const SELDOM: Nanos = Nanos(200_000_000);
/// The mean period, unless another one is asked for or threads spin.
const USUAL: Nanos = Nanos(1_000_000);

/// Whether a signal is one of our samples (and not the program's own use of the same signal).
fn is_sample(slot: &Slot, signal: i32, info: &[u64; 16]) -> bool {
    let code = info[1] as u32 as i32;
    let ours = info[3] as usize == core::ptr::from_ref(slot).addr();
    match (signal, code) {
        (SIGTRAP, TRAP_PERF | SI_TIMER) => ours,
        (SIGURG, _) => is_by_urg(slot, slot.event.load(Relaxed), info),
        _ => false,
    }
}

/// Whether a signal stands for a visit to a progress point.
fn is_visit(signal: i32, info: &[u64; 16]) -> bool {
    (signal, info[1] as u32 as i32) == (SIGTRAP, TRAP_PERF) && info[3] >> 32 == wire::counter::VISIT >> 32
}

/// Whether a signal is a sample of ours, but of no thread that is still profiled.
fn is_stray(signal: i32, info: &[u64; 16]) -> bool {
    let Some(memory) = attached() else { return false };
    let start = core::ptr::from_ref(memory).addr();
    let ours = (start..start + SharedMemory::SIZE).contains(&(info[3] as usize));
    ours && matches!((signal, info[1] as u32 as i32), (SIGTRAP, TRAP_PERF) | (SIGURG | SIGTRAP, SI_TIMER))
}

/// Handles a signal if it is one of ours; false if it is the program's.
///
/// # Safety
/// The arguments must be those that the kernel has passed to a handler.
unsafe fn handles(signal: i32, info: *mut [u64; 16], context: *mut Context) -> bool {
    // SAFETY: the kernel passes a siginfo and an ucontext.
    unsafe {
        match tls::slot() {
            // It falls into a pause, which sets the period anew.
            Some(slot) if is_sample(slot, signal, &*info) && deferral::is_whole(slot) => {
                slot.overdue.store(1, Relaxed);
                rearm_timer(slot);
            }
            Some(slot) if is_sample(slot, signal, &*info) && urgent::leaves(slot, signal, &mut *context) => {}
            Some(slot) if is_sample(slot, signal, &*info) => sampled(slot, &mut *context),
            slot if is_visit(signal, &*info) && progress::interrupted(slot, (*info)[3]) => {}
            // A sample of a thread that has just been given up, or is left alone.
            _ if is_stray(signal, &*info) => {}
            None if tls::last_slot().is_some_and(|slot| is_sample(slot, signal, &*info)) => {}
            _ => return false,
        }
    }
    true
}

/// Whether the program's handler is not to run for a `SIGURG`, which the program has for itself: it is a sample of a thread that has not changed yet, or the thread has it
/// blocked, but not in the kernel. Called where a handler is entered.
///
/// # Safety
/// The arguments must be those that the kernel has passed to a handler.
pub unsafe fn keeps(info: *mut [u64; 16], context: *mut Context) -> bool {
    let slot = tls::slot();
    let is_blocked = slot.filter(|slot| slot.masked.load(Relaxed) & 1 << beliefs::URG != 0);
    // SAFETY: the caller vouches for the arguments.
    unsafe {
        let is_sample = handles(SIGURG, info, context);
        if !is_sample && is_blocked.is_none() {
            return false;
        }
        sys::restore_one_shot(i64::from(SIGURG), deferral::entrance());
        if !is_sample && let Some(slot) = is_blocked {
            urgent::give_back_here(slot, &*info, &mut *context);
        }
        if let Some(slot) = slot {
            deferral::leave_handler(slot, &mut *context);
        }
    }
    true
}

/// The handler of both signals.
///
/// # Safety
/// Called by the kernel with the arguments of an `SA_SIGINFO` handler.
pub unsafe extern "C" fn handler(signal: i32, info: *mut [u64; 16], context: *mut Context) {
    // SAFETY: the kernel passes a siginfo and an ucontext.
    unsafe {
        let is_ours = handles(signal, info, context);
        if !is_ours {
            signals::deliver(tls::slot(), signal, info, context);
        }
        if let Some(slot) = tls::last_slot() {
            deferral::leave_handler(slot, &mut *context);
        }
        if is_ours {
            (*context).go_on_with_call();
        }
    }
}

/// One sample of the calling thread, and the pause that it makes the thread owe. Handlers of the program's that come meanwhile run when the kernel has returned from
/// this one: on the stack that they would have run on.
fn sampled(slot: &Slot, context: &mut Context) {
    let room = Room::of(slot, context);
    tls::settling(slot, || {
        let cramped = matches!(room, Room::InPauses | Room::None);
        let mask = cramped.then(sys::block_signals);
        deferral::whole(slot, || {
            let Some(taken) = take(slot, context) else { return };
            // What taking it needed of the stack is free again.
            if taken.pays {
                match (room, mask) {
                    (Room::InPauses, Some(mask)) => sys::restore_mask(mask),
                    (Room::Unknown, _) => {
                        sys::block_signals();
                    }
                    _ => {}
                }
                delay::pay_in_handler(slot, matches!(room, Room::Everywhere | Room::InPauses));
            }
            yields::leave_out(slot, taken.began);
            rearm(slot, taken.returned);
            if !taken.returned {
                short_runs::look(slot, (taken.cpu, taken.since), taken.spins);
            }
        });
        deferral::leave_handler(slot, context);
    });
}

/// A sample that has been taken.
struct Taken {
    /// When it came, by the processor's clock.
    began: u64,
    /// Whether the controller was gone and is there again.
    returned: bool,
    /// Whether the thread is to pay now.
    pays: bool,
    /// The CPU time at which it came.
    cpu: Nanos,
    /// The CPU time since the one before.
    since: Nanos,
    /// Whether it found the thread waiting by spinning.
    spins: bool,
}

/// Takes it: all but the pause.
#[inline(never)]
fn take(slot: &Slot, context: &Context) -> Option<Taken> {
    let began = ticks::now();
    let memory = shared();
    if slot.overdue.swap(0, Relaxed) != 0 {
        rearm_timer(slot);
        return None; // it fell into a pause
    }
    let (time, cpu) = (sys::now(), cpu_time(slot));
    if time >= memory.header.alive_until() {
        // The controller is gone, or stopped (Ctrl-Z) and may go on.
        if look_for_controller() {
            // The ring of context switches stays mapped: what this has interrupted may read it.
            silence(slot);
        } else {
            set_period(slot, SELDOM);
        }
        slot.sampled_until.store(cpu.0, Relaxed);
        return None;
    }
    if slot.remainder.swap(0, Relaxed) != 0 {
        set_period(slot, period::next(slot));
    }
    let since = since_last_sample(slot, cpu);
    // Samples come so seldom while the controller is gone.
    let returned = since >= SELDOM;
    if slot.busy.load(Relaxed) == 0 && slot.is_doing(Activity::Running) {
        switches::drain(slot, During::Work);
    }
    let weight = weight(slot, cpu);
    // What taking this sample costs counts for the code that was sampled: every nanosecond of that code has its
    // share of it, and would be rid of it if it did not run.
    slot.sampled_until.store(cpu.0, Relaxed);
    if !slot.is_doing(Activity::Running) && slot.waited.fetch_add(1, Relaxed) > LONGEST_SPIN {
        slot.doing(Activity::Running);
    }
    switches::open(slot);
    let before = Nanos(slot.last_sample.swap(time.0, Relaxed));
    let spin = spin::look(slot, context, weight);
    yields::learn(slot, spin.is_spinning(), began);
    let mut sample = Sample::new(time, weight);
    sample.program = mark(slot.program.load(Relaxed));
    callchain::walk(slot, context.registers(), &mut sample);
    slot.books.sampled.fetch_add(weight.0, Relaxed);
    slot.books.samples.fetch_add(1, Relaxed);
    let pays = apply(slot, &mut sample, before, spin);
    Some(Taken { began, returned, pays, cpu, since, spins: spin.is_spinning() })
}

/// What a sample stands for: the CPU time since the last one. Where kernel time gives no samples, it is left out
/// of the weight too: otherwise the next user-mode code would be charged for it.
fn weight(slot: &Slot, cpu: Nanos) -> Nanos {
    // The period may have been longer when it was set.
    let period = slot.mean_period.load(Relaxed).max(USUAL.0);
    let used = since_last_sample(slot, cpu);
    // A sample must not stand for too long a time because a timer or a host is late. A timer waits for a tick that finds the thread running.
    let age = Nanos(if slot.timer.load(Relaxed) >= 0 { 100 * period } else { 20 * period });
    let most = match Sampler::from_number(shared().header.sampler.load(Relaxed)) {
        Sampler::PerfUser => Nanos(period + period / 2),
        _ => age,
    };
    // What others had the CPU for made the code slower.
    used.min(most) + Nanos(slot.stolen.swap(0, Relaxed)).min(age)
}

/// Rules 1 and 3: credits the thread if it ran the selected code, and tells the controller; says whether the thread is to pay (rule 2). `before`: the
/// time of the thread's last sample.
fn apply(slot: &Slot, sample: &mut Sample, before: Nanos, spin: Spin) -> bool {
    let memory = shared();
    let header = &memory.header;
    let epoch = header.epoch();
    let experiment = memory.experiments.of(epoch);
    let speedup = experiment.speedup();
    let busy = slot.busy.load(Relaxed) != 0;
    let runs = !busy && slot.is_doing(Activity::Running);
    let region = experiment.region();
    if region != 0 {
        spin::learn(slot, spin, region, sample.time);
    }
    if runs && header.has_rule(5) {
        spin::credit(slot, spin, region, before, sample.time);
    }
    let found = region != 0 && region::owns(sample.callchain(), epoch);
    let late = sample.time >= experiment.deadline();
    let hit = found && !spin.is_spinning() && !late;
    if hit {
        memory.hits.note(slot.number(&memory.slots), sample.time);
    }
    // In batches of ten, as Coz does, unless rule 3 is in force.
    let batched = !header.has_rule(3) && !slot.books.samples.load(Relaxed).is_multiple_of(10);
    let delays = speedup.0 != 0;
    let at_once = runs && !batched;
    sample.judgement = Judgement::HIT
        .when(found)
        .with(Judgement::SPINNING.when(spin.is_spinning()))
        .with(Judgement::LATE.when(late))
        .with(Judgement::TIMED.when(slot.timer.load(Relaxed) >= 0))
        .with(Judgement::DEFERRED.when(delays && hit && !at_once));
    slot.ring.push(sample);
    stretch::sampled(slot, sample, before, hit, region, at_once);
    if delays && hit && !at_once {
        account::defer_credit(slot, epoch, speedup.of(sample.weight));
    }
    // A waiting thread settles when its wait is over: it may owe nothing then (rule 5).
    if delays && at_once {
        account::catch_up(slot);
    }
    delays && at_once && (!spin.is_spinning() || !header.has_rule(5))
}

/// Draws the next period, if one is due (or `now`), and sets it: at once where the controller has asked for a longer or shorter one.
fn rearm(slot: &Slot, now: bool) {
    let due = slot.books.samples.load(Relaxed).is_multiple_of(SAMPLES_PER_PERIOD);
    if now || due || period::is_outdated(slot) {
        set_period(slot, period::next(slot));
    } else {
        rearm_timer(slot);
    }
}

/// The same of a timer, which expires once, after everything that it has raised.
fn rearm_timer(slot: &Slot) {
    if slot.timer.load(Relaxed) >= 0 {
        set_period(slot, period::next(slot));
    }
}
