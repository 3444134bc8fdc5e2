//! What stands in the way of attaching to a process, found out before anything is touched.

use kernel::process_memory::TraceeMemory;
use kernel::tracee::{Tracee, Trouble, release_late};
use rustix::process::geteuid;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;
use wire::filter::lets_us_attach;

/// Why a process is left alone.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no process {0}; find it with: pgrep -a NAME")]
    Missing(u32),
    #[error("process {0} is whatif itself")]
    Own(u32),
    #[error("process {0} has ended, and waits for its parent to notice")]
    Ended(u32),
    #[error("process {0} is a thread of process {1}: whatif attach {1}")]
    Thread(u32, u32),
    #[error("process {0} belongs to the kernel, which can be profiled with: whatif collect")]
    Kernel(u32),
    #[error("process {0} is stopped; continue it first: kill -CONT {0}")]
    Stopped(u32),
    #[error(
        "process {0} shares its memory with process {1}, which has made it by vfork, until it executes a program"
    )]
    SharesMemory(u32, u32),
    #[error("process {0} is traced by process {1} (a debugger, strace); end that first")]
    Traced(u32, u32),
    #[error(
        "process {0} is under a seccomp filter, which may kill it for the system calls that sampling needs; run whatif as root, which may look at the filter, or \
         start the program with: whatif run"
    )]
    Seccomp(u32),
    #[error(
        "the seccomp filter of process {0} does not allow the system calls that sampling needs; start it without the filter, or with: whatif run"
    )]
    Filtered(u32),
    #[error(
        "process {0} is under a seccomp filter that the kernel does not show ({1}); start it with: whatif run"
    )]
    Hidden(u32, std::io::Error),
    #[error(
        "process {0} uses shadow stacks, which do not let others call functions in it; start it anew with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK"
    )]
    ShadowStack(u32),
    #[error("process {0} is not a program for x86-64 (64 bits), and nothing else is supported")]
    Architecture(u32),
    #[error("process {0} is in a container with process numbers of its own; run whatif as root, or in there")]
    ProcessNumbers(u32),
    #[error(
        "the program of process {pid} is not at {} any more, or in another mount name space: restart it, or run whatif as root, or in its container",
        profile::printable(&path.display().to_string())
    )]
    Replaced { pid: u32, path: PathBuf },
    #[error(
        "process {0} belongs to another user; run whatif as root, or as that one: sudo -u '#{1}' whatif attach {0}"
    )]
    OtherUser(u32, u32),
    #[error(
        "process {0} has more rights than you, or does not let others look at it; start it with: whatif run"
    )]
    Rights(u32),
    #[error(
        "process {0} may not be traced by others than its parents here; allow it with: sudo sysctl kernel.yama.ptrace_scope=0 \
         (until the next start)"
    )]
    Yama(u32),
    #[error(
        "no process may trace another one here (kernel.yama.ptrace_scope is 3 until the next start): process {0} has to be started with: whatif run"
    )]
    Forbidden(u32),
    #[error("process {0} cannot be looked at: {1}")]
    Unknown(u32, std::io::Error),
}

/// Whether a process can be attached to, as far as can be seen from outside; its program.
///
/// # Errors
/// Why not.
pub fn check(pid: u32) -> Result<PathBuf, Refusal> {
    if pid == std::process::id() {
        return Err(Refusal::Own(pid));
    }
    let status = status_of(&format!("/proc/{pid}/status")).ok_or(Refusal::Missing(pid))?;
    let field = |name: &str| field(&status, name);
    let number = |name: &str| field(name).parse::<u32>().unwrap_or(0);
    if number("Tgid") != pid {
        return Err(Refusal::Thread(pid, number("Tgid")));
    }
    match field("State").chars().next() {
        Some('Z' | 'X') => return Err(Refusal::Ended(pid)),
        Some('T') => return Err(Refusal::Stopped(pid)),
        _ => {}
    }
    if number("TracerPid") != 0 {
        return Err(Refusal::Traced(pid, number("TracerPid")));
    }
    if field("Kthread") == "1" || field("VmSize").is_empty() {
        return Err(Refusal::Kernel(pid));
    }
    let user = geteuid().as_raw();
    let of_other = |id: &str| id.parse().ok().filter(|id| *id != user);
    if let Some(other) = field("Uid").split_ascii_whitespace().find_map(of_other).filter(|_| user != 0) {
        return Err(Refusal::OtherUser(pid, other));
    }
    if field("x86_Thread_features").contains("shstk") {
        return Err(Refusal::ShadowStack(pid));
    }
    if field("NSpid").split_ascii_whitespace().count() > 1 {
        return Err(Refusal::ProcessNumbers(pid));
    }
    may_trace(pid)?;
    if kernel::process_memory::is_shared(pid, number("PPid")) == Some(true) {
        return Err(Refusal::SharesMemory(pid, number("PPid")));
    }
    let link = format!("/proc/{pid}/exe");
    let unknown = |error| Refusal::Unknown(pid, error);
    let path = std::fs::read_link(&link).map_err(unknown)?;
    if !is_supported(&link).map_err(unknown)? {
        return Err(Refusal::Architecture(pid));
    }
    let runs = std::fs::metadata(&link).map_err(unknown)?;
    let is_there =
        std::fs::metadata(&path).is_ok_and(|file| (file.dev(), file.ino()) == (runs.dev(), runs.ino()));
    if is_there { Ok(path) } else { Err(Refusal::Replaced { pid, path }) }
}

