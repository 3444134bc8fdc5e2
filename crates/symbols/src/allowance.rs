//! How much of an image's debug information is worth reading.
//!
//! A small file can describe endless work: units without number that all refer to one long table, entries of one byte with
//! thousands of attributes, a range list that each function has. What is sound takes a few steps and a few bytes of memory for each
//! byte of its debug information, so an image gets some of both to begin with, and more by its size. Steps are counted, and not
//! timed, so that the answer is the same on a busy machine. A question of which nothing is kept has an allowance of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Steps that an image may take whatever its size: about a second.
const STEPS: u64 = 64 << 20;
/// Bytes that may be kept of it.
const BYTES: u64 = 48 << 20;
/// The same for each byte of its debug information.
const STEPS_PER_BYTE: u64 = 4;
const BYTES_PER_BYTE: u64 = 2;

/// No function, and no scope, is described by more attributes: compilers write thirty.
pub(crate) const MOST_ATTRIBUTES: usize = 64;
/// No table of abbreviations is longer: compilers write some ten kilobytes.
pub(crate) const LONGEST_ABBREVIATIONS: usize = 1 << 20;
/// No name and no path is longer.
pub(crate) const LONGEST_TEXT: usize = 64 << 10;

/// Steps that are taken from an allowance at a time, so that threads seldom meet at it.
pub(crate) const STEPS_AT_A_TIME: u64 = 1 << 8;

/// What is left for one image, or for one question. The counters guard no other memory.
#[derive(Debug)]
pub(crate) struct Allowance {
    steps: AtomicU64,
    bytes: AtomicU64,
    exceeded: AtomicBool,
}

impl Allowance {
    /// For an image with so many bytes of debug information.
    pub fn of_size(size: u64) -> Allowance {
        Allowance {
            steps: AtomicU64::new(size.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS)),
            bytes: AtomicU64::new(size.saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES)),
            exceeded: AtomicBool::new(false),
        }
    }

    /// Whether so much more may be done.
    #[must_use]
    pub fn steps(&self, steps: u64) -> bool {
        self.take(&self.steps, steps)
    }

    /// Whether so much more may be kept.
    #[must_use]
    pub fn bytes(&self, bytes: usize) -> bool {
        self.take(&self.bytes, bytes as u64)
    }

    /// So much is no longer kept.
    pub fn give_back(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether something was refused.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// Remembers that something was refused.
    pub fn exceed(&self) {
        self.exceeded.store(true, Ordering::Relaxed);
    }

    fn take(&self, left: &AtomicU64, amount: u64) -> bool {
        let taken =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount)).is_ok();
        if !taken {
            self.exceed();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_remembered() {
        let allowance = Allowance::of_size(10);
        assert!(allowance.steps(STEPS) && allowance.bytes(BYTES as usize));
        assert!(allowance.steps(10 * STEPS_PER_BYTE) && !allowance.is_exceeded());
        assert!(!allowance.steps(1) && allowance.is_exceeded());
        assert!(!allowance.bytes(21));
        allowance.give_back(1);
        assert!(allowance.bytes(21));
    }
}
