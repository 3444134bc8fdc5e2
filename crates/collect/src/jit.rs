//! Code that programs generate while they run, and the names that they write down for it in `/tmp/perf-PID.map`.

use crate::errands::Errands;
use crate::hash::mix;
use crate::images::{ImageIndex, Images};
use crate::limits::Shares;
use crate::origin::Origin;
use archive::{ImageKind, LIST_GIVEN_UP};
use kernel::perf_map::{Limits, PerfMap};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use symbols::JitMap;
use wire::{Address, Nanos};

/// How much is read of a file while its process runs, in bytes.
const RUNNING: Limits = Limits { longest: 16 << 20, at_once: 1 << 20 };
/// How much is read of a file that a process has left behind, in bytes.
const LEFT: Limits = Limits { longest: 64 << 20, at_once: 1 << 20 };
/// Memory that a name takes besides its letters, about, in bytes.
const A_NAME: usize = 96;
/// What a list counts for besides its functions, in bytes: each takes a descriptor, so there should not be thousands.
const A_LIST: usize = 1 << 15;
/// Time between two looks whether a file is what it was.
const PATIENCE: Nanos = Nanos(1_000_000_000);
/// Time that passes for each byte that was read of a user's lists before any of them is read again: a megabyte a second.
const A_BYTE: Nanos = Nanos(1000);
/// After so much time, a user's lists may be read at once.
const SAVED: Nanos = Nanos(32_000_000_000);

/// The generated code of all processes.
#[derive(Debug)]
pub struct Generated {
    origin: Origin,
    processes: HashMap<u32, Process>,
    /// Memory that the lists of all processes take.
    shares: Shares,
    /// Memory that the list of one process may take, in bytes.
    most: usize,
    errands: Errands,
    /// Until when what was read of a user's lists counts.
    read: HashMap<u32, Nanos>,
    /// The names of functions, by their numbers.
    names: HashMap<(ImageIndex, u64), String>,
    /// Bytes that those take, about.
    bytes: usize,
    /// Processes in whose code there are names that were not there before the last [`take_grown`](Self::take_grown).
    grown: HashSet<u32>,
}

#[derive(Debug)]
struct Process {
    user: u32,
    looked: Nanos,
    /// Nothing if it was too long, or could not be read.
    list: Option<List>,
}

/// The list of a process, and what was read of it.
#[derive(Debug)]
struct List {
    file: PerfMap,
    map: JitMap,
}

impl Generated {
    /// Nothing has been generated. All lists together may take `most` bytes of memory.
    pub fn new(origin: Origin, most: usize) -> Self {
        Self {
            origin,
            processes: HashMap::new(),
            shares: Shares::new(most),
            // So that one does not leave nothing to all others of its user.
            most: most / 2,
            errands: Errands::default(),
            read: HashMap::new(),
            names: HashMap::new(),
            bytes: 0,
            grown: HashSet::new(),
        }
    }

    /// The function of process `pid` (called `name`, run by `user`) at an address without a file.
    pub fn locate(
        &mut self,
        pid: u32,
        user: u32,
        name: &str,
        address: Address,
        now: Nanos,
        images: &mut Images,
    ) -> Option<(ImageIndex, u64)> {
        let list = match self.origin {
            Origin::Here => PerfMap::of as fn(u32) -> PerfMap,
            Origin::Recorded { same_machine: true } => PerfMap::left_by,
            Origin::Recorded { same_machine: false } => return None,
        };
        if let Entry::Vacant(vacant) = self.processes.entry(pid) {
            let list = Some(List { file: list(pid), map: JitMap::limited(self.most) });
            let process = vacant.insert(Process { user, looked: Nanos::ZERO, list });
            self.shares.change(user, 0, process.bytes());
        }
        if self.processes[&pid].name(address).is_none() {
            self.look_at(pid, now);
        }
        let process = &self.processes[&pid];
        if process.list.is_none() {
            return Some((images.intern(ImageKind::Memory, LIST_GIVEN_UP.as_bytes(), &[]), 0));
        }
        let function = process.name(address)?.to_owned();
        Some(self.position(name, function, images))
    }

