//! Stacks whose outermost frames are missing, as the collector has marked them: a warning above an answer.

use super::names::Names;
use crate::Note;
use archive::{CUT_DEEP, CUT_SHORT, CUT_UNKNOWN, NOT_ENDED, TOO_MANY_STACKS, Tree};

/// A larger share of the samples is worth a warning: programs that have just been started have some, while their unwind tables are
/// being read.
const MUCH: f64 = 0.05;

/// The warning, if it is worth one.
pub fn note(names: &Names, tree: &Tree) -> Option<Note> {
    let kinds = [
        (CUT_UNKNOWN, "have code without an unwind table at hand"),
        (CUT_SHORT, "are larger than what is copied of them"),
        (CUT_DEEP, "are deeper than what is followed"),
        (TOO_MANY_STACKS, "are rare, and kept without some of their callers"),
        (NOT_ENDED, "are of waits that have not ended, whose place is not known yet"),
    ];
    let kind_at = |image: &archive::ImageId| {
        let path = &names.images().get(image)?.path;
        kinds.iter().position(|(mark, _)| mark == path)
    };
    let kind_at: Vec<Option<usize>> = tree.positions.iter().map(|(image, _)| kind_at(image)).collect();
    // Callers come before those that they call.
    let mut kind_of: Vec<Option<usize>> = Vec::with_capacity(tree.len());
    let mut samples = [0_u64; 5];
    for frame in 0..tree.len() {
        // The frames that say how a thread waits are outside of it.
        let kind = tree
            .parent(frame)
            .and_then(|parent| kind_of[parent])
            .or_else(|| kind_at[tree.places[frame] as usize]);
        kind_of.push(kind);
        if let Some(kind) = kind {
            samples[kind] += tree.counts[frame];
        }
    }
    let all: u64 = tree.counts.iter().sum();
    let truncated: u64 = samples.iter().sum();
    if truncated as f64 <= MUCH * all as f64 {
        return None;
    }
    let part = |count: u64| format!("{:.1} %", 100.0 * count as f64 / all as f64);
    let told = kinds.iter().zip(samples).filter(|(_, count)| *count > 0);
    let told: Vec<String> = told.map(|((_, words), count)| format!("{} {words}", part(count))).collect();
    Some(Note {
        code: "truncated".to_owned(),
        message: format!(
            "{} of the stacks are truncated ({}), so the totals of callers are too low",
            part(truncated),
            told.join(", ")
        ),
        advice: "which programs: whatif flame; docs/collector.md says what each kind means, and where it is to be expected".to_owned(),
    })
}
