//! `whatif flame`: a flame graph, as a page or folded; and that of a difference.

use super::cli;
use crate::show;
use anyhow::{Context as _, Result};
use cycles::arguments::{Diff, Drawing, Which};
use cycles::{Flame, Heading, Query, Worths};
use report::cycles as draw;
use std::path::{Path, PathBuf};

/// `whatif flame`.
pub fn flame(args: &cli::Flame) -> Result<()> {
    let mut query = Query::new(&args.which)?;
    let mut flame = if args.both {
        let mut off = Query::new(&Which { off_cpu: true, event: None, ..args.which.clone() })?;
        cycles::both(&mut query, &mut off, &args.roots)?
    } else {
        cycles::flame_of(&mut query, &args.roots)?
    };
    if !args.drawing.folded {
        cycles::value(&mut flame, &query, &Worths::load(&args.causes, &query.db)?);
    }
    put(&query.heading, &flame, &args.drawing)
}

/// Writes a flame graph as it was asked for.
pub fn put(heading: &Heading, flame: &Flame, drawing: &Drawing) -> Result<()> {
    match (&drawing.output, drawing.folded) {
        (None, true) => show::print(&draw::folded(flame)),
        (Some(path), true) => write(path, &draw::folded(flame)),
        (output, false) => {
            let path = output.clone().unwrap_or_else(|| PathBuf::from("whatif-flame.html"));
            write(&path, &draw::page(heading, flame))?;
            show::print(&format!(
                "{} samples, in {}: open it in a browser\n",
                heading.samples,
                path.display()
            ))
        }
    }
}

/// `whatif diff --flame`.
pub fn compare(args: &Diff, path: &Path) -> Result<()> {
    let (query, flame) = cycles::flames(args)?;
    let before = args.before.as_deref().unwrap_or_default();
    write(path, &draw::comparison(&query.heading, &flame, before))?;
    show::print(&format!(
        "{} samples, compared with {}, in {}: open it in a browser\n",
        query.heading.samples,
        profile::printable(before),
        path.display()
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}; choose another place with -o FILE", path.display()))
}
