//! The name of a function's debugging information entry (DIE), through the entries it refers to.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::PoisonError;

use gimli::{Abbreviation, AttributeValue, DebugInfoOffset, Dwarf, Unit, UnitOffset, UnitRef};

use crate::allowance::{Allowance, MOST_ATTRIBUTES, STEPS_AT_A_TIME};
use crate::debug_info::{DebugInfo, read_unit};
use crate::function_name::{FunctionName, FunctionPattern};
use crate::section::Bytes;
use crate::subprograms::Subprograms;

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

/// Which file holds the entries that are being read; references mean different things in each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    Main,
    Supplementary,
    /// A `.dwo` file: its entries refer to no other unit.
    Split,
}

/// Units by holder and offset; `None` for those that are damaged.
type Units<'a> = HashMap<(Holder, usize), Option<Rc<Unit<Bytes<'a>>>>>;

/// Reads one unit's entries, and follows them into other units.
pub(crate) struct DieReader<'u, 'a> {
    pub info: &'u DebugInfo,
    pub unit: UnitRef<'u, Bytes<'a>>,
    /// The unit's index.
    pub index: usize,
    holder: Holder,
    dwarf: &'u Dwarf<Bytes<'a>>,
    others: RefCell<Units<'a>>,
    /// The unit's functions, if nothing that is found is kept.
    once: Option<OnceCell<Subprograms>>,
    pub allowance: &'u Allowance,
    /// Steps that have been taken from it in advance.
    steps: Cell<u64>,
}

/// A name as it is written down, and what encloses it if that is not part of it.
struct Written<'a> {
    outer: Option<String>,
    text: Cow<'a, str>,
}

impl Written<'_> {
    fn name(&self) -> FunctionName {
        match &self.outer {
            Some(outer) => FunctionName::from_demangled(format!("{outer}::{}", self.text)),
            None => FunctionName::from_linkage(&self.text),
        }
    }
}

impl<'u, 'a> DieReader<'u, 'a> {
    pub fn new(
        info: &'u DebugInfo,
        dwarf: &'u Dwarf<Bytes<'a>>,
        unit: &'u Unit<Bytes<'a>>,
        index: usize,
        split: bool,
    ) -> Self {
        DieReader {
            info,
            unit: unit.unit_ref(dwarf),
            index,
            holder: if split { Holder::Split } else { Holder::Main },
            dwarf,
            others: RefCell::default(),
            once: None,
            allowance: &info.allowance,
            steps: Cell::new(0),
        }
    }

    /// Whether an entry may be read.
    #[must_use]
    pub fn allows(&self, abbreviation: &Abbreviation) -> bool {
        let attributes = abbreviation.attributes().len();
        let steps = 1 + attributes as u64;
        let left = self.steps.get();
        // Questions of which nothing is kept are answered by many threads.
        let more = if self.once.is_some() { STEPS_AT_A_TIME.max(steps) } else { steps };
        let left = if left < steps && self.allowance.steps(more) { left + more } else { left };
        if attributes > MOST_ATTRIBUTES || left < steps {
            self.info.allowance.exceed();
            return false;
        }
        self.steps.set(left - steps);
        true
    }

    /// One that keeps nothing beyond its own life.
    pub fn once(self, allowance: &'u Allowance) -> Self {
        DieReader { once: Some(OnceCell::new()), allowance, ..self }
    }

    /// The name of the function at `die` in this unit.
    pub fn name(&self, die: UnitOffset) -> FunctionName {
        self.cached(NameKey::Unit(self.index, die.0), || {
            self.find(self.unit, self.holder, die, MOST_HOPS, None)
        })
    }

    /// Whether the function at `die` in this unit has a name that is looked for.
    pub fn matches(&self, die: UnitOffset, pattern: &FunctionPattern<'_>) -> bool {
        let written = self.find(self.unit, self.holder, die, MOST_HOPS, Some(pattern));
        written.is_some_and(|written| written.name().matches(pattern.text))
    }

    /// Whether the function that an attribute of this unit refers to has a name that is looked for.
    pub fn refers_to(&self, reference: AttributeValue<Bytes<'a>>, pattern: &FunctionPattern<'_>) -> bool {
        let written = self.follow(self.unit, self.holder, reference, MOST_HOPS, Some(pattern));
        written.is_some_and(|written| written.name().matches(pattern.text))
    }

