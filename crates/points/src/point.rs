//! One progress point: a name, a kind, and the counter once it is known.

use core::ffi::CStr;

#[cfg(all(target_os = "linux", not(miri)))]
use crate::counter::Slot;

/// A progress point. The macros make one per call site; make one yourself, as a `static`, to visit
/// the same point from several places or to keep it in a table.
///
/// ```
/// use whatif::Point;
///
/// static FRAME: Point = Point::new(c"frame drawn");
///
/// FRAME.visit();
/// ```
#[derive(Debug)]
pub struct Point {
    name: &'static CStr,
    kind: Kind,
    #[cfg(all(target_os = "linux", not(miri)))]
    slot: Slot,
}

/// What a visit means. The numbers are the contract's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Kind {
    Throughput = 1,
    Begin = 2,
    End = 3,
}

impl Point {
    /// A throughput point: each visit completes one piece of work.
    #[must_use]
    pub const fn new(name: &'static CStr) -> Self {
        Self::with_kind(name, Kind::Throughput)
    }

    /// The beginning of a piece of work whose latency matters.
    #[must_use]
    pub const fn begin(name: &'static CStr) -> Self {
        Self::with_kind(name, Kind::Begin)
    }

    /// The end of a piece of work that a visit to [`Point::begin`] with the same name began.
    #[must_use]
    pub const fn end(name: &'static CStr) -> Self {
        Self::with_kind(name, Kind::End)
    }

    const fn with_kind(name: &'static CStr, kind: Kind) -> Self {
        Self {
            name,
            kind,
            #[cfg(all(target_os = "linux", not(miri)))]
            slot: Slot::new(),
        }
    }

    /// The name that reports show.
    #[must_use]
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// Counts one visit, if a profiler is watching.
    #[inline]
    pub fn visit(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if !self.slot.is_inactive() {
            self.slot.count(self.kind, self.name);
        }
    }

    /// The same for a begin or an end of work that `key` tells from all other work that is under way between the same two points.
    /// Percentiles of the latency are known then, whatever threads begin and end it.
    #[inline]
    pub fn visit_key(&self, key: u64) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if !self.slot.is_inactive() {
            self.slot.count_key(self.kind, self.name, key);
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = key;
    }
}

/// A piece of work in progress; it ends when this is dropped. Made by [`scope!`](crate::scope!).
#[derive(Debug)]
#[must_use = "the piece of work ends as soon as its scope is dropped"]
pub struct Scope {
    end: &'static Point,
}

impl Scope {
    /// Visits `begin` now, and `end` when the scope is dropped.
    #[inline]
    pub fn enter(begin: &Point, end: &'static Point) -> Self {
        begin.visit();
        Self { end }
    }
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        self.end.visit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_name_and_kind() {
        for (point, kind) in [
            (Point::new(c"x"), Kind::Throughput),
            (Point::begin(c"x"), Kind::Begin),
            (Point::end(c"x"), Kind::End),
        ] {
            assert_eq!(point.name(), c"x");
            assert_eq!(point.kind, kind);
        }
    }
}
