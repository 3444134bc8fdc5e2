//! What the tests share: all of the crate `sandbox`.

pub use sandbox::*;
