//! Sampling: each thread interrupts itself about every millisecond of its own CPU time.
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
//! A sample is worth the CPU time that the thread has *measurably* used since the last one, pauses left out. The
//! event goes on counting in a pause that keeps its CPU, so it is set anew behind each, and a sample that fell into
//! one is dropped. (Otherwise the code behind pauses would be sampled sooner, or be taken for what was sampled in
//! them: measured, a tenth of a region's time went to other code.) The period is drawn anew every few samples,
//! uniform in half to one and a half of its mean, because a program whose phases are a whole number of
//! milliseconds would alias with a fixed one. (Setting it costs 10 µs on a virtual machine, so not for
//! every sample.)
//!
//! Samples are handled one at a time, when they happen (rule 3).

use crate::callchain::{self, Registers};
use crate::memory::{attached, shared};
use crate::spin::{self, Spin};
use crate::switches::{self, During};
use crate::{delay, progress, signals, stretch, sys, ticks, tls, yields};
use core::sync::atomic::Ordering::Relaxed;
use wire::layout::Sampler;
use wire::ring::{Judgement, Sample};
use wire::slot::{Activity, Slot};
use wire::{Address, Epoch, Nanos, SharedMemory};

/// Carries samples without an interrupt of its own; see the module.
pub const SIGTRAP: i32 = 5;
/// Carries samples otherwise. By default it is ignored, so one that is pending when the program
/// executes another does not kill that one; debuggers pass it on without stopping.
pub const SIGURG: i32 = 23;

/// Samples after which a wait that uses the CPU is none.
const LONGEST_SPIN: u32 = 50;

/// `si_code` of a `SIGTRAP` from perf; `si_perf_data` is then the address of the slot.
const TRAP_PERF: i32 = 6;

/// Samples between two draws of the period.
const SAMPLES_PER_PERIOD: u64 = 4;
/// How often a thread looks whether the controller is there again. Longer than any period.
const SELDOM: Nanos = Nanos(200_000_000);
/// The shortest time to a thread's first sample. An event repeats its period until it is told another: with one as
/// short as an interrupt takes (20 µs on a virtual machine), the handler would never get so far.
const SOON: Nanos = Nanos(100_000);
/// The mean period, unless another one is asked for or threads spin.
const USUAL: Nanos = Nanos(1_000_000);
/// CPU time that a pause uses if it sleeps.
const SHORT: Nanos = Nanos(20_000);

const F_SETFL: i64 = 4;
const F_SETSIG: i64 = 10;
const F_SETOWN_EX: i64 = 15;
const F_DUPFD_CLOEXEC: i64 = 1030;
const O_ASYNC: i64 = 0o20000;
const RLIMIT_NOFILE: i64 = 7;

const IOC_ENABLE: i64 = 0x2400;
const IOC_DISABLE: i64 = 0x2401;
const IOC_PERIOD: i64 = 0x4008_2404;

/// Starts sampling the calling thread, whose slot is `slot`.
pub fn start(slot: &'static Slot, trap: bool) {
    let header = &shared().header;
    slot.event.store(-1, Relaxed);
    slot.timer.store(-1, Relaxed);
    switches::reset(slot);
    let best = Sampler::from_number(header.sampling.load(Relaxed));
    if matches!(best, Sampler::None | Sampler::Unknown) {
        return;
    }
    // Goes on where the last thread of the slot has left off. If every thread began a period of its own, one
    // that is shorter than a period would never have a sample.
    if slot.random.load(Relaxed) == 0 {
        slot.random.store(sys::now().0 ^ (u64::from(slot.tid.load(Relaxed)) << 32) | 1, Relaxed);
        slot.unsampled.store(some_age(slot).0, Relaxed);
    }
    let unsampled = slot.unsampled.swap(0, Relaxed);
    let first = rest_of_period(slot, Nanos(unsampled));
    slot.remainder.store(1, Relaxed);
    // An event counts from zero. May wrap around below it, for it is only ever subtracted from the same clock.
    slot.sampled_until.store(0_u64.wrapping_sub(unsampled), Relaxed);
    let perf = |trap| if best == Sampler::Timer { None } else { start_event(slot, first, best, trap) };
    let sampler = (trap.then(|| perf(true)).flatten()).or_else(|| perf(false)).unwrap_or_else(|| {
        slot.sampled_until.store(sys::cpu_time().0.wrapping_sub(unsampled), Relaxed);
        start_timer(slot, first)
    });
    header.sampler.fetch_max(sampler as u32, Relaxed);
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
    let fd = out_of_the_way(fd as i32);
    let owner = [0_i32, sys::gettid() as i32]; // F_OWNER_TID
    let ready = trap
        || sys::fcntl(fd, F_SETFL, O_ASYNC) >= 0
            && sys::fcntl(fd, F_SETSIG, i64::from(SIGURG)) >= 0
            && sys::fcntl(fd, F_SETOWN_EX, owner.as_ptr() as i64) >= 0;
    slot.event.store(fd, Relaxed);
    slot.asynchronous.store(u32::from(!trap), Relaxed);
    if !ready || sys::ioctl(fd, IOC_ENABLE, 0) < 0 {
        slot.event.store(-1, Relaxed);
        sys::close(fd);
        return None;
    }
    Some(sampler)
}

