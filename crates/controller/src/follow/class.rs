//! Class: what a program is to those who type its name in front of another one's. Pure: by names alone.

use std::ffi::OsStr;

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It arranges something and executes another program, which is the one that is meant.
    Wrapper,
    /// It runs scripts and commands.
    Shell,
    /// In a script it prepares something, and never is what is meant.
    Helper,
    /// Anything else.
    Program,
}

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];

const WRAPPERS: &[&str] = &[
    "catchsegv",
    "chpst",
    "chroot",
    "chrt",
    "dbus-run-session",
    "env",
    "eatmydata",
    "faketime",
    "gosu",
    "ionice",
    "linux64",
    "nice",
    "nohup",
    "nsenter",
    "numactl",
    "prlimit",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "setuidgid",
    "softlimit",
    "stdbuf",
    "su",
    "sudo",
    "systemd-inhibit",
    "taskset",
    "time",
    "timeout",
    "tini",
    "unbuffer",
    "unshare",
    "watch",
    "x86_64",
    "xargs",
    "xvfb-run",
];

const HELPERS: &[&str] = &[
    "[",
    "awk",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "comm",
    "cp",
    "curl",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "expr",
    "false",
    "find",
    "free",
    "gawk",
    "getconf",
    "getent",
    "getopt",
    "git",
    "grep",
    "groups",
    "head",
    "hostname",
    "id",
    "install",
    "ip",
    "jq",
    "kill",
    "ldconfig",
    "ldd",
    "ln",
    "locale",
    "logger",
    "logname",
    "ls",
    "lsb_release",
    "lscpu",
    "mawk",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mount",
    "mountpoint",
    "mv",
    "nc",
    "nproc",
    "od",
    "pgrep",
    "pidof",
    "pkill",
    "pkg-config",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sleep",
    "sort",
    "ss",
    "stat",
    "stty",
    "sync",
    "sysctl",
    "tail",
    "tee",
    "test",
    "touch",
    "tput",
    "tr",
    "true",
    "truncate",
    "tty",
    "ulimit",
    "umount",
    "uname",
    "uniq",
    "uptime",
    "users",
    "wc",
    "wget",
    "which",
    "who",
    "whoami",
];

/// The class of a program by the name of its file.
pub fn of(name: &OsStr) -> Class {
    let Some(name) = name.to_str() else { return Class::Program };
    if SHELLS.contains(&name) {
        Class::Shell
    } else if WRAPPERS.contains(&name) {
        Class::Wrapper
    } else if HELPERS.contains(&name) {
        Class::Helper
    } else {
        Class::Program
    }
}

/// What is to become of a program that is about to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is followed.
    Follow,
    /// It is profiled, if what was asked for is in it, and followed otherwise.
    Join,
    /// It may have been meant, but another one is profiled.
    Busy,
}

/// `meant`: whether the user has named it, if any was named. `by_shell`: whether a shell executes it. `busy`: whether a program is profiled.
pub fn next(class: Class, meant: Option<bool>, by_shell: bool, busy: bool) -> Step {
    let is_program = match (meant, class) {
        (Some(meant), _) => meant,
        (None, Class::Program) => true,
        // What a wrapper executes is meant: `nice sort`.
        (None, Class::Helper) => !by_shell,
        (None, Class::Wrapper | Class::Shell) => false,
    };
    match (is_program, busy) {
        (false, _) => Step::Follow,
        (true, false) => Step::Join,
        (true, true) => Step::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, class) in [
            ("taskset", Class::Wrapper),
            ("env", Class::Wrapper),
            ("bash", Class::Shell),
            ("[", Class::Helper),
            ("mkdir", Class::Helper),
            ("server", Class::Program),
            ("python3", Class::Program),
            ("", Class::Program),
        ] {
            assert_eq!(of(OsStr::new(name)), class, "{name}");
        }
        let mut all: Vec<_> = SHELLS.iter().chain(WRAPPERS).chain(HELPERS).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), SHELLS.len() + WRAPPERS.len() + HELPERS.len(), "a name twice");
    }

    #[test]
    fn what_is_next() {
        for (class, meant, by_shell, busy, step) in [
            (Class::Program, None, true, false, Step::Join),
            (Class::Program, None, true, true, Step::Busy),
            (Class::Program, Some(false), true, false, Step::Follow),
            (Class::Shell, None, false, false, Step::Follow),
            (Class::Wrapper, None, true, true, Step::Follow),
            (Class::Shell, Some(true), false, false, Step::Join),
            (Class::Helper, None, true, false, Step::Follow),
            (Class::Helper, None, false, false, Step::Join),
            (Class::Helper, Some(true), true, false, Step::Join),
        ] {
            assert_eq!(next(class, meant, by_shell, busy), step, "{class:?} {meant:?} {by_shell} {busy}");
        }
    }
}
