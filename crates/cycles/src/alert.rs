//! Alerts: whether the conditions of `whatif diff --fail-if` hold, and how sure that is.
//!
//! A condition fails only by what is certain: the interval of how far a value is beyond its limit has to be beyond it as a whole, and with a
//! pattern the intervals of all names that match are right at once. What was not measured is never a pass.

use super::arguments::{Diff, Which};
use super::bounds::{excess, level, misses_of};
use super::condition::{Condition, Kind, Quantity, Subject};
use super::counted;
use super::diff::{query_for, span_for};
use super::files::known_by;
use super::functions::{Gather, Keys, tally};
use super::names::Names;
use super::pattern::glob;
use super::query::Query;
use super::time;
use crate::{ConditionVerdict, Conditions, Heading, Judged, JudgedRow, Share, Side};
use anyhow::{Context as _, Result, bail, ensure};
use archive::{By, Forest, Group, Parts, Selection, UnixSeconds};
use jiff::{Timestamp, Zoned};
use profile::printable;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use symbols::FunctionName;

/// Rows of a condition that are told.
const ROWS: usize = 20;

/// Spans of time that are asked about one by one.
const MOST_SPANS: i64 = 1000;

/// Judges all conditions of `whatif diff`.
#[must_use]
pub fn judge(args: &Diff) -> Conditions {
    let mut known = HashMap::new();
    // The end of one span is the begin of the next.
    let now = Zoned::now();
    all(&args.fail_if, |condition| judge_one(args, condition, &now, &mut known))
}

/// Judges conditions about `sides`, A and B as they were typed, by samples that were counted elsewhere. `counted` gets what a side is, as it is typed (nothing: all that
/// there is), and returns its samples and the width of its spans in seconds.
pub fn judge_counted(
    conditions: &[Condition],
    sides: (&str, &str),
    mut counted: impl FnMut(Option<&str>) -> Result<Rc<(counted::Counted, i64)>>,
) -> Conditions {
    all(conditions, |condition| {
        let Subject { kind, .. } = condition.subject;
        ensure!(
            condition.quantity == Quantity::Share && matches!(kind, Kind::Function | Kind::Image),
            "over all machines there are shares of functions and images: write share(NAME) or share(image:NAME)"
        );
        let (span, other_span) = spans(Some(sides), false, condition)?;
        let mut measured = |span: Option<&str>| -> Result<Measured> {
            let of = counted(span)?;
            Ok(Measured::of_counted(span.unwrap_or_default().to_owned(), &of.0, of.1, kind))
        };
        let of = measured(span.as_deref())?;
        let with = other_span.map(|span| measured(span.as_deref())).transpose()?;
        judge_sides(condition, &of, with.as_ref(), || measured(None))
    })
}

fn all(conditions: &[Condition], mut judge: impl FnMut(&Condition) -> Result<Judged>) -> Conditions {
    let judged = |condition: &Condition| {
        judge(condition).unwrap_or_else(|error| Judged {
            verdict: ConditionVerdict::CannotBeJudged,
            why: Some(format!("{error:#}")),
            ..empty(condition)
        })
    };
    Conditions { conditions: conditions.iter().map(judged).collect() }
}

fn empty(condition: &Condition) -> Judged {
    Judged {
        condition: condition.text.clone(),
        quantity: condition.quantity.name().to_owned(),
        by: condition.subject.kind.name().to_owned(),
        ..Judged::default()
    }
}

/// What was measured already: by span, quantity and what is added up.
type Known = HashMap<(Option<String>, Quantity, Kind), Rc<Measured>>;

