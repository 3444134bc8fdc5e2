//! Surveys, without experiments: what runs (`--list-regions`), and what may be a unit of work (`whatif points`).
//!
//! Both sample for a while; for points, [`candidates`] are counted then.

use super::candidates::{self, Candidate, Found};
use super::failure;
use super::images::{MADE, NAMES_OF_MADE};
use super::now::monotonic;
use super::observe::{Known, Observer, lock};
use super::options::{Options, Survey};
use super::points::Points;
use super::window::Conductor;
use anyhow::{Context as _, Result};
use profile::{Nanos, Point, RegionKind, shell};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

/// How long the program is sampled if no option says so.
const USUALLY: Duration = Duration::from_secs(1);
/// Regions that are listed.
const LISTED: usize = 40;
/// Places that are suggested.
const SUGGESTED: usize = 8;
/// Why none is suggested then.
pub const TOO_OFTEN: &str = "all places are visited so often that counting them slows the program down: mark a point in the source instead, \
                             which costs next to nothing, or count requests (-p net:requests), or a system call that each unit of work makes (-p \
                             syscall:NAME)";
/// Places that are shown if counting any of them costs too much.
const TOO_DEAR: usize = 2;

/// Says what there is on standard error. Returns why there is nothing to suggest, if that is so.
pub fn conduct(
    what: Survey,
    options: &Options,
    points: &Points,
    observer: &Mutex<Observer>,
    conductor: &mut Conductor<'_>,
) -> Result<Option<String>> {
    let begin = monotonic();
    let time = Nanos::from(options.duration.unwrap_or(USUALLY));
    let runs = conductor.wait(time);
    lock(observer).drain();
    if what == Survey::Regions {
        let elapsed = monotonic().saturating_sub(begin);
        kernel::say::put(&regions(&lock(observer), options, elapsed));
        return Ok(None);
    }
    let mut besides = candidates::widen(&options.scope, &mut lock(observer), false);
    let mut found = None;
    if runs && (besides.is_empty() || look_at(&besides, time, observer, conductor)) {
        found =
            candidates::find(&candidates::ALL_KINDS, options, points, observer, |time| conductor.wait(time))?;
        if besides.is_empty() && found.as_ref().is_some_and(Vec::is_empty) {
            besides = candidates::widen(&options.scope, &mut lock(observer), true);
            if !besides.is_empty() && look_at(&besides, time, observer, conductor) {
                found = candidates::find(&candidates::ALL_KINDS, options, points, observer, |time| {
                    conductor.wait(time)
                })?;
            }
        }
    }
    kernel::say::put(&marked(&points.list()));
    let nothing = nothing(found.as_deref(), of_made(&lock(observer)));
    if let Some(file) = &options.suggestions {
        let found = found.as_deref().unwrap_or_default();
        let json = as_json(found, nothing.as_deref(), &points.list(), (options, &besides));
        std::fs::write(file, format!("{json:#}\n")).with_context(|| {
            format!("cannot write {}; choose another place with --json FILE", file.display())
        })?;
    }
    if let Some(found) = found.filter(|found| !found.is_empty()) {
        kernel::say::put(&places(&found, options, &besides));
    }
    Ok(nothing)
}

/// What to do if most of the time is in code that is made at run time.
fn of_made(observer: &Observer) -> Option<String> {
    observer.innermost().first().filter(|(name, _)| *name == MADE)?;
    let has_names = observer.in_scope() * 2 > observer.totals().0;
    Some(if has_names {
        format!(
            "most of the time is in {MADE}, where no visits can be counted: count requests (-p net:requests), a system call that \
             each unit of work makes (-p syscall:write), or a function of the runtime's"
        )
    } else {
        format!("most of the time is in {MADE}: {NAMES_OF_MADE}, or mark a point in the source")
    })
}

/// Samples the program again, with further files; false if it ended.
fn look_at(files: &[String], time: Nanos, observer: &Mutex<Observer>, conductor: &mut Conductor<'_>) -> bool {
    kernel::say!("whatif: most of the time is in {}: looking there as well", files.join(" and "));
    let runs = conductor.wait(time);
    lock(observer).drain();
    runs
}

/// The code in scope and what of the time it took.
fn regions(observer: &Observer, options: &Options, elapsed: Nanos) -> String {
    let (samples, weight) = observer.totals();
    let share = |part: Nanos| 100.0 * part.get() as f64 / weight.get().max(1) as f64;
    let mut text = format!(
        "whatif: {samples} samples in {:.1} s, {:.1} % of their time in scope\n",
        elapsed.as_secs_f64(),
        100.0 * observer.in_scope() as f64 / samples.max(1) as f64
    );
    let kind = match options.granularity {
        crate::arguments::Granularity::Line => RegionKind::Line,
        _ => RegionKind::Function,
    };
    let wanted = |known: &&Known| known.region.kind == kind || known.named;
    let most: Vec<&Known> = observer.most_run().into_iter().map(|index| &observer.regions()[index]).collect();
    let most: Vec<&Known> = most.into_iter().filter(wanted).collect();
    text += "   of time  samples  region\n";
    for known in most.iter().take(LISTED) {
        let program = observer.images().executed_name(&known.region.image.path);
        let label = profile::printable(&known.region.label_in(program)).into_owned();
        let _ = writeln!(text, "  {:>6.1} %  {:>7}  {label}", share(known.weight), known.samples);
    }
    if most.len() > LISTED {
        let _ = writeln!(text, "  … and {} more", most.len() - LISTED);
    }
    let elsewhere = observer.elsewhere();
    if !elsewhere.is_empty() {
        let names: Vec<String> = elsewhere.iter().map(|name| profile::printable(name).into_owned()).collect();
        let _ =
            writeln!(text, "  Out of scope: {} (--scope and --binary widen it)", failure::list(&names, 5));
    }
    text
}

