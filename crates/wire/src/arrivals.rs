//! Arrivals: what comes to the program from outside, through sockets and pipes, and which clock it has.
//!
//! In a *closed loop* a client sends its next request when it has our answer: the request depends on what we did, and what we owed when we
//! answered is handed on to it. In an *open loop* requests come at times of their own. The two are told apart by an experiment: some requests,
//! drawn at random, are held up for a while before they are handled (a *probe*), and the time from one arrival to the next on the same connection is
//! compared with the time that the first one was held up. In a closed loop the one grows as much as the other; in an open loop it does not. Only the
//! time that was drawn counts: handling may take longer for reasons that hold up the other side, too.
//!
//! A client may have a pool of connections, and take the one that is free: then the next request on a connection waits for the answer, and the client
//! does not. So where there are several connections it also counts how many arrivals there are in all while some are held up, compared with times in which none are
//! ([`Source::came`], [`Source::would_lose`]): in a closed loop there are fewer.
//!
//! Sources are told apart by kind and port, and what is known of their connections is pooled, unless they are not of one kind
//! ([`Source::is_mixed`]). The runtime adds to these tables, the controller asks for probes and for the
//! decision ([`Source::judge`]). The last word is said here: the controller only says what the arrivals in all show, which is one of the things it is decided by.

use crate::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{Account, LocalAccount, Nanos};

/// Value of `Header::probing`: arrivals are held up now and then.
pub const HOLDING: u32 = 1;
/// Value of `Header::probing`: arrivals are only watched.
pub const WATCHING: u32 = 2;

/// Sources that are told apart. Those that share a place by chance are taken for one.
pub const SOURCES: usize = 64;

/// Probed arrivals that are needed to say anything.
const ENOUGH: i64 = 40;
/// A slope is sure if it is this many standard errors away from what it is compared with.
const SURE: f64 = 3.0;
/// [`SURE`] for a single connection: there are many, and one that is wrong by chance would make all of them doubtful.
const SURE_ALONE: f64 = 4.5;
/// If more than this part of what an answer takes longer shows in the time until the next arrival, the loop is closed.
const CLOSED: f64 = 0.5;
/// If surely more than this part shows, a loop is not known to be closed by that alone: what comes has waited behind something else.
const NEITHER: f64 = 1.5;
/// Below [`CLOSED`] the loop is open. Connections that carry one request each have other clients in between: there an open loop must be below this.
const OPEN_AMONG_MANY: f64 = 0.05;
/// Below this the loop is open where requests come before others on the same connection are answered: a client may have several under way.
const OPEN_FOLLOWED: f64 = 0.35;
/// Arrivals without an answer: with this share of them waiting already when they are asked for, nothing waits for the program.
const READY: u64 = 20;
/// Arrivals without an answer: if fewer than one in this many waits already when it is asked for, they wait for the program.
const NEVER_READY: u64 = 200;
/// How many arrivals without an answer it takes to tell.
const MANY: u64 = 200;

/// One unit of time in the sums is 2⁷ ns, and no deviation counts for more than 2²² of them (0.5 s).
const UNIT: u32 = 7;
const MOST: i64 = 1 << 22;
/// One arrival in this many with another one behind it is no accident.
const FOLLOWED: u32 = 50;
/// How many arrivals there are when sums are halved.
const OLD: i64 = 1 << 17;

/// What arrivals come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A connection that a client made.
    Accepted = 1,
    /// A connection that the program made.
    Connected = 2,
    /// Datagrams.
    Datagrams = 3,
    /// A pipe: nothing can be answered by it.
    Pipe = 4,
    /// New connections.
    Listener = 5,
}

impl Kind {
    /// The kind with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Accepted,
            2 => Self::Connected,
            3 => Self::Datagrams,
            4 => Self::Pipe,
            5 => Self::Listener,
            _ => return None,
        })
    }

    /// Whether they come from clients of the program.
    const fn is_of_clients(self) -> bool {
        matches!(self, Self::Accepted | Self::Datagrams | Self::Listener)
    }
}

/// Which clock arrivals have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// It cannot be told (yet).
    #[default]
    Undecided = 0,
    /// They answer what the program sent.
    Closed = 1,
    /// Their own: they come when they come.
    Open = 2,
}

impl Clock {
    /// The clock with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Closed,
            2 => Self::Open,
            _ => Self::Undecided,
        }
    }
}

