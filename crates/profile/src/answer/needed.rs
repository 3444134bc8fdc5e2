//! How much more has to be measured: one number, in one sentence, wherever a report gives it.

use super::limit::Limit;
use crate::estimate::{NEVER, PointEstimate};
use crate::model::ArrivalKind;
use crate::ranking::Profile;

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

    /// What to do where more experiments can settle it: "measure about 3 times as long again, into the same recording (about 60 more
    /// experiments on it, as it looks now)".
    fn advice(self, is_busy: bool) -> String {
        let more = match self.experiments {
            1 => "about one more experiment on it, as it looks now".to_owned(),
            more => format!("about {more} more experiments on it, as it looks now"),
        };
        let again = self.again();
        if self.made == 0 {
            format!("let the program run longer ({more})")
        } else if again <= LITTLE {
            format!("measure a little longer, into the same recording ({more})")
        } else if again <= 1.0 {
            format!("measure as long again, into the same recording ({more})")
        } else if again < TIMES {
            format!("measure about {:.0} times as long again, into the same recording ({more})", again.ceil())
        } else if is_busy {
            "measure much more".into()
        } else {
            "measure much more, on a quiet machine if you can".into()
        }
    }
}

impl Profile {
    /// What to do about an estimate that is not settled; `None` where it is, or nothing tells.
    pub(crate) fn advice_on(&self, estimate: &PointEstimate) -> Option<String> {
        let needed = Needed::of(estimate)?;
        Some(match (needed.helps(), self.quieter()) {
            (false, quieter) => Limit::of(estimate).advice(quieter, estimate.probably_helps()),
            (true, Some(quieter)) => format!("{quieter}, and {}", needed.advice(true)),
            (true, None) => needed.advice(false),
        })
    }

    /// What to do where other programs used the machine. A server's clients are among them, and it has nothing to do without them.
    pub(crate) fn quieter(&self) -> Option<&'static str> {
        if self.felt_limit().is_some() {
            return Some("profile without the limit on CPU time");
        }
        self.doubts.others()?;
        Some(match self.has_clients() {
            true => "move its clients to another machine or stop other programs",
            false => "stop the other programs",
        })
    }

    /// Whether something came from outside that asks the program for something.
    pub(super) fn has_clients(&self) -> bool {
        let mut arrivals = self.rows.sessions.iter().flat_map(|session| &session.arrivals);
        let is_asked =
            |kind| matches!(kind, ArrivalKind::Accepted | ArrivalKind::Listener | ArrivalKind::Datagrams);
        arrivals.any(|arrivals| is_asked(arrivals.kind) && arrivals.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_numbers_agree() {
        for (experiments, made, expected) in [
            (
                1,
                20,
                "measure a little longer, into the same recording (about one more experiment on it, as it looks now)",
            ),
            (
                1,
                1,
                "measure as long again, into the same recording (about one more experiment on it, as it looks now)",
            ),
            (
                40,
                20,
                "measure about 2 times as long again, into the same recording (about 40 more experiments on it, as it looks now)",
            ),
            (900, 20, "measure much more, on a quiet machine if you can"),
            (5, 0, "let the program run longer (about 5 more experiments on it, as it looks now)"),
        ] {
            assert_eq!(Needed { experiments, made }.advice(false), expected);
        }
        assert_eq!(Needed { experiments: 900, made: 20 }.advice(true), "measure much more");
    }

    #[test]
    fn twice_as_long_is_never_asked_for_one_experiment_of_many() {
        for made in 2..200 {
            assert!(!Needed { experiments: 1, made }.advice(false).contains("times as long"), "{made}");
            assert!(Needed { experiments: 1, made }.again() <= 0.5);
        }
        for made in 1..200_usize {
            let advice = Needed { experiments: made as u32, made }.advice(false);
            assert!(advice.contains("as long again"), "{made}: {advice}");
        }
    }
}
