//! Attaches to servers that other people wrote, again and again, while clients check every answer: none of them may notice.
//!
//! Of each server there are two: the one is attached to, the other is left alone. Both are asked by turns in the end: what the first has answered per second, compared with
//! the second.

mod clients;
mod servers;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum as _};

use self::clients::Load;
use self::servers::{Kind, Server};
use crate::interval::Interval;
use crate::machine::Machine;
use crate::profiler::Whatif;

#[derive(Debug, Args)]
pub struct Options {
    /// How often each server is attached to and let go
    #[arg(long, default_value_t = 50)]
    count: u32,

    /// How often the profiler is killed besides, at random moments
    #[arg(long, default_value_t = 20)]
    kills: u32,

    /// Seconds of each time
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,

    /// How often both servers are asked for a second, in the end
    #[arg(long, default_value_t = 15)]
    rounds: usize,

    /// Only these servers [default: all that are installed]
    #[arg(long, value_delimiter = ',')]
    only: Vec<Kind>,
}

pub fn run(options: &Options, seed: u64, machine: &Machine, whatif: &Whatif) -> Result<()> {
    let kinds = if options.only.is_empty() { Kind::value_variants() } else { &options.only };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut failed = false;
    for kind in kinds {
        match Pair::start(*kind)? {
            Ok(pair) => failed |= !pair.try_out(options, &mut random, machine, whatif)?,
            Err(why) => println!("{:<10} skipped: {why}", kind.name()),
        }
    }
    println!("{}", machine.watch().sentence());
    ensure!(!failed, "at least one of the servers was harmed");
    Ok(())
}

/// One that is attached to, and one that is not.
struct Pair {
    kind: Kind,
    attached: Server,
    other: Server,
}

/// What processes have, and how many of each: it must be the same afterwards. Connections come and go, from one worker to another, so sockets count by their number in all
/// processes together.
type Holdings = BTreeMap<u32, BTreeMap<String, u32>>;

impl Pair {
    fn start(kind: Kind) -> Result<Result<Self, String>> {
        let attached = match Server::start(kind)? {
            Ok(attached) => attached,
            Err(why) => return Ok(Err(why)),
        };
        let other = Server::start(kind)?;
        Ok(other.map(|other| Self { kind, attached, other }))
    }

    /// Whether it was not harmed, which is printed.
    fn try_out(
        mut self,
        options: &Options,
        random: &mut fastrand::Rng,
        machine: &Machine,
        whatif: &Whatif,
    ) -> Result<bool> {
        let name = self.kind.name();
        let loads = [&self.attached, &self.other].map(|server| Load::start(self.kind, server.port));
        let [load, idle] = &loads;
        idle.rest(true);
        sleep(Duration::from_secs(1));
        // No request is under way, for which a file may be open.
        load.rest(true);
        sleep(Duration::from_secs(1));
        let before = holdings(&self.attached);
        load.rest(false);
        let (mut said, mut times) = (BTreeMap::<String, u32>::new(), 0);
        let kills = (0..options.kills).map(|_| Some(random.f64() * (options.seconds + 1.0)));
        let mut turns: Vec<Option<f64>> = (0..options.count).map(|_| None).chain(kills).collect();
        random.shuffle(&mut turns);
        for kill in turns {
            let ended = cycle(self.kind, self.attached.pid(), options.seconds, kill, whatif)?;
            times += 1;
            *said.entry(ended).or_default() += 1;
            if !self.attached.runs() || !load.wrong().is_empty() {
                break;
            }
        }
        let mut harm = load.wrong();
        // These say that it was sampled, whether there is an answer or not.
        let sampled = |ended: &String| (95..=101).any(|code| ended.starts_with(&format!("status {code}")));
        let attached = said.keys().any(|ended| ended.starts_with("status 0") || sampled(ended));
        if options.count > 0 && !attached {
            harm.push("it was never attached to".to_owned());
        }
        if !self.attached.runs() {
            harm.push("it has ended".to_owned());
        }
        load.rest(true);
        // The last answers come, and connections that servers keep are the same.
        sleep(Duration::from_secs(1));
        let after = holdings(&self.attached);
        if after != before {
            harm.push(format!("it has {after:?} and had {before:?}"));
        }
        println!("{name:<10} {times} times, {} answers", load.answers());
        for (ended, times) in &said {
            println!("           {times:>6}  {ended}");
        }
        if harm.is_empty() {
            let both = [(&self.attached, load), (&self.other, idle)];
            compare(both, options.rounds, machine);
        }
        for wrong in idle.wrong() {
            println!("           the one that was left alone: {wrong}");
        }
        for text in harm.iter().take(5) {
            println!("           HARMED: {text}");
        }
        Ok(harm.is_empty())
    }
}

