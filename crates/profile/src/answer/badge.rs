//! Badges: how far an answer can be relied on, why, and what to do about it.

use super::{Decision, Needed, Piece};
use crate::audit::Audited;
use crate::estimate::{REFERENCE, Target, Verdict};
use crate::model::Warning;
use crate::printable;
use crate::ranking::{PointSummary, Profile};
use crate::sentence::HOT;

/// The share of experiments on the best piece that may have been disturbed.
const DISTURBED: f64 = 0.2;
/// Half an interval that is wider than this share of its gain is wide, if it is wider than [`NARROW`], too.
const WIDE: f64 = 0.5;
/// Half an interval that is always narrow enough.
const NARROW: f64 = 0.03;

/// How far an answer can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// It can be acted on.
    Good,
    /// It points the right way; the numbers, or more than one piece of code, are uncertain.
    Noisy,
    /// There is no answer yet.
    TooLittle,
    /// An audit contradicts the numbers.
    NotTrusted,
}

impl Quality {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Quality::Good => "good",
            Quality::Noisy => "noisy",
            Quality::TooLittle => "too-little",
            Quality::NotTrusted => "not-trusted",
        }
    }

    /// In a report: "too little".
    pub const fn words(self) -> &'static str {
        match self {
            Quality::Good => "good",
            Quality::Noisy => "noisy",
            Quality::TooLittle => "too little data",
            Quality::NotTrusted => "not trusted",
        }
    }
}

/// How far an answer can be relied on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// In one word.
    pub quality: Quality,
    /// Why: a sentence without a full stop.
    pub cause: String,
    /// What to do about it; `None` where nothing need be done.
    pub advice: Option<String>,
}

impl Badge {
    /// In one sentence, which begins with the word: "good: 49 experiments settle it."
    pub fn sentence(&self) -> String {
        let advice = self.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        format!("{}: {}{advice}.", self.quality.words(), self.cause)
    }

    fn new(quality: Quality, cause: impl Into<String>, advice: impl Into<String>) -> Badge {
        Badge { quality, cause: cause.into(), advice: Some(advice.into()) }
    }
}

/// Where no progress point can be measured.
pub(super) fn without_point(profile: &Profile) -> Badge {
    if let Some(failure) = failure(profile) {
        return failure;
    }
    let (cause, advice) = if profile.points.is_empty() {
        (
            "no progress point: nothing says what counts as a unit of work, so that only the plain profile is known",
            "let `whatif points` suggest places, and name one with -p; or judge a program that ends by itself by how long it takes, with \
             --end-to-end",
        )
    } else {
        (
            "no progress point was visited in most windows",
            "name a place that is reached more often with -p, or give the program more work",
        )
    };
    Badge::new(Quality::TooLittle, cause, advice)
}

/// Where the run itself knew why there is nothing.
fn failure(profile: &Profile) -> Option<Badge> {
    let failure = profile.failure()?;
    Some(Badge::new(Quality::TooLittle, printable(&failure.message), printable(&failure.advice)))
}

/// Where the run says that it has changed what it measured.
pub(super) fn changed(profile: &Profile) -> Option<Badge> {
    warned(profile, Warning::SLOW_BESIDE_POINT)
}

/// Why no number of `point` can be trusted, whatever experiments show.
pub(super) fn unpredictable(profile: &Profile, point: &PointSummary) -> Option<Badge> {
    let held_up = profile.held_up_latency(point).map(|cause| {
        let advice = "profile without the limit, or with no more threads than it allows CPUs; or judge by a progress point (-p)";
        Badge::new(Quality::NotTrusted, cause, advice)
    });
    changed(profile).or(held_up)
}

fn warned(profile: &Profile, code: &str) -> Option<Badge> {
    let warning = profile.rows.warned(code).next()?;
    Some(Badge::new(Quality::NotTrusted, printable(&warning.message), printable(&warning.advice)))
}

/// What to think of the answer for a point whose pieces are these, the best first.
pub(super) fn of(profile: &Profile, point: &PointSummary, pieces: &[Piece], decision: &Decision) -> Badge {
    if let Some(failure) = failure(profile) {
        return failure;
    }
    if let Some(unpredictable) = unpredictable(profile, point) {
        return unpredictable;
    }
    let with = |verdict| pieces.iter().find(move |piece| piece.verdict() == Some(verdict));
    let best = with(Verdict::Helps).or_else(|| with(Verdict::Hurts));
    let hot = |piece: &&Piece| piece.share.is_some_and(|share| share >= HOT);
    if let Some(doubted) = pieces.iter().find(|piece| piece.verdict() == Some(Verdict::NotTrusted))
        && (best.is_none() || hot(&doubted))
    {
        return not_trusted(profile, doubted);
    }
    if best.is_some()
        && let Some(doubt) = warned(profile, Warning::GOROUTINES)
    {
        return doubt;
    }
    let Some(best) = best else {
        // The best candidate, as the sentence has it.
        let open = with(Verdict::NotEnoughData);
        if let Some(first) = decision.places().first().map(|&place| &pieces[place]).or(open)
            && *decision != Decision::Open
        {
            let badge = Badge { quality: Quality::Noisy, ..too_little(profile, first) };
            let alone = decision.alone(profile, pieces).map(|(experiments, names)| {
                let what = if names.len() == 1 { "it" } else { "them" };
                format!(
                    "measure {what} alone, into the same recording (about {experiments:.0} experiments, as it looks now)"
                )
            });
            return Badge { advice: alone.or(badge.advice), ..badge };
        }
        let unknown = pieces.iter().find(|piece| piece.estimate.is_none() && hot(piece));
        return match (open, unknown) {
            (Some(open), _) => too_little(profile, open),
            (None, Some(unknown)) => too_little(profile, unknown),
            (None, None) if pieces.iter().any(|piece| piece.verdict().is_some()) => settled(profile, pieces),
            (None, None) => too_little_of_all(profile),
        };
    };
    noise(profile, point, best).unwrap_or_else(|| settled(profile, std::slice::from_ref(best)))
}

