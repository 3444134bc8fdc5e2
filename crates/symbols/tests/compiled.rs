//! Programs of each language, optimised and not, with each DWARF version: do known addresses have
//! the frames that the source says?

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::toolchain::{C, CPP, RUST, compile, default_scope, line_of};
use symbols::{Image, LineLookup, Segment, Svma};
use tempfile::tempdir;

const FLAGS: [&[&str]; 8] = [
    &["-g", "-O0"],
    &["-g", "-O2"],
    &["-g", "-O2", "-gdwarf-4"],
    &["-g", "-O0", "-gdwarf-4", "-no-pie"],
    &["-g", "-O2", "-gdwarf-5", "-no-pie"],
    &["-g", "-O2", "-gdwarf-5", "-gz"],
    &["-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections"],
    &["-g1", "-O2"],
];

/// The container of the function that `pattern` means, found through the symbol of its address.
fn containers(image: &Image, pattern: &str) -> Vec<Range<Svma>> {
    let mut found = Vec::new();
    for load in image.loads().iter().filter(|load| load.executable) {
        let mut at = load.address.0;
        let end = at + load.memory_size;
        while at < end {
            match image.container(Svma(at)) {
                Some(container) => {
                    if image.symbol(Svma(at)).is_some_and(|name| name.matches(pattern)) {
                        found.push(container.clone());
                    }
                    at = container.end.0.max(at + 1);
                }
                None => at += 1,
            }
        }
    }
    assert!(!found.is_empty(), "no function `{pattern}` in {}", image.path().display());
    found
}

fn segments(image: &Image, pattern: &str) -> Vec<Segment> {
    let scope = default_scope();
    let mut all = Vec::new();
    for container in containers(image, pattern) {
        let segments = image.segments(container.clone(), &scope);
        let ends: Vec<_> = segments.iter().map(|segment| segment.range.end).collect();
        let starts: Vec<_> = segments.iter().map(|segment| segment.range.start).collect();
        assert_eq!(starts[0], container.start);
        assert_eq!(ends[ends.len() - 1], container.end);
        assert_eq!(ends[..ends.len() - 1], starts[1..], "no gaps");
        for pair in segments.windows(2) {
            assert_ne!(pair[0].frames, pair[1].frames, "maximal");
        }
        for segment in &segments {
            let last = Svma(segment.range.end.0 - 1);
            assert_eq!(image.frames(segment.range.start, &scope), segment.frames);
            assert_eq!(image.frames(last, &scope), segment.frames);
        }
        all.extend(segments);
    }
    all
}

/// Lines of the innermost in-scope frames, and the base names of their functions.
fn in_scope(segments: &[Segment]) -> Vec<(u32, String)> {
    let frames = segments.iter().filter_map(Segment::in_scope);
    frames.filter_map(|frame| Some((frame.line?, frame.function.base().to_owned()))).collect()
}

fn ends_with(segment: &Segment, path: &str) -> bool {
    segment.frames[0].file.as_deref().is_some_and(|file| file.ends_with(path))
}

fn programs(directory: &Path, compiler: &str, source: (&str, &str)) -> Vec<PathBuf> {
    FLAGS.iter().filter_map(|flags| compile(directory, compiler, source, flags)).collect()
}

#[test]
fn c_program() {
    let directory = tempdir().unwrap();
    for program in programs(directory.path(), "gcc", ("hash.c", C)) {
        let image = Image::open(&program).unwrap();
        assert!(image.has_line_info());
        assert!(image.has_line_info_in(&default_scope()));
        assert_eq!(image.build_id().map(|id| id.len()), Some(40));
        let segments = segments(&image, "work");
        let lines = in_scope(&segments);
        for marker in ["mix 1", "mix 2"] {
            let inlined = (line_of(C, marker), "mix".to_owned());
            assert!(lines.contains(&inlined), "{program:?}: {inlined:?} in {lines:?}");
        }
        let mix = segments.iter().find(|segment| segment.frames[0].function.full() == "mix");
        let frames = &mix.unwrap().frames;
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[1].function.full(), "work");
        assert_eq!(frames[1].line, Some(line_of(C, "call of mix")));
        let file = directory.path().join("hash.c");
        assert!(frames.iter().all(|frame| frame.file.as_deref() == file.to_str()));
        assert!(frames.iter().all(|frame| frame.in_scope));
        assert_eq!(image.damage(), None);
    }
}

