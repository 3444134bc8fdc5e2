//! Random numbers of a thread, for the periods of its samples and the tosses of its probes.

use core::sync::atomic::Ordering::Relaxed;
use wire::slot::Slot;

/// Xorshift, whose state only this thread touches. Called from the signal handler.
pub fn draw(slot: &Slot) -> u64 {
    let mut state = slot.random.load(Relaxed);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    slot.random.store(state, Relaxed);
    state >> 11
}
