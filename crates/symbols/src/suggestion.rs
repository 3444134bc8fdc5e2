//! "Did you mean": the names nearest to one that does not exist.

use std::cmp::Reverse;

/// How many names are worth showing.
const SHOWN: usize = 5;
/// Comparing longer words costs more than it helps.
const LONGEST_WORD: usize = 200;

/// The function names nearest to `wanted`, best first, at most five.
pub fn nearest_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    nearest(wanted, names, "::")
}

/// The candidates nearest to `wanted`, best first, at most five. Compared without case, by the
/// last component (after `separator`): containing it comes first, then a small edit distance.
pub(crate) fn nearest<'a>(
    wanted: &str,
    candidates: impl Iterator<Item = &'a str>,
    separator: &str,
) -> Vec<String> {
    let last = |name: &str| {
        let name = name.to_lowercase();
        name.rsplit(separator).next().unwrap_or_default().to_owned()
    };
    let whole = wanted.trim_matches('*').to_lowercase();
    let word = last(&whole);
    if word.is_empty() {
        return Vec::new();
    }
    let allowed = (word.chars().count() / 3).max(1);
    let mut scored: Vec<(usize, Reverse<bool>, usize, &str)> = candidates
        .filter_map(|candidate| {
            let theirs = last(candidate);
            let contains = candidate.to_lowercase().contains(&word);
            let distance = edit_distance(&word, &theirs);
            let near = distance <= allowed;
            (near || contains).then(|| {
                let score = if near { distance } else { allowed + 1 };
                (score, Reverse(contains), candidate.len(), candidate)
            })
        })
        .collect();
    scored.sort();
    scored.dedup_by_key(|(.., candidate)| *candidate);
    scored.into_iter().take(SHOWN).map(|(.., candidate)| candidate.to_owned()).collect()
}

/// In characters, where two that are exchanged count once; words that are too long are infinitely far.
fn edit_distance(a: &str, b: &str) -> usize {
    let is_long = a.len().max(b.len()) > LONGEST_WORD;
    if is_long { usize::MAX } else { strsim::osa_distance(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, distance) in [("", "", 0), ("a", "", 1), ("work", "wrok", 1), ("abc", "abd", 1)] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }

    #[test]
    fn nearest_first() {
        let names = ["main::work", "main::worker", "main::walk", "other::unrelated"];
        let near = |wanted| nearest(wanted, names.into_iter(), "::");
        assert_eq!(near("wrk"), ["main::work"]);
        assert_eq!(near("Work")[0], "main::work");
        assert!(near("main::worc").contains(&"main::work".to_owned()));
        assert_eq!(near("relat"), ["other::unrelated"]);
        assert!(near("zzzzzz").is_empty());
        assert!(near("").is_empty());
    }
}
