//! What each thread does while nothing delays it, added up over windows without a speedup.

use crate::audit::Watched;
use profile::{Nanos, Thread};
use std::collections::BTreeMap;

/// Threads that are kept one by one; further ones are added up.
const MAX_THREADS_KEPT: usize = 1000;

/// All threads that were looked at.
#[derive(Debug, Default)]
pub struct Threads {
    kept: BTreeMap<(u32, u32), Thread>,
    /// Threads of the latest window, whose names may have changed since they were read.
    latest: Vec<(u32, u32)>,
}

impl Threads {
    /// Adds what threads did in a window. `function_of` gives the function that the thread in a slot began with, as far as that is known by now.
    pub fn add<'a>(&mut self, watched: &[Watched], function_of: impl Fn(usize, u32) -> Option<&'a str>) {
        self.latest.clear();
        for it in watched {
            let (pid, tid) = self.place_of((it.pid, it.tid));
            let thread = self.kept.entry((pid, tid)).or_insert_with(|| {
                let name = if tid == 0 { None } else { name_of(pid, tid) };
                Thread { pid, tid, name: name.unwrap_or_default(), ..Thread::default() }
            });
            if tid != 0 {
                let function = it.slot.and_then(|slot| function_of(slot, tid));
                function.unwrap_or_default().clone_into(&mut thread.function);
            }
            thread.watched += it.passed;
            thread.running += it.running;
            thread.runnable += it.runnable;
            thread.for_threads += it.for_threads;
            thread.external += it.external;
            self.latest.push((pid, tid));
        }
    }

    /// Where a thread is kept: by itself, or with all others.
    fn place_of(&self, id: (u32, u32)) -> (u32, u32) {
        let has_room = self.kept.len() < MAX_THREADS_KEPT || self.kept.contains_key(&id);
        if has_room { id } else { (0, 0) }
    }

    /// All of them. Names are read again, because threads are named after they have begun.
    pub fn so_far(&mut self) -> Vec<Thread> {
        for (pid, tid) in self.latest.drain(..).filter(|(_, tid)| *tid != 0) {
            if let (Some(thread), Some(name)) = (self.kept.get_mut(&(pid, tid)), name_of(pid, tid)) {
                thread.name = name;
            }
        }
        self.kept.values().filter(|thread| thread.watched > Nanos::ZERO).cloned().collect()
    }
}

/// The name of a thread. `None` if it has ended.
fn name_of(pid: u32, tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(pid: u32, tid: u32, slot: Option<usize>) -> Watched {
        let [running, runnable, for_threads, external] = [10, 20, 30, 40].map(Nanos::from_millis);
        let passed = Nanos::from_millis(100);
        Watched { pid, tid, slot, passed, running, runnable, for_threads, external }
    }

    #[test]
    fn times_of_a_thread_add_up_under_its_name() {
        let own = std::process::id();
        let mut threads = Threads::default();
        for _ in 0..3 {
            threads.add(&[watched(own, own, None)], |_, _| unreachable!("it is not profiled"));
        }
        let kept = threads.so_far();
        assert_eq!(kept.len(), 1);
        assert_eq!(Some(&kept[0].name), name_of(own, own).as_ref());
        let times =
            [kept[0].watched, kept[0].running, kept[0].runnable, kept[0].for_threads, kept[0].external];
        assert_eq!(times, [300, 30, 60, 90, 120].map(Nanos::from_millis));
    }

    #[test]
    fn the_first_function_of_a_thread_is_what_is_known_last() {
        let mut threads = Threads::default();
        let mut known_as = |function: Option<&str>| {
            threads.add(&[watched(7, 8, Some(3))], |slot, tid| function.filter(|_| (slot, tid) == (3, 8)));
            threads.so_far()[0].function.clone()
        };
        assert_eq!(known_as(None), "");
        assert_eq!(known_as(Some("serve")), "serve");
        assert_eq!(known_as(None), "", "contradicted since");
    }

    #[test]
    fn threads_beyond_the_most_that_are_kept_are_added_up() {
        let all: Vec<Watched> =
            (0..MAX_THREADS_KEPT as u32 + 5).map(|nth| watched(u32::MAX, nth + 1, None)).collect();
        let mut threads = Threads::default();
        threads.add(&all, |_, _| None);
        let kept = threads.so_far();
        assert_eq!(kept.len(), MAX_THREADS_KEPT + 1);
        assert_eq!((kept[0].tid, kept[0].watched), (0, Nanos::from_millis(500)));
    }
}
