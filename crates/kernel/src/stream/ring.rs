//! A ring, which the kernel writes and one reader reads.

use super::record::{self, Layout, Record};
use crate::clock::monotonic;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::Nanos;

/// Where `struct perf_event_mmap_page` has what is needed of it, in bytes.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// The ring of one CPU.
#[derive(Debug)]
pub struct Ring {
    /// The kernel's page, and behind it the data.
    mapping: NonNull<u8>,
    /// Bytes of data: a power of two.
    size: usize,
    /// How far the reader has looked, and how far the kernel had written when it was last asked; in bytes since the
    /// beginning.
    position: u64,
    head: u64,
    /// The record at `position`, where it goes over the end of the ring.
    straightened: Vec<u64>,
    /// Words of the record at `position`, and whether they are in `straightened`; none if there is no record.
    current: Option<(usize, bool)>,
    /// When the kernel was last asked how far it had written.
    refreshed: Nanos,
    /// The time of the record that was taken last.
    last: Nanos,
    pub(super) layout: Layout,
}

// SAFETY: the mapping belongs to this value alone; nothing in it belongs to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event: `size` bytes, a power of two and of whole pages.
    pub(super) fn map(event: &OwnedFd, size: usize, layout: Layout) -> io::Result<Self> {
        assert!(size.is_power_of_two() && size.is_multiple_of(page_size()), "{size} bytes");
        // SAFETY: a fresh mapping at an address that the kernel chooses touches nothing that exists.
        let mapping = unsafe {
            mmap(
                std::ptr::null_mut(),
                page_size() + size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event,
                0,
            )?
        };
        let mapping = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (position, head, straightened, current) = (0, 0, Vec::new(), None);
        let (refreshed, last) = (Nanos::ZERO, Nanos::ZERO);
        let mut ring = Self { mapping, size, position, head, straightened, current, refreshed, last, layout };
        ring.refresh();
        Ok(ring)
    }

    /// Sees what the kernel has written until now.
    pub fn refresh(&mut self) {
        // Pairs with the kernel's barrier between data and head: what lies before the head has been written.
        self.head = self.at(DATA_HEAD).load(Ordering::Acquire);
        self.refreshed = monotonic();
        if self.current.is_none() {
            self.load();
        }
    }

    /// Bytes between the reader and what has been seen.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.head - self.position
    }

    /// The time of the oldest record that has been seen and not been taken. If it says a time that had not come yet when it was seen, that of the one
    /// before: readers wait for times, and would for ever.
    #[must_use]
    pub fn time(&self) -> Option<Nanos> {
        let time = self.words().map(record::time)?;
        Some(if time > self.refreshed { self.last } else { time })
    }

    /// The record itself.
    #[must_use]
    pub fn record(&self) -> Option<Record<'_>> {
        let words = self.words()?;
        // SAFETY: the bytes of the words.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        Some(record::parse(self.layout, words, bytes))
    }

    /// Takes it.
    pub fn next(&mut self) {
        if let Some((words, _)) = self.current {
            self.last = self.time().unwrap_or(self.last);
            self.position += words as u64 * 8;
            self.load();
        }
    }

    /// Gives the room of the records that were taken back to the kernel.
    pub fn release(&mut self) {
        // Pairs with the kernel's load before it writes: the reads above are over.
        self.at(DATA_TAIL).store(self.position, Ordering::Release);
    }

    fn words(&self) -> Option<&[u64]> {
        let (words, straightened) = self.current?;
        if straightened {
            return Some(&self.straightened);
        }
        // SAFETY: `load` has seen that this many words follow without a break; the kernel writes into them again only
        // when `release` has given them back, which takes `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(self.word(self.position), words) })
    }

    /// Finds the end of the record at `position`.
    fn load(&mut self) {
        self.current = None;
        if self.backlog() < 8 {
            return;
        }
        // SAFETY: the header lies in front of the head, and does not go over the end: records are multiples of eight
        // bytes, and so is the ring.
        let header = unsafe { *self.word(self.position) };
        let bytes = (header >> 48) as usize;
        if bytes < 8 || !bytes.is_multiple_of(8) || bytes as u64 > self.backlog() {
            // Cannot be; there is no way to find the next record, so all that was seen is given up.
            self.position = self.head;
            return;
        }
        let place = self.position as usize & (self.size - 1);
        let straightened = place + bytes > self.size;
        if straightened {
            self.straightened.clear();
            for byte in (0..bytes as u64).step_by(8) {
                // SAFETY: as above.
                self.straightened.push(unsafe { *self.word(self.position + byte) });
            }
        }
        self.current = Some((bytes / 8, straightened));
    }

    /// The word at a position, which is a multiple of eight.
    fn word(&self, position: u64) -> *const u64 {
        let place = page_size() + (position as usize & (self.size - 1));
        // SAFETY: within the mapping.
        unsafe { self.mapping.as_ptr().add(place).cast() }
    }

    fn at(&self, place: usize) -> &AtomicU64 {
        // SAFETY: within the kernel's page, which is mapped as long as `self` lives; the kernel, too, uses these words as
        // a whole.
        unsafe { AtomicU64::from_ptr(self.mapping.as_ptr().add(place).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: nothing has a reference into it any more.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), page_size() + self.size) };
    }
}
