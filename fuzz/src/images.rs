//! Programs and libraries: their headers, names, lines and call frames.

use std::io::Write as _;
use symbols::{Image, Scope, ScopeOptions, Svma, build_id_of_notes, inspect};
use tempfile::NamedTempFile;

/// Addresses of each segment that are looked up.
const LOOKUPS: u64 = 64;

fn file(bytes: &[u8]) -> Option<NamedTempFile> {
    let mut file = NamedTempFile::new_in(crate::memory()).ok()?;
    file.write_all(bytes).ok()?;
    Some(file)
}

/// Headers, notes and symbols.
pub fn elf(bytes: &[u8]) {
    let Some(file) = file(bytes) else { return };
    let _ = inspect(file.path());
    let Ok(image) = Image::open(file.path()) else { return };
    image.build_id();
    image.needed();
    image.probes();
    image.has_functions();
    image.frame_pointers();
    image.function_names();
    addresses(&image).for_each(|address| {
        image.symbol(address);
    });
}

/// Lines and inlined functions.
pub fn dwarf(bytes: &[u8]) {
    let Some(file) = file(bytes) else { return };
    let Ok(image) = Image::open(file.path()) else { return };
    let Ok(scope) = Scope::new(ScopeOptions { sources: vec!["*".to_owned()], ..ScopeOptions::default() })
    else {
        return;
    };
    for address in addresses(&image) {
        image.named_frames(address, &scope);
        if let Some(container) = image.container(address) {
            image.segments(container, &scope);
        }
    }
    image.has_line("main.c", 3);
    image.line_entries("main.c", 3, &scope);
    image.damage();
}

/// `.eh_frame`.
pub fn unwind(bytes: &[u8]) {
    let Some(file) = file(bytes) else { return };
    let Ok(image) = Image::open(file.path()) else { return };
    image.unwind_rules();
    image.known_callers();
}

/// Notes of the kernel, or of a file.
pub fn notes(bytes: &[u8]) {
    let _ = build_id_of_notes(bytes);
}

/// Some addresses of each piece of code.
fn addresses(image: &Image) -> impl Iterator<Item = Svma> {
    let loads: Vec<_> = image.loads().iter().take(8).map(|load| (load.address.0, load.file_size)).collect();
    loads.into_iter().flat_map(|(start, length)| {
        (0..LOOKUPS).map(move |nth| Svma(start.wrapping_add(length / LOOKUPS * nth)))
    })
}
