//! The machine: what the kernel allows, and how exact measurements on it can be.

use super::finding::{Finding, State};
use controller::needs;
use kernel::cpu_limit::CpuLimit;
use kernel::trial::{self, Sampled};
use kernel::visits::{self, Means};
use rustix::process::{Resource, getrlimit};
use std::fs::read_to_string;
use std::time::{Duration, Instant};

/// How long the machine is watched.
const WATCHED: Duration = Duration::from_millis(1200);
/// From this length on, a gap in a loop that only reads the clock is time taken by others.
const GAP: Duration = Duration::from_micros(30);
const NO_PROC: &str = "/proc is not mounted";

pub fn look() -> Vec<Finding> {
    let (others, gaps) = noise();
    let mut findings = vec![kernel()];
    findings.extend(without_proc());
    findings.extend([sampling(), breakpoints(), uprobes(), tracepoints(), rights()]);
    findings.extend([descriptors(), locked_memory(), processors()]);
    findings.extend([quota(), virtual_machine(), frequency(), siblings()].into_iter().flatten());
    findings.extend([busy(others), interruptions(gaps), runtime()]);
    findings
}

fn first_line(path: &str) -> Option<String> {
    read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    first_line(path)?.parse().ok()
}

fn kernel() -> Finding {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let machine = system.machine().to_string_lossy().into_owned();
    let found = format!("Linux {release}, {machine}");
    if machine != "x86_64" {
        return Finding::new("kernel", State::Problem, found, "whatif profiles x86-64 programs only");
    }
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version < (5, 13) {
        return Finding::new(
            "kernel",
            State::Warning,
            found,
            "before 5.13 every sample costs a second interrupt, and a sleeping system call may fail with EINTR for it",
        );
    }
    Finding::good("kernel", found)
}

fn without_proc() -> Option<Finding> {
    let means = "the program's code and threads cannot be looked up: it runs, and nothing of it is measured";
    let finding = || Finding::new("/proc", State::Problem, NO_PROC, means).advice("mount -t proc proc /proc");
    (!needs::has_proc()).then(finding)
}

/// Why something cannot be done.
fn reason(error: &std::io::Error) -> String {
    if needs::has_proc() { error.to_string() } else { NO_PROC.to_owned() }
}

/// That the kernel does not give it, and what it said, without the number.
fn refused(error: &std::io::Error) -> String {
    let reason = reason(error);
    format!("not available here: {}", reason.split(" (os error").next().unwrap_or(&reason))
}

fn paranoid() -> String {
    if !needs::has_proc() {
        return "perf_event_paranoid unknown".to_owned();
    }
    let level = number("/proc/sys/kernel/perf_event_paranoid");
    level.map_or_else(|| "no perf_event_paranoid".to_owned(), |level| format!("perf_event_paranoid {level}"))
}

fn sampling() -> Finding {
    let lower = "allow it with: sudo sysctl kernel.perf_event_paranoid=1 (in a container also the seccomp profile, or --cap-add PERFMON)";
    match trial::sampling() {
        Ok(Sampled::UserAndKernel) => Finding::good("samples", format!("by perf, kernel time too ({})", paranoid())),
        Ok(Sampled::User) => Finding::new(
            "samples",
            State::Note,
            format!("by perf, user time only ({})", paranoid()),
            "time that the kernel works for a region is not seen, and not made faster",
        )
        .advice(lower),
        Err(error) => Finding::new(
            "samples",
            State::Warning,
            format!("perf is refused: {error} ({})", paranoid()),
            "samples come from a CPU-time timer, as coarse as the kernel's tick (4 ms, mostly): answers take longer, and threads that \
             run for less than a tick at a time may not be seen",
        )
        .advice(lower),
    }
}

fn breakpoints() -> Finding {
    match visits::cost(Means::Breakpoint) {
        Ok(cost) => Finding::good(
            "breakpoints",
            format!("{} a visit (-p FILE:LINE, fn:NAME, usdt:PROVIDER:NAME)", micros(cost)),
        ),
        Err(error) => Finding::new(
            "breakpoints",
            State::Note,
            refused(&error),
            "-p FILE:LINE and -p fn:NAME need uprobes; -p sampled:PLACE works everywhere",
        ),
    }
}

fn uprobes() -> Finding {
    match visits::cost(Means::Uprobe) {
        Ok(cost) => Finding::good("uprobes", format!("{} a visit (more than four points)", micros(cost))),
        Err(error) => Finding::new(
            "uprobes",
            State::Note,
            refused(&error),
            "at most four instructions can be progress points at once (-p)",
        )
        .advice("run whatif as root, or give it the right: sudo setcap cap_perfmon=ep $(command -v whatif)"),
    }
}

