//! Which clock do arrivals from outside have? When it is worth while to find out.
//!
//! **Does:** decide when arrivals are to be held up for a while (a probe), count what comes meanwhile, and have the clock decided after it (the last word is `wire::arrivals::Source::judge`'s). **Does not:** hold them up (the runtime),
//! or say what the clock means for an answer (`profile`). **Constraints:** probes cost the program time, so there are none where nothing comes from outside
//! or where threads hardly wait for it; later ones take a twentieth of the run at most, and a fiftieth once the clock is known: it may have changed, or
//! the connections may not be all of one kind.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use profile::estimate::of_ratio;
use profile::{ArrivalClock, ArrivalKind, Arrivals, Nanos};
use wire::SharedMemory;
use wire::arrivals::{ARRIVAL, Clock, Kind, Source};

/// How long a probe is.
pub const PROBE: Nanos = Nanos::from_millis(300);
/// How long the program may be probed before anything else.
const AT_ONCE: Duration = Duration::from_millis(1500);
/// Which part of the time since the start may be added to that, as a divisor.
const SOON: u32 = 3;
/// How long the program may be probed in all at first.
const AT_FIRST: Duration = Duration::from_secs(6);
/// Which part of a run that is to be short may be spent on probes at first, as a divisor.
const PART: u32 = 2;
/// Which part of the run may be spent on probes later, as a divisor.
const LATER: u32 = 20;
/// Which part of the run may be spent on probes where the clock is known, as a divisor.
const KNOWN: u32 = 50;
/// Where threads together wait for a smaller part of the time, as a divisor, it does not matter what for.
const LITTLE: u64 = 50;

/// What is known of all arrivals, as recordings have it.
pub fn known(arrivals: &wire::arrivals::Arrivals) -> impl Iterator<Item = Arrivals> {
    let count = arrivals.own.load(Relaxed);
    let own = Arrivals { kind: ArrivalKind::Own, port: 0, clock: ArrivalClock::Closed, slope: None, count };
    arrivals.used().filter_map(known_of).chain((count > 0).then_some(own))
}

fn known_of(source: &Source) -> Option<Arrivals> {
    let (kind, port) = source.kind()?;
    let kind = match kind {
        Kind::Accepted => ArrivalKind::Accepted,
        Kind::Connected => ArrivalKind::Connected,
        Kind::Datagrams => ArrivalKind::Datagrams,
        Kind::Pipe => ArrivalKind::Pipe,
        Kind::Listener => ArrivalKind::Listener,
    };
    let clock = match source.clock() {
        _ if source.is_mixed() => ArrivalClock::Mixed,
        Clock::Closed if source.is_said() => ArrivalClock::SaidClosed,
        Clock::Open if source.is_said() => ArrivalClock::SaidOpen,
        Clock::Undecided => ArrivalClock::Undecided,
        Clock::Closed => ArrivalClock::Closed,
        Clock::Open => ArrivalClock::Open,
    };
    let slope = source.slope();
    let count = slope.map_or_else(|| source.arrivals.load(Relaxed), |slope| slope.arrivals);
    Some(Arrivals {
        kind,
        port,
        clock,
        slope: slope.map(|slope| (slope.value, slope.variance.sqrt())),
        count,
    })
}

/// What came from each source, by its name, and what would not have come in a closed loop because of what was held up.
#[derive(Clone, Debug, Default)]
pub struct Came(HashMap<u32, (f64, f64)>);

impl Came {
    /// So far.
    pub fn all(memory: &SharedMemory) -> Self {
        let of = |source: &Source| {
            let [came, lost] = [&source.came, &source.would_lose].map(|sum| sum.load(Relaxed) as f64);
            (source.name.load(Relaxed), (came, lost / ARRIVAL as f64))
        };
        Self(memory.arrivals.used().map(of).collect())
    }

