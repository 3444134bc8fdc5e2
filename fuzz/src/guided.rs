//! A fuzzer that is guided by coverage (libFuzzer): `fuzz/run NAME SECONDS`. `$WHATIF_FUZZ` names the reader.
#![no_main]

use cap::Cap;
use fuzz::{Reader, reader};
use libfuzzer_sys::fuzz_target;
use std::alloc::System;
use std::sync::OnceLock;

/// Input that takes more ends the process, which the fuzzer takes for a crash.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn chosen() -> &'static Reader {
    static CHOSEN: OnceLock<&'static Reader> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("WHATIF_FUZZ").unwrap_or_default();
        reader(&name)
            .unwrap_or_else(|| panic!("WHATIF_FUZZ={name} names no reader; fuzz/src/lib.rs lists them"))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let read = chosen().read;
    let limit = ALLOCATOR.allocated() + fuzz::MOST_BYTES;
    ALLOCATOR.set_limit(limit).unwrap();
    read(bytes);
    ALLOCATOR.set_limit(usize::MAX).unwrap();
});
