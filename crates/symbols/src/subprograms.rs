//! A compilation unit's functions: where their out-of-line code is, and what encloses those that
//! the linker has no name for.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{Abbreviation, Attribute, AttributeValue, EntriesRaw, UnitOffset, UnitRef};

use crate::allowance::Allowance;
use crate::die_name::DieReader;
use crate::range_index::{Entry, RangeIndex};
use crate::section::Bytes;

/// A unit with more ranges than this is damaged: the entries of a small section can all refer to
/// the same long list.
const MOST_RANGES: usize = 1 << 22;

/// The functions of one unit. DIEs are given as offsets from the unit's header.
#[derive(Debug)]
pub(crate) struct Subprograms {
    /// Ranges of out-of-line code.
    ranges: RangeIndex<usize>,
    /// DIEs of functions that have code, out of line or inlined.
    with_code: Vec<usize>,
    /// The enclosing namespaces and classes of functions that have no linker name (C++).
    outer: HashMap<usize, Arc<str>>,
}

impl Default for Subprograms {
    fn default() -> Self {
        Subprograms { ranges: RangeIndex::new(Vec::new()), with_code: Vec::new(), outer: HashMap::new() }
    }
}

impl Subprograms {
    /// Walks all entries of the unit once. Damage ends the walk; what was found stays.
    pub fn read(reader: &DieReader<'_, '_>) -> Subprograms {
        let mut walk = Walk { reader, ranges: Vec::new(), found: Subprograms::default() };
        reader.info.note(walk.run());
        Subprograms { ranges: RangeIndex::new(walk.ranges), ..walk.found }
    }

    /// Out-of-line functions with code in `range`: their ranges and DIEs.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &Entry<usize>> {
        self.ranges.overlapping(range)
    }

    /// The out-of-line function that contains `address`.
    pub fn containing(&self, address: u64) -> Option<&Entry<usize>> {
        self.ranges.containing(address)
    }

    /// The functions that have code, out of line or inlined.
    pub fn with_code(&self) -> &[usize] {
        &self.with_code
    }

    /// `ns::Class` for a function without linker name inside it.
    pub fn outer(&self, die: UnitOffset) -> Option<&str> {
        self.outer.get(&die.0).map(|outer| &**outer)
    }
}

struct Walk<'r, 'u, 'a> {
    reader: &'r DieReader<'u, 'a>,
    ranges: Vec<Entry<usize>>,
    found: Subprograms,
}

impl<'a> Walk<'_, '_, 'a> {
    fn run(&mut self) -> gimli::Result<()> {
        let unit = self.reader.unit;
        let qualify = is_cpp(unit);
        // Enclosing scopes with a name: their depth, and their full name.
        let mut scopes: Vec<(isize, Arc<str>)> = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let die = entries.next_offset();
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if !self.reader.allows(abbreviation) {
                return Ok(());
            }
            let tag = abbreviation.tag();
            while qualify && scopes.last().is_some_and(|(outer, _)| *outer >= depth) {
                scopes.pop();
            }
            let outer = scopes.last().map(|(_, name)| name);
            let name = match tag {
                gimli::DW_TAG_subprogram => {
                    self.subprogram(&mut entries, abbreviation, die, outer, qualify)?
                }
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_union_type
                    if qualify =>
                {
                    let name = scope_name(unit, &mut entries, abbreviation)?;
                    let unnamed =
                        || (tag == gimli::DW_TAG_namespace).then(|| "(anonymous namespace)".to_owned());
                    name.or_else(unnamed)
                }
                _ => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    None
                }
            };
            if let Some(name) = name
                && qualify
                && abbreviation.has_children()
            {
                let full = outer.map_or_else(|| name.clone(), |outer| format!("{outer}::{name}"));
                // Nesting without end would make names without end.
                if full.len() < 4096 && self.reader.allowance.bytes(full.len()) {
                    scopes.push((depth, full.into()));
                }
            }
        }
        Ok(())
    }

    /// Reads a function's attributes; returns its plain name if it may enclose others.
    fn subprogram(
        &mut self,
        entries: &mut EntriesRaw<'_, Bytes<'a>>,
        abbreviation: &Abbreviation,
        die: UnitOffset,
        outer: Option<&Arc<str>>,
        qualify: bool,
    ) -> gimli::Result<Option<String>> {
        let unit = self.reader.unit;
        let mut place = DieRanges::default();
        let mut plain = None;
        let (mut inlined, mut named_elsewhere) = (false, false);
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            match attribute.name() {
                gimli::DW_AT_inline => inlined = true,
                gimli::DW_AT_name => plain = Some(attribute.value()),
                gimli::DW_AT_linkage_name
                | gimli::DW_AT_MIPS_linkage_name
                | gimli::DW_AT_abstract_origin
                | gimli::DW_AT_specification => named_elsewhere = true,
                _ => place.add(unit, &attribute),
            }
        }
        let before = self.ranges.len();
        let room = MOST_RANGES.saturating_sub(before);
        for range in place.ranges(unit, room, self.reader.allowance)? {
            if self.reader.info.is_code(range.start) {
                self.ranges.push(Entry { range, value: die.0 });
            }
        }
        // Twice, because ranges are also searched by how far they reach.
        let kept = size_of::<usize>() + 2 * (self.ranges.len() - before) * size_of::<Entry<usize>>();
        if (inlined || self.ranges.len() > before) && self.reader.allowance.bytes(kept) {
            self.found.with_code.push(die.0);
        }
        if !qualify {
            return Ok(None);
        }
        if let Some(outer) = outer
            && !named_elsewhere
            && self.reader.allowance.bytes(2 * size_of::<(usize, Arc<str>)>())
        {
            self.found.outer.insert(die.0, Arc::clone(outer));
        }
        let plain = plain.and_then(|name| unit.attr_string(name).ok());
        Ok(plain.map(|name| name.text().into_owned()))
    }
}

