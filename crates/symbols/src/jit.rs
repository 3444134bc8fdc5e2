//! Code that a program makes while it runs, as its runtime writes it down for profilers: `/tmp/perf-PID.map`, a line for each
//! function with address, size (both hexadecimal) and name (Linux, tools/perf/Documentation/jit-interface.txt); or a *jitdump*
//! file, with lines and the code itself (jitdump-specification.txt in the same folder), which the program maps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::address::Svma;
use crate::function_name::FunctionName;
use crate::segment::{Frame, Segment};

/// A function that was made, and what is known of its lines.
#[derive(Debug, Clone)]
struct Made {
    name: FunctionName,
    lines: Lines,
}

/// From each address on: file and line.
type Lines = Box<[(u64, Arc<str>, u32)]>;

/// A name that is longer is cut, in bytes.
const LONGEST_NAME: usize = 4096;
/// Memory that a function takes besides its name and lines, about, in bytes.
const A_FUNCTION: usize = 120;
/// Memory that a piece of code takes, about, in bytes: functions that were overwritten in part are several.
const A_PIECE: usize = 48;

impl Made {
    /// A name as the runtime has it: what looks like C++ in it is not.
    fn new(name: &str) -> Made {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        Made { name: FunctionName::verbatim(name), lines: Box::default() }
    }

    /// Memory that it takes, about, in bytes.
    fn bytes(&self) -> usize {
        A_FUNCTION + self.name.full().len() + size_of_val(&*self.lines)
    }
}

/// Code that lies together and belongs to one function.
#[derive(Debug)]
struct Piece {
    end: u64,
    made: Arc<Made>,
}

impl Piece {
    /// Memory that it takes, about, in bytes; the function counts for each of its pieces.
    fn bytes(&self) -> usize {
        A_PIECE + self.made.bytes()
    }
}

/// The functions of such files. What was written last about an address counts; functions of which nothing is left are forgotten.
#[derive(Debug)]
pub struct JitMap {
    /// By first address. They do not overlap.
    pieces: BTreeMap<u64, Piece>,
    /// Memory that they take, about, in bytes.
    bytes: usize,
    /// Memory that they may take.
    most: usize,
    is_full: bool,
}

impl JitMap {
    /// No function, and none is taken when those that there are take `most` bytes of memory.
    pub fn limited(most: usize) -> JitMap {
        JitMap { pieces: BTreeMap::new(), bytes: 0, most, is_full: false }
    }

    /// Whether functions were left out because there was no room for them.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// None is taken any more when they take `most` bytes.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Memory that the functions take, about, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more lines of a `perf-PID.map`; what is not understood is passed over. Returns where there is something new.
    pub fn append(&mut self, text: &str) -> Vec<Range<u64>> {
        let entry = |line: &str| {
            let mut words = line.trim().splitn(3, ' ');
            let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (start, size) = (number()?, number()?);
            let name = words.next()?.trim();
            let range = start..start.checked_add(size)?;
            (!name.is_empty()).then(|| (range, Made::new(name)))
        };
        let mut new = Vec::new();
        for (range, made) in text.lines().filter_map(entry) {
            self.take(range, made, &mut new);
        }
        new
    }

    /// Takes what a jitdump file has more than before, and returns where there is something new. When `at_once` bytes have been read the rest
    /// is left for the next time.
    pub fn extend(&mut self, dump: &mut JitDump, at_once: u64) -> Vec<Range<u64>> {
        let mut new = Vec::new();
        dump.read(self, &mut new, at_once);
        new
    }

    /// A function lies here now, in the place of what was there.
    fn take(&mut self, range: Range<u64>, made: Made, new: &mut Vec<Range<u64>>) {
        if range.is_empty() {
            return;
        }
        let piece = Piece { end: range.end, made: Arc::new(made) };
        if self.bytes.saturating_add(piece.bytes()) > self.most {
            self.is_full = true;
            return;
        }
        self.make_room(&range);
        self.put(range.start, piece);
        new.push(range);
    }

