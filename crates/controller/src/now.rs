//! The present moment, in the unit of recordings.

use profile::Nanos;

/// On the monotonic clock.
pub fn monotonic() -> Nanos {
    Nanos::new(kernel::clock::monotonic().0)
}
