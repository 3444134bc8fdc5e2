//! Files that are made to be expensive: asking about them takes little time and memory, what is sound in them is found, and what is
//! left out is said.
//!
//! Each file is asked about in a process of its own, which says how much memory it took at most.

mod files;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use symbols::{Image, Svma};
use tempfile::tempdir;

use crate::toolchain::default_scope;
use files::CODE;

/// The file that the process of its own asks about.
const SUBJECT: &str = "WHATIF_TEST_SUBJECT";
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

/// Asks about one of the files, and holds the limits.
fn ask_about(name: &str) -> Answer {
    let directory = tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, files::program(&[])).unwrap();
    let ordinary = ask(&path);
    std::fs::write(&path, files::file(name).unwrap()).unwrap();
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

#[test]
fn packed_sections_of_gigabytes() {
    let answer = ask_about("packed");
    assert!(answer.damage.contains(".debug_") && answer.damage.contains("256 MB"), "{}", answer.damage);
    ask_about("lying");
    ask_about("frames");
}

#[test]
fn units_that_share_long_abbreviations() {
    ask_about("abbreviations");
}

#[test]
fn entries_of_one_byte_with_many_attributes() {
    assert!(!ask_about("attributes").damage.is_empty());
    ask_about("deep");
}

#[test]
fn range_lists_and_names_that_all_share() {
    assert!(!ask_about("ranges").damage.is_empty());
}

#[test]
fn one_line_program_of_many_units() {
    ask_about("lines");
}

#[test]
fn frames_whose_common_part_is_long() {
    ask_about("common");
    ask_about("rows");
}

#[test]
fn symbols_whose_names_are_one_text() {
    ask_about("names");
}
