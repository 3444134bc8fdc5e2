//! The shared memory: a sealed memfd, mapped forever.

use crate::clock;
use crate::file_size_limit::Lifted;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::thread::futex;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use wire::slot::Totals;
use wire::{Epoch, Nanos, SharedMemory};

/// The memory that controller and runtime share.
///
/// The mapping stays until the process ends: `'static` references to it are handed out. The descriptor
/// closes on exec; [`child::spawn`](crate::child::spawn) lets one child keep it.
#[derive(Debug)]
pub struct SharedMapping {
    fd: OwnedFd,
    memory: &'static SharedMemory,
}

impl SharedMapping {
    /// Creates the file and maps it. The controller's half of the handshake is [`wire::Header::offer`].
    ///
    /// # Errors
    /// The error of `memfd_create`, `ftruncate` or `mmap`: too many open files, or an address-space limit
    /// (`ulimit -v`) below [`SharedMemory::SIZE`]. `FileTooLarge` if files must be smaller than that (`ulimit -Hf`); ignore SIGXFSZ
    /// to live to see it.
    pub fn create() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match memfd_create("whatif", flags | MemfdFlags::NOEXEC_SEAL) {
            // Linux before 6.3 does not know the flag; later ones warn in the log when it is missing.
            Err(Errno::INVAL) => memfd_create("whatif", flags)?,
            other => other?,
        };
        give_size(&fd)?;
        Self::begin(fd)
    }

    /// The same of a file that another process has created, with permission to seal it.
    ///
    /// # Errors
    /// As for [`create`](Self::create); `InvalidData` if it is no such file, or one that could shrink.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        if fstat(&fd)?.st_size.cast_unsigned() != SharedMemory::SIZE as u64 {
            give_size(&fd)?;
        }
        // Only files in memory have seals.
        if !fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::begin(fd)
    }

    fn begin(fd: OwnedFd) -> io::Result<Self> {
        let memory = map(&fd)?;
        let (ticks, time) = clock::with_ticks();
        memory.header.clock_ticks.store(ticks, Relaxed);
        memory.header.clock_time.store(time.0, Relaxed);
        Ok(Self { fd, memory })
    }

    /// The sums over all threads in the memory of another controller, which may have ended.
    ///
    /// # Errors
    /// `InvalidData` if it is no such file, or one that could shrink; the error of `fstat`, `fcntl` or `mmap`.
    pub fn totals_of(fd: &OwnedFd) -> io::Result<Totals> {
        let size = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
        let is_sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
        if size != SharedMemory::SIZE as u64 || !is_sealed {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = map(fd)?;
        let totals = memory.slots.totals();
        let start = std::ptr::from_ref(memory).cast_mut().cast();
        // SAFETY: the mapping that was made above, to which there is no other reference, and none after this.
        unsafe { munmap(start, SharedMemory::SIZE)? };
        Ok(totals)
    }

    /// The memory. It stays mapped when `self` is dropped.
    #[must_use]
    pub fn memory(&self) -> &'static SharedMemory {
        self.memory
    }

    /// The file, for the child to inherit.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Asks the program to wait before its first instruction, or lets it go.
    pub fn hold(&self, hold: bool) {
        let word = &self.memory.header.hold;
        word.store(u32::from(hold), Release);
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Lets the program go on that has joined with this thread and waits for its points.
    pub fn let_go(slot: &wire::slot::Slot) {
        slot.placed.store(1, Release);
        let _ = futex::wake(&slot.placed, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Begins `epoch`, whose experiment has been described already, ends every pause of the epoch before,
    /// and returns the delay that `required` had reached in it.
    pub fn begin_epoch(&self, epoch: Epoch) -> Nanos {
        let before = self.memory.begin(epoch);
        // Not PRIVATE: the waiters are in other processes. Fails only for a bad address.
        let _ = futex::wake(&self.memory.header.epoch, futex::Flags::empty(), i32::MAX as u32);
        before
    }
}

impl Drop for SharedMapping {
    /// The mapping stays, but what it holds of callers is given back: some megabytes for each of many runs. A program
    /// that still runs finds callers by frame pointers from now on.
    fn drop(&mut self) {
        let start = std::mem::offset_of!(SharedMemory, unwind);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let length = size_of::<wire::unwind::Unwind>() as u64;
        // Refused by old kernels: then it takes more memory.
        let _ = fallocate(&self.fd, flags, start as u64, length);
    }
}

/// Gives a new file its size, and keeps it from getting another.
fn give_size(fd: &OwnedFd) -> io::Result<()> {
    let size = SharedMemory::SIZE as u64;
    let lifted = Lifted::for_size(size);
    ftruncate(fd, size)?;
    drop(lifted);
    // A profiled program that truncated the file would kill the controller with SIGBUS.
    fcntl_add_seals(fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(())
}

/// Maps the file at an address that is aligned as the layout asks, which is to more than a page.
fn map(fd: &OwnedFd) -> io::Result<&'static SharedMemory> {
    let align = align_of::<SharedMemory>();
    let reserved = SharedMemory::SIZE + align;
    // SAFETY: a fresh mapping at an address that the kernel chooses touches nothing that exists.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), reserved, ProtFlags::empty(), MapFlags::PRIVATE)?.cast::<u8>()
    };
    let before = start.align_offset(align);
    let after = align - before;
    let read_write = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: everything lies within the mapping above, which nothing else knows: `SIZE` bytes from
    // `before` are replaced by the file, the rest on either side is given back.
    unsafe {
        let aligned = start.add(before);
        let mapped =
            mmap(aligned.cast(), SharedMemory::SIZE, read_write, MapFlags::SHARED | MapFlags::FIXED, fd, 0);
        if let Err(error) = mapped {
            let _ = munmap(start.cast(), reserved);
            return Err(error.into());
        }
        if before > 0 {
            let _ = munmap(start.cast(), before);
        }
        if after > 0 {
            let _ = munmap(aligned.add(SharedMemory::SIZE).cast(), after);
        }
        // The file has the right size, cannot shrink (sealed), and the mapping is never undone.
        Ok(SharedMemory::at(aligned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn two_mappings_of_one_file_see_each_other() {
        let shared = SharedMapping::create().unwrap();
        let other = map(&shared.fd).unwrap();
        assert!(!other.header.accept(42, 7), "nothing was offered");
        shared.memory().header.offer(7);
        assert!(!other.header.accept(42, 8));
        assert_eq!(
            (shared.memory().header.handshake(), shared.memory().header.build_ids()),
            (wire::Handshake::Mismatch, (7, 8))
        );
        assert!(other.header.accept(42, 7));
        other.header.attached();
        assert_eq!(shared.memory().header.handshake(), wire::Handshake::Attached);
        assert_eq!(shared.begin_epoch(Epoch(7)), Nanos::ZERO);
        assert_eq!(other.header.epoch(), Epoch(7));
        assert!(std::ptr::from_ref(other).is_aligned());
    }

    #[test]
    fn a_new_epoch_wakes_who_pauses_on_the_old_one() {
        let shared = SharedMapping::create().unwrap();
        let other = map(&shared.fd).unwrap();
        let woken = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while other.header.epoch() == Epoch(0) {
                    let _ = futex::wait(&other.header.epoch, futex::Flags::empty(), 0, None);
                }
                woken.store(true, Ordering::Release);
            });
            shared.begin_epoch(Epoch(1));
        });
        assert!(woken.load(Ordering::Acquire));
    }

    #[test]
    fn a_slot_that_is_taken_has_no_descriptor_and_no_timer_of_the_programs() {
        let shared = SharedMapping::create().unwrap();
        let slots = &shared.memory().slots;
        let of =
            |slot: &wire::slot::Slot| [&slot.event, &slot.timer].map(|word| word.load(Ordering::Acquire));
        let taken = slots.take().unwrap();
        assert_eq!(of(taken), [-1, -1]);
        taken.event.store(7, Ordering::Release);
        slots.give_back(taken);
        assert_eq!(of(slots.take_same(0).unwrap()), [-1, -1], "nor those of the thread before");
    }

    #[test]
    fn the_file_cannot_shrink() {
        let shared = SharedMapping::create().unwrap();
        assert!(ftruncate(shared.fd(), 0).is_err());
        let slot = shared.memory().slots.take().unwrap();
        slot.books.paid.store(7, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(SharedMapping::totals_of(&shared.fd).unwrap().paid, Nanos(7));
        let other = memfd_create("other", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&other, SharedMemory::SIZE as u64).unwrap();
        assert!(SharedMapping::totals_of(&other).is_err(), "it could shrink");
    }
}
