//! The delay account: how much delay every thread should have by now, and how much one thread has.
//!
//! This is the arithmetic of the rules of virtual time (`crates/runtime/README.md`), without clocks and
//! without pauses: the runtime adds those, the simulator in the tests adds others.
//!
//! # Why the epoch is part of the number
//!
//! Debt and credit belong to one experiment (rule 9). If the amount and the epoch were two words, a
//! thread could read the old epoch, be preempted, and add its credit to the next experiment. So both
//! live in one 64-bit word, and every change is a compare-exchange that fails when the epoch has gone.

use crate::atomic::{AtomicU64, Ordering};
use crate::{Epoch, Nanos};

const EPOCH_BITS: u32 = 20;
const NANOS_BITS: u32 = 64 - EPOCH_BITS;
const NANOS_MASK: u64 = (1 << NANOS_BITS) - 1;

/// An amount of delay within an epoch: 20 bits of epoch, 44 bits of nanoseconds (4.8 hours).
///
/// Two epochs that are a multiple of 2^20 apart look alike; with windows of a tenth of a second a
/// thread would have to sleep through 29 hours of experiments to the very window to be deceived, and
/// would then owe one window's delay wrongly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account(u64);

impl Account {
    /// `delay` within `epoch`. Amounts beyond 44 bits saturate.
    #[must_use]
    pub const fn new(epoch: Epoch, delay: Nanos) -> Self {
        let delay = if delay.0 > NANOS_MASK { NANOS_MASK } else { delay.0 };
        Self(((epoch.0 as u64) << NANOS_BITS) | delay)
    }

    /// The delay in nanoseconds.
    #[must_use]
    pub const fn delay(self) -> Nanos {
        Nanos(self.0 & NANOS_MASK)
    }

    /// Whether the amount belongs to `epoch`.
    #[must_use]
    pub const fn is_of(self, epoch: Epoch) -> bool {
        self.0 >> NANOS_BITS == (epoch.0 as u64) & ((1 << EPOCH_BITS) - 1)
    }

    /// Whether both amounts belong to the same epoch.
    #[must_use]
    pub const fn same_epoch(self, other: Self) -> bool {
        self.0 >> NANOS_BITS == other.0 >> NANOS_BITS
    }

    /// No delay, in the same epoch.
    #[must_use]
    pub const fn emptied(self) -> Self {
        self.with_delay(Nanos::ZERO)
    }

    /// The word that holds both.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The account in a word that [`to_bits`](Self::to_bits) gave.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    const fn with_delay(self, delay: Nanos) -> Self {
        let delay = if delay.0 > NANOS_MASK { NANOS_MASK } else { delay.0 };
        Self((self.0 & !NANOS_MASK) | delay)
    }
}

/// `required`: the delay that every thread should have by now.
///
/// The controller begins epochs, the program's threads raise the amount.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct SharedAccount(AtomicU64);

impl SharedAccount {
    /// The amount and its epoch. Acquire: pairs with [`begin`](Self::begin), so a thread that sees an epoch
    /// also sees the experiment that was published for it.
    pub fn load(&self) -> Account {
        Account(self.0.load(Ordering::Acquire))
    }

    /// Begins `epoch` with nothing owed and returns what the epoch before had come to. Release: the
    /// experiment stored before is published with it.
    pub fn begin(&self, epoch: Epoch) -> Account {
        Account(self.0.swap(Account::new(epoch, Nanos::ZERO).0, Ordering::AcqRel))
    }

    /// Rule 1: raises the amount to `local` if it is larger — a maximum, never a sum. Does nothing when
    /// `local` belongs to another epoch.
    pub fn raise(&self, local: Account) {
        let mut now = self.load();
        while now.same_epoch(local) && now.delay() < local.delay() {
            match self.0.compare_exchange_weak(now.0, local.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(seen) => now = Account(seen),
            }
        }
    }
}

/// What a thread remembers when it begins to wait; see [`LocalAccount::wait`].
#[derive(Clone, Copy, Debug)]
pub struct Waiting(Account);

impl Waiting {
    /// A wait that began when `required` was `account`.
    #[must_use]
    pub const fn since(account: Account) -> Self {
        Self(account)
    }

    /// What `required` was when the wait began.
    #[must_use]
    pub const fn account(self) -> Account {
        self.0
    }
}