fn judge_one(args: &Diff, condition: &Condition, now: &Zoned, known: &mut Known) -> Result<Judged> {
    let has_times = args.which.since.is_some() || args.which.until.is_some();
    let (span, other_span) = spans(args.sides(), has_times, condition)?;
    let mut measured = |span: Option<String>| -> Result<Rc<Measured>> {
        let key = (span, condition.quantity, condition.subject.kind);
        if let Some(measured) = known.get(&key) {
            return Ok(Rc::clone(measured));
        }
        let query = match &key.0 {
            Some(span) => query_for(&absolute(span, now), &of_span(&args.which))?,
            None => Query::new(&args.which)?,
        };
        let asked = key.0.clone().unwrap_or_else(|| in_words(&args.which));
        let measured = Rc::new(Measured::of(asked, query, condition.quantity, condition.subject.kind)?);
        known.insert(key, Rc::clone(&measured));
        Ok(measured)
    };
    let of = measured(span)?;
    let with = other_span.map(&mut measured).transpose()?;
    let kind = condition.subject.kind;
    let mut judged = judge_sides(condition, &of, with.as_deref(), || {
        let mut which = of_span(&args.which);
        which.folder.db = Some(of.side.heading.database.clone().into());
        Measured::of(String::new(), Query::new(&which)?, condition.quantity, kind)
    })?;
    judged.closer = judged.rows.first().map(|row| closer(args, kind, row, &of));
    Ok(judged)
}

/// Judges a condition by what was measured of its two sides, of which the second may not be needed. `everywhere` measures all that there is.
fn judge_sides(
    condition: &Condition,
    of: &Measured,
    with: Option<&Measured>,
    everywhere: impl FnOnce() -> Result<Measured>,
) -> Result<Judged> {
    let mut names: BTreeSet<&Name> = of.terms.keys().collect();
    names.extend(with.iter().flat_map(|with| with.terms.keys()));
    let mut found = matching(&condition.subject, names.into_iter())?;
    let all;
    if found.is_empty() {
        // It may just not have run, which is known, or not exist, which no condition is passed by.
        all = everywhere()?;
        found = matching(&condition.subject, all.terms.keys())?;
        ensure!(!found.is_empty(), not_there(&condition.subject, all.terms.keys()));
    }
    let misses = misses_of(found.len());
    let mut rows: Vec<JudgedRow> = found
        .iter()
        .map(|name| row(condition, name, &of.level(name, misses), with.map(|with| with.level(name, misses))))
        .collect();
    let upwards = if condition.relation.is_upwards() { 1.0 } else { -1.0 };
    rows.sort_by(|one, other| {
        let beyond = |row: &JudgedRow| upwards * row.excess.value;
        let order = other.verdict.cmp(&one.verdict);
        order.then(beyond(other).total_cmp(&beyond(one))).then_with(|| one.name.cmp(&other.name))
    });
    let held = rows.iter().filter(|row| row.verdict == ConditionVerdict::Holds).count();
    let verdict = rows.first().map(|row| row.verdict).unwrap_or_default();
    let shown = rows.iter().filter(|row| row.verdict != ConditionVerdict::DoesNotHold).count();
    rows.truncate(shown.clamp(1, ROWS));
    Ok(Judged {
        verdict,
        of: Some(of.side.clone()),
        with: with.map(|with| with.side.clone()),
        judged: found.len(),
        held,
        rows,
        ..empty(condition)
    })
}

/// What the two sides of a condition are about: a span as it was typed, or `None` for what `--since` and `--until` say, if they do (`has_times`).
fn spans(
    sides: Option<(&str, &str)>,
    has_times: bool,
    condition: &Condition,
) -> Result<(Option<String>, Option<Option<String>>)> {
    let named = |span: &String| match (span.as_str(), sides) {
        ("A", Some((before, _))) => Ok(before.to_owned()),
        ("B", Some((_, after))) => Ok(after.to_owned()),
        ("A" | "B", None) => {
            bail!("it says {span}: give A and B as well: whatif diff A B --fail-if CONDITION")
        }
        _ => Ok(span.clone()),
    };
    let said = condition.span.as_ref().map(named).transpose()?;
    let other = condition.limit.other.as_ref().map(|(_, span)| span.as_ref().map(named).transpose());
    let other = other.transpose()?;
    let left = match (said, sides, &other) {
        (Some(said), _, _) => Some(said),
        (None, Some((_, after)), _) => Some(after.to_owned()),
        (None, None, Some(Some(other))) if !has_times => Some(after(other)?),
        _ => None,
    };
    let Some(other) = other else { return Ok((left, None)) };
    let right = match (other, sides) {
        (Some(other), _) => Some(other),
        (None, Some((_, after))) => Some(after.to_owned()),
        (None, None) => None,
    };
    ensure!(left != right, "both sides are of the same samples; give another span, as in 7d..1d");
    ensure!(
        right.is_some() || has_times,
        "the other side has no span; give one, as in share(NAME, 1d..now) > 1.2 * share(NAME, 7d..1d)"
    );
    Ok((left, Some(right)))
}

