//! Readings for the audit of a window: what the kernel says of every thread of the program, beside what the runtime has counted.
//!
//! **Does:** read `/proc/PID/task/TID/schedstat` (time on a CPU, time waiting for one; proc_pid_schedstat in the kernel's
//! sched-stats.rst) and the thread slots at both ends of a window, and add up the differences. **Does not:** judge
//! ([`profile::audit`]). **Constraints:** a reading takes some microseconds for each thread, so a program with very many threads is
//! audited without this part; so is one whose kernel does not have the file.

use profile::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use wire::SharedMemory;
use wire::slot::{Activity, Slot};

/// The most threads that are looked at.
const MOST_THREADS: usize = 256;
/// A thread whose CPU others want waits for it for more than this part of the time, as a divisor.
const WANTED: u64 = 20;
/// A thread that is blocked for less than this part of the time, as a divisor, loses its CPU to time slices only, unless it gives it away by itself all the time.
const BUSY: u64 = 5;
/// Of a thread that gives its CPU away by itself after a shorter time, in the mean, no time slice ends: the kernel's are longer.
const SHORT_RUN: u64 = 250_000;
/// So many threads are asked how often they do, which is a file to read for each.
const MOST_ASKED: usize = 16;
/// The kernel brings a running thread's times up to date at every tick, 4 ms apart as a rule: a thread that was off its CPU
/// for a part of that longer than it says may have been on it.
const TICK: u64 = 2_000_000;

/// One moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// On the monotonic clock, in nanoseconds.
    time: u64,
    /// Threads by process and thread ID. `None` where there are too many, or the kernel does not tell.
    threads: Option<BTreeMap<(u32, u32), Thread>>,
}

/// A thread up to that moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    ran: u64,
    queued: u64,
    /// How often it has given its CPU away by itself, and not because others were to have it. Not asked of threads that run for long at a time, nor of many.
    given_away: Option<u64>,
    /// What the runtime knows, if it knows the thread.
    known: Option<Known>,
}

/// A thread's times as the runtime has counted them.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The slot's number: another thread may have taken it over.
    slot: usize,
    in_waits: u64,
    in_world: u64,
    in_hidden: u64,
    in_pauses: u64,
    pausing: u64,
    /// Credited for its samples.
    given: u64,
    /// The wait that it was in, which is in these times when it is over.
    waits: Option<UnderWay>,
}

/// A wait that is not over. What it was for is only known in the end.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// When it began, in the processor's ticks, which tell it from others.
    begin: u64,
    so_far: u64,
    /// Whether it seems to be for another thread.
    for_thread: bool,
}

/// The differences between two moments, summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub cpu: Nanos,
    pub pausing: Nanos,
    pub unprofiled: Nanos,
    pub watched: Nanos,
    pub blocked: Nanos,
    pub in_waits: Nanos,
    pub in_world: Nanos,
    pub in_hidden: Nanos,
    pub in_pauses: Nanos,
    pub queued: Nanos,
    pub unexplained: Nanos,
    pub sliced: Nanos,
    pub sliced_virtual: Nanos,
    pub sliced_queued: Nanos,
}

/// What one thread did between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub pid: u32,
    pub tid: u32,
    /// The number of its slot, if it is profiled.
    pub slot: Option<usize>,
    /// The time between the moments.
    pub passed: Nanos,
    /// It had a CPU, and did not pause there.
    pub running: Nanos,
    /// It wanted a CPU that others had.
    pub runnable: Nanos,
    /// It waited for another thread, which has ended the wait.
    pub for_threads: Nanos,
    /// It waited for something outside the program, or for a time.
    pub external: Nanos,
}

