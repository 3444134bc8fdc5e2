//! Overhead: how far a program comes while it is profiled as in an experiment, and how far while it hardly is.

use crate::units::Nanos;

/// Two stretches of a run, one right after the other in either order, in both of which nothing was delayed: visits to the point that was visited most in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadPair {
    /// Which pair of the session, from 0.
    pub number: u32,
    /// Visits while threads were sampled, and credited between samples, as in an experiment without a speedup.
    pub profiled_visits: u64,
    /// For how long they were.
    pub profiled: Nanos,
    /// Visits while threads were hardly sampled, and not credited.
    pub seldom_visits: u64,
    /// For how long they were.
    pub seldom: Nanos,
}
