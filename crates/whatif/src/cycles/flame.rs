//! `whatif flame`: a flame graph, as a page or folded.

use super::query::Query;
use super::worth::Worths;
use super::{cli, nameless, stacks};
use crate::show;
use anyhow::{Context as _, Result};
use report::cycles::{self, Flame, Stacks};
use std::path::PathBuf;

/// `whatif flame`.
pub fn flame(args: &cli::Flame) -> Result<()> {
    let mut query = Query::new(&args.which)?;
    let stacks = named(&mut query)?;
    let mut flame = Flame::new(&stacks, !args.no_inlined);
    if args.folded {
        let text = cycles::folded(&flame);
        return match &args.output {
            Some(path) => write(path, &text),
            None => show::print(&text),
        };
    }
    let worths = Worths::load(&args.causes, &query.db)?;
    if !worths.recordings.is_empty() {
        let images: Vec<_> = query.names.images().values().cloned().collect();
        for name in &mut flame.names {
            let of_path = images.iter().filter(|image| image.path == name.image);
            name.worth = of_path
                .filter_map(|image| worths.of(&name.function, image))
                .min_by_key(|worth| worth.other_build);
        }
    }
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from("whatif-flame.html"));
    write(&path, &cycles::page(&query.heading, &flame))?;
    show::print(&format!("{} samples, in {}: open it in a browser\n", query.heading.samples, path.display()))
}

/// All stacks with their names.
pub fn named(query: &mut Query) -> Result<Stacks> {
    let tree = query.tree()?;
    query.names.learn(&query.db, tree.positions.iter().copied())?;
    query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
    Ok(stacks::named(&tree, &query.names))
}

fn write(path: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}; choose another place with -o FILE", path.display()))
}
