//! What to try next: pure functions over the history and a seeded generator.
//!
//! An experiment is a block of two windows on one region, a baseline and a virtual speedup, in random
//! order: half of all windows are baselines, and each sits next to the window it is compared with, so that
//! drift and phases cancel. A fixed share of the choices is purely random, whatever earlier experiments gave: a
//! line may only matter later (papers, section 2, "Experiment initialization"). The others go where an answer
//! is wanted and missing ([`outlook`](super::outlook)); while nothing is known yet, to the code that costs most, and before
//! that to what costs most in production ([`hint`](super::hint)), if that is known.
//! Speedups are drawn without regard to the past, so that each stays a random sample of the run.

use crate::region::RegionIndex;
use profile::{Nanos, RegionId, Speedup};
use std::collections::HashMap;

/// Windows begin with this length, for every point.
const FIRST_LENGTH: Nanos = Nanos::from_millis(100);
/// A slow progress point never makes windows longer than this.
const LONGEST: Nanos = Nanos::from_millis(5_000);
/// Visits of a progress point that a window must see (papers, section 2, "Ending an experiment").
const LEAST_VISITS: u64 = 5;
/// A point that had no visit in so many windows is idle and no longer makes them longer.
const IDLE_AFTER: u32 = 4;
/// How far a point's period may differ from one baseline to the next, as a share of itself: where it differs by more,
/// windows are too short for what the program does between visits (batches, queues).
const NOISY: f64 = 0.1;
/// Baselines that say how noisy a point is, before the next so many do.
const JUDGED_BY: usize = 20;
/// Noise makes no window so long that fewer than this many of them would have fitted into the run so far.
const MANY: u64 = 50;

/// The share of choices in which every region's chance is its share of the time just now.
const PURELY_RANDOM: f64 = 0.3;
/// In the other choices, when no region lacks anything, the costliest of so many is taken.
const CANDIDATES: usize = 3;
/// Speedups are drawn so that one of each of so many groups, from small to large, comes before a second of any:
/// as many as a verdict needs.
const GROUPS: usize = 5;

/// A region with at least this share in production is tried before others.
const TRIED_FIRST: f64 = 0.02;
/// A region that lacks more than this has been asked for.
const MOST: f64 = 1.0;

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
    decks: HashMap<RegionId, Vec<Speedup>>,
    /// Experiments on each region.
    tried: HashMap<RegionId, usize>,
    /// What windows must last for any point to be visited in them.
    least: Option<Nanos>,
    /// One per progress point.
    points: Vec<PointHistory>,
}

/// What windows have shown of one progress point.
#[derive(Debug)]
struct PointHistory {
    /// How long windows must be for it.
    length: Nanos,
    /// Windows of this length in a row without a visit; `None` before the first visit in a window.
    quiet: Option<u32>,
    /// The logarithms of its period in the latest baselines, up to [`JUDGED_BY`].
    periods: Vec<f64>,
}

/// What a window has shown of the progress points: one entry for each, in the order of their registration.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// How long it was to be.
    pub length: Nanos,
    /// Visits.
    pub visits: &'a [u64],
    /// If it was a baseline: the time per visit, in any unit, where that is known.
    pub periods: Option<&'a [Option<f64>]>,
    /// How long the run has lasted so far.
    pub elapsed: Nanos,
}

impl PointHistory {
    fn new(length: Nanos) -> Self {
        Self { length, quiet: None, periods: Vec::new() }
    }

    fn is_alive(&self) -> bool {
        self.quiet.is_some_and(|windows| windows < IDLE_AFTER)
    }

    /// Learns from a window, and whether it was too short.
    fn learn(&mut self, visits: u64, period: Option<f64>, shown: &Shown<'_>) {
        if visits > 0 {
            self.quiet = Some(0);
        }
        // Shorter ones were made for other points.
        if shown.length < self.length {
            return;
        }
        if visits == 0 {
            self.quiet = self.quiet.map(|windows| windows + 1);
        }
        self.periods.extend(period.map(f64::ln).filter(|log| log.is_finite()));
        let longer = doubled(self.length);
        if self.is_alive()
            && (visits < LEAST_VISITS || self.is_noisy() && longer.get() * MANY <= shown.elapsed.get())
        {
            self.length = longer;
            self.periods.clear();
        }
    }

