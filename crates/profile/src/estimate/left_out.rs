//! Windows that no estimate uses, and why: what is wrong with a window by itself, whatever it is paired with.

use crate::model::{Window, WindowFlags};
use crate::units::Nanos;

/// A window whose inserted delay exceeds its elapsed time by more than this share of it was booked
/// wrongly. (A region that is all of a program leaves no effective time at 100 %, give or take.)
const OVERDRAWN: f64 = 0.05;

/// Why a window is left out of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// Its books did not balance.
    Unbalanced,
    /// The program ended first.
    Cut,
    /// More delay was inserted than time passed.
    Overdrawn,
    /// Its block has no baseline that counts.
    Unpaired,
    /// The program's speed changed between it and its baseline, or may have.
    Straddling,
    /// It or its baseline took so much longer than the other that no noise explains it.
    Disturbed,
    /// It was made for a point that is visited more often, and is too short for this one.
    Short,
}

impl LeftOutReason {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            LeftOutReason::Unbalanced => "unbalanced",
            LeftOutReason::Cut => "cut",
            LeftOutReason::Overdrawn => "overdrawn",
            LeftOutReason::Unpaired => "unpaired",
            LeftOutReason::Straddling => "straddling",
            LeftOutReason::Disturbed => "disturbed",
            LeftOutReason::Short => "short",
        }
    }

    /// Why `window` cannot be used, whatever it is paired with.
    pub(crate) fn of(window: &Window) -> Option<LeftOutReason> {
        let elapsed = window.elapsed.get() as f64;
        let least = if window.speedup.is_zero() { f64::MIN_POSITIVE } else { -OVERDRAWN * elapsed };
        LeftOutReason::with_least(window, least)
    }

    /// The same, for one who needs at least so many nanoseconds of effective time.
    pub fn with_least(window: &Window, least: f64) -> Option<LeftOutReason> {
        if window.flags.has(WindowFlags::CUT) {
            Some(LeftOutReason::Cut)
        } else if window.flags.has(WindowFlags::UNBALANCED) {
            Some(LeftOutReason::Unbalanced)
        } else if window.elapsed == Nanos::ZERO || window.effective_ns() < least {
            Some(LeftOutReason::Overdrawn)
        } else {
            None
        }
    }
}

/// Windows that no estimate uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOutWindows {
    /// Their books did not balance.
    pub unbalanced: usize,
    /// The program ended first.
    pub cut: usize,
    /// More delay was inserted than time passed.
    pub overdrawn: usize,
    /// Their block has no baseline that counts.
    pub unpaired: usize,
}

impl LeftOutWindows {
    pub(super) fn count(&mut self, reason: LeftOutReason) {
        match reason {
            LeftOutReason::Unbalanced => self.unbalanced += 1,
            LeftOutReason::Cut => self.cut += 1,
            LeftOutReason::Overdrawn => self.overdrawn += 1,
            LeftOutReason::Unpaired => self.unpaired += 1,
            // Left out for one point, but not for others.
            LeftOutReason::Straddling | LeftOutReason::Disturbed | LeftOutReason::Short => {}
        }
    }
}
