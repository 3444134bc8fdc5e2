//! Reading what `whatif collect` has kept.

use crate::{Ended, Sandbox, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a command says in JSON of a folder of continuous profiles.
#[track_caller]
pub fn answer(words: &[&str], folder: &Path) -> Value {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(words).arg("--db").arg(folder);
    let ended = run(command).assert_code(0);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// Whether a command says that there is nothing of the kind that was asked for, or not yet.
#[must_use]
pub fn says_there_is_nothing(ended: &Ended) -> bool {
    ["there are no", "there is no", "no process is "].iter().any(|words| ended.stderr.contains(words))
}

/// The stacks of a process, outermost frame first, and how many samples each has; none where there are none.
#[track_caller]
pub fn stacks(folder: &Path, process: &str) -> Vec<(Vec<String>, u64)> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.whatif();
    command.args(["flame", "--folded", "--process", process, "--db"]).arg(folder);
    let ended = run(command);
    if says_there_is_nothing(&ended) {
        return Vec::new();
    }
    let ended = ended.assert_code(0);
    let stack = |line: &str| {
        let (stack, samples) = line.rsplit_once(' ').unwrap();
        (stack.split(';').map(str::to_owned).collect(), samples.parse().unwrap())
    };
    ended.stdout.lines().map(stack).collect()
}

/// The functions on a stack between two others, where both are there in this order.
#[must_use]
pub fn between<'a>(stack: &'a [String], from: &str, to: &str) -> Option<&'a [String]> {
    let to = stack.iter().rposition(|name| name == to)?;
    let from = stack[..to].iter().rposition(|name| name == from)?;
    Some(&stack[from + 1..to])
}

/// Interpreters of Python that are installed here and whose frames are read, by their versions.
#[must_use]
pub fn interpreters() -> BTreeMap<String, PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let own = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let own = own.map(|version| version.path().join("bin/python3"));
    let paths = ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from).into_iter().chain(own);
    let mut found = BTreeMap::new();
    for path in paths {
        let says =
            Command::new(&path).args(["-c", "import sys; print(*sys.version_info[:3], sep='.')"]).output();
        let Ok(said) = says else { continue };
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if ["3.11.", "3.12.", "3.13."].iter().any(|known| version.starts_with(known)) {
            found.entry(version).or_insert(path);
        }
    }
    found
}

/// A program under a name of its own, so that its process has this name.
#[must_use]
pub fn link(folder: &Path, name: &str, program: &Path) -> PathBuf {
    let link = folder.join(name);
    std::os::unix::fs::symlink(program.canonicalize().unwrap(), &link).unwrap();
    link
}
