//! What is measured as a file, for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes `results` as JSON, if there is a `path` to write to.
pub fn write(results: &impl Serialize, path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    // Beside and renamed: an interruption leaves the last one whole.
    let unfinished = path.with_extension("json.new");
    fs::write(&unfinished, serde_json::to_vec_pretty(results)?)
        .and_then(|()| fs::rename(&unfinished, path))
        .with_context(|| format!("writing {} (is its folder there?)", path.display()))
}
