use super::*;
use crate::clock::thread_cpu_time;
use crate::maps::FileId;
use crate::python_frames::{FramesEnd, Interpreter, MOST_FRAMES};
use crate::stack_copies::StackCopies;
use crate::until::until;
use std::time::Duration;
use wire::Nanos;

const SETUP: Setup = Setup { stacks: true, copies: false, kernel: true, ring_bytes: 1 << 18 };

fn opened(scope: &Scope) -> Option<Vec<Cpu>> {
    opened_with(scope, SETUP)
}

fn opened_with(scope: &Scope, setup: Setup) -> Option<Vec<Cpu>> {
    let open = |number| {
        let mut cpu = Cpu::open(number, scope, setup)?;
        cpu.add(Source::named("cpu-clock").unwrap(), 1_000_000, scope)?;
        io::Result::Ok(cpu)
    };
    match crate::cpu::numbers().into_iter().map(open).collect() {
        Ok(cpus) => Some(cpus),
        Err(error) => {
            eprintln!("skipped: CPUs cannot be sampled here: {error}");
            None
        }
    }
}

/// Burns this much CPU time.
fn burn(time: Duration) {
    let end = thread_cpu_time() + Nanos(time.as_nanos() as u64);
    while thread_cpu_time() < end {}
}

/// All samples of `pid`, and all records that are not samples.
fn drain(cpus: &mut [Cpu], pid: u32) -> (usize, Vec<String>) {
    let (mut samples, mut others) = (0, Vec::new());
    for cpu in cpus {
        let ids: Vec<u64> = cpu.ids(0).collect();
        let ring = cpu.ring();
        ring.refresh();
        let now = crate::clock::monotonic();
        while let Some(record) = ring.record() {
            match record {
                Record::Sample(sample) => {
                    assert!(ids.contains(&sample.id));
                    assert!(!sample.callchain.is_empty());
                    samples += usize::from(sample.pid == pid);
                }
                Record::Map { path, .. } => others.push(format!("map {}", String::from_utf8_lossy(path))),
                Record::Name { executes, name, .. } => {
                    others.push(format!("name {} {executes}", String::from_utf8_lossy(name)));
                }
                record => others.push(format!("{record:?}")),
            }
            assert!(ring.time().unwrap() <= now);
            ring.next();
        }
        ring.release();
    }
    (samples, others)
}

/// Lets `work` run until there are more than 50 samples of this process, and all of the records that are not samples.
#[track_caller]
fn drain_until_seen(cpus: &mut [Cpu], work: impl Fn(), records: &[fn(&str) -> bool]) {
    let (mut samples, mut others) = (0, Vec::new());
    until(|| {
        work();
        let (more, then) = drain(cpus, std::process::id());
        samples += more;
        others.extend(then);
        samples > 50 && records.iter().all(|is_wanted| others.iter().any(|other| is_wanted(other)))
    });
}

#[test]
fn a_machine_is_sampled_with_what_its_processes_do() {
    let Some(mut cpus) = opened(&Scope::Machine) else { return };
    let work = || {
        std::process::Command::new("/bin/true").status().unwrap();
        burn(Duration::from_millis(20));
    };
    let is_map: fn(&str) -> bool = |other| other.starts_with("map /") && other.ends_with("/true");
    drain_until_seen(&mut cpus, work, &[|other| other == "name true true", is_map]);
    assert!(count(&cpus) > 0);
    wait(&cpus, Duration::from_millis(1));
}

#[test]
fn own_threads_are_sampled_with_what_they_start() {
    let scope = Scope::Threads(vec![own_thread()]);
    let Some(mut cpus) = opened(&scope) else { return };
    let work = || std::thread::spawn(|| burn(Duration::from_millis(50))).join().unwrap();
    drain_until_seen(&mut cpus, work, &[|other| other.starts_with("Fork")]);
}

