//! Terminal, Markdown and JSON, which the page draws, say the same of a recording: what is to be made faster, what that brings, and how sure it is.

use crate::synthetic::{Truth, rows_of, with_latency};
use profile::*;
use report::{json, markdown, terminal};
use serde_json::Value;

/// What two functions are worth, one per speedup of one.
const WORTH: [[f64; 2]; 5] = [[0.55, 0.1], [0.3, 0.25], [0.0, 0.0], [-0.5, 0.02], [0.12, 0.0]];
/// How noisy windows of experiments on the first one are, those of the other one as much or less, and how many experiments there are on each.
const MEASURED: [(f64, i64); 6] = [(0.03, 40), (0.1, 6), (0.4, 20), (0.4, 8), (1.0, 12), (0.1, 3)];

/// Thirty recordings, of which a third has a latency as well, two with numbers that are not to be trusted, and two without visits.
fn recordings() -> impl Iterator<Item = (String, Profile)> {
    let all = WORTH.into_iter().flat_map(|worth| MEASURED.map(|measured| (worth, measured)));
    let of = |(nth, (worth, (noise, blocks))): (usize, ([f64; 2], (f64, i64)))| {
        let truth = |name, slope, noise| Truth { name, slope, noise, blocks };
        let truths =
            [truth("hash.c:88", worth[0], noise), truth("list.c:7", worth[1], noise / [1.0, 8.0][nth % 2])];
        let rows = rows_of(nth as u64, &truths);
        let mut rows = if nth % 3 == 0 { with_latency(rows) } else { rows };
        if nth % 14 == 4 {
            // The region ran, and no other thread was delayed for it.
            let audit = Audit { watched: Nanos::from_millis(400), ..Audit::default() };
            rows.windows.iter_mut().for_each(|window| window.audit = Some(audit));
        }
        if nth % 14 == 13 {
            rows.windows.iter_mut().for_each(|window| window.visits[0].count = 0);
        }
        (format!("recording {nth}, {worth:?}"), Profile::new(rows, &EstimateOptions::default()))
    };
    all.enumerate().map(of)
}

/// Words without markup, one blank between each two.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("&#") {
        let (number, after) = after.split_once(';').unwrap();
        out.push_str(before);
        out.extend(number.parse().ok().and_then(char::from_u32));
        rest = after;
    }
    out.push_str(rest);
    out.replace("<!-- -->", "").replace(['`', '*'], "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is said of a point, word for word.
fn said(profile: &Profile, point: &PointAnswer, nth: usize) -> Vec<String> {
    let sentence = (nth == 0 && point.headline.is_none()).then(|| profile.sentence());
    let is_badge_in_it = sentence.as_ref().is_some_and(|sentence| point.is_badge_in(sentence));
    let badge = (!is_badge_in_it).then(|| format!("{}: {}", point.badge.quality.words(), point.badge.cause));
    let all = [&point.headline, &sentence, &point.brings, &point.rest, &badge];
    all.into_iter().flatten().chain(&point.notes).map(|text| plain(text)).collect()
}

/// What is said of a piece of code: what less time in it brings, and what to think of that.
fn row(piece: &Piece) -> Vec<String> {
    let brings = piece.effect().map(|effect| format!("{} ({})", percent(&effect), percent_range(&effect)));
    let words = piece.verdict_words().map(str::to_owned);
    [Some(piece.label.clone()), brings, words].into_iter().flatten().collect()
}

#[test]
fn all_reports_say_the_same() {
    let (mut decisions, mut qualities) = (Vec::new(), Vec::new());
    for (name, profile) in recordings() {
        let answer = profile.answer();
        let wide = terminal::Style { width: 400, ..terminal::Style::default() };
        let reports = [terminal::render(&profile, wide), markdown::render(&profile)];
        let whole: Value = serde_json::from_str(&json::render(&profile)).unwrap();
        let brief: Value = serde_json::from_str(&json::render_brief(&profile)).unwrap();
        for (nth, point) in answer.points.iter().enumerate() {
            decisions.push(point.decision.name());
            qualities.push(point.badge.quality.name());
            for report in &reports {
                let text = plain(report);
                for words in said(&profile, point, nth) {
                    assert!(text.contains(&words), "{name}: {words}\n{report}");
                }
                let rows: Vec<String> = report.lines().map(plain).collect();
                for piece in point.pieces.iter().map(row) {
                    let is_row = |line: &&String| piece.iter().all(|part| line.contains(part.as_str()));
                    assert!(rows.iter().any(|line| is_row(&line)), "{name}: {piece:?}\n{report}");
                }
            }
            // The page draws what is in the JSON.
            for report in [&whole["answer"]["points"][nth], &brief["points"][nth]] {
                assert_eq!(report["decision"]["kind"], point.decision.name(), "{name}");
            }
            let of_page = &whole["answer"]["points"][nth];
            assert_eq!(of_page["headline"].as_str(), point.headline.as_deref(), "{name}");
            assert_eq!(of_page["brings"].as_str(), point.brings.as_deref(), "{name}");
            assert_eq!(of_page["badge"]["cause"], *point.badge.cause, "{name}");
            let of_brief = &brief["points"][nth];
            assert_eq!(of_brief["quality"], point.badge.quality.name(), "{name}");
            assert_eq!(of_brief["cause"], *point.badge.cause, "{name}");
        }
    }
    // All that can be said was said.
    for decision in ["sure", "probably", "one-of", "nothing-above", "open"] {
        assert!(decisions.contains(&decision), "{decision}: {decisions:?}");
    }
    for quality in ["good", "noisy", "too-little", "not-trusted"] {
        assert!(qualities.contains(&quality), "{quality}: {qualities:?}");
    }
}