    /// Since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |(name, now): (&u32, &(f64, f64))| {
            let then = before.0.get(name).copied().unwrap_or_default();
            (*name, (now.0 - then.0, now.1 - then.1))
        };
        Self(self.0.iter().map(less).collect())
    }
}

/// Halves of probes, of one source: how many arrivals fewer there were while some were held up, and how many fewer there would have been in a closed loop.
#[derive(Clone, Debug, Default)]
struct Fewer(Vec<(f64, f64)>);

/// So many probes are enough for a verdict.
const ENOUGH: usize = 12;
/// No more probes than this are remembered: clocks may change.
const MOST: usize = 60;
/// The mean of probes must be so many standard errors away from what it is compared with.
const SURE: f64 = 3.5;
/// The share of what a closed loop would have lost, above which the loop is closed.
const CLOSED: f64 = 0.5;
/// The share below which the loop is open: connections of both kinds may share a port.
const OPEN: f64 = 0.25;

impl Fewer {
    /// By the share of what a closed loop would have lost.
    fn clock(&self) -> Clock {
        let expected: f64 = self.0.iter().map(|(_, expected)| expected).sum();
        if self.0.len() < ENOUGH || expected <= 0.0 {
            return Clock::Undecided;
        }
        let share = of_ratio(&self.0);
        match (share.value, SURE * share.se) {
            (share, error) if share - error > CLOSED => Clock::Closed,
            (share, error) if share + error < OPEN => Clock::Open,
            _ => Clock::Undecided,
        }
    }
}

/// Pipes are judged without probes.
fn is_pipe(source: &Source) -> bool {
    source.kind().is_none_or(|(kind, _)| kind == Kind::Pipe)
}

/// What is known of the clocks.
#[derive(Debug, Default)]
pub struct Clocks {
    /// How long the run is to be, if that is known.
    planned: Option<Duration>,
    /// For how long the program was probed to find clocks out.
    probed: Duration,
    /// For how long the program was probed to see whether clocks are still what they were.
    confirmed: Duration,
    /// When it was last looked, and how long threads had waited for arrivals whose clock is not known.
    looked: Option<(Instant, u64)>,
    /// Whether that was worth a probe.
    wanted: bool,
    /// What was known when it was asked last.
    known: u64,
    /// What probes have shown of the number of arrivals, by the names of sources.
    fewer: HashMap<u32, Fewer>,
    /// Whether the next probe begins with the half in which arrivals are held up.
    holds_first: bool,
}

impl Clocks {
    /// Nothing is known. `planned`: how long the run is to be.
    pub fn new(planned: Option<Duration>) -> Self {
        Self { planned, ..Self::default() }
    }

    /// Judges what is known by now, and says whether a probe is to be made, which is then counted. `elapsed`: the time since the beginning of the run.
    pub fn is_to_be_probed(&mut self, memory: &SharedMemory, elapsed: Duration) -> bool {
        for source in memory.arrivals.used() {
            let fewer = self.fewer.get(&source.name.load(Relaxed));
            source.set_in_all(fewer.map_or(Clock::Undecided, Fewer::clock));
        }
        // All are judged, whatever the first of them says.
        let clocks: Vec<Clock> = memory.arrivals.used().map(Source::judge).collect();
        if memory.arrivals.used().all(is_pipe) {
            return false;
        }
        self.refresh(memory);
        let is_known = clocks.iter().any(|clock| *clock != Clock::Undecided);
        let (made, budget) = if self.wanted {
            let at_first = self.planned.map_or(AT_FIRST, |planned| AT_FIRST.min(planned / PART));
            let soon = AT_ONCE + elapsed / SOON;
            (&mut self.probed, at_first.min(soon).max(elapsed / LATER))
        } else if is_known {
            (&mut self.confirmed, elapsed / KNOWN)
        } else {
            return false;
        };
        let is_wanted = *made < budget;
        if is_wanted {
            *made += Duration::from_nanos(PROBE.get());
        }
        is_wanted
    }

