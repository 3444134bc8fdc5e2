//! What a child process has used, when it has ended: wait4(2).

use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// What a process, and the children that it has waited for, have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// CPU time, of user and kernel.
    pub cpu: Duration,
    /// The most memory that one of the processes had resident, in bytes.
    pub memory: u64,
}

/// Waits until a child ends.
///
/// # Errors
/// The kernel's error: there is no such child any more.
pub fn wait(child: Child) -> io::Result<(ExitStatus, Used)> {
    use std::os::unix::process::ExitStatusExt as _;
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    // SAFETY: all zeros is a valid `rusage`.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the kernel writes to two variables of ours.
        let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) };
        if ended == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // It has been reaped: nothing of it is to be waited for.
    drop(child);
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.max(0).cast_unsigned())
            + Duration::from_micros(time.tv_usec.max(0).cast_unsigned())
    };
    let used = Used {
        cpu: time(used.ru_utime) + time(used.ru_stime),
        memory: used.ru_maxrss.max(0).cast_unsigned() * 1024,
    };
    Ok((ExitStatus::from_raw(status), used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_child_has_used_something() {
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let (status, used) = wait(child).unwrap();
        assert_eq!(status.code(), Some(3));
        // Less than a minute, and a shell takes more than 100 kB.
        assert!(used.cpu < Duration::from_secs(60) && used.memory > 100_000, "{used:?}");
    }
}
