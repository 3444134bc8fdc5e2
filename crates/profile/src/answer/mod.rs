//! The answer: what the first screen says, once, so that terminal, page and JSON say the same.
//!
//! **Does:** fold regions into pieces of code, put in front the one to make faster first, say what that brings and how far it can be
//! relied on, list what explains it, and what to type next. **Does not:** estimate, draw, or decide how many rows there is room for.
//! **Constraints:** pure; texts hold names as they are shown ([`printable`](crate::printable)), never control characters.
//! **Place:** sample → delay → experiment → record → **profile** → report.

mod badge;
mod causes;
mod decide;
mod limit;
mod needed;
mod next;
mod notes;
mod piece;
mod to_try;
mod words;

pub use badge::{Badge, Quality};
pub use decide::Decision;
pub use needed::Needed;
pub use next::{Next, Step};
pub use piece::{Piece, State};
pub use words::{factor, gain_at, lessened, percent, percent_range, rate, verdict_words};

use crate::estimate::{Target, Verdict};
use crate::load::Load;
use crate::model::Warning;
use crate::printable;
use crate::ranking::{PointSummary, Profile};
use crate::sentence::{HOT, no_answer, subject};

/// What the first screen says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// One for each progress point that is not idle, in the order of [`Profile::points`]; where there is none, one without a target,
    /// which has the plain profile.
    pub points: Vec<PointAnswer>,
    /// The command that was measured, how often, and for how long; `None` where it is not known.
    pub measured: Option<String>,
    /// What to type next: open it, ask deeper, compare after the fix.
    pub next: Vec<Next>,
}

/// What it says of one progress point.
#[derive(Clone, Debug)]
pub struct PointAnswer {
    /// The point; `None` where there is none to measure.
    pub target: Option<Target>,
    /// How far the answer can be relied on.
    pub badge: Badge,
    /// What can be said of it.
    pub decision: Decision,
    /// What to do, in large letters: "Speed up `insert` (hash.c:80) first"; `None` where the whole sentence stands there. Where nothing was
    /// measured, that stands there, and the badge tells why.
    pub headline: Option<String>,
    /// The code to make faster first, as it is shown: `` `insert` (hash.c:80) ``. `None` where nothing is known to help.
    pub change: Option<String>,
    /// What that brings: "20 % less time there → 8 % less time per `insert` (6 to 10), 371 k → 403 k per second; at most 31 %
    /// less (24 to 38), however fast it gets", or the best candidate where nothing is known to help yet.
    pub brings: Option<String>,
    /// Whether anything else may be worth as much: "Nothing else you could change is worth more." `None` where nothing is known to help.
    pub rest: Option<String>,
    /// What has to be known before the answer is acted on, one or two sentences each: a unit of work that was chosen, code without a name.
    pub notes: Vec<String>,
    /// One for each piece of code, the most useful first, then those that are still being measured, by their share.
    pub pieces: Vec<Piece>,
    /// What explains it, one sentence each.
    pub causes: Vec<String>,
}

impl Answer {
    /// The warnings of the profile that do not stand in the answer already.
    pub fn other_warnings(&self, profile: &Profile) -> Vec<Warning> {
        let is_noted =
            |part: &str| self.points.iter().flat_map(|point| &point.notes).any(|note| note.contains(part));
        let is_in_it = |warning: &Warning| match &*warning.code {
            Warning::CHOSEN_POINT => {
                is_noted("No unit of work is marked") || !notes::is_point_chosen(profile)
            }
            Warning::CHOSEN_FILES => is_noted(printable(&warning.message).get(1..).unwrap_or("")),
            _ => {
                self.points.iter().any(|point| point.badge.cause == printable(&warning.message))
                    || profile.failure().is_some_and(|failure| failure == warning)
            }
        };
        profile
            .warnings()
            .into_iter()
            .map(|(_, warning)| warning)
            .filter(|warning| !is_in_it(warning))
            .collect()
    }
}

impl PointAnswer {
    /// Whether the sentence that stands there where there is no headline gives the reason of the badge.
    pub fn is_badge_in(&self, sentence: &str) -> bool {
        let is_doubted = self.badge.quality == Quality::NotTrusted && sentence.contains("not to be trusted");
        is_doubted || sentence.contains(&self.badge.cause)
    }
}

impl Profile {
    /// What the first screen says. Commands are there if it is known which file the profile is of ([`Profile::recording`]).
    pub fn answer(&self) -> Answer {
        let live: Vec<&PointSummary> = self.points.iter().filter(|point| !point.idle).collect();
        let points: Vec<PointAnswer> = match live.is_empty() {
            true => vec![PointAnswer {
                target: None,
                badge: badge::without_point(self),
                decision: Decision::Open,
                headline: self.failure().map(|_| "Nothing was measured".to_owned()),
                change: None,
                brings: None,
                rest: None,
                notes: notes::without_point(self),
                pieces: piece::without_point(self),
                causes: Vec::new(),
            }],
            false => live.into_iter().map(|point| self.answer_for(point)).collect(),
        };
        let next = next::of(self, &points);
        Answer { points, measured: self.measured(), next }
    }

