//! The files: each is a program for x86-64 with a function `work`, and sections that are expensive to read. `bench -- hostile` makes
//! them, and so does the check of `bench accept` that measures what they cost.

use std::path::Path;

use symbols::{FileOffset, Image, Scope, ScopeOptions, Svma};

/// Where all files have their code: the page at 0x1000 of the file.
pub const CODE: u64 = 0x40_1000;

/// Makes the sections of a file.
pub type Maker = fn() -> Vec<Section>;

/// All of them by name.
pub const FILES: [(&str, Maker); 11] = [
    ("packed", packed),
    ("lying", lying),
    ("frames", frames),
    ("abbreviations", abbreviations),
    ("attributes", attributes),
    ("deep", deep),
    ("ranges", ranges),
    ("lines", lines),
    ("common", common),
    ("rows", rows),
    ("names", names),
];

/// Asks all that can be asked about a file that is made like these: the name of the function at [`CODE`], and what is said to be damaged.
pub fn ask(path: &Path) -> (Option<String>, Option<String>) {
    let Ok(image) = Image::open(path) else { return (None, None) };
    let scope = Scope::new(ScopeOptions::default()).unwrap();
    image.frames(Svma(CODE + 5), &scope);
    image.container(Svma(CODE + 5));
    image.segments(Svma(CODE)..Svma(CODE + 64), &scope);
    image.stated(FileOffset(0x1000));
    image.unwind_rules();
    image.has_line_info_in(&scope);
    (image.symbol(Svma(CODE + 5)).map(|name| name.full().to_owned()), image.damage())
}

/// The bytes of one of [`FILES`].
pub fn file(name: &str) -> Option<Vec<u8>> {
    let (_, sections) = FILES.iter().find(|(other, _)| *other == name)?;
    Some(program(&sections()))
}

/// A section of a file: its name, its type, its flags, what its header says of its entries' size, and its bytes.
pub struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    bytes: Vec<u8>,
}

fn section(name: &'static str, bytes: Vec<u8>) -> Section {
    Section { name, kind: 1, flags: 0, bytes }
}

