//! The lock-free protocols of the shared memory, in every order in which threads can take part in them.
//!
//! ```text
//! $ RUSTFLAGS="--cfg loom" cargo test -p whatif-wire --release --test loom
//! ```
//!
//! Under `--cfg loom` tables are short (a ring of eight words, two slots, two counters) and atomics are
//! loom's, which also return every old value that a weakly ordered machine could.
//!
//! The controller and the runtime are two processes; for the memory that they share two threads are the same.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use wire::counter::{Counters, Kind};
use wire::experiment::Experiments;
use wire::files::{Files, Stretch};
use wire::history::History;
use wire::ring::{Ring, Sample};
use wire::slot::Slots;
use wire::{Account, Address, Epoch, LocalAccount, Nanos, SharedAccount, Speedup};

const E1: Epoch = Epoch(1);
const E2: Epoch = Epoch(2);

/// What the threads of a model share.
#[derive(Default)]
struct Shared<T> {
    it: T,
    steps: AtomicUsize,
}

impl<T> Shared<T> {
    fn new(it: T) -> Arc<Self> {
        Arc::new(Self { it, steps: AtomicUsize::new(0) })
    }

    /// The shared thing, at a point where another thread may come first. Loom does not find all such points
    /// itself: a load hides an earlier load of another thread (tokio-rs/loom, issues 166 and 392). Relaxed,
    /// so it orders nothing else.
    fn step(&self) -> &T {
        self.steps.fetch_add(1, Relaxed);
        &self.it
    }
}

fn begun() -> Arc<Shared<SharedAccount>> {
    let shared = SharedAccount::default();
    shared.begin(E1);
    Shared::new(shared)
}

/// Runs `work` on a thread of its own.
fn spawn<T: 'static>(shared: &Arc<T>, work: impl FnOnce(&T) + 'static) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// Two processes find the same code at the same time, and another piece each: all agree where it is, and no two pieces are at one place.
#[test]
fn code_of_a_file_has_one_place() {
    let mut model = loom::model::Builder::new();
    // Without a bound it takes three minutes.
    model.preemption_bound = Some(3);
    model.check(|| {
        let stretch = |inode| Stretch { device: 1, inode, offset: 0, length: 1 };
        let files = Shared::new(Files::default());
        let places = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let other = {
            let (files, places) = (Arc::clone(&files), Arc::clone(&places));
            thread::spawn(move || {
                let place = files.step().place(stretch(1), 2, b"a");
                places[1].store(place.map_or(0, |place| place.0 as usize), Relaxed);
            })
        };
        let place = files.step().place(stretch(1), 1, b"a");
        other.join().unwrap();
        let theirs = places[1].load(Relaxed) as u64;
        // Each may have declared the other's entries void until there was no room.
        if let Some(place) = place
            && theirs != 0
        {
            assert_eq!(place.0, theirs);
            assert_eq!(files.step().place(stretch(1), 3, b"a"), Some(place));
            assert_eq!(files.it.all().filter(|entry| entry.stretch() == stretch(1)).count(), 1);
        }
    });
}

/// Rule 1: `required` is what the thread furthest ahead has, whichever it is, and never sinks.
#[test]
fn required_is_the_maximum_of_three() {
    loom::model(|| {
        let shared = begun();
        let raisers = [30, 70].map(|delay| {
            spawn(&shared, move |shared| {
                assert!(LocalAccount::default().credit(&shared.it, E1, Nanos(delay)));
            })
        });
        LocalAccount::default().credit(&shared.it, E1, Nanos(50));
        let before = shared.it.load().delay();
        raisers.into_iter().for_each(|raiser| raiser.join().unwrap());
        assert!(before >= Nanos(50) && before <= Nanos(70));
        assert_eq!(shared.it.load(), Account::new(E1, Nanos(70)));
    });
}

/// Rule 9: a credit that comes while the epoch changes counts for the old one or for none.
#[test]
fn credit_does_not_leak_into_the_next_epoch() {
    loom::model(|| {
        let shared = begun();
        let runners = [30, 70].map(|delay| {
            spawn(&shared, move |shared| {
                let local = LocalAccount::default();
                local.credit(&shared.it, E1, Nanos(delay));
                let (required, local) = local.meet(&shared.it);
                assert!(local.same_epoch(required));
                assert!(required.is_of(E1) || local.delay() == Nanos::ZERO);
            })
        });
        let old = shared.it.begin(E2);
        assert!(old.is_of(E1));
        assert!([0, 30, 70].map(Nanos).contains(&old.delay()));
        runners.into_iter().for_each(|runner| runner.join().unwrap());
        assert_eq!(shared.it.load(), Account::new(E2, Nanos::ZERO));
    });
}

/// The same for a thread that had already met the new epoch: what it is credited with there stays.
#[test]
fn credit_of_the_new_epoch_is_not_lost_to_a_late_one_of_the_old() {
    loom::model(|| {
        let shared = begun();
        let late = spawn(&shared, |shared| {
            LocalAccount::default().credit(shared.step(), E1, Nanos(90));
        });
        shared.step().begin(E2);
        assert!(LocalAccount::default().credit(shared.step(), E2, Nanos(10)));
        late.join().unwrap();
        assert_eq!(shared.it.load(), Account::new(E2, Nanos(10)));
    });
}

