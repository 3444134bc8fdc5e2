//! The audit of a region: did the rules of virtual time do what they should have done?
//!
//! **Does:** compare what the runtime credited with what samples, context switches and the kernel's accounts of threads say, over
//! all windows of a region, and give the reason for not trusting its numbers where the two disagree. **Does not:** estimate, or use
//! anything that an estimate uses. **Place:** sample → delay → experiment → record → **profile** → report.
//!
//! # What has to hold
//!
//! * *Credit.* In each treated window, speedup × CPU time of the region = credit given + credit withheld. The controller finds
//!   out by itself which samples belong to the region. Each withholding has a reason; where one that is a guess (spinning) takes
//!   much of the credit, the guess is doubted.
//! * *Something is owed.* A region that runs and for which nothing was credited was not tested.
//! * *Every thread is profiled.* CPU time of threads that the runtime does not know is missing from everything.
//! * *Waits are announced.* A thread is off its CPU in a call that the runtime stands in front of, in a pause, or in a wait that
//!   context switches tell of as one on another thread. Where the kernel says that threads were blocked for much longer, there
//!   is a way of waiting that the rules do not know.
//! * *Waits are credited.* For waits that other threads ended, threads are credited with what the required delay grew meanwhile, and
//!   for other waits with nothing.
//!
//! A window's sums differ from these identities by the samples at its ends, at most about one period for each thread that runs: what
//! is tolerated is a share and a number of periods. (Where a timer samples threads its tick is the period: [`Window::between_samples`].)

use std::fmt;

use crate::model::{Audit, RegionId, Window};
use crate::units::Nanos;

/// Credit may differ from what it should be by this share.
const CREDIT: f64 = 0.12;
/// This share of the credit may be withheld because threads seemed to spin.
const SPINNING: f64 = 0.25;
/// This share of the credit may be withheld because the code was not known yet.
const UNKNOWN_CODE: f64 = 0.15;
/// The share of the program's CPU time that threads may have that are not profiled.
const UNPROFILED: f64 = 0.1;
/// The share of their time that threads may be blocked in ways that nothing announces.
const UNEXPLAINED: f64 = 0.04;
/// Credit for waits may differ from what it should be by this share of it.
const WAITS: f64 = 0.25;
/// Credit for waits may also differ by this share of the delay that was required of all threads: a program that hardly waits has nothing to compare.
const WAITS_MATTER: f64 = 0.05;
/// Samples that may fall on the other side of a window's ends, for each thread that runs.
const AT_ENDS: f64 = 1.5;

/// What an audit came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Audited {
    /// The windows behind it: treated ones of the region that were audited.
    pub windows: usize,
    /// Delay that should have been credited: speedup × CPU time of the region's samples.
    pub expected: f64,
    /// Delay that was withheld, by reason.
    pub withheld: Withheld,
    /// The sums over all of these windows.
    pub sums: Audit,
    /// Delay that was required of all threads together.
    pub owed: Nanos,
    /// How far credit may be off without doubt, as delay in nanoseconds.
    pub tolerance: f64,
    /// Why the numbers of the region are not to be trusted, the gravest reason first; empty if they are.
    pub doubts: Vec<Doubt>,
}

/// Delay that was not credited although samples were in the region, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Withheld {
    /// Its threads seemed to wait by spinning.
    pub spinning: f64,
    /// Samples came after the deadline.
    pub late: f64,
    /// The code was not known yet.
    pub unknown_code: f64,
    /// Threads were in the middle of a call, and got it later.
    pub deferred: f64,
    /// What was given for samples outside the region, taken off.
    pub extra: f64,
}

impl Withheld {
    fn sum(&self) -> f64 {
        self.spinning + self.late + self.unknown_code + self.deferred - self.extra
    }
}

/// Why a region's numbers are not to be trusted. Shares are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The region ran, and no delay was credited for it.
    NothingOwed,
    /// The share of the credit that is missing (or, if negative, too much).
    Credit(f64),
    /// The share of the region's time that was taken for spinning.
    Spinning(f64),
    /// The share of the region's time that was in code that the runtime did not know yet.
    UnknownCode(f64),
    /// The share of the program's CPU time that was used by threads that are not profiled.
    Unprofiled(f64),
    /// The share of their time for which threads were blocked in ways that nothing announces.
    Unexplained(f64),
    /// Threads were credited with this share of what they should have been credited with for waiting.
    Waits(f64),
}

