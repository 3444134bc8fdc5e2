//! What sampling costs the program: when it is measured, and by how much time.
//!
//! **Does:** decide when two stretches of a run are to be compared, and keep what they showed. **Does not:** conduct them ([`Conductor::compare_profiled`](crate::window::Conductor::compare_profiled)), or say
//! what they mean (`profile`). **Constraints:** they take a small part of the time, and are over once there are enough of them.

use profile::{Nanos, OverheadPair, Span};
use std::time::Duration;
use wire::layout::Sampler;

/// How long each stretch is at least: so short that the program changes little from one to the other.
pub const STRETCH: Nanos = Nanos::from_millis(25);
/// Which part of a run may be spent on it, as a divisor.
const PART: u32 = 25;
/// What a pair takes, about, with the time until threads are sampled differently.
const TAKES: Duration = Duration::from_millis(100);
/// So many pairs tell as much as anybody needs to know.
const ENOUGH: usize = 60;
/// After so many without a visit in each of their stretches there are no further ones.
const IN_VAIN: u32 = 5;
/// The longest period of samples with which there are enough of them in a stretch, and with which they soon come as usual again behind one with hardly any.
const LONGEST_PERIOD: Nanos = Nanos::from_micros(1500);

/// Each point in two stretches, from visit to visit where it was visited.
#[derive(Clone, Debug)]
pub struct Stretches {
    pub profiled: Vec<Option<Span>>,
    pub seldom: Vec<Option<Span>>,
}

/// The pairs of a session.
#[derive(Debug, Default)]
pub struct Overhead {
    pairs: Vec<OverheadPair>,
    /// What all took, those that were spoilt as well.
    spent: Duration,
    /// How many had no visit in a stretch, one after the other.
    in_vain: u32,
}

impl Overhead {
    /// Whether threads that are sampled like this can be sampled less often for a moment: a timer is as coarse as that already.
    pub fn can_be_measured(sampler: Sampler, period: Nanos) -> bool {
        matches!(sampler, Sampler::Perf | Sampler::PerfUser) && period <= LONGEST_PERIOD
    }

    /// Whether it is time for another pair, so long after the first experiment. `left`: how long experiments may go on.
    pub fn is_due(&self, elapsed: Duration, left: Option<Nanos>) -> bool {
        let has_time = left.is_none_or(|left| Duration::from_nanos(left.get()) > 2 * TAKES);
        let is_wanted = self.pairs.len() < ENOUGH && self.in_vain < IN_VAIN;
        has_time && is_wanted && (self.spent + TAKES) * PART <= elapsed
    }

    /// Whether the stretch in which the program is profiled comes first.
    pub fn profiled_first(&self) -> bool {
        // By turns, beginning anew in reverse after each two: what changes steadily cancels out.
        matches!(self.pairs.len() % 4, 0 | 3)
    }

    /// Keeps a pair that took so long; `None` of one that was spoilt.
    pub fn add(&mut self, stretches: Option<&Stretches>, took: Duration) {
        self.spent += took;
        let Some(stretches) = stretches else { return };
        match pair(self.pairs.len(), stretches) {
            Some(pair) => {
                self.pairs.push(pair);
                self.in_vain = 0;
            }
            None => self.in_vain += 1,
        }
    }

    pub fn so_far(&self) -> &[OverheadPair] {
        &self.pairs
    }
}

