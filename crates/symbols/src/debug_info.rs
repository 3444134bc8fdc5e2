//! The DWARF sections of an image, and its compilation units, each understood when first asked for.
//!
//! Sections are read as far as they are asked for, and everything that is kept is owned; `gimli`'s borrowed readers
//! live only as long as one question. That avoids a self-referential struct, at the price of
//! parsing a unit's header and abbreviations again for each new function (microseconds).

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use gimli::{
    DebugInfoOffset, Dwarf, DwarfPackageSections, DwarfSections, Reader as _, RunTimeEndian, Section as _,
    SectionId, Unit, UnitType,
};

use crate::allowance::{Allowance, LONGEST_ABBREVIATIONS, MOST_ATTRIBUTES};
use crate::debug_file::Files;
use crate::die_name::{DieReader, NameKey};
use crate::elf::Elf;
use crate::function_name::FunctionName;
use crate::line_table::{self, LineTable};
use crate::path::join;
use crate::range_index::{Entry, RangeIndex};
use crate::section::{Bytes, LARGE_PAGE, PAGE, Section};
use crate::subprograms::Subprograms;

type Sections = DwarfSections<Section>;

/// All that is known of an image's debug information.
pub(crate) struct DebugInfo {
    sections: Sections,
    supplementary: Option<Sections>,
    package: Option<DwarfPackageSections<Section>>,
    endian: RunTimeEndian,
    /// Where the image has code; the linker discarded what the debug information describes elsewhere.
    code: Vec<Range<u64>>,
    /// Where the units start in `.debug_info`, ascending; partial units included.
    pub(crate) headers: Vec<usize>,
    pub(crate) supplementary_headers: Vec<usize>,
    units: Vec<CompileUnit>,
    ranges: RangeIndex<usize>,
    pub(crate) names: Mutex<HashMap<NameKey, FunctionName>>,
    damage: Mutex<Option<String>>,
    pub(crate) allowance: Allowance,
    /// The bytes of all its sections.
    size: u64,
}

/// What the walk over all units finds.
struct Found {
    headers: Vec<usize>,
    supplementary_headers: Vec<usize>,
    units: Vec<CompileUnit>,
    ranges: Vec<Entry<usize>>,
}

/// One compilation unit.
struct CompileUnit {
    offset: usize,
    /// The file that was given to the compiler.
    main_file: Option<String>,
    lines: OnceLock<LineTable>,
    subprograms: OnceLock<Subprograms>,
    /// The unit's `.dwo` file, if it is split and the file was found.
    split: OnceLock<Option<Sections>>,
}

impl DebugInfo {
    /// Reads the sections and finds the units' address ranges; nothing below the units' roots.
    pub fn read(files: &Files) -> Option<DebugInfo> {
        let elf = files.debug()?;
        let sections = load(elf, false, PAGE);
        let supplementary = files.supplementary().map(|elf| load(elf, false, PAGE));
        let package = files.package().and_then(|elf| {
            let read = |id: SectionId| Ok::<_, gimli::Error>(section(&elf, id.dwo_name(), PAGE));
            DwarfPackageSections::load(read).ok()
        });
        let endian = if elf.headers.little_endian { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let size = size(&sections) + supplementary.as_ref().map_or(0, size);
        let mut info = DebugInfo {
            allowance: Allowance::of_size(size),
            size,
            sections,
            supplementary,
            package,
            endian,
            code: files.image.code(),
            headers: Vec::new(),
            supplementary_headers: Vec::new(),
            units: Vec::new(),
            ranges: RangeIndex::new(Vec::new()),
            names: Mutex::default(),
            damage: Mutex::default(),
        };
        let units = info.find_units();
        info.headers = units.headers;
        info.supplementary_headers = units.supplementary_headers;
        info.units = units.units;
        info.ranges = RangeIndex::new(units.ranges);
        Some(info)
    }

    fn find_units(&self) -> Found {
        let mut headers = Vec::new();
        let mut supplementary_headers = Vec::new();
        let mut units = Vec::new();
        let mut ranges = Vec::new();
        let dwarf = self.dwarf();
        if let Some(supplementary) = dwarf.sup() {
            let mut iter = supplementary.units();
            while let Some(header) = self.note(iter.next()).flatten() {
                supplementary_headers.extend(header.debug_info_offset().map(|offset| offset.0));
            }
        }
        let mut iter = dwarf.units();
        while let Some(header) = self.note(iter.next()).flatten() {
            let Some(DebugInfoOffset(offset)) = header.debug_info_offset() else { continue };
            headers.push(offset);
            if !matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
                continue;
            }
            let before = self.abbreviations_asked();
            let unit = self.note(read_unit(&dwarf, header));
            // A unit's abbreviations are read for each unit, even if many share them.
            let pages = self.abbreviations_asked() - before;
            if !self.allowance.steps(UNIT_STEPS + pages * PAGE as u64 / 4) {
                break;
            }
            let Some(unit) = unit else { continue };
            let index = units.len();
            let (found, lines) = self.unit_ranges(&dwarf, &unit);
            let main_file = main_file(&unit);
            let kept = size_of::<CompileUnit>()
                + main_file.as_ref().map_or(0, String::len)
                + found.len() * size_of::<Entry<usize>>();
            if !self.allowance.bytes(kept) {
                break;
            }
            ranges.extend(found.into_iter().map(|range| Entry { range, value: index }));
            units.push(CompileUnit {
                offset,
                main_file,
                lines: lines.map_or_else(OnceLock::new, OnceLock::from),
                subprograms: OnceLock::new(),
                split: OnceLock::new(),
            });
        }
        Found { headers, supplementary_headers, units, ranges }
    }

