//! What the rules of virtual time add to the machine: samples, credits, debts and pauses.

use wire::{Account, Nanos};

use super::{Machine, State, Thread};
use crate::rules::{Boundary, Pause, Queue, Woken};

impl Machine<'_> {
    /// Rules 1 and 3: a sample of thread `i` is due.
    pub(super) fn sample(&mut self, i: usize) {
        let Some(rules) = self.rules else { return };
        let thread = &mut self.threads[i];
        let learned = &mut thread.learned[thread.stretch];
        *learned = (learned.0 + u64::from(thread.region), learned.1 + 1);
        let in_region = match rules.boundary {
            Boundary::Ignored => u64::from(thread.region) * thread.unsampled,
            known => thread.uncredited(known),
        };
        if thread.samples.is_multiple_of(4) {
            thread.sample_at = (rules.period as f64 * (1.0 + 0.5 * thread.jitter.next())) as u64;
        }
        thread.samples += 1;
        thread.unsampled = 0;
        thread.batch += self.speedup.of(Nanos(in_region)).0;
        if thread.samples.is_multiple_of(rules.batch) {
            thread.paying = true;
            let credit = std::mem::take(&mut thread.batch);
            self.credit(i, credit);
        }
    }

    /// Rule 1.
    fn credit(&mut self, i: usize, credit: u64) {
        let Some(rules) = self.rules else { return };
        let local = &self.threads[i].local;
        if let (true, State::On(cpu)) = (rules.virtual_slices, self.threads[i].state) {
            self.cpus[cpu].slice += credit;
        }
        if rules.maximum {
            local.credit(&self.required, self.epoch, Nanos(credit));
        } else {
            let (required, own) = local.meet(&self.required);
            local.inherit(Account::new(self.epoch, own.delay() + Nanos(credit)));
            self.required.raise(Account::new(self.epoch, required.delay() + Nanos(credit)));
        }
    }

    /// Thread `i` has reached a call that may wait or wake: what is known of the time before is credited.
    pub(super) fn credit_before_call(&mut self, i: usize) {
        let Some(rules) = self.rules else { return };
        if rules.boundary != Boundary::Ignored {
            let thread = &mut self.threads[i];
            let in_region = thread.uncredited(rules.boundary);
            thread.stretch = thread.step;
            self.credit(i, self.speedup.of(Nanos(in_region)).0);
        }
    }

    /// Rule 4: thread `i` is about to wait or to wake. Whether it has to pay before.
    pub(super) fn pays_first(&mut self, i: usize) -> bool {
        let Some(rules) = self.rules else { return false };
        let owes = rules.pay_first && rules.pause != Pause::Never && self.debt(i) > 0;
        self.threads[i].paying |= owes;
        owes
    }

    fn debt(&self, i: usize) -> u64 {
        self.threads[i].local.debt(&self.required).0.saturating_sub(self.threads[i].carry)
    }

    /// Rules 2 and 8: thread `i`, on a CPU, begins to pay what it owes. True: it owes nothing (more).
    pub(super) fn pay(&mut self, i: usize) -> bool {
        let Some(rules) = self.rules else { return true };
        let debt = self.debt(i);
        if debt == 0 || rules.pause == Pause::Never {
            self.threads[i].paying = false;
            return true;
        }
        let wanted = self.cpus.iter().filter(|cpu| cpu.thread.is_some()).count() + self.queue.len();
        let keeps_cpu = match rules.pause {
            Pause::OnCpu => true,
            Pause::IfWanted => wanted > self.cpus.len(),
            Pause::Asleep | Pause::Never => false,
        };
        if keeps_cpu {
            self.threads[i].pause = debt;
        } else {
            self.leave_cpu(i, State::Queued);
            self.pay_asleep(i);
        }
        false
    }

    /// Thread `i`, without a CPU, begins to pay what it owes. False: nothing.
    pub(super) fn pay_asleep(&mut self, i: usize) -> bool {
        let debt = self.debt(i);
        if debt > 0 {
            let thread = &mut self.threads[i];
            thread.local.pay(self.required.load(), Nanos(std::mem::take(&mut thread.carry)));
            thread.state = State::Asleep { until: self.now + debt, pausing: true };
            thread.since = self.now;
        }
        debt > 0
    }

    /// Rule 6: the deadline that thread `i` waited for is over. Whether it owes anything.
    pub(super) fn meet_deadline(&mut self, i: usize) -> bool {
        let Some(rules) = self.rules else { return false };
        let thread = &self.threads[i];
        if rules.deadlines {
            thread.local.released(&self.required, Nanos(self.now - thread.due));
        }
        rules.deadlines && self.debt(i) > 0
    }

    /// Rule 5: thread `i` is woken by thread `waker`.
    pub(super) fn credit_woken(&mut self, i: usize, waker: usize) {
        let Some(rules) = self.rules else { return };
        let delay_of_waker = self.threads[waker].local.meet(&self.required).1.delay();
        let thread = &mut self.threads[i];
        match rules.woken {
            Woken::Nothing => thread.blocked = None,
            Woken::Growth if rules.queue == Queue::Nothing => {
                // The runtime learns of it when the call returns, and then credits the wait for a CPU, too.
            }
            Woken::Growth => {
                if let Some(since) = thread.blocked.take() {
                    thread.local.woken(&self.required, since);
                }
            }
            Woken::Waker => {
                thread.blocked = None;
                self.credit_up_to(i, delay_of_waker);
            }
        }
    }

    /// Thread `i` has waited since `since` for a thread whose delay is `other`.
    fn credit_up_to(&mut self, i: usize, other: Nanos) {
        let thread = &self.threads[i];
        let own = thread.local.meet(&self.required).1.delay();
        let delay = other.min(own + Nanos(self.now - thread.since));
        thread.local.inherit(Account::new(self.epoch, delay));
    }

    /// Rule 7: thread `i`, which has waited for a CPU, has got `cpu`.
    pub(super) fn credit_queueing(&mut self, i: usize, cpu: usize) {
        let Some(rules) = self.rules else { return };
        let thread = &mut self.threads[i];
        let (blocked, queued) = (thread.blocked.take(), thread.queued.take());
        if let Some(since) = thread.overslept_since.take() {
            thread.carry += self.now - since;
            return;
        }
        match rules.queue {
            Queue::Nothing => {
                if let Some(since) = blocked {
                    thread.local.woken(&self.required, since);
                }
            }
            Queue::Growth => {
                if let Some(since) = queued {
                    let now = self.required.load();
                    let same = now.same_epoch(since.account());
                    let before = if same { since.account().delay() } else { Nanos::ZERO };
                    thread.local.waited_for_cpu(&self.required, now.delay().saturating_sub(before));
                }
            }
            Queue::Level => self.credit_up_to(i, self.required.load().delay()),
            Queue::Holder => {
                let cpu = &self.cpus[cpu];
                let holder = cpu.local.meet(&self.required).1.delay();
                let level = self.required.load().delay();
                self.credit_up_to(i, level.min(holder + Nanos(self.now - cpu.free_since)));
            }
        }
    }
}

impl Thread {
    /// How much of the CPU time since the last credit was the region, as far as can be known.
    fn uncredited(&mut self, boundary: Boundary) -> u64 {
        let (hits, samples) = self.learned[self.stretch];
        let time = std::mem::take(&mut self.uncredited);
        let exact = std::mem::take(&mut self.uncredited_region);
        match boundary {
            Boundary::Known => exact,
            Boundary::Learned if samples > 0 => (time as f64 * hits as f64 / samples as f64) as u64,
            _ => 0,
        }
    }
}
