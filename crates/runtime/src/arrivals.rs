//! What comes from outside: requests, answers and items that no thread of the program has sent.
//!
//! Rule 6 for them. What answers something that the program sent was set in motion by a thread with a clock of its own: the delay that it
//! had then is what the answer may have, however long the other side took. What comes at a time of its own (an open loop) has none. Either way the
//! thread that takes it goes on when its own clock shows the moment of the arrival, and not earlier. Which of the two it is, a probe finds out
//! ([`wire::arrivals`]).
//!
//! When something came is known exactly where a thread waited for it; otherwise to the kernel's tick for TCP, by the kernel's
//! time stamp for datagrams, and by the mean time between arrivals for everything else.
//!
//! Out of reach: what is read through `fread`, `getline` and their like or written through `fwrite`, and through `io_uring`.

use crate::channel::{self, Ends, What};
use crate::memory::shared;
use crate::socket::{self, Name};
use crate::{account, delay, random, sys, tls};
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use wire::arrivals::{Clock, Connection, HOLDING, Kind, Source};
use wire::slot::{Activity, Slot};
use wire::{Account, LocalAccount, Nanos};

/// Descriptors beyond this number are taken for files.
const PEERS: usize = 1 << 16;

/// Not looked at yet.
const UNKNOWN: u32 = 0;
/// A file, or what a thread of the program made.
const NONE: u32 = 1;
/// [`Kind`] in the low eight bits, plus this; the place of the source above.
const KIND: u32 = 2;

/// A call that takes this long has waited, where that is not known better.
const WAITED: Nanos = Nanos(50_000);

/// One answer in this many is looked behind, once [`SEEN`] have been: whether something else had come by then takes a system call.
const LOOKED_BEHIND: u64 = 8;
/// See [`LOOKED_BEHIND`].
const SEEN: u32 = 64;

/// Whether a thread of this process has asked for any of several descriptors. Only then it matters what a call that reads leaves behind.
static POLLS: AtomicBool = AtomicBool::new(false);

/// The number of latest arrivals: a thread that had to wait for one of them has no backlog.
const IN_TIME: u32 = 64;

/// Two periods of sampling, in nanoseconds.
const LATELY: u64 = 2_000_000;

/// The shortest time for which a probe holds an arrival up, in nanoseconds; otherwise as long as arrivals are apart on its connection.
const SHORTEST: u64 = 50_000;
/// The longest time for which a probe holds an arrival up, in nanoseconds.
const LONGEST: u64 = 20_000_000;
/// While arrivals are held up, they are for this part of the time in all, as a divisor.
const PART: u64 = 3;

/// The other side of a descriptor, and of its copies.
struct Peer {
    /// The inode of the socket, as [`FIRST`] has it; zero if that has not been looked at.
    inode: AtomicU64,
    /// How many other descriptors have this entry as well.
    copies: AtomicU32,
    /// [`UNKNOWN`], [`NONE`] or what it is.
    what: AtomicU32,
    /// The window that the times are about.
    epoch: AtomicU32,
    /// When it was looked at.
    since: AtomicU64,
    /// Of a connection that was accepted, as long as it is not known to be the program's own: its name, zero if it has none.
    name: AtomicU64,
    /// The delay of the thread that last sent something there.
    sent: LocalAccount,
    /// When something was last sent there.
    sent_at: AtomicU64,
    /// When the last arrival came.
    arrived: AtomicU64,
    /// When a thread began to handle the last arrival.
    handled: AtomicU64,
    /// Whether something may have been left behind it.
    more: AtomicU32,
    /// When the next arrival came, if a thread has been told of it and has not taken it yet.
    next: AtomicU64,
    /// The window in which the next arrival came.
    next_epoch: AtomicU32,
    /// How much has been read since something was sent, in bytes.
    bytes: AtomicU32,
    /// Whether anything has been sent there since the last arrival.
    is_answered: AtomicU32,
    /// The window in which something was last sent there.
    answered_epoch: AtomicU32,
    /// How long the last arrival was held up, in nanoseconds.
    held: AtomicU64,
    known: Connection,
    /// Of a pipe: how many arrivals there were, and the time from each to the next, in nanoseconds.
    count: AtomicU64,
    time: AtomicU64,
    /// The place of the listener that it was accepted from, plus one; zero if there is none.
    listener: AtomicU32,
}

static TABLE: [Peer; PEERS] = [const {
    // SAFETY: a structure of atomics is valid when all bytes are zero.
    unsafe { core::mem::zeroed() }
}; PEERS];