fn tracepoints() -> Finding {
    match trial::tracepoints() {
        Ok(()) => Finding::good("tracepoints", "readable (-p syscall:NAME)"),
        Err(error) => Finding::new(
            "tracepoints",
            State::Note,
            refused(&error),
            "-p syscall:NAME does not work; a function around the call does (-p fn:NAME)",
        )
        .advice("as root: mount -t tracefs nodev /sys/kernel/tracing"),
    }
}

fn micros(cost: wire::Nanos) -> String {
    format!("{:.1} µs", cost.0 as f64 / 1e3)
}

fn rights() -> Finding {
    const CAP_SYS_PTRACE: u32 = 19;
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    let Ok(status) = read_to_string("/proc/self/status") else {
        return Finding::new("capabilities", State::Note, "unknown", "/proc/self/status cannot be read");
    };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let bits = field("CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0);
    let held =
        [("CAP_PERFMON", CAP_PERFMON), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN), ("CAP_SYS_PTRACE", CAP_SYS_PTRACE)];
    let held: Vec<&str> =
        held.iter().filter(|(_, bit)| bits >> bit & 1 == 1).map(|(name, _)| *name).collect();
    let held = if held.is_empty() { "none that matters".to_owned() } else { held.join(", ") };
    let seccomp = match field("Seccomp:") {
        Some("2") => "; seccomp filters system calls",
        _ => "",
    };
    Finding::good("capabilities", format!("{held}{seccomp}"))
}

fn descriptors() -> Finding {
    if let Err(error) = needs::descriptors() {
        let text = error.to_string();
        let (found, advice) = text.split_once("; ").unwrap_or((&text, ""));
        return Finding::new("open files", State::Problem, found, "the program is not run").advice(advice);
    }
    const PER_THREAD: u64 = 2;
    const MANY: u64 = 1000;
    let threads = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |limit| limit / PER_THREAD);
    let found = match threads {
        u64::MAX => "no limit".to_owned(),
        threads => format!("enough for about {threads} threads"),
    };
    if threads >= MANY / PER_THREAD {
        return Finding::good("open files", found);
    }
    Finding::new("open files", State::Warning, found, "threads beyond that are sampled by coarser timers")
        .advice("ulimit -n 65536")
}

/// Records of context switches: two pages for each thread.
fn locked_memory() -> Finding {
    const PER_THREAD: u64 = 8 << 10;
    let per_cpu = number("/proc/sys/kernel/perf_event_mlock_kb").unwrap_or(516).max(0) as u64 * 1024;
    let cpus = u64::from(kernel::cpu::online());
    let limit = getrlimit(Resource::Memlock).current;
    let privileged =
        rustix::process::geteuid().is_root() || number("/proc/sys/kernel/perf_event_paranoid") == Some(-1);
    let Some(limit) = limit.filter(|_| !privileged) else {
        return Finding::good("locked memory", "no limit");
    };
    let threads = (per_cpu * cpus + limit) / PER_THREAD;
    let found = format!("enough for about {threads} threads");
    if threads >= 64 {
        return Finding::good("locked memory", found);
    }
    Finding::new(
        "locked memory",
        State::Warning,
        found,
        "other threads do not know when they waited for a CPU: predictions are too low where more threads run than there are CPUs",
    )
    .advice("ulimit -l unlimited, or: sudo sysctl kernel.perf_event_mlock_kb=8192")
}

fn processors() -> Finding {
    let (usable, online) = (kernel::cpu::usable(), kernel::cpu::online());
    let found = format!("{usable} of {online} may be used");
    match usable {
        1 => Finding::new(
            "CPUs",
            State::Warning,
            found,
            "whatif itself and the program share one: its work (1 to 3 %) is taken from the program's",
        ),
        _ => Finding::good("CPUs", found),
    }
}

/// A group that has used up its quota is held up until the next period begins.
fn quota() -> Option<Finding> {
    let cpus = CpuLimit::of(std::process::id())?.cpus();
    let online = kernel::cpu::online();
    Some(
        Finding::new(
            "CPU limit",
            State::Warning,
            format!("{cpus:.2} CPUs of {online}, by the control group's quota"),
            "a program that wants more is held up as a whole until the next period: faster code saves its share of the CPU time then, and latencies are not predicted",
        )
        .advice("where the program runs without a limit in production, profile it without one (docker run without --cpus)"),
    )
}

