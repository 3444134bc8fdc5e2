//! Samples that have no names: which images they are of, why, and how to fix it; as a warning above an answer.

use super::heading::MUCH;
use super::names::{Names, Problem};
use crate::Note;
use archive::{ImageId, ImageKind, Parts, Position, Tree};
use std::collections::BTreeMap;

/// Images that are named.
const IMAGES: usize = 3;

/// The warning, if it is worth one. Samples of no known image are reported by the books.
pub fn note(names: &Names, positions: &[Position], samples: &[u64]) -> Option<Note> {
    let mut all = 0;
    let mut of: BTreeMap<ImageId, u64> = BTreeMap::new();
    for (&(image, offset), &count) in positions.iter().zip(samples).filter(|(_, count)| **count > 0) {
        all += count;
        let kind = names.images().get(&image).map_or(ImageKind::Unknown, |image| image.kind);
        let is_told = matches!(kind, ImageKind::Idle | ImageKind::Unknown) || names.is_mark(image);
        if !is_told && names.symbols(image, offset).is_empty() {
            *of.entry(image).or_default() += count;
        }
    }
    let nameless: u64 = of.values().sum();
    if nameless as f64 <= MUCH * all as f64 {
        return None;
    }
    let mut of: Vec<(ImageId, u64)> = of.into_iter().collect();
    of.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let problem = |image: ImageId| names.problem(image).unwrap_or(Problem::NoSymbols);
    let mut told: Vec<String> = of
        .iter()
        .take(IMAGES)
        .map(|(id, _)| format!("{} ({})", names.image(*id).path, problem(*id).brief()))
        .collect();
    if of.len() > IMAGES {
        told.push(format!("{} more", of.len() - IMAGES));
    }
    let message = format!(
        "{:.1} % of the samples have no names, those of {}",
        100.0 * nameless as f64 / all as f64,
        told.join(", ")
    );
    let (most, _) = of[0];
    let advice =
        format!("{}; all of them: whatif db unknown", problem(most).advice(&names.image(most).build_id));
    Some(Note { code: "nameless".to_owned(), message, advice })
}

/// The samples at each position of a tree.
pub fn of_tree(tree: &Tree) -> Vec<u64> {
    sums(tree.positions.len(), tree.places.iter().copied().zip(tree.counts.iter().copied()))
}

/// The samples at each position of all parts.
pub fn of_parts(parts: &Parts) -> Vec<u64> {
    sums(parts.positions.len(), parts.groups.values().flatten().copied())
}

fn sums(positions: usize, samples: impl Iterator<Item = (u32, u64)>) -> Vec<u64> {
    let mut sums = vec![0; positions];
    samples.for_each(|(at, count)| sums[at as usize] += count);
    sums
}