#[test]
fn a_ring_goes_round_and_round_and_says_what_it_lost() {
    let setup = Setup { ring_bytes: 1 << 13, ..SETUP };
    let scope = Scope::Threads(vec![own_thread()]);
    let Some(mut cpus) = opened_with(&scope, setup) else { return };
    let (mut seen, mut bytes) = (0, 0);
    until(|| {
        burn(Duration::from_millis(20));
        for cpu in &mut cpus {
            let ring = cpu.ring();
            ring.refresh();
            while let Some(record) = ring.record() {
                if let Record::Sample(sample) = record {
                    seen += 1;
                    bytes += 8 * sample.callchain.len();
                }
                ring.next();
            }
            ring.release();
        }
        // Callers alone are more than all rings hold, several times over.
        seen > 100 && bytes > 4 * setup.ring_bytes * cpus.len()
    });
    // Forced: nothing is read.
    let lost = |cpus: &[Cpu]| cpus.iter().map(|cpu| cpu.reading(0).lost).sum::<u64>();
    let before = lost(&cpus);
    until(|| {
        burn(Duration::from_millis(20));
        lost(&cpus) > before
    });
}

#[test]
fn code_that_the_kernel_generates_comes_and_goes() {
    let record = |flags: u64| {
        let name = b"bpf_prog_0123456789abcdef_count\0";
        let mut words =
            vec![17 | ((3 + 4 + 3) * 8) << 48, 0xffff_ffff_c000_1000, 0x140 | 1 << 32 | flags << 48];
        words.extend(name.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)));
        words.extend([4711 | 4712 << 32, 5, 7]);
        words
    };
    for (flags, gone) in [(0, false), (1, true)] {
        let words = record(flags);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (start, name) = (wire::Address(0xffff_ffff_c000_1000), &b"bpf_prog_0123456789abcdef_count"[..]);
        assert_eq!(
            record::parse(Layout::default(), &words, &bytes),
            Record::KernelCode { start, length: 0x140, name, gone }
        );
        assert_eq!(record::time(&words), Nanos(5));
        // As the kernel writes it for the second event that hears of it: behind the end lies what was there before.
        let longer = [&[words[0] + (24 << 48)], &words[1..], &[u64::MAX, u64::MAX, u64::MAX]].concat();
        assert_eq!(record::time(&longer), Nanos(5));
        for length in 1..words.len() {
            // Cut off: something, but no panic.
            record::parse(Layout::default(), &words[..length], &bytes[..8 * length]);
            record::time(&words[..length]);
        }
    }
}

#[test]
fn code_that_comes_and_goes_stops_no_reader_of_several() {
    let began = crate::clock::monotonic();
    // Each of them hears of it, and each later one gets a longer record.
    let (Some(first), Some(second), Some(third)) =
        (opened(&Scope::Machine), opened(&Scope::Machine), opened(&Scope::Machine))
    else {
        return;
    };
    let mut all = [first, second, third];
    // Something was there before, so that what is behind an end is not just zeros.
    for cpus in &mut all {
        until(|| {
            burn(Duration::from_millis(20));
            drain(cpus, std::process::id()).0 > 0
        });
    }
    let mut own = match opened(&Scope::Threads(vec![own_thread()])) {
        Some(own) => own,
        None => return,
    };
    if let Err(error) = StackCopies::start(&mut own) {
        return eprintln!("skipped: programs cannot be loaded into the kernel here: {error}");
    }
    let mut heard = [0; 3];
    until(|| {
        // On a busy machine a ring may have been full when it came.
        drop(StackCopies::start(&mut own));
        for (cpus, heard) in all.iter_mut().zip(&mut heard) {
            for cpu in cpus {
                let ring = cpu.ring();
                ring.refresh();
                let now = crate::clock::monotonic();
                while let Some(record) = ring.record() {
                    *heard += usize::from(matches!(record, Record::KernelCode { .. }));
                    let time = ring.time().unwrap();
                    assert!(began <= time && time <= now, "{record:?} at {time:?} of {now:?}");
                    ring.next();
                }
                ring.release();
            }
        }
        heard.iter().all(|heard| *heard >= 2)
    });
}

