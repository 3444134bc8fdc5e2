//! How much memory the collector's lists may take, and which user gives up some when all together take too much.

use std::collections::BTreeMap;

/// What each kind of list may take. All kinds together stay within the memory that was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples that were counted since they were written, in bytes; more are written at once.
    pub counts: usize,
    /// Functions that programs have generated, in bytes.
    pub functions: usize,
    /// What processes have mapped, and what they are called, in bytes.
    pub processes: usize,
    /// Where the callers of code are, in bytes.
    pub callers: usize,
    /// The functions of a file whose names are read, in bytes.
    pub names: usize,
    /// Stacks of threads that wait, in bytes.
    pub waits: usize,
    /// Cuts that wait to be written, in bytes.
    pub pending: usize,
    /// New nodes of stacks of one user between two writes.
    pub nodes: usize,
}

/// New nodes of stacks for each sample that may come: programs have one to three, and those that make up their stacks 127.
const NODES: f64 = 16.0;

impl Limits {
    /// Of a collector that may take this many bytes, and takes this many samples at most between two writes.
    #[must_use]
    pub fn of(bytes: u64, samples: f64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            counts: bytes / 32 * 7,
            functions: bytes / 4,
            processes: bytes / 4,
            callers: bytes / 16,
            names: bytes / 16,
            waits: bytes / 32,
            pending: bytes / 8,
            nodes: (NODES * samples) as usize,
        }
    }

    /// Of the records in a file, which is of one user and read once.
    #[must_use]
    pub fn of_a_file() -> Self {
        let bytes = 1 << 30;
        Self {
            counts: bytes,
            functions: bytes,
            processes: bytes,
            callers: 0,
            names: 0,
            waits: 0,
            pending: 0,
            nodes: usize::MAX,
        }
    }
}

/// Memory that the users of a machine take of one kind. While all together take too much, the one who takes most has to give up
/// some: so each can have an equal share, and all that the others do not need.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    taken: usize,
    by_user: BTreeMap<u32, usize>,
}

impl Shares {
    /// All users together may take this many bytes.
    pub fn new(most: usize) -> Self {
        Self { most, taken: 0, by_user: BTreeMap::new() }
    }

    /// What a user takes has changed by this many bytes.
    pub fn change(&mut self, user: u32, before: usize, now: usize) {
        let of_user = self.by_user.entry(user).or_insert(0);
        *of_user = (*of_user + now).saturating_sub(before);
        if *of_user == 0 {
            self.by_user.remove(&user);
        }
        self.taken = (self.taken + now).saturating_sub(before);
    }

    /// The user that has to give up some.
    pub fn too_much(&self) -> Option<u32> {
        if self.taken <= self.most {
            return None;
        }
        self.by_user.iter().max_by_key(|(_, bytes)| **bytes).map(|(user, _)| *user)
    }

    /// What all users take, in bytes.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken
    }
}

/// Something that takes memory for what a user's programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// Whose programs.
    pub user: u32,
    /// How much, in bytes.
    pub bytes: usize,
    /// What it is.
    pub thing: T,
}

/// What has to be given up so that all together take `most` bytes; see [`Shares`]. Of one user, things of the highest `kind` go first,
/// and of these the largest.
pub fn to_give_up<T: Copy + Ord>(held: Vec<Held<T>>, most: usize, kind: impl Fn(T) -> u8) -> Vec<Held<T>> {
    let mut shares = Shares::new(most);
    let mut by_user: BTreeMap<u32, Vec<Held<T>>> = BTreeMap::new();
    for held in held {
        shares.change(held.user, 0, held.bytes);
        by_user.entry(held.user).or_default().push(held);
    }
    if shares.too_much().is_none() {
        return Vec::new();
    }
    for of_user in by_user.values_mut() {
        of_user.sort_by_key(|held| (kind(held.thing), held.bytes, held.thing));
    }
    let mut given_up = Vec::new();
    while let Some(user) = shares.too_much() {
        let Some(held) = by_user.get_mut(&user).and_then(Vec::pop) else { break };
        shares.change(user, held.bytes, 0);
        given_up.push(held);
    }
    given_up
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_together_take_what_is_allowed() {
        for bytes in [10_000_000, 64_000_000, u64::MAX] {
            let Limits { counts, functions, processes, callers, waits, pending, .. } =
                Limits::of(bytes, 1000.0);
            let sum = waits as u64
                + counts as u64
                + functions as u64
                + processes as u64
                + callers as u64
                + pending as u64;
            assert!(sum <= bytes && sum > bytes / 10 * 9, "{sum} of {bytes}");
        }
    }

    #[test]
    fn who_takes_most_gives_up_the_largest_of_the_kind_that_matters_least() {
        let held = |user, bytes, thing: (u8, u32)| Held { user, bytes, thing };
        let all = vec![
            held(0, 50, (1, 0)),
            held(7, 100, (0, 1)),
            held(7, 10, (1, 2)),
            held(7, 60, (1, 3)),
            held(8, 90, (1, 4)),
        ];
        let given_up = |most| {
            let given_up = to_give_up(all.clone(), most, |(kind, _)| kind);
            given_up.iter().map(|held| held.thing.1).collect::<Vec<_>>()
        };
        assert_eq!(given_up(310), [0_u32; 0]);
        assert_eq!(given_up(250), [3]);
        assert_eq!(given_up(245), [3, 2]);
        assert_eq!(given_up(160), [3, 2, 1]);
        assert_eq!(given_up(100), [3, 2, 1, 4]);
        assert_eq!(given_up(0), [3, 2, 1, 4, 0]);
    }

    #[test]
    fn the_user_with_most_gives_up_first() {
        let mut shares = Shares::new(100);
        shares.change(1000, 0, 100);
        assert_eq!(shares.too_much(), None, "all of it, while the others need none");
        shares.change(7, 0, 30);
        assert_eq!(shares.too_much(), Some(1000));
        shares.change(1000, 100, 70);
        assert_eq!((shares.too_much(), shares.taken()), (None, 100));
        shares.change(7, 30, 0);
        shares.change(1000, 70, 0);
        assert_eq!(shares.taken(), 0);
        assert!(shares.by_user.is_empty());
    }
}
