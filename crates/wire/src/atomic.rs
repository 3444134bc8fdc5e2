//! The atomics of this crate: those of `core`, except under `--cfg loom`, where `tests/loom.rs` tries every
//! order in which threads can use them. Only that test sets it.

#[cfg(not(loom))]
pub(crate) use core::{hint::spin_loop, sync::atomic::*};

#[cfg(loom)]
pub(crate) use loom::{hint::spin_loop, sync::atomic::*};

/// How long a table is; loom cannot try as many orders as a table of full length would have.
pub(crate) const fn length(full: usize, under_loom: usize) -> usize {
    if cfg!(loom) { under_loom } else { full }
}
