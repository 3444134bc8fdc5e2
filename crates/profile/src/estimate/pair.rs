//! Pairs: the windows of one region, each treated window with its baseline.

use std::collections::{BTreeMap, BTreeSet};

use super::outlier::{self, ENOUGH_TO_COMPARE};
use super::reading::Reading;
use super::{About, LeftOutReason, LeftOutWindows, Target};
use crate::model::{RegionId, SessionId, Window};
use crate::units::Speedup;

/// All experiments on one region.
#[derive(Debug)]
pub(crate) struct Experiments<'a> {
    pub(crate) region: RegionId,
    blocks: Vec<Block<'a>>,
}

/// The session of a block, and its number there.
pub(crate) type BlockKey = (SessionId, i64);

/// One experiment: a baseline, and what was tried with it.
///
/// A block in which several speedups were tried becomes several of these; only the first counts its
/// baseline into the region's level.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) baseline: Vec<&'a Window>,
    pub(super) treated: Option<(Speedup, Vec<&'a Window>)>,
    /// Whether its baseline counts.
    pub(super) first: bool,
}

impl Block<'_> {
    pub(super) fn key(&self) -> BlockKey {
        // There is no block without a baseline window.
        (self.baseline[0].session, self.baseline[0].block)
    }

    fn part(&self, about: About<'_>) -> Part {
        let baseline = self.baseline[0];
        let segment = about.segment(baseline.session, baseline.start);
        Part { runs: about.era_of_run(baseline.session), segment }
    }
}

/// A part of a recording in which the program's speed did not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// The stretch of runs.
    pub(super) runs: usize,
    /// The segment of each run.
    pub(super) segment: usize,
}

/// Sorts windows into experiments, by region; and counts those that cannot be used.
pub(crate) fn experiments(windows: &[Window]) -> (Vec<Experiments<'_>>, LeftOutWindows) {
    type Key = (RegionId, SessionId, i64);
    let mut left_out = LeftOutWindows::default();
    let mut by_block: BTreeMap<Key, BTreeMap<Speedup, Vec<&Window>>> = BTreeMap::new();
    // Regions all of whose windows are left out must still be listed.
    let mut by_region: BTreeMap<RegionId, Vec<Block<'_>>> = BTreeMap::new();
    for window in windows {
        by_region.entry(window.region).or_default();
        if let Some(reason) = LeftOutReason::of(window) {
            left_out.count(reason);
        } else {
            let key = (window.region, window.session, window.block);
            by_block.entry(key).or_default().entry(window.speedup).or_default().push(window);
        }
    }
    for ((region, ..), mut block) in by_block {
        let blocks = by_region.entry(region).or_default();
        let Some(baseline) = block.remove(&Speedup::ZERO) else {
            block.values().flatten().for_each(|_| left_out.count(LeftOutReason::Unpaired));
            continue;
        };
        if block.is_empty() {
            blocks.push(Block { baseline, treated: None, first: true });
            continue;
        }
        for (nth, treated) in block.into_iter().enumerate() {
            blocks.push(Block { baseline: baseline.clone(), treated: Some(treated), first: nth == 0 });
        }
    }
    let experiments = by_region.into_iter().map(|(region, blocks)| Experiments { region, blocks });
    (experiments.collect(), left_out)
}

impl<'a> Experiments<'a> {
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block<'a>> {
        self.blocks.iter()
    }

    /// Whether there is anything to compare with.
    pub(crate) fn has_baseline(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// The speedups that were tried, ascending, with the baseline as the first.
    pub(crate) fn speedups(&self) -> Vec<Speedup> {
        let tried = self.blocks.iter().filter_map(|b| Some(b.treated.as_ref()?.0));
        let mut speedups: Vec<_> = tried.chain([Speedup::ZERO]).collect();
        speedups.sort_unstable();
        speedups.dedup();
        speedups
    }

    /// How many windows there are at `speedup`.
    pub(crate) fn windows_at(&self, speedup: Speedup) -> usize {
        let count = |block: &Block<'_>| match &block.treated {
            _ if speedup.is_zero() => usize::from(block.first) * block.baseline.len(),
            Some((tried, windows)) if *tried == speedup => windows.len(),
            _ => 0,
        };
        self.blocks.iter().map(count).sum()
    }

    /// How many windows there are.
    pub(crate) fn windows(&self) -> usize {
        self.all().count()
    }

    /// The runs with a baseline, ascending.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<_> = self.baselines().map(|window| window.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// Baseline windows.
    pub(super) fn baselines(&self) -> impl Iterator<Item = &Window> {
        self.blocks.iter().filter(|b| b.first).flat_map(|b| b.baseline.iter().copied())
    }

    /// The windows with a speedup.
    pub(super) fn treated(&self) -> impl Iterator<Item = &Window> {
        self.blocks.iter().filter_map(|b| Some(&b.treated.as_ref()?.1)).flatten().copied()
    }

    fn all(&self) -> impl Iterator<Item = &Window> {
        self.baselines().chain(self.treated())
    }

    /// What the windows say about a target.
    pub(crate) fn pairs(&self, about: About<'_>) -> Pairs {
        let target = about.target;
        let long_enough = |block: &&Block<'_>| !block.baseline.iter().any(|window| about.is_short(window));
        let pair = |block: &Block<'_>| Pair {
            block: block.key(),
            part: block.part(about),
            baseline: Side::new(target, &block.baseline),
            treated: block.treated.as_ref().and_then(|(speedup, windows)| {
                let straddles = windows.iter().any(|window| about.straddles(window, block.baseline[0]));
                (!straddles).then(|| (*speedup, Side::new(target, windows)))
            }),
            first: block.first,
        };
        let pairs: Vec<Pair> = self.blocks.iter().filter(long_enough).map(pair).collect();
        let visited = |window: &&Window| window.visits(target.counted()) > 0;
        let all = || self.all().filter(|window| !about.is_short(window));
        // Windows that are whole runs do not know what was in flight.
        let idle = all().filter(visited).count() * 2 < all().count()
            || (!pairs.is_empty() && pairs.iter().all(|pair| pair.baseline.amount == 0.0));
        let mut parts = parts(pairs);
        let apart = parts.len() > 1;
        // What is normal in one part need not be in another; but a few pairs cannot say what is normal.
        let small: Vec<Pair> =
            parts.extract_if(.., |part| part.len() < ENOUGH_TO_COMPARE).flatten().collect();
        parts.push(small);
        let disturbed = parts.iter_mut().flat_map(outlier::remove).collect();
        Pairs { pairs: parts.concat(), disturbed, apart, idle }
    }
}