impl Peer {
    /// The mean time between two arrivals, in nanoseconds; zero if there were none.
    fn gap(&self) -> u64 {
        let count = self.count.load(Relaxed);
        self.time.load(Relaxed).checked_div(count).unwrap_or_else(|| self.known.means.gap())
    }
}

/// The descriptor whose entry a copy of it has, plus one; zero for those that have their own.
static STANDS_FOR: [AtomicU32; PEERS] = [const { AtomicU32::new(0) }; PEERS];

/// Where sockets are remembered by their inodes.
const SOCKETS: usize = 1 << 14;
/// The first descriptor that was seen of a socket, plus one, in the low [`OF_FD`] bits; its inode above. By a hash of the inode, where the last one stays.
static FIRST: [AtomicU64; SOCKETS] = [const { AtomicU64::new(0) }; SOCKETS];
const OF_FD: u32 = 17;

/// The entry of a descriptor. A program may read from a socket through one descriptor and write to it through a copy (`try_clone`): they have the same.
#[inline]
fn entry(fd: c_int) -> Option<&'static Peer> {
    let fd = usize::try_from(fd).ok()?;
    let first = STANDS_FOR.get(fd)?.load(Relaxed);
    TABLE.get(if first == 0 { fd } else { first as usize - 1 })
}

/// No descriptor from this one on has ever stood for another one's entry.
static END: AtomicU32 = AtomicU32::new(0);

