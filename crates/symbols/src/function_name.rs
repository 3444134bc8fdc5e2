//! A function's name, as people read it, and which patterns mean it.

use std::fmt;
use std::sync::Arc;

use crate::base_name::base_name;
use crate::demangle::demangle;

/// What follows the name of the function that a stub calls.
const STUB: &str = "@plt";

/// A demangled function name. Cheap to clone; equal when the full names are equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName(Arc<Parts>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    full: String,
    base: String,
}

impl FunctionName {
    /// From a name as the linker knows it; names that are not mangled stay as they are.
    pub fn from_linkage(linkage: &str) -> Self {
        match linkage.strip_suffix(STUB) {
            Some(_) => FunctionName::of_stub(linkage),
            None => FunctionName::from_demangled(demangle(linkage)),
        }
    }

    /// From that of a stub: a name as the linker knows it, and `@plt`.
    pub(crate) fn of_stub(name: &str) -> Self {
        let function = name.strip_suffix(STUB).unwrap_or(name);
        FunctionName::from_demangled(demangle(function) + STUB)
    }

    /// From a name as people read it, for example one that was stored.
    pub fn from_demangled(full: impl Into<String>) -> Self {
        let full = full.into();
        let base = base_name(&full);
        FunctionName(Arc::new(Parts { full, base }))
    }

    /// A name that is all there is to it, such as a script's: without instances, parameters or namespaces.
    pub fn verbatim(name: &str) -> Self {
        FunctionName(Arc::new(Parts { full: name.to_owned(), base: name.to_owned() }))
    }

    /// The name of code that nothing names: `??`.
    pub fn unknown() -> Self {
        FunctionName::from_demangled("??")
    }

    /// Whether nothing names this code.
    pub fn is_unknown(&self) -> bool {
        self.full() == "??"
    }

    /// The whole demangled name, without the hash of Rust symbols.
    pub fn full(&self) -> &str {
        &self.0.full
    }

    /// The name that all instances share: without generic and template arguments, parameters,
    /// return type, copy suffixes (`.isra.0`). `<Vec<T> as Index>::index` is `Vec::index`;
    /// closures and lambdas keep their marker.
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// Whether `pattern` means this function: it is the full name, the base, a suffix of the base
    /// on `::` boundaries (`work` means `my_crate::worker::work`), or, with a `*`, a glob over any
    /// of these (`*` stands for any text, `::` included; no other character is special).
    pub fn matches(&self, pattern: &str) -> bool {
        let (full, base) = (self.full(), self.base());
        if pattern.is_empty() {
            return false;
        }
        if pattern == full || suffixes(base).any(|suffix| suffix == pattern) {
            return true;
        }
        pattern.contains('*') && (glob(pattern, full) || suffixes(base).any(|suffix| glob(pattern, suffix)))
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.full())
    }
}

impl fmt::Debug for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.full(), f)
    }
}

/// A pattern of [`FunctionName::matches`] that is looked for among a million names: most of them need not be demangled.
pub(crate) struct FunctionPattern<'a> {
    pub text: &'a str,
    /// What stands in every name that matches, as the linker knows it too.
    word: Option<&'a str>,
}

impl<'a> FunctionPattern<'a> {
    pub fn new(text: &'a str) -> Self {
        /// What demanglers write out and manglers abbreviate.
        const UNWRITTEN: &[&str] = &[
            "operator",
            "allocator",
            "basic_string",
            "string",
            "basic_istream",
            "istream",
            "basic_ostream",
            "ostream",
            "basic_iostream",
            "iostream",
            "closure",
            "shim",
            "clone",
            "unnamed",
            "lambda",
        ];
        const SHORT: usize = 3;
        // Arguments and patterns may be written in other ways, or stand for anything.
        let is_path = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
        let last = text.rsplit("::").next().unwrap_or(text);
        let is_written = is_path && last.len() >= SHORT && !UNWRITTEN.contains(&last);
        Self { text, word: is_written.then_some(last) }
    }

    /// Whether a name, as the linker knows it, is worth being demangled.
    pub fn may_match(&self, linkage: &str) -> bool {
        self.word.is_none_or(|word| linkage.contains(word))
    }

    /// [`FunctionName::matches`] of a name as the linker knows it.
    pub fn matches(&self, linkage: &str) -> bool {
        self.may_match(linkage) && FunctionName::from_linkage(linkage).matches(self.text)
    }
}

/// `a::b::c`, `b::c`, `c`.
fn suffixes(base: &str) -> impl Iterator<Item = &str> {
    std::iter::once(base).chain(base.match_indices("::").map(|(at, _)| &base[at + 2..]))
}

/// Whether `text` is `pattern` with any text in place of each `*`. Greedy from the left is enough
/// for stars alone, and linear.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = tail.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_demangled_would_not_match() {
        // The last ones have an abbreviation for what is asked for.
        for (linkage, pattern, worth) in [
            ("_ZN2ns3Foo3barEPic", "Foo::bar", true),
            ("_ZN2ns3Foo3barEPic", "Foo::baz", false),
            ("_ZN2ns3Foo3barEPic", "b*", true),
            ("_ZN2ns3Foo3barEPic", "ba*", true),
            ("_ZN5hello4work17h0123456789abcdefE", "hello::wo*k", true),
            ("_RNvCs1_5hello4work", "work", true),
            ("_RNvCs1_5hello4work", "walk", false),
            ("work.isra.0", "work", true),
            ("_ZN2ns1AclEi", "A::operator()", true),
            ("_ZNSsC1Ev", "basic_string", true),
            ("_RNCNvCs1_5hello4work0B3_", "{closure#0}", true),
            ("_RINvCs1_5hello4workKj400_EB3_", "work::<1024>", true),
            ("_ZN3net4Sock4sendEv", "net*", true),
        ] {
            let asked = FunctionPattern::new(pattern);
            assert_eq!(asked.may_match(linkage), worth, "{linkage} {pattern}");
            assert!(worth || !FunctionName::from_linkage(linkage).matches(pattern));
        }
        assert!(FunctionPattern::new("ns::Foo::bar").matches("_ZN2ns3Foo3barEPic"));
        assert!(!FunctionPattern::new("ns::Foo::ba").matches("_ZN2ns3Foo3barEPic"));
    }

    #[test]
    fn patterns() {
        let generic = "my_crate::worker::work::<u32>";
        let cpp = "ns::Foo<int*>::bar(int*, char)";
        for (full, pattern, expected) in [
            (generic, generic, true),
            (generic, "my_crate::worker::work", true),
            (generic, "worker::work", true),
            (generic, "work", true),
            (generic, "ork", false),
            (generic, "worker", false),
            (generic, "", false),
            (generic, "wo*", true),
            (generic, "worker::*", true),
            (generic, "*::work", true),
            (generic, "*u32*", true),
            (generic, "my*work", true),
            (generic, "my*walk", false),
            (generic, "*", true),
            (cpp, cpp, true),
            (cpp, "bar", true),
            (cpp, "Foo::bar", true),
            (cpp, "ns::Foo<*>::bar*", true),
            (cpp, "foo", false),
            ("work.isra.0", "work", true),
            ("ns::A::operator()(int) const", "operator()", true),
            ("a::b::{{closure}}", "{{closure}}", true),
            ("aXbXc", "a*b*c", true),
            ("ab", "ab*ab", false),
        ] {
            let name = FunctionName::from_demangled(full);
            assert_eq!(name.matches(pattern), expected, "{full} {pattern}");
        }
    }
}
