//! `whatif unknown`: samples that nobody can name, why, and what mends it.

use super::names::Problem;
use super::query::Query;
use super::{answer, cli};
use anyhow::Result;
use profile::continuous::{By, Group, ImageId, ImageKind};
use report::cycles::{Unknown, UnknownRow};
use std::collections::BTreeMap;

/// Processes that are named for each image.
const PROCESSES: usize = 3;

/// `whatif unknown`.
pub fn unknown(args: &cli::Unknown) -> Result<()> {
    let mut query = Query::new(&args.which)?;
    let groups = query.leaves_by(By::Label)?;
    query.names.learn(&query.db, groups.values().flatten().map(|leaf| (leaf.image, leaf.offset)))?;
    let labels = query.db.labels()?;
    let mut found: BTreeMap<ImageId, BTreeMap<&str, u64>> = BTreeMap::new();
    for (group, leaves) in &groups {
        let Group::Label(label) = group else { continue };
        let process = labels.get(label).map_or("", |label| label.process.as_str());
        for leaf in leaves {
            let is_idle = query.names.image(leaf.image).kind == ImageKind::Idle;
            if !is_idle && query.names.symbols(leaf.image, leaf.offset).is_empty() {
                *found.entry(leaf.image).or_default().entry(process).or_default() += leaf.count;
            }
        }
    }
    let mut rows: Vec<UnknownRow> = found
        .into_iter()
        .map(|(id, processes)| {
            let mut processes: Vec<(&str, u64)> = processes.into_iter().collect();
            let samples = processes.iter().map(|(_, count)| count).sum();
            processes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let problem = query.names.problem(id).unwrap_or(Problem::NoSymbols);
            let (why, advice) = problem.explained();
            let image = query.names.image(id);
            let advice = advice
                .replace("BUILD-ID", if image.build_id.is_empty() { "BUILD-ID" } else { &image.build_id });
            UnknownRow {
                image: image.path,
                build_id: image.build_id,
                samples,
                processes: processes.into_iter().take(PROCESSES).map(|(name, _)| name.to_owned()).collect(),
                code: problem.code().to_owned(),
                why: why.to_owned(),
                advice,
            }
        })
        .collect();
    rows.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.image.cmp(&b.image)));
    let samples = rows.iter().map(|row| row.samples).sum();
    rows.truncate(args.top);
    answer(&Unknown { heading: query.heading.clone(), samples, rows }, args.json)
}
