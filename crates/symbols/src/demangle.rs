//! Linker names to source names.

use std::fmt;

use cpp_demangle::{DemangleOptions, DemangleWrite};

/// Longer mangled names are shown as they are.
const LONGEST_MANGLED: usize = 16 << 10;
/// A few substitutions in a mangled C++ name can ask for gigabytes of text.
const LONGEST_DEMANGLED: usize = 64 << 10;

/// The source name of a linker name (Rust without its hash, C++), or the name itself.
pub(crate) fn demangle(name: &str) -> String {
    if name.len() > LONGEST_MANGLED {
        return name.to_owned();
    }
    // Rust first: its legacy scheme is a subset of the C++ one, told apart by the hash.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
    {
        let mut text = Text(String::new());
        let options = DemangleOptions::default();
        if symbol.structured_demangle(&mut text, &options).is_ok() {
            return text.0;
        }
    }
    name.to_owned()
}

struct Text(String);

impl DemangleWrite for Text {
    fn write_string(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_and_neither() {
        for (mangled, expected) in [
            ("_ZN2ns3FooIiE3barEic", "ns::Foo<int>::bar(int, char)"),
            ("_ZN4main4work17h0123456789abcdefE", "main::work"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("main", "main"),
            ("_Zwhat", "_Zwhat"),
            ("", ""),
        ] {
            assert_eq!(demangle(mangled), expected);
        }
    }

    #[test]
    fn substitution_bomb_ends() {
        // Each level uses the previous one twice: 2^60 characters if printed.
        let mut bomb = String::from("_Z1fSt4pairIiiE");
        for level in 0..40 {
            let back = if level == 0 { "S_".into() } else { format!("S{}_", radix36(level - 1)) };
            bomb.push_str(&format!("St4pairI{back}{back}E"));
        }
        assert!(demangle(&bomb).len() <= LONGEST_DEMANGLED);
    }

    fn radix36(n: u32) -> String {
        let digit = |d| char::from_digit(d, 36).unwrap().to_ascii_uppercase();
        if n < 36 { digit(n).to_string() } else { format!("{}{}", digit(n / 36), digit(n % 36)) }
    }
}