/// An executable for x86-64 that has a function `work` of 64 bytes, and these sections.
pub fn program(more: &[Section]) -> Vec<u8> {
    let symbol = |name: u32, start: u64, size: u64| {
        let kind = [0x12, 0, 1, 0];
        [&name.to_le_bytes()[..], &kind, &start.to_le_bytes(), &size.to_le_bytes()].concat()
    };
    let mut sections = Vec::new();
    let has = |name: &str| more.iter().any(|section| section.name == name);
    if !has(".symtab") {
        let symbols = [vec![0; 24], symbol(1, CODE, 64)].concat();
        sections.push(Section { name: ".symtab", kind: 2, flags: 0, bytes: symbols });
        sections.push(Section { name: ".strtab", kind: 3, flags: 0, bytes: b"\0work\0".to_vec() });
    }
    let mut names = b"\0.shstrtab\0".to_vec();
    let mut file = vec![0; 0x1000];
    file.resize(0x2000, 0x90);
    // It returns, to whom calls it.
    file[0x1000 + 63] = 0xc3;
    let mut headers = vec![0; 64];
    let mut add =
        |file: &mut Vec<u8>, name: &str, kind: u32, flags: u64, bytes: &[u8], names: &mut Vec<u8>| {
            let at = names.len() as u32;
            names.extend(name.as_bytes());
            names.push(0);
            // Where code reads it by address, it lies after the code.
            let place = if name == ".eh_frame" { 0x50_0000_u64 } else { 0 };
            headers.extend([at.to_le_bytes(), kind.to_le_bytes()].concat());
            for word in [flags, place, file.len() as u64, bytes.len() as u64, 0, 1, 24] {
                headers.extend(word.to_le_bytes());
            }
            file.extend(bytes);
        };
    for Section { name, kind, flags, bytes } in sections.iter().chain(more) {
        add(&mut file, name, *kind, *flags, bytes, &mut names);
    }
    let all = names.clone();
    add(&mut file, "", 3, 0, &all, &mut names);
    let count = (sections.len() + more.len() + 2) as u16;
    let table = file.len() as u64;
    file.extend(&headers);
    let mut start = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [CODE, 64, table] {
        start.extend(word.to_le_bytes());
    }
    start.extend(0_u32.to_le_bytes());
    for half in [64, 56, 1, 64, count, count - 1] {
        start.extend(half.to_le_bytes());
    }
    // One piece, which is code.
    start.extend([1_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat());
    for word in [0x1000, CODE, CODE, 0x1000, 0x1000, 0x1000_u64] {
        start.extend(word.to_le_bytes());
    }
    file[..start.len()].copy_from_slice(&start);
    file
}

/// A section that says it unpacks to `unpacked` bytes, by zstd, which these bytes do if they are blocks of zeros (RFC 8878).
fn packed_zeros(name: &'static str, unpacked: u64, claimed: u64) -> Section {
    const BLOCK: u64 = 128 << 10;
    let mut bytes = [2_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat();
    bytes.extend([claimed.to_le_bytes(), 1_u64.to_le_bytes()].concat());
    bytes.extend([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38]);
    let blocks = unpacked / BLOCK;
    for block in 0..blocks {
        let header = u32::from(block + 1 == blocks) | 1 << 1 | (BLOCK as u32) << 3;
        bytes.extend(&header.to_le_bytes()[..3]);
        bytes.push(0);
    }
    // Few enough times its size to be believed.
    bytes.resize(bytes.len().max(usize::try_from(claimed / 1000).unwrap()), 0);
    Section { name, kind: 1, flags: 0x800, bytes }
}

/// A unit of DWARF 4 whose abbreviations are at `abbreviations`, with these bytes of entries.
fn unit(abbreviations: u32, entries: &[u8]) -> Vec<u8> {
    let mut unit = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    unit.extend(4_u16.to_le_bytes());
    unit.extend(abbreviations.to_le_bytes());
    unit.push(8);
    unit.extend(entries);
    unit
}

/// An abbreviation: code, tag, whether it has children, pairs of attribute and form.
fn abbreviation(code: u8, tag: u8, children: bool, attributes: &[(u8, u8)]) -> Vec<u8> {
    let pairs = attributes.iter().flat_map(|(name, form)| [*name, *form]);
    [code, tag, u8::from(children)].into_iter().chain(pairs).chain([0, 0]).collect()
}

const COMPILE_UNIT: u8 = 0x11;
const SUBPROGRAM: u8 = 0x2e;
const NAME: u8 = 0x03;
const STATEMENTS: u8 = 0x10;
const LOW: u8 = 0x11;
const HIGH: u8 = 0x12;
const RANGES: u8 = 0x55;
const FLAG_PRESENT: u8 = 0x19;
const ADDRESS: u8 = 0x01;
const DATA: u8 = 0x06;
const OFFSET: u8 = 0x17;
const STRING: u8 = 0x0e;

/// 8 GB of zeros that are there, and some that are only claimed.
fn packed() -> Vec<Section> {
    vec![packed_zeros(".debug_info", 1 << 30, 1 << 30), packed_zeros(".debug_line", 7 << 30, 7 << 30)]
}

/// More than is claimed.
fn lying() -> Vec<Section> {
    vec![packed_zeros(".debug_info", 4 << 30, 1 << 20), packed_zeros(".debug_line", 4 << 30, 1 << 20)]
}

/// A table that is read as a whole.
fn frames() -> Vec<Section> {
    vec![packed_zeros(".eh_frame", 4 << 30, 4 << 30)]
}

/// A table of abbreviations of a megabyte, and units that each begin in it.
fn abbreviations() -> Vec<Section> {
    let mut table = Vec::new();
    for code in 0..200_000_u32 {
        let low = [code as u8 | 0x80, (code >> 7) as u8 | 0x80, (code >> 14) as u8];
        table.extend([&low[..], &[COMPILE_UNIT, 0, 0, 0]].concat());
    }
    let units = (0..200_000_u32).flat_map(|_| unit(0, &[1])).collect();
    vec![section(".debug_abbrev", table), section(".debug_info", units), section(".debug_line", vec![0])]
}

/// Entries of one byte with so many attributes of no bytes; nested if they have children.
fn entries(attribute: u8, count: usize, children: bool) -> Vec<Section> {
    let attributes = vec![(attribute, FLAG_PRESENT); count];
    let mut table = abbreviation(1, COMPILE_UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA)]);
    table.extend(abbreviation(2, SUBPROGRAM, children, &attributes));
    table.push(0);
    let root = [&[1][..], &CODE.to_le_bytes(), &64_u32.to_le_bytes()].concat();
    let info = section(".debug_info", unit(0, &[root, vec![2; 4 << 20]].concat()));
    vec![section(".debug_abbrev", table), info, section(".debug_line", vec![0])]
}

