//! Time off the CPU: starts the kernel's programs, counts what they write, keeps its books, and holds down how much that is.

use crate::callchain::Cut;
use crate::copy_sizes::CopySizes;
use crate::follower::Follower;
use crate::images::ImageIndex;
use crate::meter::Tally;
use crate::waits::{Part, Waits};
use crate::walk::End;
use archive::{STOPPED, WAITS, WAITS_FOR_CPU, WAITS_FOR_DEVICE, WAITS_UNINTERRUPTIBLE, WOKEN_BY};
use kernel::cpu::switches;
use kernel::maps::pids;
use kernel::stream::{Cpu, Record, Sample, UserStack, WaitEnds, Waker, threads};
use kernel::switching::cost_of_a_switch;
use kernel::waits::{LONGEST_PERIOD, State, Waiting};
use std::io;
use wire::{Address, Nanos};

/// What is kept of stacks is looked through after this long.
const KEPT: Nanos = Nanos(2_000_000_000);
/// Waits that are written are this many times as many as samples of a CPU at most, in the long run.
const RECORDS: f64 = 4.0;
/// The same of stacks that are copied.
const STACKS: f64 = 2.0;
/// Turns of two threads in a measurement of what a switch costs; with records, as many as a ring has room for.
const MANY: usize = 1000;
const FEW: usize = 60;
/// Stacks that are copied on a CPU at most before they are read.
const AT_ONCE: f64 = 128.0;

/// See the module.
#[derive(Debug)]
pub struct OffCpu {
    programs: kernel::waits::Waits,
    waits: Waits,
    sizes: CopySizes,
    /// The number of its event.
    event: u32,
    /// The time that a sample stands for, and that records of short waits stand for just now.
    sample: Nanos,
    period: Nanos,
    cpus: f64,
    callchain: Vec<u64>,
    tally: Tally,
    /// Stacks that each CPU may copy, and when that was last counted.
    allowed: (f64, Nanos),
    /// Records since the last look at how many there are.
    records: u64,
    looked: Nanos,
    /// What the programs had no room for until the books were last taken.
    lost: Nanos,
    /// The same until the last look.
    seen_lost: Nanos,
    /// What a switch and a record cost the kernel, and how many there have been.
    costs: Costs,
    switches: u64,
    all_records: u64,
}

/// What the programs cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// At each switch, with the wake-up before it.
    pub switch: Nanos,
    /// For each record besides.
    pub record: Nanos,
}

impl OffCpu {
    /// Begins, on CPUs whose events are open already.
    ///
    /// # Errors
    /// The kernel's error; see [`kernel::waits::Waits::start`].
    pub fn start(
        cpus: &mut [Cpu],
        event: u32,
        rate_hz: f64,
        most_bytes: usize,
        seed: u64,
        now: Nanos,
    ) -> io::Result<Self> {
        let sample = Nanos((1e9 / rate_hz) as u64);
        let period = sample.min(LONGEST_PERIOD);
        let before = cost_of_a_switch(MANY, || ());
        let programs = kernel::waits::Waits::start(cpus, LONGEST_PERIOD)?;
        let costs = costs(before, &programs, cpus);
        programs.allow(AT_ONCE as u64);
        programs.set_period(period);
        let lost = programs.problems().0;
        Ok(Self {
            programs,
            waits: Waits::new(sample, most_bytes, seed),
            sizes: CopySizes::default(),
            event,
            sample,
            period,
            cpus: cpus.len() as f64,
            callchain: Vec::new(),
            tally: Tally::default(),
            allowed: (AT_ONCE, now),
            records: 0,
            looked: now,
            lost,
            seen_lost: lost,
            costs,
            switches: switches(),
            all_records: 0,
        })
    }

    /// Tells the programs of the threads that wait already, which will not be switched away from.
    pub fn scan(&self, now: Nanos) {
        for pid in pids() {
            for tid in threads(pid) {
                if let Some(state) = sleeps(pid, tid) {
                    self.programs.add(Waiting { pid, tid, since: now, state });
                }
            }
        }
    }

    /// A record.
    pub fn take(&mut self, follower: &mut Follower, cpu: usize, time: Nanos, record: &Record<'_>) {
        self.all_records += 1;
        match record {
            Record::WaitBegins { pid, tid, since, kernel, stack } => {
                let UserStack { instruction, stack_pointer, .. } = *stack;
                let scheduler = follower.scheduler();
                let Self { waits, sizes, programs, .. } = self;
                let own = |callchain: &mut Vec<u64>| {
                    let (end, took) = follower.walk(*pid, stack, callchain);
                    if let Some(bytes) = sizes.walked(*pid, end == End::Short, took) {
                        programs.want(*pid, bytes);
                    }
                    cut(end)
                };
                let user = (instruction, stack_pointer);
                waits.begins(*tid, *since, user, kernel.addresses(), &scheduler, own);
            }
            Record::WaitEnds(wait) => self.ends(follower, cpu, time, wait),
            _ => {}
        }
    }