fn virtual_machine() -> Option<Finding> {
    if !kernel::cpu::is_virtual()? {
        return Some(Finding::good("hardware", "no hypervisor"));
    }
    let name = first_line("/sys/class/dmi/id/product_name")
        .or_else(|| first_line("/sys/hypervisor/type"))
        .filter(|name| !name.is_empty());
    let found = name.map_or_else(
        || "a virtual machine".to_owned(),
        |name| format!("a virtual machine ({})", profile::printable(&name)),
    );
    Some(Finding::new(
        "hardware",
        State::Note,
        found,
        "an idle CPU takes 50 µs and more to wake up, and a sample 10 µs: hand-overs of locks cost more than on hardware",
    ))
}

fn frequency() -> Option<Finding> {
    let governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?;
    if governor == "performance" {
        return Some(Finding::good("CPU frequency", "governor performance"));
    }
    Some(
        Finding::new(
            "CPU frequency",
            State::Note,
            format!("governor {governor}"),
            "CPUs get slower while threads pause, and baselines drift: intervals are wider",
        )
        .advice("sudo cpupower frequency-set -g performance"),
    )
}

fn siblings() -> Option<Finding> {
    match number("/sys/devices/system/cpu/smt/active")? {
        1 => Some(
            Finding::new(
                "hyper-threads",
                State::Note,
                "on",
                "a thread whose sibling pauses runs faster, which no speedup of code would bring: gains are a little too high",
            )
            .advice("for exact numbers: echo off | sudo tee /sys/devices/system/cpu/smt/control"),
        ),
        _ => Some(Finding::good("hyper-threads", "off")),
    }
}

/// The share of the machine that others use, and the share of the time in which a loop that does nothing else did not
/// run.
fn noise() -> (Option<f64>, f64) {
    let before = kernel::cpu::CpuUse::now(std::process::id()).ok();
    let begin = Instant::now();
    let (mut last, mut gaps) = (begin, Duration::ZERO);
    while last - begin < WATCHED {
        let now = Instant::now();
        let gap = now - last;
        if gap > GAP {
            gaps += gap;
        }
        last = now;
    }
    let after = kernel::cpu::CpuUse::now(std::process::id()).ok();
    let others = before.zip(after).map(|(before, after)| after.others_since(before));
    (others, gaps.as_secs_f64() / WATCHED.as_secs_f64())
}

fn busy(others: Option<f64>) -> Finding {
    let Some(others) = others else {
        return Finding::new(
            "other programs",
            State::Note,
            "unknown",
            "/proc/stat cannot be read: whether the machine is busy is unknown",
        );
    };
    let found = format!("use {:.0} % of the machine now", 100.0 * others);
    if others <= profile::WindowFlags::BUSY_ABOVE {
        return Finding::good("other programs", found);
    }
    Finding::new(
        "other programs",
        State::Warning,
        found,
        "predictions allow for it, but the truth varies with what others do: errors are several times as large",
    )
    .advice("profile when the machine is quiet, or on CPUs of your own (taskset)")
}

fn interruptions(gaps: f64) -> Finding {
    let found = format!("{:.2} % of a busy thread's time", 100.0 * gaps);
    if gaps < 0.02 {
        return Finding::good("interruptions", found);
    }
    Finding::new(
        "interruptions",
        State::Note,
        found,
        "interrupts, other threads or the hypervisor take that much, now more and now less: longer runs make up for it",
    )
}

/// The runtime library must be written to disk once, to be loaded into programs.
fn runtime() -> Finding {
    match controller::embedded::unpack() {
        Ok(unpacked) => {
            let place = profile::printable(&unpacked.path.display().to_string()).into_owned();
            let Some((folder, reason)) = unpacked.passed_over.first() else {
                return Finding::good("runtime", place);
            };
            let passed_over = format!("{} was passed over: {reason}", folder.display());
            Finding::new("runtime", State::Note, place, profile::printable(&passed_over).into_owned())
                .advice("set XDG_CACHE_HOME to a folder of your own that only you may write to")
        }
        Err(_) if needs::descriptors().is_err() => {
            Finding::new("runtime", State::Note, "unknown", "there are too few file descriptors to find out")
        }
        Err(error) => Finding::new(
            "runtime",
            State::Problem,
            profile::printable(&format!("{error:#}")).into_owned(),
            "it must be on disk to be loaded into programs",
        )
        .advice("set XDG_CACHE_HOME to a folder that may be written to"),
    }
}
