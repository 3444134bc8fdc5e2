//! The library that is preloaded into other people's programs: what it needs and what it offers.

use crate::support::{Sandbox, program, run};
use object::{Object as _, ObjectSymbol as _};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What the runtime may leave undefined. Nothing that allocates, locks, sets `errno`, is interposed by
/// itself, or finds thread-local storage by a call.
const ALLOWED: &[&str] = &[
    "_r_debug",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "strlen",
    "_ITM_registerTMCloneTable",
    "_ITM_deregisterTMCloneTable",
    "__gmon_start__",
    "__cxa_finalize",
];

/// Functions that are written out, and not generated from the table.
const WRITTEN_OUT: &[&str] = &[
    "_Exit",
    "__sysv_signal",
    "_coz_add_delays",
    "_coz_get_counter",
    "_coz_post_block",
    "_coz_pre_block",
    "_exit",
    "_whatif_bcmp",
    "_whatif_done",
    "_whatif_find",
    "_whatif_join",
    "_whatif_late",
    "_whatif_leave",
    "_whatif_memmove",
    "_whatif_memset",
    "_whatif_open",
    "_whatif_plain_call",
    "_whatif_redirect",
    "_whatif_restore",
    "_whatif_scheduler",
    "_whatif_scheduler_with_c",
    "_whatif_silence",
    "_whatif_start",
    "_whatif_strlen",
    "_whatif_system_call",
    "_whatif_system_call_with_c",
    "_whatif_visit",
    "_whatif_visit_key",
    "accept",
    "accept4",
    "bsd_signal",
    "close",
    "close_range",
    "connect",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "eventfd",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execveat",
    "execvp",
    "execvpe",
    "fcntl",
    "fcntl64",
    "fexecve",
    "listen",
    "pipe",
    "pipe2",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "prctl",
    "pthread_create",
    "pthread_exit",
    "pthread_sigmask",
    "raise",
    "shutdown",
    "sigaction",
    "sigaltstack",
    "signal",
    "signalfd",
    "sigset",
    "ssignal",
    "sysv_signal",
    "sigpending",
    "sigprocmask",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "socket",
    "socketpair",
    "syscall",
    "system",
    "thrd_create",
    "clock_nanosleep",
    "read",
    "__read_chk",
    "timerfd_create",
    "timerfd_settime",
    "vfork",
];

/// The library as a run unpacks it, into a cache of its own.
fn unpacked(sandbox: &Sandbox) -> Option<PathBuf> {
    let cache = sandbox.path("cache");
    let mut command = sandbox.profiling(&[], &program("failing.c")?, &["brief"]);
    command.env("XDG_CACHE_HOME", &cache);
    run(command);
    let entries: Vec<_> = std::fs::read_dir(cache.join("whatif")).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    Some(entries[0].as_ref().unwrap().path())
}

#[test]
fn the_runtime_needs_next_to_nothing() {
    let sandbox = Sandbox::new();
    let Some(library) = unpacked(&sandbox) else { return };
    let bytes = std::fs::read(library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let undefined: BTreeSet<_> =
        file.dynamic_symbols().filter(|s| s.is_undefined()).map(|s| s.name().unwrap()).collect();
    let excess: Vec<_> =
        undefined.iter().filter(|name| !name.is_empty() && !ALLOWED.contains(name)).collect();
    assert!(excess.is_empty(), "undefined in the runtime, and not allowed: {excess:?}");
    assert!(undefined.contains("_r_debug"), "this test looks at the wrong symbols: {undefined:?}");
}

#[test]
fn the_runtime_offers_what_it_interposes_and_nothing_else() {
    let sandbox = Sandbox::new();
    let Some(library) = unpacked(&sandbox) else { return };
    let bytes = std::fs::read(library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let exported: BTreeSet<_> =
        file.dynamic_symbols().filter(|s| s.is_definition()).map(|s| s.name().unwrap().to_owned()).collect();
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/src/interpose/table.rs");
    let table = std::fs::read_to_string(table).unwrap();
    let generated = table.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("interpose!(")?;
        line.split('(').next()?.split_whitespace().last().map(str::to_owned)
    });
    let expected: BTreeSet<_> = generated.chain(WRITTEN_OUT.iter().map(|name| (*name).to_owned())).collect();
    assert!(expected.len() > 100, "{expected:?}");
    assert_eq!(exported, expected);
}
