//! `whatif import`: a profile of Coz becomes a recording; and every command that shows one takes the other. (What perf has
//! recorded goes to a database of continuous profiles: `cycles::import`.)
//!
//! sample → delay → experiment → **record** → profile → report

use crate::{cli, cycles, merge};
use anyhow::{Context as _, Result, ensure};
use profile::{Recording, Rows, coz};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// So many bytes tell what a file is.
const BYTES_THAT_TELL: u64 = 64 * 1024;
/// What every recording begins with.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// `whatif import`.
pub fn import(args: &cli::Import) -> Result<()> {
    if cycles::is_perf_data(&args.file) {
        return cycles::import(args);
    }
    let from = args.file.display();
    let content = std::fs::read(&args.file).with_context(|| cannot_read(&args.file))?;
    ensure!(
        !content.starts_with(DATABASE),
        "{from} is no profile of Coz but a database; if it is a recording, it can be shown as it is: whatif report {from}"
    );
    let rows = coz::read(&content, &name(&args.file)).with_context(|| format!("cannot import {from}"))?;
    let output = args.output.clone().unwrap_or_else(|| named_after(&args.file));
    ensure!(
        !output.exists(),
        "{} exists already; give the name of a new file with -o FILE",
        output.display()
    );
    let (runs, experiments) = (rows.sessions.len(), rows.windows.len());
    let warnings: Vec<_> = rows.warnings.iter().map(|(_, warning)| warning.clone()).collect();
    merge::write(&output, &[rows]).with_context(|| format!("cannot write {}", output.display()))?;
    for warning in warnings {
        eprintln!("whatif: {}\n  {}", warning.message, warning.advice);
    }
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    println!(
        "{runs} run{} with {experiments} experiment{}, in {} (whatif report {})",
        plural(runs),
        plural(experiments),
        output.display(),
        output.display()
    );
    Ok(())
}

/// The rows of a recording, or of a profile of Coz: whichever `path` is.
pub fn rows(path: &Path) -> Result<Rows> {
    if let Some(content) = profile_of_coz(path)? {
        return coz::read(&content, &name(path)).with_context(|| format!("cannot read {}", path.display()));
    }
    Ok(Recording::open(path)?.rows()?)
}

/// Whether the file is a profile of Coz that can be read.
pub fn is_profile_of_coz(path: &Path) -> bool {
    matches!(profile_of_coz(path), Ok(Some(_)))
}

/// What is in the file, if it is a profile of Coz.
fn profile_of_coz(path: &Path) -> Result<Option<Vec<u8>>> {
    // What cannot be read is reported by the code that reads recordings.
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    let mut content = Vec::new();
    if file.by_ref().take(BYTES_THAT_TELL).read_to_end(&mut content).is_err() {
        return Ok(None);
    }
    if content.starts_with(DATABASE) || !coz::is_profile(&content) {
        return Ok(None);
    }
    file.read_to_end(&mut content).with_context(|| cannot_read(path))?;
    Ok(Some(content))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}; give a profile that coz run has written", path.display())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `profiles/ferret.coz` becomes `whatif-ferret.db`, which `whatif report` finds by itself.
fn named_after(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("whatif-{stem}.db"))
}
