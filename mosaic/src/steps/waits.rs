//! Ways to let time pass, and files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{kernel, posix};
use crate::kinds::Wait;

/// Waits for `time`.
pub fn wait(how: Wait, time: Duration) {
    match how {
        Wait::Nanosleep => kernel::sleep(time),
        Wait::CondTimedwait => {
            let mutex = posix::Mutex::new();
            mutex.lock();
            posix::Condition::new().time_out(&mutex, time);
            mutex.unlock();
        }
        Wait::CondStd => {
            let mutex = Mutex::new(());
            let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
            drop(Condvar::new().wait_timeout_while(guard, time, |()| true));
        }
        Wait::CondParkingLot => {
            let mutex = parking_lot::Mutex::new(());
            parking_lot::Condvar::new().wait_while_for(&mut mutex.lock(), |()| true, time);
        }
        Wait::SemTimedwait => posix::Semaphore::new(0).time_out(time),
        Wait::Futex => {
            let (word, began) = (AtomicU32::new(0), Instant::now());
            while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
                kernel::futex_wait(&word, 0, Some(left));
            }
        }
        Wait::Poll => kernel::poll_nothing(time),
    }
}

/// A file without a name in the folder for temporary ones.
pub fn scratch() -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number only has to be another one.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mosaic-{}-{number}", std::process::id()));
    let file = File::create_new(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Writes so many bytes over the file's first ones, and waits for the disk if it is to `sync`.
pub fn write(file: &File, bytes: u32, sync: bool) -> io::Result<()> {
    file.write_all_at(&vec![b'm'; bytes as usize], 0)?;
    if sync { file.sync_data() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_takes_its_time() {
        for how in Wait::ALL {
            let (began, time) = (Instant::now(), Duration::from_millis(2));
            wait(*how, time);
            // The clock of the day may be set meanwhile, a little.
            assert!(began.elapsed() > time * 9 / 10, "{}", how.name());
        }
    }

    #[test]
    fn files_are_written() {
        let file = scratch().unwrap();
        write(&file, 100, true).unwrap();
        write(&file, 50, false).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100);
    }
}
