//! A comment for a pull request: the answer as the first screen has it, the best pieces of code, time by program, and the warnings, in GitHub's Markdown.
//!
//! Names come from the program that was profiled, and any author of a pull request may choose them. They only
//! stand in code spans, where there are no links, no mentions and no HTML; and where a code span cannot hold them
//! (a `|` in a table, next to a backslash), all that could be markup is written as the number of its character. So are
//! the warnings, which may have names anywhere.

use std::fmt::Write as _;

use super::terminal::title;
use profile::{
    Estimate, Mark, Piece, PointAnswer, Profile, REFERENCE, State, lessened, percent, percent_range,
    printable,
};

/// So many pieces of code are listed for each point.
const TOP: usize = 10;

/// The report as Markdown.
pub fn render(profile: &Profile) -> String {
    let mut text = String::new();
    let answer = profile.answer();
    for (nth, point) in answer.points.iter().enumerate() {
        heading(&mut text, profile, point, nth);
        table(&mut text, profile, point);
    }
    programs(&mut text, profile);
    threads(&mut text, profile);
    let warnings = answer.other_warnings(profile);
    if !warnings.is_empty() {
        text.push_str("\nWarnings:\n\n");
        let mut said = Vec::new();
        for warning in warnings {
            if !said.contains(&warning) {
                writeln!(text, "- {}: {}", prose(&warning.message), prose(&warning.advice)).expect(FITS);
                said.push(warning);
            }
        }
    }
    text
}

/// What to make faster first, what that brings, and how sure it is; the sentence where there is no such code.
fn heading(text: &mut String, profile: &Profile, point: &PointAnswer, nth: usize) {
    let of_point = point.target.and_then(|target| profile.point(target));
    let first = match (&point.headline, of_point) {
        (Some(headline), _) => headline.clone(),
        (None, Some(of_point)) if nth > 0 => title(of_point),
        (None, _) => profile.sentence(),
    };
    let is_badge_in_it = point.headline.is_none() && nth == 0 && point.is_badge_in(&first);
    let above = if nth == 0 { "" } else { "\n" };
    writeln!(text, "{above}**{}**", spans(profile, &first)).expect(FITS);
    for more in [&point.brings, &point.rest].into_iter().flatten() {
        let end = if more.ends_with('.') { "" } else { "." };
        writeln!(text, "\n{}{end}", spans(profile, more)).expect(FITS);
    }
    let badge = (!is_badge_in_it).then(|| point.badge.sentence());
    for more in badge.iter().chain(&point.notes) {
        writeln!(text, "\n{}", spans(profile, more)).expect(FITS);
    }
}

const FITS: &str = "a string takes any text";

/// A sentence with names in backticks. If a name has some too, its end cannot be told: then all is code.
fn spans(profile: &Profile, sentence: &str) -> String {
    let regions = profile.rows.regions.values();
    let places =
        regions.flat_map(|region| [Some(&*region.name), region.file.as_deref(), region.program()]).flatten();
    let mut names = places.chain(profile.rows.points.values().map(|point| &*point.name));
    if names.any(|name| name.contains('`')) {
        return code(sentence);
    }
    let parts = sentence.split('`').enumerate();
    parts.map(|(nth, part)| if nth % 2 == 1 { code(part) } else { prose(part) }).collect()
}

fn table(text: &mut String, profile: &Profile, point: &PointAnswer) {
    if point.pieces.is_empty() {
        return;
    }
    let of_point = point.target.and_then(|target| profile.point(target));
    let [code, brings] = match of_point {
        Some(of_point) => [format!("{REFERENCE} less time in"), spans(profile, &lessened(of_point))],
        None => ["Where the CPU time goes".to_owned(), String::new()],
    };
    let (head, line) = match profile.production() {
        Some(_) => (" In production |", "--:|"),
        None => ("", ""),
    };
    writeln!(text, "\n| {code} | {brings} | | CPU |{head}\n|---|--:|---|--:|{line}").expect(FITS);
    for piece in point.pieces.iter().take(TOP) {
        text.push_str(&row(profile, piece, of_point.is_some()));
    }
    if point.pieces.len() > TOP {
        writeln!(text, "\n{} more pieces of code are not shown.", point.pieces.len() - TOP).expect(FITS);
    }
}

