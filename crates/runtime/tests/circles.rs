//! The files of the runtime import each other in one direction: no file imports, through others, itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The modules of the crate, those within a folder taken together, with what each imports.
fn imports() -> Imports {
    let mut imports = Imports::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let files: Vec<_> = match path.is_dir() {
            true => std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => vec![path.clone()],
        };
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for file in files {
            imports
                .entry(module.clone())
                .or_default()
                .extend(imported(&std::fs::read_to_string(file).unwrap()));
        }
    }
    imports.remove("lib");
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for (own, imported) in &mut imports {
        // A macro names the file that it is in.
        imported.retain(|module| modules.contains(module) && module != own);
    }
    imports
}

/// The modules that follow `crate::`, outside comments and tests.
fn imported(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    code.join("\n").split("crate::").skip(1).flat_map(first_names).collect()
}

/// `a` of `a::b…`, `a` and `b` of `{a::{x, y}, b}…`.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![name(path)] };
    let mut depth = 1;
    let mut names = vec![name(list)];
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(&list[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Everything that a module imports, itself or through others.
fn reached<'i>(imports: &'i Imports, module: &str) -> BTreeSet<&'i str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = imports[module].iter().map(String::as_str).collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(imports[next].iter().map(String::as_str));
        }
    }
    reached
}

#[test]
fn no_files_import_each_other() {
    let imports = imports();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reached(&imports, module))).collect();
    for (module, others) in &reached {
        let circle: Vec<_> = others.iter().filter(|other| reached[*other].contains(module)).collect();
        assert!(circle.is_empty(), "{module} is in a circle: {circle:?}");
    }
    assert!(reached["memory"].is_empty(), "memory imports {:?}", reached["memory"]);
    assert!(reached["interpose"].len() > 20, "this test overlooks imports: {:?}", reached["interpose"]);
}

#[test]
fn the_readme_lists_the_files_in_the_order_of_their_imports() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let rows = readme.lines().skip_while(|line| *line != "|---|---|").skip(1);
    let columns = rows.map_while(|row| row.strip_prefix("| ")?.split(" | ").next());
    let order: Vec<&str> =
        columns.flat_map(|files| files.split(", ")).map(|file| file.trim_matches(['`', '/'])).collect();
    let imports = imports();
    assert_eq!(BTreeSet::from_iter(order.iter().copied()), imports.keys().map(String::as_str).collect());
    for (place, module) in order.iter().enumerate() {
        let later: Vec<_> =
            imports[*module].iter().filter(|other| !order[..place].contains(&other.as_str())).collect();
        assert!(later.is_empty(), "{module} imports {later:?}, which the README lists behind it");
    }
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let source = "use crate::a;\nuse crate::{b::{x, y}, c};\n// crate::d\nfn f() { crate::e::g($crate::f!()) }\n\
                  #[cfg(test)]\nfn only_here() {}\nuse crate::h;\n#[cfg(test)]\nmod tests { use crate::i; }";
    assert_eq!(imported(source), ["a", "b", "c", "e", "f", "h"].map(String::from).into());
}
