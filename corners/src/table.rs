//! The table of corners: one source for the tests of the command and for `bench`.

use crate::sampler::Sampler;

/// One corner.
#[derive(Debug)]
pub struct Corner {
    /// What it is called.
    pub name: &'static str,
    /// What is run.
    pub program: Program,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// What the profiler is told besides the sampler.
    pub options: &'static [&'static str],
    /// How it ends alone.
    pub ends: Ends,
    /// Where it is known to differ under the profiler.
    pub differs: Option<Differs>,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `programs/NAME.c` of this crate.
    Own(&'static str),
    /// `programs/NAME`, a shell script that starts a real program with its arguments (the profiler, or nothing) in front.
    Script(&'static str),
}

/// How a program ends alone.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    /// With 0, and "done" as the last line: it checked what it saw.
    Done,
    /// With this status.
    With(i32),
    /// By this signal.
    By(i32),
}

/// A difference that is known.
#[derive(Clone, Copy, Debug)]
pub struct Differs {
    /// By which samplers.
    pub by: &'static [Sampler],
    /// Why.
    pub why: &'static str,
}

impl Corner {
    /// Why it is known to differ by this sampler, if it is.
    #[must_use]
    pub fn known(&self, sampler: Sampler) -> Option<&'static str> {
        self.differs.filter(|differs| differs.by.contains(&sampler)).map(|differs| differs.why)
    }

    /// The sampler of its test: its name chooses one of those by which it is not known to differ. There is none for what only
    /// `bench -- corners` runs: what differs by every sampler, and real programs, whose outcome depends on the machine.
    #[must_use]
    pub fn sampler_of_test(&self) -> Option<Sampler> {
        if matches!(self.program, Program::Script(_)) {
            return None;
        }
        let is_same = |sampler: &Sampler| self.known(*sampler).is_none();
        let samplers: Vec<Sampler> = Sampler::ALL.into_iter().filter(is_same).collect();
        let number: usize = self.name.bytes().map(usize::from).sum();
        samplers.get(number.checked_rem(samplers.len())?).copied()
    }

    /// The group that it belongs to: that of its program.
    #[must_use]
    pub fn group(&self) -> &'static str {
        match self.program {
            Program::Own(name) => name,
            Program::Script(_) => "real",
        }
    }

    const fn differs(self, by: &'static [Sampler], why: &'static str) -> Self {
        Self { differs: Some(Differs { by, why }), ..self }
    }

    const fn ends(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }
}

/// All threads but those that run `hot` pause.
const DELAYS: &[&str] = &["--region", "hot", "--speedup", "50,100"];

