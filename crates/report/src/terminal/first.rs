//! The first screen: what to make faster first, what that brings, how sure it is, and what to type next.

use profile::{
    Answer, Badge, Estimate, Piece, PointAnswer, Profile, Quality, REFERENCE, State, Step, Verdict, lessened,
    percent, percent_range,
};
use unicode_width::UnicodeWidthStr as _;

use super::columns::{exactly, wrap};
use super::paint::{Colour, paint};
use super::{Style, line_of, note, programs, table, threads};

/// The least that a gain and its interval take: "−10 % (−11 to −9)".
const GAIN: usize = 18;
const SHARE: usize = 5;
/// The bar takes so much of what is left, within limits; where there is less, there is none.
const BAR: (usize, usize) = (10, 24);
/// The least of a name beside a bar, and without one.
const NAME: (usize, usize) = (16, 6);
/// Code that has not been tried is listed from this share on, and in any case so many pieces of it.
const UNTRIED: (f64, usize) = (0.03, 3);
/// Lines of a function that are shown below it.
const LINES: usize = 2;
/// An experiment at fewer speedups than this shows no curve.
const SPEEDUPS: usize = 5;

/// All of it. Ends with a newline.
pub(super) fn draw(out: &mut String, profile: &Profile, style: Style) {
    let answer = profile.answer();
    let Answer { points, measured, next } = &answer;
    if let Some(measured) = measured {
        let lines = wrap(measured, style.width);
        lines.iter().for_each(|line| line_of(out, &paint(style, Colour::Dim, line)));
        line_of(out, "");
    }
    for (nth, point) in points.iter().enumerate() {
        if nth > 0 {
            line_of(out, "");
        }
        heading(out, profile, point, nth, style);
        pieces(out, profile, point, style);
        if !point.causes.is_empty() {
            line_of(out, "\nWhy");
            point.causes.iter().for_each(|cause| note(out, cause, style));
        }
    }
    programs::draw(out, profile, style);
    threads::draw(out, profile, style);
    super::draw_warnings(out, &answer.other_warnings(profile), style);
    if !next.is_empty() {
        line_of(out, "\nNext");
        let before = std::iter::once(None).chain(next.iter().map(|step| Some(step.step)));
        for (step, before) in next.iter().zip(before) {
            let what = match step.step {
                same if before == Some(same) => "or",
                Step::Open => "open it",
                Step::Deeper => "look deeper",
                Step::Point => "try a progress point",
                Step::Compare => "compare",
            };
            note(out, &format!("{what}: {}", step.why), style);
            // Not wrapped: it is to be copied.
            line_of(out, &format!("    {}", step.command));
        }
    }
}

/// The code to make faster first, and how sure that is; the sentence where there is no such code.
fn heading(out: &mut String, profile: &Profile, point: &PointAnswer, nth: usize, style: Style) {
    let bold = |out: &mut String, text: &str| {
        wrap(text, style.width).iter().for_each(|line| line_of(out, &paint(style, Colour::Bold, line)));
    };
    match (&point.headline, &point.brings) {
        (Some(headline), Some(brings)) => {
            bold(out, headline);
            note(out, &format!("{brings}."), style);
            if let Some(rest) = &point.rest {
                note(out, rest, style);
            }
        }
        (Some(headline), None) => bold(out, headline),
        _ if nth == 0 => {
            let sentence = profile.sentence();
            bold(out, &sentence);
            // The same reason need not be read twice.
            if point.is_badge_in(&sentence) {
                point.notes.iter().for_each(|text| note(out, text, style));
                return;
            }
        }
        _ => {
            let of_point = point.target.and_then(|target| profile.point(target));
            let name = of_point.map_or_else(String::new, table::title);
            bold(out, &name);
        }
    }
    badge(out, &point.badge, style);
    point.notes.iter().for_each(|text| note(out, text, style));
}

