//! Where the callers of one function are, without reading what is written down for all others.
//!
//! Linkers sort the functions of `.eh_frame` into a table, `.eh_frame_hdr` (LSB Core, 10.6.2), in which one is found by halves. A large
//! program has hundreds of thousands of functions, of which a thousand run.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, EndianSlice, LittleEndian, Reader as _, RegisterRule,
    UnwindContext, UnwindSection as _, X86_64,
};
use object::elf;

use crate::address::{FileOffset, Load, Svma, stated};
use crate::elf::{Content, Elf};
use crate::error::ImageError;
use crate::exports::PythonExports;
use crate::identity::identity;
use crate::unwind::{Caller, UnwindWord, rule};

/// An ELF file, of which it is known where the callers of functions are written down.
#[derive(Debug)]
pub struct CallerLookup {
    file: Arc<File>,
    identity: Option<String>,
    loads: Vec<Load>,
    tables: Option<Tables>,
    python: Option<PythonExports>,
}

/// The sections, and where they are in memory before the load bias is added.
#[derive(Debug)]
struct Tables {
    frames: (Content, u64),
    index: (Content, u64),
    /// How many functions the index has.
    functions: usize,
}

/// From each address or offset to the next one, this is how to find the caller.
type Rows = Vec<(u64, Caller)>;

/// Where the callers of one function are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCallers {
    /// Its code, in the file.
    pub code: Range<u64>,
    /// Ascending: from each offset in the file to the next one, this is how to find the caller.
    pub rows: Rows,
}

/// In front of the index: version, three encodings, the address of `.eh_frame`, how many functions there are.
const HEADER: usize = 12;
/// What linkers write: version 1; addresses of 32 bits relative to the place or to the section, and a count of 32 bits.
const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// The address of a function, and that of what is written down for it.
const ENTRY: usize = 8;
/// No function has more written down, nor have several in common.
const LONGEST: u32 = 1 << 16;
const SHORTEST: u32 = 8;
/// No function has more rows.
const MOST_ROWS: usize = 1 << 12;

impl CallerLookup {
    /// Opens a file. Reads headers only.
    ///
    /// # Errors
    /// As for [`Image::open`](crate::Image::open).
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let elf = Elf::open(path)?;
        let is_known = elf.headers.machine == elf::EM_X86_64 && elf.headers.is_64;
        let tables = if is_known { Tables::of(&elf) } else { None };
        let identity = identity(&elf);
        let python = if is_known { PythonExports::of(&elf) } else { None };
        Ok(Self { file: elf.file, identity, loads: elf.headers.loads, tables, python })
    }

    /// See [`Image::identity`](crate::Image::identity).
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Whether anything is written down, in the form that linkers give it.
    #[must_use]
    pub fn has_tables(&self) -> bool {
        self.tables.is_some()
    }

    /// The Python interpreter in it, if there is one.
    #[must_use]
    pub fn python(&self) -> Option<&PythonExports> {
        self.python.as_ref()
    }

    /// What is read.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the callers of the function at `offset` in the file are; `None` if that is written down nowhere.
    #[must_use]
    pub fn function(&self, offset: FileOffset) -> Option<FunctionCallers> {
        let (load, Svma(address)) = stated(&self.loads, offset).filter(|(load, _)| load.executable)?;
        let in_file = |address: u64| load.offset.0.checked_add(address.checked_sub(load.address.0)?);
        let tables = self.tables.as_ref()?;
        let (code, rows) = tables.function(tables.find(address)?)?;
        if !code.contains(&address) {
            return None;
        }
        let rows = rows.into_iter().map(|(at, caller)| Some((in_file(at)?, caller)));
        Some(FunctionCallers {
            code: in_file(code.start)?..in_file(code.end)?,
            rows: rows.collect::<Option<_>>()?,
        })
    }
}

impl Tables {
    fn of(elf: &Elf) -> Option<Self> {
        let section = |name| {
            Some((elf.content(name).filter(|content| !content.is_packed())?, elf.section_address(name)?))
        };
        let (frames, index) = (section(".eh_frame")?, section(".eh_frame_hdr")?);
        let (header, _) = index.0.read(0, HEADER.min(index.0.length()))?;
        let (encodings, count) = (header.first_chunk::<4>()?, header.get(8..)?.first_chunk::<4>()?);
        let room = (index.0.length() - HEADER) / ENTRY;
        let functions = usize::try_from(u32::from_le_bytes(*count)).ok()?.min(room);
        (*encodings == USUAL).then_some(Self { frames, index, functions })
    }

