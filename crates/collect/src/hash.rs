//! Hashing words, fast and well enough that equal hashes can be taken for equal words: with a million different
//! callchains the chance of any two alike is one in forty million.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// A number that programs cannot know: with it as the seed they cannot choose what has equal hashes.
pub fn secret() -> u64 {
    RandomState::new().hash_one(0_u64)
}

/// From `seed`, over all words.
pub fn hash(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(mix(seed, words.len() as u64), |hash, &word| mix(hash, word))
}

/// Multiplies and folds.
pub fn mix(hash: u64, word: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash ^ word.rotate_left(32) ^ ODD) * u128::from(word ^ 0xd6e8_feb8_6659_fd93);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(hash.rotate_left(23))
}

/// For keys that are hashes already.
pub type Hashed = BuildHasherDefault<Identity>;

/// See [`Hashed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0, byte.into());
        }
    }
}

/// For small keys of a few words.
#[derive(Clone, Debug)]
pub struct Mixed(u64);

impl Default for Mixed {
    fn default() -> Self {
        Self(secret())
    }
}

impl BuildHasher for Mixed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

/// See [`Mixed`].
#[derive(Clone, Copy, Debug)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u32(&mut self, word: u32) {
        self.0 = mix(self.0, word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0, byte.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_that_differ_a_little_hash_differently() {
        let mut seen = HashSet::new();
        for a in 0..200_u64 {
            for b in 0..200_u64 {
                assert!(seen.insert(hash(7, &[a << 12, b, 0x5555_0000])));
            }
        }
        assert!(seen.insert(hash(7, &[])) && seen.insert(hash(7, &[0])) && seen.insert(hash(7, &[0, 0])));
        assert_ne!(hash(1, &[2]), hash(2, &[1]));
        // The low bits choose the bucket, the high ones the tag.
        for shift in [0, 57] {
            let mut counts = [0; 128];
            seen.iter().for_each(|hash| counts[(hash >> shift & 127) as usize] += 1);
            assert!(counts.iter().all(|count| (200..440).contains(count)), "{counts:?}");
        }
    }
}
