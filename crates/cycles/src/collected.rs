//! Collected: in which time samples were taken at all, from the books. Pure.

use archive::{Books, CollectorEpoch, EpochId, UnixSeconds};
use std::collections::HashMap;
use std::ops::Range;

const NANOS: f64 = 1e9;
/// Books begin at whole seconds and may be written a moment later: what is shorter is no gap.
const NO_GAP_S: f64 = 3.0;

/// The columns of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Where the first one begins, in seconds since 1970.
    pub start: i64,
    /// How long each is, in seconds.
    pub length: i64,
    /// How many there are.
    pub count: usize,
}

impl Columns {
    /// Those that hold a span of time.
    pub fn over(span: &Range<i64>, length: i64) -> Columns {
        let start = span.start - span.start.rem_euclid(length);
        let count = (span.end.max(span.start + 1) - start + length - 1).div_euclid(length);
        Columns { start, length, count: usize::try_from(count).unwrap_or(1).max(1) }
    }

    /// The column that a moment is in.
    pub fn of(&self, UnixSeconds(at): UnixSeconds) -> Option<usize> {
        let nth = at.checked_sub(self.start)?.div_euclid(self.length);
        usize::try_from(nth).ok().filter(|nth| *nth < self.count)
    }
}

/// What the books say of each column, and when there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Samples that the clock called for.
    pub expected: Vec<u64>,
    /// Samples that were lost.
    pub lost: Vec<u64>,
    /// CPU time that was covered, in nanoseconds.
    pub covered_ns: Vec<u64>,
    /// For how long there are books, in seconds.
    pub wall_s: Vec<f64>,
    /// When nothing was collected between the first and the last moment that was.
    pub gaps: Vec<(i64, i64)>,
}

impl Collected {
    /// From the books of one event.
    pub fn new<'b>(
        books: impl Iterator<Item = &'b (EpochId, Books)>,
        epochs: &HashMap<EpochId, CollectorEpoch>,
        columns: Columns,
        span: &Range<i64>,
    ) -> Collected {
        let none = || vec![0; columns.count];
        let mut of = Collected { expected: none(), lost: none(), covered_ns: none(), ..Collected::default() };
        let mut spans: Vec<Vec<(f64, f64)>> = vec![Vec::new(); columns.count];
        let mut all = Vec::new();
        for (epoch, books) in books {
            // Samples stand where their time bucket begins, and so do their books.
            let bucket = epochs.get(epoch).map_or(books.start, |epoch| epoch.setting.bucket(books.start));
            let start = books.start.0 as f64;
            let during = (start, start + books.length.get() as f64 / NANOS);
            all.push(during);
            let Some(nth) = columns.of(bucket) else { continue };
            of.expected[nth] += books.expected;
            of.lost[nth] += books.lost;
            of.covered_ns[nth] += books.covered.get();
            spans[nth].push(during);
        }
        of.wall_s =
            spans.into_iter().map(|spans| union(spans).iter().map(|(from, to)| to - from).sum()).collect();
        of.gaps = gaps(&union(all), span);
        of
    }

    /// What one sample is: cores, for a clock; otherwise samples a second. `None` where nothing was collected.
    pub fn scale(&self, is_clock: bool) -> Vec<Option<f64>> {
        let of = |nth: usize| {
            let wall = self.wall_s[nth];
            let each = match (is_clock, self.expected[nth]) {
                (false, _) => 1.0,
                (true, 0) => return None,
                (true, expected) => self.covered_ns[nth] as f64 / NANOS / expected as f64,
            };
            (wall > 0.0).then(|| each / wall)
        };
        (0..self.wall_s.len()).map(of).collect()
    }
}

/// What is in any of the spans, in order.
fn union(mut spans: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut found: Vec<(f64, f64)> = Vec::new();
    for (from, to) in spans {
        match found.last_mut() {
            Some((_, end)) if from <= *end => *end = end.max(to),
            _ => found.push((from, to)),
        }
    }
    found
}

/// What is in none of the spans, which are in order.
fn gaps(spans: &[(f64, f64)], within: &Range<i64>) -> Vec<(i64, i64)> {
    let ends = spans.windows(2).filter_map(|pair| match pair {
        [(_, from), (to, _)] if to - from >= NO_GAP_S => Some((from.round() as i64, *to as i64)),
        _ => None,
    });
    ends.map(|(from, to)| (from.max(within.start), to.min(within.end)))
        .filter(|(from, to)| from < to)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::EventId;
    use profile::Nanos;

    fn books(start: i64, seconds: u64, expected: u64) -> (EpochId, Books) {
        let of = Books {
            event: EventId::new(1),
            start: UnixSeconds(start),
            length: Nanos::new(seconds * 1_000_000_000),
            expected,
            stored: expected,
            unknown: 0,
            lost: 1,
            idle: 0,
            covered: Nanos::new(2 * seconds * 1_000_000_000),
            own_cpu: Nanos::ZERO,
            kernel_cpu: Nanos::ZERO,
            resident: 0,
            squares: 0,
        };
        (EpochId::new(1), of)
    }

    #[test]
    fn two_runs_45_seconds_apart_have_a_gap_between_them() {
        let all = [books(600, 50, 1000), books(695, 25, 500), books(720, 60, 1200)];
        let span = 600..780;
        let columns = Columns::over(&span, 60);
        assert_eq!(columns, Columns { start: 600, length: 60, count: 3 });
        let of = Collected::new(all.iter(), &HashMap::new(), columns, &span);
        assert_eq!(of.gaps, [(650, 695)]);
        assert_eq!((of.expected.clone(), of.lost.clone()), (vec![1000, 500, 1200], vec![1, 1, 1]));
        assert_eq!(of.wall_s, [50.0, 25.0, 60.0]);
        // Ten samples a second and CPU: each is a tenth of a second, and 100 in ten seconds one core.
        let cores: Vec<f64> = of.scale(true).into_iter().map(|each| each.unwrap() * 10.0).collect();
        for (found, expected) in cores.iter().zip([10.0 * 0.1 / 50.0, 10.0 * 0.1 / 25.0, 10.0 * 0.1 / 60.0]) {
            assert!((found - expected).abs() < 1e-12, "{cores:?}");
        }
        assert_eq!(of.scale(false)[1], Some(1.0 / 25.0));
    }

    #[test]
    fn what_two_machines_cover_is_no_gap_and_columns_without_books_have_no_scale() {
        let all = [books(0, 60, 10), books(30, 60, 10), books(240, 60, 10)];
        let span = 0..300;
        let of = Collected::new(all.iter(), &HashMap::new(), Columns::over(&span, 60), &span);
        assert_eq!(of.gaps, [(90, 240)]);
        assert_eq!(of.wall_s, [90.0, 0.0, 0.0, 0.0, 60.0]);
        assert_eq!(
            of.scale(true).iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, false, false, true]
        );
    }

    #[test]
    fn columns_begin_at_whole_lengths_of_time() {
        for (span, length, expected) in [
            (61..119, 60, (60, 1)),
            (61..121, 60, (60, 2)),
            (60..120, 60, (60, 1)),
            (-1..1, 60, (-60, 2)),
            (5..5, 60, (0, 1)),
        ] {
            let Columns { start, count, .. } = Columns::over(&span, length);
            assert_eq!((start, count), expected, "{span:?}");
        }
        let columns = Columns { start: 60, length: 60, count: 2 };
        let of = |at| columns.of(UnixSeconds(at));
        assert_eq!(
            [of(59), of(60), of(179), of(180), of(i64::MIN), of(i64::MAX)],
            [None, Some(0), Some(1), None, None, None]
        );
    }
}
