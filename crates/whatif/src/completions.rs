//! `whatif completions`: what a shell can complete, generated from what can be typed.

use crate::{overview, show};
use anyhow::Result;
use clap_complete::Shell;

/// Prints a script for the shell to load.
pub fn print(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut overview::visible(), "whatif", &mut script);
    show::print(&String::from_utf8(script)?)
}