/// A span whose ages have become times; epochs and folders stay what they are.
fn absolute(span: &str, now: &Zoned) -> String {
    let at = |text: &str| match time::parse(text, now).ok().and_then(|at| Timestamp::from_second(at.0).ok()) {
        Some(at) => at.to_string(),
        None => text.to_owned(),
    };
    match span.split_once("..") {
        Some((since, until)) if !Path::new(span).is_dir() => format!("{}..{}", at(since), at(until)),
        _ => span.to_owned(),
    }
}

/// What comes after a span.
fn after(span: &str) -> Result<String> {
    let end = span.split_once("..").map_or("", |(_, end)| end).trim();
    ensure!(
        !end.is_empty() && end != "now",
        "nothing comes after {}: say which span the other side is of, as in share(NAME, 1d..now)",
        printable(span)
    );
    Ok(format!("{end}..now"))
}

/// The same selection without its times: spans have them.
fn of_span(which: &Which) -> Which {
    Which { since: None, until: None, ..which.clone() }
}

/// What `--since` and `--until` say.
fn in_words(which: &Which) -> String {
    match (&which.since, &which.until) {
        (None, None) => "all".to_owned(),
        (since, until) => {
            format!("{}..{}", since.as_deref().unwrap_or(""), until.as_deref().unwrap_or("now"))
        }
    }
}

/// A function and what its image is known by; or something else and nothing.
type Name = (String, String);

/// Those that are meant. A name that is a whole one is meant, even if it is the end of others.
fn matching<'a>(subject: &Subject, names: impl Iterator<Item = &'a Name>) -> Result<Vec<&'a Name>> {
    let pattern = subject.pattern.as_str();
    let glob = glob(pattern)?;
    let is_function = subject.kind == Kind::Function;
    let is_meant = |name: &&Name| {
        pattern == "*"
            || name.0 == pattern
            || glob.is_match(&name.0)
            || (is_function && FunctionName::from_demangled(&name.0).matches(pattern))
    };
    let found: Vec<&Name> = names.filter(is_meant).collect();
    let whole: Vec<&Name> = found.iter().copied().filter(|name| name.0 == pattern).collect();
    Ok(if whole.is_empty() { found } else { whole })
}

fn not_there<'a>(subject: &Subject, names: impl Iterator<Item = &'a Name>) -> String {
    let names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
    super::pattern::none(&format!("sampled {}", subject.kind.name()), &subject.pattern, names.into_iter())
}

fn row(condition: &Condition, (name, image): &Name, of: &Share, with: Option<Share>) -> JudgedRow {
    let factor = condition.limit.other.as_ref().map_or(0.0, |(factor, _)| *factor);
    let excess = excess(*of, factor, with.unwrap_or_default(), condition.limit.constant);
    let holds = |value| condition.relation.holds(value, 0.0);
    // The end of the interval that is the last to be beyond the limit.
    let last = if condition.relation.is_upwards() { excess.lo } else { excess.hi };
    let verdict = match (holds(excess.value), holds(last)) {
        (true, true) => ConditionVerdict::Holds,
        (true, false) => ConditionVerdict::MayHold,
        (false, _) => ConditionVerdict::DoesNotHold,
    };
    JudgedRow { name: name.clone(), image: image.clone(), verdict, value: *of, other: with, excess }
}

