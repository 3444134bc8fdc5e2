//! What to try next: pure functions over the history and a seeded generator.
//!
//! An experiment is a block of two windows on one region, a baseline and a virtual speedup, in random
//! order: half of all windows are baselines, and each sits next to the window it is compared with, so that
//! drift and phases cancel. Region and speedup are chosen at random, never by what earlier experiments
//! gave: a line may only matter later (papers, section 2, "Experiment initialization"). Most choices prefer
//! the code that costs more, because what hardly runs can hardly matter; a fixed share does not.

use profile::{Nanos, Speedup};
use std::collections::HashMap;

/// Windows begin with this length,
const FIRST_LENGTH: Nanos = Nanos::from_millis(100);
/// and are never made longer than this by a slow progress point.
const LONGEST: Nanos = Nanos::from_millis(5_000);
/// Visits of a progress point that a window must see (papers, section 2, "Ending an experiment").
const LEAST_VISITS: u64 = 5;
/// A point that had no visit in so many windows is idle and no longer makes them longer.
const IDLE_AFTER: u32 = 4;

/// The share of choices in which every region's chance is its share of the time just now;
const PURELY_RANDOM: f64 = 0.3;
/// in the others the costliest of so many is taken.
const CANDIDATES: usize = 3;

/// What a run may choose from.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Virtual speedups; never empty, never zero unless only baselines are wanted.
    pub speedups: Vec<Speedup>,
}

impl Choices {
    /// 5 %, 10 %, … 100 % (papers, section 3).
    pub fn every_five_per_cent() -> Self {
        Self { speedups: (1..=20).filter_map(|step| Speedup::from_percent(step * 5)).collect() }
    }
}

/// What has been tried so far, as far as the next choice depends on it.
#[derive(Debug, Default)]
pub struct History {
    /// Speedups of each region that are still to come before any is repeated.
    decks: HashMap<usize, Vec<Speedup>>,
    length: Option<Nanos>,
    /// Windows in a row without a visit, per progress point; `None` before the first visit in a window.
    quiet: Vec<Option<u32>>,
}

/// An experiment to conduct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Index of the region among those observed.
    pub region: usize,
    /// The speedups of its windows, in order.
    pub windows: [Speedup; 2],
}

impl History {
    /// The next experiment. `offers`: regions that threads have just been running, one entry per sample, each
    /// with its samples over the whole run. `None` if there is no offer.
    pub fn next(
        &mut self,
        offers: &[(usize, u64)],
        choices: &Choices,
        random: &mut fastrand::Rng,
    ) -> Option<Plan> {
        let draws = if random.f64() < PURELY_RANDOM { 1 } else { CANDIDATES };
        let drawn = (0..draws).filter_map(|_| random.choice(offers));
        let (region, _) = *drawn.max_by_key(|(_, samples)| *samples)?;
        let deck = self.decks.entry(region).or_default();
        if deck.is_empty() {
            deck.clone_from(&choices.speedups);
            random.shuffle(deck);
        }
        let speedup = deck.pop()?;
        let mut windows = [Speedup::ZERO, speedup];
        random.shuffle(&mut windows);
        Some(Plan { region, windows })
    }

    /// How long the next window is to be.
    pub fn length(&self) -> Nanos {
        self.length.unwrap_or(FIRST_LENGTH)
    }

    /// Learns from a window's visits, one number per progress point: windows grow, for the rest of the run,
    /// while a point that is alive is visited fewer than five times in one. Each point is judged for
    /// itself: one that was never visited in a window suppresses nothing as long as another is, and one that
    /// has stopped is forgotten after a while.
    pub fn learn(&mut self, visits: &[u64]) {
        self.quiet.resize(visits.len().max(self.quiet.len()), None);
        for (quiet, visits) in self.quiet.iter_mut().zip(visits) {
            *quiet = if *visits == 0 { quiet.map(|windows| windows + 1) } else { Some(0) };
        }
        let alive = |quiet: Option<u32>| quiet.is_some_and(|windows| windows < IDLE_AFTER);
        let short =
            visits.iter().zip(&self.quiet).any(|(visits, quiet)| *visits < LEAST_VISITS && alive(*quiet));
        let nothing = !visits.is_empty() && visits.iter().all(|visits| *visits == 0);
        if short || nothing {
            self.length = Some(Nanos::new(self.length().get() * 2).min(LONGEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(n: u16) -> Speedup {
        Speedup::from_percent(n).unwrap()
    }

    #[test]
    fn half_of_the_windows_are_baselines_in_either_place() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(1));
        let choices = Choices::every_five_per_cent();
        let plans: Vec<Plan> =
            (0..400).map(|_| history.next(&[(3, 1)], &choices, &mut random).unwrap()).collect();
        assert!(plans.iter().all(|plan| plan.windows.iter().filter(|s| s.is_zero()).count() == 1));
        let first = plans.iter().filter(|plan| plan.windows[0].is_zero()).count();
        assert!((150..250).contains(&first), "{first}");
    }

    #[test]
    fn every_speedup_comes_before_any_is_repeated() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(2));
        let choices = Choices::every_five_per_cent();
        for _ in 0..3 {
            let mut seen: Vec<u16> = (0..20)
                .map(|_| history.next(&[(0, 1)], &choices, &mut random).unwrap())
                .map(|plan| plan.windows.iter().map(|s| s.per_mille()).max().unwrap())
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (1..=20).map(|n| n * 50).collect::<Vec<u16>>());
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let run = |seed| {
            let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(seed));
            let choices = Choices { speedups: vec![percent(25), percent(50)] };
            let offers = [(0, 9), (1, 5), (1, 5), (2, 1)];
            (0..50).map(|_| history.next(&offers, &choices, &mut random).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn what_costs_more_comes_more_often_and_nothing_is_left_out() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(3));
        let offers = [(0, 100), (1, 10), (2, 1), (2, 1)];
        let mut times = [0; 3];
        for _ in 0..1000 {
            times[history.next(&offers, &Choices::every_five_per_cent(), &mut random).unwrap().region] += 1;
        }
        assert!(times[0] > 400 && times[2] > 150 && times[1] > 50, "{times:?}");
    }

    #[test]
    fn windows_grow_for_a_slow_point_and_not_for_an_idle_one() {
        let mut history = History::default();
        history.learn(&[100, 3]);
        assert_eq!(history.length(), Nanos::from_millis(200));
        history.learn(&[200, 6]);
        assert_eq!(history.length(), Nanos::from_millis(200));
        let mut history = History::default();
        for _ in 0..20 {
            history.learn(&[100, 0]);
        }
        assert_eq!(history.length(), Nanos::from_millis(100));
        for _ in 0..20 {
            history.learn(&[1]);
        }
        assert_eq!(history.length(), LONGEST);
    }

    #[test]
    fn without_an_offer_there_is_no_experiment() {
        let choices = Choices::every_five_per_cent();
        assert_eq!(History::default().next(&[], &choices, &mut fastrand::Rng::with_seed(0)), None);
    }
}
