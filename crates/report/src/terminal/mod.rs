//! The report in a terminal: the sentence, the evidence, the doubts.
//!
//! **Does:** lay the profile out for a given width. **Does not:** find out how wide the terminal is,
//! whether it has colours or whether `NO_COLOR` is set: the caller says so in a [`Style`].
//! **Constraints:** readable from 80 columns on, and without colours: they only repeat what is written.
//! The parts that others lay out in their own way (`whatif watch`) are functions by themselves: they take the room that there is
//! and return lines without colours.
//! **Place:** the last word of the sentence, for people.

mod bar;
mod braille;
pub(crate) mod columns;
mod comparison;
mod curve;
mod drift;
mod explain;
mod figures;
mod first;
mod grid;
mod lines;
pub(crate) mod paint;
mod plot;
mod programs;
mod style;
mod table;
mod threads;
mod timeline;

use std::fmt::Write as _;

use profile::{
    Doubts, Exit, LeftOut, Nanos, PointSummary, Profile, REFERENCE, SampleTotals, Session, SessionEnd,
    Target, Unsteady, Warning, printable,
};

pub use comparison::render as render_comparison;

use figures::{percentile, three_digits};
use lines::{line_of, note};
use paint::{Colour, paint};

pub use bar::Axis;
pub use columns::{exactly, wrap};
pub use explain::render as render_explanation;
pub use plot::{curve, render as render_curves};
pub use style::Style;
pub use table::{Cells, title};
pub use timeline::timeline;

/// Runs of one command that are shown one by one.
const SHOWN_RUNS: usize = 5;
/// Samples whose mean distance says something.
const MANY: u64 = 1000;

/// The first screen. Ends with a newline.
pub fn render(profile: &Profile, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let mut out = String::new();
    first::draw(&mut out, profile, style);
    out
}

/// The statistics behind the first screen. Ends with a newline.
pub fn render_details(profile: &Profile, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let mut out = String::new();
    for line in columns::wrap(&profile.sentence(), style.width) {
        line_of(&mut out, &paint(style, Colour::Bold, &line));
    }
    for point in profile.points.iter().filter(|point| !point.idle) {
        line_of(&mut out, "");
        table::draw(&mut out, profile, point, style);
    }
    if !profile.regions.is_empty() {
        line_of(&mut out, "");
        let legend = format!(
            "slope: gain per speedup, so that 0.50 means {:.0} % less time per visit for {REFERENCE} less time in \
             the region; its standard error (se), then its 95 % interval.{}",
            REFERENCE.fraction() * 50.0,
            table::legend(profile, style)
        );
        note(&mut out, &legend, style);
    }
    if !profile.points.is_empty() {
        line_of(&mut out, "\nProgress points");
        for point in &profile.points {
            note(&mut out, &describe(point), style);
        }
        for change in drift::changes(profile) {
            note(&mut out, &change, style);
        }
    }
    line_of(&mut out, "\nRuns");
    for sessions in profile.rows.sessions.chunk_by(is_same_command) {
        match sessions {
            [first, .., last] if sessions.len() > SHOWN_RUNS => {
                note(&mut out, &runs(first, last, sessions), style)
            }
            _ => sessions.iter().for_each(|session| note(&mut out, &run(session), style)),
        }
    }
    for doubt in doubts(&profile.doubts) {
        note(&mut out, &doubt, style);
    }
    programs::draw(&mut out, profile, style);
    threads::draw(&mut out, profile, style);
    let left_out = left_out(&profile.left_out);
    if !left_out.is_empty() {
        line_of(&mut out, "\nLeft out");
        for what in left_out {
            note(&mut out, &what, style);
        }
    }
    warnings_of(&mut out, profile, style);
    out
}

/// The doubts about a profile, each once, with what can be done about it. Nothing in them can move a cursor.
pub fn warnings(profile: &Profile) -> Vec<(String, String)> {
    let warnings: Vec<Warning> = profile.warnings().into_iter().map(|(_, warning)| warning).collect();
    counted(&warnings).into_iter().map(in_words).collect()
}

/// What a warning says, and its advice.
fn in_words((warning, times): (&Warning, usize)) -> (String, String) {
    let again = if times > 1 { format!(" ({times} runs)") } else { String::new() };
    (format!("{}{again}", printable(&warning.message)), printable(&warning.advice).into_owned())
}

fn warnings_of(out: &mut String, profile: &Profile, style: Style) {
    draw_warnings(out, &profile.warnings().into_iter().map(|(_, w)| w).collect::<Vec<_>>(), style);
}

/// The warnings, each once, and how many runs raised it.
fn draw_warnings(out: &mut String, warnings: &[Warning], style: Style) {
    let warnings = counted(warnings);
    if warnings.is_empty() {
        return;
    }
    line_of(out, "\nWarnings");
    for (text, advice) in warnings.into_iter().map(in_words) {
        for (nth, line) in columns::wrap(&text, style.width - 4).iter().enumerate() {
            let bullet = if nth == 0 { "  ! " } else { "    " };
            line_of(out, &paint(style, Colour::Yellow, &format!("{bullet}{line}")));
        }
        for line in columns::wrap(&advice, style.width - 4) {
            line_of(out, &format!("    {line}"));
        }
    }
}

