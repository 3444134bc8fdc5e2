//! How much more has to be measured: one number, in one sentence, wherever a report gives it.

use crate::estimate::{NEVER, PointEstimate};

/// More experiments than this many times those that were made are "much more".
const TIMES: f64 = 8.5;
/// Less than this share more is "a little longer".
const LITTLE: f64 = 0.5;

/// How much more would settle what is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needed {
    /// How many more experiments on this region, about.
    pub experiments: u32,
    /// How many it has.
    pub made: usize,
}

impl Needed {
    /// What an estimate lacks; `None` where its verdict is settled, or nothing tells.
    pub fn of(estimate: &PointEstimate) -> Option<Needed> {
        estimate.more_blocks.map(|experiments| Needed { experiments, made: estimate.blocks })
    }

    /// How many times as long as up to now there is still to be measured: experiments are shared out among regions as they were.
    pub fn again(self) -> f64 {
        f64::from(self.experiments) / self.made.max(1) as f64
    }

    /// Whether more experiments can settle it.
    pub fn helps(self) -> bool {
        self.experiments < NEVER
    }

    /// What to do: "measure about 3 times as long again, into the same recording (about 60 more experiments on it)".
    pub fn advice(self) -> String {
        let more = match self.experiments {
            1 => "about one more experiment on it".to_owned(),
            more => format!("about {more} more experiments on it"),
        };
        let again = self.again();
        if !self.helps() {
            "more experiments will not settle it, because the error of the method is as large as the effect: ask about it in another way \
             (--region, --latency), or change the load"
                .into()
        } else if self.made == 0 {
            format!("let the program run longer ({more})")
        } else if again <= LITTLE {
            format!("measure a little longer, into the same recording ({more})")
        } else if again <= 1.0 {
            format!("measure as long again, into the same recording ({more})")
        } else if again < TIMES {
            format!("measure about {:.0} times as long again, into the same recording ({more})", again.ceil())
        } else {
            "measure much more, on a quiet machine if you can".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_numbers_agree() {
        for (experiments, made, expected) in [
            (1, 20, "measure a little longer, into the same recording (about one more experiment on it)"),
            (1, 1, "measure as long again, into the same recording (about one more experiment on it)"),
            (
                40,
                20,
                "measure about 2 times as long again, into the same recording (about 40 more experiments on it)",
            ),
            (900, 20, "measure much more, on a quiet machine if you can"),
            (
                NEVER,
                20,
                "more experiments will not settle it, because the error of the method is as large as the effect: ask about it in another way \
                 (--region, --latency), or change the load",
            ),
            (5, 0, "let the program run longer (about 5 more experiments on it)"),
        ] {
            assert_eq!(Needed { experiments, made }.advice(), expected);
        }
    }

    #[test]
    fn twice_as_long_is_never_asked_for_one_experiment_of_many() {
        for made in 2..200 {
            assert!(!Needed { experiments: 1, made }.advice().contains("times as long"), "{made}");
            assert!(Needed { experiments: 1, made }.again() <= 0.5);
        }
        for made in 1..200_usize {
            let advice = Needed { experiments: made as u32, made }.advice();
            assert!(advice.contains("as long again"), "{made}: {advice}");
        }
    }
}
