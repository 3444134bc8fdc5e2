//! The part of a demangled name that all instances of a function share.
//!
//! A scanner over text, not over mangled names, so that a name read back from a database has the
//! same base as the one that was written. It knows just enough of the shapes that the Rust and
//! C++ demanglers print; whatever it does not know it keeps.

/// Qualified types nested deeper than this are kept as text.
const DEEPEST_TYPE: u32 = 8;

/// Suffixes that gcc and LLVM give to copies of a function.
const COPIES: [&str; 9] =
    [".isra.", ".part.", ".constprop.", ".cold", ".lto_priv.", ".llvm.", ".localalias", ".clone.", ".warm"];

/// The name without generic and template arguments, parameter lists, return type, hash and copy
/// suffixes. Never empty unless `full` is.
pub(crate) fn base_name(full: &str) -> String {
    let name = full.split(" [clone ").next().unwrap_or(full);
    let copy = COPIES.iter().filter_map(|suffix| name.find(suffix)).min();
    let name = match copy {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    };
    let base = path_base(name, 0);
    let base = without_hash(&base);
    if base.is_empty() { full.to_owned() } else { base.to_owned() }
}

/// `core::fmt::write::h0123456789abcdef` → `core::fmt::write`.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

fn path_base(name: &str, depth: u32) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if rest.starts_with("operator") && !ends_in_identifier(&out) && is_operator(rest) {
            let length = operator_length(rest);
            push_operator(&mut out, &rest[..length], depth);
            rest = &rest[length..];
            continue;
        }
        match next {
            '<' => {
                let length = balanced(rest);
                push_angles(&mut out, &rest[..length], depth);
                rest = &rest[length..];
            }
            '(' if rest.starts_with("(anonymous namespace)") => {
                out.push_str("(anonymous namespace)");
                rest = &rest["(anonymous namespace)".len()..];
            }
            '(' => {
                rest = &rest[balanced(rest)..];
                if rest.starts_with("::") || rest.starts_with('[') {
                    // A local entity: `main(int)::{lambda()#1}`.
                } else if rest.starts_with(' ') && !ends_the_name(rest) {
                    // `decltype (x) f<int>(int)`: that was a return type.
                    out.clear();
                } else {
                    break;
                }
            }
            '{' => {
                let length = balanced(rest);
                out.push_str(&rest[..length]);
                rest = &rest[length..];
            }
            '[' => rest = &rest[balanced(rest)..],
            // `operator<< <char>(…)`.
            ' ' if rest.starts_with(" <") => rest = &rest[1..],
            ' ' => {
                // Everything before a space is (part of) a return type.
                out.clear();
                rest = &rest[1..];
            }
            _ => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

fn ends_the_name(rest: &str) -> bool {
    [" const", " volatile", " &", " noexcept", " [", " requires"]
        .iter()
        .any(|qualifier| rest.starts_with(qualifier))
}

fn ends_in_identifier(text: &str) -> bool {
    text.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// What angle brackets contribute: nothing for generic arguments, the type for `<T as Trait>`.
fn push_angles(out: &mut String, angles: &str, depth: u32) {
    let inner = angles.strip_prefix('<').unwrap_or(angles);
    let inner = inner.strip_suffix('>').unwrap_or(inner);
    if let Some(lambda) = inner.strip_prefix("lambda") {
        // gcc's DWARF says `<lambda(int)>` where the demangler says `{lambda(int)#1}`.
        out.push_str("{lambda");
        out.push_str(lambda);
        out.push('}');
    } else if out.is_empty() {
        // `<T as Trait>::method` and `<T>::method`.
        let of = split_outside(inner, " as ").map_or(inner, |(of, _)| of);
        out.push_str(&type_base(of, depth));
    } else if let Some(implementation) = inner.strip_prefix("impl ")
        && let Some((_, of)) = split_outside(implementation, " for ")
    {
        // `module::<impl Trait for T>::method`: the same function as `<T as Trait>::method`.
        *out = type_base(of, depth);
    } else if out.ends_with("::") {
        // `function::<T>` and `core::slice::<impl [T]>::len`.
        out.truncate(out.len() - 2);
    }
}

fn type_base(of: &str, depth: u32) -> String {
    let mut of = of.trim();
    if depth >= DEEPEST_TYPE {
        return of.to_owned();
    }
    loop {
        let stripped = ["&", "mut ", "*const ", "*mut ", "dyn ", "impl "]
            .iter()
            .find_map(|prefix| of.strip_prefix(prefix));
        of = match stripped {
            Some(stripped) => stripped.trim_start(),
            None if of.starts_with('\'') => match of.split_once(' ') {
                Some((_, of)) => of,
                None => break,
            },
            None if of.starts_with("for<") => of["for<".len()..].split_once("> ").map_or("", |(_, of)| of),
            None => break,
        };
    }
    match of.chars().next() {
        Some('[') if split_outside(&of[1..], "; ").is_some() => "array".to_owned(),
        Some('[') => "slice".to_owned(),
        Some('(') => "tuple".to_owned(),
        _ if of.starts_with("fn(") || of.contains(" fn(") && !of.contains("::") => "fn".to_owned(),
        _ => {
            let first_bound = split_outside(of, " + ").map_or(of, |(first, _)| first);
            path_base(first_bound, depth + 1)
        }
    }
}

/// Splits at the first `separator` that is not inside brackets.
fn split_outside<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(after) = rest.strip_prefix(separator) {
            return Some((&text[..at], after));
        }
        at += match rest.as_bytes()[0] {
            b'<' | b'(' | b'[' | b'{' => balanced(rest),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

/// The length of the bracketed text that `text` starts with, or all of it if it never closes.
/// `<` and `>` are brackets only directly inside `<`, and `->` closes nothing.
fn balanced(text: &str) -> usize {
    let mut open: Vec<u8> = Vec::new();
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => open.push(byte),
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' if open.last() == Some(&b'<') => {
                open.pop();
            }
            b')' | b']' | b'}' => {
                let opener = match byte {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                // Drops a stray `<` (a comparison) that this bracket encloses.
                while open.pop().is_some_and(|innermost| innermost != opener) {}
            }
            _ => {}
        }
        if open.is_empty() {
            return at + 1;
        }
    }
    text.len()
}

/// Whether `operator…` is the C++ keyword and not the start of an identifier.
fn is_operator(rest: &str) -> bool {
    !rest["operator".len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && rest.len() > "operator".len()
        && !rest["operator".len()..].starts_with("::")
}

/// The length of an operator's name, with the keyword, without its parameters.
fn operator_length(rest: &str) -> usize {
    let keyword = "operator".len();
    let after = &rest[keyword..];
    const NAMES: [&str; 8] = ["()", "[]", " new[]", " delete[]", " new", " delete", " co_await", "\"\""];
    if let Some(name) = NAMES.iter().find(|name| after.starts_with(**name)) {
        let literal = after[name.len()..]
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ' '))
            .unwrap_or(after.len() - name.len());
        let suffix = if *name == "\"\"" { literal } else { 0 };
        return keyword + name.len() + suffix;
    }
    if after.starts_with(' ') {
        // A conversion: the type goes up to the parameters.
        let type_end = split_outside_at(after, '(');
        return keyword + type_end;
    }
    const SYMBOLS: [&str; 11] = ["<=>", "->*", "<<=", ">>=", "->", "<<", ">>", "<=", ">=", "<", ">"];
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| after.starts_with(**symbol)) {
        return keyword + symbol.len();
    }
    let symbol = after.find(|c: char| !"+-*/%^&|~!=,".contains(c)).unwrap_or(after.len());
    keyword + symbol
}

