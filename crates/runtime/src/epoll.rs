//! What `epoll` instances watch: for which descriptor each of their events stands.
//!
//! A wait for an instance may end because of a thread's channel, a timer or another machine. An event only has a number of the program's
//! own choice, so that number is remembered when a descriptor is added. Where the table has no room for it, the last use of anything
//! that the instance watches decides.
//!
//! Arming a descriptor that is ready already wakes those who wait for the instance; the thread that arms it is the waker then.
//!
//! An event that is told only once (`EPOLLET`, `EPOLLONESHOT`) is put off by arming its descriptor anew, as the program last armed it: the kernel
//! tells of it again as long as it is ready. No thread may change what the descriptor stands for at the same time: [`change`] and [`alone`] see to that.

use crate::memory::{attached, shared};
use crate::real::real;
use crate::{account, arrivals, channel, deadline, delay, sys, tls};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use wire::Nanos;
use wire::channel::Key;
use wire::slot::Slot;

type Ptr = *mut c_void;

/// `struct epoll_event`, which is packed on x86-64.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct EpollEvent {
    events: u32,
    data: u64,
}

/// `EPOLLOUT`.
const OUT: u32 = 4;
/// `EPOLLET`.
const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`.
const ONE_SHOT: u32 = 1 << 30;
/// `EPOLLEXCLUSIVE`: the kernel does not let such be changed.
const EXCLUSIVE: u32 = 1 << 28;
/// Ours: several descriptors share this number.
const AMBIGUOUS: u32 = 1 << 27;
/// The events that poll(2) has as well; the others are flags.
const READINESS: u32 = 0xffff;

/// A descriptor that an instance watches.
struct Watched {
    /// [`tag`] of the instance and the number in its events; zero is none.
    tag: AtomicU64,
    fd: AtomicU32,
    /// What is asked for, and how.
    events: AtomicU32,
    /// When a thread armed it last, although it was ready.
    armed: AtomicU64,
}

/// What is known of all instances.
struct Table<const ENTRIES: usize> {
    entries: [Watched; ENTRIES],
    /// Which place is given away next where all are taken.
    turn: AtomicU32,
}

/// How far an entry may lie from its place.
const REACH: usize = 8;

fn tag(instance: Key, data: u64) -> u64 {
    let hash = (data ^ u64::from(instance.number()) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ hash >> 32).max(1)
}

impl<const ENTRIES: usize> Table<ENTRIES> {
    const fn new() -> Self {
        Self {
            entries: [const {
                Watched {
                    tag: AtomicU64::new(0),
                    fd: AtomicU32::new(0),
                    events: AtomicU32::new(0),
                    armed: AtomicU64::new(0),
                }
            }; ENTRIES],
            turn: AtomicU32::new(0),
        }
    }

    fn places(&self, tag: u64) -> impl Iterator<Item = &Watched> {
        (0..REACH).map(move |step| &self.entries[(tag as usize).wrapping_add(step) % ENTRIES])
    }

    /// Acquire: pairs with the store in [`insert`](Self::insert), so the descriptor is the one of this tag.
    fn find(&self, tag: u64) -> Option<&Watched> {
        self.places(tag).find(|watched| watched.tag.load(Acquire) == tag)
    }

    fn insert(&self, tag: u64, (fd, events): (c_int, u32), armed: Nanos) {
        let place = self.find(tag).or_else(|| {
            let free = |watched: &&Watched| watched.tag.compare_exchange(0, tag, Relaxed, Relaxed).is_ok();
            self.places(tag).find(free)
        });
        let turn = || self.turn.fetch_add(1, Relaxed) as usize % REACH;
        if let Some(watched) = place.or_else(|| self.places(tag).nth(turn())) {
            // Two descriptors may have one number: then it cannot be told which of them an event is about. It can be if the other one is closed.
            let other = watched.fd.load(Relaxed);
            let is_known = watched.tag.load(Relaxed) == tag && watched.events.load(Relaxed) != 0;
            let is_shared = is_known
                && other != fd as u32
                && last(other as c_int).is_none_or(|last| last.load(Relaxed) != 0);
            let kept = if is_known { watched.events.load(Relaxed) & AMBIGUOUS } else { 0 };
            let events = events & !AMBIGUOUS | kept | if is_shared { AMBIGUOUS } else { 0 };
            if watched.tag.load(Relaxed) != tag {
                watched.tag.store(0, Release);
            }
            watched.fd.store(fd as u32, Relaxed);
            watched.events.store(events, Relaxed);
            watched.armed.store(armed.0, Relaxed);
            watched.tag.store(tag, Release);
        }
    }
}

static TABLE: Table<{ 1 << 14 }> = Table::new();

/// For each descriptor the [`tag`] that it was added or changed with last; zero is none.
static LAST: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];

fn last(fd: c_int) -> Option<&'static AtomicU64> {
    LAST.get(usize::try_from(fd).ok()?)
}

fn is_last(fd: c_int, tag: u64) -> bool {
    last(fd).is_some_and(|last| last.load(Acquire) == tag)
}

/// For each descriptor how many threads are changing what it stands for, and whether one is putting an event off ([`PUTTING_OFF`]).
static CHANGING: [AtomicU32; 1 << 16] = [const { AtomicU32::new(0) }; 1 << 16];
const PUTTING_OFF: u32 = 1 << 31;
/// How often a thread yields while another one puts an event off. That takes a system call; if it takes longer, the other one is not there any more (in a forked child).
const PATIENCE: u32 = 20_000;

fn changing(fd: c_int) -> Option<&'static AtomicU32> {
    CHANGING.get(usize::try_from(fd).ok()?)
}

/// The program changes what `fd` stands for: not while an event of it is put off, which would bring back what it stood for before.
fn change<T>(fd: c_int, change: impl FnOnce() -> T) -> T {
    let Some(changing) = changing(fd) else { return change() };
    let enter = || {
        let now = changing.load(Relaxed);
        // Acquire pairs with the Release in `alone`.
        now & PUTTING_OFF == 0 && changing.compare_exchange(now, now + 1, Acquire, Relaxed).is_ok()
    };
    let mut tries = 0;
    while !enter() {
        tries += 1;
        if tries > PATIENCE {
            changing.fetch_and(!PUTTING_OFF, Relaxed);
        }
        sys::sched_yield();
    }
    let result = change();
    changing.fetch_sub(1, Release);
    result
}

/// Puts something off if no thread is changing what `fd` stands for; those that are about to wait until it is done.
fn alone(slot: &Slot, fd: c_int, put_off: impl FnOnce() -> bool) -> bool {
    let Some(changing) = changing(fd) else { return false };
    // The thread does not pause meanwhile.
    account::exclusively(slot, || {
        let is_alone = changing.compare_exchange(0, PUTTING_OFF, Acquire, Relaxed).is_ok();
        let result = is_alone && put_off();
        if is_alone {
            changing.fetch_and(!PUTTING_OFF, Release);
        }
        result
    })
}

/// A descriptor is about to be closed.
pub fn forget(fd: c_int) {
    if let Some(last) = last(fd)
        && last.load(Relaxed) != 0
        && sys::is_own()
    {
        change(fd, || last.store(0, Release));
    }
}

/// Arms the descriptor of an event anew, so that the kernel tells of it again. False if that might change anything else; then the event is to pass.
fn put_off(slot: &Slot, (instance, key): (c_int, Key), watched: &Watched, data: u64) -> bool {
    let fd = watched.fd.load(Relaxed) as c_int;
    alone(slot, fd, || {
        let events = watched.events.load(Relaxed);
        let tag = tag(key, data);
        let is_same = watched.tag.load(Acquire) == tag && is_last(fd, tag);
        let event = EpollEvent { events, data };
        is_same
            && events & (AMBIGUOUS | EXCLUSIVE) == 0
            && sys::epoll_change(instance, fd, (&raw const event).addr())
    })
}

/// `epoll_ctl(2)`: what the instance watches from now on, and rule 4.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn epoll_ctl(instance: c_int, operation: c_int, fd: c_int, event: Ptr) -> c_int {
    let Some(original) = real!(epoll_ctl: fn(c_int, c_int, c_int, Ptr) -> c_int) else { return -1 };
    // SAFETY: the program's own arguments.
    let call = || unsafe { original(instance, operation, fd, event) };
    let Some(key) = attached().and_then(|_| channel::of(instance).input) else { return call() };
    const DELETE: c_int = 2;
    // The kernel reads nothing to remove a descriptor.
    let event = (operation != DELETE).then(|| sys::read_argument(event.cast::<EpollEvent>())).flatten();
    let watched = changes(key, fd, event);
    let tag = watched.map_or(0, |(event, _)| tag(key, event.data));
    change(fd, || {
        if let Some((event, armed)) = watched {
            TABLE.insert(tag, (fd, event.events), armed);
        }
        let result = call();
        if let Some(last) = last(fd) {
            last.store(if result == 0 { tag } else { 0 }, Release);
        }
        // Where the kernel has refused, it is not known what stands there.
        if result != 0
            && watched.is_some()
            && let Some(watched) = TABLE.find(tag)
        {
            watched.events.fetch_or(AMBIGUOUS, Relaxed);
        }
        result
    })
}

/// `fd` is about to be added to what `instance` watches, changed or removed. Returns what it is watched for from then on, and when it was armed although it was ready.
fn changes(instance: Key, fd: c_int, event: Option<EpollEvent>) -> Option<(EpollEvent, Nanos)> {
    let events = event.map_or(0, |event| event.events & READINESS);
    let channels = &shared().channels;
    let ends = channel::of(fd);
    if let Some(key) = ends.input {
        channels.watch(key.data(), instance, events & !OUT != 0);
    }
    if let Some(key) = ends.output {
        // Edges are often asked for once and for all; room that was never missing wakes no thread.
        let in_passing = event.is_some_and(|event| event.events & EDGE != 0) && events & !OUT != 0;
        channels.watch(key.room(), instance, events & OUT != 0 && !in_passing);
    }
    let event = event?;
    deadline::watched(instance, fd);
    Some((event, arm(instance, fd, events)))
}

/// Rule 4 for a descriptor that is about to be armed: if it is ready, that wakes the thread that waits for the instance. Returns when.
fn arm(instance: Key, fd: c_int, events: u32) -> Nanos {
    let Some(slot) = tls::slot() else { return Nanos::ZERO };
    delay::pay(slot);
    // There is nothing to inherit outside of experiments.
    if shared().header.experimenting.load(Relaxed) == 0 || !sys::is_ready(fd, events as u16) {
        return Nanos::ZERO;
    }
    let now = sys::now();
    channel::touch(instance.data(), now);
    now
}

/// When threads of the program last caused any of the events that a wait for `instance` has returned.
///
/// # Safety
/// `events` must point to `count` events, if that is more than none.
pub unsafe fn returned(instance: c_int, events: Ptr, count: c_int) -> Nanos {
    let Some(instance) = channel::of(instance).input else { return Nanos::ZERO };
    let mut last = Nanos::ZERO;
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller vouches for the array.
        let EpollEvent { events, data } = unsafe { *events.cast::<EpollEvent>().add(i) };
        last = last.max(match TABLE.find(tag(instance, data)) {
            Some(watched) => {
                let (armed, fd) = (Nanos(watched.armed.load(Relaxed)), watched.fd.load(Relaxed) as c_int);
                if events & channel::POLLIN != 0 {
                    arrivals::found(fd);
                }
                armed.max(channel::used_by(fd, events))
            }
            None => channel::used(instance.data()),
        });
    }
    last
}

/// A call that waits for an instance.
#[derive(Clone, Copy)]
pub struct Call {
    pub instance: c_int,
    /// Where the events go, and how many there is room for.
    pub events: Ptr,
    pub room: c_int,
    /// How long it waits until there is one, in milliseconds: forever if negative.
    pub timeout: i64,
}

/// A timeout as `epoll_pwait2` has it, in milliseconds.
pub fn milliseconds(time: Ptr) -> i64 {
    sys::read_argument(time.cast::<[i64; 2]>())
        .map_or(-1, |[seconds, nanos]| seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000))
}

/// What became of the events that a call has returned.
pub enum Passed {
    /// The number of events that are left.
    Some(c_int),
    /// The only events have gone meanwhile: the call must be made again.
    Again,
}

/// Lets those of `count` events pass that have come by the thread's own clock: what is still to come in virtual time is left to the instance, and would only be in the way
/// of the others. The thread waits for the first, if there is no other. Events that cannot be left to the instance pass, and the thread waits where it reads.
///
/// # Safety
/// `call` must be one that has returned `count` events.
pub unsafe fn pass(slot: &Slot, call: Call, mut count: c_int) -> Passed {
    let memory = shared();
    let (epoch, begin) = (memory.header.epoch(), sys::now());
    let is_treated = || {
        let required = memory.required.load();
        required.is_of(epoch)
            && required.delay() > Nanos::ZERO
            && memory.header.experimenting.load(Relaxed) != 0
            && sys::now() < memory.experiments.of(epoch).deadline()
    };
    let Some(instance) = channel::of(call.instance).input else { return Passed::Some(count) };
    if count <= 0 || slot.busy.load(Relaxed) != 0 || !memory.header.has_rule(6) {
        return Passed::Some(count);
    }
    while is_treated() {
        // SAFETY: the call has written so many events there.
        let events =
            unsafe { core::slice::from_raw_parts_mut(call.events.cast::<EpollEvent>(), count as usize) };
        let (own, mut first) = (sys::now().saturating_sub(slot.local.load().delay()), Nanos(u64::MAX));
        let mut passed = 0;
        for nth in 0..events.len() {
            match due(slot, instance, events[nth]) {
                Some((due, watched))
                    if due > own + MEANWHILE
                        && is_kept(slot, (call.instance, instance), watched, events[nth].data) =>
                {
                    first = first.min(due);
                }
                _ => {
                    events.swap(passed, nth);
                    passed += 1;
                }
            }
        }
        if passed > 0 {
            return Passed::Some(passed as c_int);
        }
        let is_over = || sys::now() >= begin + Nanos((call.timeout as u64).saturating_mul(1_000_000));
        if call.timeout >= 0 && is_over() {
            return Passed::Some(0);
        }
        let is_last = arrivals::wait_for(slot, first) == Nanos::ZERO || sys::now() > begin + LONGEST;
        // Those above are not handed on: what was put off another thread may have been told of meanwhile.
        let looked = sys::now();
        count = sys::epoll_look(call.instance, call.events.addr(), call.room);
        if count <= 0 {
            // Another thread took it. A timeout may be late, and not early.
            return if call.timeout >= 0 && is_over() { Passed::Some(0) } else { Passed::Again };
        }
        arrivals::polled(slot, (looked, sys::now()), false);
        if is_last {
            break;
        }
    }
    Passed::Some(count)
}

/// A thread that is early by less goes on.
const MEANWHILE: Nanos = Nanos(20_000);
/// No event is held back for longer.
const LONGEST: Nanos = Nanos(1_000_000_000);

/// Whether the instance tells of an event again if the program does not get it now; it is made to, if need be.
fn is_kept(slot: &Slot, (instance, key): (c_int, Key), watched: &Watched, data: u64) -> bool {
    let is_level = watched.events.load(Relaxed) & (EDGE | ONE_SHOT) == 0;
    let is_same = is_last(watched.fd.load(Relaxed) as c_int, tag(key, data));
    is_same && (is_level || put_off(slot, (instance, key), watched, data))
}

/// When, in virtual time, what an event tells of came, and what it is about; `None` if it is to pass.
fn due(
    slot: &Slot,
    instance: Key,
    EpollEvent { events, data }: EpollEvent,
) -> Option<(Nanos, &'static Watched)> {
    const IN: u32 = 1;
    let watched = TABLE.find(tag(instance, data))?;
    let asked = watched.events.load(Relaxed);
    // Errors and ends of connections do not wait. Edges tell of room whenever they tell of anything.
    let besides = if asked & EDGE == 0 { 0 } else { OUT };
    let only_data = events & IN != 0 && events & !(IN | 0x40 | besides) == 0;
    if asked & AMBIGUOUS != 0 || !only_data {
        return None;
    }
    Some((arrivals::due(slot, watched.fd.load(Relaxed) as c_int)?, watched))
}

/// When a thread of the program last did what an instance watches for.
pub fn touched(instance: c_int) -> Nanos {
    channel::of(instance).input.map_or(Nanos::ZERO, |instance| channel::used(instance.data()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fd_of(table: &Table<16>, tag: u64) -> Option<u32> {
        table.find(tag).map(|watched| watched.fd.load(Relaxed))
    }

    #[test]
    fn a_number_of_the_program_stands_for_the_descriptor_that_it_was_given_last() {
        let table = Table::<16>::new();
        let [first, second] = [Key::hashed([1, 0]), Key::hashed([2, 0])];
        table.insert(tag(first, 0), (7, 1), Nanos(3));
        table.insert(tag(second, 0), (8, 1), Nanos::ZERO);
        assert_eq!((fd_of(&table, tag(first, 0)), fd_of(&table, tag(second, 0))), (Some(7), Some(8)));
        table.insert(tag(first, 0), (9, 1), Nanos::ZERO);
        assert_eq!(fd_of(&table, tag(first, 0)), Some(9));
        assert_eq!(table.find(tag(first, 0)).unwrap().armed.load(Relaxed), 0);
        assert_eq!(fd_of(&table, tag(first, 1)), None);
    }

    #[test]
    fn a_full_table_forgets_others_and_not_the_newest() {
        let table = Table::<16>::new();
        for number in 1..200 {
            table.insert(number, (number as c_int, 1), Nanos::ZERO);
            assert_eq!(fd_of(&table, number), Some(number as u32));
        }
    }
}
