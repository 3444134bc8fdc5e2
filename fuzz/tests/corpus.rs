//! Every input that is kept goes through its reader, within the limit of memory; none keeps it for ever. The limit of time is for
//! `fuzz/run`, which begins with all of these.

use cap::Cap;
use fuzz::{MOST_BYTES, READERS};
use std::alloc::System;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// A reader that takes so much CPU time hangs.
const HANG: Duration = Duration::from_mins(1);

/// CPU time of this process: others may use the machine, too.
fn cpu_time() -> Duration {
    Duration::from_nanos(kernel::clock::process_cpu_time().0)
}

fn inputs(corpus: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(corpus);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no inputs in {}", folder.display());
    paths
}

/// What is wrong with reading these bytes.
fn finding(read: fn(&[u8]), bytes: &[u8]) -> Option<String> {
    let (before, begin) = (ALLOCATOR.allocated(), cpu_time());
    ALLOCATOR.set_limit(before + MOST_BYTES).unwrap();
    let ended = std::panic::catch_unwind(|| read(bytes));
    ALLOCATOR.set_limit(usize::MAX).unwrap();
    let took = cpu_time().saturating_sub(begin);
    if ended.is_err() {
        return Some("panics".to_owned());
    }
    (took > HANG).then(|| format!("takes {took:?} of CPU time"))
}

/// One test, so that what is measured is of one reader. More memory than allowed ends the process, with the input's name above.
#[test]
fn every_input_is_read_within_its_limits() {
    let mut findings = Vec::new();
    for reader in READERS {
        for path in inputs(reader.corpus) {
            let bytes = std::fs::read(&path).unwrap();
            let shown = path.display();
            println!("{}: {shown}", reader.name);
            // As it is, cut off, and with its bytes changed one after the other at some places.
            findings
                .extend(finding(reader.read, &bytes).map(|what| format!("{} {what} {shown}", reader.name)));
            for part in 1..8 {
                let cut = &bytes[..bytes.len() * part / 8];
                let what = finding(reader.read, cut);
                findings
                    .extend(what.map(|what| format!("{} {what} {shown}, first {}", reader.name, cut.len())));
            }
        }
    }
    assert!(findings.is_empty(), "{findings:#?}");
}
