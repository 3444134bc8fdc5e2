//! Building a program of the package, by cargo.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::words::Words;

/// What cargo says of something that it has built.
#[derive(Debug, Deserialize)]
struct Built {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// Builds the one program that was asked for.
pub fn program(asked: &Words) -> Result<PathBuf> {
    let mut command = cargo("build");
    command.args(asked.of_cargo_without(&[]));
    built(&mut command, asked)
}

/// The same as it was in another revision, in a folder of its own.
pub fn program_as_it_was(asked: &Words, revision: &OsStr) -> Result<PathBuf> {
    let Metadata { workspace_root, target_directory } = metadata(asked)?;
    let manifest = asked.value("--manifest-path").map(PathBuf::from);
    let folder = manifest.as_deref().map_or(Path::new("."), |manifest| {
        manifest.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    });
    let was = Worktree::of(&workspace_root, &target_directory.join("whatif-was"), revision)?;
    let mut command = cargo("build");
    command.args(asked.of_cargo_without(&["--target-dir", "--manifest-path"]));
    command.arg("--target-dir").arg(target_directory.join("whatif-was"));
    command.current_dir(was.folder(folder)?);
    built(&mut command, asked)
}

fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(command);
    cargo
}

fn built(command: &mut Command, asked: &Words) -> Result<PathBuf> {
    let profile = asked.value("--profile").unwrap_or("release");
    let is_named = ["--profile", "--release", "-r"].iter().any(|option| asked.has_of_cargo(option));
    if !is_named {
        command.arg("--release");
    }
    // As if the package's own file said so. What the user has set in the environment stays.
    let name = profile.to_uppercase().replace('-', "_");
    for (option, value) in [("DEBUG", "1"), ("STRIP", "none")] {
        let variable = format!("CARGO_PROFILE_{name}_{option}");
        if std::env::var_os(&variable).is_none() {
            command.env(variable, value);
        }
    }
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().context("starting cargo")?;
    let mut programs = BTreeMap::new();
    for line in BufReader::new(child.stdout.take().context("cargo has no output")?).lines() {
        // What is no message comes from build scripts.
        if let Ok(Built { executable: Some(executable), target: Some(target) }) = serde_json::from_str(&line?)
        {
            programs.insert(target.name, executable);
        }
    }
    ensure!(child.wait()?.success(), "cargo build has failed");
    let names: Vec<&str> = programs.keys().map(String::as_str).collect();
    match programs.len() {
        0 => bail!("the package has no program; name one with --example or --package"),
        1 => Ok(programs.into_values().next().unwrap_or_default()),
        _ => bail!("the package has several programs; name one (--bin, --example): {}", names.join(", ")),
    }
}

fn metadata(asked: &Words) -> Result<Metadata> {
    let mut command = cargo("metadata");
    command.args(["--no-deps", "--format-version=1"]);
    if let Some(path) = asked.value("--manifest-path") {
        command.args(["--manifest-path", path]);
    }
    let output = command.stderr(Stdio::inherit()).output().context("starting cargo")?;
    ensure!(output.status.success(), "cargo metadata has failed");
    serde_json::from_slice(&output.stdout).context("reading what cargo says of the package")
}

/// A checkout of another revision, which git forgets when this goes.
struct Worktree {
    root: PathBuf,
    repository: PathBuf,
}

impl Worktree {
    fn of(workspace: &Path, folder: &Path, revision: &OsStr) -> Result<Self> {
        let repository = PathBuf::from(git(workspace, ["rev-parse", "--show-toplevel"])?);
        std::fs::create_dir_all(folder)?;
        // Of this process alone. Those that were left over are forgotten as soon as their folders are gone.
        let root = folder.join(format!("source-{}", std::process::id()));
        let was = Self { root, repository };
        was.remove();
        let add = ["worktree", "add", "--detach"].map(OsStr::new);
        git(&was.repository, add.into_iter().chain([was.root.as_os_str(), revision]))?;
        Ok(was)
    }

    /// The folder in it that corresponds to this one.
    fn folder(&self, now: &Path) -> Result<PathBuf> {
        let now = now.canonicalize().with_context(|| format!("looking for {}", now.display()))?;
        let within = now.strip_prefix(&self.repository);
        let within =
            within.with_context(|| format!("{} is not in {}", now.display(), self.repository.display()))?;
        let then = self.root.join(within);
        ensure!(then.is_dir(), "{} was not there in that revision", within.display());
        Ok(then)
    }

    fn remove(&self) {
        // It may not be there.
        let _ = Command::new("git")
            .arg("-C")
            .arg(&self.repository)
            .args(["worktree", "remove", "--force"])
            .arg(&self.root)
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        self.remove();
    }
}

/// What git prints, without the newline.
fn git<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Result<OsString> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output();
    let output = output.context("starting git, which knows the other revision")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git: {}", said.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned().into())
}