/// What is known of one source.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Source {
    /// Kind in the low 16 bits, port above; zero is none.
    pub name: AtomicU32,
    /// A [`Clock`].
    pub clock: AtomicU32,
    /// Arrivals while there were no delays.
    pub arrivals: AtomicU64,
    /// Arrivals without delays that were there already when the program asked for them.
    pub ready: AtomicU64,
    /// Sums over all its connections.
    sums: Sums,
    /// What the slopes of single connections explain of the sum of yy.
    explained: AtomicI64,
    /// How many connections `explained` is about.
    connections: AtomicU32,
    /// Connections that have been found to be in a closed loop by themselves.
    closed: AtomicU32,
    /// Connections that have been found to be in an open loop by themselves.
    open: AtomicU32,
    /// Whether anything has been answered since the last arrival.
    pub is_answered: AtomicU32,
    /// How long the last arrival was held up, in nanoseconds.
    pub held: AtomicU64,
    /// Of a listener, which several processes may have: when the last connection came.
    pub arrived: AtomicU64,
    /// The delays of the threads that answered last, by turns.
    answers: [LocalAccount; ANSWERS],
    /// How many there were.
    answers_count: AtomicU32,
    /// Of a listener: the window in which the last connection came.
    pub epoch: AtomicU32,
    /// Arrivals of connections, halved now and then.
    pub seen: AtomicU32,
    /// Those of `seen` that had another arrival waiting behind them, which has not waited for their answer.
    pub followed: AtomicU32,
    /// The fewest bytes that have been read at once, zero if none were.
    pub least: AtomicU32,
    /// Whether the clock is what the user says, because nothing else is known.
    is_said: AtomicU32,
    /// Without connections.
    pub means: Means,
    /// Arrivals during probes.
    pub came: AtomicU64,
    /// Arrivals that something was sent for, while that was counted.
    pub answered: AtomicU64,
    /// How many arrivals would not have come in a closed loop, because others were held up or had to wait: in parts of [`ARRIVAL`].
    pub would_lose: AtomicU64,
    /// Arrivals that were held up.
    holds: AtomicU32,
    /// Arrivals that were held up for so long that a client may have run out of connections.
    long_holds: AtomicU32,
    /// A [`Clock`]: what the number of arrivals during probes says.
    in_all: AtomicU32,
    /// A [`Clock`]: what the user says, which holds where nothing else is known.
    said: AtomicU32,
}

/// So many answers are remembered.
const ANSWERS: usize = 16;

/// One arrival, in [`Source::would_lose`].
pub const ARRIVAL: u64 = 1 << 16;
/// No arrival stands for more.
const MOST_LOST: u64 = 16 * ARRIVAL;
/// An arrival that is held up for longer than this part of the time between two on its connection, as a divisor, may have made its client take other connections.
const LONG: u64 = 4;

/// Sums of deviations from the means: of the time for which an arrival was held up (x), and the time until the next one (y).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Sums {
    n: AtomicI64,
    xx: AtomicI64,
    xy: AtomicI64,
    yy: AtomicI64,
}

impl Sums {
    fn all(&self) -> [&AtomicI64; 4] {
        [&self.n, &self.xx, &self.xy, &self.yy]
    }

    fn add(&self, x: i64, y: i64) {
        for (sum, more) in self.all().into_iter().zip([1, x * x, x * y, y * y]) {
            sum.fetch_add(more, Relaxed);
        }
    }

    fn halve(&self) {
        self.all().into_iter().for_each(|sum| sum.store(sum.load(Relaxed) / 2, Relaxed));
    }

    fn forget(&self) {
        self.all().into_iter().for_each(|sum| sum.store(0, Relaxed));
    }

    /// What a slope of their own explains of the sum of yy.
    fn explained(&self) -> i64 {
        let [_, xx, xy, _] = self.all().map(|sum| sum.load(Relaxed) as f64);
        if xx > 0.0 { (xy * xy / xx) as i64 } else { 0 }
    }

    /// What they say; `None` until there are enough.
    fn slope(&self) -> Option<Slope> {
        let [n, xx, xy, yy] = self.all().map(|sum| sum.load(Relaxed) as f64);
        if n < ENOUGH as f64 || xx <= 0.0 {
            return None;
        }
        let value = xy / xx;
        let left = (yy - value * xy).max(0.0) / (n - 2.0);
        Some(Slope { value, variance: left / xx, arrivals: n as u64 })
    }
}

/// What is known of one connection, in the runtime's own table.
#[derive(Debug, Default)]
pub struct Connection {
    /// The mean time from one arrival to the next, and for which they are held up.
    pub means: Means,
    sums: Sums,
    clock: AtomicU32,
}

impl Connection {
    /// Which clock this connection has by itself.
    fn own(&self) -> Clock {
        Clock::from_number(self.clock.load(Relaxed))
    }
}