    /// The place in `.eh_frame` of the last function that begins at `address` or before it.
    fn find(&self, address: u64) -> Option<usize> {
        let (index, base) = &self.index;
        // The last steps are within one piece.
        const PIECE: usize = 64;
        let word = |entry: &[u8]| i64::from(i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
        let is_after = |entry: &[u8]| base.wrapping_add_signed(word(entry)) > address;
        let (mut from, mut to) = (0, self.functions);
        while to - from > PIECE {
            let middle = from + (to - from) / 2;
            let (entry, _) = index.read(HEADER + middle * ENTRY, ENTRY)?;
            if is_after(&entry) { to = middle } else { from = middle }
        }
        let (piece, _) = index.read(HEADER + from * ENTRY, (to - from) * ENTRY)?;
        let entries = piece.as_chunks::<ENTRY>().0;
        let entry = entries[..entries.partition_point(|entry| !is_after(entry))].last()?;
        usize::try_from(base.wrapping_add_signed(word(&entry[4..])).checked_sub(self.frames.1)?).ok()
    }

    /// What is written down at a place: the function's code, and its rows, as addresses in memory.
    fn function(&self, at: usize) -> Option<(Range<u64>, Rows)> {
        let own = self.entry(at)?;
        // The function refers to what it has in common with others, counted backwards from the word that says so.
        let back = usize::try_from(u32::from_le_bytes(*own.get(4..)?.first_chunk()?)).ok()?;
        let mut common = self.entry((at + 4).checked_sub(back)?)?;
        // Both by themselves, one behind the other.
        let length = common.len();
        common.extend(&own);
        common[length + 4..length + 8].copy_from_slice(&u32::try_from(length + 4).ok()?.to_le_bytes());
        let address = self.frames.1.wrapping_add(at as u64).wrapping_sub(length as u64);
        let section = EhFrame::new(&common, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let function =
            section.fde_from_offset(&bases, EhFrameOffset(length), EhFrame::cie_from_offset).ok()?;
        let code = function.initial_address()..function.initial_address().checked_add(function.len())?;
        let mut context = UnwindContext::new();
        let mut table = function.rows(&section, &bases, &mut context).ok()?;
        let mut rows = Rows::new();
        while let Ok(Some(row)) = table.next_row()
            && rows.len() < MOST_ROWS
        {
            let caller = match row.cfa() {
                CfaRule::Expression(at) if is_stub(&common, at) => Caller::OfStub,
                CfaRule::Expression(at) => by_word(&common, at, row.register(X86_64::RBP)),
                cfa => rule(cfa, row.register(X86_64::RA), row.register(X86_64::RBP)),
            };
            // It is written down, but not understood: there is nothing to guess.
            let caller = if caller == Caller::Unknown { Caller::Opaque } else { caller };
            if rows.last().is_none_or(|(_, before)| *before != caller) {
                rows.push((row.start_address(), caller));
            }
        }
        Some((code, rows))
    }

    /// One entry of `.eh_frame`, with its length in front.
    fn entry(&self, at: usize) -> Option<Vec<u8>> {
        let (frames, _) = &self.frames;
        let within = |length: usize| at.checked_add(length).is_some_and(|end| end <= frames.length());
        let (length, _) = within(4).then(|| frames.read(at, 4)).flatten()?;
        let length = u32::from_le_bytes(*length.first_chunk()?);
        let whole = 4 + usize::try_from(length).ok()?;
        if !(SHORTEST..=LONGEST).contains(&length) || !within(whole) {
            return None;
        }
        frames.read(at, whole).map(|(bytes, _)| bytes)
    }
}

/// What compilers write where a function has aligned its stack anew: what lies at a register plus a number, and perhaps a number more.
fn by_word(
    entries: &[u8],
    cfa: &gimli::UnwindExpression<usize>,
    frame_pointer: Option<RegisterRule<usize>>,
) -> Caller {
    const DEREFERENCE: u8 = 0x06;
    const PLUS: u8 = 0x23;
    /// What lies where the frame pointer points.
    const AT_FRAME_POINTER: [u8; 2] = [0x76, 0x00];
    let read = || {
        let mut bytes = EndianSlice::new(bytes_of(entries, cfa), LittleEndian);
        let from_frame_pointer = match bytes.read_u8().ok()? {
            0x76 => true,
            0x77 => false,
            _ => return None,
        };
        let at = i32::try_from(bytes.read_sleb128().ok()?).ok()?;
        let plus = match (bytes.read_u8().ok()?, bytes.is_empty()) {
            (DEREFERENCE, true) => 0,
            (DEREFERENCE, false) if bytes.read_u8().ok()? == PLUS => {
                u32::try_from(bytes.read_uleb128().ok()?).ok()?
            }
            _ => return None,
        };
        let saved = match frame_pointer? {
            RegisterRule::Offset(offset) => Some(u32::try_from(offset.checked_neg()?).ok()?),
            RegisterRule::Expression(at) if bytes_of(entries, &at) == AT_FRAME_POINTER => None,
            _ => return None,
        };
        bytes.is_empty().then_some(UnwindWord { from_frame_pointer, at, plus, saved })
    };
    read().map_or(Caller::Unknown, Caller::ByWord)
}

fn bytes_of<'a>(entries: &'a [u8], expression: &gimli::UnwindExpression<usize>) -> &'a [u8] {
    let end = expression.offset.saturating_add(expression.length);
    entries.get(expression.offset..end).unwrap_or_default()
}

