//! Verdicts: what to think of a slope and its interval.

use super::{Estimate, Reach, interval};

/// So many more experiments stand for: no number of them would settle it, because the method's own error is larger than the effect.
pub(crate) const NEVER: u32 = 1_000_000;

/// A slope below this is not worth having: making the region free would win 2 %.
pub(crate) const WORTH: f64 = 0.02;
/// A slope that is certainly within this of zero has no noticeable effect: making the
/// region free would change less than 5 %.
const NOTHING: f64 = 0.05;
/// However exact the method is, a slope beyond this is something.
const SOMETHING: f64 = 0.15;
/// Fewer blocks than this say nothing, whatever their interval: an interval of few blocks is itself a
/// guess.
pub const ENOUGH_BLOCKS: usize = 5;

/// What to think of a region and a progress point.
///
/// | verdict | 95 % interval of the slope |
/// |---|---|
/// | `Helps` | above 0.02, and no chance find among all regions and points |
/// | `Hurts` | below −0.02, likewise |
/// | `NoEffect` | otherwise within ±0.05, and as much as the method may be off, but within ±0.15 |
/// | `NotEnoughData` | otherwise, or fewer than five blocks |
/// | `NotTrusted` | any, where the audit of the region does not balance, or something else is known to change what is measured |
///
/// However small the truth, enough data end in one of the first three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Making the region faster makes the point faster.
    Helps,
    /// It changes nothing.
    NoEffect,
    /// It makes the point slower: contention.
    Hurts,
    /// There is not enough data to tell.
    #[default]
    NotEnoughData,
    /// The point was not visited in most windows.
    Idle,
    /// The audit of the region does not balance (see [`audit`](mod@crate::audit)), a breakpoint slows the program down, or a limit on CPU time makes a latency longer.
    NotTrusted,
}

impl Verdict {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Helps => "helps",
            Verdict::NoEffect => "no-effect",
            Verdict::Hurts => "hurts",
            Verdict::NotEnoughData => "not-enough-data",
            Verdict::Idle => "idle",
            Verdict::NotTrusted => "not-trusted",
        }
    }

    /// What people read, in the terminal, in Markdown and on the page.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Helps => "helps",
            Verdict::NoEffect => "no effect",
            Verdict::Hurts => "hurts",
            Verdict::NotEnoughData => "too little data",
            Verdict::Idle => "idle",
            Verdict::NotTrusted => "not trusted",
        }
    }

    /// The verdict with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Verdict> {
        use Verdict::{Helps, Hurts, Idle, NoEffect, NotEnoughData, NotTrusted};
        [Helps, NoEffect, Hurts, NotEnoughData, Idle, NotTrusted]
            .into_iter()
            .find(|verdict| verdict.name() == name)
    }
}

/// Standard errors of the method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Errors {
    /// All that can make a slope less than it seems.
    pub(crate) method: f64,
    /// The part of inserted delays that are not exact.
    pub(crate) of_delays: f64,
    /// What is known to be wrong besides, hand-overs, time slices and the like, whichever way is longer.
    pub(crate) in_doubt: f64,
}

impl Errors {
    /// Where `doubts` of the error of the method are no inserted delays, and may be as large as `in_doubt` the other way.
    pub(super) fn parts(method: f64, doubts: f64, in_doubt: f64) -> Errors {
        Errors { method, of_delays: (method.powi(2) - doubts.powi(2)).max(0.0).sqrt(), in_doubt }
    }

    /// Where all of them go either way.
    pub(crate) fn either_way(method: f64, in_doubt: f64) -> Errors {
        Errors::parts(method, in_doubt, in_doubt)
    }
}

/// The verdict on a slope, estimated from `blocks` blocks: `slope` is what noise leaves of it. `crowding`: how far it may be off besides, whatever noise does.
pub(crate) fn of(slope: &Estimate, errors: Errors, crowding: Reach, blocks: usize) -> Verdict {
    let whole = interval::widened(*slope, errors.method);
    if blocks < ENOUGH_BLOCKS {
        Verdict::NotEnoughData
    } else if whole.lo - crowding.below > WORTH {
        Verdict::Helps
    } else if whole.hi + crowding.above < -WORTH {
        Verdict::Hurts
    } else {
        without_effect(slope, errors, crowding)
    }
}

/// The verdict on a slope that may well be zero; the arguments are those of [`of`].
pub(crate) fn without_effect(slope: &Estimate, errors: Errors, crowding: Reach) -> Verdict {
    // What they may be worth is no reason to call more than usual nothing, but to call less so.
    let nothing = nothing(errors.of_delays);
    let slope = interval::widened(*slope, errors.in_doubt);
    if slope.lo - crowding.below > -nothing && slope.hi + crowding.above < nothing {
        Verdict::NoEffect
    } else {
        Verdict::NotEnoughData
    }
}

/// How far from zero a slope may be that has no effect.
fn nothing(method_error: f64) -> f64 {
    (NOTHING + interval::NORMAL * method_error).min(SOMETHING)
}

/// The degrees of freedom of the method's error. Its size is known from hundreds of numbers, but its tails are heavier than normal
/// (`docs/theory.md`, "How exact all this is").
const METHOD_FREEDOM: f64 = 10.0;

