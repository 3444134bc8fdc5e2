//! What recordings and profile databases have in common: one layout of SQLite tables, errors in plain words, units, and names that are safe to print.
//!
//! **Does:** create, upgrade and inspect a file ([`schema`]), open one that is only read ([`open_read_only`]), say what is wrong with it ([`Error`]).
//!
//! **Does not:** know what rows mean: that is `profile` (experiments) and `archive` (continuous profiles), which do not know each other.
//!
//! **Constraints:** no unsafe code; a file of an older layout is read, and brought up to this one before anything is added to it.
//!
//! **Place:** below both sentences: … → **record** → profile → report, and … → **store** → query → report.
#![forbid(unsafe_code)]

mod beside;
mod connect;
mod date;
mod error;
pub mod journal;
mod lock;
mod printable;
mod regular;
pub mod schema;
mod units;

pub use beside::{BESIDE, INDEX, JOURNAL, LOG, beside};
pub use connect::{Opened, open_read_only};
pub use error::Error;
pub use lock::{Lock, Unlocked};
pub use printable::printable;
pub use regular::{open_regular, read_regular};
pub use units::{Nanos, UnixSeconds};

/// Declares the key of a table.
#[macro_export]
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// The row with this key.
            pub const fn new(key: i64) -> Self {
                Self(key)
            }

            /// The key.
            pub const fn get(self) -> i64 {
                self.0
            }
        }
    };
}

/// An unsigned number as SQLite keeps it. Beyond 2⁶³ (292 years of nanoseconds) it stays at the top.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A span as SQLite keeps it.
pub fn ns(span: Nanos) -> i64 {
    integer(span.get())
}