#[test]
fn a_file_that_is_mapped_is_known_by_its_build_id_or_its_inode() {
    let name = b"/lib/some.so\0\0\0\0";
    let mapped = |misc: u64, identity: [u64; 3]| {
        let mut words = vec![10 | misc << 32 | (14 * 8) << 48, 7 | 8 << 32, 0x1000, 0x2000, 0x3000];
        words.extend(identity);
        words.push(5);
        words.extend(name.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)));
        words.extend([7 | 8 << 32, 9, 10]);
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        for length in 1..words.len() {
            // Cut off: something, but no panic.
            record::parse(Layout::default(), &words[..length], &bytes[..8 * length]);
        }
        match record::parse(Layout::default(), &words, &bytes) {
            Record::Map { pid: 7, build_id, file, path: b"/lib/some.so", .. } => (build_id.to_vec(), file),
            other => panic!("{other:?}"),
        }
    };
    let file = FileId { device: (8, 1), inode: 4711 };
    assert_eq!(mapped(0, [8 | 1 << 32, 4711, 1]), (vec![], file));
    // Its length, and then its bytes.
    let with_build_id = mapped(1 << 14, [2 | 0x0201 << 32, 0, 0]);
    assert_eq!(with_build_id, (vec![1, 2], FileId::default()));
}

#[test]
fn the_kernel_says_which_event_it_throttles() {
    // Header, then time, identifier and stream, and the words at the end of every record.
    let words = [5 | 56 << 48, 1000, 77, 78, 0, 1000, 77];
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
    assert_eq!(record::parse(Layout::default(), &words, &bytes), Record::Throttled { id: 77 });
    assert_eq!(record::time(&words), Nanos(1000));
    assert_eq!(record::parse(Layout::default(), &words[..2], &bytes[..16]), Record::Other);
}

/// Burns with `MARK` on its stack, which is longer than a kilobyte.
#[inline(never)]
fn burn_marked(time: Duration) {
    let mark = std::hint::black_box([MARK; 256]);
    burn(time);
    std::hint::black_box(&mark);
}

const MARK: u64 = 0x6d61_726b_6564_2121;

/// What was taken of a thread.
#[derive(Default)]
struct Copies {
    samples: usize,
    /// The lengths of the stacks that were copied.
    lengths: Vec<usize>,
    /// In how many of them `MARK` is.
    marked: usize,
    /// And in how many of these before that pages that were not there.
    holed: usize,
}

fn copies(cpus: &mut [Cpu], thread: u32, copies: &mut Copies) {
    for cpu in cpus {
        let ring = cpu.ring();
        ring.refresh();
        let mut before = None;
        while let Some(record) = ring.record() {
            let stack = match record {
                Record::Sample(sample) => {
                    let own = |stack: UserStack<'_>| (stack.bytes.to_vec(), stack.missing);
                    let before: Option<(Vec<u8>, u32)> = before.take();
                    let stack = sample.stack.map(own).or(before);
                    copies.samples += usize::from(sample.tid == thread);
                    stack.filter(|_| sample.tid == thread)
                }
                Record::Stack { tid, stack, .. } => {
                    before = Some((stack.bytes.to_vec(), stack.missing));
                    assert_ne!((tid, stack.instruction), (0, 0));
                    None
                }
                _ => None,
            };
            if let Some((stack, missing)) = stack {
                copies.lengths.push(stack.len());
                let words = stack.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
                let is_marked = words.filter(|word| *word == MARK).count() >= 16;
                copies.marked += usize::from(is_marked);
                copies.holed += usize::from(is_marked && missing.count_ones() >= 7);
            }
            ring.next();
        }
        ring.release();
    }
}

/// What is taken of this thread, while it burns with `MARK` on its stack, until that is enough.
#[track_caller]
fn copies_until(cpus: &mut [Cpu], burn: fn(Duration), is_enough: impl Fn(&Copies) -> bool) -> Copies {
    let mut taken = Copies::default();
    until(|| {
        burn(Duration::from_millis(20));
        copies(cpus, own_thread(), &mut taken);
        is_enough(&taken)
    });
    taken
}

#[test]
fn the_kernel_copies_stacks_with_samples() {
    let setup = Setup { copies: true, ..SETUP };
    let scope = Scope::Threads(vec![own_thread()]);
    let Some(mut cpus) = opened_with(&scope, setup) else { return };
    let taken = copies_until(&mut cpus, burn_marked, |taken| taken.marked > 10);
    assert!(taken.lengths.iter().all(|length| *length <= USUALLY_COPIED as usize), "{:?}", taken.lengths);
}