/// How often a slope that is not worth having would look as large as `slope`, by chance. `slope` is what noise leaves of it, and `method_error` the
/// standard error of the method besides.
///
/// Far out in the tails the percentiles of a bootstrap say nothing, and it matters that a few blocks at
/// large speedups decide: `effective` blocks are as many as there are degrees of freedom in the noise.
pub(super) fn chance(slope: &Estimate, method_error: f64, blocks: usize, effective: f64) -> f64 {
    if blocks < ENOUGH_BLOCKS || effective <= 1.0 {
        return 1.0;
    }
    // The bootstrap made up for the one degree of freedom that the fit takes out of all blocks.
    let lost = (1.0 - 1.0 / blocks as f64) / (1.0 - 1.0 / effective);
    beyond_worth(slope.value, slope.se * lost.sqrt(), effective - 1.0, method_error)
}

/// How often a slope that is not worth having would look at least as large as this one. `freedom`: the degrees of freedom of `noise`, its standard
/// error. Those of both errors together are Welch's.
fn beyond_worth(slope: f64, noise: f64, freedom: f64, method_error: f64) -> f64 {
    let worth = (slope.abs() - WORTH).max(0.0);
    let (noise, method) = (noise.powi(2), method_error.powi(2));
    let welch = (noise + method).powi(2) / (noise.powi(2) / freedom + method.powi(2) / METHOD_FREEDOM);
    // Without any error a slope is as large as it looks.
    let errors = if worth > 0.0 { worth / (noise + method).sqrt() } else { 0.0 };
    interval::beyond(errors, if welch.is_finite() { welch } else { freedom })
}

/// About how many more blocks would make `slope`, which is worth having, happen by chance less often than
/// `bar`. `slope` is what noise leaves of it, and `method_error` the standard error of the method besides.
pub(super) fn more_blocks_below(bar: f64, slope: &Estimate, method_error: f64, blocks: usize) -> u32 {
    let likely = |more: u32| {
        let total = blocks + more as usize;
        let noise = slope.se * (blocks as f64 / total as f64).sqrt();
        beyond_worth(slope.value, noise, (total - 1) as f64, method_error) > bar
    };
    let noise_is_small = || until_noise_is_small(slope, method_error, blocks);
    (0..20).map(|power| 1 << power).find(|&more| !likely(more)).unwrap_or_else(noise_is_small)
}

/// Where the error of the method would be in the way if the estimate stayed where it is: about how many more blocks show whether it does. [`NEVER`], if there is hardly any
/// noise left.
fn until_noise_is_small(slope: &Estimate, method_error: f64, blocks: usize) -> u32 {
    let noise = slope.half_width() / (interval::NORMAL * method_error);
    let needed = blocks as f64 * (noise.powi(2) - 1.0);
    if needed < 1.0 { NEVER } else { needed.ceil().min(f64::from(NEVER)) as u32 }
}

