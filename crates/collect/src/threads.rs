//! What the threads of a process are called, so that samples can be told apart by thread.
//!
//! Threads inherit the name of the thread that starts them, and any program can give its threads as many names as it likes; so only so
//! many are kept apart for one process: then names that end in digits are taken together (`worker-*`), and in the end all others. The
//! threads of one pool take no more than half of that: threads of other names are still kept apart, also where those are sampled last.

use crate::labels::LabelIndex;
use std::collections::HashMap;

/// Names of one process that are kept as they are, and after these as many that are taken together.
const MOST_NAMES: usize = 64;
/// Those among them that differ only in the digits that they end in.
const MOST_OF_A_POOL: usize = 32;
/// Threads of one process whose names are known; of further ones they are not.
const MOST: usize = 1 << 15;
/// The name of threads that have one of too many names.
const OTHERS: &str = "[other threads]";
/// Memory that a thread takes, about, in bytes.
pub const A_THREAD: usize = 3 * size_of::<(u32, u16)>();

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// By thread, the place of its name.
    places: HashMap<u32, u16>,
    names: Vec<Name>,
    /// Some may have been there before they were looked for.
    pub is_partial: bool,
    /// How often a name was not kept as it is.
    folded: u64,
}

#[derive(Clone, Debug)]
struct Name {
    text: String,
    /// Not known again when something else is known of the process.
    label: Option<LabelIndex>,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// The label of its samples.
    Label(LabelIndex),
    /// Its name, and the place of it for [`Threads::set_label`].
    Name(&'a str, u16),
    /// Nothing.
    Nothing,
}

impl Threads {
    /// Of a process whose first thread has this name.
    pub fn of(first: u32, name: &str) -> Self {
        let mut threads = Self::default();
        threads.rename(first, name);
        threads
    }

    /// A thread has started another one.
    pub fn start(&mut self, thread: u32, by: u32) {
        match self.places.get(&by) {
            Some(&place) if self.has_room(thread) => drop(self.places.insert(thread, place)),
            _ => drop(self.places.remove(&thread)),
        }
    }

    /// A thread has another name. Whether it is kept as it is.
    pub fn rename(&mut self, thread: u32, name: &str) {
        if self.has_room(thread) {
            let place = self.place(name);
            self.places.insert(thread, place);
        }
    }

    /// A thread has ended.
    pub fn end(&mut self, thread: u32) {
        self.places.remove(&thread);
    }

    /// Forgets which threads there are: some may have been missed.
    pub fn doubt(&mut self) {
        self.places = HashMap::new();
        self.is_partial = true;
    }

    /// What is known of a thread.
    pub fn known(&self, thread: u32) -> Known<'_> {
        let Some(&place) = self.places.get(&thread) else { return Known::Nothing };
        let Name { text, label } = &self.names[usize::from(place)];
        label.map_or(Known::Name(text, place), Known::Label)
    }

    /// Whether more can be known of a thread.
    pub fn has_room(&self, thread: u32) -> bool {
        self.places.len() < MOST || self.places.contains_key(&thread)
    }

    /// The label of threads with the name at this place.
    pub fn set_label(&mut self, place: u16, label: LabelIndex) {
        if let Some(name) = self.names.get_mut(usize::from(place)) {
            name.label = Some(label);
        }
    }

    /// Something else is known of the process, so its threads have other labels.
    pub fn forget_labels(&mut self) {
        self.names.iter_mut().for_each(|name| name.label = None);
    }

    /// All labels that are in use.
    pub fn labels(&self) -> impl Iterator<Item = LabelIndex> {
        self.names.iter().filter_map(|name| name.label)
    }

    /// How often a name was not kept as it is, since the last call.
    pub fn take_folded(&mut self) -> u64 {
        std::mem::take(&mut self.folded)
    }

    /// Memory it takes, about, in bytes.
    pub fn bytes(&self) -> usize {
        let names = self.names.iter().map(|name| size_of::<Name>() + name.text.len()).sum::<usize>();
        size_of::<Self>() + self.places.len() * A_THREAD + names
    }

