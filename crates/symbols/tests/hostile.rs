//! Files that are made to be expensive: asking about them takes little time and memory, what is sound in them is found, and what is
//! left out is said.
//!
//! Each file is asked about in a process of its own, which says how much memory it took at most.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use symbols::{Image, Svma};
use tempfile::tempdir;

use crate::toolchain::default_scope;

/// The file that the process of its own asks about.
const SUBJECT: &str = "WHATIF_TEST_SUBJECT";
/// Where all files have their code.
const CODE: u64 = 0x40_1000;
/// What a process takes more than one that asks about an ordinary file, and the processor time that it uses.
const MOST_MEMORY: u64 = 64 << 20;
const MOST_TIME: Duration = Duration::from_secs(2);

/// The process of its own. It does nothing where it is run as a test.
#[test]
fn subject() {
    let Some(path) = std::env::var_os(SUBJECT) else { return };
    // What the test's own messages begin with ends here.
    println!();
    if let Ok(image) = Image::open(Path::new(&path)) {
        let scope = default_scope();
        image.frames(Svma(CODE + 5), &scope);
        image.container(Svma(CODE + 5));
        image.segments(Svma(CODE)..Svma(CODE + 64), &scope);
        image.stated(symbols::FileOffset(0x1000));
        image.unwind_rules();
        image.has_line_info_in(&scope);
        println!(
            "symbol: {}",
            image.symbol(Svma(CODE + 5)).map_or_else(String::new, |name| name.full().to_owned())
        );
        println!("damage: {}", image.damage().unwrap_or_default());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
    // Of all its threads, in hundredths of a second (proc_pid_stat(5)).
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let used = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    println!("time: {}", used.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>());
}

/// What became of a file.
struct Answer {
    symbol: String,
    damage: String,
    /// The most that the process took.
    memory: u64,
    time: Duration,
}

fn ask(path: &Path) -> Answer {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::subject", "--nocapture", "--test-threads=1"])
        .env(SUBJECT, path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{path:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().to_owned()
    };
    let memory: u64 = value("VmHWM:").trim_end_matches(" kB").parse().unwrap();
    let time = Duration::from_millis(10 * value("time:").parse::<u64>().unwrap());
    Answer { symbol: value("symbol:"), damage: value("damage:"), memory: memory << 10, time }
}

/// Asks about a file with these sections, and holds the limits.
fn ask_about(name: &str, sections: &[Section]) -> Answer {
    let directory = tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, program(&[])).unwrap();
    let ordinary = ask(&path);
    std::fs::write(&path, program(sections)).unwrap();
    let answer = ask(&path);
    let Answer { symbol, damage, memory, time } = &answer;
    eprintln!("{name}: {} MB, {time:?}, {damage}", memory.saturating_sub(ordinary.memory) >> 20);
    assert!(
        *memory <= ordinary.memory + MOST_MEMORY,
        "{name}: {memory} bytes, and {} without",
        ordinary.memory
    );
    assert!(*time <= MOST_TIME + ordinary.time, "{name}: {time:?}");
    assert_eq!(symbol, "work", "{name}: what is sound is found");
    answer
}

/// A section of a file: its name, its type, its flags, what its header says of its entries' size, and its bytes.
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    bytes: Vec<u8>,
}

fn section(name: &'static str, bytes: Vec<u8>) -> Section {
    Section { name, kind: 1, flags: 0, bytes }
}