    /// Forgets all functions.
    pub fn clear(&mut self) {
        *self = JitMap::limited(self.most);
    }

    /// Takes away what lies in a range.
    fn make_room(&mut self, range: &Range<u64>) {
        while let Some((&start, piece)) = self.pieces.range(..range.end).next_back()
            && piece.end > range.start
        {
            let piece_bytes = piece.bytes();
            let Some(Piece { end, made }) = self.pieces.remove(&start) else { return };
            self.bytes -= piece_bytes;
            if end > range.end {
                self.put(range.end, Piece { end, made: Arc::clone(&made) });
            }
            if start < range.start {
                self.put(start, Piece { end: range.start, made });
            }
        }
    }

    fn put(&mut self, start: u64, piece: Piece) {
        self.bytes += piece.bytes();
        self.pieces.insert(start, piece);
    }

    /// The piece that an address lies in, and its first address.
    fn at(&self, address: u64) -> Option<(u64, &Piece)> {
        let (&start, piece) = self.pieces.range(..=address).next_back()?;
        (address < piece.end).then_some((start, piece))
    }

    /// Whether it has no function.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The name of the function at a process address.
    pub fn name(&self, address: u64) -> Option<&str> {
        Some(self.at(address)?.1.made.name.full())
    }

    /// The function at a process address, cut where its lines change, in process addresses. It counts as code that is in scope.
    pub fn containing(&self, address: u64) -> Option<Vec<Segment>> {
        let (start, Piece { end, made }) = self.at(address)?;
        let Made { name, lines } = &**made;
        let frame = |place: Option<&(u64, Arc<str>, u32)>| Frame {
            function: name.clone(),
            file: place.map(|(_, file, _)| Arc::clone(file)),
            line: place.map(|(.., line)| *line),
            in_scope: true,
        };
        // What comes last before the piece holds at its beginning.
        let first = lines.partition_point(|(at, ..)| *at <= start).saturating_sub(1);
        let inside = lines[first..].iter().take_while(|(at, ..)| at < end);
        let mut starts: Vec<(u64, Frame)> =
            inside.map(|place| (place.0.max(start), frame(Some(place)))).collect();
        if starts.first().is_none_or(|(at, _)| *at > start) {
            starts.insert(0, (start, frame(None)));
        }
        let ends: Vec<u64> = starts.iter().skip(1).map(|(at, _)| *at).chain([*end]).collect();
        let segment = |((start, frame), end)| Segment { range: Svma(start)..Svma(end), frames: vec![frame] };
        Some(starts.into_iter().zip(ends).map(segment).collect())
    }
}

/// A jitdump file that is being written.
#[derive(Debug)]
pub struct JitDump {
    file: File,
    /// How far it has been understood; nothing more is read of one that is damaged.
    at: u64,
    big_endian: bool,
    /// Lines of functions whose code has not come yet, by the address where that will be.
    lines: Vec<(u64, Lines)>,
}

const HEADER: usize = 40;
const RECORD: usize = 16;
/// Debug information of one function that is longer is damage.
const LONGEST: u64 = 64 << 20;
/// Functions whose lines may wait for their code: it follows at once.
const MOST_LINES: usize = 256;
/// Memory that these lines may take, in bytes, but for those of one function.
const MOST_WAITING: usize = 16 << 20;

impl JitDump {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is something else.
    pub fn open(file: File) -> io::Result<JitDump> {
        const MAGIC: u32 = 0x4a69_5444;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let word = |at: usize| -> [u8; 4] { [header[at], header[at + 1], header[at + 2], header[at + 3]] };
        let big_endian = match word(0) {
            magic if u32::from_le_bytes(magic) == MAGIC => false,
            magic if u32::from_be_bytes(magic) == MAGIC => true,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no jitdump file")),
        };
        let length = if big_endian { u32::from_be_bytes(word(8)) } else { u32::from_le_bytes(word(8)) };
        Ok(JitDump { file, at: u64::from(length).max(HEADER as u64), big_endian, lines: Vec::new() })
    }

