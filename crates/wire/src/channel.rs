//! Pipes, sockets and event descriptors by which threads of the program wake one another.
//!
//! A thread that waits in `read` or `epoll_wait` may wait for the world or for another thread, and the rules
//! for the two differ (5 and 6). A channel goes in one direction: who writes makes it readable, who reads makes room in it. A
//! thread that is about to do either notes the time; a thread whose wait for just that ends afterwards was woken
//! by a thread of the program.
//!
//! Keys are hashes; two channels that share an entry only matter if a wait for the one ends while the other
//! is in use.

use crate::Nanos;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// Entries of the table. Keys have 14 bits, so that two of them fit into a word.
pub const CHANNELS: usize = 1 << 14;

/// The first of them are for listeners. Those live long, and whether a thread of the program has ever connected to one matters: no connection, of which there may be
/// thousands a second, shares an entry with a listener.
const LISTENERS: u64 = 256;

/// `epoll` instances that can watch one side of a channel; more replace others.
const WATCHERS: u32 = 4;

/// How far a touch goes through instances that watch instances.
const NESTED: u32 = 3;

/// A channel's entry. Zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u16);

impl Key {
    /// The key of anything that is told apart by these numbers.
    #[must_use]
    pub const fn hashed(words: [u64; 2]) -> Self {
        Self::of_no_listener(Self::mixed(words))
    }

    const fn of_no_listener(number: u64) -> Self {
        Self((1 + LISTENERS + number % (CHANNELS as u64 - 1 - LISTENERS)) as u16)
    }

    /// The same for a listener.
    #[must_use]
    pub const fn of_listener(words: [u64; 2]) -> Self {
        Self(1 + (Self::mixed(words) % LISTENERS) as u16)
    }

    /// A hash of two numbers.
    #[must_use]
    pub const fn mixed(words: [u64; 2]) -> u64 {
        let mut hash = words[0].wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ words[1].rotate_left(32);
        hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash ^ (hash >> 32)
    }

    /// The key with this number, if it is one.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        if number == 0 || number as usize >= CHANNELS { None } else { Some(Self(number)) }
    }

    /// As a number that is not zero.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// That there is something to read.
    #[must_use]
    pub const fn data(self) -> Event {
        Event { key: self, side: Side::Readable }
    }

    /// That there is room to write.
    #[must_use]
    pub const fn room(self) -> Event {
        Event { key: self, side: Side::Writable }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Readable = 0,
    Writable = 1,
}

/// What a thread can wait for at a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    key: Key,
    side: Side,
}

/// Pairs of sockets that are remembered at a time.
const PAIRS: usize = 1 << 12;

/// Connections of the program's own that are remembered until they are accepted.
const OWN: usize = 1 << 12;

/// One end of a pair of sockets.
#[derive(Debug)]
#[repr(C)]
struct Pair {
    /// The inode of the other end.
    other: AtomicU64,
    /// That and its own inode, exclusively or'ed: a reader of two words of different pairs notices.
    both: AtomicU64,
}

/// When threads of the program last did what makes channels ready, and which `epoll` instances learn of that as well.
#[derive(Debug)]
#[repr(C)]
pub struct Channels {
    fresh: AtomicU32,
    reserved: AtomicU32,
    /// Monotonic times; [`BUSY`] while the call that was noted lasts.
    touched: [[AtomicU64; 2]; CHANNELS],
    /// Keys of instances, 16 bits each.
    watchers: [[AtomicU64; 2]; CHANNELS],
    /// Odd while a thread pauses that is to stop when the instance is touched.
    pausing: [AtomicU32; CHANNELS],
    /// Pairs of sockets, by a hash of the inode.
    pairs: [Pair; PAIRS],
    /// Names of connections that threads of the program have made, and that none has been seen to accept yet.
    own: [AtomicU64; OWN],
}

/// A call that fills or empties the channel goes on: a long one wakes others again and again.
const BUSY: u64 = 1 << 63;

impl Channels {
    /// A key for a channel that has just been made.
    pub fn fresh(&self) -> Key {
        let key = Key::of_no_listener(self.fresh.fetch_add(1, Relaxed).into());
        self.begin(key);
        key
    }

    /// A channel has just been made: what watched the one that had this key before does not watch this one.
    pub fn begin(&self, key: Key) {
        self.watchers[key.0 as usize].iter().for_each(|watchers| watchers.store(0, Relaxed));
    }

