//! What sampling costs the program: when it is measured, and by how much time.
//!
//! **Does:** decide when two stretches of a run are to be compared, and keep what they showed. **Does not:** conduct them ([`Conductor::compare_profiled`](crate::window::Conductor::compare_profiled)), or say
//! what they mean (`profile`). **Constraints:** they take a small part of the time, and are over once there are enough of them.

use profile::{Nanos, OverheadPair, Span};
use std::time::Duration;

/// How long each stretch is at least: so short that the program changes little from one to the other.
pub const STRETCH: Nanos = Nanos::from_millis(25);
/// Which part of a run may be spent on it, as a divisor.
const PART: u32 = 25;
/// What a pair takes, about, with the time until threads are sampled differently.
const TAKES: Duration = Duration::from_millis(100);
/// So many pairs tell as much as anybody needs to know.
const ENOUGH: usize = 60;

/// Each point in two stretches, from visit to visit where it was visited.
#[derive(Clone, Debug)]
pub struct Stretches {
    pub profiled: Vec<Option<Span>>,
    pub resting: Vec<Option<Span>>,
}

/// The pairs of a session.
#[derive(Debug, Default)]
pub struct Overhead {
    pairs: Vec<OverheadPair>,
    spent: Duration,
}

impl Overhead {
    /// Whether it is time for another pair, so long after the beginning.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        self.pairs.len() < ENOUGH && (self.spent + TAKES) * PART <= elapsed
    }

    /// Whether the stretch in which the program is profiled comes first.
    pub fn profiled_first(&self) -> bool {
        // By turns, beginning anew in reverse after each two: what changes steadily cancels out.
        matches!(self.pairs.len() % 4, 0 | 3)
    }

    /// Keeps a pair that took so long; `None` of one that was spoilt.
    pub fn add(&mut self, stretches: Option<&Stretches>, took: Duration) {
        self.spent += took;
        self.pairs.extend(stretches.and_then(|stretches| pair(self.pairs.len(), stretches)));
    }

    pub fn so_far(&self) -> &[OverheadPair] {
        &self.pairs
    }
}

/// By the point that was visited most.
fn pair(number: usize, stretches: &Stretches) -> Option<OverheadPair> {
    // A point that came in between is known in the second one only.
    let in_both = stretches.profiled.iter().zip(&stretches.resting);
    let in_both = in_both.filter_map(|(profiled, resting)| Some((profiled.as_ref()?, resting.as_ref()?)));
    let (profiled, resting) = in_both.max_by_key(|(profiled, resting)| profiled.visits + resting.visits)?;
    Some(OverheadPair {
        number: number as u32,
        profiled_visits: profiled.visits,
        profiled: profiled.elapsed,
        resting_visits: resting.visits,
        resting: resting.elapsed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points that were visited so often; nothing is known of one with 0.
    fn stretches(profiled: &[u64], resting: &[u64]) -> Stretches {
        let span = |visits: &u64| {
            (*visits > 0).then_some(Span { visits: *visits, elapsed: STRETCH, required: Nanos::ZERO })
        };
        let spans = |visits: &[u64]| visits.iter().map(span).collect();
        Stretches { profiled: spans(profiled), resting: spans(resting) }
    }

    #[test]
    fn pairs_take_a_small_part_of_a_run() {
        let mut overhead = Overhead::default();
        let run = Duration::from_secs(25);
        let mut now = Duration::ZERO;
        while now < run {
            let took = if overhead.is_due(now) { TAKES } else { Duration::ZERO };
            if !took.is_zero() {
                overhead.add(Some(&stretches(&[7], &[8])), took);
            }
            now += took + Duration::from_millis(10);
        }
        assert_eq!(overhead.so_far().len(), 9);
        // Spoilt ones take time, too.
        overhead.add(None, run);
        assert!(!overhead.is_due(2 * run));
        assert_eq!(overhead.so_far().len(), 9);
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut overhead = Overhead::default();
        for _ in 0..ENOUGH {
            assert!(overhead.is_due(TAKES * PART));
            overhead.add(Some(&stretches(&[7], &[8])), Duration::ZERO);
        }
        assert!(!overhead.is_due(TAKES * PART));
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
        assert_eq!((pair.profiled_visits, pair.resting_visits), (700, 900));
    }
}