/// Time by program, where several ran as one.
fn programs(text: &mut String, profile: &Profile) {
    let programs = profile.programs();
    if !programs.is_empty() {
        text.push_str("\n| Program | CPU time | Share | |\n|---|--:|--:|---|\n");
    }
    for program in programs.iter().take(TOP) {
        let obstacle = program
            .obstacle
            .map(|why| format!("at least; not followed ({}): counts as the world", prose(why)));
        let (name, share) = (code(&program.title()), 100.0 * program.share);
        writeln!(text, "| {name} | {} | {share:.0} % | {} |", program.cpu, obstacle.unwrap_or_default())
            .expect(FITS);
    }
    if programs.len() > TOP {
        writeln!(text, "\n{} more programs are not shown.", programs.len() - TOP).expect(FITS);
    }
}

/// What threads did, where there were several.
fn threads(text: &mut String, profile: &Profile) {
    let threads = profile.threads();
    if !threads.is_empty() {
        text.push_str(
            "\n| Thread, while nothing is delayed | runs | waits for threads | waits for something outside | wants a CPU |\n|---|--:|--:|--:|--:|\n",
        );
    }
    for group in threads.iter().take(TOP) {
        let [runs, threads, outside, cpu] =
            [group.running, group.for_threads, group.external, group.runnable].map(|share| 100.0 * share);
        let name = code(&group.title());
        writeln!(text, "| {name} | {runs:.0} % | {threads:.0} % | {outside:.0} % | {cpu:.0} % |")
            .expect(FITS);
    }
    if threads.len() > TOP {
        writeln!(text, "\n{} more of them are not shown.", threads.len() - TOP).expect(FITS);
    }
}

/// `is_judged`: whether anything is, because there is a progress point.
fn row(profile: &Profile, piece: &Piece, is_judged: bool) -> String {
    let brings = |effect: Estimate| format!("{} ({})", percent(&effect), percent_range(&effect));
    let share = |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share)).unwrap_or_default();
    let production = profile.production().map(|_| format!(" {} |", share(piece.production)));
    let mark = match piece.mark {
        Some(Mark::HotButDoesNotMatter) => " (hot, but does not matter)",
        Some(Mark::MattersButIsNotHot) => " (matters, but is not hot)",
        None => "",
    };
    let words = match piece.state {
        State::Measured => piece.verdict_words().unwrap_or_default(),
        State::Begun | State::Sampled if is_judged => "not judged yet",
        State::Begun | State::Sampled => "",
    };
    format!(
        "| {} | {} | {words}{mark} | {} |{}\n",
        code(&piece.label),
        piece.effect().map_or_else(String::new, brings),
        share(piece.share),
        production.unwrap_or_default(),
    )
}

/// A name as code.
fn code(name: &str) -> String {
    let name = printable(name);
    if name.trim().is_empty() {
        return "` `".to_owned();
    }
    if name.contains('|') {
        return format!("<code>{}</code>", numbers(&name, |_| true));
    }
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A space at both ends is taken off again.
    let pad = if name.starts_with(['`', ' ']) || name.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{name}{pad}{fence}")
}

/// Text that is no code: what could be markup is written as numbers, and what GitHub would make a link of, which it
/// does when numbers are characters again, is cut in two.
fn prose(text: &str) -> String {
    numbers(&printable(text), |c| !matches!(c, ',' | ';' | '.' | '%' | '(' | ')' | '\'' | '/' | ':'))
        .replace("&#64;", "&#64;<!-- -->")
        .replace("&#35;", "&#35;<!-- -->")
        .replace("GH&#45;", "GH&#45;<!-- -->")
        .replace("://", ":<!-- -->//")
        .replace("www.", "www<!-- -->.")
}

/// `text` with the ASCII punctuation that `is_markup` as character references.
fn numbers(text: &str, is_markup: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && is_markup(c) {
            write!(out, "&#{};", u32::from(c)).expect(FITS);
        } else {
            out.push(c);
        }
    }
    out
}