impl Reading {
    /// Reads everything now.
    pub fn now(memory: &SharedMemory) -> Self {
        let time = kernel::clock::monotonic().0;
        let slots: BTreeMap<(u32, u32), (usize, &Slot)> = (memory.slots.used().iter().enumerate())
            .filter(|(_, slot)| slot.is_taken() && slot.executing.load(Relaxed) == 0)
            .map(|(nth, slot)| ((slot.pid.load(Relaxed), slot.tid.load(Relaxed)), (nth, slot)))
            .filter(|((pid, tid), _)| *pid != 0 && *tid != 0)
            .collect();
        if slots.len() > MOST_THREADS {
            return Self { time, threads: None };
        }
        let clock = Clock::of(memory, time);
        let processes: BTreeSet<u32> = slots.keys().map(|(pid, _)| *pid).collect();
        let (mut threads, mut asked) = (BTreeMap::new(), 0);
        for pid in processes {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for tid in tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()) {
                if threads.len() >= MOST_THREADS {
                    return Self { time, threads: None };
                }
                let Some([ran, queued, runs]) = schedule(pid, tid) else { continue };
                let known = slots.get(&(pid, tid)).map(|(nth, slot)| Known::of(*nth, slot, &clock));
                let is_asked =
                    ran < runs.saturating_mul(SHORT_RUN) && queued * WANTED > ran && asked < MOST_ASKED;
                asked += usize::from(is_asked);
                let given_away = if is_asked { given_away(pid, tid) } else { None };
                threads.insert((pid, tid), Thread { ran, queued, given_away, known });
            }
        }
        Self { time, threads: (!threads.is_empty()).then_some(threads) }
    }

    /// What each thread did since `before`, of those that are there at both moments. Empty where that is not known.
    pub fn each_since(&self, before: &Self) -> Vec<Watched> {
        let (Some(threads), Some(earlier)) = (&self.threads, &before.threads) else { return Vec::new() };
        let passed = self.time.saturating_sub(before.time);
        let both = threads.iter().filter_map(|(id, thread)| Some((*id, thread, earlier.get(id)?)));
        both.map(|((pid, tid), thread, was)| {
            let known = thread.known.zip(was.known).filter(|(now, was)| now.slot == was.slot);
            let ran = thread.ran.saturating_sub(was.ran).min(passed);
            let pausing = known.map_or(0, |(now, was)| now.pausing.saturating_sub(was.pausing));
            let runnable = thread.queued.saturating_sub(was.queued).min(passed - ran);
            // A thread that burns its CPU in a wait runs.
            let blocked = passed - ran - runnable;
            let [in_waits, in_world] = known.map_or([0, 0], |(now, was)| announced(&now, &was));
            // What may still be ended by something else is not known.
            let undecided = known.map_or(0, |(now, was)| undecided(&now, &was));
            let for_threads = in_waits.saturating_sub(undecided).min(blocked);
            Watched {
                pid,
                tid,
                slot: known.map(|(now, _)| now.slot),
                passed: Nanos::new(passed),
                running: Nanos::new(ran.saturating_sub(pausing)),
                runnable: Nanos::new(runnable),
                for_threads: Nanos::new(for_threads),
                external: Nanos::new(in_world.min(blocked - for_threads)),
            }
        })
        .collect()
    }

    /// What has passed since `before`, of threads that are there at both moments. `None` where either is not known.
    pub fn since(&self, before: &Self) -> Option<Waits> {
        let (threads, earlier) = (self.threads.as_ref()?, before.threads.as_ref()?);
        let passed = self.time.saturating_sub(before.time);
        let (mut waits, mut unexplained) = (Waits::default(), 0_i64);
        for (thread, was) in threads.iter().filter_map(|(id, thread)| Some((thread, earlier.get(id)?))) {
            let ran = thread.ran.saturating_sub(was.ran);
            let Some((known, had)) = thread.known.zip(was.known).filter(|(now, was)| now.slot == was.slot)
            else {
                waits.unprofiled += Nanos::new(if thread.known.is_none() { ran } else { 0 });
                continue;
            };
            let since = |field: fn(&Known) -> u64| field(&known).saturating_sub(field(&had));
            let pausing = since(|known| known.pausing);
            waits.cpu += Nanos::new(ran);
            waits.pausing += Nanos::new(pausing);
            // A thread that did not run owes nothing, however it waits.
            if ran <= pausing {
                continue;
            }
            let queued = thread.queued.saturating_sub(was.queued);
            let blocked = passed.saturating_sub(ran + queued);
            let [in_waits, in_world] = announced(&known, &had);
            let announced = [in_waits, in_world, since(|k| k.in_hidden), since(|k| k.in_pauses)];
            let explained = ran + queued + announced.iter().sum::<u64>() + TICK;
            let [in_waits, in_world, in_hidden, in_pauses] = announced.map(Nanos::new);
            waits.watched += Nanos::new(passed);
            waits.blocked += Nanos::new(blocked);
            waits.in_waits += in_waits;
            waits.in_world += in_world;
            waits.in_hidden += in_hidden;
            waits.in_pauses += in_pauses;
            waits.queued += Nanos::new(queued);
            let at_rest = blocked.saturating_sub(since(|k| k.in_pauses));
            let given_away = thread.given_away.zip(was.given_away).map(|(now, was)| now.saturating_sub(was));
            let gives_it_away = given_away.is_some_and(|times| ran < times.saturating_mul(SHORT_RUN));
            if queued * WANTED > passed && at_rest * BUSY < passed && !gives_it_away {
                waits.sliced += Nanos::new(ran);
                waits.sliced_queued += Nanos::new(queued);
                waits.sliced_virtual += Nanos::new(ran.saturating_sub(pausing + since(|k| k.given)));
            }
            // A wait for a CPU is counted when it is over: what is missing at one end of a window is too much at the next.
            unexplained += (passed as i64 - explained as i64).max(-(queued as i64));
        }
        waits.unexplained = Nanos::new(unexplained.max(0) as u64);
        Some(waits)
    }
}

