//! The loop: wait, read, count, and now and then write.

use super::diary::Diary;
use super::exporter;
use super::metrics::{Counts, Metrics};
use super::options::Options;
use super::pending::Pending;
use super::status::{State, scope_in_words};
use crate::continuous::remove_abandoned_trials;
use anyhow::{Context as _, Result};
use archive::{EntryKind, EpochId, MachineId, MachineInfo, Retention, Setting, Store, UnixSeconds};
use collect::{Callers, Collected, Collector, Cost, Governor, NameKeeping, Tally, Writer};
use kernel::clock::{monotonic, process_cpu_time, since_boot};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::unix::process::CommandExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// Time between two looks at what collecting costs.
const LOOK: Duration = Duration::from_secs(10);
/// The same while it costs several times what it may.
const SOON: Duration = Duration::from_secs(1);
/// Time between two looks at what is old.
const GARBAGE: wire::Nanos = wire::Nanos(3_600_000_000_000);
/// The same where the last one failed.
const AGAIN: wire::Nanos = wire::Nanos(300_000_000_000);
/// What the kernel takes for a sample where that could not be measured: about as much as on our virtual machines.
const SOME: f64 = 10_000.0;
/// Nothing counts as old for this long after the wall clock has misbehaved.
const DOUBT: wire::Nanos = wire::Nanos(86_400_000_000_000);
/// A collector that has not run for this long is no reason to doubt the clock.
const ABSENCE: profile::Nanos = profile::Nanos::new(30 * 86_400_000_000_000);
/// At the end names of files that were just sampled are waited for, but no longer than this.
const SETTLE: Duration = Duration::from_secs(1);
/// A cost that differs by more than this part is another one.
const OTHER: f64 = 0.2;
/// Books that do not balance by this part of what was expected, or by less than so many samples, are noise.
const NOISE: f64 = 0.001;
const FEW: u64 = 10;
/// The longest the kernel is left alone.
const PATIENCE: Duration = Duration::from_secs(1);

/// Collects until it is told to stop.
pub fn run(options: &Options) -> Result<()> {
    let flag = |signal| -> Result<Arc<AtomicBool>> {
        let raised = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, Arc::clone(&raised)).context("cannot wait for signals")?;
        Ok(raised)
    };
    // One's own threads take one for each CPU and event.
    kernel::stream::raise_descriptor_limit();
    let (stop, interrupted, again) = (flag(SIGTERM)?, flag(SIGINT)?, flag(SIGHUP)?);
    let metrics = Arc::new(Metrics::default());
    let mut service = Service::start(options, &metrics)?;
    listen(options, &metrics)?;
    let begin = monotonic();
    let over = |duration: Duration| monotonic().saturating_sub(begin).0 as u128 >= duration.as_nanos();
    while !stop.load(Ordering::Relaxed)
        && !interrupted.load(Ordering::Relaxed)
        && !options.duration.is_some_and(over)
    {
        service.step();
        let other_cpus = kernel::cpu::numbers() != service.numbers;
        if !other_cpus && !again.load(Ordering::Relaxed) {
            continue;
        }
        // Not while something waits to be stored: it would be lost.
        if !service.has_stored_everything() {
            continue;
        }
        let why = if other_cpus { "CPUs were switched on or off" } else { "SIGHUP: it begins again" };
        service.end(why)?;
        if again.load(Ordering::Relaxed) {
            let stopped = || stop.load(Ordering::Relaxed) || interrupted.load(Ordering::Relaxed);
            return if stopped() { Ok(()) } else { begin_again() };
        }
        service = Service::start_patiently(options, &metrics)?;
    }
    service.end(if stop.load(Ordering::Relaxed) {
        "SIGTERM"
    } else if interrupted.load(Ordering::Relaxed) {
        "SIGINT"
    } else {
        "--duration was over"
    })
}

/// Lets others read the metrics, if that was asked for.
fn listen(options: &Options, metrics: &Arc<Metrics>) -> Result<()> {
    let Some(asked) = options.metrics else { return Ok(()) };
    let address = exporter::start(asked, &options.folder, metrics)?;
    if !address.ip().is_loopback() {
        kernel::say!(
            "whatif: every machine that reaches {address} can read how the collector is doing, but not which programs run; for this \
             machine only: --metrics {}",
            address.port()
        );
    }
    if !options.quiet {
        kernel::say!("whatif: metrics are at http://{address}/metrics");
    }
    Ok(())
}

