//! `whatif stats`: how much the cost of each function varies.

use super::arguments::{self, Across, Compared};
use super::files::{Paths, known_by};
use super::functions::{Gather, Keys};
use super::grouping::Groups;
use super::label_key::LabelKey;
use super::query::Query;
use super::verdict::VariationVerdict;
use super::worth::Worths;
use super::{nameless, time};
use crate::{Part, Variation, Varying, Worth};
use anyhow::{Result, ensure};
use archive::{By, Group, Parts};
use std::collections::{BTreeMap, HashMap};

/// Samples by the index of their position.
type Leaves = Vec<(u32, u64)>;

/// Shares of fewer samples are nothing but chance.
const FEW: u64 = 30;

/// `whatif stats`.
pub fn stats(args: &arguments::Stats) -> Result<Variation> {
    let mut query = Query::new(&args.which)?;
    let (by, name) = match args.across {
        Across::Epoch => (By::Epoch, "epoch"),
        Across::Machine => (By::Machine, "machine"),
        Across::Hour => (By::Time(3600), "hour"),
        Across::Day => (By::Time(86_400), "day"),
        Across::Process => (By::Label, "process"),
        Across::Thread => (By::Label, "thread"),
        Across::Unit => (By::Label, "unit"),
        Across::Container => (By::Label, "container"),
        Across::Pod => (By::Label, "pod"),
    };
    let parted = query.parts(by)?;
    if args.by == Compared::Function {
        query.names.learn(&query.db, parted.positions.iter().copied())?;
        query.doubt_names(&parted.positions, &nameless::of_parts(&parted));
    }
    let keys: Vec<LabelKey> = LabelKey::named(name).into_iter().filter(|_| by == By::Label).collect();
    let mut parts = parts(&query, parted.groups, &keys)?;
    let all = parts.len();
    if parts.iter().filter(|(_, leaves)| Parts::samples(leaves) >= FEW).count() > 1 {
        parts.retain(|(_, leaves)| Parts::samples(leaves) >= FEW);
    }
    let left_out = all - parts.len();
    ensure!(
        parts.len() > 1,
        "all samples are of one {name}, so nothing can vary\n  choose a longer time with --since, or other parts with --across"
    );
    let gather = match args.by {
        Compared::Image => Gather::Image,
        Compared::Function => Gather::Function,
    };
    let mut keys = Keys::new(&query.names, gather);
    let key_of: Vec<usize> = parted.positions.iter().map(|position| keys.of(*position)[0] as usize).collect();
    let mut counts: Vec<Vec<u64>> = vec![vec![0; parts.len()]; keys.all().len()];
    for (nth, (_, leaves)) in parts.iter().enumerate() {
        leaves.iter().for_each(|(at, count)| counts[key_of[*at as usize]][nth] += count);
    }
    let parts: Vec<Part> =
        parts.into_iter().map(|(name, leaves)| Part { name, samples: Parts::samples(&leaves) }).collect();
    let worths = match args.by {
        Compared::Function => Worths::load(&args.causes, &query.db)?,
        Compared::Image => Worths::default(),
    };
    // The same function of several builds is one, wherever these lie.
    let mut paths = Paths::default();
    let mut by_name: BTreeMap<(String, String), (Vec<u64>, Option<Worth>)> = BTreeMap::new();
    let sampled = counts.iter().zip(keys.all()).filter(|(counts, _)| counts.iter().any(|count| *count > 0));
    for (counts, key) in sampled {
        let code = query.names.image(key.image);
        let (file, worth) = (known_by(&code.path).to_owned(), worths.of(&key.name, &code));
        let name = match args.by {
            Compared::Image => (file, String::new()),
            Compared::Function => (key.name.clone(), file),
        };
        paths.add(code.path);
        let (sums, known) = by_name.entry(name).or_insert_with(|| (vec![0; parts.len()], None));
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        *known = [known.take(), worth].into_iter().flatten().min_by_key(|worth| worth.other_build);
    }
    let row = |((name, file), (counts, worth)): ((String, String), (Vec<u64>, Option<Worth>))| {
        let (name, image) = match &*file {
            "" => (paths.shown(&name, None), String::new()),
            file => (name, paths.shown(file, None)),
        };
        Varying { name, image, worth, ..varying(&counts, &parts) }
    };
    let mut rows: Vec<Varying> = by_name.into_iter().map(row).collect();
    let beyond_chance = |row: &Varying| row.deviation.powi(2) - row.by_chance.powi(2);
    rows.sort_by(|a, b| beyond_chance(b).total_cmp(&beyond_chance(a)).then_with(|| a.name.cmp(&b.name)));
    let more = rows.len().saturating_sub(args.top);
    rows.truncate(args.top);
    let by = if args.by == Compared::Image { "image" } else { "function" };
    let result = Variation {
        across: name.to_owned(),
        by: by.to_owned(),
        parts,
        left_out,
        rows,
        more,
        heading: query.heading.clone(),
    };
    Ok(result)
}

