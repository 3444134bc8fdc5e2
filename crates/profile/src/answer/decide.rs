//! Decisions: what the data allow to be said of a point, as a reader can use it.
//!
//! What is sure is found by `discovery`. Short of that, a reader still wants to know where to look: at the code that probably helps, at the few pieces that the experiments have not
//! ruled out, or nowhere. Everything here rests on intervals and on the chance that [`PointEstimate::is_probable`] rests on. Code that takes little CPU time
//! and was not tried is not asked about.

use super::words::{lessened, may_bring, percent, percent_range, whole};
use super::{Needed, Piece};
use crate::estimate::{ENOUGH_BLOCKS, PointEstimate, REFERENCE, Verdict};
use crate::model::Region;
use crate::ranking::{PointSummary, Profile};
use crate::sentence::HOT;

/// A gain at [`REFERENCE`] that is not more than this is not worth the work.
const LITTLE: f64 = 0.03;
/// More pieces than this that may all be the one are no answer.
const FEW: usize = 3;

/// What can be said of a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Decision {
    /// The first piece helps.
    Sure,
    /// The pieces at these positions probably help: of what is called so, at most one in ten should not.
    Probably(Vec<usize>),
    /// If any piece is worth more than 3 % at [`REFERENCE`], it is one at these positions: the 95 % intervals of all others that were tried end below that.
    OneOf(Vec<usize>),
    /// The 95 % intervals of all pieces that were tried end below this at [`REFERENCE`].
    NothingAbove(f64),
    /// It is open, or something else is known: that it hurts, that arrivals limit it, that numbers are not to be trusted.
    #[default]
    Open,
}

impl Decision {
    /// What the pieces of a point, the most useful first, allow to be said, where none is known to help, and nothing else is known.
    pub(super) fn of(pieces: &[Piece]) -> Decision {
        let at = |is_one: &dyn Fn(&Piece) -> bool| -> Vec<usize> {
            pieces.iter().enumerate().filter(|(_, piece)| is_one(piece)).map(|(nth, _)| nth).collect()
        };
        let probable = at(&|piece| piece.estimate.as_ref().is_some_and(PointEstimate::probably_helps));
        if !probable.is_empty() {
            return Decision::Probably(probable.into_iter().take(FEW).collect());
        }
        // Code that takes time and was not judged may be worth anything.
        let is_unknown =
            |piece: &Piece| piece.estimate.is_none() && piece.share.is_none_or(|share| share >= HOT);
        if pieces.iter().any(is_unknown) {
            return Decision::Open;
        }
        let most = |piece: &Piece| piece.estimate.as_ref().and_then(most);
        let left = at(&|piece| piece.estimate.is_some() && most(piece).is_none_or(|most| most > LITTLE));
        let says = |piece: &Piece| piece.estimate.as_ref().is_some_and(PointEstimate::says_something);
        let ruled_out: Vec<f64> = pieces.iter().filter_map(most).filter(|most| *most <= LITTLE).collect();
        match (left.len(), ruled_out.len()) {
            (0, 1..) => Decision::NothingAbove(ruled_out.into_iter().fold(0.0, f64::max)),
            (1..=FEW, 1..) if left.iter().all(|&place| says(&pieces[place])) => Decision::OneOf(left),
            _ => Decision::Open,
        }
    }

    /// The name used in exports.
    pub const fn name(&self) -> &'static str {
        match self {
            Decision::Sure => "sure",
            Decision::Probably(_) => "probably",
            Decision::OneOf(_) => "one-of",
            Decision::NothingAbove(_) => "nothing-above",
            Decision::Open => "open",
        }
    }

    /// The positions of the pieces that it is about, besides those that are sure.
    pub fn places(&self) -> &[usize] {
        match self {
            Decision::Probably(places) | Decision::OneOf(places) => places,
            _ => &[],
        }
    }

    /// What is to be measured alone, where that takes less than going on as before: how many experiments it takes, and what `--region` calls it.
    pub(super) fn alone<'p>(&self, profile: &'p Profile, pieces: &[Piece]) -> Option<(f64, Vec<&'p str>)> {
        let is_fixed = profile.rows.sessions.last().is_none_or(|session| session.start.fixed_regions);
        let pieces = || self.places().iter().map(|&place| &pieces[place]).filter(|_| !is_fixed);
        let needed: Option<Vec<Needed>> =
            pieces().map(|piece| Needed::of(piece.estimate.as_ref()?)).collect();
        let needed = needed?;
        let is_cheap = |needed: &Needed| needed.again() <= 1.0;
        if needed.iter().all(is_cheap) || !needed.iter().all(|needed| needed.helps()) {
            return None;
        }
        // With all that it calls a piece of code is another region, which has no experiments yet.
        let experiments =
            needed.iter().map(|needed| needed.made as f64 + f64::from(needed.experiments)).sum();
        let region = |piece: &Piece| profile.rows.regions.get(&piece.region);
        // Code without a symbol has no name that finds it.
        let is_found = |region: &&Region| !region.name.contains("+0x");
        let names: Option<Vec<&str>> =
            pieces().map(|piece| Some(region(piece).filter(is_found)?.name.as_str())).collect();
        Some((experiments, names?))
    }

    /// In large letters, and what that brings, without a full stop; `None` where nothing is decided.
    pub(super) fn words(&self, point: &PointSummary, pieces: &[Piece]) -> Option<[String; 2]> {
        let named = |places: &[usize]| either(places.iter().map(|&place| pieces[place].name.clone()));
        let what = lessened(point);
        Some(match self {
            Decision::Probably(places) => {
                let first = &pieces[*places.first()?];
                let effect = first.estimate.as_ref()?.effect?;
                let brings = format!(
                    "{REFERENCE} less time there → about {} {what} ({})",
                    percent(&effect),
                    percent_range(&effect)
                );
                let others = match &places[1..] {
                    [] => String::new(),
                    others => format!("; {} may help as well", named(others)),
                };
                [format!("Probably {}", first.name), brings + &others]
            }
            Decision::OneOf(places) => {
                let first = may_bring(point, &pieces[*places.first()?], pieces)?;
                let limit = whole(LITTLE);
                [
                    format!("If anything, {}", named(places)),
                    format!("{first}; nothing else that was tried brings more than {limit}"),
                ]
            }
            Decision::NothingAbove(most) => [
                format!("Nothing that was tried is worth more than {}", whole(most.max(0.01))),
                format!("{REFERENCE} less time in any of it → at most {} {what}", whole(most.max(0.01))),
            ],
            Decision::Sure | Decision::Open => return None,
        })
    }
}

/// What it may be worth at most at [`REFERENCE`]; `None` where that is a guess.
fn most(estimate: &PointEstimate) -> Option<f64> {
    let is_known = estimate.blocks >= ENOUGH_BLOCKS && estimate.verdict != Verdict::NotTrusted;
    estimate.effect.filter(|_| is_known && estimate.says_something()).map(|effect| effect.hi)
}

/// "a, b or c".
fn either(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}
