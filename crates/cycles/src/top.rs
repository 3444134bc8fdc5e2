//! `whatif top`: what costs most, and what it is worth.

use super::arguments::{self, Sums};
use super::functions::{Gather, Key, Keys, Tally, tally_of};
use super::names::Names;
use super::query::Query;
use super::worth::{Worths, mark};
use super::{nameless, share};
use crate::{Row, Share, Top};
use anyhow::Result;
use archive::{By, ImageKind, OFF_CPU, Parts};
use std::collections::{BTreeMap, BTreeSet};

/// `whatif top`.
pub fn top(args: &arguments::Top) -> Result<Top> {
    let mut query = Query::new(&args.which)?;
    let gather = match args.by {
        Sums::Process | Sums::Cgroup => return by_label(args, query),
        Sums::Image => Gather::Image,
        Sums::Function => Gather::Function { inlined: args.inlined },
        Sums::Line => Gather::Line,
    };
    let tree = query.tree()?;
    if gather != Gather::Image {
        query.names.learn(&query.db, tree.positions.iter().copied())?;
        query.doubt_names(&tree.positions, &nameless::of_tree(&tree));
        query.doubt_stacks(&tree);
    }
    let mut keys = Keys::new(&query.names, gather);
    let tallies = tally_of(&tree, &mut keys);
    let has_stacks = (0..tree.len()).any(|nth| tree.parent(nth).is_some());
    let worths = match args.by {
        Sums::Function => Worths::load(&args.causes, &query.db)?,
        _ => Worths::default(),
    };
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
        by: name(args.by).to_owned(),
        by_total,
        rows,
        more,
        not_hot,
        recordings: worths.recordings.clone(),
        heading: query.heading.clone(),
    };
    Ok(result)
}

fn name(by: Sums) -> &'static str {
    match by {
        Sums::Image => "image",
        Sums::Function => "function",
        Sums::Line => "line",
        Sums::Process => "process",
        Sums::Cgroup => "cgroup",
    }
}

fn row(query: &Query, key: &Key, tally: Tally, has_stacks: bool, worths: &Worths) -> Row {
    let all = query.heading.samples;
    let image = query.names.image(key.image);
    let total = has_stacks.then_some(tally.total);
    let total_share = total.map(|total| total as f64 / all.max(1) as f64);
    let cost: Share = share::of_counts(tally.own, all);
    let worth = worths.of(&key.name, &image);
    Row {
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
                share: share::of_counts(0, query.heading.samples),
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

/// By process or cgroup: all samples are of one.
fn by_label(args: &arguments::Top, mut query: Query) -> Result<Top> {
    let labels = query.db.labels()?;
    // With idle CPUs or only some images, positions decide what counts.
    let parts = query.parts(By::Label)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (group, leaves) in &parts.groups {
        let archive::Group::Label(id) = group else { continue };
        let name = match (labels.get(id), args.by) {
            (Some(label), Sums::Process) => label.process.as_str(),
            (Some(label), _) => label.cgroup.as_str(),
            (None, _) => "",
        };
        let name = if name.is_empty() { "[none]" } else { name };
        *counts.entry(name.to_owned()).or_default() += Parts::samples(leaves);
    }
    let mut ranked: Vec<(String, u64)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    ranked.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    let more = ranked.len().saturating_sub(args.top);
    ranked.truncate(args.top);
    let rows = ranked
        .into_iter()
        .map(|(name, samples)| Row {
            name,
            samples,
            share: share::of_counts(samples, query.heading.samples),
            cpu_ns: query.cpu_ns(samples),
            ..Row::default()
        })
        .collect();
    let result =
        Top { by: name(args.by).to_owned(), rows, more, heading: query.heading.clone(), ..Top::default() };
    Ok(result)
}
