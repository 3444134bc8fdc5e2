//! Progress points: visits counted, places chosen.

use crate::accept::check::Check;

/// The checks.
pub const CHECKS: &[Check] = &[];
