//! Numbers of things, for people.

/// `1 run`, `2 runs`: a number of what has a plural in -s.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "run")), ["0 runs", "1 run", "2 runs"]);
    }
}
