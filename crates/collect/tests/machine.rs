//! The collector on this machine.

use collect::{Collected, Collector, Limits, Options, StartError, Tally};
use kernel::cpu::ProcessStat;
use kernel::stream::Source;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn options(machine: bool, rate_hz: f64) -> Options {
    Options {
        rate_hz,
        sources: vec![Source::named("cpu-clock").unwrap()],
        rotate: false,
        stacks: true,
        commands: false,
        unwind: true,
        off_cpu: false,
        machine,
        ring_bytes: 1 << 19,
        names: None,
        seed: 1,
        limits: Limits::of(64 << 20, 1e6),
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
fn collect(collector: &mut Collector, time: Duration, mut work: impl FnMut()) -> Collected {
    let end = Instant::now() + time;
    while Instant::now() < end {
        work();
        collector.tick();
    }
    collector.collect()
}

/// The books say what was counted, and what the clock (the first source) called for at this rate.
#[track_caller]
fn balanced(collected: &Collected, rate_hz: f64) {
    let sum: u64 = collected.books.iter().map(|books| books.stored + books.unknown).sum();
    assert_eq!(
        collected.size().0,
        sum,
        "every sample that was counted is in the books, and no other: {collected:?}"
    );
    for books in &collected.books {
        assert!(books.stored + books.unknown <= books.expected && books.idle <= books.stored, "{books:?}");
        assert!(books.no_room <= books.lost(), "{books:?}");
    }
    let clock = &collected.books[0];
    let called_for = rate_hz * clock.covered.0 as f64 / 1e9;
    // Periods jitter by a tenth; what has passed since the last sample is given up now and then.
    let margin = 0.2 * called_for + 3.0 * f64::from(collected.cpus);
    assert!((clock.expected as f64 - called_for).abs() <= margin, "{called_for} were called for: {clock:?}");
    assert!(clock.surplus <= 2 + clock.expected / 50, "{clock:?}");
}

#[test]
fn nothing_is_lost_and_nothing_is_unknown_while_processes_come_and_go() {
    let Some(mut collector) = start(options(true, 997.0)) else { return };
    println!("a sample costs the kernel {:?}", collector.cost_of_a_sample());
    let mut children = 0;
    let collected = collect(&mut collector, Duration::from_secs(3), || {
        for _ in 0..10 {
            Command::new("/bin/true").status().unwrap();
            children += 1;
        }
    });
    balanced(&collected, 997.0);
    let books = collected.books[0];
    let taken = books.stored + books.unknown;
    println!(
        "{children} children, {books:?}, {} stacks, {} bytes, {:?} own, {} ns each",
        collected.size().1,
        collected.bytes(),
        collected.own_cpu,
        collected.own_cpu.get() / taken.max(1)
    );
    // Wide margins: a virtual machine may be stopped.
    let called_for = collected.length.as_secs_f64() * 997.0 * f64::from(collected.cpus);
    assert!((books.expected as f64 / called_for - 1.0).abs() < 0.2, "{books:?} of {called_for}");
    // Time that a hypervisor has taken away cannot be helped.
    assert!(books.no_room < books.expected / 4, "{books:?}");
    assert!(books.unknown <= 2 + taken / 100, "{books:?}");
}

#[test]
fn what_was_not_read_in_time_is_counted_as_lost() {
    let forced = Options { ring_bytes: 1 << 13, ..options(true, 2000.0) };
    let Some(mut collector) = start(forced) else { return };
    // Nothing is read.
    let end = Instant::now() + Duration::from_millis(700);
    while Instant::now() < end {
        std::hint::black_box(0);
    }
    let collected = collector.collect();
    balanced(&collected, 2000.0);
    let books = collected.books[0];
    assert!(books.lost() > books.expected / 4, "{books:?}");
    // And then everything is as before.
    let after =
        collect(&mut collector, Duration::from_millis(500), || std::thread::sleep(Duration::from_millis(2)));
    balanced(&after, 2000.0);
    // How many depends on how often we were let read.
    assert!(after.books[0].stored > 0, "{after:?}");
}

#[test]
fn own_processes_are_sampled_without_privileges() {
    let Some(mut collector) = start(options(false, 500.0)) else { return };
    // However long that takes.
    let (begin, before) = (Instant::now(), collector.taken());
    while collector.taken() < before + 200 {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{} samples were taken",
            collector.taken() - before
        );
        Command::new("/bin/sh")
            .args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        collector.tick();
    }
    let collected = collector.collect();
    balanced(&collected, 500.0);
    let books = collected.books[0];
    assert!(books.stored + books.unknown >= 200, "{books:?}");
    // Nothing is read while a program runs: where there was no room meanwhile, what it has mapped may be among what was lost.
    assert!(books.unknown < books.stored / 10 || books.no_room > 0, "{books:?}");
}

/// A program of this name that computes until it is dropped.
struct Burner {
    child: Child,
    path: std::path::PathBuf,
}

impl Burner {
    fn start(name: &str) -> Self {
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink("/bin/sh", &path).unwrap();
        let child = Command::new(&path).args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self { child, path }
    }

    /// CPU time that it has used.
    fn used(&self) -> Duration {
        Duration::from_nanos(ProcessStat::of(self.child.id()).unwrap().own.0)
    }

    /// Ends it; returns the CPU time that it has used.
    fn end(&mut self) -> Duration {
        self.child.kill().unwrap();
        let begin = Instant::now();
        while ProcessStat::of(self.child.id()).unwrap().state != 'Z' {
            assert!(begin.elapsed() < Duration::from_secs(60), "it was killed and does not end");
            std::thread::yield_now();
        }
        self.used()
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait(), std::fs::remove_file(&self.path));
    }
}