/// Attaches, and lets go or is killed after so many seconds; what it said, or how it ended.
fn cycle(kind: Kind, pid: u32, seconds: f64, kill: Option<f64>, whatif: &Whatif) -> Result<String> {
    const LONGEST: Duration = Duration::from_secs(120);
    whatif.forget()?;
    let duration = seconds.to_string();
    let options: Vec<&str> =
        ["-q", "--duration", &duration].into_iter().chain(kind.options().iter().copied()).collect();
    let mut command = whatif.attach(&options, pid);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let begin = Instant::now();
    let ended = if let Some(after) = kill {
        sleep(Duration::from_secs_f64(after));
        let has_ended = child.try_wait()?.is_some();
        child.kill()?;
        child.wait()?;
        if has_ended { "it had ended before it was killed" } else { "it was killed" }.to_owned()
    } else {
        let said = child.wait_with_output()?;
        match said.status.code() {
            Some(code) => format!("status {code}{}", sentence(&String::from_utf8_lossy(&said.stderr))),
            None => bail!("whatif has crashed: {said:?}"),
        }
    };
    while has_guardian(pid) {
        ensure!(begin.elapsed() < LONGEST, "process {pid} is not let go");
        sleep(Duration::from_millis(5));
    }
    Ok(ended)
}

/// The last line that was said, without numbers: those differ.
fn sentence(said: &str) -> String {
    let line = said.lines().rfind(|line| line.starts_with("whatif: ")).unwrap_or_default();
    let line: String = line.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    line.strip_prefix("whatif: ").map(|line| format!(": {line}")).unwrap_or_default()
}

/// Whether a process of the profiler still looks after one.
fn has_guardian(pid: u32) -> bool {
    let number = pid.to_string();
    let is_guardian = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.get(1).is_some_and(|word| word.starts_with(b"attach")) && words.contains(&number.as_bytes())
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().any(is_guardian)
}

fn holdings(server: &Server) -> Holdings {
    const SOCKETS: &str = "sockets";
    let of = |pid: u32| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = entries.map(|entry| std::fs::read_link(entry.path()).unwrap_or_default());
        let shown = links.map(|link| link.display().to_string());
        let mut held = BTreeMap::<String, u32>::new();
        for link in shown {
            let what = if link.starts_with("socket:") { SOCKETS } else { &link };
            *held.entry(what.to_owned()).or_default() += 1;
        }
        held.insert(format!("tracer {}", status(pid, "TracerPid:")), 1);
        (pid, held)
    };
    let mut all: Holdings = server.processes().into_iter().map(of).collect();
    let sockets = all.values_mut().filter_map(|held| held.remove(SOCKETS)).sum();
    all.insert(0, BTreeMap::from([(SOCKETS.to_owned(), sockets)]));
    all
}

fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

/// Prints what the one server does, and needs for it, for what the other one does.
fn compare([attached, other]: [(&Server, &Load); 2], rounds: usize, machine: &Machine) {
    const PART: Duration = Duration::from_millis(500);
    let watch = machine.watch();
    // Answers per second, and CPU time for each.
    let rate = |(server, load): (&Server, &Load)| {
        load.rest(false);
        sleep(Duration::from_millis(100));
        let (before, cpu, begin) = (load.answers(), server.cpu_time(), Instant::now());
        sleep(PART);
        let answers = (load.answers() - before) as f64;
        let cpu = server.cpu_time().zip(cpu).map(|(now, before)| now.saturating_sub(before) as f64 / answers);
        let rate = answers / begin.elapsed().as_secs_f64();
        load.rest(true);
        sleep(Duration::from_millis(20));
        [Some(rate), cpu]
    };
    let ratios = (0..rounds.max(2)).map(|_| {
        // Each is first and second as often.
        let [a, b, c, d] = [attached, other, other, attached].map(rate);
        [0, 1].map(|nth| Some((a[nth]? + d[nth]?) / (b[nth]? + c[nth]?)))
    });
    let ratios: Vec<[Option<f64>; 2]> = ratios.collect();
    for (nth, what) in ["answers per second", "CPU time of an answer"].into_iter().enumerate() {
        let known: Vec<f64> = ratios.iter().filter_map(|round| round[nth]).collect();
        if known.len() > 1 {
            let Interval { estimate, low, high } = Interval::of_mean(&known);
            println!(
                "           {what} afterwards: {estimate:.3} [{low:.3}, {high:.3}] of one that was left alone"
            );
        }
    }
    println!("           {}", watch.sentence());
}