    /// Reads the records that are complete, until that were so many bytes.
    fn read(&mut self, map: &mut JitMap, new: &mut Vec<Range<u64>>, at_once: u64) {
        let mut header = [0; RECORD];
        let mut bytes = 0;
        while bytes < at_once && self.file.read_exact_at(&mut header, self.at).is_ok() {
            let mut fields = Fields { rest: &header, big_endian: self.big_endian };
            let (Some(kind), Some(length)) = (fields.word(), fields.word().map(u64::from)) else { return };
            let Ok(file) = self.file.metadata() else { return };
            // It is still being written, or it is damaged.
            if length < RECORD as u64 || self.at + length > file.len() {
                return;
            }
            // Of code, only what stands before it.
            const NAMED: u64 = 4096;
            let wanted = if kind == 2 { length.min(LONGEST) } else { length.min(NAMED) };
            let mut record = vec![0; wanted as usize - RECORD];
            if self.file.read_exact_at(&mut record, self.at + RECORD as u64).is_err() {
                return;
            }
            self.at += length;
            bytes += wanted;
            // What does not make sense is passed over.
            let _ = self.record(kind, Fields { rest: &record, big_endian: self.big_endian }, map, new);
        }
    }

    fn record(
        &mut self,
        kind: u32,
        mut fields: Fields<'_>,
        map: &mut JitMap,
        new: &mut Vec<Range<u64>>,
    ) -> Option<()> {
        match kind {
            // Code that was made: process, thread, address in the process twice, size, number, name.
            0 => {
                fields.skip(16)?;
                let (start, size) = (fields.long()?, fields.long()?);
                fields.skip(8)?;
                let known = self.lines.iter().position(|(at, _)| *at == start);
                let lines = known.map(|nth| self.lines.swap_remove(nth).1);
                let value = Made { lines: lines.unwrap_or_default(), ..Made::new(&fields.text()?) };
                map.take(start..start.checked_add(size)?, value, new);
            }
            // Code that was moved: process, thread, address, old and new place, size.
            1 => {
                fields.skip(16)?;
                let (old, place, size) = (fields.long()?, fields.long()?, fields.long()?);
                let moved = Made::clone(&map.at(old)?.1.made);
                let lines = moved.lines.iter();
                let lines = lines.map(|(at, file, line)| {
                    (at.wrapping_sub(old).wrapping_add(place), Arc::clone(file), *line)
                });
                let value = Made { lines: lines.collect(), ..moved };
                map.take(place..place.checked_add(size)?, value, new);
            }
            // Lines of the code that comes next: place, how many, and of each its place, line, and file.
            2 => {
                let (start, count) = (fields.long()?, fields.long()?);
                let mut lines: Vec<(u64, Arc<str>, u32)> = Vec::new();
                for _ in 0..count {
                    let (at, line) = (fields.long()?, fields.word()?);
                    fields.skip(4)?;
                    let name = fields.text()?;
                    let before = lines.last().map(|(_, file, _)| Arc::clone(file));
                    // The same file as before.
                    let file = before.filter(|_| name == "\u{fffd}").unwrap_or_else(|| name.into());
                    lines.push((at, file, line));
                }
                lines.sort_by_key(|(at, ..)| *at);
                // V8 says where the lines will be when `perf inject` has put the code behind the head of an ELF file.
                const ELF_HEAD: u64 = 0x40;
                if lines.first().is_some_and(|(at, ..)| *at >= start.saturating_add(ELF_HEAD)) {
                    lines.iter_mut().for_each(|(at, ..)| *at -= ELF_HEAD);
                }
                lines.dedup_by(|next, kept| (&next.1, next.2) == (&kept.1, kept.2));
                let bytes = |lines: &[(u64, Lines)]| -> usize {
                    lines.iter().map(|(_, lines)| size_of_val(&**lines)).sum()
                };
                while self.lines.len() >= MOST_LINES || bytes(&self.lines) > MOST_WAITING {
                    self.lines.remove(0);
                }
                self.lines.push((start, lines.into()));
            }
            _ => {}
        }
        Some(())
    }
}

