//! `whatif db unknown`: samples without names, why they have none, and how to fix it.

use super::arguments;
use super::names::Problem;
use super::query::Query;
use crate::{Unknown, UnknownRow};
use anyhow::Result;
use archive::{By, Group, ImageId, ImageKind, Position};
use std::collections::BTreeMap;

/// Processes that are named for each image.
const PROCESSES: usize = 3;

/// `whatif db unknown`.
pub fn unknown(args: &arguments::Unknown) -> Result<Unknown> {
    let mut query = Query::new(&args.which)?;
    let parts = query.parts(By::Label)?;
    query.names.learn(&query.db, parts.positions.iter().copied())?;
    let is_nameless = |&(image, offset): &Position| {
        query.names.image(image).kind != ImageKind::Idle
            && !query.names.is_mark(image)
            && query.names.symbols(image, offset).is_empty()
    };
    let nameless: Vec<bool> = parts.positions.iter().map(is_nameless).collect();
    let labels = query.db.labels()?;
    let mut found: BTreeMap<ImageId, BTreeMap<&str, u64>> = BTreeMap::new();
    for (group, leaves) in &parts.groups {
        let Group::Label(label) = group else { continue };
        let process = labels.get(label).map_or("", |label| label.process.as_str());
        for (at, count) in leaves.iter().filter(|(at, _)| nameless[*at as usize]) {
            let (image, _) = parts.positions[*at as usize];
            *found.entry(image).or_default().entry(process).or_default() += count;
        }
    }
    let mut rows: Vec<UnknownRow> = found
        .into_iter()
        .map(|(id, processes)| {
            let mut processes: Vec<(&str, u64)> = processes.into_iter().collect();
            let samples = processes.iter().map(|(_, count)| count).sum();
            processes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let problem = query.names.problem(id).unwrap_or(Problem::NoSymbols);
            let (why, _) = problem.explained();
            let image = query.names.image(id);
            let advice = problem.advice(&image.build_id);
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
    Ok(Unknown { heading: query.heading.clone(), samples, rows })
}
