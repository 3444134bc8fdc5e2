//! The name of a function's debugging information entry (DIE), through the entries it refers to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::PoisonError;

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, Unit, UnitOffset, UnitRef};

use crate::debug_info::{DebugInfo, Slice, text};
use crate::function_name::FunctionName;

/// A concrete function refers to an abstract one, that to a declaration; more is a cycle.
const MOST_HOPS: u32 = 8;

/// Which DIE a name was looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NameKey {
    /// In the unit of this index, at this offset from its header.
    Unit(usize, usize),
    /// At this offset in `.debug_info`.
    Main(usize),
    /// At this offset in the supplementary file's `.debug_info`.
    Supplementary(usize),
}

/// Which file's entries are being read; references mean different things in each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Main,
    Supplementary,
    /// A `.dwo` file: its entries refer to no other unit.
    Split,
}

/// Units by place and offset; `None` for those that are damaged.
type Units<'a> = HashMap<(Place, usize), Option<Rc<Unit<Slice<'a>>>>>;

/// Reads one unit's entries, and follows them into other units.
pub(crate) struct DieReader<'u, 'a> {
    pub info: &'u DebugInfo,
    pub unit: UnitRef<'u, Slice<'a>>,
    /// The unit's index.
    pub index: usize,
    place: Place,
    dwarf: &'u Dwarf<Slice<'a>>,
    others: RefCell<Units<'a>>,
}

impl<'u, 'a> DieReader<'u, 'a> {
    pub fn new(
        info: &'u DebugInfo,
        dwarf: &'u Dwarf<Slice<'a>>,
        unit: &'u Unit<Slice<'a>>,
        index: usize,
        split: bool,
    ) -> Self {
        DieReader {
            info,
            unit: unit.unit_ref(dwarf),
            index,
            place: if split { Place::Split } else { Place::Main },
            dwarf,
            others: RefCell::default(),
        }
    }

    /// The name of the function at `die` in this unit.
    pub fn name(&self, die: UnitOffset) -> FunctionName {
        self.cached(NameKey::Unit(self.index, die.0), || self.find(self.unit, self.place, die, MOST_HOPS))
    }

    /// The name of the function that an attribute of this unit refers to.
    pub fn referred_name(&self, reference: AttributeValue<Slice<'a>>) -> FunctionName {
        let key = match reference {
            AttributeValue::UnitRef(die) => return self.name(die),
            AttributeValue::DebugInfoRef(die) => NameKey::Main(die.0),
            AttributeValue::DebugInfoRefSup(die) => NameKey::Supplementary(die.0),
            _ => return FunctionName::unknown(),
        };
        self.cached(key, || self.follow(self.unit, self.place, reference, MOST_HOPS))
    }

    fn cached(&self, key: NameKey, find: impl FnOnce() -> Option<FunctionName>) -> FunctionName {
        let names = || self.info.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names().get(&key) {
            return name.clone();
        }
        let name = find().unwrap_or_else(FunctionName::unknown);
        names().insert(key, name.clone());
        name
    }

    fn find(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        place: Place,
        die: UnitOffset,
        hops: u32,
    ) -> Option<FunctionName> {
        if !die.is_in_bounds(&unit.header) {
            return None;
        }
        let mut entries = self.info.note(unit.entries_raw(Some(die)))?;
        let abbreviation = self.info.note(entries.read_abbreviation())??;
        let mut plain = None;
        let mut origin = None;
        for specification in abbreviation.attributes() {
            let attribute = self.info.note(entries.read_attribute(*specification))?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    let linkage = self.info.note(unit.attr_string(attribute.value()))?;
                    return Some(FunctionName::from_linkage(&text(linkage)));
                }
                gimli::DW_AT_name => plain = unit.attr_string(attribute.value()).ok(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    origin = Some(attribute.value());
                }
                _ => {}
            }
        }
        // The entry that is referred to knows the linker's name, or is inside its namespace.
        if let Some(origin) = origin
            && let Some(name) = self.follow(unit, place, origin, hops)
        {
            return Some(name);
        }
        let plain = text(plain?);
        let ours = place == self.place && unit.header.offset() == self.unit.header.offset();
        let outer = if ours { self.info.subprograms(self.index).outer(die) } else { None };
        Some(match outer {
            Some(outer) => FunctionName::from_demangled(format!("{outer}::{plain}")),
            None => FunctionName::from_linkage(&plain),
        })
    }

    fn follow(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        place: Place,
        reference: AttributeValue<Slice<'a>>,
        hops: u32,
    ) -> Option<FunctionName> {
        let hops = hops.checked_sub(1)?;
        let (place, offset) = match reference {
            AttributeValue::UnitRef(die) => return self.find(unit, place, die, hops),
            AttributeValue::DebugInfoRef(offset) => (place, offset),
            AttributeValue::DebugInfoRefSup(offset) => (Place::Supplementary, offset),
            _ => return None,
        };
        let (dwarf, headers) = match place {
            Place::Main => (self.dwarf, &self.info.headers),
            Place::Supplementary => (self.dwarf.sup()?, &self.info.supplementary_headers),
            Place::Split => return None,
        };
        let next = headers.partition_point(|start| *start <= offset.0);
        let start = *headers.get(next.checked_sub(1)?)?;
        let other = self.other(dwarf, place, start)?;
        let die = offset.to_unit_offset(&other.header)?;
        self.find(other.unit_ref(dwarf), place, die, hops)
    }

    fn other(&self, dwarf: &Dwarf<Slice<'a>>, place: Place, start: usize) -> Option<Rc<Unit<Slice<'a>>>> {
        let read = || {
            let header = dwarf.unit_header(DebugInfoOffset(start));
            let unit = header.and_then(|header| dwarf.unit(header));
            self.info.note(unit).map(Rc::new)
        };
        self.others.borrow_mut().entry((place, start)).or_insert_with(read).clone()
    }
}