fn not_trusted(profile: &Profile, piece: &Piece) -> Badge {
    let audit = piece.nth.and_then(|nth| profile.regions[nth].audit.as_ref());
    match audit.and_then(Audited::doubt) {
        Some(doubt) => Badge::new(
            Quality::NotTrusted,
            format!("the audit contradicts the numbers of {}: {doubt}", piece.name),
            doubt.advice(),
        ),
        None => Badge::new(
            Quality::NotTrusted,
            format!("the audit contradicts the numbers of {}", piece.name),
            "see the sums: whatif report --explain REGION",
        ),
    }
}

fn too_little(profile: &Profile, piece: &Piece) -> Badge {
    let needed = piece.estimate.as_ref().and_then(Needed::of);
    // Where there are enough of them.
    let is_noisy = needed.is_some_and(|needed| !needed.helps());
    let made = match piece.experiments {
        made if is_noisy => format!("{made} experiments on {} leave it open", piece.name),
        0 => format!("{} was sampled, but no experiment was made on it", piece.name),
        1 => format!("there was only one experiment on {}", piece.name),
        made => format!("{made} experiments on {} do not settle it", piece.name),
    };
    let others = profile.doubts.others().filter(|_| piece.experiments > 0);
    let others = others.map_or_else(String::new, |share| format!(", and {}", used_by_others(share)));
    let advice = piece.estimate.as_ref().and_then(|estimate| profile.advice_on(estimate));
    Badge::new(
        if is_noisy { Quality::Noisy } else { Quality::TooLittle },
        made + &others,
        advice.unwrap_or_else(|| "let the program run longer, or give it more work".into()),
    )
}

fn used_by_others(share: f64) -> String {
    format!("other programs used the machine in {:.0} % of the experiments", share * 100.0)
}

fn too_little_of_all(profile: &Profile) -> Badge {
    let experiments = profile.rows.windows.iter().filter(|window| !window.speedup.is_zero()).count();
    let cause = match experiments {
        0 => "no experiment was completed".to_owned(),
        1 => "one experiment is not enough".to_owned(),
        made => format!("{made} experiments on {} pieces of code are not enough", profile.candidates.len()),
    };
    Badge::new(Quality::TooLittle, cause, "let the program run longer, or give it more work")
}

/// What makes the numbers of the best piece uncertain, the gravest reason first.
fn noise(profile: &Profile, point: &PointSummary, best: &Piece) -> Option<Badge> {
    let estimate = best.estimate.as_ref()?;
    // What clients use is in the numbers, other than of a latency.
    if let (Some(share), Some(quieter)) = (profile.doubts.others(), profile.quieter())
        && !(profile.rows.served().clients_are_here && matches!(point.target, Target::Throughput(_)))
    {
        let advice = format!("the intervals allow for that; {quieter} for narrower ones");
        return Some(Badge::new(Quality::Noisy, used_by_others(share), advice));
    }
    let disturbed = estimate.disturbed as f64 / (estimate.disturbed + estimate.blocks).max(1) as f64;
    if disturbed > DISTURBED {
        let cause = format!("{:.0} % of the experiments on {} were disturbed", disturbed * 100.0, best.name);
        return Some(Badge::new(Quality::Noisy, cause, "measure again, on a machine that does nothing else"));
    }
    let effect = estimate.effect?;
    let half = effect.half_width();
    if half > NARROW && half > WIDE * effect.value.abs() {
        let limited = estimate.clock_error().max(estimate.latency_error)
            > estimate.slope.map_or(0.0, |slope| slope.se / 2.0);
        let is_crowded = estimate.crowding.longest() > half / REFERENCE.fraction() / 2.0;
        let advice = match profile.quieter().filter(|_| is_crowded) {
            _ if limited => {
                "give it more connections, or less load, so that it shows which requests wait for answers"
                    .into()
            }
            Some(quieter) => format!("{quieter}, and measure again, into a new recording"),
            None => "measure more, into the same recording".into(),
        };
        let cause = format!("the interval of {} is wide ({} %)", best.name, super::percent_range(&effect));
        return Some(Badge::new(Quality::Noisy, cause, advice));
    }
    if effect.lo <= 0.0 && effect.hi >= 0.0 {
        let cause = format!(
            "{} helps over all speedups, but how much {REFERENCE} less time brings is not certain ({} %)",
            best.name,
            super::percent_range(&effect)
        );
        return Some(Badge::new(Quality::Noisy, cause, "measure more, into the same recording"));
    }
    let unsteady = point.unsteady.filter(|unsteady| unsteady.count() * 2 > unsteady.windows);
    unsteady.map(|_| {
        Badge::new(
            Quality::Noisy,
            "queues grew or shrank in most windows, so that latency was not in a steady state",
            "measure with a steady load below what the program can take",
        )
    })
}

fn settled(profile: &Profile, pieces: &[Piece]) -> Badge {
    let experiments: usize = pieces.iter().map(|piece| piece.experiments).sum();
    let runs = match profile.rows.sessions.len() {
        0 | 1 => String::new(),
        runs => format!(" in {runs} runs"),
    };
    Badge {
        quality: Quality::Good,
        cause: format!("{experiments} experiments{runs} settle it"),
        advice: None,
    }
}