/// A command that shows more of a row.
fn closer(args: &Diff, kind: Kind, row: &JudgedRow, of: &Measured) -> String {
    let option = |name: &str, value: &Option<String>| {
        value.iter().flat_map(|value| [name.to_owned(), value.clone()]).collect::<Vec<_>>()
    };
    let mut words: Vec<String> =
        ["whatif", if kind == Kind::Function { "list" } else { "top" }].map(str::to_owned).into();
    match kind {
        Kind::Function => words.push(row.name.clone()),
        other => words.extend([format!("--{}", other.name()), row.name.clone()]),
    }
    // Ages would be others when it is typed.
    let at = |time: UnixSeconds| Timestamp::from_second(time.0).map(|time| time.to_string()).ok();
    if let Some(time) = &of.time {
        words.extend(option("--since", &at(time.start).filter(|_| time.start.0 > 0)));
        words.extend(option("--until", &at(time.end).filter(|_| time.end.0 != i64::MAX)));
    }
    words.extend(option("--epoch", &of.epoch));
    for (name, value, of) in [
        ("--process", &args.which.process, Kind::Process),
        ("--cgroup", &args.which.cgroup, Kind::Cgroup),
        ("--image", &args.which.image, Kind::Image),
    ] {
        if of != kind {
            words.extend(option(name, value));
        }
    }
    words.extend(option("--machine", &args.which.machine));
    words.extend(option("--event", &args.which.event));
    if args.which.idle {
        words.push("--idle".to_owned());
    }
    words.extend(["--db".to_owned(), of.side.heading.database.clone()]);
    profile::shell::command(words)
}

/// One side, span by span.
struct Measured {
    side: Side,
    /// Samples in each span.
    terms: BTreeMap<Name, Vec<f64>>,
    /// Samples of all in each span, or wall-clock time in hours.
    wholes: Vec<f64>,
    /// What a sample stands for.
    weight: f64,
    /// Which samples, for the command that shows more.
    time: Option<Range<UnixSeconds>>,
    epoch: Option<String>,
}

impl Measured {
    fn of(asked: String, mut query: Query, quantity: Quantity, kind: Kind) -> Result<Measured> {
        let weight = match quantity {
            Quantity::Share | Quantity::Total => 1.0,
            Quantity::Cpu => {
                let nanos = query.heading.nanos_per_sample.with_context(|| {
                    format!(
                        "samples of {} say nothing of CPU time; use share, or choose a clock with --event",
                        printable(&query.heading.event)
                    )
                })?;
                nanos / 1e9
            }
        };
        let length = query.heading.until.unwrap_or(0).saturating_sub(query.heading.since.unwrap_or(0));
        let resolution = query.db.resolution(&query.selection)?.unwrap_or_default();
        let width = span_for(length, (resolution.get() / 1_000_000_000).max(1) as i64);
        let counted: Counted = match (kind, quantity) {
            (Kind::Process | Kind::Cgroup, _) => by_label(&mut query, kind, width)?,
            (_, Quantity::Total) => with_callees(&mut query, kind, width)?,
            _ => alone(&mut query, kind, width)?,
        };
        let mut wholes = counted.wholes.clone();
        if quantity == Quantity::Cpu {
            let hours = hours(&query, width)?;
            wholes = counted.starts.iter().map(|start| hours.get(start).copied().unwrap_or(0.0)).collect();
        }
        let Selection { time, epochs, .. } = query.selection;
        let epoch = epochs.and_then(|epochs| epochs.first().map(|epoch| epoch.get().to_string()));
        let terms = counted.terms;
        Ok(Measured { time, epoch, ..Measured::new(asked, &query.heading, width, terms, wholes, weight) })
    }

    /// Of samples that were counted elsewhere.
    fn of_counted(asked: String, of: &counted::Counted, width: i64, kind: Kind) -> Measured {
        let Counted { wholes, terms, .. } = of_parts(&of.names, &of.by_span(), kind);
        Measured::new(asked, &of.headed(), width, terms, wholes, 1.0)
    }

