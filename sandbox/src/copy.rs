//! Making files that are executed afterwards.
//!
//! A file that any process has open for writing cannot be executed (`ETXTBSY`). A child that another test forks between the opening and
//! the closing of such a file inherits the descriptor and keeps it until its `exec`. So this process opens none of them: a `cp`, which
//! forks nothing, does.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Copies a program with its permissions, so that it can be executed at once, whatever other threads do.
#[track_caller]
pub fn copy_to(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-p").arg("--").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} cannot be copied to {}", from.display(), to.display());
}

/// Writes a script that can be executed at once, whatever other threads do.
#[track_caller]
pub fn write_script(to: &Path, text: &str) {
    let written = to.with_extension("text");
    assert_ne!(written, to, "the text has a file of its own");
    std::fs::write(&written, text).unwrap();
    std::fs::set_permissions(&written, std::fs::Permissions::from_mode(0o755)).unwrap();
    copy_to(&written, to);
    std::fs::remove_file(written).unwrap();
}