#[test]
fn c_program_catalogue() {
    let directory = tempdir().unwrap();
    for program in programs(directory.path(), "gcc", ("hash.c", C)) {
        let image = Image::open(&program).unwrap();
        for (pattern, expected) in [("work", true), ("mix", true), ("wo*", true), ("wrk", false)] {
            assert_eq!(image.has_function(pattern), expected, "{pattern} {program:?}");
        }
        assert_eq!(image.suggest("wrk"), ["work"]);
        let line = line_of(C, "mix 1");
        assert_eq!(image.has_line("hash.c", line), LineLookup::Exact);
        assert_eq!(
            image.has_line("hash.c", 1_000),
            LineLookup::NearestWithCode(line_of(C, "call of work") + 1)
        );
        let LineLookup::NoSuchFile { similar } = image.has_line("hsh.c", line) else { panic!() };
        assert_eq!(similar, [directory.path().join("hash.c").to_str().unwrap()]);
    }
}

/// Where visits to a function or a line are counted.
#[test]
fn c_program_entries() {
    let directory = tempdir().unwrap();
    for program in programs(directory.path(), "gcc", ("hash.c", C)) {
        let image = Image::open(&program).unwrap();
        let [work] = &containers(&image, "work")[..] else { panic!("{program:?}") };
        assert_eq!(image.function_entries("work"), [work.start], "{program:?}");
        let mix = image.function_entries("mix");
        assert!(mix.len() == 1 && work.contains(&mix[0]), "{program:?}: {mix:?}");
        let line = image.line_entries("hash.c", line_of(C, "mix 1"), &default_scope());
        assert!(line.len() == 1 && work.contains(&line[0]), "{program:?}: {line:?}");
        let frames = image.frames(line[0], &default_scope());
        assert_eq!((frames.len(), frames[0].line), (2, Some(line_of(C, "mix 1"))));
        assert_eq!(image.line_entries("hash.c", 1_000, &default_scope()), []);
        assert_eq!(image.function_entries("wrk"), []);
    }
}

#[test]
fn cpp_program() {
    let directory = tempdir().unwrap();
    for program in programs(directory.path(), "g++", ("shop.cc", CPP)) {
        let image = Image::open(&program).unwrap();
        // All instances of a template share their base name.
        assert_eq!(containers(&image, "shop::Shelf::total").len(), 2);
        let total = in_scope(&segments(&image, "shop::Shelf::total"));
        assert!(total.contains(&(line_of(CPP, "adding"), "shop::Shelf::total".into())), "{total:?}");
        assert!(image.has_function("weight"));
        assert!(image.has_function("tidy"));

        // The functor that std::sort calls leads back to our lambda, and to the static function in
        // our namespace, which has no linker name.
        let weighing = line_of(CPP, "weighing");
        let all: Vec<Segment> = ["*"].iter().flat_map(|pattern| segments(&image, pattern)).collect();
        let weighers: Vec<&Segment> = all
            .iter()
            .filter(|segment| {
                let frame = &segment.frames.first();
                frame.is_some_and(|frame| frame.line == Some(weighing) && frame.in_scope)
            })
            .collect();
        assert!(!weighers.is_empty(), "{program:?}");
        let minimal = program.to_str().unwrap().contains("-g1");
        for weigher in weighers {
            let name = weigher.frames[0].function.base();
            assert_eq!(name, if minimal { "weight" } else { "shop::weight" }, "{program:?}");
            assert!(
                weigher
                    .frames
                    .iter()
                    .any(|frame| { frame.line == Some(line_of(CPP, "comparing")) && frame.in_scope })
            );
        }
        // Standard library code inlined into ours: it is not in scope, our caller is.
        if program.to_str().unwrap().contains("-O2") {
            let inlined: Vec<Segment> = segments(&image, "main")
                .into_iter()
                .filter(|segment| segment.frames.len() > 1 && !segment.frames[0].in_scope)
                .collect();
            assert!(!inlined.is_empty());
            assert!(inlined.iter().all(|segment| segment.in_scope().is_some()));
            let pushing = (line_of(CPP, "pushing"), "main".to_owned());
            assert!(in_scope(&inlined).contains(&pushing), "{inlined:?}");
        }
        assert_eq!(image.damage(), None);
    }
}

