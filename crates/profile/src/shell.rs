//! Shell: commands that can be typed as they are printed. Names come from other people's programs: none of them ends the
//! line, moves the cursor, or means something else to a POSIX shell.

use std::fmt::Write as _;

/// A command of these words.
pub fn command(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    // Before the name of a command, `a=b` sets a variable.
    let other = |nth: usize| if nth == 0 { "" } else { "=" };
    let words: Vec<String> =
        words.into_iter().enumerate().map(|(nth, word)| quoted(word.as_ref(), other(nth))).collect();
    let plain = words.join(" ");
    if crate::printable(&plain) == plain {
        return plain;
    }
    // What cannot be shown is written by printf, within the quotes, so that the shell keeps newlines at the end of a word.
    let mut format = String::new();
    for c in plain.chars() {
        match c {
            '%' => format += "%%",
            '\\' => format += r"\\",
            '\'' => format += r"\047",
            c if crate::printable(c.encode_utf8(&mut [0; 4])) == *c.encode_utf8(&mut [0; 4]) => {
                format.push(c)
            }
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                let _ = write!(format, "\\{byte:03o}");
            }),
        }
    }
    format!("eval \"$(printf '{format}')\"")
}

/// `plain`: which other characters mean nothing to the shell.
fn quoted(word: &str, plain: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+@".contains(c) || plain.contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_a_shell_would_change_is_quoted() {
        assert_eq!(command(["whatif", "-p", "fn:a::b"]), "whatif -p fn:a::b");
        assert_eq!(command(["fn:<T as It>::it's"]), r"'fn:<T as It>::it'\''s'");
        assert_eq!(command([""]), "''");
        assert_eq!(command(["a=b", "c=d"]), "'a=b' c=d");
    }

    #[test]
    fn a_shell_gives_the_words_back() {
        let words = [
            "plain",
            "",
            "two words",
            "it's",
            "\"$HOME\" `id` $(id) \\ * ? ~ # ! ; & | < > %s %% \\n \\047",
            "-n",
            "a\nb\n\n",
            "\u{1b}[31mred\u{1b}]0;title\u{7}\r\t",
            "right\u{202e}left, größe 大きさ",
            "'\u{1b}'",
            "ends with \\",
        ];
        let commands = words.iter().map(|word| vec![*word]).chain([words.to_vec()]);
        for words in commands {
            let typed = command(["printf", "%s|"].iter().chain(&words));
            assert_eq!(crate::printable(&typed), typed, "{typed:?}");
            let ended = Command::new("sh").args(["-c", &typed]).output().unwrap();
            let expected: String = words.iter().map(|word| format!("{word}|")).collect();
            assert_eq!(String::from_utf8(ended.stdout).unwrap(), expected, "{typed}");
            assert!(ended.status.success() && ended.stderr.is_empty(), "{typed}");
        }
    }
}
