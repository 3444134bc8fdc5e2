//! Diary: what happened and is not in the journal yet. On a full disk it waits.

use archive::{Entry, EntryKind, EpochId, Store, UnixSeconds};

/// Entries that wait at a time; more are not kept.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub struct Diary(Vec<Entry>);

impl Diary {
    /// Notes what happened.
    pub fn note(&mut self, at: UnixSeconds, kind: EntryKind, value: f64, detail: String) {
        if self.0.len() < MOST {
            self.0.push(Entry { at, kind, value, detail });
        }
    }

    /// Writes it down, if that is possible now.
    pub fn write(&mut self, store: &mut Store, epoch: EpochId) {
        if store.note(epoch, &self.0).is_ok() {
            self.0.clear();
        }
    }
}
