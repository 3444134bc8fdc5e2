// Included by the build scripts of `wire` (for the controller) and of `whatif` (for the embedded runtime),
// so that both compute the same build ID: a hash over every source file of `wire` and `runtime`.

/// FNV-1a, 64 bits. Tells builds apart; protects against nothing.
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The two source folders, given the folder that holds all crates.
fn source_folders(crates: &std::path::Path) -> [std::path::PathBuf; 2] {
    [crates.join("runtime/src"), crates.join("wire/src")]
}

/// The build ID, given the folder that holds all crates.
fn build_id(crates: &std::path::Path) -> u64 {
    let mut files = Vec::new();
    for folder in source_folders(crates) {
        add_sources(&folder, &mut files);
    }
    files.sort();
    let mut hash = Hash::new();
    for file in &files {
        hash.add(&std::fs::read(file).expect("a source file can be read"));
    }
    hash.0
}

fn add_sources(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