/// An executable for x86-64 that has a function `work` of 64 bytes, and these sections.
fn program(more: &[Section]) -> Vec<u8> {
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

#[test]
fn packed_sections_of_gigabytes() {
    // 8 GB of zeros that are there, and some that are only claimed.
    let info = packed_zeros(".debug_info", 1 << 30, 1 << 30);
    let line = packed_zeros(".debug_line", 7 << 30, 7 << 30);
    let answer = ask_about("packed", &[info, line]);
    assert!(answer.damage.contains(".debug_") && answer.damage.contains("256 MB"), "{}", answer.damage);
    // More than is claimed.
    let info = packed_zeros(".debug_info", 4 << 30, 1 << 20);
    let line = packed_zeros(".debug_line", 4 << 30, 1 << 20);
    ask_about("lying", &[info, line]);
    // The tables that are read as a whole.
    ask_about("frames", &[packed_zeros(".eh_frame", 4 << 30, 4 << 30)]);
}

#[test]
fn units_that_share_long_abbreviations() {
    // A table of a megabyte, and units that each begin in it.
    let mut table = Vec::new();
    for code in 0..200_000_u32 {
        let low = [code as u8 | 0x80, (code >> 7) as u8 | 0x80, (code >> 14) as u8];
        table.extend([&low[..], &[COMPILE_UNIT, 0, 0, 0]].concat());
    }
    let units = (0..200_000_u32).flat_map(|_| unit(0, &[1])).collect();
    ask_about(
        "abbreviations",
        &[section(".debug_abbrev", table), section(".debug_info", units), section(".debug_line", vec![0])],
    );
}

#[test]
fn entries_of_one_byte_with_many_attributes() {
    let attributes = vec![(0x3f, FLAG_PRESENT); 400_000];
    let mut table = abbreviation(1, COMPILE_UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA)]);
    table.extend(abbreviation(2, SUBPROGRAM, false, &attributes));
    table.push(0);
    let root = [&[1][..], &CODE.to_le_bytes(), &64_u32.to_le_bytes()].concat();
    let entries = [root, vec![2; 4 << 20]].concat();
    let info = section(".debug_info", unit(0, &entries));
    let answer =
        ask_about("attributes", &[section(".debug_abbrev", table), info, section(".debug_line", vec![0])]);
    assert!(!answer.damage.is_empty());
    // As many as are allowed, of each entry.
    let attributes = vec![(0x20, FLAG_PRESENT); 60];
    let mut table = abbreviation(1, COMPILE_UNIT, true, &[(LOW, ADDRESS), (HIGH, DATA)]);
    table.extend(abbreviation(2, SUBPROGRAM, true, &attributes));
    table.push(0);
    let info = section(".debug_info", unit(0, &entries));
    ask_about("deep", &[section(".debug_abbrev", table), info, section(".debug_line", vec![0])]);
}

#[test]
fn range_lists_and_names_that_all_share() {
    // A list of ranges that every function and every unit has.
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
    let sections = [
        section(".debug_abbrev", table),
        section(".debug_info", units),
        section(".debug_ranges", list),
        text,
        section(".debug_line", vec![0]),
    ];
    let answer = ask_about("ranges", &sections);
    assert!(!answer.damage.is_empty());
}

#[test]
fn one_line_program_of_many_units() {
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
    ask_about(
        "lines",
        &[section(".debug_abbrev", table), section(".debug_info", units), section(".debug_line", line)],
    );
}

#[test]
fn frames_whose_common_part_is_long() {
    // A common part of a megabyte, which each of many functions goes through.
    let mut common = vec![0, 0, 0, 0, 1, 0, 1, 0x78, 16];
    common.extend(vec![0; 1 << 20]);
    let mut bytes = (common.len() as u32).to_le_bytes().to_vec();
    bytes.extend(common);
    for _ in 0..100_000 {
        let back = bytes.len() as u32 + 4;
        bytes.extend([20_u32.to_le_bytes(), back.to_le_bytes()].concat());
        bytes.extend([CODE.to_le_bytes(), 64_u64.to_le_bytes()].concat());
    }
    ask_about("common", &[section(".eh_frame", bytes)]);
    // Each byte is a row.
    let common = [0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0];
    let mut bytes = [&(common.len() as u32).to_le_bytes()[..], &common].concat();
    let rows = vec![0x41; 4 << 20];
    bytes.extend((rows.len() as u32 + 20).to_le_bytes());
    bytes.extend(20_u32.to_le_bytes());
    bytes.extend([CODE.to_le_bytes(), u64::from(u32::MAX).to_le_bytes()].concat());
    bytes.extend(rows);
    ask_about("rows", &[section(".eh_frame", bytes)]);
}

#[test]
fn symbols_whose_names_are_one_text() {
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
    let sections = [
        Section { name: ".symtab", kind: 2, flags: 0, bytes: symbols },
        Section { name: ".strtab", kind: 3, flags: 0, bytes: names },
    ];
    ask_about("names", &sections);
}
