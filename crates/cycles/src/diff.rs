//! `whatif diff`: what is different between two times, epochs or databases.

use super::arguments::{self, Compared, Per, Which};
use super::files::{Paths, known_by};
use super::functions::{Gather, Keys};
use super::names::Names;
use super::query::{self, Query, epochs_named};
use super::share::{ENOUGH_SPANS, Level, level, share};
use super::time;
use super::verdict::{DifferenceVerdict, certain};
use super::worth::Worths;
use crate::{Change, Difference, Flame, Heading, Share, Side};
use anyhow::{Context as _, Result, bail, ensure};
use archive::{Books, By, CodeImage, Database, Group, Parts, UnixSeconds};
use jiff::Zoned;
use profile::estimate::difference;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Spans of time that are long enough for code to come and go in, shortest first, in seconds.
const SPANS: [i64; 6] = [60, 300, 900, 3600, 21_600, 86_400];
/// As many as this are as good as more.
const MANY_SPANS: i64 = 24;

/// What one side is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Time(String, String),
    Database(PathBuf),
    Epoch(String),
}

impl Asked {
    fn parse(text: &str, is_folder: impl Fn(&Path) -> bool) -> Asked {
        // A folder may have dots in its name: `../yesterday`.
        if is_folder(Path::new(text)) {
            return Asked::Database(text.into());
        }
        match text.split_once("..") {
            Some((since, until)) if !text.starts_with("../") => {
                Asked::Time(since.to_owned(), until.to_owned())
            }
            _ if text.contains('/') => Asked::Database(text.into()),
            _ => Asked::Epoch(text.to_owned()),
        }
    }

    fn query(&self, which: &Which) -> Result<Query> {
        let folder = match self {
            Asked::Database(folder) => Some(folder.as_path()),
            _ => which.folder.db.as_deref(),
        };
        let (folder, db) = query::open(folder)?;
        let now = Zoned::now();
        let at = |text: &str| match text.trim() {
            "" => Ok(None),
            text => time::parse(text, &now).map(Some).map_err(anyhow::Error::msg),
        };
        match self {
            Asked::Time(since, until) => Query::between(which, &folder, db, at(since)?, at(until)?),
            Asked::Database(_) | Asked::Epoch(_) => {
                let mut which = which.clone();
                if let Asked::Epoch(epoch) = self {
                    epochs_named(epoch, &db.epochs()?).with_context(|| {
                        format!("'{epoch}' is neither a span of time (2026-11-21..2026-11-22, 2d..1d) nor a folder")
                    })?;
                    ensure!(which.epoch.is_none(), "leave --epoch out: A and B say which epochs");
                    which.epoch = Some(epoch.clone());
                }
                let (since, until) =
                    (at(which.since.as_deref().unwrap_or(""))?, at(which.until.as_deref().unwrap_or(""))?);
                Query::between(&which, &folder, db, since, until)
            }
        }
    }
}

/// `whatif diff --flame`: the flame graph of B, with what each box was in A, and the query for B.
pub fn flames(args: &arguments::Diff) -> Result<(Query, Flame)> {
    let (before, after) = sides(args)?;
    let of = |text: &str| {
        let answer = |mut query: Query| Ok((super::stacks::flame(&mut query)?, query));
        query_of(args, text).and_then(answer).map_err(|error| advised(args, text, error))
    };
    let (before, _) = of(before)?;
    let (flame, query) = of(after)?;
    let mut flame = flame.compared_with(&before);
    super::stacks::value(&mut flame, &query, &Worths::load(&args.causes, &query.db)?);
    Ok((query, flame))
}

fn query_of(args: &arguments::Diff, text: &str) -> Result<Query> {
    let asked = Asked::parse(text, Path::is_dir);
    if matches!(asked, Asked::Time(..)) && (args.which.since.is_some() || args.which.until.is_some()) {
        bail!("leave --since and --until out: A and B say which times");
    }
    query_for(text, &args.which)
}

/// The query for a span, an epoch or the folder of a database.
pub fn query_for(text: &str, which: &Which) -> Result<Query> {
    let asked = Asked::parse(text, Path::is_dir);
    asked.query(which).with_context(|| profile::printable(text).into_owned())
}

