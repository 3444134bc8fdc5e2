//! Readers of bytes that others have written, each with what it may take: fuzzers look for inputs that crash them or are expensive.
//!
//! **Does:** name every reader ([`READERS`]), keep inputs for each (`fuzz/corpus`), run all of them as plain tests within limits of time and
//! memory (`tests/corpus.rs`), and, guided by coverage, as a fuzzer (`fuzz/run NAME SECONDS`).
//!
//! **Does not:** judge what a reader makes of an input: the tests of its crate do.
//!
//! **Constraints:** no unsafe code but what the macro of libFuzzer brings; a reader leaves nothing behind.
//!
//! **Place:** beside `sample → delay → experiment → record → profile → report`; it plays who writes the files that are read.
#![deny(unsafe_code)]

mod databases;
mod generated;
mod images;
// The command has no library, and these files need nothing of it.
#[path = "../../crates/whatif/src/head.rs"]
mod head;
mod http;
#[allow(dead_code, reason = "what only the command uses")]
#[path = "../../crates/whatif/src/pass.rs"]
mod pass;
#[allow(dead_code, reason = "what only the command uses")]
#[path = "../../crates/whatif/src/continuous/perf_data/mod.rs"]
mod perf_data;
mod text;

use std::path::{Path, PathBuf};

/// Reads bytes of one kind.
pub struct Reader {
    /// `elf`
    pub name: &'static str,
    /// The folder of its inputs in `fuzz/corpus`; several readers may share one.
    pub corpus: &'static str,
    /// Reads an input. It may refuse it, but not panic, nor take more than [`MOST_BYTES`], nor longer than
    /// `fuzz/run` allows.
    pub read: fn(&[u8]),
}

/// Memory that an input may take more than none, in bytes.
pub const MOST_BYTES: usize = 64 << 20;

/// All of them.
pub const READERS: &[Reader] = &[
    Reader { name: "recording", corpus: "recording", read: databases::recording },
    Reader { name: "catalogue", corpus: "catalogue", read: databases::catalogue },
    Reader { name: "segment", corpus: "segment", read: databases::segment },
    Reader { name: "coz", corpus: "coz", read: text::coz },
    Reader { name: "perf-data", corpus: "perf-data", read: generated::perf_data },
    Reader { name: "elf", corpus: "elf", read: images::elf },
    Reader { name: "dwarf", corpus: "elf", read: images::dwarf },
    Reader { name: "unwind", corpus: "elf", read: images::unwind },
    Reader { name: "notes", corpus: "notes", read: images::notes },
    Reader { name: "jitdump", corpus: "jitdump", read: generated::jitdump },
    Reader { name: "perf-map", corpus: "perf-map", read: generated::perf_map },
    Reader { name: "kallsyms", corpus: "kallsyms", read: generated::kallsyms },
    Reader { name: "http", corpus: "http", read: http::head },
    Reader { name: "places", corpus: "places", read: text::places },
    Reader { name: "conditions", corpus: "conditions", read: text::conditions },
    Reader { name: "globs", corpus: "globs", read: text::globs },
    Reader { name: "times", corpus: "times", read: text::times },
];

/// Where the files of inputs lie: in memory, if the machine has a folder there.
fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

/// The reader of a name.
#[must_use]
pub fn reader(name: &str) -> Option<&'static Reader> {
    READERS.iter().find(|reader| reader.name == name)
}