/// What is known of a point.
pub fn describe(point: &PointSummary) -> String {
    let mut text = match point.target {
        Target::Throughput(_) => format!("{}: ", printable(&point.name)),
        Target::Latency { .. } => format!("{} (latency): ", printable(&point.name)),
    };
    match (point.visits, point.rate) {
        (0, _) => text.push_str("never visited while it was measured"),
        (visits, Some(rate)) => {
            let _ = write!(text, "{visits} visits, {} per second without speedups", three_digits(rate));
        }
        (visits, None) => {
            let _ = write!(text, "{visits} visits, none of them without speedup");
        }
    }
    if let Some(latency) = point.latency {
        let _ = write!(text, ", {latency} from begin to end in the mean");
        match &*point.quantiles {
            [] => text.push_str("; percentiles are not known"),
            known => known.iter().for_each(|quantile| {
                let time = Nanos::new(quantile.time.value.max(0.0) as u64);
                let _ = write!(text, ", {} {time}", percentile(quantile.share));
            }),
        }
    }
    if point.idle && point.visits > 0 {
        text.push_str("; idle: most experiments saw none, so nothing is known about it");
    }
    if let Some(of_point) = point.unsteady.filter(|unsteady| unsteady.count() > 0) {
        text.push_str(&unsteady(&of_point));
    }
    text
}

/// That a latency was not in a steady state, after a semicolon.
fn unsteady(unsteady: &Unsteady) -> String {
    let queue = match (unsteady.growing, unsteady.shrinking) {
        (_, 0) => "growing",
        (0, _) => "shrinking",
        _ => "growing or shrinking",
    };
    format!(
        "; {} of {} measurements were unstable: the queue was {queue}; latency is not in a steady state",
        unsteady.count(),
        unsteady.windows
    )
}

/// Doubts about windows that count nevertheless.
fn doubts(doubts: &Doubts) -> Vec<String> {
    [
        (doubts.busy, "made while other programs used more than 10 % of the machine"),
        (doubts.unmatched, "left with more ends than begins: their latencies are not known"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| {
        let share = 100.0 * count as f64 / doubts.windows as f64;
        format!("{count} of {} measurements ({share:.0} %) were {what}", doubts.windows)
    })
    .collect()
}

/// The mean CPU time between two samples: programs that spin are sampled more often than they were at first.
fn period(session: &Session) -> Nanos {
    let samples = &session.samples;
    let mean = samples.weight.get().checked_div(samples.count).unwrap_or_default();
    let period = session.start.sample_period;
    if samples.count >= MANY && mean < period.get() * 3 / 4 { Nanos::new(mean) } else { period }
}

/// How a run went.
pub fn run(session: &Session) -> String {
    let start = &session.start;
    let how = match session.end {
        None => "unfinished: it still runs, or whatif was killed".to_owned(),
        Some(of_run) => end(&of_run),
    };
    let lost = match session.samples.lost {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    let SampleTotals { count, timed, .. } = session.samples;
    let share = 100.0 * timed as f64 / count.max(1) as f64;
    let is_worth_saying = share >= 0.5 && timed < count;
    let by_timer = if is_worth_saying { format!(", {share:.0} % of them by a timer") } else { String::new() };
    format!(
        "{}: {how}; {count} samples{lost} every {} ({}{by_timer})",
        command(session),
        period(session),
        printable(&start.sampler)
    )
}

/// How long a run took, and how it ended.
pub fn end(end: &SessionEnd) -> String {
    if end.stopped {
        let code = match end.exit {
            Exit::Code(code) if code != 0 => format!(", exit code {code}"),
            _ => String::new(),
        };
        return format!("stopped by whatif after {}{code}", end.duration);
    }
    match end.exit {
        Exit::Code(code) => format!("{}, exit code {code}", end.duration),
        Exit::Signal(signal) => format!("{}, killed by signal {signal}", end.duration),
        Exit::Unknown => format!("{}, its end was not seen", end.duration),
    }
}

fn is_same_command(one: &Session, other: &Session) -> bool {
    (&one.start.program, &one.start.arguments) == (&other.start.program, &other.start.arguments)
}

/// Many runs of one command.
fn runs(first: &Session, last: &Session, all: &[Session]) -> String {
    let mut durations: Vec<Nanos> = all.iter().filter_map(|run| Some(run.end?.duration)).collect();
    durations.sort_unstable();
    let took = match (durations.first(), durations.last()) {
        (Some(shortest), Some(longest)) => format!(", {shortest} to {longest} each"),
        _ => String::new(),
    };
    let samples: u64 = all.iter().map(|run| run.samples.count).sum();
    format!("{} runs of {}{took}, {samples} samples; the last one: {}", all.len(), command(first), run(last))
}

/// As it would be typed, near enough.
fn command(session: &Session) -> String {
    let words = std::iter::once(&session.start.program).chain(&session.start.arguments);
    words.map(|word| quoted(&printable(word))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
}

/// What no estimate uses.
pub fn left_out(left_out: &LeftOut) -> Vec<String> {
    let windows = &left_out.windows;
    [
        (left_out.without_baseline, "region", "without a baseline"),
        (left_out.few_speedups, "region", "tried at fewer than five speedups"),
        (windows.unbalanced, "measurement", "whose delays did not balance"),
        (windows.cut, "measurement", "cut short"),
        (windows.overdrawn, "measurement", "with more delay than time"),
        (windows.unpaired, "measurement", "without a baseline beside it"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, noun, why)| format!("{count} {noun}{} {why}", if count == 1 { "" } else { "s" }))
    .collect()
}

fn counted(warnings: &[Warning]) -> Vec<(&Warning, usize)> {
    let mut listed: Vec<(&Warning, usize)> = Vec::new();
    for warning in warnings {
        match listed.iter_mut().find(|(known, _)| *known == warning) {
            Some((_, times)) => *times += 1,
            None => listed.push((warning, 1)),
        }
    }
    listed
}
