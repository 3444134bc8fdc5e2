//! Files that import each other in a circle can only be understood together, so circles are small. Looks at the sources of all crates;
//! says nothing about circles within one file, nor about methods that are written elsewhere than their type.

mod sources;
mod words;

use sources::Sources;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files in the largest circle of a crate.
const LARGEST: usize = 3;

type Needs = BTreeMap<String, BTreeSet<String>>;

/// Everything that a file needs, itself or through others.
fn reached<'n>(needs: &'n Needs, file: &str) -> BTreeSet<&'n str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = needs[file].iter().map(String::as_str).collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(needs[next].iter().map(String::as_str));
        }
    }
    reached
}

/// The circles of more than one file, the largest first.
fn circles(needs: &Needs) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        needs.keys().map(|file| (file.as_str(), reached(needs, file))).collect();
    let circle = |file: &str| -> Vec<&str> {
        reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect()
    };
    let circles: BTreeSet<Vec<&str>> =
        reached.keys().map(|file| circle(file)).filter(|c| c.len() > 1).collect();
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The roots of all crates of the workspace, programs of their own included.
fn roots() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let within =
        |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let crates = within(workspace.join("crates"))
        .chain(["bench", "corners", "mosaic", "targets"].map(|name| workspace.join(name)));
    let sources = crates.map(|of| of.join("src"));
    let roots = sources.flat_map(|src| {
        ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().chain(within(src.join("bin")))
    });
    roots.filter(|root| root.is_file()).collect()
}

#[test]
fn no_circle_of_files_is_large() {
    let roots = roots();
    assert!(roots.len() > 15, "{roots:?}");
    let mut large = Vec::new();
    for root in roots {
        let needs = Sources::of(&root).needs();
        let circles = circles(&needs).into_iter().filter(|circle| circle.len() > LARGEST);
        large.extend(circles.map(|circle| describe(&root, &circle, &needs)));
    }
    assert!(large.is_empty(), "{}", large.join("\n"));
}

fn describe(root: &Path, circle: &[&str], needs: &Needs) -> String {
    let mut text = format!("{}: {} files\n", root.display(), circle.len());
    for file in circle {
        let within: Vec<&str> =
            needs[*file].iter().map(String::as_str).filter(|other| circle.contains(other)).collect();
        text += &format!("    {file} needs {}\n", within.join(", "));
    }
    text
}

/// The circles of a crate that is not there.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let needs = Sources::made_up(files).needs();
    circles(&needs).into_iter().map(|circle| circle.into_iter().map(str::to_owned).collect()).collect()
}

#[test]
fn a_circle_is_found_whatever_way_a_name_takes() {
    let root = ("", "mod a; mod b; pub use a::{self, inner::A}; use b::B; pub fn c() -> B {}");
    let a = ("a", "pub mod inner; use crate::b; struct S(b::B);");
    for (what, inner) in [
        ("an import", "use crate::b::B; pub struct A(B);"),
        ("a path from the parent", "pub struct A(super::super::b::B);"),
        ("a glob", "use crate::b::*; pub struct A(B);"),
        ("another name", "use crate::{b as other}; pub struct A(other::B);"),
    ] {
        let b = ("b", "use crate::A; pub struct B(A);");
        assert_eq!(circles_of(&[root, a, ("a::inner", inner), b]), [["a::inner", "b"]], "{what}");
    }
    let inner = ("a::inner", "use crate::b::B; pub struct A(B);");
    let b = ("b", "pub struct B(fn() -> crate::c);");
    assert_eq!(circles_of(&[root, a, inner, b]), [["b", "the root"]], "what the root defines is the root's");
}

#[test]
fn what_is_no_import_makes_no_circle() {
    let root = ("", "mod a; mod b; pub use a::A; pub use b::B;");
    for b in [
        "// use crate::a::A;\npub struct B;",
        "/* a /* crate::a::A */ */ pub struct B;",
        "pub const B: &str = \"crate::a::A\";",
        "pub const B: &str = r#\"\" crate::a::A\"#;",
        "pub struct B<'a>(&'a str); #[cfg(test)] mod tests { use crate::a::A; }",
        "pub struct B(std::a::A);",
        "pub const B: char = '\\''; fn x() { '\"'; } // crate::a::A",
    ] {
        assert_eq!(
            circles_of(&[root, ("a", "use crate::B; pub struct A(B);"), ("b", b)]),
            Vec::<Vec<String>>::new(),
            "{b}"
        );
    }
}
