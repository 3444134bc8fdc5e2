//! What programs and kernels say about code that they have made, and what `perf record` has seen of it.

use std::io::{Cursor, Seek as _, Write as _};
use symbols::{JitDump, JitMap, Kallsyms};

/// Memory that a map may take here, in bytes.
const MOST_BYTES: usize = 32 << 20;

/// `/tmp/perf-PID.map`.
pub fn perf_map(bytes: &[u8]) {
    let mut map = JitMap::limited(MOST_BYTES);
    let text = String::from_utf8_lossy(bytes);
    for range in map.append(&text) {
        map.name(range.start);
        map.containing(range.end - 1);
    }
}

/// jitdump files.
pub fn jitdump(bytes: &[u8]) {
    let Ok(mut file) = tempfile::tempfile_in(crate::memory()) else { return };
    if file.write_all(bytes).and_then(|()| file.rewind()).is_err() {
        return;
    }
    let Ok(mut dump) = JitDump::open(file) else { return };
    let mut map = JitMap::limited(MOST_BYTES);
    for range in map.extend(&mut dump, u64::MAX) {
        map.containing(range.start);
    }
}

/// `/proc/kallsyms`.
pub fn kallsyms(bytes: &[u8]) {
    let names = Kallsyms::read(bytes);
    names.before(names.text());
    names.functions().for_each(drop);
    names.generated().for_each(drop);
}

/// What `perf record` writes.
pub fn perf_data(bytes: &[u8]) {
    let _ = crate::perf_data::read(Cursor::new(bytes));
}
