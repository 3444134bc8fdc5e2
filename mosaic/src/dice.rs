//! The random numbers that programs are made of.
//!
//! Sebastiano Vigna's SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), and integers only: a
//! library's next version or another machine's logarithm would turn seeds into other programs.

/// A sequence of random numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Those of `seed` and `stream`: sequences of different streams have nothing to do with each other.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        dice.0 ^= dice.any().rotate_left(17);
        dice
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    ///
    /// # Panics
    ///
    /// When `low` is larger than `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low} to {high}");
        // The bias of the remainder is one part in 2^64 / (high - low).
        low + self.any() % (high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, per_cent: u64) -> bool {
        self.between(0, 99) < per_cent
    }

    /// One of `things`.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub fn pick<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.index(things.len())]
    }

    /// An index of a list of `length` things.
    #[expect(clippy::cast_possible_truncation)]
    pub fn index(&mut self, length: usize) -> usize {
        self.between(0, length as u64 - 1) as usize
    }

    /// A number from `low` to `high` of which all magnitudes are about as likely: an octave is drawn, then a number in it.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let octaves = (high / low.max(1)).max(1).ilog2();
        let from = low.max(1) << self.between(0, u64::from(octaves));
        self.between(from, (2 * from - 1).min(high).max(from))
    }

    /// A number from 0 to 1, 1 excluded. For work, not for programs: what is computed with it may differ between machines.
    #[expect(clippy::cast_precision_loss)]
    pub fn share(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_have_always_been() {
        // If this changes, every seed is another program.
        let mut dice = Dice::new(17, 4);
        assert_eq!([dice.any(), dice.any()], NUMBERS);
    }

    const NUMBERS: [u64; 2] = [299_890_026_033_001_267, 1_575_461_343_650_247_455];

    #[test]
    fn numbers_stay_in_their_range() {
        let mut dice = Dice::new(1, 0);
        let mut seen = [0; 4];
        for _ in 0..1000 {
            let number = dice.between(3, 6);
            seen[usize::try_from(number - 3).unwrap()] += 1;
            assert!((2000..=10_000_000).contains(&dice.magnitude(2000, 10_000_000)));
            assert!((0.0..1.0).contains(&dice.share()));
        }
        assert!(seen.iter().all(|count| *count > 200), "{seen:?}");
        assert!((0..1000).filter(|_| dice.chance(25)).count().abs_diff(250) < 60);
    }
}