/// The pairs of each part of the recording, in the order of time: a run whose speed changed is several parts, and so are runs
/// before and after a change from run to run; all others are one.
fn parts(pairs: Vec<Pair>) -> Vec<Vec<Pair>> {
    let changed: BTreeSet<SessionId> =
        pairs.iter().filter(|pair| pair.part.segment > 0).map(|pair| pair.block.0).collect();
    let mut parts: BTreeMap<(usize, Option<SessionId>, usize), Vec<Pair>> = BTreeMap::new();
    for pair in pairs {
        let alone = Some(pair.block.0).filter(|session| changed.contains(session));
        parts.entry((pair.part.runs, alone, pair.part.segment)).or_default().push(pair);
    }
    parts.into_values().collect()
}

/// What the experiments on one region say about one target.
#[derive(Debug)]
pub(crate) struct Pairs {
    /// The pairs that count.
    pub(super) pairs: Vec<Pair>,
    /// The pairs that something disturbed.
    pub(super) disturbed: Vec<Pair>,
    /// Whether the baselines had different levels because the program's speed changed, so that no window may
    /// be compared with all of them.
    pub(super) apart: bool,
    idle: bool,
}

impl Pairs {
    /// Whether the point was not visited in most windows.
    pub(super) fn idle(&self) -> bool {
        self.idle
    }

    /// The pairs of each part of the recording, with its first run and the segment of it, in the order of time.
    pub(super) fn parts(&self) -> Vec<((SessionId, usize), Pairs)> {
        let of_part = |pairs: Vec<Pair>| {
            let first = (pairs[0].block.0, pairs[0].part.segment);
            (first, Pairs { pairs, disturbed: Vec::new(), apart: false, idle: false })
        };
        parts(self.pairs.clone()).into_iter().map(of_part).collect()
    }

    /// How many pairs are complete.
    pub(super) fn blocks(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.treated.is_some()).count()
    }

    /// ρ: visits per amount over all baselines; not a number where there are none.
    pub(super) fn level(&self) -> f64 {
        let firsts = self.pairs.iter().filter(|pair| pair.first).map(|pair| pair.baseline);
        let (visits, amount) = firsts.fold((0.0, 0.0), |(v, e), side| (v + side.visits, e + side.amount));
        visits / amount
    }

    /// The delay per visit, in periods of the baseline at this level, that a speedup of 100 % takes.
    pub(super) fn delay(&self, level: f64) -> f64 {
        // By speedup: sums of floating-point numbers depend on the order.
        let mut complete: Vec<_> = self.pairs.iter().filter_map(|pair| pair.treated).collect();
        complete.sort_by_key(|(speedup, _)| *speedup);
        let (delayed, visits) = complete.iter().fold((0.0, 0.0), |(delayed, visits), (speedup, side)| {
            (delayed + side.delayed, visits + speedup.fraction() * side.visits)
        });
        (level * delayed / visits).max(0.0)
    }

    /// Whether the window at `speedup` in a block, or its baseline, was disturbed.
    pub(crate) fn is_disturbed(&self, block: BlockKey, speedup: Speedup) -> bool {
        let same = |pair: &Pair| pair.block == block && pair.treated.is_some_and(|(at, _)| at == speedup);
        self.disturbed.iter().any(same)
    }

    /// Whether the baseline of a block counts for nothing, because all that was tried with it was disturbed.
    pub(crate) fn is_all_disturbed(&self, block: BlockKey) -> bool {
        let of_block = |pair: &Pair| pair.block == block;
        self.disturbed.iter().any(of_block) && !self.pairs.iter().any(of_block)
    }
}

/// One baseline and what was tried with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) block: BlockKey,
    pub(super) part: Part,
    pub(super) baseline: Side,
    pub(super) treated: Option<(Speedup, Side)>,
    /// Whether its baseline counts into the region's level, and not for another pair of the block.
    pub(super) first: bool,
}

/// One side of a pair: an amount and the visits that it was spent on; see [`Reading`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    pub(super) amount: f64,
    pub(super) visits: f64,
    /// What was inserted, in the unit of the amount.
    pub(super) delayed: f64,
}

impl Side {
    fn new(target: Target, windows: &[&Window]) -> Side {
        let sum: Reading = windows.iter().map(|window| Reading::new(target, window)).sum();
        Side { amount: sum.amount, visits: sum.visits as f64, delayed: sum.delayed }
    }

    pub(super) fn plus(self, other: &Side) -> Side {
        Side {
            amount: self.amount + other.amount,
            visits: self.visits + other.visits,
            delayed: self.delayed + other.delayed,
        }
    }
}
