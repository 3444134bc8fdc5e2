//! Where the shared memory is mapped. Imports nothing else of the runtime, so that every file can import it.

use core::sync::atomic::{AtomicPtr, Ordering};
use wire::SharedMemory;

static SHARED: AtomicPtr<SharedMemory> = AtomicPtr::new(core::ptr::null_mut());

/// The shared memory. Only for callers that hold a slot, which lies in it.
#[inline]
pub fn shared() -> &'static SharedMemory {
    // SAFETY: a slot can only have come out of the mapping, which is never undone.
    unsafe { &*SHARED.load(Ordering::Relaxed) }
}

/// The shared memory, if the program is profiled.
#[inline]
pub fn attached() -> Option<&'static SharedMemory> {
    // SAFETY: either null or the mapping, which is never undone.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// Says where it is mapped, once. Called by [`attach`](crate::attach) only.
pub fn set(memory: &'static SharedMemory) {
    SHARED.store(core::ptr::from_ref(memory).cast_mut(), Ordering::Release);
}
