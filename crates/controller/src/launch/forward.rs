//! Signals that reach us while the program runs.
//!
//! The kernel sends what is typed at the terminal (Ctrl-C, Ctrl-\, Ctrl-Z), a hang-up and a change of the
//! window to the whole process group: the program has had it already, and what to do about it is its
//! decision. What another process sends to our number it means for the program, which it knows no number of.
//!
//! What the program itself sends to its group (Apache does, when it ends) is not for us.
//!
//! When the first process has ended and others go on ([`Tree`]), what was sent to our number goes to those of them that no other one has started; what is typed
//! reaches those that the terminal knows, and the run does not wait for the rest.
//!
//! A process that sends to the whole *group* (a shell's `kill %1`, `timeout`) cannot be told from one that
//! sends to us: then the program gets the signal twice.

use super::child::Progress;
use super::{Child, Tree};
use kernel::clock::monotonic;
use kernel::cpu::ProcessStat;
use kernel::signals::was_ignored;
use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use wire::Nanos;

const HANDLED: [i32; 10] =
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGTSTP, SIGCONT];

/// One Ctrl-C reaches the program and us. The program may have ended of it before we look at ours, which
/// then must not end us as well, with the profile unwritten.
const MEANT_FOR_THE_PROGRAM: Nanos = Nanos(300_000_000);

/// Which of the programs that we have started, one after the other, signals are for now.
static PROGRAMS: AtomicU32 = AtomicU32::new(0);
/// Whether a signal asked us, or the program, to end.
static ASKED_TO_END: AtomicBool = AtomicBool::new(false);
/// Whether we wait for just that, or are about to.
static STAYING: AtomicBool = AtomicBool::new(false);

/// Whether a signal that ends programs has come since we were started.
pub fn asked_to_end() -> bool {
    ASKED_TO_END.load(Ordering::Relaxed)
}

/// From here on a signal that ends programs ends nothing but [`wait_until_asked_to_end`].
pub fn stay() {
    STAYING.store(true, Ordering::Relaxed);
}

/// Waits for a signal that ends programs; after [`stay`].
pub fn wait_until_asked_to_end() {
    while !asked_to_end() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Handles signals from here on, until this process ends. They wait for [`begin`].
pub(super) fn handle() -> io::Result<SignalsInfo<WithOrigin>> {
    if was_ignored(SIGCHLD) {
        // Or the kernel would forget how our children end.
        signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
    }
    // What we were started to ignore the program ignores as well.
    SignalsInfo::new(HANDLED.into_iter().filter(|signal| !was_ignored(*signal)))
}

/// Passes signals on as long as the program runs, and does what they do by default afterwards.
pub(super) fn begin(mut signals: SignalsInfo<WithOrigin>, child: &Child) -> io::Result<()> {
    let program = Arc::clone(child.progress());
    let number = PROGRAMS.fetch_add(1, Ordering::Relaxed) + 1;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for origin in signals.forever() {
            if sender(&origin) == Some(program.pid()) {
                continue;
            }
            let ends = matches!(origin.signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT);
            let typed = origin.cause == Cause::Kernel;
            let tree = program.tree();
            if ends {
                ASKED_TO_END.store(true, Ordering::Relaxed);
                tree.iter().filter(|_| typed).for_each(|tree| tree.interrupt());
            }
            // What ends us lets a program go that has run before, and is none of our business otherwise.
            if program.ended().is_none() && program.takes(ends) {
                continue;
            }
            if PROGRAMS.load(Ordering::Relaxed) != number {
                break; // the next program's thread looks after signals
            }
            let goes_on = tree.as_ref().filter(|tree| tree.is_held() && tree.over().is_none());
            match (program.ended(), goes_on) {
                (Some(_), Some(tree)) => pass_on_to_tree(&origin, tree),
                // Its end has not been noticed yet.
                (None, Some(tree)) if program.has_ended_by_now() => pass_on_to_tree(&origin, tree),
                (None, _) => pass_on(&origin, &program),
                (Some(when), None) => {
                    let when = tree.and_then(|tree| tree.over()).unwrap_or(when).max(when);
                    if ends && STAYING.load(Ordering::Relaxed) {
                        continue;
                    }
                    if !typed || monotonic().saturating_sub(when) > MEANT_FOR_THE_PROGRAM {
                        let _ = emulate_default_handler(origin.signal);
                    }
                }
            }
        }
    })?;
    Ok(())
}

fn pass_on(origin: &Origin, program: &Progress) {
    let sender = sender(origin);
    if is_meant_for_the_program(origin.signal, sender.is_some(), program.is_stopped_still())
        && !sender.is_some_and(|sender| descends(sender, program.pid()))
        && let Some(signal) = Signal::from_named_raw(origin.signal)
    {
        program.send(signal);
    }
}

/// The first process has ended, and others go on.
fn pass_on_to_tree(origin: &Origin, tree: &Tree) {
    let sender = sender(origin);
    if is_meant_for_the_program(origin.signal, sender.is_some(), tree.is_stopped())
        && !sender.is_some_and(|sender| tree.roots().into_iter().any(|root| descends(sender, root)))
        && let Some(signal) = Signal::from_named_raw(origin.signal)
    {
        tree.send(signal);
    }
}

/// The process that has sent a signal; none if it was the kernel.
fn sender(origin: &Origin) -> Option<u32> {
    let process = origin.process.filter(|_| matches!(origin.cause, Cause::Sent(_)));
    process.map(|process| process.pid.cast_unsigned())
}

fn is_meant_for_the_program(signal: i32, from_process: bool, stopped: bool) -> bool {
    match signal {
        // A shell's `fg` continues the group; what runs already needs no second one.
        SIGCONT => stopped,
        SIGHUP | SIGINT | SIGQUIT | SIGTSTP | SIGWINCH => from_process,
        // The kernel never sends these to groups: an alarm that was set before we were started, say.
        _ => true,
    }
}

/// Whether `process` is the program or was started by it. If so it sent to its group, or to its parent.
pub fn descends(process: u32, program: u32) -> bool {
    let ancestors = std::iter::successors(Some(process), |pid| {
        ProcessStat::of(*pid).ok().map(|stat| stat.parent).filter(|parent| *parent > 1)
    });
    ancestors.take(64).any(|ancestor| ancestor == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_what() {
        for (signal, from_process, stopped, expected) in [
            (SIGINT, false, false, false),
            (SIGINT, true, false, true),
            (SIGQUIT, false, false, false),
            (SIGHUP, true, false, true),
            (SIGTSTP, false, false, false),
            (SIGTSTP, true, false, true),
            (SIGCONT, true, false, false),
            (SIGCONT, true, true, true),
            (SIGTERM, true, false, true),
            (SIGALRM, false, false, true),
            (SIGWINCH, false, false, false),
        ] {
            assert_eq!(is_meant_for_the_program(signal, from_process, stopped), expected, "{signal}");
        }
    }

    #[test]
    fn a_process_descends_from_itself_and_from_its_ancestors() {
        let me = std::process::id();
        let parent = ProcessStat::of(me).unwrap().parent;
        assert!(descends(me, me) && descends(me, parent));
        assert!(!descends(parent, me) && !descends(u32::MAX, me));
    }
}
