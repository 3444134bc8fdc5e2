//! The collector on this machine.

use collect::{Collector, Cut, Options, StartError};
use perf::stream::Source;
use std::process::Command;
use std::time::{Duration, Instant};

fn options(machine: bool, rate_hz: f64) -> Options {
    Options {
        rate_hz,
        sources: vec![Source::named("cpu-clock").unwrap()],
        rotate: false,
        stacks: true,
        machine,
        ring_bytes: 1 << 19,
        seed: 1,
    }
}

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

/// Lets `work` run again and again, and collects meanwhile.
fn collect(collector: &mut Collector, time: Duration, mut work: impl FnMut()) -> Cut {
    let end = Instant::now() + time;
    while Instant::now() < end {
        work();
        collector.tick();
    }
    collector.cut()
}

#[track_caller]
fn balanced(cut: &Cut) {
    let sum: u64 = cut.books.iter().map(|books| books.stored + books.unknown).sum();
    assert_eq!(cut.size().0, sum, "every sample is in the books: {cut:?}");
    for books in &cut.books {
        assert_eq!(books.expected, books.stored + books.unknown + books.lost(), "{books:?}");
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_unknown_while_processes_come_and_go() {
    let Some(mut collector) = start(options(true, 997.0)) else { return };
    println!("a sample costs the kernel {:?}", collector.cost_of_a_sample());
    let mut children = 0;
    let cut = collect(&mut collector, Duration::from_secs(3), || {
        for _ in 0..10 {
            Command::new("/bin/true").status().unwrap();
            children += 1;
        }
    });
    balanced(&cut);
    let books = cut.books[0];
    let taken = books.stored + books.unknown;
    println!(
        "{children} children, {books:?}, {} stacks, {} bytes, {:?} own, {} ns each",
        cut.size().1,
        cut.bytes(),
        cut.own_cpu,
        cut.own_cpu.get() / taken.max(1)
    );
    // Wide margins: a virtual machine may be stopped.
    let called_for = cut.length.as_secs_f64() * 997.0 * f64::from(cut.cpus);
    assert!((books.expected as f64 / called_for - 1.0).abs() < 0.2, "{books:?} of {called_for}");
    assert_eq!(books.surplus, 0, "{books:?}");
    assert!(books.lost() < books.expected / 4, "{books:?}");
    assert!(books.unknown <= 2 + taken / 100, "{books:?}");
}

#[test]
fn what_was_not_read_in_time_is_counted_as_lost() {
    let forced = Options { ring_bytes: 1 << 13, ..options(true, 2000.0) };
    let Some(mut collector) = start(forced) else { return };
    // Nobody reads.
    let end = Instant::now() + Duration::from_millis(700);
    while Instant::now() < end {
        std::hint::black_box(0);
    }
    let cut = collector.cut();
    balanced(&cut);
    let books = cut.books[0];
    assert!(books.lost() > books.expected / 4, "{books:?}");
    // And then everything is as before.
    let after =
        collect(&mut collector, Duration::from_millis(500), || std::thread::sleep(Duration::from_millis(2)));
    balanced(&after);
    assert!(after.books[0].lost() < after.books[0].expected / 2, "{after:?}");
}

#[test]
fn own_processes_are_sampled_without_privileges() {
    let Some(mut collector) = start(options(false, 500.0)) else { return };
    let cut = collect(&mut collector, Duration::from_millis(800), || {
        Command::new("/bin/sh")
            .args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
    });
    balanced(&cut);
    let books = cut.books[0];
    assert!(books.stored > 50, "{books:?}");
    assert!(books.unknown < books.stored / 10, "{books:?}");
    assert!(books.surplus <= books.expected / 50, "{books:?}");
}

#[test]
fn a_seldom_sample_comes_all_the_same() {
    // Longer than an interval.
    let Some(mut collector) = start(options(true, 0.7)) else { return };
    let cut =
        collect(&mut collector, Duration::from_secs(5), || std::thread::sleep(Duration::from_millis(20)));
    balanced(&cut);
    assert!(cut.books[0].stored >= 2, "{:?}", cut.books);
}

#[test]
fn what_happens_seldom_is_not_sampled_more_often_than_it_happens() {
    // One sample in ten thousand.
    let sources = ["cpu-clock", "cpu-migrations"].map(|name| Source::named(name).unwrap()).to_vec();
    let Some(mut collector) = start(Options { sources, ..options(true, 1.0) }) else { return };
    let cut =
        collect(&mut collector, Duration::from_secs(4), || std::thread::sleep(Duration::from_millis(20)));
    balanced(&cut);
    assert!(cut.books[1].stored + cut.books[1].unknown <= 4, "{:?}", cut.books);
}

#[test]
fn several_events_take_turns() {
    let source = |name| Source::named(name).unwrap();
    let sources = vec![source("cpu-clock"), source("page-faults"), source("context-switches")];
    let Some(mut collector) = start(Options { sources, rotate: true, ..options(true, 200.0) }) else {
        return;
    };
    let cut = collect(&mut collector, Duration::from_secs(3), || {
        Command::new("/bin/true").status().unwrap();
    });
    balanced(&cut);
    assert!(cut.books.iter().all(|books| books.stored > 0), "{:?}", cut.books);
}
