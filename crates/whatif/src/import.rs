//! `whatif db import`: a profile of Coz becomes a recording; and every command that shows one takes the other. (What perf has
//! recorded goes to a database of continuous profiles: `continuous::import`.)
//!
//! sample → delay → experiment → **record** → profile → report

use crate::{cli, continuous, merge};
use anyhow::{Context as _, Result, ensure};
use profile::coz;
use std::path::{Path, PathBuf};

/// No profile of Coz is larger, in bytes.
const LARGEST: u64 = 1 << 30;

/// `whatif db import`.
pub fn import(args: &cli::Import) -> Result<()> {
    if continuous::is_perf_data(&args.file) {
        return continuous::import(args);
    }
    let from = args.file.display();
    let about = std::fs::metadata(&args.file).with_context(|| cannot_read(&args.file))?;
    ensure!(
        about.is_file() && about.len() <= LARGEST,
        "{from} is not a profile file, or is larger than a gigabyte; give a profile that coz run has written"
    );
    let content = std::fs::read(&args.file).with_context(|| cannot_read(&args.file))?;
    ensure!(
        !content.starts_with(coz::DATABASE),
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
        kernel::say!("whatif: {}\n  {}", warning.message, warning.advice);
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
