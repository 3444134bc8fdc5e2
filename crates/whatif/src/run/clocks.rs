//! Which clock do arrivals from outside have? When it is worth while to find out.
//!
//! **Does:** decide when arrivals are to be held up for a while (a probe), and judge what came of it. **Does not:** hold them up (the runtime),
//! or say what the clock means for an answer (`profile`). **Constraints:** probes cost the program time, so there are none where nothing comes from outside,
//! where threads hardly wait for it, or where the clock is known; and later ones take a twentieth of the run at most.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use profile::Nanos;
use wire::SharedMemory;
use wire::arrivals::{Clock, Kind, Source};

/// How long a probe is.
pub const PROBE: Nanos = Nanos::from_millis(500);
/// How long the program may be probed at first,
const AT_FIRST: Duration = Duration::from_secs(6);
/// and which part of the run later, as a divisor.
const LATER: u32 = 20;
/// Where threads together wait for a smaller part of the time, as a divisor, it does not matter what for.
const LITTLE: u64 = 50;

/// Pipes are judged without probes.
fn is_pipe(source: &Source) -> bool {
    source.kind().is_none_or(|(kind, _)| kind == Kind::Pipe)
}

/// What is known of the clocks.
#[derive(Debug, Default)]
pub struct Clocks {
    probed: Duration,
    /// When it was last looked, and how long threads had waited for arrivals whose clock is not known.
    looked: Option<(Instant, u64)>,
    /// Whether that was worth a probe.
    wanted: bool,
    /// Sources whose clock is known.
    known: usize,
}

impl Clocks {
    /// Judges what is known by now, and says whether a probe is to be made, which is then counted. `elapsed`: the time since the beginning of the run.
    pub fn is_to_be_probed(&mut self, memory: &SharedMemory, elapsed: Duration) -> bool {
        let is_open = |source: &Source| source.judge() == Clock::Undecided && !is_pipe(source);
        // All are judged, whatever the first of them says.
        if memory.arrivals.used().filter(|source| is_open(source)).count() == 0 {
            return false;
        }
        self.look(memory);
        let budget = AT_FIRST.max(elapsed / LATER);
        let is_wanted = self.wanted && self.probed < budget;
        if is_wanted {
            self.probed += Duration::from_nanos(PROBE.get());
        }
        is_wanted
    }

    /// Whether it may turn out, when it is looked next, that a probe is to be made: what is measured now may be measured again then.
    pub fn may_probe(&self, memory: &SharedMemory) -> bool {
        memory.arrivals.used().any(|source| source.clock() == Clock::Undecided)
    }

    /// Whether the clock of a source has become known since this was asked last: what was measured before is in doubt, and has to be measured again.
    pub fn has_decided(&mut self, memory: &SharedMemory) -> bool {
        let known = memory.arrivals.used().filter(|source| source.clock() != Clock::Undecided).count();
        known > std::mem::replace(&mut self.known, known)
    }

    fn look(&mut self, memory: &SharedMemory) {
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
