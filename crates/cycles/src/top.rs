//! `whatif top`: what costs most, and what it is worth.

use super::arguments;
use super::functions::{Gather, Key, Keys, Partly, Tally, tally_of};
use super::grouping::{CodeKey, Groups, NONE};
use super::names::Names;
use super::outside::Outside;
use super::query::Query;
use super::worth::{Worths, mark};
use super::{nameless, share};
use crate::{Row, Share, Top};
use anyhow::{Result, ensure};
use archive::{By, ImageKind, OFF_CPU, Parts};
use std::collections::{BTreeMap, BTreeSet};

/// `whatif top`.
pub fn top(args: &arguments::Top) -> Result<Top> {
    let mut query = Query::new(&args.which)?;
    let gather = match args.by.code {
        None => return by_label(args, query),
        Some(CodeKey::Image) => Gather::Image,
        Some(CodeKey::Function) => Gather::Function,
        Some(CodeKey::Line) => Gather::Line,
        Some(CodeKey::Outside(outside)) => return by_outside(args, query, outside),
    };
    if !args.by.labels.is_empty() {
        return by_both(args, query, gather);
    }
    let tree = query.tree()?;
    if gather != Gather::Image {
        query.names.learn(&query.db, tree.positions.iter().copied())?;
        query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
        query.doubt_stacks(&tree);
    }
    let mut keys = Keys::new(&query.names, gather);
    let tallies = tally_of(&tree, &mut keys);
    let has_stacks = (0..tree.len()).any(|nth| tree.parent(nth).is_some());
    let worths = worths(args, &query)?;
    // Waiting itself is always the kernel's: what matters is for whom.
    let by_total = has_stacks && (args.total || query.heading.event == OFF_CPU);
    let cost = |nth: usize| if by_total { tallies[nth].total } else { tallies[nth].own };
    // How the kernel gets to where it waits is of no use here.
    let is_kernel = |nth: usize| {
        let image = query.names.images().get(&keys.all()[nth].image);
        image.is_some_and(|image| image.kind == ImageKind::Kernel)
    };
    let is_shown = |nth: &usize| cost(*nth) > 0 && (args.total || tallies[*nth].own > 0 || !is_kernel(*nth));
    let mut ranked: Vec<usize> = (0..tallies.len()).filter(is_shown).collect();
    ranked.sort_by(|a, b| {
        let by_own = tallies[*b].own.cmp(&tallies[*a].own);
        cost(*b).cmp(&cost(*a)).then(by_own).then_with(|| keys.all()[*a].name.cmp(&keys.all()[*b].name))
    });
    let more = ranked.len().saturating_sub(args.top);
    ranked.truncate(args.top);
    let row = |nth: &usize| row(&query, &keys.all()[*nth], tallies[*nth], has_stacks, &worths);
    let rows: Vec<Row> = ranked.iter().map(row).collect();
    let is_shown: BTreeSet<usize> = ranked.into_iter().collect();
    let not_hot = not_hot(&query, &keys, &tallies, &worths, &is_shown, has_stacks);
    let result = Top {
        by: args.by.to_string(),
        by_total,
        rows,
        more,
        not_hot,
        recordings: worths.recordings.clone(),
        heading: query.heading.clone(),
    };
    Ok(result)
}

/// What functions are worth, if it is functions that are asked for.
fn worths(args: &arguments::Top, query: &Query) -> Result<Worths> {
    match args.by.code {
        Some(CodeKey::Function) => Worths::load(&args.causes, &query.db),
        _ => Ok(Worths::default()),
    }
}

fn row(query: &Query, key: &Key, tally: Tally, has_stacks: bool, worths: &Worths) -> Row {
    let all = query.heading.samples;
    let image = query.names.image(key.image);
    let total = has_stacks.then_some(tally.total);
    let total_share = total.map(|total| total as f64 / all.max(1) as f64);
    let cost: Share = share::of_counts(tally.own, all, query.heading.samples_at_a_time);
    let worth = worths.of(&key.name, &image);
    Row {
        groups: Vec::new(),
        mark: mark(total_share.unwrap_or(cost.value), worth.as_ref()),
        image: if key.name == image.path { String::new() } else { image.path },
        build_id: image.build_id,
        name: key.name.clone(),
        samples: tally.own,
        share: cost,
        cpu_ns: query.cpu_ns(tally.own),
        total,
        total_share,
        worth,
    }
}

/// What matters but is not among the rows.
fn not_hot(
    query: &Query,
    keys: &Keys<'_>,
    tallies: &[Tally],
    worths: &Worths,
    is_shown: &BTreeSet<usize>,
    has_stacks: bool,
) -> Vec<Row> {
    let names: &Names = &query.names;
    let is = |key: &Key, function: &str, image: &profile::Image| {
        let known = names.image(key.image);
        key.name == function
            && (image.build_id.as_deref().is_some_and(|id| id == known.build_id) || image.path == known.path)
    };
    let mut found: Vec<Row> = Vec::new();
    for (function, image, worth) in worths.that_matter() {
        let sampled: Vec<usize> =
            (0..keys.all().len()).filter(|nth| is(&keys.all()[*nth], function, image)).collect();
        if sampled.iter().any(|nth| is_shown.contains(nth)) {
            continue;
        }
        let row = match sampled.first() {
            Some(nth) => row(query, &keys.all()[*nth], tallies[*nth], has_stacks, worths),
            None => Row {
                name: function.to_owned(),
                image: image.path.clone(),
                build_id: image.build_id.clone().unwrap_or_default(),
                share: share::of_counts(0, query.heading.samples, query.heading.samples_at_a_time),
                total: has_stacks.then_some(0),
                total_share: has_stacks.then_some(0.0),
                mark: mark(0.0, Some(worth)),
                worth: Some(worth.clone()),
                ..Row::default()
            },
        };
        if row.mark.is_some()
            && !found.iter().any(|other| (&other.name, &other.image) == (&row.name, &row.image))
        {
            found.push(row);
        }
    }
    let slope = |row: &Row| row.worth.as_ref().map_or(0.0, |worth| worth.slope);
    found.sort_by(|a, b| slope(b).total_cmp(&slope(a)));
    found
}