    /// How many pages of abbreviations have been read, again and again.
    fn abbreviations_asked(&self) -> u64 {
        let mut asked = 0;
        self.sections.debug_abbrev.borrow(|section| {
            asked = section.asked();
            section.bytes(self.endian)
        });
        asked
    }

    /// Where a unit has code: as its root says, otherwise as its line table says.
    fn unit_ranges(
        &self,
        dwarf: &Dwarf<Bytes<'_>>,
        unit: &Unit<Bytes<'_>>,
    ) -> (Vec<Range<u64>>, Option<LineTable>) {
        let mut found = Vec::new();
        if let Some(mut ranges) = self.note(dwarf.unit_ranges(unit)) {
            while let Ok(Some(range)) = ranges.next()
                && self.allowance.steps(1)
            {
                if self.is_code(range.begin) {
                    found.push(range.begin..range.end);
                }
            }
        }
        if !found.is_empty() {
            return (found, None);
        }
        let lines = LineTable::read(unit.unit_ref(dwarf), &self.code, &self.allowance);
        for span in lines.all() {
            match found.last_mut() {
                Some(last) if last.end == span.start => last.end = span.end,
                _ => found.push(span.start..span.end),
            }
        }
        (found, Some(lines))
    }

    /// Whether the image has code at `address`.
    pub fn is_code(&self, address: u64) -> bool {
        address != 0 && self.code.iter().any(|code| code.contains(&address))
    }

    /// The first thing that was found damaged.
    pub fn damage(&self) -> Option<String> {
        let large = self.allowance.is_exceeded().then(|| {
            "debug information: it describes far more than a file of its size does if a compiler has made it, so some of it \
             is not read"
                .to_owned()
        });
        large.or_else(|| self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Keeps the first error for [`DebugInfo::damage`].
    pub fn note<T>(&self, result: gimli::Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                let mut damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
                damage.get_or_insert_with(|| format!("debug information: {error}"));
            })
            .ok()
    }

    /// All units, by index.
    pub fn units(&self) -> Range<usize> {
        0..self.units.len()
    }

