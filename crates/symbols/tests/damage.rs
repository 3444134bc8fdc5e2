//! Damaged files: whatever they say, an answer comes back, soon, and without a panic.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::toolchain::{C, CPP, compile, default_scope};
use object::{Object, ObjectSection};
use symbols::{Image, Svma, inspect};
use tempfile::tempdir;

/// Asks everything there is to ask.
fn exercise(path: &Path) {
    let _ = inspect(path);
    let Ok(image) = Image::open(path) else { return };
    let scope = default_scope();
    for load in image.loads().to_vec() {
        image.bias(0x5555_5555_0000, load.offset);
        // At most the code of the undamaged program, in steps.
        for at in (0..0x4000).step_by(61) {
            let address = Svma(load.address.0.wrapping_add(at));
            image.frames(address, &scope);
            if let Some(container) = image.container(address) {
                image.segments(container, &scope);
            }
        }
        let end = load.address.0.saturating_add(load.memory_size.min(1 << 20));
        image.segments(load.address..Svma(end), &scope);
    }
    image.segments(Svma(9)..Svma(3), &scope);
    image.segments(Svma(0)..Svma(u64::MAX), &scope);
    image.frames(Svma(u64::MAX), &scope);
    image.line_entries("hash.c", 7, &scope);
    image.function_entries("work");
    image.unwind_rules();
    image.probes();
    image.has_functions();
    image.has_line("hash.c", 7);
    image.has_function("nothing");
    image.suggest("wrok");
    image.has_line_info_in(&scope);
    image.damage();
    image.build_id();
}

/// Flips bytes inside `sections` (anywhere, if empty) of copies of `program`.
fn flip(directory: &Path, program: &Path, sections: &[&str], variants: u64) {
    let original = std::fs::read(program).unwrap();
    let file = object::File::parse(&*original).unwrap();
    let mut targets: Vec<std::ops::Range<usize>> = file
        .sections()
        .filter(|section| section.name().is_ok_and(|name| sections.contains(&name)))
        .filter_map(|section| section.file_range())
        .map(|(start, size)| start as usize..(start + size) as usize)
        .collect();
    if targets.is_empty() {
        targets.push(0..original.len());
    }
    let damaged = directory.join("damaged");
    let mut slowest = (Duration::ZERO, 0);
    for seed in 0..variants {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = original.clone();
        for _ in 0..random.usize(1..40) {
            let target = random.choice(&targets).unwrap();
            bytes[random.usize(target.clone())] = random.u8(..);
        }
        std::fs::write(&damaged, bytes).unwrap();
        let start = Instant::now();
        exercise(&damaged);
        slowest = slowest.max((start.elapsed(), seed));
    }
    // Far from "endless", and far from what a busy machine makes of a few milliseconds.
    assert!(slowest.0 < Duration::from_secs(20), "{program:?} {sections:?}: seed {}", slowest.1);
}

#[test]
fn random_bytes_of_dwarf_5() {
    let directory = tempdir().unwrap();
    let Some(program) = compile(directory.path(), "gcc", ("hash.c", C), &["-g", "-O2"]) else { return };
    exercise(&program);
    flip(directory.path(), &program, &[], 60);
    flip(directory.path(), &program, &[".debug_info", ".debug_abbrev"], 80);
    flip(directory.path(), &program, &[".debug_line", ".debug_rnglists", ".debug_str"], 40);
    flip(directory.path(), &program, &[".symtab", ".strtab", ".shstrtab", ".note.gnu.build-id"], 20);
}

#[test]
fn random_bytes_of_compressed_dwarf_4() {
    let directory = tempdir().unwrap();
    let flags = ["-g", "-O2", "-gdwarf-4", "-gz"];
    let Some(program) = compile(directory.path(), "g++", ("shop.cc", CPP), &flags) else { return };
    flip(directory.path(), &program, &[".debug_info", ".debug_abbrev", ".debug_line"], 10);
}

#[test]
fn random_bytes_of_headers() {
    let directory = tempdir().unwrap();
    let Some(program) = compile(directory.path(), "gcc", ("hash.c", C), &["-g"]) else { return };
    let original = std::fs::read(&program).unwrap();
    let damaged = directory.path().join("damaged");
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = original.clone();
        for _ in 0..random.usize(1..8) {
            bytes[random.usize(4..0x300)] = random.u8(..);
        }
        std::fs::write(&damaged, bytes).unwrap();
        exercise(&damaged);
    }
}

#[test]
fn truncated_files() {
    let directory = tempdir().unwrap();
    let Some(program) = compile(directory.path(), "gcc", ("hash.c", C), &["-g", "-O2"]) else { return };
    let original = std::fs::read(&program).unwrap();
    let damaged = directory.path().join("damaged");
    for part in 0..40 {
        std::fs::write(&damaged, &original[..original.len() * part / 40]).unwrap();
        exercise(&damaged);
    }
}

#[test]
fn inlining_nested_without_end() {
    // A hand-made unit whose inlined subroutines nest 200,000 deep and all claim all of the code.
    let directory = tempdir().unwrap();
    let mut assembly = String::from(
        ".text\n.globl main\n.type main,@function\nmain: nop\nnop\nret\n.Lend:\n.size main,.-main\n\
         .section .debug_abbrev,\"\",@progbits\n\
         .uleb128 1,0x11\n.byte 1\n.uleb128 0x11,0x01,0x12,0x07,0,0\n\
         .uleb128 2,0x2e\n.byte 1\n.uleb128 0x11,0x01,0x12,0x07,0x03,0x08,0,0\n\
         .uleb128 3,0x1d\n.byte 1\n.uleb128 0x31,0x13,0x11,0x01,0x12,0x07,0,0\n.byte 0\n\
         .section .debug_line,\"\",@progbits\n.byte 0\n\
         .section .debug_info,\"\",@progbits\n.Lcu: .4byte .Lcuend-.Lstart\n.Lstart: .2byte 4\n\
         .4byte 0\n.byte 8\n.uleb128 1\n.8byte main,.Lend-main\n\
         .Lmain: .uleb128 2\n.8byte main,.Lend-main\n.asciz \"main\"\n",
    );
    assembly.push_str(".rept 200000\n.uleb128 3\n.4byte .Lmain-.Lcu\n.8byte main,.Lend-main\n.endr\n");
    assembly.push_str(".rept 200002\n.byte 0\n.endr\n.Lcuend:\n");
    let source = ("deep.s", assembly.as_str());
    let Some(program) = compile(directory.path(), "gcc", source, &[]) else { return };
    let image = Image::open(&program).unwrap();
    let load = *image.loads().iter().find(|load| load.executable).unwrap();
    let main = (load.address.0..load.address.0 + load.memory_size)
        .find(|at| image.symbol(Svma(*at)).is_some_and(|name| name.full() == "main"));
    let frames = image.frames(Svma(main.unwrap()), &default_scope());
    assert_eq!(frames.len(), 129, "{:?}", image.damage());
    assert!(frames.iter().all(|frame| frame.function.full() == "main"));
}
