//! Waits of threads, put together from two records each: the stack that was copied when the thread went, and how long it was away, which is
//! only known when it comes back.
//!
//! A wait that goes on is counted as far as it has gone whenever counts are handed over, and the rest of it later. If no stack was copied, that of
//! an earlier wait of the same thread stands in, if it waited at the same instruction with the same stack pointer.

use crate::callchain::Cut;
use crate::hash::Mixed;
use kernel::stream::{Sample, WaitEnds, Waker};
use kernel::waits::{State, Waiting};
use std::collections::HashMap;
use std::ops::Range;
use wire::Nanos;

/// Places of a thread whose stacks are kept.
const PLACES: usize = 8;
/// Waits that are not much longer than a period may end without a record: their beginning is not counted before they end.
const SURE: u64 = 2;

/// See the module.
#[derive(Debug)]
pub struct Waits {
    /// Time that a sample stands for.
    sample: Nanos,
    random: fastrand::Rng,
    /// By thread: the stacks that were copied, the last one first; one for each place where it waits.
    begun: HashMap<u32, Vec<Begun>, Mixed>,
    /// Memory that they take, about.
    bytes: usize,
    most_bytes: usize,
    /// When waits that go on were last counted.
    went_on: Nanos,
    /// By thread: since when it waits, and until when that has been counted.
    counted: HashMap<u32, Range<Nanos>, Mixed>,
}

/// The stack of a thread that went.
#[derive(Clone, Debug, Default)]
struct Begun {
    since: Nanos,
    /// Instruction and stack pointer.
    user: (u64, u64),
    /// As the kernel writes callchains, perhaps with the mark of a cut at the end.
    callchain: Vec<u64>,
    /// Where the process's own code begins in it: behind [`Sample::USER`].
    own: usize,
}

/// A part of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How the thread waited.
    pub state: State,
    /// Who ended it.
    pub waker: Option<Waker>,
    /// How many samples it is: one at least.
    pub samples: u32,
    /// It stands for others that were not written.
    pub is_chosen: bool,
}

impl Waits {
    /// `sample`: the time that a sample stands for; `most_bytes`: memory that stacks may take.
    pub fn new(sample: Nanos, most_bytes: usize, seed: u64) -> Self {
        Self {
            sample: Nanos(sample.0.max(1)),
            random: fastrand::Rng::with_seed(seed),
            begun: HashMap::default(),
            bytes: 0,
            most_bytes,
            went_on: Nanos::ZERO,
            counted: HashMap::default(),
        }
    }

    /// Keeps the stack of a thread that goes: the kernel's frames, without those of `scheduler`, and what `own` puts there.
    pub fn begins(
        &mut self,
        tid: u32,
        since: Nanos,
        user: (u64, u64),
        kernel: impl Iterator<Item = u64>,
        scheduler: &Range<u64>,
        own: impl FnOnce(&mut Vec<u64>) -> Option<Cut>,
    ) {
        let places = self.begun.entry(tid).or_default();
        let old = places.iter().position(|begun| begun.user == user);
        let mut begun = match old {
            Some(old) => places.remove(old),
            None if places.len() >= PLACES => places.pop().unwrap_or_default(),
            None => Begun::default(),
        };
        self.bytes = self.bytes.saturating_sub(begun.bytes());
        let chain = &mut begun.callchain;
        chain.clear();
        chain.push(Sample::KERNEL);
        chain.extend(kernel);
        let last = chain.iter().rposition(|address| scheduler.contains(address));
        if let Some(last) = last.filter(|last| last + 1 < chain.len()) {
            chain.drain(1..=last);
        }
        chain.push(Sample::USER);
        (begun.since, begun.user, begun.own) = (since, user, chain.len());
        if user.0 != 0 {
            let mut frames = Vec::new();
            let cut = own(&mut frames);
            chain.extend(frames);
            chain.extend(cut.map(Cut::mark));
        }
        self.bytes += begun.bytes();
        places.insert(0, begun);
        if self.bytes > self.most_bytes {
            self.begun = HashMap::default();
            self.bytes = 0;
        }
    }

