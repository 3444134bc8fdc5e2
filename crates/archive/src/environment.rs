//! What the user of a process calls it: labels in its environment, `WHATIF_LABELS=shard=3,tenant=a`.
//!
//! Any user can write there what it likes: what is too long, too much, or cannot be typed is refused.

use crate::{is_label_name, is_label_value};
use std::collections::BTreeMap;

/// The variable.
const VARIABLE: &[u8] = b"WHATIF_LABELS=";
/// The longest value of the variable, in bytes.
const LONGEST_VALUE: usize = 1024;
/// Labels of one process.
const MOST: usize = 8;

/// What is in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// By name.
    pub labels: BTreeMap<String, String>,
    /// How many were refused.
    pub refused: u64,
}

impl Environment {
    /// From the bytes of an environment, as the kernel has them in `/proc/PID/environ`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Environment {
        let mut found = Environment::default();
        let variable = bytes.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(VARIABLE));
        let text = match variable.map(std::str::from_utf8) {
            None | Some(Ok("")) => return found,
            Some(Ok(text)) if text.len() <= LONGEST_VALUE => text,
            Some(_) => return Environment { refused: 1, ..found },
        };
        for label in text.split(',').map(str::trim).filter(|label| !label.is_empty()) {
            match label.split_once('=') {
                Some((name, value))
                    if is_label_name(name) && is_label_value(value) && found.labels.len() < MOST =>
                {
                    found.labels.insert(name.to_owned(), value.to_owned());
                }
                _ => found.refused += 1,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_and_what_is_hostile_is_refused() {
        let many: String = (0..20).map(|number| format!("l{number}=v,")).collect();
        let long = format!("a={}", "x".repeat(129));
        let huge = "a=b,".repeat(1000);
        for (value, labels, refused) in [
            ("shard=3", vec![("shard", "3")], 0),
            ("shard=3, tenant=a=b ,", vec![("shard", "3"), ("tenant", "a=b")], 0),
            ("", vec![], 0),
            ("shard", vec![], 1),
            ("=3,Shard=3,sh ard=3,a=", vec![], 4),
            ("a=\u{1b}[2J,b=\n,c=\u{202e},d=ü", vec![("d", "ü")], 3),
            (&long, vec![], 1),
            (&huge, vec![], 1),
        ] {
            let environment = format!("PATH=/bin\0WHATIF_LABELS={value}\0HOME=/\0");
            let found = Environment::of(environment.as_bytes());
            let expected = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(found, Environment { labels: expected, refused }, "{value}");
        }
        let found = Environment::of(format!("WHATIF_LABELS={many}").as_bytes());
        assert_eq!((found.labels.len(), found.refused), (MOST, 12));
        assert_eq!(Environment::of(b"WHATIF_LABELS=a=\xff\xfe").refused, 1);
        assert_eq!(Environment::of(b"MY_WHATIF_LABELS=a=b\0X=WHATIF_LABELS=a=b"), Environment::default());
        // The first one counts, as for getenv.
        assert_eq!(Environment::of(b"WHATIF_LABELS=a=1\0WHATIF_LABELS=a=2").labels["a"], "1");
    }
}