struct Service<'a> {
    options: &'a Options,
    metrics: &'a Metrics,
    store: Store,
    collector: Collector,
    writer: Writer,
    governor: Governor,
    epoch: EpochId,
    pending: Pending,
    diary: Diary,
    state: State,
    /// Number of the interval, in wall-clock time.
    interval: i64,
    /// By the clock since the start of the machine.
    next_garbage: wire::Nanos,
    /// What both clocks said last, and until when the wall clock is not believed.
    clocks: (UnixSeconds, wire::Nanos),
    doubt: wire::Nanos,
    /// Whether tidying has failed before.
    untidy: bool,
    /// Whether the warnings that processes are missed and that sampling costs too much have been printed.
    missed: bool,
    costly: bool,
    /// At what time, and what had been spent then: CPU time, samples, the kernel's time for waits.
    looked: (wire::Nanos, wire::Nanos, u64, wire::Nanos),
    /// Looks in a row at which waits alone cost more than everything may.
    waits_above: u32,
    /// What a sample costs the kernel, in nanoseconds, as the journal has it.
    told_cost: Option<f64>,
    numbers: Vec<u32>,
}

/// Says so if root's database belongs to another user.
fn warn_of_others(folder: &std::path::Path) {
    use std::os::unix::fs::MetadataExt as _;
    let owner = std::fs::metadata(folder).map_or(0, |about| about.uid());
    if rustix::process::geteuid().is_root() && owner != 0 {
        kernel::say!(
            "whatif: {} belongs to user {owner}, who can change what is collected there; a folder owned by root is safer",
            folder.display()
        );
    }
}

impl<'a> Service<'a> {
    fn start(options: &'a Options, metrics: &'a Metrics) -> Result<Self> {
        let mut store = Store::open(&options.folder)?;
        warn_of_others(&options.folder);
        remove_abandoned_trials(&options.folder);
        let (collector, scope) = collector(options)?;
        let machine = store.machine(&machine(collector.cpus()))?;
        let setting = setting(options, scope, &collector);
        let epoch = begin_epoch(&mut store, machine, &setting, options)?;
        let now = now();
        // Of one's own processes the rate cannot be changed.
        let a_sample = if collector.has_a_governor() { collector.cost_of_a_sample() } else { None };
        let governor = Governor::new(options.budget, a_sample);
        let state = State::new(options, &setting, epoch, &collector);
        let mut service = Self {
            options,
            metrics,
            store,
            collector,
            writer: Writer::new(options.resolution),
            governor,
            epoch,
            pending: Pending::new(options.limits().pending),
            diary: Diary::default(),
            state,
            interval: now.0.div_euclid(options.interval),
            next_garbage: since_boot() + wire::Nanos(60_000_000_000),
            clocks: (now, since_boot()),
            doubt: wire::Nanos::ZERO,
            untidy: false,
            missed: false,
            costly: false,
            looked: (monotonic(), process_cpu_time(), 0, wire::Nanos::ZERO),
            waits_above: 0,
            told_cost: a_sample.map(|cost| cost.0 as f64),
            numbers: kernel::cpu::numbers(),
        };
        service.state.write(&options.folder);
        metrics.change(Counts::begin);
        service.publish();
        service.greet(&setting);
        service.diary.note(now, EntryKind::Began, 0.0, String::new());
        if service.governor.is_holding_back() {
            service.follow_governor(
                "as many as was asked for would cost more than --max-cpu, by what a sample costs here",
            );
        }
        service.diary.write(&mut service.store, epoch);
        service.doubt_the_clock(now)?;
        Ok(service)
    }

