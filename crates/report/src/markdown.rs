//! A comment for a pull request: the sentence, the best regions, time by program, and the doubts, in GitHub's Markdown.
//!
//! Names come from the program that was profiled, and any author of a pull request may choose them. They only
//! stand in code spans, where there are no links, no mentions and no HTML; and where a code span cannot hold them
//! (a `|` in a table, next to a backslash), all that could be markup is written as the number of its character. So are
//! the warnings, which may have names anywhere.

use std::fmt::Write as _;

use profile::{Mark, PointEstimate, PointSummary, Profile, RegionEstimate, Target, plus_minus, printable};

/// So many regions are listed for each point.
const TOP: usize = 10;

/// The report as Markdown.
pub fn render(profile: &Profile) -> String {
    let mut text = format!("**{}**\n", sentence(profile));
    for point in profile.points.iter().filter(|point| !point.idle) {
        table(&mut text, profile, point);
    }
    programs(&mut text, profile);
    let warnings = profile.warnings();
    if !warnings.is_empty() {
        text.push_str("\nWarnings:\n\n");
        let mut said = Vec::new();
        for (_, warning) in warnings {
            if !said.contains(&warning) {
                writeln!(text, "- {}: {}", prose(&warning.message), prose(&warning.advice)).expect(FITS);
                said.push(warning);
            }
        }
    }
    text
}

const FITS: &str = "a string takes any text";

/// The sentence has names in backticks. If a name has some too, its end cannot be told: then all is code.
fn sentence(profile: &Profile) -> String {
    let sentence = profile.sentence();
    let regions = profile.rows.regions.values();
    let places =
        regions.flat_map(|region| [Some(&*region.name), region.file.as_deref(), region.program()]).flatten();
    let mut names = places.chain(profile.rows.points.values().map(|point| &*point.name));
    if names.any(|name| name.contains('`')) {
        return code(&sentence);
    }
    let parts = sentence.split('`').enumerate();
    parts.map(|(nth, part)| if nth % 2 == 1 { code(part) } else { prose(part) }).collect()
}

fn table(text: &mut String, profile: &Profile, point: &PointSummary) {
    let what = match point.target {
        Target::Throughput(_) => "faster",
        Target::Latency { .. } => "shorter",
    };
    let ranked = profile.ranked(point.target);
    if ranked.is_empty() {
        return;
    }
    let (head, line) = match profile.production() {
        Some(_) => (" In production |", "--:|"),
        None => ("", ""),
    };
    write!(
        text,
        "\n| What makes {} {what} | 20 % less time there is worth | Slope | Verdict | Share |{head}\n|---|--:|--:|---|--:|{line}\n",
        code(&point.name)
    )
    .expect(FITS);
    for (region, estimate) in ranked.iter().take(TOP) {
        text.push_str(&row(profile, region, estimate));
    }
    if ranked.len() > TOP {
        writeln!(text, "\n{} more regions are not shown.", ranked.len() - TOP).expect(FITS);
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

fn row(profile: &Profile, region: &RegionEstimate, estimate: &PointEstimate) -> String {
    let known = |estimate: &&profile::Estimate| estimate.half_width().is_finite();
    let effect = estimate.effect.as_ref().filter(known);
    let slope = estimate.slope.as_ref().filter(known);
    let share = |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share)).unwrap_or_default();
    let production = profile.production().map(|_| format!(" {} |", share(region.production)));
    let mark = match region.mark() {
        Some(Mark::HotButDoesNotMatter) => " (hot, but does not matter)",
        Some(Mark::MattersButIsNotHot) => " (matters, but is not hot)",
        None => "",
    };
    format!(
        "| {} | {} | {} | {}{mark} | {} |{}\n",
        code(&profile.label(profile.region(region))),
        effect.map_or("?".to_owned(), |effect| plus_minus(effect, effect.value)),
        slope.map_or("?".to_owned(), |slope| {
            // Never "−0.00".
            let value = if slope.value.abs() < 0.005 { 0.0 } else { slope.value };
            format!("{value:.2} ± {:.2}", slope.half_width()).replace('-', "−")
        }),
        estimate.verdict.words(),
        share(region.share),
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
