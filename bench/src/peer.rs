//! The other profilers that ours can be compared with.

use std::env;
use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Peer {
    Coz,
}

/// The program called `name` on `$PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