    fn new(
        asked: String,
        heading: &Heading,
        width: i64,
        terms: BTreeMap<Name, Vec<f64>>,
        mut wholes: Vec<f64>,
        weight: f64,
    ) -> Measured {
        // A span that nothing was sampled in has nothing to say.
        let is_empty = |nth: usize| wholes[nth] <= 0.0;
        let terms = terms.into_iter().map(|(name, samples)| {
            (
                name,
                samples
                    .into_iter()
                    .enumerate()
                    .filter(|(nth, _)| !is_empty(*nth))
                    .map(|(_, count)| count)
                    .collect(),
            )
        });
        let terms = terms.collect();
        wholes.retain(|whole| *whole > 0.0);
        let spans = if wholes.len() >= super::share::ENOUGH_SPANS { wholes.len() } else { 0 };
        let side = Side { asked, heading: heading.clone(), spans, span_s: width };
        Measured { side, terms, wholes, weight, time: None, epoch: None }
    }

    /// How much of a name there is; a name that was not sampled has no samples.
    fn level(&self, name: &Name, misses: f64) -> Share {
        let none = vec![0.0; self.wholes.len()];
        let samples = self.terms.get(name).unwrap_or(&none);
        let terms: Vec<(f64, f64)> = samples.iter().copied().zip(self.wholes.iter().copied()).collect();
        level(&terms, self.weight, self.side.heading.samples_at_a_time, misses)
    }
}

/// Samples in spans of time.
struct Counted {
    /// Where each span begins.
    starts: Vec<UnixSeconds>,
    /// All samples of each.
    wholes: Vec<f64>,
    terms: BTreeMap<Name, Vec<f64>>,
}

/// Samples in functions or images themselves.
fn alone(query: &mut Query, kind: Kind, width: i64) -> Result<Counted> {
    let parts = query.parts(By::Time(width))?;
    if kind == Kind::Function {
        query.names.learn(&query.db, parts.positions.iter().copied())?;
    }
    Ok(of_parts(&query.names, &parts, kind))
}

fn of_parts(names: &Names, parts: &Parts, kind: Kind) -> Counted {
    let mut keys = Keys::new(names, gather(kind));
    let key_of: Vec<usize> = parts.positions.iter().map(|position| keys.of(*position)[0] as usize).collect();
    let spans: Vec<(UnixSeconds, &Vec<(u32, u64)>)> =
        parts.groups.iter().filter_map(|(group, leaves)| Some((start(group)?, leaves))).collect();
    let mut counts = vec![vec![0.0; spans.len()]; keys.all().len()];
    for (nth, (_, leaves)) in spans.iter().enumerate() {
        leaves.iter().for_each(|(at, count)| counts[key_of[*at as usize]][nth] += *count as f64);
    }
    let mut terms = BTreeMap::new();
    for (key, of_spans) in keys.all().iter().zip(counts) {
        add(&mut terms, named(names, key, kind), of_spans);
    }
    terms.retain(|_, samples: &mut Vec<f64>| samples.iter().any(|count| *count > 0.0));
    let starts = spans.iter().map(|(start, _)| *start).collect();
    let wholes = spans.iter().map(|(_, leaves)| Parts::samples(leaves) as f64).collect();
    Counted { starts, wholes, terms }
}

/// Samples in functions or images and in what they call: each once, however often one is on the stack.
fn with_callees(query: &mut Query, kind: Kind, width: i64) -> Result<Counted> {
    let Forest { mut tree, groups } = query.db.forest(&query.selection, By::Time(width))?;
    if kind == Kind::Function {
        query.names.learn(&query.db, tree.positions.iter().copied())?;
    }
    let is_counted: Vec<bool> = tree.positions.iter().map(|(image, _)| query.counts(*image)).collect();
    let mut keys = Keys::new(&query.names, gather(kind));
    let of_position: Vec<Vec<u32>> = tree.positions.iter().map(|position| keys.of(*position)).collect();
    // The same function of several builds is one.
    let names: Vec<Name> = keys.all().iter().map(|key| named(&query.names, key, kind)).collect();
    let unique: BTreeSet<&Name> = names.iter().collect();
    let numbers: HashMap<&Name, u32> = unique.iter().copied().zip(0..).collect();
    let of: Vec<Vec<u32>> = of_position
        .iter()
        .map(|keys| keys.iter().map(|key| numbers[&names[*key as usize]]).collect())
        .collect();
    let spans: Vec<(UnixSeconds, &Vec<(u32, u64)>)> =
        groups.iter().filter_map(|(group, leaves)| Some((start(group)?, leaves))).collect();
    let mut terms: BTreeMap<Name, Vec<f64>> = BTreeMap::new();
    let mut wholes = Vec::with_capacity(spans.len());
    for (nth, (_, leaves)) in spans.iter().enumerate() {
        tree.counts.iter_mut().for_each(|count| *count = 0);
        for (frame, count) in *leaves {
            let place = tree.places[*frame as usize] as usize;
            tree.counts[*frame as usize] += if is_counted[place] { *count } else { 0 };
        }
        wholes.push(tree.counts.iter().sum::<u64>() as f64);
        let tallies = tally(&tree, unique.len(), |frame| &*of[tree.places[frame] as usize]);
        for (name, tally) in unique.iter().zip(tallies).filter(|(_, tally)| tally.total > 0) {
            terms.entry((*name).clone()).or_insert_with(|| vec![0.0; spans.len()])[nth] = tally.total as f64;
        }
    }
    query.heading.samples = wholes.iter().sum::<f64>() as u64;
    query.is_not_empty()?;
    let starts = spans.iter().map(|(start, _)| *start).collect();
    Ok(Counted { starts, wholes, terms })
}

