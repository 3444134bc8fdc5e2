//! Gives both sides of the contract the same build ID. Two binaries built from different sources refuse
//! each other.

include!("build_id.rs");

fn main() {
    let here = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let crates = here.parent().expect("a crate lies in a folder");
    for folder in source_folders(crates) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rustc-env=WHATIF_BUILD_ID={}", build_id(crates));
}