/// Running means of two times, in nanoseconds.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Means {
    gap: AtomicU64,
    held: AtomicU64,
    seen: AtomicU32,
    reserved: u32,
}

impl Means {
    /// Adds a pair, and returns how far it lay from the means before; `None` until there are some.
    fn add(&self, gap: u64, held: u64) -> Option<(i64, i64)> {
        let seen = self.seen.load(Relaxed);
        // The mean of the first sixteen, and a running one from there.
        let weight = i64::from(seen.min(15) + 1);
        let deviation = |mean: &AtomicU64, now: u64| {
            let before = mean.load(Relaxed);
            let deviation = now as i64 - before as i64;
            mean.store((before as i64 + deviation / weight) as u64, Relaxed);
            deviation
        };
        let (gap, held) = (deviation(&self.gap, gap), deviation(&self.held, held));
        self.seen.store(seen.saturating_add(1), Relaxed);
        let scaled = |nanos: i64| (nanos >> UNIT).clamp(-MOST, MOST);
        (seen >= 4).then_some((scaled(held), scaled(gap)))
    }

    /// The mean time from one arrival to the next, zero if there was none.
    pub fn gap(&self) -> u64 {
        self.gap.load(Relaxed)
    }

    /// There were none.
    fn forget(&self) {
        self.gap.store(0, Relaxed);
        self.held.store(0, Relaxed);
        self.seen.store(0, Relaxed);
    }
}

/// How much of the time for which arrivals are held up shows in the time until the next one, and the standard error of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// 1 in a closed loop, 0 in an open one.
    pub value: f64,
    /// Its variance.
    pub variance: f64,
    /// How many arrivals it rests on.
    pub arrivals: u64,
}

impl Slope {
    /// Whether it is certainly more than `other`: positive, or less: negative, in standard errors squared.
    fn beyond(self, other: f64) -> f64 {
        let distance = self.value - other;
        distance * distance.abs() / self.variance.max(1e-12)
    }

    /// How many clients take turns, if they wait for their answers: the fewest that the slope allows, which is one over their number.
    fn clients(self) -> usize {
        (1..ANSWERS).find(|clients| self.beyond(1.0 / *clients as f64) > -SURE * SURE).unwrap_or(ANSWERS)
    }
}

impl Source {
    /// An arrival without a connection of its own was answered after it was held up for `held`, and the next one came `gap` after it; in nanoseconds.
    pub fn learn(&self, gap: u64, held: u64) {
        if let Some((x, y)) = self.means.add(gap, held) {
            self.sum(x, y, 0);
        }
    }

    /// The same for an arrival on a connection.
    pub fn learn_of(&self, connection: &Connection, gap: u64, held: u64) {
        let Some((x, y)) = connection.means.add(gap, held) else { return };
        let sums = &connection.sums;
        let before = sums.explained();
        if sums.n.load(Relaxed) == 0 {
            self.connections.fetch_add(1, Relaxed);
        }
        sums.add(x, y);
        self.sum(x, y, sums.explained() - before);
        self.set(connection, self.decide(sums.slope(), SURE_ALONE));
        if sums.n.load(Relaxed) >= OLD {
            sums.halve();
        }
    }

    /// A thread with this delay has answered: the next request, or once more the one that was answered last.
    pub fn answer(&self, local: Account, is_next: bool) {
        let count = self.answers_count.load(Relaxed);
        let nth = if is_next { self.answers_count.fetch_add(1, Relaxed) } else { count.saturating_sub(1) };
        self.answers[nth as usize % ANSWERS].inherit(local);
    }

    /// The delay of the thread that answered the client whose next request comes now. Of clients that each have a connection for every request, all but one have other requests
    /// answered in between: how many there are, the slope tells; one, as long as it says nothing.
    pub fn answered_it(&self) -> Account {
        let clients = self.sums.slope().map_or(1, Slope::clients);
        let count = self.answers_count.load(Relaxed) as usize;
        // The oldest that is known, if there are more.
        let nth = count.wrapping_sub(clients.min(ANSWERS));
        self.answers[nth % ANSWERS].load()
    }

    /// A connection is closed. What it has taught is kept.
    pub fn forget(&self, connection: &Connection) {
        connection.means.forget();
        connection.sums.forget();
        self.set(connection, Clock::Undecided);
    }

