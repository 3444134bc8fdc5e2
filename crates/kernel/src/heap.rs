//! Our own memory.

/// Gives memory that was freed back to the kernel, which allocators keep otherwise: for after work that took a lot of it once.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) only touches free memory of the allocator, under its locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of a page.
#[must_use]
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}
