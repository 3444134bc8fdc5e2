//! The answer in two kilobytes: what is known, how sure it is, and what to type next, for programs that are to act on it.

use profile::{Answer, Next, Piece, PointAnswer, Profile, Step, Verdict};
use serde::Serialize;

use super::answer::OfDecision;
use super::{VERSION, finite, line_of};

/// No text is longer, in bytes, whatever the program calls things.
pub const LONGEST: usize = 2048;
/// What is there at first, and with each step to make room: points, pieces of code for each of them, commands, and the letters of a text.
const ROOM: [(usize, usize, usize, usize); 5] =
    [(3, 4, 3, 400), (2, 3, 2, 300), (1, 3, 1, 200), (1, 1, 1, 120), (1, 1, 0, 60)];

#[derive(Serialize)]
struct Brief {
    version: u32,
    measured: Option<String>,
    sentence: String,
    points: Vec<OfPoint>,
    next: Vec<OfNext>,
}

#[derive(Serialize)]
struct OfPoint {
    point: Option<String>,
    kind: Option<&'static str>,
    decision: OfDecision,
    quality: &'static str,
    cause: String,
    advice: Option<String>,
    pieces: Vec<OfPiece>,
}

/// What less time in a piece of code brings, at the speedup that all texts speak of ([`profile::REFERENCE`]).
#[derive(Serialize)]
struct OfPiece {
    name: String,
    verdict: Option<&'static str>,
    share: Option<f64>,
    less_time: Option<f64>,
    less_time_lo: Option<f64>,
    less_time_hi: Option<f64>,
}

#[derive(Serialize)]
struct OfNext {
    why: String,
    command: String,
}

/// The answer on one line, with a newline at its end: `docs/json.md` has its fields. Where names or commands are long, fewer of them are there.
pub fn render(profile: &Profile) -> String {
    let answer = profile.answer();
    let sentence = profile.sentence();
    let texts = ROOM.into_iter().map(|room| line_of(&Brief::new(profile, &answer, &sentence, room)) + "\n");
    let mut texts = texts.skip_while(|text| text.len() > LONGEST);
    // With escapes a text can be six times as long as its letters.
    texts.next().unwrap_or_else(|| line_of(&Brief::new(profile, &answer, "", (0, 0, 0, 0))) + "\n")
}

impl Brief {
    fn new(
        profile: &Profile,
        answer: &Answer,
        sentence: &str,
        (points, pieces, commands, letters): (usize, usize, usize, usize),
    ) -> Self {
        let of_point = |point| OfPoint::new(profile, point, pieces, letters);
        // A command that is cut is none.
        let is_whole = |next: &&Next| next.command.len() <= 2 * letters;
        let of_next = |next: &Next| OfNext { why: cut(&next.why, letters), command: next.command.clone() };
        Brief {
            version: VERSION,
            measured: answer.measured.as_deref().map(|text| cut(text, letters)),
            sentence: cut(sentence, letters),
            points: answer.points.iter().take(points).map(of_point).collect(),
            // What a browser shows is for people.
            next: answer
                .next
                .iter()
                .filter(|next| next.step != Step::Open)
                .filter(is_whole)
                .take(commands)
                .map(of_next)
                .collect(),
        }
    }
}

impl OfPoint {
    fn new(profile: &Profile, point: &PointAnswer, pieces: usize, letters: usize) -> Self {
        // Those that the decision is about, as far as there is room, then the most useful of the others.
        let places = point.decision.places();
        let others = (0..point.pieces.len()).filter(|place| !places.contains(place));
        let shown = places.iter().copied().chain(others).take(pieces).map(|place| &point.pieces[place]);
        let mut decision = OfDecision::new(&point.decision);
        decision.pieces = (0..places.len().min(pieces)).collect();
        OfPoint {
            point: point.target.and_then(|target| Some(cut(&profile.point(target)?.name, letters))),
            kind: point.target.map(|target| target.kind()),
            decision,
            quality: point.badge.quality.name(),
            cause: cut(&point.badge.cause, letters),
            advice: point.badge.advice.as_deref().map(|advice| cut(advice, letters)),
            pieces: shown.map(|piece| OfPiece::new(piece, letters)).collect(),
        }
    }
}

impl OfPiece {
    fn new(piece: &Piece, letters: usize) -> Self {
        let effect = piece.estimate.as_ref().and_then(|estimate| estimate.effect);
        let number = |number: f64| finite((number * 1e4).round() / 1e4);
        OfPiece {
            name: cut(&piece.name, letters),
            verdict: piece.verdict().map(Verdict::name),
            share: piece.share.and_then(number),
            less_time: effect.and_then(|effect| number(effect.value)),
            less_time_lo: effect.and_then(|effect| number(effect.lo)),
            less_time_hi: effect.and_then(|effect| number(effect.hi)),
        }
    }
}

/// At most so many letters of a text.
fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
