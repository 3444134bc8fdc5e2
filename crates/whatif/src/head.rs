//! Head: what a connection has sent of the head of a request so far, and the parameters in its address. Reads nothing itself.

/// The longest head of a request, in bytes.
pub const LONGEST: usize = 8 << 10;
const END: &[u8] = b"\r\n\r\n";

/// The beginning of what a connection has sent.
#[derive(Default)]
pub struct Head(Vec<u8>);

/// How far it has come.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Begun,
    Complete,
    TooLong,
}

impl Head {
    /// Adds what came next.
    pub fn extend(&mut self, piece: &[u8]) -> State {
        let from = self.0.len().saturating_sub(END.len() - 1);
        self.0.extend_from_slice(piece);
        if self.0[from..].windows(END.len()).any(|end| end == END) {
            State::Complete
        } else if self.0.len() > LONGEST {
            State::TooLong
        } else {
            State::Begun
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// A parameter of a query: the part behind `?`.
pub fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(decoded(value))
}

/// Without `%20` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = (*byte == b'%').then(|| std::str::from_utf8(after.get(..2)?).ok()).flatten();
        // Not `+5`, which would be a number.
        let digits = code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(coded) => {
                bytes.push(coded);
                rest = &after[2..];
            }
            None => {
                bytes.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_an_empty_line_wherever_it_is_cut() {
        let whole = b"GET / HTTP/1.1\r\nA: b\r\n\r\n";
        for cut in 0..whole.len() {
            let mut head = Head::default();
            assert_eq!(head.extend(&whole[..cut]), State::Begun, "{cut}");
            assert_eq!(head.extend(&whole[cut..]), State::Complete, "{cut}");
            assert_eq!(head.text().as_bytes(), whole);
        }
        let mut head = Head::default();
        assert_eq!(head.extend(&[b'\n'; LONGEST]), State::Begun);
        assert_eq!(head.extend(b"\n"), State::TooLong);
    }

    #[test]
    fn parameters_are_decoded() {
        for (coded, plain) in [
            ("work%20hash.c%3A80", "work hash.c:80"),
            ("a+b", "a b"),
            ("%C3%A9", "é"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%+5", "% 5"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(parameter(&format!("xy=0&x={coded}&x=2"), "x").as_deref(), Some(plain));
        }
        assert_eq!(parameter("xy=0&yx=0", "x"), None);
    }
}