/// Moves a descriptor to a high number: the program may count on low ones, or close a range of them.
fn out_of_the_way(fd: i32) -> i32 {
    let limit = sys::soft_limit(RLIMIT_NOFILE).min(1 << 20) as i64;
    let high = sys::fcntl(fd, F_DUPFD_CLOEXEC, limit / 2);
    if high < 0 {
        return fd;
    }
    sys::close(fd);
    high as i32
}

fn start_timer(slot: &Slot, period: Nanos) -> Sampler {
    slot.asynchronous.store(1, Relaxed);
    match sys::cpu_timer(SIGURG, core::ptr::from_ref(slot).addr()) {
        Some(timer) => {
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
    let (event, timer) = (slot.event.swap(-1, Relaxed), slot.timer.swap(-1, Relaxed));
    if event >= 0 {
        sys::ioctl(event, IOC_DISABLE, 0);
        sys::close(event);
    }
    if timer >= 0 {
        sys::delete_timer(timer);
    }
}

/// Stops sampling the calling thread for as long as it tries to execute another program: a sample that
/// falls due meanwhile would be delivered to that program, which knows nothing of it. `vfork`ed children
/// run on their parent's slot and are told apart by their thread ID.
pub fn pause(slot: &Slot) -> bool {
    let event = slot.event.load(Relaxed);
    event >= 0 && slot.tid.load(Relaxed) == sys::gettid() && sys::ioctl(event, IOC_DISABLE, 0) >= 0
}

/// The program could not be executed: goes on.
pub fn resume(slot: &Slot) {
    sys::ioctl(slot.event.load(Relaxed), IOC_ENABLE, 0);
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

/// Whether a signal is one of our samples (and not the program's own use of the same signal).
fn is_sample(slot: &Slot, signal: i32, info: &[u64; 16]) -> bool {
    const SI_TIMER: i32 = -2;
    let code = info[1] as u32 as i32;
    let ours = info[3] as usize == core::ptr::from_ref(slot).addr();
    match (signal, code) {
        (SIGTRAP, TRAP_PERF) | (SIGURG, SI_TIMER) => ours,
        // POLL_IN … POLL_HUP, with the descriptor behind the band.
        (SIGURG, 1..=6) => info[3] as u32 as i32 == slot.event.load(Relaxed),
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
    (signal, info[1] as u32 as i32) == (SIGTRAP, TRAP_PERF) && ours
}

/// The handler of both signals.
///
/// # Safety
/// Called by the kernel with the arguments of an `SA_SIGINFO` handler.
pub unsafe extern "C" fn handler(signal: i32, info: *mut [u64; 16], context: *mut Context) {
    // SAFETY: the kernel passes a siginfo and an ucontext.
    unsafe {
        match tls::slot() {
            Some(slot) if is_sample(slot, signal, &*info) => {
                take(slot, &*context);
            }
            slot if is_visit(signal, &*info) && progress::interrupted(slot, (*info)[3]) => {}
            // A sample of a thread that has just been given up.
            _ if is_stray(signal, &*info) => {}
            slot => signals::deliver(slot, signal, info, context.cast()),
        }
    }
}

/// `ucontext_t`, as far as we need it: flags, link, stack (3 words), general registers.
#[repr(C)]
pub struct Context {
    head: [usize; 5],
    registers: [usize; 23],
    vectors: *const [[u64; 2]; 26],
}

impl Context {
    const RBP: usize = 10;
    const RCX: usize = 14;
    const RSP: usize = 15;
    const RIP: usize = 16;
    /// Where `xmm0` lies behind `vectors` (the layout of FXSAVE), in units of 16 bytes.
    const XMM: usize = 10;

    /// A thread at `instruction`, with `value` in a register.
    #[cfg(test)]
    pub fn at(instruction: usize, value: usize) -> Self {
        let mut registers = [0; 23];
        registers[Self::RIP] = instruction;
        registers[0] = value;
        Self { head: [0; 5], registers, vectors: core::ptr::null() }
    }

    /// The same with its stack pointer there.
    #[cfg(test)]
    pub fn with_stack(mut self, pointer: usize) -> Self {
        self.registers[Self::RSP] = pointer;
        self
    }

    /// The interrupted stack pointer.
    pub fn stack(&self) -> usize {
        self.registers[Self::RSP]
    }

    /// The interrupted instruction.
    pub fn instruction(&self) -> usize {
        self.registers[Self::RIP]
    }

    /// Whether the sample hit the kernel in a system call, which leaves its return address in `rcx`.
    pub fn in_system_call(&self) -> bool {
        self.registers[Self::RCX] == self.instruction()
    }

    fn start(&self) -> Registers {
        Registers { instruction: self.instruction(), stack: self.stack(), frame: self.registers[Self::RBP] }
    }

    /// A hash of all registers that code computes with (the general ones and `xmm0` to `xmm15`).
    pub fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let general = self.registers[..Self::RIP].iter().fold(1, |hash, word| mix(hash, *word as u64));
        // SAFETY: null, or the 512 bytes that the kernel saved on the signal stack.
        let vectors = unsafe { self.vectors.as_ref() };
        vectors.map_or(general, |vectors| {
            vectors[Self::XMM..].iter().flatten().fold(general, |hash, word| mix(hash, *word))
        })
    }
}

/// One sample of the calling thread.
fn take(slot: &Slot, context: &Context) {
    let began = ticks::now();
    let memory = shared();
    if slot.overdue.swap(0, Relaxed) != 0 {
        return; // it fell into a pause
    }
    let (time, cpu) = (sys::now(), cpu_time(slot));
    if time >= memory.header.alive_until() {
        // The controller is gone, or stopped (Ctrl-Z) and may go on.
        set_period(slot, SELDOM);
        slot.sampled_until.store(cpu.0, Relaxed);
        return;
    }
    if slot.remainder.swap(0, Relaxed) != 0 {
        set_period(slot, next_period(slot));
    }
    let returned = since_last_sample(slot, cpu) >= SELDOM;
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
    if !slot.is_pausing() {
        let mut sample = Sample::new(time, weight);
        callchain::walk(slot, context.start(), &mut sample);
        slot.books.sampled.fetch_add(weight.0, Relaxed);
        slot.books.samples.fetch_add(1, Relaxed);
        apply(slot, &mut sample, before, spin);
    }
    yields::leave_out(slot, began);
    rearm(slot, returned);
}

/// The time that the thread has been on a CPU. What a hypervisor took from it counts, as far as an event tells:
/// the code was slower for it. (The thread's own clock leaves it out.)
pub fn cpu_time(slot: &Slot) -> Nanos {
    let event = slot.event.load(Relaxed);
    let counted = if event < 0 { None } else { sys::read_word(event) };
    counted.map_or_else(sys::cpu_time, Nanos)
}

/// What a pause comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A sample, in its handler.
    Sample,
    /// Code since the last sample.
    Code,
}

/// A pause ends that began at `cpu` of the thread's CPU time. Samples have waited meanwhile. No code of the program ran: no
/// sample stands for that time, and the next one comes when it would have come without the pause.
pub fn paused(slot: &Slot, cpu: Nanos, behind: Behind) {
    const SAMPLES: u64 = 1 << (SIGTRAP - 1) | 1 << (SIGURG - 1);
    let now = cpu_time(slot);
    let took = now.saturating_sub(cpu);
    slot.books.pausing.fetch_add(took.0, Relaxed);
    slot.sampled_until.fetch_add(took.0, Relaxed);
    if sys::pending_signals() & SAMPLES != 0 {
        slot.overdue.store(1, Relaxed);
    }
    if took < SHORT {
        return; // it slept
    }
    match behind {
        Behind::Sample => set_period(slot, next_period(slot)),
        Behind::Code => {
            set_period(slot, rest_of_period(slot, since_last_sample(slot, now)));
            slot.remainder.store(1, Relaxed);
        }
    }
}

/// The CPU time since the last sample. Not counted below zero: what pauses used was taken off.
fn since_last_sample(slot: &Slot, cpu: Nanos) -> Nanos {
    let since = cpu.0.wrapping_sub(slot.sampled_until.load(Relaxed)) as i64;
    Nanos(since.max(0) as u64)
}

/// What a sample stands for: the CPU time since the last one. Where kernel time gives no samples, it is left out
/// of the weight too: otherwise the next user-mode code would be charged for it.
fn weight(slot: &Slot, cpu: Nanos) -> Nanos {
    // The period may have been longer when it was set.
    let period = shared().header.period.load(Relaxed).max(USUAL.0);
    let used = since_last_sample(slot, cpu);
    // A timer or a host that is late must not make one sample worth an age.
    let age = Nanos(20 * period);
    let most = match Sampler::from_number(shared().header.sampler.load(Relaxed)) {
        Sampler::PerfUser => Nanos(period + period / 2),
        _ => age,
    };
    // What others had the CPU for made the code slower.
    used.min(most) + Nanos(slot.stolen.swap(0, Relaxed)).min(age)
}

/// Rules 1, 2 and 3: credits the thread if it ran the selected code, tells the controller, then lets the thread pay. `before`: the
/// time of the thread's last sample.
fn apply(slot: &Slot, sample: &mut Sample, before: Nanos, spin: Spin) {
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
    let found = region != 0 && is_hit(sample.callchain(), epoch);
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
        .with(Judgement::DEFERRED.when(delays && hit && !at_once));
    slot.ring.push(sample);
    stretch::sampled(slot, sample, before, hit, region, at_once);
    if delays && hit && !at_once {
        delay::defer_credit(slot, epoch, speedup.of(sample.weight));
    }
    // A waiting thread settles when its wait is over: it may owe nothing then (rule 5).
    if delays && at_once {
        delay::catch_up(slot);
        if !spin.is_spinning() || !header.has_rule(5) {
            delay::pay_in_handler(slot);
        }
    }
}

/// Whether the selected region has called the function of ours that asks.
pub fn is_in_region(slot: &Slot, epoch: Epoch) -> bool {
    let (instruction, stack, frame): (usize, usize, usize);
    // SAFETY: reads registers. What they point to is only read within the thread's stack.
    unsafe {
        core::arch::asm!(
            "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
            out(reg) instruction, out(reg) stack, out(reg) frame,
            options(nomem, nostack, preserves_flags),
        );
    }
    let mut sample = Sample::new(Nanos::ZERO, Nanos::ZERO);
    callchain::walk(slot, Registers { instruction, stack, frame }, &mut sample);
    is_hit(sample.callchain(), epoch)
}

/// Whether a sample belongs to the selected region.
fn is_hit(callchain: &[Address], epoch: Epoch) -> bool {
    let memory = shared();
    memory.experiments.of(epoch).owns(&memory.code, callchain)
}

/// Draws the next period, if one is due (or `now`), and sets it.
fn rearm(slot: &Slot, now: bool) {
    // Drawn for every sample of a timer, which expires once.
    let due =
        slot.timer.load(Relaxed) >= 0 || slot.books.samples.load(Relaxed).is_multiple_of(SAMPLES_PER_PERIOD);
    if now || due {
        set_period(slot, next_period(slot));
    }
}

/// The next sample comes after this much CPU time.
fn set_period(slot: &Slot, period: Nanos) {
    let (event, timer) = (slot.event.load(Relaxed), slot.timer.load(Relaxed));
    if timer >= 0 {
        sys::arm_timer(timer, period);
    } else if event >= 0 {
        sys::ioctl(event, IOC_PERIOD, (&raw const period.0) as i64);
    }
}

/// Uniform in [1/2, 3/2] of the mean.
fn next_period(slot: &Slot) -> Nanos {
    rest_of_period(slot, Nanos::ZERO)
}

/// How long ago the last sample was at a random first look: the age of a renewal process that has gone on for
/// long. Ten thousand threads that each end before their first period would never have a sample otherwise; what the first
/// sample is worth too much, the time after a thread's last sample makes up for.
fn some_age(slot: &Slot) -> Nanos {
    let mean = shared().header.period.load(Relaxed).max(1000);
    let (half, one, other) = (random(slot) % (mean / 2), random(slot) % mean, random(slot) % mean);
    Nanos(if random(slot).is_multiple_of(2) { half } else { mean / 2 + one.min(other) })
}

/// What is left of a period, uniform in [1/2, 3/2] of the mean, of which `gone` has passed.
fn rest_of_period(slot: &Slot, gone: Nanos) -> Nanos {
    let mean = shared().header.period.load(Relaxed).max(1000);
    let least = gone.0.max(mean / 2);
    let most = mean + mean / 2;
    let period = least + random(slot) % most.saturating_sub(least).max(1);
    Nanos(period - gone.0).max(SOON)
}

/// Xorshift, whose state only this thread touches.
pub fn random(slot: &Slot) -> u64 {
    let mut state = slot.random.load(Relaxed);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    slot.random.store(state, Relaxed);
    state >> 11
}
