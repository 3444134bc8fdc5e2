//! The files of a crate, and which file needs which: it names an item that the other defines, whatever path the name takes. Does not
//! see methods: they come with the type, wherever they are written.

use super::words::words;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of one crate, by the modules that they are.
#[derive(Default)]
pub struct Sources {
    files: BTreeMap<Module, File>,
}

/// Names from the root of the crate; the root itself has none.
type Module = Vec<String>;

/// Names between `::`.
type Words = Vec<String>;

#[derive(Default)]
struct File {
    words: Words,
    /// The items that are defined here.
    items: BTreeSet<String>,
    /// What names stand for that are imported here.
    imports: BTreeMap<String, Words>,
    /// The names among them that are only passed on, if nothing else here mentions them.
    passed_on: BTreeSet<String>,
    /// Modules of which everything is imported here.
    globs: Vec<Words>,
}

impl Sources {
    /// The files that a root declares as its modules, and those that these declare.
    pub fn of(root: &Path) -> Self {
        let mut sources = Self::default();
        sources.read(root, root.parent().unwrap(), Vec::new());
        sources
    }

    /// A crate that is not there: each file's module, as `a::b`, with its text.
    pub fn made_up(files: &[(&str, &str)]) -> Self {
        let module =
            |name: &str| name.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let files = files.iter().map(|(name, text)| (module(name), File::of(words(text)))).collect();
        Self { files }
    }

    fn read(&mut self, path: &Path, folder: &Path, module: Module) {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let words = words(&text);
        for declared in words.windows(3).filter(|words| words[0] == "mod" && words[2] == ";") {
            let name = &declared[1];
            let alone = folder.join(format!("{name}.rs"));
            let inner = folder.join(name);
            let path: PathBuf = if alone.exists() { alone } else { inner.join("mod.rs") };
            // With `#[path]` it is another crate's, which imports nothing of this one.
            if !path.exists() && text.contains("#[path") {
                continue;
            }
            self.read(&path, &inner, joined(&module, name));
        }
        self.files.insert(module, File::of(words));
    }

    /// Which files each file needs.
    pub fn needs(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.files
            .iter()
            .map(|(module, file)| {
                let mentioned = file.mentioned();
                let defined = mentioned.iter().filter_map(|path| self.defines(module, path, 0));
                let needed = defined.chain(self.through_globs(module, file)).filter(|other| other != module);
                (name(module), needed.map(|other| name(&other)).collect())
            })
            .collect()
    }

    /// What a file needs of modules of which it imports everything.
    fn through_globs(&self, module: &Module, file: &File) -> Vec<Module> {
        let names: BTreeSet<&String> = file.words.iter().collect();
        let mut needed = Vec::new();
        for glob in &file.globs {
            let Some((of, _)) = self.walk(module, glob, 0).filter(|(_, rest)| rest.is_empty()) else {
                continue;
            };
            let offered = &self.files[&of];
            for name in offered.items.iter().chain(offered.imports.keys()) {
                if names.contains(name) && !file.items.contains(name) && !file.imports.contains_key(name) {
                    needed.extend(self.defines(&of, std::slice::from_ref(name), 0));
                }
            }
        }
        needed
    }

    /// The file that defines what a path means in a module; none if it is of another crate, or a module itself.
    fn defines(&self, module: &Module, path: &[String], depth: u32) -> Option<Module> {
        self.walk(module, path, depth).filter(|(_, rest)| !rest.is_empty()).map(|(of, _)| of)
    }

    /// Follows a path from a module to the module that has the item, and returns what is left of the path there.
    fn walk<'p>(&self, module: &Module, path: &'p [String], depth: u32) -> Option<(Module, &'p [String])> {
        let mut at = module.clone();
        let mut left = path;
        let mut entered = false;
        while let [first, rest @ ..] = left {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => {
                    let file = self.files.get(&at)?;
                    let inner = joined(&at, first);
                    if self.files.contains_key(&inner) {
                        at = inner;
                    } else if file.items.contains(first) {
                        return Some((at, left));
                    } else if let Some(import) = file.imports.get(first).filter(|_| depth < 9) {
                        return match self.walk(&at, import, depth + 1)? {
                            (of, []) => self.walk(&of, rest, depth + 1),
                            (of, _) => Some((of, left)),
                        };
                    } else {
                        return self
                            .passed_by_globs(&at, left, depth)
                            .or_else(|| entered.then_some((at, left)));
                    }
                }
            }
            entered = true;
            left = rest;
        }
        Some((at, left))
    }

    /// Where a path leads that begins with a name of a module of which everything is imported.
    fn passed_by_globs<'p>(
        &self,
        at: &Module,
        left: &'p [String],
        depth: u32,
    ) -> Option<(Module, &'p [String])> {
        let globs = self.files[at].globs.iter().filter(|_| depth < 9);
        let modules =
            globs.filter_map(|glob| self.walk(at, glob, depth + 1)).filter(|(_, rest)| rest.is_empty());
        modules
            .map(|(of, _)| of)
            .filter(|of| self.files[of].offers(&left[0]))
            .find_map(|of| self.walk(&of, left, depth + 1))
    }
}

