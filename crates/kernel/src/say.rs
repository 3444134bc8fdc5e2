//! Standard error. What cannot be said there (its disk is full, its reader is gone) is not worth ending for: `eprintln!` panics then,
//! and a program that is being profiled would lose its exit status, the collector its samples.

use std::io::Write as _;

/// Writes a text to standard error, at once, or not at all.
pub fn put(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// As `eprintln!`, but never panics.
#[macro_export]
macro_rules! say {
    ($($word:tt)*) => {
        $crate::say::put(&(format!($($word)*) + "\n"))
    };
}
