//! What threads were started to do: the outermost function of the program on their stacks.
//!
//! Threads without a name of their own are told apart by it. Only stacks that reach to where the thread began count, and a thread
//! whose samples do not agree (one of a pool, say, that runs whatever comes) has none.

use std::collections::HashMap;
use wire::ring::Sample;

/// Samples of a thread that are looked at.
const SAMPLES_LOOKED_AT: u32 = 8;
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
    /// Looks at a sample of the thread in a slot. `is_whole` says whether its stack reaches to where the thread began; `functions_at` gives
    /// the functions at an address that could be changed, the outermost first.
    pub fn look_at(
        &mut self,
        slot: usize,
        tid: u32,
        sample: &Sample,
        is_whole: bool,
        functions_at: impl FnMut(u64) -> Vec<String>,
    ) {
        if self.threads.get(&slot).is_some_and(|began| began.tid == tid && began.samples >= SAMPLES_LOOKED_AT)
            || self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&slot)
            || tid == 0
            || sample.cut
            || !is_whole
        {
            return;
        }
        let found = self.first_of(sample, functions_at);
        let new = || Began { tid, samples: 0, function: Function::Unknown };
        let began = self.threads.entry(slot).or_insert_with(new);
        if began.tid != tid {
            *began = new();
        }
        began.samples += 1;
        began.function = match (&began.function, found) {
            (_, None) => return,
            (Function::Unknown, Some(found)) => Function::Named(found),
            (Function::Named(before), Some(found)) if *before == found => return,
            _ => Function::Several,
        };
    }

    /// The outermost function on a stack; a closure only if there is nothing else, because all threads that a function starts are closures in it.
    fn first_of(
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
    name.contains("{closure") || name.contains("{{closure") || name.contains("{lambda")
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
    fn sample(chain: &[u64], cut: bool) -> Sample {
        let mut sample = Sample::new(Nanos(0), Nanos(10));
        (sample.depth, sample.cut) = (chain.len(), cut);
        sample.frames.iter_mut().zip(chain).for_each(|(to, frame)| *to = Address(*frame));
        sample
    }

    #[test]
    fn the_outermost_function_with_a_name_is_what_a_thread_began_with() {
        let mut first = FirstFunctions::default();
        for (slot, chain, expected) in [
            (1, &[9, 3, 2, 1, 8][..], Some("app::write")),
            (2, &[9, 3, 1], Some("app::read")),
            (3, &[9, 1, 8], Some("app::main::{{closure}}")),
            (4, &[9, 8], None),
        ] {
            for _ in 0..3 {
                first.look_at(slot, 7, &sample(chain, false), true, at);
            }
            assert_eq!(first.of(slot, 7), expected, "{chain:?}");
        }
        assert_eq!(first.of(1, 8), None, "another thread");
    }

    #[test]
    fn a_stack_that_does_not_reach_the_beginning_says_nothing() {
        let mut first = FirstFunctions::default();
        first.look_at(1, 7, &sample(&[3, 2], true), true, at);
        first.look_at(1, 7, &sample(&[3, 2], false), false, at);
        assert_eq!(first.of(1, 7), None);
    }

    #[test]
    fn a_thread_whose_samples_do_not_agree_has_no_first_function() {
        let mut first = FirstFunctions::default();
        first.look_at(1, 7, &sample(&[2], false), true, at);
        first.look_at(1, 7, &sample(&[9], false), true, at);
        assert_eq!(first.of(1, 7), Some("app::write"), "nothing known is no contradiction");
        first.look_at(1, 7, &sample(&[3], false), true, at);
        first.look_at(1, 7, &sample(&[2], false), true, at);
        assert_eq!(first.of(1, 7), None);
        // The slot is another thread's.
        first.look_at(1, 8, &sample(&[3], false), true, at);
        assert_eq!(first.of(1, 8), Some("app::read"));
    }

    #[test]
    fn an_address_is_looked_up_once_and_few_samples_are_looked_at() {
        let (mut first, mut asked) = (FirstFunctions::default(), 0);
        for _ in 0..100 {
            first.look_at(1, 7, &sample(&[2], false), true, |address| {
                asked += 1;
                at(address)
            });
        }
        assert_eq!((asked, first.threads[&1].samples), (1, SAMPLES_LOOKED_AT));
        first.forget_code();
        first.look_at(2, 8, &sample(&[2], false), true, |_| vec!["other".to_owned()]);
        assert_eq!(first.of(2, 8), Some("other"));
    }
}
