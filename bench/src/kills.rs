//! What is left after `kill -9` of any process of a tree, or of the controller, at any moment.
//!
//! A pause is a thread that waits for a futex in the memory that the controller shares, which the kernel says, or time that the memory says was paid: pauses
//! may keep their CPU. Everything that a run starts is known by a word in its environment, whatever process is its parent by then.
//!
//! This reads the sums in the shared memory, as the controller does.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use kernel::SharedMapping;
use rustix::process::{Pid, Signal, kill_process};
use targets::Target;

use crate::profiler::Whatif;
use crate::program;

/// Says which run a process belongs to.
const MARK: &str = "WHATIF_BENCH_KILL";
/// The number of the system call `futex`.
const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };
/// The kill comes within this time of the start.
const SPAN: Duration = Duration::from_millis(2000);
/// No pause may last longer than this.
const PAUSED: Duration = Duration::from_secs(1);
/// Looks whether a thread pauses, and the time between two of them.
const LOOKS: u32 = 25;
const BETWEEN: Duration = Duration::from_millis(4);
/// How long a run may take to end that was asked to, or whose program has ended: it writes its recording.
const END: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub struct Options {
    /// Kills
    #[arg(long, default_value_t = 200)]
    count: u64,

    /// Begin with this one, to do again what a message tells of
    #[arg(long, default_value_t = 0)]
    first: u64,

    /// Only these trees [default: all, in turn]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Whom a kill has met, and what it left.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    controllers: u64,
    firsts: u64,
    others: u64,
    /// Runs that were over when the kill was to come.
    missed: u64,
    /// Kills before which there had been pauses: those that could leave one behind.
    pausing: u64,
    /// How often what was left over.
    left: BTreeMap<&'static str, u64>,
    /// Descriptors of sampling that processes still had a second after the controller was killed.
    sampling: u64,
    slowest: Duration,
}

pub fn run(options: &Options, seed: u64, whatif: &Whatif) -> Result<()> {
    let trees: Vec<&Target> = program::chosen(&options.only)?;
    let trees: Vec<&Target> = trees.into_iter().filter(|target| target.program == "tree").collect();
    ensure!(!trees.is_empty(), "these targets are no trees; choose some of tree_* with --only");
    println!(
        "seed {seed}; each kill has a seed of its own, made of that and its number: --first N does it again"
    );
    let mut tally = Tally::default();
    for kill in options.first..options.first + options.count {
        let tree = trees[kill as usize % trees.len()];
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(kill));
        let left = one(tree, kill, &mut random, whatif, &mut tally)?;
        for (what, how) in left {
            println!("kill {kill}, {}: {what}: {how}", tree.name);
            *tally.left.entry(what).or_default() += 1;
        }
        if (kill + 1).is_multiple_of(25) {
            println!("{} kills: {:?}", tally.kills, tally.left);
        }
    }
    println!(
        "{} kills of {} trees: {} controllers, {} first processes, {} others; {} runs were over before; the slowest end took {:.1} s",
        tally.kills,
        trees.len(),
        tally.controllers,
        tally.firsts,
        tally.others,
        tally.missed,
        tally.slowest.as_secs_f64()
    );
    println!("there had been pauses before {} of the kills", tally.pausing);
    println!(
        "left over: {}",
        if tally.left.is_empty() { "nothing".to_owned() } else { format!("{:?}", tally.left) }
    );
    println!(
        "descriptors of sampling that processes kept after their controller was killed: {}",
        tally.sampling
    );
    ensure!(
        tally.missed * 2 <= tally.kills,
        "most runs were over before they were to be killed: run one by hand to see why"
    );
    ensure!(
        tally.kills < 50 || tally.pausing > 0,
        "no pause was seen before any kill, so none could have been seen after one"
    );
    ensure!(tally.left.is_empty(), "kills have left something behind");
    Ok(())
}