/// Samples of processes or cgroups.
fn by_label(query: &mut Query, kind: Kind, width: i64) -> Result<Counted> {
    let labels = query.db.labels()?;
    let asked = query.selection.clone();
    let whole = asked.time.clone();
    let begin = query.heading.since.unwrap_or(0);
    let end = query.heading.until.unwrap_or(0);
    // Each is a question of its own.
    let width = width.max(end.saturating_sub(begin) / MOST_SPANS + 1);
    let first = begin.saturating_sub(begin.rem_euclid(width));
    let spans = (end.saturating_sub(first) / width).clamp(0, MOST_SPANS + 1);
    let starts: Vec<UnixSeconds> = (0..=spans)
        .map(|nth| UnixSeconds(first.saturating_add(nth.saturating_mul(width))))
        .filter(|start| start.0 < end)
        .collect();
    let mut counted = Counted { wholes: vec![0.0; starts.len()], starts, terms: BTreeMap::new() };
    let mut samples = 0;
    for nth in 0..counted.starts.len() {
        let start = counted.starts[nth];
        let (mut from, mut to) = (start, UnixSeconds(start.0.saturating_add(width)));
        if let Some(whole) = &whole {
            (from, to) = (from.max(whole.start), to.min(whole.end));
        }
        if from >= to {
            continue;
        }
        let parts = query.db.parts(&Selection { time: Some(from..to), ..asked.clone() }, By::Label)?;
        let is_counted: Vec<bool> = parts.positions.iter().map(|(image, _)| query.counts(*image)).collect();
        for (group, leaves) in &parts.groups {
            let Group::Label(label) = group else { continue };
            let name = match (labels.get(label), kind) {
                (Some(label), Kind::Process) => label.process.as_str(),
                (Some(label), _) => label.cgroup.as_str(),
                (None, _) => "",
            };
            let count: u64 =
                leaves.iter().filter(|(at, _)| is_counted[*at as usize]).map(|(_, count)| count).sum();
            if count > 0 {
                let name = (if name.is_empty() { "[none]" } else { name }.to_owned(), String::new());
                counted.terms.entry(name).or_insert_with(|| vec![0.0; counted.wholes.len()])[nth] +=
                    count as f64;
                counted.wholes[nth] += count as f64;
                samples += count;
            }
        }
    }
    query.heading.samples = samples;
    query.is_not_empty()?;
    Ok(counted)
}

fn gather(kind: Kind) -> Gather {
    if kind == Kind::Image { Gather::Image } else { Gather::Function }
}

fn start(group: &Group) -> Option<UnixSeconds> {
    if let Group::Time(start) = group { Some(*start) } else { None }
}

fn named(names: &Names, key: &super::functions::Key, kind: Kind) -> Name {
    let path = names.image(key.image).path;
    let file = known_by(&path).to_owned();
    if kind == Kind::Image { (file, String::new()) } else { (key.name.clone(), file) }
}