    /// The name of the function that an attribute of this unit refers to.
    pub fn referred_name(&self, reference: AttributeValue<Bytes<'a>>) -> FunctionName {
        let Some(key) = self.key(reference) else { return FunctionName::unknown() };
        self.cached(key, || self.follow(self.unit, self.holder, reference, MOST_HOPS, None))
    }

    /// What tells the entry that an attribute of this unit refers to from others.
    pub fn key(&self, reference: AttributeValue<Bytes<'a>>) -> Option<NameKey> {
        match reference {
            AttributeValue::UnitRef(die) => Some(NameKey::Unit(self.index, die.0)),
            AttributeValue::DebugInfoRef(die) => Some(NameKey::Main(die.0)),
            AttributeValue::DebugInfoRefSup(die) => Some(NameKey::Supplementary(die.0)),
            _ => None,
        }
    }

    fn subprograms(&self) -> &Subprograms {
        match &self.once {
            Some(once) => once.get_or_init(|| Subprograms::read(self)),
            None => self.info.subprograms(self.index),
        }
    }

    fn cached(&self, key: NameKey, find: impl FnOnce() -> Option<Written<'a>>) -> FunctionName {
        let names = || self.info.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names().get(&key) {
            return name.clone();
        }
        let name = find().map_or_else(FunctionName::unknown, |written| written.name());
        if self.info.allowance.bytes(size_of::<(NameKey, FunctionName)>() + 2 * name.full().len()) {
            names().insert(key, name.clone());
        }
        name
    }

    /// `pattern`: other names are never asked for.
    fn find(
        &self,
        unit: UnitRef<'_, Bytes<'a>>,
        holder: Holder,
        die: UnitOffset,
        hops: u32,
        pattern: Option<&FunctionPattern<'_>>,
    ) -> Option<Written<'a>> {
        if !die.is_in_bounds(&unit.header) {
            return None;
        }
        let mut entries = self.info.note(unit.entries_raw(Some(die)))?;
        let abbreviation = self.info.note(entries.read_abbreviation())??;
        if !self.allows(abbreviation) {
            return None;
        }
        let mut plain = None;
        let mut origin = None;
        for specification in abbreviation.attributes() {
            let attribute = self.info.note(entries.read_attribute(*specification))?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    let text = self.info.note(unit.attr_string(attribute.value()))?.text();
                    let asked = pattern.is_none_or(|pattern| pattern.may_match(&text));
                    return asked.then_some(Written { outer: None, text });
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
            && let Some(written) = self.follow(unit, holder, origin, hops, pattern)
        {
            return Some(written);
        }
        let text = plain?.text();
        if pattern.is_some_and(|pattern| !pattern.may_match(&text)) {
            return None;
        }
        let ours = holder == self.holder && unit.header.offset() == self.unit.header.offset();
        let outer = if ours { self.subprograms().outer(die).map(str::to_owned) } else { None };
        Some(Written { outer, text })
    }

    fn follow(
        &self,
        unit: UnitRef<'_, Bytes<'a>>,
        holder: Holder,
        reference: AttributeValue<Bytes<'a>>,
        hops: u32,
        pattern: Option<&FunctionPattern<'_>>,
    ) -> Option<Written<'a>> {
        let hops = hops.checked_sub(1)?;
        let (holder, offset) = match reference {
            AttributeValue::UnitRef(die) => return self.find(unit, holder, die, hops, pattern),
            AttributeValue::DebugInfoRef(offset) => (holder, offset),
            AttributeValue::DebugInfoRefSup(offset) => (Holder::Supplementary, offset),
            _ => return None,
        };
        let (dwarf, headers) = match holder {
            Holder::Main => (self.dwarf, &self.info.headers),
            Holder::Supplementary => (self.dwarf.sup()?, &self.info.supplementary_headers),
            Holder::Split => return None,
        };
        let next = headers.partition_point(|start| *start <= offset.0);
        let start = *headers.get(next.checked_sub(1)?)?;
        let other = self.other(dwarf, holder, start)?;
        let die = offset.to_unit_offset(&other.header)?;
        self.find(other.unit_ref(dwarf), holder, die, hops, pattern)
    }

    fn other(&self, dwarf: &Dwarf<Bytes<'a>>, holder: Holder, start: usize) -> Option<Rc<Unit<Bytes<'a>>>> {
        let read = || {
            let header = dwarf.unit_header(DebugInfoOffset(start));
            let unit = header.and_then(|header| read_unit(dwarf, header));
            self.info.note(unit).map(Rc::new)
        };
        self.others.borrow_mut().entry((holder, start)).or_insert_with(read).clone()
    }
}