    /// Whether the latest baselines differ much from one to the next: by the median, so that a few that
    /// something disturbed do not matter. Forgets them.
    fn is_noisy(&mut self) -> bool {
        if self.periods.len() < JUDGED_BY {
            return false;
        }
        let mut steps: Vec<f64> =
            std::mem::take(&mut self.periods).windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
        steps.sort_unstable_by(f64::total_cmp);
        // Of normal noise: the median of absolute values is 0.67 deviations, and a step has two windows' noise.
        steps[steps.len() / 2] > 0.67 * NOISY * std::f64::consts::SQRT_2
    }
}

/// A region that a thread has just been running; one for each sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The region: the same in several runs of a program.
    pub region: RegionId,
    /// Its index among those observed in this one.
    pub index: RegionIndex,
    /// Its samples over the whole run.
    pub samples: u64,
    /// How much an experiment on it would help, from 0 to 1, more if the user has asked for it; `None` for a line whose function does not matter so
    /// far, which is only tried at random.
    pub need: Option<f64>,
    /// Its share of the program's samples in production; 0 where it is unknown.
    pub production: f64,
}

fn doubled(length: Nanos) -> Nanos {
    Nanos::new(length.get() * 2).min(LONGEST)
}

/// An experiment to conduct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The region.
    pub region: RegionId,
    /// The region's index among those observed.
    pub index: RegionIndex,
    /// The speedups of its windows, in order.
    pub windows: [Speedup; 2],
    /// How long each window is to be.
    pub length: Nanos,
}

impl History {
    /// The next experiment. `None` if there is no offer.
    pub fn next(&mut self, offers: &[Offer], choices: &Choices, random: &mut fastrand::Rng) -> Option<Plan> {
        let is_new = |offer: &&Offer| {
            offer.need.is_some() && self.tried.get(&offer.region).is_none_or(|n| *n < GROUPS)
        };
        // First of all, functions get as many as a verdict needs.
        let anything = !offers.iter().any(|offer| is_new(&offer));
        let hottest = hottest(offers.iter().filter(is_new)).filter(|_| !is_asked_for(offers));
        let Offer { region, index, .. } = choose(offers, anything, hottest, random)?;
        *self.tried.entry(region).or_default() += 1;
        let deck = self.decks.entry(region).or_default();
        if deck.is_empty() {
            *deck = shuffled(&choices.speedups, random);
        }
        let speedup = deck.pop()?;
        let mut windows = [Speedup::ZERO, speedup];
        random.shuffle(&mut windows);
        Some(Plan { region, index, windows, length: self.length(random) })
    }

    fn least(&self) -> Nanos {
        self.least.unwrap_or(FIRST_LENGTH)
    }

    /// How long the windows of the next experiment are to be: what one of the points needs that are alive. Each of the
    /// lengths gets the same time, so that a point which is visited often need not wait for one that is not.
    fn length(&self, random: &mut fastrand::Rng) -> Nanos {
        let mut lengths: Vec<Nanos> =
            self.points.iter().filter(|point| point.is_alive()).map(|point| point.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let chance = |length: &Nanos| 1.0 / length.get() as f64;
        let mut left = random.f64() * lengths.iter().map(chance).sum::<f64>();
        let drawn = lengths.iter().find(|length| {
            left -= chance(length);
            left <= 0.0
        });
        drawn.or(lengths.last()).copied().unwrap_or(self.least())
    }

    /// Learns from a window. Windows for a point grow, for the rest of the run, while it is visited fewer than five
    /// times in one, or while its period differs by more than a tenth from one baseline to the next. One that was never visited
    /// in a window needs none as long as another is, and one that has stopped is forgotten after a while.
    pub fn learn(&mut self, shown: Shown<'_>) {
        let Shown { length, visits, periods, .. } = shown;
        if !visits.is_empty() && visits.iter().all(|visits| *visits == 0) && length >= self.least() {
            self.least = Some(doubled(self.least()));
        }
        let least = self.least();
        if self.points.len() < visits.len() {
            self.points.resize_with(visits.len(), || PointHistory::new(least));
        }
        for (nth, (point, visits)) in self.points.iter_mut().zip(visits).enumerate() {
            if point.quiet.is_none() {
                point.length = point.length.max(least);
            }
            point.learn(*visits, periods.and_then(|periods| *periods.get(nth)?), &shown);
        }
    }
}

/// What costs most in production, if it costs much and there is something to learn about it.
fn hottest<'a>(offers: impl Iterator<Item = &'a Offer>) -> Option<Offer> {
    let hot =
        offers.filter(|offer| offer.production >= TRIED_FIRST && offer.need.is_some_and(|need| need > 0.0));
    // Equal ones in the order of their keys, so that the same seed makes the same choices.
    hot.max_by(|a, b| a.production.total_cmp(&b.production).then(b.region.cmp(&a.region))).copied()
}