fn sides(args: &arguments::Diff) -> Result<(&str, &str)> {
    args.sides().context("give two spans to compare, as in 2d..1d 1d..now")
}

/// Why a side has no samples, with the nearest spans that do.
fn advised(args: &arguments::Diff, text: &str, error: anyhow::Error) -> anyhow::Error {
    let Some(query::NoSamples { found, .. }) = error.downcast_ref() else { return error };
    let advice = advice(args).ok().flatten().unwrap_or_else(|| "choose other spans".to_owned());
    anyhow::anyhow!("{}: {found}\n  {advice}", profile::printable(text))
}

fn advice(args: &arguments::Diff) -> Result<Option<String>> {
    let is_time = |text: &str| match Asked::parse(text, Path::is_dir) {
        Asked::Time(since, until) => Some((since, until)),
        _ => None,
    };
    let Some(((a_since, a_until), (b_since, b_until))) =
        args.sides().and_then(|(a, b)| is_time(a).zip(is_time(b)))
    else {
        return Ok(None);
    };
    let now = Zoned::now();
    let at = |text: &str| time::parse(text, &now).ok().map(|UnixSeconds(at)| at);
    let (folder, db) = query::open(args.which.folder.db.as_deref())?;
    let query = Query::between(&args.which, &folder, db, None, None)?;
    let settings: HashMap<_, _> =
        query.db.epochs()?.into_iter().map(|epoch| (epoch.id, epoch.setting)).collect();
    let has_samples = |books: &Books| if query.idle { books.stored > 0 } else { books.stored > books.idle };
    let buckets: BTreeSet<i64> = query
        .books
        .iter()
        .filter(|(_, books)| has_samples(books))
        .map(|(epoch, books)| settings.get(epoch).map_or(books.start, |of| of.bucket(books.start)).0)
        .collect();
    if buckets.len() == 1 {
        let Some(folder) = folder.to_str() else { return Ok(None) };
        let collect = ["whatif", "collect", &format!("--db={folder}"), "--duration", "60s"];
        return Ok(Some(format!(
            "all of them are in one time bucket, which has no parts that could be compared; collect in shorter ones: {}",
            profile::shell::command(collect)
        )));
    }
    let Some([a, b]) = nearest(&buckets, [[at(&a_since), at(&a_until)], [at(&b_since), at(&b_until)]]) else {
        return Ok(None);
    };
    let text = |at: Option<i64>| {
        at.map_or(Ok(String::new()), |at| jiff::Timestamp::from_second(at).map(|at| at.to_string()))
    };
    let span =
        |[from, to]: [Option<i64>; 2]| Ok::<_, anyhow::Error>(format!("{}..{}", text(from)?, text(to)?));
    let words =
        ["whatif".to_owned(), "diff".to_owned()].into_iter().chain(args.words()).chain([span(a)?, span(b)?]);
    Ok(Some(format!("the nearest spans that can be compared: {}", profile::shell::command(words))))
}

/// The nearest two spans that begin and end with time buckets and have some in them, the first of which is before the second: each from the bucket
/// that it begins in to the one that it ends in or before; but where both are in one bucket, from one bucket to the next. Without an end: up to now.
fn nearest(
    buckets: &BTreeSet<i64>,
    [[a_since, a_until], [b_since, b_until]]: [[Option<i64>; 2]; 2],
) -> Option<[[Option<i64>; 2]; 2]> {
    if a_since.is_some_and(|a| b_since.is_some_and(|b| a >= b)) {
        return None;
    }
    let begins = |since: Option<i64>| {
        since.and_then(|since| buckets.range(..=since).next_back()).or(buckets.first()).copied()
    };
    let ends = |until: Option<i64>| until.and_then(|until| buckets.range(until..).next()).copied();
    let [a, b] = [[begins(a_since), ends(a_until)], [begins(b_since), ends(b_until)]];
    let is_span = |[from, to]: [Option<i64>; 2]| to.is_none_or(|to| Some(to) > from);
    if a[1].is_some() && a[1] <= b[0] && is_span(a) && is_span(b) {
        return Some([a, b]);
    }
    let wanted = a_until.or(b_since)?;
    let between = *buckets.iter().skip(1).min_by_key(|at| at.abs_diff(wanted))?;
    let from = a[0].filter(|from| *from < between).or(buckets.range(..between).next_back().copied());
    let to = b_until.and_then(|until| buckets.range(until.max(between + 1)..).next().copied());
    Some([[from, Some(between)], [Some(between), to]])
}

