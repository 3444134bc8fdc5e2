//! The collector of continuous profiles: shares, losses, waits, names.

use crate::accept::check::Check;

/// The checks.
pub const CHECKS: &[Check] = &[];
