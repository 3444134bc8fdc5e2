//! Where things are: what cargo has built, the programs, and the folder that tests write into.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static WHATIF: OnceLock<PathBuf> = OnceLock::new();

/// The `whatif` command that everything here runs: the one that [`use_whatif`] named, or the one that cargo has built beside this program.
pub fn whatif() -> &'static Path {
    WHATIF.get_or_init(|| profile().join("whatif"))
}

/// Names another `whatif` command, before anything has been run.
///
/// # Panics
///
/// When another one is in use.
pub fn use_whatif(path: &Path) {
    // Commands run in folders of their own.
    let path = std::path::absolute(path).expect("there is a current folder");
    assert_eq!(*WHATIF.get_or_init(|| path.clone()), path, "whatif is in use");
}

/// The folder that cargo builds into: that of this program, or the one above it (`deps`, `examples`).
pub fn profile() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let folder = program.parent().expect("this program is in a folder");
    let is_deeper = folder.ends_with("deps") || folder.ends_with("examples");
    if is_deeper { folder.parent().expect("deps is in a folder") } else { folder }.to_owned()
}

/// The folder for programs that are compiled and files that are written: `tmp` in cargo's target folder, or what the environment
/// variable `WHATIF_SANDBOX` names (another user cannot write to the former).
pub fn scratch() -> PathBuf {
    let folder = match std::env::var_os("WHATIF_SANDBOX") {
        Some(folder) => PathBuf::from(folder),
        None => profile().parent().expect("a profile is in a folder").join("tmp"),
    };
    std::fs::create_dir_all(&folder).expect("the folder for tests can be written to");
    folder
}

/// The root of this workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in the workspace").to_owned()
}

/// The folder of the small programs.
pub fn programs() -> PathBuf {
    workspace().join("crates/whatif/tests/programs")
}