    fn ends(&mut self, follower: &mut Follower, cpu: usize, time: Nanos, wait: &WaitEnds<'_>) {
        self.records += 1;
        let mut callchain = std::mem::take(&mut self.callchain);
        for part in self.waits.ends(wait, &mut callchain) {
            self.count(follower, (cpu, time), (wait.pid, wait.tid), &callchain, &part);
        }
        self.callchain = callchain;
    }

    fn count(
        &mut self,
        follower: &mut Follower,
        (cpu, time): (usize, Nanos),
        (pid, tid): (u32, u32),
        callchain: &[u64],
        part: &Part,
    ) {
        let outside = outside(follower, pid, part);
        let first = callchain.iter().copied().find(|word| *word < Sample::MARKS);
        // Nothing is known of it but that it waits, or has waited.
        let cut = if callchain.is_empty() { Cut::Waits } else { Cut::Unknown };
        let unknown = [Sample::USER, cut.mark()];
        let callchain = if first.is_some() { callchain } else { &unknown };
        let address = Address(first.unwrap_or(0));
        let sample = Sample { id: 0, address, pid, tid, callchain, stack: None };
        let is_known = follower.busy(cpu, time, &sample, self.event, &outside, part.samples);
        let tally = if is_known { &mut self.tally.stored } else { &mut self.tally.unknown };
        let samples = u64::from(part.samples);
        *tally += samples;
        // One that stands for others is one observation, and the length of a long one is known.
        self.tally.squares += if part.is_chosen { samples * samples } else { samples };
    }

    /// Counts how long threads have waited until `now` that still do. All records until then have been taken.
    pub fn go_on(&mut self, follower: &mut Follower, now: Nanos) {
        let waiting = self.programs.waiting();
        let mut parts = Vec::new();
        self.waits.go_on(&waiting, now, self.period, |wait, callchain, part| {
            parts.push((wait.pid, wait.tid, callchain.to_vec(), part));
        });
        for (pid, tid, callchain, part) in parts {
            self.count(follower, (0, now), (pid, tid), &callchain, &part);
        }
        self.waits.keep(&waiting, now.saturating_sub(KEPT));
    }

    /// What became of its samples since the last call.
    pub fn books(&mut self) -> Tally {
        let (lost, _) = self.programs.problems();
        let no_room = lost.saturating_sub(self.lost).0 / self.sample.0.max(1);
        // What is less than a sample counts the next time.
        self.lost += Nanos(no_room * self.sample.0);
        let mut tally = std::mem::take(&mut self.tally);
        tally.no_room = no_room;
        tally.expected = tally.stored + tally.unknown + no_room;
        tally.covered = Nanos(tally.expected * self.sample.0);
        tally
    }

    /// What the programs have cost the kernel since the beginning.
    pub fn cost(&self) -> Nanos {
        let of_switches = switches().saturating_sub(self.switches) * self.costs.switch.0;
        Nanos(of_switches + self.all_records * self.costs.record.0)
    }

    /// What a switch and a record cost.
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// All records until now have been read: there is room for more stacks.
    pub fn has_read(&mut self, now: Nanos) {
        // Not in a second, but now, if there is more than a second's worth.
        if self.records as f64 > self.most_per_second() * self.cpus {
            self.look(now);
        }
        let (allowed, before) = self.allowed;
        let passed = now.saturating_sub(before).0 as f64;
        let more = (STACKS * passed / self.sample.0.max(1) as f64).min(AT_ONCE);
        if allowed.max(more) >= 1.0 {
            self.programs.allow(allowed.max(more) as u64);
            self.allowed = (0.0, now);
        }
    }

    /// Waits that are written on a CPU at most.
    fn most_per_second(&self) -> f64 {
        RECORDS * 1e9 / self.sample.0 as f64
    }

    /// Holds down how many records there are.
    pub fn look(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.looked);
        let rate = self.records as f64 / (passed.0.max(1) as f64 / 1e9) / self.cpus;
        (self.looked, self.records) = (now, 0);
        // What there was no room for counts as well.
        let lost = self.programs.problems().0;
        let no_room = lost.saturating_sub(std::mem::replace(&mut self.seen_lost, lost));
        let most = self.most_per_second();
        let rate = if no_room > self.period { rate.max(2.0 * most) } else { rate };
        let next = next_period(self.period, self.sample.min(LONGEST_PERIOD), rate, most);
        if next != self.period {
            self.period = next;
            self.programs.set_period(next);
        }
    }
}