/// `whatif diff`.
pub fn diff(args: &arguments::Diff) -> Result<Difference> {
    let of = |text: &str| {
        let measured = query_of(args, text).and_then(|query| measure(text, query, args));
        measured.map_err(|error| advised(args, text, error))
    };
    let (before, after) = sides(args)?;
    let (a, b) = std::thread::scope(|scope| {
        let b = std::thread::Builder::new().spawn_scoped(scope, || of(after));
        let a = of(before);
        let b = b.map_or_else(|_| Ok(of(after)), std::thread::ScopedJoinHandle::join);
        (a, b)
    });
    let ((a, _), (b, db)) = (a?, b.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    let (mut changes, more) = changes(&a, &b, args.top);
    if args.by == Compared::Function {
        let worths = Worths::load(&args.causes, &db)?;
        for ((function, file), change) in &mut changes {
            let images = b.images.iter().chain(&a.images).filter(|image| known_by(&image.path) == *file);
            let of_builds = images.filter_map(|image| worths.of(function, image));
            change.worth = of_builds.min_by_key(|worth| worth.other_build);
        }
    }
    let changes = changes.into_iter().map(|(_, change)| change).collect();
    Ok(Difference { more, ..difference_of(a.side, b.side, args.by, args.per, changes) })
}

/// The answer, without what is left out.
pub fn difference_of(a: Side, b: Side, by: Compared, per: Per, changes: Vec<Change>) -> Difference {
    Difference {
        a,
        b,
        by: if by == Compared::Image { "image" } else { "function" }.to_owned(),
        per: if per == Per::Second { "second" } else { "share" }.to_owned(),
        changes,
        more: 0,
        conditions: None,
    }
}

/// What is different, the most certain first, up to `top` of them; and how many more there are.
pub fn changes<'a>(a: &'a Measured, b: &'a Measured, top: usize) -> (Vec<(&'a Name, Change)>, usize) {
    let names: BTreeSet<&Name> = a.levels.keys().chain(b.levels.keys()).collect();
    let mut changes: Vec<(&Name, Change)> =
        names.into_iter().filter_map(|name| Some((name, change(name, a, b)?))).collect();
    changes.sort_by(|(_, one), (_, other)| {
        let by = |change: &Change| {
            [change.certain.abs(), change.difference.value.abs(), change.a.value.max(change.b.value)]
        };
        let pairs = by(other).into_iter().zip(by(one));
        let order = pairs.map(|(other, one)| other.total_cmp(&one)).find(|order| order.is_ne());
        order.unwrap_or_else(|| one.name.cmp(&other.name))
    });
    let more = changes.len().saturating_sub(top);
    changes.truncate(top);
    (changes, more)
}

/// A function and what its image is known by; or an image and nothing.
pub type Name = (String, String);

/// One side of a difference.
pub struct Measured {
    /// What was asked, and its books.
    pub side: Side,
    levels: BTreeMap<Name, Level>,
    /// The level of what was not sampled at all.
    nothing: Level,
    images: Vec<CodeImage>,
    paths: Paths,
}

fn change(name: &Name, a: &Measured, b: &Measured) -> Option<Change> {
    let (function, image) = name;
    let of = |side: &Measured| *side.levels.get(name).unwrap_or(&side.nothing);
    let (before, after) = (of(a), of(b));
    let apart = difference((&before.estimate, before.freedom + 1), (&after.estimate, after.freedom + 1))?;
    let apart = share(&apart);
    let value = |level: Level, known: bool| {
        let Share { value, lo, hi } = share(&level.estimate);
        Share { value: if known { value } else { 0.0 }, lo: lo.max(0.0), hi }
    };
    let shown = |file: &str| a.paths.shown(file, Some(&b.paths));
    let (called, image) = match &**image {
        "" => (shown(function), String::new()),
        image => (function.clone(), shown(image)),
    };
    Some(Change {
        name: called,
        image,
        a: value(before, a.levels.contains_key(name)),
        b: value(after, b.levels.contains_key(name)),
        certain: certain(&apart),
        verdict: DifferenceVerdict::of(&apart),
        difference: apart,
        worth: None,
    })
}