/// Why there is nothing to suggest. `found`: nothing if the program ended. `of_made`: see there.
fn nothing(found: Option<&[Found]>, of_made: Option<String>) -> Option<String> {
    match found {
        Some([]) => Some(of_made.unwrap_or_else(|| {
            "nothing in scope is called at a steady rate of 2 a second or more: mark a point in the source, or widen the scope \
             (--scope, --binary)"
                .to_owned()
        })),
        Some(found) => (!found.iter().any(Found::is_affordable)).then(|| TOO_OFTEN.to_owned()),
        None => Some("the program ended while it was sampled: give it more work".to_owned()),
    }
}

/// What to type, the likeliest first; there is something. `besides`: files that were looked into besides the program.
pub fn places(found: &[Found], options: &Options, besides: &[String]) -> String {
    let mut shown: Vec<&Found> = found.iter().filter(|found| found.is_affordable()).take(SUGGESTED).collect();
    let first = shown.first().copied();
    if first.is_none() {
        shown = found.iter().collect();
        shown.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
        shown.truncate(TOO_DEAR);
    }
    let mut text = String::from(
        "whatif: places that may be a unit of work, the likeliest first (cost: of counting every visit, in CPUs)\n     \
         visits/s    95 %      cost  of time  threads  place\n",
    );
    for found in shown {
        let Found { candidate, rate, .. } = found;
        // Counting has slowed it down.
        let at_least = if found.is_as_it_was() { " " } else { "≥" };
        let threads = candidate.share.map_or_else(|| "–".to_owned(), |_| candidate.threads.to_string());
        let _ = writeln!(
            text,
            "  {at_least}{:>10.1}  ± {:>3.0} %  {:>6}  {:>7}  {:>7}  -p {}   {}",
            rate.per_second,
            100.0 * rate.error,
            cost(found.cost()),
            of_time(candidate),
            threads,
            shell::command([&candidate.place]),
            profile::printable(&candidate.at)
        );
    }
    let Some(first) = first else { return text };
    let _ = writeln!(text, "Try: {}", try_it(first, options, besides));
    text
}

/// The same for programs: all places that were counted, the likeliest first, also those that cost too much.
fn as_json(
    found: &[Found],
    nothing: Option<&str>,
    points: &[Point],
    (options, besides): (&Options, &[String]),
) -> serde_json::Value {
    /// The version of the format.
    const VERSION: u32 = 1;
    let place = |found: &Found| {
        let Found { candidate, rate, by_itself, .. } = found;
        serde_json::json!({
            "place": candidate.place,
            "at": candidate.at,
            "visits_per_s": rate.per_second,
            "error": rate.error,
            "at_least": !found.is_as_it_was(),
            "cost": Some(found.cost()).filter(|cost| cost.is_finite()),
            "affordable": found.is_affordable(),
            "counts_itself": by_itself,
            "share": candidate.share,
            "threads": candidate.share.map(|_| candidate.threads),
            "each_request": rate.is_that_of_requests(),
        })
    };
    let first = found.iter().find(|found| found.is_affordable());
    let marked: BTreeSet<&str> = points.iter().map(|point| point.name.as_str()).collect();
    serde_json::json!({
        "version": VERSION,
        "places": found.iter().map(place).collect::<Vec<_>>(),
        "nothing": nothing,
        "marked": marked,
        "command": first.map(|first| try_it(first, options, besides)),
    })
}

/// The share of the time that a place is on stacks, for people.
pub fn of_time(candidate: &Candidate) -> String {
    candidate.share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

/// The command that judges by such a place.
fn try_it(first: &Found, options: &Options, besides: &[String]) -> String {
    // A program that ends by itself ends earlier.
    run_with(&["--duration", "60"], &first.candidate.place, options, besides)
}

/// That the program marks points itself, if it does.
fn marked(points: &[Point]) -> String {
    let names: BTreeSet<&str> = points.iter().map(|point| point.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<String> = names.into_iter().map(|name| profile::printable(name).into_owned()).collect();
    format!(
        "whatif: the program marks its progress itself ({}), and whatif run counts that without -p\n",
        failure::list(&names, 5)
    )
}

/// A share of a CPU, for people.
pub fn cost(share: f64) -> String {
    match 100.0 * share {
        per_cent if per_cent.is_nan() => "?".to_owned(),
        per_cent if per_cent < 0.1 => "< 0.1 %".to_owned(),
        per_cent if per_cent < 10.0 => format!("{per_cent:.1} %"),
        per_cent => format!("{per_cent:.0} %"),
    }
}

/// The command that counts visits to a place in the same program, with the same scope and these options besides.
pub fn run_with(with: &[&str], place: &str, options: &Options, besides: &[String]) -> String {
    let mut words: Vec<String> =
        ["whatif", "run"].iter().chain(with).map(|word| (*word).to_owned()).collect();
    words.extend(options.in_scope.iter().cloned());
    if !besides.is_empty() {
        // These name all files that are looked into, the program among them.
        for file in std::iter::once(&options.file).chain(besides) {
            words.extend(["--binary".to_owned(), globset::escape(file)]);
        }
    }
    words.extend(["-p".to_owned(), place.to_owned(), "--".to_owned()]);
    words.extend(options.program.iter().cloned());
    shell::command(words)
}
