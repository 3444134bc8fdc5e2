//! Every address of whole programs, compared with what the `addr2line` crate says about it.

use std::path::Path;

use crate::toolchain::{C, CPP, RUST, compile, default_scope};
use addr2line::Loader;
use symbols::{Image, Svma};
use tempfile::tempdir;

/// File name and line of each frame, innermost first.
type Places = Vec<(String, Option<u32>)>;

fn name(file: &str) -> String {
    file.rsplit('/').next().unwrap_or_default().to_owned()
}

fn theirs(loader: &Loader, address: u64) -> Places {
    let mut places = Vec::new();
    let mut frames = loader.find_frames(address).unwrap();
    while let Some(frame) = frames.next().unwrap() {
        let location = frame.location.as_ref();
        let file = location.and_then(|location| location.file).map(name);
        let line = location.and_then(|location| location.line);
        places.push((file.unwrap_or_default(), line));
    }
    places
}

/// Compares all addresses of code, and returns how many had inlined frames.
fn compare(program: &Path) -> usize {
    let image = Image::open(program).unwrap();
    let loader = Loader::new(program).unwrap();
    let scope = default_scope();
    let mut inlined = 0;
    let mut different = Vec::new();
    for load in image.loads().iter().filter(|load| load.executable) {
        let whole = load.address..Svma(load.address.0 + load.memory_size);
        for segment in image.segments(whole, &scope) {
            let frames = segment.frames.iter().filter(|frame| {
                // We give names from the symbol table where the debug information has none.
                frame.file.is_some() || frame.line.is_some() || segment.frames.len() > 1
            });
            let ours: Places = frames
                .map(|frame| (frame.file.as_deref().map(name).unwrap_or_default(), frame.line))
                .collect();
            inlined += usize::from(ours.len() > 1);
            for address in segment.range.start.0..segment.range.end.0 {
                let mut theirs = theirs(&loader, address);
                if theirs == [(String::new(), None)] {
                    theirs.clear();
                }
                if theirs != ours {
                    different.push((address, ours.clone(), theirs));
                }
            }
        }
    }
    assert!(
        different.is_empty(),
        "{program:?}: {} differ; run `addr2line -fie` for: {:#x?}",
        different.len(),
        &different[..different.len().min(5)]
    );
    inlined
}

#[test]
fn c_and_cpp() {
    let directory = tempdir().unwrap();
    for (compiler, source) in [("gcc", ("hash.c", C)), ("g++", ("shop.cc", CPP))] {
        for flags in [
            &["-g", "-O0"][..],
            &["-g", "-O2", "-gdwarf-4"],
            &["-g", "-O3", "-gdwarf-5"],
            &["-g", "-O2", "-flto", "-fno-fat-lto-objects"],
            &["-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections"],
        ] {
            let Some(program) = compile(directory.path(), compiler, source, flags) else { continue };
            let inlined = compare(&program);
            assert!(inlined > 0 || flags.contains(&"-O0"), "{program:?}");
        }
    }
}

#[test]
fn rust() {
    let directory = tempdir().unwrap();
    for flags in [&["-g", "-O"][..], &["-g", "-O", "-Clto=fat", "-Cdwarf-version=5"]] {
        if let Some(program) = compile(directory.path(), "rustc", ("shop.rs", RUST), flags) {
            assert!(compare(&program) > 100);
        }
    }
}