/// Measured on ourselves: switches cost so much `before`, and now with the programs, which write nothing or everything.
fn costs(before: Option<Nanos>, programs: &kernel::waits::Waits, cpus: &mut [Cpu]) -> Costs {
    let without_records = cost_of_a_switch(MANY, || ());
    programs.allow(u64::MAX);
    programs.set_period(Nanos(1));
    let with_records = cost_of_a_switch(FEW, || discard(cpus));
    discard(cpus);
    let more = |after: Option<Nanos>, before: Option<Nanos>| {
        after.zip(before).map(|(after, before)| after.saturating_sub(before))
    };
    Costs {
        switch: more(without_records, before).unwrap_or(Costs::SOME.switch),
        // The stack of the one that goes and the wait of the one that comes.
        record: more(with_records, without_records).map_or(Costs::SOME.record, |both| Nanos(both.0 / 2)),
    }
}

/// Gives up what is in the rings.
fn discard(cpus: &mut [Cpu]) {
    for cpu in cpus {
        let ring = cpu.ring();
        ring.refresh();
        while ring.record().is_some() {
            ring.next();
        }
        ring.release();
    }
}

impl Costs {
    /// Where they cannot be measured: about as on our virtual machines.
    const SOME: Self = Self { switch: Nanos(200), record: Nanos(1500) };
}

/// The period that keeps records below `most` a second and CPU, if there are `rate` of them now.
fn next_period(period: Nanos, least: Nanos, rate: f64, most: f64) -> Nanos {
    let part = rate / most;
    let next = match part {
        1.0.. => period.0 as f64 * part.min(4.0),
        ..0.5 => period.0 as f64 / 2.0,
        _ => period.0 as f64,
    };
    Nanos((next as u64).clamp(least.0, LONGEST_PERIOD.0))
}

fn cut(end: End) -> Option<Cut> {
    match end {
        End::Root => None,
        End::Short => Some(Cut::Short),
        End::Unknown => Some(Cut::Unknown),
        End::Deep => Some(Cut::Deep),
    }
}

/// The frames that say how a thread waited and who has woken it.
fn outside(follower: &mut Follower, pid: u32, part: &Part) -> Vec<ImageIndex> {
    let waker = match part.waker {
        Some(Waker::Interrupt) => Some(format!("{WOKEN_BY}an interrupt]")),
        Some(Waker::Process(of)) if of == pid => Some(format!("{WOKEN_BY}its own process]")),
        Some(Waker::Process(of)) => {
            let name = follower.name_of(of).unwrap_or("a process that has ended");
            // Threads of the kernel have numbers behind it.
            Some(format!("{WOKEN_BY}{}]", name.split('/').next().unwrap_or(name)))
        }
        None => None,
    };
    let state = match part.state {
        State::Runnable => WAITS_FOR_CPU,
        State::Interruptible => WAITS,
        State::Uninterruptible => WAITS_UNINTERRUPTIBLE,
        State::Device => WAITS_FOR_DEVICE,
        State::Stopped => STOPPED,
    };
    let waker = waker.map(|waker| follower.bracketed(&waker));
    waker.into_iter().chain([follower.bracketed(state)]).collect()
}

/// How a thread sleeps, if it does and is none of the kernel's.
fn sleeps(pid: u32, tid: u32) -> Option<State> {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // Behind the name, which may contain anything.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut words = text.split_whitespace();
    let state = match words.next()? {
        "S" => State::Interruptible,
        "D" => State::Uninterruptible,
        "T" | "t" => State::Stopped,
        _ => return None,
    };
    let flags: u64 = words.nth(5)?.parse().ok()?;
    (flags & KERNEL_THREAD == 0).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_records_lengthen_the_period_and_few_shorten_it() {
        let least = Nanos(10_000_000);
        let mut period = least;
        // Each of a hundred threads waits a millisecond at a time.
        let rate = |period: Nanos| 100.0 * 1e9 / period.0 as f64;
        for _ in 0..20 {
            period = next_period(period, least, rate(period), 400.0);
        }
        assert!((200.0..=400.0).contains(&rate(period)), "{period:?}");
        for _ in 0..20 {
            period = next_period(period, least, 0.0, 400.0);
        }
        assert_eq!(period, least);
        assert_eq!(next_period(LONGEST_PERIOD, least, 1e6, 400.0), LONGEST_PERIOD);
    }

    #[test]
    fn threads_of_the_kernel_do_not_count() {
        // The second process of every machine, if it can be seen.
        assert_eq!(sleeps(2, 2), None);
        assert_eq!(sleeps(std::process::id(), kernel::stream::own_thread()), None, "it runs");
    }
}
