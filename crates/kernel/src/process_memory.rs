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

/// The PID namespace of a process: device and inode.
///
/// # Errors
/// The kernel's.
pub fn pid_namespace(pid: u32) -> io::Result<(u64, u64)> {
    let about = std::fs::metadata(format!("/proc/{pid}/ns/pid"))?;
    Ok((about.dev(), about.ino()))
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
}