    /// The sockets with these inodes are the two ends of a connection, also for programs that inherit them.
    pub fn pair(&self, [first, second]: [u64; 2]) {
        for (own, other) in [(first, second), (second, first)] {
            let pair = self.pair_of(own);
            pair.other.store(other, Relaxed);
            pair.both.store(own ^ other, Relaxed);
        }
    }

    /// The inode of the other end of a pair of sockets, if it is remembered.
    pub fn other_end(&self, inode: u64) -> Option<u64> {
        let pair = self.pair_of(inode);
        let other = pair.other.load(Relaxed);
        (other != 0 && pair.both.load(Relaxed) ^ other == inode).then_some(other)
    }

    fn pair_of(&self, inode: u64) -> &Pair {
        &self.pairs[Key::hashed([inode, 0]).0 as usize % PAIRS]
    }

    /// A thread of the program has made the connection with this name.
    pub fn connect(&self, connection: u64) {
        self.own[connection as usize % OWN].store(connection, SeqCst);
    }

    /// Whether the connection with this name, which was accepted, was made by a thread of the program. It is said once: another connection may have its name later.
    pub fn take_connected(&self, connection: u64) -> bool {
        let own = &self.own[connection as usize % OWN];
        connection != 0
            && own.load(SeqCst) == connection
            && own.compare_exchange(connection, 0, SeqCst, Relaxed).is_ok()
    }

    fn touched(&self, event: Event) -> &AtomicU64 {
        &self.touched[event.key.0 as usize][event.side as usize]
    }

    fn watchers(&self, event: Event) -> &AtomicU64 {
        &self.watchers[event.key.0 as usize][event.side as usize]
    }

    /// A thread begins a call at `time` (monotonic clock) that may cause `event`, until [`ends`](Self::ends).
    /// `wake` wakes those who sleep on a word.
    #[inline]
    pub fn begins(&self, event: Event, time: Nanos, wake: impl Fn(&AtomicU32)) {
        self.touched(event).fetch_max(time.0 | BUSY, SeqCst);
        self.tell_watchers(event, time, &wake, NESTED);
    }

    /// The call is over.
    #[inline]
    pub fn ends(&self, event: Event) {
        self.touched(event).fetch_and(!BUSY, SeqCst);
    }

    /// A thread is about to cause `event` at once.
    pub fn touch(&self, event: Event, time: Nanos, wake: impl Fn(&AtomicU32)) {
        self.touched(event).fetch_max(time.0, SeqCst);
        self.wake_pausing(event.key, &wake);
        self.tell_watchers(event, time, &wake, NESTED);
    }

    #[inline]
    fn tell_watchers(&self, event: Event, time: Nanos, wake: &impl Fn(&AtomicU32), further: u32) {
        let mut watchers = self.watchers(event).load(Relaxed);
        while watchers != 0 {
            if let Some(watcher) = Key::from_number(watchers as u16) {
                self.touched(watcher.data()).fetch_max(time.0, SeqCst);
                self.wake_pausing(watcher, wake);
                if further > 0 {
                    self.tell_watchers(watcher.data(), time, wake, further - 1);
                }
            }
            watchers >>= 16;
        }
    }

    fn wake_pausing(&self, key: Key, wake: &impl Fn(&AtomicU32)) {
        let word = &self.pausing[key.0 as usize];
        let seen = word.load(SeqCst);
        if seen & 1 != 0 && word.compare_exchange(seen, seen.wrapping_add(1), SeqCst, Relaxed).is_ok() {
            wake(word);
        }
    }

    /// When a thread of the program last did what causes `event`; later than anything while it is doing so.
    pub fn used(&self, event: Event) -> Nanos {
        Nanos(self.touched(event).load(SeqCst))
    }

    /// A thread is about to pause until `instance` is touched: the word to sleep on while it has this value. To be
    /// called before looking whether it has been touched.
    pub fn pause_word(&self, instance: Key) -> (&AtomicU32, u32) {
        let word = &self.pausing[instance.0 as usize];
        (word, word.fetch_or(1, SeqCst) | 1)
    }

    /// Threads that wait for `instance` learn when `event` is caused, or no longer.
    pub fn watch(&self, event: Event, instance: Key, wanted: bool) {
        let update = |watchers| Some(updated(watchers, instance, wanted));
        // It never fails, because `update` always has an answer.
        let _ = self.watchers(event).fetch_update(Relaxed, Relaxed, update);
    }
}

