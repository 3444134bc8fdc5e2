//! What this command is built from, for `whatif --version`: the commit of the package or release, and the profile.
//! And it is linked without its debug information, which is seven times as large as all the rest. Not by the profile, which
//! programs that are profiled and the tests share: those need theirs.

/// Set, the command keeps its symbols and debug information: to profile it, or to put them into a file apart (`packaging/make`).
const KEEP: &str = "WHATIF_KEEP_DEBUG";

/// The commit that a release is made from.
const COMMIT: &str = "WHATIF_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={KEEP}");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let profile = std::env::var("PROFILE").expect("cargo sets this");
    let built_from = match commit_of_package().or_else(commit_of_release) {
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

/// As `packaging/make` says. In a checkout there is none: it would have to be looked up after every commit, and the command and its tests
/// be compiled again.
fn commit_of_release() -> Option<String> {
    std::env::var(COMMIT).ok().filter(|commit| !commit.is_empty())
}
