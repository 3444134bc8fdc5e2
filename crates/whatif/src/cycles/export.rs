//! `whatif export --db DIR`: samples with their stacks for other tools.

use super::query::Query;
use super::{cli, flame};
use crate::cli::Format;
use anyhow::{Result, bail};
use report::cycles::{self, Flame};

/// What to write.
pub fn export(which: &cli::Which, format: Format) -> Result<Vec<u8>> {
    let write: fn(&Query, &cycles::Stacks) -> Vec<u8> = match format {
        Format::Pprof => |query, stacks| cycles::pprof(&query.heading, stacks),
        Format::Otlp => |query, stacks| cycles::otlp(&query.heading, stacks),
        Format::Folded => |_, stacks| cycles::folded(&Flame::new(stacks, true)).into_bytes(),
        Format::Html => |query, stacks| cycles::page(&query.heading, &Flame::new(stacks, true)).into_bytes(),
        _ => bail!(
            "this format is for causal recordings; a database of continuous profiles can be written as pprof, otlp, folded \
             or html"
        ),
    };
    let mut query = Query::new(which)?;
    let stacks = flame::named(&mut query)?;
    Ok(write(&query, &stacks))
}
