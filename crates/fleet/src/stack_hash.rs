//! What a stack is called in every database: 128 bits of its frames.

use siphasher::sip128::{Hasher128 as _, SipHasher24};
use std::hash::Hasher as _;

/// 128 bits of a stack: of the code of its innermost frame, and of the hash of the stack that called it. SipHash-2-4 (Aumasson and Bernstein, 2012) with a key
/// of zeros, so that it is the same on every machine.
pub type StackHash = [u8; 16];

/// The stack of nothing.
pub const NONE: StackHash = [0; 16];

/// The stack that is `caller`, and in it code at a position.
pub fn called_from(caller: &StackHash, build: &str, offset: u64) -> StackHash {
    let mut hasher = SipHasher24::new();
    hasher.write(caller);
    hasher.write(&offset.to_le_bytes());
    hasher.write(build.as_bytes());
    hasher.finish128().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_told_apart_by_every_frame() {
        let main = called_from(&NONE, "b1", 16);
        let all = [
            main,
            called_from(&main, "b1", 16),
            called_from(&main, "b1", 17),
            called_from(&main, "b2", 16),
            called_from(&NONE, "b1", 17),
        ];
        for (nth, one) in all.iter().enumerate() {
            assert!(all[..nth].iter().all(|other| other != one));
        }
        // What is stored today has to be found tomorrow. (This is what the algorithm, written down in another language, makes of it.)
        assert_eq!(u128::from_le_bytes(main), 177_520_340_377_556_836_882_126_500_271_118_598_305);
    }
}