/// By who ran: all samples are of one.
fn by_label(args: &arguments::Top, mut query: Query) -> Result<Top> {
    // With idle CPUs or only some images, positions decide what counts.
    let parts = query.parts(By::LabelAndEpoch)?;
    let names = Groups::of(&query.db, &args.by.labels)?;
    let mut counts = Counts::new();
    for (group, leaves) in &parts.groups {
        let texts = names.name(*group);
        let name = texts.join(", ");
        *counts.entry((texts, name)).or_default() += Parts::samples(leaves);
    }
    Ok(ranked(args, &query, counts))
}

/// Samples by who ran and by what a row is called.
type Counts = BTreeMap<(Vec<String>, String), u64>;

/// The rows of what needs no more than to be counted, most samples first.
fn ranked(args: &arguments::Top, query: &Query, counts: Counts) -> Top {
    let mut ranked: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    ranked.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    let more = ranked.len().saturating_sub(args.top);
    ranked.truncate(args.top);
    let row = |((texts, name), samples): ((Vec<String>, String), u64)| Row {
        name,
        groups: groups(args, texts),
        samples,
        share: share::of_counts(samples, query.heading.samples, query.heading.samples_at_a_time),
        cpu_ns: query.cpu_ns(samples),
        ..Row::default()
    };
    let rows = ranked.into_iter().map(row).collect();
    Top { by: args.by.to_string(), rows, more, heading: query.heading.clone(), ..Top::default() }
}

/// By how threads waited, or who ended that; and by who ran, if that is asked for.
fn by_outside(args: &arguments::Top, mut query: Query, outside: Outside) -> Result<Top> {
    ensure!(query.heading.event == OFF_CPU, "--by {} is for time that threads wait; add --off-cpu", args.by);
    let mut counts = Counts::new();
    let (tree, of_groups) = match args.by.labels.is_empty() {
        true => {
            let tree = query.tree()?;
            let all = (0_u32..).zip(tree.counts.iter().copied()).filter(|(_, count)| *count > 0).collect();
            (tree, BTreeMap::from([(Vec::new(), all)]))
        }
        false => query.forest(&args.by.labels)?,
    };
    let found = outside.of(&query.names, &tree);
    for (texts, leaves) in of_groups {
        for (frame, count) in leaves {
            let name = found[frame as usize].map_or(NONE.to_owned(), |image| query.names.image(image).path);
            *counts.entry((texts.clone(), name)).or_default() += count;
        }
    }
    Ok(ranked(args, &query, counts))
}

/// By who ran and by code.
fn by_both(args: &arguments::Top, mut query: Query, gather: Gather) -> Result<Top> {
    let (tree, of_groups) = query.forest(&args.by.labels)?;
    if gather != Gather::Image {
        query.names.learn(&query.db, tree.positions.iter().copied())?;
        query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
        query.doubt_stacks(&tree);
    }
    let worths = worths(args, &query)?;
    let has_stacks = (0..tree.len()).any(|nth| tree.parent(nth).is_some());
    let mut keys = Keys::new(&query.names, gather);
    let mut partly = Partly::new(&tree, &mut keys);
    let mut ranked: Vec<(&Vec<String>, u32, Tally)> = Vec::new();
    for (texts, leaves) in &of_groups {
        let tallies = partly.tally(leaves).into_iter().filter(|(_, tally)| tally.own > 0);
        ranked.extend(tallies.map(|(key, tally)| (texts, key, tally)));
    }
    let name = |key: u32| &keys.all()[key as usize].name;
    ranked.sort_by(|(a, m, one), (b, n, other)| {
        other.own.cmp(&one.own).then_with(|| (a, name(*m), m).cmp(&(b, name(*n), n)))
    });
    let more = ranked.len().saturating_sub(args.top);
    ranked.truncate(args.top);
    let row = |(texts, key, tally): (&Vec<String>, u32, Tally)| Row {
        groups: groups(args, texts.clone()),
        ..row(&query, &keys.all()[key as usize], tally, has_stacks, &worths)
    };
    Ok(Top {
        by: args.by.to_string(),
        rows: ranked.into_iter().map(row).collect(),
        more,
        recordings: worths.recordings.clone(),
        heading: query.heading.clone(),
        ..Top::default()
    })
}

/// Who ran, with what it was asked by.
fn groups(args: &arguments::Top, texts: Vec<String>) -> Vec<(String, String)> {
    args.by.labels.iter().map(ToString::to_string).zip(texts).collect()
}
