//! One out-of-line function and everything that was inlined into it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use gimli::{EntriesRaw, UnitOffset};

use crate::debug_info::DebugInfo;
use crate::die_name::DieReader;
use crate::function_name::FunctionName;
use crate::section::Bytes;
use crate::subprograms::DieRanges;

/// Inlined functions nested deeper than this count as their caller's code. Compilers stop long
/// before; damage does not.
const DEEPEST: usize = 128;
/// As in `subprograms`, for one function.
const MOST_RANGES: usize = 1 << 20;

/// The function, and the inlined functions below it; parents come before their children.
#[derive(Debug, Default)]
pub(crate) struct InlineTree {
    pub nodes: Vec<Node>,
}

/// A function's body at one place.
#[derive(Debug)]
pub(crate) struct Node {
    pub function: FunctionName,
    /// The index of the function that this one was inlined into. `None`: the out-of-line function.
    pub parent: Option<usize>,
    /// 0 for the out-of-line function.
    pub depth: usize,
    /// Where the parent calls it.
    pub call_file: Option<Arc<str>>,
    pub call_line: Option<u32>,
    pub ranges: Vec<Range<u64>>,
}

/// The trees of an image that were asked for.
#[derive(Default)]
pub(crate) struct InlineTrees(Mutex<HashMap<(usize, usize), Arc<InlineTree>>>);

impl InlineTrees {
    /// An out-of-line function with what was inlined into it. `die` is from [`DebugInfo::subprograms`].
    pub fn of(&self, info: &DebugInfo, unit: usize, die: usize) -> Arc<InlineTree> {
        let locked = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = locked().get(&(unit, die)) {
            return Arc::clone(tree);
        }
        let tree = info.with_unit(unit, |reader| InlineTree::read(&reader, die));
        let tree = Arc::new(tree.unwrap_or_default());
        locked().insert((unit, die), Arc::clone(&tree));
        tree
    }
}

impl InlineTree {
    /// Reads the function at `die`. Damage ends the walk; what was found stays.
    pub fn read(reader: &DieReader<'_, '_>, die: usize) -> InlineTree {
        let mut tree = InlineTree { nodes: Vec::new() };
        reader.info.note(tree.walk(reader, UnitOffset(die)));
        tree
    }

    fn walk(&mut self, reader: &DieReader<'_, '_>, die: UnitOffset) -> gimli::Result<()> {
        let mut entries = reader.unit.entries_raw(Some(die))?;
        let root_depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(()) };
        entries.skip_attributes(abbreviation.attributes())?;
        self.nodes.push(Node {
            function: reader.name(die),
            parent: None,
            depth: 0,
            call_file: None,
            call_line: None,
            // The caller knows them: it found the function by one.
            ranges: Vec::new(),
        });
        if !abbreviation.has_children() {
            return Ok(());
        }
        let mut room = MOST_RANGES;
        // The inlined functions that enclose the next entry: depth in the file, and node.
        let mut open: Vec<(isize, usize)> = vec![(root_depth, 0)];
        while !entries.is_empty() && entries.next_depth() > root_depth {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if !reader.allows(abbreviation) {
                return Ok(());
            }
            while open.len() > 1 && open.last().is_some_and(|(outer, _)| *outer >= depth) {
                open.pop();
            }
            match abbreviation.tag() {
                gimli::DW_TAG_inlined_subroutine if open.len() <= DEEPEST => {
                    let parent = open.last().map_or(0, |(_, node)| *node);
                    let attributes = abbreviation.attributes();
                    let node = inlined(reader, &mut entries, attributes, parent, &mut room)?;
                    let kept = size_of::<Node>() + node.ranges.len() * size_of::<Range<u64>>();
                    if !reader.allowance.bytes(kept) {
                        return Ok(());
                    }
                    open.push((depth, self.nodes.len()));
                    self.nodes.push(Node { depth: open.len() - 1, ..node });
                }
                gimli::DW_TAG_subprogram => {
                    // A function declared inside this one has its own out-of-line code.
                    entries.skip_attributes(abbreviation.attributes())?;
                    while !entries.is_empty() && entries.next_depth() > depth {
                        if let Some(abbreviation) = entries.read_abbreviation()? {
                            if !reader.allows(abbreviation) {
                                return Ok(());
                            }
                            entries.skip_attributes(abbreviation.attributes())?;
                        }
                    }
                }
                _ => entries.skip_attributes(abbreviation.attributes())?,
            }
        }
        Ok(())
    }
}

fn inlined<'a>(
    reader: &DieReader<'_, 'a>,
    entries: &mut EntriesRaw<'_, Bytes<'a>>,
    attributes: &[gimli::AttributeSpecification],
    parent: usize,
    room: &mut usize,
) -> gimli::Result<Node> {
    let mut place = DieRanges::default();
    let mut origin = None;
    let (mut call_file, mut call_line) = (None, None);
    for specification in attributes {
        let attribute = entries.read_attribute(*specification)?;
        match attribute.name() {
            gimli::DW_AT_abstract_origin => origin = Some(attribute.value()),
            gimli::DW_AT_call_file => {
                call_file = match attribute.value() {
                    gimli::AttributeValue::FileIndex(number) => Some(number),
                    other => other.udata_value(),
                };
            }
            gimli::DW_AT_call_line => call_line = attribute.udata_value(),
            _ => place.add(reader.unit, &attribute),
        }
    }
    let ranges = place.ranges(reader.unit, *room, reader.allowance)?;
    *room -= ranges.len();
    let lines = reader.info.lines(reader.index);
    Ok(Node {
        function: origin.map_or_else(FunctionName::unknown, |origin| reader.referred_name(origin)),
        parent: Some(parent),
        depth: 0,
        call_file: call_file.and_then(|number| lines.file(number)).cloned(),
        call_line: call_line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line != 0),
        ranges,
    })
}
