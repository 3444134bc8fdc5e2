//! Functions to count as a unit of work, where none is marked: those of the program that are on many stacks. `whatif points` counts them, and
//! says which of them are visited again and again; what was only sampled cannot tell.

use super::Piece;
use super::words::per_cent;
use crate::model::{Function, RegionKind, SessionStart};
use crate::printable;
use crate::ranking::Profile;
use crate::stacks::CallTree;

/// So many are offered.
const OFFERED: usize = 3;
/// What fewer samples than this share were taken in or below is no unit of the work.
const LEAST_SHARE: f64 = 0.05;
/// What more samples than this share were taken in or below is called once, as a rule, and has the units of work below it.
const WHOLE: f64 = 0.95;

/// A function, as `-p` takes it, and why it may do.
pub(super) struct Place {
    pub name: String,
    pub why: String,
}

/// Those on most stacks first, but for those on nearly all of them; in recordings without stacks, those with most samples of their own.
pub(super) fn places(profile: &Profile, start: &SessionStart, pieces: &[Piece]) -> Vec<Place> {
    let tree = CallTree::new(&profile.rows);
    let all = tree.all.count as f64;
    let mut found: Vec<(&str, &str, f64)> = tree
        .functions
        .iter()
        // A Rust program's own `main` is run once, as C's is.
        .filter(|of| !of.function.is_runtime() && !of.function.name.ends_with("::main"))
        .map(|of| (of.function.name.as_str(), of.function.image.path.as_str(), of.total.count as f64 / all))
        .collect();
    let is_below = !found.is_empty();
    if !is_below {
        found.extend(pieces.iter().filter_map(|piece| {
            let region = profile.rows.regions.get(&piece.region)?;
            let is_whole = region.kind == RegionKind::Function && !region.inclusive;
            let function =
                Function { name: region.name.clone(), file: region.file.clone(), ..Function::default() };
            let is_own = is_whole && !function.is_runtime();
            is_own.then_some((region.name.as_str(), region.image.path.as_str(), piece.share?))
        }));
    }
    // The program is called as it was typed, the file by its path.
    let is_own = |image: &str| image.rsplit('/').next() == Some(start.program_name());
    found.retain(|(name, image, share)| is_own(image) && is_place(name) && *share >= LEAST_SHARE);
    let is_whole = |share: f64| share >= WHOLE;
    found.sort_by(|one, other| {
        let by_share = other.2.total_cmp(&one.2).then_with(|| one.0.cmp(other.0));
        is_whole(one.2).cmp(&is_whole(other.2)).then(by_share)
    });
    let below = if is_below { "in it or below" } else { "in it" };
    let place = |(name, _, share): (&str, &str, f64)| Place {
        name: format!("fn:{name}"),
        why: format!(
            "count each call of `{}`, if that is a unit of work: {} of the CPU time is {below}",
            printable(name),
            per_cent(share, 0)
        ),
    };
    found.into_iter().take(OFFERED).map(place).collect()
}

/// Whether `-p` takes the name of this function for one.
fn is_place(name: &str) -> bool {
    !name.is_empty() && !name.replace("::", "").contains([':', '/', '@', '+', '*'])
}
