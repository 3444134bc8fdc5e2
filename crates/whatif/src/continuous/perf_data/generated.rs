//! Names of generated code, as its compiler wrote them down: `/tmp/perf-PID.map`, while it is still there.

use kernel::stranger::open_file;
use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use symbols::JitMap;

/// Such a file is not read any further, in bytes.
const LONGEST: u64 = 64 << 20;

/// The maps of processes, each read once, when code of its process is met.
#[derive(Default)]
pub struct Generated {
    maps: HashMap<i32, JitMap>,
}

impl Generated {
    /// The function of a process at an address.
    pub fn function(&mut self, pid: i32, address: u64) -> Option<String> {
        let map = self.maps.entry(pid).or_insert_with(|| {
            let mut map = JitMap::empty();
            map.append(&read(Path::new(&format!("/tmp/perf-{pid}.map"))).unwrap_or_default());
            map
        });
        Some(map.containing(address)?.first()?.frames.first()?.function.full().to_owned())
    }
}

/// The map, if it is ours or root's, as perf has it; root takes those of others, too.
fn read(path: &Path) -> Option<String> {
    let own = rustix::process::geteuid();
    let owner = if own.is_root() { std::fs::symlink_metadata(path).ok()?.uid() } else { own.as_raw() };
    let mut bytes = Vec::new();
    open_file(path, owner).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