/// The text of a `status` file; the name of a thread need not be UTF-8.
fn status_of(path: &str) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What it says under a name.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

/// Whether a program that this process starts can be traced, as far as that can be known before: the filters of a container may not allow it, nor what it takes to find out.
pub fn may_trace_what_it_starts() -> bool {
    let is_filtered = status_of("/proc/self/status").is_none_or(|status| field(&status, "Seccomp") != "0");
    !is_filtered && ptrace_scope() != NO_PROCESS
}

/// Yama: no process may trace another one.
const NO_PROCESS: &str = "3";

/// What Yama allows; empty without it.
fn ptrace_scope() -> String {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.unwrap_or_default().trim().to_owned()
}

/// Whether the kernel lets us.
fn may_trace(pid: u32) -> Result<(), Refusal> {
    let Err(error) = TraceeMemory::open(pid) else { return Ok(()) };
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return Err(Refusal::Unknown(pid, error));
    }
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|folder| folder.uid());
    let is_own = owner.is_ok_and(|owner| owner == geteuid().as_raw());
    Err(match &*ptrace_scope() {
        NO_PROCESS => Refusal::Forbidden(pid),
        "1" | "2" if is_own => Refusal::Yama(pid),
        _ => Refusal::Rights(pid),
    })
}

/// Whether the seccomp filters of its threads allow what sampling needs. Each thread may have filters of its own, and is stopped for a moment to look at them.
///
/// # Errors
/// They do not, or that cannot be found out.
pub fn check_filters(pid: u32) -> Result<(), Refusal> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Refusal::Missing(pid))?;
    let is_filtered = |thread: &PathBuf| {
        let status = status_of(&thread.join("status").to_string_lossy());
        status.is_some_and(|status| ["1", "2"].contains(&&*field(&status, "Seccomp")))
    };
    let filtered = threads.flatten().map(|thread| thread.path()).filter(is_filtered);
    let number = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
    let filtered: Vec<u32> = filtered.filter_map(number).collect();
    if filtered.is_empty() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(Refusal::Seccomp(pid));
    }
    // One of them may stop too late: what this thread has not let go, the kernel does when it ends.
    let look = || filtered.iter().try_for_each(|thread| check_filters_of(pid, *thread));
    std::thread::scope(|scope| scope.spawn(look).join()).unwrap_or(Err(Refusal::Seccomp(pid)))
}

fn check_filters_of(pid: u32, thread: u32) -> Result<(), Refusal> {
    /// It goes on as soon as it has stopped, so it may take its time.
    const PATIENCE: Duration = Duration::from_secs(2);
    let tracee = match Tracee::stop(thread, PATIENCE) {
        Ok(tracee) => tracee,
        Err(Trouble::Gone) => return Ok(()),
        Err(Trouble::Refused(error)) => return Err(Refusal::Unknown(pid, error)),
        Err(Trouble::Stuck) => {
            // It may do so any moment, and is not to be called away then.
            release_late(thread);
            return Err(Refusal::Unknown(pid, std::io::Error::other(Trouble::Stuck.to_string())));
        }
        Err(trouble) => return Err(Refusal::Unknown(pid, std::io::Error::other(trouble.to_string()))),
    };
    let filters = tracee.filters().map_err(|error| Refusal::Hidden(pid, error))?;
    // In strict mode there are none.
    let allows_us = !filters.is_empty() && filters.iter().all(|filter| lets_us_attach(filter));
    if allows_us { Ok(()) } else { Err(Refusal::Filtered(pid)) }
}

/// Whether a file is a program for this architecture.
fn is_supported(path: &str) -> std::io::Result<bool> {
    let mut header = [0; 20];
    std::fs::File::open(path)?.read_exact(&mut header)?;
    Ok(header[..5] == [0x7f, b'E', b'L', b'F', 2] && header[18..20] == [62, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_attached_to_is_told_apart() {
        assert!(matches!(check(std::process::id()), Err(Refusal::Own(_))));
        assert!(matches!(check(u32::MAX >> 1), Err(Refusal::Missing(_))));
        // The kernel's first thread, where it can be seen.
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
            assert!(matches!(check(2), Err(Refusal::Kernel(2))));
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        assert!(matches!(check(pid), Err(Refusal::Ended(_))));
        child.wait().unwrap();
    }
}