/// A descriptor of the socket with this inode is looked at: if another one has been before, it has the same entry from now on.
fn share_entry(fd: c_int, inode: u64) {
    let (Some(own), inode) = (usize::try_from(fd).ok().filter(|fd| *fd < PEERS), inode << OF_FD) else {
        return;
    };
    if inode == 0 || !sys::is_own() {
        return;
    }
    let last = &FIRST[(inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % SOCKETS];
    let seen = last.load(Relaxed);
    let first = (seen & ((1 << OF_FD) - 1)) as usize;
    let is_same = seen & !((1 << OF_FD) - 1) == inode && first != 0 && first != own + 1;
    match TABLE.get(first.wrapping_sub(1)).filter(|_| is_same) {
        Some(peer) if peer.inode.load(Relaxed) == inode => {
            END.fetch_max(own as u32 + 1, Relaxed);
            if STANDS_FOR[own].swap(first as u32, Relaxed) != first as u32 {
                peer.copies.fetch_add(1, Relaxed);
            }
            // It may have been closed meanwhile.
            if peer.inode.load(Relaxed) != inode {
                STANDS_FOR[own].store(0, Relaxed);
            }
        }
        _ => {
            TABLE[own].inode.store(inode, Relaxed);
            last.store(inode | (own as u64 + 1), Relaxed);
        }
    }
}

/// A descriptor does not share the entry of another one any more; nor do others share its own.
fn part(fd: usize) {
    let first = STANDS_FOR[fd].swap(0, Relaxed);
    let peer = &TABLE[if first == 0 { fd } else { first as usize - 1 }];
    if first != 0 {
        // Never below zero: the first one may have been closed meanwhile.
        let _ = peer.copies.fetch_update(Relaxed, Relaxed, |copies| copies.checked_sub(1));
        return;
    }
    peer.inode.store(0, Relaxed);
    if peer.copies.swap(0, Relaxed) != 0 {
        // They are looked at again: the first of them has an entry of its own then.
        let copies = STANDS_FOR[..END.load(Relaxed) as usize]
            .iter()
            .filter(|copy| copy.load(Relaxed) == fd as u32 + 1);
        copies.for_each(|copy| copy.store(0, Relaxed));
    }
}

/// A descriptor is closed, or is now something else.
pub fn forget(fd: c_int) {
    let Some(own) = usize::try_from(fd).ok().filter(|fd| *fd < PEERS) else { return };
    let (peer, is_copy) = (&TABLE[own], STANDS_FOR[own].load(Relaxed) != 0);
    if (is_copy || peer.what.load(Relaxed) != UNKNOWN || peer.inode.load(Relaxed) != 0) && sys::is_own() {
        part(own);
        if is_copy {
            return;
        }
        for number in
            [&peer.arrived, &peer.handled, &peer.held, &peer.next, &peer.count, &peer.time, &peer.name]
        {
            number.store(0, Relaxed);
        }
        for number in
            [&peer.is_answered, &peer.answered_epoch, &peer.bytes, &peer.listener, &peer.epoch, &peer.more]
        {
            number.store(0, Relaxed);
        }
        let what = peer.what.swap(UNKNOWN, Relaxed);
        if what >= KIND {
            shared().arrivals.at(what >> 8).forget(&peer.known);
        }
    }
}

/// The calling thread has connected `fd` to this address since `began`, or asked for it.
pub fn connected(slot: &Slot, fd: c_int, (to, began): (Option<Name>, Nanos)) {
    forget(fd);
    share_entry(fd, channel::inode(fd).unwrap_or(0));
    if let Some(peer) = entry(fd)
        && let Some((Kind::Accepted, here)) = socket::kind(fd)
    {
        let memory = shared();
        if let Some(name) = socket::made_by(fd, here, to) {
            memory.channels.connect(name);
        }
        let place = memory.arrivals.place(Kind::Connected, to.map_or(0, Name::port));
        // Who accepts it may have sent something already.
        peer.since.store(began.0, Relaxed);
        peer.what.store((Kind::Connected as u32 + KIND) | (place << 8), Relaxed);
        peer.sent.inherit(slot.local.load());
        peer.is_answered.store(0, Relaxed);
        peer.listener.store(0, Relaxed);
    }
}

/// `fd` has just been accepted from a listener. Its answer may matter where its request did not: an experiment may begin in between.
pub fn accepted(slot: &Slot, listener: c_int, fd: c_int) {
    forget(fd);
    share_entry(fd, channel::inode(fd).unwrap_or(0));
    if let Some((.., Kind::Listener)) = of(listener)
        && let (Some(peer), Some(listener)) = (entry(fd), entry(listener))
    {
        peer.sent.inherit(slot.local.load());
        peer.is_answered.store(0, Relaxed);
        peer.handled.store(sys::now().0, Relaxed);
        peer.epoch.store(shared().header.epoch().0, Relaxed);
        peer.listener.store((listener.what.load(Relaxed) >> 8) + 1, Relaxed);
    }
}

/// Whether arrivals matter now.
#[inline]
fn matter(slot: &Slot) -> bool {
    let header = &shared().header;
    header.experimenting.load(Relaxed)
        | header.probing.load(Relaxed)
        | header.counting_requests.load(Relaxed)
        | slot.behind.load(Relaxed)
        != 0
}

/// What is behind a descriptor, if it is something that arrivals come from.
fn of(fd: c_int) -> Option<(&'static Peer, &'static Source, Kind)> {
    let mut peer = entry(fd)?;
    let mut what = peer.what.load(Relaxed);
    if what == UNKNOWN {
        look(fd);
        peer = entry(fd)?;
        what = peer.what.load(Relaxed);
    }
    let kind = Kind::from_number((what & 0xff).checked_sub(KIND)?)?;
    Some((peer, shared().arrivals.at(what >> 8), kind))
}

#[cold]
fn look(fd: c_int) {
    let (kind, inode) = channel::what(fd);
    if kind == What::Socket {
        share_entry(fd, inode);
    }
    let Some(peer) = entry(fd).filter(|peer| peer.what.load(Relaxed) == UNKNOWN) else { return };
    let known = match kind {
        What::Pipe => Some((Kind::Pipe, None)),
        What::Socket => socket::kind(fd),
        What::Other => None,
    };
    let place = |(kind, name): (Kind, Option<Name>)| {
        (kind as u32 + KIND) | shared().arrivals.place(kind, name.map_or(0, Name::port)) << 8
    };
    let is_own = matches!(known, Some((Kind::Accepted, Some(Name::Unix(_))))) && is_connected_by_own(fd);
    let what = known.filter(|_| !is_own).map_or(NONE, place);
    // A socket that is not connected yet may become anything.
    if what != NONE || is_own || socket::look(fd) != socket::Socket::Unconnected {
        let name = match known {
            Some((Kind::Accepted, here)) => socket::accepted_as(fd, here),
            _ => None,
        };
        peer.name.store(name.unwrap_or(0), Relaxed);
        peer.since.store(sys::now().0, Relaxed);
        peer.what.store(what, Relaxed);
        if is_own {
            shared().arrivals.own.fetch_add(1, Relaxed);
        }
    }
}

/// Whether a process of the program has connected to the unix socket that `fd` was accepted from.
fn is_connected_by_own(fd: c_int) -> bool {
    socket::connected_by(fd).is_some_and(|process| shared().slots.has_process(process))
}

/// Whether a thread of the program has sent something from the other end, or has made the connection. (The program's own copy of that end, which it closes when another program
/// has it, does not count.) The name is there before anything can be sent: a caller that asks when something has come gets the right answer.
fn is_inside(peer: &Peer, ends: Ends) -> bool {
    let is_sent = || ends.input.is_some_and(|key| channel::used(key.data()).0 > peer.since.load(Relaxed));
    if is_sent() {
        return true;
    }
    let name = peer.name.load(Relaxed);
    let is_own = name != 0 && shared().channels.take_connected(name);
    if is_own {
        peer.what.store(NONE, Relaxed);
        shared().arrivals.own.fetch_add(1, Relaxed);
    }
    is_own
}

/// A call that has taken something from outside.
#[derive(Clone, Copy)]
pub struct Took {
    began: Nanos,
    ended: Nanos,
    /// Whether nothing was there when it began.
    waited: bool,
    /// How much it has taken, in bytes.
    bytes: u32,
}

/// What is known of a call when it is over.
pub type Taking = Cell<Option<Took>>;

/// Around a call that takes something from `fd`; `took` says how much that was, zero if nothing. Call [`taken`] later, where the thread may pause.
#[inline]
pub fn taking<T>(
    slot: &Slot,
    fd: c_int,
    taking: &Taking,
    call: impl FnOnce() -> T,
    took: impl FnOnce(&T) -> usize,
) -> T {
    let is_outside = || of(fd).is_some_and(|(peer, ..)| !is_inside(peer, channel::of(fd)));
    // A thread that lost its CPU in the call has not waited for what it took.
    let before = (matter(slot) && is_outside()).then(|| (socket::is_ready(fd), sys::now()));
    let result = call();
    let bytes = took(&result);
    if bytes > 0 {
        // Also where an experiment has begun since the call did.
        found(fd);
        // A thread of the program may have sent it meanwhile, for the first time.
        if let Some((was_ready, began)) = before
            && is_outside()
        {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            taking.set(Some(Took { began, ended: sys::now(), waited: !was_ready, bytes }));
        }
    }
    result
}

/// A thread has asked for any of several descriptors, from `began` until `ended`.
pub fn polled(slot: &Slot, (began, ended): (Nanos, Nanos), waited: bool) {
    if !POLLS.load(Relaxed) {
        POLLS.store(true, Relaxed);
    }
    let polled = &slot.polled;
    polled.before.store(polled.ended.load(Relaxed), Relaxed);
    polled.began.store(began.0, Relaxed);
    polled.ended.store(ended.0, Relaxed);
    polled.waited.store(u32::from(waited), Relaxed);
}

/// Around a call that waits for any of several descriptors; `ready` says whether it found one. `instance`: the one that stands for all of them.
#[inline]
pub fn polling<T>(
    slot: &Slot,
    instance: Option<c_int>,
    call: impl FnOnce() -> T,
    ready: impl FnOnce(&T) -> bool,
) -> T {
    if !matter(slot) {
        return call();
    }
    let (was_ready, began) = (instance.map(socket::is_ready), sys::now());
    let result = call();
    if ready(&result) {
        let ended = sys::now();
        let waited = was_ready.map_or(ended.saturating_sub(began) >= WAITED, |ready| !ready);
        polled(slot, (began, ended), waited);
    }
    result
}

/// Something is about to be sent to `fd`.
#[inline]
pub fn sending(slot: &Slot, fd: c_int) {
    if matter(slot)
        && let Some((peer, source, kind)) = of(fd)
        && kind != Kind::Pipe
    {
        let local = slot.local.load();
        let bytes = peer.bytes.swap(0, Relaxed);
        if bytes != 0 {
            let least = source.least.load(Relaxed);
            source.answered.fetch_add(1, Relaxed);
            source.least.store(if least == 0 { bytes } else { least.min(bytes) }, Relaxed);
            if source.seen.load(Relaxed) < SEEN || random::draw(slot).is_multiple_of(LOOKED_BEHIND) {
                // The end of a request may be left unread (FastCGI): that is less than any request.
                source.see(arrivals_in(source, sys::bytes_to_read(fd)) > 0);
            }
        }
        peer.sent.inherit(local);
        peer.sent_at.store(sys::now().0, Relaxed);
        // What follows in parts is one answer. It may be to what was taken when that did not matter yet.
        let epoch = shared().header.epoch().0;
        let is_next = bytes != 0 || peer.answered_epoch.load(Relaxed) != epoch;
        peer.answered_epoch.store(epoch, Relaxed);
        source.answer(local, is_next);
        let listener = peer.listener.load(Relaxed).checked_sub(1).map(|place| shared().arrivals.at(place));
        listener.into_iter().for_each(|listener| listener.answer(local, is_next));
        if shared().header.probing.load(Relaxed) != 0 && peer.epoch.load(Relaxed) == epoch {
            peer.is_answered.store(1, Relaxed);
            listener.into_iter().for_each(|listener| listener.is_answered.store(1, Relaxed));
        }
    }
}

/// What is known of an arrival.
struct Arrival {
    /// When it came.
    time: Nanos,
    /// How long the thread waited for it, if it did.
    waited: Option<Nanos>,
}

/// When the first of what waits at a TCP socket came, as exactly as the kernel's tick: it only tells when the last one did. `others`: how many came after the first.
fn first_received(fd: c_int, peer: &Peer, (now, others): (Nanos, u32)) -> Option<Nanos> {
    let last = now.0.saturating_sub(socket::last_received(fd)?.0);
    if others == 0 {
        return Some(Nanos(last));
    }
    let is_known = peer.epoch.load(Relaxed) == shared().header.epoch().0;
    let before = peer.arrived.load(Relaxed);
    let others = u64::from(others);
    Some(Nanos(if is_known && before < last {
        before + (last - before) / (others + 1)
    } else {
        last.saturating_sub(others * peer.gap())
    }))
}

/// How many arrivals there are in so many bytes, as far as can be told.
fn arrivals_in(source: &Source, bytes: Option<u32>) -> u32 {
    bytes.unwrap_or(0).checked_div(source.least.load(Relaxed)).unwrap_or(0)
}

/// How many arrivals a call has taken besides the first, as far as can be told. Requests differ in size; only where they do not wait for answers can there be several.
fn taken_besides(source: &Source, bytes: u32) -> u32 {
    if source.is_followed() { arrivals_in(source, Some(bytes)).saturating_sub(1) } else { 0 }
}

/// When what a call has just taken came.
fn when(slot: &Slot, fd: c_int, (peer, source, kind): (&Peer, &Source, Kind), call: Took) -> Arrival {
    let Took { began, ended, waited, bytes } = call;
    if waited {
        return Arrival { time: ended, waited: Some(ended.saturating_sub(began)) };
    }
    let polled = &slot.polled;
    let [poll_began, poll_ended, before] =
        [&polled.began, &polled.ended, &polled.before].map(|time| time.load(Relaxed));
    let handled = peer.handled.load(Relaxed);
    // The first thing that the thread takes from here since it looked what is ready.
    let is_polled = poll_ended > handled && poll_ended <= began.0;
    let is_of_now = peer.next_epoch.load(Relaxed) == shared().header.epoch().0;
    let seen = Some(Nanos(peer.next.swap(0, Relaxed))).filter(|seen| *seen != Nanos::ZERO && is_of_now);
    if is_polled && polled.waited.swap(0, Relaxed) != 0 {
        let waited = Nanos(poll_ended.saturating_sub(poll_began));
        polled.before.store(poll_ended, Relaxed);
        return Arrival { time: seen.unwrap_or(Nanos(poll_ended)), waited: Some(waited) };
    }
    if let Some(time) = seen {
        return Arrival { time, waited: None };
    }
    // What was there when the thread looked before, it has been told of then.
    let known = is_polled && peer.more.load(Relaxed) == 0;
    let (earliest, latest) =
        if known { (handled.max(before.min(poll_ended)), poll_ended) } else { (0, began.0) };
    let gap = if kind == Kind::Listener { source.means.gap() } else { peer.gap() };
    let arrived = if kind == Kind::Listener { &source.arrived } else { &peer.arrived };
    let by_mean = arrived.load(Relaxed).saturating_add(gap);
    let time = match kind {
        Kind::Accepted | Kind::Connected => {
            let left = arrivals_in(source, sys::bytes_to_read(fd));
            let others = left.saturating_add(taken_besides(source, bytes));
            first_received(fd, peer, (ended, others)).map_or(by_mean, |time| time.0).max(earliest)
        }
        Kind::Datagrams => socket::last_stamp(fd).map_or(by_mean, |ago| ended.0.saturating_sub(ago.0)),
        Kind::Pipe | Kind::Listener => by_mean.max(earliest),
    };
    Arrival { time: Nanos(time.min(latest)), waited: None }
}

/// Behind a call that has taken something from `fd`.
#[inline(never)]
pub fn taken(slot: &Slot, fd: c_int, call: Took) {
    let Some((peer, source, kind)) = of(fd) else { return };
    let memory = shared();
    let (header, epoch) = (&memory.header, memory.header.epoch());
    let is_new_here = peer.epoch.swap(epoch.0, Relaxed) != epoch.0;
    if is_new_here {
        peer.handled.store(0, Relaxed);
    }
    peer.bytes.fetch_add(call.bytes, Relaxed);
    let arrival = when(slot, fd, (peer, source, kind), call);
    // Connections that other processes have accepted count as well.
    let (is_new, arrived) = match kind {
        Kind::Listener => (source.epoch.swap(epoch.0, Relaxed) != epoch.0, &source.arrived),
        _ => (is_new_here, &peer.arrived),
    };
    let before = Nanos(arrived.swap(arrival.time.0, Relaxed));
    let gap = arrival.time.saturating_sub(before);
    if matches!(kind, Kind::Accepted | Kind::Connected)
        && taken_besides(source, call.bytes) > 0
        && let Some(ago) = socket::last_received(fd)
    {
        // The next one comes after the last of those that were taken together.
        peer.arrived.store(call.ended.saturating_sub(ago).0.max(arrival.time.0), Relaxed);
    }
    // What comes in parts is one arrival, as long as nothing has been sent there.
    let (is_answered, held) = match kind {
        Kind::Listener => (&source.is_answered, &source.held),
        _ => (&peer.is_answered, &peer.held),
    };
    let is_answered = is_answered.swap(0, Relaxed) != 0;
    peer.handled.store(call.ended.0, Relaxed);
    if matches!(kind, Kind::Accepted | Kind::Connected) {
        peer.more.store(u32::from(!POLLS.load(Relaxed) || socket::is_ready(fd)), Relaxed);
    }
    // Delays make threads late, and then more is ready.
    if memory.required.load().delay() == Nanos::ZERO {
        source.arrivals.fetch_add(1, Relaxed);
        source.ready.fetch_add(u64::from(arrival.waited.is_none()), Relaxed);
    }
    let clock = source.clock_of(&peer.known);
    counted(slot, (source, clock), &arrival, (epoch.0, call.ended));
    if header.experimenting.load(Relaxed) != 0 {
        release(slot, peer, source, kind, &arrival);
    } else if arrival.waited.is_some() {
        slot.behind.store(0, Relaxed);
    }
    if !is_new && kind == Kind::Pipe {
        peer.count.fetch_add(1, Relaxed);
        peer.time.fetch_add(gap.0, Relaxed);
    }
    let probing = header.probing.load(Relaxed);
    if probing != 0 {
        // Parts of one arrival are held up together.
        let before = if is_answered || is_new { held.swap(0, Relaxed) } else { 0 };
        match kind {
            _ if is_new || !is_answered => {}
            Kind::Listener => source.learn(gap.0, before),
            _ => source.learn_of(&peer.known, gap.0, before),
        }
        let late = call.ended.saturating_sub(arrival.time);
        let length = if probing == HOLDING { probe(slot, peer, source, kind) } else { Nanos::ZERO };
        held.fetch_add(length.0, Relaxed);
        let gap = peer.known.means.gap();
        if length > Nanos::ZERO {
            source.hold(length, gap);
        }
        if is_answered || is_new {
            let arrivals = 1 + u64::from(taken_besides(source, call.bytes));
            source.count(arrivals, Nanos((late + length).0.saturating_mul(arrivals)), gap);
        }
    }
}

/// How busy the thread is, by the clock of what it waits for.
fn counted(slot: &Slot, (source, clock): (&Source, Clock), arrival: &Arrival, (epoch, now): (u32, Nanos)) {
    let polled = &slot.polled;
    // Delays make it late.
    if shared().required.load().delay() == Nanos::ZERO {
        let before = polled.in_time.load(Relaxed);
        let in_time = if arrival.waited.is_some() { IN_TIME } else { before.saturating_sub(1) };
        polled.in_time.store(in_time, Relaxed);
    }
    let last = polled.arrival.swap(now.0, Relaxed);
    let gap = now.0.saturating_sub(last);
    if polled.epoch.swap(epoch, Relaxed) != epoch {
        return;
    }
    let mean = polled.gap.load(Relaxed);
    polled.gap.store(if mean == 0 { gap } else { mean - mean / 16 + gap / 16 }, Relaxed);
    let waited = arrival.waited.unwrap_or(Nanos::ZERO).0.min(gap);
    let books = &slot.books;
    // Where requests do not wait for answers there may be no idle time now, and some when the code is faster.
    let doubtful = || if source.is_followed() { gap } else { waited };
    if source.is_said() {
        // It may be contradicted, and counts as known if it never is.
        books.doubtful.fetch_add(doubtful(), Relaxed);
    }
    match clock {
        _ if source.is_doubtful() => {
            books.doubtful.fetch_add(gap, Relaxed);
        }
        // What others on the same port get depends on how soon they are answered.
        Clock::Open if source.is_mixed() => {}
        Clock::Open => {
            // Other arrivals may have come since the last of this kind.
            let last = polled.served.swap(now.0, Relaxed);
            if polled.served_epoch.swap(epoch, Relaxed) == epoch {
                books.serving.fetch_add(now.0.saturating_sub(last), Relaxed);
                books.idle.fetch_add(waited, Relaxed);
            }
        }
        Clock::Undecided => {
            books.doubtful.fetch_add(doubtful(), Relaxed);
        }
        Clock::Closed => {}
    }
}

/// The delay that an arrival brings with it. `None` where the wait for it is as long in both executions: what a pipe brings answers what was sent elsewhere.
fn handed_on(peer: &Peer, source: &Source, kind: Kind, required: Account) -> Option<Nanos> {
    let sender = match source.clock_of(&peer.known) {
        Clock::Open => return Some(Nanos::ZERO),
        _ if kind == Kind::Pipe => return None,
        // Credit comes with samples: what was set in motion so lately has less than it should.
        _ if sys::now().0.saturating_sub(peer.sent_at.load(Relaxed)) < LATELY => return None,
        _ if kind == Kind::Listener => source.answered_it(),
        _ => peer.sent.load(),
    };
    Some(if sender.same_epoch(required) { sender.delay() } else { Nanos::ZERO })
}

/// A wait of the calling thread begins.
#[inline]
pub fn waits(slot: &Slot) {
    slot.polled.sender.inherit(Account::default());
}

/// Something can be read from `fd`, and may have ended the calling thread's wait: notes the clock of the thread that has set it in motion, which may be another one that answered the client meanwhile.
#[inline]
pub fn found(fd: c_int) {
    if let Some(slot) = tls::slot()
        && shared().header.experimenting.load(Relaxed) != 0
    {
        note_sender(slot, fd);
    }
}

#[inline(never)]
fn note_sender(slot: &Slot, fd: c_int) {
    let Some((peer, source, kind)) = of(fd) else { return };
    if source.clock_of(&peer.known) == Clock::Open || is_inside(peer, channel::of(fd)) {
        return;
    }
    let sender = match kind {
        // What others have sent to other clients since is not known apart.
        Kind::Pipe | Kind::Datagrams => None,
        Kind::Listener => Some(source.answered_it()),
        _ => Some(peer.sent.load()),
    };
    let known = &slot.polled.sender;
    let required = shared().required.load();
    let is_later = |sender: &Account| {
        let before = known.load();
        sender.same_epoch(required) && (!before.same_epoch(required) || sender.delay() > before.delay())
    };
    if let Some(sender) = sender.filter(is_later) {
        known.inherit(sender);
    }
}

/// Rule 6 behind a wait that something from outside has ended, before the thread pays for it: where that answers what another thread has sent, the thread's clock shows
/// what the other's did then.
pub fn credit(slot: &Slot, waited: Nanos) {
    let sender = slot.polled.sender.load();
    let memory = shared();
    if sender != Account::default() && memory.header.has_rule(6) {
        let credit = account::exclusively(slot, || slot.local.answered(&memory.required, sender, waited));
        slot.books.answered.fetch_add(credit.0, Relaxed);
    }
    waits(slot);
}

/// When, by the clock of its sender, something came that can be read from `fd`, as an `epoll` instance has just told. `None` where nothing is known of it, or
/// a thread of the program has sent it.
pub fn due(slot: &Slot, fd: c_int) -> Option<Nanos> {
    let (peer, source, kind) = of(fd)?;
    let may_wait = matches!(kind, Kind::Accepted | Kind::Connected) && !is_inside(peer, channel::of(fd));
    let handed_on = handed_on(peer, source, kind, shared().required.load()).filter(|_| may_wait)?;
    let mut time = peer.next.load(Relaxed);
    let epoch = shared().header.epoch().0;
    if time == 0 || peer.next_epoch.swap(epoch, Relaxed) != epoch {
        let polled = &slot.polled;
        let [ended, before] = [&polled.ended, &polled.before].map(|time| time.load(Relaxed));
        // What was there when the thread looked before, it has been told of then.
        let known = peer.more.load(Relaxed) == 0 && peer.epoch.load(Relaxed) == shared().header.epoch().0;
        let earliest = if known { peer.handled.load(Relaxed).max(before).min(ended) } else { 0 };
        time = if known && polled.waited.load(Relaxed) != 0 {
            ended
        } else {
            let others = arrivals_in(source, sys::bytes_to_read(fd)).saturating_sub(1);
            let by_mean = || Nanos(peer.arrived.load(Relaxed).saturating_add(peer.gap()));
            let first = first_received(fd, peer, (Nanos(ended), others)).unwrap_or_else(by_mean);
            first.0.clamp(earliest, ended)
        };
        peer.next.store(time.max(1), Relaxed);
    }
    Some(Nanos(time).saturating_sub(handed_on))
}

/// The thread waits, for a moment at most, until its own clock shows `due`.
pub fn wait_for(slot: &Slot, due: Nanos) -> Nanos {
    /// How often it looks whether something else has come.
    const SLICE: Nanos = Nanos(500_000);
    let memory = shared();
    let before = slot.local.load().delay();
    let late = sys::now().saturating_sub(due).max(before.saturating_sub(SLICE));
    let taken = account::exclusively(slot, || slot.local.released(&memory.required, late));
    slot.books.taken_back.fetch_add(taken.0, Relaxed);
    if slot.polled.in_time.load(Relaxed) != 0 {
        slot.behind.store(memory.header.epoch().0, Relaxed);
    }
    delay::pay_world(slot, None);
    taken
}

/// Rule 6: the thread goes on when its clock shows the time of the arrival.
fn release(slot: &Slot, peer: &Peer, source: &Source, kind: Kind, arrival: &Arrival) {
    let memory = shared();
    let required = memory.required.load();
    if !memory.header.has_rule(6) || required.delay() == Nanos::ZERO {
        return;
    }
    let Some(handed_on) = handed_on(peer, source, kind, required) else { return };
    if kind == Kind::Accepted
        && required.delay().0 > peer.gap()
        && !source.is_followed()
        && source.clock_of(&peer.known) != Clock::Closed
    {
        slot.books.crowded.fetch_add(1, Relaxed);
    }
    let late = sys::now().saturating_sub(arrival.time);
    let taken = account::exclusively(slot, || slot.local.released(&memory.required, late + handed_on));
    if taken == Nanos::ZERO {
        return;
    }
    slot.books.taken_back.fetch_add(taken.0, Relaxed);
    if slot.polled.in_time.load(Relaxed) != 0 {
        slot.behind.store(memory.header.epoch().0, Relaxed);
    }
    if slot.is_doing(Activity::Running) {
        delay::pay_world(slot, None);
    }
}

/// Holds the arrival up if a coin toss decides so; returns for how long.
fn probe(slot: &Slot, peer: &Peer, source: &Source, kind: Kind) -> Nanos {
    let may_wait = slot.polled.in_time.load(Relaxed) != 0 && slot.busy.load(Relaxed) == 0;
    if kind == Kind::Pipe || !may_wait {
        return Nanos::ZERO;
    }
    let apart = slot.polled.gap.load(Relaxed);
    let means = if kind == Kind::Listener { &source.means } else { &peer.known.means };
    let length = means.gap().max(apart).clamp(SHORTEST, LONGEST);
    // One in so many, so that it takes up a part of the time.
    let one_in = (length * PART).checked_div(apart).unwrap_or(0);
    if apart == 0 || !random::draw(slot).is_multiple_of(one_in.max(2)) {
        return Nanos::ZERO;
    }
    let header = &shared().header;
    let began = sys::now();
    let (epoch, mut now) = (header.epoch().0, began);
    let until = now + Nanos(length);
    // The controller may be gone.
    let deadline = shared().experiments.of(header.epoch()).deadline();
    while now < until.min(deadline) && header.epoch().0 == epoch {
        sys::futex_wait_until(&header.epoch, epoch, until);
        now = sys::now();
    }
    now.saturating_sub(began)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two descriptors have the same entry.
    fn share(one: c_int, other: c_int) -> bool {
        core::ptr::eq(entry(one).unwrap(), entry(other).unwrap())
    }

    #[test]
    fn copies_of_a_descriptor_have_its_entry_until_it_is_closed() {
        let [first, copy, third, other] = [60_001, 60_002, 60_003, 60_004];
        let look = |fds: &[c_int], inode| fds.iter().for_each(|fd| share_entry(*fd, inode));
        look(&[first, copy, copy, third], 7_000_001);
        look(&[other], 7_000_002);
        assert!(share(first, copy) && share(first, third) && !share(first, other));
        // A copy that is closed is no copy any more; what has its number then is another socket.
        part(copy as usize);
        look(&[copy], 7_000_003);
        assert!(!share(first, copy) && share(first, third));
        // Those that are left when the first one is closed find one another again.
        look(&[other], 7_000_001);
        part(copy as usize);
        part(other as usize);
        look(&[copy, other], 7_000_001);
        part(first as usize);
        assert!(!share(copy, first) && !share(third, first));
        look(&[first], 7_000_004);
        look(&[third, copy, other], 7_000_001);
        assert!(share(third, copy) && share(third, other) && !share(first, third));
        // What has no inode is nothing's copy.
        look(&[60_005, 60_006], 0);
        assert!(!share(60_005, 60_006));
    }
}
