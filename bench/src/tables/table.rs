//! The hash table of the paper's driver and its alternatives, for trying them on recorded samples (section 5.4).
//!
//! A line of a few entries is as much as one look into memory brings. A sample whose key is in its line is a hit: one more
//! is counted. Otherwise it takes the place of another entry, which is handed on (*evicted*); each such entry costs the
//! daemon as much as a sample that was never aggregated.

/// What makes samples equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Process and address, as in the paper.
    Process,
    /// Image and position: the same for all processes that run it.
    Image,
}

/// Which entry of a line makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One after the other, in turns; hits change nothing.
    RoundRobin,
    /// The last one; a hit moves an entry to the front, where new ones begin as well.
    SwapToFront,
}

/// Where an entry's line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// The low bits of both words, shifted and xored: a few cycles.
    Fold,
    /// A multiplication over all bits.
    Multiply,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Entries of a line.
    pub ways: usize,
    /// Lines: a power of two.
    pub lines: usize,
    /// See [`Policy`].
    pub policy: Policy,
    /// See [`HashFunction`].
    pub hash: HashFunction,
}

/// The table itself.
#[derive(Debug)]
pub struct Table {
    design: Design,
    entries: Vec<Entry>,
    /// Whose turn it is, for each line.
    turns: Vec<u8>,
    /// What happened.
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: (u64, u64),
    count: u32,
}

/// What happened to the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples.
    pub samples: u64,
    /// Samples that were not in their line.
    pub misses: u64,
    /// Entries that had to make room.
    pub evictions: u64,
}

impl Table {
    /// Empty.
    pub fn new(design: Design) -> Self {
        assert!(design.lines.is_power_of_two() && design.ways > 0, "{design:?}");
        let entries = vec![Entry::default(); design.ways * design.lines];
        Self { design, entries, turns: vec![0; design.lines], outcome: Outcome::default() }
    }

    /// Counts a sample. Returns how many samples the entry stood for that had to make room.
    pub fn count(&mut self, key: (u64, u64)) -> Option<u32> {
        let Design { ways, lines, policy, hash } = self.design;
        let hashed = match hash {
            HashFunction::Fold => (key.1 >> 2) ^ (key.1 >> 14) ^ (key.0 << 5) ^ (key.0 << 11),
            HashFunction::Multiply => mix(key.0, key.1),
        };
        let number = hashed as usize & (lines - 1);
        let line = &mut self.entries[number * ways..][..ways];
        self.outcome.samples += 1;
        if let Some(place) = line.iter().position(|entry| entry.key == key && entry.count > 0) {
            line[place].count += 1;
            if policy == Policy::SwapToFront {
                line.swap(0, place);
            }
            return None;
        }
        self.outcome.misses += 1;
        let new = Entry { key, count: 1 };
        let evicted = match policy {
            Policy::RoundRobin => {
                let turn = &mut self.turns[number];
                let place = usize::from(*turn);
                *turn = ((place + 1) % ways) as u8;
                std::mem::replace(&mut line[place], new)
            }
            Policy::SwapToFront => {
                let last = line[ways - 1];
                line.copy_within(..ways - 1, 1);
                line[0] = new;
                last
            }
        };
        self.outcome.evictions += u64::from(evicted.count > 0);
        (evicted.count > 0).then_some(evicted.count)
    }

    /// Samples that are still in it.
    #[cfg(test)]
    fn kept(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.count)).sum()
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.entries) + size_of_val(&*self.turns)
    }
}

/// As the collector hashes a word.
fn mix(hash: u64, word: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash ^ word.rotate_left(32) ^ ODD) * u128::from(word ^ 0xd6e8_feb8_6659_fd93);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(hash.rotate_left(23))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Design =
        Design { ways: 2, lines: 1, policy: Policy::RoundRobin, hash: HashFunction::Multiply };

    fn run(design: Design, keys: &[u64]) -> Vec<Option<u32>> {
        let mut table = Table::new(design);
        keys.iter().map(|&key| table.count((key, 0))).collect()
    }

    #[test]
    fn entries_make_room_as_the_policy_says() {
        // 1 is counted again, which keeps it only where a hit moves it to the front.
        let keys = [1, 2, 1, 3, 1];
        assert_eq!(run(SMALL, &keys), [None, None, None, Some(2), Some(1)]);
        let front = Design { policy: Policy::SwapToFront, ..SMALL };
        assert_eq!(run(front, &keys), [None, None, None, Some(1), None]);
    }

    #[test]
    fn no_sample_is_lost() {
        let random = &mut fastrand::Rng::with_seed(3);
        for policy in [Policy::RoundRobin, Policy::SwapToFront] {
            for hash in [HashFunction::Fold, HashFunction::Multiply] {
                let mut table = Table::new(Design { ways: 4, lines: 64, policy, hash });
                let mut handed_on = 0;
                for _ in 0..20_000 {
                    let key = (random.u64(0..7), random.u64(0..100) * 4);
                    handed_on += u64::from(table.count(key).unwrap_or(0));
                }
                assert_eq!(handed_on + table.kept(), 20_000);
                let Outcome { samples, misses, evictions } = table.outcome;
                assert!(samples == 20_000 && misses >= evictions && evictions > 0, "{:?}", table.outcome);
            }
        }
    }
}
