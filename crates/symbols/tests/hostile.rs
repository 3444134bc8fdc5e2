//! Files that are made to be expensive: asking about them comes to an end, what is sound in them is found, and what is left out is said.
//! What it costs exactly is for `bench accept`.
//!
//! Each file is asked about in a process of its own, which says how much memory it took at most.

mod files;

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

/// The file that the process of its own asks about.
const SUBJECT: &str = "WHATIF_TEST_SUBJECT";
/// What no process takes that keeps to the limits of its readers: they unpack 256 MB at most, and most questions take less than a second.
const MEMORY_WITHOUT_LIMITS: u64 = 512 << 20;
const CPU_SECONDS_WITHOUT_LIMITS: u32 = 60;

/// The process of its own. It does nothing where it is run as a test.
#[test]
fn subject() {
    let Some(path) = std::env::var_os(SUBJECT) else { return };
    // What the test's own messages begin with ends here.
    println!();
    let (symbol, damage) = files::ask(Path::new(&path));
    println!("symbol: {}", symbol.unwrap_or_default());
    println!("damage: {}", damage.unwrap_or_default());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}

/// Asks about one of the files; returns what is said to be damaged.
fn ask_about(name: &str) -> String {
    let directory = tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, files::file(name).unwrap()).unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("ulimit -t {CPU_SECONDS_WITHOUT_LIMITS}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::subject", "--nocapture", "--test-threads=1"])
        .env(SUBJECT, path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().to_owned()
    };
    let memory: u64 = value("VmHWM:").trim_end_matches(" kB").parse().unwrap();
    assert!(memory << 10 < MEMORY_WITHOUT_LIMITS, "{name}: {memory} kB");
    assert_eq!(value("symbol:"), "work", "{name}: what is sound is found");
    value("damage:")
}

#[test]
fn packed_sections_of_gigabytes() {
    let damage = ask_about("packed");
    assert!(damage.contains(".debug_") && damage.contains("256 MB"), "{damage}");
    ask_about("lying");
    ask_about("frames");
}

#[test]
fn units_that_share_long_abbreviations() {
    ask_about("abbreviations");
}

#[test]
fn entries_of_one_byte_with_many_attributes() {
    assert!(!ask_about("attributes").is_empty());
    ask_about("deep");
}

#[test]
fn range_lists_and_names_that_all_share() {
    assert!(!ask_about("ranges").is_empty());
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
