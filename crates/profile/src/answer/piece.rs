//! Pieces of code: one for each function, with what is known of its lines below it.

use std::collections::{HashMap, HashSet};

use crate::estimate::{Estimate, PointEstimate, Target, Verdict};
use crate::mark::Mark;
use crate::model::{Region, RegionId, RegionKind, Warning};
use crate::printable;
use crate::ranking::{Candidate, PointSummary, Profile, RegionEstimate};
use crate::sentence::{name, plus_minus};

/// A line that has this share of its function's samples is the same code as the function.
const SAME_CODE: f64 = 0.9;
/// Two gains of the same code that differ by no more than this share of the larger one say the same.
const ALIKE: f64 = 0.25;

/// How far the experiments on a piece of code are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its gain is estimated.
    Measured,
    /// It was tried, but at too few speedups.
    Begun,
    /// It was sampled, and not tried.
    Sampled,
}

impl State {
    /// The name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            State::Measured => "measured",
            State::Begun => "begun",
            State::Sampled => "sampled",
        }
    }
}

/// A piece of code: a function with its lines, or a line whose function was not tried.
#[derive(Clone, Debug)]
pub struct Piece {
    /// In a sentence: `` `insert` (hash.c:80) ``.
    pub name: String,
    /// In a list: `insert hash.c:80`.
    pub label: String,
    /// The program or library that it is in, where that has to be told.
    pub program: Option<String>,
    /// The region that stands for it.
    pub region: RegionId,
    /// Its position in [`Profile::regions`], where it is estimated.
    pub nth: Option<usize>,
    /// What is known of it for the point. Where a line is the same code and says something else, the intervals hold both.
    pub estimate: Option<PointEstimate>,
    /// The share of its samples in all CPU time, 0 to 1.
    pub share: Option<f64>,
    /// Its share of the program's samples in production, 0 to 1.
    pub production: Option<f64>,
    /// Whether gains may be wrong by more than their intervals say, as in programs in Go.
    pub is_doubted: bool,
    /// Where cost and worth do not go together.
    pub mark: Option<Mark>,
    /// How far its experiments are.
    pub state: State,
    /// How many experiments there were on it.
    pub experiments: usize,
    /// At how many speedups.
    pub speedups: usize,
    /// Why several estimates of it differ, or which line is the same code.
    pub note: Option<String>,
    /// The other regions of the same function that are known, the most useful first.
    pub lines: Vec<Piece>,
}

impl Piece {
    /// The gain at [`REFERENCE`](crate::REFERENCE), if its interval is known.
    pub fn effect(&self) -> Option<Estimate> {
        self.estimate.as_ref()?.effect.filter(|effect| effect.half_width().is_finite())
    }

    /// What to think of it; `None` where nothing is estimated.
    pub fn verdict(&self) -> Option<Verdict> {
        self.estimate.as_ref().map(|estimate| estimate.verdict)
    }

    /// The same as people read it; where the gain is doubted, nothing is more than probable.
    pub fn verdict_words(&self) -> Option<&'static str> {
        self.estimate.as_ref().map(|estimate| match estimate.verdict {
            Verdict::Helps if self.is_doubted => "probably helps",
            Verdict::Hurts if self.is_doubted => "probably hurts",
            _ => super::verdict_words(estimate),
        })
    }

    fn of(profile: &Profile, nth: usize, target: Target) -> Option<Piece> {
        let of_region = &profile.regions[nth];
        let estimate = of_region.points.iter().find(|point| point.target == target)?;
        Some(Piece {
            estimate: Some(estimate.clone()),
            experiments: estimate.blocks,
            speedups: estimate.curve.len().saturating_sub(1),
            ..Piece::estimated(profile, nth, of_region)
        })
    }

    fn estimated(profile: &Profile, nth: usize, of_region: &RegionEstimate) -> Piece {
        Piece {
            nth: Some(nth),
            share: of_region.share,
            production: of_region.production,
            mark: of_region.mark(),
            state: State::Measured,
            ..Piece::named(profile, of_region.region)
        }
    }

    fn named(profile: &Profile, id: RegionId) -> Piece {
        let region = &profile.rows.regions[&id];
        Piece {
            name: name(region, profile.program(region)),
            label: printable(&profile.label(region)).into_owned(),
            program: profile.program(region).map(|program| printable(program).into_owned()),
            region: id,
            nth: None,
            estimate: None,
            share: None,
            production: None,
            is_doubted: profile.rows.warned(Warning::GOROUTINES).next().is_some(),
            mark: None,
            state: State::Sampled,
            experiments: 0,
            speedups: 0,
            note: None,
            lines: Vec::new(),
        }
    }

    fn candidate(profile: &Profile, candidate: &Candidate) -> Piece {
        Piece {
            share: candidate.share,
            state: if candidate.experiments > 0 { State::Begun } else { State::Sampled },
            experiments: candidate.experiments,
            speedups: candidate.speedups,
            ..Piece::named(profile, candidate.region)
        }
    }
}

