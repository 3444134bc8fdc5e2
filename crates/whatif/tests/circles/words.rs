//! Cuts Rust source into words: names, `::`, string literals and single characters. Leaves out comments, the contents of characters and
//! numbers, and items that are only compiled for tests. Does not know Rust's grammar.

/// The words of a source file that are part of the program.
pub fn words(source: &str) -> Vec<String> {
    without_tests(all(source))
}

fn all(source: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut left = source;
    while let Some(first) = left.chars().next() {
        let length = match first {
            '/' if left.starts_with("//") => left.find('\n').unwrap_or(left.len()),
            '/' if left.starts_with("/*") => comment(left),
            '"' => quoted(left),
            '\'' => character(left),
            _ if starts_raw(left) => raw(left),
            _ if first.is_alphanumeric() || first == '_' => {
                left.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(left.len())
            }
            ':' if left.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let word = &left[..length];
        if !(first.is_whitespace() || first == '\'' || first.is_numeric() || is_comment(word)) {
            words.push(word.to_owned());
        }
        left = &left[length..];
    }
    words
}

fn is_comment(word: &str) -> bool {
    word.starts_with("//") || word.starts_with("/*")
}

/// The length of a comment between `/*` and `*/`, which may contain others.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a literal that begins and ends with the same mark.
fn quoted(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != bytes[0] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The length of a character, or of the mark before a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => quoted(text),
        (_, Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

fn starts_raw(text: &str) -> bool {
    let text = text.strip_prefix(['b', 'c']).unwrap_or(text);
    text.strip_prefix('r').is_some_and(|text| text.trim_start_matches('#').starts_with('"'))
}

/// The length of a literal such as `r#"…"#`.
fn raw(text: &str) -> usize {
    let begin = text.find('"').unwrap_or(0);
    let marks = text[..begin].matches('#').count();
    let end = format!("\"{}", "#".repeat(marks));
    text[begin + 1..].find(&end).map_or(text.len(), |at| begin + 1 + at + end.len())
}

/// Leaves out items under `#[cfg(test)]`.
fn without_tests(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::with_capacity(words.len());
    let mut at = 0;
    while at < words.len() {
        let test = ["#", "[", "cfg", "(", "test", ")", "]"];
        if words[at..].iter().take(test.len()).eq(test) {
            at = end_of_item(&words, at + test.len());
        } else {
            kept.push(words[at].clone());
            at += 1;
        }
    }
    kept
}

/// Where an item ends: at its `;`, or at the brace that closes it.
fn end_of_item(words: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    while at < words.len() {
        let word = words[at].as_str();
        at += 1;
        match word {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && (word == ";" || word == "}") {
            break;
        }
    }
    at
}