/// The parts that have samples, with their names. Processes, units and such are the same if their names are.
fn parts(query: &Query, groups: BTreeMap<Group, Leaves>, by: &[LabelKey]) -> Result<Vec<(String, Leaves)>> {
    let epochs = query.db.epochs()?;
    let (machines, labels) = (query.db.machines()?, Groups::of(&query.db, by)?);
    let mut parts: Vec<(String, Leaves)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (group, leaves) in groups {
        let name = match group {
            Group::Epoch(id) => {
                match epochs.iter().find(|epoch| epoch.id == id).and_then(|epoch| epoch.name.as_deref()) {
                    Some(name) => format!("{} {name}", id.get()),
                    None => id.get().to_string(),
                }
            }
            Group::Machine(id) => {
                machines.get(&id).map_or_else(|| id.get().to_string(), |machine| machine.host.clone())
            }
            Group::Time(start) => time::local(start),
            Group::Label(_) | Group::LabelAndEpoch(..) => labels.name(group).join(", "),
        };
        if leaves.is_empty() {
            continue;
        }
        match known.get(&name).filter(|_| matches!(group, Group::Label(_))) {
            Some(nth) => parts[*nth].1.extend(leaves),
            None => {
                known.insert(name.clone(), parts.len());
                parts.push((name, leaves));
            }
        }
    }
    Ok(parts)
}

/// The statistics of what has `counts` samples in `parts`.
fn varying(counts: &[u64], parts: &[Part]) -> Varying {
    let shares: Vec<f64> =
        counts.iter().zip(parts).map(|(count, part)| *count as f64 / part.samples.max(1) as f64).collect();
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let samples: u64 = counts.iter().sum();
    let all: u64 = parts.iter().map(|part| part.samples).sum();
    let share = samples as f64 / all.max(1) as f64;
    let by_chance =
        parts.iter().map(|part| share * (1.0 - share) / part.samples.max(1) as f64).sum::<f64>() / n;
    let most = shares.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(nth, _)| nth);
    let (min, max) =
        shares.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), share| (min.min(*share), max.max(*share)));
    let (deviation, by_chance) = (variance.sqrt(), by_chance.sqrt());
    Varying {
        samples,
        min,
        max,
        mean,
        deviation,
        range: if mean > 0.0 { (max - min) / mean } else { 0.0 },
        by_chance,
        verdict: VariationVerdict::of(deviation, by_chance),
        most_in: parts[most].name.clone(),
        ..Varying::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_the_same_whatever_their_size() {
        let part = |name: &str, samples| Part { name: name.to_owned(), samples };
        let of = varying(&[10, 600, 100], &[part("a", 100), part("b", 1000), part("c", 1000)]);
        assert_eq!((of.min, of.max, of.samples, of.most_in.as_str()), (0.1, 0.6, 710, "b"));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(of.mean, 0.8 / 3.0) && near(of.range, 0.5 / (0.8 / 3.0)), "{of:?}");
        assert!(near(of.deviation.powi(2), 1.0 / 12.0), "{of:?}");
        assert!(of.by_chance > 0.02 && of.by_chance < 0.04, "{of:?}");
    }
}
