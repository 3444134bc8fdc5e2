//! A table of the functions of one image: where each begins, how long it is, and its linker name; packed, in one file.
//!
//! Functions are in the order of their offsets in the image's file. Of each there is the distance from the one before it, its length,
//! how much of the name before it its name begins with, and the rest of its name; numbers as LEB128; all of it through zstd. A reader
//! unpacks it as a stream and keeps what it asked for, so it takes little memory however large the table is.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use super::Offset;

/// The file begins with this; another layout has another number.
const MAGIC: &[u8; 8] = b"wfNames1";
/// Magic, CRC-32 of what follows, number of functions, length of what follows.
pub(super) const HEADER: usize = 8 + 4 + 4 + 8;
/// Longer names are left out: the rest of one would name something else.
const LONGEST_NAME: usize = 16 << 10;
/// zstd(1): a fifth smaller than level 3 for about the same time on tables of names.
const LEVEL: i32 = 5;
/// What a compressor looks back, as a power of two: names repeat themselves nearby, and its memory is several times as much.
const WINDOW: u32 = 18;

/// Makes a table, function by function.
pub struct NameTableWriter<W: Write> {
    packed: zstd::Encoder<'static, Summed<W>>,
    /// Of the function before.
    start: u64,
    name: Vec<u8>,
    functions: u32,
    /// Bytes that the packed table may take.
    most: u64,
    row: Vec<u8>,
}

impl<W: Write> NameTableWriter<W> {
    /// An empty one, which may take this many bytes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut to: W, most: u64) -> io::Result<NameTableWriter<W>> {
        to.write_all(&[0; HEADER])?;
        let to = Summed { to, hasher: crc32fast::Hasher::new(), bytes: 0 };
        let mut packed = zstd::Encoder::new(to, LEVEL)?;
        packed.window_log(WINDOW)?;
        Ok(NameTableWriter { packed, start: 0, name: Vec::new(), functions: 0, most, row: Vec::new() })
    }

    /// Adds a function, which begins where the one before it does or later; whether there is room for more.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn push(&mut self, Offset(start): Offset, length: u64, name: &[u8]) -> io::Result<bool> {
        if name.is_empty() || name.len() > LONGEST_NAME || start < self.start {
            return Ok(true);
        }
        let shared = self.name.iter().zip(name).take_while(|(old, new)| old == new).count();
        self.row.clear();
        for number in [start - self.start, length, shared as u64, (name.len() - shared) as u64] {
            leb128(number, &mut self.row);
        }
        self.row.extend_from_slice(&name[shared..]);
        self.packed.write_all(&self.row)?;
        self.start = start;
        self.name.truncate(shared);
        self.name.extend_from_slice(&name[shared..]);
        self.functions = self.functions.saturating_add(1);
        Ok(self.packed.get_ref().bytes < self.most)
    }

    /// How many functions it has.
    #[must_use]
    pub fn functions(&self) -> u32 {
        self.functions
    }

    /// What was written into, with an empty header, and the header that belongs there.
    pub(super) fn finish(self) -> io::Result<(W, [u8; HEADER])> {
        let functions = self.functions;
        let Summed { to, hasher, bytes } = self.packed.finish()?;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&hasher.finalize().to_le_bytes());
        header[12..16].copy_from_slice(&functions.to_le_bytes());
        header[16..].copy_from_slice(&bytes.to_le_bytes());
        Ok((to, header))
    }
}