fn attributes() -> Vec<Section> {
    entries(0x3f, 400_000, false)
}

/// As many as are allowed, of each entry.
fn deep() -> Vec<Section> {
    entries(0x20, 60, true)
}

/// A list of ranges and a name that every function and every unit has.
fn ranges() -> Vec<Section> {
    let mut list = Vec::new();
    for _ in 0..100_000 {
        list.extend([CODE.to_le_bytes(), (CODE + 9).to_le_bytes()].concat());
    }
    list.extend([0; 16]);
    let mut table =
        abbreviation(1, COMPILE_UNIT, true, &[(RANGES, OFFSET), (NAME, STRING), (STATEMENTS, OFFSET)]);
    table.extend(abbreviation(2, SUBPROGRAM, false, &[(RANGES, OFFSET), (NAME, STRING)]));
    table.push(0);
    let entries = [&[1][..], &[0; 12], &[2, 0, 0, 0, 0, 0, 0, 0, 0].repeat(100)].concat();
    let units = (0..10_000).flat_map(|_| unit(0, &entries)).collect();
    let text = section(".debug_str", vec![b'a'; 8 << 20]);
    vec![
        section(".debug_abbrev", table),
        section(".debug_info", units),
        section(".debug_ranges", list),
        text,
        section(".debug_line", vec![0]),
    ]
}

/// One line program of many units.
fn lines() -> Vec<Section> {
    // Each byte of it is a row.
    let header =
        [&[1, 1, 1, 0xfb, 14, 13][..], &[0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1], b"\0a.c\0\0\0\0\0"].concat();
    let mut program = [&[0, 9, 2][..], &CODE.to_le_bytes()].concat();
    program.extend(vec![0x21; 16 << 20]);
    let length = 2 + 4 + header.len() + program.len();
    let mut line = (length as u32).to_le_bytes().to_vec();
    line.extend(4_u16.to_le_bytes());
    line.extend((header.len() as u32).to_le_bytes());
    line.extend([header, program].concat());
    let mut table = abbreviation(1, COMPILE_UNIT, false, &[(STATEMENTS, OFFSET)]);
    table.push(0);
    let units = (0..2000).flat_map(|_| unit(0, &[1, 0, 0, 0, 0])).collect();
    vec![section(".debug_abbrev", table), section(".debug_info", units), section(".debug_line", line)]
}

/// A common part of a megabyte, which each of many functions goes through.
fn common() -> Vec<Section> {
    let mut common = vec![0, 0, 0, 0, 1, 0, 1, 0x78, 16];
    common.extend(vec![0; 1 << 20]);
    let mut bytes = (common.len() as u32).to_le_bytes().to_vec();
    bytes.extend(common);
    for _ in 0..100_000 {
        let back = bytes.len() as u32 + 4;
        bytes.extend([20_u32.to_le_bytes(), back.to_le_bytes()].concat());
        bytes.extend([CODE.to_le_bytes(), 64_u64.to_le_bytes()].concat());
    }
    vec![section(".eh_frame", bytes)]
}

/// Each byte is a row.
fn rows() -> Vec<Section> {
    let common = [0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0];
    let mut bytes = [&(common.len() as u32).to_le_bytes()[..], &common].concat();
    let rows = vec![0x41; 4 << 20];
    bytes.extend((rows.len() as u32 + 20).to_le_bytes());
    bytes.extend(20_u32.to_le_bytes());
    bytes.extend([CODE.to_le_bytes(), u64::from(u32::MAX).to_le_bytes()].concat());
    bytes.extend(rows);
    vec![section(".eh_frame", bytes)]
}

/// Symbols whose names are one text.
fn names() -> Vec<Section> {
    let mut symbols = vec![0; 24];
    symbols.extend(
        [&1_u32.to_le_bytes()[..], &[0x12, 0, 1, 0], &CODE.to_le_bytes(), &64_u64.to_le_bytes()].concat(),
    );
    for nth in 0..400_000_u32 {
        let start = CODE + 100 + u64::from(nth % 1000);
        symbols.extend(
            [&(6 + nth).to_le_bytes()[..], &[0x12, 0, 1, 0], &start.to_le_bytes(), &4_u64.to_le_bytes()]
                .concat(),
        );
    }
    let names = [&b"\0work\0"[..], &vec![b'_'; 16 << 20]].concat();
    vec![
        Section { name: ".symtab", kind: 2, flags: 0, bytes: symbols },
        Section { name: ".strtab", kind: 3, flags: 0, bytes: names },
    ]
}
