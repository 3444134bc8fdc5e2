//! The code map: which addresses the runtime may pass over when it looks for the first frame in scope.
//!
//! The controller learns lazily which functions are in scope, so the map grows while the program runs.
//! An address inside a candidate image that is not (yet) known to be outside the scope *stops* the
//! walk: a sample is never given to a caller because its real owner was still unknown.

use crate::Address;
use crate::experiment::{Range, contains};
use core::sync::atomic::{AtomicU32, Ordering};

/// Images that can hold code in scope.
pub const MAX_IMAGES: usize = 256;
/// Out-of-scope ranges inside those images. More are left out: their samples then stop at themselves.
pub const MAX_OUTSIDE: usize = 65_536;

/// One version of the map.
#[derive(Debug)]
#[repr(C)]
struct Version {
    image_count: AtomicU32,
    outside_count: AtomicU32,
    images: [Range; MAX_IMAGES],
    outside: [Range; MAX_OUTSIDE],
}

/// Two versions that take turns; `generation` publishes one (Release, pairs with the Acquire in
/// [`is_outside`](Self::is_outside)).
#[derive(Debug)]
#[repr(C)]
pub struct CodeMap {
    generation: AtomicU32,
    reserved: AtomicU32,
    versions: [Version; 2],
}

impl CodeMap {
    /// Publishes a new version. Both lists must be sorted and disjoint. Called by the controller only, and
    /// not more often than every few milliseconds (a reader needs microseconds).
    pub fn publish(
        &self,
        images: impl IntoIterator<Item = (Address, Address)>,
        outside: impl IntoIterator<Item = (Address, Address)>,
    ) {
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        let version = &self.versions[next as usize & 1];
        let mut count = 0;
        for ((start, end), range) in images.into_iter().zip(&version.images) {
            range.set(start, end);
            count += 1;
        }
        version.image_count.store(count, Ordering::Relaxed);
        count = 0;
        for ((start, end), range) in outside.into_iter().zip(&version.outside) {
            range.set(start, end);
            count += 1;
        }
        version.outside_count.store(count, Ordering::Relaxed);
        self.generation.store(next, Ordering::Release);
    }

    /// Whether `address` is known to be outside the scope. Called from the signal handler.
    pub fn is_outside(&self, address: Address) -> bool {
        let version = &self.versions[self.generation.load(Ordering::Acquire) as usize & 1];
        let images = version.image_count.load(Ordering::Relaxed) as usize;
        let outside = version.outside_count.load(Ordering::Relaxed) as usize;
        !contains(&version.images, images, address) || contains(&version.outside, outside, address)
    }
}