/// One side, span by span.
fn measure(asked: &str, mut query: Query, args: &arguments::Diff) -> Result<(Measured, Database)> {
    ensure!(
        args.per == Per::Share || query.heading.nanos_per_sample.is_some(),
        "{} does not say how much time passed; leave --per second out, or choose a clock with --event",
        profile::printable(&query.heading.event)
    );
    let length = query.heading.until.unwrap_or(0) - query.heading.since.unwrap_or(0);
    let resolution = query.db.resolution(&query.selection)?.unwrap_or_default();
    let width = span_for(length, (resolution.get() / 1_000_000_000).max(1) as i64);
    let parts = query.parts(By::Time(width))?;
    if args.by == Compared::Function {
        query.names.learn(&query.db, parts.positions.iter().copied())?;
    }
    let covered = match args.per {
        Per::Share => None,
        Per::Second => Some(covered(&query, width)?),
    };
    let measured = measured(asked, (&query.heading, &query.names), &parts, width, args.by, covered.as_ref());
    Ok((measured, query.db))
}

/// One side, whose samples are kept apart by spans of `width` seconds: their shares, or where it is known how much CPU time was `covered` in each
/// span (nanoseconds), CPU time for each second.
pub fn measured(
    asked: &str,
    (heading, names): (&Heading, &Names),
    parts: &Parts,
    width: i64,
    by: Compared,
    covered: Option<&BTreeMap<UnixSeconds, f64>>,
) -> Measured {
    let gather = match by {
        Compared::Image => Gather::Image,
        Compared::Function => Gather::Function,
    };
    let mut keys = Keys::new(names, gather);
    let key_of: Vec<usize> = parts.positions.iter().map(|position| keys.of(*position)[0] as usize).collect();
    let mut wholes: Vec<f64> = Vec::new();
    let mut spans: Vec<&[(u32, u64)]> = Vec::new();
    for (group, leaves) in &parts.groups {
        let Group::Time(start) = group else { continue };
        let whole = match covered {
            None => Parts::samples(leaves) as f64,
            Some(covered) => covered.get(start).copied().unwrap_or(0.0),
        };
        if whole > 0.0 {
            wholes.push(whole);
            spans.push(leaves);
        }
    }
    // For each key, one span after the other.
    let mut counts = vec![0.0; keys.all().len() * spans.len()];
    for (nth, leaves) in spans.iter().enumerate() {
        for (at, count) in *leaves {
            counts[key_of[*at as usize] * spans.len() + nth] += *count as f64;
        }
    }
    let weight = covered.map_or(1.0, |_| heading.nanos_per_sample.unwrap_or(0.0));
    // The same function of several builds is one, wherever these lie.
    let mut paths = Paths::default();
    let mut by_name: BTreeMap<Name, Vec<f64>> = BTreeMap::new();
    for (key, of_spans) in keys.all().iter().zip(counts.chunks_exact(spans.len().max(1))) {
        let path = names.image(key.image).path;
        let file = known_by(&path).to_owned();
        let name = if by == Compared::Image { (file, String::new()) } else { (key.name.clone(), file) };
        paths.add(path);
        let samples = by_name.entry(name).or_insert_with(|| vec![0.0; spans.len()]);
        samples.iter_mut().zip(of_spans).for_each(|(sum, count)| *sum += count);
    }
    by_name.retain(|_, samples| samples.iter().any(|count| *count > 0.0));
    let level_of = |samples: &[f64]| {
        let terms: Vec<(f64, f64)> = samples.iter().copied().zip(wholes.iter().copied()).collect();
        level(&terms, weight, heading.samples_at_a_time)
    };
    let levels = by_name.into_iter().map(|(name, samples)| (name, level_of(&samples))).collect();
    let nothing = level_of(&vec![0.0; wholes.len()]);
    let spans = if wholes.len() >= ENOUGH_SPANS { wholes.len() } else { 0 };
    let side = Side { asked: asked.to_owned(), heading: heading.clone(), spans, span_s: width };
    let images = names.images().values().cloned().collect();
    Measured { side, levels, nothing, images, paths }
}