/// Copies of stacks are large: those of tests that run at the same time leave no room for one another.
static COPYING: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn as_much_of_a_stack_is_copied_as_is_wanted() {
    let _turn = COPYING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(mut cpus) = opened(&Scope::Machine) else { return };
    let copying = match StackCopies::start(&mut cpus) {
        Ok(copying) => copying,
        Err(error) => return eprintln!("skipped: BPF is not to be had here: {error}"),
    };
    let pid = std::process::id();
    for (wanted, most) in
        [(None, USUALLY_COPIED), (Some(1 << 10), 1 << 10), (Some(0), 0), (Some(u32::MAX), MOST_COPIED)]
    {
        copying.want(pid, wanted);
        // What was copied before that.
        copies(&mut cpus, own_thread(), &mut Copies::default());
        let taken = match most {
            0 => copies_until(&mut cpus, burn_marked, |taken| taken.samples > 10),
            _ => copies_until(&mut cpus, burn_marked, |taken| taken.marked > 3),
        };
        let lengths = taken.lengths;
        assert!(lengths.iter().all(|length| *length <= most as usize), "{wanted:?}: {lengths:?}");
        let longest = lengths.iter().max().copied().unwrap_or(0);
        assert!(longest >= (most as usize).min(1 << 10), "{wanted:?}: {longest}");
    }
}

/// The same below a buffer of which some pages are not there.
#[inline(never)]
fn burn_below_a_hole(time: Duration) {
    const PAGE: usize = 4096;
    /// The mark lies above the buffer.
    #[repr(C)]
    struct Frame {
        buffer: [u8; 8 * PAGE],
        mark: [u64; 256],
    }
    let mut frame = std::mem::MaybeUninit::<Frame>::uninit();
    let whole = frame.as_mut_ptr().cast::<u8>();
    // SAFETY: within the frame, of which nothing else is written.
    unsafe { (&raw mut (*frame.as_mut_ptr()).mark).write(std::hint::black_box([MARK; 256])) };
    let page = whole.wrapping_add(whole.align_offset(PAGE));
    // SAFETY: seven pages that begin where a page begins are within the buffer, in which nothing is.
    let given_back = unsafe { libc::madvise(page.cast(), 7 * PAGE, libc::MADV_DONTNEED) };
    assert_eq!(given_back, 0, "{}", io::Error::last_os_error());
    burn(time);
    std::hint::black_box(&mut frame);
}

#[test]
fn a_stack_is_copied_beyond_pages_that_are_not_there() {
    let _turn = COPYING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(mut cpus) = opened(&Scope::Machine) else { return };
    let copying = match StackCopies::start(&mut cpus) {
        Ok(copying) => copying,
        Err(error) => return eprintln!("skipped: BPF is not to be had here: {error}"),
    };
    copying.want(std::process::id(), Some(MOST_COPIED));
    let taken = copies_until(&mut cpus, burn_below_a_hole, |taken| taken.marked > 3);
    assert!(taken.holed > 3, "{}", taken.holed);
}

/// A thread that burns as much CPU time as it is told to, each time, until it is no longer told.
struct Burner {
    thread: std::thread::JoinHandle<()>,
    id: u32,
    tell: std::sync::mpsc::Sender<Duration>,
    done: std::sync::mpsc::Receiver<u32>,
}

impl Burner {
    /// `then` runs at its end.
    fn start(then: impl FnOnce() + Send + 'static) -> Self {
        let (tell, told) = std::sync::mpsc::channel::<Duration>();
        let (say, done) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            say.send(own_thread()).unwrap();
            for time in told {
                burn(time);
                say.send(own_thread()).unwrap();
            }
            then();
        });
        let id = done.recv().unwrap();
        Self { thread, id, tell, done }
    }

    fn burn(&self, time: Duration) {
        self.tell.send(time).unwrap();
        self.done.recv().unwrap();
    }

    fn end(self) {
        drop(self.tell);
        self.thread.join().unwrap();
    }
}

fn count(cpus: &[Cpu]) -> u64 {
    cpus.iter().map(|cpu| cpu.reading(0).count).sum()
}

fn descriptors(cpus: &[Cpu]) -> usize {
    cpus.iter().map(Cpu::descriptors).sum()
}

/// The kernel lets a thread go a moment after others know that it has ended.
fn close_until(cpus: &mut [Cpu], left: usize) -> usize {
    let mut closed = 0;
    until(|| {
        closed += cpus.iter_mut().map(|cpu| cpu.close_ended().len()).sum::<usize>();
        std::thread::yield_now();
        descriptors(cpus) <= left
    });
    closed
}