    /// A wait has ended: what it counts for, and its callchain in `callchain`.
    pub fn ends(&mut self, wait: &WaitEnds<'_>, callchain: &mut Vec<u64>) -> Vec<Part> {
        self.callchain_of(wait, callchain);
        let counted = self.counted.remove(&wait.tid).filter(|counted| counted.start == wait.since);
        let since = counted.map_or(wait.since, |counted| counted.end);
        let lasted = wait.until.saturating_sub(wait.since);
        let left = wait.until.saturating_sub(since);
        // What a record stands for: a short one for all that were not written.
        let is_chosen = lasted < wait.period;
        let weight = if is_chosen { wait.period } else { left };
        let (waker, woken) = wait.woken.unzip();
        let ready = match wait.state {
            State::Runnable => since,
            _ => woken.unwrap_or(wait.until).max(since).min(wait.until),
        };
        let ran = ready.saturating_sub(since).0 as f64 / left.0.max(1) as f64;
        // It had been woken, but there was no CPU.
        [(wait.state, waker, ran), (State::Runnable, None, 1.0 - ran)]
            .into_iter()
            .filter_map(|(state, waker, part)| {
                let samples = self.samples(part * weight.0 as f64);
                (samples > 0).then_some(Part { state, waker, samples, is_chosen })
            })
            .collect()
    }

    /// Threads that wait at `now`: what has not been counted of that, for those that will surely be heard of when they come back. `take` gets the
    /// callchain, too.
    pub fn go_on(
        &mut self,
        waiting: &[Waiting],
        now: Nanos,
        period: Nanos,
        mut take: impl FnMut(&Waiting, &[u64], Part),
    ) {
        let mut counted: HashMap<u32, Range<Nanos>, Mixed> = HashMap::default();
        for wait in waiting {
            if now.saturating_sub(wait.since).0 < SURE * period.0 {
                continue;
            }
            let before = self.counted.get(&wait.tid).filter(|counted| counted.start == wait.since);
            let since = before.map_or(wait.since, |counted| counted.end);
            let places = self.begun.get(&wait.tid);
            let begun = places.and_then(|places| places.first()).filter(|begun| begun.since == wait.since);
            // Without its stack: it has time to end, and then the place is known where it waited.
            if begun.is_none() && wait.since > self.went_on {
                continue;
            }
            let callchain = begun.map_or_else(Vec::new, |begun| begun.callchain.clone());
            let samples = self.samples(now.saturating_sub(since).0 as f64);
            counted.insert(wait.tid, wait.since..now);
            if samples > 0 {
                let part = Part { state: wait.state, waker: None, samples, is_chosen: false };
                take(wait, &callchain, part);
            }
        }
        self.went_on = now;
        // The others have ended, and will be heard of.
        for (tid, range) in std::mem::take(&mut self.counted) {
            counted.entry(tid).or_insert(range);
        }
        self.counted = counted;
    }

    /// Forgets the threads that are not among these, and what was kept of waits that ended before `then`.
    pub fn keep(&mut self, waiting: &[Waiting], then: Nanos) {
        let alive: HashMap<u32, Nanos, Mixed> =
            waiting.iter().map(|waiting| (waiting.tid, waiting.since)).collect();
        let is_new = |places: &[Begun]| places.iter().any(|begun| begun.since >= then);
        self.begun.retain(|tid, places| alive.contains_key(tid) || is_new(places));
        self.begun.shrink_to(2 * self.begun.len());
        self.bytes = self.begun.values().flatten().map(Begun::bytes).sum();
        self.counted.retain(|tid, counted| counted.end >= then || alive.contains_key(tid));
    }

    /// As many samples as a time stands for, on average.
    fn samples(&mut self, nanos: f64) -> u32 {
        let samples = nanos / self.sample.0 as f64 + self.random.f64();
        // Never more than a lifetime.
        samples as u32
    }

