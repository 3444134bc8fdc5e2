//! The servers that the user names in `DEBUGINFOD_URLS`, where a tool is told to ask them (`--debuginfod`).

use std::path::Path;
use std::sync::Once;
use symbols::debuginfod::{Told, allow};

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
    allow(|_| true, told);
}

fn told(told: Told<'_>) {
    let name = |path: &Path| profile::printable(&path.display().to_string()).into_owned();
    match told {
        Told::Asks(path) => {
            kernel::say!(
                "whatif: asking the servers in DEBUGINFOD_URLS for the debug information of {}",
                name(path)
            );
        }
        Told::Nothing(path) => {
            kernel::say!("whatif: the servers in DEBUGINFOD_URLS have none for {}", name(path));
        }
        Told::Late(path) => kernel::say!(
            "whatif: the debug information of {} did not come in time; ask again, or get it with debuginfod-find",
            name(path)
        ),
        Told::NoClient => kernel::say!(
            "whatif: there is no debuginfod-find to ask with; install it (package debuginfod or elfutils-debuginfod-client)"
        ),
    }
}