/// The longest spans that there are many of, of whole time buckets.
pub fn span_for(length: i64, bucket: i64) -> i64 {
    let whole = SPANS.into_iter().filter(|span| span % bucket == 0);
    let least = whole.clone().next().unwrap_or(bucket);
    whole.filter(|span| length / span >= MANY_SPANS).max().unwrap_or(least)
}

/// CPU time of each span of time, in nanoseconds.
fn covered(query: &Query, width: i64) -> Result<BTreeMap<UnixSeconds, f64>> {
    let settings: HashMap<_, _> =
        query.db.epochs()?.into_iter().map(|epoch| (epoch.id, epoch.setting)).collect();
    let mut covered = BTreeMap::new();
    for (epoch, books) in &query.books {
        let UnixSeconds(bucket) = settings.get(epoch).map_or(books.start, |of| of.bucket(books.start));
        let span = UnixSeconds(bucket - bucket.rem_euclid(width));
        *covered.entry(span).or_insert(0.0) += books.covered.get() as f64;
    }
    Ok(covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_times_folders_or_epochs() {
        let time = |a: &str, b: &str| Asked::Time(a.to_owned(), b.to_owned());
        for (text, expected) in [
            ("2d..1d", time("2d", "1d")),
            ("2026-11-21 10:00..", time("2026-11-21 10:00", "")),
            ("..now", time("", "now")),
            ("3", Asked::Epoch("3".to_owned())),
            ("before", Asked::Epoch("before".to_owned())),
            ("old", Asked::Database("old".into())),
            ("../nowhere", Asked::Database("../nowhere".into())),
            ("/srv/db", Asked::Database("/srv/db".into())),
        ] {
            assert_eq!(Asked::parse(text, |path| path == Path::new("old")), expected, "{text}");
        }
    }

    #[test]
    fn the_nearest_spans_have_a_bucket_each() {
        let buckets: BTreeSet<i64> = (0..10).map(|nth| 1000 + 60 * nth).collect();
        for (a, b, expected) in [
            // Within a bucket.
            ((1210, 1235), (1235, 1239), Some(((1180, 1240), (1240, 1300)))),
            // From before the first to after the last one.
            ((10, 20), (20, 9000), Some(((1000, 1060), (1060, NOW)))),
            ((NOW, 9000), (9000, NOW), Some(((1000, 1540), (1540, NOW)))),
            // After all of them: the last two.
            ((8000, 9000), (9000, NOW), Some(((1480, 1540), (1540, NOW)))),
            // With time between them.
            ((1065, 1130), (1401, 1421), Some(((1060, 1180), (1360, 1480)))),
            ((1065, 1130), (1401, 9000), Some(((1060, 1180), (1360, NOW)))),
            // The second is before the first.
            ((1401, 1421), (1065, 1130), None),
        ] {
            assert_eq!(nearest_of(&buckets, a, b), expected, "{a:?} {b:?}");
        }
        assert_eq!(nearest_of(&BTreeSet::from([1000]), (NOW, 1000), (1000, NOW)), None);
        assert_eq!(nearest_of(&BTreeSet::new(), (NOW, 1000), (1000, NOW)), None);
    }

    /// An end that is not given.
    const NOW: i64 = i64::MAX;
    type Ends = (i64, i64);

    fn nearest_of(buckets: &BTreeSet<i64>, a: Ends, b: Ends) -> Option<(Ends, Ends)> {
        let given = |(from, to): Ends| [from, to].map(|at| (at != NOW).then_some(at));
        let ends = |[from, to]: [Option<i64>; 2]| (from.unwrap_or(NOW), to.unwrap_or(NOW));
        nearest(buckets, [given(a), given(b)]).map(|[a, b]| (ends(a), ends(b)))
    }

    #[test]
    fn spans_are_as_long_as_there_are_many_of_them() {
        for (length, bucket, expected) in [
            (600, 60, 60),
            (24 * 300, 60, 300),
            (86_400, 60, 3600),
            (86_340, 60, 900),
            (86_340, 600, 3600),
            (86_340, 3600, 3600),
            (40 * 86_400, 60, 86_400),
            (86_400, 420, 420),
        ] {
            assert_eq!(span_for(length, bucket), expected, "{length} {bucket}");
        }
    }
}