    /// `connection` has this clock by itself, as far as is known.
    fn set(&self, connection: &Connection, clock: Clock) {
        let was = Clock::from_number(connection.clock.swap(clock as u32, Relaxed));
        let number = |clock| match clock {
            Clock::Closed => Some(&self.closed),
            Clock::Open => Some(&self.open),
            Clock::Undecided => None,
        };
        if was != clock {
            // Processes share the source, and not what they know of its connections: a fork's copy is closed twice.
            number(was).map(|one| one.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)));
            number(clock).map(|one| one.fetch_add(1, Relaxed));
        }
    }

    fn sum(&self, x: i64, y: i64, explained: i64) {
        self.sums.add(x, y);
        self.explained.fetch_add(explained, Relaxed);
        if self.sums.n.load(Relaxed) >= OLD {
            self.sums.halve();
            self.explained.store(self.explained.load(Relaxed) / 2, Relaxed);
            self.connections.store(self.connections.load(Relaxed).div_ceil(2), Relaxed);
        }
    }

    /// What all its arrivals say.
    pub fn slope(&self) -> Option<Slope> {
        self.sums.slope()
    }

    /// Whether its connections are not of one kind: two of them have been found to be different, or their slopes differ by more than chance.
    pub fn is_mixed(&self) -> bool {
        let (closed, open) = (self.closed.load(Relaxed), self.open.load(Relaxed));
        (closed > 0 && open > 0) || self.differ()
    }

    /// Cochran's Q, as an F test would have it: what single slopes explain beyond the common one, over the variance that no slope explains.
    fn differ(&self) -> bool {
        let [n, yy] = [&self.sums.n, &self.sums.yy].map(|sum| sum.load(Relaxed) as f64);
        let connections = f64::from(self.connections.load(Relaxed));
        let (freedom, left) = (connections - 1.0, n - 2.0 * connections);
        if freedom < 1.0 || left < ENOUGH as f64 {
            return false;
        }
        let explained = self.explained.load(Relaxed) as f64;
        let beyond = explained - self.sums.explained() as f64;
        let variance = (yy - explained).max(1.0) / left;
        // Its mean is `freedom` if there is no difference, its variance twice that; the sums have heavier tails than normal ones.
        let excess = beyond / variance - freedom;
        excess > 0.0 && excess * excess > 4.0 * SURE * SURE * 2.0 * freedom
    }

    /// An arrival of a connection: whether another one was there behind it.
    pub fn see(&self, followed: bool) {
        self.followed.fetch_add(u32::from(followed), Relaxed);
        if self.seen.fetch_add(1, Relaxed) >= OLD as u32 {
            self.seen.store(OLD as u32 / 2, Relaxed);
            self.followed.store(self.followed.load(Relaxed) / 2, Relaxed);
        }
    }

    /// Whether arrivals come before the one before them has been answered. In a closed loop they do not, unless clients send several at once.
    pub fn is_followed(&self) -> bool {
        self.followed.load(Relaxed) * FOLLOWED > self.seen.load(Relaxed)
    }

    /// Counts arrivals that came at once during a probe and had to wait for `late` in all; `gap`: the mean time between two on their connection.
    pub fn count(&self, arrivals: u64, late: Nanos, gap: u64) {
        self.came.fetch_add(arrivals, Relaxed);
        let lost = (late.0.saturating_mul(ARRIVAL)).checked_div(gap).unwrap_or(0);
        self.would_lose.fetch_add(lost.min(MOST_LOST), Relaxed);
    }

    /// An arrival was held up for `held`.
    pub fn hold(&self, held: Nanos, gap: u64) {
        self.holds.fetch_add(1, Relaxed);
        self.long_holds.fetch_add(u32::from(held.0 * LONG > gap), Relaxed);
    }

    /// What the number of arrivals during probes says.
    pub fn set_in_all(&self, clock: Clock) {
        self.in_all.store(clock as u32, Relaxed);
    }

    /// See [`set_in_all`](Self::set_in_all).
    pub fn in_all(&self) -> Clock {
        Clock::from_number(self.in_all.load(Relaxed))
    }

    /// Whether the number of arrivals shows that they have a clock of their own. A client with several requests under way on one connection would lose less than is
    /// expected of a closed loop, and what datagrams would lose is not known.
    fn is_open_in_all(&self) -> bool {
        let has_connections = matches!(self.kind(), Some((Kind::Accepted | Kind::Connected, _)));
        self.in_all() == Clock::Open && has_connections && !self.is_followed()
    }

    /// Whether single connections may seem to wait for answers although their client does not.
    fn may_be_pooled(&self) -> bool {
        let (holds, long) = (self.holds.load(Relaxed), self.long_holds.load(Relaxed));
        self.in_all() != Clock::Closed && self.connections.load(Relaxed) > 1 && long > holds / 10
    }

    /// The kind of its arrivals, and the port.
    pub fn kind(&self) -> Option<(Kind, u16)> {
        let name = self.name.load(Relaxed);
        Some((Kind::from_number(name & 0xffff)?, (name >> 16) as u16))
    }

    /// The user says that it has this clock.
    fn say(&self, clock: Clock) {
        self.said.store(clock as u32, Relaxed);
        self.know(clock, clock != Clock::Undecided);
    }

    fn know(&self, clock: Clock, is_said: bool) {
        self.clock.store(clock as u32, Relaxed);
        self.is_said.store(is_said.into(), Relaxed);
    }

    /// Whether its clock is only what the user says: nothing has confirmed it yet, and nothing contradicts it.
    pub fn is_said(&self) -> bool {
        self.is_said.load(Relaxed) != 0
    }

    /// Whether something else has been found than the user says.
    pub fn contradicts(&self) -> bool {
        let said = Clock::from_number(self.said.load(Relaxed));
        let is_other = |found| found != Clock::Undecided && found != said;
        said != Clock::Undecided && (self.is_mixed() || is_other(self.found()))
    }

    /// Decides which clock the source has, as far as can be told.
    pub fn judge(&self) -> Clock {
        let (found, said) = (self.found(), Clock::from_number(self.said.load(Relaxed)));
        let is_said = found == Clock::Undecided && said != Clock::Undecided && !self.is_mixed();
        let clock = if is_said { said } else { found };
        self.know(clock, is_said);
        clock
    }

    /// What arrivals themselves show.
    fn found(&self) -> Clock {
        match self.kind() {
            Some((Kind::Pipe, _)) => self.judge_by_ready(),
            Some(_) if self.is_mixed() => Clock::Undecided,
            Some(_) => match self.decide(self.slope(), SURE) {
                // Either a pool of connections, or a program that others use while one is held up.
                Clock::Closed if self.may_be_pooled() => Clock::Undecided,
                Clock::Undecided if self.is_open_in_all() => Clock::Open,
                clock => clock,
            },
            None => Clock::Undecided,
        }
    }

    /// Where nothing is answered, a source that waited for the program would never have anything ready, and an open one has as often as the program
    /// is busy.
    fn judge_by_ready(&self) -> Clock {
        let (arrivals, ready) = (self.arrivals.load(Relaxed), self.ready.load(Relaxed));
        if arrivals < MANY {
            Clock::Undecided
        } else if ready * READY > arrivals && (arrivals - ready.min(arrivals)) * READY > arrivals {
            Clock::Open
        } else if ready * NEVER_READY < arrivals {
            Clock::Closed
        } else {
            Clock::Undecided
        }
    }

    fn decide(&self, slope: Option<Slope>, sure: f64) -> Clock {
        let Some(slope) = slope else { return Clock::Undecided };
        let open = match self.kind() {
            Some((Kind::Listener | Kind::Datagrams, _)) => OPEN_AMONG_MANY,
            _ if self.is_followed() => OPEN_FOLLOWED,
            _ => CLOSED,
        };
        // Where fewer come in all, what comes has waited behind others that wait for their answers.
        if slope.beyond(NEITHER) > sure * sure && self.in_all() != Clock::Closed {
            Clock::Undecided
        } else if slope.beyond(CLOSED) > sure * sure {
            // When the first of several came is not known exactly.
            if self.is_followed() { Clock::Undecided } else { Clock::Closed }
        } else if slope.beyond(open) < -sure * sure {
            Clock::Open
        } else {
            Clock::Undecided
        }
    }

    /// Which clock the source has.
    pub fn clock(&self) -> Clock {
        Clock::from_number(self.clock.load(Relaxed))
    }

    /// Which clock a connection of it has: its own where that is known.
    pub fn clock_of(&self, connection: &Connection) -> Clock {
        match connection.own() {
            Clock::Undecided => self.clock(),
            // In a pool of connections each seems to. All together know more than one, as long as they are of one kind.
            Clock::Closed
                if !self.is_mixed() && (self.may_be_pooled() || self.clock() == Clock::Undecided) =>
            {
                self.clock()
            }
            own => own,
        }
    }

    /// Whether not even what is known of single connections is certain: they differ, and they may be a pool.
    pub fn is_doubtful(&self) -> bool {
        self.may_be_pooled() && self.is_mixed()
    }
}

