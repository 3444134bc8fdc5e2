//! Python's functions, each with a number that stands for it in callchains.

use std::collections::{HashMap, HashSet};

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its source file.
    pub file: String,
    /// Its qualified name.
    pub function: String,
}

/// See the module. No number is used twice.
#[derive(Debug)]
pub struct Functions {
    by_number: HashMap<u64, std::rc::Rc<Source>>,
    numbers: HashMap<std::rc::Rc<Source>, u64>,
    next: u64,
}

/// Above what is an address of code: of 57 bits for programs, and the highest bits of the kernel's are all set.
const MARK: u64 = 0x8a << 56;
const OF_NUMBER: u64 = (1 << 48) - 1;

impl Functions {
    /// The number of those that have no name.
    pub const UNNAMED: u64 = 0;

    /// The number of a function.
    pub fn number(&mut self, file: String, function: String) -> u64 {
        let source = std::rc::Rc::new(Source { file, function });
        if let Some(number) = self.numbers.get(&source) {
            return *number;
        }
        let number = self.next & OF_NUMBER;
        self.next += 1;
        self.by_number.insert(number, std::rc::Rc::clone(&source));
        self.numbers.insert(source, number);
        number
    }

    /// What stands for it in a callchain.
    pub fn address(number: u64) -> u64 {
        // Callers' addresses are those that calls return to, less one.
        MARK | number << 8 | 0x80
    }

    /// The function that an address of a callchain stands for.
    pub fn at(&self, address: u64) -> Option<&Source> {
        if address >> 56 << 56 != MARK {
            return None;
        }
        let number = address >> 8 & OF_NUMBER;
        self.by_number.get(&number).or_else(|| self.by_number.get(&Self::UNNAMED)).map(|source| &**source)
    }

    /// Forgets all others.
    pub fn keep(&mut self, numbers: &HashSet<u64>) {
        let is_kept = |number: &u64| *number == Self::UNNAMED || numbers.contains(number);
        self.by_number.retain(|number, _| is_kept(number));
        self.numbers.retain(|_, number| is_kept(number));
    }
}

impl Default for Functions {
    fn default() -> Self {
        let mut functions = Self { by_number: HashMap::new(), numbers: HashMap::new(), next: 0 };
        functions.number("[python]".to_owned(), "[without a name]".to_owned());
        functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_function() {
        let mut functions = Functions::default();
        let mut number = |name: &str| functions.number("/a.py".to_owned(), name.to_owned());
        let (one, two) = (number("one"), number("two"));
        assert_eq!((number("one"), number("two")), (one, two));
        assert_ne!(one, two);
        for less in [0, 1] {
            assert_eq!(functions.at(Functions::address(two) - less).unwrap().function, "two");
        }
        for code in [0, 0x55d0_1234_5678, 0xffff_ffff_8100_0010, u64::MAX] {
            assert_eq!(functions.at(code), None);
        }
        functions.keep(&HashSet::from([two]));
        assert_eq!(functions.at(Functions::address(two)).unwrap().function, "two");
        assert_eq!(functions.at(Functions::address(one)).unwrap().function, "[without a name]");
        assert_ne!(
            functions.number("/a.py".to_owned(), "one".to_owned()),
            one,
            "another sample may stand for it"
        );
    }
}