fn scope_name<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entries: &mut EntriesRaw<'_, Bytes<'a>>,
    abbreviation: &Abbreviation,
) -> gimli::Result<Option<String>> {
    let mut name = None;
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        if attribute.name() == gimli::DW_AT_name {
            name = unit.attr_string(attribute.value()).ok().map(|name| name.text().into_owned());
        }
    }
    Ok(name)
}

/// Whether the unit's language has functions that the linker has no name for but that are inside
/// something: C++, where namespaces and classes enclose static functions and lambdas.
fn is_cpp(unit: UnitRef<'_, Bytes<'_>>) -> bool {
    let Ok(root) = unit.entry(unit.header.root_offset()) else { return false };
    let Some(AttributeValue::Language(language)) = root.attr_value(gimli::DW_AT_language) else {
        return false;
    };
    language.static_string().is_some_and(|name| name.starts_with("DW_LANG_C_plus_plus"))
}

/// The attributes that say where a DIE's code is (DWARF 5, section 2.17).
#[derive(Default)]
pub(crate) struct DieRanges<'a> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<AttributeValue<Bytes<'a>>>,
}

impl<'a> DieRanges<'a> {
    /// Takes note of the attribute if it is one of them.
    pub fn add(&mut self, unit: UnitRef<'_, Bytes<'a>>, attribute: &Attribute<Bytes<'a>>) {
        let address = || unit.attr_address(attribute.value()).ok().flatten();
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = address(),
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                _ => self.high = address(),
            },
            gimli::DW_AT_ranges => self.list = Some(attribute.value()),
            _ => {}
        }
    }

    /// The ranges, at most `most` and as many as are allowed; none is empty.
    pub fn ranges(
        &self,
        unit: UnitRef<'_, Bytes<'a>>,
        most: usize,
        allowance: &Allowance,
    ) -> gimli::Result<Vec<Range<u64>>> {
        let mut found = Vec::new();
        if let Some(list) = self.list {
            if let Some(mut ranges) = unit.attr_ranges(list)? {
                while found.len() < most
                    && allowance.steps(1)
                    && let Some(range) = ranges.next()?
                {
                    found.push(range.begin..range.end);
                }
            }
        } else if let Some(low) = self.low {
            let by_size = self.size.and_then(|size| low.checked_add(size));
            if let Some(high) = self.high.or(by_size) {
                found.push(low..high);
            }
        }
        found.truncate(most);
        found.retain(|range| range.start < range.end);
        Ok(found)
    }
}