#[test]
fn own_processes_have_as_many_samples_as_they_used_cpu_time() {
    const HZ: f64 = 500.0;
    // A name that nothing else has; the kernel keeps 15 characters.
    let name = format!("whatif-b{}", std::process::id());
    let Some(mut collector) = start(options(false, HZ)) else { return };
    let mut burner = Burner::start(&name);
    // However long that takes.
    while burner.used() < Duration::from_secs(2) {
        collector.wait(Duration::from_millis(50));
        collector.tick();
    }
    let used = burner.end();
    let collected = collector.collect();
    balanced(&collected, HZ);
    let books = collected.books[0];
    let (called_for, taken) = (HZ * used.as_secs_f64(), collected.samples_of(&name));
    println!("{used:?} of CPU time call for {called_for:.0} samples; {taken} were taken; of all: {books:?}");
    // The kernel's clock runs while a hypervisor has the CPU, and the program's time does not.
    assert!(taken as f64 <= 1.5 * called_for + 10.0, "{taken} of {called_for}");
    // Whatever is missing is in the books.
    assert!((taken + books.lost()) as f64 >= 0.85 * called_for - 10.0, "{taken} of {called_for}, {books:?}");
}

#[test]
fn descriptors_are_left_for_storing() {
    const LIMITED: &str = "WHATIF_TEST_DESCRIPTORS";
    /// As many as others are promised, but for those that this test has open.
    const LEFT: usize = 40;
    if std::env::var_os(LIMITED).is_some() {
        let Some(mut collector) = start(options(false, 100.0)) else { return };
        let left =
            || (0..LEFT).map(|_| std::fs::File::open("/proc/self/stat")).collect::<Result<Vec<_>, _>>();
        assert!(collector.missed() > 0);
        left().unwrap();
        let collected =
            collect(&mut collector, Duration::from_secs(3), || std::thread::sleep(Duration::from_millis(10)));
        balanced(&collected, 100.0);
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
    let Some(mut collector) = start(options(true, 0.7)) else { return };
    let collected =
        collect(&mut collector, Duration::from_secs(5), || std::thread::sleep(Duration::from_millis(20)));
    balanced(&collected, 0.7);
    assert!(collected.books[0].stored >= 2, "{:?}", collected.books);
}

#[test]
fn what_happens_seldom_is_not_sampled_more_often_than_it_happens() {
    // One sample in ten thousand.
    let sources = ["cpu-clock", "cpu-migrations"].map(|name| Source::named(name).unwrap()).to_vec();
    let Some(mut collector) = start(Options { sources, ..options(true, 1.0) }) else { return };
    let collected =
        collect(&mut collector, Duration::from_secs(4), || std::thread::sleep(Duration::from_millis(20)));
    balanced(&collected, 1.0);
    assert!(collected.books[1].stored + collected.books[1].unknown <= 4, "{:?}", collected.books);
}

#[test]
fn several_events_take_turns() {
    let source = |name| Source::named(name).unwrap();
    let sources = vec![source("cpu-clock"), source("page-faults"), source("context-switches")];
    let Some(mut collector) = start(Options { sources, rotate: true, ..options(true, 200.0) }) else {
        return;
    };
    let collected = collect(&mut collector, Duration::from_secs(3), || {
        Command::new("/bin/true").status().unwrap();
    });
    balanced(&collected, 200.0);
    assert!(collected.books.iter().all(|books| books.stored > 0), "{:?}", collected.books);
    // The clock is always on, and one of the others.
    let of = |books: &Tally| books.covered.0 as f64;
    let [clock, faults, switches] = [0, 1, 2].map(|event| of(&collected.books[event]));
    let whole = collected.length.get() as f64 * f64::from(collected.cpus);
    assert!((clock / whole - 1.0).abs() < 0.1, "{clock} of {whole}");
    assert!(((faults + switches) / clock - 1.0).abs() < 0.1, "{:?}", collected.books);
    assert!(faults.max(switches) < 0.9 * clock, "{:?}", collected.books);
}