#[test]
fn rust_program() {
    let directory = tempdir().unwrap();
    for flags in [
        &["-g", "-Copt-level=0"][..],
        &["-g", "-Copt-level=3"],
        &["-g", "-Copt-level=3", "-Csymbol-mangling-version=v0"],
        &["-g", "-Copt-level=3", "-Cdwarf-version=5"],
        &["-Cdebuginfo=1", "-Copt-level=3"],
        &["-Cdebuginfo=line-tables-only", "-Copt-level=2"],
        &["-g", "-Copt-level=3", "-Crelocation-model=static", "-Clink-arg=-no-pie"],
    ] {
        let Some(program) = compile(directory.path(), "rustc", ("shop.rs", RUST), flags) else { return };
        let image = Image::open(&program).unwrap();
        assert!(image.has_line_info_in(&default_scope()));
        let total = segments(&image, "shop::total");
        let lines = in_scope(&total);
        let has =
            |lines: &[(u32, String)], marker| lines.iter().any(|(line, _)| *line == line_of(RUST, marker));
        assert!(has(&lines, "summing"), "{flags:?}: {lines:?}");
        if !flags.contains(&"-Copt-level=0") {
            // Without linker names (line tables only) functions inlined have no path.
            let named = |name: &str| name == "shop::shop::Item::price" || name == "price";
            let pricing = |(line, name): &(u32, String)| *line == line_of(RUST, "pricing") && named(name);
            assert!(lines.iter().any(pricing), "{flags:?} {lines:?}");
            // Iterator adapters of the standard library, inlined into our function.
            let std: Vec<Segment> = total
                .into_iter()
                .filter(|segment| segment.frames.len() > 1 && !segment.frames[0].in_scope)
                .collect();
            assert!(!std.is_empty());
            for segment in &std {
                let file = segment.frames[0].file.as_deref().unwrap_or_default();
                assert!(file.is_empty() || file.contains("/library/"), "{file}");
            }
            assert!(has(&in_scope(&std), "summing"), "{flags:?}");
            let sorted = in_scope(&segments(&image, "sorted"));
            assert!(has(&sorted, "pushing"), "{sorted:?}");
        }
        assert!(image.has_function("total") && image.has_function("sorted"));
        assert_eq!(image.has_line("shop.rs", line_of(RUST, "summing")), LineLookup::Exact);
        assert_eq!(image.damage(), None);
    }
}

#[test]
fn rust_without_debug_information_has_it_for_the_standard_library_only() {
    let directory = tempdir().unwrap();
    let Some(program) = compile(directory.path(), "rustc", ("shop.rs", RUST), &["-O"]) else { return };
    let image = Image::open(&program).unwrap();
    assert!(image.has_line_info());
    assert!(!image.has_line_info_in(&default_scope()));
    let segments = segments(&image, "shop::total");
    assert!(segments.iter().all(|segment| segment.in_scope().is_none()));
    assert!(segments.iter().all(|segment| segment.frames[0].function.matches("total")));
    assert!(!segments.is_empty() && !segments.iter().any(|segment| ends_with(segment, "shop.rs")));
}