impl Known {
    fn of(nth: usize, slot: &Slot, clock: &Clock) -> Self {
        let books = &slot.books;
        let is_doing = |activity: Activity| slot.is_doing(activity);
        let for_thread = is_doing(Activity::WaitingForThread);
        let waits = (for_thread || is_doing(Activity::WaitingForWorld)).then(|| {
            let begin = slot.wait_ticks.load(Relaxed);
            UnderWay { begin, so_far: clock.since(begin), for_thread }
        });
        Self {
            slot: nth,
            in_waits: clock.nanos(books.in_waits.load(Relaxed)),
            in_world: clock.nanos(books.in_world.load(Relaxed)),
            in_hidden: books.in_hidden.load(Relaxed),
            in_pauses: books.in_pauses.load(Relaxed),
            pausing: books.pausing.load(Relaxed),
            given: books.credited.load(Relaxed).saturating_sub(books.asleep.load(Relaxed)),
            waits,
        }
    }
}

/// Two readings of one wait differ by no more than this, in nanoseconds: clocks are read one after the other.
const ROUNDING: u64 = 100_000;

/// How long a thread was in waits for other threads, and for the world, between two moments.
fn announced(now: &Known, was: &Known) -> [u64; 2] {
    let since = |field: fn(&Known) -> u64| field(now).saturating_sub(field(was));
    let mut times = [since(|known| known.in_waits), since(|known| known.in_world)];
    let same = now.waits.zip(was.waits).filter(|(now, was)| now.begin == was.begin);
    if let Some((now, was)) = same {
        times[usize::from(!now.for_thread)] += now.so_far.saturating_sub(was.so_far);
        return times;
    }
    if let Some(was) = was.waits {
        // It is over, and counts as a whole where it belonged in the end.
        let seemed = usize::from(!was.for_thread);
        let is = if times[seemed] + ROUNDING >= was.so_far { seemed } else { 1 - seemed };
        times[is] = times[is].saturating_sub(was.so_far);
    }
    if let Some(now) = now.waits {
        times[usize::from(!now.for_thread)] += now.so_far;
    }
    times
}

/// How much of that is in a wait that is not over and seems to be for another thread: a timeout, or a client, may end it.
fn undecided(now: &Known, was: &Known) -> u64 {
    let Some(under_way) = now.waits.filter(|waits| waits.for_thread) else { return 0 };
    let before = was.waits.filter(|waits| waits.begin == under_way.begin).map_or(0, |waits| waits.so_far);
    under_way.so_far.saturating_sub(before)
}

/// The processor's clock, in which the runtime counts waits.
struct Clock {
    /// Nanoseconds per tick, in 2⁻²⁴; zero while that is not known.
    rate: u64,
    now: u64,
}