type Left = Vec<(&'static str, String)>;

/// Starts a tree, kills one of its processes, and says what is left over.
fn one(
    tree: &Target,
    number: u64,
    random: &mut fastrand::Rng,
    whatif: &Whatif,
    tally: &mut Tally,
) -> Result<Left> {
    let folder = tempfile::tempdir()?;
    let (mark, temporary) = (format!("{}-{number}", std::process::id()), folder.path().join("tmp"));
    fs::create_dir(&temporary)?;
    let shared_before = shared_memory();
    let mut command = Command::new(whatif.path());
    command
        .args(["run", "--quiet", "--duration", "60", "--until-exit", "all", "-o"])
        .arg(folder.path().join("kill.db"));
    command.arg("--").args(program::command_line(tree, &["seconds=40".to_owned()])?);
    command.env(MARK, &mark).env("TMPDIR", &temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let controller = child.id();
    sleep(Duration::from_micros(random.u64(0..SPAN.as_micros() as u64)));

    let mut processes = marked(&mark);
    processes.retain(|pid| *pid != controller);
    let memory = memory_of(controller);
    tally.pausing += u64::from(memory.as_ref().is_some_and(|memory| paid(memory) > 0));
    let semaphores = semaphores_of(&processes);
    let is_controller = processes.is_empty() || random.u64(0..4) == 0;
    let victim = if is_controller { controller } else { processes[random.usize(..processes.len())] };
    let first = children(controller).first().copied();
    tally.kills += 1;
    match () {
        () if child.try_wait()?.is_some() => tally.missed += 1,
        () if is_controller => tally.controllers += 1,
        () if Some(victim) == first => tally.firsts += 1,
        () => tally.others += 1,
    }
    let begun = Instant::now();
    kill(victim, Signal::KILL);
    sleep(PAUSED);
    let mut left = Left::new();
    if is_controller {
        after_controller(&mark, memory.as_ref(), tally, &mut left);
    } else {
        after_process(&mut child, &mark, controller, &mut left)?;
    }
    // What goes on is ended: by the controller, or by ourselves.
    let ending = Instant::now();
    if !is_controller {
        kill(controller, Signal::TERM);
    }
    while ending.elapsed() < END {
        let on = marked(&mark);
        if on.is_empty() {
            break;
        }
        // It may have been about to start the program.
        on.into_iter().filter(|_| is_controller).for_each(|pid| kill(pid, Signal::TERM));
        let _ = child.try_wait()?;
        sleep(Duration::from_millis(5));
    }
    tally.slowest = tally.slowest.max(ending.elapsed());
    let orphans = marked(&mark);
    if !orphans.is_empty() {
        left.push((
            "orphans",
            format!("{orphans:?}, {:.1} s after the kill of {victim}", begun.elapsed().as_secs_f64()),
        ));
    }
    orphans.into_iter().for_each(|pid| kill(pid, Signal::KILL));
    child.wait()?;
    let rest: Vec<_> = fs::read_dir(&temporary)?.flatten().map(|entry| entry.file_name()).collect();
    if !rest.is_empty() {
        left.push(("temporary files", format!("{rest:?}")));
    }
    let shared: Vec<_> = shared_memory().into_iter().filter(|name| !shared_before.contains(name)).collect();
    if shared.iter().any(|name| name.contains("whatif")) {
        left.push(("shared memory", format!("{shared:?}")));
    }
    for semaphore in semaphores {
        let _ = Command::new("ipcrm").args(["-s", &semaphore]).stderr(Stdio::null()).status();
    }
    Ok(left)
}

/// A second after the controller was killed: nothing pauses, and nothing has a descriptor of the memory.
fn after_controller(mark: &str, memory: Option<&OwnedFd>, tally: &mut Tally, left: &mut Left) {
    let before = memory.map(paid);
    for look in 0..LOOKS {
        let pausing: Vec<u32> = marked(mark).into_iter().filter(|pid| is_pausing(*pid)).collect();
        if !pausing.is_empty() {
            left.push(("pauses", format!("{pausing:?} at look {look} after the controller was killed")));
            break;
        }
        sleep(BETWEEN);
    }
    // A pause is in the sums when a slice of it is over, of ten milliseconds at most where it has a CPU.
    if let (Some(before), Some(memory)) = (before, memory)
        && paid(memory) > before
    {
        left.push(("pauses", format!("{} ns later than a second after the kill", paid(memory) - before)));
    }
    for pid in marked(mark) {
        let descriptors = descriptors(pid);
        let of = |what: &str| descriptors.iter().filter(|name| name.contains(what)).count();
        if of("memfd:whatif") > 0 {
            left.push(("descriptors", format!("process {pid} has the memory open: {descriptors:?}")));
        }
        tally.sampling += of("[perf_event]") as u64;
    }
}

/// A second after one of the processes was killed: what is left goes on under experiments as it would alone, or the run has ended.
fn after_process(child: &mut Child, mark: &str, controller: u32, left: &mut Left) -> Result<()> {
    let others: Vec<u32> = marked(mark).into_iter().filter(|pid| *pid != controller).collect();
    if child.try_wait()?.is_some() {
        // It ended with the run: nothing of that may be left, and nothing pauses.
        if !others.is_empty() {
            left.push(("orphans", format!("{others:?} after the end of the controller")));
        }
        return Ok(());
    }
    // A thread that pauses all the time, whatever window it is, has been forgotten.
    let mut always = others;
    let begin = Instant::now();
    while !always.is_empty() && begin.elapsed() < Duration::from_secs(2) {
        always.retain(|pid| is_pausing(*pid));
        sleep(BETWEEN);
    }
    if !always.is_empty() {
        left.push(("pauses", format!("{always:?} have paused for two seconds beside the controller")));
    }
    Ok(())
}

/// The memory that a controller shares with its program, if it has one by now.
fn memory_of(controller: u32) -> Option<OwnedFd> {
    let all = fs::read_dir(format!("/proc/{controller}/fd")).ok()?.flatten();
    let is_it =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|it| it.to_string_lossy().contains("memfd:whatif"));
    let path = all.map(|entry| entry.path()).find(is_it)?;
    Some(fs::File::options().read(true).write(true).open(path).ok()?.into())
}

/// The time that threads have paused, in nanoseconds.
fn paid(memory: &OwnedFd) -> u64 {
    SharedMapping::totals_of(memory).map_or(0, |totals| totals.paid.0)
}

fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal); // it may have ended
    }
}

