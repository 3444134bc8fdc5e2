//! What threads were started to do: the outermost function of the program on their stacks.
//!
//! Threads without a name of their own are told apart by it. Only stacks that reach to where the thread began count, and a thread
//! whose samples do not agree (one of a pool, say, that runs whatever comes) has none.

use std::collections::HashMap;
use wire::ring::Sample;

/// Samples of a thread that are looked at, whose stacks reach to where it began.
const SAMPLES_LOOKED_AT: u32 = 32;
/// Samples of a thread with other stacks, after which no more are looked at.
const SAMPLES_GIVEN_UP_AFTER: u32 = 1000;
/// Threads that are looked at.
const MAX_THREADS: usize = 4096;
/// Addresses whose functions are kept.
const MAX_ADDRESSES: usize = 1 << 14;

/// See the module.
#[derive(Debug, Default)]
pub struct FirstFunctions {
    /// By slot.
    threads: HashMap<usize, Began>,
    /// The functions at return addresses, the outermost first.
    at: HashMap<u64, Vec<String>>,
}

/// What samples of a thread say.
#[derive(Debug)]
struct Began {
    /// The slot is another one's by and by.
    tid: u32,
    samples: u32,
    /// Samples whose stacks do not reach to where it began.
    cut: u32,
    function: Function,
}

#[derive(Debug, PartialEq, Eq)]
enum Function {
    Unknown,
    Named(String),
    /// Samples do not agree.
    Several,
}

impl FirstFunctions {
    /// Whether more samples of the thread in a slot are to be looked at.
    pub fn wants(&self, slot: usize, tid: u32) -> bool {
        match self.threads.get(&slot) {
            _ if tid == 0 => false,
            Some(began) => {
                let may_tell = began.samples < SAMPLES_LOOKED_AT && began.cut < SAMPLES_GIVEN_UP_AFTER;
                began.tid != tid || may_tell
            }
            None => self.threads.len() < MAX_THREADS,
        }
    }

    /// Counts a sample of the thread in a slot: the outermost function on its stack, if it has one; `None` if the stack does not reach to where the
    /// thread began.
    pub fn note(&mut self, slot: usize, tid: u32, found: Option<Option<String>>) {
        let new = || Began { tid, samples: 0, cut: 0, function: Function::Unknown };
        let began = self.threads.entry(slot).or_insert_with(new);
        if began.tid != tid {
            *began = new();
        }
        let Some(found) = found else {
            began.cut += 1;
            return;
        };
        began.samples += 1;
        began.function = match (&began.function, found) {
            (_, None) => return,
            (Function::Unknown, Some(found)) => Function::Named(found),
            (Function::Named(before), Some(found)) if *before == found => return,
            _ => Function::Several,
        };
    }

    /// The outermost function on the stack of a sample; a closure only if there is nothing else, because all threads that a function starts are closures in it.
    /// `functions_at` gives the functions at an address that could be changed, the outermost first.
    pub fn first_of(
        &mut self,
        sample: &Sample,
        mut functions_at: impl FnMut(u64) -> Vec<String>,
    ) -> Option<String> {
        if self.at.len() >= MAX_ADDRESSES {
            self.at.clear();
        }
        let mut closure = None;
        for address in sample.callchain().iter().rev() {
            for name in self.at.entry(address.0).or_insert_with(|| functions_at(address.0)) {
                match is_closure(name) {
                    false => return Some(name.clone()),
                    true => closure.get_or_insert_with(|| name.clone()),
                };
            }
        }
        closure
    }

    /// The function that the thread in a slot began with.
    pub fn of(&self, slot: usize, tid: u32) -> Option<&str> {
        match self.threads.get(&slot).filter(|began| began.tid == tid)?.function {
            Function::Named(ref name) => Some(name),
            Function::Unknown | Function::Several => None,
        }
    }

    /// Something else may be at addresses that were seen.
    pub fn forget_code(&mut self) {
        self.at.clear();
    }
}

/// Whether a function has no name of its own.
fn is_closure(name: &str) -> bool {
    name.contains("{closure") || name.contains("{lambda")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Address, Nanos};

    /// What is at an address.
    fn at(address: u64) -> Vec<String> {
        let names: &[&str] = match address {
            1 => &["app::main::{{closure}}"],
            2 => &["app::write", "app::write::flush"],
            3 => &["app::read"],
            _ => &[],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Innermost first.
    fn sample(chain: &[u64]) -> Sample {
        let mut sample = Sample::new(Nanos(0), Nanos(10));
        sample.depth = chain.len();
        sample.frames.iter_mut().zip(chain).for_each(|(to, frame)| *to = Address(*frame));
        sample
    }

    /// A sample of thread `tid` in slot 1.
    fn look(first: &mut FirstFunctions, tid: u32, chain: &[u64]) {
        let found = first.first_of(&sample(chain), at);
        first.note(1, tid, Some(found));
    }

    #[test]
    fn the_outermost_function_with_a_name_is_what_a_thread_began_with() {
        for (chain, expected) in [
            (&[9, 3, 2, 1, 8][..], Some("app::write")),
            (&[9, 3, 1], Some("app::read")),
            (&[9, 1, 8], Some("app::main::{{closure}}")),
            (&[9, 8], None),
        ] {
            let mut first = FirstFunctions::default();
            (0..3).for_each(|_| look(&mut first, 7, chain));
            assert_eq!(first.of(1, 7), expected, "{chain:?}");
            assert_eq!((first.of(1, 8), first.of(2, 7)), (None, None), "other threads");
        }
    }

    #[test]
    fn a_thread_whose_samples_do_not_agree_has_no_first_function() {
        let mut first = FirstFunctions::default();
        look(&mut first, 7, &[2]);
        look(&mut first, 7, &[9]);
        assert_eq!(first.of(1, 7), Some("app::write"), "nothing known is no contradiction");
        look(&mut first, 7, &[3]);
        look(&mut first, 7, &[2]);
        assert_eq!(first.of(1, 7), None);
        // The slot is another thread's.
        look(&mut first, 8, &[3]);
        assert_eq!(first.of(1, 8), Some("app::read"));
    }

    #[test]
    fn few_samples_are_looked_at_whatever_they_show() {
        for chain in [[2], [9]] {
            let (mut first, mut samples) = (FirstFunctions::default(), 0);
            while first.wants(1, 7) {
                look(&mut first, 7, &chain);
                samples += 1;
            }
            assert_eq!(samples, SAMPLES_LOOKED_AT);
            assert!(first.wants(1, 8) && !first.wants(2, 0), "another thread, and one that has ended");
        }
        let mut first = FirstFunctions::default();
        (0..SAMPLES_LOOKED_AT).for_each(|_| first.note(1, 7, None));
        assert!(first.wants(1, 7), "its stacks may be whole by and by");
        (0..SAMPLES_GIVEN_UP_AFTER).for_each(|_| first.note(1, 7, None));
        assert!(!first.wants(1, 7));
    }

    #[test]
    fn an_address_is_looked_up_once_unless_its_code_has_changed() {
        let (mut first, mut asked) = (FirstFunctions::default(), 0);
        let mut find = |first: &mut FirstFunctions| {
            let found = first.first_of(&sample(&[2]), |address| {
                asked += 1;
                at(address)
            });
            assert_eq!(found.as_deref(), Some("app::write"));
            asked
        };
        assert_eq!([find(&mut first), find(&mut first)], [1, 1]);
        first.forget_code();
        assert_eq!(find(&mut first), 2);
    }
}
