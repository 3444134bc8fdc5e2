//! What the tests share: all of the crate `sandbox`, and what needs a look at the kernel.

pub use sandbox::*;

/// Whether visits can be counted here.
pub fn can_count() -> bool {
    let tried = kernel::visits::cost(kernel::visits::Means::Breakpoint);
    if let Err(error) = &tried {
        skip(&format!("no breakpoints here: {error}"));
    }
    tried.is_ok()
}