    /// Looks now and then at the files that there are: code may lie where other code lay.
    pub fn look(&mut self, now: Nanos) {
        let open = |process: &Process| process.list.as_ref().is_some_and(|list| list.file.is_open());
        let due = self.processes.iter().filter(|(_, process)| open(process) && process.is_due(now));
        let due: Vec<u32> = due.map(|(pid, _)| *pid).collect();
        due.into_iter().for_each(|pid| self.look_at(pid, now));
    }

    /// Reads what the list of a process has more than before, unless it was read just now, or much was read of its user's lists.
    fn look_at(&mut self, pid: u32, now: Nanos) {
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.is_due(now)) else {
            return;
        };
        let before = process.bytes();
        if process.list.is_none() {
            return;
        }
        let until = self.read.get(&process.user).copied().unwrap_or_default();
        if self.origin.is_here() && until > now {
            return;
        }
        if !self.errands.accepts(process.user) {
            return;
        }
        process.looked = now;
        let Some(list) = process.list.take() else { return };
        let found = match self.origin.is_here() {
            true => self.errands.run(process.user, move || list.read(RUNNING)),
            false => Some(list.read(LEFT)),
        };
        let (list, (is_different, read)) = found.map_or((None, (true, 0)), |(list, read)| (Some(list), read));
        process.list = list.filter(|list| !list.map.is_full());
        if is_different {
            self.grown.insert(pid);
        }
        if read > 0 {
            let begin = until.max(now.saturating_sub(SAVED));
            self.read.insert(process.user, Nanos(begin.0 + A_BYTE.0 * read));
        }
        self.shares.change(process.user, before, process.bytes());
        self.make_room();
    }

    /// Gives up lists, the longest first, of the users that take most, until what is left may be kept.
    fn make_room(&mut self) {
        while let Some(user) = self.shares.too_much() {
            let of_user = self.processes.iter_mut().filter(|(_, process)| process.user == user);
            let Some((pid, process)) = of_user.max_by_key(|(_, process)| process.bytes()) else { return };
            self.shares.change(user, process.bytes(), 0);
            process.list = None;
            self.grown.insert(*pid);
        }
    }

    /// The position of a function that `name` has generated.
    pub fn position(&mut self, name: &str, function: String, images: &mut Images) -> (ImageIndex, u64) {
        self.position_in(&format!("[generated by {name}]"), function, images)
    }

    /// The position of a function in an image that has functions and no code.
    pub fn position_in(&mut self, image: &str, function: String, images: &mut Images) -> (ImageIndex, u64) {
        let image = images.intern(ImageKind::Generated, image.as_bytes(), &[]);
        // The same for every collector, for they all write about the same image.
        let number = function_number(&function);
        if let Entry::Vacant(vacant) = self.names.entry((image, number)) {
            self.bytes += A_NAME + function.len();
            vacant.insert(function);
        }
        (image, number)
    }

    /// The name of a function.
    pub fn name(&self, image: ImageIndex, number: u64) -> Option<&str> {
        self.names.get(&(image, number)).map(String::as_str)
    }

    /// Processes that have generated more since the last call: the same address may be another function now.
    pub fn take_grown(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.grown)
    }

    /// Memory that names take until they are forgotten, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all names: those who need them have them.
    pub fn forget_names(&mut self) {
        (self.names, self.bytes) = (HashMap::new(), 0);
    }

    /// A process has ended.
    pub fn forget(&mut self, pid: u32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.shares.change(process.user, process.bytes(), 0);
        }
    }
}

/// The position of a function in an image `[generated by …]`, where it has no address of its own: 63 bits of a hash of its name. It is
/// in databases, so it must stay what it is.
fn function_number(name: &str) -> u64 {
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let hash = words.iter().fold(name.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, &byte| mix(hash, byte.into())) >> 1
}