/// By the point that was visited most.
fn pair(number: usize, stretches: &Stretches) -> Option<OverheadPair> {
    // A point that came in between is known in the second one only.
    let in_both = stretches.profiled.iter().zip(&stretches.seldom);
    let in_both = in_both.filter_map(|(profiled, seldom)| Some((profiled.as_ref()?, seldom.as_ref()?)));
    let (profiled, seldom) =
        in_both.max_by_key(|(profiled, seldom)| profiled.visits.saturating_add(seldom.visits))?;
    Some(OverheadPair {
        number: number as u32,
        profiled_visits: profiled.visits,
        profiled: profiled.elapsed,
        seldom_visits: seldom.visits,
        seldom: seldom.elapsed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points that were visited so often; nothing is known of one with 0.
    fn stretches(profiled: &[u64], seldom: &[u64]) -> Stretches {
        let span = |visits: &u64| {
            (*visits > 0).then_some(Span { visits: *visits, elapsed: STRETCH, required: Nanos::ZERO })
        };
        let spans = |visits: &[u64]| visits.iter().map(span).collect();
        Stretches { profiled: spans(profiled), seldom: spans(seldom) }
    }

    #[test]
    fn pairs_take_a_small_part_of_a_run() {
        let mut overhead = Overhead::default();
        let run = Duration::from_secs(25);
        let mut now = Duration::ZERO;
        while now < run {
            let took = if overhead.is_due(now, None) { TAKES } else { Duration::ZERO };
            if !took.is_zero() {
                overhead.add(Some(&stretches(&[7], &[8])), took);
            }
            now += took + Duration::from_millis(10);
        }
        assert_eq!(overhead.so_far().len(), 9);
        // Spoilt ones take time, too.
        overhead.add(None, run);
        assert!(!overhead.is_due(2 * run, None));
        assert_eq!(overhead.so_far().len(), 9);
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut overhead = Overhead::default();
        for _ in 0..ENOUGH {
            assert!(overhead.is_due(TAKES * PART, None));
            overhead.add(Some(&stretches(&[7], &[8])), Duration::ZERO);
        }
        assert!(!overhead.is_due(TAKES * PART, None));
    }

    #[test]
    fn where_points_are_hardly_visited_it_is_given_up() {
        let mut overhead = Overhead::default();
        let [visited, in_vain] = [&[8], &[0]].map(|seldom| stretches(&[7], seldom));
        for stretches in [&in_vain, &in_vain, &in_vain, &in_vain, &visited, &in_vain, &in_vain, &in_vain] {
            overhead.add(Some(stretches), Duration::ZERO);
            overhead.add(None, Duration::ZERO);
        }
        assert!(overhead.is_due(TAKES * PART, None), "one was visited in between");
        overhead.add(Some(&in_vain), Duration::ZERO);
        overhead.add(Some(&in_vain), Duration::ZERO);
        assert!(!overhead.is_due(TAKES * PART, None));
    }

    #[test]
    fn there_is_no_pair_at_the_end_of_a_run_nor_where_samples_are_few() {
        let overhead = Overhead::default();
        assert!(overhead.is_due(TAKES * PART, Some(Nanos::from_millis(300))));
        assert!(!overhead.is_due(TAKES * PART, Some(Nanos::from_millis(150))));
        let millis = Nanos::from_millis;
        assert!(Overhead::can_be_measured(Sampler::PerfUser, millis(1)));
        assert!(!Overhead::can_be_measured(Sampler::Perf, millis(2)));
        assert!(!Overhead::can_be_measured(Sampler::Timer, millis(1)));
    }

    #[test]
    fn each_comes_first_as_often_as_the_other() {
        let mut overhead = Overhead::default();
        let mut firsts = Vec::new();
        for _ in 0..8 {
            firsts.push(overhead.profiled_first());
            overhead.add(Some(&stretches(&[7], &[8])), TAKES);
        }
        assert_eq!(firsts, [true, false, false, true, true, false, false, true]);
    }

    #[test]
    fn the_point_that_is_visited_most_is_compared() {
        let mut overhead = Overhead::default();
        overhead.add(Some(&stretches(&[1, 700, 0], &[3, 900, 1000, 2000])), TAKES);
        overhead.add(Some(&stretches(&[0], &[3])), TAKES);
        let [pair] = overhead.so_far() else { panic!("no point is known in both stretches of the second") };
        assert_eq!((pair.profiled_visits, pair.seldom_visits), (700, 900));
    }
}