    /// Whether it may turn out, when it is looked next, that a probe is to be made: what is measured now may be measured again then.
    pub fn may_probe(&self, memory: &SharedMemory) -> bool {
        let is_open = |source: &Source| source.clock() == Clock::Undecided || source.is_said();
        memory.arrivals.used().any(|source| is_open(source) && !source.is_mixed() && !is_pipe(source))
    }

    /// Whether something has become known about the clocks since this was asked last: what was measured before is in doubt, and has to be measured again.
    pub fn has_decided(&mut self, memory: &SharedMemory) -> bool {
        let state = |source: &Source| source.clock() as u64 | u64::from(source.is_mixed()) << 2;
        let mix = |source: &Source| {
            (u64::from(source.name.load(Relaxed)) << 3 | state(source)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let known =
            memory.arrivals.used().filter(|source| state(source) != 0).map(mix).fold(0, u64::wrapping_add);
        known != std::mem::replace(&mut self.known, known)
    }

    /// Which half of the next probe is first: they take turns, so that a trend does not matter.
    pub fn holds_first(&mut self) -> bool {
        self.holds_first = !self.holds_first;
        self.holds_first
    }

    /// What came in the two halves of a probe: while nothing was held up, and while something was.
    pub fn compare(&mut self, (without, with): (&Came, &Came)) {
        for (name, (came, lost)) in &with.0 {
            let (before, waited) = without.0.get(name).copied().unwrap_or_default();
            if before + came > 0.0 {
                let fewer = &mut self.fewer.entry(*name).or_default().0;
                fewer.push((before - came, lost - waited));
                if fewer.len() > MOST {
                    fewer.remove(0);
                }
            }
        }
    }

    fn refresh(&mut self, memory: &SharedMemory) {
        let waited = memory.slots.used().iter().map(|slot| slot.books.doubtful.load(Relaxed)).sum();
        let now = Instant::now();
        let Some((then, before)) = self.looked else {
            self.looked = Some((now, waited));
            return;
        };
        let passed = now.duration_since(then);
        if passed.as_nanos() >= u128::from(PROBE.get()) / 2 {
            let since: u64 = u64::saturating_sub(waited, before);
            self.wanted = u128::from(since) * u128::from(LITTLE) > passed.as_nanos();
            self.looked = Some((now, waited));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock after `probes` in which so many arrivals come in each half, give or take; a share `lost` of what a closed loop would lose does not.
    fn after(probes: usize, arrivals: f64, lost: f64, random: &mut fastrand::Rng) -> Clock {
        let mut clocks = Clocks::default();
        for _ in 0..probes {
            let mut come = |mean: f64| {
                let noise: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                (mean + noise * mean.sqrt()).max(0.0)
            };
            let expected = 0.17 * arrivals;
            let without = Came(HashMap::from([(7, (come(arrivals), 0.0))]));
            let with = Came(HashMap::from([(7, (come(arrivals - lost * expected), expected))]));
            clocks.compare((&without, &with));
        }
        clocks.fewer[&7].clock()
    }

    #[test]
    fn a_closed_loop_brings_fewer_arrivals_while_some_are_held_up() {
        let mut random = fastrand::Rng::with_seed(7);
        assert_eq!(after(20, 1000.0, 1.0, &mut random), Clock::Closed);
        assert_eq!(after(20, 1000.0, 0.0, &mut random), Clock::Open);
        assert_eq!(after(20, 1000.0, 0.5, &mut random), Clock::Undecided, "some of both");
        assert_eq!(after(20, 10.0, 0.0, &mut random), Clock::Undecided, "too few");
        assert_eq!(after(ENOUGH - 1, 1e6, 0.0, &mut random), Clock::Undecided);
        let wrong = (0..200).filter(|_| after(ENOUGH, 600.0, 1.0, &mut random) == Clock::Open).count();
        assert!(wrong <= 1, "{wrong}");
    }
}
