//! Attaching, letting go, and agents.

use crate::accept::check::Check;

/// The checks.
pub const CHECKS: &[Check] = &[];
