//! Compiling the programs.

use crate::table::{CORNERS, Program};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] = &["-std=gnu11", "-Wall", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The programs of this crate: C sources, and scripts.
pub fn own_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Where `common.h` is.
fn sources_of_tests() -> PathBuf {
    workspace().join("crates/whatif/tests/programs")
}

/// Compiles every program of the table into `folder`.
pub fn all(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let sources: BTreeSet<PathBuf> = CORNERS
        .iter()
        .filter_map(|corner| match corner.program {
            Program::Own(name) => Some(own_sources().join(name)),
            Program::Script(_) => None,
        })
        .map(|path| path.with_extension("c"))
        .collect();
    sources.iter().try_for_each(|source| compile(source, folder))
}

fn compile(source: &Path, folder: &Path) -> io::Result<()> {
    let program = folder.join(source.file_stem().unwrap_or_default());
    // Compiled beside and renamed: another process may be running it.
    let unfinished = program.with_extension(std::process::id().to_string());
    let mut command = Command::new("cc");
    command.args(FLAGS).arg("-I").arg(workspace().join("include")).arg("-I").arg(sources_of_tests());
    command.arg(source).arg("-o").arg(&unfinished);
    let output = command.output().map_err(|error| {
        io::Error::new(error.kind(), format!("cc cannot be started ({error}); install a C compiler"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{command:?} failed; run it by hand to see why\n{said}")));
    }
    std::fs::rename(unfinished, program)
}
