//! Printable: names come from other people's programs, and a terminal obeys what it is sent.

use std::borrow::Cow;

/// `name` with everything that could move the cursor, end a line or reorder the text replaced by a
/// visible escape: control characters, line and paragraph separators, bidirectional controls and
/// invisible characters. Ordinary text, of any language, is returned as it is.
pub fn printable(name: &str) -> Cow<'_, str> {
    if !name.chars().any(is_hostile) {
        return Cow::Borrowed(name);
    }
    let mut shown = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_hostile(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_characters_become_visible() {
        assert_eq!(printable("operator<< (größe, 大きさ)"), "operator<< (größe, 大きさ)");
        assert_eq!(printable("a\tb\nc\u{1b}[2J"), r"a\tb\nc\u{1b}[2J");
        assert_eq!(printable("x\u{202e}cba"), r"x\u{202e}cba");
        assert_eq!(printable("\u{7f}\u{9b}31m\u{2028}"), r"\u{7f}\u{9b}31m\u{2028}");
    }
}
