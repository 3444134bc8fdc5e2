//! What was typed, by whom it is for.

use std::ffi::OsString;

/// Options of `cargo build` that say what is built, with a value each. (`-p` is whatif's.)
const WITH_VALUE: [&str; 12] = [
    "--bin",
    "--config",
    "--example",
    "--features",
    "-F",
    "--jobs",
    "-j",
    "--manifest-path",
    "--package",
    "--profile",
    "--target",
    "--target-dir",
];
/// The same, without a value.
const ALONE: [&str; 7] =
    ["--all-features", "--no-default-features", "--locked", "--offline", "--frozen", "--release", "-r"];
/// Which revision the program is compared with.
const WAS: &str = "--was";

/// Words of a command line, in the order in which they were typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub of_cargo: Vec<OsString>,
    pub of_whatif: Vec<OsString>,
    /// The revision that was asked for.
    pub was: Option<OsString>,
    /// What is behind `--`.
    pub of_program: Vec<OsString>,
}

impl Words {
    pub fn of(words: &[OsString]) -> Self {
        let end = words.iter().position(|word| word == "--");
        let of_program = end.map_or(Vec::new(), |end| words[end + 1..].to_vec());
        let mut of = Words { of_program, ..Words::default() };
        let mut typed = words[..end.unwrap_or(words.len())].iter();
        while let Some(word) = typed.next() {
            let text = word.to_str().unwrap_or_default();
            let name = text.split('=').next().unwrap_or_default();
            let is_short = |option: &&str| !option.starts_with("--") && text.starts_with(*option);
            if name == WAS {
                let value = text.strip_prefix(WAS).and_then(|rest| rest.strip_prefix('='));
                of.was = value.map(Into::into).or_else(|| typed.next().cloned());
            } else if ALONE.contains(&text) {
                of.of_cargo.push(word.clone());
            } else if WITH_VALUE.contains(&name) || WITH_VALUE.iter().any(is_short) {
                of.of_cargo.push(word.clone());
                if WITH_VALUE.contains(&text) {
                    of.of_cargo.extend(typed.next().cloned());
                }
            } else {
                of.of_whatif.push(word.clone());
            }
        }
        of
    }

    /// What `cargo build` was told by this option.
    pub fn value(&self, option: &str) -> Option<&str> {
        let mut words = self.of_cargo.iter().map(|word| word.to_str().unwrap_or_default());
        while let Some(word) = words.next() {
            if word == option {
                return words.next();
            }
            if let Some(value) = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value);
            }
        }
        None
    }

    /// Whether cargo is told this, by an option with or without a value.
    pub fn has_of_cargo(&self, option: &str) -> bool {
        let name = |word: &OsString| word.to_str()?.split('=').next().map(str::to_owned);
        self.of_cargo.iter().any(|word| name(word).as_deref() == Some(option))
    }

    /// Whether this option was typed.
    pub fn asks(&self, option: &str) -> bool {
        self.of_whatif.iter().any(|word| word == option)
    }

    /// The options of `cargo build` without those with these names, which have values.
    pub fn of_cargo_without(&self, names: &[&str]) -> Vec<OsString> {
        let mut left = Vec::new();
        let mut words = self.of_cargo.iter();
        while let Some(word) = words.next() {
            let text = word.to_str().unwrap_or_default();
            if names.contains(&text) {
                words.next();
            } else if !names.contains(&text.split('=').next().unwrap_or_default()) {
                left.push(word.clone());
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn options_go_to_whom_they_are_for() {
        let line = "--bin server --locked --duration 60 -p fn:a --features=x,y -- --bin z";
        let of = Words::of(&words(line));
        assert_eq!(of.of_cargo, words("--bin server --locked --features=x,y"));
        assert_eq!(of.of_whatif, words("--duration 60 -p fn:a"));
        assert_eq!(of.of_program, words("--bin z"));
        assert_eq!(
            (of.value("--bin"), of.value("--features"), of.value("--profile")),
            (Some("server"), Some("x,y"), None)
        );
    }

    #[test]
    fn short_options_have_their_values_behind_them_or_in_them() {
        let of = Words::of(&words("-j8 -F x -p fn:a -r --target=t"));
        assert_eq!(of.of_cargo, words("-j8 -F x -r --target=t"));
        assert_eq!(of.of_whatif, words("-p fn:a"));
    }

    #[test]
    fn the_other_revision_is_named() {
        let was = |line: &str| Words::of(&words(line)).was;
        assert_eq!(was("--bin x --was main~3 --json"), Some("main~3".into()));
        assert_eq!(was("--was=main"), Some("main".into()));
        assert_eq!(was("--runs 5"), None);
    }

    #[test]
    fn options_can_be_left_out_with_their_values() {
        let of = Words::of(&words("--target-dir t --bin x --manifest-path=m --locked"));
        assert_eq!(of.of_cargo_without(&["--target-dir", "--manifest-path"]), words("--bin x --locked"));
    }
}