fn badge(out: &mut String, badge: &Badge, style: Style) {
    let (sign, colour) = match badge.quality {
        Quality::Good => ('✔', Colour::Green),
        Quality::Noisy => ('~', Colour::Yellow),
        Quality::TooLittle => ('?', Colour::Yellow),
        Quality::NotTrusted => ('✗', Colour::Red),
    };
    let text = format!("{sign} {}", badge.sentence());
    for (nth, line) in wrap(&text, style.width - 4).iter().enumerate() {
        line_of(out, &paint(style, colour, &format!("{}{line}", if nth == 0 { "  " } else { "    " })));
    }
}

/// How wide the columns are.
#[derive(Clone, Copy)]
struct Columns {
    name: usize,
    bar: usize,
    gain: usize,
    verdict: usize,
}

impl Columns {
    fn of(shown: &[(&Piece, &str)], style: Style) -> Columns {
        let verdict = shown.iter().map(|(piece, _)| word(piece).0.len()).max().unwrap_or(0);
        let gain = shown.iter().map(|(piece, _)| gain(piece).width()).max().unwrap_or(0).max(GAIN);
        let room = style.width.saturating_sub(gain + verdict + SHARE + 5 * 2 + 2);
        let longest =
            shown.iter().map(|(piece, indent)| piece.label.width() + indent.width()).max().unwrap_or(0);
        // A name that is cut is worse than a short bar, and a bar that shows nothing worse than none.
        let bar = match room.checked_sub(BAR.0) {
            Some(left) if left >= NAME.0.min(longest) => room.saturating_sub(longest).clamp(BAR.0, BAR.1),
            _ => 0,
        };
        Columns { name: longest.min(room.saturating_sub(bar)).max(NAME.1), bar, gain, verdict }
    }
}

/// A name in exactly `width` columns: without its place, its program, or its file, where there is no room for them.
fn named(piece: &Piece, indent: &str, width: usize) -> String {
    let whole = format!("{indent}{}", piece.label);
    if whole.width() <= width {
        return exactly(&whole, width);
    }
    let program = piece.program.as_ref().map_or_else(String::new, |program| format!(" ({program})"));
    let label = piece.label.strip_suffix(&*program).unwrap_or(&piece.label);
    let (name, place) = label.rsplit_once(' ').unwrap_or((label, ""));
    let of_program = format!("{name}{program}");
    let fits = |text: &&str| indent.width() + text.width() <= width;
    // A function by the last parts of its name, and an address with the beginning of its file's.
    let parts = name.match_indices("::").map(|(at, separator)| &name[at + separator.len()..]);
    let parts = parts.filter(|part| !part.is_empty() && !part.contains(['<', '>', '{', '}', '(', ')']));
    let file = place.rsplit('/').next().unwrap_or(place);
    let short = [&*of_program, name]
        .into_iter()
        .chain(parts)
        .chain([file])
        .filter(|text| !text.is_empty())
        .find(fits);
    match (name.rfind("+0x").map(|at| name.split_at(at)), short) {
        (Some((file, address)), None) => {
            let room = width.saturating_sub(indent.width() + address.width());
            exactly(&format!("{indent}{}{address}", exactly(file, room)), width)
        }
        (_, short) => exactly(&format!("{indent}{}", short.unwrap_or(&piece.label)), width),
    }
}

/// How many of these are shown: none of code that was not tried and hardly takes time, unless there is nothing else.
fn how_many(pieces: &[Piece]) -> usize {
    let is_worth_a_row =
        |piece: &Piece| piece.state != State::Sampled || piece.share.unwrap_or(0.0) >= UNTRIED.0;
    let last = pieces.iter().rposition(is_worth_a_row).map_or(0, |last| last + 1);
    let untried = pieces.iter().take_while(|piece| piece.state != State::Sampled).count();
    last.max(untried + UNTRIED.1).min(pieces.len())
}

