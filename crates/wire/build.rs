//! Tells the controller's build script where these sources are: it compiles them into the library that goes into profiled
//! programs (`crates/controller/build.rs`), from a checkout and from a registry alike.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=folder={}", std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets this"));
}
