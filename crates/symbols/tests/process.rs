//! Real processes and real programs: load biases from `/proc/self/maps`, and what a launcher sees.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::toolchain::{C, compile, default_scope};
use symbols::{Class, Executable, FileOffset, Image, Linking, Svma, inspect};
use tempfile::tempdir;

/// Executable file mappings of this process: start, end, offset, path.
fn mappings() -> Vec<(u64, u64, FileOffset, PathBuf)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, mode, offset, _, _, path] = fields[..] else { return None };
        if !mode.contains('x') || !path.starts_with('/') {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        Some((hex(start), hex(end), FileOffset(hex(offset)), path.into()))
    };
    maps.lines().filter_map(parse).collect()
}

#[inline(never)]
fn landmark() -> u32 {
    std::hint::black_box(line!())
}

#[test]
fn our_own_address_leads_to_our_own_line() {
    let address = landmark as *const () as u64;
    let (start, _, offset, path) =
        mappings().into_iter().find(|(start, end, ..)| (*start..*end).contains(&address)).unwrap();
    let image = Image::open(&path).unwrap();
    let bias = image.bias(start, offset).unwrap();
    let frames = image.frames(Svma::from_process(address, bias), &default_scope());
    let frame = frames.last().unwrap();
    assert_eq!(frame.function.base(), "all::process::landmark");
    // Its first instruction belongs to its head or, optimised, to its body.
    assert!((landmark() - 1..=landmark()).contains(&frame.line.unwrap()), "{frame:?}");
    assert!(frame.file.as_deref().unwrap().ends_with("tests/process.rs"));
    assert!(frame.in_scope);
}

#[test]
fn every_mapping_has_a_bias() {
    let libc = mappings().into_iter().find(|(.., path)| path.to_string_lossy().contains("libc"));
    for (start, _, offset, path) in mappings() {
        let image = Image::open(&path).unwrap();
        let bias = image.bias(start, offset).unwrap();
        assert_eq!(bias % 4096, 0, "{path:?}");
        if libc.as_ref().is_some_and(|(.., libc)| *libc == path) {
            // Known to the dynamic linker by the same address.
            let getpid = libc_getpid();
            let name = image.symbol(Svma::from_process(getpid, bias)).unwrap();
            assert!(name.matches("*getpid*"), "{name}");
        }
    }
}

/// The address of a C library function, as the dynamic linker resolved it.
fn libc_getpid() -> u64 {
    unsafe extern "C" {
        fn getpid() -> i32;
    }
    getpid as *const () as u64
}

fn linking(path: &Path) -> Linking {
    match inspect(path).unwrap() {
        Executable::Elf(program) => {
            assert_eq!(program.class, Class::Bits64);
            assert!(!program.setuid && !program.setgid);
            program.linking
        }
        other => panic!("{path:?}: {other:?}"),
    }
}

#[test]
fn launcher_sees_linking_scripts_and_modes() {
    let directory = tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/usr/bin/env -S python3\nprint()\n").unwrap();
    let expected =
        Executable::Script { interpreter: "/usr/bin/env".into(), argument: Some("-S python3".into()) };
    assert_eq!(inspect(&script).unwrap(), expected);
    std::fs::write(&script, "").unwrap();
    assert_eq!(inspect(&script).unwrap(), Executable::Other);

    let source = ("hash.c", C);
    let compile = |flags: &[&str]| compile(directory.path(), "gcc", source, flags);
    let Some(program) = compile(&["-O2"]) else { return };
    assert!(matches!(linking(&program), Linking::Glibc(_)));
    for flags in [&["-static"][..], &["-static-pie"]] {
        assert_eq!(compile(flags).map(|program| linking(&program)), Some(Linking::Static));
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755)).unwrap();
    let Executable::Elf(elf) = inspect(&program).unwrap() else { panic!() };
    assert!(elf.setuid && elf.setgid);
}

#[test]
fn images_can_be_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Image>();
    check::<symbols::Scope>();
    check::<symbols::Segment>();
}

#[test]
fn lld_places_code_apart_from_its_offset() {
    let directory = tempdir().unwrap();
    let linker = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Ok(sysroot) = linker else { return };
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    let lld = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
    if !lld.join("ld.lld").exists() {
        eprintln!("skipped: no lld in the Rust toolchain");
        return;
    }
    let search = format!("-B{}", lld.display());
    let source = (
        "maps.c",
        "#include <stdio.h>\nint main() { char b[4096]; FILE *f = fopen(\"/proc/self/maps\", \"r\"); printf(\"%p\\n\", (void *)main); while (fgets(b, sizeof b, f)) fputs(b, stdout); }\n",
    );
    let Some(program) = compile(directory.path(), "gcc", source, &["-g", &search, "-fuse-ld=lld"]) else {
        return;
    };
    let output = Command::new(&program).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (main, maps) = output.split_once('\n').unwrap();
    let main = u64::from_str_radix(main.trim_start_matches("0x"), 16).unwrap();
    let image = Image::open(&program).unwrap();
    let code = image.loads().iter().find(|load| load.executable).unwrap();
    assert_ne!(code.offset.0, code.address.0, "lld no longer does this");
    let fields: Vec<&str> = maps
        .lines()
        .find(|line| line.contains("r-xp") && line.contains(program.to_str().unwrap()))
        .unwrap()
        .split_whitespace()
        .collect();
    let start = u64::from_str_radix(fields[0].split('-').next().unwrap(), 16).unwrap();
    let offset = FileOffset(u64::from_str_radix(fields[2], 16).unwrap());
    let bias = image.bias(start, offset).unwrap();
    let frames = image.frames(Svma::from_process(main, bias), &default_scope());
    assert_eq!((frames[0].function.full(), frames[0].line), ("main", Some(2)));
}
