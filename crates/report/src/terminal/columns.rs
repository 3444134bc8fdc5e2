//! Columns: how much room a text takes, and how to make it take less.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `text` in lines of at most `width` columns, broken at spaces where there are any. The spaces of
/// "20 %" and "± 2 %" are not among them.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let line = &lines[lines.len() - 1];
        let room = width.saturating_sub(line.width() + usize::from(!line.is_empty()));
        if !line.is_empty() && word.width() > room {
            lines.push(String::new());
        }
        // A word that does not fit on any line is broken anywhere.
        let mut rest = word;
        loop {
            let line = lines.last_mut().expect("there is always a line");
            if !line.is_empty() {
                line.push(' ');
            }
            let (fits, left) = rest.split_at(fitting(rest, width.saturating_sub(line.width())));
            line.push_str(fits);
            if left.is_empty() {
                break;
            }
            rest = left;
            lines.push(String::new());
        }
    }
    lines
}

/// The parts of `text` between spaces at which a line may end.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(' ');
        if rest.is_empty() {
            return None;
        }
        let breaks = |at: usize| {
            let (before, after) = (&rest[..at], &rest[at + 1..]);
            !(after.starts_with('%') || after.starts_with('±') || before.ends_with('±'))
        };
        let end = rest.match_indices(' ').map(|(at, _)| at).find(|&at| breaks(at)).unwrap_or(rest.len());
        let (word, left) = rest.split_at(end);
        rest = left;
        Some(word)
    })
}

/// How many bytes of `text` fit into `width` columns; at least one character, to get on.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width && at > 0 {
            return at;
        }
    }
    text.len()
}

/// `text` in exactly `width` columns: filled up with spaces, or with its middle cut out.
///
/// The middle, because a place tells most at its ends: the function and the line.
pub fn exactly(text: &str, width: usize) -> String {
    let have = text.width();
    if have <= width {
        return format!("{text}{}", " ".repeat(width - have));
    }
    let keep = width.saturating_sub(1);
    let head: String = take(text.chars(), keep / 2);
    let tail: String = take(text.chars().rev(), keep - head.width());
    let tail: String = tail.chars().rev().collect();
    let short = format!("{head}…{tail}");
    let missing = width.saturating_sub(short.width());
    format!("{short}{}", " ".repeat(missing))
}

/// As many characters as fit into `width` columns.
fn take(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    characters.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_only() {
        assert_eq!(wrap("making it 20 % faster makes", 12), ["making it", "20 % faster", "makes"]);
        assert_eq!(wrap("it is 11 % ± 2 % more", 12), ["it is", "11 % ± 2 %", "more"]);
        assert_eq!(wrap("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn the_middle_gives_way() {
        assert_eq!(exactly("work hash.c:80", 20), "work hash.c:80      ");
        assert_eq!(exactly("serialize_everything hash.c:80", 15), "seriali…sh.c:80");
        assert_eq!(exactly("大きさ大きさ", 6).width(), 6);
        assert_eq!(exactly("abc", 1), "…");
    }
}
