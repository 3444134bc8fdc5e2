//! Files that are the same program under other paths: each release may lie in a folder of its own, and a function of one is the same function in the next.

use std::collections::{BTreeMap, BTreeSet};

/// What a file is known by, wherever it lies: its name. Of what is no file (`[kernel]`), all of it.
pub fn known_by(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if path.starts_with('/') && !name.is_empty() => name,
        _ => path,
    }
}

/// The paths of files, by what they are known by.
#[derive(Debug, Default)]
pub struct Paths(BTreeMap<String, BTreeSet<String>>);

impl Paths {
    /// Another one.
    pub fn add(&mut self, path: String) {
        self.0.entry(known_by(&path).to_owned()).or_default().insert(path);
    }

    /// All of them, in words: the path, or `server (3 paths)`.
    pub fn shown(&self, known_by: &str, others: Option<&Paths>) -> String {
        let of = |paths: &Paths| paths.0.get(known_by).cloned().unwrap_or_default();
        let mut all = of(self);
        all.extend(others.map(of).unwrap_or_default());
        match all.len() {
            1 => all.into_iter().next().unwrap_or_default(),
            0 => known_by.to_owned(),
            several => format!("{known_by} ({several} paths)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_one_file() {
        for (path, name) in [
            ("/srv/app/releases/41/bin/server", "server"),
            ("[kernel]", "[kernel]"),
            ("[vdso]/x", "[vdso]/x"),
            ("/odd/", "/odd/"),
            ("", ""),
        ] {
            assert_eq!(known_by(path), name);
        }
        let (mut before, mut after) = (Paths::default(), Paths::default());
        before.add("/srv/41/server".into());
        after.add("/srv/42/server".into());
        after.add("/usr/lib/libc.so.6".into());
        assert_eq!(before.shown("server", Some(&after)), "server (2 paths)");
        assert_eq!(before.shown("libc.so.6", Some(&after)), "/usr/lib/libc.so.6");
        assert_eq!(before.shown("server", None), "/srv/41/server");
    }
}
