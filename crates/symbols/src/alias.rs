//! Which of several names that one function has people know.
//!
//! The C library's functions have up to six: `write` is also `__write`, `__libc_write` and `__GI___libc_write`. Programs call the public one.

/// The C library's prefix of names that it uses itself.
const OF_LIBC: &str = "__GI_";

/// How well a name is known: the greater, the better. `is_public`: other files can refer to it.
pub(crate) fn rank(name: &[u8], is_public: bool) -> u32 {
    let is_internal = name.starts_with(OF_LIBC.as_bytes());
    let underscores = name.iter().take_while(|byte| **byte == b'_').take(99).count() as u32;
    u32::from(is_public) * 1000 + u32::from(!is_internal) * 100 + 99 - underscores
}

/// A name without what only the linker needs: the version (`memcpy@@GLIBC_2.14`), and the prefix of the C library's own names.
pub(crate) fn plain(name: &str) -> &str {
    let name = match name.find('@') {
        Some(at @ 1..) => {
            let version = name[at..].trim_start_matches('@');
            let is_version = version.starts_with(|first: char| first.is_ascii_uppercase());
            if is_version { &name[..at] } else { name }
        }
        _ => name,
    };
    name.strip_prefix(OF_LIBC).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// Whether debug information calls a function by another name than people, which the symbol table knows.
pub(crate) fn is_better(symbol: &str, written: &str) -> bool {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    written.starts_with('_') && !symbol.starts_with('_') && is_plain(written) && is_plain(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_know_the_public_name() {
        const PUBLIC: bool = true;
        for (best, others) in [
            (
                ("write", PUBLIC),
                &[("__write", PUBLIC), ("__libc_write", false), ("__GI___libc_write", false)][..],
            ),
            (
                ("malloc", PUBLIC),
                &[("__libc_malloc", PUBLIC), ("__GI___libc_malloc", false), ("__malloc", false)],
            ),
            (("puts", PUBLIC), &[("_IO_puts", PUBLIC)]),
            (("__libc_start_main", PUBLIC), &[("__libc_start_main_impl", false)]),
            (("__foo", false), &[("__GI_foo", false), ("__GI___foo", false), ("___foo", false)]),
            (("work", PUBLIC), &[("also_work", false)]),
        ] {
            for other in others {
                assert!(
                    rank(best.0.as_bytes(), best.1) > rank(other.0.as_bytes(), other.1),
                    "{best:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn names_are_without_what_linkers_need() {
        for (name, expected) in [
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("memcpy@GLIBC_2.2.5", "memcpy"),
            ("__GI_strlen", "strlen"),
            ("__GI___libc_write", "__libc_write"),
            ("__GI_", "__GI_"),
            ("memcpy@plt", "memcpy@plt"),
            ("@GLIBC", "@GLIBC"),
            ("main", "main"),
        ] {
            assert_eq!(plain(name), expected);
        }
    }

    #[test]
    fn debug_information_has_names_of_its_own() {
        for (symbol, written, expected) in [
            ("write", "__libc_write", true),
            ("malloc", "__GI___libc_malloc", true),
            ("write.cold", "__libc_write", false),
            ("_start", "__start", false),
            ("ns::f()", "_f", false),
            ("f", "_ns::f", false),
            ("write", "read", false),
        ] {
            assert_eq!(is_better(symbol, written), expected, "{symbol} {written}");
        }
    }
}
