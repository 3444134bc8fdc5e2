//! The first screen as JSON.

use profile::{
    Answer, Badge, Decision, Estimate, Mark, Next, Piece, PointAnswer, PointEstimate, Profile, REFERENCE,
    Speedup, Verdict,
};
use serde::Serialize;

use super::{finite, number};

/// More pieces, and more lines of one, are not drawn at first; all of them are in `regions` and `candidates`.
const PIECES: usize = 200;

#[derive(Serialize)]
pub(super) struct OfAnswer {
    points: Vec<OfPointAnswer>,
    measured: Option<String>,
    next: Vec<OfNext>,
}

impl OfAnswer {
    pub fn new(profile: &Profile) -> Self {
        let Answer { points, measured, next } = profile.answer();
        OfAnswer {
            points: points.into_iter().map(|point| OfPointAnswer::new(profile, point)).collect(),
            measured,
            next: next.into_iter().map(OfNext::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfPointAnswer {
    point: Option<String>,
    kind: Option<&'static str>,
    badge: OfBadge,
    decision: OfDecision,
    headline: Option<String>,
    change: Option<String>,
    brings: Option<String>,
    rest: Option<String>,
    notes: Vec<String>,
    causes: Vec<String>,
    pieces: Vec<OfPiece>,
    more_pieces: usize,
}

impl OfPointAnswer {
    fn new(profile: &Profile, of_point: PointAnswer) -> Self {
        let PointAnswer { target, badge, headline, change, brings, rest, notes, pieces, causes, decision } =
            of_point;
        let point = target.and_then(|target| profile.point(target));
        OfPointAnswer {
            point: point.map(|point| point.name.clone()),
            kind: target.map(|target| target.kind()),
            badge: OfBadge::new(badge),
            decision: OfDecision::new(&decision),
            headline,
            change,
            brings,
            rest,
            notes,
            causes,
            more_pieces: pieces.len().saturating_sub(PIECES),
            pieces: pieces.iter().take(PIECES).map(OfPiece::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfBadge {
    quality: &'static str,
    words: &'static str,
    cause: String,
    advice: Option<String>,
}

impl OfBadge {
    fn new(badge: Badge) -> Self {
        let Badge { quality, cause, advice } = badge;
        OfBadge { quality: quality.name(), words: quality.words(), cause, advice }
    }
}

#[derive(Serialize)]
pub(super) struct OfDecision {
    kind: &'static str,
    pub pieces: Vec<usize>,
    at_most: Option<f64>,
}

impl OfDecision {
    pub fn new(decision: &Decision) -> Self {
        let at_most = match decision {
            Decision::NothingAbove(most) => finite(*most),
            _ => None,
        };
        OfDecision { kind: decision.name(), pieces: decision.places().to_vec(), at_most }
    }
}

#[derive(Serialize)]
struct OfNext {
    step: &'static str,
    why: String,
    command: String,
}

impl OfNext {
    fn new(Next { step, why, command }: Next) -> Self {
        OfNext { step: step.name(), why, command }
    }
}

/// Speedup, gain, and its 95 % interval.
type AtSpeedup = (f64, f64, Option<f64>, Option<f64>);

#[derive(Serialize)]
struct OfPiece {
    name: String,
    label: String,
    region: Option<usize>,
    state: &'static str,
    verdict: Option<&'static str>,
    verdict_words: Option<&'static str>,
    share: Option<f64>,
    production_share: Option<f64>,
    mark: Option<&'static str>,
    experiments: usize,
    tried: usize,
    less_time: Option<f64>,
    less_time_lo: Option<f64>,
    less_time_hi: Option<f64>,
    max_less_time: Option<f64>,
    max_less_time_lo: Option<f64>,
    max_less_time_hi: Option<f64>,
    curve: Vec<AtSpeedup>,
    note: Option<String>,
    lines: Vec<OfPiece>,
}

impl OfPiece {
    fn new(piece: &Piece) -> Self {
        let of_point = piece.estimate.as_ref();
        let effect = |part| of_point.and_then(|estimate| number(&estimate.effect, part));
        let most = |part| of_point.and_then(|estimate| number(&estimate.most, part));
        OfPiece {
            name: piece.name.clone(),
            label: piece.label.clone(),
            region: piece.nth,
            state: piece.state.name(),
            verdict: piece.verdict().map(Verdict::name),
            verdict_words: piece.verdict_words(),
            share: piece.share.and_then(finite),
            production_share: piece.production.and_then(finite),
            mark: piece.mark.map(Mark::name),
            experiments: piece.experiments,
            tried: piece.speedups,
            less_time: effect(|e| e.value),
            less_time_lo: effect(|e| e.lo),
            less_time_hi: effect(|e| e.hi),
            max_less_time: most(|m| m.value),
            max_less_time_lo: most(|m| m.lo),
            max_less_time_hi: most(|m| m.hi),
            curve: of_point.map(curve).unwrap_or_default(),
            note: piece.note.clone(),
            lines: piece.lines.iter().take(PIECES).map(OfPiece::new).collect(),
        }
    }
}

/// Without the baseline: every curve begins at 0. With the speedup that all texts speak of, though it may not have been tried itself.
fn curve(estimate: &PointEstimate) -> Vec<AtSpeedup> {
    let point = |speedup: Speedup, gain: Option<Estimate>| {
        let gain = gain.filter(|gain| gain.value.is_finite())?;
        let limit = |of| finite(of).map(rounded);
        Some((speedup.fraction(), rounded(gain.value), limit(gain.lo), limit(gain.hi)))
    };
    let tried = estimate.curve.iter().filter(|dot| !dot.speedup.is_zero());
    let mut points: Vec<AtSpeedup> = tried.filter_map(|dot| point(dot.speedup, dot.gain)).collect();
    let place = points.partition_point(|(speedup, ..)| *speedup < REFERENCE.fraction());
    let is_between = points.get(place).is_some_and(|(speedup, ..)| *speedup > REFERENCE.fraction());
    if is_between && let Some(reference) = point(REFERENCE, estimate.effect) {
        points.insert(place, reference);
    }
    points
}

/// More digits than are visible.
fn rounded(gain: f64) -> f64 {
    (gain * 1e5).round() / 1e5
}
