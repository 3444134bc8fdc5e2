//! `whatif export --db DIR`: samples with their stacks for other tools.

use crate::cli::Format;
use anyhow::{Result, bail};
use cycles::arguments::Which;
use cycles::{Flame, Query, Stacks};
use report::cycles as draw;

/// What to write.
pub fn export(which: &Which, format: Format) -> Result<Vec<u8>> {
    let write: fn(&Query, &Stacks) -> Vec<u8> = match format {
        Format::Pprof => |query, stacks| draw::pprof(&query.heading, stacks),
        Format::Otlp => |query, stacks| draw::otlp(&query.heading, stacks),
        Format::Folded => |_, stacks| draw::folded(&Flame::new(stacks)).into_bytes(),
        Format::Html => {
            let mut query = Query::new(which)?;
            let flame = cycles::flame(&mut query)?;
            return Ok(draw::page(&query.heading, &flame).into_bytes());
        }
        _ => bail!(
            "this format is for causal recordings; a database of continuous profiles can be written as pprof, otlp, folded \
             or html"
        ),
    };
    let mut query = Query::new(which)?;
    let stacks = cycles::stacks(&mut query)?;
    Ok(write(&query, &stacks))
}