impl fmt::Display for Doubt {
    /// The reason, as a clause that can follow "not trusted: ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        match *self {
            Doubt::NothingOwed => {
                write!(f, "it ran in its experiments, but no other thread was delayed for it")
            }
            Doubt::Credit(missing) if missing < 0.0 => {
                write!(
                    f,
                    "whatif's bookkeeping for it does not add up ({} too much delay)",
                    percent(-missing)
                )
            }
            Doubt::Credit(missing) => {
                write!(
                    f,
                    "whatif's bookkeeping for it does not add up ({} of its delay is missing)",
                    percent(missing)
                )
            }
            Doubt::Spinning(share) => {
                write!(f, "for {} of its time its threads seemed to wait by spinning", percent(share))
            }
            Doubt::UnknownCode(share) => {
                write!(f, "{} of its time was in code that became known too late", percent(share))
            }
            Doubt::Unprofiled(share) => {
                write!(f, "threads that cannot be profiled used {} of the program's CPU time", percent(share))
            }
            Doubt::Unexplained(share) => write!(
                f,
                "threads were blocked for {} of their time in ways that whatif does not know",
                percent(share)
            ),
            Doubt::Waits(share) => write!(
                f,
                "whatif's bookkeeping for waits does not add up ({} of the delay that they should be credited)",
                percent(share)
            ),
        }
    }
}

impl Doubt {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Doubt::NothingOwed => "nothing-owed",
            Doubt::Credit(_) => "credit",
            Doubt::Spinning(_) => "spinning",
            Doubt::UnknownCode(_) => "unknown-code",
            Doubt::Unprofiled(_) => "unprofiled-threads",
            Doubt::Unexplained(_) => "unexplained-waits",
            Doubt::Waits(_) => "credit-for-waits",
        }
    }

    /// What can be done about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Doubt::NothingOwed => "profile longer; if it stays so, ignore this row",
            Doubt::Credit(_) | Doubt::Waits(_) => "ignore this row, and please report it with the recording",
            Doubt::Spinning(_) => {
                "name a region that does the work (--region), or let threads wait in a function such as pthread_mutex_lock"
            }
            Doubt::UnknownCode(_) => "profile longer, or name the region with --region",
            Doubt::Unprofiled(_) => {
                "start threads with pthread_create, or profile the program that starts them"
            }
            Doubt::Unexplained(_) => {
                "see which system call the threads wait in with: strace -f -c -w; waits through io_uring and raw system calls are not known"
            }
        }
    }
}

impl Audited {
    /// Whether nothing speaks against the numbers.
    pub fn is_trusted(&self) -> bool {
        self.doubts.is_empty()
    }

    /// The gravest doubt, if there is one.
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubts.first().copied()
    }
}

/// Audits `region` by its windows. `period`: the CPU time between two samples. `None` where no treated window was audited (an
/// earlier version, a profile of another tool).
pub(crate) fn of<'a>(
    windows: impl Iterator<Item = &'a Window>,
    region: RegionId,
    period: Nanos,
) -> Option<Audited> {
    let mut audited = Audited {
        windows: 0,
        expected: 0.0,
        withheld: Withheld::default(),
        sums: Audit::default(),
        owed: Nanos::ZERO,
        tolerance: 0.0,
        doubts: Vec::new(),
    };
    let (mut ran, mut ends, mut most) = (0.0, 0.0, 0.0_f64);
    for window in windows.filter(|window| window.region == region && !window.speedup.is_zero()) {
        let Some(audit) = window.audit else { continue };
        let speedup = window.speedup.fraction();
        let delay = |weight: Nanos| speedup * weight.get() as f64;
        audited.windows += 1;
        audited.expected += delay(window.region_weight);
        let withheld = &mut audited.withheld;
        withheld.spinning += delay(audit.spinning);
        withheld.late += delay(audit.late);
        withheld.unknown_code += delay(audit.unknown_code);
        withheld.deferred += audit.deferred.get() as f64;
        withheld.extra += delay(audit.extra);
        ran += window.region_weight.get() as f64;
        let elapsed = window.elapsed.get().max(1) as f64;
        let threads = (audit.watched.get() as f64 / elapsed).max(1.0);
        let between = window.between_samples(period).get() as f64;
        most = most.max(between);
        ends += threads * (speedup * AT_ENDS * between).powi(2);
        audited.owed += Nanos::new((window.required.get() as f64 * threads) as u64);
        let (sums, more) = (audited.sums.amounts(), audit.amounts());
        audited.sums = Audit::of_amounts(std::array::from_fn(|nth| sums[nth] + more[nth]));
    }
    if audited.windows == 0 {
        return None;
    }
    audited.tolerance = CREDIT * audited.expected + 3.0 * ends.sqrt();
    audited.doubts = doubts(&audited, ran, 5.0 * most);
    Some(audited)
}

