//! The targets as Coz needs them: in a folder of their own, with other flags.
//!
//! How targets are built is the business of the `targets` crate, which builds beside the program that
//! calls it. So a copy of this program is started elsewhere, with compilers that add a few flags.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::program;
use crate::subject::Subject;

/// Coz's releases read DWARF 4 without GNU extensions, and find programs by how the GNU linker lays
/// them out.
const C_FLAGS: &str = "-gdwarf-4 -gstrict-dwarf -fuse-ld=bfd";
const RUST_FLAGS: &str = "-Cdebuginfo=2 -Cdwarf-version=4 -Cforce-frame-pointers=yes -Clink-arg=-fuse-ld=bfd";

/// The hidden command that builds targets and does nothing else.
pub const BUILD_TARGETS: &str = "build-targets";

/// Builds all targets for Coz.
pub fn build() -> Result<()> {
    let here = env::current_exe().context("finding this program")?;
    let copy = theirs(&here)?;
    let folder = copy.parent().context("this program has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::copy(&here, &copy).with_context(|| format!("copying this program to {}", copy.display()))?;
    let mut command = Command::new(&copy);
    command.arg(BUILD_TARGETS).env("RUSTFLAGS", RUST_FLAGS);
    for (variable, default) in [("CC", "cc"), ("CXX", "c++")] {
        let compiler = env::var(variable).unwrap_or_else(|_| default.to_owned());
        let wrapper = folder.join(default);
        fs::write(&wrapper, format!("#!/bin/sh\nexec {compiler} \"$@\" {C_FLAGS}\n"))
            .and_then(|()| fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("writing {}", wrapper.display()))?;
        command.env(variable, wrapper);
    }
    program::output(&mut command)?;
    Ok(())
}

/// What the copy does.
pub fn build_targets() -> Result<()> {
    targets::build().context("building the targets")?;
    targets::build::build_programs(["mosaic"]).context("building the mosaic")?;
    Ok(())
}

/// The program of `subject` that [`build`] built.
pub fn path(subject: &dyn Subject) -> Result<PathBuf> {
    theirs(&subject.program()?)
}

/// Our `target/PROFILE/NAME` is their `target/coz/PROFILE/NAME`.
fn theirs(ours: &Path) -> Result<PathBuf> {
    let mut names = ours.iter().rev();
    let (name, profile) = (names.next(), names.next());
    let (Some(name), Some(profile), Some(target)) = (name, profile, ours.ancestors().nth(2)) else {
        anyhow::bail!("{} is not where cargo puts programs; run this with `cargo run`", ours.display());
    };
    Ok(target.join("coz").join(profile).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_programs_lie_elsewhere() {
        for (ours, expected) in [
            ("/w/target/release/bench", "/w/target/coz/release/bench"),
            ("/w/target/targets/single", "/w/target/coz/targets/single"),
        ] {
            assert_eq!(theirs(Path::new(ours)).unwrap(), Path::new(expected));
        }
        assert!(theirs(Path::new("x")).is_err());
    }
}
