//! Source file names: joined and tidied as text, never looked up on disk, because the sources may
//! be on another machine.

use globset::{GlobBuilder, GlobMatcher};

/// Joins the parts of a source file name as DWARF gives them (an absolute part restarts the path)
/// and removes `.`, `..` and doubled slashes.
pub(crate) fn join(parts: &[&str]) -> String {
    let mut joined = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if part.starts_with('/') {
            joined.clear();
        } else if !joined.is_empty() && !joined.ends_with('/') {
            joined.push('/');
        }
        joined.push_str(part);
    }
    normalise(&joined)
}

fn normalise(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => match kept.last() {
                Some(&last) if last != ".." => {
                    kept.pop();
                }
                _ if absolute => {}
                _ => kept.push(".."),
            },
            _ => kept.push(component),
        }
    }
    let tidy = kept.join("/");
    if absolute { format!("/{tidy}") } else { tidy }
}

/// The last component of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether the source file `path` is meant by `pattern`: the whole path, a suffix of it on `/`
/// boundaries (`hash.c`, `src/hash.c`), or a glob (`*`, `?`, `[…]`, `{a,b}`; `*` also matches
/// `/`). A glob that cannot be parsed matches nothing but itself.
pub fn file_matches(path: &str, pattern: &str) -> bool {
    FilePattern::new(pattern).matches(path)
}

/// A pattern of [`file_matches`], parsed once.
pub(crate) enum FilePattern {
    Suffix(String),
    Glob(GlobMatcher),
}

impl FilePattern {
    pub fn new(pattern: &str) -> Self {
        if pattern.contains(['*', '?', '[', '{'])
            && let Ok(glob) = compile(pattern)
        {
            return FilePattern::Glob(glob);
        }
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        FilePattern::Suffix(pattern.to_owned())
    }

    /// Whether a path may match, by its last part.
    pub fn may_match(&self, name: &str) -> bool {
        match self {
            FilePattern::Suffix(suffix) => file_name(suffix) == name,
            FilePattern::Glob(_) => true,
        }
    }

    pub fn matches(&self, path: &str) -> bool {
        match self {
            FilePattern::Suffix(suffix) => path.strip_suffix(suffix.as_str()).is_some_and(|rest| {
                !suffix.is_empty() && (rest.is_empty() || rest.ends_with('/') || suffix.starts_with('/'))
            }),
            FilePattern::Glob(glob) => glob.is_match(path),
        }
    }
}

/// A glob over the whole path or any suffix of it that starts after a `/`. `*` matches `/` too:
/// people write `src/*` for everything below `src`, and a scope that is too narrow is a silent,
/// empty profile.
pub(crate) fn compile(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let anchored = if pattern.starts_with('/') || pattern.starts_with("**/") {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    };
    let glob = GlobBuilder::new(&anchored).literal_separator(false).backslash_escape(true).build()?;
    Ok(glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_like_dwarf() {
        for (parts, expected) in [
            (&["/src", "a", "b.c"][..], "/src/a/b.c"),
            (&["/src", "/usr/include", "stdio.h"], "/usr/include/stdio.h"),
            (&["/src/x", "../y", "./b.c"], "/src/y/b.c"),
            (&["/src", "", "b.c"], "/src/b.c"),
            (&["", "", "b.c"], "b.c"),
            (&["./csu", "../sysdeps/x86_64", "start.S"], "sysdeps/x86_64/start.S"),
            (&["/", "..", "b.c"], "/b.c"),
            (&["..", "..", "b.c"], "../../b.c"),
        ] {
            assert_eq!(join(parts), expected, "{parts:?}");
        }
    }

    #[test]
    fn file_patterns() {
        for (path, pattern, expected) in [
            ("/p/src/hash.c", "hash.c", true),
            ("/p/src/hash.c", "src/hash.c", true),
            ("/p/src/hash.c", "./src/hash.c", true),
            ("/p/src/hash.c", "/p/src/hash.c", true),
            ("/p/src/rehash.c", "hash.c", false),
            ("/p/src/hash.c", "hash", false),
            ("/p/src/hash.c", "", false),
            ("hash.c", "hash.c", true),
            ("/p/src/hash.c", "*.c", true),
            ("/p/src/hash.c", "src/*", true),
            ("/p/src/a/b/hash.c", "src/*.c", true),
            ("/p/src/hash.c", "/src/*", false),
            ("/p/src/hash.c", "ha[", false),
        ] {
            assert_eq!(file_matches(path, pattern), expected, "{path} {pattern}");
        }
    }
}
