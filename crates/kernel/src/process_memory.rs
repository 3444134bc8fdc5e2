//! The memory of another process: proc_pid_mem(5).

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

/// The memory of a process as it was when it was opened: not that of a program that it executes later, nor of another process that gets
/// its number.
#[derive(Debug)]
pub struct ProcessMemory(File);

impl ProcessMemory {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` without the right to trace it (`CAP_SYS_PTRACE` for processes of others), `NotFound` if it
    /// has ended.
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills `bytes` with what lies at `address`. It may take forever: what is there may be a file of others.
    ///
    /// # Errors
    /// Where there is no memory, or the process has ended.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        if address >> 63 != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.0.read_exact_at(bytes, address)
    }

    /// The word at `address`; nothing where there is no memory.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

/// The memory of a process that is changed: also what it cannot write itself, of which it has a copy of its own from then on.
#[derive(Debug)]
pub struct TraceeMemory(File);

impl TraceeMemory {
    /// Opens it.
    ///
    /// # Errors
    /// As for [`ProcessMemory::open`].
    pub fn open(pid: u32) -> io::Result<Self> {
        File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills `bytes` with what lies at `address`.
    ///
    /// # Errors
    /// Where there is no memory, or the process has ended.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    /// Reads what lies at `address`, up to so many bytes: fewer where the memory ends before.
    ///
    /// # Errors
    /// Where there is no memory, or the process has ended.
    pub fn read_up_to(&self, address: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most];
        let read = self.0.read_at(&mut bytes, address)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Writes `bytes` to `address`.
    ///
    /// # Errors
    /// Where there is no memory, or the process has ended.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }

    /// The word at `address`.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// Numbers under which the kernel tells a program something at its start: getauxval(3).
pub mod told {
    /// Where its first instruction is.
    pub const ENTRY: u64 = 9;
}

/// What the kernel has told a program at its start, with the numbers of that.
///
/// # Errors
/// The kernel's.
pub fn told_at_start(pid: u32) -> io::Result<Vec<(u64, u64)>> {
    let vector = std::fs::read(format!("/proc/{pid}/auxv"))?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(vector.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect())
}

/// Where the first instruction of a process's program is.
///
/// # Errors
/// The kernel's; it has no program.
pub fn entry(pid: u32) -> io::Result<u64> {
    let told = told_at_start(pid)?;
    let entry = told.iter().find(|(number, _)| *number == told::ENTRY);
    entry.map(|(_, entry)| *entry).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The PID namespace of a process: device and inode.
///
/// # Errors
/// The kernel's.
pub fn pid_namespace(pid: u32) -> io::Result<(u64, u64)> {
    let about = std::fs::metadata(format!("/proc/{pid}/ns/pid"))?;
    Ok((about.dev(), about.ino()))
}

/// Whether two processes have the same memory, as one that was made by `vfork` has its parent's until it executes a program: kcmp(2). `None` if that
/// cannot be found out.
#[must_use]
pub fn is_shared(process: u32, other: u32) -> Option<bool> {
    const VM: libc::c_int = 1;
    let numbers = [process, other].map(u32::cast_signed);
    // SAFETY: numbers only; the kernel compares, and changes nothing.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, numbers[0], numbers[1], VM, 0_u64, 0_u64) };
    (order >= 0).then_some(order == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_where_there_is_some() {
        let memory = ProcessMemory::open(std::process::id()).unwrap();
        let ours = [7_u64, 8];
        assert_eq!(memory.word(&raw const ours as u64 + 8), Some(8));
        assert_eq!(memory.word(0), None);
        assert_eq!(memory.word(u64::MAX - 16), None);
        assert!(pid_namespace(std::process::id()).is_ok());
        // A number that no process has.
        assert!(ProcessMemory::open(1 << 29).is_err() && pid_namespace(1 << 29).is_err());
    }

    #[test]
    fn a_child_that_runs_another_program_has_memory_of_its_own() {
        let us = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let shared = [is_shared(us, us), is_shared(us, child.id())];
        child.kill().unwrap();
        child.wait().unwrap();
        // Nothing is known where the kernel cannot tell.
        assert!(matches!(shared, [Some(true), Some(false)] | [None, None]), "{shared:?}");
    }
}