/// Rule 5: a thread whose wait falls into a change of the epoch never has more delay than required, and never
/// owes more than accrued.
#[test]
fn a_wait_across_epochs_is_credited_with_what_is_left_of_it() {
    loom::model(|| {
        let shared = begun();
        let waiter = spawn(&shared, |shared| {
            let local = LocalAccount::default();
            let waiting = local.wait(shared.step());
            local.woken(shared.step(), waiting);
            let had = local.load();
            let (required, local) = local.meet(shared.step());
            assert!(local.delay() <= required.delay());
            assert!(local.same_epoch(required) && (!had.same_epoch(local) || had == local));
        });
        LocalAccount::default().credit(shared.step(), E1, Nanos(40));
        shared.step().begin(E2);
        LocalAccount::default().credit(shared.step(), E2, Nanos(50));
        shared.step();
        waiter.join().unwrap();
    });
}

/// A thread that sees an epoch sees its experiment. The descriptions take turns, so the next is written while the
/// last is read.
#[test]
fn an_epoch_publishes_its_experiment() {
    loom::model(|| {
        let shared = Shared::new((SharedAccount::default(), Experiments::default()));
        let reader = spawn(&shared, |shared| {
            for epoch in [E1, E2] {
                let (account, experiments) = shared.step();
                if account.load().is_of(epoch) {
                    let experiment = experiments.of(epoch);
                    let seen = (experiment.speedup(), experiment.deadline());
                    // Two epochs later the description may have been written again, but not before.
                    assert_eq!(seen, (Speedup(epoch.0 * 10), Nanos(u64::from(epoch.0))));
                    assert!(experiment.selects(Address(u64::from(epoch.0))));
                }
            }
        });
        for epoch in [E1, E2] {
            let number = u64::from(epoch.0);
            let range = [(Address(number), Address(number + 1))];
            shared.it.1.of(epoch).describe(1, Speedup(epoch.0 * 10), false, Nanos(number), range, None);
            shared.step().0.begin(epoch);
        }
        reader.join().unwrap();
    });
}

/// Rule 7: what is remembered of the past is not a mixture of two moments, even while it is overwritten (the
/// history holds two entries here).
#[test]
fn history_does_not_mix_entries() {
    loom::model(|| {
        let history = Shared::new(History::default());
        let reader = spawn(&history, |history| {
            let grown = history.it.growth(Nanos(5), Nanos(10), Account::new(E1, Nanos(350)));
            // An entry that is being written is as if it did not exist.
            assert!([0, 100].map(Nanos).contains(&grown), "{grown:?}");
        });
        for (time, delay) in [(10, 100), (20, 220), (30, 350)] {
            history.it.note(Nanos(time), Account::new(E1, Nanos(delay)), wire::history::Accrued::default());
        }
        reader.join().unwrap();
    });
}

fn sample(number: u64, depth: usize) -> Sample {
    let mut sample = Sample::new(Nanos(number), Nanos(number + 1));
    sample.depth = depth;
    for (i, frame) in sample.frames[..depth].iter_mut().enumerate() {
        *frame = Address(number * 10 + i as u64);
    }
    sample
}

/// What comes out is what went in, in order, and the rest is counted: three samples of three, four and two
/// words through a ring of eight, so that words are used twice.
#[test]
fn the_ring_passes_samples_on_or_counts_them() {
    loom::model(|| {
        let ring = Shared::new(Ring::default());
        let depths = [1, 2, 0];
        let handler = spawn(&ring, move |ring| {
            for (number, depth) in depths.into_iter().enumerate() {
                ring.step().push(&sample(number as u64, depth));
            }
        });
        let (mut taken, mut next) = (0, 0);
        let mut take = |ring: &Shared<Ring>| {
            while let Some(got) = ring.step().pop() {
                assert!(got.time.0 >= next);
                assert_eq!(got, sample(got.time.0, depths[got.time.0 as usize]));
                next = got.time.0 + 1;
                taken += 1;
            }
        };
        take(&ring);
        take(&ring);
        handler.join().unwrap();
        take(&ring);
        assert_eq!(taken + ring.it.lost(), 3);
    });
}

/// No slot is given to two threads, no thread is refused while one is free, and what the last owner wrote is
/// there for the next.
#[test]
fn a_slot_has_one_owner_at_a_time() {
    loom::model(|| {
        let slots = Shared::new(Slots::default());
        let own = |slots: &Shared<Slots>| {
            let slot = slots.step().take().expect("two threads, two slots");
            // Not atomic on purpose: two owners at once would lose one of the additions.
            let before = slot.books.samples.load(Relaxed);
            slot.books.samples.store(before + 1, Relaxed);
            slots.step().give_back(slot);
        };
        let other = spawn(&slots, own);
        own(&slots);
        other.join().unwrap();
        assert_eq!(slots.it.totals().samples, 2);
        assert!(slots.it.used().iter().all(|slot| !slot.is_taken()));
    });
}

/// Two threads that register the same points, in whatever order, get the same counters.
#[test]
fn a_name_is_one_counter() {
    loom::model(|| {
        let counters = Shared::new(Counters::default());
        let visit = |counters: &Shared<Counters>, name: &[u8]| {
            let counter = counters.step().get(Kind::Throughput, name).expect("two points, two entries");
            counter.count.fetch_add(1, Relaxed);
        };
        let other = spawn(&counters, move |counters| {
            visit(counters, b"b");
            visit(counters, b"a");
        });
        visit(&counters, b"a");
        visit(&counters, b"b");
        other.join().unwrap();
        let counters = &counters.it;
        let mut names: Vec<u8> = counters.registered().flat_map(|counter| counter.name()).collect();
        names.sort_unstable();
        assert_eq!(names, b"ab");
        assert!(counters.registered().all(|counter| counter.count.load(Relaxed) == 2));
    });
}