/// What is left of a record.
struct Fields<'a> {
    rest: &'a [u8],
    big_endian: bool,
}

impl Fields<'_> {
    fn skip(&mut self, length: usize) -> Option<()> {
        self.rest = self.rest.get(length..)?;
        Some(())
    }

    fn word(&mut self) -> Option<u32> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(if self.big_endian { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
    }

    fn long(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(if self.big_endian { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) })
    }

    fn text(&mut self) -> Option<String> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let text = String::from_utf8_lossy(&self.rest[..length]).into_owned();
        self.skip(length + 1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn names(map: &JitMap, address: u64) -> Option<String> {
        let segments = map.containing(address)?;
        let segment = segments
            .iter()
            .find(|segment| (segment.range.start.0..segment.range.end.0).contains(&address))?;
        let frame = &segment.frames[0];
        let line =
            frame.line.map_or(String::new(), |line| format!(" {}:{line}", frame.file.as_deref().unwrap()));
        Some(format!("{}{line}", frame.function.base()))
    }

    #[test]
    fn functions_are_found_and_nonsense_is_not() {
        let mut map = JitMap::limited(1 << 20);
        let new = map.append(
            "7f0010 20 LazyCompile:*hot /a b.js:3\n0x7f0100 0x8 JS:*a::b<c> x.js:1:13\n\nzz 1 x\n7f0200 4\n\
             7f0300 ffffffffffffffff end\n7f0010 20 again\n",
        );
        let name = |address| names(&map, address);
        assert_eq!(name(0x7f0010).as_deref(), Some("again"));
        assert_eq!(name(0x7f002f).as_deref(), Some("again"));
        assert_eq!((name(0x7f0030), name(0x7f0200), name(0x7f0300)), (None, None, None));
        assert_eq!(name(0x7f0104).as_deref(), Some("JS:*a::b<c> x.js:1:13"), "as it is written");
        assert_eq!(new, [0x7f0010..0x7f0030, 0x7f0100..0x7f0108, 0x7f0010..0x7f0030]);
        assert!(JitMap::limited(1 << 20).is_empty() && !map.is_empty());
        assert_eq!(map.append("7f0010 8 later\n").first(), Some(&(0x7f0010..0x7f0018)));
        assert_eq!(names(&map, 0x7f0017).as_deref(), Some("later"));
        assert_eq!(names(&map, 0x7f0018).as_deref(), Some("again"));
    }

    #[test]
    fn what_was_written_last_lies_at_an_address() {
        // Against an array of what lies at each address.
        let random = &mut fastrand::Rng::with_seed(5);
        let (mut map, mut plain) = (JitMap::limited(1 << 20), vec![None; 64]);
        for number in 0..3000 {
            let (start, size) = (random.u64(0..64), random.u64(0..20));
            let name = format!("f{number}");
            map.append(&format!("{start:x} {size:x} {name}\n"));
            plain[start as usize..(start + size).min(64) as usize].fill(Some(name));
            for (address, expected) in plain.iter().enumerate() {
                assert_eq!(map.name(address as u64), expected.as_deref(), "{address} after {number}");
            }
            let bytes: usize = map.pieces.values().map(Piece::bytes).sum();
            assert_eq!(map.bytes(), bytes);
        }
    }

    #[test]
    fn expensive_lists_take_no_more_memory_than_they_may() {
        let most = 1 << 20;
        // One address over and over; ranges within ranges; a long name that is cut into pieces; names of any length.
        let same = "1 1 a\n".repeat(400_000);
        let nested: String =
            (0..400_000_u64).map(|at| format!("{at:x} {:x} n\n", 1_000_000 - 2 * at)).collect();
        let long = "x".repeat(1 << 20);
        let pieces: String = std::iter::once(format!("0 ffffffff {long}\n"))
            .chain((0..100_000).map(|at| format!("{:x} 1 p\n", 2 * at)))
            .collect();
        for (text, is_full) in [(&same, false), (&nested, true), (&pieces, true)] {
            let mut map = JitMap::limited(most);
            map.append(text);
            assert!(map.bytes() < most + 10_000, "{}", map.bytes());
            assert_eq!(map.is_full(), is_full);
            assert!(map.name(1).is_some());
        }
    }

    fn record(kind: u32, fields: &[&[u8]]) -> Vec<u8> {
        let body = fields.concat();
        let length = (RECORD + body.len()) as u32;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), &[0; 8], &body].concat()
    }

    fn code(start: u64, size: u64, name: &str) -> Vec<u8> {
        let longs: Vec<u8> = [start, start, size, 1].iter().flat_map(|long| long.to_le_bytes()).collect();
        record(0, &[&[0; 8], &longs, name.as_bytes(), &[0], &vec![0x90; size as usize]])
    }

    fn line(at: u64, line: u32, file: &[u8]) -> Vec<u8> {
        [&at.to_le_bytes()[..], &line.to_le_bytes(), &[0; 4], file, &[0]].concat()
    }

    #[test]
    fn a_dump_is_read_as_it_grows() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut header = vec![0; HEADER];
        header[..4].copy_from_slice(&0x4a69_5444_u32.to_le_bytes());
        header[8] = HEADER as u8;
        let lines = [line(0x1000, 3, b"a.js"), line(0x1008, 4, b"\xff"), line(0x1010, 9, b"b.js")].concat();
        let lines = record(2, &[&0x1000_u64.to_le_bytes(), &3_u64.to_le_bytes(), &lines]);
        let first = [header, lines, code(0x1000, 0x20, "JS:*hot a.js:3")].concat();
        let (whole, half) = (first.len(), code(0x3000, 9000, "long"));
        file.write_all(&[&first[..], &half[..100]].concat()).unwrap();
        let mut dump = JitDump::open(file.reopen().unwrap()).unwrap();
        let mut map = JitMap::limited(1 << 20);
        assert!(map.extend(&mut dump, 1).is_empty() && dump.at < whole as u64, "a record at a time");
        map.extend(&mut dump, u64::MAX);
        assert_eq!(dump.at, whole as u64);
        assert_eq!(names(&map, 0x1007).as_deref(), Some("JS:*hot a.js:3 a.js:3"));
        assert_eq!(names(&map, 0x1008).as_deref(), Some("JS:*hot a.js:3 a.js:4"));
        assert_eq!(names(&map, 0x101f).as_deref(), Some("JS:*hot a.js:3 b.js:9"));
        assert_eq!((names(&map, 0x1020), names(&map, 0x3000)), (None, None));
        // As V8 does it.
        let lines = [line(0x8040, 1, b"v.js"), line(0x8048, 2, b"v.js")].concat();
        let lines = record(2, &[&0x8000_u64.to_le_bytes(), &2_u64.to_le_bytes(), &lines]);
        let half = [&half[..100], &half[100..], &lines, &code(0x8000, 0x20, "v")].concat();

        // The rest comes; code moves; something unknown, and something that makes no sense.
        let longs: Vec<u8> =
            [0x1000_u64, 0x1000, 0x5000, 0x20, 1].iter().flat_map(|it| it.to_le_bytes()).collect();
        let more =
            [&half[100..], &record(1, &[&[0; 8], &longs]), &record(77, &[b"?"]), &record(0, &[b"short"])]
                .concat();
        file.write_all(&more).unwrap();
        file.write_all(&code(0x9000, 4, "last")).unwrap();
        map.extend(&mut dump, u64::MAX);
        assert_eq!(names(&map, 0x3fff).as_deref(), Some("long"));
        assert_eq!(names(&map, 0x5008).as_deref(), Some("JS:*hot a.js:3 a.js:4"));
        assert_eq!(names(&map, 0x9003).as_deref(), Some("last"));
        assert_eq!(names(&map, 0x8003).as_deref(), Some("v v.js:1"));
        assert_eq!(names(&map, 0x8008).as_deref(), Some("v v.js:2"));
        let other = tempfile::tempfile().unwrap();
        assert!(JitDump::open(other).is_err());
    }
}
