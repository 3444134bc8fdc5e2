//! What processes that are gone have left in the shared memory.

use std::sync::atomic::Ordering;

/// Gives back the slots of forked children that have ended or now execute another program.
pub fn collect(memory: &wire::SharedMemory) {
    let pid = memory.header.pid.load(Ordering::Relaxed);
    let image = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    for slot in memory.slots.used() {
        // In this order: a thread that takes the slot meanwhile writes its `tid` last.
        let thread = slot.tid.load(Ordering::Acquire);
        let owner = slot.pid.load(Ordering::Relaxed);
        if !slot.is_taken() || owner == pid || owner == 0 || thread == 0 {
            continue;
        }
        let gone = std::fs::read_link(format!("/proc/{owner}/exe")).ok() != image
            || !std::path::Path::new(&format!("/proc/{owner}/task/{thread}")).exists();
        if gone {
            memory.slots.give_back(slot);
        }
    }
}
