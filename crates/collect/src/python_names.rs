//! What Python's code objects are called, as their process has it in memory. All of it may be forged.

use crate::python_layout::NameLayout;
use kernel::process_memory::ProcessMemory;

/// What a code object is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeName {
    /// The source file, or something else in angle brackets.
    pub file: String,
    /// With the names of what it is in: `Class.method`.
    pub function: String,
    /// Where those are, and the line.
    pub places: Places,
}

/// Where a code object has its names, and its first line: other code at the same address has others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    file: u64,
    qualified: u64,
    line: u32,
}

/// Characters of a name that are kept.
const LONGEST: usize = 200;
/// What says that it has more characters is no string: no function is called so.
const MOST: usize = 1 << 24;

impl Places {
    /// Those of the code object at an address.
    pub fn read(memory: &ProcessMemory, layout: &NameLayout, code: u64) -> Option<Self> {
        let at = |place: u64| code.checked_add(place);
        let mut line = [0; 4];
        memory.read(at(layout.line)?, &mut line).ok()?;
        Some(Self {
            file: memory.word(at(layout.file)?)?,
            qualified: memory.word(at(layout.qualified)?)?,
            line: u32::from_ne_bytes(line),
        })
    }
}

impl CodeName {
    /// That of the code object at an address; nothing if there is none.
    pub fn read(memory: &ProcessMemory, layout: &NameLayout, code: u64) -> Option<Self> {
        let places = Places::read(memory, layout, code)?;
        let file = text(memory, layout, places.file, Kept::End)?;
        let function = text(memory, layout, places.qualified, Kept::Begin)?;
        Some(Self { file, function, places })
    }
}

/// Which part of a text is kept that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Begin,
    End,
}

/// The string object at an address, which has its characters behind it (PEP 393).
fn text(memory: &ProcessMemory, layout: &NameLayout, string: u64, kept: Kept) -> Option<String> {
    let at = |place: u64| string.checked_add(place);
    let length = usize::try_from(memory.word(at(layout.length)?)?).ok().filter(|length| *length <= MOST)?;
    let mut state = [0; 4];
    memory.read(at(layout.state)?, &mut state).ok()?;
    let (characters, width) = characters(u32::from_ne_bytes(state))?;
    let begin = if characters == Characters::Ascii { layout.ascii } else { layout.other };
    let left_out = if kept == Kept::End { length.saturating_sub(LONGEST) } else { 0 };
    let begin = at(begin)?.checked_add(left_out.checked_mul(width)? as u64)?;
    let mut bytes = vec![0; length.min(LONGEST) * width];
    memory.read(begin, &mut bytes).ok()?;
    let decoded: String = match width {
        1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        2 => char::decode_utf16(bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_ne_bytes(*unit)))
            .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
        _ => {
            let units = bytes.as_chunks::<4>().0.iter().map(|unit| u32::from_ne_bytes(*unit));
            units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
    };
    let plain =
        |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    let plain: String = decoded.chars().map(plain).collect();
    let is_whole = length <= LONGEST;
    let whole = match kept {
        _ if is_whole => plain,
        Kept::Begin => plain + "…",
        Kept::End => format!("…{plain}"),
    };
    (!whole.is_empty()).then_some(whole)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Characters {
    Ascii,
    Others,
}

/// What a string's state says of its characters, and how many bytes each has: bits 2 to 4 how many, bit 5 that they are behind it, bit 6 ASCII.
fn characters(state: u32) -> Option<(Characters, usize)> {
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state & 1 << 5 != 0, state & 1 << 6 != 0);
    match (kind, is_compact, is_ascii) {
        (1, true, true) => Some((Characters::Ascii, 1)),
        (1 | 2 | 4, true, false) => Some((Characters::Others, kind as usize)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: NameLayout =
        NameLayout { file: 0, qualified: 8, line: 16, length: 16, state: 32, ascii: 40, other: 56 };

    /// A string object in this process.
    fn string(characters: u32, ascii: bool, compact: bool, length: u64, bytes: &[u8]) -> Vec<u8> {
        let mut object = vec![0; if ascii { 40 } else { 56 }];
        object[16..24].copy_from_slice(&length.to_ne_bytes());
        let state = characters << 2 | u32::from(compact) << 5 | u32::from(ascii) << 6;
        object[32..36].copy_from_slice(&state.to_ne_bytes());
        object.extend_from_slice(bytes);
        object
    }

    fn named(file: &[u8], function: &[u8]) -> Option<(String, String)> {
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let code = [file.as_ptr() as u64, function.as_ptr() as u64, 7];
        let found = CodeName::read(&memory, &LAYOUT, code.as_ptr() as u64)?;
        assert_eq!(Places::read(&memory, &LAYOUT, code.as_ptr() as u64), Some(found.places));
        Some((found.file, found.function))
    }

    #[test]
    fn strings_of_every_kind_are_read() {
        let ascii = |text: &str| string(1, true, true, text.len() as u64, text.as_bytes());
        let wide = |text: &str| {
            let units: Vec<u16> = text.encode_utf16().collect();
            let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_ne_bytes()).collect();
            string(2, false, true, units.len() as u64, &bytes)
        };
        let widest = |text: &str| {
            let bytes: Vec<u8> = text.chars().flat_map(|unit| u32::from(unit).to_ne_bytes()).collect();
            string(4, false, true, text.chars().count() as u64, &bytes)
        };
        let of = |file: &str, function: &str| Some((file.to_owned(), function.to_owned()));
        assert_eq!(named(&ascii("/a.py"), &ascii("A.b")), of("/a.py", "A.b"));
        assert_eq!(named(&wide("/ж.py"), &widest("🐍.b")), of("/ж.py", "🐍.b"));
        assert_eq!(
            named(&string(1, false, true, 1, &[0xe9]), &ascii("b\n\u{1b}[2J")),
            of("é", "b\u{fffd}\u{fffd}[2J")
        );
        let (long, letters) = ("x".repeat(LONGEST), "x".repeat(1000));
        assert_eq!(named(&ascii(&letters), &ascii(&letters)), of(&format!("…{long}"), &format!("{long}…")));
    }

    #[test]
    fn what_is_no_string_has_no_name() {
        let good = string(1, true, true, 1, b"a");
        for bad in [
            string(1, true, true, u64::MAX, b"a"),
            string(1, true, true, 0, b""),
            string(1, true, false, 1, b"a"),
            string(3, false, true, 1, b"aaaa"),
            string(0, true, true, 1, b"a"),
        ] {
            assert_eq!(named(&bad, &good), None);
            assert_eq!(named(&good, &bad), None);
        }
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        for nowhere in [0, 8, u64::MAX - 4, 1 << 63] {
            assert_eq!(CodeName::read(&memory, &LAYOUT, nowhere), None);
        }
    }
}
