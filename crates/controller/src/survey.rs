//! Surveys, without experiments: what runs (`--list-regions`), and what may be a unit of work (`whatif points`).
//!
//! Both sample for a while. Then, for points, the functions and lines on many stacks are counted one after the other, as
//! if they had been given with `-p`: a unit of work is something that happens again and again at a steady rate, and that most of
//! the time is spent in.

use super::now::monotonic;
use super::observe::{Chains, Known, Observer, lock};
use super::options::{Options, Survey};
use super::points::{self, CallRate};
use super::window::Conductor;
use anyhow::Result;
use profile::{Nanos, RegionKind, shell};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

/// How long the program is sampled if no option says so.
const USUALLY: Duration = Duration::from_secs(3);
/// Regions that are listed.
const LISTED: usize = 40;
/// Places that are counted.
const COUNTED: usize = 12;
/// Places that are suggested.
const SUGGESTED: usize = 8;
/// What fewer samples than this share of all were taken in is no unit of the work.
const LEAST_SHARE: f64 = 0.02;
/// Visits per second of something worth counting: below, a profile takes minutes; above, counting costs too much.
const RATES: std::ops::RangeInclusive<f64> = 2.0..=50_000.0;

/// Says what there is on standard error.
pub fn conduct(
    what: Survey,
    options: &Options,
    pid: u32,
    observer: &Mutex<Observer>,
    conductor: &mut Conductor<'_>,
) -> Result<()> {
    let begin = monotonic();
    let time = options.duration.unwrap_or(USUALLY);
    let runs = conductor.wait(Nanos::from(time));
    let mut observer_now = lock(observer);
    observer_now.drain();
    let elapsed = monotonic().saturating_sub(begin);
    if what == Survey::Regions {
        kernel::say::put(&regions(&observer_now, options, elapsed));
        return Ok(());
    }
    let candidates = candidates(&observer_now);
    drop(observer_now);
    let mut found = Vec::new();
    for candidate in candidates {
        if !runs {
            break;
        }
        let counted = {
            let observer = lock(observer);
            CallRate::begin(&candidate.place, pid, observer.images(), &options.scope.sources)?
        };
        let Some(counted) = counted else { continue };
        match counted.measure(|time| conductor.wait(time)) {
            Some(rate) => found.push((candidate, rate)),
            None => break,
        }
    }
    kernel::say::put(&suggestions(found, options, runs));
    Ok(())
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
        let label = profile::printable(&known.region.label()).into_owned();
        let _ = writeln!(text, "  {:>6.1} %  {:>7}  {label}", share(known.weight), known.samples);
    }
    if most.len() > LISTED {
        let _ = writeln!(text, "  … and {} more", most.len() - LISTED);
    }
    let elsewhere = observer.elsewhere();
    if !elsewhere.is_empty() {
        let names: Vec<String> = elsewhere.iter().map(|name| profile::printable(name).into_owned()).collect();
        let _ = writeln!(
            text,
            "  Out of scope: {} (--scope and --binary widen it)",
            super::failure::list(&names, 5)
        );
    }
    text
}

/// Something that may be a unit of work.
#[derive(Clone, Debug)]
struct Candidate {
    /// As `-p` understands it.
    place: String,
    /// Where it is, for people.
    at: String,
    /// The share of all samples that have it on their stack.
    share: f64,
    /// The threads that have it on their stack.
    threads: usize,
}

/// Functions and lines that much of the time is spent in or below, most first.
fn candidates(observer: &Observer) -> Vec<Candidate> {
    let Some(chains) = observer.chains() else { return Vec::new() };
    let (samples, _) = observer.totals();
    let known = observer.regions();
    let mut found: Vec<(Candidate, RegionKind)> = chains
        .iter()
        .map(|(index, seen)| (&known[*index], seen))
        .filter_map(|(known, Chains { samples: on_stack, threads })| {
            let region = &known.region;
            let share = *on_stack as f64 / samples.max(1) as f64;
            let place = match (region.kind, region.line, &region.file) {
                (RegionKind::Function, ..) => {
                    format!("fn:{}", points::name_of(region, known_names(observer)))
                }
                (RegionKind::Line, Some(line), Some(file)) => {
                    format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
                }
                _ => return None,
            };
            let at = match region.kind {
                RegionKind::Function => region.location().unwrap_or_default(),
                RegionKind::Line => format!("in {}", region.function.as_deref().unwrap_or("?")),
            };
            let candidate = Candidate { place, at, share, threads: threads.len() };
            (share >= LEAST_SHARE).then_some((candidate, region.kind))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| b.share.total_cmp(&a.share).then_with(|| a.place.cmp(&b.place)));
    // Lines are for what no function is called for: a loop in a function that never returns.
    let of_kind =
        |kind| found.iter().filter(move |(_, of)| *of == kind).map(|(candidate, _)| candidate.clone());
    of_kind(RegionKind::Function)
        .take(COUNTED * 2 / 3)
        .chain(of_kind(RegionKind::Line).take(COUNTED / 3))
        .collect()
}

/// The names of all functions that have been seen, to tell those apart that share one.
fn known_names(observer: &Observer) -> impl Iterator<Item = &str> {
    let functions = observer.regions().iter().filter(|known| known.region.kind == RegionKind::Function);
    functions.map(|known| known.region.name.as_str())
}

/// What to type, the likeliest first.
fn suggestions(mut found: Vec<(Candidate, CallRate)>, options: &Options, runs: bool) -> String {
    found.retain(|(_, rate)| RATES.contains(&rate.per_second));
    let score = |(candidate, rate): &(Candidate, CallRate)| {
        // Steady ones that cover the work; those that are visited very often cost more.
        let often = if rate.per_second > 5_000.0 { 0.5 } else { 1.0 };
        candidate.share * often / (1.0 + rate.variation)
    };
    found.sort_by(|a, b| score(b).total_cmp(&score(a)));
    if found.is_empty() {
        let why = if runs {
            "nothing in scope is called at a steady rate of 2 to 50000 a second: mark a point in the source, or widen the scope \
             (--scope, --binary)"
        } else {
            "the program ended while it was sampled: give it more work"
        };
        return format!("whatif: no suggestions; {why}\n");
    }
    let mut text = String::from(
        "whatif: places that may be a unit of work, the likeliest first\n    visits/s   varies   of time  threads  place\n",
    );
    for (candidate, rate) in found.iter().take(SUGGESTED) {
        let _ = writeln!(
            text,
            "  {:>10.1}  ± {:>3.0} %  {:>6.0} %  {:>7}  -p {}   {}",
            rate.per_second,
            100.0 * rate.variation,
            100.0 * candidate.share,
            candidate.threads,
            shell::command([&candidate.place]),
            profile::printable(&candidate.at)
        );
    }
    let run = ["whatif", "run", "-p", &found[0].0.place, "--"];
    let program = options.program.iter().map(String::as_str);
    let _ = writeln!(text, "Try: {}", shell::command(run.into_iter().chain(program)));
    text
}