/// `local`: the delay that one thread has been credited with or has paid.
///
/// Only that thread writes it (its signal handler does so only while the thread is not in the middle of
/// a change itself); the controller reads it for the books. Relaxed throughout: it publishes nothing.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LocalAccount(AtomicU64);

impl LocalAccount {
    /// The amount and its epoch.
    pub fn load(&self) -> Account {
        Account(self.0.load(Ordering::Relaxed))
    }

    /// Takes over an amount: a new thread starts with its creator's (rule 10).
    pub fn inherit(&self, from: Account) {
        self.0.store(from.0, Ordering::Relaxed);
    }

    /// Rule 9: a thread that meets a new epoch starts level. Returns `required` and the thread's own
    /// amount, both of the same epoch.
    pub fn meet(&self, shared: &SharedAccount) -> (Account, Account) {
        let required = shared.load();
        let local = self.load();
        if local.same_epoch(required) {
            return (required, local);
        }
        let level = required.with_delay(Nanos::ZERO);
        self.0.store(level.0, Ordering::Relaxed);
        (required, level)
    }

    /// The delay that the thread still has to make good (rule 2).
    pub fn debt(&self, shared: &SharedAccount) -> Nanos {
        let (required, local) = self.meet(shared);
        required.delay().saturating_sub(local.delay())
    }

    /// Rule 1: the thread ran the selected code, or inherits what others were delayed for.
    /// Returns false, and changes nothing, when the epoch is no longer `epoch`.
    pub fn credit(&self, shared: &SharedAccount, epoch: Epoch, delay: Nanos) -> bool {
        let (required, local) = self.meet(shared);
        if !required.is_of(epoch) {
            return false;
        }
        let local = local.with_delay(local.delay() + delay);
        self.0.store(local.0, Ordering::Relaxed);
        shared.raise(local);
        true
    }

    /// Rule 2: the thread has paused for `delay` on behalf of the epoch of `debt_of`. Forgotten if the
    /// thread has met another epoch since.
    pub fn pay(&self, debt_of: Account, delay: Nanos) {
        let local = self.load();
        if local.same_epoch(debt_of) {
            self.0.store(local.with_delay(local.delay() + delay).0, Ordering::Relaxed);
        }
    }

    /// The delay, if it belongs to the same epoch as `account`.
    pub fn within(&self, account: Account) -> Nanos {
        let own = self.load();
        if own.same_epoch(account) { own.delay() } else { Nanos::ZERO }
    }

    /// Takes what there is in the epoch of `debt_of`, and `most` at most. Returns how much it took.
    pub fn take(&self, debt_of: Account, most: Nanos) -> Nanos {
        let there = self.within(debt_of);
        let taken = there.min(most);
        if taken > Nanos::ZERO {
            self.inherit(debt_of.with_delay(there.saturating_sub(taken)));
        }
        taken
    }

    /// Rule 2, where the thread owes less than `least`: that counts as paid, and is added to `arrears`, for which it pauses later.
    pub fn put_off(&self, shared: &SharedAccount, least: Nanos, arrears: &Self) {
        let (required, local) = self.meet(shared);
        let debt = required.delay().saturating_sub(local.delay());
        if debt < least {
            self.pay(required, debt);
            arrears.inherit(required.with_delay(arrears.within(required) + debt));
        }
    }

    /// Rule 2: the thread has paused for `delay` on behalf of the epoch of `debt_of`, first for what it has put off.
    pub fn pay_after(&self, arrears: &Self, debt_of: Account, delay: Nanos) {
        self.pay(debt_of, delay.saturating_sub(arrears.take(debt_of, delay)));
    }

    /// Rule 6, for what comes at a time of its own (a deadline, an arrival): the thread goes on `late` after it, and its clock
    /// shows that time at least. Returns the credit that is taken back for it.
    pub fn released(&self, shared: &SharedAccount, late: Nanos) -> Nanos {
        let (_, local) = self.meet(shared);
        let most = local.delay().min(late);
        self.0.store(local.with_delay(most).0, Ordering::Relaxed);
        local.delay().saturating_sub(most)
    }

    /// Rule 6, for what answers something that a thread with the delay `sender` has sent: the thread has waited this long for it, and its clock shows what the sender's did, if it
    /// did not show more before. Returns the credit.
    pub fn answered(&self, shared: &SharedAccount, sender: Account, waited: Nanos) -> Nanos {
        let (required, local) = self.meet(shared);
        if !sender.same_epoch(required) {
            return Nanos::ZERO;
        }
        let most = sender.delay().min(required.delay()).min(local.delay() + waited);
        let credit = most.saturating_sub(local.delay());
        self.0.store(local.with_delay(local.delay() + credit).0, Ordering::Relaxed);
        credit
    }

