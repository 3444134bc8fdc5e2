//! `prctl(2)`, and what `syscall(2)` passes here: filters of system calls, before which threads may have to be left alone
//! ([`sandbox`](crate::sandbox)), and the slack of timers, which pauses restore.
//!
//! `prctl` is variadic in C, which stable Rust cannot define; five fixed words take the same registers on x86-64.

use crate::real::real;
use crate::sandbox::{self, Sandbox};
use crate::{sys, tls};
use core::ffi::{c_int, c_long, c_ulong};
use core::sync::atomic::Ordering::Relaxed;

const SYS_PRCTL: c_long = 157;
pub const SYS_SECCOMP: c_long = 317;

const PR_SET_SECCOMP: c_long = 22;
const PR_SET_TIMERSLACK: c_long = 29;
const SECCOMP_MODE_STRICT: c_long = 1;
const SECCOMP_MODE_FILTER: c_long = 2;

const SECCOMP_SET_MODE_STRICT: c_long = 0;
const SECCOMP_SET_MODE_FILTER: c_long = 1;
const SECCOMP_FILTER_FLAG_TSYNC: c_long = 1;

/// What a system call puts the thread into, and whether all threads with it.
pub(super) fn sandbox_of(number: c_long, [a, b, c]: [c_long; 3]) -> Option<(Sandbox, bool)> {
    let filter = Sandbox::Filter(c as usize);
    match (number, a, b) {
        (SYS_PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => Some((Sandbox::Strict, false)),
        (SYS_PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER) => Some((filter, false)),
        (SYS_SECCOMP, SECCOMP_SET_MODE_STRICT, 0) => Some((Sandbox::Strict, false)),
        (SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, flags) => {
            Some((filter, flags & SECCOMP_FILTER_FLAG_TSYNC != 0))
        }
        _ => None,
    }
}

/// Before a system call: a slack that it sets is the one that pauses restore from now on. Before and not after it, because a pause may come between.
pub(super) fn note_slack(number: c_long, [a, b]: [c_long; 2]) {
    // A vforked child has a slack of its own, and its parent's slot.
    if (number, a) == (SYS_PRCTL, PR_SET_TIMERSLACK)
        && let Some(slot) = tls::slot().filter(|_| sys::is_own())
    {
        slot.slack.store(b as u64, Relaxed);
    }
}

/// Around a call that does so. Its result may be a descriptor (SECCOMP_FILTER_FLAG_NEW_LISTENER).
pub(super) fn entering((sandbox, all): (Sandbox, bool), call: impl FnOnce() -> c_long) -> c_long {
    let mut result = -1;
    sandbox::entering(sandbox, all, || {
        result = call();
        result >= 0
    });
    result
}

/// `prctl(2)`.
#[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(operation: c_int, b: c_ulong, c: c_ulong, d: c_ulong, e: c_ulong) -> c_int {
    let function = real!(prctl: fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int);
    let Some(original) = function else { return -1 };
    // SAFETY: the program's own arguments go to the function it meant to call.
    let call = || unsafe { original(operation, b, c, d, e) };
    note_slack(SYS_PRCTL, [operation.into(), b as c_long]);
    match sandbox_of(SYS_PRCTL, [operation.into(), b as c_long, c as c_long]) {
        Some(sandbox) => entering(sandbox, || call().into()) as c_int,
        None => call(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sets_a_filter() {
        let filter = Sandbox::Filter(77);
        for (number, arguments, expected) in [
            (SYS_PRCTL, [22, 1, 77], Some((Sandbox::Strict, false))),
            (SYS_PRCTL, [22, 2, 77], Some((filter, false))),
            (SYS_PRCTL, [38, 1, 77], None),
            (SYS_SECCOMP, [0, 0, 77], Some((Sandbox::Strict, false))),
            (SYS_SECCOMP, [1, 0, 77], Some((filter, false))),
            (SYS_SECCOMP, [1, 1 | 8, 77], Some((filter, true))),
            // What the kernel can do.
            (SYS_SECCOMP, [2, 0, 77], None),
            (0, [1, 0, 77], None),
        ] {
            assert_eq!(sandbox_of(number, arguments), expected, "{number} {arguments:?}");
        }
    }
}