/// All sources.
#[derive(Debug)]
#[repr(C)]
pub struct Arrivals {
    sources: [Source; SOURCES],
    /// New connections that were found to be the program's own, by the name that who connected left or by their process: what comes by them
    /// does not come from outside.
    pub own: AtomicU64,
    /// A [`Clock`]: what the user says of the program's clients. Before there are any sources.
    pub said: AtomicU32,
    reserved: u32,
}

impl Arrivals {
    /// The place of the source of this kind at this port, which it is given if it is free.
    pub fn place(&self, kind: Kind, port: u16) -> u32 {
        let name = kind as u32 | u32::from(port) << 16;
        let hash = name.wrapping_mul(0x9e37_79b1) >> 16;
        for step in 0..SOURCES as u32 {
            let place = (hash + step) % SOURCES as u32;
            let source = &self.sources[place as usize];
            match source.name.compare_exchange(0, name, Relaxed, Relaxed) {
                Ok(_) => {
                    if kind.is_of_clients() {
                        source.say(Clock::from_number(self.said.load(Relaxed)));
                    }
                    return place;
                }
                Err(there) if there == name => return place,
                Err(_) => {}
            }
        }
        hash % SOURCES as u32
    }

    /// The source at a [`place`](Self::place).
    pub fn at(&self, place: u32) -> &Source {
        &self.sources[place as usize % SOURCES]
    }