const fn own(name: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Corner {
    let program = Program::Own(program);
    Corner { name, program, arguments, options: DELAYS, ends: Ends::Done, differs: None }
}

/// A real program: it has no `hot`, and no sources that would be in scope.
const fn real(name: &'static str, script: &'static str) -> Corner {
    let options = &["--binary", "*", "--speedup", "50,100"];
    Corner {
        name,
        program: Program::Script(script),
        arguments: &[],
        options,
        ends: Ends::Done,
        differs: None,
    }
}

const ALL: &[Sampler] = &Sampler::ALL;
const PERF: &[Sampler] = &[Sampler::Perf, Sampler::PerfUser];

/// Why small stacks overflow.
const SMALL: &str = "a sample is a signal: its frame (3.4 kB with AVX-512) and the handler need room on the stack that the thread is on";

/// All of them.
pub const CORNERS: &[Corner] = &[
    own("fork", "processes", &["fork"]),
    own("children with threads and children", "processes", &["tree"]),
    own("posix_spawn", "processes", &["spawn"]),
    own("system, popen", "processes", &["shell"]),
    own("daemon", "processes", &["daemon"]),
    own("clone, clone3", "processes", &["clone"]),
    own("vfork on a stack of its own", "processes", &["vfork_stack"]),
    own("exec without environment", "processes", &["exec_bare"]),
    own("pidfd", "processes", &["pidfd"]),
    own("ptrace", "processes", &["ptrace"])
        .differs(ALL, "forked children are sampled by SIGURG, whose stops their tracer sees"),
    own("unshare", "processes", &["unshare"]),
    own("chroot", "processes", &["chroot"]),
    own("setuid", "processes", &["setuid"]),
    own("PTHREAD_STACK_MIN", "stacks", &["smallest"]),
    own("fibers on 4 kB", "stacks", &["fibers", "4096"]).differs(ALL, SMALL),
    own("fibers on 16 kB", "stacks", &["fibers", "16384"]),
    own("smallest sigaltstack", "stacks", &["alternate", "2048"]),
    own("sigaltstack, no room for a sample", "stacks", &["alternate", "4096"]),
    own("sigaltstack, room for a sample", "stacks", &["alternate", "6048"]),
    own("sigaltstack", "stacks", &["alternate", "16384"]),
    own("signal on a full sigaltstack", "stacks", &["full", "12000"]),
    own("stack overflow", "stacks", &["overflow"]),
    own("2000 threads at once", "stacks", &["crowd", "2000"]),
    own("2000 threads in turn", "stacks", &["procession", "2000"]),
    own("handlers of 11 signals", "signalling", &["actions"]),
    own("SIGTRAP by default", "signalling", &["default_trap"]).ends(Ends::By(5)),
    own("all blocked", "signalling", &["all_blocked"]),
    own("all blocked, raw", "signalling", &["all_blocked_raw"]).differs(
        ALL,
        "samples are pending while the program has their signal blocked behind the C library's back",
    ),
    own("all by default, raw", "signalling", &["default_raw"]).differs(
        PERF,
        "the action of SIGTRAP is changed behind the C library's back, and the next sample ends the program",
    ),
    own("sigwait, signalfd", "signalling", &["waited_for"]),
    own("signals to the process", "signalling", &["to_the_process"]),
    own("siglongjmp", "signalling", &["jumps"]),
    own("EINTR", "signalling", &["interrupted"]),
    own("timer_create", "signalling", &["timer"]),
    own("signals to threads", "signalling", &["to_threads"]),
    own("SIGCHLD", "signalling", &["of_children"]),
    own("runs of microseconds", "signalling", &["short_runs"]),
    own("RLIMIT_NOFILE 5", "limits", &["descriptors", "5"]),
    own("RLIMIT_NOFILE 0", "limits", &["descriptors", "0"]),
    own("RLIMIT_AS, too little", "limits", &["memory"]),
    own("RLIMIT_AS, enough", "limits", &["more_memory"]),
    own("RLIMIT_STACK", "limits", &["stack"]),
    own("RLIMIT_MEMLOCK 0", "limits", &["locked"]),
    own("RLIMIT_SIGPENDING 0", "limits", &["pending"]),
    own("RLIMIT_FSIZE", "limits", &["file_size"]),
    own("close_range", "limits", &["closes_all"]),
    own("/proc/self/maps", "limits", &["maps"]),
    own("affinity, SCHED_FIFO, nice", "limits", &["scheduling"]),
    own("EPERM for perf_event_open", "filters", &["fails", "perf_event_open"]),
    own("EPERM for ioctl", "filters", &["fails", "ioctl"]),
    own("EPERM for rt_sigaction", "filters", &["fails", "rt_sigaction"]),
    own("EPERM for clock_nanosleep", "filters", &["fails", "clock_nanosleep"]),
    own("EPERM for mmap", "filters", &["fails", "mmap"]),
    own("death for perf_event_open", "filters", &["kills", "perf_event_open"]),
    own("death for ioctl", "filters", &["kills", "ioctl"]),
    own("death for prctl", "filters", &["kills", "prctl"]),
    own("death for gettid", "filters", &["kills", "gettid"]),
    own("thread's death for gettid", "filters", &["kills_thread", "gettid"]),
    own("SIGSYS for sched_yield", "filters", &["traps", "sched_yield"]),
    own("owners of locks die", "locks", &["owners_die"]),
    own("reader/writer, spin and C11 locks", "locks", &["other_locks"]),
    own("pthread_cond_clockwait", "locks", &["limits"]),
    own("pthread_cancel", "locks", &["cancellation"]),
    own("pipes", "locks", &["pipes"]),
    own("dlopen, dlclose", "locks", &["libraries"]),
    own("exit while threads run", "ends", &["race"]).ends(Ends::With(21)),
    own("a thread in a destructor", "ends", &["late_thread"]).ends(Ends::With(23)),
    own("_exit in a handler", "ends", &["in_handler"]).ends(Ends::With(14)),
    own("io_uring", "kernel", &["io_uring"]),
    own("userfaultfd", "kernel", &["userfaultfd"]),
    own("memfd_secret", "kernel", &["secret"]),
    own("PR_SET_NAME", "kernel", &["name"]),
    own("PR_SET_DUMPABLE 0", "kernel", &["dumpable"]),
    own("PR_SET_TIMERSLACK", "kernel", &["slack"]),
    own("SUBREAPER, PDEATHSIG", "kernel", &["orphans"]),
    own("PR_SET_MM", "kernel", &["arguments"]),
    own("clone3 without a library", "kernel", &["raw_threads"]),
    real("Java", "java.sh"),
    real("OpenSSH's server", "sshd.sh"),
    real("Chromium", "chromium.sh"),
];

#[cfg(test)]
mod tests {
    use super::CORNERS;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_fit_into_the_printed_table() {
        let names: BTreeSet<_> = CORNERS.iter().map(|corner| corner.name).collect();
        assert_eq!(names.len(), CORNERS.len());
        assert!(names.iter().all(|name| name.len() <= 34), "{names:?}");
    }
}
