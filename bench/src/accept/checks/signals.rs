//! Signals, sandboxes, threads and corners of system calls under the profiler.

use crate::accept::check::Check;

/// The checks.
pub const CHECKS: &[Check] = &[];
