//! Looking for functions of one name in all debug information, of which nothing is kept: there may be gigabytes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::debug_file::Files;
use crate::debug_info::DebugInfo;
use crate::die_name::{DieReader, NameKey};
use crate::function_name::FunctionPattern;
use crate::subprograms::DieRanges;

/// Units that are read before what was read of them is given up.
const CHUNK: usize = 64;
/// As in `subprograms`, for one function.
const MOST_RANGES: usize = 1 << 20;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hit {
    /// A piece of an out-of-line function begins here.
    OutOfLine(u64),
    /// The function exists to be inlined.
    Abstract,
    /// It was inlined, and this is its code there.
    Inlined(Vec<Range<u64>>),
}

impl DebugInfo {
    /// Everything that matches, in no particular order, by as many threads as there are CPUs.
    pub fn search(&self, files: &Files, pattern: &FunctionPattern<'_>) -> Vec<Hit> {
        let units = self.units();
        let next = AtomicUsize::new(units.start);
        let allowance = self.allowance_once();
        let work = || {
            let mut hits = Vec::new();
            loop {
                let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                let chunk = first.min(units.end)..first.saturating_add(CHUNK).min(units.end);
                if chunk.is_empty() {
                    return hits;
                }
                self.read_once(files, chunk, &allowance, |reader| {
                    self.note(walk(reader, pattern, &mut hits));
                });
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(units.len().div_ceil(CHUNK));
        thread::scope(|scope| {
            // With those that there are; this one does all, if need be.
            let others = (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok());
            let others: Vec<_> = others.collect();
            let mut hits = work();
            hits.extend(others.into_iter().filter_map(|other| other.join().ok()).flatten());
            hits
        })
    }
}

/// Damage ends the walk; what was found stays.
fn walk(reader: &DieReader<'_, '_>, pattern: &FunctionPattern<'_>, hits: &mut Vec<Hit>) -> gimli::Result<()> {
    let unit = reader.unit;
    // Most inlined calls are of functions that are inlined often.
    let mut known: HashMap<NameKey, bool> = HashMap::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let die = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if !reader.allows(abbreviation) {
            return Ok(());
        }
        let is_call = match abbreviation.tag() {
            gimli::DW_TAG_subprogram => false,
            gimli::DW_TAG_inlined_subroutine => true,
            _ => {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
        };
        let mut place = DieRanges::default();
        let (mut origin, mut is_abstract) = (None, false);
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            match attribute.name() {
                gimli::DW_AT_inline => is_abstract = true,
                gimli::DW_AT_abstract_origin => origin = Some(attribute.value()),
                _ => place.add(unit, &attribute),
            }
        }
        let ranges = place.ranges(unit, MOST_RANGES, reader.allowance)?;
        let mut code = ranges.into_iter().filter(|range| reader.info.is_code(range.start)).peekable();
        if is_call {
            let Some(origin) = origin.filter(|_| code.peek().is_some()) else { continue };
            let Some(key) = reader.key(origin) else { continue };
            if *known.entry(key).or_insert_with(|| reader.refers_to(origin, pattern)) {
                hits.push(Hit::Inlined(code.collect()));
            }
        } else if (is_abstract || code.peek().is_some()) && reader.matches(die, pattern) {
            hits.extend(is_abstract.then_some(Hit::Abstract));
            hits.extend(code.map(|range| Hit::OutOfLine(range.start)));
        }
    }
    Ok(())
}
