//! A program's own use of signals, under sampling and delays. How often samples come meanwhile, and which thread handles signals to
//! the process, is measured by `bench -- accept --only signals::`.

use crate::support::{DELAYS, Sandbox, program};

fn unharmed(arguments: &[&str]) {
    let Some(signals) = program("signals.c") else { return };
    Sandbox::new().unharmed(&signals, arguments);
}

/// The signals that carry samples: what a program does with them is answered by us.
const SIGURG: &str = "23";
const SIGTRAP: &str = "5";
/// In a forked child samples come by SIGURG, as they do everywhere on older kernels.
const FORKED: &str = "forked";

#[test]
fn a_handler_of_our_signals_runs_exactly_as_often_as_they_were_sent() {
    unharmed(&["handler", SIGURG]);
    unharmed(&["handler", SIGTRAP]);
    unharmed(&["handler", SIGURG, FORKED]);
}

#[test]
fn our_signals_can_be_blocked() {
    unharmed(&["masked", SIGURG]);
    unharmed(&["masked", SIGTRAP]);
    unharmed(&["masked", SIGURG, FORKED]);
}

#[test]
fn our_signals_can_be_awaited() {
    // `signalfd`, `sigwait`, `sigtimedwait`, `sigsuspend`, `ppoll`, `pselect`, `epoll_pwait`: each as the first that the program does of them.
    for first in ["0", "1", "2", "3", "4", "5", "6"] {
        unharmed(&["awaited", first, FORKED]);
    }
    unharmed(&["awaited", "0"]);
    let Some(signals) = program("signals.c") else { return };
    for first in ["0", "1", "4"] {
        let options = [DELAYS, &["--sampler", "timer"]].concat();
        let ended = Sandbox::new().compare(&options, &signals, &["awaited", first]);
        assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
    }
}

#[test]
fn a_program_that_handles_sigurg_has_it_for_itself() {
    let Some(urgent) = program("urgent.c") else { return };
    for which in ["handled", "ignored", "blocked", "bad"] {
        let sandbox = Sandbox::new();
        for (options, arguments) in
            [(&[][..], &[which][..]), (&[], &[which, FORKED]), (&["--sampler", "timer"], &[which])]
        {
            let ended = sandbox.compare(&[DELAYS, options].concat(), &urgent, arguments);
            assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
        }
    }
}

#[test]
fn breakpoints_are_the_programs() {
    unharmed(&["breakpoints"]);
}

#[test]
fn waiting_for_signals() {
    unharmed(&["waits"]);
}

#[test]
fn a_handler_on_another_stack_can_jump_away() {
    unharmed(&["faults"]);
}

#[test]
fn restarted_reads_are_restarted() {
    unharmed(&["restart"]);
    unharmed(&["restart", SIGURG, FORKED]);
}

#[test]
fn signals_of_the_program_interrupt_its_sleep() {
    unharmed(&["interrupt"]);
    unharmed(&["interrupt", SIGURG, FORKED]);
}

#[test]
fn our_signal_from_the_program_interrupts_its_sleep() {
    unharmed(&["interrupt_ours"]);
}

#[test]
fn everything_can_be_blocked() {
    unharmed(&["shielded"]);
}

#[test]
fn the_programs_own_profiling_timer_works() {
    let Some(signals) = program("signals.c") else { return };
    // No thread runs `hot` here.
    let ended = Sandbox::new().compare(&["--region", "other", "--speedup", "50"], &signals, &["timer"]);
    assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
}

#[test]
fn no_call_is_interrupted_by_a_sample() {
    let Some(interruptions) = program("interruptions.c") else { return };
    let sandbox = Sandbox::new();
    sandbox.unharmed(&interruptions, &[]);
    Sandbox::new().unharmed(&interruptions, &[FORKED]);
    // As many samples as there can be, in every thread.
    let ended = sandbox.compare(&[DELAYS, &["--period", "100"]].concat(), &interruptions, &[]);
    assert!(ended.stdout.ends_with("done\n"), "{ended:#?}");
}

/// `reached.c` under delays, by each sampler: the same output as alone.
#[track_caller]
fn reaches_the_main_thread(arguments: &[&str]) {
    let Some(reached) = program("reached.c") else { return };
    for sampler in ["perf", "perf-user", "timer"] {
        let options = [DELAYS, &["--sampler", sampler]].concat();
        let ended = Sandbox::new().compare(&options, &reached, arguments);
        assert!(ended.stdout.ends_with("done\n"), "{sampler} {arguments:?}: {ended:#?}");
    }
}

#[test]
fn signals_to_the_process_reach_the_main_thread_at_work() {
    reaches_the_main_thread(&["work", "calls"]);
}

#[test]
fn signals_to_the_process_reach_the_main_thread_in_its_waits() {
    reaches_the_main_thread(&[
        "read",
        "poll",
        "ppoll",
        "select",
        "epoll",
        "nanosleep",
        "usleep",
        "sleep",
        "clock",
        "pause",
        "sigsuspend",
        "mutex",
        "semaphore",
        "futex",
    ]);
}

#[test]
fn handlers_interrupt_handlers_and_make_calls() {
    reaches_the_main_thread(&["nested"]);
}

#[test]
fn handlers_that_are_to_run_once_run_once() {
    reaches_the_main_thread(&["once"]);
}

#[test]
fn a_program_is_told_of_the_handlers_that_it_has_installed() {
    reaches_the_main_thread(&["actions"]);
}

#[test]
fn two_signals_at_once_are_both_handled() {
    reaches_the_main_thread(&["pairs"]);
}

#[test]
fn queued_signals_are_all_handled_where_they_were_sent() {
    reaches_the_main_thread(&["queued"]);
}

#[test]
fn a_vforked_child_changes_nothing_of_its_parents() {
    reaches_the_main_thread(&["vforked"]);
}

#[test]
fn handlers_run_on_small_stacks() {
    reaches_the_main_thread(&["small"]);
}
