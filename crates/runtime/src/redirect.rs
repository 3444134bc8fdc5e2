//! Words of the program that hold addresses of the C library's functions: they lead to ours, and back.
//!
//! Each is exchanged by one instruction, so a thread that calls through it meanwhile goes to the one or the other. The pages of some can only be read
//! (RELRO): they are writable for a moment, which no other thread notices.

use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use wire::late::Entry;

const PAGE: usize = 4096;

/// A page that is writable for now.
struct Opened(Option<usize>);

impl Opened {
    /// Makes sure that the page of an entry can be written; whether it can.
    fn reach(&mut self, entry: &Entry) -> bool {
        let page = entry.place as usize & !(PAGE - 1);
        if self.0 == Some(page) {
            return true;
        }
        self.close();
        // The loader may have locked it since, or unloaded it.
        if entry.is_locked == 0 && sys::is_writable(page).unwrap_or(true) {
            return sys::is_readable(page, 8) == Ok(true);
        }
        let is_open = sys::protect(page, PAGE, true);
        self.0 = is_open.then_some(page);
        is_open
    }

    fn close(&mut self) {
        if let Some(page) = self.0.take() {
            sys::protect(page, PAGE, false);
        }
    }
}

/// The word of an entry.
fn word(entry: &Entry) -> &AtomicU64 {
    // SAFETY: the loader lists words of tables that are mapped, and the caller has made sure that they still are.
    unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(entry.place as usize) }
}

/// Has them lead to our functions; how many do.
pub fn redirect(entries: &[Entry]) -> i64 {
    let is_due = |entry: &Entry, now: u64| now == entry.before.load(Relaxed) || now == entry.real;
    each(entries, is_due, |entry| {
        let word = word(entry);
        // It may be bound while we look.
        for _ in 0..2 {
            let now = word.load(SeqCst);
            if now != entry.before.load(Relaxed) && now != entry.real {
                return false;
            }
            entry.before.store(now, Relaxed);
            if word.compare_exchange(now, entry.ours, SeqCst, SeqCst).is_ok() {
                entry.is_redirected.store(1, Relaxed);
                return true;
            }
        }
        false
    })
}

/// Has those that lead to our functions lead where they led before; how many there were.
pub fn restore(entries: &[Entry]) -> i64 {
    each(
        entries,
        |entry, now| now == entry.ours,
        |entry| {
            if entry.is_redirected.swap(0, Relaxed) == 0 {
                return false;
            }
            word(entry).compare_exchange(entry.ours, entry.before.load(Relaxed), SeqCst, SeqCst).is_ok()
        },
    )
}

/// Does `work` with each that `is_due` with what it holds now, and whose page can be written; how often that was done. Where a library has been
/// unloaded something else may be, whose pages stay as they are.
fn each(
    entries: &[Entry],
    is_due: impl Fn(&Entry, u64) -> bool,
    mut work: impl FnMut(&Entry) -> bool,
) -> i64 {
    let (mut opened, mut done) = (Opened(None), 0);
    for entry in entries {
        let mut now = [0];
        let is_read = sys::read_own(entry.place as usize, &mut now) == Some(size_of_val(&now));
        done += i64::from(is_read && is_due(entry, now[0] as u64) && opened.reach(entry) && work(entry));
    }
    opened.close();
    done
}
