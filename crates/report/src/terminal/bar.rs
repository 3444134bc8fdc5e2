//! The interval of a slope as a bar, on an axis that all rows of a table share.

use profile::Estimate;

/// Slopes beyond are cut off: an interval may reach to minus anything.
const MOST: f64 = 1.5;

/// What the bars of a table are drawn along. Zero is on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// As long as the longest of these asks for.
    pub fn of<'a>(slopes: impl Iterator<Item = &'a Estimate>) -> Axis {
        let ends = slopes.flat_map(|slope| [slope.value, slope.lo, slope.hi]);
        let ends = ends.filter(|end| end.is_finite()).map(|end| end.clamp(-MOST, MOST));
        let (low, high) = ends.fold((0.0, 0.1), |(low, high): (f64, f64), end| (low.min(end), high.max(end)));
        Axis { low, high }
    }

    /// `│ ─━─`: where zero is, the interval, and in it the estimate. In exactly `width` columns.
    pub fn draw(&self, slope: Option<&Estimate>, width: usize) -> String {
        let column = |slope: f64| {
            let part = (slope.clamp(-MOST, MOST) - self.low) / (self.high - self.low);
            ((part * (width.max(1) - 1) as f64).round().max(0.0) as usize).min(width.saturating_sub(1))
        };
        let zero = column(0.0);
        let known = slope.filter(|slope| slope.value.is_finite());
        let interval = known.filter(|slope| slope.half_width().is_finite());
        let cell = |nth: usize| match (known, interval) {
            (Some(slope), _) if nth == column(slope.value) => '━',
            (_, Some(slope)) if (column(slope.lo)..=column(slope.hi)).contains(&nth) => '─',
            _ if nth == zero => '│',
            _ => ' ',
        };
        (0..width).map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope(lo: f64, value: f64, hi: f64) -> Estimate {
        Estimate { value, se: 0.0, lo, hi }
    }

    #[test]
    fn bars_share_their_axis() {
        let slopes = [slope(0.6, 0.8, 1.0), slope(-0.5, 0.0, 0.5), slope(-1.0, -1.0, -1.0)];
        let axis = Axis::of(slopes.iter());
        assert_eq!((axis.low, axis.high), (-1.0, 1.0));
        let drawn = slopes.map(|slope| axis.draw(Some(&slope), 11));
        assert_eq!(drawn, ["     │  ─━─", "   ──━───  ", "━    │     "]);
        assert_eq!(axis.draw(None, 11), "     │     ");
        // Half an interval is none.
        assert_eq!(axis.draw(Some(&slope(f64::NEG_INFINITY, 0.8, 1.0)), 11), "     │   ━ ");
    }

    #[test]
    fn nothing_is_too_wild_to_be_drawn() {
        let wild = slope(f64::NEG_INFINITY, f64::NAN, 1e300);
        let axis = Axis::of([wild].iter());
        assert_eq!((axis.low, axis.high), (0.0, MOST));
        for width in [0, 1, 2, 9] {
            assert_eq!(axis.draw(Some(&wild), width).chars().count(), width);
            assert_eq!(Axis::of([].iter()).draw(None, width).chars().count(), width);
        }
    }
}
