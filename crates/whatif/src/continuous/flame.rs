//! `whatif flame`: a flame graph, as a page or folded; and that of a difference.

use super::cli;
use crate::show;
use anyhow::{Context as _, Result};
use cycles::arguments::{Diff, Which};
use cycles::{Query, Worths};
use report::cycles as draw;
use std::path::PathBuf;

/// `whatif flame`.
pub fn flame(args: &cli::Flame) -> Result<()> {
    let mut query = Query::new(&args.which)?;
    if args.folded {
        let text = draw::folded(&cycles::flame_of(&mut query, &args.roots, !args.no_inlined)?);
        return match &args.output {
            Some(path) => write(path, &text),
            None => show::print(&text),
        };
    }
    let mut flame = if args.both {
        let mut off = Query::new(&Which { off_cpu: true, event: None, ..args.which.clone() })?;
        cycles::both(&mut query, &mut off, &args.roots, !args.no_inlined)?
    } else {
        cycles::flame_of(&mut query, &args.roots, !args.no_inlined)?
    };
    cycles::value(&mut flame, &query, &Worths::load(&args.causes, &query.db)?);
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from("whatif-flame.html"));
    write(&path, &draw::page(&query.heading, &flame))?;
    show::print(&format!("{} samples, in {}: open it in a browser\n", query.heading.samples, path.display()))
}

/// `whatif diff --flame`.
pub fn compare(args: &Diff, path: &std::path::Path) -> Result<()> {
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

fn write(path: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}; choose another place with -o FILE", path.display()))
}