#[test]
fn descriptors_of_threads_that_ended_are_closed_and_what_they_counted_stays() {
    let (say, child) = std::sync::mpsc::channel();
    // The first one starts another one at its end, which inherits its events.
    let first = Burner::start(move || say.send(Burner::start(|| {})).unwrap());
    let Some(mut cpus) = opened(&Scope::Threads(vec![first.id])) else { return };
    let all = descriptors(&cpus);
    assert_eq!(all, cpus.len());
    first.burn(Duration::from_millis(50));
    first.end();
    let second = child.recv().unwrap();
    second.burn(Duration::from_millis(50));
    assert!(cpus.iter_mut().all(|cpu| cpu.close_ended().is_empty()), "the second one is still there");
    let before = count(&cpus);
    second.burn(Duration::from_millis(50));
    second.end();
    assert_eq!(close_until(&mut cpus, 0), all);
    let after = count(&cpus);
    assert!(after > before && before > 0, "{before} and {after} ns");
}

/// Runs this test again in a process that may have this many descriptors; nothing in that process itself.
fn with_descriptors(most: usize, test: &str) -> Option<std::process::Output> {
    const LIMITED: &str = "WHATIF_TEST_DESCRIPTORS";
    if std::env::var_os(LIMITED).is_some() {
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let command = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &command]).arg(program).args([test, "--exact", "--nocapture"]).env(LIMITED, "1");
    Some(shell.output().unwrap())
}

#[test]
fn where_descriptors_run_out_none_of_the_threads_is_sampled() {
    let most = 3 * crate::cpu::numbers().len() + 64;
    let name = "stream::tests::where_descriptors_run_out_none_of_the_threads_is_sampled";
    if let Some(output) = with_descriptors(most, name) {
        return assert!(output.status.success(), "{output:?}");
    }
    let Some(mut cpus) = opened(&Scope::Threads(vec![own_thread()])) else { return };
    let burners: Vec<Burner> = (0..100).map(|_| Burner::start(|| {})).collect();
    let (before, left) = (descriptors(&cpus), descriptors_left());
    let threads: Vec<u32> = burners.iter().map(|burner| burner.id).collect();
    let error = add_threads(&mut cpus, &threads).unwrap_err();
    assert!(is_out_of_descriptors(&error), "{error}");
    assert_eq!((descriptors(&cpus), descriptors_left()), (before, left));
    let ids = add_threads(&mut cpus, &threads[..1]).unwrap();
    assert_eq!(ids.len(), cpus.len());
    for (place, cpu) in cpus.iter().enumerate() {
        assert!(cpu.ids(0).any(|id| id == ids[place].0), "{ids:?}");
    }
    burners.into_iter().for_each(Burner::end);
}

/// What lies in memory where an interpreter has its threads and frames: words of this process, at distances of their own.
struct Forged {
    /// Where the first interpreter's address is; interpreter: next and threads; thread: next, number and frame.
    head: Box<[u64; 8]>,
    frames: Vec<[u64; 9]>,
}

impl Forged {
    /// With this many frames; `ring`: the last one's caller is the first one.
    fn new(thread: u32, frames: usize, ring: bool) -> Self {
        let mut forged = Self { head: Box::new([0; 8]), frames: vec![[0; 9]; frames] };
        let at = |place: &u64| &raw const *place as u64;
        let addresses: Vec<u64> = forged.frames.iter().map(|frame| at(&frame[0])).collect();
        for (nth, frame) in forged.frames.iter_mut().enumerate() {
            let previous = addresses.get(nth + 1).copied().or(addresses.first().copied().filter(|_| ring));
            (frame[0], frame[1], frame[8]) = (0xc0de_0000 + nth as u64, previous.unwrap_or(0), 7);
        }
        let (interpreter, thread_at) = (at(&forged.head[1]), at(&forged.head[3]));
        let first = addresses.first().copied().unwrap_or(0);
        *forged.head = [interpreter, 0, thread_at, 0, thread.into(), first, 0, 0];
        forged
    }

    fn interpreter(&self) -> Interpreter {
        Interpreter {
            head: self.head.as_ptr() as u64,
            next: 0,
            threads: 8,
            next_thread: 0,
            number: 8,
            frame: 16,
            indirect: None,
            code: 0,
            previous: 8,
            namespace: crate::process_memory::pid_namespace(std::process::id()).unwrap(),
        }
    }
}