/// Whether an expression is the one that linkers write for the stubs through which other images are called: eight bytes above the stack
/// pointer, and eight more after the stub has pushed a number, which it does in its last bytes (16 in all).
fn is_stub(entries: &[u8], expression: &gimli::UnwindExpression<usize>) -> bool {
    const BEGINS: [u8; 6] = [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a];
    const ENDS: [u8; 4] = [0x2a, 0x33, 0x24, 0x22];
    let bytes = bytes_of(entries, expression);
    // Between them: since which byte; 11, and 10 where the stub begins with a landing pad.
    bytes.len() == 11 && bytes.starts_with(&BEGINS) && bytes.ends_with(&ENDS) && bytes[6] == 0x3b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;

    #[test]
    fn one_function_has_the_rules_that_all_together_have() {
        let path = std::env::current_exe().unwrap();
        let (lookup, image) = (CallerLookup::open(&path).unwrap(), Image::open(&path).unwrap());
        assert_eq!(lookup.identity(), image.identity().as_deref());
        let all = image.unwind_rules();
        let (mut compared, mut random) = (0, fastrand::Rng::with_seed(5));
        let known: Vec<_> = all.windows(2).filter(|pair| pair[0].1 != Caller::Unknown).collect();
        assert!(known.len() > 1000);
        for _ in 0..2000 {
            let pair = known[random.usize(..known.len())];
            let ((start, caller), (end, _)) = (pair[0], pair[1]);
            let address = random.u32(start..end);
            let offset = image.file_offset(crate::Svma(address.into())).unwrap();
            let function = lookup.function(offset).unwrap_or_else(|| panic!("{address:#x}"));
            assert!(function.code.contains(&offset.0), "{address:#x}");
            let row = function.rows.partition_point(|(at, _)| *at <= offset.0) - 1;
            let found = function.rows[row].1;
            if !matches!(found, Caller::OfStub | Caller::ByWord(_) | Caller::Opaque) {
                assert_eq!(found, caller, "{address:#x}");
                compared += 1;
            }
        }
        assert!(compared > 1900, "{compared}");
        assert_eq!(lookup.function(FileOffset(0)), None);
    }

    #[test]
    fn damage_is_no_panic() {
        let original = std::fs::read("/bin/ls").unwrap();
        let folder = std::env::temp_dir().join(format!("whatif-callers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("damaged");
        let image = Image::open(Path::new("/bin/ls")).unwrap();
        let mut places = Vec::new();
        for name in [".eh_frame", ".eh_frame_hdr"] {
            let range = image.elf().section_range(name).unwrap();
            let start = image.file_offset(crate::Svma(range.start)).unwrap().0 as usize;
            places.push(start..start + (range.end - range.start) as usize);
        }
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..60 {
            let mut bytes = original.clone();
            for _ in 0..1 + round * 5 {
                let place = &places[random.usize(..2)];
                bytes[random.usize(place.clone())] = random.u8(..);
            }
            std::fs::write(&path, &bytes).unwrap();
            let Ok(lookup) = CallerLookup::open(&path) else { continue };
            let load = lookup.loads.iter().find(|load| load.executable).unwrap();
            let code = load.offset.0..load.offset.0 + load.file_size;
            for _ in 0..300 {
                if let Some(function) = lookup.function(FileOffset(random.u64(code.clone()))) {
                    assert!(function.rows.len() <= MOST_ROWS);
                }
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
