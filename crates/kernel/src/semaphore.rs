//! Semaphores of guarded probes (USDT): a counter of 16 bits in a program's own data. A program prepares what such a probe tells, and executes it, only while its
//! counter is not zero. A profiler that wants the probe adds one to it, and takes that away again.
//!
//! It is done here in the memory of one process ([`proc_pid_mem(5)`]), which takes no more right than to trace it. Where the kernel watches a probe by a uprobe, it does so itself
//! in all processes that run the file.
//!
//! [`proc_pid_mem(5)`]: https://man7.org/linux/man-pages/man5/proc_pid_mem.5.html

use crate::maps::{FileId, private_data};
use crate::process_memory::TraceeMemory;
use std::io;
use wire::Address;

/// That of a probe in one process. It stays that process's: where another program has been executed since, or another process has got its number, nothing is written.
#[derive(Debug)]
pub struct Semaphore {
    memory: TraceeMemory,
    address: Address,
    file: FileId,
}

impl Semaphore {
    /// That of the process `pid` at `address`.
    ///
    /// # Errors
    /// `NotFound` if the process has gone or has no data of its own there, `PermissionDenied` if we may not trace it.
    pub fn of(pid: u32, address: Address) -> io::Result<Self> {
        let memory = TraceeMemory::open(pid)?;
        // Read behind: the memory is that of the program that runs now, or of none.
        let file = private_data(pid, address, 2)?.ok_or(io::ErrorKind::NotFound)?;
        let semaphore = Self { memory, address, file };
        semaphore.count()?;
        Ok(semaphore)
    }

    /// The file whose data it is in.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// How many want the probe.
    ///
    /// # Errors
    /// `UnexpectedEof` if the program has ended; the kernel's error.
    pub fn count(&self) -> io::Result<u16> {
        let mut count = [0; 2];
        self.memory.read(self.address.0, &mut count)?;
        Ok(u16::from_ne_bytes(count))
    }

    /// One more does.
    ///
    /// # Errors
    /// As for [`count`](Self::count); `InvalidData` if there are too many.
    pub fn up(&self) -> io::Result<()> {
        let count = self.count()?.checked_add(1).ok_or(io::ErrorKind::InvalidData)?;
        self.memory.write(self.address.0, &count.to_ne_bytes())
    }

    /// One less does, if any does.
    ///
    /// # Errors
    /// As for [`count`](Self::count).
    pub fn down(&self) -> io::Result<()> {
        match self.count()?.checked_sub(1) {
            Some(count) => self.memory.write(self.address.0, &count.to_ne_bytes()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

    static GUARD: AtomicU16 = AtomicU16::new(3);
    static CONSTANT: u16 = 3;

    #[test]
    fn it_is_counted_up_and_down_in_the_memory_of_a_process() {
        let at = |address: usize| Semaphore::of(std::process::id(), Address(address as u64));
        let semaphore = match at((&raw const GUARD).addr()) {
            Ok(semaphore) => semaphore,
            Err(error) => {
                return eprintln!("skipped: the memory of processes cannot be written here: {error}");
            }
        };
        semaphore.up().unwrap();
        assert_eq!((GUARD.load(Relaxed), semaphore.count().unwrap()), (4, 4));
        (0..5).for_each(|_| semaphore.down().unwrap());
        assert_eq!(GUARD.load(Relaxed), 0, "and not below");
        GUARD.store(u16::MAX, Relaxed);
        assert!(semaphore.up().is_err() && GUARD.load(Relaxed) == u16::MAX);
        let own = crate::maps(std::process::id()).unwrap();
        let here = own.iter().find(|mapping| mapping.contains(semaphore.address)).unwrap();
        assert_eq!(semaphore.file(), here.file);
        // Constants, code, and what is not there.
        let code = it_is_counted_up_and_down_in_the_memory_of_a_process as fn() as usize;
        for address in [(&raw const CONSTANT).addr(), code, 8] {
            assert!(at(address).is_err(), "{address:x}");
        }
        // A number that no process has.
        assert!(Semaphore::of(1 << 29, semaphore.address).is_err());
    }
}