    /// The command that was measured, how often, and for how long; `None` where it is not known.
    pub fn measured(&self) -> Option<String> {
        notes::measured(self)
    }

    fn answer_for(&self, point: &PointSummary) -> PointAnswer {
        let pieces = piece::of(self, point);
        let is_unpredictable = badge::unpredictable(self, point).is_some();
        let best = pieces.first().filter(|piece| piece.verdict() == Some(Verdict::Helps));
        let open = if best.is_none() && !is_unpredictable { self.candidate(point, &pieces) } else { None };
        let decision = match best {
            Some(best) if best.is_doubted => Decision::Probably(vec![0]),
            Some(_) => Decision::Sure,
            None if is_unpredictable || self.is_more_known(point) => Decision::Open,
            None => Decision::of(&pieces),
        };
        // Where nothing is open the whole sentence tells it.
        let words = open.and_then(|_| decision.words(point, &pieces));
        let [decided, then] = words.map_or([None, None], |words| words.map(Some));
        PointAnswer {
            target: Some(point.target),
            badge: badge::of(self, point, &pieces, &decision),
            headline: best
                .map(headline)
                .or(decided)
                .or_else(|| open.map(|_| format!("No answer yet for {}", subject(point))))
                .or_else(|| is_unpredictable.then(|| no_answer(point))),
            change: best.map(|piece| piece.name.clone()),
            brings: best
                .and_then(|piece| words::brings(point, piece.estimate.as_ref()?))
                .or(then)
                .or_else(|| open.and_then(|piece| words::may_bring(point, piece, &pieces))),
            rest: best.map(|best| self.rest(point, best, &pieces)),
            notes: notes::of(self, point, best.or(open)),
            causes: causes::of(self, point, &pieces),
            decision,
            pieces,
        }
    }

    /// What can be said of a point of which nothing is sure, and what to do about it, in one sentence.
    pub(crate) fn decided(&self, point: &PointSummary) -> Option<String> {
        let pieces = piece::of(self, point);
        self.candidate(point, &pieces)?;
        let decision = Decision::of(&pieces);
        let [decided, brings] = decision.words(point, &pieces)?;
        let advice = badge::of(self, point, &pieces, &decision).advice;
        Some(format!(
            "{decided}: {brings}{}.",
            advice.map_or_else(String::new, |advice| format!("; {advice}"))
        ))
    }

    /// The best candidate, where it is all that is known.
    fn candidate<'a>(&self, point: &PointSummary, pieces: &'a [Piece]) -> Option<&'a Piece> {
        let is_all = !self.is_more_known(point);
        pieces.iter().find(|piece| is_all && piece.verdict() == Some(Verdict::NotEnoughData))
    }

    /// Whether something else is known than what may help: that code hurts, that numbers are not to be trusted, or that arrivals limit it.
    fn is_more_known(&self, point: &PointSummary) -> bool {
        let has = |verdict| self.ranked(point.target).iter().any(|(_, estimate)| estimate.verdict == verdict);
        has(Verdict::Hurts) || has(Verdict::NotTrusted) || Load::of(&self.rows.windows).is_some()
    }

    /// Whether anything else may be worth as much as the best piece, in sentences.
    fn rest(&self, point: &PointSummary, best: &Piece, pieces: &[Piece]) -> String {
        let is_hot = |piece: &&Piece| piece.share.is_some_and(|share| share >= HOT);
        let open: Vec<&Piece> = pieces
            .iter()
            .filter(|piece| piece.estimate.is_none() && piece.region != best.region)
            .filter(is_hot)
            .collect();
        let is_open = |piece: &Piece| piece.estimate.is_none() && piece.region != best.region;
        let mut text = self.others_in_words(point, pieces.iter().any(is_open));
        if let Some(first) = open.first() {
            let share = first.share.unwrap_or(0.0) * 100.0;
            let more = match open.len() - 1 {
                0 => String::new(),
                1 => " and one more".to_owned(),
                more => format!(" and {more} more"),
            };
            text.push_str(&format!(" Not judged yet: {} ({share:.0} % of the CPU time){more}.", first.name));
        }
        text
    }
}

/// What to do about the best piece.
fn headline(best: &Piece) -> String {
    let effect = best.estimate.as_ref().and_then(|estimate| estimate.effect);
    match effect {
        Some(effect) if effect.lo <= 0.0 || best.is_doubted => {
            format!("{} may be worth speeding up", best.name)
        }
        _ => format!("Speed up {} first", best.name),
    }
}
