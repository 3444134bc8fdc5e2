//! Processes that have mapped files of which it is not known which build they are: where there is no build ID the file has to be looked at, and
//! when it was mapped that could not be done in time, or had taken too much lately. They are looked at again a few times.

use crate::hash::Mixed;
use std::collections::HashMap;
use wire::Nanos;

/// Processes that are remembered.
const MOST: usize = 256;
/// Processes that are looked at again at a time.
const AT_A_TIME: usize = 4;
/// After this time, and after twice as long each time.
const AGAIN: Nanos = Nanos(2_000_000_000);
/// Whatever a user's files have taken, it is over by then.
const TRIES: u32 = 6;

/// See the module.
#[derive(Debug, Default)]
pub struct Unidentified(HashMap<u32, Tries, Mixed>);

#[derive(Clone, Copy, Debug)]
struct Tries {
    next: Nanos,
    tried: u32,
}

impl Unidentified {
    /// A process has samples in such a file.
    pub fn note(&mut self, pid: u32, now: Nanos) {
        if self.0.len() < MOST {
            self.0.entry(pid).or_insert(Tries { next: now + AGAIN, tried: 0 });
        }
    }

    /// Processes that should be looked at now.
    pub fn due(&mut self, now: Nanos) -> Vec<u32> {
        let is_due = |tries: &Tries| tries.tried < TRIES && tries.next <= now;
        let due = self.0.iter_mut().filter(|(_, tries)| is_due(tries)).take(AT_A_TIME);
        let due = due.map(|(pid, tries)| {
            tries.tried += 1;
            tries.next = now + Nanos(AGAIN.0 << tries.tried);
            *pid
        });
        due.collect()
    }

    /// A process has ended, or executes another program.
    pub fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_looked_at_again_less_and_less_often() {
        let mut unidentified = Unidentified::default();
        let mut looked = Vec::new();
        for second in 0..1000 {
            let now = Nanos(second * 1_000_000_000);
            unidentified.note(7, now);
            looked.extend(unidentified.due(now).into_iter().map(|pid| (pid, second)));
        }
        assert_eq!(looked, [(7, 2), (7, 6), (7, 14), (7, 30), (7, 62), (7, 126)]);
        unidentified.forget(7);
        unidentified.note(7, Nanos(0));
        assert_eq!(unidentified.due(AGAIN), [7], "another program");
        for pid in 0..1000 {
            unidentified.note(pid, Nanos(0));
        }
        assert_eq!((unidentified.0.len(), unidentified.due(AGAIN).len()), (MOST, AT_A_TIME));
    }
}
