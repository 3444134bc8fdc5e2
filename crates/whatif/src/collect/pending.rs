//! Cuts that have not been written yet: where the disk is full, they wait for better times, as long as there is room.

use collect::Cut;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub struct Pending {
    cuts: VecDeque<Cut>,
    /// Bytes that they may take.
    most: usize,
    /// Samples that there was no room for.
    given_up: u64,
}

impl Pending {
    /// `most`: bytes that waiting may take.
    pub fn new(most: usize) -> Self {
        Self { cuts: VecDeque::new(), most, given_up: 0 }
    }

    /// Adds the newest. The oldest lose their samples when there is no room; what is left of them says how many those were.
    pub fn push(&mut self, cut: Cut) {
        self.cuts.push_back(cut);
        let mut bytes: usize = self.cuts.iter().map(Cut::bytes).sum();
        for cut in &mut self.cuts {
            if bytes <= self.most {
                break;
            }
            bytes -= cut.bytes();
            self.given_up += cut.give_up();
        }
    }

    /// Lets `write` have them, the oldest first, until it fails.
    pub fn write<E>(&mut self, mut write: impl FnMut(&Cut) -> Result<(), E>) -> Result<(), E> {
        while let Some(cut) = self.cuts.front() {
            write(cut)?;
            self.cuts.pop_front();
        }
        Ok(())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.cuts.len()
    }

    /// Samples that there was no room for, so far.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_wait_for_their_turn() {
        let mut pending = Pending::new(0);
        let cut = |resident| {
            let mut cut = Cut::default();
            cut.resident = resident;
            cut
        };
        for number in 0..3 {
            pending.push(cut(number));
        }
        let mut written = Vec::new();
        assert_eq!(
            pending.write(|cut| if cut.resident < 1 {
                written.push(cut.resident);
                Ok(())
            } else {
                Err(())
            }),
            Err(())
        );
        assert_eq!((pending.len(), pending.given_up()), (2, 0));
        assert_eq!(
            pending.write(|cut| {
                written.push(cut.resident);
                Ok::<(), ()>(())
            }),
            Ok(())
        );
        assert_eq!(written, [0, 1, 2]);
    }
}
