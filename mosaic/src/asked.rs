//! Which regions of a program are worth asking about.

use crate::dice::Dice;
use crate::program::{Program, REST};
use crate::rehearsal::rehearse;

impl Program {
    /// At most so many regions: those with the most work, and one other that is drawn. None that takes less than a hundredth of all work.
    #[must_use]
    pub fn asked(&self, most: usize) -> Vec<u8> {
        /// Not a hundredth of all work.
        const LITTLE: f64 = 0.01;
        let Ok(rehearsal) = rehearse(self, 60, 7) else { return Vec::new() };
        let work = rehearsal.by_region();
        let all: f64 = work.iter().sum();
        let mut regions: Vec<u8> =
            (0..REST).filter(|region| work[usize::from(*region)] > LITTLE * all).collect();
        regions.sort_by(|a, b| work[usize::from(*b)].total_cmp(&work[usize::from(*a)]));
        if regions.len() > most && most > 0 {
            let mut others = regions.split_off(most - 1);
            regions.push(others.swap_remove(Dice::new(self.seed, u64::MAX).index(others.len())));
        }
        regions
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_program_has_regions_to_ask_about() {
        for seed in 0..200 {
            let program = crate::draw(seed);
            let (few, many) = (program.asked(3), program.asked(8));
            assert!(!few.is_empty() && few.len() <= 3, "{program}");
            assert!(few.iter().all(|region| many.contains(region)), "{few:?} {many:?}");
        }
    }
}