/// What is written, and its checksum and length.
struct Summed<W> {
    to: W,
    hasher: crc32fast::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The length that a file must have which begins like this; nothing if it is no table.
pub(super) fn length_of(header: &[u8; HEADER]) -> Option<u64> {
    let (magic, rest) = header.split_at(MAGIC.len());
    let length = u64::from_le_bytes(rest[8..].try_into().ok()?);
    (magic == MAGIC).then(|| length.saturating_add(HEADER as u64))
}

/// The linker names of the functions that `wanted` lie in, which are sorted; of functions in one another, that of the innermost. Nothing
/// of a table that is damaged.
pub(super) fn look_up(table: &[u8], wanted: &[Offset]) -> BTreeMap<Offset, String> {
    let found = || -> Option<BTreeMap<Offset, String>> {
        let (header, packed) = table.split_first_chunk::<HEADER>()?;
        let checksum = u32::from_le_bytes(header[8..12].try_into().ok()?);
        let functions = u32::from_le_bytes(header[12..16].try_into().ok()?);
        let is_whole = length_of(header)? == table.len() as u64 && crc32fast::hash(packed) == checksum;
        if !is_whole {
            return None;
        }
        let unpacked = zstd::Decoder::with_buffer(packed).ok()?;
        search(&mut BufReader::new(unpacked), functions, wanted)
    };
    found().unwrap_or_default()
}

/// A function that contains what is wanted.
struct Found {
    start: u64,
    end: u64,
    name: Vec<u8>,
}

fn search(rows: &mut impl BufRead, functions: u32, wanted: &[Offset]) -> Option<BTreeMap<Offset, String>> {
    let mut best: BTreeMap<Offset, Found> = BTreeMap::new();
    let (mut start, mut name) = (0_u64, Vec::new());
    let last = wanted.last()?.0;
    for _ in 0..functions {
        start = start.checked_add(number(rows)?)?;
        let end = start.saturating_add(number(rows)?);
        let shared = usize::try_from(number(rows)?).ok()?;
        let rest = usize::try_from(number(rows)?).ok()?;
        if shared > name.len() || rest > LONGEST_NAME {
            return None;
        }
        name.truncate(shared);
        let before = name.len();
        name.resize(before + rest, 0);
        rows.read_exact(&mut name[before..]).ok()?;
        if start > last {
            break;
        }
        let first = wanted.partition_point(|offset| offset.0 < start);
        for offset in wanted[first..].iter().take_while(|offset| offset.0 < end) {
            // One that begins later is inside; of two that begin together the shorter one.
            let is_better =
                |old: &Found| (start, std::cmp::Reverse(end)) >= (old.start, std::cmp::Reverse(old.end));
            if best.get(offset).is_none_or(is_better) {
                best.insert(*offset, Found { start, end, name: name.clone() });
            }
        }
    }
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    Some(best.into_iter().map(|(offset, found)| (offset, text(&found.name))).collect())
}

fn leb128(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn number(from: &mut impl Read) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte).ok()?;
        number |= u64::from(byte[0] & 0x7f).checked_shl(shift)?;
        if byte[0] & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(writer: NameTableWriter<Vec<u8>>) -> Vec<u8> {
        let (mut table, header) = writer.finish().unwrap();
        table[..HEADER].copy_from_slice(&header);
        table
    }

    fn table(functions: &[(u64, u64, &str)]) -> Vec<u8> {
        let mut writer = NameTableWriter::new(Vec::new(), 1 << 20).unwrap();
        for (start, length, name) in functions {
            assert!(writer.push(Offset(*start), *length, name.as_bytes()).unwrap());
        }
        finish(writer)
    }

    fn names(table: &[u8], wanted: &[u64]) -> Vec<(u64, String)> {
        let wanted: Vec<Offset> = wanted.iter().copied().map(Offset).collect();
        look_up(table, &wanted).into_iter().map(|(Offset(offset), name)| (offset, name)).collect()
    }

    #[test]
    fn the_innermost_function_names_a_position() {
        let table = table(&[
            (0x100, 0x1000, "outer"),
            (0x200, 0x80, "inner"),
            (0x200, 0x10, "innermost"),
            (0x300_0000_0000, 1, "far"),
        ]);
        let found = names(&table, &[0xff, 0x100, 0x20f, 0x210, 0x280, 0x10ff, 0x1100, 0x300_0000_0000]);
        let found: Vec<(u64, &str)> = found.iter().map(|(offset, name)| (*offset, name.as_str())).collect();
        assert_eq!(
            found,
            [
                (0x100, "outer"),
                (0x20f, "innermost"),
                (0x210, "inner"),
                (0x280, "outer"),
                (0x10ff, "outer"),
                (0x300_0000_0000, "far"),
            ]
        );
    }

    #[test]
    fn many_names_are_kept_and_what_cannot_be_is_left_out() {
        let long = "n".repeat(LONGEST_NAME + 1);
        let mut writer = NameTableWriter::new(Vec::new(), 1 << 20).unwrap();
        for nth in 0..20_000_u64 {
            let name = format!("_ZN7project6module8function{nth}E");
            assert!(writer.push(Offset(nth * 64), 64, name.as_bytes()).unwrap());
        }
        writer.push(Offset(20_000 * 64), 64, long.as_bytes()).unwrap();
        writer.push(Offset(64), 64, b"too late").unwrap();
        assert_eq!(writer.functions(), 20_000);
        let table = finish(writer);
        assert!(table.len() < 60_000, "{}", table.len());
        let found = names(&table, &[64 * 777 + 63, 64 * 19_999, 20_000 * 64]);
        let name = |nth: u64| format!("_ZN7project6module8function{nth}E");
        assert_eq!(found, [(64 * 777 + 63, name(777)), (64 * 19_999, name(19_999))]);
        // It says when there is no room for more.
        let mut full = NameTableWriter::new(Vec::new(), 1000).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        assert!((0..100_000_u64).any(|at| {
            let name: Vec<u8> = (0..100).map(|_| random.u8(1..)).collect();
            !full.push(Offset(at), 1, &name).unwrap()
        }));
    }

    #[test]
    fn a_damaged_table_names_nothing() {
        let whole = table(&[(0x100, 0x1000, "outer"), (0x200, 0x80, "inner")]);
        assert_eq!(names(&whole, &[0x210]).len(), 1);
        for length in 0..whole.len() {
            assert_eq!(names(&whole[..length], &[0x210]), []);
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 0x10;
            let found = names(&other, &[0x210]);
            // The number of functions is not in the checksum: fewer are known then.
            assert!(found.is_empty() || (12..16).contains(&place), "{place}: {found:?}");
        }
    }
}
