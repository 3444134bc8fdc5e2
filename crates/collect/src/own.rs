//! The processes that exist, which of them are one's own, and for which of those there are descriptors.

use std::os::unix::fs::MetadataExt as _;

/// Processes of this user.
pub fn own_processes() -> Vec<u32> {
    // Not that of `/proc/self`, which is root's for programs with capabilities.
    let own = Some(kernel::stream::own_user());
    let is_own =
        |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid()).ok() == own;
    kernel::maps::pids().into_iter().filter(is_own).collect()
}

/// Descriptors that events leave to others: for storing, for looking into `/proc`, and for names.
pub const RESERVE: usize = 64;

/// Which of one's own processes are to be sampled, as far as there are descriptors.
#[derive(Debug)]
pub struct Watch {
    /// Processes when they were last looked at.
    seen: Vec<u32>,
    /// Processes for which there were not enough descriptors.
    missed: Vec<u32>,
    /// Whether descriptors have become free since.
    has_more: bool,
    /// Descriptors that events may still take.
    room: usize,
}

impl Watch {
    /// `left`: descriptors that may be opened.
    pub fn new(left: usize) -> Self {
        Self { seen: Vec::new(), missed: Vec::new(), has_more: false, room: left.saturating_sub(RESERVE) }
    }

    /// Notes that this many descriptors were closed.
    pub fn closed(&mut self, descriptors: usize) {
        self.room = self.room.saturating_add(descriptors);
        self.has_more |= descriptors > 0;
    }

    /// Notes that this many descriptors were opened.
    pub fn opened(&mut self, descriptors: usize) {
        self.room = self.room.saturating_sub(descriptors);
    }

    /// Whether this many descriptors may be opened for a process. If not, it is missed.
    pub fn has_room(&mut self, pid: u32, descriptors: usize) -> bool {
        let has_room = descriptors <= self.room;
        if !has_room {
            self.miss(pid);
        }
        has_room
    }

    /// There are no descriptors for a process; it comes again when some have been closed.
    pub fn miss(&mut self, pid: u32) {
        self.missed.push(pid);
    }

    /// Processes that have been missed and are still there.
    pub fn missed(&self) -> usize {
        self.missed.len()
    }

    /// Those of `all` that are to be sampled from now on: those that were missed, if there is more room than then, and those that no
    /// sampled process has started.
    pub fn due(&mut self, all: Vec<u32>, is_sampled: impl Fn(u32) -> bool) -> Vec<u32> {
        self.missed.retain(|pid| all.contains(pid));
        // Seen twice: what has started it has been read by now.
        let is_new = |pid: &&u32| self.seen.contains(pid) && !self.missed.contains(pid) && !is_sampled(**pid);
        let new: Vec<u32> = all.iter().filter(is_new).copied().collect();
        let mut due =
            if std::mem::take(&mut self.has_more) { std::mem::take(&mut self.missed) } else { Vec::new() };
        due.extend(new);
        self.seen = all;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_were_missed_come_again_when_there_is_room() {
        let mut watch = Watch::new(RESERVE + 10);
        let nobody = |_| false;
        assert!(watch.due(vec![1, 2, 3], nobody).is_empty(), "a sampled process may have started them");
        assert_eq!(watch.due(vec![1, 2, 3], |pid| pid == 3), [1, 2]);
        assert!(watch.has_room(1, 8));
        watch.opened(8);
        assert!(!watch.has_room(2, 4));
        let only_two = |pid| pid != 2;
        assert_eq!((watch.due(vec![1, 2, 3], only_two), watch.missed()), (vec![], 1), "nothing has changed");
        watch.closed(1);
        assert_eq!(watch.due(vec![1, 2, 3], only_two), [2]);
        assert!(!watch.has_room(2, 4));
        watch.closed(1);
        // Looking at all that runs has found it meanwhile.
        assert_eq!(watch.due(vec![2, 3], |_| true), [2]);
        assert!(watch.has_room(2, 4));
        watch.opened(4);
        assert!(!watch.has_room(4, 1));
        assert_eq!((watch.due(vec![2, 3], |_| true), watch.missed()), (vec![], 0), "it has ended");
    }

    #[test]
    fn a_reserve_is_held_back() {
        assert!(!Watch::new(RESERVE).has_room(1, 1));
        assert!(!Watch::new(0).has_room(1, 1));
        assert!(Watch::new(usize::MAX).has_room(1, 1 << 40));
    }
}