/// A list of keys with `key` or without it. One that is full loses its oldest.
fn updated(list: u64, key: Key, wanted: bool) -> u64 {
    let others = (0..WATCHERS)
        .map(|place| list >> (16 * place) & 0xffff)
        .filter(|&other| other != 0 && other != u64::from(key.0));
    let first = u64::from(if wanted { key.0 } else { 0 });
    let (list, _) = others.fold((first, u32::from(wanted)), |(list, place), other| {
        if place < WATCHERS { (list | other << (16 * place), place + 1) } else { (list, place) }
    });
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn channels() -> Box<Channels> {
        // SAFETY: a table of atomics is valid when all bytes are zero.
        unsafe { Box::<Channels>::new_zeroed().assume_init() }
    }

    const NOBODY: fn(&AtomicU32) = |_| panic!("no thread pauses");

    #[test]
    fn no_connection_shares_an_entry_with_a_listener() {
        let listeners = || (0..1000).map(|port| Key::of_listener([port, 7]));
        let most = listeners().map(Key::number).max().unwrap();
        let channels = channels();
        assert!(
            (0..40_000).all(|nth| Key::hashed([nth, 3]).number() > most && channels.fresh().number() > most)
        );
        assert!(listeners().all(|key| Key::from_number(key.number()) == Some(key)));
    }

    #[test]
    fn a_connection_that_the_program_has_made_is_accepted_once() {
        let channels = channels();
        let [own, other] = [1, 2].map(|port| Key::mixed([port, 80]));
        channels.connect(own);
        assert!(!channels.take_connected(other) && channels.take_connected(own));
        assert!(!channels.take_connected(own), "a client outside may be given the same port");
        assert!(!channels.take_connected(0));
    }

    #[test]
    fn lists_hold_each_key_once_and_the_newest() {
        let list = (1..=6).fold(0, |list, number| updated(list, Key(number), true));
        assert_eq!(list, 0x0003_0004_0005_0006);
        assert_eq!(updated(list, Key(4), true), 0x0003_0005_0006_0004);
        assert_eq!(updated(list, Key(5), false), 0x0003_0004_0006);
        assert_eq!(updated(list, Key(9), false), list);
    }

    #[test]
    fn a_write_is_no_room_and_a_read_no_data() {
        let channels = channels();
        let key = channels.fresh();
        channels.touch(key.data(), Nanos(5), NOBODY);
        assert_eq!((channels.used(key.data()), channels.used(key.room())), (Nanos(5), Nanos::ZERO));
    }

    #[test]
    fn a_call_that_goes_on_is_later_than_any_wait() {
        let channels = channels();
        let key = channels.fresh();
        channels.begins(key.data(), Nanos(5), NOBODY);
        assert!(channels.used(key.data()) > Nanos(1_000));
        channels.ends(key.data());
        assert_eq!(channels.used(key.data()), Nanos(5));
    }

    #[test]
    fn instances_learn_of_what_they_watch_also_through_one_another() {
        let channels = channels();
        let [channel, inner, outer, other] = core::array::from_fn(|_| channels.fresh());
        channels.watch(channel.data(), inner, true);
        channels.watch(channel.data(), other, true);
        channels.watch(inner.data(), outer, true);
        channels.begins(channel.data(), Nanos(7), NOBODY);
        channels.begins(channel.room(), Nanos(9), NOBODY);
        assert_eq!([inner, outer, other].map(|key| channels.used(key.data())), [Nanos(7); 3]);
        channels.watch(channel.data(), other, false);
        channels.touch(channel.data(), Nanos(11), NOBODY);
        assert_eq!(channels.used(other.data()), Nanos(7));
        assert_eq!(channels.used(outer.data()), Nanos(11));
    }

    #[test]
    fn a_pause_for_an_instance_is_woken_once() {
        let channels = channels();
        let [channel, instance] = core::array::from_fn(|_| channels.fresh());
        channels.watch(channel.data(), instance, true);
        let (word, value) = channels.pause_word(instance);
        let woken = core::cell::Cell::new(0);
        let wake = |of: &AtomicU32| {
            assert!(core::ptr::eq(of, word));
            woken.set(woken.get() + 1);
        };
        channels.touch(channel.data(), Nanos(3), wake);
        assert_ne!(word.load(Relaxed), value);
        channels.touch(channel.data(), Nanos(4), wake);
        assert_eq!(woken.get(), 1);
    }

    #[test]
    fn a_key_that_is_used_again_has_no_watchers() {
        let channels = channels();
        let [first, instance] = core::array::from_fn(|_| channels.fresh());
        channels.watch(first.data(), instance, true);
        let again = (0..CHANNELS).map(|_| channels.fresh()).find(|&key| key == first).expect("keys go round");
        channels.touch(again.data(), Nanos(3), NOBODY);
        assert_eq!(channels.used(instance.data()), Nanos::ZERO);
    }
}
