//! `whatif flame`: a flame graph, as a page or folded.

use super::cli;
use crate::show;
use anyhow::{Context as _, Result};
use cycles::{Flame, Query, Worths};
use report::cycles as draw;
use std::path::PathBuf;

/// `whatif flame`.
pub fn flame(args: &cli::Flame) -> Result<()> {
    let mut query = Query::new(&args.which)?;
    let stacks = cycles::stacks(&mut query)?;
    let mut flame = Flame::new(&stacks, !args.no_inlined);
    if args.folded {
        let text = draw::folded(&flame);
        return match &args.output {
            Some(path) => write(path, &text),
            None => show::print(&text),
        };
    }
    cycles::value(&mut flame, &query, &Worths::load(&args.causes, &query.db)?);
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from("whatif-flame.html"));
    write(&path, &draw::page(&query.heading, &flame))?;
    show::print(&format!("{} samples, in {}: open it in a browser\n", query.heading.samples, path.display()))
}

fn write(path: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}; choose another place with -o FILE", path.display()))
}