    /// The thread is about to wait for another one. Call after paying.
    pub fn wait(&self, shared: &SharedAccount) -> Waiting {
        Waiting(self.meet(shared).0)
    }

    /// Rule 7: the thread waited for a CPU while `required` grew by `growth`. Returns the credit: a thread
    /// never gets ahead by waiting.
    pub fn waited_for_cpu(&self, shared: &SharedAccount, growth: Nanos) -> Nanos {
        let (required, local) = self.meet(shared);
        let credit = growth.min(required.delay().saturating_sub(local.delay()));
        self.0.store(local.with_delay(local.delay() + credit).0, Ordering::Relaxed);
        credit
    }

    /// Rule 5: the thread was woken by another one, which had paid: it is credited with what `required`
    /// has grown meanwhile, or since the epoch began if that was during the wait. Returns the credit.
    pub fn woken(&self, shared: &SharedAccount, since: Waiting) -> Nanos {
        self.woken_after(shared, since, Nanos(u64::MAX))
    }

    /// The same for a thread that has waited this long: waiting pays for no more than the time it took.
    pub fn woken_after(&self, shared: &SharedAccount, since: Waiting, waited: Nanos) -> Nanos {
        let (required, local) = self.meet(shared);
        let growth = if required.same_epoch(since.0) {
            required.delay().saturating_sub(since.0.delay())
        } else {
            required.delay()
        };
        let growth = growth.min(waited);
        self.0.store(local.with_delay(local.delay() + growth).0, Ordering::Relaxed);
        growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const E1: Epoch = Epoch(1);
    const E2: Epoch = Epoch(2);

    fn pair() -> (SharedAccount, LocalAccount) {
        let shared = SharedAccount::default();
        shared.begin(E1);
        (shared, LocalAccount::default())
    }

    #[test]
    fn two_threads_ahead_do_not_both_add() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        assert!(a.credit(&shared, E1, Nanos(700)));
        assert!(b.credit(&shared, E1, Nanos(500)));
        assert_eq!(shared.load().delay(), Nanos(700));
        assert_eq!(b.debt(&shared), Nanos(200));
        assert_eq!(a.debt(&shared), Nanos::ZERO);
    }

