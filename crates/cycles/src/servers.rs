//! The servers that the user names in `DEBUGINFOD_URLS`, where a tool is told to ask them (`--debuginfod`).

use std::sync::Once;
use symbols::debuginfod::allow;

/// Names may be asked for from now on.
pub fn ask() {
    static ASKED: Once = Once::new();
    ASKED.call_once(ask_at_first);
}

fn ask_at_first() {
    if std::env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.to_string_lossy().trim().is_empty()) {
        kernel::say!(
            "whatif: --debuginfod has no servers to ask: name those of your distribution in DEBUGINFOD_URLS, such as \
             DEBUGINFOD_URLS=https://debuginfod.debian.net"
        );
        return;
    }
    allow(|_| true, |told| kernel::say!("whatif: {}", profile::printable(&told.to_string())));
}