/// The pieces of code that are known for a point, the most useful first, then those that were only sampled, by their share.
pub(super) fn of(profile: &Profile, point: &PointSummary) -> Vec<Piece> {
    let positions: HashMap<RegionId, usize> =
        profile.regions.iter().enumerate().map(|(nth, region)| (region.region, nth)).collect();
    let ranked = profile.ranked(point.target);
    let known = ranked
        .iter()
        .filter_map(|(of_region, _)| Piece::of(profile, *positions.get(&of_region.region)?, point.target));
    let mut pieces =
        folded(profile, known.chain(profile.candidates.iter().map(|one| Piece::candidate(profile, one))));
    // In the order of the gain that is read beside them, but for the first of each kind: that was chosen by what is certain of it.
    for of_kind in pieces.chunk_by_mut(|one, other| rank(one) == rank(other)) {
        if let [_, rest @ ..] = of_kind
            && rest.first().is_some_and(|piece| rank(piece) <= 1)
        {
            let gain = |piece: &Piece| piece.estimate.as_ref()?.effect.map(|effect| effect.value);
            rest.sort_by(|one, other| {
                gain(other).unwrap_or(f64::NEG_INFINITY).total_cmp(&gain(one).unwrap_or(f64::NEG_INFINITY))
            });
        }
    }
    pieces
}

/// What helps, what may, what hurts, what is not estimated.
fn rank(piece: &Piece) -> u8 {
    match piece.verdict() {
        Some(Verdict::Helps) => 0,
        Some(Verdict::Hurts) => 2,
        Some(_) => 1,
        None => 3,
    }
}

/// The plain profile: all of them by share.
pub(super) fn without_point(profile: &Profile) -> Vec<Piece> {
    let regions = profile.regions.iter().enumerate();
    let known = regions.map(|(nth, of_region)| Piece::estimated(profile, nth, of_region));
    let mut all: Vec<Piece> =
        known.chain(profile.candidates.iter().map(|one| Piece::candidate(profile, one))).collect();
    all.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    folded(profile, all)
}

/// What regions have in common that are a function and its lines.
fn function(region: &Region) -> Option<(&str, &str, Option<&str>)> {
    // What one caller calls of a function is not all of it.
    let is_whole = !region.inclusive && !region.name.contains('@');
    let function = region.function.as_deref().filter(|_| is_whole)?;
    Some((region.image_key(), function, region.file.as_deref()))
}

/// Puts the lines of each function with it, at the place of the first of them. Lines whose function is not known stand by themselves.
fn folded(profile: &Profile, pieces: impl IntoIterator<Item = Piece>) -> Vec<Piece> {
    let pieces: Vec<Piece> = pieces.into_iter().collect();
    let region = |piece: &Piece| &profile.rows.regions[&piece.region];
    let is_function = |piece: &&Piece| region(piece).kind == RegionKind::Function;
    let functions: HashSet<_> =
        pieces.iter().filter(is_function).filter_map(|piece| function(region(piece))).collect();
    let mut groups: Vec<Vec<Piece>> = Vec::new();
    let mut places = HashMap::new();
    for piece in pieces {
        match function(&profile.rows.regions[&piece.region]).filter(|key| functions.contains(key)) {
            Some(key) => {
                let nth = *places.entry(key).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
                groups[nth].push(piece);
            }
            None => groups.push(vec![piece]),
        }
    }
    groups.into_iter().map(|group| fold(profile, group)).collect()
}

