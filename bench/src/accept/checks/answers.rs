//! Answers: what is found, how sure it is, and how soon.

use crate::accept::check::Check;

/// The checks.
pub const CHECKS: &[Check] = &[];