fn is_asked_for(offers: &[Offer]) -> bool {
    offers.iter().any(|offer| offer.need.is_some_and(|need| need > MOST))
}

/// `anything`: purely random choices may take what is of no interest. `hottest`: what the others take.
fn choose(
    offers: &[Offer],
    anything: bool,
    hottest: Option<Offer>,
    random: &mut fastrand::Rng,
) -> Option<Offer> {
    let interesting: Vec<Offer> = offers.iter().copied().filter(|offer| offer.need.is_some()).collect();
    if random.f64() < PURELY_RANDOM {
        return random.choice(if anything { offers } else { &interesting }).copied();
    }
    if hottest.is_some() {
        return hottest;
    }
    // Each region once: what lacks most, not what runs most.
    let mut wanted: Vec<(f64, Offer)> =
        offers.iter().filter_map(|offer| Some((offer.need.filter(|need| *need > 0.0)?, *offer))).collect();
    wanted.sort_by_key(|(_, offer)| offer.region);
    wanted.dedup_by_key(|(_, offer)| offer.region);
    let mut left = random.f64() * wanted.iter().map(|(need, _)| need).sum::<f64>();
    let drawn = wanted.iter().find(|(need, _)| {
        left -= need;
        left <= 0.0
    });
    if let Some((_, offer)) = drawn.or(wanted.last()) {
        return Some(*offer);
    }
    let drawn = (0..CANDIDATES).filter_map(|_| random.choice(&interesting));
    drawn.max_by_key(|offer| offer.samples).copied().or_else(|| random.choice(offers).copied())
}

