//! Debug information that is not in the file: stripped, moved aside, split, packaged.

use std::path::Path;
use std::process::Command;

use crate::toolchain::{C, compile, default_scope, line_of, run};
use symbols::{Image, ImageError, Segment, Svma};
use tempfile::tempdir;

/// Where `work` is, from the symbols of the unstripped program.
fn work(image: &Image) -> Svma {
    let load = image.loads().iter().find(|load| load.executable).unwrap();
    let addresses = load.address.0..load.address.0 + load.memory_size;
    let is_work = |at: &u64| image.symbol(Svma(*at)).is_some_and(|name| name.full() == "work");
    Svma(addresses.clone().find(is_work).expect("a function `work`"))
}

fn assert_has_lines(image: &Image, work: Svma) {
    let container = image.container(work).unwrap();
    let segments = image.segments(container, &default_scope());
    let marker = line_of(C, "mix 1");
    let inlined = |segment: &Segment| {
        segment.frames.len() == 2
            && segment.frames[0].line == Some(marker)
            && segment.frames[0].function.full() == "mix"
            && segment.in_scope().is_some()
    };
    assert!(segments.iter().any(inlined), "{segments:?} {:?}", image.damage());
}

fn program(directory: &Path, flags: &[&str]) -> Option<(std::path::PathBuf, Svma)> {
    let program = compile(directory, "gcc", ("hash.c", C), flags)?;
    let at = work(&Image::open(&program).unwrap());
    Some((program, at))
}

#[test]
fn stripped_programs_keep_containers() {
    let directory = tempdir().unwrap();
    let flags = ["-g", "-O2", "-rdynamic"];
    let Some((program, at)) = program(directory.path(), &flags) else { return };
    let range = Image::open(&program).unwrap().container(at);
    for strip in ["--strip-debug", "--strip-all"] {
        let stripped = directory.path().join("stripped");
        if !run(Command::new("strip").arg(strip).arg(&program).arg("-o").arg(&stripped)) {
            return;
        }
        let image = Image::open(&stripped).unwrap();
        assert!(!image.has_line_info(), "{strip}");
        assert!(!image.has_line_info_in(&default_scope()));
        let error = image.debug_file().unwrap_err();
        assert!(matches!(error, ImageError::NoLineInfo { .. }));
        assert!(error.to_string().contains("rebuild with -g"));
        // `--strip-all` leaves what `-rdynamic` exports.
        assert_eq!(image.container(at), range, "{strip}");
        let segments = image.segments(range.clone().unwrap(), &default_scope());
        assert_eq!(segments.len(), 1);
        let frame = &segments[0].frames[0];
        assert_eq!((frame.function.full(), frame.line, frame.in_scope), ("work", None, false));
    }
}

#[test]
fn debug_link_beside_the_program() {
    let directory = tempdir().unwrap();
    for (flags, below) in [
        (&["-g", "-O2"][..], ""),
        (&["-g", "-O2"], ".debug"),
        // Without build ID the checksum decides.
        (&["-g", "-O2", "-Wl,--build-id=none"], ""),
    ] {
        let Some((program, at)) = program(directory.path(), flags) else { return };
        let aside = directory.path().join(below);
        std::fs::create_dir_all(&aside).unwrap();
        let debug = aside.join("program.debug");
        let stripped = directory.path().join("stripped");
        let moved = run(Command::new("objcopy").arg("--only-keep-debug").args([&program, &debug]))
            && run(Command::new("objcopy")
                .arg("--strip-all")
                .arg(format!("--add-gnu-debuglink={}", debug.display()))
                .args([&program, &stripped]));
        if !moved {
            return;
        }
        let image = Image::open(&stripped).unwrap();
        assert_eq!(image.debug_file().unwrap(), debug.canonicalize().unwrap());
        assert_has_lines(&image, at);
        // A debug file of another build is worse than none.
        std::fs::write(&debug, "another").unwrap();
        assert!(!Image::open(&stripped).unwrap().has_line_info());
        std::fs::remove_file(&debug).unwrap();
    }
}

#[test]
fn split_dwarf() {
    let directory = tempdir().unwrap();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let flags = ["-g", "-O2", "-gsplit-dwarf", version];
        let Some((program, at)) = program(directory.path(), &flags) else { return };
        let dwo: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "dwo"))
            .collect();
        assert_eq!(dwo.len(), 1);
        let image = Image::open(&program).unwrap();
        assert_has_lines(&image, at);
        assert_eq!(image.damage(), None);
        // In a package instead. binutils' dwp(1) knows version 4 only.
        let mut packaged = program.clone().into_os_string();
        packaged.push(".dwp");
        let package = version == "-gdwarf-4"
            && run(Command::new("dwp").current_dir(directory.path()).arg(&dwo[0]).arg("-o").arg(&packaged));
        std::fs::remove_file(&dwo[0]).unwrap();
        let image = Image::open(&program).unwrap();
        if package {
            assert_has_lines(&image, at);
            assert_eq!(image.damage(), None);
        } else {
            // The line table stays in the program; the inlined functions are lost.
            let frames = image.frames(at, &default_scope());
            assert_eq!(frames[0].function.full(), "work");
            assert!(frames[0].line.is_some() && frames[0].in_scope);
        }
    }
}

#[test]
fn not_images() {
    let directory = tempdir().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    assert!(matches!(Image::open(&text), Err(ImageError::NotElf { .. })));
    assert!(matches!(Image::open(directory.path()), Err(ImageError::NotAFile { .. })));
    let missing = directory.path().join("missing");
    assert!(matches!(Image::open(&missing), Err(ImageError::Read { .. })));
    std::fs::write(&text, b"\x7fELF\x02\x01\x01").unwrap();
    assert!(matches!(Image::open(&text), Err(ImageError::Damaged { .. })));
}

#[test]
fn made_up_names_are_told_from_real_ones() {
    let directory = tempdir().unwrap();
    let Some((program, at)) = program(directory.path(), &["-O2"]) else { return };
    let stripped = directory.path().join("stripped");
    if !run(Command::new("strip").arg("--strip-all").arg(&program).arg("-o").arg(&stripped)) {
        return;
    }
    let names = |path: &Path| {
        let image = Image::open(path).unwrap();
        let of = |frames: Vec<symbols::Frame>| frames.first().map(|frame| frame.function.full().to_owned());
        let scope = default_scope();
        let (all, real) = (image.frames(at, &scope), image.named_frames(at, &scope));
        (of(all), of(real), image.symbol(at).map(|name| name.full().to_owned()))
    };
    let work = || Some("work".to_owned());
    assert_eq!(names(&program), (work(), work(), work()));
    assert_eq!(names(&stripped), (Some(format!("stripped+{:#x}", at.0)), None, None));
}