fn add(terms: &mut BTreeMap<Name, Vec<f64>>, name: Name, samples: Vec<f64>) {
    match terms.get_mut(&name) {
        Some(sums) => sums.iter_mut().zip(samples).for_each(|(sum, count)| *sum += count),
        None => drop(terms.insert(name, samples)),
    }
}

/// Wall-clock time that was collected in each span, in hours; that of several machines is added up.
fn hours(query: &Query, width: i64) -> Result<BTreeMap<UnixSeconds, f64>> {
    let settings: HashMap<_, _> =
        query.db.epochs()?.into_iter().map(|epoch| (epoch.id, epoch.setting)).collect();
    let mut hours = BTreeMap::new();
    for (epoch, books) in &query.books {
        let UnixSeconds(bucket) = settings.get(epoch).map_or(books.start, |of| of.bucket(books.start));
        let span = UnixSeconds(bucket - bucket.rem_euclid(width));
        *hours.entry(span).or_insert(0.0) += books.length.get() as f64 / 3.6e12;
    }
    Ok(hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_come_from_sides_options_or_each_other() {
        let some = |text: &str| Some(text.to_owned());
        for (sides, since, condition, expected) in [
            (None, None, "share(f) > 1.2 * share(f, 7d..1d)", (some("1d..now"), Some(some("7d..1d")))),
            (None, None, "share(f, 2h..) > 1.2 * share(f, 7d..1d)", (some("2h.."), Some(some("7d..1d")))),
            (None, Some("1h"), "share(f) > 1.2 * share(f, 7d..1d)", (None, Some(some("7d..1d")))),
            (None, None, "share(f) > 5%", (None, None)),
            (None, None, "share(f, 1d..) > 5%", (some("1d.."), None)),
            (Some(("v1", "v2")), None, "share(f, B) > 2 * share(f, A)", (some("v2"), Some(some("v1")))),
            (Some(("v1", "v2")), None, "share(f) > 2 * share(f, A)", (some("v2"), Some(some("v1")))),
            (Some(("v1", "v2")), None, "share(f) > 5%", (some("v2"), None)),
        ] {
            let condition: Condition = condition.parse().unwrap();
            assert_eq!(spans(sides, since.is_some(), &condition).unwrap(), expected, "{condition:?}");
        }
        for (sides, condition, what) in [
            (None, "share(f, B) > 2 * share(f, A)", "give A and B as well"),
            (None, "share(f) > 2 * share(f, 7d..)", "nothing comes after 7d.."),
            (None, "share(f, 1d..) > 2 * share(f)", "the other side has no span"),
            (Some(("v1", "v2")), "share(f, B) > 2 * share(f)", "both sides are of the same samples"),
        ] {
            let condition: Condition = condition.parse().unwrap();
            let error = spans(sides, false, &condition).unwrap_err().to_string();
            assert!(error.contains(what), "{condition:?}: {error}");
        }
    }

    #[test]
    fn ages_are_those_of_one_moment() {
        let now = Timestamp::from_second(1_790_000_000).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        assert_eq!(absolute("2h..now", &now), "2026-09-21T12:13:20Z..2026-09-21T14:13:20Z");
        for same in ["v1.3", "..", "../db", "x..y"] {
            assert_eq!(absolute(same, &now), same);
        }
    }

    #[test]
    fn names_are_whole_ends_or_patterns() {
        let names: Vec<Name> = ["parse", "json::parse", "parser", "[server]"]
            .map(|name| (name.to_owned(), "x".to_owned()))
            .into();
        for (pattern, expected) in [
            ("parse", vec!["parse"]),
            ("json::parse", vec!["json::parse"]),
            ("pars*", vec!["parse", "json::parse", "parser"]),
            ("*", vec!["parse", "json::parse", "parser", "[server]"]),
            ("[server]", vec!["[server]"]),
            ("lex", vec![]),
        ] {
            let subject = Subject { kind: Kind::Function, pattern: pattern.to_owned() };
            let found = matching(&subject, names.iter()).unwrap();
            assert_eq!(
                found.into_iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
                expected,
                "{pattern}"
            );
        }
    }
}
