//! Uid: a name that nothing else has, on no machine.

use std::fs::File;
use std::io::Read as _;

/// 128 random bits of the kernel, as 32 digits. Where `/dev/urandom` cannot be read they are of a generator that is seeded by the time since boot and the thread:
/// then two machines that have booted alike may draw the same.
#[must_use]
pub fn new_uid() -> String {
    let mut bits = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bits));
    let bits = read.map_or_else(|_| fastrand::u128(..), |()| u128::from_ne_bytes(bits));
    format!("{bits:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_what_a_seed_makes() {
        let drawn = || {
            fastrand::seed(7);
            new_uid()
        };
        let (first, second) = (drawn(), drawn());
        assert_ne!(first, second);
        assert!(first.len() == 32 && first.bytes().all(|digit| digit.is_ascii_hexdigit()), "{first}");
    }
}
