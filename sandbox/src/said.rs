//! What tests print besides passing and failing.

use std::io::Write as _;

/// Prints that a test was skipped, and why.
pub fn skip(why: &str) {
    print("skipped", why);
}

/// Prints what a test noticed that is no failure.
pub fn remark(what: &str) {
    print("noticed by", what);
}

fn print(kind: &str, text: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Not `eprintln!`, which the harness keeps to itself when a test passes.
    let _ = writeln!(std::io::stderr(), "{kind} {test}: {text}");
}