/// The processes of a run that have not ended.
fn marked(mark: &str) -> Vec<u32> {
    let word = format!("{MARK}={mark}");
    let Ok(folders) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = folders.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        *pid != std::process::id()
            && fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == word.as_bytes()))
    })
    .collect()
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a thread of the process waits for a futex in the memory that it shares with the controller.
fn is_pausing(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let shared: Vec<Range<u64>> = maps.lines().filter_map(shared_range).collect();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let call = fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        waits_in(&call, &shared)
    })
}

/// Where a line of the list of mappings has the shared memory.
fn shared_range(line: &str) -> Option<Range<u64>> {
    let range = line.split(' ').next().filter(|_| line.contains("memfd:whatif"))?;
    let (start, end) = range.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// Whether a system call, as the kernel prints it, waits for a futex in one of these ranges.
fn waits_in(call: &str, ranges: &[Range<u64>]) -> bool {
    let mut words = call.split_whitespace();
    let is_futex = words.next() == Some(FUTEX);
    let address = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    is_futex && address.is_some_and(|address| ranges.iter().any(|range| range.contains(&address)))
}

/// What the descriptors of a process lead to.
fn descriptors(pid: u32) -> Vec<String> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    all.into_iter()
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string()))
        .collect()
}

/// The names in the folder of shared memory.
fn shared_memory() -> Vec<String> {
    let all = fs::read_dir(Path::new("/dev/shm")).into_iter().flatten().flatten();
    all.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The semaphores that a killed tree cannot give back itself, as its worker was told of them.
fn semaphores_of(processes: &[u32]) -> Vec<String> {
    let of = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        let is_worker = words.contains(&"kind=4") && words.contains(&"part=4");
        words.iter().filter(|_| is_worker).find_map(|word| word.strip_prefix("in=")).map(str::to_owned)
    };
    processes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_wait_in_the_shared_memory() {
        let lines = [
            "7f0000000000-7f0000002000 rw-s 00000000 00:01 42   /memfd:whatif (deleted)",
            "7f0000002000-7f0000003000 r--p 00000000 08:01 7    /lib/libc.so.6",
        ];
        let shared: Vec<_> = lines.iter().filter_map(|line| shared_range(line)).collect();
        assert!(matches!(&shared[..], [one] if *one == (0x7f00_0000_0000..0x7f00_0000_2000)), "{shared:?}");
        for (call, pauses) in [
            (format!("{FUTEX} 0x7f0000001000 0x0 0x1 0x0 0x0 0x0 0x7ffc 0x7f"), true),
            (format!("{FUTEX} 0x7f0000002000 0x0"), false),
            ("7 0x7f0000001000 0x1".to_owned(), false),
            ("running".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(waits_in(&call, &shared), pauses, "{call}");
        }
    }
}
