//! Trees of processes: who is followed, credited and ended.

use crate::accept::check::Check;

/// The checks.
pub const CHECKS: &[Check] = &[];