    fn callchain_of(&self, wait: &WaitEnds<'_>, callchain: &mut Vec<u64>) {
        callchain.clear();
        let places = self.begun.get(&wait.tid).into_iter().flatten();
        let begun = places.into_iter().find(|begun| begun.user == wait.user);
        if let Some(begun) = begun
            && begun.since == wait.since
        {
            return callchain.extend_from_slice(&begun.callchain);
        }
        callchain.push(Sample::KERNEL);
        callchain.extend(wait.kernel.addresses());
        callchain.push(Sample::USER);
        match begun {
            Some(begun) => callchain.extend_from_slice(&begun.callchain[begun.own..]),
            None => callchain.extend([wait.user.0, Cut::Unknown.mark()].iter().filter(|word| **word != 0)),
        }
    }
}

impl Begun {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.callchain.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::stream::KernelStack;

    const MS: u64 = 1_000_000;
    const MOST_BYTES: usize = 1 << 20;
    const USER: (u64, u64) = (0x1010, 0x7f00);

    fn wait(since: u64, until: u64) -> WaitEnds<'static> {
        WaitEnds {
            pid: 7,
            tid: 8,
            since: Nanos(since * MS),
            until: Nanos(until * MS),
            state: State::Interruptible,
            woken: None,
            user: USER,
            period: Nanos(10 * MS),
            kernel: KernelStack::default(),
        }
    }

    fn begins(waits: &mut Waits, since: u64) {
        let kernel = [0xffff_0001, 0xffff_0101, 0xffff_0201].into_iter();
        let own = |frames: &mut Vec<u64>| {
            frames.extend([0x1010, 0x1020]);
            None
        };
        waits.begins(8, Nanos(since * MS), USER, kernel, &(0xffff_0100..0xffff_0200), own);
    }

    fn samples(parts: &[Part]) -> u32 {
        parts.iter().map(|part| part.samples).sum()
    }

    #[test]
    fn a_wait_has_the_stack_that_was_copied_when_it_began_or_at_the_same_place() {
        let mut waits = Waits::new(Nanos(10 * MS), MOST_BYTES, 1);
        let mut callchain = Vec::new();
        waits.ends(&wait(0, 100), &mut callchain);
        assert_eq!(callchain, [Sample::KERNEL, Sample::USER, 0x1010, Cut::Unknown.mark()]);
        begins(&mut waits, 200);
        waits.ends(&wait(200, 300), &mut callchain);
        let own = [Sample::USER, 0x1010, 0x1020];
        assert_eq!(callchain, [&[Sample::KERNEL, 0xffff_0201][..], &own].concat(), "without the scheduler");
        waits.ends(&wait(400, 500), &mut callchain);
        assert_eq!(callchain, [&[Sample::KERNEL][..], &own].concat());
        waits.ends(&WaitEnds { user: (0x1010, 0x7e00), ..wait(600, 700) }, &mut callchain);
        assert_eq!(callchain.last(), Some(&Cut::Unknown.mark()), "another stack");
        // It waits at other places meanwhile.
        for nth in 0..PLACES as u64 - 1 {
            waits.begins(8, Nanos(nth), (0x2000 + nth, 0x7f00), std::iter::empty(), &(0..0), |_| None);
        }
        waits.ends(&wait(800, 900), &mut callchain);
        assert_eq!(callchain, [&[Sample::KERNEL][..], &own].concat());
        waits.begins(8, Nanos(9), (0x3000, 0x7f00), std::iter::empty(), &(0..0), |_| None);
        waits.ends(&wait(800, 900), &mut callchain);
        assert_eq!(callchain.last(), Some(&Cut::Unknown.mark()), "forgotten");
    }

    #[test]
    fn samples_are_in_proportion_to_time_whatever_waits_are_like() {
        let mut waits = Waits::new(Nanos(10 * MS), MOST_BYTES, 2);
        let mut callchain = Vec::new();
        let long = waits.ends(&wait(0, 1005), &mut callchain);
        assert!((100..=101).contains(&samples(&long)), "{long:?}");
        let sum: u32 = (0..10_000).map(|_| samples(&waits.ends(&wait(0, 15), &mut callchain))).sum();
        assert!((14_800..15_200).contains(&sum), "{sum}");
        // One that was chosen among short ones.
        let chosen = waits.ends(&wait(0, 1), &mut callchain);
        assert_eq!((samples(&chosen), chosen[0].is_chosen), (1, true));
        assert!(!long[0].is_chosen);
    }

    #[test]
    fn the_time_after_a_thread_was_woken_is_spent_waiting_for_a_cpu() {
        let mut waits = Waits::new(Nanos(MS), MOST_BYTES, 3);
        let mut callchain = Vec::new();
        let woken = Some((Waker::Interrupt, Nanos(70 * MS)));
        let parts = waits.ends(&WaitEnds { woken, ..wait(0, 100) }, &mut callchain);
        let of = |state, waker, samples| Part { state, waker, samples, is_chosen: false };
        let expected = [of(State::Interruptible, Some(Waker::Interrupt), 70), of(State::Runnable, None, 30)];
        for (part, expected) in parts.iter().zip(&expected) {
            assert!(part.samples.abs_diff(expected.samples) <= 1, "{parts:?}");
            assert_eq!((part.state, part.waker), (expected.state, expected.waker));
        }
        let parts = waits.ends(&WaitEnds { state: State::Runnable, woken, ..wait(0, 100) }, &mut callchain);
        assert!(parts.iter().all(|part| part.state == State::Runnable && part.waker.is_none()), "{parts:?}");
    }

    #[test]
    fn a_wait_that_goes_on_is_counted_once() {
        let mut waits = Waits::new(Nanos(MS), MOST_BYTES, 4);
        begins(&mut waits, 1000);
        let waiting = [Waiting { pid: 7, tid: 8, since: Nanos(1000 * MS), state: State::Interruptible }];
        let go_on = |waits: &mut Waits, now: u64| {
            let (mut sum, mut frames) = (0, 0);
            waits.go_on(&waiting, Nanos(now * MS), Nanos(10 * MS), |_, callchain, part| {
                sum += part.samples;
                frames = callchain.len();
            });
            (sum, frames)
        };
        assert_eq!(go_on(&mut waits, 1015), (0, 0), "it may end without a word");
        let (first, frames) = go_on(&mut waits, 1500);
        assert!((500..=501).contains(&first) && frames == 5, "{first} {frames}");
        let (second, _) = go_on(&mut waits, 1700);
        assert!((200..=201).contains(&second), "{second}");
        let last = samples(&waits.ends(&wait(1000, 2000), &mut Vec::new()));
        assert!((300..=301).contains(&last), "{last}");
        // The next one is another one.
        let next = samples(&waits.ends(&wait(2000, 3000), &mut Vec::new()));
        assert!((1000..=1001).contains(&next), "{next}");
        waits.keep(&[], Nanos(5000 * MS));
        assert_eq!((waits.begun.len(), waits.counted.len(), waits.bytes), (0, 0, 0));
    }

    #[test]
    fn a_wait_without_its_stack_is_given_time_to_end() {
        let mut waits = Waits::new(Nanos(MS), MOST_BYTES, 6);
        let waiting = [Waiting { pid: 7, tid: 8, since: Nanos(1000 * MS), state: State::Interruptible }];
        let go_on = |waits: &mut Waits, now: u64| {
            let mut sum = 0;
            waits.go_on(&waiting, Nanos(now * MS), Nanos(MS), |_, callchain, part| {
                assert!(callchain.is_empty());
                sum += part.samples;
            });
            sum
        };
        waits.went_on = Nanos(900 * MS);
        assert_eq!(go_on(&mut waits, 1500), 0);
        let second = go_on(&mut waits, 2000);
        assert!((1000..=1001).contains(&second), "{second}: all of it");
    }

    #[test]
    fn stacks_of_many_threads_take_bounded_memory() {
        let mut waits = Waits::new(Nanos(MS), MOST_BYTES, 5);
        for tid in 0..20_000 {
            let own = |frames: &mut Vec<u64>| {
                frames.extend(0x1000..0x1200);
                None
            };
            waits.begins(tid, Nanos(1), USER, std::iter::empty(), &(0..0), own);
            assert!(waits.bytes <= MOST_BYTES);
        }
        assert!(waits.bytes > 0);
    }
}
