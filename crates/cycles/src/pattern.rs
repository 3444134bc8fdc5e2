//! Patterns: which processes, cgroups, machines and images are meant.

use anyhow::{Context as _, Result, ensure};
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeSet;

/// No pattern is longer, in bytes.
const LONGEST: usize = 1000;

/// The last part of a path.
pub fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `*` stands for any text, `?` for one character, everything else for itself.
pub fn glob(pattern: &str) -> Result<GlobMatcher> {
    ensure!(pattern.len() <= LONGEST, "a pattern has no more than {LONGEST} bytes");
    let glob = GlobBuilder::new(&escaped(pattern)).literal_separator(false).build();
    Ok(glob
        .with_context(|| format!("'{pattern}' is no pattern; * stands for any text, ? for one character"))?
        .compile_matcher())
}

/// Names such as `[kernel]` stand in brackets, which are no sets of characters.
fn escaped(pattern: &str) -> String {
    pattern.replace('[', "[[]")
}

/// Whether a cgroup, or one that it is in, is meant.
pub fn is_in_cgroup(glob: &GlobMatcher, path: &str) -> bool {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return glob.is_match("");
    }
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end]).any(|part| glob.is_match(part) || glob.is_match(last(part)))
}

/// That there is nothing like what was asked for, and what there is.
pub fn none<'a>(what: &str, pattern: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: BTreeSet<&str> = known.filter(|name| !name.is_empty()).collect();
    let near = symbols::nearest_names(pattern, known.iter().copied());
    let pattern = profile::printable(pattern);
    let shown: Vec<&str> = if near.is_empty() {
        known.into_iter().take(8).collect()
    } else {
        near.iter().map(String::as_str).collect()
    };
    match shown.as_slice() {
        [] => format!("no {what} is '{pattern}': there is none at all; leave the option out"),
        shown => format!("no {what} is '{pattern}'; there are: {}", profile::printable(&shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_meant_with_all_below_them() {
        for (pattern, path, expected) in [
            ("system.slice", "/system.slice/nginx.service", true),
            ("nginx*", "/system.slice/nginx.service", true),
            ("system.slice/nginx.service", "/system.slice/nginx.service/worker", true),
            ("user.slice", "/system.slice/nginx.service", false),
            ("slice", "/system.slice", false),
        ] {
            assert_eq!(is_in_cgroup(&glob(pattern).unwrap(), path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn brackets_are_part_of_names() {
        assert!(glob("[kernel]").unwrap().is_match("[kernel]"));
        assert!(glob("[k*").unwrap().is_match("[kernel]"));
        assert!(!glob("[kernel]").unwrap().is_match("k"));
    }

    #[test]
    fn what_there_is_not_is_told_with_what_there_is() {
        let known = ["nginx", "postgres", ""];
        assert_eq!(none("process", "ngnx", known.into_iter()), "no process is 'ngnx'; there are: nginx");
        assert_eq!(
            none("process", "zzz", known.into_iter()),
            "no process is 'zzz'; there are: nginx, postgres"
        );
        assert_eq!(
            none("event", "x", [].into_iter()),
            "no event is 'x': there is none at all; leave the option out"
        );
    }
}