/// One piece of the regions of one function, which come in the order of their rank.
fn fold(profile: &Profile, mut group: Vec<Piece>) -> Piece {
    let is_function = |piece: &Piece| profile.rows.regions[&piece.region].kind == RegionKind::Function;
    let settled =
        |piece: &Piece| matches!(piece.verdict(), Some(Verdict::Helps | Verdict::Hurts | Verdict::NoEffect));
    // The function, unless only a line of it is known; the first stands for lines without a function.
    let whole = group.iter().position(|piece| is_function(piece) && piece.estimate.is_some());
    let whole = whole.filter(|&whole| settled(&group[whole]) || !group.iter().any(settled));
    let sampled = || group.iter().position(|piece| is_function(piece) && group[0].estimate.is_none());
    let mut piece = group.remove(whole.or_else(sampled).unwrap_or(0));
    let same = group.iter().find(|line| is_function(&piece) && is_same(&piece, line));
    if let Some(line) = same {
        join(&mut piece, line);
    } else if let Some(function) =
        group.iter().find(|other| is_function(other) && !is_function(&piece) && settled(&piece))
    {
        piece.note = Some(format!(
            "{} is one of the lines of {}, of which too little is known yet",
            piece.name, function.name
        ));
    }
    piece.lines = group;
    piece
}

/// Whether a line has nearly all samples of its function.
fn is_same(function: &Piece, line: &Piece) -> bool {
    match (function.share, line.share) {
        (Some(function), Some(line)) => {
            function > 0.0 && (SAME_CODE..=1.0 / SAME_CODE).contains(&(line / function))
        }
        _ => false,
    }
}

/// Two estimates of the same code: they agree, or the interval has to hold both.
fn join(piece: &mut Piece, line: &Piece) {
    let (Some(of_piece), Some(of_line)) = (&mut piece.estimate, &line.estimate) else { return };
    let (Some(effect), Some(other)) = (of_piece.effect, of_line.effect) else { return };
    if effect.overlaps(&other) {
        // Where neither is settled, or they say the same, there is nothing to explain.
        let is_settled = of_piece.verdict != Verdict::NotEnoughData;
        let differ = (effect.value - other.value).abs() > ALIKE * effect.value.abs().max(other.value.abs());
        piece.note = (is_settled && differ).then(|| {
            format!(
                "Nearly all the time of {} is spent in {}; measured by itself, that gives {} ({}), so the two agree only roughly",
                piece.name,
                line.name,
                super::percent(&other),
                super::percent_range(&other)
            )
        });
        return;
    }
    piece.note = Some(format!(
        "{} is nearly all of {}, and the two were measured apart: {} and {}; the interval holds both",
        line.name,
        piece.name,
        plus_minus(&other, other.value),
        plus_minus(&effect, effect.value)
    ));
    let hull = |one: Estimate, other: Estimate| Estimate {
        lo: one.lo.min(other.lo),
        hi: one.hi.max(other.hi),
        ..one
    };
    of_piece.effect = Some(hull(effect, other));
    of_piece.most = of_piece.most.zip(of_line.most).map(|(one, other)| hull(one, other)).or(of_piece.most);
    for dot in &mut of_piece.curve {
        let at = super::gain_at(&of_line.curve, dot.speedup.fraction()).filter(|_| !dot.speedup.is_zero());
        dot.gain = dot.gain.map(|gain| at.map_or(gain, |other| hull(gain, other)));
    }
    // What the two do not agree on is not known.
    of_piece.is_probable = false;
    if of_piece.verdict != of_line.verdict && of_piece.verdict != Verdict::NotTrusted {
        of_piece.verdict = Verdict::NotEnoughData;
    }
}