    /// Those that anything has been seen of.
    pub fn used(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.name.load(Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_says_how_many_clients_take_turns() {
        let clients = |value, error: f64| Slope { value, variance: error * error, arrivals: 100 }.clients();
        assert_eq!(
            [clients(1.0, 0.01), clients(0.9, 0.1), clients(0.5, 0.01), clients(0.26, 0.01)],
            [1, 1, 2, 4]
        );
        assert_eq!([clients(0.3, 0.4), clients(1.6, 0.1), clients(0.0, 0.01)], [1, 1, ANSWERS]);
    }

    #[test]
    fn of_clients_that_take_turns_the_one_that_was_answered_first_sends_next() {
        let source = Source::default();
        let account = |nanos| Account::new(crate::Epoch(1), Nanos(nanos));
        assert_eq!(source.answered_it(), Account::default());
        (1..=19).for_each(|nth| source.answer(account(nth), true));
        // A head and a body.
        source.answer(account(10), true);
        source.answer(account(20), false);
        assert_eq!(source.answered_it(), account(20));
        // Three clients: a third of the time for which an arrival was held up shows in the time until the next.
        for nth in 0..3000 {
            let held = (nth % 7) * 100_000;
            source.learn(1_000_000 + held / 3 + nth * 37 % 11 * 20_000, held);
        }
        assert_eq!(source.answered_it(), account(18));
    }
    use std::vec::Vec;

    /// A generator that is good enough to draw times.
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn exponential(&mut self, mean: f64) -> f64 {
            -mean * logarithm(1.0 - self.uniform())
        }
    }

    fn logarithm(x: f64) -> f64 {
        std::primitive::f64::ln(x)
    }

    /// The source after `arrivals` whose handling takes 1 ms, and now and then 4 ms more; `next` says when the next one comes after that.
    fn source(kind: Kind, arrivals: usize, next: impl Fn(&mut Random, f64) -> f64) -> Source {
        let source = Source::default();
        source.name.store(kind as u32, Relaxed);
        let mut random = Random(88_172_645_463_325_252);
        for _ in 0..arrivals {
            let held = if random.uniform() < 0.06 { 4e6 } else { 0.0 };
            let gap = next(&mut random, held + 1e6);
            source.learn(gap as u64, held as u64);
        }
        source
    }

    #[test]
    fn loops_are_told_apart() {
        let closed = source(Kind::Accepted, 1500, |random, took| took + random.exponential(3e6));
        assert_eq!(closed.judge(), Clock::Closed, "{:?}", closed.slope());
        let poisson = source(Kind::Accepted, 1500, |random, _| random.exponential(4e6));
        assert_eq!(poisson.judge(), Clock::Open, "{:?}", poisson.slope());
        let regular = source(Kind::Accepted, 1500, |_, _| 4e6);
        assert_eq!(regular.judge(), Clock::Open, "{:?}", regular.slope());
        let without = source(Kind::Accepted, 1500, |_, took| took + 5_000.0);
        assert_eq!(without.judge(), Clock::Closed, "{:?}", without.slope());
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let few = source(Kind::Accepted, 20, |random, took| took + random.exponential(3e6));
        assert_eq!(few.judge(), Clock::Undecided);
        let noisy = source(Kind::Accepted, 200, |random, took| took + random.exponential(300e6));
        assert_eq!(noisy.judge(), Clock::Undecided, "{:?}", noisy.slope());
        // Four clients with a connection for each request: a fourth of them waits for this answer.
        let many = source(Kind::Listener, 3000, |random, took| took / 4.0 + random.exponential(3e6));
        assert_eq!(many.judge(), Clock::Undecided, "{:?}", many.slope());
    }

    #[test]
    fn the_clock_is_hardly_ever_wrong() {
        let mut clocks = Vec::new();
        for seed in 1..200_u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let source = Source::default();
            source.name.store(Kind::Accepted as u32, Relaxed);
            let is_closed = seed % 2 == 0;
            for _ in 0..400 {
                let held = if random.uniform() < 0.06 { 2e6 } else { 0.0 };
                let gap = random.exponential(4e6) + if is_closed { held + 1e6 } else { 0.0 };
                source.learn(gap as u64, held as u64);
            }
            let wrong = if is_closed { Clock::Open } else { Clock::Closed };
            clocks.push(source.judge() == wrong);
        }
        assert!(clocks.iter().filter(|wrong| **wrong).count() <= 2);
    }

