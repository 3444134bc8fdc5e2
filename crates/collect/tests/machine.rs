//! The collector on this machine: what holds of every collection. How much is sampled, lost and unknown is for `bench accept`.

use collect::{Collected, Collector, Options, StartError};
use kernel::stream::Source;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// What takes so long hangs.
const HANG: Duration = Duration::from_secs(100);

fn start(options: Options) -> Option<Collector> {
    match Collector::start(options) {
        Ok(collector) => Some(collector),
        Err(error @ (StartError::NotAllowed { .. } | StartError::NoEvent { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Lets `work` run again and again and looks what the kernel has written, until that is enough.
#[track_caller]
fn look_until(
    collector: &mut Collector,
    mut work: impl FnMut(),
    mut is_enough: impl FnMut(&mut Collector) -> bool,
) {
    let begin = Instant::now();
    while !is_enough(collector) {
        assert!(begin.elapsed() < HANG, "{} samples were taken", collector.taken());
        work();
        collector.tick();
    }
}

/// Collects again and again while `work` runs, until something is among it. The books balance each time.
#[track_caller]
fn collect_until(
    collector: &mut Collector,
    mut work: impl FnMut(),
    mut is_enough: impl FnMut(&Collected) -> bool,
) {
    let begin = Instant::now();
    loop {
        work();
        let collected = collector.collect();
        assert_balanced(&collected);
        if is_enough(&collected) {
            return;
        }
        assert!(begin.elapsed() < HANG, "{collected:?}");
        collector.tick();
    }
}

/// Every sample that was counted is in the books, and no other.
#[track_caller]
fn assert_balanced(collected: &Collected) {
    let sum: u64 = collected.books.iter().map(|books| books.stored + books.unknown).sum();
    assert_eq!(collected.size().0, sum, "{collected:?}");
    for books in &collected.books {
        assert!(books.stored + books.unknown <= books.expected && books.idle <= books.stored, "{books:?}");
        assert!(books.no_room <= books.lost(), "{books:?}");
    }
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::black_box(0);
    }
}

fn burn_a_little() {
    burn(Duration::from_millis(2));
}

fn start_a_program() {
    Command::new("/bin/true").status().unwrap();
}

#[test]
fn all_samples_are_in_the_books_while_processes_come_and_go() {
    let Some(mut collector) = start(Options::of_clock(true, 997.0)) else { return };
    look_until(&mut collector, start_a_program, |collector| collector.taken() > 1000);
    assert_balanced(&collector.collect());
}

#[test]
fn what_was_not_read_in_time_is_counted_as_lost() {
    let forced = Options { ring_bytes: 1 << 13, ..Options::of_clock(true, 2000.0) };
    let Some(mut collector) = start(forced) else { return };
    // Nothing is read meanwhile.
    let without_reading = || burn(Duration::from_millis(500));
    collect_until(&mut collector, without_reading, |collected| collected.books[0].lost() > 0);
    // And then everything is as before.
    collect_until(&mut collector, burn_a_little, |collected| collected.books[0].stored > 0);
}

#[test]
fn own_processes_are_sampled_without_privileges() {
    let Some(mut collector) = start(Options::of_clock(false, 500.0)) else { return };
    let shell = || {
        let words = ["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
        Command::new("/bin/sh").args(words).status().unwrap();
    };
    let before = collector.taken();
    look_until(&mut collector, shell, |collector| collector.taken() >= before + 200);
    let collected = collector.collect();
    assert_balanced(&collected);
    let books = collected.books[0];
    assert!(books.stored + books.unknown >= 200, "{books:?}");
    collect_until(&mut collector, shell, |collected| collected.samples_of("sh") > 0);
}

#[test]
fn descriptors_are_left_for_storing() {
    const LIMITED: &str = "WHATIF_TEST_DESCRIPTORS";
    /// As many as others are promised, but for those that this test has open.
    const LEFT: usize = 40;
    if std::env::var_os(LIMITED).is_some() {
        let Some(mut collector) = start(Options::of_clock(false, 100.0)) else { return };
        let left =
            || (0..LEFT).map(|_| std::fs::File::open("/proc/self/stat")).collect::<Result<Vec<_>, _>>();
        assert!(collector.missed() > 0);
        left().unwrap();
        // It looks for more threads meanwhile.
        let begin = Instant::now();
        let wait = || std::thread::sleep(Duration::from_millis(10));
        look_until(&mut collector, wait, |_| begin.elapsed() > Duration::from_secs(3));
        assert_balanced(&collector.collect());
        left().unwrap();
        assert!(collector.missed() > 0);
        return;
    }
    // More than there are descriptors for.
    let mut sleepers: Vec<Child> =
        (0..100).map(|_| Command::new("/bin/sleep").arg("1000").spawn().unwrap()).collect();
    let limit = 128 + 8 * kernel::cpu::numbers().len();
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["descriptors_are_left_for_storing", "--exact", "--nocapture"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    for sleeper in &mut sleepers {
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_seldom_sample_comes_all_the_same() {
    // Longer than an interval.
    let Some(mut collector) = start(Options::of_clock(true, 0.7)) else { return };
    let before = collector.taken();
    look_until(&mut collector, burn_a_little, |collector| collector.taken() >= before + 2);
    assert_balanced(&collector.collect());
}

#[test]
fn events_that_take_turns_are_all_sampled() {
    let source = |name| Source::named(name).unwrap();
    let sources = vec![source("cpu-clock"), source("page-faults"), source("context-switches")];
    let Some(mut collector) = start(Options { sources, rotate: true, ..Options::of_clock(true, 200.0) })
    else {
        return;
    };
    let mut stored = [0; 3];
    let work = || (0..20).for_each(|_| start_a_program());
    collect_until(&mut collector, work, |collected| {
        stored.iter_mut().zip(&collected.books).for_each(|(sum, books)| *sum += books.stored);
        stored.iter().all(|stored| *stored > 0)
    });
}