    /// Starts, and tries again if that fails: a CPU may have gone just now.
    fn start_patiently(options: &'a Options, metrics: &'a Metrics) -> Result<Self> {
        for _ in 0..10 {
            if let Ok(service) = Self::start(options, metrics) {
                return Ok(service);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Self::start(options, metrics)
    }

    /// Whether the wall clock is right cannot be told from clocks at the start. If it says that everything is to be removed, a day
    /// passes first.
    fn doubt_the_clock(&mut self, now: UnixSeconds) -> Result<()> {
        // Nor does what a clock that is ahead has written since make it right.
        let newest = self.store.newest(UnixSeconds(now.0 - seconds(DOUBT.0)))?;
        if is_all_too_old(newest, now, self.options.retention.keep) {
            self.doubt = since_boot() + DOUBT;
            kernel::say!(
                "whatif: all samples here are older than --keep, but for those of the last day; they stay for another day, in case the clock is wrong: see date"
            );
        }
        Ok(())
    }

    /// Writes, and says whether nothing is left.
    fn has_stored_everything(&mut self) -> bool {
        self.flush();
        self.pending.len() == 0
    }

    fn greet(&self, setting: &Setting) {
        self.say(&format!(
            "collecting {}: {} at {} Hz on {} CPUs, {}, into {}",
            scope_in_words(&setting.scope),
            setting.events.join(", "),
            setting.rate_hz,
            self.numbers.len(),
            callers_in_words(self.collector.callers().0),
            self.options.folder.display(),
        ));
        if let (Callers::CopiesOfAll, Some(error)) = self.collector.callers() {
            self.say(&format!(
                "BPF is not available ({error}), so the kernel copies 8 KB of every stack; frames beyond those are missing"
            ));
        }
        if let Some(costs) = self.collector.costs_of_off_cpu() {
            self.say(&format!(
                "time off the CPU costs the kernel {} ns a switch between threads, and {:.1} µs for each that is written",
                costs.switch.0,
                costs.record.0 as f64 / 1e3
            ));
        }
        if let Some(error) = self.collector.off_cpu().1 {
            self.say(&format!(
                "time off the CPU is not collected: {error}\n  it takes root or CAP_BPF and CAP_PERFMON, and Linux 5.15 with BTF; \
                 everything else is collected"
            ));
        }
        if !setting.sampler.eq("perf") {
            self.say(&format!("sampled by {}", setting.sampler));
        }
    }

    fn say(&self, text: &str) {
        if !self.options.quiet {
            kernel::say!("whatif: {text}");
        }
    }

    /// Waits for something to do, and does it.
    fn step(&mut self) {
        let until_end = self.options.duration.map_or(PATIENCE, |duration| duration.min(PATIENCE));
        self.collector.wait(until_end);
        self.collector.tick();
        self.look();
        let now = now();
        let interval = now.0.div_euclid(self.options.interval);
        // Also when the clock was set, or the machine was suspended.
        if interval != self.interval || self.collector.is_full() {
            self.interval = interval;
            self.flush();
            self.tidy(now);
        }
    }

    /// Writes everything that has been counted.
    fn flush(&mut self) {
        let collected = self.collector.collect();
        self.state.counted(&collected, self.governor.rate_hz(), self.collector.cost_of_a_sample());
        self.metrics.change(|counts| counts.add(&collected));
        self.note_losses(&collected);
        self.state.names(self.collector.names_read());
        self.pending.push(collected);
        let (writer, store, epoch) = (&mut self.writer, &mut self.store, self.epoch);
        let written = self.pending.write(|collected| writer.write(collected, store, epoch).map(drop));
        if written.is_err() {
            // Perhaps there is something to remove.
            let _ = self.collect_garbage(now());
        }
        let (waiting, given_up, is_stored) = (self.pending.len(), self.pending.given_up(), written.is_ok());
        self.metrics.change(|counts| counts.written(now().0, is_stored, waiting, given_up));
        self.publish();
        self.report(written.map_err(|error| error.to_string()).err());
        self.state.waiting(waiting, given_up);
        if is_stored {
            self.diary.write(&mut self.store, self.epoch);
        }
        self.state.write(&self.options.folder);
    }

    /// Notes for lack of what samples were lost.
    fn note_losses(&mut self, collected: &Collected) {
        let sum = |of: fn(&Tally) -> u64| collected.books.iter().map(of).sum::<u64>();
        let causes = [
            (EntryKind::NoRoom, sum(|books| books.no_room)),
            (EntryKind::Throttled, sum(|books| books.throttled)),
        ];
        for (kind, count) in causes.into_iter().filter(|(_, count)| *count > 0) {
            self.diary.note(now(), kind, count as f64, String::new());
        }
        let (imbalance, expected) = (sum(Tally::imbalance), sum(|books| books.expected));
        if imbalance > FEW && imbalance as f64 > NOISE * expected as f64 {
            let why = format!(
                "{} more were taken than the counters called for, {} more had no room than are missing",
                sum(|books| books.surplus),
                sum(|books| books.excess)
            );
            self.diary.note(now(), EntryKind::Books, imbalance as f64, why);
        }
    }

    /// Tells how it is now.
    fn publish(&self) {
        let (known, a_sample) = (self.collector.known(), self.collector.cost_of_a_sample());
        self.metrics.change(|counts| {
            counts.rate_hz = self.governor.rate_hz();
            counts.is_held_back = self.governor.is_holding_back();
            counts.rate_asked_hz = self.options.budget.rate_hz;
            counts.max_cpu = self.options.budget.cpu;
            counts.a_sample_ns = a_sample.map(|cost| cost.0);
            (counts.processes, counts.images) = (known.processes as u64, known.images as u64);
        });
    }

    /// Says what went wrong, once, and that it is over.
    fn report(&mut self, problem: Option<String>) {
        match (&problem, self.state.problem()) {
            (Some(problem), None) => {
                kernel::say!("whatif: nothing can be stored just now, and is kept in memory: {problem}");
                self.diary.note(now(), EntryKind::Full, 0.0, problem.clone());
            }
            (None, Some(_)) => {
                kernel::say!("whatif: stored again; {} samples were given up", self.pending.given_up());
                self.diary.note(now(), EntryKind::Stored, self.pending.given_up() as f64, String::new());
            }
            _ => {}
        }
        self.state.set_problem(problem);
    }

    /// Merges small segments, and removes what is old.
    fn tidy(&mut self, now: UnixSeconds) {
        let passed = since_boot();
        self.compare_clocks(now, passed);
        // The rings must not fill meanwhile.
        let mut tidied = self.store.compact(now, &mut || self.collector.tick()).map(drop);
        let is_due = passed >= self.next_garbage;
        if is_due {
            let collected = self.collect_garbage(now);
            self.next_garbage = passed + if collected.is_ok() { GARBAGE } else { AGAIN };
            tidied = tidied.and(collected);
        }
        match tidied {
            Err(error) if !std::mem::replace(&mut self.untidy, true) => {
                kernel::say!("whatif: the database cannot be tidied up just now, and grows: {error}");
                self.diary.note(now, EntryKind::Untidy, 0.0, error.to_string());
            }
            // Whether what is old can be removed again is not known before that is tried.
            Ok(()) if is_due && std::mem::replace(&mut self.untidy, false) => {
                kernel::say!("whatif: the database is tidied up again");
                self.diary.note(now, EntryKind::Tidy, 0.0, String::new());
            }
            _ => {}
        }
        kernel::heap::give_back();
    }

    /// Removes what is old. What is still to be written brings its names again, which may be gone then.
    fn collect_garbage(&mut self, now: UnixSeconds) -> Result<(), profile::Error> {
        self.compare_clocks(now, since_boot());
        self.writer.forget_names();
        let retention = self.retention();
        self.store.collect_garbage(&retention, now, &mut || self.collector.tick()).map(drop)
    }

    /// When the wall clock jumps, nothing is old because of it for a day: it may have been set wrong.
    fn compare_clocks(&mut self, now: UnixSeconds, passed: wire::Nanos) {
        let by_wall = now.0 - self.clocks.0.0;
        let by_other = (passed.saturating_sub(self.clocks.1).0 / 1_000_000_000) as i64;
        if (by_wall - by_other).abs() > 600 {
            self.doubt = passed + DOUBT;
            self.diary.note(now, EntryKind::Clock, (by_wall - by_other) as f64, String::new());
        }
        self.clocks = (now, passed);
    }

    fn retention(&self) -> Retention {
        if since_boot() < self.doubt {
            return Retention { keep: None, coarse_after: None, ..self.options.retention };
        }
        self.options.retention
    }

    /// Looks at what it costs, and takes fewer samples if that is too much.
    fn look(&mut self) {
        // Reading names has a limit of its own, and would not become cheaper with fewer samples.
        let own = process_cpu_time().saturating_sub(self.collector.names_read().cpu);
        let now = monotonic();
        let passed = now.saturating_sub(self.looked.0);
        if u128::from(passed.0) < SOON.as_nanos() {
            return;
        }
        let machine = passed.0 as f64 * f64::from(self.collector.cpus());
        let a_sample = self.collector.cost_of_a_sample().map_or(SOME, |cost| cost.0 as f64);
        let (taken, off_cpu) = (self.collector.taken(), self.collector.cost_of_off_cpu());
        let of_off_cpu = off_cpu.saturating_sub(self.looked.3).0 as f64 / machine;
        let cost = Cost {
            own: own.saturating_sub(self.looked.1).0 as f64 / machine,
            kernel: a_sample * (taken - self.looked.2) as f64 / machine + of_off_cpu,
        };
        if u128::from(passed.0) < LOOK.as_nanos() && !self.governor.is_alarming(cost) {
            return;
        }
        self.looked = (now, own, taken, off_cpu);
        self.look_at_off_cpu(of_off_cpu);
        self.calibrate();
        if self.collector.missed() > 0 && !self.missed {
            self.missed = true;
            kernel::say!(
                "whatif: some of your processes are not sampled: no more descriptors may be opened; allow more with ulimit -n"
            );
            let missed = self.collector.missed() as f64;
            self.diary.note(
                self::now(),
                EntryKind::Missed,
                missed,
                "allow more descriptors with ulimit -n".to_owned(),
            );
        }
        if !self.governor.spent(cost) {
            return;
        }
        if !self.collector.has_a_governor() {
            if !self.costly {
                self.costly = true;
                kernel::say!(
                    "whatif: collecting costs {:.1} % of the machine, more than --max-cpu, and the rate of your own processes cannot be \
                     changed while they run; begin again with --rate {:.0}",
                    100.0 * (cost.own + cost.kernel),
                    self.governor.rate_hz().max(1.0)
                );
            }
            // What is asked for stays what it is.
            self.governor = Governor::new(self.options.budget, None);
        } else {
            self.follow_governor(&format!(
                "it cost {:.2} % of the machine ({:.2} the collector, {:.2} the kernel) of the {:.2} of --max-cpu",
                100.0 * (cost.own + cost.kernel),
                100.0 * cost.own,
                100.0 * cost.kernel,
                100.0 * self.options.budget.cpu,
            ));
        }
    }

    /// Measures again what a sample costs, and notes when that is another cost.
    fn calibrate(&mut self) {
        self.collector.calibrate();
        let Some(cost) = self.collector.cost_of_a_sample() else { return };
        let (cost, told) = (cost.0 as f64, self.told_cost.unwrap_or_default());
        if (cost - told).abs() > OTHER * told {
            if self.told_cost.is_some() {
                let why = format!("measured again; it was {:.1} µs", told / 1000.0);
                self.diary.note(now(), EntryKind::SampleCost, cost, why);
            }
            self.told_cost = Some(cost);
        }
    }

    /// Gives up time off the CPU where it alone costs more than everything may: it does not depend on the rate.
    fn look_at_off_cpu(&mut self, cost: f64) {
        const LOOKS: u32 = 3;
        self.waits_above = if cost > self.options.budget.cpu { self.waits_above + 1 } else { 0 };
        if self.waits_above < LOOKS {
            return;
        }
        self.waits_above = 0;
        self.collector.end_off_cpu();
        self.flush();
        self.looked.3 = wire::Nanos::ZERO;
        kernel::say!(
            "whatif: time off the CPU is not collected any more: there are so many switches between threads that it costs {:.1} % of the \
             machine; begin again with a larger --max-cpu",
            100.0 * cost
        );
    }

    /// Takes as many samples as the governor says, which may be more again.
    fn follow_governor(&mut self, why: &str) {
        let rate = self.governor.rate_hz();
        self.collector.set_rate(rate);
        self.metrics.change(|counts| counts.rate_changes += 1);
        self.diary.note(now(), EntryKind::Rate, rate, why.to_owned());
        self.publish();
        let why = if self.governor.is_holding_back() { ": more would cost too much (--max-cpu)" } else { "" };
        self.say(&format!("{rate:.0} samples a second and CPU from now on{why}"));
    }

    /// Writes what there is, and ends the epoch.
    fn end(mut self, why: &str) -> Result<()> {
        self.diary.note(now(), EntryKind::Ended, 0.0, why.to_owned());
        self.collector.settle_names(SETTLE);
        self.flush();
        let lost = self.state.problem().map(str::to_owned);
        if let Some(problem) = lost {
            anyhow::bail!("the last {} intervals could not be stored: {problem}", self.pending.len());
        }
        self.store.end_epoch(self.epoch, now())?;
        self.state.end(&self.options.folder);
        Ok(())
    }
}

/// Runs the same command again, in place of this one: with a new version of the program, if it has been replaced.
fn begin_again() -> Result<()> {
    let program = std::env::current_exe().context("cannot find the program to begin again")?;
    let text = program.to_string_lossy();
    let program = text.strip_suffix(" (deleted)").unwrap_or(&text);
    // Until the new one has its handler: another one asks for what is being done.
    kernel::signals::ignore(SIGHUP);
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot begin again with {program}"))
}

/// Whether all that was written up to the day before is to be removed.
fn is_all_too_old(newest: Option<UnixSeconds>, now: UnixSeconds, keep: Option<profile::Nanos>) -> bool {
    let least = keep.map(|keep| seconds(keep.max(ABSENCE).get()));
    newest.zip(least).is_some_and(|(newest, least)| now.0 - newest.0 >= least)
}

/// Whole seconds of some nanoseconds.
fn seconds(nanos: u64) -> i64 {
    (nanos / 1_000_000_000) as i64
}

fn begin_epoch(
    store: &mut Store,
    machine: MachineId,
    setting: &Setting,
    options: &Options,
) -> Result<EpochId> {
    Ok(store.begin_epoch(machine, setting, options.name.as_deref(), now())?)
}

/// Of the machine, or if that is not allowed, of one's own processes; and which of them.
fn collector(options: &Options) -> Result<(Collector, &'static str)> {
    let of = |machine| {
        Collector::start(collect::Options {
            rate_hz: options.budget.rate_hz,
            sources: options.events.sources.clone(),
            rotate: options.events.rotate,
            stacks: options.stacks,
            unwind: options.unwind,
            commands: options.commands,
            off_cpu: options.off_cpu,
            machine,
            ring_bytes: options.ring_bytes(),
            seed: options.seed,
            limits: options.limits(),
            names: (options.max_symbols > 0).then(|| NameKeeping {
                folder: options.folder.clone(),
                most_bytes: options.max_symbols,
                memory: options.limits().names,
            }),
        })
    };
    if !options.own {
        match of(true) {
            Ok(collector) => return Ok((collector, "machine")),
            Err(error) if error.is_permission() => {
                kernel::say!("whatif: {error}\nwhatif: your own processes are sampled instead");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((of(false)?, "own processes"))
}

fn setting(options: &Options, scope: &str, collector: &Collector) -> Setting {
    let mut events: Vec<String> =
        options.events.sources.iter().map(|source| source.name().to_owned()).collect();
    if collector.off_cpu().0 {
        events.push(archive::OFF_CPU.to_owned());
    }
    Setting {
        scope: scope.to_owned(),
        mode: if options.stacks { "stacks" } else { "pc" }.to_owned(),
        events,
        sampler: options.events.sampler.clone(),
        rate_hz: options.budget.rate_hz,
        resolution: profile::Nanos::from_millis(options.resolution.unsigned_abs() * 1000),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        labels: options.labels.clone(),
    }
}

/// How callers are found.
pub fn callers_in_words(callers: Callers) -> &'static str {
    match callers {
        Callers::No => "without callers",
        Callers::FramePointers => "with callers by frame pointers",
        Callers::Copies => "with callers by frame pointers and unwind tables",
        Callers::CopiesOfAll => "with callers by frame pointers and unwind tables (of all stacks)",
    }
}

fn machine(cpus: u32) -> MachineInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let host = read("/proc/sys/kernel/hostname");
    MachineInfo { key: archive::machine_key(&host), host, kernel: read("/proc/sys/kernel/osrelease"), cpus }
}

pub fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_would_remove_everything_is_doubted() {
        const DAY: i64 = 86_400;
        let days = |days: i64| Some(profile::Nanos::from_millis((1000 * days * DAY) as u64));
        let now = 20_000 * DAY;
        for (age, keep, expected) in [
            (Some(2), days(90), false),
            (Some(60), days(90), false),
            (Some(91), days(90), true),
            (Some(4000), days(90), true),
            // It did not run for a while.
            (Some(8), days(7), false),
            (Some(4000), days(7), true),
            (Some(4000), None, false),
            (Some(-5), days(90), false),
            (None, days(90), false),
        ] {
            let newest = age.map(|age| UnixSeconds(now - age * DAY));
            assert_eq!(is_all_too_old(newest, UnixSeconds(now), keep), expected, "{age:?} {keep:?}");
        }
    }
}
