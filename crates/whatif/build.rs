//! What this command is built from, for `whatif --version`: the commit of the checkout or of the package, and the profile.
//! And it is linked without its debug information, which is seven times as large as all the rest. Not by the profile, which
//! programs that are profiled and the tests share: those need theirs.

use std::path::Path;
use std::process::Command;

/// Set, the command keeps its symbols and debug information: to profile it, or to put them into a file apart (`packaging/make`).
const KEEP: &str = "WHATIF_KEEP_DEBUG";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={KEEP}");
    let profile = std::env::var("PROFILE").expect("cargo sets this");
    let built_from = match commit_of_package().or_else(commit_of_checkout) {
        Some(commit) => format!("{}, {profile}", commit.get(..10).unwrap_or(&commit)),
        None => profile.clone(),
    };
    println!("cargo::rustc-env=WHATIF_BUILT_FROM={built_from}");
    if profile == "release" && std::env::var_os(KEEP).is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}

/// As cargo has noted it in a package.
fn commit_of_package() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The commit that is checked out. Changes that are not committed yet are not told, because only a commit starts this again.
fn commit_of_checkout() -> Option<String> {
    // Not a repository that somebody has unpacked the sources in.
    if !Path::new("../../.git").exists() {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
    };
    // Every commit, checkout and reset adds a line to it. A file that is not there would start this again every time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}