/// Where `stop` is first found outside angle brackets, or the length.
fn split_outside_at(text: &str, stop: char) -> usize {
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next == stop {
            return at;
        }
        at += if next == '<' { balanced(&text[at..]) } else { next.len_utf8() };
    }
    text.len()
}

fn push_operator(out: &mut String, operator: &str, depth: u32) {
    let conversion = operator
        .strip_prefix("operator ")
        .filter(|of| !["new", "delete", "co_await"].iter().any(|name| of.starts_with(name)));
    match conversion {
        Some(of) if depth < DEEPEST_TYPE => {
            out.push_str("operator ");
            out.push_str(without_template_arguments(of).trim_end());
        }
        _ => out.push_str(operator),
    }
}

fn without_template_arguments(of: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    while let Some(next) = of[at..].chars().next() {
        if next == '<' {
            at += balanced(&of[at..]);
        } else {
            out.push(next);
            at += next.len_utf8();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base_name;

    #[test]
    fn rust_names() {
        for (full, base) in [
            ("core::ptr::drop_in_place<T>", "core::ptr::drop_in_place"),
            ("core::ptr::drop_in_place<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place"),
            ("main::work::<u32>", "main::work"),
            ("main::work::<u32>::{closure#0}", "main::work::{closure#0}"),
            ("main::work::{{closure}}", "main::work::{{closure}}"),
            ("main::work::h0123456789abcdef", "main::work"),
            ("<alloc::vec::Vec<T> as core::ops::Index>::index", "alloc::vec::Vec::index"),
            ("<alloc::vec::Vec<T,A> as core::iter::Extend<&T>>::extend", "alloc::vec::Vec::extend"),
            ("<alloc::vec::Vec<u8>>::push", "alloc::vec::Vec::push"),
            ("<&mut a::B<'_> as core::fmt::Debug>::fmt", "a::B::fmt"),
            ("<[u8] as a::Hash>::hash::<b::H>", "slice::hash"),
            ("<[u8; 4] as a::Hash>::hash", "array::hash"),
            ("<(A, B) as a::Tr>::f", "tuple::f"),
            ("<fn(u8) -> u8 as a::Tr>::f", "fn::f"),
            ("<dyn a::Tr + core::marker::Send>::f", "a::Tr::f"),
            ("<<a::B as c::D>::E as f::G>::h", "a::B::E::h"),
            ("core::slice::<impl [T]>::len", "core::slice::len"),
            ("a::b::<impl c::Tr for d::E<T>>::f", "d::E::f"),
            ("<F as core::ops::FnOnce<(A, B)>>::call_once{{vtable.shim}}", "F::call_once{{vtable.shim}}"),
            ("a::map::<fn(u8) -> u8>::go", "a::map::go"),
            ("a::f<{closure_env#0}, (u8, [u8; 3])>", "a::f"),
        ] {
            assert_eq!(base_name(full), base, "{full}");
        }
    }

    #[test]
    fn cpp_names() {
        for (full, base) in [
            ("ns::Foo<int>::bar(int, char)", "ns::Foo::bar"),
            ("ns::Foo<int>::bar(int, char) const", "ns::Foo::bar"),
            ("void work<int>(int)", "work"),
            ("unsigned long const& ns::get<int>(ns::P<int>&)", "ns::get"),
            ("decltype(auto) ns::f<int>(int)", "ns::f"),
            ("decltype (a+b) ns::f<int>(int)", "ns::f"),
            ("std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back"),
            ("ns::operator<(ns::A const&, ns::A const&)", "ns::operator<"),
            ("std::ostream& ns::operator<< <char>(std::ostream&, char)", "ns::operator<<"),
            ("ns::A::operator<=>(ns::A const&) const", "ns::A::operator<=>"),
            ("ns::A<(x>1)>::operator->() const", "ns::A::operator->"),
            ("ns::A::operator()(int) const", "ns::A::operator()"),
            ("ns::A::operator[](unsigned long)", "ns::A::operator[]"),
            ("ns::A::operator bool() const", "ns::A::operator bool"),
            ("ns::A::operator std::vector<int>() const", "ns::A::operator std::vector"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long)", "operator new[]"),
            ("operator\"\" _km(long double)", "operator\"\" _km"),
            ("operator_name(int)", "operator_name"),
            ("ns::operators::f(int)", "ns::operators::f"),
            ("(anonymous namespace)::work(int)", "(anonymous namespace)::work"),
            ("ns::(anonymous namespace)::A::f()", "ns::(anonymous namespace)::A::f"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            ("main(int)::{lambda()#2}::operator()() const", "main::{lambda()#2}::operator()"),
            ("main::<lambda(int)>", "main::{lambda(int)}"),
            ("f(int)::Local::g()", "f::Local::g"),
            ("ns::name[abi:cxx11](int)", "ns::name"),
            ("ns::A::~A()", "ns::A::~A"),
            ("work(int) [clone .isra.0]", "work"),
            ("std::function<void (int)>::operator()(int) const", "std::function::operator()"),
        ] {
            assert_eq!(base_name(full), base, "{full}");
        }
    }

    #[test]
    fn other_names() {
        for (full, base) in [
            ("main", "main"),
            ("", ""),
            ("work.constprop.0", "work"),
            ("work.part.0.cold", "work"),
            ("??", "??"),
            ("<", "<"),
            (">>(", ">>"),
            ("((((", "(((("),
            ("\u{e9}t\u{e9}<\u{e0}>", "\u{e9}t\u{e9}"),
            ("operator", "operator"),
        ] {
            assert_eq!(base_name(full), base, "{full}");
        }
        // Depth must not become recursion.
        base_name(&"<".repeat(100_000));
        base_name(&"(".repeat(100_000));
    }
}
