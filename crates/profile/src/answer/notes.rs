//! What has to be known before the answer is acted on, in sentences: what was measured, what its unit of work is, and what has no name.

use super::Piece;
use crate::coz::UNKNOWN_PROGRAM;
use crate::estimate::{Estimate, Target};
use crate::interpreter::Interpreter;
use crate::load::Load;
use crate::model::{Point, SessionStart, Warning};
use crate::ranking::{PointSummary, Profile};
use crate::sentence::{capitalized, plus_minus, subject};
use crate::units::Nanos;
use crate::{printable, shell};

/// Pauses that took less of the time are not mentioned.
const WORTH_SAYING: f64 = 0.01;
/// What sampling costs is not mentioned where it may be more than this, and may be nothing as well.
const LITTLE: f64 = 0.1;
/// A program that sampling certainly slows down by more may be another one without it.
const MUCH: f64 = 0.2;
/// Commands that are longer are cut.
const LONGEST: usize = 120;

/// The command that was measured, how often, for how long, and what experiments and sampling took of that: `` `pigz -9 big.bin`: 3 runs, 12 s in all; experiments
/// paused threads for up to 12 % of it, sampling took 5 % ± 2 % of the program's speed ``. `None` where it is not known.
pub(super) fn measured(profile: &Profile) -> Option<String> {
    let sessions = &profile.rows.sessions;
    let start = &sessions.last().filter(|session| session.start.program != UNKNOWN_PROGRAM)?.start;
    let words = std::iter::once(start.program_name()).chain(start.arguments.iter().map(String::as_str));
    let mut command = shell::command(words);
    if command.chars().count() > LONGEST {
        command = command.chars().take(LONGEST).chain(['…']).collect();
    }
    let time: u64 = sessions.iter().filter_map(|session| Some(session.end.as_ref()?.duration.get())).sum();
    let runs = match (sessions.len(), time) {
        (1, 0) => return Some(format!("`{command}`")),
        (1, _) => format!("one run of {}", Nanos::new(time)),
        (runs, _) => format!("{runs} runs, {} in all", Nanos::new(time)),
    };
    let delayed: u64 = sessions.iter().map(|session| session.samples.delayed.get()).sum();
    let share = delayed as f64 / time as f64;
    let pauses = (WORTH_SAYING..=1.0)
        .contains(&share)
        .then(|| format!("experiments paused threads for up to {:.0} % of it", 100.0 * share));
    let costs: Vec<String> = pauses.into_iter().chain(profile.overhead().and_then(sampling)).collect();
    let costs = if costs.is_empty() { String::new() } else { format!("; {}", costs.join(", ")) };
    Some(format!("`{command}`: {runs}{costs}"))
}

/// What sampling takes of the program's speed; `None` where that is hardly known.
fn sampling(lost: Estimate) -> Option<String> {
    if lost.lo > 0.0 && lost.hi < 1.0 {
        return Some(format!("sampling took {} of the program's speed", plus_minus(&lost, lost.value)));
    }
    let most = (100.0 * lost.hi).ceil().max(1.0);
    (lost.hi < LITTLE).then(|| format!("sampling took less than {most:.0} % of the program's speed"))
}

/// Whether the last run counted visits to a place that `whatif` has chosen: it may have been typed since.
pub(super) fn is_point_chosen(profile: &Profile) -> bool {
    let Some(last) = profile.rows.sessions.last() else { return false };
    let is_chosen = |warning: &Warning| warning.code == Warning::CHOSEN_POINT;
    profile.rows.warnings.iter().any(|(session, warning)| *session == last.id && is_chosen(warning))
}

/// About a point and the best piece of code, if there is one.
pub(super) fn of(profile: &Profile, point: &PointSummary, best: Option<&Piece>) -> Vec<String> {
    let has = |code: &str| profile.rows.warned(code).next().is_some();
    let chosen = (is_point_chosen(profile) && point.latency.is_none()).then(|| {
        if point.name == Point::REQUESTS {
            return format!(
                "No unit of work is marked: whatif chose {}, requests of other programs, and counts them when they are answered. If those are \
                 not the program's work, name a place with -p FILE:LINE or -p NAME (whatif points suggests some).",
                subject(point)
            );
        }
        format!(
            "No unit of work is marked: whatif chose {}, and counts visits to it. If a visit is not one unit of the program's work, name a \
             better place with -p FILE:LINE or -p NAME (whatif points suggests some).",
            subject(point)
        )
    });
    let region = best.and_then(|best| profile.rows.regions.get(&best.region));
    let itself = region.filter(|region| is_place_of(&point.name, &region.name)).map(|_| {
        format!(
            "{} is also what is counted: its gain is less work in each call, not fewer calls.",
            subject(point)
        )
    });
    // Where there is no debug information, a warning says what to do.
    let is_nameless = region.is_some_and(|region| is_address(&region.name)) && !has(Warning::FUNCTIONS_ONLY);
    let nameless = best.zip(region).filter(|_| is_nameless).map(|(best, region)| {
        let file = region.name.rsplit_once('+').map_or("the program", |(file, _)| file);
        format!(
            "{} is an address, because {} has no name for this function: install its debug symbols or compile it with -g, and run this again.",
            best.name,
            printable(file)
        )
    });
    let slowed = profile.overhead().filter(|lost| lost.lo > MUCH).map(|lost| {
        format!(
            "Sampling took {} of the program's speed, so the numbers may be others for the program by itself: see how fast that is before and after the change.",
            plus_minus(&lost, lost.value)
        )
    });
    // What arrives at times of its own does not come more often.
    let is_limit = matches!(point.target, Target::Throughput(_)) && Load::of(&profile.rows.windows).is_none();
    let limited = profile.felt_limit().filter(|_| is_limit).map(|limit| {
        let (words, meaning) = (capitalized(&limit.words()), limit.meaning());
        format!("{words}: {meaning}. Where there is no such limit, profile without it.")
    });
    let notes = chosen.into_iter().chain(itself).chain(nameless).chain(slowed).chain(limited);
    notes.chain(without_point(profile)).collect()
}

/// About the program, whatever was measured.
pub(super) fn without_point(profile: &Profile) -> Vec<String> {
    let looked_into = profile
        .rows
        .warned(Warning::CHOSEN_FILES)
        .next_back()
        .map(|warning| format!("{}.", capitalized(&printable(&warning.message))));
    let of_start = |start: &SessionStart| {
        Interpreter::of(&start.program).filter(|known| !known.has_names(&start.arguments))
    };
    let interpreter = profile.rows.sessions.last().and_then(|session| of_start(&session.start));
    let judged =
        interpreter.filter(|_| profile.failure().is_none()).map(|known| format!("{}.", known.judged()));
    judged.into_iter().chain(looked_into).collect()
}

/// Whether a point counts visits to this function.
fn is_place_of(point: &str, function: &str) -> bool {
    point.strip_prefix("fn:").unwrap_or(point) == function
}

/// Whether a function is called by its place in its file: `pigz+0x5ec0`.
fn is_address(name: &str) -> bool {
    let digits = name.rsplit_once("+0x").map(|(_, digits)| digits);
    digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_only_an_address_has_no_name() {
        for (name, expected) in
            [("pigz+0x5ec0", true), ("operator+0x", false), ("a+0xg", false), ("insert", false)]
        {
            assert_eq!(is_address(name), expected, "{name}");
        }
        assert!(is_place_of("fn:insert", "insert") && is_place_of("insert", "insert"));
        assert!(!is_place_of("hash.c:88", "insert"));
    }
}