    #[test]
    fn when_all_run_the_region_nobody_owes() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        for _ in 0..10 {
            a.credit(&shared, E1, Nanos(100));
            b.credit(&shared, E1, Nanos(100));
        }
        assert_eq!((a.debt(&shared), b.debt(&shared)), (Nanos::ZERO, Nanos::ZERO));
        assert_eq!(shared.load().delay(), Nanos(1000));
    }

    #[test]
    fn nothing_leaks_into_the_next_epoch() {
        let (shared, a) = pair();
        a.credit(&shared, E1, Nanos(900));
        assert_eq!(shared.begin(E2).delay(), Nanos(900));
        assert!(!a.credit(&shared, E1, Nanos(5)));
        assert_eq!(shared.load(), Account::new(E2, Nanos::ZERO));
        assert_eq!(a.debt(&shared), Nanos::ZERO);
        a.pay(Account::new(E1, Nanos::ZERO), Nanos(77));
        assert_eq!(a.load().delay(), Nanos::ZERO);
        shared.raise(Account::new(E1, Nanos(9_999)));
        assert_eq!(shared.load().delay(), Nanos::ZERO);
    }

    #[test]
    fn a_woken_thread_owes_what_it_owed_before() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        a.credit(&shared, E1, Nanos(100));
        let waiting = b.wait(&shared);
        a.credit(&shared, E1, Nanos(400));
        assert_eq!(b.woken(&shared, waiting), Nanos(400));
        assert_eq!(b.debt(&shared), Nanos(100));
    }

    #[test]
    fn a_wait_that_began_before_the_epoch_is_credited_since_its_beginning() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        a.credit(&shared, E1, Nanos(100));
        let waiting = b.wait(&shared);
        shared.begin(E2);
        a.credit(&shared, E2, Nanos(30));
        assert_eq!(b.woken(&shared, waiting), Nanos(30));
        assert_eq!(b.debt(&shared), Nanos::ZERO);
    }

    #[test]
    fn a_thread_that_met_a_deadline_owes_all_that_has_accrued_since_the_experiment_began() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        a.credit(&shared, E1, Nanos(900));
        assert_eq!(b.debt(&shared), Nanos(900));
        b.pay(shared.load(), Nanos(900));
        assert_eq!(b.released(&shared, Nanos::ZERO), Nanos(900));
        assert_eq!(b.debt(&shared), Nanos(900));
        b.pay(shared.load(), Nanos(900));
        // The deadline was over before the thread's clock showed it.
        assert_eq!(b.released(&shared, Nanos(300)), Nanos(600));
        assert_eq!(b.debt(&shared), Nanos(600));
        assert_eq!(b.released(&shared, Nanos(800)), Nanos::ZERO, "it was late in both executions");
    }

    #[test]
    fn threads_that_take_turns_at_a_client_hand_on_their_clocks() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        // While `a` handles a request, `b` waits for the next one, which the client sends when it has the answer.
        a.credit(&shared, E1, Nanos(400));
        let sent = a.load();
        a.credit(&shared, E1, Nanos(70));
        assert_eq!(b.answered(&shared, sent, Nanos(5000)), Nanos(400));
        assert_eq!(b.debt(&shared), Nanos(70), "what has accrued since");
        assert_eq!(b.answered(&shared, sent, Nanos(5000)), Nanos::ZERO, "its clock shows more");
        // Waiting pays for no more than the time it took.
        let c = LocalAccount::default();
        assert_eq!(c.answered(&shared, sent, Nanos(100)), Nanos(100));
        shared.begin(E2);
        assert_eq!(c.answered(&shared, sent, Nanos(5000)), Nanos::ZERO);
    }

    #[test]
    fn a_thread_that_slept_for_the_world_owes_what_accrued() {
        let (shared, a) = pair();
        let b = LocalAccount::default();
        assert_eq!(b.debt(&shared), Nanos::ZERO);
        a.credit(&shared, E1, Nanos(250));
        assert_eq!(b.debt(&shared), Nanos(250));
    }

    #[test]
    fn a_small_debt_that_is_put_off_is_not_made_up_for_by_credit() {
        let (shared, a) = pair();
        let (b, arrears) = (LocalAccount::default(), LocalAccount::default());
        let least = Nanos(20);
        // Two threads take turns in a section.
        for turn in 1..=3 {
            a.credit(&shared, E1, Nanos(10));
            b.put_off(&shared, least, &arrears);
            b.credit(&shared, E1, Nanos(10));
            assert_eq!(
                shared.load().delay(),
                Nanos(20 * turn),
                "what both did, and not what one of them did"
            );
            a.put_off(&shared, least, &LocalAccount::default());
        }
        let now = shared.load();
        assert_eq!((b.debt(&shared), arrears.within(now)), (Nanos::ZERO, Nanos(30)));
        a.credit(&shared, E1, Nanos(20));
        b.put_off(&shared, least, &arrears);
        assert_eq!((b.debt(&shared), arrears.within(now)), (Nanos(20), Nanos(30)), "that is worth a pause");
        b.pay_after(&arrears, now, Nanos(12));
        assert_eq!((b.debt(&shared), arrears.within(now)), (Nanos(20), Nanos(18)));
        b.pay_after(&arrears, now, Nanos(25));
        assert_eq!((b.debt(&shared), arrears.within(now)), (Nanos(13), Nanos::ZERO));
    }

    #[test]
    fn what_is_put_off_or_overslept_belongs_to_its_epoch() {
        let (shared, a) = pair();
        let (b, arrears) = (LocalAccount::default(), LocalAccount::default());
        a.credit(&shared, E1, Nanos(5));
        b.put_off(&shared, Nanos(20), &arrears);
        assert_eq!(arrears.take(shared.load(), Nanos(3)), Nanos(3));
        assert_eq!(arrears.take(shared.load(), Nanos(3)), Nanos(2));
        arrears.inherit(Account::new(E1, Nanos(7)));
        shared.begin(E2);
        assert_eq!(
            (arrears.within(shared.load()), arrears.take(shared.load(), Nanos(3))),
            (Nanos::ZERO, Nanos::ZERO)
        );
    }

    #[test]
    fn amounts_saturate_instead_of_reaching_the_epoch() {
        let account = Account::new(Epoch(3), Nanos(u64::MAX));
        assert!(account.is_of(Epoch(3)));
        assert_eq!(account.with_delay(Nanos(u64::MAX)), account);
    }
}
