//! What threads do: which of them belong together, and the shares of their time.

use crate::synthetic::session;
use profile::*;

/// A thread of process 7 that was looked at for a second: so many milliseconds it ran, and waited for other threads.
fn thread(tid: u32, name: &str, function: &str, running: u64, for_threads: u64) -> Thread {
    Thread {
        pid: 7,
        tid,
        name: name.into(),
        function: function.into(),
        watched: Nanos::from_millis(1_000),
        running: Nanos::from_millis(running),
        runnable: Nanos::ZERO,
        for_threads: Nanos::from_millis(for_threads),
        external: Nanos::from_millis(100),
    }
}

fn groups(runs: &[&[Thread]]) -> Vec<(String, u32, u32)> {
    let sessions =
        runs.iter().zip(1..).map(|(threads, id)| Session { threads: threads.to_vec(), ..session(id) });
    let rows = Rows { sessions: sessions.collect(), ..Rows::default() };
    let profile = Profile::new(rows, &EstimateOptions::default());
    let per_cent = |share: f64| (100.0 * share).round() as u32;
    let group = |it: &ThreadGroup| (it.title(), per_cent(it.running), per_cent(it.for_threads));
    profile.threads().iter().map(group).collect()
}

/// Of one run.
fn titles(threads: &[Thread]) -> Vec<String> {
    groups(&[threads]).into_iter().map(|(title, _, _)| title).collect()
}

#[test]
fn threads_of_one_kind_are_one_group_and_the_busiest_is_first() {
    let threads = [
        thread(7, "server", "", 10, 890),
        thread(8, "worker-1", "", 300, 600),
        thread(9, "worker-12", "", 500, 400),
        thread(10, "log", "", 880, 20),
    ];
    let expected = [("log", 88, 2), ("worker-N × 2", 40, 50), ("main thread", 1, 89)];
    assert_eq!(groups(&[&threads]), expected.map(|(title, runs, waits)| (title.to_owned(), runs, waits)));
    // Of another run, they are the same threads.
    assert_eq!(groups(&[&threads, &threads[1..]])[1].0, "worker-N × 2");
}

#[test]
fn an_unnamed_thread_is_called_by_what_it_began_with() {
    let threads = [
        thread(7, "server", "", 10, 0),
        thread(8, "server", "write_log", 30, 0),
        thread(9, "reader", "read_all", 20, 0),
        thread(10, "server", "", 40, 0),
        Thread { pid: 0, ..thread(0, "", "", 50, 0) },
    ];
    assert_eq!(titles(&threads), ["other threads", "server", "write_log", "reader", "main thread"]);
}

#[test]
fn threads_that_may_do_different_work_stay_apart() {
    let threads = [
        thread(7, "server", "", 10, 0),
        // A number that may be part of the name.
        thread(8, "stage1", "", 900, 0),
        thread(9, "stage2", "", 800, 0),
        thread(10, "server", "decode_h264", 700, 0),
        thread(11, "server", "decode_h265", 600, 0),
        // The same name, and other work.
        thread(12, "pool-1", "parse", 500, 0),
        thread(13, "pool-2", "parse", 300, 0),
        thread(14, "pool-3", "compress", 200, 0),
    ];
    let pool = ["pool-N (parse) × 2", "pool-3 (compress)"];
    assert_eq!(
        titles(&threads),
        ["stage1", "stage2", "decode_h264", "decode_h265", pool[0], pool[1], "main thread"]
    );
}

#[test]
fn threads_that_come_and_go_are_as_many_as_there_are_at_a_time() {
    let short = |tid| Thread { watched: Nanos::from_millis(100), ..thread(tid, "server", "serve", 50, 0) };
    let threads: Vec<Thread> =
        [thread(7, "server", "", 10, 0)].into_iter().chain((8..28).map(short)).collect();
    assert_eq!(groups(&[&threads])[0].0, "serve × 2");
}

#[test]
fn main_threads_of_several_processes_have_the_names_of_their_programs() {
    let of = |pid, name| Thread { pid, tid: pid, ..thread(pid, name, "", 500, 0) };
    let threads = [of(7, "nginx"), of(8, "nginx"), of(9, "php")];
    assert_eq!(titles(&threads), ["nginx × 2", "php"]);
}

#[test]
fn of_one_thread_nothing_needs_to_be_said() {
    assert_eq!(groups(&[&[thread(7, "server", "", 900, 0)]]), []);
    assert_eq!(groups(&[&[]]), []);
}

#[test]
fn what_is_not_known_is_what_is_left() {
    let sessions = vec![Session {
        threads: vec![thread(7, "server", "", 250, 250), thread(8, "log", "", 900, 900)],
        ..session(1)
    }];
    let rows = Rows { sessions, ..Rows::default() };
    let profile = Profile::new(rows, &EstimateOptions::default());
    let unknown: Vec<u32> =
        profile.threads().iter().map(|group| (100.0 * group.unknown()).round() as u32).collect();
    assert_eq!(unknown, [0, 40]);
}