    fn place(&mut self, name: &str) -> u16 {
        if let Some(place) = self.find(name) {
            return place;
        }
        let stem = stem(name);
        let is_of_a_pool = stem.len() < name.len();
        let of_pool = |known: &&Name| known.text.len() > stem.len() && self::stem(&known.text) == stem;
        let is_large_pool = is_of_a_pool && self.names.iter().filter(of_pool).count() >= MOST_OF_A_POOL;
        if self.names.len() < MOST_NAMES && !is_large_pool {
            return self.add(name);
        }
        self.folded += 1;
        let together = if is_of_a_pool { format!("{stem}*") } else { name.to_owned() };
        match self.find(&together) {
            Some(place) => place,
            None if self.names.len() < 2 * MOST_NAMES && is_of_a_pool => self.add(&together),
            None => self.find(OTHERS).unwrap_or_else(|| self.add(OTHERS)),
        }
    }

    fn find(&self, name: &str) -> Option<u16> {
        self.names.iter().position(|known| known.text == name).map(|place| place as u16)
    }

    fn add(&mut self, name: &str) -> u16 {
        self.names.push(Name { text: name.to_owned(), label: None });
        (self.names.len() - 1) as u16
    }
}

/// A name without the digits that it ends in.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(threads: &Threads, thread: u32) -> &str {
        match threads.known(thread) {
            Known::Name(name, _) => name,
            _ => "",
        }
    }

    #[test]
    fn threads_inherit_names_and_keep_those_that_they_are_given() {
        let mut threads = Threads::of(10, "server");
        threads.start(11, 10);
        threads.rename(12, "worker");
        threads.start(13, 12);
        threads.rename(10, "renamed");
        let all = |threads: &Threads| [10, 11, 12, 13].map(|of| name(threads, of).to_owned());
        assert_eq!(all(&threads), ["renamed", "server", "worker", "worker"]);
        let Known::Name(_, place) = threads.known(12) else { panic!() };
        threads.set_label(place, LabelIndex(7));
        assert_eq!(threads.known(13), Known::Label(LabelIndex(7)));
        assert_eq!(threads.labels().collect::<Vec<_>>(), [LabelIndex(7)]);
        threads.forget_labels();
        assert_eq!(all(&threads), ["renamed", "server", "worker", "worker"]);
        threads.end(13);
        threads.start(14, 13);
        assert_eq!((threads.known(13), threads.known(14)), (Known::Nothing, Known::Nothing));
    }

    #[test]
    fn names_that_are_too_many_are_taken_together() {
        let mut threads = Threads::of(1, "server");
        for number in 0..MOST_OF_A_POOL as u32 + 20 {
            threads.rename(100 + number, &format!("worker-{number}"));
        }
        assert_eq!(name(&threads, 100), "worker-0");
        assert_eq!(name(&threads, 100 + MOST_OF_A_POOL as u32 + 19), "worker-*");
        assert_eq!(threads.take_folded(), 20);
        // There is room for others still: for those that were met before, and for those that are met after the pool.
        for (thread, kept) in ["logger", "worker", "worker-x", "db-1"].into_iter().enumerate() {
            threads.rename(thread as u32, kept);
            assert_eq!(name(&threads, thread as u32), kept);
        }
        (0..MOST_NAMES as u32).for_each(|number| threads.rename(200 + number, &format!("db-{number}")));
        threads.take_folded();
        assert_eq!(threads.take_folded(), 0);
        for (thread, (given, kept)) in
            [("worker-0", "worker-0"), ("io 7", "io *"), ("12", "*"), ("plain", OTHERS), ("", OTHERS)]
                .into_iter()
                .enumerate()
        {
            threads.rename(thread as u32, given);
            assert_eq!(name(&threads, thread as u32), kept);
        }
        // Whatever a program does, they do not grow.
        for number in 0..100_000 {
            let letters: String = (0..6).map(|at| (b'a' + (number >> (4 * at) & 15) as u8) as char).collect();
            threads.rename(number, &format!("{letters}{number}"));
        }
        assert!(threads.names.len() <= 2 * MOST_NAMES + 1, "{}", threads.names.len());
        assert_eq!(threads.places.len(), MOST);
        assert!(threads.bytes() < 1 << 20);
    }
}
