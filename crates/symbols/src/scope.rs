//! Which source files are the user's own: the only ones worth an experiment.
//!
//! Too wide a scope proposes code that users cannot change; too narrow a one is a silent, empty profile,
//! which users hate most. So the default list holds only places that cannot be a user's own tree.

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};

use crate::error::ScopeError;
use crate::path::{compile, file_name};

/// Standard libraries and registry dependencies, as globs in which `*` stays within a directory.
const NOT_OURS: &[&str] = &[
    // The Rust standard library and its own dependencies; as remapped in the toolchain, as
    // installed by `rust-src`, as packaged by distributions.
    "/rustc/*/**",
    "/rust/deps/**",
    "**/lib/rustlib/src/rust/**",
    "/usr/src/rustc-*/**",
    // Cargo's dependencies, wherever CARGO_HOME is.
    "**/.cargo/registry/src/**",
    "**/.cargo/git/checkouts/**",
    "**/registry/src/*-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]/**",
    "**/git/checkouts/*-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]/**",
    // C and C++ headers.
    "/usr/include/**",
    "/usr/lib/gcc/**",
    "/usr/lib{,32,64}/gcc*/**",
    "/usr/lib/llvm*/**",
    "**/include/c++/**",
    "**/lib/clang/*/include/**",
    "**/lib/gcc/*/*/include/**",
    // Their run-time libraries, as distributions build them.
    "**/libstdc++-v3/**",
    "**/libgcc/**",
    // glibc: in a versioned directory, or relative to a build directory that was mapped away (as
    // in Debian's libc6-dbg). The latter are names that a user's tree could have too, if it were
    // built with mapped paths; so only C files directly inside them count.
    "**/glibc-[0-9]*/**",
    "{csu,nptl,sysdeps,../sysdeps,libio,nss,resolv,stdio-common,sunrpc,wcsmbs}/**",
    "{bits,misc/sys}/*.h",
    "*/build-tree/**",
    "{argp,assert,catgets,ctype,debug,dirent,dlfcn,elf,gmon,grp,gshadow,iconv,inet,intl,io}/*.{c,S,h}",
    "{locale,login,malloc,math,misc,nscd,posix,pwd,resource,rt}/*.{c,S,h,def}",
    "{setjmp,shadow,signal,socket,stdlib,string,sysvipc}/*.{c,S,h}",
    "{termios,time,timezone,wctype}/*.{c,S,h}",
    // `<built-in>`, `<command-line>`, `<macro expansion>`.
    "**/<*>*",
];

/// What the user asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeOptions {
    /// Globs of source files that are in scope. None: every file that is not part of a standard
    /// library or a dependency from a registry. A glob without `/` is matched with the file name,
    /// any other with the path or any suffix of it; `*` matches `/` too, and a pattern that ends
    /// in `/` means everything below it.
    pub sources: Vec<String>,
    /// Globs of source files that are out of scope whatever `sources` says.
    pub excludes: Vec<String>,
}

/// Which source files count.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Empty: everything but `standard`.
    sources: Vec<SourceGlob>,
    excludes: Vec<SourceGlob>,
    standard: GlobSet,
    /// A folder of the registry whose code is the user's own all the same.
    own: Option<String>,
}

#[derive(Debug, Clone)]
enum SourceGlob {
    Name(GlobMatcher),
    Path(GlobMatcher),
}

impl Scope {
    /// Compiles the globs.
    ///
    /// # Errors
    ///
    /// [`ScopeError::BadGlob`] names the first glob that cannot be parsed.
    pub fn new(options: ScopeOptions) -> Result<Scope, ScopeError> {
        let parse = |globs: Vec<String>| -> Result<Vec<SourceGlob>, ScopeError> {
            globs.iter().map(|glob| SourceGlob::new(glob)).collect()
        };
        Ok(Scope {
            sources: parse(options.sources)?,
            excludes: parse(options.excludes)?,
            standard: standard()?,
            own: None,
        })
    }

    /// The scope that has no source file.
    #[must_use]
    pub fn nothing() -> Scope {
        let all = GlobBuilder::new("**").build().and_then(|all| GlobSetBuilder::new().add(all).build());
        Scope { sources: Vec::new(), excludes: Vec::new(), standard: all.expect("a valid glob"), own: None }
    }

    /// Counts a folder of the registry, which ends with a slash, as the user's own, unless source files are named.
    pub fn adopt(&mut self, folder: String) {
        self.own = Some(folder);
    }

    /// Whether code of this source file (as in [`crate::Frame::file`]) is in scope. Code of an
    /// unknown file is not: in an image without any line information the caller may decide by
    /// function instead.
    pub fn contains(&self, file: Option<&str>) -> bool {
        let Some(file) = file else { return false };
        let wanted = if self.sources.is_empty() {
            !self.standard.is_match(file)
                || self.own.as_ref().is_some_and(|own| file.starts_with(own.as_str()))
        } else {
            self.sources.iter().any(|glob| glob.matches(file))
        };
        wanted && !self.excludes.iter().any(|glob| glob.matches(file))
    }
}

/// The folder of the crate from a registry that a source file belongs to, with a slash at its end.
pub(crate) fn registry_crate(file: &str) -> Option<&str> {
    let after = |rest: &str| file.len() - rest.len();
    let (_, in_registry) = file.split_once("/registry/src/")?;
    let (_, in_index) = in_registry.split_once('/')?;
    let (_, in_crate) = in_index.split_once('/')?;
    Some(&file[..after(in_crate)])
}