/// What was read of a thread's frames: the first one, why there are no more, and the code of each.
type ReadFrames = Vec<(u64, FramesEnd, Vec<u64>)>;

/// What was read of this thread's frames while it ran, and in how many samples of it.
fn read_frames(cpus: &mut [Cpu], thread: u32) -> (ReadFrames, usize) {
    let (mut all, mut samples) = (Vec::new(), 0);
    for cpu in cpus {
        let ring = cpu.ring();
        ring.refresh();
        while let Some(record) = ring.record() {
            match record {
                Record::Interpreter { tid, frames, .. } if tid == thread => {
                    all.push((frames.first, frames.end, frames.iter().map(|frame| frame.code).collect()));
                }
                Record::Sample(sample) => samples += usize::from(sample.tid == thread),
                _ => {}
            }
            ring.next();
        }
        ring.release();
    }
    (all, samples)
}

#[test]
fn frames_of_interpreters_are_read_as_far_as_they_go() {
    let _turn = COPYING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(mut cpus) = opened(&Scope::Machine) else { return };
    let copying = match StackCopies::start(&mut cpus) {
        Ok(copying) if copying.reads_interpreters() => copying,
        other => return eprintln!("skipped: frames of interpreters cannot be read here: {:?}", other.err()),
    };
    let (pid, thread) = (std::process::id(), own_thread());
    copying.want(pid, Some(64));
    // A few that were read, or samples enough in which nothing was.
    let mut seen = |interpreter: Option<Interpreter>, is_read: bool| {
        copying.follow(pid, interpreter.as_ref());
        read_frames(&mut cpus, thread);
        let (mut all, mut samples) = (Vec::new(), 0);
        until(|| {
            burn(Duration::from_millis(20));
            let (read, more) = read_frames(&mut cpus, thread);
            all.extend(read);
            samples += more;
            all.len() > 3 || !is_read && samples > 20
        });
        all
    };
    let codes = |count: usize| (0..count as u64).map(|nth| 0xc0de_0000 + nth).collect::<Vec<_>>();
    let all = |seen: ReadFrames, end, expected: &[u64]| {
        for (_, ended, codes) in seen {
            assert_eq!((ended, &codes[..]), (end, expected));
        }
    };
    let three = Forged::new(thread, 3, false);
    all(seen(Some(three.interpreter()), true), FramesEnd::Outermost, &codes(3));
    // By a structure that has the address of the frame: the word with the thread's number is one as good as any.
    let by = Interpreter { indirect: Some(40), frame: 24, ..three.interpreter() };
    let mut forged = Forged::new(thread, 3, false);
    forged.head[6] = forged.head.as_ptr() as u64;
    let found = seen(Some(Interpreter { head: forged.head.as_ptr() as u64, ..by }), true);
    assert!(found.iter().all(|(first, ..)| *first == forged.head.as_ptr() as u64));
    all(found, FramesEnd::Outermost, &codes(3));
    // Neither frames nor threads that go round in circles are followed for ever.
    let ring = Forged::new(thread, 3, true);
    let round: Vec<u64> = codes(3).into_iter().cycle().take(MOST_FRAMES).collect();
    all(seen(Some(ring.interpreter()), true), FramesEnd::Deep, &round);
    let mut other = Forged::new(thread + 1, 3, false);
    other.head[3] = other.head[2];
    all(seen(Some(other.interpreter()), true), FramesEnd::NoThread, &[]);
    all(seen(Some(Interpreter { head: 8, ..three.interpreter() }), true), FramesEnd::NoThread, &[]);
    // Where there is no memory; in the kernel's; distances that lead out of a frame.
    let mut torn = Forged::new(thread, 3, false);
    for nowhere in [8, 0xffff_8880_0000_1000, u64::MAX - 3] {
        torn.frames[1][1] = nowhere;
        all(seen(Some(torn.interpreter()), true), FramesEnd::Unreadable, &codes(2));
    }
    all(
        seen(Some(Interpreter { previous: 1 << 20, ..three.interpreter() }), true),
        FramesEnd::Unreadable,
        &[],
    );
    // In another namespace threads have other numbers.
    let elsewhere = Interpreter { namespace: (0, 0), ..three.interpreter() };
    assert_eq!(seen(Some(elsewhere), false), []);
    assert_eq!(seen(None, false), []);
}