fn joined(module: &Module, name: &str) -> Module {
    module.iter().map(String::as_str).chain([name]).map(str::to_owned).collect()
}

fn name(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

impl File {
    fn of(words: Words) -> Self {
        let mut file = Self { items: items(&words), ..Self::default() };
        let mut at = 0;
        while at < words.len() {
            if words[at] != "use" {
                file.words.push(words[at].clone());
                at += 1;
                continue;
            }
            let passed_on = at > 0 && matches!(words[at - 1].as_str(), "pub" | ")");
            let end = at + words[at..].iter().position(|word| word == ";").unwrap_or(words.len() - at);
            file.import(&words[at + 1..end], &[], passed_on);
            at = end;
        }
        file
    }

    /// Takes in what one `use` says after a prefix.
    fn import(&mut self, tree: &[String], prefix: &[String], passed_on: bool) {
        let tree = if tree.first().is_some_and(|word| word == "::") { return } else { tree };
        let Some(brace) = tree.iter().position(|word| word == "{") else {
            let (path, alias) = match tree.iter().position(|word| word == "as") {
                Some(at) => (&tree[..at], Some(&tree[at + 1])),
                None => (tree, None),
            };
            let mut path: Words =
                prefix.iter().chain(path.iter().filter(|word| *word != "::")).cloned().collect();
            if path.len() > 1 {
                path.pop_if(|last| last == "self");
            }
            let last = path.last().cloned().unwrap_or_default();
            if last == "*" {
                path.pop();
                self.globs.push(path);
            } else {
                let name = alias.unwrap_or(&last).clone();
                if passed_on {
                    self.passed_on.insert(name.clone());
                }
                self.imports.insert(name, path);
            }
            return;
        };
        let prefix: Words =
            prefix.iter().chain(tree[..brace].iter().filter(|word| *word != "::")).cloned().collect();
        for part in parts(&tree[brace + 1..tree.len() - 1]) {
            self.import(part, &prefix, passed_on);
        }
    }

    /// Whether a name of this file can be had by importing everything.
    fn offers(&self, name: &String) -> bool {
        self.items.contains(name) || self.imports.contains_key(name)
    }

    /// The paths in this file: imported, and written out.
    fn mentioned(&self) -> Vec<Words> {
        let names: BTreeSet<&String> = self.words.iter().collect();
        let used = |name: &String| !self.passed_on.contains(name) || names.contains(name);
        let mut paths: Vec<Words> =
            self.imports.iter().filter(|(name, _)| used(name)).map(|(_, path)| path.clone()).collect();
        let mut path = Words::new();
        for (at, word) in self.words.iter().enumerate() {
            let follows = at > 0 && self.words[at - 1] == "::";
            if is_name(word) && (follows || path.is_empty()) {
                path.push(word.clone());
            } else if word != "::" {
                paths.extend((path.len() > 1).then(|| std::mem::take(&mut path)));
                path.clear();
                path.extend(is_name(word).then(|| word.clone()));
            }
        }
        paths.extend((path.len() > 1).then_some(path));
        paths
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// What stands between commas, those in inner braces aside.
fn parts(list: &[String]) -> Vec<&[String]> {
    let mut depth = 0;
    let comma = |word: &String| {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && word == ","
    };
    list.split(comma).filter(|part| !part.is_empty()).collect()
}

/// The names that follow a word that defines something, outside functions and bodies of types.
fn items(words: &[String]) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    let mut depth = 0;
    let mut outer = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            // A block of foreign functions, or a module within the file.
            "{" if at > 1 && (words[at - 1].starts_with('"') || words[at - 2] == "mod") => {
                outer.insert(depth);
            }
            "{" => depth += 1,
            "}" if !outer.remove(&depth) => depth -= 1,
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "mod"
                if depth == 0 =>
            {
                let name =
                    words[at + 1..].iter().find(|word| !matches!(word.as_str(), "mut" | "fn" | "unsafe"));
                items.extend(name.filter(|name| is_name(name)).cloned());
            }
            "macro_rules" => {
                items.insert(words[at + 2].clone());
            }
            _ => {}
        }
    }
    items
}
