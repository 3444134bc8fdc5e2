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

/// An option as it was typed: in one word, or with its value in the next one.
#[derive(Debug, PartialEq, Eq)]
struct CargoOption {
    name: String,
    value: Option<OsString>,
    words: Vec<OsString>,
}

/// Words of a command line, in the order in which they were typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    of_cargo: Vec<CargoOption>,
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
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (text, None),
            };
            let is_short = |option: &&str| !option.starts_with("--") && text.starts_with(*option);
            if name == WAS {
                of.was = value.or_else(|| typed.next().cloned());
            } else if WITH_VALUE.contains(&text) {
                let value = typed.next().cloned();
                let words = std::iter::once(word.clone()).chain(value.clone()).collect();
                of.of_cargo.push(CargoOption { name: name.to_owned(), value, words });
            } else if ALONE.contains(&text) || WITH_VALUE.contains(&name) || WITH_VALUE.iter().any(is_short) {
                of.of_cargo.push(CargoOption { name: name.to_owned(), value, words: vec![word.clone()] });
            } else {
                of.of_whatif.push(word.clone());
            }
        }
        of
    }

    /// The value of an option of `cargo build`.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.of_cargo.iter().find(|one| one.name == option)?.value.as_ref()?.to_str()
    }

    /// Whether `cargo build` has this option, with or without a value.
    pub fn has_of_cargo(&self, option: &str) -> bool {
        self.of_cargo.iter().any(|one| one.name == option)
    }

    /// Whether this option was typed.
    pub fn asks(&self, option: &str) -> bool {
        self.of_whatif.iter().any(|word| word == option)
    }

    /// The options of `cargo build` without those with these names.
    pub fn of_cargo_without(&self, names: &[&str]) -> Vec<OsString> {
        let left = self.of_cargo.iter().filter(|one| !names.contains(&one.name.as_str()));
        left.flat_map(|one| one.words.iter().cloned()).collect()
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
        assert_eq!(of.of_cargo_without(&[]), words("--bin server --locked --features=x,y"));
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
        assert_eq!(of.of_cargo_without(&[]), words("-j8 -F x -r --target=t"));
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
