//! What was typed, by whom it is for.

use std::ffi::OsString;

/// Options of `cargo build` that say what is built, with a value each.
const WITH_VALUE: [&str; 9] = [
    "--bin",
    "--config",
    "--example",
    "--features",
    "--manifest-path",
    "--package",
    "--profile",
    "--target-dir",
    "--jobs",
];
/// The same, without a value.
const ALONE: [&str; 5] = ["--all-features", "--no-default-features", "--locked", "--offline", "--frozen"];

/// Words of a command line, in the order in which they were typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub of_cargo: Vec<OsString>,
    pub of_whatif: Vec<OsString>,
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
            if ALONE.contains(&text) {
                of.of_cargo.push(word.clone());
            } else if WITH_VALUE.contains(&name) {
                of.of_cargo.push(word.clone());
                of.of_cargo.extend(typed.next().filter(|_| name == text).cloned());
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

    /// The last word for whatif if no option is before it, whose value it might be.
    pub fn take_revision(&mut self) -> Option<OsString> {
        let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
        let mut last = self.of_whatif.iter().rev();
        let is_one = last.next().is_some_and(|word| !is_option(word))
            && last.next().is_none_or(|word| !is_option(word));
        is_one.then(|| self.of_whatif.pop()).flatten()
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
    fn a_revision_is_no_options_value() {
        let taken = |line: &str| Words::of(&words(line)).take_revision();
        assert_eq!(taken("--bin x main~3"), Some("main~3".into()));
        assert_eq!(taken("--duration 60 main"), Some("main".into()));
        assert_eq!(taken("--duration 60"), None);
        assert_eq!(taken("--quick"), None);
        assert_eq!(taken(""), None);
    }
}