impl Process {
    fn is_due(&self, now: Nanos) -> bool {
        self.looked == Nanos::ZERO || now.saturating_sub(self.looked) > PATIENCE
    }

    fn name(&self, address: Address) -> Option<&str> {
        self.list.as_ref()?.map.name(address.0)
    }

    /// Memory that its list takes, about, in bytes.
    fn bytes(&self) -> usize {
        self.list.as_ref().map_or(0, |list| A_LIST + list.map.bytes())
    }
}

impl List {
    /// Reads what the file has more than before, or all of it if it was written anew. Whether anything is different now, and how many
    /// bytes were read.
    fn read(mut self, limits: Limits) -> (Self, (bool, u64)) {
        let (mut is_different, mut read) = (false, 0);
        // A file may be written anew while it is read.
        for _ in 0..limits.longest / limits.at_once {
            let Some(more) = self.file.more(limits) else { break };
            if more.is_new {
                self.map.clear();
            }
            is_different |= more.is_new | !self.map.append(&more.text).is_empty();
            read += more.text.len() as u64;
            if self.map.is_full() {
                break;
            }
        }
        (self, (is_different, read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[test]
    fn functions_are_where_they_were_in_databases_of_before() {
        assert_eq!(function_number("LazyCompile:~main"), 6_554_405_667_723_808_523);
        assert_eq!(function_number(""), 0);
    }

    /// The map of this process, which one test has at a time.
    struct OurMap(PathBuf, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

    static TURN: Mutex<()> = Mutex::new(());

    impl OurMap {
        fn new() -> Self {
            let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            Self(format!("/tmp/perf-{}.map", std::process::id()).into(), turn)
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.0, text).unwrap();
        }

        fn remove(&self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    impl Drop for OurMap {
        fn drop(&mut self) {
            self.remove();
        }
    }

    #[test]
    fn a_map_may_grow_or_be_written_anew() {
        let (mut generated, mut images, pid) =
            (Generated::new(Origin::Here, 1 << 20), Images::new(&[]), std::process::id());
        let map = OurMap::new();
        let mut second = 0;
        // A moment after something was written.
        let mut names = |addresses: [u64; 2]| {
            second += 2;
            let now = Nanos(second * 1_000_000_000);
            generated.look(now);
            let names = addresses.map(|address| {
                let (image, number) = generated.locate(pid, 0, "node", Address(address), now, &mut images)?;
                Some(generated.name(image, number).unwrap().to_owned())
            });
            assert_eq!(generated.shares.taken(), generated.processes[&pid].bytes());
            (names, generated.take_grown().contains(&pid))
        };
        let named = |names: [&str; 2]| names.map(|name| (!name.is_empty()).then(|| name.to_owned()));
        map.write("1000 10 js:first\n2000 10 js:sec");
        assert_eq!(names([0x1005, 0x2005]), (named(["js:first", ""]), true));
        assert_eq!(names([0x1005, 0x2005]), (named(["js:first", ""]), false));
        // It goes on, and says of a place that it is another function now.
        map.write("1000 10 js:first\n2000 10 js:second\n1000 10 js:third\n");
        assert_eq!(names([0x1005, 0x2005]), (named(["js:third", "js:second"]), true));
        // The same file: longer, as long, shorter.
        for text in [
            "1000 10 js:a\n2000 10 js:second\n3000 10 js:b\n4000 10 js:c\n5000 10 js:d\n",
            "1000 10 js:b\n2000 10 js:second\n3000 10 js:b\n4000 10 js:c\n5000 10 js:e\n",
            "1000 10 js:c\n2000 10 js:second\n",
        ] {
            map.write(text);
            assert_eq!(names([0x1005, 0x2005]), (named([&text[8..12], "js:second"]), true));
        }
        // Another one, which goes on like the one before.
        map.remove();
        assert_eq!(names([0x1005, 0x2005]), (named(["js:c", "js:second"]), false), "still the old names");
        map.write("1000 10 js:d\n2000 10 js:second\n");
        assert_eq!(names([0x1005, 0x2005]), (named(["js:d", "js:second"]), true));
    }

    #[test]
    fn expensive_lists_lose_their_own_names_only() {
        let (mut generated, mut images) = (Generated::new(Origin::Here, 8 << 20), Images::new(&[]));
        // A number that no process has: `locate` is asked as the follower would, and reads nothing.
        let give = |generated: &mut Generated, pid: u32, user: u32, functions: usize| {
            let mut images = Images::new(&[]);
            generated.locate(pid, user, "node", Address(1), Nanos(1), &mut images);
            let process = generated.processes.get_mut(&pid).unwrap();
            let before = process.bytes();
            let text: String = (0..functions).map(|at| format!("{:x} 8 function_{at}\n", 16 * at)).collect();
            process.list.as_mut().unwrap().map.append(&text);
            generated.shares.change(user, before, process.bytes());
            generated.make_room();
        };
        give(&mut generated, 1 << 29, 1000, 1000);
        // Another user's lists, which are too much together.
        for other in 1..30 {
            give(&mut generated, (1 << 29) + other, 66, 5000);
            assert!(generated.shares.taken() <= 8 << 20);
        }
        let kept = |pid: u32| generated.processes[&pid].list.is_some();
        assert!(kept(1 << 29), "the user with few functions keeps them");
        assert!((1..30).filter(|other| kept((1 << 29) + other)).count() > 2);
        let lost = (1..30).find(|other| !kept((1 << 29) + other)).unwrap();
        let (image, _) =
            generated.locate((1 << 29) + lost, 66, "node", Address(1), Nanos(1), &mut images).unwrap();
        assert_eq!(images.get(image).path, LIST_GIVEN_UP);
    }

    #[test]
    fn a_list_that_is_too_long_is_given_up() {
        let pid = std::process::id();
        let (mut generated, mut images) = (Generated::new(Origin::Here, 1 << 20), Images::new(&[]));
        let map = OurMap::new();
        map.write(&(0..200_000).map(|at| format!("{at:x} 1 a\n")).collect::<String>());
        let found = generated.locate(pid, 0, "node", Address(7), Nanos(1_000_000_000), &mut images);
        assert_eq!(images.get(found.unwrap().0).path, LIST_GIVEN_UP);
        assert_eq!(generated.shares.taken(), 0);
        generated.forget(pid);
        // The same address again and again takes no room; but it was much to read.
        map.write(&"1 1 a\n".repeat(100_000));
        let mut locate = |generated: &mut Generated, address, second: u64| {
            let now = Nanos(second * 1_000_000_000);
            let (image, number) = generated.locate(pid, 0, "node", Address(address), now, &mut images)?;
            Some(generated.name(image, number).unwrap().to_owned())
        };
        assert_eq!(locate(&mut generated, 1, 40).as_deref(), Some("a"));
        assert_eq!(generated.read[&0], Nanos(8_600_000_000), "32 s ago at most, and 0.6 MB");
        generated.read.insert(0, Nanos(45_000_000_000));
        map.write("9 1 b\n");
        assert_eq!(locate(&mut generated, 9, 43), None);
        assert_eq!(locate(&mut generated, 9, 46).as_deref(), Some("b"));
    }

    #[test]
    fn names_count_once_until_they_are_forgotten() {
        let (mut generated, mut images) = (Generated::new(Origin::Here, 1 << 20), Images::new(&[]));
        let mut position = |generated: &mut Generated| {
            generated.position("node", "LazyCompile:~main".to_owned(), &mut images)
        };
        let (image, number) = position(&mut generated);
        let bytes = generated.bytes();
        assert!(bytes > "LazyCompile:~main".len());
        assert_eq!((position(&mut generated), generated.bytes()), ((image, number), bytes));
        assert_eq!(generated.name(image, number), Some("LazyCompile:~main"));
        generated.forget_names();
        assert_eq!((generated.name(image, number), generated.bytes()), (None, 0));
    }
}