/// All speedups in an order, drawn from the end, in which every [`GROUPS`] of them are spread over the whole range.
fn shuffled(speedups: &[Speedup], random: &mut fastrand::Rng) -> Vec<Speedup> {
    let mut sorted = speedups.to_vec();
    sorted.sort_unstable();
    let mut groups: Vec<Vec<Speedup>> =
        sorted.chunks(sorted.len().div_ceil(GROUPS).max(1)).map(<[Speedup]>::to_vec).collect();
    groups.iter_mut().for_each(|group| random.shuffle(group));
    let mut deck = Vec::with_capacity(sorted.len());
    while groups.iter().any(|group| !group.is_empty()) {
        let mut round: Vec<Speedup> = groups.iter_mut().filter_map(Vec::pop).collect();
        random.shuffle(&mut round);
        deck.append(&mut round);
    }
    deck.reverse();
    deck
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(region: usize, samples: u64, need: f64) -> Offer {
        Offer {
            region: RegionId::new(region as i64),
            index: RegionIndex(region),
            samples,
            need: Some(need),
            production: 0.0,
        }
    }

    fn percent(n: u16) -> Speedup {
        Speedup::from_percent(n).unwrap()
    }

    #[test]
    fn half_of_the_windows_are_baselines_in_either_place() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(1));
        let choices = Choices::every_five_per_cent();
        let plans: Vec<Plan> =
            (0..400).map(|_| history.next(&[offer(3, 1, 0.0)], &choices, &mut random).unwrap()).collect();
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
                .map(|_| history.next(&[offer(0, 1, 0.0)], &choices, &mut random).unwrap())
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
            let offers = [offer(0, 9, 0.0), offer(1, 5, 0.5), offer(1, 5, 0.5), offer(2, 1, 0.1)];
            (0..50).map(|_| history.next(&offers, &choices, &mut random).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn what_costs_more_comes_more_often_and_nothing_is_left_out() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(3));
        let offers = [offer(0, 100, 0.0), offer(1, 10, 0.0), offer(2, 1, 0.0), offer(2, 1, 0.0)];
        let mut times = [0; 3];
        for _ in 0..1000 {
            times[history.next(&offers, &Choices::every_five_per_cent(), &mut random).unwrap().index.0] += 1;
        }
        assert!(times[0] > 400 && times[2] > 150 && times[1] > 50, "{times:?}");
    }

    #[test]
    fn what_lacks_most_comes_most_often_and_the_rest_now_and_then() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(4));
        let offers = [offer(0, 1000, 0.0), offer(0, 1000, 0.0), offer(1, 10, 0.8), offer(2, 10, 0.2)];
        let mut times = [0; 3];
        for _ in 0..2000 {
            times[history.next(&offers, &Choices::every_five_per_cent(), &mut random).unwrap().index.0] += 1;
        }
        // 30 % at random: half of it is region 0. Of the others 80 and 20 %.
        let expected = [300.0, 150.0 + 1120.0, 150.0 + 280.0];
        for (times, expected) in times.iter().zip(expected) {
            assert!((f64::from(*times) - expected).abs() < 100.0, "{times} instead of {expected}");
        }
    }

    #[test]
    fn what_costs_most_in_production_is_tried_first_and_then_like_the_others() {
        let hot = |region, need, production| Offer { production, ..offer(region, 10, need) };
        let offers =
            [hot(0, 0.5, 0.0), hot(1, 0.3, 0.3), hot(2, 0.4, 0.4), hot(3, 0.0, 0.9), hot(4, 0.01, 0.01)];
        let mut chosen = [[0; 5]; 2];
        for seed in 0..200 {
            let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(seed));
            for nth in 0..100 {
                let plan = history.next(&offers, &Choices::every_five_per_cent(), &mut random).unwrap();
                chosen[usize::from(nth >= 5)][plan.index.0] += 1;
            }
        }
        let [first, later] = chosen;
        // 70 % and a fifth of the rest; what lacks nothing is only tried at random, and so is what is not hot.
        assert!((700..=800).contains(&first[2]), "{first:?}");
        assert!((30..=100).contains(&first[0]) && (30..=100).contains(&first[3]), "{first:?}");
        // By what they lack: 0.5, 0.3 and 0.4, but for the first five of region 1.
        assert!(later[0] > later[2] && later[0] > later[1], "{later:?}");
        assert!((1000..=1300).contains(&later[3]), "purely random choices stay so: {later:?}");
        // What the user has asked for comes first.
        let mut asked = offers;
        asked[0].need = Some(20.0);
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(1));
        let of_asked = (0..100).filter(|_| {
            history.next(&asked, &Choices::every_five_per_cent(), &mut random).unwrap().index.0 == 0
        });
        assert!(of_asked.count() > 60);
    }

    #[test]
    fn a_line_whose_function_does_not_matter_is_tried_at_random() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(9));
        let line = Offer { need: None, ..offer(1, 1000, 0.0) };
        for function in [offer(0, 10, 0.0), offer(0, 10, 0.5)] {
            let lines = (0..1000)
                .filter(|_| {
                    let offers = [function, line];
                    history.next(&offers, &Choices::every_five_per_cent(), &mut random).unwrap().index.0 == 1
                })
                .count();
            // Half of the 30 % that are drawn at random.
            assert!((100..200).contains(&lines), "{lines}");
        }
    }

    #[test]
    fn five_experiments_have_five_speedups_from_small_to_large() {
        let mut random = fastrand::Rng::with_seed(5);
        let speedups = Choices::every_five_per_cent().speedups;
        for _ in 0..50 {
            let mut deck = shuffled(&speedups, &mut random);
            while !deck.is_empty() {
                let mut groups: Vec<u16> =
                    deck.split_off(deck.len() - 5).iter().map(|s| (s.per_mille() - 50) / 200).collect();
                groups.sort_unstable();
                assert_eq!(groups, [0, 1, 2, 3, 4]);
            }
        }
        assert_eq!(shuffled(&[percent(50)], &mut random), [percent(50)]);
    }

    #[test]
    fn windows_grow_for_a_slow_point_and_not_for_an_idle_one() {
        let learn = |history: &mut History, visits: &[u64]| {
            let length = length(history);
            history.learn(Shown { length, visits, periods: None, elapsed: Nanos::ZERO });
        };
        let mut history = History::default();
        learn(&mut history, &[3]);
        assert_eq!(length(&history), Nanos::from_millis(200));
        learn(&mut history, &[6]);
        assert_eq!(length(&history), Nanos::from_millis(200));
        let mut history = History::default();
        for _ in 0..20 {
            learn(&mut history, &[100, 0]);
        }
        assert_eq!(length(&history), Nanos::from_millis(100));
        for _ in 0..20 {
            learn(&mut history, &[1]);
        }
        assert_eq!(length(&history), LONGEST);
        // No point is visited: longer windows may see visits.
        let mut history = History::default();
        learn(&mut history, &[0, 0]);
        assert_eq!(length(&history), Nanos::from_millis(200));
    }

    /// The length that windows have now, where all have the same.
    fn length(history: &History) -> Nanos {
        history.length(&mut fastrand::Rng::with_seed(8))
    }

    #[test]
    fn each_point_has_windows_of_its_own_and_as_much_time_as_the_other() {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(7));
        let mut time = std::collections::BTreeMap::<u64, u64>::new();
        for _ in 0..5000 {
            let length = history.length(&mut random);
            let millis = length.get() / 1_000_000;
            *time.entry(millis).or_default() += millis;
            // A thousand visits a second, and four.
            let visits = [millis, (millis as f64 * 0.004 + random.f64()) as u64];
            history.learn(Shown { length, visits: &visits, periods: None, elapsed: Nanos::ZERO });
        }
        let most: Vec<(u64, u64)> = time.into_iter().filter(|(_, time)| *time > 50_000).collect();
        let [(100, short), (1600, long)] = most[..] else { panic!("{most:?}") };
        assert!((0.8..1.25).contains(&(short as f64 / long as f64)), "{most:?}");
    }

    /// The length of windows after a minute of a program whose period differs by `noise` from baseline to baseline.
    fn length_after_a_minute(noise: f64) -> Nanos {
        let (mut history, mut random) = (History::default(), fastrand::Rng::with_seed(6));
        let mut elapsed = 0;
        while elapsed < 60_000 {
            let planned = length(&history);
            let length = planned.get() / 1_000_000;
            elapsed += 2 * (length + 20);
            // Sums of six even numbers are nearly normal; longer windows average over more.
            let normal = (0..6).map(|_| random.f64() - 0.5).sum::<f64>() * std::f64::consts::SQRT_2;
            let period = 1.0 + noise * normal * (100.0 / length as f64).sqrt();
            let elapsed = Nanos::from_millis(elapsed);
            let shown = Shown { length: planned, visits: &[50, 0], periods: None, elapsed };
            history.learn(Shown { periods: Some(&[Some(period), None]), ..shown });
            history.learn(shown); // a speedup says nothing about noise
        }
        length(&history)
    }

    #[test]
    fn windows_grow_for_a_noisy_point_as_long_as_there_are_many() {
        assert_eq!(length_after_a_minute(0.03), Nanos::from_millis(100));
        let some = length_after_a_minute(0.2).get() / 1_000_000;
        assert!((200..=800).contains(&some), "{some}");
        // Not 1600 ms: 50 of them take longer than a minute.
        assert_eq!(length_after_a_minute(0.6), Nanos::from_millis(800));
    }

    #[test]
    fn without_an_offer_there_is_no_experiment() {
        let choices = Choices::every_five_per_cent();
        assert_eq!(History::default().next(&[], &choices, &mut fastrand::Rng::with_seed(0)), None);
    }
}