    #[test]
    fn a_slope_above_one_is_no_closed_loop_unless_fewer_come_in_all() {
        let queue = source(Kind::Accepted, 1500, |random, took| 6.0 * took + random.exponential(3e6));
        assert_eq!(queue.judge(), Clock::Undecided, "{:?}", queue.slope());
        // Many clients of one thread: what is held up holds up the others as well.
        queue.set_in_all(Clock::Closed);
        assert_eq!(queue.judge(), Clock::Closed);
    }

    /// A source with connections in a closed loop (true) or an open one, whose arrivals come `weight` times as often as those of others.
    fn mixed(connections: &[(bool, usize)], rounds: usize, seed: u64) -> (Source, Vec<Connection>) {
        let source = Source::default();
        source.name.store(Kind::Accepted as u32, Relaxed);
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let known: Vec<_> = connections.iter().map(|_| Connection::default()).collect();
        for _ in 0..rounds {
            for (connection, &(is_closed, weight)) in known.iter().zip(connections) {
                for _ in 0..weight {
                    let held = if random.uniform() < 0.1 { 4e6 } else { 0.0 };
                    let gap = random.exponential(4e6) + if is_closed { held + 1e6 } else { 0.0 };
                    source.learn_of(connection, gap as u64, held as u64);
                }
            }
        }
        source.judge();
        (source, known)
    }

    #[test]
    fn connections_of_one_port_may_have_different_clocks() {
        let (source, known) = mixed(&[(true, 8), (false, 1), (false, 1), (false, 1)], 3000, 3);
        assert!(source.is_mixed());
        assert_eq!(source.clock(), Clock::Undecided);
        let clocks: Vec<_> = known.iter().map(|one| source.clock_of(one)).collect();
        assert_eq!(clocks, [Clock::Closed, Clock::Open, Clock::Open, Clock::Open]);
        // One that is not known by itself is not taken for what most of them are.
        assert_eq!(source.clock_of(&Connection::default()), Clock::Undecided);
        source.forget(&known[0]);
        assert_eq!(source.clock_of(&known[0]), Clock::Undecided);
    }

    #[test]
    fn few_arrivals_of_each_of_many_connections_are_pooled() {
        let mut wrong = 0;
        for seed in 1..100 {
            let is_closed = seed % 2 == 0;
            let (source, known) = mixed(&[(is_closed, 1); 64], 40, seed);
            let wanted = if is_closed { Clock::Closed } else { Clock::Open };
            wrong += u32::from(source.is_mixed() || known.iter().any(|one| source.clock_of(one) != wanted));
        }
        assert!(wrong <= 2, "{wrong}");
    }

    #[test]
    fn a_pool_of_connections_is_no_closed_loop() {
        let (source, known) = mixed(&[(true, 1); 8], 400, 5);
        assert_eq!(source.clock(), Clock::Closed);
        // They were held up as long as arrivals are apart.
        (0..300).for_each(|_| source.hold(Nanos(4_000_000), 5_000_000));
        assert_eq!(source.judge(), Clock::Undecided, "it may be a pool");
        assert_eq!(source.clock_of(&known[0]), Clock::Undecided);
        source.set_in_all(Clock::Closed);
        assert_eq!((source.judge(), source.clock_of(&known[0])), (Clock::Closed, Clock::Closed));
        source.set_in_all(Clock::Open);
        assert_eq!(source.judge(), Clock::Undecided, "the slope says otherwise");
        let (one, _) = mixed(&[(true, 1)], 1500, 5);
        (0..300).for_each(|_| one.hold(Nanos(4_000_000), 5_000_000));
        assert_eq!(one.judge(), Clock::Closed, "a single connection");
    }

