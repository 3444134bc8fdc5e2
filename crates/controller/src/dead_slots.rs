//! What processes that are gone have left in the shared memory.

use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;
use wire::slot::fingerprint;

/// Gives back the slots of children that have ended or now execute another program.
pub fn collect(memory: &wire::SharedMemory) {
    let pid = memory.header.pid.load(Ordering::Relaxed);
    for slot in memory.slots.used() {
        // In this order: a thread that takes the slot meanwhile writes its `tid` last.
        let thread = slot.tid.load(Ordering::Acquire);
        let owner = slot.pid.load(Ordering::Relaxed);
        if !slot.is_taken() || owner == 0 || thread == 0 {
            continue;
        }
        let is_there = || std::path::Path::new(&format!("/proc/{owner}/task/{thread}")).exists();
        let runs_another = runs(owner, slot.program.load(Ordering::Relaxed)) == Some(false);
        // The slots of the first program stay when it has ended.
        if runs_another || owner != pid && !is_there() {
            memory.slots.give_back_of(slot, thread);
        }
    }
}

/// Whether a process runs the program with this fingerprint, as far as that can be seen.
fn runs(process: u32, program: u64) -> Option<bool> {
    let file = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
    (program != 0).then(|| fingerprint(file.ino(), file.size()) == program)
}
