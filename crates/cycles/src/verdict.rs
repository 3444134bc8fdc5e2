//! Verdicts: what to think of a difference, and of how much something varies. Decides only; every report shows what is decided here.

use crate::Share;

/// A standard deviation of more than this many times that of chance is not chance.
const BEYOND_CHANCE: f64 = 2.0;

/// What to think of a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DifferenceVerdict {
    /// There is one: its interval does not reach to nothing.
    Changed,
    /// There may be none.
    #[default]
    CannotTell,
}

impl DifferenceVerdict {
    /// Decides.
    pub fn of(difference: &Share) -> Self {
        if certain(difference) == 0.0 { Self::CannotTell } else { Self::Changed }
    }
}

/// The part of a difference that is certain; 0 if none is.
pub fn certain(difference: &Share) -> f64 {
    match difference {
        Share { lo, .. } if *lo > 0.0 => *lo,
        Share { hi, .. } if *hi < 0.0 => *hi,
        _ => 0.0,
    }
}

/// What to think of how much something varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VariationVerdict {
    /// More than chance explains.
    Varies,
    /// No more than samples of this number may vary by chance.
    #[default]
    ByChance,
}

impl VariationVerdict {
    /// Decides by the standard deviation that there is, and that of chance alone.
    pub fn of(deviation: f64, by_chance: f64) -> Self {
        if deviation > BEYOND_CHANCE * by_chance { Self::Varies } else { Self::ByChance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_nothing_is_not_certain() {
        use DifferenceVerdict::{CannotTell, Changed};
        for (lo, hi, part, verdict) in [
            (0.1, 0.3, 0.1, Changed),
            (-0.3, -0.1, -0.1, Changed),
            (-0.1, 0.3, 0.0, CannotTell),
            (0.0, 0.3, 0.0, CannotTell),
            (-0.3, 0.0, 0.0, CannotTell),
        ] {
            let difference = Share { value: (lo + hi) / 2.0, lo, hi };
            assert_eq!(
                (certain(&difference), DifferenceVerdict::of(&difference)),
                (part, verdict),
                "{lo} {hi}"
            );
        }
    }

    #[test]
    fn twice_what_chance_makes_is_still_chance() {
        use VariationVerdict::{ByChance, Varies};
        for (deviation, by_chance, verdict) in [
            (0.0, 0.0, ByChance),
            (0.1, 0.0, Varies),
            (0.2, 0.1, ByChance),
            (0.21, 0.1, Varies),
            (0.05, 0.1, ByChance),
        ] {
            assert_eq!(VariationVerdict::of(deviation, by_chance), verdict, "{deviation} {by_chance}");
        }
    }
}