impl Clock {
    fn of(memory: &SharedMemory, time: u64) -> Self {
        let header = &memory.header;
        let rate = header.clock_rate.load(Relaxed);
        let passed = time.saturating_sub(header.clock_time.load(Relaxed));
        let ticks = (u128::from(passed) << 24).checked_div(u128::from(rate)).unwrap_or(0);
        Self { rate, now: header.clock_ticks.load(Relaxed).wrapping_add(ticks as u64) }
    }

    fn nanos(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.rate)) >> 24) as u64
    }

    fn since(&self, ticks: u64) -> u64 {
        // A wait that has just begun may seem to begin later than now.
        self.nanos((self.now.wrapping_sub(ticks) as i64).max(0) as u64)
    }
}

/// How long a thread has been on a CPU and waited for one, in nanoseconds, and how often it has got one.
fn schedule(pid: u32, tid: u32) -> Option<[u64; 3]> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// See [`Thread::given_away`].
fn given_away(pid: u32, tid: u32) -> Option<u64> {
    by_itself(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?)
}

fn by_itself(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment in milliseconds with one thread: what it ran, queued, and was in announced waits.
    fn reading(time: u64, numbers: Option<(u64, u64, u64)>, profiled: bool) -> Reading {
        const MS: u64 = 1_000_000;
        let thread = |(ran, queued, in_waits)| {
            let known = Known { in_waits: in_waits * MS, ..Known::default() };
            Thread { ran: ran * MS, queued: queued * MS, given_away: None, known: profiled.then_some(known) }
        };
        let threads = numbers.map(|numbers| BTreeMap::from([((1, 1), thread(numbers))]));
        Reading { time: time * MS, threads }
    }

    fn unexplained(ran: u64, queued: u64, in_waits: u64) -> u64 {
        let before = reading(1000, Some((5, 5, 5)), true);
        let after = reading(1100, Some((5 + ran, 5 + queued, 5 + in_waits)), true);
        after.since(&before).unwrap().unexplained.get() / 1_000_000
    }

    #[test]
    fn time_that_nothing_announced_is_unexplained() {
        assert_eq!(unexplained(100, 0, 0), 0);
        assert_eq!(unexplained(40, 10, 50), 0);
        assert_eq!(unexplained(40, 10, 48), 0, "the kernel is a tick late");
        assert_eq!(unexplained(40, 10, 0), 48);
        assert_eq!(unexplained(40, 0, 90), 0, "it runs in such calls, too");
        assert_eq!(unexplained(0, 0, 0), 0, "what does not run owes nothing");
    }

    #[test]
    fn a_wait_counts_for_as_much_of_it_as_is_between_two_moments() {
        const MS: u64 = 1_000_000;
        let waits = |begin, so_far, for_thread| Some(UnderWay { begin, so_far: so_far * MS, for_thread });
        let at = |in_waits, in_world, waits| Known {
            in_waits: in_waits * MS,
            in_world: in_world * MS,
            waits,
            ..Known::default()
        };
        let between = |was: &Known, now: &Known| announced(now, was).map(|time| time / MS);
        // It goes on, or another one has begun.
        assert_eq!(between(&at(5, 5, waits(1, 70, true)), &at(5, 5, waits(1, 90, true))), [20, 0]);
        assert_eq!(between(&at(5, 5, waits(1, 70, false)), &at(5, 78, waits(2, 8, true))), [8, 3]);
        // It was for another thread in the end, or was not.
        assert_eq!(between(&at(5, 5, waits(1, 70, false)), &at(80, 5, None)), [5, 0]);
        assert_eq!(between(&at(5, 5, waits(1, 70, true)), &at(5, 80, None)), [0, 5]);
        assert_eq!(between(&at(5, 5, None), &at(6, 7, None)), [1, 2]);
    }

    #[test]
    fn only_time_slices_take_the_cpu_from_threads_that_never_block() {
        let sliced_of = |(ran, queued), given_away: u64| {
            let (mut before, mut after) =
                (reading(0, Some((0, 0, 0)), true), reading(100, Some((ran, queued, 0)), true));
            let thread = after.threads.as_mut().unwrap().get_mut(&(1, 1)).unwrap();
            thread.given_away = Some(1000 + given_away);
            before.threads.as_mut().unwrap().get_mut(&(1, 1)).unwrap().given_away = Some(1000);
            let known = thread.known.as_mut().unwrap();
            (known.given, known.pausing) = (20_000_000, 5_000_000);
            let waits = after.since(&before).unwrap();
            (waits.sliced.get() / 1_000_000, waits.sliced_virtual.get() / 1_000_000)
        };
        let sliced = |ran, queued| sliced_of((ran, queued), 20);
        assert_eq!(sliced(60, 40), (60, 35));
        assert_eq!(sliced(60, 25), (60, 35));
        assert_eq!(sliced(97, 3), (0, 0), "it has a CPU for itself");
        assert_eq!(sliced(40, 30), (0, 0), "it blocks");
        assert_eq!(sliced_of((60, 40), 2000), (0, 0), "it runs for 30 µs at a time, until it waits");
    }

    #[test]
    fn what_a_thread_did_is_never_more_than_the_time_that_passed() {
        let each = |before: &Reading, after: &Reading| {
            let each = after.each_since(before);
            let millis = |time: Nanos| time.get() / 1_000_000;
            let times = |it: &Watched| [it.running, it.runnable, it.for_threads, it.external].map(millis);
            each.iter().map(|it| (it.slot, millis(it.passed), times(it))).collect::<Vec<_>>()
        };
        let before = reading(1000, Some((5, 5, 5)), true);
        let since = |ran: u64, queued: u64, in_waits: u64| {
            reading(1100, Some((5 + ran, 5 + queued, 5 + in_waits)), true)
        };
        assert_eq!(each(&before, &since(40, 10, 50)), [(Some(0), 100, [40, 10, 50, 0])]);
        assert_eq!(each(&before, &since(0, 0, 30)), [(Some(0), 100, [0, 0, 30, 0])], "the rest is unknown");
        assert_eq!(each(&before, &since(60, 10, 90)), [(Some(0), 100, [60, 10, 30, 0])], "it runs in waits");
        assert_eq!(each(&before, &since(120, 10, 0)), [(Some(0), 100, [100, 0, 0, 0])], "clocks differ");
        let waiting = |mut reading: Reading, so_far: u64, for_thread| {
            let known = reading.threads.as_mut().unwrap().get_mut(&(1, 1)).unwrap().known.as_mut().unwrap();
            known.waits = Some(UnderWay { begin: 1, so_far: so_far * 1_000_000, for_thread });
            reading
        };
        let goes_on = |for_thread| {
            let (was, now) =
                (waiting(before.clone(), 70, for_thread), waiting(since(0, 0, 20), 150, for_thread));
            each(&was, &now)
        };
        assert_eq!(goes_on(true), [(Some(0), 100, [0, 0, 20, 0])], "who ends it is not known yet");
        assert_eq!(goes_on(false), [(Some(0), 100, [0, 0, 20, 80])], "a clock or a device will");
        let unprofiled = [reading(0, Some((0, 0, 0)), false), reading(100, Some((80, 5, 0)), false)];
        assert_eq!(each(&unprofiled[0], &unprofiled[1]), [(None, 100, [80, 5, 0, 0])]);
        assert_eq!(each(&before, &reading(1100, None, true)), []);
    }

    #[test]
    fn threads_that_are_not_profiled_are_counted_apart() {
        let (before, after) = (reading(0, Some((0, 0, 0)), false), reading(100, Some((80, 0, 0)), false));
        let waits = after.since(&before).unwrap();
        assert_eq!((waits.cpu, waits.unprofiled), (Nanos::ZERO, Nanos::from_millis(80)));
        assert_eq!(reading(100, None, true).since(&before), None);
    }

    #[test]
    fn the_kernel_says_how_often_a_thread_has_given_its_cpu_away() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t500\nnonvoluntary_ctxt_switches:\t20\n";
        assert_eq!([status, "Name:\tx\n", ""].map(by_itself), [Some(500), None, None]);
    }

    #[test]
    fn our_own_threads_have_a_schedule() {
        let pid = std::process::id();
        if fs::metadata("/proc/self/schedstat").is_err() {
            return eprintln!("skipped: this kernel has no /proc/PID/schedstat");
        }
        assert!(schedule(pid, pid).is_some_and(|[ran, _, runs]| ran > 0 && runs > 0));
    }
}
