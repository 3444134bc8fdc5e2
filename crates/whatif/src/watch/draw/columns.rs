//! Which columns of the table have room.

/// How wide each column is; 0 is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) region: usize,
    pub(super) slope: usize,
    /// The interval as a bar.
    pub(super) bar: usize,
    /// The interval as numbers.
    pub(super) interval: usize,
    pub(super) verdict: usize,
    pub(super) share: usize,
    /// The share in production.
    pub(super) production: usize,
    pub(super) experiments: usize,
}

/// Between two columns.
pub(super) const GAP: usize = 2;
const SLOPE: usize = 12;
const INTERVAL: usize = 13;
const SHARE: usize = 5;
const EXPERIMENTS: usize = 11;
/// A bar takes what names leave, between these.
const BAR: std::ops::RangeInclusive<usize> = 12..=40;
/// A name has at least so many columns before there are others beside it.
const NAME: usize = 15;
/// More than this is left to the bars.
const LONG_NAME: usize = 60;

impl Columns {
    /// In at most so many columns; `verdict`: the longest verdict.
    pub(super) fn new(width: usize, verdict: usize, production: bool) -> Columns {
        let mut columns = Columns {
            region: width,
            slope: 0,
            bar: 0,
            interval: 0,
            verdict: 0,
            share: 0,
            production: 0,
            experiments: 0,
        };
        // What tells most first; names need not be whole for the first two.
        columns.verdict = columns.take(verdict, NAME);
        columns.slope = columns.take(SLOPE, NAME);
        columns.bar = columns.take(*BAR.start(), NAME + 5);
        columns.share = columns.take(SHARE, NAME + 5);
        if production {
            columns.production = columns.take(SHARE, NAME + 5);
        }
        columns.experiments = columns.take(EXPERIMENTS, NAME + 5);
        columns.interval = columns.take(INTERVAL, NAME + 10);
        if columns.bar > 0 {
            let more = columns.region.saturating_sub(LONG_NAME).min(BAR.end() - BAR.start());
            columns.region -= more;
            columns.bar += more;
        }
        columns.region = columns.region.min(LONG_NAME * 2);
        columns
    }

    /// So many of the name's columns, and the gap before them, if it keeps `name`.
    fn take(&mut self, width: usize, name: usize) -> usize {
        match self.region.checked_sub(width + GAP) {
            Some(left) if left >= name => {
                self.region = left;
                width
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_most_has_room_first() {
        let of = |width, production| {
            let c = Columns::new(width, 9, production);
            [c.region, c.slope, c.bar, c.interval, c.verdict, c.share, c.production, c.experiments]
        };
        for (width, production, expected) in [
            (0, false, [0, 0, 0, 0, 0, 0, 0, 0]),
            (10, false, [10, 0, 0, 0, 0, 0, 0, 0]),
            (26, false, [15, 0, 0, 0, 9, 0, 0, 0]),
            (40, false, [15, 12, 0, 0, 9, 0, 0, 0]),
            (60, false, [21, 12, 12, 0, 9, 0, 0, 0]),
            (80, false, [21, 12, 12, 0, 9, 5, 0, 11]),
            (92, false, [33, 12, 12, 0, 9, 5, 0, 11]),
            (160, false, [60, 12, 38, 13, 9, 5, 0, 11]),
            (60, true, [21, 12, 12, 0, 9, 0, 0, 0]),
            (80, true, [27, 12, 12, 0, 9, 5, 5, 0]),
            (160, true, [60, 12, 31, 13, 9, 5, 5, 11]),
        ] {
            assert_eq!(of(width, production), expected, "{width}");
        }
        for width in 0..400 {
            let used: usize = of(width, true).iter().sum::<usize>()
                + GAP * of(width, true)[1..].iter().filter(|c| **c > 0).count();
            assert!(used <= width, "{width}");
        }
    }
}
