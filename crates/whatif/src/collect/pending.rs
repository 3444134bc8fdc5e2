//! Cuts that have not been written yet: where the disk is full, they wait for better times, as long as there is room.

use collect::Collected;
use std::collections::VecDeque;

/// Cuts that wait at a time; the oldest become one, without samples.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Pending {
    collections: VecDeque<Collected>,
    /// Bytes that they may take.
    most: usize,
    /// Samples that there was no room for.
    given_up: u64,
}

impl Pending {
    /// `most`: bytes that waiting may take.
    pub fn new(most: usize) -> Self {
        Self { collections: VecDeque::new(), most, given_up: 0 }
    }

    /// Adds the newest.
    pub fn push(&mut self, collected: Collected) {
        self.collections.push_back(collected);
    }

    /// Lets `write` have them, the oldest first, until it fails. Then the oldest lose their samples where there is no room for all
    /// that are left; what stays of them says how many those were.
    pub fn write<E>(&mut self, mut write: impl FnMut(&Collected) -> Result<(), E>) -> Result<(), E> {
        while let Some(collected) = self.collections.front() {
            if let Err(error) = write(collected) {
                self.make_room();
                return Err(error);
            }
            self.collections.pop_front();
        }
        Ok(())
    }

    fn make_room(&mut self) {
        let mut bytes: usize = self.collections.iter().map(Collected::bytes).sum();
        for collected in &mut self.collections {
            if bytes <= self.most {
                break;
            }
            bytes -= collected.bytes();
            self.given_up += collected.give_up();
        }
        // For weeks, perhaps.
        while self.collections.len() > MOST
            && let Some(oldest) = self.collections.pop_front()
            && let Some(next) = self.collections.front_mut()
        {
            self.given_up += oldest.size().0 + next.size().0;
            next.follow(oldest);
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.collections.len()
    }

    /// Samples that there was no room for, so far.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collect::Tally;

    #[test]
    fn cuts_wait_for_their_turn() {
        let mut pending = Pending::new(0);
        let collected = |resident| {
            let mut collected = Collected::default();
            collected.resident = resident;
            collected
        };
        for number in 0..3 {
            pending.push(collected(number));
        }
        let mut written = Vec::new();
        assert_eq!(
            pending.write(|collected| if collected.resident < 1 {
                written.push(collected.resident);
                Ok(())
            } else {
                Err(())
            }),
            Err(())
        );
        assert_eq!((pending.len(), pending.given_up()), (2, 0));
        assert_eq!(
            pending.write(|collected| {
                written.push(collected.resident);
                Ok::<(), ()>(())
            }),
            Ok(())
        );
        assert_eq!(written, [0, 1, 2]);
    }

    #[test]
    fn a_disk_that_is_full_for_weeks_does_not_fill_memory() {
        let mut pending = Pending::new(1 << 20);
        for _ in 0..3 * MOST {
            let mut collected = Collected::default();
            collected.length = profile::Nanos::from_millis(1000);
            collected.books = vec![Tally { expected: 10, no_room: 4, ..Tally::default() }];
            pending.push(collected);
            pending.write(|_| Err(())).unwrap_err();
        }
        assert_eq!(pending.len(), MOST);
        let (mut length, mut lost) = (0.0, 0);
        let sum = |collected: &Collected| -> Result<(), ()> {
            length += collected.length.as_secs_f64();
            lost += collected.books[0].lost();
            Ok(())
        };
        pending.write(sum).unwrap();
        assert_eq!((length, lost), (3.0 * MOST as f64, 30 * MOST as u64), "no interval is missing");
    }
}