/// About how many more blocks would settle it, if the estimate stays where it is: intervals shrink with
/// the root of the number of blocks, as far as they come from noise. The arguments are those of [`of`].
pub(super) fn more_blocks(
    verdict: Verdict,
    slope: &Estimate,
    errors: Errors,
    crowding: Reach,
    blocks: usize,
) -> Option<u32> {
    if verdict != Verdict::NotEnoughData {
        return None;
    }
    let missing = ENOUGH_BLOCKS.saturating_sub(blocks) as f64;
    let half = slope.half_width();
    if !half.is_finite() {
        return Some(missing.max(1.0) as u32);
    }
    // The widest interval around this value that has a verdict: above what is worth having, with the error of the
    // method, or within what is nothing.
    let method = interval::NORMAL * errors.method;
    let nearest = slope.value.abs() - crowding.towards_zero(slope.value);
    let above = (nearest - WORTH).max(0.0).powi(2) - method.powi(2);
    let within = nothing(errors.of_delays) - slope.value.abs() - crowding.longest();
    let within = within.max(0.0).powi(2) - (interval::NORMAL * errors.in_doubt).powi(2);
    let settled = above.max(within).max(0.0).sqrt();
    if settled == 0.0 {
        let needed = until_noise_is_small(slope, errors.method.max(errors.in_doubt), blocks);
        return Some(needed.max(missing as u32));
    }
    let needed = blocks as f64 * (half / settled).powi(2) - blocks as f64;
    Some(needed.max(missing).max(1.0).ceil().min(f64::from(NEVER)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Reach = Reach { below: 0.0, above: 0.0 };

    fn slope(lo: f64, hi: f64) -> Estimate {
        Estimate { value: (lo + hi) / 2.0, se: (hi - lo) / 4.0, lo, hi }
    }

    #[test]
    fn verdicts() {
        for (lo, hi, blocks, verdict) in [
            (0.3, 0.5, 20, Verdict::Helps),
            (0.3, 0.5, 4, Verdict::NotEnoughData),
            (0.03, 0.04, 20, Verdict::Helps),
            (0.01, 0.04, 20, Verdict::NoEffect),
            (0.01, 0.3, 20, Verdict::NotEnoughData),
            (-0.04, 0.04, 20, Verdict::NoEffect),
            (-0.06, 0.04, 20, Verdict::NotEnoughData),
            (-0.3, -0.1, 20, Verdict::Hurts),
            (f64::NEG_INFINITY, f64::INFINITY, 20, Verdict::NotEnoughData),
        ] {
            assert_eq!(
                of(&slope(lo, hi), Errors::default(), NONE, blocks),
                verdict,
                "[{lo}, {hi}] of {blocks}"
            );
        }
    }

    #[test]
    fn what_only_others_on_the_cpus_speak_for_does_not_help() {
        let verdict = |below, above| of(&slope(0.3, 0.4), Errors::default(), Reach { below, above }, 20);
        assert_eq!((verdict(0.1, 0.3), verdict(0.29, 0.0)), (Verdict::Helps, Verdict::NotEnoughData));
        let nothing = |below| of(&slope(-0.01, 0.01), Errors::default(), Reach { below, above: 0.0 }, 20);
        assert_eq!((nothing(0.03), nothing(0.1)), (Verdict::NoEffect, Verdict::NotEnoughData));
    }

    #[test]
    fn what_the_method_may_be_off_is_no_effect() {
        for (lo, hi, verdict) in [
            (0.05, 0.07, Verdict::NoEffect),
            (-0.07, -0.05, Verdict::NoEffect),
            (0.12, 0.13, Verdict::Helps),
            (-0.20, 0.20, Verdict::NotEnoughData),
        ] {
            assert_eq!(of(&slope(lo, hi), Errors::either_way(0.03, 0.0), NONE, 20), verdict, "[{lo}, {hi}]");
        }
    }

    #[test]
    fn few_blocks_say_little_of_noise_but_as_much_as_ever_of_the_method() {
        let slope = |noise: f64| Estimate { se: noise, ..slope(0.32, 0.32) };
        // Three standard errors, by Student's t with six and with ten degrees of freedom.
        let by_noise = chance(&slope(0.1), 0.0, 7, 7.0);
        let by_method = chance(&slope(1e-6), 0.1, 7, 7.0);
        assert!((by_noise - 0.024).abs() < 0.003, "{by_noise}");
        assert!((by_method - 0.0133).abs() < 0.001, "{by_method}");
        // Both, so that each has half of the variance.
        let by_both = chance(&slope(0.1 / 2_f64.sqrt()), 0.1 / 2_f64.sqrt(), 7, 7.0);
        assert!((0.006..by_method).contains(&by_both), "{by_both}");
        assert_eq!(chance(&slope(0.1), 0.1, 4, 4.0), 1.0);
        assert_eq!(chance(&slope(0.0), 0.0, 20, 20.0), 0.0);
    }

    #[test]
    fn four_times_the_blocks_halve_the_interval() {
        let wide = slope(-0.08, 0.12); // ±0.10 around 0.02; within ±0.03 it is settled
        assert_eq!(
            more_blocks(Verdict::NotEnoughData, &wide, Errors::either_way(0.0, 0.0), NONE, 9),
            Some(91)
        );
        assert_eq!(more_blocks(Verdict::Helps, &wide, Errors::either_way(0.0, 0.0), NONE, 9), None);
        assert_eq!(
            more_blocks(Verdict::NotEnoughData, &slope(0.5, 0.6), Errors::either_way(0.0, 0.0), NONE, 2),
            Some(3)
        );
        // What is within the error of the method is nothing: ±0.05 and as much.
        assert_eq!(
            more_blocks(
                Verdict::NotEnoughData,
                &wide,
                Errors::either_way(0.05 / interval::NORMAL, 0.0),
                NONE,
                9
            ),
            Some(6)
        );
        // A method that is off by 0.4 does not make 0.3 nothing, and no number of experiments settles it.
        assert_eq!(of(&slope(0.25, 0.35), Errors::either_way(0.2, 0.0), NONE, 20), Verdict::NotEnoughData);
        // A slope of zero settles nothing where hand-overs may be worth more.
        assert_eq!(of(&slope(-0.01, 0.01), Errors::either_way(0.03, 0.0), NONE, 20), Verdict::NoEffect);
        assert_eq!(
            of(&slope(-0.01, 0.01), Errors::either_way(0.10, 0.095), NONE, 20),
            Verdict::NotEnoughData
        );
        assert_eq!(
            more_blocks(Verdict::NotEnoughData, &slope(0.25, 0.35), Errors::either_way(0.2, 0.0), NONE, 20),
            Some(1_000_000)
        );
        // But with few of them it may still turn out to be something else.
        assert_eq!(
            more_blocks(Verdict::NotEnoughData, &slope(-0.2, 0.8), Errors::either_way(0.2, 0.0), NONE, 5),
            Some(4)
        );
        // No number of experiments settles what hand-overs or time slices may be worth.
        assert_eq!(
            more_blocks(Verdict::NotEnoughData, &slope(0.01, 0.03), Errors::either_way(0.2, 0.2), NONE, 20),
            Some(1_000_000)
        );
    }
}