/// One row for each piece of code.
fn pieces(out: &mut String, profile: &Profile, point: &PointAnswer, style: Style) {
    if point.pieces.is_empty() {
        return;
    }
    let all = point.pieces.len();
    let shown = &point.pieces[..if style.asked { all } else { how_many(&point.pieces) }.min(style.top)];
    let of_point = point.target.and_then(|target| profile.point(target));
    let unit = of_point.map_or_else(String::new, lessened);
    let rows: Vec<(&Piece, &str)> = shown
        .iter()
        .flat_map(|piece| std::iter::once((piece, "")).chain(lines(piece).map(|line| (line, "└ "))))
        .collect();
    let columns = Columns::of(&rows, style);
    let title = if unit.is_empty() {
        "Where the CPU time goes".to_owned()
    } else {
        format!("If that code took {REFERENCE} less time: {unit}")
    };
    line_of(out, "");
    line_of(out, &title);
    let axis = Axis::of(rows.iter().map(|(piece, _)| *piece));
    if !unit.is_empty() {
        let head = format!(
            "  {:name$}  {}  {:gain$}  {:verdict$}  {:>SHARE$}",
            "",
            axis.scale(columns.bar),
            "",
            "",
            "CPU",
            name = columns.name,
            gain = columns.gain,
            verdict = columns.verdict
        );
        line_of(out, &paint(style, Colour::Dim, &head));
    }
    for (piece, indent) in &rows {
        line_of(out, row(piece, indent, columns, axis, style).trim_end());
    }
    if shown.len() < all {
        let more = format!("  … and {} more: --top {all}", all - shown.len());
        line_of(out, &paint(style, Colour::Dim, &more));
    }
    let bars = match (unit.is_empty(), columns.bar) {
        (true, _) => "",
        (false, 0) => "In brackets: the 95 % interval. ",
        (false, _) => "█ at least so much, ░ perhaps (95 % interval), │ zero. ",
    };
    let begun = rows.iter().any(|(piece, _)| piece.state == State::Begun);
    let begun = if begun { format!("Judged when tried at {SPEEDUPS} speedups. ") } else { String::new() };
    // Why a gain is doubted stands above.
    let is_probable =
        rows.iter().any(|(piece, _)| !piece.is_doubted && word(piece).0.starts_with("probably"));
    let probably = match is_probable {
        true => format!("Probably: it may be chance, or is not clear at {REFERENCE}. "),
        false => String::new(),
    };
    let cpu = if unit.is_empty() {
        "The last column is the share of the CPU time."
    } else {
        "CPU: the share of its time."
    };
    let is_inclusive = |(piece, _): &(&Piece, &str)| profile.rows.regions[&piece.region].inclusive;
    let callees = if rows.iter().any(is_inclusive) { "+: with all it calls. " } else { "" };
    let legend = format!("{bars}{callees}{probably}{begun}{cpu}");
    for line in wrap(&legend, style.width - 2) {
        line_of(out, &paint(style, Colour::Dim, &format!("  {line}")));
    }
}

/// The lines of a function that tell where in it.
fn lines(piece: &Piece) -> impl Iterator<Item = &Piece> {
    let matters = |piece: &&Piece| matches!(piece.verdict(), Some(Verdict::Helps | Verdict::Hurts));
    piece.lines.iter().filter(matters).take(LINES)
}

/// What [`REFERENCE`] less time brings, or how far its experiments are.
fn gain(piece: &Piece) -> String {
    match (piece.effect(), piece.state) {
        (Some(effect), _) => format!("{} ({})", percent(&effect), percent_range(&effect)),
        (None, State::Measured) => String::new(),
        (None, State::Begun) => format!("tried at {} of {SPEEDUPS}", piece.speedups.min(SPEEDUPS)),
        (None, State::Sampled) => "not tried yet".into(),
    }
}

fn row(piece: &Piece, indent: &str, columns: Columns, axis: Axis, style: Style) -> String {
    let Columns { name, bar, gain: wide, verdict } = columns;
    let label = named(piece, indent, name);
    let picture = piece.effect().map_or_else(|| axis.blank(bar), |effect| axis.draw(&effect, bar));
    let (word, colour) = word(piece);
    let word = paint(style, colour, &format!("{word:verdict$}"));
    format!("  {label}  {picture}  {:wide$}  {word}  {:>SHARE$}", gain(piece), table::share(piece.share))
}

/// What to think of it.
fn word(piece: &Piece) -> (&'static str, Colour) {
    let Some((estimate, words)) = piece.estimate.as_ref().zip(piece.verdict_words()) else {
        return ("", Colour::Plain);
    };
    let (usual, colour) = table::word(estimate.verdict);
    (words, if words == usual { colour } else { Colour::Yellow })
}