/// `ran`: the CPU time of the region; `little`: what says nothing.
fn doubts(audited: &Audited, ran: f64, little: f64) -> Vec<Doubt> {
    let Audited { expected, withheld, sums, tolerance, .. } = audited;
    let part = |some: f64, all: f64| if all > 0.0 { some / all } else { 0.0 };
    let ns = |amount: Nanos| amount.get() as f64;
    let mut doubts = Vec::new();
    let missing = expected - ns(sums.given) - withheld.sum();
    if ran > little && sums.given == Nanos::ZERO {
        doubts.push(Doubt::NothingOwed);
    }
    if withheld.spinning > SPINNING * expected + little {
        doubts.push(Doubt::Spinning(part(withheld.spinning, *expected)));
    }
    if withheld.unknown_code > UNKNOWN_CODE * expected + little {
        doubts.push(Doubt::UnknownCode(part(withheld.unknown_code, *expected)));
    }
    if missing.abs() > *tolerance {
        doubts.push(Doubt::Credit(part(missing, *expected)));
    }
    let unprofiled = part(ns(sums.unprofiled), ns(sums.cpu) + ns(sums.unprofiled));
    if unprofiled > UNPROFILED {
        doubts.push(Doubt::Unprofiled(unprofiled));
    }
    let (inherited, grown) = (ns(sums.inherited), ns(sums.grown));
    if (inherited - grown).abs() > WAITS * inherited.max(grown) + WAITS_MATTER * ns(audited.owed) + little {
        doubts.push(Doubt::Waits(if grown > 0.0 { inherited / grown } else { f64::INFINITY }));
    }
    let unexplained = part(ns(sums.unexplained), ns(sums.watched));
    if unexplained > UNEXPLAINED {
        doubts.push(Doubt::Unexplained(unexplained));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::units::Speedup;

    const PERIOD: Nanos = Nanos::from_millis(1);

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// Ten windows at 50 % in which the region has half of 100 ms of two threads.
    fn windows(change: impl Fn(&mut Audit)) -> Vec<Window> {
        let treated = |block| {
            let mut audit = Audit {
                given: ms(25),
                cpu: ms(120),
                watched: ms(200),
                blocked: ms(60),
                in_waits: ms(65),
                inherited: ms(12),
                grown: ms(12),
                ..Audit::default()
            };
            change(&mut audit);
            Window {
                elapsed: ms(100),
                required: ms(25),
                region_weight: ms(50),
                audit: Some(audit),
                ..window(block, 1, Speedup::from_percent(50).unwrap())
            }
        };
        (0..10).map(treated).collect()
    }

    fn judge(change: impl Fn(&mut Audit)) -> Vec<&'static str> {
        let windows = windows(change);
        let audited = of(windows.iter(), windows[0].region, PERIOD).unwrap();
        audited.doubts.iter().map(|doubt| doubt.name()).collect()
    }

    #[test]
    fn what_balances_is_trusted() {
        assert_eq!(judge(|_| ()), [""; 0]);
        // A little of everything is natural.
        assert_eq!(judge(|a| (a.given, a.spinning) = (ms(23), ms(3))), [""; 0]);
        assert_eq!(judge(|a| (a.unexplained, a.unprofiled) = (ms(6), ms(5))), [""; 0]);
        assert_eq!(judge(|a| a.inherited = ms(13)), [""; 0]);
    }

    #[test]
    fn each_way_of_not_balancing_is_named() {
        assert_eq!(judge(|a| a.given = ms(16)), ["credit"]);
        assert_eq!(judge(|a| a.given = ms(40)), ["credit"]);
        assert_eq!(judge(|a| a.given = Nanos::ZERO), ["nothing-owed", "credit"]);
        // Withheld for a reason, it balances; the reason is doubted.
        assert_eq!(judge(|a| (a.given, a.spinning) = (ms(10), ms(30))), ["spinning"]);
        assert_eq!(judge(|a| (a.given, a.unknown_code) = (ms(10), ms(30))), ["unknown-code"]);
        assert_eq!(judge(|a| a.unprofiled = ms(60)), ["unprofiled-threads"]);
        assert_eq!(judge(|a| a.unexplained = ms(50)), ["unexplained-waits"]);
        assert_eq!(judge(|a| a.inherited = Nanos::ZERO), ["credit-for-waits"]);
        assert_eq!(judge(|a| a.inherited = ms(40)), ["credit-for-waits"]);
    }

    #[test]
    fn without_audited_windows_there_is_no_audit() {
        let mut windows = windows(|_| ());
        assert!(of(windows.iter(), RegionId::new(77), PERIOD).is_none());
        windows.iter_mut().for_each(|window| window.audit = None);
        assert!(of(windows.iter(), windows[0].region, PERIOD).is_none());
    }
}
