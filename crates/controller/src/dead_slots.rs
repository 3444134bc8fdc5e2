//! What processes that are gone have left in the shared memory.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;
use wire::slot::fingerprint;

/// Gives back the slots of children that have ended or now execute another program.
pub fn collect(memory: &wire::SharedMemory) {
    let pid = memory.header.pid.load(Ordering::Relaxed);
    let mut programs: HashMap<u32, Option<u64>> = HashMap::new();
    for slot in memory.slots.used() {
        // In this order: a thread that takes the slot meanwhile writes its `tid` last.
        let thread = slot.tid.load(Ordering::Acquire);
        let owner = slot.pid.load(Ordering::Relaxed);
        if !slot.is_taken() || owner == 0 || thread == 0 {
            continue;
        }
        let is_there = || std::path::Path::new(&format!("/proc/{owner}/task/{thread}")).exists();
        let program = slot.program.load(Ordering::Relaxed);
        let runs = *programs.entry(owner).or_insert_with(|| program_of(owner));
        // What cannot be seen may be the same.
        let runs_another = program != 0 && runs.is_some_and(|runs| runs != program);
        // The slots of the first program stay when it has ended.
        if runs_another || owner != pid && !is_there() {
            memory.slots.give_back_of(slot, thread);
        }
    }
}

/// A fingerprint of the program that a process runs, as far as that can be seen.
fn program_of(process: u32) -> Option<u64> {
    let file = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
    Some(fingerprint(file.ino(), file.size()))
}
