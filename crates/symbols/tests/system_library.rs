//! A system library whose debug package may be installed: its code is not the user's.

use std::path::Path;

use crate::toolchain::default_scope;
use symbols::{Image, Svma};

#[test]
fn the_c_library_is_out_of_scope() {
    let candidates = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
    let Some(path) = candidates.into_iter().map(Path::new).find(|path| path.exists()) else {
        eprintln!("skipped: no glibc in the usual places");
        return;
    };
    let image = Image::open(path).unwrap();
    if !image.has_line_info() {
        eprintln!("skipped: {} has no debug package here", path.display());
    }
    let scope = default_scope();
    let code = *image.loads().iter().find(|load| load.executable).unwrap();
    let mut ours: Vec<String> = image
        .segments(code.address..Svma(code.address.0 + code.memory_size), &scope)
        .iter()
        .filter_map(|segment| segment.in_scope()?.file.as_deref().map(str::to_owned))
        .collect();
    // Debian maps its build directory away; `include/list.h` could belong to any library.
    ours.retain(|file| !file.starts_with("include/"));
    ours.sort();
    ours.dedup();
    assert!(ours.is_empty(), "{ours:?}");
}
