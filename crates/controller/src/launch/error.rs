//! Why a program is not started. Each message says what to do.

use std::io;
use std::path::PathBuf;

/// Why a program is not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No such program.
    #[error(
        "`{0}` was not found{1}.\n{2}",
        .program.display(),
        if *.in_path { " in PATH" } else { "" },
        match (.in_path, .is_here) {
            (false, _) => "Check the spelling of the path.".to_owned(),
            (true, true) => format!("It is in this folder: type ./{} instead.", .program.display()),
            (true, false) => format!("Check the spelling, or give the path to it, such as ./{}.", .program.display()),
        }
    )]
    NotFound {
        /// As it was typed.
        program: PathBuf,
        /// Whether it was searched for, because it was typed without a slash.
        in_path: bool,
        /// Whether a program of this name is in the current folder.
        is_here: bool,
    },

    /// What the program needs to start is missing.
    #[error(
        "`{}` needs `{}` to start, which does not exist.\nInstall that, or correct {}.",
        .path.display(),
        .needs.display(),
        if *.script { "the script's first line" } else { "the program's loader (patchelf --set-interpreter)" }
    )]
    NothingToStartIt {
        /// The program.
        path: PathBuf,
        /// Its loader or interpreter.
        needs: PathBuf,
        /// Whether it is a script.
        script: bool,
    },

    /// A folder.
    #[error("`{}` is a folder.\nName the program in it.", .0.display())]
    Folder(PathBuf),

    /// No permission to execute.
    #[error(
        "`{}` may not be executed.\nAllow it with: chmod +x '{}'\n\
         (If it is allowed already, its file system is mounted noexec: copy the program elsewhere.)",
        .0.display(), .0.display()
    )]
    NotExecutable(PathBuf),

    /// The file cannot be read.
    #[error("`{}` cannot be read ({error}), so its code cannot be attributed.\nAllow it with: chmod +r '{}'", .path.display(), .path.display())]
    Unreadable {
        /// The program.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },

    /// Neither a program nor a script.
    #[error(
        "`{}` is neither an ELF program nor a script that begins with `#!`.\n\
         If it is a shell script, run it with: whatif run -- sh '{}'",
        .0.display(), .0.display()
    )]
    Format(PathBuf),

    /// It runs, but the runtime cannot be loaded into it.
    #[error("`{}` cannot be profiled: {why}", .path.display())]
    Unprofilable {
        /// The program.
        path: PathBuf,
        /// The reason and what to do.
        why: Obstacle,
    },

    /// The kernel refused.
    #[error("`{}` could not be started: {error}.\nSee whether it starts without whatif.", .path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },

    /// Threads or signal handlers could not be had.
    #[error(
        "whatif could not watch the program: {0}.\n\
         Raise the limits on processes and open files (ulimit -u, ulimit -n), or end other programs."
    )]
    Watch(#[source] io::Error),
}

/// What keeps the runtime out of a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// No loader, hence no preloading.
    #[error(
        "it is statically linked, so nothing can be loaded into it.\n\
         Profile it by itself (whatif run -- PROGRAM); or link it dynamically: without -static (C, C++), for x86_64-unknown-linux-gnu without -C target-feature=+crt-static (Rust)."
    )]
    Static,
    /// It could be held at its beginning, if that could be found.
    #[error(
        "it is statically linked and has no symbol table, by which the functions in it could be found.\n\
         Build it without stripping it (strip --strip-debug keeps the table)."
    )]
    Stripped,
    /// Go without C code: linked without a loader, and if not, with a runtime that installs its handlers of signals and creates its threads without the C library.
    #[error(
        "it is a Go program without C code: it uses threads and signals without the C library, so that whatif cannot follow it.\n\
         Profile it by itself (whatif run -- PROGRAM); or add import \"C\" to a file of its main package, and build \
         it with CGO_ENABLED=1 go build. Without that, whatif collect samples it."
    )]
    Go,
    /// Its threads have the C library's words, and its functions are not those that a loader has bound.
    #[error(
        "it is a static program in Go and C: whatif knows static programs in C, and Go.\n\
         Build it with CGO_ENABLED=0, or link it dynamically (without -extldflags=-static)."
    )]
    StaticGoWithC,
    /// The loader ignores `LD_PRELOAD` for privileged programs.
    #[error(
        "it runs with another user's or group's rights (setuid, setgid), and the loader then loads nothing else.\n\
         Profile a copy, which has no such rights: cp '{0}' /tmp/ (or run whatif as that user)."
    )]
    SetId(String),
    /// The loader ignores `LD_PRELOAD` for programs with capabilities.
    #[error(
        "it has file capabilities (getcap), and the loader then loads nothing else.\n\
         Profile a copy, which has none: cp '{0}' /tmp/ (or run whatif as root)."
    )]
    Capabilities(String),
    /// ELF class 32.
    #[error("it is a 32-bit program.\nBuild it for 64 bits (without -m32 or -mx32).")]
    ThirtyTwoBit,
    /// Another machine's code.
    #[error("it is built for {0}, and whatif supports x86-64.\nBuild it for x86-64.")]
    Architecture(String),
    /// Another C library.
    #[error(
        "it uses another C library (its loader is {0}), and whatif's runtime is built for glibc.\n\
         Profile a program with musl by itself (whatif run -- PROGRAM), or build it for glibc (Rust: --target \
         x86_64-unknown-linux-gnu)."
    )]
    Libc(String),
}

impl LaunchError {
    /// The code that a shell would end with: 127 when something is not there, 126 when it cannot be run.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } | Self::NothingToStartIt { .. } => 127,
            _ => 126,
        }
    }
}
