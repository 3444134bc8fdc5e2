//! The collector of continuous profiles: shares, losses, waits, names, and what hostile files cost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use collect::{Collected, Collector, Options, StartError};
use kernel::cpu::ProcessStat;
use kernel::stream::Source;
use kernel::visits::Means;
use sandbox::{Sandbox, answer, between, interpreters, link, program_as, stacks};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::accept::check::{Check, Run, UNBOUNDED};
use crate::collect::Daemon;
use crate::hostile::files::{self, FILES};
use crate::machine::most_memory;

/// The checks.
pub const CHECKS: &[Check] = &[
    Check::of_runs("continuous::as_many_samples_as_called_for", 6, samples_of_the_machine),
    Check::of_runs("continuous::own_processes_have_samples_for_their_cpu_time", 3, samples_of_own_processes),
    Check::of_runs("continuous::seldom_events_and_turns", 8, seldom_events_and_turns),
    Check::of_runs("continuous::callers_are_whole", 10, callers),
    Check::of_runs("continuous::waits_have_their_length", 30, waits),
    Check::of_runs("continuous::functions_of_python_have_their_shares", 15, functions_of_python),
    Check::of_runs("continuous::shares_stay_named_when_everything_has_gone", 20, named),
    Check::of_runs("continuous::hostile_files_cost_little", 6, hostile_files),
    Check::of_runs("continuous::costs_of_the_kernel", 2, costs_of_the_kernel),
];

/// How far the number of samples may be from what rate and time call for. Periods jitter by a tenth.
const CALLED_FOR: std::ops::RangeInclusive<f64> = 0.8..=1.2;
/// Of samples of the whole machine. A hypervisor may stop it.
const MAX_SHARE_WITHOUT_ROOM: f64 = 0.25;
const MAX_SHARE_OF_UNKNOWN: f64 = 0.02;
/// Of samples, how many more were taken than counters call for.
const MAX_SHARE_OF_SURPLUS: f64 = 0.03;
/// Of the samples of a program, those in which it works, and those with all callers; it is started, and read for the first time.
const MIN_SHARE_OF_WORK: f64 = 0.9;
/// Of a file that is made to be expensive, more than of one without harm.
const MAX_BYTES_OF_FILE: f64 = (64 << 20) as f64;
const MAX_SECONDS_OF_FILE: f64 = 2.0;
/// What chance may make of a share, in standard errors, and what may be beside it.
const STANDARD_ERRORS: f64 = 5.0;
const MAX_ERROR_OF_SHARE: f64 = 0.01;
/// Each program that is collected has at least as many samples, or the machine was busy.
const MIN_SAMPLES_OF_PROGRAM: u64 = 100;
/// What makes sampling cheap for a test: no limit.
const OFTEN: &[&str] = &["--rate", "997", "--interval", "1", "--max-cpu", "100%"];

/// Killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn started(run: &mut Run, options: Options) -> Result<Option<Collector>> {
    match Collector::start(options) {
        Ok(collector) => Ok(Some(collector)),
        Err(error @ (StartError::NotAllowed { .. } | StartError::NoEvent { .. })) => {
            run.inconclusive(error.to_string());
            Ok(None)
        }
        Err(error) => Err(error.into()),
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

fn start_a_program() {
    Command::new("/bin/true").status().expect("/bin/true can be started");
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// What the clock, the first source, called for at this rate in the time that it counted.
fn measure_clock(run: &mut Run, collected: &Collected, rate_hz: f64) {
    let clock = &collected.books[0];
    let called_for = rate_hz * clock.covered.0 as f64 / 1e9;
    // What has passed since the last sample of each CPU is given up now and then.
    let by_chance = 3.0 * f64::from(collected.cpus) / called_for.max(1.0);
    run.measured(
        "samples that were expected, of those called for",
        clock.expected as f64 / called_for,
        CALLED_FOR.start() - by_chance..=CALLED_FOR.end() + by_chance,
    );
    run.measured(
        "share of surplus",
        share(clock.surplus.saturating_sub(2), clock.expected),
        0.0..=MAX_SHARE_OF_SURPLUS,
    );
}

fn samples_of_the_machine(run: &mut Run) -> Result<()> {
    const HZ: f64 = 997.0;
    let Some(mut collector) = started(run, Options::of_clock(true, HZ))? else { return Ok(()) };
    let collected = collect(&mut collector, Duration::from_secs(3), start_a_program);
    measure_clock(run, &collected, HZ);
    let books = collected.books[0];
    let called_for = collected.length.as_secs_f64() * HZ * f64::from(collected.cpus);
    run.measured(
        "samples that were expected, of those of all CPUs",
        books.expected as f64 / called_for,
        CALLED_FOR,
    );
    run.measured(
        "share that there was no room for",
        share(books.no_room, books.expected),
        0.0..=MAX_SHARE_WITHOUT_ROOM,
    );
    let taken = books.stored + books.unknown;
    run.measured(
        "share of no known image",
        share(books.unknown.saturating_sub(2), taken),
        0.0..=MAX_SHARE_OF_UNKNOWN,
    );
    Ok(())
}

fn samples_of_own_processes(run: &mut Run) -> Result<()> {
    const HZ: f64 = 500.0;
    // A name that nothing else has; the kernel keeps 15 characters.
    let name = format!("whatif-b{}", std::process::id());
    let Some(mut collector) = started(run, Options::of_clock(false, HZ))? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let program = link(folder.path(), &name, Path::new("/bin/sh"));
    let mut running = Running(Command::new(program).args(["-c", "while :; do :; done"]).spawn()?);
    let pid = running.0.id();
    let used = || ProcessStat::of(pid).map(|stat| Duration::from_nanos(stat.own.0));
    while used()? < Duration::from_secs(2) {
        collector.wait(Duration::from_millis(50));
        collector.tick();
    }
    running.0.kill()?;
    while ProcessStat::of(pid)?.state != 'Z' {
        std::thread::yield_now();
    }
    let called_for = HZ * used()?.as_secs_f64();
    let collected = collector.collect();
    measure_clock(run, &collected, HZ);
    let (books, taken) = (collected.books[0], collected.samples_of(&name));
    // The kernel's clock runs while a hypervisor has the CPU, and the program's time does not; whatever is missing is in the books.
    run.measured(
        "samples of a program, of those that its CPU time calls for",
        taken as f64 / called_for,
        0.0..=1.5,
    );
    run.measured(
        "the same with those that were lost",
        (taken + books.lost()) as f64 / called_for,
        0.85..=UNBOUNDED,
    );
    Ok(())
}

fn seldom_events_and_turns(run: &mut Run) -> Result<()> {
    let source = |name| Source::named(name).context("every kernel has it");
    let sources = vec![source("cpu-clock")?, source("cpu-migrations")?];
    let Some(mut seldom) = started(run, Options { sources, ..Options::of_clock(true, 1.0) })? else {
        return Ok(());
    };
    let wait = || std::thread::sleep(Duration::from_millis(20));
    let migrations = collect(&mut seldom, Duration::from_secs(4), wait).books[1];
    // One sample in ten thousand.
    run.counted("samples of migrations, which are seldom", migrations.stored + migrations.unknown, 0..=4);
    drop(seldom);
    let sources = vec![source("cpu-clock")?, source("page-faults")?, source("context-switches")?];
    let options = Options { sources, rotate: true, ..Options::of_clock(true, 200.0) };
    let Some(mut collector) = started(run, options)? else { return Ok(()) };
    let collected = collect(&mut collector, Duration::from_secs(3), start_a_program);
    measure_clock(run, &collected, 200.0);
    // The clock is always on, and one of the others.
    let [clock, faults, switches] = [0, 1, 2].map(|event: usize| collected.books[event].covered.0 as f64);
    let whole = collected.length.get() as f64 * f64::from(collected.cpus);
    run.measured("part of the time that the clock counted", clock / whole, 0.9..=1.1);
    run.measured("part of it that one of the others counted", (faults + switches) / clock, 0.9..=1.1);
    run.measured("part of it that one of them had", faults.max(switches) / clock, 0.0..=0.9);
    Ok(())
}

/// A collector of the whole machine; none where that is not allowed.
fn daemon(run: &mut Run, folder: &Path, options: &[&str]) -> Option<Daemon> {
    let daemon = Daemon::start(run.whatif.path(), folder, &[OFTEN, options].concat());
    daemon.map_err(|error| run.inconclusive(format!("{error:#}"))).ok()
}

fn callers(run: &mut Run) -> Result<()> {
    // The kernel copies all stacks where it samples one's own processes, otherwise BPF copies those that need it.
    for own in [&[][..], &["--own"]] {
        let builds = [("deep-none", "-fomit-frame-pointer"), ("deep-kept", "-fno-omit-frame-pointer")];
        let folder = tempfile::tempdir()?;
        let mut running = Vec::new();
        for (name, flag) in builds {
            let program = program_as("deep.c", name, &["-O1", flag, "-fno-optimize-sibling-calls"]);
            let Some(program) = program else {
                run.inconclusive("there is no compiler");
                return Ok(());
            };
            running.push(Running(Command::new(program).spawn()?));
        }
        let Some(daemon) = daemon(run, folder.path(), own) else { return Ok(()) };
        std::thread::sleep(Duration::from_secs(4));
        drop(running);
        daemon.end()?;
        for (name, _) in builds {
            let (mut all, mut whole) = (0, 0);
            for (stack, samples) in stacks(folder.path(), name) {
                // Nothing else is worth a sample, but it may be interrupted.
                let works = stack.iter().any(|name| name == "innermost");
                let is_whole = stack.join(";").contains("main;outer;aligned;innermost");
                all += if works { samples } else { 0 };
                whole += if works && is_whole { samples } else { 0 };
            }
            if all < MIN_SAMPLES_OF_PROGRAM {
                run.inconclusive(format!("{name} has {all} samples"));
            }
            let how = if own.is_empty() { "the machine" } else { "own processes" };
            run.measured(
                format!("share of whole stacks of {name}, of {how}"),
                share(whole, all),
                MIN_SHARE_OF_WORK..=1.0,
            );
        }
    }
    Ok(())
}

fn waits(run: &mut Run) -> Result<()> {
    const FUNCTIONS: [&str; 4] = ["sleeps", "locks", "reads", "syncs"];
    const MAX_ERROR_OF_WAIT: f64 = 0.05;
    let builds: [(&str, &[&str]); 2] = [
        ("waits-without", &["-fomit-frame-pointer"]),
        ("waits-with", &["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]),
    ];
    let sandbox = Sandbox::new();
    let folder = sandbox.path("db");
    let Some(daemon) = daemon(run, &folder, &["--off-cpu"]) else { return Ok(()) };
    let mut truths = BTreeMap::new();
    for (name, flags) in builds {
        let Some(program) = program_as("off_cpu.c", name, flags) else {
            run.inconclusive("there is no compiler");
            return Ok(());
        };
        // Waits of some milliseconds, longer than a sample and shorter; for so long that it matters little that its unwind tables have not been
        // read in the first second.
        let ended = sandbox.native(&program, &["12", "2000", "file"]).assert_code(0);
        let words: Vec<&str> = ended.stdout.split_whitespace().collect();
        let truth: Vec<f64> = words.chunks(2).filter_map(|pair| pair.get(1)?.parse().ok()).collect();
        ensure!(truth.len() == FUNCTIONS.len(), "{ended:?}");
        truths.insert(name, truth);
    }
    daemon.end()?;
    for (name, truth) in truths {
        let top = answer(&["top", "--json", "--off-cpu", "--top", "1000", "--process", name], &folder);
        let number = |name: &str| top["heading"][name].as_f64().unwrap_or(0.0);
        let each = number("nanos_per_sample") / 1e9;
        let rows = top["rows"].as_array().context("no rows")?;
        let of = |function: &str| {
            let its = rows.iter().filter(|row| row["name"] == function);
            its.filter_map(|row| row["total"].as_f64()).sum::<f64>() * each
        };
        let truncated: f64 = rows
            .iter()
            .filter(|row| row["name"].as_str().is_some_and(|name| name.starts_with("[truncated")))
            .filter_map(|row| row["total"].as_f64())
            .sum::<f64>()
            * each;
        let lost = top["heading"]["books"]["lost"].as_u64().unwrap_or(0);
        let (all, found): (f64, f64) = (truth.iter().sum(), FUNCTIONS.iter().map(|name| of(name)).sum());
        // On a busy machine some records find no room.
        if lost > 0 || number("samples_at_a_time") > 4.0 {
            run.inconclusive(format!("{lost} samples were lost"));
        }
        // Some of the time that the program measures it runs.
        run.measured(format!("waits of {name} that were found, of all"), found / all, 0.8..=1.05);
        for (function, truth) in FUNCTIONS.iter().zip(&truth) {
            let error = (of(function) / found - truth / all).abs();
            let allowed = MAX_ERROR_OF_WAIT + truncated / (found + truncated);
            run.measured(format!("error of the share of {function} in {name}"), error, 0.0..=allowed);
        }
        // Timers wake what sleeps, and threads of its own what wants a lock or reads.
        let by_own = of("[woken by its own process]") / (of("locks") + of("reads"));
        run.measured(
            format!("waits of {name} that its threads end, of those for them"),
            by_own,
            0.7..=UNBOUNDED,
        );
        let by_interrupt = of("[woken by an interrupt]") / of("sleeps");
        run.measured(format!("waits of {name} that timers end, of its sleep"), by_interrupt, 0.7..=UNBOUNDED);
    }
    Ok(())
}

/// What chance may make of a share, and more.
fn tolerance(share: f64, samples: u64) -> f64 {
    MAX_ERROR_OF_SHARE + STANDARD_ERRORS * (share * (1.0 - share) / samples.max(1) as f64).sqrt()
}

fn functions_of_python(run: &mut Run) -> Result<()> {
    /// Who calls it, and whether from C: `sorted` and `sum` are functions of C.
    const WORKS: [(&str, &str); 3] =
        [("Work.once", "Work.by_key"), ("Work.once", "Work.numbers"), ("Work.inner", "Work.leaf")];
    let script = sandbox::workspace().join("crates/whatif/tests/programs/shares.py");
    let links = tempfile::tempdir()?;
    let interpreters = interpreters();
    if interpreters.is_empty() {
        run.inconclusive("no Python of version 3.11, 3.12 or 3.13 is installed");
    }
    for (version, interpreter) in interpreters {
        let folder = tempfile::tempdir()?;
        let Some(daemon) = daemon(run, folder.path(), &[]) else { return Ok(()) };
        if daemon.state().is_none_or(|state| state["reads_python"] != true) {
            run.inconclusive("the kernel does not let the frames of interpreters be read");
            return Ok(());
        }
        let name = format!("py-{version}");
        let output = Command::new(link(links.path(), &name, &interpreter)).arg(&script).arg("2").output()?;
        let said = String::from_utf8(output.stdout)?;
        let took: Vec<f64> = said.split_whitespace().filter_map(|seconds| seconds.parse().ok()).collect();
        ensure!(took.len() == WORKS.len(), "{version} said {said}");
        daemon.end()?;
        let stacks = stacks(folder.path(), &name);
        let working = |stack: &[String]| stack.iter().any(|name| name == "Work.once");
        let all: u64 = stacks.iter().map(|(_, samples)| samples).sum();
        let found: u64 = stacks.iter().filter(|(stack, _)| working(stack)).map(|(_, samples)| samples).sum();
        if all < MIN_SAMPLES_OF_PROGRAM {
            run.inconclusive(format!("{name} has {all} samples"));
        }
        run.measured(
            format!("share of {version} in functions of the program"),
            share(found, all),
            MIN_SHARE_OF_WORK..=1.0,
        );
        let (mut shares, mut is_right) = ([0.0; 3], true);
        for (stack, samples) in stacks.iter().filter(|(stack, _)| working(stack)) {
            for (nth, (caller, name)) in WORKS.iter().enumerate() {
                let Some(called_by) = between(stack, caller, name) else { continue };
                // A generator is called once by Python, which makes it.
                if nth == 1 && called_by.is_empty() {
                    continue;
                }
                shares[nth] += share(*samples, found);
                let begins = ["main", "Thread._bootstrap"];
                let of_which = begins.iter().filter(|name| between(stack, name, "serve").is_some()).count();
                is_right &= called_by.is_empty() == (nth == 2)
                    && between(stack, "serve", name).is_some()
                    && of_which == 1
                    && !stack.iter().any(|name| name == "_PyEval_EvalFrameDefault");
            }
        }
        run.holds(format!("stacks of {version} have all callers in their order: {stacks:?}"), is_right);
        let sum: f64 = took.iter().sum();
        for ((nth, share), (_, name)) in shares.iter().enumerate().zip(WORKS) {
            let truth = took[nth] / sum;
            let error = (share - truth).abs();
            run.measured(
                format!("error of the share of {name} in {version}"),
                error,
                0.0..=tolerance(truth, found),
            );
        }
    }
    Ok(())
}

/// What is done with a program's file as soon as it runs.
#[derive(Clone, Copy)]
enum Then {
    Keep,
    Delete,
    Replace,
}

/// `truth.c`, running.
struct Known {
    name: &'static str,
    kind: &'static str,
    child: Running,
    /// What tells its files from all others.
    builds: Vec<String>,
}

/// Starts a program with a name of its own, in a folder that only its user may look into.
fn start_known(
    folder: &Path,
    name: &'static str,
    (program, kind, library): (&Path, &'static str, Option<&Path>),
    then: Then,
    before: &[&str],
) -> Result<Known> {
    /// CPU time that each program takes.
    const SECONDS: &str = "2";
    let build = |file: &Path| symbols::Image::open(file).ok().and_then(|image| image.identity());
    let place = folder.join(format!("of-{name}"));
    fs::create_dir(&place)?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700))?;
    let own = place.join(name);
    fs::copy(program, &own)?;
    let mut builds = vec![build(&own).context("a program without an identity")?];
    let mut words: Vec<String> =
        before.iter().map(|word| word.replace("PLACE", &place.to_string_lossy())).collect();
    words.push(if before.is_empty() { own.to_string_lossy().into_owned() } else { format!("/{name}") });
    words.extend([SECONDS, kind].map(str::to_owned));
    if let Some(library) = library {
        let copy = place.join("libtruth.so");
        fs::copy(library, &copy)?;
        builds.push(build(&copy).context("a library without an identity")?);
        words.push(copy.to_string_lossy().into_owned());
    }
    let mut command = Command::new(&words[0]);
    let child = Running(command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    // It has been loaded when it has executed.
    let comm = format!("/proc/{}/comm", child.0.id());
    wait_until(|| Ok(fs::read_to_string(&comm)?.trim() == name))?;
    match then {
        Then::Keep => {}
        Then::Delete => fs::remove_file(&own)?,
        Then::Replace => {
            let other = place.join("other");
            fs::copy(std::env::current_exe()?, &other)?;
            fs::rename(&other, &own)?;
        }
    }
    Ok(Known { name, kind, child, builds })
}

fn wait_until(mut is_there: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !is_there()? {
        ensure!(begin.elapsed() < sandbox::HANG, "what is waited for does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Known shares have their names when nothing of what ran is there any more.
fn named(run: &mut Run) -> Result<()> {
    const FUNCTIONS: [&str; 4] = ["half_of_it", "third_of_it", "some_of_it", "little_of_it"];
    let Some(plain) = program_as("truth.c", "truth", &["-ldl"]) else {
        run.inconclusive("there is no compiler");
        return Ok(());
    };
    let build = |name, flags: &[&str]| program_as("truth.c", name, flags).context("there is no compiler");
    let library = build("libtruth.so", &["-DSHARED", "-shared", "-fPIC"])?;
    let without_build = build("truth-without", &["-ldl", "-Wl,--build-id=none"])?;
    let alone = build("truth-static", &["-static", "-ldl"])?;
    let sandbox = Sandbox::new();
    let (folder, programs) = (sandbox.path("cycles"), sandbox.path("programs"));
    fs::create_dir(&programs)?;
    let Some(daemon) = daemon(run, &folder, &[]) else { return Ok(()) };
    let start = |name, what, then, before: &[&str]| start_known(&programs, name, what, then, before);
    let mut running = vec![
        start("t-shares", (&plain, "shares", None), Then::Keep, &[])?,
        start("t-replaced", (&plain, "shares", None), Then::Replace, &[])?,
        start("t-no-build", (&without_build, "shares", None), Then::Keep, &[])?,
        start("t-forks", (&plain, "forks", None), Then::Keep, &[])?,
        start("t-dlopen", (&plain, "dlopen", Some(&library)), Then::Keep, &[])?,
        start("t-static", (&alone, "shares", None), Then::Delete, &[])?,
        start("t-vdso", (&plain, "vdso", None), Then::Keep, &[])?,
    ];
    if cfg!(target_arch = "x86_64") {
        running.push(start("t-jit", (&plain, "jit", None), Then::Keep, &[])?);
    }
    if rustix::process::geteuid().is_root() {
        running.push(start("t-chroot", (&alone, "shares", None), Then::Delete, &["chroot", "PLACE"])?);
    }
    let mut truths = Vec::new();
    for program in &mut running {
        let mut line = String::new();
        let stdout = program.child.0.stdout.take().context("a program without output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        let truth: Vec<f64> = line.split_whitespace().filter_map(|share| share.parse().ok()).collect();
        ensure!(truth.len() == FUNCTIONS.len(), "{} said {line}", program.name);
        truths.push(truth);
    }
    // While they run their names are read, however long that takes on a busy machine.
    let builds: Vec<&String> = running.iter().flat_map(|program| &program.builds).collect();
    wait_until(|| {
        let listed = fs::read_dir(folder.join("symbols")).into_iter().flatten().flatten();
        let kept: Vec<_> = listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        Ok(builds.iter().all(|build| kept.iter().any(|name| name.starts_with(build.as_str()))))
    })?;
    for program in &mut running {
        drop(program.child.0.stdin.take());
        program.child.0.wait()?;
    }
    fs::remove_dir_all(&programs)?;
    daemon.end()?;
    for (program, truth) in running.iter().zip(truths) {
        measure_named(run, &folder, program, FUNCTIONS, &truth);
    }
    Ok(())
}

fn measure_named(run: &mut Run, folder: &Path, program: &Known, functions: [&str; 4], truth: &[f64]) {
    let name = program.name;
    let top = answer(&["top", "--json", "--top", "100000", "--process", name], folder);
    let rows = top["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let samples = |is_one: &dyn Fn(&Value) -> bool| -> u64 {
        rows.iter().filter(|row| is_one(row)).filter_map(|row| row["samples"].as_u64()).sum()
    };
    let of = |function: &str| samples(&|row| row["name"] == function);
    let all = samples(&|_| true);
    if program.kind == "vdso" {
        let error = (share(of("half_of_it"), all) - truth[0]).abs();
        // It is started, too.
        run.measured(format!("error of half_of_it in {name}"), error, 0.0..=0.02 + tolerance(truth[0], all));
        let is_clock = |row: &Value| {
            row["image"] == "[vdso]" && row["name"].as_str().is_some_and(|name| name.starts_with("__vdso_"))
        };
        run.counted("samples of functions of the vDSO", samples(&is_clock), 1..=u64::MAX);
        return;
    }
    let of_four: u64 = functions.iter().map(|function| of(function)).sum();
    if all < MIN_SAMPLES_OF_PROGRAM {
        run.inconclusive(format!("{name} has {all} samples"));
    }
    // Starting processes is work as well.
    run.measured(format!("share of {name} in its functions"), share(of_four, all), 0.5..=1.0);
    for (function, truth) in functions.iter().zip(truth) {
        let error = (share(of(function), of_four) - truth).abs();
        run.measured(format!("error of {function} in {name}"), error, 0.0..=tolerance(*truth, of_four));
    }
    let nameless = format!("[{name}]");
    run.counted(format!("samples of {name} without a name"), samples(&|row| row["name"] == *nameless), 0..=0);
}

/// What a process of its own says that asks about a file: see [`ask`].
#[derive(Deserialize)]
struct Asked {
    symbol: Option<String>,
    /// The most memory that was resident, in bytes.
    memory: f64,
    /// CPU time.
    seconds: f64,
}

/// Asks about a file, and prints what that took, for [`hostile_files`].
pub fn ask(file: &Path) -> Result<()> {
    let (symbol, _) = files::ask(file);
    let memory = most_memory(std::process::id())?;
    let seconds = kernel::clock::process_cpu_time().0 as f64 / 1e9;
    println!("{}", json!({ "symbol": symbol, "memory": memory, "seconds": seconds }));
    Ok(())
}

fn hostile_files(run: &mut Run) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    let asked = |bytes: &[u8]| -> Result<Asked> {
        fs::write(&path, bytes)?;
        let output = Command::new(std::env::current_exe()?).args(["accept", "--ask"]).arg(&path).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let plain = asked(&files::program(&[]))?;
    for (name, _) in FILES {
        let of_it = asked(&files::file(name).context("no such file")?)?;
        run.measured(
            format!("bytes for {name}"),
            of_it.memory - plain.memory,
            -UNBOUNDED..=MAX_BYTES_OF_FILE,
        );
        let seconds = of_it.seconds - plain.seconds;
        run.measured(format!("CPU seconds for {name}"), seconds, -UNBOUNDED..=MAX_SECONDS_OF_FILE);
        run.holds(format!("the function of {name} is found"), of_it.symbol.as_deref() == Some("work"));
    }
    Ok(())
}

/// What the profiler takes into account, in nanoseconds.
fn costs_of_the_kernel(run: &mut Run) -> Result<()> {
    const LEAST_COST_OF_VISIT: f64 = 20.0;
    const MOST_COST: f64 = 1e6;
    match kernel::wakeup::Cost::known() {
        Some(cost) => {
            for (name, slept) in [("waking a thread at once", 0), ("waking a thread later", 200_000)] {
                run.measured(name, cost.after(Duration::from_nanos(slept)).0 as f64, 100.0..=MOST_COST * 1e3);
            }
        }
        None => run.inconclusive("no thread could be woken"),
    }
    match kernel::switching::cost_of_a_switch(1000, || ()) {
        Some(cost) => run.measured("a switch of threads", cost.0 as f64, 50.0..=MOST_COST * 10.0),
        None => run.inconclusive("no CPU can be chosen"),
    }
    for means in [Means::Breakpoint, Means::Uprobe] {
        match kernel::visits::cost(means) {
            Ok(cost) => {
                run.measured(format!("a visit by {means:?}"), cost.0 as f64, LEAST_COST_OF_VISIT..=MOST_COST)
            }
            Err(error) => run.inconclusive(format!("{means:?}: {error}")),
        }
    }
    match kernel::visits::trap_cost() {
        Ok(cost) => run.measured("a visit that raises a signal", cost.0 as f64, 100.0..=MOST_COST),
        Err(error) => run.inconclusive(error.to_string()),
    }
    let begin = kernel::clock::thread_cpu_time();
    let mut end = kernel::clock::monotonic();
    end.0 += 20_000_000;
    kernel::clock::sleep_until(end);
    let cpu = kernel::clock::thread_cpu_time().saturating_sub(begin);
    run.measured("CPU time of 20 ms of sleep", cpu.0 as f64, 0.0..=1e7);
    Ok(())
}
