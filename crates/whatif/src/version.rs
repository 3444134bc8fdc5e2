//! Which `whatif` this is.

use std::sync::LazyLock;

/// The version, and what it was built from: `0.1.0 (3f2a9c1, release)`.
pub const BRIEF: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WHATIF_BUILT_FROM"), ")");

/// The same, and what it can be used with.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{BRIEF}\nprotocol {} between whatif and its runtime, build {:016x}\nrecordings and databases of layout {} and before",
            wire::PROTOCOL,
            controller::embedded::BUILD_ID,
            storage::schema::VERSION
        )
    });
    &LONG
}