/// What the bars are drawn along.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of<'a>(pieces: impl Iterator<Item = &'a Piece>) -> Axis {
        let effects = pieces.filter_map(|piece| piece.estimate.as_ref()?.effect);
        let ends =
            effects.flat_map(|effect| [effect.lo, effect.value, effect.hi]).filter(|end| end.is_finite());
        let (low, high) = ends.fold((0.0_f64, 0.02_f64), |(low, high), end| (low.min(end), high.max(end)));
        // What 20 % less time can bring at most; an interval may reach anywhere.
        Axis { low: low.max(-0.2), high: high.min(0.3) }
    }

    /// Columns to the left of the one that stands for zero, and to its right.
    fn sides(self, width: usize) -> (usize, usize) {
        let room = width.saturating_sub(1);
        let left = (-self.low / (self.high - self.low) * room as f64).ceil() as usize;
        // What is below zero is seen.
        let left = left.max(usize::from(self.low < 0.0)).min(room);
        (left, room - left)
    }

    /// How many of `columns` on one side a gain reaches, where the side ends at `end`.
    fn reach(gain: f64, end: f64, columns: usize) -> usize {
        let part = if end == 0.0 { 0.0 } else { (gain / end).clamp(0.0, 1.0) };
        let reached = (part * columns as f64).round() as usize;
        // Whatever is there at all takes a column.
        reached.max(usize::from(part > 0.0)).min(columns)
    }

    /// From zero: full up to the end of the interval that is nearer to it, shaded up to the other one.
    fn draw(self, effect: &Estimate, width: usize) -> String {
        if width == 0 {
            return String::new();
        }
        let (left, right) = self.sides(width);
        let side = |near: f64, far: f64, end: f64, columns: usize| {
            let far = Axis::reach(far, end, columns);
            let near = if near / end > 0.0 { Axis::reach(near, end, columns).min(far) } else { 0 };
            move |nth: usize| match nth {
                nth if nth < near => '█',
                nth if nth < far => '░',
                _ => ' ',
            }
        };
        let below = side(effect.hi, effect.lo, self.low, left);
        let above = side(effect.lo, effect.hi, self.high, right);
        (0..left).rev().map(below).chain(['│']).chain((0..right).map(above)).collect()
    }

    fn blank(self, width: usize) -> String {
        let nothing = Estimate { value: 0.0, se: 0.0, lo: 0.0, hi: 0.0 };
        self.draw(&nothing, width)
    }

    /// What stands above the bars: zero, and how far they reach.
    fn scale(self, width: usize) -> String {
        let (left, right) = self.sides(width);
        let end = format!("{:.0} %", 100.0 * self.high);
        if width == 0 || right <= end.width() {
            return " ".repeat(width);
        }
        format!("{}0{end:>right$}", " ".repeat(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_as_far_as_it_is_sure() {
        let effect = |lo: f64, hi: f64| Estimate { value: (lo + hi) / 2.0, se: 0.0, lo, hi };
        let axis = Axis { low: 0.0, high: 0.2 };
        assert_eq!(axis.draw(&effect(0.1, 0.2), 11), "│█████░░░░░");
        assert_eq!(axis.draw(&effect(-0.1, 0.1), 11), "│░░░░░     ");
        assert_eq!(axis.blank(11), "│          ");
        assert_eq!(axis.scale(11), "0      20 %");
        let both = Axis { low: -0.1, high: 0.1 };
        assert_eq!(both.draw(&effect(0.06, 0.1), 11), "     │███░░");
        assert_eq!(both.draw(&effect(-0.1, -0.06), 11), "░░███│     ");
        assert_eq!(both.draw(&effect(-0.1, 0.02), 11), "░░░░░│░    ");
        assert_eq!(both.scale(11), "     0 10 %");
        for width in 0..40 {
            assert_eq!(both.draw(&effect(-9.0, f64::MAX), width).chars().count(), width);
            assert_eq!(both.scale(width).chars().count(), width);
        }
    }
}