    /// The units that have code in `range`.
    pub fn units_at(&self, range: Range<u64>) -> Vec<usize> {
        let mut units: Vec<usize> = self.ranges.overlapping(range).map(|entry| entry.value).collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    /// The source file that the unit was compiled from.
    pub fn main_file(&self, unit: usize) -> Option<&str> {
        self.units[unit].main_file.as_deref()
    }

    /// Whether the unit names a source file that is `meant`, whether that has code or not. `may_be` sees the last part of
    /// each name, so that most of them need not be put together.
    pub fn names_file(
        &self,
        unit: usize,
        may_be: impl Fn(&str) -> bool,
        mut meant: impl FnMut(&str) -> bool,
    ) -> bool {
        if let Some(lines) = self.units[unit].lines.get() {
            return lines.files().any(|file| meant(file));
        }
        let dwarf = self.dwarf();
        self.note(self.unit(&dwarf, unit))
            .is_some_and(|unit| line_table::names_file(unit.unit_ref(&dwarf), may_be, meant))
    }

    /// What a question may take of which nothing is kept.
    pub fn allowance_once(&self) -> Allowance {
        Allowance::of_size(self.size)
    }

    /// Calls `f` with the unit's line table, which is kept only if it was already.
    pub fn with_lines<T>(&self, unit: usize, allowance: &Allowance, f: impl FnOnce(&LineTable) -> T) -> T {
        if let Some(lines) = self.units[unit].lines.get() {
            return f(lines);
        }
        let lines = self.read_lines(unit, allowance);
        if allowance.is_exceeded() {
            self.allowance.exceed();
        }
        let answer = f(&lines);
        allowance.give_back(lines.size());
        answer
    }

    /// The unit's line table.
    pub fn lines(&self, unit: usize) -> &LineTable {
        self.units[unit].lines.get_or_init(|| self.read_lines(unit, &self.allowance))
    }

    fn read_lines(&self, unit: usize, allowance: &Allowance) -> LineTable {
        let dwarf = self.dwarf();
        let parsed = self.note(self.unit(&dwarf, unit));
        let read = |unit: Unit<Bytes<'_>>| LineTable::read(unit.unit_ref(&dwarf), &self.code, allowance);
        parsed.map_or_else(LineTable::default, read)
    }

    /// The unit's out-of-line functions.
    pub fn subprograms(&self, unit: usize) -> &Subprograms {
        self.units[unit]
            .subprograms
            .get_or_init(|| self.with_unit(unit, |reader| Subprograms::read(&reader)).unwrap_or_default())
    }

    /// Calls `f` with a reader of the unit's entries: those of its `.dwo` file if it is split.
    pub fn with_unit<T>(&self, index: usize, f: impl FnOnce(DieReader<'_, '_>) -> T) -> Option<T> {
        self.with_unit_of(&self.dwarf(), index, f)
    }

    /// Calls `f` with a reader of each of the units, and keeps nothing of what it reads.
    pub fn read_once(
        &self,
        files: &Files,
        units: Range<usize>,
        allowance: &Allowance,
        mut f: impl FnMut(&DieReader<'_, '_>),
    ) {
        // What is packed cannot be read in parts.
        let elf = files.debug().filter(|elf| elf.content(".debug_info").is_some_and(|it| !it.is_packed()));
        let sections = elf.map(|elf| load(elf, false, LARGE_PAGE));
        let dwarf = self.dwarf_of(sections.as_ref().unwrap_or(&self.sections));
        for unit in units {
            self.with_unit_of(&dwarf, unit, |reader| f(&reader.once(allowance)));
        }
    }

    fn with_unit_of<'a, T>(
        &'a self,
        dwarf: &Dwarf<Bytes<'a>>,
        index: usize,
        f: impl FnOnce(DieReader<'_, 'a>) -> T,
    ) -> Option<T> {
        let unit = self.note(self.unit(dwarf, index))?;
        let Some(id) = unit.dwo_id else {
            return Some(f(DieReader::new(self, dwarf, &unit, index, false)));
        };
        let Some(split) = self.split_dwarf(dwarf, &unit, index, id) else {
            return Some(f(DieReader::new(self, dwarf, &unit, index, true)));
        };
        let header = self.note(split.units().next()).flatten()?;
        let mut split_unit = self.note(read_unit(&split, header))?;
        if split_unit.dwo_id.is_some_and(|theirs| theirs != id) {
            // Compiled again since the program was linked.
            return None;
        }
        split_unit.copy_relocated_attributes(&unit);
        Some(f(DieReader::new(self, &split, &split_unit, index, true)))
    }

