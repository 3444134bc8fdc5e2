//! Rust's standard library, which is compiled into each program: to who reads a profile it is a library all the same.

/// Whether a function is in Rust's standard library: by its source file where that is known, or else by its name.
pub fn is_rust_std(name: &str, file: Option<&str>) -> bool {
    if let Some(file) = file.filter(|file| !file.is_empty()) {
        // As the compiler spells it, and where rustup puts it.
        let is_remapped = file.starts_with("/rustc/") && !file.contains("/compiler/");
        return is_remapped && file.contains("/library/") || file.contains("/lib/rustlib/src/rust/library/");
    }
    let path = name.trim_start_matches(['<', '&']);
    let is_hook =
        ["__rust_", "__rustc::", "rust_begin_unwind", "rust_panic"].iter().any(|hook| name.starts_with(hook));
    is_hook || ["std::", "core::", "alloc::"].iter().any(|of| path.starts_with(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_decides_or_else_the_name() {
        const HASH: &str = "/rustc/29483883eed69d5fb4db01964cdf2af4d86e9cb2";
        for (name, file, expected) in [
            ("alloc::vec::Vec<T>::push", Some(format!("{HASH}/library/alloc/src/vec/mod.rs")), true),
            ("insert", Some(format!("{HASH}/library/std/src/collections/hash/map.rs")), true),
            (
                "f",
                Some("/root/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/ptr.rs".into()),
                true,
            ),
            // An own trait of a type of the library.
            ("<alloc::vec::Vec<T> as scene::Draw>::draw", Some("/home/me/scene/src/main.rs".into()), false),
            ("std::rt::lang_start_internal", None, true),
            ("<core::iter::Map<I,F> as core::iter::Iterator>::fold", None, true),
            ("__rust_try", None, true),
            ("std::vector<int>::push_back", Some("/usr/include/c++/12/bits/stl_vector.h".into()), false),
            ("render::frame", None, false),
            ("standard::f", None, false),
        ] {
            assert_eq!(is_rust_std(name, file.as_deref()), expected, "{name} {file:?}");
        }
    }
}
