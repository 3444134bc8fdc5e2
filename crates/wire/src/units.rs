//! Units as types, so that nanoseconds, addresses and fractions cannot be confused.

/// A duration or a point on the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The difference, or zero where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Of these, as many as `part` is of `whole`, which is at least as large; all where it is nothing.
    #[must_use]
    pub const fn part(self, part: Self, whole: Self) -> Self {
        match (self.0 as u128 * part.0 as u128).checked_div(whole.0 as u128) {
            Some(share) => Self(share as u64),
            None => self,
        }
    }
}

impl core::ops::Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl core::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An address in the profiled process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// A virtual speedup in millionths: 250 000 means that the code takes a quarter less time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speedup(pub u32);

impl Speedup {
    /// No speedup: the window is a baseline.
    pub const NONE: Self = Self(0);

    /// The delay that a sample worth `weight` asks of every other thread.
    #[must_use]
    pub const fn of(self, weight: Nanos) -> Nanos {
        // 64 bits hold 18 s × 10^6, and a sample stands for milliseconds.
        Nanos(weight.0.saturating_mul(self.0 as u64) / 1_000_000)
    }
}

/// Number of a window, counted from 1 over the whole session, the gaps between windows included.
/// Zero means that no window has begun. (A recording has it as `profile::Epoch`; an epoch of the collector is another thing, a span of time with one setting.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
