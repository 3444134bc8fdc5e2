//! What the tests share: all of the crate `sandbox`.

pub use sandbox::*;

/// To be removed: a test judges the code and not the machine, so none needs it alone.
pub fn alone() -> Option<()> {
    None
}