    fn split_dwarf<'a>(
        &'a self,
        dwarf: &Dwarf<Bytes<'a>>,
        unit: &Unit<Bytes<'a>>,
        index: usize,
        id: gimli::DwoId,
    ) -> Option<Dwarf<Bytes<'a>>> {
        if let Some(package) = &self.package {
            let package = package.borrow(|section| section.bytes(self.endian), Bytes::empty(self.endian));
            let found = package.and_then(|package| package.find_cu(id, dwarf));
            if let Some(found) = self.note(found).flatten() {
                return Some(found);
            }
        }
        let sections = self.units[index].split.get_or_init(|| {
            let name = self.note(unit.dwo_name()).flatten()?;
            let name = self.note(dwarf.attr_string(unit, name))?;
            let name = self.note(name.all())?;
            let directory = unit.comp_dir.and_then(|directory| directory.all().ok()).unwrap_or_default();
            let path = PathBuf::from(OsStr::from_bytes(&directory)).join(OsStr::from_bytes(&name));
            Some(load(&Elf::open(&path).ok()?, true, PAGE))
        });
        let mut split = sections.as_ref()?.borrow(|section| section.bytes(self.endian));
        split.make_dwo(dwarf);
        Some(split)
    }

    fn dwarf(&self) -> Dwarf<Bytes<'_>> {
        self.dwarf_of(&self.sections)
    }

    fn dwarf_of<'a>(&'a self, sections: &'a Sections) -> Dwarf<Bytes<'a>> {
        sections.borrow_with_sup(self.supplementary.as_ref(), |section| section.bytes(self.endian))
    }

    fn unit<'a>(&self, dwarf: &Dwarf<Bytes<'a>>, index: usize) -> gimli::Result<Unit<Bytes<'a>>> {
        let offset = DebugInfoOffset(self.units[index].offset);
        read_unit(dwarf, dwarf.unit_header(offset)?)
    }
}

/// What a unit takes at least.
const UNIT_STEPS: u64 = 64;

/// The bytes of all sections, unpacked.
fn size(sections: &Sections) -> u64 {
    let mut size = 0;
    sections.borrow(|section| size += section.length() as u64);
    size
}

/// A unit whose abbreviations and whose root are no longer than compilers make them.
pub(crate) fn read_unit<'a>(
    dwarf: &Dwarf<Bytes<'a>>,
    header: gimli::UnitHeader<Bytes<'a>>,
) -> gimli::Result<Unit<Bytes<'a>>> {
    let mut section = *dwarf.debug_abbrev.reader();
    let end = header.debug_abbrev_offset().0.saturating_add(LONGEST_ABBREVIATIONS);
    section.truncate(section.len().min(end))?;
    let abbreviations = gimli::DebugAbbrev::from(section).abbreviations(header.debug_abbrev_offset())?;
    let root = header.entries_raw(&abbreviations, None)?.read_abbreviation()?;
    if root.is_some_and(|root| root.attributes().len() > MOST_ATTRIBUTES) {
        return Err(gimli::Error::Io);
    }
    Unit::new_with_abbreviations(dwarf, header, std::sync::Arc::new(abbreviations))
}

fn main_file(unit: &Unit<Bytes<'_>>) -> Option<String> {
    const LONGEST: usize = 4096;
    let name = unit.name.filter(|name| name.len() <= LONGEST)?.text();
    // rustc adds the codegen unit: `src/main.rs/@/main.8d5a3b`.
    let name = name.split("/@/").next().unwrap_or_default();
    Some(join(&[&unit.comp_dir.map(Bytes::text).unwrap_or_default(), name]))
}

/// `page`: how much of `.debug_info` is read at a time.
fn load(elf: &Elf, split: bool, page: usize) -> Sections {
    let read = |id: SectionId| {
        // The largest sections describe variables, types and macros, which we are never asked about.
        let wanted = matches!(
            id,
            SectionId::DebugAbbrev
                | SectionId::DebugAddr
                | SectionId::DebugInfo
                | SectionId::DebugLine
                | SectionId::DebugLineStr
                | SectionId::DebugStr
                | SectionId::DebugStrOffsets
                | SectionId::DebugRanges
                | SectionId::DebugRngLists
        );
        let name = if split { id.dwo_name() } else { Some(id.name()) };
        // Names lie all over their section, no matter which are asked for.
        let page = if id == SectionId::DebugInfo { page } else { PAGE };
        Ok::<_, Infallible>(if wanted { section(elf, name, page) } else { Section::default() })
    };
    match Sections::load(read) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

fn section(elf: &Elf, name: Option<&'static str>, page: usize) -> Section {
    name.map(|name| Section::of(elf, name, page)).unwrap_or_default()
}
