//! A label that is typed.

use archive::{LONGEST_LABEL, LONGEST_LABEL_NAME, is_label_name, is_label_value};

/// A label, as it is typed: `region=eu`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_label_name(name) && is_label_value(value) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "give NAME=VALUE, such as region=eu: the name of small letters, digits, _, . and - ({LONGEST_LABEL_NAME} at most), the \
             value of {LONGEST_LABEL} bytes at most, without control characters"
        )),
    }
}
