//! What can go wrong, and what the user can do about it.

use std::path::PathBuf;

/// Why a file could not be used as an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A directory, device or pipe.
    #[error("{} is not a regular file; give the path of a program or library", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// Not an ELF file.
    #[error("{} is not an ELF program or library; if it is a script or a wrapper, give the program that it starts", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// The headers contradict themselves.
    #[error("{} is damaged ({what}); build or install it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// There is no debug information to answer from.
    #[error("{} has no line information; rebuild with -g (Rust: `debug = 1` in the profile) or install its debug package", path.display())]
    NoLineInfo {
        /// The file.
        path: PathBuf,
    },
}

/// Why a scope could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// A glob that cannot be understood.
    #[error(
        "bad source pattern `{pattern}`: {reason}; write a glob like `src/*` or `*.c`, and `\\` before a literal `*`, `?`, `[` or `{{`"
    )]
    BadGlob {
        /// As typed.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}