impl SourceGlob {
    fn new(pattern: &str) -> Result<Self, ScopeError> {
        let bad = |reason: String| ScopeError::BadGlob { pattern: pattern.to_owned(), reason };
        let typed = pattern.strip_prefix("./").unwrap_or(pattern);
        if typed.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        let below = if typed.ends_with('/') { format!("{typed}**") } else { typed.to_owned() };
        let glob = compile(&below).map_err(|error| bad(error.kind().to_string()))?;
        Ok(if typed.contains('/') { SourceGlob::Path(glob) } else { SourceGlob::Name(glob) })
    }

    fn matches(&self, file: &str) -> bool {
        match self {
            SourceGlob::Name(glob) => glob.is_match(file_name(file)),
            SourceGlob::Path(glob) => glob.is_match(file),
        }
    }
}

fn standard() -> Result<GlobSet, ScopeError> {
    let mut set = GlobSetBuilder::new();
    for pattern in NOT_OURS {
        let bad = |error: globset::Error| ScopeError::BadGlob {
            pattern: (*pattern).to_owned(),
            reason: error.kind().to_string(),
        };
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        set.add(glob.map_err(bad)?);
    }
    set.build().map_err(|error| ScopeError::BadGlob {
        pattern: "(the standard libraries)".to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(sources: &[&str], excludes: &[&str]) -> Scope {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        Scope::new(ScopeOptions { sources: owned(sources), excludes: owned(excludes) }).unwrap()
    }

    #[test]
    fn default_is_everything_but_libraries() {
        let scope = scope(&[], &[]);
        for ours in [
            "/home/me/project/src/main.rs",
            "/home/me/rustc/src/main.rs",
            "src/main.rs",
            "main.c",
            "/home/me/registry/src/form.rs",
            "/home/me/include/hash.h",
            "/home/me/malloc/bench.c",
            "/usr/src/app/main.c",
            "/build/io/x.c",
            "io/x.rs",
            "math/matrix/product.c",
            "/root/.cargo/bin/x.rs",
        ] {
            assert!(scope.contains(Some(ours)), "{ours}");
        }
        for theirs in [
            "/rustc/59807616e1f3/library/core/src/ptr/mod.rs",
            "/rust/deps/hashbrown-0.15.2/src/raw/mod.rs",
            "/root/.rustup/toolchains/1.95/lib/rustlib/src/rust/library/std/src/rt.rs",
            "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.0/src/lib.rs",
            "/opt/cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.0/src/lib.rs",
            "/root/.cargo/git/checkouts/x-0123456789abcdef/abc/src/lib.rs",
            "/opt/cargo/git/checkouts/x-0123456789abcdef/abc/src/lib.rs",
            "/usr/include/stdlib.h",
            "/usr/include/c++/12/bits/stl_algo.h",
            "/opt/llvm/include/c++/v1/vector",
            "/usr/lib/gcc/x86_64-linux-gnu/12/include/emmintrin.h",
            "/usr/lib/llvm-14/lib/clang/14/include/emmintrin.h",
            "/build/glibc-6iIyrj/glibc-2.36/csu/libc-start.c",
            "csu/libc-start.c",
            "sysdeps/x86_64/start.S",
            "malloc/malloc.c",
            "/home/me/<built-in>",
            "<artificial>",
        ] {
            assert!(!scope.contains(Some(theirs)), "{theirs}");
        }
        assert!(!scope.contains(None));
    }

    #[test]
    fn nothing_is_in_the_scope_of_nothing() {
        for file in [Some("/p/a.c"), Some("a.c"), Some(".c"), None] {
            assert!(!Scope::nothing().contains(file), "{file:?}");
        }
    }

    #[test]
    fn sources_and_excludes() {
        for (sources, excludes, file, expected) in [
            (&["*.c"][..], &[][..], "/p/a.c", true),
            (&["*.c"], &[], "/p/a.h", false),
            (&["a.c"], &[], "/p/a.c", true),
            (&["a.c"], &[], "/p/ba.c", false),
            (&["p"], &[], "/p/a.c", false),
            (&["src/*"], &[], "/p/src/deep/a.c", true),
            (&["src/"], &[], "/p/src/deep/a.c", true),
            (&["./src/*"], &[], "/p/src/a.c", true),
            (&["/p/*"], &[], "/p/src/a.c", true),
            (&["/src/*"], &[], "/p/src/a.c", false),
            (&["*.c"], &["vendor/*"], "/p/vendor/a.c", false),
            (&[], &["vendor/*"], "/p/vendor/a.c", false),
            (&[], &["vendor/*"], "/p/a.c", true),
            (&["/usr/include/*"], &[], "/usr/include/x.h", true),
            (&["a.c", "b.c"], &[], "/p/b.c", true),
        ] {
            assert_eq!(
                scope(sources, excludes).contains(Some(file)),
                expected,
                "{sources:?} {excludes:?} {file}"
            );
        }
    }

    #[test]
    fn a_crate_of_the_registry_can_be_ones_own() {
        let index = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let (own, other) =
            (format!("{index}/ripgrep-14.1.1/crates/core/main.rs"), format!("{index}/grep-0.3.2/src/lib.rs"));
        let folder = registry_crate(&own).unwrap();
        assert_eq!(folder, format!("{index}/ripgrep-14.1.1/"));
        assert_eq!(registry_crate("/home/me/registry/src/form.rs"), None);
        let mut scope = scope(&[], &[]);
        assert!(!scope.contains(Some(&own)));
        scope.adopt(folder.to_owned());
        assert!(scope.contains(Some(&own)) && !scope.contains(Some(&other)));
    }

    #[test]
    fn a_bad_glob_is_named() {
        for bad in ["src/[", ""] {
            let options = ScopeOptions { sources: vec![bad.to_owned()], excludes: vec![] };
            let message = Scope::new(options).unwrap_err().to_string();
            assert!(message.contains(&format!("`{bad}`")), "{message}");
        }
    }
}
