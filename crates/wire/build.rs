//! Gives both sides of the contract the same build ID: a hash (FNV-1a, 64 bits) over every source
//! file of `wire` and `runtime`. Two binaries built from different sources refuse each other.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn main() {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let mut found = Vec::new();
    for folder in [here.join("src"), here.join("../runtime/src")] {
        println!("cargo::rerun-if-changed={}", folder.display());
        sources(&folder, &mut found);
    }
    found.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in &found {
        for byte in std::fs::read(path).expect("a source file can be read") {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=WHATIF_BUILD_ID={hash}");
}
