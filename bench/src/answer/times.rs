//! When an answer was right and stayed right, and what that says about several runs.

use crate::interval::count;

/// The times at which a run of so many seconds is looked at: every quarter of a second, later every twentieth of
/// the time; and at its end.
pub fn grid(seconds: f64) -> Vec<f64> {
    const STEP: f64 = 0.25;
    const SHARE: f64 = 0.05;
    let next = |time: &f64| Some(time + STEP.max(time * SHARE));
    let mut times: Vec<f64> =
        std::iter::successors(Some(STEP), next).take_while(|time| *time < seconds).collect();
    times.push(seconds);
    times
}

/// The first of the ascending `times` from which on `right` holds at all of them; nothing if it does not at the
/// last. Looks from the end backwards, and no further than needed.
pub fn settled<E>(times: &[f64], mut right: impl FnMut(f64) -> Result<bool, E>) -> Result<Option<f64>, E> {
    let mut since = None;
    for time in times.iter().rev() {
        if !right(*time)? {
            break;
        }
        since = Some(*time);
    }
    Ok(since)
}

/// The time by which `share` of the runs had their answer; nothing if so many never had. (The nearest rank, so
/// that no time is invented between two runs.)
pub fn quantile(times: &[Option<f64>], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.unwrap_or(f64::INFINITY)).collect();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rank = (share * count(sorted.len())).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().filter(|time| time.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which `right` is asked, and the answer.
    fn searched(right: &[bool]) -> (Vec<f64>, Option<f64>) {
        let times: Vec<f64> = (0..right.len()).map(count).collect();
        let mut asked = Vec::new();
        let since = settled(&times, |time| {
            asked.push(time);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Ok::<_, ()>(right[time as usize])
        });
        (asked, since.unwrap())
    }

    #[test]
    fn right_by_chance_is_not_right() {
        assert_eq!(searched(&[false, true, false, true, true]), (vec![4.0, 3.0, 2.0], Some(3.0)));
        assert_eq!(searched(&[true, true]), (vec![1.0, 0.0], Some(0.0)));
        assert_eq!(searched(&[true, true, false]), (vec![2.0], None), "wrong at the end");
        assert_eq!(searched(&[]), (vec![], None));
        assert_eq!(settled(&[1.0], |_| Err("broken")), Err("broken"));
    }

    #[test]
    fn the_grid_ascends_to_the_end() {
        for seconds in [0.1, 0.25, 3.3, 20.0] {
            let grid = grid(seconds);
            assert!(grid.is_sorted_by(|a, b| a < b), "{grid:?}");
            assert!((grid.last().unwrap() - seconds).abs() < 1e-12, "{grid:?}");
        }
        assert!(grid(60.0).len() < 100, "each costs a report");
    }

    #[test]
    fn quantiles_know_never() {
        let ten: Vec<Option<f64>> = (1..=10).map(|seconds| Some(f64::from(seconds))).collect();
        assert_eq!((quantile(&ten, 0.5), quantile(&ten, 0.9)), (Some(5.0), Some(9.0)));
        let mut some = ten;
        some[0] = None;
        some[8] = None;
        assert_eq!((quantile(&some, 0.5), quantile(&some, 0.9)), (Some(6.0), None));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
