//! Hours: what is sent at once.

use archive::UnixSeconds;
use std::ops::Range;

/// Seconds of one.
const SECONDS: i64 = 3600;

/// An hour of UTC, counted from 1970. Local databases put time buckets together into hours when these become old, never into more, so that an hour of an epoch is the
/// same samples before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub i64);

impl Hour {
    /// The one that a moment is in.
    #[must_use]
    pub fn of(at: UnixSeconds) -> Hour {
        Hour(at.0.div_euclid(SECONDS))
    }

    /// When it begins.
    #[must_use]
    pub fn start(self) -> UnixSeconds {
        UnixSeconds(self.0 * SECONDS)
    }

    /// All of it.
    #[must_use]
    pub fn span(self) -> Range<UnixSeconds> {
        self.start()..Hour(self.0 + 1).start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_of_utc() {
        assert_eq!(Hour::of(UnixSeconds(3599)), Hour(0));
        assert_eq!(Hour::of(UnixSeconds(-1)), Hour(-1));
        assert_eq!(Hour(2).span(), UnixSeconds(7200)..UnixSeconds(10_800));
    }
}