    #[test]
    fn what_the_user_says_of_clients_holds_until_something_contradicts_it() {
        let closed = |random: &mut Random, took: f64| took + random.exponential(3e6);
        let few = source(Kind::Accepted, 20, closed);
        few.say(Clock::Open);
        assert_eq!((few.judge(), few.is_said()), (Clock::Open, true), "too few to tell");
        assert!(!few.contradicts());
        let many = source(Kind::Accepted, 3000, closed);
        many.say(Clock::Open);
        assert_eq!((many.judge(), many.is_said()), (Clock::Closed, false));
        assert!(many.contradicts());
        many.say(Clock::Closed);
        assert!(!many.contradicts());
        let (both, _) = mixed(&[(true, 8), (false, 1), (false, 1), (false, 1)], 3000, 3);
        both.say(Clock::Closed);
        assert_eq!((both.judge(), both.is_said()), (Clock::Undecided, false));
        assert!(both.contradicts());
    }

    #[test]
    fn what_is_said_of_clients_says_nothing_of_what_the_program_asks_itself() {
        // SAFETY: a table of atomics is valid when all bytes are zero.
        let all = unsafe { std::boxed::Box::<Arrivals>::new_zeroed().assume_init() };
        all.said.store(Clock::Closed as u32, Relaxed);
        let clock = |kind| all.at(all.place(kind, 80)).judge();
        let (clients, others) =
            ([Kind::Accepted, Kind::Listener, Kind::Datagrams], [Kind::Connected, Kind::Pipe]);
        assert_eq!(clients.map(clock), [Clock::Closed; 3]);
        assert_eq!(others.map(clock), [Clock::Undecided; 2]);
    }

    #[test]
    fn the_number_of_arrivals_decides_where_slopes_do_not() {
        let source = source(Kind::Accepted, 300, |random, took| 0.5 * took + random.exponential(30e6));
        assert_eq!(source.judge(), Clock::Undecided);
        source.set_in_all(Clock::Open);
        assert_eq!(source.judge(), Clock::Open);
        (0..100).for_each(|_| source.see(true));
        assert_eq!(source.judge(), Clock::Undecided, "a client may have several under way");
        let datagrams = Source::default();
        datagrams.name.store(Kind::Datagrams as u32, Relaxed);
        datagrams.set_in_all(Clock::Open);
        assert_eq!(datagrams.judge(), Clock::Undecided, "of how many clients is not known");
    }

    #[test]
    fn what_a_closed_loop_would_lose_is_counted() {
        let source = Source::default();
        source.count(1, Nanos(2_000_000), 8_000_000);
        source.count(3, Nanos(0), 8_000_000);
        source.count(1, Nanos(5_000_000), 0);
        assert_eq!((source.came.load(Relaxed), source.would_lose.load(Relaxed)), (5, ARRIVAL / 4));
    }

    #[test]
    fn a_pipe_has_a_clock_of_its_own_if_it_is_found_ready() {
        let source = |arrivals, ready| {
            let source = Source::default();
            source.name.store(Kind::Pipe as u32, Relaxed);
            source.arrivals.store(arrivals, Relaxed);
            source.ready.store(ready, Relaxed);
            source.judge()
        };
        assert_eq!(source(1000, 300), Clock::Open);
        assert_eq!(source(1000, 990), Clock::Undecided, "it may be full");
        assert_eq!(source(1000, 1), Clock::Closed);
        assert_eq!(source(100, 50), Clock::Undecided);
    }

    #[test]
    fn arrivals_that_do_not_wait_for_answers_are_seen() {
        let source = Source::default();
        assert!(!source.is_followed());
        (0..1000).for_each(|nth| source.see(nth % 100 == 0));
        assert!(!source.is_followed());
        (0..1000).for_each(|nth| source.see(nth % 10 == 0));
        assert!(source.is_followed());
        (0..400_000).for_each(|_| source.see(false));
        assert!(!source.is_followed());
    }

    #[test]
    fn sources_keep_their_places() {
        // SAFETY: a table of atomics is valid when all bytes are zero.
        let arrivals = unsafe { std::boxed::Box::<Arrivals>::new_zeroed().assume_init() };
        let places: Vec<u32> = (0..40).map(|port| arrivals.place(Kind::Accepted, port)).collect();
        let again: Vec<u32> = (0..40).map(|port| arrivals.place(Kind::Accepted, port)).collect();
        assert_eq!(places, again);
        let mut distinct = places;
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 40);
        assert_eq!(arrivals.used().count(), 40);
    }
}
