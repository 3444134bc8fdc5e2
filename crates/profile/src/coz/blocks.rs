//! Blocks: which experiment is compared with which.
//!
//! Coz has no pairs. Now and then the speedup it draws for a line is zero, and that is the only time at which
//! the program's own speed is known, while that line runs. So each experiment goes with the experiment at speedup
//! zero **of the same line, in the same run, that is nearest in the order of experiments**; of two as near, with
//! the earlier. (Experiments take the same time, pauses included, so that order is time.) A baseline and all that is nearest to it
//! is one block: what shares a baseline is no independent evidence, and the estimators draw it together. Nothing is
//! compared with a baseline of another run, where the machine and the input may have been others; if a line has none in
//! a run, its experiments there are listed, counted as unpaired and used for nothing.

use std::collections::BTreeMap;

use super::run::Experiment;

/// Where an experiment belongs: the number of its block, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InBlock {
    pub(super) block: i64,
    pub(super) index: u32,
}

/// Whether an experiment tells how fast the program is by itself.
pub(super) fn is_baseline(experiment: &Experiment) -> bool {
    experiment.per_mille == 0 && experiment.effective_ns > 0 && !experiment.cut
}

/// Where the experiments of one run belong, in their order. A block has the number of its baseline among all
/// experiments, or of its only experiment where there is no baseline.
pub(super) fn in_blocks(experiments: &[Experiment]) -> Vec<InBlock> {
    let mut baselines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (nth, experiment) in experiments.iter().enumerate().filter(|(_, other)| is_baseline(other)) {
        baselines.entry(&experiment.selected).or_default().push(nth);
    }
    let mut members: BTreeMap<usize, u32> = BTreeMap::new();
    let in_block = |(nth, experiment): (usize, &Experiment)| {
        let of_line = baselines.get(experiment.selected.as_str()).map_or(&[][..], Vec::as_slice);
        // A baseline that counts is that of its own block; one that does not is the baseline of none.
        let alone = experiment.per_mille == 0;
        let block = if alone { nth } else { nearest(of_line, nth).unwrap_or(nth) };
        let index = members.entry(block).or_default();
        *index += 1;
        InBlock { block: block as i64, index: *index - 1 }
    };
    experiments.iter().enumerate().map(in_block).collect()
}

/// The one of `indices`, which ascend, that is nearest to `nth`; the earlier of two.
pub(super) fn nearest(indices: &[usize], nth: usize) -> Option<usize> {
    let after = indices.partition_point(|index| *index < nth);
    let around = [after.checked_sub(1), Some(after)];
    let around = around.into_iter().flatten().filter_map(|at| indices.get(at).copied());
    around.min_by_key(|index| index.abs_diff(nth))
}

#[cfg(test)]
mod tests {
    use super::super::record::lines;
    use super::super::run::runs;
    use super::*;

    /// Lines `a` and `b`, each with a speedup in per cent.
    fn blocks(experiments: &[(&str, u32)]) -> Vec<(i64, u32)> {
        let mut text = String::from("startup\ttime=1\n");
        for (line, percent) in experiments {
            let speedup = f64::from(*percent) / 100.0;
            text +=
                &format!("experiment\tselected={line}\tspeedup={speedup}\tduration=9\tselected-samples=1\n");
            text += "throughput-point\tname=p\tdelta=1\n";
        }
        let (runs, _) = runs(lines(text.as_bytes()));
        in_blocks(&runs[0].experiments).into_iter().map(|at| (at.block, at.index)).collect()
    }

    #[test]
    fn each_goes_with_the_nearest_baseline_of_its_line() {
        let placed =
            blocks(&[("a", 50), ("b", 0), ("a", 0), ("a", 10), ("b", 20), ("a", 90), ("a", 0), ("b", 0)]);
        assert_eq!(placed, [(2, 0), (1, 0), (2, 1), (2, 2), (1, 1), (6, 0), (6, 1), (7, 0)]);
    }

    #[test]
    fn of_two_as_near_the_earlier_and_without_any_none() {
        assert_eq!(blocks(&[("a", 0), ("a", 50), ("a", 0)]), [(0, 0), (0, 1), (2, 0)]);
        assert_eq!(blocks(&[("a", 10), ("b", 0), ("a", 20)]), [(0, 0), (1, 0), (2, 0)]);
    }
}
